"""Write the results of all cases: python tests/golden/write.py [--out FOLDER] [--only TEXT]."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from adapter import package, result_of
from cases import all_cases
from compare import RESULTS, read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=RESULTS, help="folder of the results")
    parser.add_argument(
        "--only", default="", help="cases whose name holds this text; results of others are kept"
    )
    options = parser.parse_args()
    print(f"the package is {package.__file__}", flush=True)
    known = read(options.out) if options.only else {}
    files: dict[str, list[str]] = {}
    for case in all_cases():
        name = case["name"]
        result = result_of(case) if options.only in name else known[name]
        content = json.dumps(result, separators=(",", ":"), allow_nan=False)
        files.setdefault(name.split("/")[0], []).append(f"{json.dumps(name)}: {content}")
    options.out.mkdir(parents=True, exist_ok=True)
    for group, lines in files.items():
        (options.out / f"{group}.json").write_text(
            "{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8"
        )


if __name__ == "__main__":
    main()
