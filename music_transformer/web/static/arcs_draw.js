// Arcs, the picture: where things lie, how arcs bend, and one drawing routine for canvas and SVG (arc_scene.py is its twin).

import { groupsOf, pitchName } from "./arcs_data.js";

// Okabe & Ito 2008, "Color Universal Design": told apart also by the colour-blind. The first four serve small models.
export const HEADS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999"];
export const headColor = (h) => (h < 0 ? "#D55E00" : HEADS[h % 8]);
export const headDash = (h) => (h >= 8 ? [5, 4] : []);
export const WIDEST = 24; // pixels of an arc that carries all of a row: width = WIDEST * weight, always
const CASED = 0.4; // pixels from which an arc has a dark casing; around thinner ones it could not be seen

const LEFT = 52, RIGHT = 18, TOP = 8, ROOM = 190, RULER = 26, ROLL = 250;
const MARGIN = 14, BOX = 22, WORD_GAP = 11, DROP = 12;
export const FONT = 16; // of words
const ABOVE = [150, 110, 84, 66]; // room for arcs above each line of 1, 2, 3 or more lines of words

export const LIGHT = { paper: "#ffffff", black: "#f3f5f8", line: "#d5dae1", ink: "#3b4657", soft: "#6b7685", asked: "#0b0f15", casing: "#0f172a" };
export const DARK = { paper: "#14181f", black: "#1a1f28", line: "#2e3643", ink: "#9fb0c6", soft: "#8592a3", asked: "#ffffff", casing: "#000000" };

// ---- where things lie ------------------------------------------------------------------------------------------------

export function rollLayout(tokens, width, zoom = 1) {
  const pitches = tokens.notes.map((n) => n[0]), ends = tokens.notes.map((n) => n[2]);
  const low = Math.min(...pitches) - 2, high = Math.max(...pitches) + 2, rows = high - low + 1;
  const from = Math.min(tokens.seconds[0], ...tokens.notes.map((n) => n[1]));
  const to = Math.max(from + 1, ...ends, tokens.seconds[tokens.seconds.length - 1]);
  const row = Math.max(3, Math.min(9, Math.floor(ROLL / rows)));
  const inner = (width - LEFT - RIGHT) * zoom, scale = inner / (to - from), top = TOP + ROOM + RULER;
  const x = (s) => LEFT + (s - from) * scale, y = (p) => top + (high - p) * row;
  return { kind: "music", tokens, width: LEFT + inner + RIGHT, height: top + rows * row + 8, span: width, low, high, row, from, to, scale, top, ruler: TOP + ROOM, x, y };
}

// Words flow in lines, each with room for its arcs above, the more the fewer lines there are; `measure` gives a string's
// width in pixels.
export function textLayout(tokens, width, measure) {
  const boxes = [];
  let x = MARGIN, line = 0;
  tokens.labels.forEach((label, t) => {
    const start = t > 0 && tokens.places[t] !== tokens.places[t - 1];
    const w = measure(label.replace(/^␣(?=.)/, "")) + 6;
    if (start) x += WORD_GAP;
    if (x + w > width - MARGIN && x > MARGIN) [x, line] = [MARGIN, line + 1];
    boxes.push({ x, line, w, h: BOX });
    x += w;
    if (label.endsWith("⏎")) [x, line] = [MARGIN, line + 1];
  });
  const last = boxes.length ? boxes.at(-1).line : 0, room = ABOVE[Math.min(last, ABOVE.length - 1)];
  boxes.forEach((b) => (b.y = room + b.line * (room + BOX + DROP)));
  return { kind: "text", tokens, width, height: room + last * (room + BOX + DROP) + BOX + 16, span: Math.min(width, last ? width : x), room, boxes };
}

// The box of a place (or, in the view of single events, of a token) and what of it is marked, where its arcs end: {x, y, w, h, mx, mw, ax, ay}.
export function boxOf(layout, place, group) {
  const t = layout.tokens;
  if (layout.kind === "text") {
    const all = groupsOf(t, group).members(place).map((m) => layout.boxes[m]).filter((b, _, [first]) => b.y === first.y);
    const x = all[0].x, w = all[all.length - 1].x + all[all.length - 1].w - x;
    return { x, y: all[0].y, w, h: BOX, mx: x, mw: w, ax: x + w / 2, ay: all[0].y };
  }
  const note = t.notes[t.note[place]], kind = t.kinds[place];
  if (note && (group === "event" || place > 0)) {
    const x = layout.x(note[1]), y = layout.y(note[0]), w = Math.max(2.5, (note[2] - note[1]) * layout.scale - 0.6);
    const whole = { x, y: y + 0.5, w, h: layout.row - 1, mx: x, mw: w, ax: x + 0.5 * Math.min(w, 8), ay: y + 0.5 };
    if (group === "note") return whole;
    const mw = Math.min(w / 3, 5), mx = x + { on: 0, velocity: (w - mw) / 2, off: w - mw }[kind]; // an event marks its part
    return { ...whole, mx, mw, ax: mx + mw / 2 };
  }
  const edge = { bos: layout.x(layout.from) - 16, eos: layout.x(layout.to) + 6, pad: layout.x(layout.to) + 6 }[kind];
  if (edge !== undefined) return { x: edge, y: layout.ruler + 6, w: 10, h: 14, mx: edge, mw: 10, ax: edge + 5, ay: layout.ruler + 6 };
  const x = layout.x(t.seconds[place]);
  return { x: x - 1, y: layout.ruler + 17, w: 2, h: 8, mx: x - 1, mw: 2, ax: x, ay: layout.ruler + 17 };
}

// The arc from one box to another as a cubic curve [x1, y1, c1x, c1y, c2x, c2y, x2, y2]. Farther keys arch higher and each
// head a little differently, so that no two arcs share an apex.
export function curve(layout, a, b, head) {
  const h = Math.max(head, 0) % 16, d = Math.abs(a.ax - b.ax), base = Math.min(a.ay, b.ay);
  if (layout.kind === "text" && a.y !== b.y) {
    const down = a.y > b.y ? [a, b] : [b, a], dy = (down[0].ay - down[1].ay - BOX) * 0.5 + 6, shift = (h - 1.5) * 2;
    const points = [down[0].ax + shift, down[0].ay, down[0].ax + shift, down[0].ay - dy, down[1].ax + shift, down[1].ay + BOX + dy, down[1].ax + shift, down[1].ay + BOX];
    return a.y > b.y ? points : [6, 7, 4, 5, 2, 3, 0, 1].map((i) => points[i]);
  }
  const room = layout.kind === "text" ? layout.room - TOP : base - TOP;
  if (d < 3) { // onto itself, or straight above: a drop
    const up = (layout.kind === "text" ? 16 : 26) + 5 * h, side = 7 + 2 * h;
    return [a.ax, a.ay, a.ax - side, base - up, b.ax + side, base - up, b.ax, b.ay];
  }
  const lift = room * (1 - Math.exp(-2.2 * Math.pow(d / layout.span, 0.6))) * (1 - 0.035 * h);
  const c = (base - lift - (a.ay + b.ay) / 8) / 0.75, lean = 0.2 * (b.ax - a.ax);
  return [a.ax, a.ay, a.ax + lean, c, b.ax - lean, c, b.ax, b.ay];
}

// ---- what is drawn ---------------------------------------------------------------------------------------------------

// Everything that does not depend on the question. `faded`: a question is being answered, the other notes step back.
export function drawGround(pen, layout, colors, faded, area) {
  pen.rect(area.x, area.y, area.w, area.h, colors.paper);
  if (layout.kind === "music") drawRoll(pen, layout, colors, faded, area);
  else
    layout.boxes.forEach((b, t) => {
      if (b.y > area.y + area.h || b.y + BOX < area.y) return;
      pen.text(b.x + 3, b.y + 16, layout.tokens.labels[t].replace(/^␣(?=.)/, ""), { fill: colors.ink, size: FONT, alpha: faded ? 0.8 : 1 });
    });
}

function drawRoll(pen, layout, colors, faded, area) {
  const right = Math.min(layout.width - RIGHT, area.x + area.w), left = Math.max(LEFT, area.x);
  for (let p = layout.low; p <= layout.high; p++) {
    if ([1, 3, 6, 8, 10].includes(p % 12)) pen.rect(left, layout.y(p), right - left, layout.row, colors.black);
    if (p % 12 === 0) pen.text(Math.max(left, LEFT) - 6, layout.y(p) + layout.row, pitchName(p), { fill: colors.soft, size: 10, anchor: "end" });
  }
  const gap = [0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300].find((s) => s * layout.scale >= 64) || 600;
  for (let s = Math.ceil(layout.from / gap) * gap; s <= layout.to; s += gap) {
    pen.rect(layout.x(s), layout.ruler, 1, layout.height - layout.ruler, colors.line, 0.8);
    pen.text(layout.x(s) + 3, layout.ruler + 11, clock(s, gap < 1), { fill: colors.soft, size: 10 });
  }
  pen.rect(left, layout.ruler + 25, right - left, 1, colors.line);
  layout.tokens.notes.forEach((n) => {
    const x = layout.x(n[1]), w = Math.max(2.5, (n[2] - n[1]) * layout.scale - 0.6);
    if (x > area.x + area.w || x + w < area.x) return;
    pen.rect(x, layout.y(n[0]) + 0.5, w, layout.row - 1, colors.ink, (0.45 + (0.5 * n[3]) / 127) * (faded ? 0.6 : 1), 1.5);
  });
  layout.tokens.kinds.forEach((kind, t) => {
    if (layout.tokens.note[t] >= 0) return;
    const b = boxOf(layout, t, "event");
    pen.rect(b.x, b.y, kind === "shift" ? 1 : b.w, b.h, colors.soft, kind === "shift" ? 0.45 : 0.8, kind === "shift" ? 0 : 2);
  });
}

const clock = (s, fine) => `${Math.floor(s / 60)}:${String((s % 60).toFixed(fine ? 1 : 0)).padStart(fine ? 4 : 2, "0")}`;

// The answer: arcs thick under thin, the looked-at places striped in the colours of the heads that look at them.
export function drawArcs(pen, layout, colors, found, query) {
  const box = (place) => boxOf(layout, place, query.group);
  const arcs = [...found.arcs].sort((a, b) => b.weight - a.weight || a.head - b.head || a.key - b.key);
  for (const arc of arcs) {
    const points = curve(layout, box(arc.query), box(arc.key), arc.head), width = WIDEST * arc.weight, dash = headDash(arc.head);
    if (width >= CASED) pen.curve(points, { stroke: colors.casing, width: width + Math.min(1.5, 0.45 * width), alpha: 0.55, dash });
    pen.curve(points, { stroke: headColor(arc.head), width, alpha: 1, dash, data: arc });
  }
  const back = query.direction === "looked-at-by", stripes = new Map();
  for (const arc of found.arcs) {
    const other = back ? arc.query : arc.key;
    if (!stripes.has(other)) stripes.set(other, []);
    if (!stripes.get(other).includes(arc.head)) stripes.get(other).push(arc.head);
  }
  stripes.forEach((heads, place) => {
    const b = box(place);
    heads.sort((p, q) => p - q).forEach((h, i) => {
      const y = b.y + (b.h * i) / heads.length;
      if (layout.kind === "text") pen.rect(b.mx, b.y + BOX + 2 * i, b.mw, 2, headColor(h));
      else pen.rect(b.mx - 0.5, y - 0.5, b.mw + 1, b.h / heads.length + 1, headColor(h), 1, 1);
    });
  });
  for (const place of new Set(found.mass.map((m) => m.place))) {
    const b = box(place);
    pen.frame(b.mx - 2, b.y - 2, b.mw + 4, b.h + 4, colors.asked, 1.6, 3);
  }
}

// ---- pens: the same strokes on a canvas or as SVG ----------------------------------------------------------------------

export class CanvasPen {
  constructor(context, font = "system-ui, sans-serif") { this.c = context; this.font = font; }
  rect(x, y, w, h, fill, alpha = 1, radius = 0) {
    const c = this.c;
    c.globalAlpha = alpha; c.fillStyle = fill;
    if (!radius) return c.fillRect(x, y, w, h);
    c.beginPath(); c.roundRect(x, y, Math.max(w, 0.1), Math.max(h, 0.1), Math.min(radius, w / 2, h / 2)); c.fill();
  }
  frame(x, y, w, h, stroke, width, radius) {
    const c = this.c;
    c.globalAlpha = 1; c.strokeStyle = stroke; c.lineWidth = width; c.setLineDash([]);
    c.beginPath(); c.roundRect(x, y, w, h, radius); c.stroke();
  }
  curve(p, { stroke, width, alpha, dash }) {
    const c = this.c;
    c.globalAlpha = alpha; c.strokeStyle = stroke; c.lineWidth = width; c.lineCap = "butt"; c.setLineDash(dash);
    c.beginPath(); c.moveTo(p[0], p[1]); c.bezierCurveTo(p[2], p[3], p[4], p[5], p[6], p[7]); c.stroke();
    c.setLineDash([]);
  }
  text(x, y, string, { fill, size, anchor = "start", alpha = 1 }) {
    const c = this.c;
    c.globalAlpha = alpha; c.fillStyle = fill; c.font = `${size}px ${this.font}`; c.textAlign = anchor; c.fillText(string, x, y);
  }
}

const r = (v) => Number(v.toFixed(2));
const escaped = (s) => String(s).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);

export class SvgPen {
  constructor() { this.parts = []; }
  rect(x, y, w, h, fill, alpha = 1, radius = 0) {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(w)}" height="${r(h)}" rx="${radius}" fill="${fill}" fill-opacity="${r(alpha)}"/>`);
  }
  frame(x, y, w, h, stroke, width, radius) {
    this.parts.push(`<rect x="${r(x)}" y="${r(y)}" width="${r(w)}" height="${r(h)}" rx="${radius}" fill="none" stroke="${stroke}" stroke-width="${width}"/>`);
  }
  curve(p, { stroke, width, alpha, dash, data }) {
    const facts = data ? ` class="arc" data-head="${data.head}" data-query="${data.query}" data-key="${data.key}" data-weight="${data.weight}"` : "";
    const [a, b, ...rest] = p.map(r);
    this.parts.push(`<path${facts} fill="none" stroke="${stroke}" stroke-width="${Number(width.toFixed(5))}" stroke-opacity="${r(alpha)}"${dash.length ? ` stroke-dasharray="${dash}"` : ""} d="M${a} ${b}C${rest.join(" ")}"/>`);
  }
  text(x, y, string, { fill, size, anchor = "start", alpha = 1 }) {
    this.parts.push(`<text x="${r(x)}" y="${r(y)}" font-family="system-ui, sans-serif" font-size="${size}" text-anchor="${anchor}" fill="${fill}" fill-opacity="${r(alpha)}">${escaped(string)}</text>`);
  }
  done(width, height, title, description) {
    const head = `<svg xmlns="http://www.w3.org/2000/svg" width="${r(width)}" height="${r(height)}" viewBox="0 0 ${r(width)} ${r(height)}" role="img">`;
    return `${head}<title>${escaped(title)}</title><desc>${escaped(description)}</desc>${this.parts.join("")}</svg>\n`;
  }
}
