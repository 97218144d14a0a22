"""Model folders for ``benchmarks.fuzz``: checkpoints and GPT-2s in Hugging Face's layout, with a file or two spoiled."""

from __future__ import annotations

import io
import json
import random
import struct
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save

from benchmarks.fuzz_bpe import Folder, lay, scratch, small_codecs, spoil_files, written
from benchmarks.fuzz_json import spoil, to_bytes
from benchmarks.fuzz_midi import mutate
from gpt_core import checkpoint
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.generate import generate
from gpt_core.model import GPT
from gpt_core.text.bpe import BPECodec
from gpt_core.text.chars import CharCodec
from gpt_core.text.gpt2 import export_gpt2, import_gpt2
from gpt_core.text.gpt2_layout import PREFIX, lies_on_its_side, weight_names, weight_shape
from music_transformer.events import EventCodec

TOKENS = (
    b"F32", b"F16", b"BF16", b"I64", b"F8_E5M2", b"\xff" * 8, b"\x00" * 8, b"[0,0]", b'"shape":[', b'"data_offsets":[',
    b"__metadata__",
    b"18446744073709551615", b"-1", b"\x80\x02cposix\nsystem\n", b"PK\x03\x04", b"cbuiltins\neval\n",
    b"\x00\x00\xc0\x7f", b"\xff\xff\x7f\x7f",
)  # fmt: skip


class Checkpoints:
    """Folders of small models of every kind of position and codec."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        torch.manual_seed(rng.randrange(1 << 30))
        codecs: list[Any] = [EventCodec(), small_codecs()[0], CharCodec("abc é"), EventCodec()]
        schemes = ("rotary", "learned", "relative", "none")
        self.root = scratch()
        self.bases = [self._made(c, s) for c, s in zip(codecs, schemes, strict=True)]

    def _made(self, codec: Any, scheme: str) -> Folder:
        shape = {"norm": "rms", "bias": False, "tied": False} if scheme == "rotary" else {}
        config = GPTConfig(codec.vocab_size, 16, 1, 2, 4, position=scheme, activation="gelu_tanh", **shape)
        state = {"step": 3, "moments": [torch.zeros(2)], "rng": torch.get_rng_state()[:16]}
        checkpoint.save(self.root / "base", GPT(config), codec, {"kind": "test", "step": 3}, trainer_state=state)
        return {f.name: f.read_bytes() for f in (self.root / "base").iterdir()}

    def case(self, rng: random.Random) -> Folder:
        """One of the sound folders with one to three files spoiled."""
        files = dict(rng.choice(self.bases))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            files = _spoiled(files, self.bases, rng) if files else {"model.safetensors": b""}
        return files

    def try_one(self, case: Folder, deep: bool) -> str:
        """Load; a model that comes out reads and writes, and saves as the same."""
        folder = self.root / "case"
        lay(folder, case)
        trainer = "" if checkpoint.TRAINER in case else "without a trainer"
        try:
            assert trainer or isinstance(checkpoint.load_trainer(folder), dict), "trainer.pt held something else"
        except UserError:
            trainer = "with a refused trainer"
        loaded = checkpoint.load(folder)
        json.dumps(loaded.run)
        if deep:
            self._deep(loaded)
        return f"loaded {trainer}".strip()

    def _deep(self, loaded: checkpoint.Checkpoint) -> None:
        _plays(loaded)
        checkpoint.save(self.root / "again", loaded.model, loaded.codec, loaded.run)
        again = checkpoint.load(self.root / "again")
        assert again.config == loaded.config and again.codec.to_dict() == loaded.codec.to_dict()
        theirs = dict(again.model.named_parameters())
        assert all(torch.equal(p, theirs[n]) for n, p in loaded.model.named_parameters()), "saved weights differ"

    def show(self, case: Folder) -> bytes:
        """The files."""
        return repr(case).encode()


class Gpt2Folders:
    """GPT-2s as people download them: whole, in parts, as .bin."""

    def __init__(self, rng: random.Random, seeds: Path | None) -> None:
        torch.manual_seed(rng.randrange(1 << 30))
        self.root = scratch()
        self.bases = [_gpt2(kind, small_codecs()[0]) for kind in ("safe", "parts", "bin", "half")]

    def case(self, rng: random.Random) -> Folder:
        """One of the sound folders with one to three files spoiled."""
        files = dict(rng.choice(self.bases))
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            files = _spoiled(files, self.bases, rng) if files else {"config.json": b""}
        return files

    def try_one(self, case: Folder, deep: bool) -> str:
        """Import, load what came out, and go the way back."""
        lay(self.root / "case", case)
        lay(self.root / "out", {})
        lay(self.root / "back", {})
        try:
            import_gpt2(self.root / "case", self.root / "out", say=lambda line: None)
        except UserError:
            assert not any((self.root / "out").iterdir()), "a refused import leaves files"
            assert len(list(self.root.iterdir())) == 3, "a refused import leaves litter"
            raise
        loaded = checkpoint.load(self.root / "out")
        if deep:
            _plays(loaded)
            export_gpt2(self.root / "out", self.root / "back")
        return "imported"

    def show(self, case: Folder) -> bytes:
        """The files."""
        return repr(case).encode()


def _plays(loaded: checkpoint.Checkpoint) -> None:
    """A few ids, or the one sentence about weights that are no numbers."""
    ids = torch.tensor([[0, loaded.config.vocab_size - 1]])
    try:
        columns = list(generate(loaded.model, ids, max_new_tokens=3, engine="torch"))
    except UserError as error:
        assert "finite" in str(error)
        return
    loaded.codec.decode([int(c) for c in columns])


def _spoiled(files: Folder, bases: list[Folder], rng: random.Random) -> Folder:
    name = rng.choice(sorted(files))
    if rng.random() < 0.12:
        return spoil_files(files, bases, rng)
    data = files[name]
    if name.endswith(".json"):
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            value = {}
        return {**files, name: to_bytes(spoil(value, rng), rng)}
    if name.endswith(".safetensors") and rng.random() < 0.7:
        return {**files, name: _spoiled_header(data, rng)}
    return {**files, name: mutate(data, data, rng, TOKENS)}


def _spoiled_header(data: bytes, rng: random.Random) -> bytes:
    """Change the JSON header of a safetensors file, its length kept right more often than not."""
    size = int.from_bytes(data[:8], "little")
    try:
        header = to_bytes(spoil(json.loads(data[8 : 8 + size]), rng), rng)
    except (ValueError, RecursionError):
        header = b"{}"
    odd = rng.choice((0, 1, size - 1, len(data), 1 << 30, (1 << 63) - 1, (1 << 64) - 1))
    length = len(header) if rng.random() < 0.9 else odd
    return struct.pack("<Q", max(0, length)) + header + data[8 + size :]


def _gpt2(kind: str, codec: BPECodec) -> Folder:
    """A GPT-2 folder written here by hand, not by the exporter."""
    config = GPTConfig(codec.vocab_size, 16, 1, 2, 4)
    names = list(weight_names(config))
    shapes = {n: weight_shape(n, config)[:: -1 if lies_on_its_side(n) else 1] for n in names}
    weights = {PREFIX + n: torch.randn(s) * 0.1 for n, s in shapes.items()}
    if kind == "half":
        weights = {n.removeprefix(PREFIX): t.half() for n, t in weights.items()}
    theirs = {
        "model_type": "gpt2",
        "vocab_size": codec.vocab_size,
        "n_positions": 16,
        "n_embd": 4,
        "n_layer": 1,
        "n_head": 2,
    }
    files = {"config.json": json.dumps(theirs).encode(), **written(codec)}
    if kind == "bin":
        box = io.BytesIO()
        torch.save(weights, box)
        return {**files, "pytorch_model.bin": box.getvalue()}
    if kind == "parts":
        cut = list(weights)[:6]
        first, second = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
        where = {n: first if n in cut else second for n in weights}
        parts = {f: save({n: t for n, t in weights.items() if where[n] == f}) for f in (first, second)}
        return {
            **files,
            **parts,
            "model.safetensors.index.json": json.dumps({"metadata": {}, "weight_map": where}).encode(),
        }
    return {**files, "model.safetensors": save(weights)}
