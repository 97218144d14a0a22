"""Compose: continue a piece or write one from nothing (generating is continuing nothing), in takes, as a stream."""

from __future__ import annotations

import dataclasses
import secrets
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from gpt_core.errors import UserError
from gpt_core.options import check, to_json
from gpt_core.sampling import Sampling, generators_for
from music_transformer.compose_config import DEFAULT_PRESET, EVENTS_PER_SECOND, PRESETS, ComposeConfig, usual_hold
from music_transformer.events import EOS, STEPS_PER_SECOND, TIME_SHIFT, VELOCITY
from music_transformer.grammar import Grammar, GrammarConfig
from music_transformer.midi import write_midi
from music_transformer.receipts import Receipt, make_receipt, to_text
from music_transformer.score import Score
from music_transformer.splice import cut, followed, joined, new_part, with_clock
from music_transformer.version import package_version

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint


class Step(NamedTuple):
    """One step of the stream, per take: the new id, the seconds reached, whether the take is over."""

    column: tuple[int, ...]
    seconds: tuple[float, ...]
    done: tuple[bool, ...]


@dataclass(frozen=True)
class Take:
    """One continuation. ``new`` starts at 0 and belongs at second ``join`` of ``whole``; ``prompt`` is as it was."""

    whole: Score
    new: Score
    prompt: Score
    join: float
    prompt_ids: tuple[int, ...]
    ids: tuple[int, ...]
    index: int
    seed: int
    receipt: Receipt

    def midi(self, part: str = "whole") -> bytes:
        """Return ``whole`` or ``new`` as a MIDI file that carries its receipt."""
        settings = {**self.receipt.settings, "part": part}
        receipt = dataclasses.replace(self.receipt, settings=settings)
        return write_midi(self.whole if part == "whole" else self.new, texts=[to_text(receipt)])


class Composition:
    """One request: iterate :meth:`steps`, and take what exists with :meth:`takes` at any time, a stop included."""

    def __init__(
        self,
        piano: Checkpoint,
        score: Score | None,
        config: ComposeConfig | None = None,
        sampling: Sampling | None = None,
        *,
        source: bytes | None = None,
        model_name: str | None = None,
    ) -> None:
        """``source`` is the upload the score was read from, for the receipt; without it the score is written out."""
        self.piano, self.score = piano, score if score is not None and score.notes else None
        self.config = config or ComposeConfig()
        if self.config.max_hold is None:
            self.config = dataclasses.replace(self.config, max_hold=usual_hold(piano))
        check(self.config)
        if self.config.seed is None:
            self.config = dataclasses.replace(self.config, seed=secrets.randbelow(2**31))
        self.sampling = sampling or PRESETS[DEFAULT_PRESET]
        if self.config.until is not None:
            self.config = dataclasses.replace(self.config, seconds=_gap(self.config))
        self.cut = cut(self.score, self.config.at)
        self.ids: list[list[int]] = [[] for _ in range(self.config.takes)]
        self.engine = ""  # a line that says what computes, once it does
        self._source = source
        self._name = model_name or piano.folder.name

    def steps(self, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Step]:
        """Compose, yielding each step; ends at the asked length, or when ``cancelled()`` says so."""
        import torch

        from gpt_core.generate import choose_engine, describe, generate

        c, takes = self.config, self.config.takes
        assert c.seed is not None
        engine = choose_engine(self.piano.model, c.engine)
        self.engine = describe(engine)
        stream = generate(
            self.piano.model,
            torch.tensor([self.cut.ids]),
            max_new_tokens=c.max_events or int(c.seconds * EVENTS_PER_SECOND) + 500,
            sampling=self.sampling,
            filters=[self._grammar()],
            stop_ids=[EOS],
            generators=generators_for(c.seed, takes),
            takes=takes,
            engine=engine,
        )
        now, done = [0] * takes, [False] * takes
        for column in stream:
            for t, event in enumerate(column.tolist()):
                if not done[t]:
                    self.ids[t].append(event)
                    done[t] = event == EOS
                    now[t] += event - TIME_SHIFT + 1 if TIME_SHIFT <= event < VELOCITY else 0
            yield Step(tuple(i[-1] for i in self.ids), tuple(n / STEPS_PER_SECOND for n in now), tuple(done))
            if cancelled():  # the receipt must tell where it ended, to end there again
                self.config = dataclasses.replace(c, max_events=max(map(len, self.ids)))
                return

    def _grammar(self) -> Grammar:
        c = self.config
        assert c.max_hold is not None
        bounds = GrammarConfig(
            max_hold=c.max_hold,
            max_wait=c.max_wait,
            max_silence=c.max_silence,
            max_keys=c.max_keys,
            seconds=c.seconds,
            min_seconds=c.min_seconds,
        )
        return Grammar(bounds, prompt_length=len(self.cut.ids))

    def takes(self) -> list[Take]:
        """Return the takes as far as they have come; what still sounds is closed."""
        return [self._take(i, ids) for i, ids in enumerate(self.ids)]

    def _take(self, index: int, ids: list[int]) -> Take:
        new = new_part(self.cut.ids, ids)
        prompt, join = self.cut.prompt, self.cut.join
        whole = joined(prompt, new, join)
        if self.config.until is not None:
            assert self.score is not None
            whole = followed(whole, self.score, self.config.until)
        seed = self.config.seed
        assert seed is not None
        return Take(
            whole, with_clock(new, prompt, join), prompt, join, tuple(self.cut.ids), tuple(ids), index, seed,
            self._receipt(index),
        )  # fmt: skip

    def _receipt(self, index: int) -> Receipt:
        if self._source is None and self.score is not None:
            self._source = write_midi(self.score)
        return make_receipt(
            self._source if self.score is not None else None,
            action="generate" if self.score is None else "continue",
            version=package_version(),
            model=self._name,
            checkpoint=self.piano.sha,
            seed=self.config.seed,
            take=index,
            settings={"compose": to_json(self.config), "sampling": to_json(self.sampling)},
        )


def _gap(config: ComposeConfig) -> float:
    """Seconds between ``at`` and ``until``; UserError where there are none."""
    if config.at is None or config.until is None or config.until - config.at < 0.1:
        raise UserError(f"--until is {config.until} and --at is {config.at}; give --at at least 0.1 s before --until")
    return round(config.until - config.at, 2)


def continue_score(
    piano: Checkpoint,
    score: Score | None,
    *,
    seconds: float = 20.0,
    takes: int = 1,
    seed: int | None = None,
    at: float | None = None,
    sampling: Sampling | None = None,
) -> list[Take]:
    """Continue ``score`` from its end, or from second ``at``; the same seed gives the same takes.

    Take i does not depend on how many takes are asked for. Raises UserError for settings out of range, and where a take
    came out as nothing but rests.
    """
    composition = Composition(piano, score, ComposeConfig(seconds, takes, seed, at), sampling)
    for _ in composition.steps():
        pass
    return refuse_silence(composition.takes())


def generate_score(
    piano: Checkpoint,
    *,
    seconds: float = 60.0,
    takes: int = 1,
    seed: int | None = None,
    sampling: Sampling | None = None,
) -> list[Take]:
    """Write a piece from nothing; see :func:`continue_score`."""
    return continue_score(piano, None, seconds=seconds, takes=takes, seed=seed, sampling=sampling)


def refuse_silence(takes: list[Take]) -> list[Take]:
    """Return the takes; raise UserError, naming another seed, if one of them has no new note."""
    for take in takes:
        if not take.new.notes:
            raise UserError(
                f"take {take.index + 1} with seed {take.seed} came out as nothing but rests; "
                f"try --seed {take.seed + 1} or more --seconds"
            )
    return takes


def recreate(receipt: Receipt, piano: Checkpoint) -> bytes:
    """Make a piece again from its receipt, byte for byte with the same checkpoint, version and kind of machine."""
    from music_transformer.midi import read_midi

    if piano.sha != receipt.checkpoint:
        raise UserError(
            f"the receipt was made by checkpoint {receipt.checkpoint[:12]} but {piano.folder.name} is {piano.sha[:12]}; "
            "give the right one with --model"
        )
    if receipt.prompt is None and receipt.action == "continue":
        raise UserError(
            "the receipt does not hold its prompt, which was too large; continue the original upload instead"
        )
    try:
        config = ComposeConfig(**receipt.settings["compose"])
        sampling = Sampling(**receipt.settings["sampling"])
    except (KeyError, TypeError) as error:
        raise UserError(
            f"the receipt's settings are of another version ({error}); it was made by {receipt.version}"
        ) from None
    score = read_midi(receipt.prompt)[0] if receipt.prompt is not None else None
    composition = Composition(piano, score, config, sampling, source=receipt.prompt, model_name=receipt.model)
    for _ in composition.steps():
        pass
    takes = composition.takes()
    if not 0 <= receipt.take < len(takes):
        raise UserError(f"the receipt names take {receipt.take + 1} of {len(takes)}; it is damaged")
    return takes[receipt.take].midi(str(receipt.settings.get("part", "whole")))
