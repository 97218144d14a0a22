"""A scorecard's figures as a Markdown page, with the picture beside it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from music_transformer.scorecard_config import HELD_OUT
from music_transformer.statistics import FAULTS, STUCK_SECONDS

UNITS = {
    "pitch_class_entropy": "pitch-class entropy, bits",
    "note_density": "notes per second",
    "velocity_spread": "spread of velocities",
    "polyphony": "keys sounding at once",
    "pitch_classes": "pitch classes",
    "inter_onsets": "waits between strikes",
}
SHOWN = 10  # pieces with the longest quotations that the page lists


def page(found: dict[str, Any]) -> str:
    """Return the page of what ``make_scorecard`` returned; it shows ``scorecard.png``, which lies beside it."""
    return "\n".join(_page(found)) + "\n"


def rates_of(found: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Rows of the table of likelihoods, best first by what they are: name -> split -> rates."""
    parts = found["parts"]
    beside = {row["model"]: row for row in found["beside"]}
    return {
        found["model"]: parts["likelihood"]["result"],
        **beside,
        **dict(reversed(parts["baselines"]["result"].items())),
    }


def _page(found: dict[str, Any]) -> Iterator[str]:
    c = found["config"]
    yield f"# Scorecard of {found['model']}\n"
    yield f"Checkpoint `{found['checkpoint'][:16]}`, {found['parameters']:,} parameters, version {found['version']}.\n"
    yield f"    music-transformer scorecard SHARDS --model {found['model']} {_flags(c)}\n"
    prints = ", ".join(f"{name} `{value}`" for name, value in found["shards"].items())
    seconds = ", ".join(
        f"{name} {part['seconds']:,.0f} s ({part['cpu_seconds']:,.0f} of CPU)" for name, part in found["parts"].items()
    )
    yield f"Shards: {prints}. It took: {seconds}.\n"
    yield from _likelihood(found)
    yield from _faults(found["parts"]["faults"]["result"], found["parts"]["pieces"]["result"], c)
    yield from _likeness(found["parts"]["likeness"]["result"])
    yield from _quotations(found["parts"]["quotations"]["result"])
    yield "\n![The figures as a picture](scorecard.png)"


def _flags(config: dict[str, Any]) -> str:
    return " ".join(f"--{name.replace('_', '-')} {value}" for name, value in config.items())


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _likelihood(found: dict[str, Any]) -> Iterator[str]:
    c = found["config"]
    how = f"{c['windows']} windows evenly spread" if c["windows"] else "all windows"
    yield "## How well it predicts held-out music\n"
    yield (
        f"Negative log-likelihood in nats, over all events with at least {c['min_context']} before them in their window "
        f"({how} for the model; every piece for the others). Lower is better.\n"
    )
    head = ["model", *(f"{split}, per {unit}" for split in HELD_OUT for unit in ("event", "note", "second"))]
    rows = []
    for name, by_split in rates_of(found).items():
        figures = [by_split[s].get(f"nats_per_{u}") for s in HELD_OUT for u in ("event", "note", "second")]
        rows.append([name, *("" if f is None else f"{f:.3f}" if f < 100 else f"{f:.1f}" for f in figures)])
    yield _table(head, rows) + "\n"


def _faults(found: dict[str, Any], pieces: list[dict[str, Any]], config: dict[str, Any]) -> Iterator[str]:
    yield f"## Faults in {len(pieces)} pieces of {config['seconds']:g} s\n"
    yield (
        f"From nothing, seeds {config['seed']} to {config['seed'] + len(pieces) - 1}, default settings "
        f"(which bound a held note to {STUCK_SECONDS:g} s); beside them as many excerpts of held-out music.\n"
    )
    shares = found["shares"]
    rows = [
        [text, f"{100 * shares['pieces'][f]:.0f} %", f"{100 * shares['real'][f]:.0f} %"] for f, text in FAULTS.items()
    ]
    yield _table(["fault", "pieces with it", "real excerpts with it"], rows) + "\n"
    faulty = [str(r["seed"]) for r in found["each"] if _is_faulty(r)]
    yield f"Seeds with a fault: {', '.join(faulty) or 'none'}.\n"
    ended = sum(p["ended"] for p in pieces)
    yield f"{ended} of {len(pieces)} pieces came to an end of their own or wound down; the others were cut.\n"


def _is_faulty(row: dict[str, Any]) -> bool:
    from music_transformer.statistics import Faults

    faults = Faults(**{k: v for k, v in row.items() if k != "seed"})
    return any(getattr(faults, name) for name in FAULTS)


def _likeness(found: dict[str, Any]) -> Iterator[str]:
    yield "## Likeness to real music\n"
    yield (
        "Overlapped area of the distributions over pieces and over excerpts of held-out music (1 = the same), and of the "
        "distances between the two sets with those among the excerpts (as in MGEval); in brackets what as many other real "
        "excerpts reach against the same ones.\n"
    )
    rows = []
    for name, unit in UNITS.items():
        mine, other = found["pieces"][name], found["real"][name]
        means = [_mean(mine[who]) for who in ("pieces", "real")]
        areas = [f"{mine[kind]:.2f} ({other[kind]:.2f})" for kind in ("overlap", "distances")]
        rows.append([unit, *means, *areas])
    yield _table(["feature", "pieces", "real", "overlap", "overlap of distances"], rows) + "\n"


def _mean(values: dict[str, Any]) -> str:
    return "" if isinstance(values["mean"], list) else f"{values['mean']:.2f} ± {values['spread']:.2f}"


def _quotations(found: dict[str, Any]) -> Iterator[str]:
    yield "## Quotations\n"
    yield (
        "Longest passage, in notes, that a piece shares with any training piece: the same pitch intervals in the same coarse "
        "rhythm, in any key. Human pieces are excerpts of held-out music, which share scales, trills and composers with "
        "the training music.\n"
    )
    names = {
        "tenth": "shortest tenth below",
        "median": "median",
        "ninetieth": "longest tenth above",
        "longest": "longest",
    }
    rows = [
        [label, *(f"{found['spread'][who][key]:.0f}" for who in ("pieces", "real"))] for key, label in names.items()
    ]
    yield _table(["notes", "generated", "human"], rows) + "\n"
    worst = sorted(found["each"], key=lambda r: -r["notes"])[:SHOWN]
    rows = [[str(r["seed"]), str(r["notes"]), str(r["of"]), str(r["at"]), r["source"]] for r in worst]
    yield _table(["seed", "notes shared", "notes in all", "from note", "with"], rows) + "\n"
