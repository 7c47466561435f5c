"""Rows that stay where they are: what moments of files cost beside reading the files, in time and
memory, and how exact they are.

python benchmarks/rows.py                       all (some minutes; files of 0.5 GB in a temporary
    folder)
python benchmarks/rows.py --parts time memory   some of time, threads, memory, files, digits,
    dask, billion

Times are ratios of one run: processor time of one thread to that of decoding the same columns batch
by batch.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from threadpoolctl import threadpool_limits

from _harness import header
from _rows_on_dask import measure as on_dask
from invariance import Moments
from invariance.moments.accumulator import Wanted

# Features: rows. About 0.5 GB each.
SIZES = {20: 3_000_000, 200: 300_000, 1000: 60_000}
N_SITES = 10
ROW_GROUPS = 24
REPEATS = 3
PARTS = ("time", "threads", "memory", "files", "digits", "dask", "billion")


def write(path: Path, p: int, n: int, row_groups: int = ROW_GROUPS, seed: int = 0) -> Path:
    """A table of p features, an outcome and a site"""
    rng = np.random.default_rng(seed)
    sites = np.array([f"site {k}" for k in range(N_SITES)])
    per_group = n // row_groups
    writer = None
    for _ in range(row_groups):
        columns = {f"x{j}": rng.normal(size=per_group) for j in range(p)}
        columns |= {
            "y": rng.normal(size=per_group),
            "site": sites[rng.integers(0, N_SITES, per_group)],
        }
        table = pa.table(columns)
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table, row_group_size=per_group)
    assert writer is not None
    writer.close()
    return path


def decode(path: Path) -> int:
    """The same batches, and nothing done with them."""
    with pq.ParquetFile(
        path, pre_buffer=False, buffer_size=1 << 16, read_dictionary=["site"]
    ) as file:
        names = len(file.schema_arrow.names)
        size = max(1 << 10, min(1 << 16, (1 << 22) // names))
        return sum(batch.num_rows for batch in file.iter_batches(size, use_threads=False))


def moments(path: object, n_jobs: int | None = None) -> Moments:
    return Moments.from_rows(path, "y", "site", n_jobs=n_jobs, progress=False)


def least(clock: Callable[[], float], works: Sequence[Callable[[], object]]) -> list[float]:
    """The shortest of some runs of each, one after the other in turns"""
    taken = np.empty((REPEATS, len(works)))
    for repeat in range(REPEATS):
        for k, work in enumerate(works):
            started = clock()
            work()
            taken[repeat, k] = clock() - started
    return taken.min(axis=0).tolist()


def times(folder: Path) -> dict[int, float]:
    """Prints the table; {p: seconds of processor time for a number}"""
    print("\nOne thread, processor time: decoding, and moments (ratio)")
    print("   p      rows   decode (s)   ns a number   from_rows")
    rates = {}
    for p, n in SIZES.items():
        path = write(folder / f"{p}.parquet", p, n)
        moments(path)
        with threadpool_limits(1):
            plain, ours = least(
                time.process_time, [lambda path=path: decode(path), lambda path=path: moments(path)]
            )
        rates[p] = ours / (n * (p + 1))
        print(
            f"{p:>4} {n:>9,} {plain:>12.2f} {1e9 * plain / (n * (p + 1)):>13.1f} "
            f"{ours / plain:>11.2f}",
            flush=True,
        )
    return rates


def threads(folder: Path) -> None:
    print(f"\nTwo threads beside one, wall clock, {ROW_GROUPS} row groups")
    for p, n in SIZES.items():
        path = write(folder / f"threads {p}.parquet", p, n)
        moments(path, 2)
        one, two = least(
            time.perf_counter,
            [lambda path=path: moments(path, 1), lambda path=path: moments(path, 2)],
        )
        same = all(
            np.array_equal(moments(path, 1).scatter, moments(path, jobs).scatter) for jobs in (2, 3)
        )
        print(
            f"p = {p:>4}: {one:.2f} s, {two:.2f} s, ratio {two / one:.2f}; bits equal for 1, 2 "
            f"and 3: {same}"
        )


# A process begins with the peak of the one that starts it: that is forgotten first.
_PEAK = """
import re, sys
import pyarrow.compute, pyarrow.parquet, scipy.linalg
from invariance import Moments
from invariance.kernels import row_residuals
from invariance.moments import from_rows

def megabytes(what):
    return int(re.search(what + r":\\s+(\\d+)", open("/proc/self/status").read())[1]) / 1024

open("/proc/self/clear_refs", "w").write("5")
before = megabytes("VmRSS")
Moments.from_rows(sys.argv[1], "y", "site", progress=False)
print(before, megabytes("VmHWM"))
"""


def memory(folder: Path) -> None:
    print("\nPeak memory above the imports (MB)")
    for p, n, groups in (
        (20, 1_000_000, 8),
        (20, 3_000_000, 24),
        (20, 6_000_000, 48),
        (20, 3_000_000, 1),
    ):
        path = write(folder / f"memory {n} {groups}.parquet", p, n, groups)
        moments(path)  # so that nothing is compiled there
        said = subprocess.run(
            [sys.executable, "-c", _PEAK, path], capture_output=True, text=True, check=True
        ).stdout
        before, peak = map(float, said.split())
        print(
            f"p = {p}, {n:>9,} rows in {groups:>2} row groups: {peak - before:.0f} (imports "
            f"{before:.0f})",
            flush=True,
        )
        path.unlink()


def files(folder: Path) -> None:
    whole = write(folder / "whole.parquet", 20, 600_000, 6)
    small = folder / "small"
    small.mkdir()
    table = pq.read_table(whole)
    for k in range(600):
        pq.write_table(table.slice(1000 * k, 1000), small / f"{k}.parquet")
    one, many = least(time.process_time, [lambda: moments(whole), lambda: moments(small)])
    print(
        f"\n600 files of 1,000 rows beside one of 600,000, processor time: ratio {many / one:.2f}"
    )


def exact_scatter(X: np.ndarray) -> np.ndarray:
    """In rational numbers"""
    columns = [[Fraction(float(value)) for value in column] for column in X.T]
    centred = [[value - sum(column) / len(column) for value in column] for column in columns]
    return np.array(
        [[float(sum(a * b for a, b in zip(u, v, strict=True))) for v in centred] for u in centred]
    )


def digits() -> None:
    print(
        "\nLargest error of a scatter, relative to the roots of its diagonal, against rational "
        "numbers"
    )
    rng = np.random.default_rng(1)
    n = 900
    site = rng.integers(0, 3, n)
    tables = {
        name: rng.normal(size=(n, 3))
        for name in ("means at 1e9", "sites 1e9 apart", "outlying first row")
    }
    tables["means at 1e9"] += 1e9
    tables["sites 1e9 apart"] += 1e9 * site[:, None]
    tables["outlying first row"][0] = 1e9
    for name, X in tables.items():
        exact = np.array([*(exact_scatter(X[site == e]) for e in range(3)), exact_scatter(X)])
        roots = np.sqrt(np.einsum("gii->gi", exact))
        for rows in (7, n):
            table = pa.table({**dict(zip("abc", X.T, strict=True)), "site": site})
            batches = table.to_batches(max_chunksize=rows)
            wanted = Wanted("c", "site").among(table.column_names, "the table")
            one = wanted.accumulated(batches)
            parts = [wanted.accumulated([batch]) for batch in batches]
            many = parts[0]
            for part in parts[1:]:
                many = many.merge(part)
            errors = []
            for found in (wanted.screened(rows).moments() for rows in (one, many)):
                order = [*(found.environments.index(e) for e in range(3)), 3]
                errors.append(
                    np.abs(
                        (found.scatter[order] - exact) / roots[:, :, None] / roots[:, None, :]
                    ).max()
                )
            print(
                f"{name:>20}, batches of {rows:>3}: {errors[0]:.1e} added, {errors[1]:.1e} merged",
                flush=True,
            )


def dask(folder: Path) -> None:
    print("\nA file read by two Dask workers beside two threads here, wall clock, both warm")
    for p in (20, 200):
        found = on_dask(write(folder / f"dask {p}.parquet", p, SIZES[p]), p)
        print(
            f"p = {p:>3}: {found['local_s']:.2f} s, {found['dask_s']:.2f} s, ratio "
            f"{found['ratio']:.2f}; bits equal: "
            f"{found['same_bits']}",
            flush=True,
        )


def billion(rates: dict[int, float]) -> None:
    print(
        "\nA billion rows on paper, from the rates above; 100 machines share the files, and merge "
        "once"
    )
    for p, rate in rates.items():
        hours = 1e9 * (p + 1) * rate / 3600
        print(f"p = {p:>4}: {hours:.2f} core hours; one machine of 8 cores {60 * hours / 8:.1f} "
            "minutes, 100 of them "
              f"{3600 * hours / 800:.0f} s")  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parts = parser.parse_args().parts
    header("Rows that stay where they are")
    folder = Path(tempfile.mkdtemp())
    try:
        rates = times(folder) if {"time", "billion"} & {*parts} else {}
        for part, work in (
            ("threads", threads),
            ("memory", memory),
            ("files", files),
            ("dask", dask),
        ):
            if part in parts:
                work(folder)
        if "digits" in parts:
            digits()
        if "billion" in parts:
            billion(rates)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
