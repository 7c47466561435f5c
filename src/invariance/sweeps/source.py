"""What all fits of a sweep share: second moments of all columns, and the rows that some outcomes must do without."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.checks import SMALLEST_ENVIRONMENT, largest_size, quoted, rows_text
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError
from ..moments.moments import Moments
from ..moments.removing import of_fewer_rows


@dataclass(frozen=True, eq=False)
class Source:
    """moments : of all rows, whichever column is their outcome
    data : the same rows with the same outcome; None where no row is ever left out
    perturbing : {outcome: positions of the rows of `data` that perturb it, in which it is not its own}
    """

    moments: Moments
    data: MultiEnvironmentData | None = None
    perturbing: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def possible(self) -> tuple[str, ...]:
        """Columns that can be an outcome: those that are a feature on their own."""
        grouped = {column for members in self.moments.groups.values() for column in members}
        return tuple(name for name in self.moments.columns if name not in grouped)

    @property
    def features_only(self) -> tuple[str, ...]:
        """Features that cannot be an outcome: levels, splines, groups."""
        return tuple(self.moments.groups)

    def moments_for(self, outcome: str) -> tuple[Moments, tuple[str, ...]]:
        """Of the rows that do not perturb the outcome, and sentences about those that do."""
        rows = self.perturbing.get(outcome, ())
        left = self.reduced(outcome)
        if left is not None:
            return left, self.left_out(outcome)
        far = "Second moments come from the remaining rows: what was left out is far from them."
        return self._of_the_remaining(outcome, rows), (*self.left_out(outcome), far)

    def reduced(self, outcome: str) -> Moments | None:
        """Those of all rows, less those that perturb the outcome; None where that leaves too few digits."""
        if outcome in self.moments.constants:
            raise DataError(f"outcome {outcome!r} is constant: every row is {self.moments.constants[outcome]:g}.")
        turned = self.moments.with_outcome(outcome)
        rows = self.perturbing.get(outcome, ())
        if not rows:
            return turned
        self._check_left(outcome, rows)
        try:
            for row in rows:
                turned = self._without(turned, row)
        except DataError:
            return None
        return turned

    def largest_size(self, outcome: str) -> int:
        """The largest subsets that can be fitted to the rows which do not perturb the outcome."""
        rows = self.perturbing.get(outcome, ())
        turned = replace(self.moments, outcome=self.moments.columns.index(outcome))
        return largest_size(self._counts_without(rows) if rows else turned.counts, turned.varying_widths[:-1])

    def left_out(self, outcome: str) -> tuple[str, ...]:
        """A sentence about the rows that perturb the outcome, if there are such."""
        rows = self.perturbing.get(outcome, ())
        return (f"{rows_text(len(rows))} that perturb{'s' * (len(rows) == 1)} {outcome!r} left out.",) if rows else ()

    def removed(self, outcome: str) -> Floats:
        """(R, E + 1, d) what takes the rows that perturb the outcome out of the scatter of each environment and of the
        pool: the sum of the products of these."""
        rows = self.perturbing.get(outcome, ())
        vectors = np.zeros((len(rows), len(self.moments.group_counts), len(self.moments.columns)))
        counts = self.moments.group_counts.copy()
        means = np.vstack([self.moments.means, self.moments.pooled_mean])
        for vector, row in zip(vectors, rows, strict=True):
            for g in (self._rows.environment_index[row], -1):
                deviation = self._values(row) - means[g]
                vector[g] = deviation * np.sqrt(counts[g] / (counts[g] - 1.0))
                means[g] -= deviation / (counts[g] - 1.0)
                counts[g] -= 1.0
        return vectors

    def _check_left(self, outcome: str, rows: tuple[int, ...]) -> None:
        left = zip(self._rows.environments, self._counts_without(rows), strict=True)
        small = [label for label, n in left if n < SMALLEST_ENVIRONMENT]
        if small:
            raise DataError(
                f"without {rows_text(len(rows))} that perturb {outcome!r}, fewer than {SMALLEST_ENVIRONMENT} rows are "
                f"left of environment {quoted(small)}: leave that environment out or merge it with another."
            )

    def _counts_without(self, rows: tuple[int, ...]) -> Integers:
        """(E,) rows that are left of each environment"""
        data = self._rows
        return data.counts - np.bincount(data.environment_index[list(rows)], minlength=data.n_environments)

    def _without(self, moments: Moments, row: int) -> Moments:
        data = self._rows
        values = dict(zip(self.moments.columns, self._values(row).tolist(), strict=True))
        label = data.environments[data.environment_index[row]]
        return moments.without_row(label, [values[name] for name in moments.columns])

    def _values(self, row: int) -> Floats:
        """(d,) in the order of the columns of the moments"""
        return np.append(self._rows.X[row], self._rows.y[row])

    def _of_the_remaining(self, outcome: str, rows: tuple[int, ...]) -> Moments:
        data, kept = self._rows, np.ones(self._rows.n_rows, dtype=bool)
        kept[list(rows)] = False
        index = data.environment_index[kept]
        left = replace(data, X=np.ascontiguousarray(data.X[kept]), y=data.y[kept], environment_index=index)
        remaining = Moments.from_data(left).with_outcome(outcome)
        return of_fewer_rows(remaining, ~remaining.varies[-1])

    @property
    def _rows(self) -> MultiEnvironmentData:
        assert self.data is not None
        return self.data
