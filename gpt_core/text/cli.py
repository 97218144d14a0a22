"""The command ``gpt-core``: text on the core, from corpus and GPT-2's weights to completion."""

from __future__ import annotations

from collections.abc import Sequence

from gpt_core.commands import Command, Verb

VERBS = (
    Verb("complete", "cli_complete", "continue a text, or write one from nothing"),
    Verb("next", "cli_complete", "show the likeliest next tokens of a text, and how each of its tokens surprised"),
    Verb("tokens", "cli_complete", "show a text's tokens and their ids"),
    Verb("corpus", "cli_train", "text files -> shards to train on"),
    Verb("train", "cli_train", "train a model on shards", stays=True),
    Verb("evaluate", "cli_train", "measure a model on text: perplexity and bits per byte"),
    Verb("finetune", "cli_tasks", "teach a model to translate or to summarize", stays=True),
    Verb("apply", "cli_tasks", "translate or summarize texts with a model so taught"),
    Verb("score", "cli_tasks", "measure a model so taught on its held-out split"),
    Verb("import-gpt2", "cli_gpt2", "GPT-2 weights in Hugging Face's layout -> a checkpoint"),
    Verb("export-gpt2", "cli_gpt2", "a checkpoint of GPT-2's shape -> Hugging Face's layout"),
)
COMMAND = Command("gpt-core", "GPT-2 on your CPU: complete, train, fine-tune, look inside.", "gpt_core.text", VERBS)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status."""
    return COMMAND.main(argv)
