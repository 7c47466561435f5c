"""Moments of rows that stay where they are, read in pieces by threads, by a Dask cluster or by
Spark."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import narwhals as nw

from .._tools.arrays import Fields
from .._tools.parallel import (
    check_version,
    dask_client,
    hold_one_thread,
    n_workers,
    on_worker,
    one_thread,
    ordered_map,
)
from .._tools.progress import ProgressBar, ProgressMode
from .._version import __version__
from ..data.checks import check_unique
from ..data.sources import FileSource, RowSource, RowTask, TableSource, source_of
from ..exceptions import DataError, InvarianceError, SettingError
from .accumulator import MomentsAccumulator, Wanted

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .moments import Moments

# Results that wait for their turn: each has the second moments of all environments.
_AHEAD = 2
DASK_FRAME = "the Dask data frame"
SPARK_FRAME = "the Spark data frame"


def from_rows(
    rows: Any,
    wanted: Wanted,
    n_jobs: int | None,
    dask: Any,
    progress: ProgressMode,
    file_options: Fields,
) -> Moments:
    """See `Moments.from_rows`."""
    workers = n_workers(n_jobs)
    if dask is not None and n_jobs is not None:
        raise SettingError("n_jobs= is for this machine and dask= for a cluster: use one of them.")
    rows = nw.to_native(rows, pass_through=True)
    read: Callable[[Wanted], MomentsAccumulator]
    if type(rows).__module__.startswith("pyspark.sql.") and hasattr(rows, "mapInArrow"):
        _refuse_options(SPARK_FRAME, dask=dask, **file_options)
        wanted = wanted.among(rows.columns, SPARK_FRAME)
        read = partial(_of_spark, rows, progress=progress)
    elif type(rows).__module__.startswith("dask") and type(rows).__name__ == "DataFrame":
        _refuse_options(DASK_FRAME, **file_options)
        wanted = wanted.among(list(map(str, rows.columns)), DASK_FRAME)
        read = partial(_of_dask_frame, rows, workers=workers, dask=dask, progress=progress)
    else:
        source, wanted = opened(rows, wanted, file_options)
        if wanted.splines and not source.rereadable:
            raise DataError(
                f"splines need two passes, and {source.name} can be read once: pass a file or a "
                "table."
            )
        if dask is not None and not isinstance(source, FileSource):
            raise SettingError(
                f"dask= is for files and Dask data frames, which {source.name} is not: leave it "
                "out."
            )
        read = partial(of_source, source, n_jobs=workers, progress=progress, dask=dask)
    if wanted.splines:
        wanted = wanted.with_knots(read(wanted))
    return wanted.screened(read(wanted)).moments(wanted.partial)


def _refuse_options(name: str, **options: Any) -> None:
    for option, value in options.items():
        if value:
            raise SettingError(f"{option}= is not for {name}: leave it out.")


def opened(rows: Any, wanted: Wanted, file_options: Fields) -> tuple[RowSource, Wanted]:
    """The rows, which are not read yet, and what is wanted of them."""
    categorical = wanted.settings.categorical
    words = () if isinstance(categorical, str) else tuple(map(str, categorical))
    source = source_of(
        rows, words=words, warn_unnamed=wanted.settings.features is None, **file_options
    )
    return source, wanted.among(source.schema.names, source.name)


def of_source(
    source: RowSource, wanted: Wanted, n_jobs: int, progress: ProgressMode, dask: Any = None
) -> MomentsAccumulator:
    """All rows of a source, the same bits for any n_jobs, and where Dask workers read them."""
    tasks = source.tasks(wanted.environment, wanted.read)
    if dask is not None:
        return _on_cluster(wanted, _of_file_task, tasks, source.name, dask, progress)
    total: MomentsAccumulator | None = None
    # Known to other tasks, these change no result.
    limits: dict[Hashable, float] = {}
    with ProgressBar(f"Reading {source.name}", len(tasks), progress) as bar, one_thread():
        for rows in ordered_map(
            lambda task: wanted.accumulated(task.batches(wanted.read), limits),
            tasks,
            min(n_jobs, max(len(tasks), 1)),
            _AHEAD,
        ):
            total = rows if total is None else total.absorb(rows)
            limits.update(total.limits)
            bar.advance()
    return total or wanted.accumulated()


# ---------------------------------------------------------------- Dask

# Results that one task merges
_MERGED_AT_ONCE = 16


def _of_file_task(wanted: Wanted, task: RowTask) -> MomentsAccumulator:
    try:
        return wanted.accumulated(task.batches(wanted.read))
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        remedy = "put it where each worker has it under the same path, or run it without dask="
        raise DataError(
            f"a Dask worker does not find a file ({error.__cause__}): {remedy}."
        ) from None


def _of_dask_frame(
    frame: Any, wanted: Wanted, workers: int, dask: Any, progress: ProgressMode
) -> MomentsAccumulator:
    """All rows of a Dask data frame, by the workers of the cluster or, where there is none, by
    threads."""
    named = {str(name): name for name in frame.columns}
    partitions = frame[[named[name] for name in wanted.read]].to_delayed()
    if dask is None:
        with suppress(ImportError, ValueError):
            from distributed import default_client

            dask = default_client()
    if dask is not None:
        return _on_cluster(wanted, _of_frame, partitions, DASK_FRAME, dask, progress)
    with one_thread():
        merged = _merged_by_dask(wanted, _of_frame, partitions)
        rows: MomentsAccumulator = merged.compute(scheduler="threads", num_workers=workers)
    return rows


def _of_frame(wanted: Wanted, task: pd.DataFrame) -> MomentsAccumulator:
    tasks = TableSource(task, DASK_FRAME).tasks(wanted.environment, wanted.read)
    return wanted.accumulated(batch for each in tasks for batch in each.batches(wanted.read))


def _on_cluster(
    wanted: Wanted,
    function: Callable[..., MomentsAccumulator],
    pieces: Any,
    name: str,
    dask: Any,
    progress: Any,
) -> MomentsAccumulator:
    again = "Run it again: nothing was kept."
    with dask_client(dask, again) as client, ProgressBar(f"Reading {name}", 1, progress):
        future = client.compute(
            _merged_by_dask(wanted, partial(on_worker, function, version=__version__), pieces)
        )
        try:
            rows: MomentsAccumulator = future.result()
        except BaseException:
            future.cancel()
            raise
    return rows


def _merged_by_dask(
    wanted: Wanted, function: Callable[..., MomentsAccumulator], pieces: Sequence[Any]
) -> Any:
    """Merged from left to right, as on one machine."""
    from dask import delayed

    shared = delayed(wanted, traverse=False)
    rows = [delayed(function, pure=False)(shared, task=piece) for piece in pieces]
    total = delayed(wanted.accumulated(), traverse=False)
    for first in range(0, len(rows), _MERGED_AT_ONCE):
        total = delayed(reduce, pure=False)(
            MomentsAccumulator.merge, [total, *rows[first : first + _MERGED_AT_ONCE]]
        )
    return total


# ---------------------------------------------------------------- Spark


def _of_spark(frame: Any, wanted: Wanted, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of a Spark data frame; the same bits as long as its partitions are the same."""
    from pyspark.sql import functions

    check_unique(frame.columns, SPARK_FRAME)
    here = __version__

    # Spark sends a function that is made here by value.
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_version("a Spark worker", __version__, here)
        yield _of_partition(wanted, (batch.rename_columns(wanted.read) for batch in batches))

    # Numbered: Spark takes a dot in the name of a column for a part of it.
    quoted = ["`" + name.replace("`", "``") + "`" for name in wanted.read]
    numbered = [functions.col(name).alias(str(place)) for place, name in enumerate(quoted)]
    partitions = frame.select(*numbered).mapInArrow(read, "moments binary")
    total = wanted.accumulated()
    with ProgressBar(f"Reading {SPARK_FRAME}", 1, progress):
        # One partition at a time: all at once may be more than spark.driver.maxResultSize allows.
        for row in partitions.toLocalIterator():
            found = pickle.loads(row["moments"])
            if isinstance(found, InvarianceError):
                raise found
            total = total.absorb(found)
    return total


def _of_partition(wanted: Wanted, batches: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """Its moments, or what was wrong with its rows, which is raised once, and not again and again
    on the workers"""
    import pyarrow as pa

    hold_one_thread()
    found: MomentsAccumulator | InvarianceError
    try:
        found = wanted.accumulated(batches)
    except InvarianceError as error:
        found = error
    return pa.record_batch({"moments": pa.array([pickle.dumps(found)], pa.binary())})
