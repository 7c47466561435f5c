"""What a posterior says about the data of a model."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from .._tools.arrays import Integers


@dataclass(frozen=True, eq=False)
class Description:
    """What a posterior says about the data of a model. environments: E labels; counts (E,): rows of each."""

    model: str
    outcome_name: str
    environments: tuple[Hashable, ...]
    counts: Integers

    @property
    def n_rows(self) -> int:
        return int(self.counts.sum())

    @property
    def n_environments(self) -> int:
        return len(self.environments)
