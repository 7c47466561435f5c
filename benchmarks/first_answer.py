"""Seconds from the start of a process to the first answer, imports among them.

From a wheel in a new environment, which carries its kernels compiled, in Python and on the command
line; and from a checkout, which compiles them, the first time and the second. Two figures each: on
the clock and of the processor.

python benchmarks/first_answer.py                  all
python benchmarks/first_answer.py exact            cases whose name has this word
python benchmarks/first_answer.py --wheel FILE     without building it
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from _harness import header
from _installed import ROOT, built_wheel, installed

LINES = """
import sys
import pandas as pd
from invariance import BIP, BIPClassifier, BIPSurvival

table = pd.read_csv(sys.argv[1])
X, y, site = table.drop(columns=["y", "site", "seen"], errors="ignore"), table["y"], table["site"]
model = eval(sys.argv[2]).fit(X, y, environments=site, event=table.get("seen"))
print(model.summary(), model.diagnose())
"""


def table(p: int, n: int, outcome: str = "number") -> pd.DataFrame:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), n // 4)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(4, p))[site]
    y = X[:, 0] - 0.8 * X[:, 1] + rng.normal(size=n)
    X[:, 2] = y * np.array([1.0, -1.0, 0.5, 2.0])[site] + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(
        y=y, site=np.array(list("abcd"))[site]
    )
    if outcome == "class":
        return frame.assign(y=(y > 0).astype(int))
    if outcome == "time":
        return frame.assign(y=rng.exponential(np.exp(-0.5 * y)), seen=rng.random(n) < 0.8)
    return frame


CASES = {
    "exact, 12 features": (table(12, 600), "BIP()", []),
    "tempering, 50 features": (
        table(50, 2000),
        "BIP(engine='tempering', random_state=0)",
        ["--engine", "tempering"],
    ),
    "logistic, 8 features": (table(8, 600, "class"), "BIPClassifier()", []),
    "survival, 8 features": (table(8, 600, "time"), "BIPSurvival()", ["--event", "seen"]),
}


def seconds(command: list[str], path: Path | None) -> tuple[float, float]:
    """Wall-clock and processor time of a process and what it starts"""
    inherited = {
        name: text
        for name, text in os.environ.items()
        if name not in ("PYTHONPATH", "NUMBA_CACHE_DIR")
    }
    environment = (
        inherited
        | {"PYTHONWARNINGS": "ignore"}
        | ({} if path is None else {"PYTHONPATH": str(path)})
    )
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(
        command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("words", nargs="*")
    parser.add_argument("--wheel", type=Path)
    given = parser.parse_args()
    header("The first answer: seconds of a whole process, on the clock and of the processor")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        started = time.perf_counter()
        wheel = given.wheel or built_wheel(folder)
        if given.wheel is None:
            print(
                f"building {wheel.name}: {time.perf_counter() - started:.0f} s, "
                f"{wheel.stat().st_size / 1e6:.1f} MB"
            )
        python = installed(wheel, folder / "environment")
        columns = "wheel, Python", "command line", "checkout, at first", "checkout, then"
        print(f"{'':24}" + "".join(f"{column:>20}" for column in columns))
        for name, (frame, model, options) in CASES.items():
            if given.words and not any(word in name for word in given.words):
                continue
            path = folder / "table.csv"
            checkout = folder / "src"
            frame.to_csv(path, index=False)
            shutil.copytree(ROOT / "src", checkout, ignore=shutil.ignore_patterns("__pycache__"))
            lines = ["-c", LINES, str(path), model]
            typed = [
                "-m",
                "invariance",
                "fit",
                str(path),
                "--outcome",
                "y",
                "--environment",
                "site",
                *options,
            ]
            runs = [seconds([str(python), *arguments], None) for arguments in (lines, typed)]
            runs += [seconds([sys.executable, *lines], checkout) for _ in range(2)]
            shutil.rmtree(checkout)
            print(
                f"{name:24}" + "".join(f"{wall:11.1f} {used:8.1f}" for wall, used in runs),
                flush=True,
            )


if __name__ == "__main__":
    main()
