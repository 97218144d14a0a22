"""Save an answered attention question: SVG, PNG at twice the size, JSON, or one HTML page that works by itself."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.sax.saxutils import escape, quoteattr

from gpt_core.errors import UserError
from music_transformer.arc_scene import Curve, Rect, Roll, Stroke, Text, answer, ground, head_color
from music_transformer.arc_tokens import place_name

if TYPE_CHECKING:
    from music_transformer.arcs import Attention

CAUTION = "Attention shows where a head reads from; it does not explain why the model plays what it plays."
_LEGEND = 30  # pixels under the roll for the heads' colours and the sentence
_SHARP = 2  # PNG pixels per SVG pixel
_SMOOTH = 3  # drawn this many times larger still, then scaled down: Pillow draws no smooth curves itself


def save(attention: Attention, path: Path) -> Path:
    """Write the answer in the form that ``path`` ends in; UserError for another ending."""
    makers: dict[str, Callable[[Attention], bytes]] = {
        ".svg": lambda a: to_svg(a).encode(),
        ".png": to_png,
        ".json": lambda a: (json.dumps(to_json(a), ensure_ascii=False, indent=1) + "\n").encode(),
        ".html": lambda a: to_html(a).encode(),
    }
    make = makers.get(path.suffix.lower())
    if make is None:
        raise UserError(
            f"{path}: arcs are saved as {', '.join(makers)}, not as {path.suffix or 'a file without ending'!r}"
        )
    data = make(attention)
    try:
        path.write_bytes(data)
    except OSError as error:
        raise UserError(f"{path} can't be written: {error.strerror or error}") from None
    return path


def to_json(attention: Attention) -> dict[str, Any]:
    """Return model and hash, query, edges in words, and the mass shown and hidden, as JSON types."""
    view, query, found = attention.view, attention.query, attention.arcs
    data = found.to_dict()

    def name(place: int) -> str:
        return place_name(view.tokens, place, query.group)

    return {
        "model": view.manifest()["model"],
        "start": view.start,
        "reach": view.reach(),
        "query": query.to_dict(),
        "edges": [e | {"from": name(e["query"]), "to": name(e["key"])} for e in data["arcs"]],
        "mass": [m | {"name": name(m["place"])} for m in data["mass"]],
    }


def to_html(attention: Attention) -> str:
    """Return one self-contained page: the app's viewer, opened at this question."""
    from music_transformer.arc_page import page

    return page(attention.view, attention.query)


def summary(attention: Attention) -> str:
    """Say in a line who looks at what, and how much of the weight the arcs show."""
    query, found = attention.query, attention.arcs
    places = dict.fromkeys(place_name(attention.view.tokens, m.place, query.group) for m in found.mass)
    total, shown = sum(m.total for m in found.mass), sum(m.shown for m in found.mass)
    share = 100 * shown / total if total else 0.0
    verb = "looks at" if query.direction == "looks-at" else "is looked at by"
    how = f"layer {query.layer}" + ("" if query.view == "heads" else f", {query.view} of heads")
    return (
        f"{', '.join(places)} {verb}: {len(found.arcs)} arcs, {share:.0f} % shown, {100 - share:.0f} % hidden ({how})"
    )


def strokes(attention: Attention) -> tuple[Roll, list[Stroke]]:
    """Return the roll and everything drawn on it, legend included."""
    tokens, query = attention.view.tokens, attention.query
    if not tokens.notes:
        raise UserError("a picture needs notes; save the arcs of a text as .json or .html")
    roll = Roll(tokens)
    drawn = [*ground(roll), *answer(roll, attention.arcs, query.group, query.direction == "looked-at-by")]
    return roll, [*drawn, *_legend(attention, roll)]


def _legend(attention: Attention, roll: Roll) -> list[Stroke]:
    y, x = roll.height + 19.0, 14.0
    out: list[Stroke] = [Rect(0, roll.height, roll.width, _LEGEND, "#ffffff")]
    for head in sorted({m.head for m in attention.arcs.mass}):
        out += [Rect(x, y - 9, 16, 10, head_color(head), 1, 2)]
        label = f"head {head}" if head >= 0 else f"{attention.query.view} of heads"
        out += [Text(x + 21, y, label, "#3b4657", 11)]
        x += 34 + 6.4 * len(label)
    return [*out, Text(roll.width - 14, y, summary(attention), "#3b4657", 11, "end")]


def to_svg(attention: Attention) -> str:
    """Return the picture as SVG; each arc carries its head, query, key and weight as data attributes."""
    roll, drawn = strokes(attention)
    w, h = roll.width, roll.height + _LEGEND
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img">'
    words = f"<title>{escape(summary(attention))}</title><desc>{CAUTION}</desc>"
    return head + words + "".join(map(_svg, drawn)) + "</svg>\n"


def _svg(s: Stroke) -> str:
    if isinstance(s, Text):
        at = f'x="{s.x:.2f}" y="{s.y:.2f}" font-size="{s.size}" text-anchor="{s.anchor}" fill="{s.fill}"'
        return f'<text {at} font-family="system-ui, sans-serif">{escape(s.text)}</text>'
    if isinstance(s, Rect):
        paint = f'fill="{s.fill}" fill-opacity="{s.alpha:.2f}"'
        if s.frame:
            paint = f'fill="none" stroke="{s.fill}" stroke-width="{s.frame}"'
        return f'<rect x="{s.x:.2f}" y="{s.y:.2f}" width="{s.w:.2f}" height="{s.h:.2f}" rx="{s.radius:g}" {paint}/>'
    x1, y1, *rest = (f"{p:.2f}" for p in s.points)
    dash = f' stroke-dasharray="{s.dash[0]:g} {s.dash[1]:g}"' if s.dash else ""
    facts = ""
    if s.arc is not None:
        values = {"head": s.arc.head, "query": s.arc.query, "key": s.arc.key, "weight": s.arc.weight}
        facts = ' class="arc"' + "".join(f" data-{k}={quoteattr(str(v))}" for k, v in values.items())
    paint = f'stroke="{s.stroke}" stroke-width="{s.width:.5f}" stroke-opacity="{s.alpha:.2f}"{dash}'
    return f'<path{facts} fill="none" {paint} d="M{x1} {y1}C{" ".join(rest)}"/>'


def to_png(attention: Attention) -> bytes:
    """Return the picture as PNG at twice its size; UserError where Pillow is missing."""
    try:
        from music_transformer.arc_paint import paint
    except ImportError:
        raise UserError("a PNG needs Pillow: pip install pillow, or save the arcs as .svg") from None
    roll, drawn = strokes(attention)
    return paint(drawn, (roll.width, roll.height + _LEGEND), _SHARP, _SMOOTH)


__all__ = ["CAUTION", "Curve", "save", "strokes", "summary", "to_html", "to_json", "to_png", "to_svg"]
