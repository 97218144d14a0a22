"""A GPT-2 on a model hub: what it consists of, said before it is downloaded."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gpt_core.errors import UserError

_ID = re.compile(r"[\w.-]+(/[\w.-]+)?")
_SMALL = ("config.json", "vocab.json", "merges.txt", "tokenizer.json", "added_tokens.json")
_MEGABYTE = 1_000_000


def fetch(source: str | Path, say: Callable[[str], None]) -> Path:
    """Return the folder of ``source``: a folder as it is, a hub id (``gpt2``, ``owner/name``) after its download.

    The download goes through huggingface_hub (its endpoint, cache and token settings hold) and is announced by ``say``
    with every file and its size. Raises UserError where nothing of that name can be reached.
    """
    folder = Path(source)
    if folder.is_dir():
        return folder
    name = str(source)
    if isinstance(source, Path) or not _ID.fullmatch(name) or name.startswith("."):
        raise UserError(f"{name} is neither a folder nor a hub id (gpt2, owner/name)")
    return _download(name, say)


def _download(name: str, say: Callable[[str], None]) -> Path:
    try:
        from huggingface_hub import HfApi, hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError
    except ModuleNotFoundError:
        raise UserError(
            f"{name} is no folder here, and a hub id needs the package huggingface_hub; install it"
        ) from None
    api = HfApi()
    try:
        info = api.model_info(name, files_metadata=True)
        sizes = {f.rfilename: f.size or 0 for f in info.siblings or []}
        files = choose_files(sizes)
        listed = ", ".join(f"{f} ({sizes[f] / _MEGABYTE:.1f} MB)" for f in files)
        say(f"downloading {name} from {api.endpoint}: {listed}")
        paths = [hf_hub_download(name, f, revision=info.sha) for f in files]
        return Path(paths[0]).parent
    except (HfHubHTTPError, OSError, *_transport_errors()) as e:  # type: ignore[misc]
        reason = (str(e).strip().splitlines() or [type(e).__name__])[0]
        raise UserError(f"{name} is no folder here and can't be had from {api.endpoint}: {reason}") from None


def _transport_errors() -> tuple[type[Exception], ...]:
    """What the library's HTTP client raises: huggingface_hub uses httpx or, since 2.4, httpx2."""
    found = (import_module(name) for name in ("httpx", "httpx2") if find_spec(name))
    return tuple(module.HTTPError for module in found)


def choose_files(sizes: dict[str, Any]) -> list[str]:
    """Pick config, tokenizer and weights out of a repository's files: safetensors before .bin, whole before parts."""
    for stem, end in (("model", ".safetensors"), ("pytorch_model", ".bin")):
        if stem + end in sizes:
            weights = [stem + end]
        else:
            weights = sorted(f for f in sizes if re.fullmatch(rf"{stem}-\d+-of-\d+{re.escape(end)}(\.index\.json)?", f))
            weights += [f for f in (f"{stem}{end}.index.json",) if f in sizes]
        if weights:
            return [*(f for f in _SMALL if f in sizes), *weights]
    raise UserError("the hub's model has no model.safetensors and no pytorch_model.bin; it can't be imported")
