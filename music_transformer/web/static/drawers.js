// What is known of the piece on the roll: meters beside the prompt's, the receipt, the notes as text.

import { clock, h, pitchName } from './dom.js';
import { drawer } from './layout.js';

const ROWS = [
  ['notes', 'Notes', (m) => m.notes.toLocaleString('en')],
  ['longest_repeat', 'Longest exact repeat', (m) => `${m.longest_repeat} notes`],
  ['repeated', 'Phrases of 8 heard before', (m) => `${(100 * m.repeated).toFixed(1)} %`],
  ['range', 'Range', (m) => (m.lowest === null ? 'none' : `${pitchName(m.lowest)} to ${pitchName(m.highest)}`)],
  ['density', 'Notes a second', (m) => m.density.toFixed(1)],
  ['nats', 'Surprise, nats an event', (m) => (m.nats === null ? 'none' : m.nats.toFixed(2))],
];
const HEADS = { new: 'New part', prompt: 'What it continues', piece: 'Piece' };

export class Meters {
  constructor(page) {
    this.page = page;
    this.body = h('div');
    this.node = drawer('Meters', () => this.load(), this.body);
    this.node.id = 'mt-meters';
  }

  changed() {
    this.body.replaceChildren();
    if (this.node.open) this.load();
  }

  async load() {
    const { piece, api } = this.page;
    if (!piece) return this.body.replaceChildren(h('p.mt-soft', { text: 'There is no piece yet.' }));
    this.body.replaceChildren(h('p.mt-soft', { text: 'Measuring' }));
    try {
      const { rows } = await api.json(`/pieces/${piece.id}/meters`);
      if (piece === this.page.piece) this.body.replaceChildren(table(rows));
    } catch (error) {
      this.body.replaceChildren(h('p.mt-soft', { text: error.message }));
    }
  }
}

function table(rows) {
  const columns = Object.keys(HEADS).filter((key) => rows[key]);
  return h('table.mt-table', {}, h('thead', {}, h('tr', {}, h('td'), ...columns.map((key) => h('th', { scope: 'col', text: HEADS[key] })))),
    h('tbody', {}, ...ROWS.map(([, label, show]) => h('tr', {}, h('th', { scope: 'row', text: label }), ...columns.map((key) => h('td', { text: show(rows[key]) }))))));
}

export class Receipt {
  constructor(page) {
    this.page = page;
    this.body = h('div');
    this.node = drawer('Receipt', () => this.changed(), this.body);
    this.node.id = 'mt-receipt';
  }

  changed() {
    const { piece } = this.page;
    const facts = piece ? piece.facts.receipt || (piece.kind === 'take' ? piece.facts : null) : null;
    if (!facts) return this.body.replaceChildren(h('p.mt-soft', { text: 'Only pieces composed here carry a receipt.' }));
    const settings = piece.facts.receipt ? facts.settings || {} : facts;
    const rows = { Seed: facts.seed, Take: facts.take + 1, Model: facts.model, Checkpoint: (facts.checkpoint || '').slice(0, 16), Version: facts.version };
    for (const [key, value] of Object.entries({ ...settings.compose, ...settings.sampling })) if (value !== null && !['seed', 'takes'].includes(key)) rows[key.replaceAll('_', ' ')] = value;
    const answer = h('p.mt-soft', { role: 'status' });
    this.body.replaceChildren(h('dl.mt-facts', {}, ...Object.entries(rows).flatMap(([key, value]) => [h('dt', { text: key }), h('dd', { text: String(value) })])),
      h('button.mt-button', { type: 'button', text: 'Compose it again and compare', onclick: () => this.again(piece, answer) }), answer);
  }

  async again(piece, answer) {
    answer.textContent = 'Composing it again';
    try {
      const { same, bytes, took } = await this.page.api.send(`/pieces/${piece.id}/recreate`, 'POST');
      answer.textContent = `${same ? 'Every byte is the same' : 'It came out differently'}: ${bytes.toLocaleString('en')} bytes, made in ${took} s.`;
    } catch (error) {
      answer.textContent = error.message;
    }
  }
}

/** The text alternative to the roll: notes from the playhead on. */
export class NoteText {
  constructor(page) {
    this.page = page;
    this.list = h('ol.mt-notes-text', { tabindex: 0, 'aria-label': 'Notes from the playhead on' });
    const again = h('button.mt-button', { type: 'button', text: 'From the playhead', onclick: () => this.changed() });
    this.node = drawer('Notes as text', () => this.changed(), again, this.list);
  }

  changed() {
    if (!this.node.open) return;
    const { notes, playhead } = this.page.roll;
    const first = notes.from(playhead - 0.01);
    const rows = [];
    for (let i = first; i < Math.min(notes.count, first + 100); i++) {
      const part = notes.part[i] ? ', new' : '';
      rows.push(h('li', { text: `${clock(notes.start[i])} ${pitchName(notes.pitch[i])} for ${(notes.end[i] - notes.start[i]).toFixed(2)} s, loudness ${notes.velocity[i]}${part}` }));
    }
    this.list.replaceChildren(...(rows.length ? rows : [h('li', { text: 'No note follows.' })]));
  }
}
