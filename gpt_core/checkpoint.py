"""A checkpoint is a folder: weights, config, codec and the record of the run; written whole or not at all."""

from __future__ import annotations

import contextlib
import glob
import hashlib
import json
import os
import shutil
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from gpt_core.codec import Codec, codec_from_dict
from gpt_core.config import GPTConfig
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.options import from_json

WEIGHTS, CONFIG, CODEC, RUN, TRAINER = "model.safetensors", "config.json", "codec.json", "run.json", "trainer.pt"
_STALE = 3600.0  # seconds
MAX_PARAMETERS = 20_000_000_000


@dataclass(frozen=True)
class Checkpoint:
    """A loaded checkpoint: the model in eval mode, its codec, the record of its run, and the sha256 of its weights file."""

    model: GPT
    codec: Any
    run: dict[str, Any]
    sha: str
    folder: Path

    @property
    def config(self) -> GPTConfig:
        """The model's shape."""
        return self.model.config


def save(
    folder: Path | str,
    model: GPT,
    codec: Codec,
    run: dict[str, Any],
    *,
    dtype: torch.dtype = torch.float32,
    trainer_state: dict[str, Any] | None = None,
) -> None:
    """Write the checkpoint to a temporary name beside ``folder`` and swap it in; a kill leaves the old or the new one."""
    folder = Path(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    _sweep(folder)
    new = Path(tempfile.mkdtemp(prefix=f".{folder.name}.new-", dir=folder.parent))
    try:
        tensors = {n: p.detach().to("cpu", dtype).contiguous() for n, p in model.named_parameters()}
        save_file(tensors, new / WEIGHTS)
        _write_json(new / CONFIG, asdict(model.config))
        _write_json(new / CODEC, codec.to_dict())
        _write_json(new / RUN, run)
        if trainer_state is not None:
            torch.save(trainer_state, new / TRAINER)
        new.chmod(0o755)
        _swap(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)


def _sweep(folder: Path) -> None:
    """Remove what saves left that were killed more than an hour ago."""
    for new in folder.parent.glob(f".{glob.escape(folder.name)}.new-*"):
        with contextlib.suppress(OSError):
            if time.time() - new.stat().st_mtime > _STALE:
                shutil.rmtree(new, ignore_errors=True)


def _write_json(path: Path, data: dict[str, Any]) -> None:
    # Half a surrogate pair, which foreign JSON may hold, is written as the escape it came from.
    with open(path, "w", encoding="utf-8", errors="backslashreplace") as f:
        json.dump(data, f, indent=1, ensure_ascii=False)
        f.write("\n")
        f.flush()
        os.fsync(f.fileno())


def _swap(new: Path, folder: Path) -> None:
    old = folder.parent / f".{folder.name}.old"
    if folder.exists():  # otherwise a killed save left ``old`` as the only copy: keep it until the new one has its name
        shutil.rmtree(old, ignore_errors=True)
        folder.rename(old)
    new.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def _settled(folder: Path) -> Path:
    """Return the folder, or the previous one where a save was killed between its two renames."""
    old = folder.parent / f".{folder.name}.old"
    return old if not folder.exists() and old.is_dir() else folder


def _read_json(folder: Path, name: str) -> dict[str, Any]:
    try:
        data = json.loads((folder / name).read_text("utf-8"))
    except FileNotFoundError:
        raise UserError(f"{folder} has no {name}; a checkpoint holds {WEIGHTS}, {CONFIG}, {CODEC}, {RUN}") from None
    except (ValueError, RecursionError, OSError) as e:
        raise UserError(f"{folder / name} can't be read as JSON ({e}); the checkpoint is damaged") from None
    if not isinstance(data, dict):
        raise UserError(f"{folder / name} holds a {type(data).__name__}, not an object; the checkpoint is damaged")
    return data


def load(folder: Path | str, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32) -> Checkpoint:
    """Load a checkpoint folder; nothing in it is executed, and what does not fit is refused by name."""
    folder = _settled(Path(folder))
    if not folder.is_dir():
        raise UserError(f"{folder} is not a checkpoint folder; give a folder that holds {WEIGHTS} and {CONFIG}")
    config = _config(folder)
    with torch.device("meta"):
        shape = {n: tuple(p.shape) for n, p in GPT(config).named_parameters()}
    weights = _weights(folder / WEIGHTS, shape, dtype)
    model = GPT.from_weights(config, weights)
    codec = _codec(folder)
    if codec.vocab_size != config.vocab_size:
        raise UserError(
            f"{folder}: the codec has {codec.vocab_size} ids but the model {config.vocab_size}; the files are mixed up"
        )
    return Checkpoint(model.to(device).eval(), codec, read_run(folder), file_sha(folder / WEIGHTS), folder)


def _config(folder: Path) -> GPTConfig:
    try:
        config = from_json(GPTConfig, _read_json(folder, CONFIG))
    except UserError as e:
        raise UserError(f"{folder / CONFIG}: {e}") from None
    c = config
    size = c.vocab_size * c.n_embd * (1 if c.tied else 2) + 12 * c.n_layer * c.n_embd**2 + c.context * c.n_embd
    file = folder / WEIGHTS
    have = file.stat().st_size if file.is_file() else 0
    if size > MAX_PARAMETERS or size > have:  # even 1 byte a weight would not fit into the file
        raise UserError(f"{folder / CONFIG} asks for about {size:,} weights but {WEIGHTS} has {have:,} bytes; refused")
    return config


def _codec(folder: Path) -> Codec:
    data = _read_json(folder, CODEC)
    try:
        return codec_from_dict(data)
    except UserError as e:
        raise UserError(f"{folder / CODEC}: {e}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as e:
        raise UserError(
            f"{folder / CODEC} is no whole codec ({type(e).__name__}: {e}); the checkpoint is damaged"
        ) from None


def _weights(path: Path, shape: dict[str, tuple[int, ...]], dtype: torch.dtype) -> dict[str, torch.Tensor]:
    try:
        with safe_open(path, framework="pt") as f:
            names = set(f.keys())
            missing, strange = sorted(set(shape) - names), sorted(names - set(shape))
            if missing or strange:
                raise UserError(
                    f"{path}: weights missing: {missing[:3]}, not known: {strange[:3]}; it is of another model"
                )
            for n, s in shape.items():
                got = tuple(f.get_slice(n).get_shape())
                if got != s:
                    raise UserError(f"{path}: {n} has shape {got} but the config asks for {s}")
            # Copied: a mapped weight would change with its file, and end the process where the file is cut.
            weights = {n: f.get_tensor(n).to(dtype, copy=True) for n in shape}
    except (SafetensorError, OSError) as e:
        raise UserError(f"{path} can't be read ({e}); the checkpoint is damaged or incomplete") from None
    for n, weight in weights.items():
        if not bool(weight.isfinite().all()):
            raise UserError(f"{path}: {n} holds what is no finite number; the checkpoint is damaged, use another")
    return weights


def read_run(folder: Path | str) -> dict[str, Any]:
    """Read what run.json records of a checkpoint's run; empty where there is none."""
    folder = _settled(Path(folder))
    return _read_json(folder, RUN) if (folder / RUN).exists() else {}


def load_trainer(folder: Path | str) -> dict[str, Any]:
    """Read trainer.pt (tensors and plain values only) to resume from."""
    path = _settled(Path(folder)) / TRAINER
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no {TRAINER}, so it can't resume; start from its weights with --init-from"
        ) from None
    except Exception as e:
        raise UserError(f"{path} can't be read ({type(e).__name__}); start from the weights with --init-from") from None


def file_sha(path: Path | str) -> str:
    """Return the sha256 of a file in hex."""
    h = hashlib.sha256()
    with open(path, "rb") as f:
        while block := f.read(1 << 20):
            h.update(block)
    return h.hexdigest()
