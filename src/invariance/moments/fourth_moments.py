"""Sums of products of up to four columns: how heavy the tails of the residuals of any subset are,
without the rows. The residual of a subset is a linear form of the columns, so that its fourth power
is a polynomial whose coefficients are known once such sums are. They are kept in coordinates in
which the columns are orthonormal in each environment: there no digits are lost where a subset
leaves little of the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._tools.arrays import Floats, Integers
from ..kernels.row_residuals import DEPENDENT, triangular_factor
from .least_squares import unit_columns

if TYPE_CHECKING:
    from .moments import Moments

# Their sums take the fourth power of the number of columns, in time for each row and in memory.
MOST_COLUMNS = 25
_MOST_BYTES = 32_000_000
# Rows whose products are formed together, and subsets whose forms are.
_ROWS = 1024
_SUBSETS = 256
# Of about so many rows products are summed, and of so many of each environment at least: the excess
# kurtosis of normal noise then has a standard error of √(24 / 100,000) = 0.015.
_SAMPLED_ROWS = 100_000
_FEWEST_SAMPLED = 5_000
# times the mean squared distance of rows from their mean, from which on they are taken more often
_FAR = 2.0


@dataclass(frozen=True, eq=False)
class FourthMoments:
    """Of k columns in E environments.
    With (1/√n, z) orthonormal coordinates of the rows of an environment: coordinates (E, k, k):
    column j, less its mean, is z · coordinates[e, :, j]; products (E, q, q): weighted sums over its
    rows of products of any two of the q = (k+1)(k+2)/2 products of any two of the coordinates.
    Weights are 1, or those of a sample of the rows."""

    columns: tuple[str, ...]
    counts: Integers
    coordinates: Floats
    products: Floats

    def places(self, names: tuple[str, ...]) -> NDArray[np.intp] | None:
        """Of these columns; None where one is not known."""
        at = {name: j for j, name in enumerate(self.columns)}
        return (
            None
            if any(name not in at for name in names)
            else np.array([at[n] for n in names], dtype=np.intp)
        )

    def choosing(self, kept: Integers) -> FourthMoments:
        """Of the environments at the places `kept`."""
        return FourthMoments(
            self.columns, self.counts[kept], self.coordinates[kept], self.products[kept]
        )

    @property
    def sampled(self) -> Floats:
        """(E,) sums of the weights: how many rows the products stand on"""
        return self.counts * (self.counts * self.products[:, 0, 0])

    def power_sums(self, weights: Floats) -> tuple[Floats, Floats]:
        """(S,) sums over all rows of squares and of fourth powers of Σ_j weights[s, j] · column j,
        each less its mean in the environment; weights (S, k). Of a sample, fourth powers are taken
        in units of its own variance."""
        squares, fourths = np.zeros((2, len(weights)))
        for first in range(0, len(weights), _SUBSETS):
            part = slice(first, first + _SUBSETS)
            each = zip(self.counts, self.sampled, self.coordinates, self.products, strict=True)
            for n, m, coordinates, products in each:
                linear = weights[part] @ coordinates.T
                own = np.einsum("sk,sk->s", linear, linear)
                squares[part] += own
                linear = np.insert(linear, 0, 0.0, axis=1)
                form = _product(linear, linear)
                summed = form @ products
                variance = n * summed[:, 0] / m
                unit = np.divide(own / n, variance, out=np.ones_like(own), where=variance > 0.0)
                fourths[part] += np.einsum("sq,sq->s", summed, form) * (n / m) * unit**2
        return squares, fourths

    def sums(self, e: int, linear: Floats, squared: Floats) -> Floats:
        """(1 + l + s, 1 + l + s) sums over the rows of the environment at place e of products of
        any two of: 1, forms Σ_j linear[i, j] · column j, and squares of such forms, of columns less
        their means; linear (l, k), squared (s, k)"""
        coordinates = self.coordinates[e].T
        first, second = (
            np.insert(weights @ coordinates, 0, 0.0, axis=1) for weights in (linear, squared)
        )
        one = np.sqrt(self.counts[e]) * np.eye(1, first.shape[1])
        forms = np.vstack([_product(one, one), _product(one, first), _product(second, second)])
        return np.asarray(forms @ self.products[e] @ forms.T)


class FourthSum:
    """Collects the products; whitening (E, k, k): deviations · whitening[e] are the coordinates.
    Of many rows of an environment each is taken with a chance, and weighted by the lowest chance
    over its own: those far from the mean, which make most of fourth powers, have a higher one, up
    to 1.
    products : (E, q, q) as in `FourthMoments`; seconds : (E, k + 1, k + 1) sums over all rows of
        products of any two
    coordinates"""

    def __init__(self, counts: Integers, whitening: Floats) -> None:
        self._counts = counts
        self._whitening = whitening
        m = whitening.shape[1] + 1
        self._rates = np.minimum(
            1.0, np.maximum(_SAMPLED_ROWS / counts.sum(), _FEWEST_SAMPLED / counts)
        )
        self._first, self._second = np.triu_indices(m)
        self.seconds = np.zeros((len(counts), m, m))
        self.products = np.zeros((len(counts), len(self._first), len(self._first)))

    def add(self, e: int, values: Floats, deviations: Floats, chances: Floats) -> None:
        n = self._counts[e]
        rate = self._rates[e]
        z = np.insert(self._whitening[e].T @ deviations, 0, 1.0 / np.sqrt(n), axis=0)
        weights = np.ones(z.shape[1])
        self.seconds[e] += z @ z.T
        if rate < 1.0:
            distance = np.einsum("kn,kn->n", z[1:], z[1:]) * n / (len(z) - 1)
            taken = np.minimum(1.0, rate * np.maximum(1.0, (distance / _FAR) ** 2))
            drawn = chances < taken
            z = z[:, drawn]
            weights = (rate / taken)[drawn]
        for start in range(0, z.shape[1], _ROWS):
            part = slice(start, start + _ROWS)
            pairs = z[self._first, part] * z[self._second, part]
            self.products[e] += (pairs * weights[part]) @ pairs.T

    def merge(self, other: FourthSum) -> None:
        self.products += other.products
        self.seconds += other.seconds


def most_columns(n_environments: int) -> int:
    """How many columns, the outcome among them, their sums are kept of."""
    possible = np.arange(2, MOST_COLUMNS + 1)
    taken = n_environments * 8.0 * ((possible + 1) * (possible + 2) / 2.0) ** 2
    return int(possible[taken <= _MOST_BYTES].max(initial=2))


def orthonormal(moments: Moments, columns: Integers, roots: Floats | None) -> tuple[Floats, Floats]:
    """coordinates, whitening (E, k, k), from the factors (E, m, d) or, without them, from second
    moments"""
    k = len(columns)
    n_environments = moments.n_environments
    coordinates, whitening = np.zeros((2, n_environments, k, k))
    for e in range(n_environments):
        if roots is None:
            scatter = moments.scatter[e][np.ix_(columns, columns)]
            kept = np.flatnonzero(moments.present[e, columns])
            scale = np.sqrt(np.diagonal(scatter)[kept])
            lower = (
                np.linalg.cholesky(scatter[np.ix_(kept, kept)] / np.outer(scale, scale))
                * scale[:, None]
            )
            found = np.linalg.solve(lower, scatter[kept])
        else:
            unit, norms = unit_columns(roots[e][:, columns])
            triangle, independent = triangular_factor(unit, np.arange(len(unit)), DEPENDENT)
            kept = np.flatnonzero(independent)
            found = triangle[kept] * norms
        coordinates[e][kept] = found
        whitening[e][np.ix_(kept, kept)] = np.linalg.inv(found[:, kept])
    return coordinates, whitening


def _product(a: Floats, b: Floats) -> Floats:
    """(…, q) the product of linear forms a and b (…, k + 1) of the coordinates, as a form of their
    products"""
    first, second = np.triu_indices(a.shape[-1])
    crossed = a[..., first] * b[..., second] + a[..., second] * b[..., first]
    return np.where(first == second, 0.5 * crossed, crossed)
