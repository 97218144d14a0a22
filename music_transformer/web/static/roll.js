// The piano roll: two canvases (music below; playhead, region and ghosts above), a ruler, keys, zoom, pan, keyboard.

import { clock, h, isBlack, pitchName } from './dom.js';
import { drawGhosts, ghostAt } from './ghosts.js';
import { Notes } from './notes.js';

const GUTTER = 46, RULER = 26; // CSS pixels
const SHADES = 8;
const LONGEST_ZOOM = 1200; // pixels per second at most
const LEAST_KEYS = 30;

export class Roll extends EventTarget {
  /** Events: seek (seconds), place (seconds), region ([a, b] or null), ghost (ghost). */
  constructor(host) {
    super();
    this.host = host;
    this.base = h('canvas');
    this.over = h('canvas');
    this.status = h('p.mt-visually-hidden', { role: 'status', 'aria-live': 'polite' });
    host.append(this.base, this.over, this.status);
    host.tabIndex = 0;
    this.notes = Notes.empty();
    this.live = null;
    this.bars = [];
    this.ghosts = [];
    this.left = 0; // seconds at the left edge
    this.scale = 60; // pixels per second
    this.low = 48;
    this.high = 84;
    this.playhead = 0;
    this.join = null; // where the newest part starts
    this.place = null; // where the visitor wants to go on from; null = the end
    this.region = null;
    this.ruler = 'seconds';
    this.colours();
    this.listen();
    new ResizeObserver(() => this.resize()).observe(host);
    new MutationObserver(() => this.colours()).observe(document.body, { attributes: true, attributeFilter: ['class'] });
    this.resize();
  }

  // ---- what is shown

  /** Show a piece. `view` "fit" shows all of it, "keep" leaves the view, "join" brings the newest part into view. */
  show(notes, { join = null, bars = [], view = 'fit' } = {}) {
    this.notes = notes;
    this.live = null;
    this.join = join;
    this.bars = bars;
    this.keys();
    if (view === 'fit') this.fit();
    this.paint();
  }

  follow(live) {
    this.live = live;
    this.keys();
    this.paint();
  }

  get length() {
    return Math.max(this.notes.length, this.live ? this.live.reached : 0);
  }

  /** Choose the range of keys from the notes: at least two and a half octaves. */
  keys() {
    const range = this.notes.range() || [54, 78];
    let [low, high] = range;
    for (const note of this.live ? this.live.notes : []) {
      low = Math.min(low, note.pitch);
      high = Math.max(high, note.pitch);
    }
    low -= 2;
    high += 2;
    const more = Math.max(0, LEAST_KEYS - (high - low));
    this.low = Math.max(0, low - Math.ceil(more / 2));
    this.high = Math.min(127, high + Math.floor(more / 2));
  }

  fit() {
    this.left = 0;
    this.scale = this.bounded(this.wide / Math.max(8, this.length * 1.02 + 0.5));
    this.paint();
  }

  zoom(factor, x = GUTTER + this.wide / 2) {
    const at = this.time(x);
    this.scale = this.bounded(this.scale * factor);
    this.pan(at - this.time(x));
  }

  bounded(scale) {
    const least = this.wide / Math.max(10, this.length * 1.3 + 10);
    return Math.min(LONGEST_ZOOM, Math.max(least, scale));
  }

  pan(seconds) {
    const room = Math.max(0, this.length + 4 - this.wide / this.scale / 2);
    this.left = Math.min(room, Math.max(0, this.left + seconds));
    this.paint();
  }

  /** Keep a moment in view, `share` of the way across. */
  reveal(seconds, share = 0.7) {
    const span = this.wide / this.scale;
    if (seconds < this.left || seconds > this.left + span * share) {
      this.left = Math.max(0, seconds - span * (seconds < this.left ? 0.15 : share));
      this.paint();
    }
  }

  setPlayhead(seconds, follow = false) {
    this.playhead = seconds;
    if (follow) this.reveal(seconds);
    this.mark();
  }

  setRegion(region) {
    this.region = region && Math.abs(region[1] - region[0]) > 0.05 ? [Math.min(...region), Math.max(...region)] : null;
    this.mark();
    this.dispatchEvent(new CustomEvent('region', { detail: this.region }));
  }

  setPlace(seconds) {
    this.place = seconds !== null && seconds < this.length - 0.05 && seconds > 0.05 ? Math.round(seconds * 100) / 100 : null;
    this.mark();
    this.dispatchEvent(new CustomEvent('place', { detail: this.place }));
  }

  setGhosts(ghosts) {
    this.ghosts = ghosts;
    this.mark();
  }

  // ---- geometry

  resize() {
    const box = this.host.getBoundingClientRect();
    this.width = Math.max(200, Math.floor(box.width));
    this.height = Math.max(120, Math.floor(box.height));
    this.ratio = window.devicePixelRatio || 1;
    for (const canvas of [this.base, this.over]) {
      canvas.width = Math.round(this.width * this.ratio);
      canvas.height = Math.round(this.height * this.ratio);
    }
    this.paint();
  }

  get wide() {
    return this.width - GUTTER;
  }
  get row() {
    return (this.height - RULER) / (this.high - this.low + 1);
  }
  x(seconds) {
    return GUTTER + (seconds - this.left) * this.scale;
  }
  y(pitch) {
    return RULER + (this.high - pitch) * this.row;
  }
  time(x) {
    return this.left + (x - GUTTER) / this.scale;
  }

  // ---- drawing

  colours() {
    const style = getComputedStyle(this.host);
    const read = (name) => style.getPropertyValue(name).trim();
    this.ink = read('--mt-ink') || '#222';
    this.soft = read('--mt-soft') || '#666';
    this.line = read('--mt-line') || '#ddd';
    this.paper = read('--mt-raised') || '#fff';
    this.lane = read('--mt-lane') || '#f4f4f4';
    this.shades = [read('--mt-prompt') || '#5b6b82', read('--mt-accent') || '#c2410c'].map((colour) => shades(colour, this.paper));
    this.accent = this.shades[1][SHADES - 1];
    this.paint();
  }

  paint() {
    this.dirty = true;
    this.mark();
  }

  mark() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      if (this.dirty) this.drawMusic();
      this.dirty = false;
      this.drawMarks();
    });
  }

  begin(canvas) {
    const c = canvas.getContext('2d');
    c.setTransform(this.ratio, 0, 0, this.ratio, 0, 0);
    c.clearRect(0, 0, this.width, this.height);
    c.font = '11px system-ui, sans-serif';
    c.textBaseline = 'middle';
    return c;
  }

  drawMusic() {
    const c = this.begin(this.base);
    c.fillStyle = this.paper;
    c.fillRect(0, 0, this.width, this.height);
    this.drawLanes(c);
    this.drawGrid(c);
    c.save();
    c.beginPath();
    c.rect(GUTTER, RULER, this.wide, this.height - RULER);
    c.clip();
    this.drawNotes(c);
    c.restore();
    this.drawKeys(c);
  }

  drawLanes(c) {
    c.fillStyle = this.lane;
    for (let p = this.low; p <= this.high; p++) if (isBlack(p)) c.fillRect(GUTTER, this.y(p), this.wide, this.row);
  }

  drawKeys(c) {
    c.fillStyle = this.paper;
    c.fillRect(0, RULER, GUTTER, this.height - RULER);
    for (let p = this.low; p <= this.high; p++) {
      const y = this.y(p);
      if (isBlack(p)) {
        c.fillStyle = this.soft;
        c.fillRect(0, y + 0.5, GUTTER - 30, this.row - 1);
      }
      if (p % 12 === 0 || (this.row > 13 && !isBlack(p))) {
        c.fillStyle = p % 12 === 0 ? this.ink : this.soft;
        c.fillText(pitchName(p), GUTTER - 26, y + this.row / 2 + 0.5);
      }
      if (p % 12 === 0) {
        c.fillStyle = this.line;
        c.fillRect(GUTTER, y + this.row, this.wide, 1);
      }
    }
    c.fillStyle = this.line;
    c.fillRect(GUTTER - 1, 0, 1, this.height);
  }

  /** Where the ruler's lines stand, and what is written there. */
  ticks() {
    const end = this.time(this.width);
    if (this.ruler === 'bars' && this.bars.length) {
      const every = step((60 / this.scale) * (this.bars.length / Math.max(1, this.length)));
      return this.bars.map((t, i) => [t, i % every === 0 ? String(i + 1) : '']).filter(([t]) => t >= this.left && t <= end);
    }
    const every = step(70 / this.scale);
    const out = [];
    for (let n = Math.ceil(this.left / every); n * every <= end; n++) out.push([n * every, clock(n * every, every < 1)]);
    return out;
  }

  drawGrid(c) {
    c.fillStyle = this.line;
    c.fillRect(0, RULER - 1, this.width, 1);
    for (const [seconds, text] of this.ticks()) {
      const x = Math.round(this.x(seconds));
      c.fillStyle = this.line;
      c.fillRect(x, text ? 0 : RULER - 6, 1, this.height);
      c.fillStyle = this.soft;
      if (text) c.fillText(text, x + 5, RULER / 2);
    }
  }

  drawNotes(c) {
    const end = this.time(this.width);
    const buckets = new Map(); // one path per colour, so that 40,000 notes are a dozen fills
    const put = (part, velocity, x, pitch, width) => {
      const key = part * SHADES + Math.min(SHADES - 1, Math.floor((velocity / 128) * SHADES));
      let path = buckets.get(key);
      if (!path) buckets.set(key, (path = new Path2D()));
      path.rect(x, this.y(pitch) + 0.5, Math.max(1.5, width), Math.max(1.5, this.row - 1));
    };
    const n = this.notes;
    const tails = new Path2D();
    n.between(this.left, end, (i) => {
      const x = this.x(n.start[i]);
      const width = (n.end[i] - n.start[i]) * this.scale - 0.5;
      put(n.part[i], n.velocity[i], x, n.pitch[i], width);
      if (n.ring[i] - n.end[i] > 0.05) tails.rect(x + width, this.y(n.pitch[i]) + this.row / 2 - 0.5, (n.ring[i] - n.end[i]) * this.scale, 1);
    });
    for (const note of this.live ? this.live.notes : []) {
      const stop = note.end ?? this.live.reached;
      if (stop >= this.left && note.start <= end) put(1, note.velocity, this.x(note.start), note.pitch, (stop - note.start) * this.scale);
    }
    c.fillStyle = this.line;
    c.fill(tails);
    for (const [key, path] of buckets) {
      c.fillStyle = this.shades[Math.floor(key / SHADES)][key % SHADES];
      c.fill(path);
    }
  }

  drawMarks() {
    const c = this.begin(this.over);
    if (this.region) this.drawRegion(c, ...this.region);
    c.save();
    c.beginPath();
    c.rect(GUTTER, 0, this.wide, this.height);
    c.clip();
    if (this.join !== null && this.join > 0) this.dashed(c, this.join, this.accent, 'new from here', 0.55);
    if (this.place !== null) this.dashed(c, this.place, this.accent, 'continue from here', 1);
    if (this.live && !this.live.done) this.dashed(c, this.live.reached, this.accent, '', 0.6);
    drawGhosts(this, c, RULER);
    const x = this.x(this.playhead);
    c.fillStyle = this.ink;
    c.fillRect(x - 0.75, RULER - 6, 1.5, this.height);
    c.beginPath();
    c.moveTo(x - 6, RULER - 12);
    c.lineTo(x + 6, RULER - 12);
    c.lineTo(x, RULER - 3);
    c.fill();
    c.restore();
  }

  drawRegion(c, a, b) {
    const left = Math.max(GUTTER, this.x(a)), right = Math.max(GUTTER, this.x(b));
    c.globalAlpha = 0.13;
    c.fillStyle = this.accent;
    c.fillRect(left, 0, right - left, this.height);
    c.globalAlpha = 1;
    c.fillRect(left, 0, 1.5, this.height);
    c.fillRect(right - 1.5, 0, 1.5, this.height);
    c.fillRect(left, 0, right - left, 3);
  }

  dashed(c, seconds, colour, text, alpha) {
    const x = Math.round(this.x(seconds)) + 0.5;
    c.globalAlpha = alpha;
    c.strokeStyle = c.fillStyle = colour;
    c.setLineDash([4, 4]);
    c.beginPath();
    c.moveTo(x, RULER);
    c.lineTo(x, this.height);
    c.stroke();
    c.setLineDash([]);
    if (text) c.fillText(text, x + 6, this.height - 10);
    c.globalAlpha = 1;
  }

  // ---- hands

  listen() {
    this.pointers = new Map();
    const on = (name, act, options) => this.host.addEventListener(name, act, options);
    on('pointerdown', (e) => this.down(e));
    on('pointermove', (e) => this.move(e));
    on('pointerup', (e) => this.up(e));
    on('pointercancel', (e) => this.pointers.delete(e.pointerId));
    on('wheel', (e) => this.wheel(e), { passive: false });
    on('keydown', (e) => this.key(e));
  }

  at(event) {
    const box = this.host.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  }

  down(event) {
    if (event.button) return;
    const [x, y] = this.at(event);
    this.host.setPointerCapture(event.pointerId);
    const selects = y < RULER || event.shiftKey;
    this.pointers.set(event.pointerId, { x, y, from: x, left: this.left, start: this.time(x), moved: false, selects });
    this.host.focus({ preventScroll: true });
  }

  move(event) {
    const p = this.pointers.get(event.pointerId);
    if (!p) return;
    const [x, y] = this.at(event);
    if (this.pointers.size === 2) return this.pinch(p, x);
    p.moved ||= Math.abs(x - p.from) > 4;
    if (!p.moved) return;
    if (p.selects) this.setRegion([Math.max(0, p.start), Math.max(0, this.time(x))]);
    else {
      this.left = p.left;
      this.pan((p.from - x) / this.scale);
    }
    [p.x, p.y] = [x, y];
  }

  pinch(p, x) {
    const other = [...this.pointers.values()].find((q) => q !== p);
    const before = Math.abs(p.x - other.x), after = Math.abs(x - other.x);
    p.moved = other.moved = true;
    if (before > 8 && after > 8) this.zoom(after / before, (x + other.x) / 2);
    p.x = x;
    other.left = p.left = this.left;
    p.from = x;
    other.from = other.x;
  }

  up(event) {
    const p = this.pointers.get(event.pointerId);
    this.pointers.delete(event.pointerId);
    if (!p || p.moved) return;
    const [x, y] = this.at(event);
    const ghost = ghostAt(this.ghosts, x, y);
    if (ghost) return void this.dispatchEvent(new CustomEvent('ghost', { detail: ghost }));
    if (p.selects && this.region) this.setRegion(null);
    const seconds = Math.max(0, this.time(x));
    this.dispatchEvent(new CustomEvent('seek', { detail: { seconds, place: y >= RULER } }));
  }

  /** Ctrl zooms, sideways or Shift pans; a plain turn is left to the page. */
  wheel(event) {
    const sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
    const zooms = event.ctrlKey || event.metaKey;
    if (!zooms && Math.abs(sideways) < Math.abs(event.shiftKey ? 0 : event.deltaY)) return;
    event.preventDefault();
    if (zooms) this.zoom(Math.exp(-event.deltaY * 0.004), this.at(event)[0]);
    else this.pan(sideways / this.scale);
  }

  key(event) {
    if (event.altKey || event.ctrlKey || event.metaKey) return;
    const seek = (seconds) => this.dispatchEvent(new CustomEvent('seek', { detail: { seconds: Math.min(this.length, Math.max(0, seconds)), place: false, keys: true } }));
    const far = event.shiftKey ? 5 : 1;
    const acts = {
      ArrowLeft: () => seek(this.playhead - far),
      ArrowRight: () => seek(this.playhead + far),
      Home: () => seek(0),
      End: () => seek(this.length),
      n: () => seek(this.nextStart(1)),
      p: () => seek(this.nextStart(-1)),
      '+': () => this.zoom(1.4, this.x(this.playhead)),
      '=': () => this.zoom(1.4, this.x(this.playhead)),
      '-': () => this.zoom(1 / 1.4, this.x(this.playhead)),
      0: () => this.fit(),
      '[': () => this.setRegion([this.playhead, this.region && this.region[1] > this.playhead ? this.region[1] : this.length]),
      ']': () => this.setRegion([this.region && this.region[0] < this.playhead ? this.region[0] : 0, this.playhead]),
      c: () => this.setPlace(this.playhead),
      Escape: () => {
        this.setRegion(null);
        this.setPlace(null);
      },
    };
    const act = acts[event.key];
    if (!act) return;
    event.preventDefault();
    event.stopPropagation();
    act();
  }

  nextStart(direction) {
    const n = this.notes;
    let i = direction > 0 ? n.from(this.playhead + 0.006) : n.from(this.playhead - 0.006) - 1;
    i = Math.min(n.count - 1, Math.max(0, i));
    return n.count ? n.start[i] : 0;
  }

  /** Tell a screen reader where the playhead is and what sounds there. */
  say() {
    const sounding = [];
    this.notes.between(this.playhead, this.playhead + 0.02, (i) => sounding.push(pitchName(this.notes.pitch[i])));
    const what = sounding.length ? `${sounding.slice(0, 12).join(' ')}` : 'silence';
    this.status.textContent = `${clock(this.playhead)} of ${clock(this.length)}: ${what}`;
  }
}

/** A handy distance between ruler marks: 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60 ... */
function step(least) {
  const steps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1800, 3600];
  return steps.find((s) => s >= least) || 7200;
}

/** Eight colours from a tint to the full colour: velocity as shade. */
function shades(colour, paper) {
  const a = rgb(paper), b = rgb(colour);
  return Array.from({ length: SHADES }, (_, k) => {
    const share = 0.5 + (0.5 * k) / (SHADES - 1);
    return `rgb(${a.map((v, i) => Math.round(v + (b[i] - v) * share)).join(',')})`;
  });
}

function rgb(hex) {
  const c = document.createElement('canvas').getContext('2d');
  c.fillStyle = hex;
  const text = c.fillStyle; // always #rrggbb
  return [1, 3, 5].map((i) => parseInt(text.slice(i, i + 2), 16));
}
