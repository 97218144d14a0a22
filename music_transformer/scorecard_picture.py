"""A scorecard's figures as one PNG: bars for the likelihoods, and pairs of histograms, pieces against real music."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from music_transformer.arc_paint import paint
from music_transformer.arc_scene import Rect, Stroke, Text
from music_transformer.scorecard_report import UNITS, rates_of
from music_transformer.statistics import INTER_ONSET_EDGES

WIDTH, HEIGHT = 960, 760
INK, SOFT, LINE, MINE, REAL = "#1f2733", "#5b6675", "#d5dae1", "#0072B2", "#E69F00"
PITCHES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")
_SHARP, _SMOOTH = 2, 2


@dataclass(frozen=True)
class Panel:
    """A part of the picture, in pixels; drawing happens below its title."""

    x: float
    y: float
    w: float
    h: float

    def title(self, text: str) -> Text:
        """Return its heading."""
        return Text(self.x, self.y + 14, text, INK, 14)


def draw(found: dict[str, Any]) -> bytes:
    """Return the PNG of what ``make_scorecard`` returned."""
    parts = {name: part["result"] for name, part in found["parts"].items()}
    strokes: list[Stroke] = [Text(30, 34, f"Scorecard of {found['model']}", INK, 20)]
    strokes += [Rect(560, 22, 12, 12, MINE), Text(578, 33, "generated", SOFT, 12)]
    strokes += [Rect(670, 22, 12, 12, REAL), Text(688, 33, "held-out human music", SOFT, 12)]
    rates = {n: r["validation"]["nats_per_event"] for n, r in rates_of(found).items()}
    strokes += _bars(Panel(30, 60, 430, 190), "Nats per event, validation (lower is better)", rates)
    notes = [[r["notes"] for r in parts["quotations"]["each"]], parts["quotations"]["real"]]
    strokes += _lengths(Panel(500, 60, 430, 190), "Longest passage shared with the training music, notes", notes)
    likeness = parts["likeness"]["pieces"]
    labels = [f"{10 * e} ms" if e < 100 else f"{e // 100} s" for e in INTER_ONSET_EDGES]
    strokes += _pairs(Panel(30, 290, 430, 190), "Pitch classes", _means(likeness["pitch_classes"]), PITCHES)
    strokes += _pairs(
        Panel(500, 290, 430, 190), "Waits between strikes, from", _means(likeness["inter_onsets"]), labels
    )
    single = {n: u for n, u in UNITS.items() if not isinstance(likeness[n]["real"]["mean"], list)}
    for k, (name, unit) in enumerate(single.items()):
        strokes += _spread(Panel(30 + 470 * (k % 2), 520 + 110 * (k // 2), 430, 90), unit, likeness[name])
    return paint(strokes, (WIDTH, HEIGHT), _SHARP, _SMOOTH)


def _means(row: dict[str, Any]) -> list[list[float]]:
    return [row["pieces"]["mean"], row["real"]["mean"]]


def _bars(panel: Panel, title: str, values: dict[str, float]) -> Iterator[Stroke]:
    """One horizontal bar for each named value."""
    yield panel.title(title)
    step = min(34.0, (panel.h - 26) / len(values))
    longest = max(values.values())
    for k, (name, value) in enumerate(values.items()):
        y = panel.y + 28 + k * step
        width = (panel.w - 190) * value / longest
        yield Text(panel.x + 110, y + step * 0.55, name[:18], SOFT, 12, "end")
        yield Rect(panel.x + 118, y, width, step * 0.7, MINE if k == 0 else LINE)
        yield Text(panel.x + 124 + width, y + step * 0.55, f"{value:.3f}", INK, 12)


def _lengths(panel: Panel, title: str, lists: list[list[int]]) -> Iterator[Stroke]:
    """Histograms of two lists of whole numbers, on common bins."""
    low, high = min(map(min, lists)), max(map(max, lists))
    width = -(-(high - low + 1) // 12)
    count = -(-(high - low + 1) // width)
    shares = [(np.bincount((np.array(xs) - low) // width, minlength=count) / len(xs)).tolist() for xs in lists]
    names = [str(low + width * k) if width == 1 else f"{low + width * k}+" for k in range(count)]
    yield from _pairs(panel, title, shares, names)


def _pairs(panel: Panel, title: str, series: list[list[float]], labels: Sequence[str]) -> Iterator[Stroke]:
    """Upright bars, two for each label: the pieces' and the real music's."""
    yield panel.title(title)
    top, floor = panel.y + 30, panel.y + panel.h - 20
    highest = max(map(max, series)) or 1.0
    slot = panel.w / len(labels)
    for k, label in enumerate(labels):
        for j, (values, color) in enumerate(zip(series, (MINE, REAL), strict=True)):
            height = (floor - top) * values[k] / highest
            yield Rect(panel.x + slot * (k + 0.1 + 0.4 * j), floor - height, slot * 0.38, max(height, 0.5), color)
        middle = panel.x + slot * (k + 0.49)
        yield Text(middle + 2.8 * len(label), floor + 16, label, SOFT, 10, "end")  # there is no anchor in the middle
    yield Rect(panel.x, floor, panel.w, 1, LINE)


def _spread(panel: Panel, title: str, row: dict[str, Any]) -> Iterator[Stroke]:
    """Mean and spread of both sets on one scale from 0."""
    yield panel.title(title)
    sets = [row["pieces"], row["real"]]
    scale = (panel.w - 100) / max(s["mean"] + s["spread"] for s in sets)
    for k, (values, color) in enumerate(zip(sets, (MINE, REAL), strict=True)):
        y = panel.y + 34 + 26 * k
        left, right = (max(0.0, values["mean"] + sign * values["spread"]) * scale for sign in (-1, 1))
        yield Rect(panel.x, y + 6, panel.w - 100, 1, LINE)
        yield Rect(panel.x + left, y + 3, max(right - left, 1.0), 7, color, alpha=0.4)
        yield Rect(panel.x + values["mean"] * scale - 2, y - 1, 4, 15, color)
        yield Text(panel.x + panel.w, y + 11, f"{values['mean']:.2f} ± {values['spread']:.2f}", INK, 12, "end")
