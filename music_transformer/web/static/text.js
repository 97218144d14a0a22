// The Text tab: type, see the ten likeliest next tokens over the whole vocabulary, click one, undo, branch, complete.
import { Api, h } from './dom.js';
import { addStyle } from './text_style.js';
import { TokenTree } from './text_tree.js';

const SLIDERS = [
  ['temperature', 'Temperature', 0.05, 3],
  ['top_k', 'Top-k', 1, 200],
  ['top_p', 'Top-p', 0.01, 1],
  ['min_p', 'Min-p', 0.01, 0.5],
  ['repetition_penalty', 'Repetition penalty', 0.05, 2],
];
const START = 'The old man looked at the sea and';
const WAIT = 250; // milliseconds after the last key before the text is read

export function mount(element) {
  addStyle();
  const tab = new TextTab(element);
  tab.start().catch((error) => tab.complain(error));
}

class TextTab {
  constructor(element) {
    this.root = element;
    this.api = new Api(element.dataset.base);
    this.tree = new TokenTree();
    this.turn = 0;
  }

  async start() {
    this.choices = await this.api.json('/text');
    this.sampling = Object.fromEntries(SLIDERS.map(([key]) => [key, this.choices.fields[key].default]));
    this.draw();
    if (!this.choices.models.length) throw new Error('No text model is here yet. Train one with gpt-core train, or import GPT-2; then start the app with MUSIC_TRANSFORMER_MORE_MODELS set to its folder.');
    await this.read();
  }

  draw() {
    this.model = h('select.mt-select', { id: 'mt-text-model', 'aria-label': 'Model', onchange: () => this.reset() });
    for (const name of this.choices.models) this.model.append(h('option', { value: name, text: name }));
    this.text = h('textarea.mt-input.mt-text-area', { id: 'mt-text-prompt', rows: 4, spellcheck: 'false', 'aria-label': 'Text', oninput: () => this.typed() });
    this.text.value = START;
    this.notice = h('div.mt-notice', { hidden: true, role: 'status' });
    this.tokens = h('div.mt-tokens', { id: 'mt-text-tokens', 'aria-label': 'Tokens of the text' });
    this.next = h('div.mt-next', { id: 'mt-text-next', role: 'list', 'aria-label': 'The likeliest next tokens' });
    this.branches = h('div.mt-branches', { id: 'mt-text-branches' });
    this.lens = h('div.mt-lens', { id: 'mt-text-lens' });
    this.output = h('div.mt-outputs', { id: 'mt-text-output' });
    this.told = h('div.mt-notice', { hidden: true, role: 'status' });
    const main = h('div.mt-main', {}, this.card('Text', this.text, this.buttons(), this.notice, this.tokens, this.branches), this.completer());
    const aside = h('aside.mt-card.mt-aside', {}, h('h2', { text: 'Next token' }), this.next, this.sliders(), this.layers());
    this.root.replaceChildren(h('div.mt-layout.mt-text', {}, main, aside));
  }

  card(title, ...children) {
    return h('section.mt-card.mt-compose', {}, h('h2.mt-title', { text: title }), ...children);
  }

  button(id, text, help, onclick, complain = (error) => this.complain(error)) {
    return h('button.mt-button', { id, text, title: help, type: 'button', onclick: () => onclick().catch(complain) });
  }

  buttons() {
    this.greedyButton = this.button('mt-text-greedy', 'Run greedy', 'take the likeliest token again and again; click again to stop', () => this.greedy());
    return h(
      'div.mt-source', {}, this.model,
      this.button('mt-text-undo', 'Undo', 'take back the last token', () => (this.tree.undo(), this.read())),
      this.button('mt-text-step', 'Take the likeliest', 'append the first of the list', async () => this.found.length && this.append(this.found[0].chip)),
      this.greedyButton,
    );
  }

  sliders() {
    const rows = SLIDERS.map(([key, label, step, high]) => {
      const field = this.choices.fields[key];
      const shown = h('output.mt-value', { text: String(this.sampling[key]) });
      const input = h('input', {
        type: 'range', id: `mt-text-${key}`, min: field.low ?? 0, max: high, step, value: this.sampling[key],
        oninput: (e) => {
          this.sampling[key] = Number(e.target.value);
          shown.textContent = e.target.value;
          this.rescore().catch((error) => this.complain(error));
        },
      });
      input.value = this.sampling[key];
      return h('div.mt-field', {}, h('label', { for: input.id, text: label, title: field.help }), h('div.mt-slider', {}, input, shown));
    });
    return h('div.mt-form', {}, ...rows);
  }

  layers() {
    const open = h('details.mt-more', { ontoggle: () => open.open && this.showLens().catch((e) => this.complain(e)) }, h('summary', { text: 'What each layer would say' }), this.lens);
    this.lensBox = open;
    return open;
  }

  completer() {
    this.length = h('input.mt-input', { id: 'mt-text-length', type: 'number', min: 1, max: 1000, value: this.choices.complete.max_new, 'aria-label': 'Tokens' });
    this.takes = h('input.mt-input', { id: 'mt-text-takes', type: 'number', min: 1, max: 4, value: 1, 'aria-label': 'Takes' });
    this.seed = h('input.mt-input', { id: 'mt-text-seed', type: 'number', min: 0, value: 0, 'aria-label': 'Seed' });
    this.stop = h('input.mt-input', { id: 'mt-text-stop', placeholder: 'end before this', 'aria-label': 'Stop string' });
    const fields = [['Tokens', this.length], ['Takes', this.takes], ['Seed', this.seed], ['Stop', this.stop]];
    const row = h('div.mt-form', {}, ...fields.map(([text, input]) => h('div.mt-field', {}, h('label', { for: input.id, text }), input)));
    const complain = (error) => (this.output.replaceChildren(), tell(this.told, error.message, true));
    this.go = this.button('mt-text-go', 'Complete', 'let the model go on after the last token; click again to stop', () => this.complete(), complain);
    return this.card('Completion', row, this.go, this.told, this.output);
  }

  order(more = {}) {
    return { model: this.model.value, text: this.text.value, appended: this.tree.ids(), sampling: this.sampling, ...more };
  }

  typed() {
    this.tree = new TokenTree();
    this.forget();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.read().catch((e) => this.complain(e)), WAIT);
  }

  /** What was written belongs to another text or model. */
  forget() {
    if (this.aborter) this.aborter.abort();
    this.output.replaceChildren();
    tell(this.told, '');
  }

  reset() {
    this.tree = new TokenTree();
    this.forget();
    return this.read().catch((e) => this.complain(e));
  }

  /** Ask; an answer that a later question has overtaken is dropped. */
  async ask(path) {
    const mine = ++this.turn;
    const answer = await this.api.send(path, 'POST', this.order());
    return mine === this.turn ? answer : null;
  }

  async read() {
    const answer = await this.ask('/text/read');
    if (!answer) return;
    this.say(answer.notices.join(' '));
    this.tokens.replaceChildren(...answer.tokens.map((token, n) => this.token(token, n >= answer.prompt)));
    this.showNext(answer.next);
    this.showBranches();
    if (this.lensBox.open) await this.showLens();
  }

  async rescore() {
    const answer = await this.ask('/text/next');
    if (answer) this.showNext(answer.next);
  }

  token({ chip, nats, rank, likeliest }, appended) {
    const told = nats === null ? '' : `${nats.toFixed(2)} nats, rank ${rank}; likeliest was ${likeliest.label} (id ${likeliest.id})`;
    const node = h('span.mt-token', { title: `id ${chip.id}; ${told}`, 'data-id': chip.id, 'data-kind': chip.kind }, h('b', { text: chip.label }), h('i', { text: nats === null ? '' : nats.toFixed(1) }));
    if (appended) node.classList.add('mt-appended');
    node.style.setProperty('--surprise', Math.min(1, (nats || 0) / 10).toFixed(2));
    return node;
  }

  showNext(found) {
    this.found = found;
    this.next.replaceChildren(
      ...found.map((c) => {
        const share = (100 * c.probability).toFixed(2);
        const drawn = c.kept ? `drawn ${(100 * c.drawn).toFixed(2)} %` : 'left out by the settings';
        const bar = h('span.mt-bar', {}, h('i'));
        bar.firstChild.style.width = `${100 * c.probability}%`;
        return h(
          'button.mt-candidate' + (c.kept ? '' : '.mt-left-out'),
          { type: 'button', role: 'listitem', 'data-id': c.chip.id, title: `id ${c.chip.id}; ${drawn}`, onclick: () => this.append(c.chip).catch((e) => this.complain(e)) },
          h('b', { text: c.chip.label }), h('span.mt-value', { text: `${share} %` }), h('small.mt-soft', { text: c.kept ? `→ ${(100 * c.drawn).toFixed(1)} %` : '→ –' }), bar,
        );
      }),
    );
  }

  async append(chip) {
    this.tree.append(chip.id, chip.label);
    await this.read();
  }

  showBranches() {
    const ends = this.tree.leaves();
    this.branches.hidden = ends.length < 2;
    this.branches.replaceChildren(
      h('span.mt-label', { text: 'Branches' }),
      ...ends.map((end) => h('button.mt-chip', { type: 'button', text: this.tree.label(end), 'aria-checked': String(end === this.tree.at), onclick: () => (this.tree.go(end), this.read().catch((e) => this.complain(e))) })),
    );
  }

  async greedy() {
    this.running = !this.running;
    this.greedyButton.textContent = this.running ? 'Stop' : 'Run greedy';
    for (let n = 0; this.running && n < 40 && this.found.length; n++) await this.append(this.found[0].chip);
    this.running = false;
    this.greedyButton.textContent = 'Run greedy';
  }

  async showLens() {
    const { layers } = await this.api.send('/text/lens', 'POST', this.order());
    this.lens.replaceChildren(
      ...layers.map((row) => h('div.mt-lens-row', {}, h('span.mt-label', { text: row.layer ? `after block ${row.layer}` : 'embedding' }), ...row.chips.map((chip, n) => h('span.mt-token', { title: `id ${chip.id}: ${(100 * row.probabilities[n]).toFixed(2)} %` }, h('b', { text: chip.label }), h('i', { text: `${(100 * row.probabilities[n]).toFixed(0)} %` }))))),
    );
  }

  async complete() {
    if (this.aborter) {
      this.aborter.abort();
      return;
    }
    this.aborter = new AbortController();
    this.go.textContent = 'Stop';
    this.output.replaceChildren();
    tell(this.told, '');
    const outputs = [];
    let begun = '';
    const hear = (line) => {
      if (line.error) throw new Error(line.error);
      if (line.notice) return tell(this.told, line.notice);
      if (line.begun !== undefined) return (begun = line.begun);
      if (!outputs[line.take]) outputs[line.take] = h('p.mt-output', {}, h('span.mt-soft', { text: begun }), h('span', { 'data-take': line.take }));
      const written = outputs[line.take].lastChild;
      written.textContent += line.text;
      if (line.finished === 'end') outputs[line.take].append(h('span.mt-soft', { text: written.textContent ? ' ■' : '■ the model ended the text at once', title: 'the model ended the text here' }));
      this.output.replaceChildren(...outputs.filter(Boolean));
    };
    const stop = this.stop.value ? [this.stop.value] : [];
    const more = { max_new: Number(this.length.value), takes: Number(this.takes.value), seed: Number(this.seed.value), stop };
    try {
      await this.api.stream('/text/complete', this.order(more), hear, this.aborter.signal);
    } catch (error) {
      if (error.name !== 'AbortError') throw error;
    } finally {
      this.aborter = null;
      this.go.textContent = 'Complete';
    }
  }

  say(line) {
    tell(this.notice, line);
  }

  complain(error) {
    if (!this.notice) return this.root.replaceChildren(h('div.mt-notice.mt-bad', { text: error.message }));
    for (const stale of [this.tokens, this.next, this.branches, this.lens]) stale.replaceChildren();
    this.found = [];
    tell(this.notice, error.message, true);
  }
}

function tell(notice, line, bad = false) {
  notice.hidden = !line;
  notice.textContent = line;
  notice.classList.toggle('mt-bad', bad);
}
