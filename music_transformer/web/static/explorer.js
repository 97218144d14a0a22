// "What would come next?": the ten likeliest events at the playhead; a click appends one and the model looks again.

import { h, pitchName } from './dom.js';
import { drawer } from './layout.js';

export class Explorer {
  constructor(page) {
    this.page = page;
    this.events = []; // ids chosen so far
    this.list = h('ol.mt-next', { 'aria-label': 'The likeliest next events' });
    this.status = h('p.mt-soft', { role: 'status' });
    const act = (text, run) => h('button.mt-button', { type: 'button', text, onclick: run });
    this.back = act('Take back', () => this.takeBack());
    this.keepButton = act('Keep these notes', () => this.keep());
    this.goOn = act('Keep and go on', () => this.keep(true));
    this.node = drawer('What would come next?', () => this.open(), this.status, this.list, h('div.mt-downloads', {}, this.back, this.keepButton, this.goOn));
    this.node.id = 'mt-next';
  }

  /** Look at the playhead; the piece's end where the playhead is there. */
  open() {
    this.events = [];
    const { roll, player, piece } = this.page;
    player.pause();
    const at = Math.round(roll.playhead * 100) / 100;
    this.moment = { piece: piece?.id, model: this.page.form.values.model, at: piece && at < roll.length - 0.05 && at > 0 ? at : null };
    return this.look();
  }

  /** The playhead moved, or another piece is shown. */
  moved() {
    if (!this.node.open || this.page.composer.busy) return;
    this.asked = null; // an answer about the old place would move the playhead back
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(), 250);
  }

  close() {
    this.node.open = false;
    clearTimeout(this.timer);
    this.events = [];
    this.page.roll.setGhosts([]);
    this.page.roll.follow(null);
  }

  async look() {
    const asked = (this.asked = {});
    try {
      const answer = await this.page.api.send('/next', 'POST', { ...this.moment, events: this.events });
      if (asked === this.asked && this.node.open) this.show(answer);
    } catch (error) {
      this.list.replaceChildren();
      this.status.textContent = error.message;
    }
  }

  show({ join, seconds, events, strikes, notes }) {
    const { roll } = this.page;
    this.status.textContent = `At ${seconds.toFixed(2)} s${this.events.length ? `, ${this.events.length} events by hand` : ''}. Click what should come.`;
    this.list.replaceChildren(...events.map((event) => this.row(event)));
    roll.setGhosts(strikes.map((e) => ({ ...e, seconds })));
    roll.follow({ notes: notes.map(([pitch, start, end, velocity]) => ({ pitch, start, end, velocity })), reached: Math.max(seconds, join), done: true });
    roll.setPlayhead(seconds, true);
    for (const button of [this.back, this.keepButton, this.goOn]) button.disabled = this.events.length === 0;
  }

  row(event) {
    const share = `${(100 * event.share).toFixed(event.share < 0.1 ? 1 : 0)} %`;
    return h('li', {}, h('button.mt-next-event', { type: 'button', onclick: () => this.append(event), style: `--share:${event.share}` }, h('span', { text: words(event) }), h('small', { text: share })));
  }

  append(event) {
    this.events.push(event.id);
    if (event.text.startsWith('NOTE_ON')) this.page.player.ping(event.pitch);
    return this.look();
  }

  takeBack() {
    this.events.pop();
    return this.look();
  }

  async keep(goOn = false) {
    const { page } = this;
    await page.attempt(async () => {
      const piece = await page.api.send('/next/keep', 'POST', { ...this.moment, events: this.events });
      this.close();
      await page.takes.load();
      await page.choose(page.takes.get(piece.id));
      if (goOn) await page.composer.start({});
    });
  }
}

/** An event in a musician's words. */
function words({ text, pitch }) {
  const [kind, value] = text.split(' ');
  if (kind === 'NOTE_ON') return `strike ${pitchName(pitch)}`;
  if (kind === 'NOTE_OFF') return `release ${pitchName(pitch)}`;
  if (kind === 'TIME_SHIFT') return `wait ${value} ms`;
  if (kind === 'VELOCITY') return `loudness ${value}`;
  return 'the end';
}
