"""Teach a task through the one training loop, answer with the model so taught, and score it beside the baselines."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from gpt_core.checkpoint import Checkpoint
from gpt_core.errors import UserError
from gpt_core.footprint import check_memory
from gpt_core.generate import generate
from gpt_core.model import GPT
from gpt_core.options import from_json
from gpt_core.sampling import Sampling
from gpt_core.start import Start
from gpt_core.text.metrics import bleu, rouge
from gpt_core.text.tasks import Example, TaskConfig, build_task, held_out, lost, prompt_ids, read_examples
from gpt_core.text.tasks_baselines import Dictionary, copy, lead, random_sentences, sentences
from gpt_core.text.tasks_beam import beam_search
from gpt_core.text.tasks_extract import answer_scores
from gpt_core.text.training import record_of, run
from gpt_core.tokens import Shard
from gpt_core.train_config import TrainConfig
from gpt_core.trainer import Data


@dataclass(frozen=True)
class Answering:
    """How answers are found: 1 beam is greedy; ``extract`` takes the likeliest sentence of the source (summaries alone)."""

    beams: int = 1
    max_new: int = 64
    extract: bool = False

    @property
    def name(self) -> str:
        """What a table calls it."""
        return "likeliest sentence" if self.extract else "greedy" if self.beams == 1 else f"{self.beams} beams"


def shards_of(out: Path) -> Path:
    """Where the task data of the checkpoint ``out`` lies: beside it, for the checkpoint is replaced as a whole."""
    return out.with_name(out.name + "-data")


def finetune(
    data: Path, base: Checkpoint, task: TaskConfig, config: TrainConfig, start: Start, *, scratch: bool = False
) -> float:
    """Teach ``base``, or with ``scratch`` fresh weights of its shape; returns the best validation nats per target token."""
    start.check()
    shards = shards_of(start.out)
    record = build_task(data, shards, base.codec, base.config.context, task)
    resumed = start.load()
    kept = start.record(resumed, record_of(shards))
    rows = min(base.config.context, max(record["splits"]["train"]["longest"] - 1, 1))
    config = replace(config, crops="pieces", row_tokens=rows)
    memory = check_memory(base.config, config)
    torch.manual_seed(config.seed)
    model = resumed.model if resumed else GPT(base.config) if scratch else base.model
    begun = {
        **kept,
        "task": record["task"],
        "begun_from": "fresh weights" if scratch else str(base.folder),
    }
    loaded = Data(Shard.open(shards, "train"), Shard.open(shards, "validation"), run=begun)
    cut = {"sources_cut_to_the_window": record["splits"]["train"]["cut"]}
    also = {"memory_gb": memory, **(cut if any(cut.values()) else {})}
    return run(model, loaded, config, base.codec, start, also=also)


def task_of(model: Checkpoint) -> TaskConfig:
    """Return the task a model was taught; UserError if none."""
    if "task" not in model.run:
        raise UserError(f"{model.folder} was taught no task; make one with gpt-core finetune")
    return from_json(TaskConfig, model.run["task"])


def answer(
    model: Checkpoint,
    sources: Sequence[str],
    how: Answering | None = None,
    *,
    progress: Callable[[int], None] | None = None,
    notice: Callable[[str], None] | None = None,
) -> list[str]:
    """Translate or summarize each source with a taught model.

    Sources that leave no room for the answer lose their end; ``notice`` is told in a sentence which do.
    """
    how, task = how or Answering(), task_of(model)
    for number, source in enumerate(sources, start=1) if notice else ():
        missing = lost(model.codec, source, task, model.config.context - min(how.max_new, model.config.context // 2))
        if notice and missing:
            notice(f"text {number} is longer than the model reads: its last {missing:,} tokens are not seen")
    if how.extract:
        return _extracted(model, sources, task, progress)
    new = min(how.max_new, model.config.context // 2)
    prompts = [prompt_ids(model.codec, s, task, model.config.context - new) for s in sources]
    found = (
        _greedy(model, prompts, new, progress) if how.beams == 1 else _beams(model, prompts, new, how.beams, progress)
    )
    return [model.codec.decode(ids).strip() for ids in found]


def _extracted(
    model: Checkpoint, sources: Sequence[str], task: TaskConfig, progress: Callable[[int], None] | None
) -> list[str]:
    if task.task != "summarize":
        raise UserError(f"{model.folder} was taught to {task.task}; sentences of the source answer summaries alone")
    encode, end, most = model.codec.encode, model.codec.special_ids["eos"], model.config.context // 2
    out = []
    for source in sources:
        own = sentences(source) or [""]
        answers = [[*encode(" " + s), end][:most] for s in own]
        prompt = prompt_ids(model.codec, source, task, model.config.context - max(map(len, answers)))
        found = answer_scores(model.model, prompt, answers)
        out.append(own[found.index(max(found))])
        if progress:
            progress(len(out))
    return out


def _beams(
    model: Checkpoint, prompts: Sequence[list[int]], new: int, beams: int, progress: Callable[[int], None] | None
) -> list[list[int]]:
    out = []
    for prompt in prompts:
        out.append(beam_search(model.model, prompt, beams=beams, max_new=new, end=model.codec.special_ids["eos"]))
        if progress:
            progress(len(out))
    return out


def _greedy(
    model: Checkpoint, prompts: Sequence[list[int]], new: int, progress: Callable[[int], None] | None, batch: int = 32
) -> list[list[int]]:
    """Answer prompts of equal length together: rows of one batch share their length."""
    end = model.codec.special_ids["eos"]
    out: list[list[int]] = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda n: len(prompts[n]))
    while order:
        group = [n for n in order[:batch] if len(prompts[n]) == len(prompts[order[0]])]
        order = order[len(group) :]
        ids = torch.tensor([prompts[n] for n in group])
        columns = generate(model.model, ids, max_new_tokens=new, sampling=Sampling(temperature=0.0), stop_ids=(end,))
        for n, row in zip(group, torch.stack(list(columns), 1).tolist(), strict=True):
            out[n] = row[: row.index(end)] if end in row else row
        if progress:
            progress(len(prompts) - len(order))
    return out


def measure(task: TaskConfig, answers: Sequence[str], examples: Sequence[Example]) -> dict[str, float]:
    """Score answers as the task is scored: BLEU for translations, ROUGE for summaries."""
    right = [e.targets for e in examples]
    return {"bleu": bleu(answers, right)} if task.task == "translate" else rouge(answers, right)


def baselines(task: TaskConfig, data: Path | None, examples: Sequence[Example]) -> dict[str, dict[str, float]]:
    """Score the answers that need no model; the dictionary is learned from the training part of ``data``, where given."""
    sources = [e.source for e in examples]
    if task.task == "summarize":
        out = {"first sentence": [lead(s) for s in sources], "random sentence": random_sentences(sources)}
    else:
        out = {"copy": [copy(s) for s in sources]}
        if data is not None:
            train = [e for e in read_examples(data, task) if e.split == "train"]
            words = Dictionary((e.source, t) for e in train for t in e.targets)
            out["dictionary"] = [words(s) for s in sources]
    return {name: measure(task, answers, examples) for name, answers in out.items()}


def score(
    model: Checkpoint, ways: Sequence[Answering], *, data: Path | None = None, limit: int | None = None
) -> dict[str, Any]:
    """Score a taught model on the test split kept beside it, in each of the ``ways``, with the baselines."""
    task, examples = task_of(model), held_out(shards_of(model.folder))[:limit]
    sources = [e.source for e in examples]
    rows = baselines(task, data, examples)
    for how in ways:
        rows[how.name] = measure(task, answer(model, sources, how), examples)
    return {"examples": len(examples), "fingerprint": model.run["data"]["fingerprint"], "scores": rows}


def save_scores(path: Path, result: dict[str, Any]) -> None:
    """Write scores as JSON."""
    path.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
