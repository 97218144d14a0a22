"""Ask a public register of vulnerabilities (OSV) about every pinned package; say so in one sentence where it can't be reached.

Run:  python tools/audit.py [--timeout 10] [--constraints constraints.txt]     exit status 1 where a package has a known fault
"""

from __future__ import annotations

import argparse
import json
import sys
import urllib.request
from pathlib import Path
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

SERVICE = "https://api.osv.dev/v1/querybatch"
CONSTRAINTS = Path(__file__).parents[1] / "constraints.txt"
# Advisories looked at and found not to touch us: id -> why.
ACCEPTED: dict[str, str] = {}


def pinned(text: str) -> list[tuple[str, str]]:
    """(name, version) of every ``name==version`` line."""
    found = []
    for line in text.splitlines():
        try:
            requirement = Requirement(line.partition("#")[0].strip())
        except InvalidRequirement:
            continue
        versions = [s.version for s in requirement.specifier if s.operator == "=="]
        found += [(requirement.name, v) for v in versions]
    return found


def known_faults(packages: list[tuple[str, str]], timeout: float) -> dict[str, list[str]]:
    """``name version`` -> ids of its advisories; OSError or ValueError where the register gives no answer."""
    queries = [{"package": {"name": n, "ecosystem": "PyPI"}, "version": v} for n, v in packages]
    request = urllib.request.Request(
        SERVICE, json.dumps({"queries": queries}).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        results: list[dict[str, Any]] = json.load(answer)["results"]
    if len(results) != len(packages):
        raise ValueError(f"{len(results)} answers to {len(packages)} questions")
    faults = {}
    for (name, version), result in zip(packages, results, strict=True):
        ids = [v["id"] for v in result.get("vulns", []) if v["id"] not in ACCEPTED]
        if ids:
            faults[f"{name} {version}"] = ids
    return faults


def main(argv: list[str] | None = None) -> int:
    """Print what is known; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--timeout", type=float, default=10.0, help="seconds to wait for the register")
    parser.add_argument("--constraints", type=Path, default=CONSTRAINTS, help="the file of pinned versions")
    args = parser.parse_args(argv)
    packages = pinned(args.constraints.read_text("utf-8"))
    try:
        faults = known_faults(packages, args.timeout)
    except (OSError, ValueError, KeyError) as error:
        print(f"audit skipped: the register of vulnerabilities can't be reached ({str(error)[:80]})")
        return 0
    for package, ids in faults.items():
        print(f"{package}: {', '.join(ids)}")
    print(f"audit: {len(packages)} pinned packages, {len(faults)} with known faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
