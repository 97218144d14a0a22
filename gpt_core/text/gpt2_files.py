"""Weight files read and written one tensor at a time: safetensors and PyTorch's .bin, whole or in numbered parts."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import shorten
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from gpt_core.errors import UserError

SAFE, BIN = "model.safetensors", "pytorch_model.bin"
INDEX = ".index.json"
_CODES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16"}


class WeightFiles:
    """The tensors of a model folder by name; a file is mapped while one of its tensors is read, never copied whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._loaded: tuple[str, dict[str, Tensor]] = ("", {})
        self._where = self._locate()

    def _locate(self) -> dict[str, str]:
        for name in (SAFE, BIN):
            if (self.folder / name).is_file():
                return dict.fromkeys(self._names(name), name)
            if (self.folder / (name + INDEX)).is_file():
                return self._index(self.folder / (name + INDEX))
        raise UserError(f"{self.folder} holds no weights; it needs {SAFE} or {BIN}, whole or with {SAFE + INDEX}")

    def _index(self, path: Path) -> dict[str, str]:
        try:
            where = dict(json.loads(path.read_text("utf-8"))["weight_map"])
        except (ValueError, KeyError, TypeError, RecursionError, OSError) as e:
            raise UserError(f"{path} can't be read ({e}); the index is damaged") from None
        if not all(isinstance(name, str) for name in where.values()):
            raise UserError(f"{path} gives a weight a file that is no name; the index is damaged")
        for name in sorted(set(where.values())):
            if not self._has(name):
                raise UserError(f"{path} names {name}, which is not in the folder; download it too")
        return where

    def _has(self, name: str) -> bool:
        """Whether a file of that plain name lies in the folder; no path leads out of it."""
        try:
            return Path(name).name == name and (self.folder / name).is_file()
        except (ValueError, OSError):  # a name with a zero byte, or too long for the disk
            return False

    def _names(self, file: str) -> list[str]:
        if file == BIN:
            return list(self._bin(file))
        with self._open(file) as f:
            return list(f.keys())

    def _open(self, file: str) -> Any:
        try:
            return safe_open(self.folder / file, framework="pt")
        except (SafetensorError, OSError) as e:
            raise UserError(f"{self.folder / file} can't be read ({e}); the file is damaged or incomplete") from None

    def _bin(self, file: str) -> dict[str, Tensor]:
        if self._loaded[0] != file:
            self._loaded = ("", {})
            self._loaded = (file, _load_bin(self.folder / file))
        return self._loaded[1]

    def names(self) -> list[str]:
        """Every tensor's name as the files have it."""
        return list(self._where)

    def get(self, name: str) -> Tensor:
        """Return one tensor, mapped from its file."""
        file = self._where[name]
        if not file.endswith(".safetensors"):
            tensors = self._bin(file)
            if name not in tensors:
                raise UserError(f"{self.folder / file} lacks {name}, which the index promises; download it again")
            return tensors[name]
        try:
            with self._open(file) as f:  # opened anew each time: what was read can leave memory again
                return f.get_tensor(name)
        except SafetensorError as e:
            raise UserError(f"{self.folder / file} can't give {name} ({e}); download it again") from None


def _load_bin(path: Path) -> dict[str, Tensor]:
    """Read a .bin without running anything in it, mapped where its format allows that."""
    for mapped in (True, False):
        try:
            with warnings.catch_warnings():  # PyTorch's own doubts about a foreign file
                warnings.simplefilter("ignore")
                data = torch.load(path, map_location="cpu", weights_only=True, mmap=mapped)
        except Exception as e:  # whatever a foreign file provokes: it is refused, not run
            if mapped:
                continue
            why = shorten(str(e), 120, placeholder=" ...") or type(e).__name__
            raise UserError(f"{path} can't be read as plain weights ({why}); refused") from None
        if isinstance(data, dict) and all(isinstance(t, Tensor) for t in data.values()):
            return data
        break
    raise UserError(f"{path} does not hold a table of weights; refused")


def write_weights(path: Path, shapes: dict[str, tuple[int, ...]], get: Callable[[str], Tensor]) -> None:
    """Write a safetensors file tensor by tensor; ``get(name)`` gives each in turn, so that one is in memory at a time.

    All have the kind of number of the first. The format: 8 bytes of header length, a JSON header, the data.
    """
    kind = get(next(iter(shapes))).dtype
    if kind not in _CODES:
        raise UserError(f"the weights are {kind}; only {', '.join(str(k) for k in _CODES)} can be written")
    with path.open("wb") as f:
        f.write(_header(shapes, kind))
        for name in shapes:
            f.write(get(name).to(kind).contiguous().view(torch.uint8).numpy())  # type: ignore[arg-type]


def _header(shapes: dict[str, tuple[int, ...]], kind: torch.dtype) -> bytes:
    table: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    for name, (start, end) in zip(shapes, _spans(shapes, kind.itemsize), strict=True):
        table[name] = {"dtype": _CODES[kind], "shape": list(shapes[name]), "data_offsets": [start, end]}
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def _spans(shapes: dict[str, tuple[int, ...]], itemsize: int) -> Iterator[tuple[int, int]]:
    start = 0
    for shape in shapes.values():
        end = start + itemsize * torch.Size(shape).numel()
        yield start, end
        start = end
