"""Rows that the workers of a Dask cluster read: files that they can see, or a Dask data frame.

Dask repeats what a lost worker had done. Nothing is counted twice: tasks read, or merge, and change nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from .._tools.cluster import await_workers, connected, on_worker
from .._tools.parallel import n_workers
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.work import one_thread
from .._version import __version__
from ..exceptions import DataError, EngineError
from ..sources.base import RowSource, RowTask
from ..sources.tables import PandasSource
from .accumulator import MomentsAccumulator
from .tree import eights, merged, rooted
from .wanted import Wanted

if TYPE_CHECKING:
    import pandas as pd

FRAME = "the Dask data frame"
# From so many tasks for each thread on, a worker gets eight at once: results that it merges need not travel.
_MANY = 64
_AGAIN = "Run it again: nothing was kept."


def is_dask_frame(rows: Any) -> bool:
    return type(rows).__module__.startswith("dask") and type(rows).__name__ == "DataFrame"


def of_files(source: RowSource, wanted: Wanted, dask: Any, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of files, the same bits as on this machine. dask : address of a scheduler, or a Client"""
    from dask import delayed

    tasks = source.tasks(wanted.environment, wanted.columns)
    if not tasks:
        return wanted.accumulator()
    with connected(dask, EngineError, _AGAIN) as client:
        await_workers(client, EngineError)
        many = len(tasks) >= _MANY * sum(client.nthreads().values())
        pieces = eights(tasks) if many else [(task,) for task in tasks]
        shared = delayed(wanted, traverse=False)
        leaves = [delayed(partial(_on_worker(_of_tasks), task=piece), pure=False)(shared) for piece in pieces]
        return _computed(client, leaves, source.name, progress)


def of_frame(frame: Any, wanted: Wanted, n_jobs: int | None, dask: Any, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of a Dask data frame, by the workers of the cluster or, where there is none, by n_jobs threads."""
    from dask import delayed

    named = {str(name): name for name in frame.columns}
    partitions = frame[[named[name] for name in wanted.read]].to_delayed()
    shared = delayed(wanted, traverse=False)
    if dask is None:
        dask = _current_client()
    if dask is None:
        leaves = [delayed(_of_frame, pure=False)(shared, each) for each in partitions]
        with one_thread():
            return rooted(leaves, delayed(merged, pure=False)).compute(
                scheduler="threads", num_workers=n_workers(n_jobs)
            )
    with connected(dask, EngineError, _AGAIN) as client:
        await_workers(client, EngineError)
        leaves = [delayed(_on_worker(_of_frame), pure=False)(shared, each) for each in partitions]
        return _computed(client, leaves, FRAME, progress)


def _current_client() -> Any:
    with suppress(ImportError, ValueError):
        from distributed import default_client

        return default_client()
    return None


def _on_worker(function: Callable[[Wanted, Any], MomentsAccumulator]) -> Callable[..., MomentsAccumulator]:
    return partial(on_worker, function, version=__version__, error=EngineError)


def _of_tasks(wanted: Wanted, tasks: Sequence[RowTask]) -> MomentsAccumulator:
    try:
        return rooted([wanted.accumulated(task.batches(wanted.read)) for task in tasks], merged)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise DataError(
            f"a Dask worker does not find a file ({error.__cause__}). Workers read files themselves: put them where "
            "each worker has them under the same path, or run it without dask=."
        ) from None


def _of_frame(wanted: Wanted, rows: pd.DataFrame) -> MomentsAccumulator:
    tasks = PandasSource(rows, FRAME).tasks(wanted.environment, wanted.columns)
    return wanted.accumulated(batch for task in tasks for batch in task.batches(wanted.read))


def _computed(client: Any, leaves: Sequence[Any], name: str, progress: ProgressMode) -> MomentsAccumulator:
    """The root of the tree of these leaves, each of which is let go as soon as it is merged."""
    from dask import delayed
    from distributed import as_completed

    root, *futures = client.compute([rooted(leaves, delayed(merged, pure=False)), *leaves])
    waiting = {future.key: future for future in futures}
    del futures
    try:
        with ProgressBar(f"Reading {name}", len(leaves), progress) as bar:
            for done in as_completed(waiting.values(), loop=client.loop):
                if done.status != "finished":
                    done.result()
                del waiting[done.key]
                bar.advance()
        return root.result()
    except BaseException:
        client.cancel([root, *waiting.values()])
        raise
