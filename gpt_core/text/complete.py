"""Text in, text out, streamed: takes, seeds, stop strings, and a notice where the window slides."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpt_core.config import ENGINES
from gpt_core.errors import UserError
from gpt_core.options import check, option
from gpt_core.sampling import Sampling

if TYPE_CHECKING:
    from gpt_core.checkpoint import Checkpoint

_HELP = {f.name: f.metadata["help"] for f in dataclasses.fields(Sampling)}


@dataclass(frozen=True)
class TextSampling(Sampling):
    """How text is drawn: as :class:`Sampling`, with the top-k that GPT-2's authors showed their samples with."""

    top_k: int = option(40, _HELP["top_k"], low=0)


@dataclass(frozen=True)
class CompleteConfig:
    """How much text, how often, from which seed."""

    max_new: int = option(80, "tokens to write at most", low=1, high=1_000_000)
    takes: int = option(1, "how many continuations of the prompt", low=1, high=256)
    seed: int = option(0, "the same seed and settings give the same text")
    special: bool = option(False, "read <|endoftext|> in the prompt as the end token instead of as letters")
    past_end: bool = option(False, "write on where the model ends the text")
    engine: str = option("auto", "what computes: native needs a C++ compiler once", choices=ENGINES)


@dataclass(frozen=True)
class Piece:
    """A bit of new text: which take it belongs to, and why the take is over if it is (end, stop, length)."""

    take: int
    text: str
    finished: str = ""


@dataclass(frozen=True)
class Completion:
    """One whole continuation, and why it ended: ``end`` (the model's own), ``stop`` (a stop string) or ``length``."""

    take: int
    text: str
    finished: str


def stream(
    model: Checkpoint,
    prompt: str,
    config: CompleteConfig | None = None,
    sampling: Sampling | None = None,
    *,
    stop: str | Sequence[str] = (),
    appended: Sequence[int] = (),
    notice: Callable[[str], None] | None = None,
) -> Iterator[Piece]:
    """Yield new text as soon as it is certain: never half a character, never the beginning of a stop string.

    An empty prompt writes from the end token, that is from nothing. A text ends before the first of ``stop`` (a string
    or several) that it contains. ``appended`` are ids that follow the prompt, such as those chosen in the explorer.
    ``notice`` is told in a sentence what the model cannot see. Raises UserError for bad settings.
    """
    config, sampling = config or CompleteConfig(), sampling or TextSampling()
    check(config)
    check(sampling)
    stops = (stop,) if isinstance(stop, str) else tuple(stop)
    if not all(isinstance(s, str) and s for s in stops):
        raise UserError("a stop string is empty or no text; give strings of at least one character")
    ids = context_ids(model, prompt, appended, special=config.special)
    for line in notices(model, prompt, len(ids), config.max_new):
        (notice or _silent)(line)
    return _run(model, ids, len(appended), config, sampling, stops)


def complete(
    model: Checkpoint,
    prompt: str,
    config: CompleteConfig | None = None,
    sampling: Sampling | None = None,
    *,
    stop: str | Sequence[str] = (),
    appended: Sequence[int] = (),
    notice: Callable[[str], None] | None = None,
) -> list[Completion]:
    """Return every take's whole text; see :func:`stream`."""
    config = config or CompleteConfig()
    texts, ends = [""] * config.takes, [""] * config.takes
    for piece in stream(model, prompt, config, sampling, stop=stop, appended=appended, notice=notice):
        texts[piece.take] += piece.text
        ends[piece.take] = piece.finished or ends[piece.take]
    return [Completion(i, text, end) for i, (text, end) in enumerate(zip(texts, ends, strict=True))]


def context_ids(model: Checkpoint, prompt: str, appended: Sequence[int] = (), *, special: bool = False) -> list[int]:
    """Return the ids of a prompt and what was appended to it; an empty prompt is the end token, after which texts begin."""
    if not isinstance(prompt, str):
        raise UserError(f"the prompt is {type(prompt).__name__}; give a string")
    return [*(model.codec.encode(prompt, special=special) or [model.codec.special_ids["eos"]]), *appended]


def notices(model: Checkpoint, prompt: str, length: int, new: int) -> list[str]:
    """Say what the model will not see of ``length`` prompt tokens and ``new`` further ones, and what it can't spell."""
    out, context = [], model.config.context
    if length > context:
        out.append(
            f"the prompt has {length:,} tokens and the model reads {context:,}: the first {length - context:,} are not seen"
        )
    elif length + new > context:
        out.append(
            f"the model reads {context:,} tokens at a time: beyond that it goes on from the last {max(1, context // 2):,}"
        )
    unknown: list[str] = getattr(model.codec, "unknown", lambda text: [])(prompt)
    if unknown:
        out.append(f"the model's alphabet lacks {', '.join(map(repr, unknown[:8]))}; read as unknown")
    return out


def _silent(line: str) -> None:
    """Tell nobody."""


def _run(
    model: Checkpoint,
    ids: Sequence[int],
    appended: int,
    config: CompleteConfig,
    sampling: Sampling,
    stop: Sequence[str],
) -> Iterator[Piece]:
    import torch

    from gpt_core.generate import generate
    from gpt_core.sampling import generators_for

    end = model.codec.special_ids["eos"]
    takes = [_Take(i, model.codec.stream(), Held(stop), None if config.past_end else end) for i in range(config.takes)]
    for take in takes:
        take.follow(ids[len(ids) - appended :])
    columns = generate(
        model.model, torch.tensor([ids]), max_new_tokens=config.max_new, sampling=sampling, takes=config.takes,
        stop_ids=() if config.past_end else (end,), generators=generators_for(config.seed, config.takes),
        engine=config.engine,
    )  # fmt: skip
    for column in columns:
        for take, i in zip(takes, column.tolist(), strict=True):
            yield from take.push(i)
        if all(take.finished for take in takes):
            return
    for take in takes:
        yield from take.finish("length")


class _Take:
    """One row of the stream: ids to text, and whether it is over."""

    def __init__(self, index: int, decoder: _Decoder, held: Held, end: int | None) -> None:
        self.index, self.decoder, self.held, self.end = index, decoder, held, end
        self.finished = ""

    def follow(self, ids: Sequence[int]) -> None:
        """Go on from ids whose text is known: of a character that they leave half, the rest will complete it."""
        for i in ids:
            self.decoder.push(i)

    def push(self, i: int) -> Iterator[Piece]:
        if self.finished:
            return
        if i == self.end:
            yield from self.finish("end")
            return
        text = self.held.push(self.decoder.push(i))
        if self.held.met:
            self.finished = "stop"
        if text or self.finished:
            yield Piece(self.index, text, self.finished)

    def finish(self, why: str) -> Iterator[Piece]:
        if not self.finished:
            text = self.held.push(self.decoder.finish()) + self.held.finish()
            self.finished = "stop" if self.held.met else why
            yield Piece(self.index, text, self.finished)


class Held:
    """Text in, text out, up to the first stop string: what may be the beginning of one waits."""

    def __init__(self, stop: Sequence[str]) -> None:
        self.stop = stop
        self.met = ""
        self._waiting = ""

    def push(self, text: str) -> str:
        """Return what can be shown now; ``met`` names the stop string once one is complete."""
        if self.met:
            return ""
        whole = self._waiting + text
        found = [(whole.find(s), s) for s in self.stop if s in whole]
        if found:
            at, self.met = min(found)
            self._waiting = ""
            return whole[:at]
        keep = max((_overlap(whole, s) for s in self.stop), default=0)
        self._waiting = whole[len(whole) - keep :]
        return whole[: len(whole) - keep]

    def finish(self) -> str:
        """Return what still waits: the text has ended, so it is no beginning of anything."""
        waiting, self._waiting = self._waiting, ""
        return waiting


def _overlap(text: str, stop: str) -> int:
    """The length of the longest end of ``text`` that begins ``stop``."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)


if TYPE_CHECKING:
    from typing import Protocol

    class _Decoder(Protocol):
        def push(self, i: int) -> str: ...

        def finish(self) -> str: ...
