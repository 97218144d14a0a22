"""The instrument's actions for programs: plain typed functions that gradio publishes under stable names."""

from __future__ import annotations

import functools
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gradio as gr

from gpt_core.errors import UserError
from music_transformer.compose import Composition, recreate, refuse_silence
from music_transformer.meters import measure
from music_transformer.next_events import draft, likeliest
from music_transformer.web import refusals
from music_transformer.web.imports import read, receipt_facts, receipt_of
from music_transformer.web.orders import order_from
from music_transformer.web.session import Session

_STALE = 3600  # seconds until an answer's files are deleted


def _sentences(act: Callable[..., Any]) -> Callable[..., Any]:
    """UserErrors reach the caller as their sentence."""

    @functools.wraps(act)
    def told(*args: Any, **kwargs: Any) -> Any:
        try:
            return act(*args, **kwargs)
        except UserError as error:
            raise gr.Error(refusals.sentence(error), print_exception=False) from None

    return told


class Api:
    """Each entry of ``endpoints`` is one function; files come in and go out as paths."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.endpoints: dict[str, Callable[..., Any]] = {
            "continue": self._continue_piece,
            "generate": self._generate,
            "inspect": self._inspect,
            "render": self._render,
            "next_events": self._next_events,
            "recreate": self._recreate,
        }

    @_sentences
    def _continue_piece(
        self,
        file: str,
        seconds: float = 20,
        takes: int = 1,
        seed: int | None = None,
        preset: str = "balanced",
        at: float | None = None,
        until: float | None = None,
        temperature: float | None = None,
        top_k: int | None = None,
        top_p: float | None = None,
        min_p: float | None = None,
        model: str | None = None,
        request: gr.Request | None = None,
    ) -> tuple[list[str], dict[str, Any]]:
        """Continue a MIDI file: the whole pieces as MIDI files, and what was done."""
        if not file:
            raise UserError("give a MIDI file to continue, or call /generate")
        order = {"seconds": seconds, "takes": takes, "seed": seed, "preset": preset, "at": at, "until": until}
        order |= {"temperature": temperature, "top_k": top_k, "top_p": top_p, "min_p": min_p, "model": model or None}
        return self._compose(Path(file).read_bytes(), order, request)

    @_sentences
    def _generate(
        self,
        seconds: float = 20,
        takes: int = 1,
        seed: int | None = None,
        preset: str = "balanced",
        model: str | None = None,
        request: gr.Request | None = None,
    ) -> tuple[list[str], dict[str, Any]]:
        """Write a piece from nothing: MIDI files, and what was done."""
        order = {"seconds": seconds, "takes": takes, "seed": seed, "preset": preset, "model": model or None}
        return self._compose(None, order, request)

    @_sentences
    def _inspect(self, file: str) -> dict[str, Any]:
        """What a MIDI file holds, what was repaired, its meters, and its receipt if it has one."""
        data = Path(file).read_bytes()
        score, report = read(data)
        receipt = receipt_of(data)
        facts = {"receipt": receipt_facts(receipt)} if receipt else {}
        return {**report.to_dict(), "meters": measure(score).to_dict(), **facts}

    @_sentences
    def _render(self, file: str) -> str:
        """A MIDI file as a WAV file."""
        from music_transformer.audio import render_wav

        return str(render_wav(read(Path(file).read_bytes())[0], self._folder() / "piece.wav"))

    @_sentences
    def _next_events(self, file: str | None, at: float | None = None, model: str | None = None) -> list[dict[str, Any]]:
        """The ten likeliest next events at second ``at`` of a file (its end if none)."""
        score = read(Path(file).read_bytes())[0] if file else None
        return [event._asdict() for event in likeliest(self.session.models.music(model or None), draft(score, at))]

    @_sentences
    def _recreate(self, file: str, request: gr.Request | None = None) -> tuple[str, bool]:
        """Compose a piece again from the receipt in its file; also whether every byte is the same."""
        data = Path(file).read_bytes()
        receipt = receipt_of(data)
        if receipt is None:
            raise UserError("this file carries no receipt; only pieces composed here do")
        with self.session.turns.turn(_who(request)):
            made = recreate(receipt, self.session.models.maker({"model": receipt.model}))
        return str(self._save("again.mid", made)), made == data

    def _compose(
        self, data: bytes | None, asked: dict[str, Any], request: gr.Request | None
    ) -> tuple[list[str], dict[str, Any]]:
        order = order_from(asked)
        score, report = read(data) if data is not None else (None, None)
        composition = Composition(
            self.session.models.music(order.model), score, order.compose, order.sampling, source=data,
            model_name=order.model or self.session.models.usual,
        )  # fmt: skip
        with self.session.turns.turn(_who(request)):
            for _ in composition.steps():
                pass
        takes = refuse_silence(composition.takes())
        files = [str(self._save(f"take-{t.index + 1}.mid", t.midi())) for t in takes]
        facts = {"seed": takes[0].seed, "join": takes[0].join, "events": [len(t.ids) for t in takes]}
        return files, {**facts, "report": list(report.lines) if report else []}

    def _save(self, name: str, data: bytes) -> Path:
        file = self._folder() / name
        file.write_bytes(data)
        return file

    def _folder(self) -> Path:
        """A fresh folder for one answer; those of an hour ago are deleted."""
        root = Path(self.session.scratch.name)
        for old in root.glob("answer-*"):
            if time.time() - old.stat().st_mtime > _STALE:
                shutil.rmtree(old, ignore_errors=True)
        return Path(tempfile.mkdtemp(prefix="answer-", dir=root))


def _who(request: gr.Request | None) -> str:
    return f"api {request.session_hash if request else ''}"
