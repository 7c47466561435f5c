"""Rows of a Parquet file, read by two threads here and by two Dask workers of one thread each."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from invariance import Moments

OUTCOME = "y"
ENVIRONMENT = "site"
ROUNDS = 3


def measure(path: str | Path, p: int) -> dict[str, Any]:
    """Seconds of the fastest round of each, their ratio, and whether all moments are the same bits;
    both are warm.

    path : a file with the features, an outcome "y" and environments "site"
    """
    from distributed import Client, LocalCluster

    options = {
        "n_workers": 2,
        "threads_per_worker": 1,
        "processes": True,
        "dashboard_address": None,
    }
    with (
        LocalCluster(host="127.0.0.1", **options) as cluster,
        Client(cluster, set_as_default=False) as client,
    ):

        def there() -> Moments:
            return Moments.from_rows(path, OUTCOME, ENVIRONMENT, dask=client, progress=False)

        def here() -> Moments:
            return Moments.from_rows(path, OUTCOME, ENVIRONMENT, n_jobs=2, progress=False)

        same = same_bits(there(), here())
        # In turns: what else the machine does meanwhile meets both.
        rounds = [(seconds(here), seconds(there)) for _ in range(ROUNDS)]
    local, dask = (min(each) for each in zip(*rounds, strict=True))
    return {"p": p, "local_s": local, "dask_s": dask, "ratio": dask / local, "same_bits": same}


def seconds(work: Callable[[], Moments]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def same_bits(one: Moments, other: Moments) -> bool:
    arrays = ("counts", "centre", "rest", "scatter", "minimum", "maximum")
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
