"""Threads over compiled kernels that release the interpreter lock; results always come back in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from numbers import Integral
from typing import TypeVar

from ..exceptions import SettingError

Item = TypeVar("Item")
Result = TypeVar("Result")


def n_workers(n_jobs: int | None) -> int:
    """scikit-learn's convention: None is one worker, -1 all cores, -2 all but one."""
    from joblib import effective_n_jobs

    if n_jobs is None:
        return 1
    if not isinstance(n_jobs, Integral) or isinstance(n_jobs, bool) or n_jobs == 0:
        raise SettingError(f"n_jobs={n_jobs!r} is no number of workers: use one from 1 on, -1 for all cores, or None.")
    return int(effective_n_jobs(n_jobs))


def ordered_map(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None, ahead: int = 4
) -> Iterator[Result]:
    """map() over threads, at most `ahead` results in flight for each; an interrupt cancels what has not begun."""
    workers = n_workers(n_jobs)
    if workers == 1:
        yield from map(function, items)
        return
    pending: deque[Future[Result]] = deque()
    pool = ThreadPoolExecutor(workers)
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= ahead * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
