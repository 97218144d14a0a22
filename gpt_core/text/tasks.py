"""Tasks beyond language modelling: source, separator, target as ONE sequence, of which only the target is scored."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpt_core.errors import UserError
from gpt_core.options import check, option, to_json
from gpt_core.text.corpus import RECORD, SPLITS, TextCodec

EXAMPLES = "examples.jsonl"
SHORTEST_SOURCE = 8  # tokens of a source that are kept whatever its target's length


@dataclass(frozen=True)
class TaskConfig:
    """What is taught, from how much of the data. Splits are by source: no source of one is in another."""

    task: str = option("translate", "what to teach", choices=("translate", "summarize"))
    to: str = option("fr", "translate: the target language's short name; the separator is <to-fr>")
    share: float = option(
        1.0, "share of the training examples to use; a smaller one is a part of every larger", low=0.0, high=1.0
    )
    validation: float = option(
        0.02, "share of the sources kept for validation, where the data has no split", low=0.0, high=0.5
    )
    test: float = option(0.05, "share of the sources kept for the test, where the data has no split", low=0.0, high=0.5)
    split_seed: int = option(0, "another number gives another split", low=0)

    @property
    def separator(self) -> str:
        """What stands between source and target: ordinary text, so that any tokenizer has it."""
        return f" <to-{self.to}>" if self.task == "translate" else "\nTL;DR:"


@dataclass(frozen=True)
class Example:
    """A source and its right targets: several where the data has several."""

    source: str
    targets: tuple[str, ...]
    split: str


def read_examples(path: Path, config: TaskConfig) -> list[Example]:
    """Read a TSV of pairs, a .jsonl of source and target, or a folder of train/dev/test.jsonl; UserError says what is wrong."""
    if path.is_dir():
        names = (("train", "train"), ("dev", "validation"), ("validation", "validation"), ("test", "test"))
        files = [(path / f"{n}.jsonl", split) for n, split in names if (path / f"{n}.jsonl").is_file()]
        if not files:
            raise UserError(f"{path} holds no train.jsonl, dev.jsonl or test.jsonl; give a folder that does, or a file")
        return [Example(s, t, split) for file, split in files for s, t in _read_jsonl(file)]
    pairs = _read_jsonl(path) if path.suffix == ".jsonl" else _read_tsv(path)
    return split_by_source(pairs, config)


def _read_tsv(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    pairs: list[tuple[str, tuple[str, ...]]] = []
    for number, line in _lines(path):
        fields = line.split("\t")
        if len(fields) < 2:
            raise UserError(f"{path}, line {number} has {len(fields)} field; a line is source, tab, target")
        if not (number == 1 and fields[0].strip().isdigit()):  # a header of column numbers
            pairs.append((fields[0].strip(), (fields[1].strip(),)))
    return pairs


def _read_jsonl(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    pairs = []
    for number, line in _lines(path):
        try:
            row = json.loads(line)
            pairs.append((_joined(row["source"]), tuple(_listed(row["target"]))))
        except (ValueError, KeyError, TypeError) as e:
            raise UserError(f"{path}, line {number} is no object with source and target ({e})") from None
    return pairs


def _joined(source: str | list[str]) -> str:
    return source.strip() if isinstance(source, str) else " ".join(s.strip() for s in source)


def _listed(target: str | list[str]) -> list[str]:
    return [t.strip() for t in ([target] if isinstance(target, str) else target) if t.strip()]


def _lines(path: Path) -> list[tuple[int, str]]:
    """The lines that hold something, each with its number."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # \r\n reads as \n; other line separators belong to the text
        return [(n, line) for n, line in enumerate(text.split("\n"), start=1) if line.strip()]
    except OSError as e:
        raise UserError(f"{path} cannot be read: {e.strerror}") from None
    except UnicodeDecodeError as e:
        raise UserError(f"{path} is not UTF-8 text (byte {e.start + 1}); convert it first") from None


def source_key(source: str) -> str:
    """Return what makes two sources the same: their letters and digits, in lower case."""
    return re.sub(r"\W+", " ", source.casefold()).strip()


def split_by_source(pairs: Iterable[tuple[str, tuple[str, ...]]], config: TaskConfig) -> list[Example]:
    """Give all pairs of one source (up to case and punctuation) the same split; outside training they become one example."""
    groups: dict[str, list[tuple[str, tuple[str, ...]]]] = {}
    for source, targets in pairs:
        groups.setdefault(source_key(source), []).append((source, targets))
    out = []
    for key, group in groups.items():
        draw = _draw(key, config.split_seed)
        split = "test" if draw < config.test else "validation" if draw < config.test + config.validation else "train"
        if split == "train":
            out += [Example(source, targets, split) for source, targets in group]
        else:
            every = dict.fromkeys(t for _, targets in group for t in targets)
            out.append(Example(group[0][0], tuple(every), split))
    return out


def _draw(key: str, seed: int) -> float:
    return int.from_bytes(hashlib.sha256(f"{seed} {key}".encode()).digest()[:8], "big") / 2**64


def prompt_ids(codec: TextCodec, source: str, config: TaskConfig, room: int) -> list[int]:
    """Return end token, source, separator, in at most ``room`` tokens: a longer source loses its end."""
    after = codec.encode(config.separator)
    kept = max(1, room - 1 - len(after))
    return [codec.special_ids["eos"], *codec.encode(source)[:kept], *after]


def lost(codec: TextCodec, source: str, config: TaskConfig, room: int) -> int:
    """Return how many tokens of a source's end :func:`prompt_ids` leaves out."""
    return max(0, len(codec.encode(source)) - max(1, room - 1 - len(codec.encode(config.separator))))


def sequence(
    codec: TextCodec, source: str, target: str, config: TaskConfig, context: int
) -> tuple[list[int], list[int]]:
    """Return a training piece of at most ``context`` + 1 ids and its loss mask: 1 on the target and the end token after it."""
    most = max(1, context - SHORTEST_SOURCE - len(codec.encode(config.separator)))
    answer = [*codec.encode(" " + target), codec.special_ids["eos"]][:most]
    prompt = prompt_ids(codec, source, config, context + 1 - len(answer))
    return prompt + answer, [0] * len(prompt) + [1] * len(answer)


def build_task(data: Path, out: Path, codec: TextCodec, context: int, config: TaskConfig) -> dict[str, Any]:
    """Write ``data`` as masked shards and keep the held-out examples beside them; returns the record in ``out/meta.json``."""
    check(config)
    examples = _shared(read_examples(data, config), config)
    out.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"source": data.name, "task": to_json(config), "splits": {}, "codec": codec.to_dict()}
    digest = hashlib.sha256()
    for split in SPLITS:
        mine = [e for e in examples if e.split == split]
        if not mine:
            raise UserError(
                f"{data} leaves nothing for the {split} split of {len(examples)} examples; give more or other shares"
            )
        record["splits"][split] = _write(mine, out, codec, context, config)
        digest.update("".join(f"{e.split}\t{e.source}\t{e.targets}\n" for e in mine).encode())
    record["fingerprint"] = digest.hexdigest()
    held = [e for e in examples if e.split != "train"]
    rows = (json.dumps({"source": e.source, "target": e.targets, "split": e.split}, ensure_ascii=False) for e in held)
    (out / EXAMPLES).write_text("\n".join(rows) + "\n", encoding="utf-8")
    (out / RECORD).write_text(json.dumps(record, ensure_ascii=False) + "\n", encoding="utf-8")
    return record


def _shared(examples: list[Example], config: TaskConfig) -> list[Example]:
    """Leave out training examples beyond the share, by a draw of their own that does not depend on the share."""
    kept = [
        e for e in examples if e.split != "train" or _draw(source_key(e.source), -1 - config.split_seed) < config.share
    ]
    if not any(e.split == "train" for e in examples):
        raise UserError(
            f"the data holds {len(examples)} examples and none to train on; give pairs, or smaller held-out shares"
        )
    if not any(e.split == "train" for e in kept):
        raise UserError(f"--share {config.share} leaves no training example; raise it")
    return kept


def _write(
    examples: Sequence[Example], out: Path, codec: TextCodec, context: int, config: TaskConfig
) -> dict[str, int]:
    from gpt_core.tokens import ShardWriter  # late: it brings torch

    writer = ShardWriter(out, examples[0].split, codec.vocab_size)
    size = {"examples": len(examples), "pieces": 0, "tokens": 0, "scored": 0, "longest": 0, "cut": 0}
    for e in examples:
        for target in e.targets:
            ids, mask = sequence(codec, e.source, target, config, context)
            writer.add(ids, mask)
            size["pieces"] += 1
            size["tokens"] += len(ids)
            size["scored"] += sum(mask)
            size["longest"] = max(size["longest"], len(ids))
            size["cut"] += lost(codec, e.source, config, len(ids) - sum(mask)) > 0
    writer.close()
    return size


def held_out(folder: Path, split: str = "test") -> list[Example]:
    """Read the examples of a held-out split that ``build_task`` kept."""
    rows = [json.loads(line) for _, line in _lines(folder / EXAMPLES)]
    return [Example(r["source"], tuple(r["target"]), r["split"]) for r in rows if r["split"] == split]
