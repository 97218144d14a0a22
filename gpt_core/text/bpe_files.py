"""Tokenizer files: GPT-2's vocabulary and merges under both their names, and tokenizer.json."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from gpt_core.errors import UserError
from gpt_core.text.bpe import END, BPECodec, pair

VOCABULARIES = ("encoder.json", "vocab.json")  # OpenAI's name, Hugging Face's name
MERGES = ("vocab.bpe", "merges.txt")
WHOLE, ADDED = "tokenizer.json", "added_tokens.json"


def read_tokenizer(folder: Path | str) -> BPECodec:
    """Read the byte-level BPE of a folder: vocabulary + merges, else tokenizer.json; UserError says what is missing."""
    folder = Path(folder)
    vocab = next((folder / n for n in VOCABULARIES if (folder / n).is_file()), None)
    merges = next((folder / n for n in MERGES if (folder / n).is_file()), None)
    if vocab and merges:
        return _from_pair(vocab, merges, folder / ADDED)
    if (folder / WHOLE).is_file():
        return _from_whole(folder / WHOLE)
    raise UserError(
        f"{folder} holds no tokenizer; it needs {' or '.join(VOCABULARIES)} with {' or '.join(MERGES)}, or {WHOLE}"
    )


def write_tokenizer(codec: BPECodec, folder: Path | str) -> None:
    """Write vocab.json, merges.txt and, for special tokens beyond the end token, added_tokens.json."""
    folder = Path(folder)
    _write_json(folder / "vocab.json", {**codec.vocab, **{n: i for n, i in codec.special.items() if n == END}})
    lines = ["#version: 0.2", *(" ".join(m) for m in codec.merges)]
    (folder / "merges.txt").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    further = {n: i for n, i in codec.special.items() if n != END}
    if further:
        _write_json(folder / ADDED, further)


def _from_pair(vocab_path: Path, merges_path: Path, added_path: Path) -> BPECodec:
    vocab = _read_json(vocab_path)
    try:
        lines = merges_path.read_text(encoding="utf-8").split("\n")
    except (UnicodeDecodeError, OSError) as e:
        reason = getattr(e, "strerror", None) or "it is not UTF-8 text"
        raise UserError(f"{merges_path} can't be read ({reason}); the file is missing or damaged") from None
    rows = [line for line in lines if line and not line.startswith("#version")]
    special = {END: vocab[END]} if END in vocab else {}
    if added_path.is_file():
        special.update(_read_json(added_path))
    return _build(vocab, rows, special, merges_path)


def _from_whole(path: Path) -> BPECodec:
    data = _read_json(path)
    model, before = data.get("model") or {}, data.get("pre_tokenizer") or {}
    if not isinstance(model, dict) or not isinstance(before, dict):
        raise UserError(f"{path} describes no tokenizer; the file is damaged")
    plain = before.get("type") == "ByteLevel" and not before.get("add_prefix_space") and before.get("use_regex", True)
    if model.get("type", "BPE") != "BPE" or not plain or data.get("normalizer"):
        raise UserError(f"{path} is not GPT-2's kind of tokenizer (byte-level BPE, no normalizer, no prefix space)")
    vocab, merges, added = model.get("vocab"), model.get("merges"), data.get("added_tokens") or []
    if not isinstance(vocab, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise UserError(f"{path} lacks its vocabulary, its merges or its added tokens; the file is damaged")
    if not all(isinstance(t, dict) and isinstance(t.get("content"), str) and "id" in t for t in added):
        raise UserError(f"{path} has an added token without content or id; the file is damaged")
    special = {END: vocab[END]} if END in vocab else {}  # as GPT-2's tokenizers take it, listed or not
    return _build(vocab, merges, special | {t["content"]: t["id"] for t in added}, path)


def _build(vocab: dict[str, int], merges: list[Any], special: dict[str, int], path: Path) -> BPECodec:
    try:
        return BPECodec(vocab, [pair(m) for m in merges], special)
    except UserError as e:
        raise UserError(f"{path}: {e}") from None


def _read_json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (ValueError, RecursionError, OSError) as e:
        raise UserError(f"{path} can't be read as JSON ({e}); the file is damaged") from None
    if not isinstance(data, dict):
        raise UserError(f"{path} holds a {type(data).__name__}, not an object; the file is damaged")
    return data


def _write_json(path: Path, data: dict[str, int]) -> None:
    path.write_text(json.dumps(data, ensure_ascii=False) + "\n", encoding="utf-8", errors="backslashreplace")
