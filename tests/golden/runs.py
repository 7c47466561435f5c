"""Runs cases and keeps their results: one file of JSON for the cases whose names begin alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import adapter
import tables
from cases import Case, all_cases
from plain import plain
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parent / "results"
Results = dict[str, Any]


def result_of(case: Case) -> Any:
    """What the package says of a case; on one thread, since sums of others may be rounded otherwise."""
    with threadpool_limits(1):
        return json.loads(json.dumps(plain(adapter.run(case, tables.make(**case["table"])))))


def read(folder: Path) -> Results:
    found: Results = {}
    for path in sorted(folder.glob("*.json")):
        found |= json.loads(path.read_text(encoding="utf-8"))
    return found


def write(folder: Path, results: Results) -> None:
    """In the order of the cases, one line for each."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, list[str]] = {}
    for case in all_cases():
        name = case["name"]
        if name in results:
            content = json.dumps(results[name], separators=(",", ":"), allow_nan=False)
            files.setdefault(name.split("/")[0], []).append(f"{json.dumps(name)}: {content}")
    for group, lines in files.items():
        (folder / f"{group}.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
