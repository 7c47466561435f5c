"""Random-effects meta-analysis: how much an effect differs between environments, and its mean.

The effect of environment e is estimated by b_e ~ Normal(β_e, s_e²) with β_e ~ Normal(μ, τ²); τ² is
estimated by restricted maximum likelihood (Viechtbauer 2005, doi:10.3102/10769986030003261).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2, f, t

from .._tools.arrays import Floats

# A standard error of τ cannot be estimated from fewer environments, and t has E − 2 degrees of
# freedom.
FEWEST_FOR_PREDICTION = 4
_GRID = 100
_SMALLEST_ON_GRID = 1e-8
# Newton's method takes about five; halving an interval to its last digit takes 50.
_MOST_STEPS = 60
_PRECISION = 1e-12
# Times the sum of squares around the mean, beyond which the restricted likelihood only falls.
_LARGEST = 10.0


class MetaAnalysis(NamedTuple):
    """Hold the random-effects meta-analysis of k effects over environments.

    Values that cannot be estimated are NaN.

    Attributes
    ----------
    n_environments : ndarray of shape (k,)
        Environments with an estimate and a standard error.
    tau : ndarray of shape (k,)
        Standard deviation of the effects between environments.
    i2 : ndarray of shape (k,)
        Share of the variance of the estimates that is not due to sampling, τ²/(τ² + s²), with the
        typical sampling variance s² of Higgins and Thompson, as in metafor.
    q : ndarray of shape (k,)
        Cochran's Q.
    p_value : ndarray of shape (k,)
        P-value of equal effects.
    mean : ndarray of shape (k,)
        Random-effects mean.
    standard_error, hartung_knapp : ndarray of shape (k,)
        Its standard error by inverse variances, and by Hartung and Knapp.
    """

    n_environments: Floats
    tau: Floats
    i2: Floats
    q: Floats
    p_value: Floats
    mean: Floats
    standard_error: Floats
    hartung_knapp: Floats

    def prediction_interval(self, coverage: float = 0.95) -> tuple[Floats, Floats]:
        """Return prediction intervals for the effects in a new environment.

        They are μ̂ ± t(E − 2)·√(τ̂² + se²) with the larger of the two standard errors.

        Parameters
        ----------
        coverage : float, default=0.95
            Coverage of the intervals.

        Returns
        -------
        tuple of ndarray of shape (k,)
            Lower and upper ends of the intervals; NaN below four environments.

        References
        ----------
        Higgins, J. P. T., Thompson, S. G. and Spiegelhalter, D. J. (2009), A re-evaluation of
        random-effects meta-analysis, Journal of the Royal Statistical Society A 172, 137-159,
        doi:10.1111/j.1467-985X.2008.00552.x.
        """
        enough = self.n_environments >= FEWEST_FOR_PREDICTION
        quantile = t.ppf(0.5 + coverage / 2.0, np.where(enough, self.n_environments - 2.0, np.nan))
        margin = quantile * np.hypot(self.tau, np.maximum(self.standard_error, self.hartung_knapp))
        return self.mean - margin, self.mean + margin


def heterogeneity(
    estimates: ArrayLike, errors: ArrayLike, freedom: ArrayLike | None = None
) -> MetaAnalysis:
    """Meta-analyse each of k effects by restricted maximum likelihood (REML).

    Parameters
    ----------
    estimates, errors : array-like of shape (E, k) or (E,)
        Estimates of the environments and their standard errors. An environment without both is
        excluded for an effect.
    freedom : array-like of shape (E,), default=None
        Degrees of freedom of the standard errors. The p-value is then Welch's, which allows for
        small environments; without them it is from the chi-squared distribution of Cochran's Q.

    Returns
    -------
    MetaAnalysis
        Results for each effect.

    References
    ----------
    Viechtbauer, W. (2005), Bias and efficiency of meta-analytic variance estimators in the
    random-effects model, Journal of Educational and Behavioral Statistics 30, 261-293,
    doi:10.3102/10769986030003261.

    Higgins, J. P. T. and Thompson, S. G. (2002), Quantifying heterogeneity in a meta-analysis,
    Statistics in Medicine 21, 1539-1558, doi:10.1002/sim.1186.

    Hartung, J. and Knapp, G. (2001), On tests of the overall treatment effect in meta-analysis with
    normally distributed responses, Statistics in Medicine 20, 1771-1782, doi:10.1002/sim.791.

    Welch, B. L. (1951), On the comparison of several mean values: an alternative approach,
    Biometrika 38, 330-336, doi:10.1093/biomet/38.3-4.330.

    Examples
    --------
    >>> from invariance.decisions.heterogeneity import heterogeneity
    >>> found = heterogeneity([1.0, 1.2, 0.8, 2.0], [0.1, 0.1, 0.1, 0.1])
    >>> found.n_environments.tolist(), found.tau.round(2).tolist()
    ([4.0], [0.52])
    """
    values = np.atleast_2d(np.asarray(estimates, dtype=float).T).T
    squares = np.atleast_2d(np.asarray(errors, dtype=float).T).T ** 2
    known = np.isfinite(values) & np.isfinite(squares) & (squares > 0.0)
    n = known.sum(axis=0).astype(float)
    several = n > 1.0
    values = np.where(known, values, 0.0)
    squares = np.where(known, squares, np.inf)  # of no weight
    with np.errstate(invalid="ignore", divide="ignore"):
        variance = restricted_maximum(values, squares)
        weights, mean, around = _weighted(values, squares, np.zeros_like(variance))
        q = (weights * around**2).sum(axis=0)
        total = weights.sum(axis=0)
        typical = (n - 1.0) * total / (total**2 - (weights**2).sum(axis=0))
        p_value = _welch(
            q, weights, n, np.inf if freedom is None else np.asarray(freedom, dtype=float)[:, None]
        )
        weights, mean, around = _weighted(values, squares, variance)
        total = weights.sum(axis=0)
        hartung_knapp = np.sqrt((weights * around**2).sum(axis=0) / (n - 1.0) / total)
        each = (
            np.sqrt(variance),
            variance / (variance + typical),
            q,
            p_value,
            mean,
            total**-0.5,
            hartung_knapp,
        )
    return MetaAnalysis(n, *(np.where(several, figure, np.nan) for figure in each))


def restricted_maximum(values: Floats, squares: Floats) -> Floats:
    """Return the variance (k,) between environments, 0 or more, with the highest restricted
    likelihood.

    −½[Σ log(τ² + s²) + log Σw + Σw(y − μ)²], w = 1/(τ² + s²), of values y (E, k) with sampling
    variances s² (E, k), infinite if a value is missing: from the best of a grid by Newton's method
    between its neighbours, which halves the interval if a step leaves it.
    """
    known = np.isfinite(squares)
    centre = np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1)
    largest = _LARGEST * (np.where(known, values - centre, 0.0) ** 2).sum(axis=0)
    grid = np.append(0.0, np.geomspace(_SMALLEST_ON_GRID, 1.0, _GRID))[:, None] * largest
    best = np.argmax(_restricted_likelihood(values, squares, grid[:, None]), axis=0)
    columns = np.arange(values.shape[1])
    low = grid[np.maximum(best - 1, 0), columns]
    high = grid[np.minimum(best + 1, _GRID), columns]
    variance = grid[best, columns]
    for _ in range(_MOST_STEPS):
        slope, bend = _derivatives(values, squares, variance)
        low = np.where(slope > 0.0, variance, low)
        high = np.where(slope > 0.0, high, variance)
        step = variance - slope / bend
        latest = variance
        variance = np.where((low < step) & (step < high), step, 0.5 * (low + high))
        if not (np.abs(variance - latest) > _PRECISION * latest).any():
            break
    return variance


def _weighted(values: Floats, squares: Floats, variance: Floats) -> tuple[Floats, Floats, Floats]:
    """Return inverse variances (E, k), the mean (k,) by them, and the values (E, k) around it; (G,
    E, k) and (G, k) if variances are (G, 1, k)."""
    weights = 1.0 / (variance + squares)
    mean = (weights * values).sum(axis=-2) / weights.sum(axis=-2)
    return weights, mean, values - mean[..., None, :]


def _restricted_likelihood(values: Floats, squares: Floats, variance: Floats) -> Floats:
    """Return the logarithm (G, k) up to a constant, of variances (G, 1, k)."""
    weights, _, around = _weighted(values, squares, variance)
    logs = np.log(np.where(weights > 0.0, weights, 1.0)).sum(axis=-2)
    return np.asarray(
        0.5 * (logs - np.log(weights.sum(axis=-2)) - (weights * around**2).sum(axis=-2))
    )


def _derivatives(values: Floats, squares: Floats, variance: Floats) -> tuple[Floats, Floats]:
    """Return the first two derivatives (k,) of the restricted likelihood with respect to τ²."""
    weights, _, around = _weighted(values, squares, variance)
    total = weights.sum(axis=0)
    share = (weights**2).sum(axis=0) / total
    pull = (weights**2 * around).sum(axis=0)
    slope = 0.5 * (((weights * around) ** 2).sum(axis=0) - total + share)
    bend = pull**2 / total - (weights**3 * (around**2 + 1.0 / total)).sum(axis=0)
    return slope, bend + 0.5 * (share * total + share**2)


def _welch(q: Floats, weights: Floats, n: Floats, freedom: Floats | float) -> Floats:
    """Return p-values (k,) of equal effects: of Q by chi-square if sampling variances are known,
    else by Welch's F."""
    shares = np.where(weights > 0.0, (1.0 - weights / weights.sum(axis=0)) ** 2 / freedom, 0.0).sum(
        axis=0
    )
    statistic = q / (n - 1.0) / (1.0 + 2.0 * (n - 2.0) / (n**2 - 1.0) * shares)
    by_welch = f.sf(statistic, n - 1.0, (n**2 - 1.0) / (3.0 * shares))
    return np.where(shares > 0.0, by_welch, chi2.sf(q, n - 1.0))
