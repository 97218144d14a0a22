"""Measures of text: perplexity, bits per byte, BLEU (sacrebleu), ROUGE (rouge-score)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from gpt_core.errors import UserError


def perplexity(nats: float, tokens: int) -> float:
    """Return e to the mean nats per token, infinite beyond what a float holds."""
    return math.exp(nats / tokens) if nats / tokens < 700 else math.inf


def bits_per_byte(nats: float, n_bytes: int) -> float:
    """Return how many bits each UTF-8 byte of the text costs: comparable whatever the tokenizer."""
    return nats / math.log(2) / n_bytes if n_bytes else math.nan


def bleu(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> float:
    """Return corpus BLEU, 0 to 100, of each hypothesis against its one or more references (sacrebleu's defaults)."""
    try:
        import sacrebleu
    except ModuleNotFoundError:
        raise UserError("BLEU needs the package sacrebleu; install music-transformer[train]") from None
    _check(hypotheses, references)
    most = max(len(r) for r in references)
    columns = [[r[k] if k < len(r) else None for r in references] for k in range(most)]
    return sacrebleu.corpus_bleu(list(hypotheses), columns).score  # type: ignore[arg-type]  # None: fewer references


def rouge(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Return mean F1 of ROUGE-1, ROUGE-2 and ROUGE-L with stemming, 0 to 100; of several references the best counts."""
    try:
        from rouge_score.rouge_scorer import RougeScorer
    except ModuleNotFoundError:
        raise UserError("ROUGE needs the package rouge-score; install music-transformer[train]") from None
    _check(hypotheses, references)
    names = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(names, use_stemmer=True)
    rows = [scorer.score_multi(list(r), h) for h, r in zip(hypotheses, references, strict=True)]
    return {n: 100 * sum(row[n].fmeasure for row in rows) / len(rows) for n in names}


def _check(hypotheses: Sequence[str], references: Sequence[Sequence[str]]) -> None:
    if not hypotheses or len(hypotheses) != len(references) or not all(references):
        raise UserError(
            f"there are {len(hypotheses)} texts and references for {len(references)}; give at least one reference for each"
        )
