// Sound in the page: a sampler over notes that the server rendered once, played on the audio clock.

const AHEAD = 0.25; // seconds scheduled in advance
const TICK = 50; // milliseconds between two looks ahead
const MARGIN = 1.0; // after running dry, this much must be composed before playing on
const VOICES = 96;
const PATIENCE = 1200; // milliseconds to wait for the rendered notes before plain tones do

export class Player extends EventTarget {
  /** `api` fetches /sounds and /sounds.wav. Events: state (playing or not), end. */
  constructor(api) {
    super();
    this.api = api;
    this.playing = false;
    this.starved = false;
    this.position_ = 0;
    this.volume_ = 0.8;
    this.loop = null; // [a, b] in seconds
    this.notes = null;
    this.live = null;
    this.frontier = Infinity; // seconds up to which there is music already
    this.voices = new Set();
    this.note = '';
  }

  /** Fetch and decode the notes of the sampler; no click is needed for that. */
  prepare() {
    this.ready ||= this.load_(new OfflineAudioContext(1, 1, 48000));
    return this.ready;
  }

  /** Must be called from a click or a key once: browsers give sound only then. */
  async wake() {
    if (!this.context) {
      this.context = new AudioContext({ latencyHint: 'interactive' });
      this.master = this.context.createGain();
      this.volume = this.volume_;
      const limiter = this.context.createDynamicsCompressor();
      limiter.threshold.value = -8;
      this.analyser = this.context.createAnalyser();
      this.master.connect(limiter).connect(this.analyser).connect(this.context.destination);
    }
    if (this.context.state === 'suspended') await this.context.resume();
    await Promise.race([this.prepare(), new Promise((done) => setTimeout(done, PATIENCE))]);
    this.bank ||= plainTones(this.context); // until the real ones are there
  }

  async load_(context) {
    try {
      const manifest = await this.api.json('/sounds');
      const data = await (await this.api.fetch('/sounds.wav')).arrayBuffer();
      const whole = await context.decodeAudioData(data);
      const scale = whole.sampleRate / manifest.rate;
      this.bank = manifest.notes.map(({ pitch, offset, length }) => {
        const from = Math.round(offset * scale), size = Math.round(length * scale);
        const buffer = new AudioBuffer({ length: size, sampleRate: whole.sampleRate, numberOfChannels: 1 });
        buffer.copyToChannel(whole.getChannelData(0).subarray(from, from + size), 0);
        return { pitch, buffer };
      });
    } catch (error) {
      this.bank = plainTones(context);
      this.note = `Plain tones: ${error.message}`;
    }
  }

  /** What to play: whole columns, and a take that is still being composed (or null). Playing goes on where it is. */
  give(notes, live = null, frontier = Infinity) {
    this.notes = notes;
    this.live = live;
    this.frontier = frontier;
    for (const voice of this.voices) if (voice.note && !this.closed_(voice.note)) this.adopt_(voice);
    this.aim_(this.done_ ?? this.position_);
  }

  closed_(note) {
    return note.end !== null;
  }

  /** A voice whose note was still held when the take was saved: find its end in the saved columns. */
  adopt_(voice) {
    for (let i = this.notes.from(voice.note.start - 0.02); i < this.notes.count && this.notes.start[i] < voice.note.start + 0.02; i++) {
      if (this.notes.pitch[i] === voice.note.pitch) voice.note.end = this.notes.ring[i];
    }
    if (!this.closed_(voice.note)) voice.note.end = this.position;
  }

  get length() {
    return Math.max(this.notes ? this.notes.length : 0, this.live ? this.live.reached : 0);
  }

  get position() {
    if (!this.playing || this.starved) return this.position_;
    const now = Math.max(this.position_, this.position_ + this.context.currentTime - this.anchor);
    return Math.max(this.position_, Math.min(now, this.frontier)); // a busy browser looks late; music never runs ahead
  }

  async play(from = this.position_) {
    await this.wake();
    this.hush();
    this.position_ = from;
    this.anchor = this.context.currentTime + 0.06;
    this.playing = true;
    this.starved = false;
    this.aim_(from);
    clearInterval(this.timer);
    this.timer = setInterval(() => this.tick_(), TICK);
    this.tick_();
    this.dispatchEvent(new Event('state'));
  }

  pause() {
    this.position_ = this.position;
    this.playing = this.starved = false;
    clearInterval(this.timer);
    this.hush();
    this.dispatchEvent(new Event('state'));
  }

  seek(seconds) {
    if (this.playing) this.play(seconds);
    else this.position_ = seconds;
  }

  set volume(value) {
    this.volume_ = value;
    if (this.master) this.master.gain.setTargetAtTime(value * value * 1.4, this.context.currentTime, 0.02);
  }

  /** Loudness right now, 0 to 1: what a meter or a test reads. */
  level() {
    if (!this.analyser) return 0;
    const samples = new Float32Array(this.analyser.fftSize);
    this.analyser.getFloatTimeDomainData(samples);
    return Math.max(...samples.map(Math.abs));
  }

  /** One note at once, to hear what it is. */
  async ping(pitch, velocity = 80) {
    await this.wake();
    const end = this.position + 0.6;
    if (!this.playing) this.anchor = this.context.currentTime;
    this.strike_(pitch, velocity, this.position_, { end });
    const voice = [...this.voices].at(-1);
    if (voice) this.fade_(voice, this.context.currentTime + 0.6);
  }

  aim_(time) {
    this.done_ = time; // everything before this is scheduled
    this.next = this.notes ? this.notes.from(time - 1e-4) : 0;
    this.nextLive = this.live ? this.live.notes.findIndex((n) => n.start >= time - 1e-4) : 0;
    if (this.nextLive < 0) this.nextLive = this.live.notes.length;
  }

  tick_() {
    if (this.starved) {
      const enough = Math.min(this.frontier, Infinity) - this.position_ >= MARGIN || this.frontier === Infinity;
      if (!enough) return;
      this.anchor = this.context.currentTime + 0.02;
      this.starved = false;
    }
    const now = this.position;
    if (now + 0.1 > this.frontier) {
      this.position_ = now;
      this.starved = true;
      return;
    }
    if (this.loop && now >= this.loop[1]) return void this.play(this.loop[0]);
    if (now >= this.length + 0.3 && this.frontier === Infinity) {
      this.pause();
      this.dispatchEvent(new Event('end'));
      return;
    }
    this.schedule_(Math.min(now + AHEAD, this.frontier, this.loop ? this.loop[1] : Infinity));
    this.release_();
  }

  schedule_(until) {
    const notes = this.notes;
    for (; notes && this.next < notes.count && notes.start[this.next] < until; this.next++) {
      const i = this.next;
      this.strike_(notes.pitch[i], notes.velocity[i], notes.start[i], { end: notes.ring[i] });
    }
    const live = this.live ? this.live.notes : [];
    for (; this.nextLive < live.length && live[this.nextLive].start < until; this.nextLive++) {
      const note = live[this.nextLive];
      this.strike_(note.pitch, note.velocity, note.start, note);
    }
    this.done_ = Math.max(this.done_, until);
  }

  when_(time) {
    return Math.max(this.context.currentTime, this.anchor + time - this.position_);
  }

  strike_(pitch, velocity, start, note) {
    if (!this.bank) return;
    const nearest = this.bank.reduce((best, b) => (Math.abs(b.pitch - pitch) < Math.abs(best.pitch - pitch) ? b : best));
    const source = this.context.createBufferSource();
    source.buffer = nearest.buffer;
    source.playbackRate.value = 2 ** ((pitch - nearest.pitch) / 12);
    const tone = this.context.createBiquadFilter(); // softer is darker, as on a real piano
    tone.type = 'lowpass';
    tone.frequency.value = Math.min(16000, 500 * 2 ** (5.2 * (velocity / 127)) + 4 * 440 * 2 ** ((pitch - 69) / 12));
    const gain = this.context.createGain();
    gain.gain.value = 0.75 * (velocity / 127) ** 1.5;
    source.connect(tone).connect(gain).connect(this.master);
    source.start(this.when_(start));
    const voice = { source, gain, note, ends: null };
    source.onended = () => this.voices.delete(voice);
    this.voices.add(voice);
    if (this.voices.size > VOICES) this.fade_(this.voices.values().next().value, this.context.currentTime);
  }

  /** Let go of what ends soon; a note whose end is not composed yet rings on. */
  release_() {
    const soon = this.position + AHEAD;
    for (const voice of this.voices) {
      if (voice.ends === null && voice.note.end !== null && voice.note.end <= soon) this.fade_(voice, this.when_(voice.note.end));
    }
  }

  fade_(voice, when) {
    voice.ends = when;
    voice.gain.gain.setTargetAtTime(0, when, 0.09);
    voice.source.stop(when + 0.8);
  }

  hush() {
    for (const voice of this.voices) {
      voice.gain.gain.cancelScheduledValues(0);
      voice.gain.gain.setTargetAtTime(0, this.context.currentTime, 0.03);
      voice.source.stop(this.context.currentTime + 0.2);
    }
    this.voices.clear();
  }
}

/** Decaying tones for machines on which the server can render no sound. */
function plainTones(context) {
  const bank = [];
  for (let pitch = 24; pitch <= 108; pitch += 12) {
    const rate = 24000, size = 3 * rate;
    const buffer = context.createBuffer(1, size, rate);
    const data = buffer.getChannelData(0);
    const f = 440 * 2 ** ((pitch - 69) / 12);
    for (let i = 0; i < size; i++) {
      const t = i / rate;
      let sum = 0;
      for (let k = 1; k <= 6 && k * f < 10000; k++) sum += (Math.sin(2 * Math.PI * k * f * t) * Math.exp(-t * (1 + 0.9 * k))) / k ** 1.4;
      data[i] = 0.4 * sum * Math.min(1, t * 400);
    }
    bank.push({ pitch, buffer });
  }
  return bank;
}
