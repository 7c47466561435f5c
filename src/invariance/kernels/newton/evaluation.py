"""Log-likelihoods with their first and second derivatives, over the rows of some environments."""

import numpy as np

from ..compiled import kernel
from .columns import REORDERED, add_hessian, add_predictor, add_score, unsigned
from .exponential import exponential
from .negative_binomial import add_dispersion, negative_binomial_terms
from .piecewise import evaluate_piecewise
from .rows import BLOCK, LOGISTIC, NEGATIVE_BINOMIAL, PIECEWISE_EXPONENTIAL, POISSON
from .uncounted import UNCOUNTED


@kernel(fastmath=REORDERED)
def logistic_terms(outcome, weight, first, n, eta, residual, curvature):
    """Log-likelihood of rows with log odds eta (n,), its derivative and minus its second derivative by eta."""
    total = 0.0
    first, n = unsigned(first), unsigned(n)
    for i in range(n):
        shrunk = exponential(-abs(eta[i]))
        inverse = 1.0 / (1.0 + shrunk)
        chance = inverse if eta[i] >= 0.0 else shrunk * inverse
        w = weight[first + i]
        total += outcome[first + i] * eta[i] - w * max(eta[i], 0.0)
        residual[i] = outcome[first + i] - w * chance
        curvature[i] = w * shrunk * inverse * inverse
        eta[i] = 1.0 + shrunk
    # Rows of one environment weigh the same; a block lies in one, and 2**BLOCK is below the largest float.
    product = 1.0
    for i in range(n):
        product *= eta[i]
    return total - weight[first] * np.log(product)


@kernel(fastmath=REORDERED)
def poisson_terms(outcome, weight, first, n, eta, residual, curvature):
    """As `logistic_terms`, for counts with mean weight·e**eta, up to a constant."""
    total = 0.0
    first, n = unsigned(first), unsigned(n)
    for i in range(n):
        mean = weight[first + i] * exponential(eta[i])
        total += outcome[first + i] * eta[i] - mean
        residual[i] = outcome[first + i] - mean
        curvature[i] = mean
    return total


@kernel(**UNCOUNTED)
def evaluate(rows, first_environment, stop_environment, members, k, theta, n_parameters, curved, work):
    """Log-likelihood of the rows of these environments; fills score, by_environment and, if `curved`, the lower
    triangle of hessian, minus the second derivatives.

    theta: slopes of the first k of members, then what else the model has, n_parameters in all.
    """
    for a in range(n_parameters):
        work.score[a] = 0.0
    if curved:
        for a in range(n_parameters):
            for b in range(a + 1):
                work.hessian[a, b] = 0.0
    if rows.family == PIECEWISE_EXPONENTIAL:
        return evaluate_piecewise(rows, first_environment, stop_environment, members, k, theta, curved, work)
    outcome, weight, eta = rows.outcome, rows.weight, work.eta
    columns = rows.own.columns if stop_environment - first_environment == 1 and rows.own.columns.size else rows.columns
    total, slope, bend = 0.0, 0.0, 0.0
    for e in range(first_environment, stop_environment):
        own = 0.0
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            for i in range(n):
                eta[i] = 0.0
            add_predictor(columns, members, k, theta, first, n, eta)
            if rows.family == LOGISTIC:
                own += logistic_terms(outcome, weight, first, n, eta, work.residual, work.curvature)
            elif rows.family == POISSON:
                own += poisson_terms(outcome, weight, first, n, eta, work.residual, work.curvature)
            elif rows.family == NEGATIVE_BINOMIAL:
                more, by_alpha, twice = negative_binomial_terms(
                    outcome, weight, rows.counts, first, n, theta[k], eta, work.residual, work.curvature
                )
                own, slope, bend = own + more, slope + by_alpha, bend + twice
                if curved:
                    add_score(columns, members, k, first, n, eta, work.hessian[k])
            add_score(columns, members, k, first, n, work.residual, work.score)
            if curved:
                add_hessian(columns, members, k, first, n, work.curvature, work.scaled, work.hessian)
        work.by_environment[e] = own
        total += own
    if rows.family == NEGATIVE_BINOMIAL:
        total += add_dispersion(
            rows.counts, first_environment, stop_environment, slope, bend, curved, theta, n_parameters, work
        )
    return total
