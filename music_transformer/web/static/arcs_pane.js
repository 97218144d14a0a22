// Arcs, one pane: a model's layer over its roll or its words: two canvases, layer buttons, head toggles, pointer, scrolling.

import { edges, groupsOf } from "./arcs_data.js";
import { boxOf, CanvasPen, curve, DARK, drawArcs, drawGround, FONT, headColor, headDash, LIGHT, rollLayout, SvgPen, textLayout } from "./arcs_draw.js";

export const make = (tag, facts = {}, ...children) => {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(facts))
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "text") e.textContent = value;
    else if (value !== null && value !== undefined && value !== false) e.setAttribute(name, value === true ? "" : value);
  e.append(...children);
  return e;
};

export const isDark = (element) => !!element.closest(".dark");

export class Pane {
  // source: {manifest, getPack(view, layer) -> Promise<pack>, title}; owner: the view, told of what is pointed at.
  constructor(source, layer, owner) {
    Object.assign(this, { source, owner, layer, manifest: source.manifest, tokens: source.manifest.tokens, packs: new Map() });
    this.heads = new Set(Array.from({ length: this.manifest.model.heads }, (_, h) => h));
    this.zoom = 1;
    this.build();
  }

  build() {
    const model = this.manifest.model;
    this.layerButtons = Array.from({ length: model.layers }, (_, l) =>
      make("button", { type: "button", class: "seg", text: l, "aria-label": `layer ${l}`, onclick: () => this.owner.setLayer(this, l) }));
    this.headButtons = Array.from({ length: model.heads }, (_, h) =>
      make("button", {
        type: "button", class: "head", text: h, "aria-label": `head ${h}`, title: "click: on or off; double click or shift: alone", style: `--head:${headColor(h)}`,
        "data-dash": headDash(h).length ? "yes" : null, onclick: (e) => this.owner.toggleHead(h, e.shiftKey), ondblclick: () => this.owner.toggleHead(h, true),
      }));
    this.title = make("span", { class: "title", text: this.source.title || model.name });
    this.canvases = [make("canvas", { "aria-hidden": true }), make("canvas", { "aria-hidden": true })];
    this.still = make("div", { class: "still" }, ...this.canvases);
    this.spacer = make("div", {}, this.still);
    const [label, thing] = this.manifest.kind === "music" ? ["Piano roll with attention arcs", "note"] : ["Words with attention arcs", "word"];
    this.roll = make("div", { class: "roll", tabindex: 0, role: "application", "aria-label": `${label}. Left and right choose a ${thing}, up and down a layer, digits switch heads.` }, this.spacer);
    this.head = make("div", { class: "bar" }, this.title,
      make("span", { class: "group", role: "group", "aria-label": "Layer" }, make("span", { class: "name", text: "Layer" }), make("span", { class: "segs" }, ...this.layerButtons)),
      make("span", { class: "group headset", role: "group", "aria-label": "Heads" }, make("span", { class: "name", text: "Heads" }), ...this.headButtons));
    this.element = make("section", { class: "pane" }, this.head, this.roll);
    this.roll.addEventListener("scroll", () => this.draw());
    this.still.addEventListener("pointermove", (e) => this.owner.point(this, this.hit(e)));
    this.still.addEventListener("pointerleave", () => this.owner.point(this, -1));
    this.still.addEventListener("click", (e) => this.owner.pick(this, this.hit(e), e.shiftKey));
    this.roll.addEventListener("keydown", (e) => this.owner.key(e, this));
  }

  // Fetch what the question needs; false where another layer was chosen meanwhile.
  async load() {
    const view = this.owner.state.view, layer = this.layer, name = `${view} ${layer}`;
    if (!this.packs.has(name)) this.packs.set(name, this.source.getPack(view, layer));
    try {
      const pack = await this.packs.get(name);
      if (this.owner.state.view !== view || this.layer !== layer) return false;
      this.pack = pack;
      return true;
    } catch (error) {
      this.packs.delete(name);
      throw error;
    }
  }

  layout() {
    const width = Math.max(320, this.roll.clientWidth || 900), measure = this.canvases[0].getContext("2d");
    measure.font = `${FONT}px system-ui, sans-serif`;
    this.place = this.manifest.kind === "music" ? rollLayout(this.tokens, width, this.zoom) : textLayout(this.tokens, width, (s) => measure.measureText(s).width);
    this.tall = Math.min(this.place.height, 620);
    this.wide = width;
    this.spacer.style.cssText = `width:${this.place.width}px;height:${this.place.height}px`;
    this.still.style.cssText = `width:${width}px;height:${this.tall}px`;
    this.roll.style.height = `${this.tall + 2}px`;
    for (const c of this.canvases) {
      const dots = window.devicePixelRatio || 1;
      c.width = Math.round(width * dots);
      c.height = Math.round(this.tall * dots);
    }
    this.targets = null;
    this.ground = "";
    this.draw();
  }

  get colors() {
    return isDark(this.element) ? DARK : LIGHT;
  }

  get area() {
    return { x: this.roll.scrollLeft, y: this.roll.scrollTop, w: this.wide, h: this.tall };
  }

  // The tokens asked about, counted in this pane's window; those that the window does not hold are out of reach.
  query() {
    const { view, direction, group, rule } = this.owner.state, here = this.owner.asked().map((t) => t - this.manifest.start);
    const heads = view === "heads" ? [...this.heads].sort((a, b) => a - b) : [];
    const some = view !== "heads" || heads.length;
    return { layer: this.layer, view, direction, group, heads, tokens: some ? here.filter((t) => t >= 0 && t < this.tokens.labels.length) : [], rule };
  }

  find() {
    const query = this.query();
    this.found = this.pack && query.tokens.length ? edges(this.pack, this.tokens, query) : { arcs: [], mass: [] };
    return this.found;
  }

  draw() {
    if (!this.place) return;
    const query = this.query(), area = this.area, colors = this.colors, faded = this.found?.mass.length > 0;
    const ground = JSON.stringify([area, colors.paper, faded]);
    if (ground !== this.ground) drawGround(this.pen(0), this.place, colors, faded, area);
    this.ground = ground;
    const pen = this.pen(1);
    pen.c.clearRect(area.x, area.y, area.w, area.h);
    if (this.found) drawArcs(pen, this.place, colors, this.found, query);
    if (this.playhead !== undefined) pen.rect(this.place.x(this.playhead), this.place.ruler, 1.5, this.place.height - this.place.ruler, colors.asked, 0.7);
  }

  pen(layer) {
    const context = this.canvases[layer].getContext("2d"), dots = this.canvases[layer].width / this.wide;
    context.setTransform(dots, 0, 0, dots, -this.area.x * dots, -this.area.y * dots);
    return new CanvasPen(context);
  }

  // What lies under the pointer: the token of the box that is hit, or -1.
  hit(event) {
    const box = this.still.getBoundingClientRect(), x = event.clientX - box.left + this.area.x, y = event.clientY - box.top + this.area.y;
    return this.at(x, y);
  }

  at(x, y) {
    const group = this.owner.state.group, key = `${group}`;
    if (this.targets?.key !== key) {
      const places = [...new Set(this.tokens.labels.map((_, t) => groupsOf(this.tokens, group).place(t)))];
      this.targets = { key, list: places.map((p) => ({ place: p, ...boxOf(this.place, p, group) })) };
    }
    let best = -1, nearest = 5 ** 2;
    for (const b of this.targets.list) {
      const dx = Math.max(b.x - x, 0, x - b.x - b.w), dy = Math.max(b.y - y, 0, y - b.y - b.h);
      const far = dx * dx + dy * dy + 1e-4 * Math.abs(x - b.ax); // inside one box, the nearest event wins
      if (far < nearest) [nearest, best] = [far, b.place];
    }
    return best;
  }

  reveal(place) {
    const b = boxOf(this.place, place, this.owner.state.group), a = this.area;
    if (b.x < a.x + 60 || b.x > a.x + a.w - 60) this.roll.scrollLeft = b.x - a.w / 2;
    if (b.y < a.y || b.y + b.h > a.y + a.h) this.roll.scrollTop = b.y - a.h / 2;
  }

  follow(seconds) {
    this.playhead = seconds;
    const x = this.place.x(seconds), a = this.area;
    if (x < a.x || x > a.x + a.w - 40) this.roll.scrollLeft = x - a.w / 4;
  }

  buttons() {
    this.layerButtons.forEach((b, l) => b.setAttribute("aria-pressed", l === this.layer));
    this.headButtons.forEach((b, h) => b.setAttribute("aria-pressed", this.heads.has(h)));
    this.head.querySelector(".headset").hidden = this.owner.state.view !== "heads";
  }

  svg(title, description) {
    const pen = new SvgPen(), area = { x: 0, y: 0, w: this.place.width, h: this.place.height };
    drawGround(pen, this.place, this.colors, true, area);
    drawArcs(pen, this.place, this.colors, this.find(), this.query());
    return pen.done(area.w, area.h, title, description);
  }

  png() {
    const area = { x: 0, y: 0, w: this.place.width, h: this.place.height }, canvas = make("canvas");
    const dots = Math.min(2, 16000 / area.w);
    [canvas.width, canvas.height] = [Math.round(area.w * dots), Math.round(area.h * dots)];
    const context = canvas.getContext("2d"), pen = new CanvasPen(context);
    context.scale(dots, dots);
    drawGround(pen, this.place, this.colors, true, area);
    drawArcs(pen, this.place, this.colors, this.find(), this.query());
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }

  // The arcs as drawn, for whoever wants to check: the curve and the width of each.
  drawn() {
    const group = this.owner.state.group;
    return this.found.arcs.map((a) => ({ ...a, points: curve(this.place, boxOf(this.place, a.query, group), boxOf(this.place, a.key, group), a.head) }));
  }
}
