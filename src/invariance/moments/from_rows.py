"""Moments of rows that stay where they are: read once, in pieces, by any number of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .._tools.parallel import n_workers, ordered_map
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.work import one_thread
from ..sources.base import RowSource, RowTask
from ..sources.opening import source_of
from .accumulator import MomentsAccumulator
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
    progress: ProgressMode,
    file_options: dict[str, Any],
    **choices: Any,
) -> Moments:
    """See `Moments.from_rows`."""
    workers = n_workers(n_jobs)
    source, wanted = opened(rows, outcome, environment, features, missing, file_options, **choices)
    return wanted.finished(of_source(source, wanted, workers, progress))


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
        return wanted.accumulated(task.batches(wanted.read))

    total = wanted.accumulator()
    with ProgressBar(f"Reading {source.name}", len(tasks), progress) as bar, one_thread():
        for rows in ordered_map(one, tasks, min(n_jobs, max(len(tasks), 1)), _AHEAD):
            total.absorb(rows)
            bar.advance()
    return total
