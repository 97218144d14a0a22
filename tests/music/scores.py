"""Random scores for the tests: hypothesis strategies, and a plain generator with a seed."""

from __future__ import annotations

import random

from hypothesis import strategies as st

from music_transformer.score import Note, Pedal, Score, make_score

# Times on a fine grid that is not the codec's, with many collisions.
_times = st.integers(0, 4000).map(lambda n: n / 400)
_lengths = st.integers(1, 1200).map(lambda n: n / 400)
_channels = st.integers(0, 2)
_notes = st.builds(
    lambda pitch, start, length, velocity, channel: Note(pitch, start, start + length, velocity, channel),
    st.integers(0, 127) | st.integers(60, 62),
    _times,
    _lengths,
    st.integers(1, 127),
    _channels,
)
_pedals = st.builds(lambda start, length, channel: Pedal(start, start + length, channel), _times, _lengths, _channels)
scores = st.builds(make_score, st.lists(_notes, max_size=40), st.lists(_pedals, max_size=6))


def random_score(seed: int, notes: int = 60) -> Score:
    """Notes that overlap and collide, and a pedal that goes up and down, on three channels."""
    rng = random.Random(seed)
    span = notes / 5
    made = []
    for _ in range(notes):
        start = round(rng.random() * span, 3)
        pitch = rng.randrange(48, 72)
        made.append(Note(pitch, start, start + 0.001 + rng.random() * 2, rng.randrange(1, 128), rng.randrange(3)))
    pedals = []
    for channel in range(3):
        time = 0.0
        while time < span:
            down = time + 0.01 + rng.random() * 2
            time = down + 0.01 + rng.random() * 2
            pedals.append(Pedal(down, time, channel))
    return make_score(made, pedals)
