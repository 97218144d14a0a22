"""The scorecard: one model's likelihood, faults, likeness to real music and quotations, measured again from public data.

Every part is written to ``scorecard.json`` when it is done, and is not done again while its inputs stay the same.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpt_core.errors import UserError
from gpt_core.options import check, to_json
from music_transformer.scorecard_config import HELD_OUT, Request, Say
from music_transformer.scorecard_parts import Measurements
from music_transformer.scorecard_report import page
from music_transformer.version import package_version

if TYPE_CHECKING:
    from gpt_core.tokens import Shard


class Card:
    """``scorecard.json`` while it grows: a part is computed once per key, and kept."""

    def __init__(self, path: Path, head: dict[str, Any], say: Say) -> None:
        self.path, self.say = path, say
        self.parts: dict[str, dict[str, Any]] = _old_parts(path)
        self.head = head

    def part(self, name: str, key: dict[str, Any], compute: Callable[[], Any]) -> Any:
        """Return the part's result: the kept one where ``key`` is as it was, else a new one."""
        key = json.loads(json.dumps(key))
        kept = self.parts.get(name)
        if kept is not None and kept["key"] == key:
            self.say(f"{name}: kept from before")
            return kept["result"]
        self.say(f"{name} ...")
        start, busy = time.monotonic(), time.process_time()
        result = json.loads(json.dumps(compute()))
        seconds, cpu = round(time.monotonic() - start, 1), round(time.process_time() - busy, 1)
        self.parts[name] = {"key": key, "seconds": seconds, "cpu_seconds": cpu, "result": result}
        self.save()
        self.say(f"{name}: {seconds:,.0f} s ({cpu:,.0f} s of CPU)")
        return result

    def save(self) -> None:
        """Write what there is, whole or not at all."""
        scratch = self.path.with_suffix(".tmp")
        scratch.write_text(json.dumps({**self.head, "parts": self.parts}, indent=1) + "\n", encoding="utf-8")
        scratch.replace(self.path)


def _old_parts(path: Path) -> dict[str, dict[str, Any]]:
    try:
        parts = json.loads(path.read_text("utf-8"))["parts"]
        return {n: p for n, p in parts.items() if {"key", "seconds", "cpu_seconds", "result"} <= set(p)}
    except (OSError, ValueError, KeyError, AttributeError, TypeError):
        return {}


def make_scorecard(request: Request, say: Say = print) -> dict[str, Any]:
    """Measure everything and write ``scorecard.json``, ``.md``, ``.png`` and the pieces under ``request.out``.

    Returns what stands in the JSON file. UserError for shards without the splits that are needed.
    """
    c, piano = request.config, request.piano
    check(c)
    if c.min_context >= piano.config.context:
        raise UserError(
            f"--min-context is {c.min_context}; this model reads {piano.config.context} events, so give less"
        )
    splits = open_splits(request.shards)
    request.out.mkdir(parents=True, exist_ok=True)
    prints = {name: shard.fingerprint() for name, shard in splits.items()}
    head = {
        "model": request.name, "checkpoint": piano.sha, "parameters": piano.model.parameter_count(),
        "version": package_version(), "shards": prints, "config": to_json(c), "beside": read_beside(request.beside),
    }  # fmt: skip
    card = Card(request.out / "scorecard.json", head, say)
    todo = Measurements(request, splits, say)
    model, held = {"checkpoint": piano.sha}, {s: prints[s] for s in HELD_OUT}
    scope = {"windows": c.windows, "min_context": c.min_context}
    pieces = {"pieces": c.pieces, "seconds": c.seconds, "seed": c.seed}
    card.part("likelihood", {**model, **held, **scope}, todo.likelihood)
    card.part("baselines", {**prints, "order": c.order, "min_context": c.min_context}, todo.baselines)
    card.part("pieces", {**model, **pieces}, todo.generate)
    card.part("faults", {**model, **held, **pieces}, todo.faults)
    card.part("likeness", {**model, **held, **pieces}, todo.likeness)
    card.part("quotations", {**model, **prints, **pieces}, todo.quotations)
    card.save()
    found = json.loads(card.path.read_text("utf-8"))
    (request.out / "scorecard.md").write_text(page(found), encoding="utf-8")
    _draw(found, request.out / "scorecard.png", say)
    return found


def _draw(found: dict[str, Any], path: Path, say: Say) -> None:
    try:
        from music_transformer.scorecard_picture import draw
    except ImportError:
        say("no picture: it needs Pillow (pip install pillow)")
    else:
        path.write_bytes(draw(found))


def open_splits(shards: Path) -> dict[str, Shard]:
    """Open train, validation and test of a folder made by the corpus command."""
    from gpt_core.tokens import Shard

    return {split: Shard.open(shards, split) for split in ("train", *HELD_OUT)}


def read_beside(paths: Sequence[Path]) -> list[dict[str, Any]]:
    """Read rows of other models: JSON files with ``model``, ``validation`` and ``test``, the last two as rates."""
    rows = []
    for path in paths:
        try:
            row = json.loads(path.read_text("utf-8"))
            rows.append({"model": str(row["model"]), **{s: dict(row[s]) for s in HELD_OUT}})
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"{path} is no row to show beside ({error}); it needs model, validation and test") from None
    return rows
