"""Rows of a Spark data frame: its Python workers make moments of them, merge these, and send one row per environment.

Spark repeats what a lost worker had done. Nothing is counted twice: tasks read, or merge, and change nothing.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .._tools.cluster import check_version
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.work import hold_one_thread
from .._version import __version__
from ..data.checks import check_unique
from ..exceptions import EngineError, InvarianceError
from .accumulator import MomentsAccumulator
from .tree import folded
from .wanted import Wanted

if TYPE_CHECKING:
    import pyarrow as pa

FRAME = "the Spark data frame"
# One environment's moments of a piece of the rows, or what was wrong with them. Pieces are in the order of the rows.
_COLUMNS = "environment string, piece long, moments binary"
_NO_ENVIRONMENT = ""  # comes first: it has the order of the others
# Spark hands over the moments that are merged at once together, of megabytes each where features are many.
_MERGED_AT_ONCE = 16


def is_spark_frame(rows: Any) -> bool:
    return type(rows).__module__.startswith("pyspark.sql.") and hasattr(rows, "mapInArrow")


def of_spark(frame: Any, wanted: Wanted, progress: ProgressMode) -> MomentsAccumulator:
    """All rows of a Spark data frame; the same bits as long as its partitions are the same."""
    if not hasattr(frame.groupBy(), "applyInArrow"):
        raise EngineError("moments of a Spark data frame need Spark 4 or later: install it, or read the files instead.")
    check_unique(frame.columns, FRAME)
    here = __version__

    # Spark wants functions, and sends those that are made here by value.
    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        check_version("a Spark worker", __version__, here, EngineError)
        yield from _of_partition(wanted, (batch.rename_columns(wanted.read) for batch in batches))

    def merge(table: pa.Table) -> pa.Table:
        return _of_pieces(wanted, table)

    # Numbered: Spark takes a dot in the name of a column for a part of it.
    numbered = [_column(name).alias(str(place)) for place, name in enumerate(wanted.read)]
    pieces = frame.select(*numbered).mapInArrow(read, _COLUMNS)
    for divisor in (_MERGED_AT_ONCE, _MERGED_AT_ONCE, None):
        pieces = _grouped(pieces, divisor).applyInArrow(merge, _COLUMNS)
    with ProgressBar(f"Reading {FRAME}", 1, progress):
        # One partition of results at a time: all at once may be more than spark.driver.maxResultSize allows.
        with _clear_errors():
            found = {row["environment"]: row["moments"] for row in pieces.toLocalIterator()}
        return _together((found[environment] for environment in sorted(found)), wanted)


def _column(name: str) -> Any:
    from pyspark.sql import functions

    return functions.col("`" + name.replace("`", "``") + "`")


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


def _grouped(pieces: Any, divisor: int | None) -> Any:
    """By environment, and by so many pieces in a row; None: all of them."""
    from pyspark.sql import functions

    group = functions.lit(0) if divisor is None else functions.floor(pieces["piece"] / divisor)
    named = group.cast("long").alias("group")
    return pieces.select("environment", named, "piece", "moments").groupBy("environment", "group")


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

    names = ["environment", "piece", "moments"]
    values = [[environment], [piece], [pickle.dumps(rows, pickle.HIGHEST_PROTOCOL)]]
    arrays = [pa.array(each, kind) for each, kind in zip(values, (pa.string(), pa.int64(), pa.binary()), strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _opened(content: bytes) -> MomentsAccumulator:
    """Raise what was wrong with the rows: once here, and not again and again on the workers."""
    rows = pickle.loads(content)
    if isinstance(rows, InvarianceError):
        raise rows
    return rows
