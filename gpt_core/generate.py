"""THE generation loop: prompt ids in, a stream of id columns out; the only place that decodes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Protocol

import torch
from torch import Tensor

from gpt_core.cache import KVCache
from gpt_core.config import ENGINES
from gpt_core.eager import EagerEngine
from gpt_core.errors import UserError
from gpt_core.model import GPT
from gpt_core.native import NativeEngine, native_engine
from gpt_core.native_draw import Draw, native_draw
from gpt_core.sampling import Sampling, filters_from, sample

# (ids so far [B, T], logits [B, V]) -> logits [B, V]. Temperature, top-k and the music grammar are all filters.
Filter = Callable[[Tensor, Tensor], Tensor]


class Engine(Protocol):
    """Something that reads a window of ids and then one column at a time, and returns the next logits [B, V]."""

    def prefill(self, window: Tensor, takes: int) -> Tensor:
        """Forget everything, read window [B, T]; a single row is read once and copied to ``takes`` rows."""
        ...

    def step(self, column: Tensor) -> Tensor:
        """Read one more column [B]."""
        ...


class CachedEngine:
    """The model's own modules with a key-value cache, on any device and in any precision."""

    name = "PyTorch modules"

    def __init__(self, model: GPT) -> None:
        self.model = model
        self.cache: KVCache | None = None

    def prefill(self, window: Tensor, takes: int) -> Tensor:
        """See :class:`Engine`."""
        self.cache = KVCache(
            self.model.config, len(window), device=self.model.device, dtype=self.model.wte.weight.dtype
        )
        logits = self.model(window, self.cache, last_only=True)[:, -1]
        if len(window) == 1 and takes > 1:
            self.cache = self.cache.expand(takes)
            logits = logits.expand(takes, -1)
        return logits

    def step(self, column: Tensor) -> Tensor:
        """See :class:`Engine`."""
        return self.model(column[:, None], self.cache)[:, -1]


class UncachedEngine:
    """The slow honest version, to compare with: reads the whole window again for each token."""

    name = "PyTorch modules without a cache"

    def __init__(self, model: GPT) -> None:
        self.model = model
        self.window = torch.empty(0)

    def prefill(self, window: Tensor, takes: int) -> Tensor:
        """See :class:`Engine`."""
        self.window = window.expand(takes, -1) if len(window) == 1 else window
        return self.model(self.window)[:, -1]

    def step(self, column: Tensor) -> Tensor:
        """See :class:`Engine`."""
        self.window = torch.cat((self.window, column[:, None]), dim=1)
        return self.model(self.window)[:, -1]


def choose_engine(model: GPT, wish: str = "auto") -> Engine:
    """Return a fresh engine for one request: the quickest one that is exact (``auto``), or the one asked for by name.

    ``torch`` needs no compiler; ``native`` computes in fp32 too, ``native-bf16`` and ``native-int8`` store rounded weights.
    Raises UserError where the engine asked for can't run here.
    """
    if wish not in ENGINES:
        raise UserError(f"the engine is {wish!r}; choose one of {', '.join(ENGINES)}")
    why = _modules_needed(model)
    if not why and wish != "torch":
        native = native_engine(model, wish.partition("-")[2] or "fp32")
        if not isinstance(native, str):
            return native
        why = native
    if wish.startswith("native"):
        raise UserError(f"the engine {wish} can't be used: {why}; use auto")
    return CachedEngine(model) if _modules_needed(model) else EagerEngine(model, why)


def describe(engine: Engine) -> str:
    """Say in one line which engine this is."""
    return f"engine: {getattr(engine, 'name', type(engine).__name__)}"


def _modules_needed(model: GPT) -> str:
    """Say why this model can't do without its modules, if so."""
    if model.device.type != "cpu" or model.wte.weight.dtype != torch.float32:
        return f"it runs fp32 models on the CPU and this one is {model.wte.weight.dtype} on {model.device.type}"
    if model.training and model.config.dropout:
        return "the model is in training mode and drops out"
    hooked = any(m._forward_hooks or m._forward_pre_hooks for m in model.modules())
    return "someone listens to the model's modules" if hooked else ""


def generate(
    model: GPT,
    prompt: Tensor,
    *,
    max_new_tokens: int,
    sampling: Sampling | None = None,
    filters: Sequence[Filter] = (),
    stop_ids: Collection[int] = (),
    generators: Sequence[torch.Generator] | None = None,
    takes: int = 1,
    use_cache: bool = True,
    engine: Engine | str = "auto",
) -> Iterator[Tensor]:
    """Continue prompt [B, T] (or one row [1, T] in ``takes`` ways) and yield one column of ids [B] per step.

    ``filters`` see all ids so far and the raw logits, before ``sampling``'s own. A row that has drawn a stop id repeats it;
    the stream ends when all rows have, or after ``max_new_tokens``. Each row draws from its own generator, one number per
    step, so its ids do not depend on the rows beside it. The model reads at most its context: a longer prompt is read from
    its end; when the window is full the recent half is kept and read again. Raises UserError for an empty prompt, ids out of
    the vocabulary, or a wrong number of generators. ``engine`` is a name for :func:`choose_engine`, or one made by the caller.
    """
    rows = _rows(model, prompt, takes, generators)
    if isinstance(engine, str):
        engine = choose_engine(model, engine) if use_cache else UncachedEngine(model)
    steps, draw = _drawing(sampling or Sampling(), filters, engine)
    context, length = model.config.context, prompt.shape[1]
    start = max(0, length - context)
    ids = torch.empty(rows, length + max_new_tokens, dtype=torch.long, device=model.device)
    ids[:, :length] = prompt
    stops = torch.tensor(sorted(stop_ids), dtype=torch.long, device=model.device)
    done = torch.zeros(rows, dtype=torch.bool, device=model.device)
    for n in range(length, length + max_new_tokens):
        with torch.inference_mode():
            if n == length:
                logits = engine.prefill(prompt.to(model.device)[:, start:], rows)
            elif n - start > context:
                start = n - max(1, context // 2)
                logits = engine.prefill(ids[:, start:n], rows)
            else:
                logits = engine.step(ids[:, n - 1])
            for apply in steps:
                logits = apply(ids[:, :n], logits)
            column = draw(logits, generators)
            if len(stops):
                column = torch.where(done, ids[:, n - 1], column) if n > length else column
                done |= torch.isin(column, stops)
            ids[:, n] = column
        yield column.clone()
        if len(stops) and bool(done.all()):
            return


def _drawing(sampling: Sampling, filters: Sequence[Filter], engine: Engine) -> tuple[list[Filter], Draw]:
    """All filters and what draws after them; beside the native step one call does the sampling's own and the draw."""
    own = filters_from(sampling)
    native = native_draw(sampling) if isinstance(engine, NativeEngine) else None
    return ([*filters], native) if native else ([*filters, *own], sample)


def _rows(model: GPT, prompt: Tensor, takes: int, generators: Sequence[torch.Generator] | None) -> int:
    if prompt.dim() != 2 or prompt.shape[0] < 1 or prompt.shape[1] < 1:
        raise UserError(f"the prompt has shape {list(prompt.shape)}; give ids [B, T] with at least 1 token")
    low, high = int(prompt.min()), int(prompt.max())
    if low < 0 or high >= model.config.vocab_size:
        raise UserError(f"the prompt holds ids {low} to {high}; the model knows 0 to {model.config.vocab_size - 1}")
    if takes < 1 or (takes > 1 and len(prompt) != 1):
        raise UserError(f"takes is {takes} and the prompt has {len(prompt)} rows; several takes continue one row")
    rows = max(takes, len(prompt))
    if generators is not None and len(generators) != rows:
        raise UserError(f"{len(generators)} generators were given for {rows} rows; give one per row")
    return rows
