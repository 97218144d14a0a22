// A piece's notes in the page: packed columns from the server, and notes that are still being composed.

const BLOCK = 128; // notes per block; each block knows its latest end, so that a view skips what is over

/** Unpack MTN1 (see notes.py): columns sorted by start. */
export function unpack(buffer) {
  const view = new DataView(buffer);
  const magic = String.fromCharCode(...new Uint8Array(buffer, 0, 4));
  if (magic !== 'MTN1') throw new Error('These notes are of another version; reload the page.');
  const count = view.getUint32(4, true);
  const float = (column) => new Float32Array(buffer, 8 + 4 * count * column, count);
  const byte = (column) => new Uint8Array(buffer, 8 + 12 * count + count * column, count);
  return new Notes({ start: float(0), end: float(1), ring: float(2), pitch: byte(0), velocity: byte(1), part: byte(2) });
}

export class Notes {
  constructor(columns) {
    Object.assign(this, columns);
    this.count = this.start.length;
    this.latest = new Float32Array(Math.ceil(this.count / BLOCK));
    this.length = 0;
    for (let i = 0; i < this.count; i++) {
      const block = Math.floor(i / BLOCK);
      this.latest[block] = Math.max(this.latest[block], this.ring[i]);
      this.length = Math.max(this.length, this.end[i]);
    }
  }
  static empty() {
    const none = () => new Float32Array(0);
    return new Notes({ start: none(), end: none(), ring: none(), pitch: new Uint8Array(0), velocity: new Uint8Array(0), part: new Uint8Array(0) });
  }
  /** The first note that starts at `time` or later. */
  from(time) {
    let low = 0, high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.start[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }
  /** Call `visit(i)` for every note that sounds between two times. */
  between(a, b, visit) {
    const stop = this.from(b);
    for (let block = 0; block * BLOCK < stop; block++) {
      if (this.latest[block] <= a) continue;
      for (let i = block * BLOCK; i < Math.min(stop, (block + 1) * BLOCK); i++) if (this.ring[i] > a) visit(i);
    }
  }
  /** The notes that start before `time`, as a piece of their own. */
  before(time) {
    return this.pick((i) => this.start[i] < time - 1e-4);
  }
  /** The notes but for those that start from `a` until before `b`. */
  without(a, b) {
    return this.pick((i) => this.start[i] < a - 1e-4 || this.start[i] >= b - 1e-4);
  }
  pick(wanted) {
    const rows = [];
    for (let i = 0; i < this.count; i++) if (wanted(i)) rows.push(i);
    const columns = {};
    for (const key of ['start', 'end', 'ring', 'pitch', 'velocity', 'part']) columns[key] = this[key].constructor.from(rows, (i) => this[key][i]);
    return new Notes(columns);
  }
  range() {
    let low = 127, high = 0;
    for (let i = 0; i < this.count; i++) {
      low = Math.min(low, this.pitch[i]);
      high = Math.max(high, this.pitch[i]);
    }
    return low <= high ? [low, high] : null;
  }
}

/** One take while it is composed: strikes and releases as the server tells them. */
export class LiveTake {
  constructor(join) {
    this.notes = []; // {pitch, start, end or null, velocity}, by start
    this.reached = join;
    this.done = false;
    this.open = new Map(); // pitch -> notes that still sound, first struck first
  }
  hear([what, , pitch, seconds, velocity]) {
    const waiting = this.open.get(pitch) || [];
    if (what === 'on') {
      const note = { pitch, start: seconds, end: null, velocity };
      this.notes.push(note);
      waiting.push(note);
      this.open.set(pitch, waiting);
    } else if (waiting.length) waiting.shift().end = seconds;
  }
}
