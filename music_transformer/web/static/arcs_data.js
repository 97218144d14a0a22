// Arcs, the data: packed layers, and the one function that says which arcs a question has (arc_query.py is its twin).

const SCALE = 65535;

function half(bits) {
  const sign = bits & 0x8000 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
  if (exponent === 0) return sign * fraction * 2 ** -24;
  return sign * (1 + fraction / 1024) * 2 ** (exponent - 15);
}

// ArrayBuffer -> {heads, tokens, indptr, index, weight, totals, received, receivedByPlace}
export function readPack(buffer, heads, tokens) {
  const rows = heads * tokens, view = new DataView(buffer), width = buffer.byteLength < 4 ? 0 : view.getUint32(0, true);
  const count = { 1: (i) => view.getUint8(4 + i), 2: (i) => view.getUint16(4 + 2 * i, true), 4: (i) => view.getUint32(4 + 4 * i, true) }[width];
  const fits = count && buffer.byteLength >= 4 + width * rows, indptr = new Uint32Array(rows + 1);
  for (let i = 0; fits && i < rows; i++) indptr[i + 1] = indptr[i] + count(i);
  const edges = indptr[rows], keys = 4 + width * rows, sums = keys + 4 * edges, left = (buffer.byteLength - sums) / rows;
  if (!fits || ![4, 6].includes(left)) throw new Error("the packed layer has another size than its manifest says");
  const shorts = (from, n) => Uint16Array.from({ length: n }, (_, i) => view.getUint16(from + 2 * i, true));
  const halves = (from) => Float64Array.from(shorts(from, rows), half);
  return {
    heads, tokens, indptr, index: shorts(keys, edges), weight: shorts(keys + 2 * edges, edges),
    received: halves(sums), receivedByPlace: halves(sums + 2 * rows), totals: left === 6 ? halves(sums + 4 * rows) : new Float64Array(rows).fill(1),
  };
}

// The same numbers by key: who looks at it. Made once per layer.
function transposed(pack) {
  if (pack.byKey) return pack.byKey;
  const { heads, tokens, indptr, index } = pack, start = new Uint32Array(heads * tokens + 1);
  for (let h = 0; h < heads; h++)
    for (let e = indptr[h * tokens]; e < indptr[(h + 1) * tokens]; e++) start[h * tokens + index[e] + 1]++;
  for (let i = 0; i < heads * tokens; i++) start[i + 1] += start[i];
  const next = start.slice(), row = new Uint16Array(index.length), edge = new Uint32Array(index.length);
  for (let r = 0; r < heads * tokens; r++)
    for (let e = indptr[r]; e < indptr[r + 1]; e++) {
      const at = next[Math.floor(r / tokens) * tokens + index[e]]++;
      row[at] = r % tokens;
      edge[at] = e;
    }
  return (pack.byKey = { start, row, edge });
}

// Which places the asked tokens have, and which token looks for each place.
export function groupsOf(tokens, group) {
  if (group === "event") return { place: (t) => t, members: (p) => [p], leads: () => true, lead: (p) => p };
  if (!tokens.members) {
    tokens.members = new Map();
    tokens.places.forEach((p, t) => tokens.members.has(p) ? tokens.members.get(p).push(t) : tokens.members.set(p, [t]));
  }
  return {
    place: (t) => tokens.places[t], members: (p) => tokens.members.get(p),
    leads: (t) => tokens.leads[t] === t, lead: (p) => tokens.leads[p],
  };
}

// The edges `rule` leaves of one row {key: weight}, strongest first; of equal weights the lower key is the stronger.
export function strongest(row, rule, total) {
  const whole = [...row].filter(([, w]) => w > 0).sort((a, b) => b[1] - a[1] || a[0] - b[0]);
  const first = rule.first === "hide" ? row.get(0) || 0 : 0;
  const live = rule.first === "hide" ? whole.filter(([k]) => k !== 0) : whole;
  const kept = [];
  let sum = 0, shown = 0;
  live.forEach(([key, w], rank) => {
    sum += w;
    const within = sum - w < rule.mass * (total - first) && w >= rule.threshold && rank < rule.top_k;
    if (!within && !(rule.first === "keep" && key === 0)) return;
    kept.push([key, w]);
    shown += w;
  });
  return { kept, shown, hidden: Math.max(total - shown, 0), first };
}

function looksAt(pack, groups, place, head) {
  const row = new Map(), at = head * pack.tokens + groups.lead(place);
  for (let e = pack.indptr[at]; e < pack.indptr[at + 1]; e++) {
    const key = groups.place(pack.index[e]);
    row.set(key, (row.get(key) || 0) + pack.weight[e]);
  }
  return { row, total: pack.totals[at] };
}

function lookedAtBy(pack, groups, place, head, sums) {
  const row = new Map(), by = transposed(pack);
  let total = 0;
  for (const key of groups.members(place)) {
    const at = head * pack.tokens + key;
    total += sums[at];
    for (let i = by.start[at]; i < by.start[at + 1]; i++) {
      if (!groups.leads(by.row[i])) continue;
      const query = groups.place(by.row[i]);
      row.set(query, (row.get(query) || 0) + pack.weight[by.edge[i]]);
    }
  }
  return { row, total };
}

// edges(query): the ONE place that decides which arcs exist. Drawing, table, status line, export and tests read it.
// query: {view, direction, group, heads, tokens, rule: {top_k, mass, threshold, first}}; tokens: the manifest's columns.
export function edges(pack, tokens, query) {
  const groups = groupsOf(tokens, query.group), arcs = [], mass = [], back = query.direction === "looked-at-by";
  const heads = query.heads.length ? query.heads : Array.from({ length: pack.heads }, (_, h) => h);
  const sums = query.group === "event" ? pack.received : pack.receivedByPlace;
  const rule = back ? { ...query.rule, first: "rule" } : query.rule;
  for (const place of [...new Set(query.tokens.map(groups.place))].sort((a, b) => a - b))
    for (const h of heads) {
      const { row, total: stated } = back ? lookedAtBy(pack, groups, place, h, sums) : looksAt(pack, groups, place, h);
      const total = Math.max(stated, [...row.values()].reduce((a, b) => a + b, 0) / SCALE); // halves round
      row.forEach((sum, key) => row.set(key, sum / SCALE));
      const { kept, shown, hidden, first } = strongest(row, rule, total);
      const head = query.view === "heads" ? h : -1;
      for (const [other, weight] of kept)
        arcs.push(back ? { head, query: other, key: place, weight } : { head, query: place, key: other, weight });
      mass.push({ head, place, total, shown, hidden, first });
    }
  return { arcs, mass };
}

const NAMES = ["C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B"];
export const pitchName = (p) => NAMES[p % 12] + (Math.floor(p / 12) - 1);

// A place in words: "C4 at 12.50 s", "wait 500 ms at 3.00 s", or the word itself.
export function placeName(tokens, place, group) {
  if (!tokens.notes.length)
    return group === "event" ? tokens.labels[place] : groupsOf(tokens, group).members(place).map((t) => tokens.labels[t]).join("");
  const note = tokens.notes[tokens.note[place]];
  if (group === "note" && note && place) return `${pitchName(note[0])} at ${note[1].toFixed(2)} s`;
  const timeless = ["bos", "eos", "pad"].includes(tokens.kinds[place]);
  return tokens.labels[place] + (timeless ? "" : ` at ${tokens.seconds[place].toFixed(2)} s`);
}

export const percent = (x) => (x > 0 && x < 0.0095 ? (100 * x).toFixed(1) : (100 * x).toFixed(0)) + " %";

// The status line: what is shown, what is hidden, and the strongest arcs.
export function sentence(found, tokens, query, arcsAtMost = 3) {
  if (!found.mass.length) return "";
  const back = query.direction === "looked-at-by";
  const total = found.mass.reduce((s, m) => s + m.total, 0), shown = found.mass.reduce((s, m) => s + m.shown, 0);
  const first = found.mass.reduce((s, m) => s + m.first, 0);
  const places = [...new Set(found.mass.map((m) => m.place))];
  const said = (place) => (tokens.notes.length ? placeName(tokens, place, query.group) : `“${placeName(tokens, place, query.group).replace(/^␣(?=.)/, "")}”`);
  const who = places.length > 3 ? `${places.length} places` : places.map(said).join(", ");
  const share = total ? shown / total : 0;
  const parts = [`${who} ${back ? "is looked at through" : "looks back through"} ${found.arcs.length} ${found.arcs.length === 1 ? "arc" : "arcs"}`];
  if (back) parts.push(`it receives ${total.toFixed(2)} tokens' worth of attention`);
  parts.push(`shown ${percent(share)}, hidden ${percent(total ? 1 - share : 0)}`);
  if (first > 0) parts.push(`${percent(first / total)} of it on the first token, left out`);
  const top = [...found.arcs].sort((a, b) => b.weight - a.weight).slice(0, arcsAtMost)
    .map((a) => `${said(back ? a.query : a.key)} ${percent(a.weight)}${a.head < 0 ? "" : ` (head ${a.head})`}`);
  return parts.join("; ") + (top.length ? `. Strongest: ${top.join(", ")}.` : ".");
}
