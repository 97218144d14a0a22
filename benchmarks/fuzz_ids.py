"""Id sequences for ``benchmarks.fuzz``: what a model might draw, what it never would, and things that are no ids at all."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np

from gpt_core.errors import UserError
from gpt_core.text.bpe import BPECodec
from gpt_core.text.chars import CharCodec
from music_transformer.events import EventCodec, decode, encode, from_one_hot, normalize, one_hot, token_notes
from music_transformer.midi import read_midi, write_midi
from music_transformer.vocabulary import EVENTS, NOTE_OFF, TIME_SHIFT, VELOCITY, VOCAB_SIZE

ODD: tuple[Any, ...] = (
    -1, VOCAB_SIZE, 65535, 2**31, 2**63, -(2**63), 10**30, 1.0, 1.5, float("nan"), float("inf"), None, "60", b"60", True, [60], [],
    (60, 61), {}, 1 + 2j, np.int8(-3), np.float32(60), np.array([60, 61]), object(),
)  # fmt: skip
KINDS = (np.int64, np.uint16, np.int8, np.float32, np.float64, np.bool_, np.complex64, object, "U5")


class Ids:
    """Sequences for the three codecs. Most are valid ids in no sensible order; a quarter are spoiled."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        self.text = BPECodec.train(["the cat sat on the mat, été; " * 5], 270)
        self.chars = CharCodec("abc é\n𝄞")
        self.events = EventCodec()

    def case(self, rng: random.Random) -> Any:
        """A list, or at times an array of some kind and shape."""
        ids = _music(rng)
        if rng.random() < 0.25:
            for _ in range(rng.choice((1, 1, 3))):
                ids[rng.randrange(len(ids)) : rng.randrange(len(ids)) + 1] = [rng.choice(ODD)]
                ids = ids or [0]
        if rng.random() < 0.1:
            return _array(ids, rng)
        return tuple(ids) if rng.random() < 0.1 else ids

    def try_one(self, case: Any, deep: bool) -> str:
        """Decode; encoding and decoding again must change nothing, nor must the way through a MIDI file."""
        score = decode(case)
        notes = score.notes
        assert all(0 <= n.start < n.end and 0 <= n.pitch < 128 and 2 <= n.velocity <= 126 for n in notes)
        ids = encode(score)
        again = decode(ids)
        assert encode(again) == ids and again == normalize(score), "encode and decode are no fixed point"
        if deep:
            self._deep(case, score, again)
        return "decoded" if notes else "decoded to silence"

    def _deep(self, case: Any, score: Any, again: Any) -> None:
        belongs, seconds = token_notes(case)
        assert len(belongs) == len(seconds) == len(case) and belongs.max(initial=-1) == len(score.notes) - 1
        assert np.array_equal(from_one_hot(one_hot(case)), np.asarray(case))
        if score.notes:
            read, report = read_midi(write_midi(again))
            same = sorted(read.notes, key=_by_all) == sorted(
                again.notes, key=_by_all
            )  # unisons differ in order at most
            assert not report.warnings and same, "a MIDI file changes the notes"
        whole = [int(i) for i in case]
        for codec in (self.text, self.chars):
            try:
                text = codec.decode(whole)
            except UserError:
                assert max(whole) >= codec.vocab_size, "valid ids were refused"
                continue
            stream = codec.stream()
            assert "".join(map(stream.push, whole)) + stream.finish() == text, "streamed text differs"

    def show(self, case: Any) -> bytes:
        """The sequence as Python writes it."""
        return repr(case).encode("utf-8", "backslashreplace")


def _by_all(note: Any) -> tuple[Any, ...]:
    return (note.start, note.pitch, note.end, note.velocity)


def _music(rng: random.Random) -> list[Any]:
    """Valid ids: walks over few pitches, waits and loudness, or any ids at all."""
    length = rng.choice((1, 2, 8, 40, 120))
    if rng.random() < 0.3:
        return [rng.randrange(len(EVENTS)) for _ in range(length)]
    pitches = [rng.randrange(128) for _ in range(rng.choice((1, 2, 5)))]
    out = []
    for _ in range(length):
        kind = rng.random()
        if kind < 0.7:
            out.append(rng.choice(pitches) + rng.choice((0, NOTE_OFF)))
        elif kind < 0.9:
            out.append(TIME_SHIFT + rng.choice((0, 0, 1, 49, 99)))
        elif kind < 0.99:
            out.append(VELOCITY + rng.choice((0, 15, 31)))
        else:
            out.append(rng.randrange(VOCAB_SIZE - 3, VOCAB_SIZE))
    return out


def _array(ids: list[Any], rng: random.Random) -> Any:
    try:
        with np.errstate(all="ignore"):
            array = np.array(ids, dtype=rng.choice(KINDS))
            return array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (-1, 2))))
    except (ValueError, TypeError, OverflowError):
        return np.array([], dtype=rng.choice(KINDS))
