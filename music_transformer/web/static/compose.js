// The Compose tab: bring a piece, continue it, see and hear it while it is written, keep every take.

import { Api, clock, h, icon } from './dom.js';
import { Form } from './form.js';
import { LiveTake, Notes, unpack } from './notes.js';
import { Player } from './player.js';
import { Roll } from './roll.js';
import { Takes } from './takes.js';

const LEAD_IN = 3; // seconds of the piece heard before its continuation begins
const CHOSEN = 'mt-piece';

export async function mount(element) {
  const page = new Page(element);
  window.mt = page; // other tabs read window.mt.piece
  await page.open();
  element.dataset.ready = '1';
}

class Page {
  constructor(element) {
    this.api = new Api(element.dataset.base);
    this.player = new Player(this.api);
    this.root = element.querySelector('.mt') || element;
    this.piece = null;
    this.job = null;
  }

  async open() {
    this.config = await this.api.json('/config');
    this.form = new Form(this.config);
    this.build();
    this.wire();
    this.player.prepare();
    await this.takes.load();
    const last = this.takes.get(read(CHOSEN)) || this.takes.pieces.at(-1) || null;
    await this.choose(last);
    this.api.json('/about').then((about) => {
      this.foot.textContent = `${about.model}, ${(about.parameters / 1e6).toFixed(1)} million parameters · ${about.sound} · version ${about.version}`;
    }, (error) => this.say(error.message, true));
  }

  // ---- building

  build() {
    const button = (label, props, ...inner) => h('button.mt-button', { type: 'button', 'aria-label': label, title: label, ...props }, ...inner);
    this.title = h('h1.mt-title');
    this.report = h('details.mt-report', {}, (this.summary = h('summary')), (this.lines = h('ul')));
    this.file = h('input', { type: 'file', accept: '.mid,.midi,.rmi,audio/midi', hidden: true, id: 'mt-file', onchange: () => this.bring(this.file.files[0]) });
    this.samples = h('select.mt-select', { 'aria-label': 'Sample pieces', onchange: () => this.sample(this.samples.value) }, h('option', { value: '', text: 'Samples' }),
      ...Object.entries(this.config.samples).map(([value, text]) => h('option', { value, text })));
    const source = h('div.mt-source', {}, this.file, button('Open a MIDI file', { onclick: () => this.file.click() }, 'Open a MIDI file'), this.samples,
      (this.fresh = button('Start from nothing', { onclick: () => this.choose(null) }, 'Start from nothing')));

    this.rollHost = h('div.mt-roll', { role: 'application', 'aria-label': 'Piano roll', 'aria-describedby': 'mt-roll-help' });
    this.welcome = h('div.mt-welcome', {}, h('p', { text: 'Drop a MIDI file here, and hear it go on.' }), h('p.mt-soft', { text: 'Or press Compose, and a piece begins from nothing.' }));
    const help = h('p.mt-visually-hidden', { id: 'mt-roll-help', text: 'Space plays. Left and right move, with Shift further; N and P go from note to note. Plus, minus and 0 zoom. Left and right bracket mark a region. C continues from the playhead. Escape clears.' });

    this.playButton = button('Play', { id: 'mt-play' }, icon('play'));
    this.loopButton = button('Loop the marked region', { 'aria-pressed': 'false' }, icon('loop'));
    this.time = h('output.mt-time', { text: '0:00.0 / 0:00.0' });
    this.chips = h('div.mt-chips', { role: 'radiogroup', 'aria-label': 'Takes of this composition' });
    this.volume = h('input', { type: 'range', min: 0, max: 1, step: 0.01, value: 0.8, 'aria-label': 'Volume', oninput: (e) => (this.player.volume = Number(e.target.value)) });
    const zoom = (label, name, act) => button(label, { onclick: act }, icon(name));
    const transport = h('div.mt-transport', {},
      button('Back to the start', { onclick: () => this.seek(0) }, icon('start')), this.playButton, this.loopButton, this.time, this.chips,
      h('span.mt-space'),
      (this.rulerButton = h('button.mt-link', { type: 'button', text: 'bars', title: 'Ruler in bars or seconds', onclick: () => this.switchRuler() })),
      zoom('Zoom out', 'minus', () => this.roll.zoom(1 / 1.5)), zoom('Show all', 'fit', () => this.roll.fit()), zoom('Zoom in', 'plus', () => this.roll.zoom(1.5)),
      h('span.mt-volume', {}, icon('volume'), this.volume));

    this.go = h('button.mt-button.mt-go', { type: 'button', id: 'mt-go', onclick: () => this.compose() });
    this.place = h('button.mt-chip', { type: 'button', hidden: true, title: 'Continue from the end instead', onclick: () => this.roll.setPlace(null) });
    this.progress = h('div.mt-progress', { role: 'status', 'aria-live': 'polite' });
    this.bar = h('div.mt-bar', {}, h('i'));
    const more = h('details.mt-more', {}, h('summary', { text: 'Advanced' }), this.form.advancedNode);
    const compose = h('section.mt-card.mt-compose', { 'aria-label': 'Compose' }, h('div.mt-compose-row', {}, this.form.node, h('div.mt-go-box', {}, this.go, this.place)), this.bar, this.progress, more);

    this.notice = h('div.mt-notice', { role: 'alert', hidden: true });
    this.downloads = h('div.mt-downloads');
    const aside = h('aside.mt-aside.mt-card', { 'aria-label': 'Your takes' });
    this.takes = new Takes(this.api, aside);
    this.foot = h('p.mt-foot', { text: 'Waking the instrument' });
    this.main = h('div.mt-main', {}, h('header.mt-head', {}, h('div.mt-head-text', {}, this.title, this.report), source), this.notice,
      h('section.mt-card.mt-stage', {}, this.rollHost, transport), compose, this.downloads, help);
    this.root.replaceChildren(h('div.mt-layout', {}, this.main, aside), this.foot);
    this.roll = new Roll(this.rollHost);
    this.rollHost.append(this.welcome);
  }

  wire() {
    const { roll, player, takes } = this;
    roll.addEventListener('seek', ({ detail }) => this.seek(detail.seconds, detail));
    roll.addEventListener('place', ({ detail }) => this.showPlace(detail));
    roll.addEventListener('region', ({ detail }) => this.showRegion(detail));
    player.addEventListener('state', () => this.showPlaying());
    takes.addEventListener('choose', ({ detail }) => this.choose(detail));
    takes.addEventListener('error', ({ detail }) => this.say(detail, true));
    this.playButton.addEventListener('click', () => this.toggle());
    this.loopButton.addEventListener('click', () => this.setLoop(!player.loop));
    this.root.addEventListener('dragover', (e) => (e.preventDefault(), this.root.classList.add('mt-dropping')));
    this.root.addEventListener('dragleave', (e) => !this.root.contains(e.relatedTarget) && this.root.classList.remove('mt-dropping'));
    this.root.addEventListener('drop', (e) => {
      e.preventDefault();
      this.root.classList.remove('mt-dropping');
      this.bring(e.dataTransfer.files[0]);
    });
    document.addEventListener('keydown', (e) => this.key(e));
    const frame = () => {
      this.frame();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  // ---- pieces

  async bring(file) {
    this.file.value = '';
    if (!file) return;
    if (file.size > this.config.max_upload * 1e6) return this.say(`${file.name} is larger than ${this.config.max_upload} MB, the most that may be opened here.`, true);
    await this.attempt(async () => {
      this.progress.textContent = `Reading ${file.name}`;
      const piece = await this.api.json(`/pieces?name=${encodeURIComponent(file.name)}`, { method: 'POST', body: file });
      await this.takes.load();
      await this.choose(this.takes.get(piece.id));
    });
  }

  async sample(name) {
    this.samples.value = '';
    if (!name) return;
    await this.attempt(async () => {
      const piece = await this.api.send(`/samples/${name}`, 'POST');
      await this.takes.load();
      await this.choose(this.takes.get(piece.id));
    });
  }

  /** Put a piece (or none) on the roll. `stay` keeps the view and goes on playing. */
  async choose(piece, { stay = false } = {}) {
    if (this.job && !stay) this.stop();
    const notes = piece ? unpack(await (await this.api.fetch(`/pieces/${piece.id}/notes`)).arrayBuffer()) : Notes.empty();
    this.piece = piece;
    write(CHOSEN, piece ? piece.id : '');
    this.takes.choose(piece);
    if (!stay) this.player.pause();
    this.roll.show(notes, { join: piece && piece.kind === 'take' ? piece.join : null, bars: piece ? piece.facts.bars || [] : [], view: stay ? 'keep' : 'fit' });
    this.player.give(notes);
    if (!stay) {
      this.chips.replaceChildren();
      this.roll.setRegion(null);
      this.roll.setPlace(null);
      this.seek(piece && piece.kind === 'take' ? Math.max(0, piece.join - LEAD_IN) : 0);
    }
    this.showPiece();
    document.dispatchEvent(new CustomEvent('mt:piece', { detail: piece ? { id: piece.id, name: piece.name } : null }));
  }

  showPiece() {
    const { piece } = this;
    this.title.textContent = piece ? piece.name : 'A new piece';
    this.welcome.hidden = Boolean(piece) || Boolean(this.job);
    const lines = piece ? piece.facts.report || [] : [];
    this.report.hidden = !piece;
    this.summary.textContent = piece ? piece.facts.summary || `${piece.notes.toLocaleString('en')} notes, ${clock(piece.seconds, false)}; new from ${clock(piece.join)}` : '';
    this.lines.replaceChildren(...lines.map((text) => h('li', { text })));
    this.report.classList.toggle('mt-plain', lines.length === 0);
    this.showDownloads();
    this.showGo();
  }

  showDownloads() {
    const { piece } = this;
    const link = (text, path) => h('a.mt-button', { href: `${this.api.base}/pieces/${piece.id}/${path}`, download: '' }, icon('down'), text);
    this.downloads.replaceChildren(...(piece ? [link('MIDI', 'midi'), piece.kind === 'take' && link('MIDI, new part', 'midi?part=new'), link('WAV', 'wav')].filter(Boolean) : []));
  }

  // ---- composing

  async compose() {
    if (this.job) return this.stop();
    this.say('');
    const from = this.piece;
    const at = this.roll.place;
    const job = (this.job = { abort: new AbortController(), lives: [], take: 0, from, events: 0 });
    this.showGo();
    this.welcome.hidden = true;
    const woken = this.player.wake();
    if (from) this.leadIn(at ?? this.roll.notes.length);
    const order = { ...this.form.order(), piece: from ? from.id : undefined, at: at ?? undefined };
    try {
      await this.api.stream('/compose', order, (message) => this.hear(job, message), job.abort.signal);
      await woken;
    } catch (error) {
      if (error.name !== 'AbortError') this.say(error.message, true);
    } finally {
      if (this.job === job) this.job = null;
      this.progress.textContent = job.summary || '';
      this.bar.firstChild.style.width = '0';
      this.showPiece();
    }
  }

  /** Play the last seconds before the join while the model reads the piece. */
  leadIn(join) {
    this.player.give(this.roll.notes.before(join), null, join);
    this.player.play(Math.max(0, join - LEAD_IN));
  }

  hear(job, message) {
    const acts = {
      job: () => (job.id = message.job),
      queue: () => (this.progress.textContent = message.ahead ? `${message.ahead === 1 ? 'One other piece is' : `${message.ahead} other pieces are`} before yours` : 'Reading the piece'),
      start: () => this.begin(job, message),
      notes: () => this.grow(job, message),
      done: () => this.finish(job, message),
      error: () => this.say(message.message, true),
    };
    acts[message.type]?.();
  }

  begin(job, { join, takes, seed }) {
    job.join = join;
    job.seed = seed;
    job.seconds = this.form.values.seconds;
    job.lives = Array.from({ length: takes }, () => new LiveTake(join));
    const kept = job.from ? this.roll.notes.before(join) : Notes.empty();
    this.roll.show(kept, { join, bars: this.roll.bars, view: 'keep' });
    const span = this.roll.wide / this.roll.scale;
    if (!job.from || span < 12 || span > 90) this.roll.scale = this.roll.wide / 30;
    this.roll.setPlace(null);
    this.roll.reveal(join, 0.35);
    this.showChips(job);
    this.listenTo(job, 0);
    if (!this.player.playing) this.player.play(Math.max(0, join - (job.from ? LEAD_IN : 0)));
  }

  listenTo(job, take) {
    job.take = take;
    const live = job.lives[take];
    this.roll.follow(live);
    if (this.player.playing) this.player.hush_();
    this.player.give(this.roll.notes, live, live.done ? Infinity : live.reached);
    for (const [i, chip] of [...this.chips.children].entries()) chip.setAttribute('aria-checked', String(i === take));
  }

  showChips(job) {
    const chips = job.lives.map((_, i) => h('button.mt-chip', { type: 'button', role: 'radio', text: `Take ${i + 1}`, onclick: () => this.pickTake(job, i) }));
    this.chips.replaceChildren(...(chips.length > 1 ? chips : []));
  }

  pickTake(job, take) {
    if (this.job === job) return this.listenTo(job, take);
    const piece = this.takes.get(job.pieces[take]);
    if (piece) this.compare(piece, take);
  }

  grow(job, message) {
    for (const event of message.events) job.lives[event[1]].hear(event);
    job.lives.forEach((live, i) => {
      live.reached = job.join + message.seconds[i];
      live.done = message.done[i];
    });
    const live = job.lives[job.take];
    this.player.frontier = live.done ? Infinity : live.reached;
    this.roll.keys();
    this.roll.paint();
    const slowest = Math.min(...message.seconds);
    this.bar.firstChild.style.width = `${Math.min(100, (100 * slowest) / job.seconds)}%`;
    job.rate = message.rate;
    const left = message.left === null ? '' : ` · ${Math.ceil(message.left)} s left`;
    this.progress.textContent = `${slowest.toFixed(1)} of ${job.seconds} s · ${Math.round(message.rate)} events a second${left}`;
  }

  async finish(job, { pieces, stopped }) {
    job.pieces = pieces;
    await this.takes.load();
    const piece = this.takes.get(pieces[Math.min(job.take, pieces.length - 1)]);
    job.summary = piece ? `${stopped ? 'Stopped; what exists is kept' : 'Done'}: seed ${piece.facts.seed}, ${Math.round(job.rate || 0)} events a second` : 'Stopped before the first note';
    this.job = null;
    await this.choose(piece || job.from, { stay: true });
    if (!piece) this.player.pause();
  }

  stop() {
    const { job } = this;
    if (!job) return;
    this.progress.textContent = 'Stopping';
    if (job.id) this.api.send(`/jobs/${job.id}/stop`, 'POST').catch(() => job.abort.abort());
    else job.abort.abort();
  }

  showGo() {
    const busy = Boolean(this.job);
    const place = this.roll.place;
    this.go.replaceChildren(icon(busy ? 'stop' : 'play'), busy ? 'Stop' : this.piece ? (place === null ? 'Continue' : `Continue from ${clock(place)}`) : 'Compose');
    this.go.classList.toggle('mt-busy', busy);
    this.place.hidden = place === null || busy;
    this.place.textContent = place === null ? '' : 'from the end instead';
  }

  // ---- playing

  async toggle() {
    if (this.player.playing) return this.player.pause();
    const region = this.player.loop;
    const at = this.player.position;
    const over = at >= this.player.length - 0.05;
    await this.player.play(region && (at < region[0] || at >= region[1]) ? region[0] : over ? 0 : at);
    if (this.player.note) this.say(this.player.note);
  }

  seek(seconds, { place = false, keys = false } = {}) {
    const to = Math.min(seconds, this.roll.length);
    this.player.seek(to);
    this.roll.setPlayhead(to, keys);
    if (place && !this.player.playing && this.piece && !this.job) this.roll.setPlace(seconds);
    if (keys || !this.player.playing) this.roll.say();
    this.showTime();
  }

  setLoop(on) {
    this.player.loop = on && this.roll.region ? this.roll.region : null;
    if (on && !this.roll.region) this.say('Drag along the ruler to mark a region first.');
    this.loopButton.setAttribute('aria-pressed', String(Boolean(this.player.loop)));
  }

  showRegion(region) {
    if (this.player.loop) this.setLoop(Boolean(region));
    this.showGo();
  }

  showPlace() {
    this.showGo();
  }

  showPlaying() {
    const { playing } = this.player;
    this.playButton.replaceChildren(icon(playing ? 'pause' : 'play'));
    this.playButton.setAttribute('aria-label', playing ? 'Pause' : 'Play');
    this.playButton.title = playing ? 'Pause' : 'Play';
  }

  compare(piece, take) {
    for (const [i, chip] of [...this.chips.children].entries()) chip.setAttribute('aria-checked', String(i === take));
    this.player.hush_();
    return this.attempt(() => this.choose(piece, { stay: true }));
  }

  switchRuler() {
    this.roll.ruler = this.roll.ruler === 'bars' ? 'seconds' : 'bars';
    this.rulerButton.textContent = this.roll.ruler === 'bars' ? 'seconds' : 'bars';
    this.roll.paint();
  }

  frame() {
    if (!this.player.playing) return;
    this.roll.setPlayhead(this.player.position, this.roll.pointers.size === 0);
    this.showTime();
  }

  showTime() {
    this.time.textContent = `${clock(this.player.position)} / ${clock(this.player.length)}`;
  }

  key(event) {
    const typing = event.target.closest?.('input, select, textarea, button, summary, a, [contenteditable]');
    const here = this.root.offsetParent !== null;
    if (!here || event.key !== ' ' || (typing && event.target !== this.rollHost)) return;
    event.preventDefault();
    this.toggle();
  }

  // ---- telling

  say(text, bad = false) {
    this.notice.textContent = text;
    this.notice.hidden = !text;
    this.notice.classList.toggle('mt-bad', bad);
  }

  async attempt(act) {
    this.say('');
    try {
      await act();
      this.progress.textContent = '';
    } catch (error) {
      this.progress.textContent = '';
      this.say(error.message, true);
    }
  }
}

function read(key) {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function write(key, value) {
  try {
    localStorage.setItem(key, value);
  } catch {
    // a browser that keeps nothing opens the newest piece next time
  }
}
