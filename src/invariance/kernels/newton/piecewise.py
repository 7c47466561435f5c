"""Times to an event with a hazard that is constant within intervals: the hazards of the baseline are maximised out.

ℓ = Σ_i y_i η_i + Σ_j d_j (log(d_j / A_j) − 1), A_j = Σ_i Δ_ij e**η_i, Δ_ij the time that row i is watched in interval j.
Rows of an environment are sorted by the interval where they end, so that those at risk in an interval are its own and
all that follow.
"""

import numpy as np
from numba import njit

from .columns import REORDERED, add_hessian, add_predictor, add_score, unsigned
from .exponential import exponential
from .rows import BLOCK

# A column of which less than this share is left when its means over the rows at risk are taken out is constant.
_CONSTANT = 1e-10


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)
def _largest(values, first, stop):
    highest = values[first]
    for i in range(unsigned(first), unsigned(stop)):
        highest = max(highest, values[i])
    return highest


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)
def _relative_risks(outcome, first, stop, highest, eta):
    """eta of these rows becomes e**(eta − highest); returns Σ outcome·eta."""
    total = 0.0
    for i in range(unsigned(first), unsigned(stop)):
        total += outcome[i] * eta[i]
        eta[i] = exponential(eta[i] - highest)
    return total


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)
def _sums(risk, weight, first, stop):
    """Σ of risk, and of weight·risk, over these rows"""
    whole, last = 0.0, 0.0
    for i in range(unsigned(first), unsigned(stop)):
        whole += risk[i]
        last += weight[i] * risk[i]
    return whole, last


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)
def _column_sums(column, risk, weight, first, stop):
    """As `_sums`, with each row times its value in a column"""
    whole, last = 0.0, 0.0
    for i in range(unsigned(first), unsigned(stop)):
        value = column[i] * risk[i]
        whole += value
        last += weight[i] * value
    return whole, last


@njit(cache=True, nogil=True, error_model="numpy", fastmath=REORDERED)
def _expected(outcome, risk, weight, first, stop, hazard, before, residual, curvature):
    """Events that are expected of the rows that end in an interval of this hazard, with `before` what has accumulated
    until it begins, and what is left of their outcome."""
    for i in range(unsigned(first), unsigned(stop)):
        mean = risk[i] * (before + weight[i] * hazard)
        curvature[i] = mean
        residual[i] = outcome[i] - mean


@njit(cache=True, nogil=True, error_model="numpy")
def _add_column_sums(rows, e, members, k, risk, sums):
    """sums (J, k) += Σ_i Δ_ij·risk_i·x_i over the rows of environment e"""
    starts, widths = rows.intervals.starts[e], rows.intervals.widths[e]
    for a in range(k):
        column, later = rows.columns[members[a]], 0.0
        for j in range(widths.size - 1, -1, -1):
            whole, last = _column_sums(column, risk, rows.weight, starts[j], starts[j + 1])
            sums[j, a] += last + widths[j] * later
            later += whole


@njit(cache=True, nogil=True, error_model="numpy")
def _set_hazards(events, at_risk, first_environment, stop_environment, highest, log_hazard, hazard):
    """The likeliest hazards of these environments together."""
    for j in range(hazard.size):
        d, total = 0.0, 0.0
        for e in range(first_environment, stop_environment):
            d += events[e, j]
            total += at_risk[e, j]
        hazard[j] = d / total if d > 0.0 else 0.0
        log_hazard[j] = np.log(hazard[j]) - highest if d > 0.0 else -np.inf


@njit(cache=True, nogil=True, error_model="numpy")
def _subtract_means(events, at_risk, first_environment, stop_environment, sums, k, hessian):
    """hessian −= Σ_j d_j m_j m_j', m_j the mean of the columns over those at risk in interval j; 0 on the diagonal where
    a column does not vary among them."""
    diagonal = np.empty(k)
    for a in range(k):
        diagonal[a] = hessian[a, a]
    for j in range(sums.shape[0]):
        d, total = 0.0, 0.0
        for e in range(first_environment, stop_environment):
            d += events[e, j]
            total += at_risk[e, j]
        if d > 0.0:
            share = d / (total * total)
            for a in range(k):
                for b in range(a + 1):
                    hessian[a, b] -= share * sums[j, a] * sums[j, b]
    for a in range(k):
        if hessian[a, a] < _CONSTANT * diagonal[a]:
            hessian[a, a] = 0.0


@njit(cache=True, nogil=True, error_model="numpy")
def evaluate_piecewise(rows, first_environment, stop_environment, members, k, theta, curved, work):
    """As `evaluate`, which has set what is summed up to 0. by_environment: each under the hazards of all of these
    environments."""
    columns, intervals, baseline, risk = rows.columns, rows.intervals, work.baseline, work.eta
    n_intervals = baseline.hazard.size
    first_row, last_row = rows.starts[first_environment], rows.starts[stop_environment]
    for first in range(first_row, last_row, BLOCK):
        n = min(first + BLOCK, last_row) - first
        eta = work.eta[first:]
        for i in range(n):
            eta[i] = 0.0
        add_predictor(columns, members, k, theta, first, n, eta)
    highest = _largest(work.eta, first_row, last_row)
    for e in range(first_environment, stop_environment):
        starts, widths = intervals.starts[e], intervals.widths[e]
        work.by_environment[e] = _relative_risks(rows.outcome, rows.starts[e], rows.starts[e + 1], highest, risk)
        later = 0.0
        for j in range(n_intervals - 1, -1, -1):
            whole, last = _sums(risk, rows.weight, starts[j], starts[j + 1])
            baseline.at_risk[e, j] = last + widths[j] * later
            later += whole
    events, at_risk, hazard = intervals.events, baseline.at_risk, baseline.hazard
    _set_hazards(events, at_risk, first_environment, stop_environment, highest, baseline.log_hazard, hazard)
    if curved:
        baseline.means[:] = 0.0
    total = 0.0
    for e in range(first_environment, stop_environment):
        starts, widths = intervals.starts[e], intervals.widths[e]
        before = 0.0
        for j in range(n_intervals):
            work.by_environment[e] -= at_risk[e, j] * hazard[j]
            if events[e, j] > 0.0:
                work.by_environment[e] += events[e, j] * baseline.log_hazard[j]
            _expected(
                rows.outcome,
                risk,
                rows.weight,
                starts[j],
                starts[j + 1],
                hazard[j],
                before,
                work.residual,
                work.curvature,
            )
            before += widths[j] * hazard[j]
        total += work.by_environment[e]
        if curved:
            _add_column_sums(rows, e, members, k, risk, baseline.means)
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            add_score(columns, members, k, first, n, work.residual[first:], work.score)
            if curved:
                add_hessian(columns, members, k, first, n, work.curvature[first:], work.scaled, work.hessian)
    if curved:
        _subtract_means(events, at_risk, first_environment, stop_environment, baseline.means, k, work.hessian)
    return total
