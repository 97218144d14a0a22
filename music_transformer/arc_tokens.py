"""Tokens in words and in their places: where on the roll, or in which word, each id of a sequence belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from music_transformer.events import decode, token_notes
from music_transformer.score import Note
from music_transformer.vocabulary import EVENTS, bin_velocity

PITCH_NAMES = ("C", "C♯", "D", "D♯", "E", "F", "F♯", "G", "G♯", "A", "A♯", "B")
_KINDS = {"NOTE_ON": "on", "NOTE_OFF": "off", "TIME_SHIFT": "shift", "VELOCITY": "velocity"}


@dataclass(frozen=True)
class Tokens:
    """Columns over the T tokens of a window, and the ``notes`` that music tokens belong to.

    ``labels`` in words; ``kinds``: on, off, shift, velocity, bos, eos, pad, or text; ``places``: the first token of the
    note or word each belongs to (token 0 has a place of its own); ``leads``: the token that looks for that place, a
    note's note-on and a word's last piece; ``note``: index in ``notes`` or -1; ``seconds``: when
    it acts, 0 for text.
    """

    labels: tuple[str, ...]
    kinds: tuple[str, ...]
    places: tuple[int, ...]
    leads: tuple[int, ...]
    note: tuple[int, ...] = ()
    seconds: tuple[float, ...] = ()
    notes: tuple[Note, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return JSON types; a note is [pitch, start, end, velocity]."""
        columns = {
            name: list(getattr(self, name)) for name in ("labels", "kinds", "places", "leads", "note", "seconds")
        }
        return columns | {"notes": [[n.pitch, n.start, n.end, n.velocity] for n in self.notes]}


def pitch_name(pitch: int) -> str:
    """MIDI pitch -> its name: 60 is C4."""
    return f"{PITCH_NAMES[pitch % 12]}{pitch // 12 - 1}"


def music_tokens(ids: Sequence[int], start: int = 0, stop: int | None = None) -> Tokens:
    """Describe tokens ``start`` to ``stop`` of a piece; times and notes are those of the whole piece."""
    stop = len(ids) if stop is None else stop
    of_note, seconds = token_notes(ids)
    window = of_note[start:stop]
    kept = sorted(set(window[window >= 0].tolist()))
    rank = {note: i for i, note in enumerate(kept)} | {-1: -1}
    note = tuple(rank[n] for n in window.tolist())
    every = decode(ids).notes
    kinds, place = tuple(event_kind(i) for i in ids[start:stop]), places(note)
    return Tokens(
        tuple(event_label(i) for i in ids[start:stop]),
        kinds,
        place,
        leads(place, [kind == "on" for kind in kinds]),
        note,
        tuple(np.round(seconds[start:stop], 2).tolist()),
        tuple(every[i] for i in kept),
    )


def event_kind(id: int) -> str:
    """Return the short name of an event's kind: on, off, shift, velocity, pad, bos, eos."""
    name = EVENTS[id].name
    return _KINDS.get(name, name.lower())


def event_label(id: int) -> str:
    """An event in few words: ``C4 on``, ``wait 500 ms``, ``velocity 78``."""
    name, value = EVENTS[id]
    if name in ("NOTE_ON", "NOTE_OFF"):
        return f"{pitch_name(value)} {event_kind(id)}"
    if name == "TIME_SHIFT":
        return f"wait {10 * value} ms"
    return f"velocity {bin_velocity(value)}" if name == "VELOCITY" else {"BOS": "start", "EOS": "end"}.get(name, "pad")


def places(groups: Sequence[int]) -> tuple[int, ...]:
    """Give each token the first token of its group; groups of -1, and token 0, stand alone."""
    first: dict[int, int] = {}
    out = []
    for token, group in enumerate(groups):
        alone = group < 0 or token == 0
        out.append(token if alone else first.setdefault(group, token))
    return tuple(out)


def leads(places: Sequence[int], preferred: Sequence[bool]) -> tuple[int, ...]:
    """Give each token the token that looks for its place: the preferred one, else the last."""
    lead: dict[int, int] = {}
    for token, place in enumerate(places):
        if not preferred[lead.get(place, token)] or preferred[token]:
            lead[place] = token
    return tuple(lead[place] for place in places)


def text_tokens(pieces: Sequence[bytes | str]) -> Tokens:
    """Describe text tokens, given each one's bytes; a word starts at white space, and punctuation stands alone."""
    raw = [p.encode() if isinstance(p, str) else p for p in pieces]
    word, groups = -1, []
    for i, piece in enumerate(raw):
        if i == 0 or not _continues(raw[i - 1], piece):
            word += 1
        groups.append(word)
    place = places(groups)
    return Tokens(tuple(legible(p) for p in raw), ("text",) * len(raw), place, leads(place, [False] * len(raw)))


def _continues(before: bytes, piece: bytes) -> bool:
    """A piece goes on with the word before it unless one of the two is a boundary; half characters always go on."""
    try:
        left, right = before.decode(), piece.decode()
    except UnicodeDecodeError:
        return not piece[:1].isspace() and not before[-1:].isspace()
    return bool(left) and bool(right) and left[-1].isalnum() and right[0].isalnum()


def legible(piece: bytes) -> str:
    """Bytes -> text that shows everything: ``␣`` a space, ``⏎`` a line's end, ``⟨e2 82⟩`` half a character."""
    try:
        text = piece.decode()
    except UnicodeDecodeError:
        return f"⟨{piece.hex(' ')}⟩"
    shown = text.replace("\r", "␍").replace("\n", "⏎").replace("\t", "⇥").replace(" ", "␣")
    return "".join(c if c.isprintable() else f"⟨{ord(c):x}⟩" for c in shown)


def place_name(tokens: Tokens, place: int, group: str = "note") -> str:
    """A place in words: ``C4 at 12.50 s``, ``wait 500 ms at 3.00 s``, or the word itself."""
    if not tokens.notes:
        same = [place] if group == "event" else [t for t, p in enumerate(tokens.places) if p == place]
        return "".join(tokens.labels[t] for t in same)
    if group == "note" and tokens.note[place] >= 0 and place:
        note = tokens.notes[tokens.note[place]]
        return f"{pitch_name(note.pitch)} at {note.start:.2f} s"
    timeless = tokens.kinds[place] in ("bos", "pad", "eos")
    return tokens.labels[place] + ("" if timeless else f" at {tokens.seconds[place]:.2f} s")
