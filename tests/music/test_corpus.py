"""A folder of MIDI files -> shards: split by piece, resumable, failures and copies left out and listed."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from gpt_core.errors import UserError
from gpt_core.tokens import Shard
from music_transformer import corpus
from music_transformer.augment import transpose
from music_transformer.cli import main
from music_transformer.corpus import CorpusConfig, Piece, build_corpus, encode_pieces, find_pieces, hash_split
from music_transformer.events import EventCodec, decode, encode, normalize
from music_transformer.midi import read_columns, read_midi, write_midi
from tests.music.test_duplicates import melody

ONE = CorpusConfig(workers=1)


@pytest.fixture
def folder(tmp_path) -> Path:
    """Four pieces with an official split; the test set's one is in the training set too, a third higher."""
    root = tmp_path / "midi"
    (root / "2004").mkdir(parents=True)
    rows = ["midi_filename,split"]
    for k, split in enumerate(["train", "train", "validation", "test"]):
        write_midi(melody(k, 60), root / "2004" / f"{k}.midi")
        rows.append(f"2004/{k}.midi,{split}")
    write_midi(transpose(melody(3, 60), 4), root / "2004" / "copy.MID")
    (root / "broken.mid").write_bytes(b"no music")
    rows += ["2004/copy.MID,train", "broken.mid,train"]
    (root / "set.csv").write_text("\n".join(rows) + "\n")
    return root


def test_shards_hold_every_piece_between_bos_and_eos(folder, tmp_path):
    record = build_corpus(folder, tmp_path / "shards", ONE)
    train = Shard.open(tmp_path / "shards", "train")
    assert len(train) == 2 and train.ids.dtype == np.dtype("<u2")
    for k in (0, 1):
        ids = train.piece(k).tolist()
        score, _ = read_midi(folder / "2004" / f"{k}.midi")
        assert ids == [389, *encode(score), 390]
        assert decode(ids) == normalize(score)
    assert record["splits"]["train"]["tokens"] == len(train.ids)
    assert record["splits"]["train"]["notes"] == 120
    assert record["splits"]["train"]["hours"] == round(2 * 17.9 / 3600, 2)
    assert [len(Shard.open(tmp_path / "shards", s)) for s in ("validation", "test")] == [1, 1]


def test_the_record_says_what_was_left_out_and_why(folder, tmp_path):
    record = build_corpus(folder, tmp_path / "shards", ONE)
    assert record == json.loads((tmp_path / "shards" / "meta.json").read_text())
    (failed,) = record["failed"]
    assert failed["file"] == "broken.mid" and "MIDI" in failed["error"]
    assert record["duplicates"] == [
        {"file": "2004/copy.MID", "split": "train", "same_as": "2004/3.midi", "same_as_split": "test"}
    ]
    assert [p["file"] for p in record["pieces"]] == [f"2004/{k}.midi" for k in range(4)]
    assert EventCodec.from_dict(record["codec"]).vocab_size == 391
    assert record["source"] == "midi" and record["settings"]["stretch"] is False
    assert sorted(p.name for p in (tmp_path / "shards").iterdir()) == sorted(
        ["meta.json", *(f"{s}.{e}" for s in ("train", "validation", "test") for e in ("bin", "idx.npy"))]
    )


def test_the_fingerprint_follows_the_music_alone(folder, tmp_path):
    first = build_corpus(folder, tmp_path / "a", ONE)
    assert build_corpus(folder, tmp_path / "b", ONE)["fingerprint"] == first["fingerprint"]
    assert all(
        (tmp_path / "a" / f).read_bytes() == (tmp_path / "b" / f).read_bytes() for f in ("train.bin", "meta.json")
    )
    write_midi(melody(9, 60), folder / "2004" / "1.midi")
    assert build_corpus(folder, tmp_path / "c", ONE)["fingerprint"] != first["fingerprint"]


def test_an_interrupted_build_goes_on(folder, tmp_path, monkeypatch):
    reads = []

    def read(data):
        reads.append(data)
        if len(reads) == 3:
            raise KeyboardInterrupt
        return read_columns(data)

    monkeypatch.setattr(corpus, "read_columns", read)
    with pytest.raises(KeyboardInterrupt):
        build_corpus(folder, tmp_path / "shards", ONE)
    assert not (tmp_path / "shards" / "meta.json").exists()
    (damaged, _) = sorted((tmp_path / "shards" / "pieces").iterdir())
    damaged.write_bytes(b"half")
    build_corpus(folder, tmp_path / "shards", ONE)
    assert len(reads) == 3 + 5, "two were done, one of them is damaged, and six files are to be read in all"
    build_corpus(folder, tmp_path / "fresh", ONE)
    assert (tmp_path / "shards" / "train.bin").read_bytes() == (tmp_path / "fresh" / "train.bin").read_bytes()


def test_stretched_copies_are_of_training_pieces_only(folder, tmp_path):
    config = CorpusConfig(workers=1, stretch=True)
    record = build_corpus(folder, tmp_path / "shards", config)
    assert {s: record["splits"][s]["copies"] for s in corpus.SPLITS} == {"train": 10, "validation": 1, "test": 1}
    train = Shard.open(tmp_path / "shards", "train")
    ends = [decode(train.piece(k)).end for k in range(5)]
    assert ends == pytest.approx([ends[0] * f for f in (1, 0.95, 0.975, 1.025, 1.05)], abs=0.011)


def test_several_processes_give_the_same_as_one(folder, tmp_path):
    pieces = [Piece(p, p.name, "train") for p in sorted(folder.glob("2004/*.midi"))]
    for cache in ("one", "two"):
        (tmp_path / cache).mkdir()
    one = list(encode_pieces(pieces, tmp_path / "one", ONE))
    two = list(encode_pieces(pieces, tmp_path / "two", CorpusConfig(workers=2)))
    assert [e.piece for e in two] == pieces and [e.sha256 for e in one] == [e.sha256 for e in two]


def test_without_a_csv_the_name_decides_the_split():
    config = CorpusConfig(validation=0.1, test=0.2)
    splits = [hash_split(f"piece-{k}.mid", config) for k in range(4000)]
    shares = [splits.count(s) / 4000 for s in ("train", "validation", "test")]
    assert shares == pytest.approx([0.7, 0.1, 0.2], abs=0.03)
    # a piece that is held out stays so when more of the others are
    more = CorpusConfig(validation=0.1, test=0.25)
    assert all(hash_split(f"piece-{k}.mid", more) == "test" for k in range(4000) if splits[k] == "test")


def test_a_small_folder_still_has_something_to_validate_on(tmp_path):
    for k in range(4):
        (tmp_path / f"small-{k}.mid").touch()
    splits = [p.split for p in find_pieces(tmp_path, CorpusConfig())]
    assert sorted(splits) == ["test", "train", "train", "validation"]
    assert [p.split for p in find_pieces(tmp_path, CorpusConfig(test=0, validation=0))] == ["train"] * 4


def test_pieces_with_too_few_notes_are_left_out(tmp_path):
    (tmp_path / "midi").mkdir()
    write_midi(melody(1, 5), tmp_path / "midi" / "five.mid")
    write_midi(melody(1, 30), tmp_path / "midi" / "thirty.mid")
    record = build_corpus(tmp_path / "midi", tmp_path / "out", CorpusConfig(workers=1, test=0, validation=0))
    assert record["failed"] == [{"file": "five.mid", "error": "has 5 notes, fewer than 8"}]


def test_splits_that_training_needs_and_nobody_got_are_told(tmp_path, capsys):
    (tmp_path / "midi").mkdir()
    for k in range(2):
        write_midi(melody(k + 1, 30), tmp_path / "midi" / f"{k}.mid")
    build = ["corpus", str(tmp_path / "midi"), "--workers", "1", "-o"]
    assert main([*build, str(tmp_path / "a"), "--validation", "0", "--test", "0"]) == 0
    assert "no piece is for validation, which training needs" in capsys.readouterr().err
    assert main([*build, str(tmp_path / "b"), "--min-notes", "1000"]) == 1
    said = capsys.readouterr().err
    assert "none of the 2 files in" in said and "0.mid, the first, has 30 notes, fewer than 1,000" in said
    assert not (tmp_path / "b" / "meta.json").exists()


def test_bad_folders_are_one_sentence(tmp_path, folder):
    with pytest.raises(UserError, match="not a folder"):
        build_corpus(tmp_path / "absent", tmp_path / "out", ONE)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match="holds no"):
        build_corpus(tmp_path / "empty", tmp_path / "out", ONE)
    write_midi(melody(5, 20), folder / "new.mid")
    with pytest.raises(UserError, match=r"new\.mid"):
        build_corpus(folder, tmp_path / "out", ONE)
    with pytest.raises(UserError, match="--test"):
        build_corpus(folder, tmp_path / "out", CorpusConfig(test=0.9))


def test_every_kind_of_name_and_wrapping_is_taken(tmp_path):
    data = write_midi(melody(0, 60))
    riff = b"RIFF" + (len(data) + 12).to_bytes(4, "little") + b"RMIDdata" + len(data).to_bytes(4, "little") + data
    for name, content in (("a.mid", data), ("b.MIDI", data), ("c.kar", data), ("d.Rmi", riff), ("e.txt", data)):
        (tmp_path / name).write_bytes(content)
    pieces = find_pieces(tmp_path, ONE)
    assert [p.name for p in pieces] == ["a.mid", "b.MIDI", "c.kar", "d.Rmi"]
    assert read_midi(pieces[3].path)[0].notes == read_midi(pieces[0].path)[0].notes


def test_the_command_counts_what_it_left_out(folder, tmp_path, capsys):
    assert main(["corpus", str(folder), "-o", str(tmp_path / "shards"), "--workers", "1"]) == 0
    shown = capsys.readouterr()
    assert "validation: 1 piece, " in shown.out and "train: 2 pieces, " in shown.out
    assert "left out: 2, each named" in shown.out and shown.err.count("left out ") == 2
