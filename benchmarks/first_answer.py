"""Seconds from the start of a process to the first answer, where nothing is compiled yet and where everything is."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd

from _harness import header

LINES = """
import sys
import pandas as pd
from invariance import BIP, BIPClassifier

table = pd.read_csv(sys.argv[1])
X, y, site = table.drop(columns=["y", "site"]), table["y"], table["site"]
model = eval(sys.argv[2]).fit(X, y, environments=site)
print(model.summary(), model.diagnose())
"""


def table(p: int, n: int, binary: bool = False) -> pd.DataFrame:
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(4), n // 4)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(4, p))[site]
    y = X[:, 0] - 0.8 * X[:, 1] + rng.normal(size=n)
    X[:, 2] = y * np.array([1.0, -1.0, 0.5, 2.0])[site] + rng.normal(size=n)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)])
    return frame.assign(y=(y > 0).astype(int) if binary else y, site=np.array(list("abcd"))[site])


def seconds(command: list[str], cache: Path) -> tuple[float, float]:
    """Wall-clock and processor time of a process and what it starts"""
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache), "PYTHONWARNINGS": "ignore"}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.perf_counter() - started, used


def main() -> None:
    header("The first answer: seconds of a whole process, on the clock and of the processor")
    cases = {
        "exact, 8 features": (table(8, 600), "BIP()"),
        "exact, 12 features": (table(12, 600), "BIP()"),
        "logistic, 8 features": (table(8, 600, binary=True), "BIPClassifier()"),
        "tempering, 50 features": (table(50, 2000), "BIP(engine='tempering', random_state=0)"),
    }
    chosen = [name for name in cases if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    print(f"{'':34} {'nothing compiled':>18} {'all compiled':>18}")
    for name in chosen:
        frame, model = cases[name]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "table.csv")
            frame.to_csv(path, index=False)
            python = [sys.executable, "-c", LINES, str(path), model]
            line = [sys.executable, "-m", "invariance", "fit", str(path), "--outcome", "y", "--environment", "site"]
            if "tempering" in model:
                line += ["--engine", "tempering"]
            for face, command in (("Python", python), ("command line", line)):
                cache = Path(folder, face)
                runs = [seconds(command, cache) for _ in range(2)]
                print(
                    f"{name:24} {face:>12} " + " ".join(f"{wall:8.1f} {used:8.1f} " for wall, used in runs), flush=True
                )


if __name__ == "__main__":
    main()
