"""Write the results of all cases: python tests/golden/write.py [--out FOLDER] [--only TEXT]."""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from pathlib import Path
from typing import Any

from adapter import package, result_of
from cases import all_cases
from compare import RESULTS, read


def write(folder: Path, results: dict[str, Any]) -> None:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument("--only", default="", help="cases whose name holds this text; results of others are kept")
    options = parser.parse_args()
    chosen = [case for case in all_cases() if options.only in case["name"]]
    results = read(options.out) if options.only else {}
    failed: list[str] = []
    print(f"the package is {package.__file__}", flush=True)
    for case in chosen:
        try:
            results[case["name"]] = result_of(case)
        except Exception:
            failed.append(case["name"])
            print(f"{case['name']}\n{traceback.format_exc()}", flush=True)
    write(options.out, results)
    print(f"{len(chosen) - len(failed)} cases written to {options.out}; failed: {', '.join(failed) or 'none'}")
    sys.exit(int(bool(failed)))


if __name__ == "__main__":
    main()
