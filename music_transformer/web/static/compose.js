// The Compose tab: bring a piece, continue it, see and hear it while it is written, keep every take.

import { Composer } from './composer.js';
import { Meters, NoteText, Receipt } from './drawers.js';
import { Api, clock, h, icon } from './dom.js';
import { Explorer } from './explorer.js';
import { Form } from './form.js';
import { build } from './layout.js';
import { Notes, unpack } from './notes.js';
import { Player } from './player.js';
import { Roll } from './roll.js';
import { Takes } from './takes.js';

const LEAD_IN = 3; // seconds before a join at which a take is shown
const CHOSEN = 'mt-piece';

export async function mount(element) {
  const page = new Page(element);
  window.mt = page; // other tabs read window.mt.piece
  try {
    await page.open();
  } catch (error) {
    page.root.textContent = error.message;
  }
  element.dataset.ready = '1';
}

class Page {
  constructor(element) {
    this.api = new Api(element.dataset.base);
    this.player = new Player(this.api);
    this.root = element.querySelector('.mt') || element;
    this.piece = null;
    this.before = null; // the piece shown before this one
  }

  async open() {
    this.config = await this.api.json('/config');
    this.form = new Form(this.config);
    this.composer = new Composer(this);
    this.el = build(this);
    this.takes = new Takes(this.api, this.el.aside);
    this.roll = new Roll(this.el.roll);
    this.el.roll.append(this.el.welcome);
    this.explorer = new Explorer(this);
    this.drawers = [new Meters(this), new Receipt(this), new NoteText(this)];
    this.el.drawers.append(this.explorer.node, ...this.drawers.map((d) => d.node));
    this.wire();
    this.player.prepare();
    await this.takes.load();
    await this.choose(this.takes.get(read(CHOSEN)) || this.takes.pieces.at(-1) || null);
    this.form.onmodel = () => (this.about(), this.explorer.moved());
    this.about();
  }

  async about() {
    try {
      const { model, parameters, sound, version } = await this.api.json(`/about?model=${encodeURIComponent(this.form.values.model)}`);
      this.el.foot.textContent = `${model}, ${(parameters / 1e6).toFixed(1)} million parameters · ${sound} · version ${version}`;
    } catch (error) {
      this.say(error.message, true);
    }
  }

  wire() {
    const { roll, player, takes, root } = this;
    roll.addEventListener('seek', ({ detail }) => this.seek(detail.seconds, detail));
    roll.addEventListener('place', () => this.composer.show());
    roll.addEventListener('region', ({ detail }) => this.showRegion(detail));
    roll.addEventListener('ghost', ({ detail }) => this.explorer.append(detail));
    player.addEventListener('state', () => this.showPlaying());
    player.addEventListener('end', () => this.seek(this.roll.length));
    takes.addEventListener('choose', ({ detail }) => this.attempt(() => this.choose(detail)));
    takes.addEventListener('change', () => this.renamed());
    takes.addEventListener('error', ({ detail }) => this.say(detail, true));
    root.addEventListener('dragover', (e) => (e.preventDefault(), root.classList.add('mt-dropping')));
    root.addEventListener('dragleave', (e) => !root.contains(e.relatedTarget) && root.classList.remove('mt-dropping'));
    root.addEventListener('drop', (e) => {
      e.preventDefault();
      root.classList.remove('mt-dropping');
      this.bring(e.dataTransfer.files[0]);
    });
    document.addEventListener('keydown', (e) => this.key(e));
    const frame = () => {
      if (this.player.playing) this.frame();
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  // ---- pieces

  async bring(file) {
    this.el.file.value = '';
    if (!file) return;
    const most = this.config.max_upload;
    if (file.size > most * 1e6) return this.say(`${file.name} is larger than ${most} MB, the most that may be opened here.`, true);
    await this.attempt(async () => {
      this.el.progress.textContent = `Reading ${file.name}`;
      await this.adopt(await this.api.json(`/pieces?name=${encodeURIComponent(file.name)}`, { method: 'POST', body: file }));
    });
  }

  async sample(name) {
    this.el.samples.value = '';
    if (name) await this.attempt(async () => this.adopt(await this.api.send(`/samples/${name}`, 'POST')));
  }

  async adopt({ id }) {
    await this.takes.load();
    await this.choose(this.takes.get(id));
  }

  /** Put a piece (or none) on the roll. `stay` keeps the view and goes on playing. */
  async choose(piece, { stay = false } = {}) {
    if (this.composer.busy && !stay) this.composer.stop();
    const notes = piece ? unpack(await (await this.api.fetch(`/pieces/${piece.id}/notes`)).arrayBuffer()) : Notes.empty();
    if (this.piece && piece && this.piece.id !== piece.id) this.before = this.piece;
    this.piece = piece;
    write(CHOSEN, piece ? piece.id : '');
    this.takes.choose(piece);
    this.explorer.close();
    if (!stay) this.player.pause();
    const composed = piece && piece.kind !== 'upload' && piece.kind !== 'sample';
    this.roll.show(notes, { join: composed ? piece.join : null, view: stay ? 'keep' : 'fit' });
    this.player.give(notes);
    if (!stay) this.settle(composed ? Math.max(0, piece.join - LEAD_IN) : 0);
    this.showPiece();
    document.dispatchEvent(new CustomEvent('mt:piece', { detail: piece ? { id: piece.id, name: piece.name } : null }));
    if (piece) this.roll.bars = await this.api.json(`/pieces/${piece.id}/bars`);
    this.roll.paint();
  }

  settle(seconds) {
    this.el.chips.replaceChildren();
    this.roll.setRegion(null);
    this.roll.setPlace(null);
    this.el.progress.textContent = '';
    this.seek(seconds);
  }

  showPiece() {
    const { piece, el } = this;
    el.title.textContent = piece ? piece.name : 'A new piece';
    el.welcome.hidden = Boolean(piece) || this.composer.busy;
    const lines = piece ? piece.facts.report || [] : [];
    const composed = piece && `${piece.notes.toLocaleString('en')} notes, ${clock(piece.seconds, false)}; new from ${clock(piece.join)}`;
    el.summary.textContent = piece ? piece.facts.summary || composed : 'Nothing is written yet';
    el.lines.replaceChildren(...lines.map((text) => h('li', { text })));
    el.report.classList.toggle('mt-plain', lines.length === 0);
    el.other.hidden = !this.before || !piece || !this.takes.get(this.before.id);
    el.other.textContent = this.before ? `Compare: ${this.before.name}` : '';
    this.showDownloads();
    this.composer.show();
    for (const drawer of this.drawers) drawer.changed();
  }

  showDownloads() {
    const { piece } = this;
    const link = (text, path) => h('a.mt-button', { href: `${this.api.base}/pieces/${piece.id}/${path}`, download: '' }, icon('down'), text);
    const links = piece ? [link('MIDI', 'midi'), piece.kind === 'take' && link('MIDI, new part', 'midi?part=new'), link('WAV', 'wav')] : [];
    this.el.downloads.replaceChildren(...links.filter(Boolean));
  }

  /** Names and stars may have changed. */
  renamed() {
    if (this.piece) this.piece = this.takes.get(this.piece.id) || this.piece;
    this.showPiece();
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
    const to = Math.max(0, Math.min(seconds, this.roll.length));
    this.player.seek(to);
    this.roll.setPlayhead(to, keys);
    if (place && !this.player.playing && this.piece && !this.composer.busy) this.roll.setPlace(seconds);
    if (!this.player.playing) {
      this.roll.say();
      this.explorer.moved();
    }
    this.showTime();
  }

  setLoop(on) {
    this.player.loop = on && this.roll.region ? this.roll.region : null;
    if (on && !this.roll.region) this.say('Drag along the ruler to mark a region first.');
    this.el.loop.setAttribute('aria-pressed', String(Boolean(this.player.loop)));
  }

  showRegion(region) {
    if (this.player.loop) this.setLoop(Boolean(region));
    this.composer.show();
  }

  showPlaying() {
    const label = this.player.playing ? 'Pause' : 'Play';
    this.el.play.replaceChildren(icon(label.toLowerCase()));
    this.el.play.setAttribute('aria-label', label);
    this.el.play.title = label;
  }

  /** Show another piece at the same second, and go on playing. */
  compare(piece) {
    this.player.hush();
    return this.attempt(() => this.choose(piece, { stay: true }));
  }

  compareBack() {
    const piece = this.before && this.takes.get(this.before.id);
    if (piece && !this.composer.busy) return this.compare(piece);
  }

  switchRuler() {
    this.roll.ruler = this.roll.ruler === 'bars' ? 'seconds' : 'bars';
    this.el.ruler.textContent = this.roll.ruler === 'bars' ? 'seconds' : 'bars';
    this.roll.paint();
  }

  frame() {
    this.roll.setPlayhead(Math.min(this.player.position, this.roll.length), this.roll.pointers.size === 0);
    this.showTime();
  }

  showTime() {
    this.el.time.textContent = `${clock(Math.min(this.player.position, this.roll.length))} / ${clock(this.roll.length)}`;
  }

  key(event) {
    const onControl = event.target.closest?.('input, select, textarea, button, summary, a, [contenteditable]');
    if (this.root.offsetParent === null || onControl || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === ' ') this.toggle();
    else if (event.key === 'x') this.compareBack();
    else return;
    event.preventDefault();
  }

  // ---- telling

  say(text, bad = false) {
    this.el.notice.textContent = text;
    this.el.notice.hidden = !text;
    this.el.notice.classList.toggle('mt-bad', bad);
  }

  async attempt(act) {
    this.say('');
    try {
      await act();
    } catch (error) {
      this.say(error.message, true);
    }
    if (!this.composer.busy && this.el.progress.textContent.startsWith('Reading')) this.el.progress.textContent = '';
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
