"""Strokes -> PNG bytes with Pillow: everything is drawn larger and scaled down, which makes the curves smooth."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Iterator
from itertools import pairwise

from PIL import Image, ImageColor, ImageDraw, ImageFont

from music_transformer.arc_scene import Curve, Rect, Stroke, Text

Point = tuple[float, float]
_STEPS = 160  # straight pieces per curve


def paint(strokes: Iterable[Stroke], size: tuple[int, int], sharp: int, smooth: int) -> bytes:
    """Draw ``strokes`` on ``size`` pixels times ``sharp``, each pixel from ``smooth`` by ``smooth`` finer ones."""
    fine = sharp * smooth
    image = Image.new("RGB", (size[0] * fine, size[1] * fine), "#ffffff")
    pen = ImageDraw.Draw(image, "RGBA")  # blends what it draws
    texts: list[Text] = []
    for stroke in strokes:
        if isinstance(stroke, Text):
            texts.append(stroke)
        elif isinstance(stroke, Rect):
            _rect(pen, stroke, fine)
        else:
            _curve(pen, stroke, fine)
    image = image.resize((size[0] * sharp, size[1] * sharp), Image.Resampling.BOX)
    _write(image, texts, sharp)
    out = io.BytesIO()
    image.save(out, "PNG")
    return out.getvalue()


def _write(image: Image.Image, texts: Iterable[Text], sharp: int) -> None:
    draw = ImageDraw.Draw(image)
    for text in texts:
        font = ImageFont.load_default(text.size * sharp)
        anchor = "ls" if text.anchor == "start" else "rs"
        plain = text.text.replace("♯", "#")  # Pillow's own font has no musical sharp
        draw.text((text.x * sharp, text.y * sharp), plain, fill=text.fill, font=font, anchor=anchor)


def _rect(pen: ImageDraw.ImageDraw, r: Rect, fine: int) -> None:
    x, y = round(r.x * fine), round(r.y * fine)
    box = (x, y, max(round((r.x + r.w) * fine) - 1, x), max(round((r.y + r.h) * fine) - 1, y))
    if r.frame:
        pen.rounded_rectangle(box, r.radius * fine, outline=r.fill, width=round(r.frame * fine))
        return
    on_white = tuple(round(255 + (v - 255) * r.alpha) for v in ImageColor.getrgb(r.fill)[:3])
    pen.rounded_rectangle(box, min(r.radius * fine, (box[2] - box[0]) / 2, (box[3] - box[1]) / 2), fill=on_white)


def _curve(pen: ImageDraw.ImageDraw, c: Curve, fine: int) -> None:
    """A line thinner than a pixel is drawn one pixel wide and as faint: what is seen stays proportional to the weight."""
    color = ImageColor.getrgb(c.stroke)[:3]
    alpha = round(255 * c.alpha * min(1.0, c.width * fine))
    half = max(1.0, c.width * fine) / 2
    line = [(x * fine, y * fine) for x, y in _points(c.points)]
    for piece in _dashes(line, [d * fine for d in c.dash]):
        pen.polygon(_outline(piece, half), fill=(*color, alpha))


def _outline(line: list[Point], half: float) -> list[Point]:
    """The two edges of a line ``2 * half`` wide, there and back."""
    there, back = [], []
    for i, (x, y) in enumerate(line):
        (x1, y1), (x2, y2) = line[max(i - 1, 0)], line[min(i + 1, len(line) - 1)]
        length = math.hypot(x2 - x1, y2 - y1) or 1.0
        dx, dy = -(y2 - y1) / length * half, (x2 - x1) / length * half
        there.append((x + dx, y + dy))
        back.append((x - dx, y - dy))
    return there + back[::-1]


def _points(p: tuple[float, ...]) -> Iterator[Point]:
    for i in range(_STEPS + 1):
        t = i / _STEPS
        a, b, c, d = (1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t**3
        yield a * p[0] + b * p[2] + c * p[4] + d * p[6], a * p[1] + b * p[3] + c * p[5] + d * p[7]


def _dashes(line: list[Point], dash: list[float]) -> Iterator[list[Point]]:
    """Cut a line into dashes, at its own points."""
    if not dash:
        yield line
        return
    piece, run, on = [line[0]], 0.0, True
    for a, b in pairwise(line):
        piece.append(b)
        run += math.hypot(b[0] - a[0], b[1] - a[1])
        if run >= dash[0 if on else 1]:
            if on:
                yield piece
            piece, run, on = [b], 0.0, not on
    if on and len(piece) > 1:
        yield piece
