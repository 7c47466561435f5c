"""Moments of rows that stay where they are: read once, in pieces, by any number of workers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from .._tools.parallel import n_workers, ordered_map
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.work import one_thread
from ..exceptions import SettingError
from ..sources.base import RowSource, RowTask
from ..sources.files import FileSource
from ..sources.opening import source_of
from .accumulator import MomentsAccumulator
from .on_dask import FRAME as DASK_FRAME
from .on_dask import is_dask_frame, of_files, of_frame
from .on_spark import FRAME as SPARK_FRAME
from .on_spark import is_spark_frame, of_spark
from .tree import folded
from .wanted import Wanted

if TYPE_CHECKING:
    from .moments import Moments

# Results that wait for their turn: each has the second moments of all environments.
_AHEAD = 2


def from_rows(
    rows: Any,
    outcome: str,
    environment: str,
    features: Any,
    missing: str,
    n_jobs: int | None,
    dask: Any,
    progress: ProgressMode,
    file_options: dict[str, Any],
    **choices: Any,
) -> Moments:
    """See `Moments.from_rows`."""
    workers = n_workers(n_jobs)
    if dask is not None and n_jobs is not None:
        raise SettingError("n_jobs= is for this machine and dask= for a cluster: use one of them.")
    asked = outcome, environment, features, missing
    rows = nw.to_native(rows, pass_through=True)
    if is_spark_frame(rows):
        _refuse_options(SPARK_FRAME, dask=dask, **file_options)
        wanted = Wanted.of(rows.columns, SPARK_FRAME, *asked, **choices)
        return wanted.finished(of_spark(rows, wanted, progress))
    if is_dask_frame(rows):
        _refuse_options(DASK_FRAME, **file_options)
        wanted = Wanted.of(list(map(str, rows.columns)), DASK_FRAME, *asked, **choices)
        return wanted.finished(of_frame(rows, wanted, n_jobs, dask, progress))
    source, wanted = opened(rows, *asked, file_options, **choices)
    if dask is None:
        return wanted.finished(of_source(source, wanted, workers, progress))
    if not isinstance(source, FileSource):
        raise SettingError(f"dask= is for files and Dask data frames, which {source.name} is not: leave it out.")
    return wanted.finished(of_files(source, wanted, dask, progress))


def _refuse_options(name: str, **options: Any) -> None:
    for option, value in options.items():
        if value is not None and value != ():
            raise SettingError(f"{option}= is not for {name}: leave it out.")


def opened(
    rows: Any, outcome: str, environment: str, features: Any, missing: str, file_options: dict[str, Any], **choices: Any
) -> tuple[RowSource, Wanted]:
    """The rows, which are not read yet, and what is wanted of them."""
    categorical = choices["categorical"]
    words = () if isinstance(categorical, str) else tuple(map(str, categorical))
    source = source_of(rows, words=words, warn_unnamed=features is None, **file_options)
    wanted = Wanted.of(
        source.schema.names, source.name, outcome, environment, features, missing, is_text=source.is_text, **choices
    )
    return source, wanted


def of_source(source: RowSource, wanted: Wanted, n_jobs: int, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of a source, read on this machine; the same bits for any n_jobs."""
    tasks = source.tasks(wanted.environment, wanted.columns)

    def one(task: RowTask) -> MomentsAccumulator:
        return wanted.accumulated(task.batches(wanted.read), source.reuses_memory)

    def read() -> Iterator[MomentsAccumulator]:
        for rows in ordered_map(one, tasks, min(n_jobs, max(len(tasks), 1)), _AHEAD):
            yield rows
            bar.advance()

    with ProgressBar(f"Reading {source.name}", len(tasks), progress) as bar, one_thread():
        return folded(read(), wanted.accumulator())
