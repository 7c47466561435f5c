"""What is asked of rows that stay where they are, and how one piece of them answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..data.checks import check_missing_argument, resolve_columns
from ..data.choices import Choices, excluding
from ..data.environment_choice import ALL_ENVIRONMENTS, EnvironmentChoice
from .accumulator import MomentsAccumulator
from .finishing import Screened, screened

if TYPE_CHECKING:
    import pyarrow as pa

    from .moments import Moments


@dataclass(frozen=True)
class Wanted:
    """Names and settings, as in `Moments.from_rows`; is_text : whether values were words, as in a csv file;
    partial : whether there are other rows elsewhere; excluded : columns that the user left out."""

    outcome: str
    environment: str
    features: tuple[str, ...]
    missing: str = "error"
    categorical: Any = "auto"
    numeric: tuple[str, ...] = ()
    groups: Any = None
    is_text: bool = False
    partial: bool = False
    choice: EnvironmentChoice = ALL_ENVIRONMENTS
    excluded: tuple[str, ...] = ()

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
        choice = EnvironmentChoice.of(drop, merge, min_rows)
        check_missing_argument(missing)
        outcome, environment, names = resolve_columns(available, outcome, environment, features, where)
        names = excluding(exclude, names, [name for name in available if name not in (outcome, environment)])
        Choices.of(names, categorical, numeric, groups)
        chosen = tuple(numeric), groups, is_text, partial, choice, tuple(map(str, exclude))
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
