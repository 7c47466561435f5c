"""What second moments cannot tell, from one or two more readings of the rows that they were computed from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.checks import quoted
from ..exceptions import DataError
from ..sources.opening import source_of
from .fourths import FourthMoments, FourthSum, most_columns, orthonormal
from .rereading import SAME_ROWS, Collector, Rereading
from .roots import RootSum
from .sampling import SampledRows, SampleSum, rows_to_keep

if TYPE_CHECKING:
    from .moments import Moments

# Products over the same rows differ by rounding, which is less.
_SAME = 1e-6


@dataclass(frozen=True, eq=False)
class SecondLook:
    """What rows tell beside their second moments.

    roots : (E, m, d) factors of the centred products of all columns, None where the rows were not read for them;
        fourths, sample : of the columns whose residuals were looked at, None where they were not yet
    n_readings : how often the rows were read for it
    """

    roots: Floats | None
    fourths: FourthMoments | None = None
    sample: SampledRows | None = None
    n_readings: int = 0

    def of_columns(self, order: Sequence[int]) -> SecondLook:
        """Of the columns of the moments at these places."""
        return replace(self, roots=None if self.roots is None else self.roots[:, :, order])

    def choosing(self, kept: Integers) -> SecondLook:
        """Of the environments at these places."""
        return replace(
            self,
            roots=None if self.roots is None else self.roots[kept],
            fourths=None if self.fourths is None else self.fourths.choosing(kept),
            sample=None if self.sample is None else self.sample.choosing(kept),
        )

    def wider(self, k: int) -> SecondLook:
        """With k more columns that are constant in every environment."""
        return replace(self, roots=None if self.roots is None else np.pad(self.roots, ((0, 0), (0, 0), (0, k))))


class Rows:
    """Rows that moments were computed from, to be looked at again.

    environment : the column of their labels; file_options : how files are written, as `source_of` takes it

    They are read once where second moments can decide every subset, else twice: for the factors of the columns, and
    then for fourth powers in the coordinates that these give.
    """

    def __init__(
        self, moments: Moments, rows: Any, environment: str, n_jobs: int | None, file_options: Mapping[str, Any]
    ) -> None:
        words = () if moments.encoding is None else tuple(moments.encoding.of_levels)
        self._moments = moments
        self._source = source_of(rows, **file_options, words=words, warn_unnamed=False)
        self._environment, self._n_jobs = environment, n_jobs
        Rereading(moments, self._source, environment, moments.columns).check_columns()

    @property
    def all_columns_fit(self) -> bool:
        """Whether sums of fourth powers can be kept of all columns."""
        return len(self._moments.columns) <= most_columns(self._moments.n_environments)

    @property
    def most_features(self) -> int:
        """Columns of features of which such sums can be kept"""
        return most_columns(self._moments.n_environments) - 1

    def resolving(self) -> Moments:
        """The moments, with what decides subsets of nearly dependent columns."""
        self._refuse_a_second_time()
        columns = self._moments.columns
        reading = Rereading(self._moments, self._source, self._environment, columns)
        (found,) = reading.collect(lambda task: [self._root_sum()], self._n_jobs)
        assert isinstance(found, RootSum)
        return replace(self._moments, second=SecondLook(found.roots, n_readings=1))

    def looking_at(self, moments: Moments, columns: Collection[str]) -> Moments:
        """The moments, with fourth powers and a sample of these columns and of the outcome."""
        known = moments.second or SecondLook(None)
        names = tuple(name for name in moments.columns if name in columns or name == moments.outcome_name)
        at = np.array([moments.columns.index(name) for name in names])
        coordinates, whitening = orthonormal(moments, at, known.roots)
        n_environments, kept = moments.n_environments, rows_to_keep(moments.n_environments, len(names))
        factors = known.roots is None and names == moments.columns

        def start(task: int) -> list[Collector]:
            each: list[Collector] = [FourthSum(moments.counts, whitening)]
            each.append(SampleSum(task, n_environments, len(names), kept))
            return [*each, self._root_sum()] if factors else each

        reading = Rereading(moments, self._source, self._environment, names)
        fourth, sample, *roots = reading.collect(start, self._n_jobs)
        assert isinstance(fourth, FourthSum)
        assert isinstance(sample, SampleSum)
        fourths = FourthMoments(names, moments.counts, coordinates, fourth.products)
        self._check(fourths, moments)
        second = replace(known, fourths=fourths, sample=sample.sample(names), n_readings=known.n_readings + 1)
        if roots:
            assert isinstance(roots[0], RootSum)
            second = replace(second, roots=roots[0].roots)
        return replace(moments, second=second)

    def _root_sum(self) -> RootSum:
        return RootSum(self._moments.n_environments, len(self._moments.columns))

    def _refuse_a_second_time(self) -> None:
        if not self._source.rereadable:
            raise DataError(
                "columns nearly depend on each other, so that the rows have to be read twice, and "
                f"{self._source.name} can be read once: pass rows= a file, a folder or a table."
            )

    def _check(self, fourths: FourthMoments, moments: Moments) -> None:
        """Raise where means or second moments are not those that are known."""
        at = [moments.columns.index(name) for name in fourths.columns]
        for e, label in enumerate(moments.environments):
            functions = fourths.functions(e)
            found = functions.sums([functions.one, *map(functions.linear, np.eye(len(at)))])
            expected = np.zeros_like(found)
            expected[0, 0], expected[1:, 1:] = moments.counts[e], moments.scatter[e][np.ix_(at, at)]
            scale = np.sqrt(np.diagonal(expected))
            off = np.abs(found - expected) > _SAME * np.outer(scale, scale)
            alone = (off[0] | np.diagonal(off))[1:]
            wrong = alone if alone.any() else np.any(off, axis=0)[1:]
            if wrong.any():
                names = [name for name, flag in zip(fourths.columns, wrong, strict=True) if flag]
                raise DataError(
                    f"{self._source.name} is not what the moments were computed from: in environment "
                    f"{quoted([label])} other values are in {quoted(names)}. {SAME_ROWS}"
                )
