"""The same notes as Magenta's own encoder, where ``note-seq`` is installed."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import pytest

from music_transformer.events import encode
from music_transformer.midi import read_midi
from music_transformer.score import Score
from music_transformer.vocabulary import bin_velocity
from tests.music.scores import random_score

note_seq = pytest.importorskip("note_seq")
from note_seq import performance_lib, sequences_lib  # noqa: E402


def archive(name: str, folder: Path) -> Path:
    """The unpacked data archive: ``$MT_DATA/name``, else ../shared/data/name.tar.xz unpacked into ``folder``."""
    ready = Path(os.environ.get("MT_DATA", "absent")) / name
    if ready.is_dir():
        return ready
    packed = Path(__file__).parents[3] / "shared" / "data" / f"{name}.tar.xz"
    if not packed.is_file():
        pytest.skip(f"the data archive {name} is not here; set MT_DATA to the folder that holds it")
    with tarfile.open(packed) as source:
        source.extractall(folder, filter="data")
    return folder / name


def to_sequence(score: Score):
    """Our score as note-seq's NoteSequence: channels as instruments, pedals as controller 64."""
    sequence = note_seq.NoteSequence()
    for n in score.notes:
        sequence.notes.add(pitch=n.pitch, start_time=n.start, end_time=n.end, velocity=n.velocity, instrument=n.channel)
    for p in score.pedals:
        for time, value in ((p.start, 127), (p.end, 0)):
            sequence.control_changes.add(time=time, control_number=64, control_value=value, instrument=p.channel)
    sequence.total_time = max([n.end for n in score.notes] + [p.end for p in score.pedals], default=0.0)
    return sequence


def theirs(sequence) -> list[tuple[int, bool, int, int]]:
    """(step, is it an on, pitch, bin of an on): what note-seq's Performance says, each instant sorted as our rules have it."""
    rung = sequences_lib.apply_sustain_control_changes(sequence)
    quantized = sequences_lib.quantize_note_sequence_absolute(rung, 100)
    events, step, bin = [], 0, 0
    for event in performance_lib.Performance(quantized, num_velocity_bins=32):
        if event.event_type == event.TIME_SHIFT:
            step += event.event_value
        elif event.event_type == event.VELOCITY:
            bin = event.event_value - 1  # theirs count from 1
        else:
            on = event.event_type == event.NOTE_ON
            events.append((step, on, event.event_value, bin if on else 0))
    return sorted(events)


def ours(score: Score) -> list[tuple[int, bool, int, int]]:
    events, step, bin = [], 0, 0
    for id in encode(score):
        if 256 <= id < 356:
            step += id - 255
        elif id >= 356:
            bin = id - 356
        else:
            events.append((step, id < 128, id % 128, bin if id < 128 else 0))
    return sorted(events)


@pytest.mark.parametrize("block", range(4))
def test_equal_on_random_scores(block):
    for seed in range(50 * block, 50 * block + 50):
        score = random_score(seed, 80)
        assert ours(score) == theirs(to_sequence(score)), seed


@pytest.mark.corpus
def test_equal_on_fifty_maestro_files(tmp_path):
    from note_seq import midi_io

    paths = sorted(archive("maestro-v2.0.0", tmp_path).glob("*/*.midi"), key=lambda p: (p.stat().st_size, p.name))[:50]
    assert len(paths) == 50
    for path in paths:  # the shortest ones: note-seq reads a long one in half a minute
        score, _ = read_midi(path)
        found = ours(score)
        # a pedal left down after the last chord is a matter of the reader: ours lets it up sooner
        expected = [(min(e[0], found[-1][0]), *e[1:]) for e in theirs(midi_io.midi_file_to_note_sequence(str(path)))]
        assert found == sorted(expected), path.name


def test_bins_are_magentas():
    for bin in range(32):
        assert performance_lib.velocity_to_bin(bin_velocity(bin), 32) == bin + 1
        low = performance_lib.velocity_bin_to_velocity(bin + 1, 32)
        assert bin_velocity(bin) == low + 1
