// "Your takes": the tree of everything brought and composed, with what can be done to each.

import { clock, h, icon } from './dom.js';

const KINDS = { upload: 'your file', sample: 'sample', take: 'take', edit: 'by hand' };

export class Takes extends EventTarget {
  /** Events: choose (piece), change, error (message). `api` as in dom.js. */
  constructor(api, host) {
    super();
    this.api = api;
    this.pieces = [];
    this.chosen = null;
    this.undos = []; // what takes a change back, newest last
    this.list = h('ul.mt-tree', { role: 'tree', 'aria-label': 'Your takes' });
    this.empty = h('p.mt-soft', { text: 'Everything you open or compose is kept here, also after a reload.' });
    this.undoButton = h('button.mt-link', { type: 'button', onclick: () => this.undo() }, icon('undo'), 'Undo');
    host.append(h('div.mt-aside-head', {}, h('h2', { text: 'Your takes' }), this.undoButton), this.empty, this.list);
    this.list.addEventListener('keydown', (e) => this.key(e));
  }

  async load() {
    this.pieces = await this.api.json('/pieces');
    this.draw();
  }

  get(id) {
    return this.pieces.find((p) => p.id === id) || null;
  }

  choose(piece) {
    this.chosen = piece ? piece.id : null;
    this.draw();
  }

  /** Parents before children; a child of a deleted piece stands at the top. */
  rows() {
    const known = new Set(this.pieces.map((p) => p.id));
    const under = new Map();
    for (const p of this.pieces) {
      const key = p.parent && known.has(p.parent) ? p.parent : null;
      under.set(key, [...(under.get(key) || []), p]);
    }
    const out = [];
    const walk = (key, depth) => {
      for (const p of under.get(key) || []) {
        out.push([p, depth]);
        walk(p.id, depth + 1);
      }
    };
    walk(null, 0);
    return out;
  }

  draw() {
    const rows = this.rows();
    this.empty.hidden = rows.length > 0;
    this.undoButton.hidden = this.undos.length === 0;
    this.list.replaceChildren(...rows.map(([piece, depth]) => this.row(piece, depth)));
  }

  row(piece, depth) {
    const chosen = piece.id === this.chosen;
    const facts = [KINDS[piece.kind] || piece.kind, clock(piece.seconds, false), piece.facts.seed !== undefined ? `seed ${piece.facts.seed}` : ''];
    const name = h('button.mt-take-name', { type: 'button', onclick: () => this.pick(piece), title: 'Show and play from here' },
      h('strong', { text: piece.name }), h('small', { text: facts.filter(Boolean).join(' · ') }));
    const act = (label, icon_, run, pressed) => h('button.mt-tool', { type: 'button', 'aria-label': `${label}: ${piece.name}`, title: label, 'aria-pressed': pressed, onclick: run }, icon(icon_));
    const tools = h('span.mt-tools', {},
      act(piece.kept ? 'Kept' : 'Keep', 'star', () => this.change(piece, { kept: !piece.kept }), String(piece.kept)),
      act('Rename', 'pen', () => this.rename(piece, name)),
      act('Delete', 'bin', () => this.remove(piece)));
    return h('li.mt-take', { role: 'treeitem', 'aria-selected': String(chosen), 'aria-level': depth + 1, style: `--depth:${Math.min(depth, 6)}`, 'data-id': piece.id }, name, tools);
  }

  pick(piece) {
    this.choose(piece);
    this.dispatchEvent(new CustomEvent('choose', { detail: piece }));
  }

  rename(piece, name) {
    const input = h('input.mt-input', { value: piece.name, maxlength: 120, 'aria-label': 'New name' });
    const finish = (save) => {
      input.onblur = null;
      const text = input.value.trim();
      if (save && text && text !== piece.name) this.change(piece, { name: text });
      else this.draw();
    };
    input.onkeydown = (e) => {
      e.stopPropagation();
      if (e.key === 'Enter') finish(true);
      if (e.key === 'Escape') finish(false);
    };
    input.onblur = () => finish(true);
    name.replaceWith(input);
    input.focus();
    input.select();
  }

  async change(piece, facts) {
    const before = Object.fromEntries(Object.keys(facts).map((key) => [key, piece[key]]));
    await this.try(() => this.api.send(`/pieces/${piece.id}`, 'PATCH', facts), () => this.api.send(`/pieces/${piece.id}`, 'PATCH', before));
  }

  async remove(piece) {
    await this.try(() => this.api.send(`/pieces/${piece.id}`, 'DELETE'), () => this.api.send(`/pieces/${piece.id}/restore`, 'POST'));
    if (this.chosen === piece.id) this.pick(this.get(piece.parent) || this.pieces.at(-1) || null);
  }

  async try(act, back) {
    try {
      await act();
      if (back) this.undos.push(back);
      await this.load();
      this.dispatchEvent(new Event('change'));
    } catch (error) {
      this.dispatchEvent(new CustomEvent('error', { detail: error.message }));
    }
  }

  undo() {
    const back = this.undos.pop();
    if (back) this.try(back);
  }

  key(event) {
    if (!['ArrowDown', 'ArrowUp'].includes(event.key) || event.target.tagName === 'INPUT') return;
    const names = [...this.list.querySelectorAll('.mt-take-name')];
    const at = names.indexOf(event.target.closest('li')?.querySelector('.mt-take-name'));
    names[at + (event.key === 'ArrowDown' ? 1 : -1)]?.focus();
    event.preventDefault();
  }
}
