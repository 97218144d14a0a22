// The settings of a composition: length, takes, mood, and behind "Advanced" the sampler's own numbers.

import { h } from './dom.js';

const REMEMBERED = 'mt-settings';
const ADVANCED = [
  ['temperature', 'Temperature', 0.01, 2],
  ['top_k', 'Top-k', 1, 391],
  ['top_p', 'Top-p', 0.01, 1],
  ['min_p', 'Min-p', 0.01, 0.5],
];

export class Form {
  /** `config` is the answer of /config: fields with help and range, presets. */
  constructor(config) {
    this.config = config;
    const start = { model: config.models[0], seconds: config.fields.seconds.default, takes: 1, preset: config.preset, seed: '', own: {} };
    this.values = { ...start, ...recall() };
    if (!config.models.includes(this.values.model)) this.values.model = config.models[0];
    if (!config.presets[this.values.preset]) this.values.preset = config.preset;
    this.node = h('div.mt-form', {}, this.length(), this.takes(), this.presets(), config.models.length > 1 ? this.models() : null);
    this.advancedNode = this.advanced();
  }

  /** What an order needs; an unset seed is left to the server. */
  order() {
    const { seconds, takes, preset, model, seed, own } = this.values;
    const order = { seconds, takes, preset, model, ...own };
    if (seed !== '') order.seed = Number(seed);
    return order;
  }

  set(values) {
    Object.assign(this.values, values);
    try {
      localStorage.setItem(REMEMBERED, JSON.stringify(this.values));
    } catch {
      // a browser that keeps nothing starts with the defaults next time
    }
  }

  length() {
    const shown = h('output.mt-value');
    const show = () => (shown.textContent = `${this.values.seconds} s`);
    const input = h('input', {
      type: 'range', min: 5, max: 120, step: 5, value: this.values.seconds, id: 'mt-seconds', title: this.config.fields.seconds.help,
      oninput: (e) => (this.set({ seconds: Number(e.target.value) }), show()),
    });
    show();
    return h('div.mt-field', {}, h('label', { for: 'mt-seconds', text: 'Length' }), h('div.mt-slider', {}, input, shown));
  }

  takes() {
    return this.choice('Takes', [1, 2, 3, 4].map((n) => [n, String(n)]), 'takes', this.config.fields.takes.help);
  }

  presets() {
    const names = Object.keys(this.config.presets).map((name) => [name, name[0].toUpperCase() + name.slice(1)]);
    return this.choice('Mood', names, 'preset', 'how adventurous the music is', () => {
      this.set({ own: {} });
      this.showAdvanced();
    });
  }

  models() {
    return this.choice('Model', this.config.models.map((name) => [name, name]), 'model', 'which model composes: each has learned from other music', () => this.onmodel?.(this.values.model));
  }

  /** A row of buttons of which one is chosen. */
  choice(label, options, key, help, changed = () => {}) {
    const row = h('div.mt-segments', { role: 'radiogroup', 'aria-label': label, title: help });
    for (const [value, text] of options) {
      const input = h('input', { type: 'radio', name: `mt-${key}`, value, checked: this.values[key] === value, onchange: () => (this.set({ [key]: value }), changed()) });
      row.append(h('label', {}, input, h('span', { text })));
    }
    return h('div.mt-field', {}, h('span.mt-label', { text: label }), row);
  }

  advanced() {
    this.inputs = {};
    const rows = ADVANCED.map(([key, label, step, high]) => {
      const shown = h('output.mt-value');
      const field = this.config.fields[key];
      const input = h('input', {
        type: 'range', id: `mt-${key}`, min: field.low ?? 0, max: high, step,
        oninput: (e) => (this.set({ own: { ...this.values.own, [key]: Number(e.target.value) } }), this.showAdvanced()),
      });
      this.inputs[key] = [input, shown];
      return h('div.mt-field', {}, h('label', { for: `mt-${key}`, text: label, title: field.help }), h('div.mt-slider', {}, input, shown), h('small', { text: field.help }));
    });
    const seed = h('input.mt-input', {
      type: 'number', min: 0, max: 2 ** 53, step: 1, id: 'mt-seed', placeholder: 'a new one each time', value: this.values.seed,
      oninput: (e) => this.set({ seed: e.target.value === '' || !e.target.validity.valid ? '' : e.target.value }),
    });
    rows.push(h('div.mt-field', {}, h('label', { for: 'mt-seed', text: 'Seed' }), seed, h('small', { text: this.config.fields.seed.help })));
    const node = h('div.mt-advanced', {}, ...rows);
    this.showAdvanced();
    return node;
  }

  showAdvanced() {
    const now = { ...this.config.presets[this.values.preset], ...this.values.own };
    for (const [key, [input, shown]] of Object.entries(this.inputs)) {
      input.value = now[key];
      shown.textContent = key === 'top_k' ? (now[key] === 0 ? 'off' : now[key]) : now[key].toFixed(2);
    }
  }
}

function recall() {
  try {
    return JSON.parse(localStorage.getItem(REMEMBERED)) || {};
  } catch {
    return {};
  }
}
