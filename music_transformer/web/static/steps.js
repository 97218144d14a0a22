// How it works: one token's way through the model, step by step, in the model's own numbers.

import { make } from "./arcs_pane.js";
import { STYLE } from "./arcs_style.js";

const LOOK = `
.steps ol { list-style: none; margin: 0; padding: 0; display: grid; gap: 12px; }
.steps li { border: 1px solid var(--line); border-radius: 12px; background: var(--paper); padding: 12px 16px; min-width: 0; }
.steps h3 { margin: 0 0 2px; font-size: 15px; color: var(--ink); } .steps p { margin: 0 0 8px; color: var(--soft); max-width: 100ch; font-size: 13.5px; }
.steps .vector { display: grid; grid-template-columns: 11em minmax(0, 1fr); align-items: center; gap: 2px 12px; margin: 4px 0; font-size: 13px; }
.steps .vector canvas { position: static; width: 100%; height: 16px; border-radius: 3px; image-rendering: pixelated; }
.steps .numbers { grid-column: 2; font: 12px ui-monospace, monospace; color: var(--soft); overflow: hidden; text-overflow: ellipsis; white-space: nowrap; }
.steps .words { display: flex; flex-wrap: wrap; gap: 4px; margin: 6px 0; }
.steps .grid { overflow: auto; max-height: 420px; } .steps .grid table { width: auto; border-collapse: separate; border-spacing: 1px; font: 11px ui-monospace, monospace; }
.steps .grid th, .steps .grid td { border: 0; padding: 1px 4px; text-align: right; white-space: nowrap; } .steps .grid .now { outline: 2px solid var(--accent); }
.steps .grid th[scope="col"] { writing-mode: vertical-rl; transform: rotate(180deg); padding: 4px 1px; text-align: left; vertical-align: bottom; max-height: 12em; }
.steps .three { display: flex; flex-wrap: wrap; gap: 14px 26px; margin-top: 6px; } .steps .three .grid { max-width: 100%; max-height: none; }
.steps .grid caption { padding: 2px 0 6px; font: 13px system-ui, sans-serif; color: var(--ink); }
.steps .bars { display: grid; grid-template-columns: max-content minmax(0, 1fr) max-content; gap: 3px 10px; align-items: center; font-size: 13px; }
.steps .bars i { display: block; height: 12px; border-radius: 3px; background: var(--accent); min-width: 1px; }
.steps .bars b { font-weight: 500; font-family: ui-monospace, monospace; } `;

const short = (v) => (v === null ? "−∞" : v === 0 ? "0" : Math.abs(v) >= 100 ? v.toFixed(0) : v.toFixed(2));

// Blue below zero, orange above, paler the smaller; the two are told apart by the colour-blind.
function tint(value, most) {
  if (value === null) return "transparent";
  const share = Math.min(1, Math.abs(value) / (most || 1)), color = value < 0 ? "0, 114, 178" : "213, 94, 0";
  return `rgba(${color}, ${(0.04 + 0.9 * share).toFixed(3)})`;
}

function vector(name, values) {
  const canvas = make("canvas", { width: values.length, height: 1, role: "img", "aria-label": `${name}: ${values.length} numbers` });
  const pen = canvas.getContext("2d"), most = Math.max(...values.map(Math.abs));
  values.forEach((v, i) => { pen.fillStyle = tint(v, most); pen.fillRect(i, 0, 1, 1); });
  const said = `${values.slice(0, 10).map(short).join("  ")}${values.length > 10 ? ` … (${values.length} numbers)` : ""}`;
  return make("div", { class: "vector" }, make("span", { text: name }), canvas, make("span", { class: "numbers", text: said }));
}

function matrix(caption, rows, labels, now) {
  const most = Math.max(...rows.flat().map((v) => Math.abs(v ?? 0)));
  const head = make("tr", {}, make("th"), ...labels.map((l) => make("th", { scope: "col", text: l, title: l })));
  const body = rows.map((row, i) => make("tr", i === now ? { class: "now" } : {}, make("th", { scope: "row", text: labels[i], title: labels[i] }),
    ...row.map((v) => make("td", { text: short(v), style: `background:${tint(v, most)}` }))));
  return make("div", { class: "grid" }, make("table", {}, make("caption", { text: caption }), head, ...body));
}

function bars(rows) {
  const most = Math.max(...rows.map((r) => r[1]));
  return make("div", { class: "bars" }, ...rows.flatMap(([name, share, said]) => [make("b", { text: name }), make("i", { style: `width:${(100 * share) / most}%` }), make("span", { text: said })]));
}

const step = (number, title, words, ...parts) => make("li", {}, make("h3", { text: `${number}. ${title}` }), make("p", { text: words }), ...parts);

class Steps {
  constructor(element) {
    Object.assign(this, { element, base: element.dataset.base, position: -1, layer: 0, head: 0 });
  }

  async get(path, body) {
    const how = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
    const answer = await fetch(this.base + path, { credentials: "same-origin", ...how }), said = await answer.json();
    if (!answer.ok) throw new Error(said.error || said.detail || `the server answered ${answer.status}`);
    return said;
  }

  async open() {
    this.facts = await this.get("/steps");
    if (!document.getElementById("steps-style")) document.head.append(make("style", { id: "steps-style", text: STYLE + LOOK }));
    const kinds = [["text", "a text"], ["music", "a piece"]].filter(([k]) => this.facts.models[k].length);
    const select = (label, rows, act) => make("select", { "aria-label": label, onchange: act }, ...rows.map(([value, text]) => make("option", { value, text })));
    this.kind = select("Music or text", kinds, () => this.choose());
    this.model = make("select", { "aria-label": "Model", onchange: () => this.restart() });
    this.sample = select("Piece", Object.entries(this.facts.samples), () => this.restart());
    this.text = make("textarea", { rows: 2, maxlength: 2000, "aria-label": "Text", onchange: () => this.restart() });
    this.text.value = "The old man gave the child a coin because he was";
    this.line = make("div", { class: "bar textline" }, this.text);
    this.tokens = make("div", { class: "words", role: "group", "aria-label": "Tokens" });
    this.layers = make("span", { class: "segs" });
    this.heads = make("span", { class: "segs" });
    this.live = make("p", { role: "status", "aria-live": "polite" });
    this.list = make("ol");
    const named = (text, control) => make("label", { class: "group" }, make("span", { class: "name", text }), control);
    this.element.classList.add("arcs", "steps");
    this.element.replaceChildren(make("div", { class: "bar" }, named("Walk through", this.kind), named("model", this.model), this.sample, named("Layer", this.layers), named("Head", this.heads)), this.line,
      make("p", { text: "Choose a token; the model's numbers at that place are followed to the prediction of the token after it." }), this.tokens, this.live, this.list);
    await this.choose();
  }

  choose() {
    const kind = this.kind.value;
    this.model.replaceChildren(...this.facts.models[kind].map((value) => make("option", { value, text: value })));
    this.line.hidden = kind !== "text";
    this.sample.hidden = kind !== "music";
    return this.restart();
  }

  restart() {
    Object.assign(this, { position: -1, layer: 0, head: 0, inventory: null });
    return this.show();
  }

  async show() {
    const kind = this.kind.value, model = this.model.value, { position, layer, head } = this;
    this.live.textContent = "Computing …";
    try {
      this.found = await this.get("/steps", { kind, model, text: this.text.value, sample: this.sample.value, position, layer, head });
      this.inventory ||= await this.get(`/steps/inventory/${kind}/${encodeURIComponent(model)}`);
      this.live.textContent = "";
      this.draw();
      this.element.dataset.ready = "1";
    } catch (error) {
      this.live.textContent = error.message;
    }
  }

  pick(name, value) {
    this[name] = value;
    return this.show();
  }

  draw() {
    const { walk, labels, shape } = this.found;
    const seg = (name, i, text) => make("button", { type: "button", class: "seg", text, "aria-pressed": String(walk[name] === i), onclick: () => this.pick(name, i) });
    this.layers.replaceChildren(...Array.from({ length: shape.layers }, (_, i) => seg("layer", i, i)));
    this.heads.replaceChildren(...Array.from({ length: shape.heads }, (_, i) => seg("head", i, i)));
    this.tokens.replaceChildren(...labels.map((l, i) => Object.assign(seg("position", i, l), { className: "seg act" })));
    this.list.replaceChildren(...this.steps());
  }

  steps() {
    const { walk, labels, next, shape, about, matrices } = this.found, e = walk.embedding, a = walk.attention, m = walk.mlp, o = walk.output, at = labels[walk.position];
    const seen = labels.slice(0, walk.position + 1), strongest = seen.map((l, i) => [`${i} ${l}`, a.weights[i], `${(100 * a.weights[i]).toFixed(1)} %`]).sort((x, y) => y[1] - x[1]).slice(0, 8);
    const where = { learned: "The table of positions adds the place.", rotary: "No position is added here: q and k are turned by an angle that grows with the place.", relative: "No position is added here: the scores get a term for the distance.", none: "This model is told no positions." }[e.scheme];
    return [
      step(1, "Embedding", `“${at}” is id ${walk.ids[walk.position]}; its row of the table has ${shape.width} numbers. ${where}${e.normed ? " Then the vector is normed." : ""}`,
        vector("token", e.token), ...(e.position ? [vector("+ position", e.position)] : []), vector("= enters block 0", e.stream)),
      step(2, `Queries, keys, values (block ${walk.layer})`, `The stream is normed and multiplied by one matrix into q, k and v for all ${shape.heads} heads at once; head ${walk.head} has ${shape.head_size} numbers of each.${about.qk_norm ? " q and k are normed." : ""}`,
        vector("stream", a.stream), vector("normed", a.normed), vector("q", a.q), vector("k", a.k), vector("v", a.v)),
      step(3, "Scores, mask, softmax", `q meets every k: products divided by √${shape.head_size} = ${a.divisor.toFixed(2)}; what lies ahead becomes −∞; softmax makes weights that sum to 1. “${at}” looks most at:`, bars(strongest),
        make("details", {}, make("summary", { text: "The whole matrix of this head" }), make("div", { class: "three" },
          matrix("scaled scores", matrices.scaled, labels, walk.position), matrix("masked", matrices.masked, labels, walk.position), matrix("after softmax", matrices.weights, labels, walk.position)))),
      step(4, "Weighted sum, merge, projection", "The values, weighted and added, are this head's output. All heads side by side make one vector again; a matrix mixes them, and the result is added to the stream.",
        vector(`head ${walk.head}`, a.head_output), vector("all heads merged", a.merged), vector("projected", a.projected)),
      step(5, "MLP", `Normed again, widened to ${m.inner.length}, passed through ${about.activation}, narrowed, and added to the stream.`, vector("normed", m.normed), vector("widened", m.inner), vector("narrowed", m.out), vector("stream after the block", m.stream)),
      step(6, "The next token", `After ${shape.layers} blocks and a last norm, the vector meets a row for every id: logits. Softmax makes them probabilities; these ids lead, the others share ${(100 * o.rest).toFixed(1)} %.`,
        vector("normed", o.normed), bars(o.ids.map((id, i) => [next[i], o.probabilities[i], `${(100 * o.probabilities[i]).toFixed(1)} %  (logit ${o.logits[i].toFixed(2)}, id ${id})`]))),
      this.weights(),
    ];
  }

  weights() {
    const { groups, total, tied } = this.inventory, say = (n) => n.toLocaleString("en");
    const rows = groups.map((g) => make("tr", {}, make("td", { text: g.where }), make("td", { text: g.tensors.map((t) => `${t.name} ${t.shape.join("×")}`).join(", ") }), make("td", { text: say(g.count) })));
    rows.push(make("tr", {}, make("th", { scope: "row", text: "together" }), make("td", { text: tied ? "the output's matrix is the embedding's, counted once" : "" }), make("th", { class: "total", text: say(total) })));
    return step(7, "Where the weights are", `All that was learned: ${say(total)} numbers.`, make("div", { class: "rows" }, make("table", {}, make("tbody", {}, ...rows))));
  }
}

export function mount(element) {
  return new Steps(element).open().catch((error) => element.replaceChildren(make("p", { text: error.message })));
}
