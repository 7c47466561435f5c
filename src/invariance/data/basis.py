"""Terms of a feature: a column of numbers, levels of a category, a natural cubic spline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Names
from ..exceptions import DataError, SettingError, use

FEWEST_KNOTS = 3
_OUTER_QUANTILES = 0.05, 0.95


@dataclass(frozen=True)
class Numbers:
    """The column as it is."""

    column: str

    @property
    def names(self) -> Names:
        return (self.column,)

    def encode(self, values: Floats) -> Floats:
        """(N, 1) from (N,)"""
        return values[:, None]


@dataclass(frozen=True)
class Dummies:
    """For each level but the first, the reference, whether a row has it. A single level makes one
    constant column.
    absent : levels that no row has"""

    column: str
    levels: Names
    absent: frozenset[str] = frozenset()

    @property
    def names(self) -> Names:
        return tuple(f"{self.column}={level}" for level in self.levels[self._first :])

    @property
    def note(self) -> str:
        """Empty where there is nothing to compare."""
        if len(self.occurring) < 2:
            return ""
        nowhere = ", which no row has" if self.levels[0] in self.absent else ""
        return (
            f"{self.column}: {len(self.occurring)} levels, compared with "
            f"{self.levels[0]!r}{nowhere}"
        )

    @property
    def occurring(self) -> Names:
        return tuple(level for level in self.levels if level not in self.absent)

    def encode(self, codes: Floats) -> Floats:
        """(N, number of levels − 1) from positions in `levels` (N,)"""
        return (codes[:, None] == np.arange(self._first, len(self.levels))).astype(float)

    def decode(self, dummies: Mapping[str, Floats]) -> Floats:
        """(N,) positions in `levels`; the columns of absent levels may be missing"""
        places = {name: k for k, name in enumerate(self.names, self._first)}
        return np.column_stack(list(dummies.values())) @ np.array(
            [places[name] for name in dummies], dtype=float
        )

    @property
    def _first(self) -> int:
        return 1 if len(self.levels) > 1 else 0


@dataclass(frozen=True)
class SplineBasis:
    """A natural cubic spline: the column itself and, for all but two of the knots, a curve that is
    linear beyond the outer knots. In the units of the column."""

    column: str
    knots: tuple[float, ...]

    @property
    def names(self) -> Names:
        return (self.column, *(f"{self.column}~{j}" for j in range(2, len(self.knots))))

    @property
    def note(self) -> str:
        return (
            f"{self.column}: natural cubic spline with knots at "
            f"{', '.join(f'{knot:.4g}' for knot in self.knots)}"
        )

    def encode(self, values: Floats) -> Floats:
        """(N, number of knots − 1) from (N,)"""
        knots = np.array(self.knots)
        *inner, last_but_one, last = knots
        span = last - knots[0]
        inside = np.clip(values, knots[0], last)

        def truncated(knot: float) -> Floats:
            return np.maximum(inside - knot, 0.0) ** 3 / (last - knot)

        beyond = np.maximum(values - last, 0.0)
        curves = [
            (truncated(k) - truncated(last_but_one) + 3.0 * (last_but_one - k) * beyond) / span
            for k in inner
        ]
        return np.column_stack([values, *curves])


# The one that any plain values fit comes last: JSON is read as the first that fits.
Term = Dummies | SplineBasis | Numbers


@dataclass(frozen=True, repr=False)
class Spline:
    """A natural cubic spline of one column, whose knots are not placed yet; see `spline`."""

    column: str
    knots: int = 4

    def __post_init__(self) -> None:
        if not isinstance(self.column, str):
            raise SettingError(
                f"spline({self.column!r}) needs the name of a column: spline('age', knots=4)."
            )
        if (
            isinstance(self.knots, bool)
            or not isinstance(self.knots, int | np.integer)
            or self.knots < FEWEST_KNOTS
        ):
            raise SettingError(f"{self!r}: knots must be a whole number, {FEWEST_KNOTS} or more.")

    def __repr__(self) -> str:
        return f"spline({self.column!r}, knots={self.knots!r})"

    def fitted(self, values: Floats) -> SplineBasis:
        """With knots at quantiles of the values (N,), equally spaced from 5% to 95%."""
        possible = self.possible(values)
        if possible is not None and len(possible.knots) == self.knots:
            return possible
        fewer = [] if possible is None else [use(groups=[Spline(self.column, len(possible.knots))])]
        what = (
            f"{self!r} cannot place its knots at different values: too many rows of "
            f"{self.column!r} are equal"
        )
        raise DataError(what if fewer else f"{what}. Use the column as it is.", *fewer)

    def possible(self, values: Floats) -> SplineBasis | None:
        """As `fitted`, with fewer knots where too many of the values (N,) are the same; None where
        3 are too many."""
        for n in range(min(int(self.knots), len(np.unique(values))), FEWEST_KNOTS - 1, -1):
            knots = np.quantile(values, np.linspace(*_OUTER_QUANTILES, n))
            if (np.diff(knots) > 0.0).all():
                return SplineBasis(self.column, tuple(knots.tolist()))
        return None


def spline(column: str, knots: int = 4) -> Spline:
    """Specify a natural cubic spline of a column, for `groups=`.

    Its knots − 1 columns enter and leave together. The knots are at quantiles of all rows, equally
    spaced from 5% to 95%; the curve is linear beyond the outer knots.

    Parameters
    ----------
    column : str
        Name of a numeric column.
    knots : int, default=4
        Number of knots, at least 3.

    Returns
    -------
    Spline
        The specification.

    Raises
    ------
    SettingError
        If there are fewer than three knots.

    References
    ----------
    Harrell, F. E. (2015), Regression Modeling Strategies, 2nd edition, section 2.4, Springer,
    doi:10.1007/978-3-319-19425-7.

    Examples
    --------
    >>> from invariance import BIP, Columns, spline
    >>> BIP(columns=Columns(groups=[spline("age", knots=4)])).columns.groups
    [spline('age', knots=4)]
    """
    return Spline(column, knots)
