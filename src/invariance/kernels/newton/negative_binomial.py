"""Negative binomial counts: mean μ, variance μ + αμ², and the dispersion α the last parameter, as φ = log(1 + α·scale).

φ = 0 is the Poisson law, and near it the likelihood is as smooth in φ as in α; far from it φ is a log dispersion.
"""

from typing import NamedTuple

import numpy as np

from ..._tools.arrays import Floats
from ..compiled import kernel
from .exponential import exponential
from .logarithm import logarithm

_REORDERED = {"reassoc", "contract", "nsz"}
# Of log rates: third powers of means are finite then.
_FARTHEST = 200.0
# Where all α·μ are below this, what divides by powers of α has lost digits, and series are used.
_NEARLY_POISSON = 0.03

unsigned = np.uint64


class Counts(NamedTuple):
    """What counts have beside rows. exposure (N,); centre: a mean count; scale: see φ; limit: the largest φ.

    pieces (E, P, D): log-likelihood of each environment, if all its rows had the mean `centre`, by φ. In each of P
    equal pieces up to `limit` it is a polynomial of what goes from -1 to 1 there, with the highest power first."""

    exposure: Floats
    centre: float
    scale: float
    limit: float
    pieces: Floats


NO_COUNTS = Counts(np.empty(0), 1.0, 1.0, 1.0, np.empty((0, 0, 0)))


@kernel
def dispersion_of(phi, scale):
    return np.expm1(phi) / scale


@kernel(fastmath=_REORDERED)
def _means(exposure, first, n, eta, mean):
    """Fill mean (n,) and bound eta (n,), so that both are finite; returns the sum of squares of the means, which
    compilers find faster than the largest"""
    squares = 0.0
    first, n = unsigned(first), unsigned(n)
    for i in range(n):
        eta[i] = min(max(eta[i], -_FARTHEST), _FARTHEST)
        mean[i] = exposure[first + i] * exponential(eta[i])
        squares += mean[i] * mean[i]
    return squares


@kernel(fastmath={"contract"}, inline="never")
def _third(m):
    """(2·log(1 + m) − 2v − v²)/m³, v = m/(1 + m), for small m"""
    p = 90.0 / 11.0
    p = 72.0 / 10.0 - p * m
    p = 56.0 / 9.0 - p * m
    p = 42.0 / 8.0 - p * m
    p = 30.0 / 7.0 - p * m
    p = 20.0 / 6.0 - p * m
    p = 12.0 / 5.0 - p * m
    p = 6.0 / 4.0 - p * m
    return 2.0 / 3.0 - p * m


@kernel(fastmath=_REORDERED)
def _near_poisson(outcome, weight, first, n, alpha, centre, eta, mean, curvature):
    """As `negative_binomial_terms`, for α·means and α·centre that are small; mean (n,) becomes the residual."""
    total, slope, bend = 0.0, 0.0, 0.0
    log_centre, mc = np.log(centre), alpha * centre
    uc = 1.0 / (1.0 + mc)
    third_c = _third(mc)
    second_c = 0.5 * (mc * third_c + uc * uc)
    first_c = mc * second_c + uc
    c1, c2, c3 = centre * first_c, centre**2 * second_c, centre**3 * third_c
    d1, d2 = centre * uc, (centre * uc) ** 2
    first, n = unsigned(first), unsigned(n)
    for i in range(n):
        y, w, mu = outcome[first + i], weight[first + i], mean[i]
        m = alpha * mu
        u = 1.0 / (1.0 + m)
        t3 = _third(m)
        t2 = 0.5 * (m * t3 + u * u)
        t1 = m * t2 + u
        r = mu * u
        total += y * (eta[i] - log_centre) - (alpha * y + w) * (mu * t1 - c1)
        slope += w * (mu * mu * t2 - c2) - y * (r - d1)
        bend += y * (r * r - d2) - w * (mu * mu * mu * t3 - c3)
        residual = (y - w * mu) * u
        mean[i] = residual
        curvature[i] = r * u * (w + alpha * y)
        eta[i] = residual * r
    return total, slope, bend


@kernel(fastmath=_REORDERED)
def _away_from_poisson(outcome, weight, first, n, alpha, centre, eta, mean, curvature):
    """As `negative_binomial_terms`; mean (n,) becomes the residual."""
    total, a1, a2, b1, b2 = 0.0, 0.0, 0.0, 0.0, 0.0
    log_centre, s = np.log(centre), 1.0 / alpha
    uc = 1.0 / (1.0 + alpha * centre)
    vc = alpha * centre * uc
    first, n = unsigned(first), unsigned(n)
    for i in range(n):
        y, w, mu = outcome[first + i], weight[first + i], mean[i]
        grown = 1.0 + alpha * mu
        u = 1.0 / grown
        r = mu * u
        v = alpha * r
        ratio = logarithm(grown * uc)
        total += y * (eta[i] - log_centre) - (y + w * s) * ratio
        excess = ratio - (v - vc)
        a1 += w * excess
        a2 += w * (2.0 * excess - (v * v - vc * vc))
        b1 += y * (v - vc)
        b2 += y * (v * v - vc * vc)
        residual = (y - w * mu) * u
        mean[i] = residual
        curvature[i] = r * u * (w + alpha * y)
        eta[i] = residual * r
    return total, s * (s * a1 - b1), s * s * (b2 - s * a2)


@kernel
def negative_binomial_terms(outcome, weight, counts, first, n, phi, eta, residual, curvature):
    """By how much the log-likelihood of rows with log rates eta (n,) is above that of the same rows at the mean
    `centre`, with its first and second derivative by α. Fills its derivative and minus its second derivative by eta,
    and eta itself with minus the derivative by eta and α."""
    alpha = dispersion_of(phi, counts.scale)
    squares = _means(counts.exposure, first, n, eta, residual)
    if alpha * np.sqrt(squares + counts.centre**2) < _NEARLY_POISSON:
        return _near_poisson(outcome, weight, first, n, alpha, counts.centre, eta, residual, curvature)
    return _away_from_poisson(outcome, weight, first, n, alpha, counts.centre, eta, residual, curvature)


@kernel
def at_centre(counts, e, phi):
    """Log-likelihood of an environment whose rows all have the mean `centre`, with first and second derivative by φ."""
    n_pieces, n_coefficients = counts.pieces.shape[1:]
    half = 0.5 * counts.limit / n_pieces
    j = min(int(0.5 * phi / half), n_pieces - 1)
    t = phi / half - (2 * j + 1)
    value, slope, bend = 0.0, 0.0, 0.0
    for d in range(n_coefficients):
        bend = bend * t + 2.0 * slope
        slope = slope * t + value
        value = value * t + counts.pieces[e, j, d]
    return value, slope / half, bend / half**2


@kernel
def add_dispersion(counts, first_environment, stop_environment, slope, bend, curved, theta, n, work):
    """The parts of score and hessian that belong to φ = theta[n - 1]: slope, bend are the derivatives by α of the rows'
    terms, and the last row of hessian has minus those by slopes and α. Where φ is at a limit that the likelihood would
    have it pass they are 0. Fills by_environment up to what rows add; returns its sum."""
    last = n - 1
    phi, step = theta[last], np.exp(theta[last]) / counts.scale
    score, information = step * slope, -step * (step * bend + slope)
    total = 0.0
    for e in range(first_environment, stop_environment):
        value, own_slope, own_bend = at_centre(counts, e, phi)
        work.by_environment[e] += value
        total += value
        score += own_slope
        information -= own_bend
    held = (phi <= 0.0 and score <= 0.0) or (phi >= counts.limit and score >= 0.0)
    work.score[last] = 0.0 if held else score
    if curved:
        for a in range(last):
            work.hessian[last, a] *= 0.0 if held else step
        work.hessian[last, last] = 0.0 if held else information
    return total
