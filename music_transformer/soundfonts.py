"""Which renderer plays, and through which soundfont: looked up once, decided by one pure function."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpt_core.errors import UserError
from gpt_core.options import option

SOUNDFONT_VARIABLE = "MUSIC_TRANSFORMER_SOUNDFONT"
RENDERERS = ("midirenderer", "fluidsynth")  # in order of preference
READS = {"midirenderer": (".sf2",), "fluidsynth": (".sf2", ".sf3")}
HOW_TO_GET_SOUND = "the MIDI file is complete and any player can play it; for sound here: pip install midirenderer"

_SYSTEM_FOLDERS = (
    "/usr/share/sounds/sf2",
    "/usr/share/sounds/sf3",
    "/usr/share/soundfonts",
    "/usr/local/share/soundfonts",
    "/opt/homebrew/share/soundfonts",
)
# Pianos that people like better come first; what is not listed follows by name.
_LIKED = ("MuseScore_General", "FluidR3_GM", "FluidR3Mono_GM", "default-GM", "TimGM6mb")


@dataclass(frozen=True)
class RenderSettings:
    """How a score becomes sound; every field is a flag and a widget."""

    soundfont: str | None = option(None, f"soundfont file (.sf2) to play through; also ${SOUNDFONT_VARIABLE}")
    renderer: str = option("auto", "which synthesizer plays", choices=("auto", *RENDERERS))
    ring_seconds: float = option(4.0, "how long the last notes may ring on", low=0.0, high=30.0)


@dataclass(frozen=True)
class SoundPlan:
    """The renderer and the soundfont in use."""

    renderer: str
    soundfont: Path

    @property
    def line(self) -> str:
        """One line for a status bar or a log."""
        return f"sound: {self.renderer} with {self.soundfont.name}"


def plan_sound(settings: RenderSettings | None = None) -> SoundPlan:
    """Look at this machine and decide what plays; UserError says how to get sound where nothing can."""
    settings = settings or RenderSettings()
    asked = settings.soundfont or os.environ.get(SOUNDFONT_VARIABLE) or None
    return decide_sound(
        settings.renderer,
        asked,
        renderers=[r for r in RENDERERS if _AVAILABLE[r]()],
        fonts=find_soundfonts(),
        exists=lambda path: path.is_file(),
    )


def decide_sound(
    renderer: str,
    asked_font: str | None,
    *,
    renderers: Sequence[str],
    fonts: Sequence[Path],
    exists: Callable[[Path], bool],
) -> SoundPlan:
    """Pick renderer and soundfont from what there is.

    ``renderer`` is "auto" or a name, ``asked_font`` the user's own file or None; ``renderers`` and ``fonts`` are what
    this machine has, best first; ``exists`` tells whether a file is there. Raises UserError where nothing fits.
    """
    if renderer != "auto" and renderer not in renderers:
        raise UserError(f"no sound: the renderer {renderer} is not installed; {HOW_TO_GET_SOUND}")
    candidates = [renderer] if renderer != "auto" else list(renderers)
    if not candidates:
        raise UserError(f"no sound: no renderer is installed; {HOW_TO_GET_SOUND}")
    if asked_font is not None and not exists(Path(asked_font)):
        raise UserError(f"no sound: the soundfont {asked_font} is not there; give the path of an .sf2 file")
    for name in candidates:
        for font in [Path(asked_font)] if asked_font is not None else fonts:
            if font.suffix.lower() in READS[name]:
                return SoundPlan(name, font)
    if asked_font is not None:
        readable = " and ".join(READS[candidates[-1]])
        raise UserError(f"no sound: {candidates[-1]} cannot play {Path(asked_font).name}; it reads {readable} files")
    raise UserError(
        f"no sound: no soundfont was found; name an .sf2 file with --soundfont or in ${SOUNDFONT_VARIABLE} "
        "(the MIDI file is complete all the same)"
    )


def find_soundfonts() -> list[Path]:
    """List the soundfonts of this machine, best first: the user's folder, the system's, pretty_midi's own."""
    from platformdirs import user_data_path

    found: list[Path] = []
    for folder in (user_data_path("music-transformer") / "soundfonts", *map(Path, _SYSTEM_FOLDERS)):
        if folder.is_dir():
            found += sorted((f for f in folder.iterdir() if f.suffix.lower() in (".sf2", ".sf3")), key=_rank)
    spec = importlib.util.find_spec("pretty_midi")
    if spec is not None and spec.origin is not None:
        # Shipped in that wheel under the GPL: played from where it lies, never copied.
        found += sorted(Path(spec.origin).parent.glob("*.sf2"))
    return found


def _rank(font: Path) -> tuple[int, str]:
    liked = [i for i, name in enumerate(_LIKED) if font.stem.startswith(name)]
    return (liked[0] if liked else len(_LIKED), font.name)


def _has_midirenderer() -> bool:
    return importlib.util.find_spec("midirenderer") is not None


def _has_fluidsynth() -> bool:
    if importlib.util.find_spec("fluidsynth") is None:
        return False
    try:
        import fluidsynth  # the binding raises where the system library is missing
    except (ImportError, OSError):
        return False
    return hasattr(fluidsynth, "Synth")


_AVAILABLE: dict[str, Callable[[], bool]] = {"midirenderer": _has_midirenderer, "fluidsynth": _has_fluidsynth}
