"""Tokenizer folders for ``benchmarks.fuzz``: one or two of their files are spoiled."""

from __future__ import annotations

import json
import os
import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.fuzz_json import spoil, to_bytes
from benchmarks.fuzz_midi import mutate
from gpt_core.text.bpe import BPECodec
from gpt_core.text.bpe_files import read_tokenizer, write_tokenizer

Folder = dict[str, bytes]  # name -> bytes
TOKENS = (
    "Ġ".encode(),
    b" ",
    b"\n",
    b"\r\n",
    b"#version: 0.2\n",
    b"\xff",
    b"\x00",
    b"  ",
    b"t h\n",
    b"\n\n",
    b"\xe2\x80\xa8",
    b"th e x\n",
)
LINKS = (
    b"->/etc/passwd",
    b"->nowhere",
    b"->vocab.json",
    b"->config.json",
    b"->model.safetensors",
    b"->/dev/null",
    b"->..",
)
TEXTS = ("", "the cat", "  été 𝄞\n\t<|endoftext|>", "\x00\x7f\u2028")


def scratch() -> Path:
    """A folder in memory where there is such a thing; removed when the program ends."""
    room = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    folder = tempfile.mkdtemp(prefix="fuzz-", dir=room)
    import atexit

    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def lay(folder: Path, files: Folder) -> None:
    """Let the folder hold just these files; ``/`` as content makes a folder, ``->x`` a link."""
    for old in folder.iterdir() if folder.is_dir() else ():
        if old.is_dir() and not old.is_symlink():
            shutil.rmtree(old)
        else:
            old.unlink()
    folder.mkdir(exist_ok=True)
    for name, data in files.items():
        if data == b"/":
            (folder / name).mkdir()
        elif data in LINKS:
            (folder / name).symlink_to(data[2:].decode())
        else:
            (folder / name).write_bytes(data)


def spoil_files(files: Folder, others: list[Folder], rng: random.Random) -> Folder:
    """Remove a file, cut it, take it from another folder, put a folder or a link in its place."""
    files = dict(files)
    name = rng.choice(sorted(files))
    how = rng.randrange(6)
    if how == 0:
        del files[name]
    elif how == 1:
        files[name] = files[name][: rng.randrange(len(files[name]) + 1)]
    elif how == 2:
        files[name] = rng.choice((b"/", *LINKS))
    elif how == 3:
        files[name] = files[rng.choice(sorted(files))]
    else:
        files[name] = rng.choice(others).get(name, b"")
    return files


def written(codec: BPECodec) -> Folder:
    """The files a codec writes."""
    with tempfile.TemporaryDirectory() as place:
        write_tokenizer(codec, place)
        return {f.name: f.read_bytes() for f in Path(place).iterdir()}


def small_codecs() -> list[BPECodec]:
    """A few small vocabularies."""
    plain = BPECodec.train(["the cat sat on the mat and the dog sat on the log; " * 5], 265)
    return [plain, plain.with_special(("<|pad|>", "<|sep|>")), BPECodec.train(["été 𝄞 " * 9], 262, special=())]


class Tokenizers:
    """Folders with a tokenizer, in both ways of writing it."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        self.bases = [written(c) for c in small_codecs()]
        self.bases += [{"tokenizer.json": _whole(c)} for c in small_codecs()]
        self.folder = scratch()

    def case(self, rng: random.Random) -> Folder:
        """One of the sound folders with a change or two."""
        files = dict(rng.choice(self.bases))
        for _ in range(rng.choice((1, 1, 2))):
            name = rng.choice(sorted(files)) if files else ""
            if not files or rng.random() < 0.15:
                files = spoil_files(files, self.bases, rng) if files else {"merges.txt": b""}
            elif name.endswith(".json") and files[name][:1] in (b"{", b"["):
                files[name] = to_bytes(spoil(_parsed(files[name]), rng), rng)
            else:
                files[name] = mutate(files[name], files[name], rng, TOKENS)
        return files

    def try_one(self, case: Folder, deep: bool) -> str:
        """Read; a codec that comes out gives every text back, and so does what it writes."""
        lay(self.folder, case)
        codec = read_tokenizer(self.folder)
        for text in TEXTS:
            assert codec.decode(codec.encode(text)) == text, "a text does not come back"
        assert all(isinstance(codec.token_bytes(i), bytes) for i in range(codec.vocab_size))
        if deep:
            data = codec.to_dict()
            same = BPECodec.from_dict(json.loads(json.dumps(data)))
            assert same.to_dict() == data and same.vocab == codec.vocab, "its own dict gives another codec"
            out = self.folder / "out"
            out.mkdir()
            write_tokenizer(codec, out)
            assert read_tokenizer(out).to_dict() == data, "its own files give another codec"
        return "read"

    def show(self, case: Folder) -> bytes:
        """The files, those of JSON first."""
        return repr(case).encode()


def _parsed(data: bytes) -> Any:
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return {}


def _whole(codec: BPECodec) -> bytes:
    added = [{"id": i, "content": n, "special": True} for n, i in codec.special.items()]
    model = {"type": "BPE", "vocab": {**codec.vocab, **codec.special}, "merges": [list(m) for m in codec.merges]}
    before = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}
    return json.dumps({"version": "1.0", "added_tokens": added, "pre_tokenizer": before, "model": model}).encode()
