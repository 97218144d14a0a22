"""The picture of an answered question as plain strokes, which SVG and PNG both draw (static/arcs_draw.js is its twin)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from music_transformer.arc_query import Arc, ArcSet
from music_transformer.arc_tokens import Tokens, pitch_name

# Okabe & Ito 2008, "Color Universal Design": told apart also by the colour-blind.
HEADS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
BLEND = "#D55E00"
WIDEST = 24  # pixels of an arc that carries all of a row: width = WIDEST * weight, always
CASED = 0.4  # pixels from which an arc has a dark casing; around thinner ones it could not be seen
LEFT, RIGHT, TOP, ROOM, RULER, ROLL = 52, 18, 8, 190, 26, 250
PAPER, BLACK, LINE, INK, SOFT, ASKED, CASING = (
    "#ffffff",
    "#f3f5f8",
    "#d5dae1",
    "#3b4657",
    "#6b7685",
    "#0b0f15",
    "#0f172a",
)
DASH = (5.0, 4.0)


@dataclass(frozen=True)
class Rect:
    """A filled box; with ``frame`` only its outline, that many pixels wide."""

    x: float
    y: float
    w: float
    h: float
    fill: str
    alpha: float = 1.0
    radius: float = 0.0
    frame: float = 0.0


@dataclass(frozen=True)
class Curve:
    """A cubic curve through ``points`` (x1 y1 c1x c1y c2x c2y x2 y2); ``arc`` is set on the stroke that stands for one."""

    points: tuple[float, ...]
    stroke: str
    width: float
    alpha: float = 1.0
    dash: tuple[float, ...] = ()
    arc: Arc | None = None


@dataclass(frozen=True)
class Text:
    """A line of text; ``anchor`` is start or end."""

    x: float
    y: float
    text: str
    fill: str
    size: int
    anchor: str = "start"


@dataclass(frozen=True)
class Box:
    """Where a place lies: its box, the part of it that is marked, and the point its arcs end at."""

    x: float
    y: float
    w: float
    h: float
    mark_x: float
    mark_w: float
    arc_x: float
    arc_y: float


class Roll:
    """Where things lie on a piano roll ``width`` pixels wide."""

    def __init__(self, tokens: Tokens, width: int = 1180) -> None:
        self.tokens, self.width = tokens, width
        pitches = [n.pitch for n in tokens.notes]
        self.low, self.high = min(pitches) - 2, max(pitches) + 2
        rows = self.high - self.low + 1
        self.start = min(tokens.seconds[0], *(n.start for n in tokens.notes))
        self.end = max(self.start + 1, tokens.seconds[-1], *(n.end for n in tokens.notes))
        self.row = max(3, min(9, ROLL // rows))
        self.scale = (width - LEFT - RIGHT) / (self.end - self.start)
        self.ruler, top = TOP + ROOM, TOP + ROOM + RULER
        self.top, self.height = top, top + rows * self.row + 8

    def x(self, seconds: float) -> float:
        """Seconds -> pixels."""
        return LEFT + (seconds - self.start) * self.scale

    def y(self, pitch: int) -> float:
        """Pitch -> pixels, the upper edge of its row."""
        return self.top + (self.high - pitch) * self.row

    def box(self, place: int, group: str) -> Box:
        """Return the box of a place or, where events are shown singly, of a token."""
        t, kind = self.tokens, self.tokens.kinds[place]
        if t.note[place] >= 0 and (group == "event" or place > 0):
            return self._note_box(place, group)
        edges = {"bos": self.x(self.start) - 16, "eos": self.x(self.end) + 6, "pad": self.x(self.end) + 6}
        if kind in edges:
            x, y = edges[kind], self.ruler + 6
            return Box(x, y, 10, 14, x, 10, x + 5, y)
        x, y = self.x(t.seconds[place]), self.ruler + 17
        return Box(x - 1, y, 2, 8, x - 1, 2, x, y)

    def _note_box(self, place: int, group: str) -> Box:
        note = self.tokens.notes[self.tokens.note[place]]
        x, y = self.x(note.start), self.y(note.pitch) + 0.5
        w, h = max(2.5, (note.end - note.start) * self.scale - 0.6), self.row - 1
        if group == "note":
            return Box(x, y, w, h, x, w, x + 0.5 * min(w, 8), y)
        part = min(w / 3, 5)
        mark = x + {"on": 0.0, "velocity": (w - part) / 2, "off": w - part}[self.tokens.kinds[place]]
        return Box(x, y, w, h, mark, part, mark + part / 2, y)

    def curve(self, a: Box, b: Box, head: int) -> tuple[float, ...]:
        """Bend an arc: farther keys arch higher and each head a little differently, so that no two share an apex."""
        h, d, base = max(head, 0) % 16, abs(a.arc_x - b.arc_x), min(a.arc_y, b.arc_y)
        if d < 3:  # onto itself, or straight above: a drop
            up, side = 26 + 5 * h, 7 + 2 * h
            return (a.arc_x, a.arc_y, a.arc_x - side, base - up, b.arc_x + side, base - up, b.arc_x, b.arc_y)
        lift = (base - TOP) * (1 - math.exp(-2.2 * (d / self.width) ** 0.6)) * (1 - 0.035 * h)
        c, lean = (base - lift - (a.arc_y + b.arc_y) / 8) / 0.75, 0.2 * (b.arc_x - a.arc_x)
        return (a.arc_x, a.arc_y, a.arc_x + lean, c, b.arc_x - lean, c, b.arc_x, b.arc_y)


Stroke = Rect | Curve | Text


def head_color(head: int) -> str:
    """The colour of a head; blended views have one of their own."""
    return BLEND if head < 0 else HEADS[head % len(HEADS)]


def ground(roll: Roll) -> Iterator[Stroke]:
    """Yield the roll itself: keys, ruler, notes, and a mark for every token that is no note's."""
    yield Rect(0, 0, roll.width, roll.height, PAPER)
    yield from _keys(roll)
    yield from _ruler(roll)
    for n in roll.tokens.notes:
        w = max(2.5, (n.end - n.start) * roll.scale - 0.6)
        alpha = (0.45 + 0.5 * n.velocity / 127) * 0.6
        yield Rect(roll.x(n.start), roll.y(n.pitch) + 0.5, w, roll.row - 1, INK, alpha, 1.5)
    for token, kind in enumerate(roll.tokens.kinds):
        if roll.tokens.note[token] < 0:
            b, tick = roll.box(token, "event"), kind == "shift"
            yield Rect(b.x, b.y, 1 if tick else b.w, b.h, SOFT, 0.45 if tick else 0.8, 0 if tick else 2)


def _keys(roll: Roll) -> Iterator[Stroke]:
    for pitch in range(roll.low, roll.high + 1):
        if pitch % 12 in (1, 3, 6, 8, 10):
            yield Rect(LEFT, roll.y(pitch), roll.width - LEFT - RIGHT, roll.row, BLACK)
        if pitch % 12 == 0:
            yield Text(LEFT - 6, roll.y(pitch) + roll.row, pitch_name(pitch), SOFT, 10, "end")


def _ruler(roll: Roll) -> Iterator[Stroke]:
    gap = next((s for s in (0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300) if s * roll.scale >= 64), 600)
    for i in range(math.ceil(roll.start / gap), int(roll.end / gap) + 1):
        s = i * gap
        yield Rect(roll.x(s), roll.ruler, 1, roll.height - roll.ruler, LINE, 0.8)
        clock = f"{int(s // 60)}:{s % 60:04.1f}" if gap < 1 else f"{int(s // 60)}:{int(s % 60):02d}"
        yield Text(roll.x(s) + 3, roll.ruler + 11, clock, SOFT, 10)
    yield Rect(LEFT, roll.ruler + 25, roll.width - LEFT - RIGHT, 1, LINE)


def answer(roll: Roll, found: ArcSet, group: str, back: bool) -> Iterator[Stroke]:
    """Yield the arcs, thick under thin, then the places at their other ends in the heads' colours, and the asked ones."""
    for arc in sorted(found.arcs, key=lambda a: (-a.weight, a.head, a.key)):
        points = roll.curve(roll.box(arc.query, group), roll.box(arc.key, group), arc.head)
        width, dash = WIDEST * arc.weight, DASH if arc.head >= 8 else ()
        if width >= CASED:
            yield Curve(points, CASING, width + min(1.5, 0.45 * width), 0.55, dash)
        yield Curve(points, head_color(arc.head), width, 1.0, dash, arc)
    stripes: dict[int, set[int]] = {}
    for arc in found.arcs:
        stripes.setdefault(arc.query if back else arc.key, set()).add(arc.head)
    for place, heads in stripes.items():
        b = roll.box(place, group)
        for i, head in enumerate(sorted(heads)):
            y, h = b.y + b.h * i / len(heads), b.h / len(heads)
            yield Rect(b.mark_x - 0.5, y - 0.5, b.mark_w + 1, h + 1, head_color(head), 1, 1)
    for place in {m.place for m in found.mass}:
        b = roll.box(place, group)
        yield Rect(b.mark_x - 2, b.y - 2, b.mark_w + 4, b.h + 4, ASKED, 1, 3, frame=1.6)
