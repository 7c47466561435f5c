"""What a study is: a grid of cells, a number of replicates of each, and what is said about the rows they give."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .._tools.parallel import seed_number, seed_sequence
from .._version import __version__

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Value = int | float | str
Row = dict[str, Any]


@dataclass(frozen=True)
class Cell:
    """One point of a study's grid: (name, value) pairs in a fixed order."""

    values: tuple[tuple[str, Value], ...]

    def __getitem__(self, name: str) -> Any:
        return dict(self.values)[name]

    @property
    def key(self) -> str:
        """ "n=200 E=5 strength=0.5": names the cell in files and seeds, so it must never change."""
        return " ".join(f"{name}={_text(value)}" for name, value in self.values)


def _text(value: Value) -> str:
    return format(value, ".10g") if isinstance(value, float) else str(value)


def grid(**axes: Iterable[Value]) -> tuple[Cell, ...]:
    """All combinations, the last axis fastest."""
    return tuple(Cell(tuple(zip(axes, values, strict=True))) for values in product(*axes.values()))


@dataclass(frozen=True, eq=False)
class Picture:
    """A figure, the name of its files and what it shows."""

    name: str
    caption: str
    figure: Figure


@dataclass(frozen=True, eq=False)
class Table:
    """Numbers for a reader, and what they are."""

    title: str
    frame: pd.DataFrame


@dataclass(frozen=True, kw_only=True)
class Study(ABC):
    """A study at one scale; small, frozen and picklable, because it travels to the workers.

    `replicate` is a function of (identity, cell, replicate number) and nothing else: cells, replicates and workers can
    be divided in any way and the rows are the same.

    choice : fields that say which rows there are, and not what is in them; the others are the identity
    per_task : replicates that a worker does at a time
    measures_time : its numbers are seconds, so that it has to run alone
    """

    choice: ClassVar[frozenset[str]] = frozenset({"scale", "replicates"})
    per_task: ClassVar[int] = 1
    measures_time: ClassVar[bool] = False

    scale: str = "quick"
    replicates: int
    seed: int = 0

    @property
    @abstractmethod
    def name(self) -> str: ...

    @property
    @abstractmethod
    def title(self) -> str: ...

    @property
    def source(self) -> dict[str, Any]:
        """What `make_study` has to be told beside the name and the scale: the data of a study that simulates none."""
        return {}

    @abstractmethod
    def cells(self) -> tuple[Cell, ...]: ...

    @abstractmethod
    def replicate(self, cell: Cell, number: int) -> list[Row]:
        """The rows of one replicate; the names and values of the cell are added to each."""

    @abstractmethod
    def table(self, results: pd.DataFrame) -> pd.DataFrame:
        """The numbers behind the pictures."""

    def tables(self, results: pd.DataFrame) -> list[Table]:
        """The same, arranged for reading."""
        return [Table("Means with 95% intervals", self.table(results).round(4))]

    @abstractmethod
    def pictures(self, results: pd.DataFrame) -> list[Picture]: ...

    @abstractmethod
    def reading(self, results: pd.DataFrame) -> list[str]:
        """What the numbers say, one paragraph each."""

    def rng(self, cell: Cell, number: int, *part: object) -> np.random.Generator:
        """The generator of one replicate, or of a part of it that must not depend on the other parts."""
        return np.random.default_rng(seed_sequence(self.name, self.seed, cell.key, number, *part))

    def seed_of(self, cell: Cell, number: int, *part: object) -> int:
        return seed_number(self.name, self.seed, cell.key, number, *part)

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def identity(self) -> dict[str, Any]:
        """All that the contents of the rows depend on."""
        fields = {name: value for name, value in self.settings().items() if name not in self.choice}
        return {"study": self.name, "version": __version__, **fields}

    def tasks(self, done: set[tuple[str, int]]) -> Iterator[tuple[Cell, tuple[int, ...]]]:
        """What is left to do; every cell gets its first replicates before any gets its last."""
        for start in range(0, self.replicates, self.per_task):
            numbers = range(start, min(start + self.per_task, self.replicates))
            for cell in self.cells():
                left = tuple(number for number in numbers if (cell.key, number) not in done)
                if left:
                    yield cell, left
