"""Write the results of all cases: python tests/golden/write.py [--out FOLDER] [--only TEXT]."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from pathlib import Path

import adapter
import runs
from cases import all_cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=runs.RESULTS, help="folder of the results")
    parser.add_argument("--only", default="", help="cases whose name holds this text; results of others are kept")
    parser.add_argument("--times", action="store_true", help="print the seconds of each case")
    options = parser.parse_args()
    chosen = [case for case in all_cases() if options.only in case["name"]]
    results = runs.read(options.out) if options.only else {}
    failed: list[str] = []
    print(f"the package is {adapter.package.__file__}", flush=True)
    for case in chosen:
        started = time.process_time()
        try:
            results[case["name"]] = runs.result_of(case)
        except Exception:
            failed.append(case["name"])
            print(f"{case['name']}\n{traceback.format_exc()}", flush=True)
        if options.times:
            print(f"{time.process_time() - started:7.2f} s  {case['name']}", flush=True)
    runs.write(options.out, results)
    print(f"{len(chosen) - len(failed)} cases written to {options.out}; failed: {', '.join(failed) or 'none'}")
    sys.exit(int(bool(failed)))


if __name__ == "__main__":
    main()
