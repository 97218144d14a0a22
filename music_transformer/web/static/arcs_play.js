// Arcs, the sound: plays a window's notes through a small synthesizer; the audio clock says where the music is.

const AHEAD = 1.5; // seconds of music handed to the synthesizer at a time

export class Player {
  constructor(notes, { onMove, onEnd }) {
    this.notes = [...notes].sort((a, b) => a[1] - b[1]);
    this.onMove = onMove;
    this.onEnd = onEnd;
    this.playing = false;
  }

  get now() {
    return this.from + Math.max(0, this.audio.currentTime - this.zero);
  }

  async start(from) {
    this.audio ||= new AudioContext();
    await this.audio.resume();
    this.out = this.audio.createGain();
    this.out.gain.value = 0.5;
    const soft = this.audio.createBiquadFilter();
    soft.type = "lowpass";
    soft.frequency.value = 2600;
    this.out.connect(soft).connect(this.audio.destination);
    this.from = from;
    this.zero = this.audio.currentTime + 0.06;
    this.next = this.notes.findIndex((n) => n[1] >= from - 1e-6);
    this.end = Math.max(from, ...this.notes.map((n) => n[2]));
    this.playing = this.next >= 0;
    if (this.playing) this.tick();
  }

  tick() {
    if (!this.playing) return;
    while (this.next < this.notes.length && this.notes[this.next][1] < this.now + AHEAD) this.voice(this.notes[this.next++]);
    this.onMove(this.now);
    if (this.now > this.end + 0.3) this.stop();
    else this.frame = requestAnimationFrame(() => this.tick());
  }

  voice([pitch, start, end, velocity]) {
    const at = this.zero + start - this.from, hold = Math.min(end - start, 6), a = this.audio;
    const gain = a.createGain(), loud = 0.22 * (velocity / 127) ** 1.6;
    gain.gain.setValueAtTime(0, at);
    gain.gain.linearRampToValueAtTime(loud, at + 0.006);
    gain.gain.exponentialRampToValueAtTime(loud * 0.3, at + 0.35);
    gain.gain.exponentialRampToValueAtTime(loud * 0.08, at + 0.35 + hold);
    gain.gain.linearRampToValueAtTime(0, at + 0.45 + hold);
    [[1, 1], [2, 0.35], [3, 0.12]].forEach(([times, level]) => {
      const tone = a.createOscillator(), part = a.createGain();
      tone.type = times === 1 ? "triangle" : "sine";
      tone.frequency.value = times * 440 * 2 ** ((pitch - 69) / 12);
      part.gain.value = level;
      tone.connect(part).connect(gain);
      tone.start(at);
      tone.stop(at + 0.5 + hold);
    });
    gain.connect(this.out);
  }

  stop() {
    if (!this.playing) return;
    this.playing = false;
    cancelAnimationFrame(this.frame);
    this.out.disconnect();
    this.onEnd();
  }
}
