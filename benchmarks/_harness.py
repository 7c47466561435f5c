"""Shared by the benchmark scripts: timing, memory, a header that says where the figures come
from."""

from __future__ import annotations

import hashlib
import os
import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

# For `replication`, which is no part of the package.
sys.path.append(str(Path(__file__).resolve().parents[1]))


def median_seconds(function: Callable[[], Any], repeats: int = 5, warm_up: bool = True) -> float:
    """Median wall-clock time of a call, after one call that is not counted (where `warm_up`)."""
    if warm_up:
        function()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def best_seconds(function: Callable[[], Any], repeats: int = 9) -> float:
    """Shortest wall-clock time of a call, after one that is not counted: for short work on a noisy
    machine."""
    function()
    return min(seconds(function) for _ in range(repeats))


def seconds(function: Callable[[], Any]) -> float:
    """Wall-clock time of one call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def peak_memory_gb() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def header(title: str) -> None:
    import invariance

    print(
        f"{title}\ninvariance {invariance.__version__}, Python {platform.python_version()}, "
        f"{os.cpu_count()} cores"
    )


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Markdown, row by row as they come"""
    print("\n| " + " | ".join(columns) + " |\n|" + "---|" * len(columns))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)


def sample_apart(
    model: Any, n: Any, n_fresh: int, rng: np.random.Generator, jitter: float = 0.0
) -> tuple[Any, Any]:
    """Rows of a structural model, those of the last n_fresh environments apart: new environments to
    predict in."""
    data = model.sample(n, rng, jitter)
    return data.choosing(data.environments[:-n_fresh]), data.choosing(data.environments[-n_fresh:])


def digest(*files: str) -> str:
    """Of the package and these files: results of other code are not taken for its own."""
    import invariance

    package = sorted(Path(invariance.__file__).parent.rglob("*.py"))
    return hashlib.sha256(
        b"".join(file.read_bytes() for file in (*package, *map(Path, files)))
    ).hexdigest()[:12]
