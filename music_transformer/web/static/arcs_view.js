// Arcs, the view: one question over one or two panes; toolbar, keyboard, status line, table, playback, export.

import { edges, groupsOf, percent, placeName, sentence } from "./arcs_data.js";
import { headColor } from "./arcs_draw.js";
import { make, Pane } from "./arcs_pane.js";
import { Player } from "./arcs_play.js";
import { STYLE } from "./arcs_style.js";

// What is said of music, and of text.
const WORDS = {
  music: { thing: "note", writes: "plays what it plays", plays: " Space plays," },
  text: { thing: "word", writes: "writes what it writes", plays: "" },
};
const caution = ({ writes }) => `Attention shows where a head reads from. It does not explain why the model ${writes}: values, other layers and the network between them decide along with it.`;
const keys = ({ thing, plays }) => `Keys on the picture: ← → ${thing}, ↑ ↓ layer, digits switch heads (with shift: alone), Enter locks,${plays} Esc clears.`;
const LIMITS = {
  mass: { label: "share of the weight", low: 0.05, step: 0.05, start: 0.6, show: percent },
  top_k: { label: "strongest", low: 1, step: 1, start: 8, show: String },
  threshold: { label: "weight at least", low: 0, step: 0.005, start: 0.03, show: (v) => `${(100 * v).toFixed(1)} %` },
};
const ROWS = 200; // of the table; the status line counts them all

export class ArcsView {
  // sources: one or two of {manifest, getPack, title}; options: {layers: [..], asked: [..], query, pageUrl}
  constructor(element, sources, options = {}) {
    Object.assign(this, { element, sources, options });
    const first = sources[0].manifest, layers = first.model.layers;
    this.words = WORDS[first.kind];
    this.limit = { kind: "mass", mass: LIMITS.mass.start, top_k: LIMITS.top_k.start, threshold: LIMITS.threshold.start };
    this.state = { view: "heads", direction: "looks-at", group: "note", rule: null, ...options.query };
    this.locked = [];
    this.hovered = this.playing = -1;
    this.panes = sources.map((s, i) => new Pane(s, Math.min(options.layers?.[i] ?? Math.floor(layers / 2), s.manifest.model.layers - 1), this));
    this.hide = false;
    this.ready = this.begin(options.asked);
  }

  async begin(asked) {
    this.build();
    this.setRule();
    const stops = this.stops(this.panes[0]), start = this.panes[0].manifest.start;
    if (asked?.length) this.locked = asked.map((t) => t + start);
    for (const pane of this.panes) pane.layout();
    this.watch();
    await this.refresh(true);
    if (!asked?.length && stops.length) this.hovered = this.farthest(stops) + start;
    this.answer(true);
    const here = this.asked()[0];
    if (here !== undefined) this.panes.forEach((p) => this.within(p, here) && p.reveal(this.placeIn(p, here)));
    this.element.dataset.ready = "1";
    return this;
  }

  // The view opens at the note of the later part whose arcs reach farthest back.
  farthest(stops) {
    const [pane] = this.panes, spoken = stops.filter((p) => pane.manifest.kind === "music" || /[\p{L}\p{N}]/u.test(pane.tokens.labels[p]));
    const some = spoken.length ? spoken : stops, late = some.slice(Math.floor(some.length * 0.55)), step = Math.ceil(late.length / 40);
    const reach = (place) => pane.pack && edges(pane.pack, pane.tokens, { ...pane.query(), tokens: [place] }).arcs.reduce((sum, a) => sum + a.weight ** 0.5 * Math.abs(a.query - a.key), 0);
    return late.filter((_, i) => i % step === 0).reduce((best, place) => (reach(place) > reach(best) ? place : best), late[0]);
  }

  // ---- the page's parts ----------------------------------------------------------------------------------------------

  build() {
    if (!document.getElementById("arcs-style")) document.head.append(make("style", { id: "arcs-style", text: STYLE }));
    this.controls = {};
    const music = this.sources[0].manifest.kind === "music";
    const bar = make("div", { class: "bar", role: "toolbar", "aria-label": "What the arcs show" },
      this.segments("direction", "Direction", [["looks-at", "looks at"], ["looked-at-by", "is looked at by"]]),
      this.segments("view", "Heads joined", [["heads", "per head"], ["mean", "mean"], ["max", "max"], ["rollout", "rollout"]]),
      this.limits(),
      this.check("hide", "hide first token", "rows park unused weight on the first token; what it holds is still counted", () => { this.hide = !this.hide; this.setRule(); this.refresh(true); }),
      this.check("single", music ? "single events" : "single pieces", music ? "note-on, note-off and velocity apart" : "parts of words apart", () => this.setGroup(this.state.group === "note" ? "event" : "note")));
    (this.panes.length > 1 ? bar : this.panes[0].head).append(this.actions(music));
    this.live = make("p", { class: "live", role: "status", "aria-live": "polite" });
    this.reach = make("p", { class: "quiet" });
    this.body = make("tbody");
    const columns = [...(this.panes.length > 1 ? ["view"] : []), "looks", "is looked at", "head", "weight"];
    this.table = make("details", {}, make("summary", { text: "The arcs as a table" }),
      make("div", { class: "rows" }, make("table", {}, make("caption", { text: "Shown arcs, strongest first" }), make("thead", {}, make("tr", {}, ...columns.map((c) => make("th", { scope: "col", text: c })))), this.body)));
    this.table.addEventListener("toggle", () => this.fillTable());
    const panes = make("div", { class: this.panes.length > 1 ? "panes two" : "panes" }, ...this.panes.map((p) => p.element));
    this.element.classList.add("arcs");
    this.element.replaceChildren(bar, panes, this.live, this.reach, this.table, make("p", { class: "quiet", text: caution(this.words) }), make("p", { class: "quiet", text: keys(this.words) }));
    this.element.arcs = this;
  }

  segments(name, label, choices) {
    const buttons = choices.map(([value, text]) => make("button", { type: "button", class: "seg", text, "data-value": value, onclick: () => this.choose(name, value) }));
    this.controls[name] = buttons;
    return make("span", { class: "group", role: "group", "aria-label": label }, make("span", { class: "segs" }, ...buttons));
  }

  limits() {
    const kind = make("select", { "aria-label": "Which arcs are shown", onchange: (e) => { this.limit.kind = e.target.value; this.setRule(); this.refresh(true); } },
      ...Object.entries(LIMITS).map(([value, l]) => make("option", { value, text: l.label })));
    const range = make("input", { type: "range", "aria-label": "How many arcs", oninput: (e) => { this.limit[this.limit.kind] = Number(e.target.value); this.setRule(); this.refresh(true); } });
    const shown = make("output");
    Object.assign(this.controls, { kind, range, shown });
    return make("span", { class: "group" }, make("span", { class: "name", text: "Show" }), kind, range, shown);
  }

  check(name, text, title, act) {
    const box = make("input", { type: "checkbox", onchange: act });
    this.controls[name] = box;
    return make("label", { class: "group", title }, box, text);
  }

  actions(music) {
    const button = (name, text, title, act) => (this.controls[name] = make("button", { type: "button", class: "act", text, title, "aria-label": title, onclick: act }));
    const page = this.options.pageUrl ? [make("a", { class: "act", href: this.options.pageUrl, download: "attention.html", text: "HTML", title: "one page that works by itself, offline" })] : [];
    return make("span", { class: "group end" },
      ...(music ? [button("play", "▶ Play", "play from the asked note", () => this.togglePlay()), button("out", "−", "narrower", () => this.setZoom(1 / 1.6)), button("in", "+", "wider", () => this.setZoom(1.6))] : []),
      button("svg", "SVG", "save the picture as SVG", () => this.saveSvg()), button("png", "PNG", "save the picture as PNG", () => this.savePng()), button("json", "JSON", "save the numbers as JSON", () => this.saveJson()), ...page);
  }

  watch() {
    new ResizeObserver(() => this.panes.forEach((p) => p.roll.clientWidth && p.roll.clientWidth !== p.wide && p.layout())).observe(this.element);
    const redraw = () => this.panes.forEach((p) => p.draw()), seen = { attributes: true, attributeFilter: ["class"] };
    for (const e of [document.documentElement, document.body]) new MutationObserver(redraw).observe(e, seen);
  }

  // ---- the question --------------------------------------------------------------------------------------------------

  asked() {
    if (this.playing >= 0) return [this.playing];
    return this.locked.length ? this.locked : this.hovered >= 0 ? [this.hovered] : [];
  }

  within(pane, token) {
    const t = token - pane.manifest.start;
    return t >= 0 && t < pane.tokens.labels.length;
  }

  placeIn(pane, token) {
    return groupsOf(pane.tokens, this.state.group).place(token - pane.manifest.start);
  }

  choose(name, value) {
    this.state[name] = value;
    return this.refresh(true);
  }

  setGroup(group) {
    const pane = this.panes[0], start = pane.manifest.start;
    const lead = (t) => (t >= 0 && this.within(pane, t) ? groupsOf(pane.tokens, "note").lead(pane.tokens.places[t - start]) + start : t);
    this.locked = this.locked.map(lead);
    this.hovered = lead(this.hovered);
    this.state.group = group;
    return this.refresh(true);
  }

  setRule() {
    const { kind } = this.limit, all = this.sources.map((s) => s.manifest.stored), { range, shown } = this.controls;
    const stored = { top_k: Math.min(...all.map((s) => s.top_k)), mass: Math.min(...all.map((s) => s.mass)) };
    const most = { mass: stored.mass, top_k: stored.top_k, threshold: 0.5 };
    this.state.rule = { top_k: stored.top_k, mass: stored.mass, threshold: 0, [kind]: this.limit[kind], first: this.hide ? "hide" : "rule" };
    Object.assign(range, { min: LIMITS[kind].low, max: most[kind], step: LIMITS[kind].step, value: this.limit[kind] });
    shown.textContent = LIMITS[kind].show(this.limit[kind]);
  }

  setLayer(pane, layer) {
    pane.layer = Math.max(0, Math.min(pane.manifest.model.layers - 1, layer));
    return this.refresh(true);
  }

  toggleHead(head, alone) {
    for (const { heads, manifest } of this.panes) {
      const was = heads.size === 1 && heads.has(head);
      if (alone) {
        heads.clear();
        for (let h = 0; h < manifest.model.heads; h++) if (was || h === head) heads.add(h);
      } else if (!heads.delete(head) && head < manifest.model.heads) heads.add(head);
    }
    return this.refresh(true);
  }

  setZoom(times) {
    for (const p of this.panes) {
      const middle = (p.area.x + p.area.w / 2) / p.place.width;
      p.zoom = Math.max(1, Math.min(24, p.zoom * times));
      p.layout();
      p.roll.scrollLeft = middle * p.place.width - p.area.w / 2;
    }
  }

  point(pane, place) {
    if (place < 0 || this.locked.length || this.playing >= 0) return;
    const token = place + pane.manifest.start;
    if (token === this.hovered) return;
    this.hovered = token;
    this.answer(false);
  }

  pick(pane, place, add) {
    pane.roll.focus({ preventScroll: true });
    const token = place + pane.manifest.start, has = this.locked.some((t) => this.within(pane, t) && this.placeIn(pane, t) === place);
    if (place < 0) this.locked = add ? this.locked : [];
    else if (add) this.locked = has ? this.locked.filter((t) => t !== token) : [...this.locked, token];
    else this.locked = has && this.locked.length === 1 ? [] : [token];
    if (place >= 0) this.hovered = token;
    this.answer(true);
  }

  // ---- the answer ----------------------------------------------------------------------------------------------------

  async refresh(loud) {
    for (const [name, buttons] of Object.entries(this.controls))
      if (Array.isArray(buttons)) buttons.forEach((b) => b.setAttribute("aria-pressed", b.dataset.value === this.state[name]));
    this.controls.single.checked = this.state.group === "event";
    this.panes.forEach((p) => p.buttons());
    this.live.textContent ||= "Computing …";
    try {
      const loaded = await Promise.all(this.panes.map((p) => p.load()));
      if (loaded.every(Boolean)) this.answer(loud);
    } catch (error) {
      this.live.textContent = error.message;
    }
  }

  answer(loud) {
    for (const p of this.panes) {
      p.find();
      p.draw();
    }
    this.live.setAttribute("aria-live", loud ? "polite" : "off");
    this.live.textContent = this.say();
    const reach = [...new Set(this.panes.map((p) => p.manifest.reach))];
    this.reach.textContent = reach.join(" ") + (this.locked.length ? ` Locked: ${this.locked.length}; click it again or press Esc to let go, shift-click adds.` : ` Click a ${this.words.thing} to lock it, shift-click to add another.`);
    clearTimeout(this.later);
    if (this.table.open) this.later = setTimeout(() => this.fillTable(), 60);
  }

  say() {
    const asked = this.asked();
    if (!asked.length) return `Point at a ${this.words.thing} to see where its attention lies.`;
    return this.panes.map((p) => {
      const name = `${this.panes.length > 1 ? `${p.title.textContent}, ` : ""}layer ${p.layer}`;
      if (asked.every((t) => !this.within(p, t))) return `${name}: out of this model's reach.`;
      return `${name}: ${sentence(p.found, p.tokens, p.query()) || "no head is chosen."}`;
    }).join("\n");
  }

  fillTable() {
    if (!this.table.open) return;
    const rows = [];
    for (const p of this.panes) {
      const arcs = [...p.found.arcs].sort((a, b) => b.weight - a.weight);
      for (const arc of arcs.slice(0, ROWS)) {
        const head = make("td", {}, make("i", { class: "dot", style: `--head:${headColor(arc.head)}` }), arc.head < 0 ? this.state.view : String(arc.head));
        rows.push(make("tr", {}, ...(this.panes.length > 1 ? [make("td", { text: `${p.title.textContent}, layer ${p.layer}` })] : []),
          ...[arc.query, arc.key].map((place) => make("td", { text: placeName(p.tokens, place, this.state.group) })), head, make("td", { text: `${(100 * arc.weight).toFixed(2)} %` })));
      }
    }
    this.body.replaceChildren(...rows);
  }

  // ---- keyboard and sound --------------------------------------------------------------------------------------------

  // Where the arrows stop: every event, or the notes (words) in order.
  stops(pane) {
    const { tokens } = pane;
    if (this.state.group === "event") return tokens.labels.map((_, t) => t);
    const places = [...new Set(tokens.places)].filter((p) => !tokens.notes.length || (p > 0 && tokens.note[p] >= 0));
    return places.sort((a, b) => tokens.leads[a] - tokens.leads[b]);
  }

  step(pane, by) {
    const start = pane.manifest.start, stops = this.stops(pane), here = this.asked().at(-1);
    const at = here === undefined || !this.within(pane, here) ? -1 : stops.indexOf(this.placeIn(pane, here));
    const next = stops[at < 0 ? stops.length - 1 : Math.max(0, Math.min(stops.length - 1, at + by))];
    if (this.locked.length) this.locked = [next + start];
    this.hovered = next + start;
    pane.reveal(next);
    this.answer(true);
  }

  key(event, pane) {
    const digit = /^(?:Digit|Numpad)(\d)$/.exec(event.code);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (digit) this.toggleHead(Number(digit[1]), event.shiftKey);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") this.step(pane, event.key === "ArrowLeft" ? -1 : 1);
    else if (event.key === "ArrowUp" || event.key === "ArrowDown") this.setLayer(pane, pane.layer + (event.key === "ArrowUp" ? 1 : -1));
    else if (event.key === "Enter") this.locked = this.locked.length ? [] : this.asked();
    else if (event.key === " " && this.controls.play) this.togglePlay();
    else if (event.key === "Escape") this.clear();
    else return;
    event.preventDefault();
    if (event.key === "Enter") this.answer(true);
  }

  clear() {
    this.player?.stop();
    this.locked = [];
    this.hovered = -1;
    this.answer(true);
  }

  togglePlay() {
    const pane = this.panes[0], { tokens, manifest } = pane;
    if (this.player?.playing) return this.player.stop();
    const struck = tokens.kinds.map((k, t) => (k === "on" && tokens.note[t] >= 0 ? t : -1)).filter((t) => t >= 0);
    const here = this.asked()[0], from = here !== undefined && this.within(pane, here) ? tokens.seconds[here - manifest.start] : 0;
    const last = tokens.seconds[struck.at(-1)];
    this.player = new Player(tokens.notes, {
      onMove: (now) => {
        let low = 0, high = struck.length;
        while (low < high) tokens.seconds[struck[(low + high) >> 1]] <= now ? (low = ((low + high) >> 1) + 1) : (high = (low + high) >> 1);
        const token = low ? struck[low - 1] + manifest.start : this.playing;
        this.panes.forEach((p) => p.follow(now));
        if (token !== this.playing) [this.playing] = [token], this.answer(false);
        else this.panes.forEach((p) => p.draw());
      },
      onEnd: () => {
        this.hovered = this.playing >= 0 ? this.playing : this.hovered;
        this.playing = -1;
        this.panes.forEach((p) => (p.playhead = undefined));
        this.controls.play.textContent = "▶ Play";
        this.answer(true);
      },
    });
    this.controls.play.textContent = "■ Stop";
    return this.player.start(from >= last ? manifest.tokens.seconds[0] : from);
  }

  // ---- export --------------------------------------------------------------------------------------------------------

  json() {
    return this.panes.map((p) => ({ model: p.manifest.model, start: p.manifest.start, reach: p.manifest.reach, query: p.query(), ...this.named(p) }));
  }

  named(pane) {
    const { arcs, mass } = pane.find(), name = (place) => placeName(pane.tokens, place, this.state.group);
    return { edges: arcs.map((a) => ({ ...a, from: name(a.query), to: name(a.key) })), mass: mass.map((m) => ({ ...m, name: name(m.place) })) };
  }

  each(kind, blobOf) {
    return Promise.all(this.panes.map(async (p, i) => save(await blobOf(p), `attention${this.panes.length > 1 ? `-${i + 1}` : ""}.${kind}`)));
  }

  saveSvg() {
    return this.each("svg", (p) => new Blob([p.svg(`Attention, layer ${p.layer}`, `${sentence(p.find(), p.tokens, p.query())} ${caution(this.words)}`)], { type: "image/svg+xml" }));
  }

  savePng() {
    return this.each("png", (p) => p.png());
  }

  saveJson() {
    const data = this.json();
    save(new Blob([JSON.stringify(data.length > 1 ? data : data[0], null, 1)], { type: "application/json" }), "attention.json");
  }
}

function save(blob, name) {
  const link = make("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 5000);
}
