"""What a source of rows is, wherever they lie."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

TASK_BYTES = 64 << 20  # of the rows of a task, as float64
# For each column: products of all columns are a task's result, and must not cost as much as its rows.
TASK_ROWS_PER_COLUMN = 32
_BATCH_CELLS = 1 << 22
_BATCH_ROWS = 1 << 16


def rows_per_batch(n_columns: int) -> int:
    """32 MB as float64, and no more rows than pay."""
    return max(1, min(_BATCH_ROWS, _BATCH_CELLS // max(1, n_columns)))


def rows_per_task(n_columns: int) -> int:
    return max(TASK_BYTES // (8 * max(1, n_columns)), TASK_ROWS_PER_COLUMN * n_columns, 1)


class RowTask(ABC):
    """Some of the rows of a source, read by one thread, process or worker. It can be pickled."""

    @abstractmethod
    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """The rows, with these columns in this order."""


class RowSource(ABC):
    """name : what messages call it
    is_text : whether its values are words, of which some count as missing
    rereadable : whether the rows can be read a second time
    reuses_memory : whether a batch may change when the next one is asked for

    The tasks, in their order, have all rows. Neither they nor the order depend on who will read them: so results are
    the same, to the last bit, for any number of workers.
    """

    name: str
    is_text: bool = False
    rereadable: bool = True
    reuses_memory: bool = False

    @property
    @abstractmethod
    def schema(self) -> pa.Schema:
        """All columns"""

    @abstractmethod
    def tasks(self, environment: str, columns: Sequence[str]) -> Sequence[RowTask]:
        """Pieces of the rows, of which these columns, and that of the environments, will be asked for."""

    @property
    def n_rows(self) -> int | None:
        """How many there are, where that is known without reading them."""
        return None

    @property
    def about_rows(self) -> int | None:
        """How many there are, about: as far as the length of the first ones tells."""
        return self.n_rows

    @property
    def n_bytes(self) -> int | None:
        """What the rows take where they lie, where that is known."""
        return None
