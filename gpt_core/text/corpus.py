"""Text files -> token shards: split by document, a tokenizer learned from the training part, one record of it all."""

from __future__ import annotations

import csv
import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from gpt_core.codec import codec_from_dict
from gpt_core.errors import UserError
from gpt_core.options import check, option, to_json
from gpt_core.text.bpe import BPECodec
from gpt_core.text.bpe_files import MERGES, read_tokenizer
from gpt_core.text.chars import CharCodec

SPLITS = ("train", "validation", "test")
SUFFIXES = (".txt", ".md", ".text")
RECORD = "meta.json"
_BLANK = re.compile(r"\n(?:[ \t]*\n)+")
_TOGETHER = 8  # documents encoded at once
_FEW = 20  # with fewer documents than this, each gives the end of its own text to the held-out splits
TextCodec = BPECodec | CharCodec


@dataclass(frozen=True)
class CorpusConfig:
    """How texts become shards. A TSV or CSV of the folder with ``path`` and ``split`` columns goes before the shares."""

    tokenizer: str = option(
        "bpe", "bpe = learn it here, chars = one id a character, or a folder that holds a tokenizer"
    )
    vocab_size: int = option(8192, "ids of a tokenizer learned here, the end token included", low=257, high=1_000_000)
    validation: float = option(0.05, "share of the documents kept for validation", low=0.0, high=0.5)
    test: float = option(0.0, "share of the documents kept for the test", low=0.0, high=0.5)
    section: int = option(
        0, "cut training documents at blank lines into sections of about this many characters, each begun by the end "
        "token, so that a model of few long texts learns how one begins; 0 = leave them whole", low=0, high=1_000_000_000
    )  # fmt: skip


@dataclass(frozen=True)
class Document:
    """One text: its name relative to the folder, its split, its file, and which share of the file it is."""

    name: str
    split: str
    path: Path
    start: float = 0.0
    end: float = 1.0

    def read(self) -> str:
        """Return the text, line ends as newline characters, cut at line ends; UserError if it is not UTF-8."""
        try:
            text = self.path.read_text(encoding="utf-8")
        except UnicodeDecodeError as e:
            raise UserError(f"{self.path} is not UTF-8 text (byte {e.start + 1}); convert it first") from None
        except OSError as e:
            raise UserError(f"{self.path} cannot be read: {e.strerror}") from None
        return text[_cut(text, self.start) : _cut(text, self.end)]


def _cut(text: str, share: float) -> int:
    """Where ``share`` of the text ends, moved on to the next line."""
    if share >= 1.0:
        return len(text)
    at = int(share * len(text))
    line = text.find("\n", at)
    return at if at == 0 or line < 0 else line + 1


def find_documents(source: Path, config: CorpusConfig) -> list[Document]:
    """List the text files of a folder (or the one file) by name, each with its split; UserError if there are none."""
    if source.is_file():
        return _split_ends([Document(source.name, "train", source)], config)
    paths = sorted(p for p in source.rglob("*") if p.suffix.lower() in SUFFIXES and p.is_file())
    named = {p.relative_to(source).as_posix(): p for p in paths}
    official = _official_split(source)
    if official:
        named = {n: p for n, p in named.items() if n in official}
    if not named:
        raise UserError(f"{source} holds no {', '.join(SUFFIXES)} file; give a text file or a folder of them")
    if official:
        return [Document(n, official[n], p) for n, p in named.items()]
    plain = [Document(n, "train", p) for n, p in named.items()]
    if len(plain) < _FEW:
        return _split_ends(plain, config)
    return [replace(d, split=hash_split(d.name, config)) for d in plain]


def _official_split(folder: Path) -> dict[str, str]:
    """Read ``path -> split`` from the folder's table that has both columns; empty without one."""
    for path in sorted([*folder.glob("*.tsv"), *folder.glob("*.csv")]):
        with path.open(encoding="utf-8", newline="") as lines:
            rows = csv.DictReader(lines, delimiter="\t" if path.suffix == ".tsv" else ",")
            if {"path", "split"} <= set(rows.fieldnames or ()):
                return {row["path"]: row["split"] for row in rows if row["split"] in SPLITS}
    return {}


def hash_split(name: str, config: CorpusConfig) -> str:
    """Choose a document's split by its name alone: the same on every machine, whatever else the folder holds."""
    draw = int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "big") / 2**64
    if draw < config.test:
        return "test"
    return "validation" if draw < config.test + config.validation else "train"


def _split_ends(documents: Sequence[Document], config: CorpusConfig) -> list[Document]:
    a, b = 1 - config.validation - config.test, 1 - config.test
    spans = (("train", 0.0, a), ("validation", a, b), ("test", b, 1.0))
    return [replace(d, split=s, start=x, end=y) for d in documents for s, x, y in spans if y > x]


def build_corpus(source: str | Path, out: str | Path, config: CorpusConfig | None = None) -> dict[str, Any]:
    """Encode every text under ``source`` into the shards ``out``; returns the record kept as ``out/meta.json``.

    A piece is the end token and a document's ids, so that each document is predicted from its first token on. Files that
    are not UTF-8 are listed in the record and left out.
    """
    config = config or CorpusConfig()
    check(config)
    source, out = Path(source), Path(out)
    if not source.exists():
        raise UserError(f"{source} does not exist; give a text file or a folder of them")
    documents, failed = _readable(source, find_documents(source, config))
    codec = choose_codec(config, documents)
    splits, digest = {}, hashlib.sha256()
    for split in SPLITS:
        mine = [d for d in documents if d.split == split]
        splits[split] = _write_split(mine, codec, out, digest, config.section if split == "train" else 0)
    record = {
        "source": source.name, "fingerprint": digest.hexdigest(), "settings": {**to_json(config), "tokenizer": codec.kind},
        "splits": splits, "pieces": [{"file": d.name, "split": d.split} for d in documents], "failed": failed,
        "codec": codec.to_dict(),
    }  # fmt: skip
    scratch = out / f".{RECORD}.tmp"
    scratch.write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    scratch.replace(out / RECORD)
    return record


def _readable(source: Path, documents: Sequence[Document]) -> tuple[list[Document], list[dict[str, str]]]:
    """The documents that hold text, and why the others' files don't; UserError where none is left to train on."""
    good: list[Document] = []
    failed: dict[str, str] = {}
    for d in documents:
        try:
            if d.read().strip():
                good.append(d)
            elif not d.path.read_text(encoding="utf-8").strip():
                failed[d.name] = f"{d.path} holds no text"
        except UserError as e:
            failed[d.name] = str(e)
    if good and not any(d.split == "train" for d in good):
        raise UserError(f"{source} leaves no text to train on; lower --validation or --test")
    if not good:
        first = next(iter(failed.values()), f"{source} holds no text")
        raise UserError(first if len(failed) < 2 else f"none of {len(failed)} files can be used; the first: {first}")
    return good, [{"file": name, "error": error} for name, error in failed.items()]


def choose_codec(config: CorpusConfig, documents: Sequence[Document]) -> TextCodec:
    """Learn the tokenizer from the training documents, or read the one that the settings name."""
    texts = (d.read() for d in documents if d.split == "train")
    if config.tokenizer == "bpe":
        return BPECodec.train(texts, config.vocab_size)
    if config.tokenizer == "chars":
        return CharCodec.train(texts)
    return find_codec(Path(config.tokenizer))


def find_codec(folder: Path) -> TextCodec:
    """Read the codec of a checkpoint, of shards, or of a folder with tokenizer files."""
    for name in ("codec.json", RECORD):
        if (folder / name).is_file():
            data = json.loads((folder / name).read_text("utf-8"))
            codec = codec_from_dict(data if name == "codec.json" else data["codec"])
            if isinstance(codec, BPECodec | CharCodec):
                return codec
            raise UserError(
                f"{folder} is of the kind {codec.kind!r}, which reads no text; give a text model or tokenizer"
            )
    if not folder.is_dir():
        raise UserError(
            f"--tokenizer is {str(folder)!r}; give bpe, chars, or a folder that holds a tokenizer ({MERGES[0]} ...)"
        )
    return read_tokenizer(folder)


def _write_split(
    documents: Sequence[Document], codec: TextCodec, out: Path, digest: Any, section: int
) -> dict[str, int]:
    from gpt_core.tokens import ShardWriter  # late: it brings torch

    writer = ShardWriter(out, documents[0].split if documents else "none", codec.vocab_size) if documents else None
    size = {"pieces": 0, "tokens": 0, "bytes": 0, "characters": 0}
    for document, text, parts in _encoded(documents, codec, section):
        for encoded in parts:
            ids = [codec.special_ids["eos"], *encoded]
            writer.add(ids)  # type: ignore[union-attr]
            size["tokens"] += len(ids)
        raw = text.encode()
        digest.update(f"{document.split} {document.name} {hashlib.sha256(raw).hexdigest()}\n".encode())
        size["pieces"] += len(parts)
        size["bytes"] += len(raw)
        size["characters"] += len(text)
    if writer:
        writer.close()
    return size


def sections(text: str, size: int) -> list[str]:
    """Cut a text behind blank lines into parts of at least ``size`` characters (the last may be shorter); 0: one part."""
    cuts, start = [0], 0
    for blank in _BLANK.finditer(text) if size else ():
        if blank.end() - start >= size and blank.end() < len(text):
            cuts.append(start := blank.end())
    return [text[a:b] for a, b in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _encoded(
    documents: Sequence[Document], codec: TextCodec, section: int
) -> Iterator[tuple[Document, str, list[list[int]]]]:
    """Every document, its text, its sections' ids; a few at a time, so that all cores encode and few are in memory."""
    for n in range(0, len(documents), _TOGETHER):
        group = documents[n : n + _TOGETHER]
        texts = [d.read() for d in group]
        parts = [sections(t, section) for t in texts]
        ids = iter(codec.encode_many([p for ps in parts for p in ps]))
        for document, text, ps in zip(group, texts, parts, strict=True):
            yield document, text, [next(ids) for _ in ps]
