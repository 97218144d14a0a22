// Arcs, the door: mount(element) fills the app's tab; openPage(element, data) a page that carries everything along.

import { readPack } from "./arcs_data.js";
import { make } from "./arcs_pane.js";
import { ArcsView } from "./arcs_view.js";

const rowsOf = (manifest, view) => (view === "heads" ? manifest.model.heads : 1);

// An exported page: data = {manifest, packs: {"heads 3": base64}, layer, asked, query}.
export function openPage(element, data) {
  document.documentElement.classList.toggle("dark", matchMedia("(prefers-color-scheme: dark)").matches);
  const getPack = async (view, layer) => {
    const bytes = Uint8Array.from(atob(data.packs[`${view} ${layer}`]), (c) => c.charCodeAt(0));
    return readPack(bytes.buffer, rowsOf(data.manifest, view), data.manifest.tokens.labels.length);
  };
  return new ArcsView(element, [{ manifest: data.manifest, getPack }], { layers: [data.layer], asked: data.asked, query: data.query }).ready;
}

async function fetched(base, path, body) {
  const how = body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {};
  const answer = await fetch(base + path, { credentials: "same-origin", ...how });
  if (answer.ok) return answer;
  const said = await answer.json().catch(() => ({}));
  throw new Error(said.error || said.detail || `the server answered ${answer.status}`);
}

class Tab {
  constructor(element) {
    this.element = element;
    this.base = element.dataset.base;
    this.serial = 0;
  }

  async open() {
    const facts = await (await fetched(this.base, "/attention")).json();
    this.models = facts.models;
    this.samples = facts.samples;
    this.build();
    await this.listPieces();
    document.addEventListener("mt:piece", (e) => this.listPieces(e.detail?.id));
    await this.look();
  }

  build() {
    const option = ({ value, text }) => make("option", { value, text });
    this.what = make("select", { "aria-label": "Music or text", onchange: () => this.switchKind() }, ...[["music", "a piece"], ["text", "a text"]].filter(([k]) => this.models[k].length).map(([value, text]) => option({ value, text })));
    this.piece = make("select", { "aria-label": "Piece", onchange: () => this.look() });
    this.model = make("select", { "aria-label": "Model", onchange: () => this.look() });
    this.beside = make("select", { "aria-label": "Beside it", onchange: () => this.look() });
    this.text = make("textarea", { rows: 3, maxlength: 20000, "aria-label": "Text to look into" });
    this.text.value = "The old man gave the child a coin because he was kind. The child thanked the old man and ran home.";
    this.go = make("button", { type: "button", class: "act", text: "Look", onclick: () => this.look() });
    this.part = make("input", { type: "range", min: 0, step: 1, "aria-label": "Which part of the piece", onchange: () => this.look() });
    this.partShown = make("output");
    this.part.addEventListener("input", () => (this.partShown.textContent = `${this.part.value} s`));
    const named = (text, ...controls) => make("label", { class: "group" }, make("span", { class: "name", text }), ...controls);
    this.partLine = named("around", this.part, this.partShown);
    this.pieceLine = named("Piece", this.piece);
    this.note = make("p", { class: "note", role: "alert" });
    this.stage = make("div");
    const bar = make("div", { class: "bar" }, named("Look into", this.what), this.pieceLine, this.partLine, named("read by", this.model), named("beside", this.beside), this.go);
    this.textLine = make("div", { class: "bar textline" }, this.text);
    this.element.replaceChildren(make("div", { class: "arcs" }, bar, this.textLine, this.note), this.stage);
    this.switchKind(true);
  }

  switchKind(quiet) {
    const kind = this.what.value, names = this.models[kind];
    this.model.replaceChildren(...names.map((value) => make("option", { value, text: value })));
    this.beside.replaceChildren(...[["", "nothing"], ["layer", "another layer"], ...names.slice(1).map((n) => [n, n])].map(([value, text]) => make("option", { value, text })));
    for (const e of [this.pieceLine, this.partLine]) e.hidden = kind !== "music";
    for (const e of [this.textLine, this.go]) e.hidden = kind !== "text";
    if (!quiet) this.look();
  }

  async listPieces(chosen) {
    const pieces = await (await fetched(this.base, "/pieces")).json(), now = chosen || window.mt?.piece?.id || this.piece.value;
    this.kinds = Object.fromEntries(pieces.map((p) => [`piece ${p.id}`, p.kind]));
    const group = (label, rows) => make("optgroup", { label }, ...rows.map(([value, text]) => make("option", { value, text })));
    this.piece.replaceChildren(...(pieces.length ? [group("Your pieces", pieces.reverse().map((p) => [`piece ${p.id}`, p.name]))] : []), group("Samples", Object.entries(this.samples).map(([id, s]) => [`sample ${id}`, s])));
    const wanted = [...this.piece.options].find((o) => o.value === `piece ${now}` || o.value === now);
    if (wanted) this.piece.value = wanted.value;
    if (chosen) await this.look();
  }

  order(model) {
    if (this.what.value === "text") return ["/attention/text", { text: this.text.value, model }];
    const [kind, id] = this.piece.value.split(" "), same = this.shown === this.piece.value;
    return ["/attention/music", { [kind]: id, model, at: same ? (this.partLine.hidden ? null : Number(this.part.value)) : this.opening() }];
  }

  // A piece opens at its beginning, a take where it was composed: null is the end.
  opening() {
    return this.kinds[this.piece.value] === "take" ? null : 0;
  }

  async source(model, title) {
    const [path, body] = this.order(model), { id, manifest } = await (await fetched(this.base, path, body)).json();
    const getPack = async (view, layer) => readPack(await (await fetched(this.base, `/attention/${id}/${view}/${layer}`)).arrayBuffer(), rowsOf(manifest, view), manifest.tokens.labels.length);
    return { id, manifest, getPack, title: title || manifest.model.name };
  }

  async look() {
    const serial = ++this.serial, beside = this.beside.value;
    this.note.textContent = "Reading …";
    try {
      const first = await this.source(this.model.value), sources = [first];
      if (beside === "layer") sources.push({ ...first });
      else if (beside) sources.push(await this.source(beside));
      if (serial !== this.serial) return;
      this.note.textContent = "";
      this.choosePart(first.manifest);
      this.shown = this.piece.value;
      const layers = first.manifest.model.layers, host = make("div");
      this.stage.replaceChildren(host);
      this.view?.player?.stop();
      const pageUrl = `${this.base}/attention/${first.id}/page`;
      this.view = new ArcsView(host, sources, { pageUrl, layers: beside === "layer" ? [Math.floor(layers / 3), layers - 1] : [] });
      await this.view.ready;
    } catch (error) {
      if (serial === this.serial) this.note.textContent = error.message;
    }
  }

  // A piece longer than the model's window is looked at in parts.
  choosePart(manifest) {
    this.partLine.hidden = manifest.kind !== "music" || manifest.whole === manifest.tokens.labels.length;
    if (this.shown === this.piece.value) return;
    this.part.max = Math.ceil(manifest.seconds);
    this.part.value = this.opening() ?? Math.ceil(manifest.seconds);
    this.partShown.textContent = `${this.part.value} s`;
  }
}

export function mount(element) {
  return new Tab(element).open().catch((error) => element.replaceChildren(make("p", { class: "arcs live", text: error.message })));
}
