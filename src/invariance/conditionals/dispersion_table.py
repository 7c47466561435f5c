"""What a negative binomial likelihood adds for the dispersion alone: sums of log gamma functions, tabulated once.

Along φ = log(1 + α·scale), with no count above `scale`, they have no singularity nearer than π to what is needed.
Polynomials of low degree on short pieces therefore have all digits.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from .._tools.arrays import Floats, Integers
from ..kernels.newton.negative_binomial import Counts, dispersion_of

_LARGEST_DISPERSION = 1e6
_SMALLEST_SCALE = 10.0
_PIECE = 0.5
_DEGREE = 9
# From here on Stirling's series has all digits.
_STIRLING = 30.0
_VALUES_AT_ONCE = 4_000


def counts_of(y: Floats, expected: Floats, exposure: Floats, shares: Floats, starts: Integers) -> Counts:
    """Of rows sorted by environment, each with a count y, and pseudo-data of the weight shares[e] (E,) whose count is
    `expected` (N,)."""
    scale = float(max(y.max(), expected.max(), _SMALLEST_SCALE))
    centre = float(y.mean())
    n_pieces = int(np.ceil(np.log1p(_LARGEST_DISPERSION * scale) / _PIECE))
    nodes = np.polynomial.chebyshev.chebpts1(_DEGREE + 1)
    phi = (_PIECE * (np.arange(n_pieces)[:, None] + 0.5 + 0.5 * nodes)).ravel()
    alpha = dispersion_of(phi, scale)
    to_powers = np.linalg.inv(np.vander(nodes))
    pieces = np.empty((len(starts) - 1, n_pieces, _DEGREE + 1))
    for e, share in enumerate(shares):
        own = slice(starts[e], starts[e + 1])
        values = _at_centre(y[own], alpha, centre) + y[own] @ np.log(exposure[own])
        if share > 0.0:
            pseudo = _at_centre(expected[own], alpha, centre) + expected[own] @ np.log(exposure[own])
            values = values + share * pseudo
        pieces[e] = values.reshape(n_pieces, -1) @ to_powers.T
    return Counts(np.ascontiguousarray(exposure), centre, scale, _PIECE * n_pieces, pieces)


def _at_centre(y: Floats, alpha: Floats, centre: float) -> Floats:
    """(A,) log-likelihood of all counts y (n,), which may be fractions, if each has the mean `centre`, by α (A,)"""
    values, times = np.unique(y, return_counts=True)
    total = np.zeros(len(alpha))
    for first in range(0, len(values), _VALUES_AT_ONCE):
        some, weight = values[first : first + _VALUES_AT_ONCE], times[first : first + _VALUES_AT_ONCE]
        constant = some * np.log(centre) - gammaln(some + 1.0)
        total += (log_rising(some, alpha) + constant) @ weight
    return total - (y.sum() + len(y) / alpha) * np.log1p(alpha * centre)


def log_rising(y: Floats, alpha: Floats) -> Floats:
    """(A, n) log Γ(y + 1/α) − log Γ(1/α) + y·log α of y (n,) and α (A,): Σ log(1 + αj) over j < y for whole y"""
    s = 1.0 / alpha[:, None]
    near = s[:, 0] >= _STIRLING
    values = np.empty((len(alpha), len(y)))
    values[~near] = gammaln(y + s[~near]) - gammaln(s[~near]) - y * np.log(s[~near])
    s = s[near]
    values[near] = (s + y - 0.5) * np.log1p(y / s) - y + _remainder(s + y) - _remainder(s)
    return values


def _remainder(s: Floats) -> Floats:
    """What Stirling's formula for log Γ(s) lacks"""
    z = 1.0 / s**2
    return np.asarray((1.0 / 12.0 - z * (1.0 / 360.0 - z * (1.0 / 1260.0 - z / 1680.0))) / s)
