"""The bill of materials: whole, consistent, in the form its readers expect."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TOOL = Path(__file__).parents[1] / "tools" / "licences.py"


def output(*flags: str) -> str:
    return subprocess.run([sys.executable, str(TOOL), *flags], capture_output=True, text=True, check=True).stdout


def test_the_bill_of_materials_is_a_closed_graph():
    bill = json.loads(output("--sbom"))
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    assert bill["metadata"]["component"]["name"] == "music-transformer"
    parts = {p["bom-ref"]: p for p in bill["components"]}
    assert {"torch", "numpy", "mido", "safetensors"} <= {p["name"] for p in parts.values()}
    assert all(p["version"] and p["licenses"][0]["license"]["name"] for p in parts.values())
    root = bill["metadata"]["component"]["bom-ref"]
    assert {e["ref"] for e in bill["dependencies"]} == {root, *parts}
    assert {ref for e in bill["dependencies"] for ref in e["dependsOn"]} == set(parts)


def test_the_table_names_a_licence_for_every_package():
    rows = [line.strip("| ").split(" | ") for line in output().splitlines()[2:]]
    assert len(rows) > 20 and all(len(r) == 2 and r[1] != "not stated" for r in rows)
    assert not [r for r in rows if r[1].startswith(("GPL", "AGPL"))]
