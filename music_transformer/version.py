"""The version of the installed package."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def package_version() -> str:
    """Return e.g. ``0.1.0``; ``0+source`` where the package runs without being installed."""
    try:
        return version("music-transformer")
    except PackageNotFoundError:
        return "0+source"
