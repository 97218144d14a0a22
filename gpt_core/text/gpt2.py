"""GPT-2's weights in and out: Hugging Face folders or hub ids <-> checkpoints, one tensor in memory at a time."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gpt_core.checkpoint import CODEC, CONFIG, RUN, WEIGHTS, file_sha
from gpt_core.codec import codec_from_dict
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.options import from_json
from gpt_core.text.bpe import BPECodec
from gpt_core.text.bpe_files import MERGES, VOCABULARIES, WHOLE, read_tokenizer, write_tokenizer
from gpt_core.text.gpt2_files import WeightFiles, write_weights
from gpt_core.text.gpt2_hub import fetch
from gpt_core.text.gpt2_layout import (
    IGNORED,
    PREFIX,
    lies_on_its_side,
    read_config,
    weight_names,
    weight_shape,
    write_config,
)

Say = Callable[[str], None]


def import_gpt2(source: str | Path, out: str | Path, *, tokenizer: str | Path | None = None, say: Say = print) -> None:
    """Make a checkpoint of a GPT-2: a folder in Hugging Face's layout, or a hub id, which is downloaded and said so.

    ``tokenizer`` names a folder with the tokenizer where the source has none. The kind of numbers (float32, float16) stays
    the source's. Raises UserError for other architectures, missing, misshapen or unknown weights, and a non-empty ``out``.
    """
    folder, out = fetch(source, say), Path(out)
    weights = Gpt2Weights(folder)
    codec = _tokenizer(folder, Path(tokenizer) if tokenizer else None, weights.config.vocab_size, say)
    shapes = {n: weight_shape(n, weights.config) for n in weight_names(weights.config)}
    with _new_folder(out) as new:
        write_weights(new / WEIGHTS, shapes, weights.get)
        _write_json(new / CONFIG, asdict(weights.config))
        _write_json(new / CODEC, codec.to_dict())
        _write_json(new / RUN, {"imported_from": str(source), "sha256": file_sha(new / WEIGHTS)})


def load_gpt2(source: str | Path, *, say: Say = print) -> GPT:
    """Build the model of a Hugging Face folder or hub id in memory, in float32 and eval mode."""
    weights = Gpt2Weights(fetch(source, say))
    tensors = {n: weights.get(n).to(torch.float32, copy=True).contiguous() for n in weight_names(weights.config)}
    return GPT.from_weights(weights.config, tensors).eval()


def export_gpt2(checkpoint: str | Path, out: str | Path) -> None:
    """Write a checkpoint folder of GPT-2's shape as a folder that ``GPT2LMHeadModel.from_pretrained`` reads."""
    folder, out = Path(checkpoint), Path(out)
    if not (folder / CONFIG).is_file():
        raise UserError(f"{folder} is no checkpoint folder (no {CONFIG}); give one made by train or import-gpt2")
    config = from_json(GPTConfig, _read_json(folder / CONFIG))
    codec = codec_from_dict(_read_json(folder / CODEC))
    if not isinstance(codec, BPECodec):
        raise UserError(
            f"{folder} has a codec of the kind {codec.kind!r}; GPT-2 has byte-level BPE, so it cannot be exported"
        )
    theirs = write_config(config, codec.special_ids.get("eos"))
    stored = WeightFiles(folder)
    shapes = {_their_name(n): _turned(n, weight_shape(n, config)) for n in weight_names(config)}
    with _new_folder(out) as new:
        write_weights(new / "model.safetensors", shapes, lambda name: _turn(name, stored.get(_our_name(name))))
        _write_json(new / "config.json", theirs)
        write_tokenizer(codec, new)
        _write_json(
            new / "tokenizer_config.json", {"tokenizer_class": "GPT2Tokenizer", "model_max_length": config.context}
        )


class Gpt2Weights:
    """A GPT-2 folder's weights under our names, in our layout, with its config."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        if not (folder / "config.json").is_file():
            raise UserError(f"{folder} has no config.json; give a folder in Hugging Face's layout, or a hub id")
        self.files = WeightFiles(folder)
        names = self.files.names()
        self.prefix = PREFIX if any(n.startswith(PREFIX) for n in names) else ""
        self.config = read_config(_read_json(folder / "config.json"), str(folder / "config.json"))
        self._check(names)

    def _check(self, names: list[str]) -> None:
        wanted = {self._stored_name(n) for n in weight_names(self.config)}
        missing = sorted(wanted - set(names))
        strange = sorted(n for n in set(names) - wanted if not n.endswith(IGNORED) and n != "lm_head.weight")
        if missing or strange:
            raise UserError(
                f"{self.folder}: of the config's {len(wanted)} weights {len(missing)} are missing ({_few(missing)}), and "
                f"{len(strange)} others are there ({_few(strange)}); config.json (n_layer is {self.config.n_layer}) and "
                "weights must be of one GPT-2"
            )

    def _stored_name(self, name: str) -> str:
        return name if name.startswith("lm_head") else self.prefix + name

    def get(self, name: str) -> Tensor:
        """Return a weight under our name and in our layout; UserError where shape or numbers are not as they must be."""
        tensor = _turn(name, self.files.get(self._stored_name(name)))
        wanted = weight_shape(name, self.config)
        if tuple(tensor.shape) != wanted:
            raise UserError(f"{self.folder}: {name} has shape {tuple(tensor.shape)} but the config asks for {wanted}")
        if not bool(tensor.isfinite().all()):
            raise UserError(
                f"{self.folder}: {name} holds what is no finite number; the weights are damaged, use another copy"
            )
        return tensor


def _few(names: list[str]) -> str:
    return ", ".join(names[:2]) + (", ..." if len(names) > 2 else "") if names else "none"


def _turn(name: str, tensor: Tensor) -> Tensor:
    return tensor.T if lies_on_its_side(name) and tensor.dim() == 2 else tensor


def _turned(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    return shape[::-1] if lies_on_its_side(name) else shape


def _their_name(name: str) -> str:
    return name if name.startswith("lm_head") else PREFIX + name


def _our_name(name: str) -> str:
    return name.removeprefix(PREFIX)


def _tokenizer(folder: Path, other: Path | None, vocab_size: int, say: Say) -> BPECodec:
    """Read the tokenizer and give ids that the model has beyond it the names <|unused0|>, <|unused1|> ..."""
    if other is None and not any((folder / n).is_file() for n in (*VOCABULARIES, WHOLE)):
        raise UserError(
            f"{folder} has weights but no tokenizer ({VOCABULARIES[1]}, {MERGES[1]}); name its folder by --tokenizer"
        )
    codec = read_tokenizer(other or folder)
    if codec.vocab_size > vocab_size:
        raise UserError(
            f"the tokenizer has {codec.vocab_size} ids but the model {vocab_size}; they do not belong together"
        )
    spare = vocab_size - codec.vocab_size
    if spare:
        say(f"the model has {spare} ids more than its tokenizer; they are kept as unused")
    return codec.with_special(f"<|unused{i}|>" for i in range(spare))


@contextmanager
def _new_folder(out: Path) -> Iterator[Path]:
    """Give a temporary folder that becomes ``out`` when the block ends well."""
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out} exists and is not an empty folder; give another --out")
    out.parent.mkdir(parents=True, exist_ok=True)
    new = Path(tempfile.mkdtemp(prefix=f".{out.name}.new-", dir=out.parent))
    try:
        yield new
        new.chmod(0o755)
        if out.exists():
            out.rmdir()
        new.rename(out)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(path.read_text("utf-8")))
    except (OSError, ValueError, TypeError, RecursionError) as e:
        raise UserError(f"{path} can't be read as JSON ({e}); the file is missing or damaged") from None


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")
