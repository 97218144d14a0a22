"""The command ``music-transformer``: a table of verbs, each in a module that is imported when it is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from gpt_core.commands import Command, Verb

VERBS = (
    Verb("continue", "cli_compose", "continue a MIDI file"),
    Verb("generate", "cli_compose", "write a piece from nothing"),
    Verb("render", "cli_compose", "MIDI file -> sound file"),
    Verb("receipt", "cli_compose", "show how a generated file was made, or make it again"),
    Verb("attention", "cli_attention", "show what a note attends to"),
    Verb("inspect", "cli_files", "say what a MIDI file holds and what had to be repaired"),
    Verb("encode", "cli_files", "MIDI file -> event ids"),
    Verb("decode", "cli_files", "event ids -> MIDI file"),
    Verb("corpus", "cli_corpus", "folder of MIDI files -> shards to train on"),
    Verb("train", "cli_train", "train a model on shards", stays=True),
    Verb("evaluate", "cli_train", "measure a model on MIDI files or shards"),
    Verb("scorecard", "cli_scorecard", "measure a model: likelihood, faults, likeness, quotations", stays=True),
    Verb("quotes", "cli_scorecard", "find passages of MIDI files that the training music has too"),
    Verb("serve", "cli_serve", "open the app in the browser", stays=True),
)
COMMAND = Command(
    "music-transformer", "A transformer that continues your piano MIDI, on your CPU.", "music_transformer", VERBS
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit status: 0, 1 for bad input, 2 for bad usage, 130 after Ctrl-C."""
    return COMMAND.main(argv)
