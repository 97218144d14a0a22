// Composing: sends the order, shows and plays what comes while it comes, keeps what exists at the end or after Stop.

import { clock, h, icon } from './dom.js';
import { LiveTake, Notes } from './notes.js';

const LEAD_IN = 3; // seconds of the piece heard before its continuation begins

export class Composer {
  constructor(page) {
    this.page = page;
    this.job = null;
  }

  get busy() {
    return this.job !== null;
  }

  /** The one big button. */
  press() {
    return this.busy ? this.stop() : this.start({ at: this.page.roll.place });
  }

  /** Compose the marked region anew. */
  rewrite() {
    const region = this.page.roll.region;
    if (region && this.page.piece && !this.busy) return this.start({ at: round(region[0]), until: round(Math.min(region[1], this.page.roll.length)) });
  }

  async start({ at = null, until = null }) {
    const { page } = this;
    page.say('');
    page.explorer.close();
    const from = page.piece;
    const job = (this.job = { abort: new AbortController(), lives: [], take: 0, from, until, pieces: [] });
    this.show();
    page.el.welcome.hidden = true;
    if (from) this.leadIn(at ?? page.roll.notes.length);
    else page.player.wake().catch((error) => page.say(error.message, true)); // inside the click, where browsers allow sound
    const order = { ...page.form.order(), piece: from?.id, at, until };
    try {
      await page.api.stream('/compose', order, (message) => this.hear(job, message), job.abort.signal);
      await job.finished;
    } catch (error) {
      if (error.name !== 'AbortError') page.say(error.message, true);
    } finally {
      if (this.job === job) this.job = null;
      page.el.bar.style.width = '0';
      if (!job.summary) page.el.progress.textContent = '';
      page.showPiece();
      if (!job.summary) await page.choose(from, { stay: true }); // nothing came: the piece stands as it was
    }
  }

  /** Play the last seconds before the join while the model reads the piece. */
  leadIn(join) {
    const { player, roll } = this.page;
    player.give(roll.notes.before(join), null, join);
    this.sound(Math.max(0, join - LEAD_IN));
  }

  /** Play; a browser without sound still shows the notes. */
  sound(seconds) {
    this.page.player.play(seconds).catch((error) => this.page.say(error.message, true));
  }

  hear(job, message) {
    const acts = {
      job: () => (job.id = message.job),
      queue: () => (this.page.el.progress.textContent = waiting(message.ahead)),
      start: () => this.begin(job, message),
      notes: () => this.grow(job, message),
      done: () => (job.finished = this.finish(job, message)),
      error: () => this.page.say(message.message, true),
    };
    acts[message.type]?.();
  }

  begin(job, { join, takes, seconds }) {
    const { roll, player } = this.page;
    job.join = join;
    job.seconds = seconds;
    job.lives = Array.from({ length: takes }, () => new LiveTake(join));
    job.kept = job.from ? roll.notes.without(join, job.until ?? Infinity) : Notes.empty();
    roll.show(job.kept, { join, bars: roll.bars, view: 'keep' });
    const span = roll.wide / roll.scale;
    if (!job.from || span < 12 || span > 90) roll.scale = roll.wide / 30;
    roll.setPlace(null);
    roll.reveal(join, 0.35);
    this.chips(job);
    this.listenTo(job, 0);
    if (!player.playing) this.sound(Math.max(0, join - (job.from ? LEAD_IN : 0)));
  }

  listenTo(job, take) {
    const { roll, player } = this.page;
    job.take = take;
    const live = job.lives[take];
    roll.follow(live);
    if (job.heard !== undefined && player.playing) player.hush();
    job.heard = take;
    player.give(job.kept, live, live.done ? Infinity : live.reached);
    this.mark(take);
  }

  /** One chip for each take, to hear and see another one. */
  chips(job) {
    const chips = job.lives.map((_, i) => h('button.mt-chip', { type: 'button', role: 'radio', text: `Take ${i + 1}`, onclick: () => this.pick(job, i) }));
    this.page.el.chips.replaceChildren(...(chips.length > 1 ? chips : []));
  }

  mark(take) {
    for (const [i, chip] of [...this.page.el.chips.children].entries()) chip.setAttribute('aria-checked', String(i === take));
  }

  pick(job, take) {
    if (this.job === job) return this.listenTo(job, take);
    const piece = this.page.takes.get(job.pieces[take]);
    if (!piece) return this.page.say('This take was deleted, or it is nothing but rests.');
    this.mark(take);
    return this.page.compare(piece);
  }

  grow(job, message) {
    const { roll, player, el } = this.page;
    for (const event of message.events) job.lives[event[1]].hear(event);
    job.lives.forEach((live, i) => {
      live.reached = job.join + message.seconds[i];
      live.done = message.done[i];
    });
    const live = job.lives[job.take];
    player.frontier = live.done ? Infinity : live.reached;
    roll.keys();
    roll.paint();
    if (!player.playing) roll.reveal(live.reached, 0.9);
    const slowest = Math.min(...message.seconds);
    el.bar.style.width = `${Math.min(100, (100 * slowest) / job.seconds)}%`;
    job.rate = message.rate;
    const left = message.left === null ? '' : ` · ${Math.ceil(message.left)} s left`;
    el.progress.textContent = `${slowest.toFixed(1)} of ${job.seconds.toFixed(0)} s · ${Math.round(message.rate)} events a second${left}`;
  }

  async finish(job, { pieces, stopped }) {
    const { page } = this;
    job.pieces = pieces;
    await page.takes.load();
    const piece = page.takes.get(pieces[job.take] || pieces.find(Boolean));
    job.summary = piece ? `${stopped ? 'Stopped; what exists is kept' : 'Done'} · seed ${piece.facts.seed} · ${Math.round(job.rate || 0)} events a second` : 'Stopped before the first note';
    if (!piece) page.player.pause();
    await page.choose(piece || job.from, { stay: true });
    page.el.progress.textContent = job.summary;
    this.job = null;
  }

  stop() {
    const { job } = this;
    if (!job) return;
    this.page.el.progress.textContent = 'Stopping';
    if (job.id) this.page.api.send(`/jobs/${job.id}/stop`, 'POST').catch(() => job.abort.abort());
    else job.abort.abort();
  }

  /** What the button would do now. */
  show() {
    const { el, roll, piece } = this.page;
    const text = this.busy ? 'Stop' : piece ? (roll.place === null ? 'Continue' : `Continue from ${clock(roll.place)}`) : 'Compose';
    el.go.replaceChildren(icon(this.busy ? 'stop' : 'play'), text);
    el.go.setAttribute('aria-label', text);
    el.go.title = this.busy ? 'Stop, and keep what exists' : text;
    el.go.classList.toggle('mt-busy', this.busy);
    el.place.hidden = roll.place === null || this.busy;
    el.rewrite.hidden = !roll.region || !piece || this.busy;
    el.rewrite.textContent = roll.region ? `Rewrite ${clock(roll.region[0])} to ${clock(Math.min(roll.region[1], roll.length))}` : '';
  }
}

const round = (seconds) => Math.round(seconds * 100) / 100;

function waiting(ahead) {
  if (ahead === 0) return 'Reading the piece';
  return ahead === 1 ? 'One other piece is before yours' : `${ahead} other pieces are before yours`;
}
