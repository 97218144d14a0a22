// Ghosts: the likeliest next strikes, drawn where they would sound, each with its share beside it; no label lies on another.

import { pitchName } from './dom.js';

const APART = 14; // CSS pixels from the middle of one label to the next one's
const LEAST = 26; // width of a ghost
const AWAY = 8; // from a ghost to its label

/**
 * Places for labels that would like to be at `wanted` (ascending), at least `gap` apart and within low..high as far as they fit:
 * the ones with the least squared distance (isotonic regression, by pooling adjacent violators).
 */
export function spread(wanted, gap, low, high) {
  const pools = [];
  wanted.forEach((y, i) => {
    let pool = { sum: y - gap * i, count: 1 };
    while (pools.length && pools.at(-1).sum / pools.at(-1).count > pool.sum / pool.count) {
      const before = pools.pop();
      pool = { sum: before.sum + pool.sum, count: before.count + pool.count };
    }
    pools.push(pool);
  });
  const last = Math.max(low, high - gap * (wanted.length - 1));
  const offsets = pools.flatMap(({ sum, count }) => Array(count).fill(Math.min(last, Math.max(low, sum / count))));
  return offsets.map((offset, i) => offset + gap * i);
}

/** Draw a roll's ghosts on a canvas context; each keeps its `box` and `tag` ([x, y, width, height]) for `ghostAt`. */
export function drawGhosts(roll, c, top) {
  const ghosts = [...roll.ghosts].sort((a, b) => b.pitch - a.pitch);
  for (const ghost of ghosts) {
    ghost.box = [roll.x(ghost.seconds), roll.y(ghost.pitch), Math.max(LEAST, 0.4 * roll.scale), roll.row];
    const [x, y, width, height] = ghost.box;
    c.globalAlpha = 0.25 + 0.75 * Math.sqrt(ghost.share);
    c.strokeStyle = roll.accent;
    c.lineWidth = 1.5;
    c.setLineDash([3, 2]);
    c.strokeRect(x + 0.5, y + 0.5, width, Math.max(4, height - 1));
  }
  c.setLineDash([]);
  c.globalAlpha = 1;
  const middles = ghosts.map(({ box }) => box[1] + box[3] / 2);
  const places = spread(middles, APART, top + APART / 2, roll.height - APART / 2);
  ghosts.forEach((ghost, i) => drawLabel(roll, c, ghost, places[i]));
}

function drawLabel(roll, c, ghost, y) {
  const [left, top, width, height] = ghost.box;
  const text = `${pitchName(ghost.pitch)} ${(ghost.share * 100).toFixed(ghost.share < 0.095 ? 1 : 0)} %`;
  const x = left + width + AWAY;
  ghost.tag = [x - 2, y - APART / 2, c.measureText(text).width + 4, APART];
  c.strokeStyle = roll.soft;
  c.lineWidth = 1;
  c.beginPath();
  c.moveTo(left + width + 1, top + height / 2);
  c.lineTo(x - 2, y);
  c.stroke();
  c.fillStyle = roll.paper;
  c.globalAlpha = 0.85;
  c.fillRect(...ghost.tag);
  c.globalAlpha = 1;
  c.fillStyle = roll.ink;
  c.fillText(text, x, y);
}

/** The ghost whose box or label is under a point, the nearest one where several are; undefined where none is. */
export function ghostAt(ghosts, x, y) {
  const found = ghosts.map((ghost) => ({ ghost, away: Math.min(distance(ghost.box, x, y, 8), distance(ghost.tag, x, y, 0)) }));
  return found.filter(({ away }) => away < Infinity).sort((a, b) => a.away - b.away)[0]?.ghost;
}

function distance(box, x, y, reach) {
  if (!box || x < box[0] - 2 || x > box[0] + box[2] + 2) return Infinity;
  const away = Math.abs(y - box[1] - box[3] / 2);
  return away <= Math.max(reach, box[3] / 2) ? away : Infinity;
}
