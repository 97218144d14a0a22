"""List what the product depends on: a table of licences, or a bill of materials.

Run:  python tools/licences.py            the table of THIRD_PARTY.md, on standard output
      python tools/licences.py --sbom     a CycloneDX 1.5 document in JSON, for this very environment
"""

from __future__ import annotations

import argparse
import json
from importlib import metadata
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PRODUCT = "music-transformer"
EXTRAS = ("app", "train")  # what users install; the test extra stays with developers


def closure(root: str = PRODUCT, extras: tuple[str, ...] = EXTRAS) -> dict[str, set[str]]:
    """Every installed package the product needs -> the packages it needs itself, by normalised names."""
    found: dict[str, set[str]] = {}
    waiting = [(root, frozenset(extras))]
    seen = set(waiting)
    while waiting:
        name, wanted = waiting.pop()
        needs = found.setdefault(canonicalize_name(name), set())
        for requirement in map(Requirement, metadata.requires(name) or ()):
            if not any(_applies(requirement, extra) for extra in wanted | {""}) or not _installed(requirement.name):
                continue
            needs.add(canonicalize_name(requirement.name))
            job = (requirement.name, frozenset(requirement.extras))
            if job not in seen:
                seen.add(job)
                waiting.append(job)
    return found


def _applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def _installed(name: str) -> bool:
    try:
        metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def licence(name: str) -> str:
    """The licence a package states: its SPDX expression, else its classifiers, else the first line of its field."""
    facts = metadata.metadata(name)
    if facts.get("License-Expression"):
        return facts["License-Expression"]
    classifiers = [c.split("::")[-1].strip() for c in facts.get_all("Classifier") or () if c.startswith("License ::")]
    named = [c for c in classifiers if c != "OSI Approved"]
    return " and ".join(named) or (facts.get("License") or "not stated").strip().splitlines()[0][:60]


def table() -> str:
    """Markdown: package and licence, without versions, which constraints.txt pins."""
    names = sorted(n for n in closure() if n != PRODUCT)
    return "\n".join(["| package | licence |", "|---|---|", *(f"| {n} | {licence(n)} |" for n in names)])


def sbom() -> dict[str, Any]:
    """CycloneDX 1.5: the product, its dependencies with versions and licences, and who needs whom."""
    needs = closure()
    parts = {name: _component(name) for name in needs}
    product = parts.pop(PRODUCT)
    graph = [{"ref": _ref(n), "dependsOn": sorted(map(_ref, needs[n]))} for n in sorted(needs)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**product, "type": "application"}},
        "components": [parts[n] for n in sorted(parts)],
        "dependencies": graph,
    }


def _component(name: str) -> dict[str, Any]:
    return {
        "type": "library",
        "bom-ref": _ref(name),
        "name": name,
        "version": metadata.version(name),
        "purl": _ref(name),
        "licenses": [{"license": {"name": licence(name)}}],
    }


def _ref(name: str) -> str:
    return f"pkg:pypi/{name}@{metadata.version(name)}"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sbom", action="store_true", help="write a CycloneDX bill of materials instead of the table")
    print(json.dumps(sbom(), indent=2) if parser.parse_args().sbom else table())
