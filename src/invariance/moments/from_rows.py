"""Moments of rows that stay where they are, read in pieces by threads, by a Dask cluster or by Spark."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

import narwhals as nw

from .._tools.parallel import (
    await_workers,
    check_version,
    connected,
    hold_one_thread,
    n_workers,
    on_worker,
    one_thread,
    ordered_map,
)
from .._tools.progress import ProgressBar, ProgressMode
from .._version import __version__
from ..data.checks import check_missing_argument, check_unique, resolve_columns
from ..data.columns import Choices, excluding
from ..data.environments import ALL_ENVIRONMENTS, Environments
from ..data.record_batches import RowSource, RowTask
from ..data.source_files import FileSource
from ..data.sources import TableSource, source_of
from ..data.terms import SplineBasis
from ..exceptions import DataError, EngineError, InvarianceError, SettingError
from .accumulator import MomentsAccumulator, Screened, screened

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from .moments import Moments

# Results that wait for their turn: each has the second moments of all environments.
_AHEAD = 2
# Accumulators that are merged at once; last digits depend on it.
CHILDREN = 8
DASK_FRAME, SPARK_FRAME = "the Dask data frame", "the Spark data frame"

Node = TypeVar("Node")


@dataclass(frozen=True)
class Wanted:
    """Names and settings, as in `Moments.from_rows`; is_text : whether values were words, as in a csv file;
    partial : whether there are other rows elsewhere; excluded : columns that the user left out;
    splines : {column: its spline, None before its knots are known}"""

    outcome: str
    environment: str
    features: tuple[str, ...]
    missing: str = "error"
    categorical: Any = "auto"
    numeric: tuple[str, ...] = ()
    groups: Any = None
    is_text: bool = False
    partial: bool = False
    choice: Environments = ALL_ENVIRONMENTS
    excluded: tuple[str, ...] = ()
    splines: Mapping[str, SplineBasis | None] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        available: Sequence[str],
        where: str,
        outcome: Any,
        environment: Any,
        features: Any = None,
        missing: str = "error",
        exclude: Sequence[str] = (),
        categorical: Any = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        is_text: bool = False,
        partial: bool = False,
        drop: Any = (),
        merge: Any = MappingProxyType({}),
        min_rows: int = 0,
    ) -> Wanted:
        """Checked against the columns that there are; drop, merge, min_rows: which environments to use."""
        choice = Environments.of(drop, merge, min_rows)
        check_missing_argument(missing)
        outcome, environment, names = resolve_columns(available, outcome, environment, features, where)
        names = excluding(exclude, names, [name for name in available if name not in (outcome, environment)])
        splines = dict.fromkeys(Choices.of(names, categorical, numeric, groups).splines)
        chosen = tuple(numeric), groups, is_text, partial, choice, tuple(map(str, exclude)), splines
        return cls(outcome, environment, names, missing, categorical, *chosen)

    @property
    def columns(self) -> tuple[str, ...]:
        return (*self.features, self.outcome)

    @property
    def read(self) -> tuple[str, ...]:
        """The columns that are read."""
        return (*self.columns, self.environment)

    def accumulator(self) -> MomentsAccumulator:
        return MomentsAccumulator(
            self.columns,
            self.environment,
            missing=self.missing,
            categorical=self.categorical,
            numeric=self.numeric,
            outcome=self.outcome,
            splines=self.splines,
        )

    def accumulated(self, batches: Iterable[pa.RecordBatch], copy: bool = False) -> MomentsAccumulator:
        """copy : whether the memory of batches may be used again by whoever makes them"""
        rows = self.accumulator()
        for batch in batches:
            rows.add(batch, copy)
        return rows.settled()

    def screened(self, rows: MomentsAccumulator) -> Screened:
        return screened(rows, self.outcome, self.groups, self.is_text, self.choice, self.partial, self.excluded)

    def finished(self, rows: MomentsAccumulator) -> Moments:
        return self.screened(rows).moments(self.partial)

    def with_knots(self, rows: MomentsAccumulator) -> Wanted:
        """After a first pass over the rows, which says where the knots of the splines are."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second pass warns of the same
            encoding = self.screened(rows).encoding
        assert encoding is not None
        return replace(self, splines={term.column: term for term in encoding.terms if isinstance(term, SplineBasis)})


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
    read: Callable[[Wanted], MomentsAccumulator]
    if type(rows).__module__.startswith("pyspark.sql.") and hasattr(rows, "mapInArrow"):
        _refuse_options(SPARK_FRAME, dask=dask, **file_options)
        wanted = Wanted.of(rows.columns, SPARK_FRAME, *asked, **choices)
        read = partial(_of_spark, rows, progress=progress)
    elif type(rows).__module__.startswith("dask") and type(rows).__name__ == "DataFrame":
        _refuse_options(DASK_FRAME, **file_options)
        wanted = Wanted.of(list(map(str, rows.columns)), DASK_FRAME, *asked, **choices)
        read = partial(_of_dask_frame, rows, n_jobs=n_jobs, dask=dask, progress=progress)
    else:
        source, wanted = opened(rows, *asked, file_options, **choices)
        if wanted.splines and not source.rereadable:
            raise DataError(f"splines need two passes, and {source.name} can be read once: pass a file or a table.")
        if dask is None:
            read = partial(of_source, source, n_jobs=workers, progress=progress)
        elif isinstance(source, FileSource):
            read = partial(_of_files, source, dask=dask, progress=progress)
        else:
            raise SettingError(f"dask= is for files and Dask data frames, which {source.name} is not: leave it out.")
    if wanted.splines:
        wanted = wanted.with_knots(read(wanted))
    return wanted.finished(read(wanted))


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


def eights(nodes: Iterable[Node]) -> list[tuple[Node, ...]]:
    waiting = iter(nodes)
    return list(iter(lambda: tuple(islice(waiting, CHILDREN)), ()))


def rooted(nodes: Sequence[Node], join: Callable[..., Node]) -> Node:
    """The root of a tree whose leaves are the nodes, from left to right; join(*nodes) makes a node of up to eight."""
    while len(nodes) > 1:
        nodes = [eight[0] if len(eight) == 1 else join(*eight) for eight in eights(nodes)]
    return nodes[0]


def merged(*rows: MomentsAccumulator) -> MomentsAccumulator:
    """A new one: those that are given stay as they are, for a task that runs again."""
    first, second, *others = rows
    return reduce(MomentsAccumulator.absorb, others, first.merge(second))


def folded(rows: Iterable[MomentsAccumulator], empty: MomentsAccumulator) -> MomentsAccumulator:
    """The root of the same tree, of rows that come one after the other and that nobody else has: few are kept."""
    growing: list[tuple[MomentsAccumulator | None, int]] = []
    for each in rows:
        node, height = each, 0
        while True:
            if height == len(growing):
                growing.append((None, 0))
            first, n = growing[height]
            node = node if first is None else first.absorb(node)
            if n + 1 < CHILDREN:
                growing[height] = node, n + 1
                break
            growing[height] = None, 0
            height += 1
    left = [node for node, _ in growing if node is not None]
    return reduce(lambda last, node: node.absorb(last), left) if left else empty


# ---------------------------------------------------------------- Dask

# From so many tasks for each thread on, a worker gets eight at once: results that it merges need not travel.
_MANY = 64
_AGAIN = "Run it again: nothing was kept."


def _of_files(source: RowSource, wanted: Wanted, dask: Any, progress: ProgressMode) -> MomentsAccumulator:
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


def _of_dask_frame(
    frame: Any, wanted: Wanted, n_jobs: int | None, dask: Any, progress: ProgressMode
) -> MomentsAccumulator:
    """All rows of a Dask data frame, by the workers of the cluster or, where there is none, by n_jobs threads."""
    from dask import delayed

    named = {str(name): name for name in frame.columns}
    partitions = frame[[named[name] for name in wanted.read]].to_delayed()
    shared = delayed(wanted, traverse=False)
    if dask is None:
        with suppress(ImportError, ValueError):
            from distributed import default_client

            dask = default_client()
    if dask is None:
        leaves = [delayed(_of_frame, pure=False)(shared, each) for each in partitions]
        root = rooted(leaves, delayed(merged, pure=False))
        with one_thread():
            return root.compute(scheduler="threads", num_workers=n_workers(n_jobs))
    with connected(dask, EngineError, _AGAIN) as client:
        await_workers(client, EngineError)
        leaves = [delayed(_on_worker(_of_frame), pure=False)(shared, each) for each in partitions]
        return _computed(client, leaves, DASK_FRAME, progress)


def _on_worker(function: Callable[[Wanted, Any], MomentsAccumulator]) -> Callable[..., MomentsAccumulator]:
    return partial(on_worker, function, version=__version__, error=EngineError)


def _of_tasks(wanted: Wanted, tasks: Sequence[RowTask]) -> MomentsAccumulator:
    try:
        return rooted([wanted.accumulated(task.batches(wanted.read)) for task in tasks], merged)
    except DataError as error:
        if not isinstance(error.__cause__, FileNotFoundError):
            raise
        raise DataError(
            f"a Dask worker does not find a file ({error.__cause__}): put it where each worker has it under the same "
            "path, or run it without dask=."
        ) from None


def _of_frame(wanted: Wanted, rows: pd.DataFrame) -> MomentsAccumulator:
    tasks = TableSource(rows, DASK_FRAME).tasks(wanted.environment, wanted.columns)
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


# ---------------------------------------------------------------- Spark

# One environment's moments of a piece of the rows, or what was wrong with them. Pieces are in the order of the rows.
_COLUMNS = "environment string, piece long, moments binary"
_NO_ENVIRONMENT = ""  # comes first: it has the order of the others
# Spark hands over the moments that are merged at once together, of megabytes each where features are many.
_MERGED_AT_ONCE = 16


def _of_spark(frame: Any, wanted: Wanted, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of a Spark data frame; the same bits as long as its partitions are the same."""
    from pyspark.sql import functions

    if not hasattr(frame.groupBy(), "applyInArrow"):
        raise EngineError("moments of a Spark data frame need Spark 4 or later: install it, or read the files instead.")
    check_unique(frame.columns, SPARK_FRAME)
    here = __version__

    # Spark wants functions, and sends those that are made here by value.
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_version("a Spark worker", __version__, here, EngineError)
        yield from _of_partition(wanted, (batch.rename_columns(wanted.read) for batch in batches))

    def merge(table: pa.Table) -> pa.Table:
        return _of_pieces(wanted, table)

    # Numbered: Spark takes a dot in the name of a column for a part of it.
    quoted = ["`" + name.replace("`", "``") + "`" for name in wanted.read]
    numbered = [functions.col(name).alias(str(place)) for place, name in enumerate(quoted)]
    pieces = frame.select(*numbered).mapInArrow(read, _COLUMNS)
    for divisor in (_MERGED_AT_ONCE, _MERGED_AT_ONCE, None):  # None: all that are left
        group = functions.lit(0) if divisor is None else functions.floor(pieces["piece"] / divisor)
        grouped = pieces.select("environment", group.cast("long").alias("group"), "piece", "moments")
        pieces = grouped.groupBy("environment", "group").applyInArrow(merge, _COLUMNS)
    with ProgressBar(f"Reading {SPARK_FRAME}", 1, progress):
        # One partition of results at a time: all at once may be more than spark.driver.maxResultSize allows.
        with _clear_errors():
            found = {row["environment"]: row["moments"] for row in pieces.toLocalIterator()}
        return _together((found[environment] for environment in sorted(found)), wanted)


@contextmanager
def _clear_errors() -> Iterator[None]:
    try:
        yield
    except Exception as error:
        lacking = re.search(r"No module named '(\w+)", str(error))
        if lacking is None:
            raise
        raise EngineError(
            f"the Python workers of Spark have no module {lacking[1]!r}: install invariance {__version__}, and what it "
            "needs, on every machine, in the Python that PYSPARK_PYTHON names."
        ) from error


def _of_partition(wanted: Wanted, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    hold_one_thread()
    piece = TaskContext.get().partitionId()
    try:
        rows = wanted.accumulated(batches)
    except InvarianceError as error:
        yield _row(_NO_ENVIRONMENT, piece, error)
        return
    for label, one in rows.split():
        yield _row(_NO_ENVIRONMENT if label is None else f"{type(label).__name__} {label!r}", piece, one)


def _of_pieces(wanted: Wanted, table: pa.Table) -> pa.Table:
    import pyarrow as pa

    hold_one_thread()
    table = table.sort_by("piece")
    try:
        rows: Any = _together((each.as_py() for each in table["moments"]), wanted)
    except InvarianceError as error:
        rows = error
    return pa.Table.from_batches([_row(table["environment"][0].as_py(), table["group"][0].as_py(), rows)])


def _together(contents: Iterable[bytes], wanted: Wanted) -> MomentsAccumulator:
    return folded(map(_opened, contents), wanted.accumulator())


def _row(environment: str, piece: int, rows: MomentsAccumulator | InvarianceError) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [
        pa.array([environment], pa.string()),
        pa.array([piece], pa.int64()),
        pa.array([pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=["environment", "piece", "moments"])


def _opened(content: bytes) -> MomentsAccumulator:
    """Raise what was wrong with the rows: once here, and not again and again on the workers."""
    rows = pickle.loads(content)
    if isinstance(rows, InvarianceError):
        raise rows
    return rows
