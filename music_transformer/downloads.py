"""Public corpora by name: fetched once from where their makers keep them, checked, and unpacked in the user's cache."""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from dataclasses import dataclass
from pathlib import Path

from gpt_core.errors import UserError


@dataclass(frozen=True)
class Recipe:
    """Where a corpus lies and how to know it: the archive's checksum, or that of the MIDI files in it.

    ``members`` says which files of the archive are wanted. GitHub packs its archives anew from time to time, so the
    checksum of such a one is not stable; ``contents`` then is :func:`contents_hash` of the unpacked files.
    """

    url: str
    licence: str
    members: str
    archive: str | None = None
    contents: str | None = None


RECIPES = {
    "maestro": Recipe(
        "https://storage.googleapis.com/magentadata/datasets/maestro/v2.0.0/maestro-v2.0.0-midi.zip",
        "CC BY-NC-SA 4.0",
        r".*\.(midi|csv)|.*/(LICENSE|README)",
        archive="ec2cc9d94886c6b376db1eaa2b8ad1ce62ff9f0a28b3744782b13163295dadf3",
    ),
    "pop909": Recipe(
        "https://github.com/music-x-lab/POP909-Dataset/archive/refs/heads/master.zip",
        "MIT",
        r".*/POP909/\d+/\d+\.mid|.*/(LICENSE|README\.md)",
        contents="afc5836f76963996945ffc6ef0897d821acc763e8c631b34ccceb422861fa9ac",
    ),
}


def fetch(name: str, cache: Path | None = None) -> Path:
    """Return the folder of a public corpus, downloading it the first time; UserError where that fails."""
    recipe = RECIPES[name]
    cache = cache or _default_cache()
    folder = cache / name
    if folder.is_dir():
        return folder
    unpacked = cache / f"{name}.part"
    shutil.rmtree(unpacked, ignore_errors=True)
    archive = _download(name, recipe, cache)
    try:
        unpack(archive, unpacked, recipe.members)
    except (zipfile.BadZipFile, OSError) as error:
        raise UserError(f"the archive of {name}, {archive}, cannot be unpacked: {error}") from None
    finally:
        archive.unlink(missing_ok=True)  # a bad one must not be found again
    if recipe.contents and contents_hash(unpacked) != recipe.contents:
        raise UserError(
            f"what {recipe.url} holds now is not the {name} this version knows; it lies unpacked in {unpacked}: "
            "give that folder instead of the name to use it all the same"
        )
    unpacked.replace(folder)
    return folder


def _default_cache() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("music-transformer") / "corpora"


def _download(name: str, recipe: Recipe, cache: Path) -> Path:
    try:
        import pooch
    except ImportError:
        raise UserError(
            f"fetching {name} needs pooch; install it with: pip install 'music-transformer[train]'"
        ) from None
    checksum = f"sha256:{recipe.archive}" if recipe.archive else None
    pooch.get_logger().setLevel("ERROR")
    try:
        path = pooch.retrieve(recipe.url, checksum, fname=f"{name}.zip", path=cache, progressbar=True)
    except ValueError:
        raise UserError(f"{recipe.url} did not give the file with the known checksum; nothing was kept") from None
    except OSError as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UserError(
            f"{recipe.url} cannot be fetched ({reason}); fetch and unpack it elsewhere, then give the folder"
        ) from None
    return Path(path)


def unpack(archive: Path, folder: Path, members: str) -> None:
    """Unpack the wanted files; zipfile keeps every path inside the folder."""
    with zipfile.ZipFile(archive) as source:
        for member in source.infolist():
            if re.fullmatch(members, member.filename):
                source.extract(member, folder)


def contents_hash(folder: Path) -> str:
    """One sha256 over the name and the bytes of every MIDI file under a folder, in the order of their names."""
    total = hashlib.sha256()
    files = {p.name: p for p in folder.rglob("*") if p.suffix in (".mid", ".midi")}
    for name in sorted(files):
        total.update(f"{name} {hashlib.sha256(files[name].read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()
