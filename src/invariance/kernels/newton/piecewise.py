"""Times to an event with a hazard that is constant within steps of time: hazards are maximised out.

ℓ = Σ_i y_i η_i + Σ_j d_j (log(d_j / A_j) − 1), A_j = Σ_i Δ_ij e**η_i, Δ_ij the time that row i is watched in step j.
All environments together have a hazard for each step. An environment's own is theirs times a factor for each interval,
which is some steps: the same likelihood, with the pooled cumulative hazard in the place of time. Rows of an environment
are sorted by the step where they end, so that those at risk in a step are its own and all that follow.
"""

import numpy as np

from ..compiled import kernel
from .columns import REORDERED, add_hessian, add_predictor, add_score, unsigned
from .exponential import exponential
from .rows import BLOCK
from .uncounted import UNCOUNTED

# A column of which less than this share is left when its means over the rows at risk are taken out is constant.
_CONSTANT = 1e-10
# Logarithm of the least risk beside the largest: products with times and their inverses are finite.
_LEAST = -600.0


@kernel(fastmath=REORDERED)
def _largest(values, first, stop):
    """Of four parts on their own, so that one need not wait for the others."""
    at, quarter = unsigned(first), unsigned((stop - first) // 4)
    half = quarter + quarter
    a = b = c = d = values[stop - 1]
    for i in range(at, at + quarter):
        a = max(a, values[i])
        b = max(b, values[i + quarter])
        c = max(c, values[i + half])
        d = max(d, values[i + half + quarter])
    for i in range(at + half + half, unsigned(stop)):
        a = max(a, values[i])
    return max(a, b, c, d)


@kernel(fastmath=REORDERED)
def _relative_risks(outcome, first, stop, highest, eta):
    """eta of these rows becomes e**(eta − highest); returns Σ outcome·eta."""
    total = 0.0
    for i in range(unsigned(first), unsigned(stop)):
        total += outcome[i] * eta[i]
        eta[i] = exponential(max(eta[i] - highest, _LEAST))
    return total


@kernel(fastmath=REORDERED)
def _add_up_risks(risk, weight, starts, widths, at_risk):
    """at_risk (J,): Σ_i Δ_ij·risk_i over the rows of an environment"""
    later = 0.0
    for j in range(widths.size - 1, -1, -1):
        whole, last = 0.0, 0.0
        for i in range(unsigned(starts[j]), unsigned(starts[j + 1])):
            whole += risk[i]
            last += weight[i] * risk[i]
        at_risk[j] = last + widths[j] * later
        later += whole


@kernel(fastmath=REORDERED)
def _expect(outcome, risk, weight, starts, widths, hazard, residual, curvature):
    """Events that are expected of the rows of an environment, and what is left of their outcome."""
    before = 0.0
    for j in range(widths.size):
        rate = hazard[j]
        for i in range(unsigned(starts[j]), unsigned(starts[j + 1])):
            mean = risk[i] * (before + weight[i] * rate)
            curvature[i] = mean
            residual[i] = outcome[i] - mean
        before += widths[j] * rate


@kernel(fastmath=REORDERED)
def _elapsed(weight, first, stop, hazard, before, clock):
    """The cumulative hazard that rows have reached, from what it was `before` the step where they end."""
    for i in range(unsigned(first), unsigned(stop)):
        clock[i] = before + weight[i] * hazard


@kernel(fastmath=REORDERED, **UNCOUNTED)
def _add_column_sums(columns, members, k, risk, weight, starts, widths, sums):
    """sums (J, k) += Σ_i Δ_ij·risk_i·x_i over the rows of an environment"""
    for a in range(k):
        c, later = members[a], 0.0
        for j in range(widths.size - 1, -1, -1):
            whole, last = 0.0, 0.0
            for i in range(unsigned(starts[j]), unsigned(starts[j + 1])):
                value = columns[c, i] * risk[i]
                whole += value
                last += weight[i] * value
            sums[j, a] += last + widths[j] * later
            later += whole


@kernel(**UNCOUNTED)
def _set_hazards(events, first_environment, stop_environment, highest, baseline):
    """The likeliest hazards of these environments together."""
    for j in range(events.shape[1]):
        d, total = 0.0, 0.0
        for e in range(first_environment, stop_environment):
            d += events[e, j]
            total += baseline.at_risk[e, j]
        baseline.hazard[j] = d / total if d > 0.0 else 0.0
        baseline.log_hazard[j] = np.log(baseline.hazard[j]) - highest if d > 0.0 else -np.inf


@kernel(**UNCOUNTED)
def _subtract_means(events, first_environment, stop_environment, baseline, k, hessian):
    """hessian −= Σ_j d_j m_j m_j', m_j the mean of the columns over those at risk. On the diagonal, where a column
    hardly varies among them: minus what rounding may hide."""
    sums = baseline.sums
    for j in range(events.shape[1]):
        d = 0.0
        for e in range(first_environment, stop_environment):
            d += events[e, j]
        share = baseline.hazard[j] / np.sqrt(d) if d > 0.0 else 0.0
        for a in range(k):
            sums[j, a] *= share
    for a in range(k):
        whole = hessian[a, a]
        for j in range(events.shape[1]):
            for b in range(a + 1):
                hessian[a, b] -= sums[j, a] * sums[j, b]
        if hessian[a, a] < _CONSTANT * whole:
            hessian[a, a] = -_CONSTANT * whole


@kernel(**UNCOUNTED)
def _set_clock(rows, baseline):
    """What the fits of each environment go by, from the hazards of steps; their unit does not matter."""
    steps, firsts = rows.spans.steps, rows.spans.firsts
    for e in range(rows.starts.size - 1):
        baseline.shape[e] = 0.0
        for j in range(firsts.size - 1):
            before = 0.0
            for s in range(firsts[j], firsts[j + 1]):
                hazard = baseline.hazard[s]
                if steps.events[e, s] > 0.0:
                    baseline.shape[e] += steps.events[e, s] * np.log(hazard)
                _elapsed(rows.weight, steps.starts[e, s], steps.starts[e, s + 1], hazard, before, baseline.clock)
                before += rows.spans.widths[e, s] * hazard
            baseline.lengths[e, j] = before


@kernel(**UNCOUNTED)
def evaluate_piecewise(rows, first_environment, stop_environment, members, k, theta, curved, work):
    """As `evaluate`, which has set what is summed up to 0. All environments, which have a hazard for each step, leave
    their hazards as a clock to the fits of each, which have one for each interval. by_environment: each under the
    hazards of all of these."""
    baseline = work.baseline
    # widths (E, J); weight (N,): of the interval where a row ends.
    intervals, widths, weight = rows.spans.steps, rows.spans.widths, rows.weight
    whole = stop_environment - first_environment == rows.starts.size - 1
    if not whole:
        if baseline.behind[0]:
            _set_clock(rows, baseline)
        intervals, widths, weight = rows.spans.intervals, baseline.lengths, baseline.clock
    baseline.behind[0] = whole
    outcome, risk = rows.outcome, work.eta
    columns = rows.own.columns if stop_environment - first_environment == 1 and rows.own.columns.size else rows.columns
    starts, events, n_intervals = intervals.starts, intervals.events, widths.shape[1]
    first_row, last_row = rows.starts[first_environment], rows.starts[stop_environment]
    for first in range(first_row, last_row, BLOCK):
        n, eta = min(first + BLOCK, last_row) - first, work.eta[first:]
        for i in range(n):
            eta[i] = 0.0
        add_predictor(columns, members, k, theta, first, n, eta)
    highest = _largest(work.eta, first_row, last_row)
    for e in range(first_environment, stop_environment):
        work.by_environment[e] = _relative_risks(outcome, rows.starts[e], rows.starts[e + 1], highest, risk)
        _add_up_risks(risk, weight, starts[e], widths[e], baseline.at_risk[e])
    _set_hazards(events, first_environment, stop_environment, highest, baseline)
    if curved:
        baseline.sums[:n_intervals, :k] = 0.0
    total = 0.0
    for e in range(first_environment, stop_environment):
        for j in range(n_intervals):
            work.by_environment[e] -= baseline.at_risk[e, j] * baseline.hazard[j]
            if events[e, j] > 0.0:
                work.by_environment[e] += events[e, j] * baseline.log_hazard[j]
        _expect(outcome, risk, weight, starts[e], widths[e], baseline.hazard, work.residual, work.curvature)
        if not whole:
            work.by_environment[e] += baseline.shape[e]
        total += work.by_environment[e]
        if curved:
            _add_column_sums(columns, members, k, risk, weight, starts[e], widths[e], baseline.sums)
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            add_score(columns, members, k, first, n, work.residual[first:], work.score)
            if curved:
                add_hessian(columns, members, k, first, n, work.curvature[first:], work.scaled, work.hessian)
    if curved:
        _subtract_means(events, first_environment, stop_environment, baseline, k, work.hessian)
    return total
