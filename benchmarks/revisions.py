"""Two revisions side by side: core operations of each in a process of its own, asked alternately in
one session.

python benchmarks/revisions.py BASE                      this checkout beside a commit (default
    HEAD)
python benchmarks/revisions.py BASE --features 10 24     other numbers of features for exact fits
python benchmarks/revisions.py BASE --only fit predict   operations whose names contain one of these
    words
python benchmarks/revisions.py BASE --checkout FOLDER    keeps the files of BASE, and its kernels,
    for the next time

Worlds of fits, E = 5, 200 rows each: "alike", where every subset is invariant, and "paper", its
simulation. One thread.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from _harness import header, table
from invariance.simulation import p10

HERE = Path(__file__).resolve().parent
ENVIRONMENTS = 5
ROWS = 200
# Rounds of a long operation end after so many seconds.
PATIENCE = 60.0


def write_data(folder: Path, widths: Sequence[int]) -> None:
    """The data of all operations, for both revisions"""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(ENVIRONMENTS), ROWS)

    def alike(p: int) -> np.ndarray:
        return rng.normal(size=(len(site), p))

    def keep(name: str, X: np.ndarray, y: np.ndarray, **rest: np.ndarray) -> None:
        np.savez(folder / f"{name}.npz", X=X, y=y, site=site, **rest)

    for p in widths:
        X = alike(p)
        keep(f"alike {p}", X, X[:, :3].sum(axis=1) + rng.normal(size=len(X)))
        sample = p10(ENVIRONMENTS, rng, p=p).sample(ROWS, rng)
        keep(f"paper {p}", sample.X, sample.y)
    for name, p in (("classes", 10), ("counts", 10), ("times", 8), ("many", 50)):
        X = alike(p) + 0.5 * rng.normal(size=(ENVIRONMENTS, p))[site]
        line = X[:, :3].sum(axis=1) / 2
        y = {
            "classes": lambda line=line: (rng.random(len(line)) < 1 / (1 + np.exp(-line))).astype(
                int
            ),
            "counts": lambda line=line: rng.poisson(np.exp(line)),
            "times": lambda line=line: rng.exponential(size=len(line)) * np.exp(-line) + 1e-3,
            "many": lambda line=line: line + rng.normal(size=len(line)),
        }[name]()
        X[:, -1] += (1 + site) * (y > np.median(y))  # y acts on it, otherwise in every environment
        end = np.quantile(y, 0.8)
        keep(name, X, np.minimum(y, end) if name == "times" else y, event=(y <= end).astype(int))
    write_rows(folder / "rows.parquet", rng)


def write_rows(file: Path, rng: np.random.Generator, n: int = 400_000, p: int = 20) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {f"x{j}": rng.normal(size=n) for j in range(p)}
    columns |= {"y": rng.normal(size=n), "site": np.array(list("abcdefgh"))[rng.integers(0, 8, n)]}
    pq.write_table(pa.table(columns), file, row_group_size=n // 8)


def check_out(base: str, folder: Path) -> Path:
    """The sources of a commit, in a folder named by it"""
    git = ["git", "-C", str(HERE.parent)]
    commit = subprocess.run(
        [*git, "rev-parse", f"{base}^{{commit}}"], check=True, stdout=subprocess.PIPE, text=True
    )
    place = folder.resolve() / commit.stdout.strip()
    if not place.exists():
        place.mkdir(parents=True)
        archive = subprocess.run(
            [*git, "archive", place.name, "src"], check=True, stdout=subprocess.PIPE
        )
        subprocess.run(["tar", "-x", "-C", str(place)], input=archive.stdout, check=True)
    return place / "src"


class Revision:
    """A worker process that imports the package from one folder"""

    def __init__(self, source: Path, data: Path) -> None:
        threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "_revision_worker.py"), str(data)],
            env={**os.environ, **threads, "PYTHONPATH": str(source)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.operations: list[str] = self.answer()

    def ask(self, operation: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(operation + "\n")
        self._process.stdin.flush()

    def answer(self) -> list:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            sys.exit(f"a worker ended with status {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def compared(base: Revision, now: Revision, operation: str, rounds: int) -> list[list[float] | str]:
    """Seconds of calls by each revision, in rounds of changing order; a text where it fails"""
    for revision in (base, now):  # compiles, in both at once
        revision.ask(operation)
    warmed = base.answer(), now.answer()
    found: list[list[float] | str] = [
        answer if isinstance(answer, str) else [] for answer in warmed
    ]
    started = time.monotonic()
    for r in range(rounds):
        if r > 1 and time.monotonic() - started > PATIENCE:
            break
        pairs = list(zip((base, now), found, strict=True))
        for revision, times in pairs if r % 2 else pairs[::-1]:
            if isinstance(times, list):
                revision.ask(operation)
                times += revision.answer()
    return found


def cells(operation: str, found: Sequence[list[float] | str]) -> tuple[str, ...]:
    best = [f"{min(times) * 1e3:.1f}" if isinstance(times, list) else times for times in found]
    if any(isinstance(times, str) for times in found):
        return operation, *best, "", ""
    ratios = [function(found[1]) / function(found[0]) for function in (min, np.median)]
    return operation, *best, *(f"{ratio:.2f}" for ratio in ratios)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("base", nargs="?", default="HEAD")
    parser.add_argument("--features", type=int, nargs="+", default=[10, 15, 20])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--checkout", type=Path)
    arguments = parser.parse_args()
    header(f"This checkout beside {arguments.base}, {arguments.rounds} rounds")
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch, "data")
        data.mkdir()
        write_data(data, sorted(arguments.features))
        source = check_out(arguments.base, arguments.checkout or Path(scratch))
        revisions = Revision(source, data), Revision(HERE.parent / "src", data)
        seconds: dict[str, list[float]] = {}

        def rows() -> Iterator[tuple[str, ...]]:
            for operation in revisions[0].operations:
                if any(word in operation for word in arguments.only):
                    found = compared(*revisions, operation, arguments.rounds)
                    seconds[operation] = [
                        min(times) if isinstance(times, list) else np.nan for times in found
                    ]
                    yield cells(operation, found)

        table(("operation", "base, best ms", "now, best ms", "now/base, best", "median"), rows())
        for revision in revisions:
            revision.end()
    pairs = {
        name: np.divide(seconds[name], seconds[f"{name}, mode"])
        for name in seconds
        if f"{name}, mode" in seconds
    }
    ratios = [(name, *(f"{ratio:.2f}" for ratio in found)) for name, found in pairs.items()]
    if ratios:
        table(('default over select="mode"', "base", "now"), ratios)
    if "all subsets" in seconds:
        rates = [2 ** max(arguments.features) / s / 1e6 for s in seconds["all subsets"]]
        print(f"\nmillions of subsets per second and core: base {rates[0]:.1f}, now {rates[1]:.1f}")


if __name__ == "__main__":
    main()
