"""Log-likelihoods with their first and second derivatives, over the rows of some environments."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers, Mask
from .compiled import NO, UNCOUNTED, YES, ZERO, kernel
from .elementary import exponential, logarithm

REORDERED = {"reassoc", "contract", "nsz"}

# Indices that might be negative would have to be looked at one by one.
unsigned = np.uint64


@kernel(fastmath=REORDERED)
def fill_predictor(columns, members, k, theta, first, n, eta):
    """eta[:n] = Σ_a theta[a]·columns[members[a], first : first + n] over the first k members, four
    at a time, so that eta is loaded and stored less often"""
    first = unsigned(first)
    n = unsigned(n)
    a = 0
    for i in range(n):
        eta[i] = 0.0
    while a + 4 <= k:
        c0 = members[a]
        c1 = members[a + 1]
        c2 = members[a + 2]
        c3 = members[a + 3]
        s0 = theta[a]
        s1 = theta[a + 1]
        s2 = theta[a + 2]
        s3 = theta[a + 3]
        for i in range(n):
            at = first + i
            eta[i] += (
                s0 * columns[c0, at]
                + s1 * columns[c1, at]
                + s2 * columns[c2, at]
                + s3 * columns[c3, at]
            )
        a += 4
    while a < k:
        c0 = members[a]
        s0 = theta[a]
        for i in range(n):
            eta[i] += s0 * columns[c0, first + i]
        a += 1


@kernel(fastmath=REORDERED, forceinline=True)
def add_score(columns, members, k, first, n, residual, score):
    """score += X'residual over n rows, X the first k members; four at a time, so that what is
    loaded of a row serves several sums"""
    first = unsigned(first)
    n = unsigned(n)
    a = 0
    while a + 4 <= k:
        c0 = members[a]
        c1 = members[a + 1]
        c2 = members[a + 2]
        c3 = members[a + 3]
        t0 = 0.0
        t1 = 0.0
        t2 = 0.0
        t3 = 0.0
        for i in range(n):
            value = residual[i]
            at = first + i
            t0 += value * columns[c0, at]
            t1 += value * columns[c1, at]
            t2 += value * columns[c2, at]
            t3 += value * columns[c3, at]
        score[a] += t0
        score[a + 1] += t1
        score[a + 2] += t2
        score[a + 3] += t3
        a += 4
    while a < k:
        c0 = members[a]
        t0 = 0.0
        for i in range(n):
            t0 += columns[c0, first + i] * residual[i]
        score[a] += t0
        a += 1


@kernel(fastmath=REORDERED)
def add_hessian(columns, members, k, first, n, curvature, scaled, hessian):
    """hessian += X'·curvature·X over n rows, in its lower triangle"""
    first = unsigned(first)
    n = unsigned(n)
    for a in range(k):
        c = members[a]
        for i in range(n):
            scaled[i] = curvature[i] * columns[c, first + i]
        add_score(columns, members, a + 1, first, n, scaled, hessian[a])


# Of log rates: third powers of means are finite then.
_FARTHEST = 200.0
# Where all α·μ are below this, what divides by powers of α has lost digits, and series are used.
_NEARLY_POISSON = 0.03


class Counts(NamedTuple):
    """What counts have beside rows. exposure (N,); centre: a mean count; scale: see φ; limit: the
    largest φ; pieces (E, P, D): log-likelihood of each environment, if all its rows had the mean
    `centre`, by φ: in each of P equal pieces up to `limit` a polynomial of what goes from -1 to 1
    there, the highest power first"""

    exposure: Floats
    centre: float
    scale: float
    limit: float
    pieces: Floats


NO_COUNTS = Counts(np.empty(0), 1.0, 1.0, 1.0, np.empty((0, 0, 0)))


@kernel
def dispersion_of(phi, scale):
    return np.expm1(phi) / scale


@kernel(fastmath=REORDERED)
def _means(exposure, first, n, eta, mean):
    """Fill mean (n,) and bound eta (n,), so that both are finite; returns the sum of squares of the
    means, which compilers find faster than the largest"""
    squares = 0.0
    first = unsigned(first)
    n = unsigned(n)
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


@kernel(fastmath=REORDERED, inline="always")
def _powers(alpha, mean, near):
    """1/(1 + m) and log(1 + m)/m, (log(1 + m) − v)/m², (2·log(1 + m) − 2v − v²)/m³ of m = α·mean, v
    = m/(1 + m)"""
    m = alpha * mean
    u = 1.0 / (1.0 + m)
    if near:
        third = _third(m)
        second = 0.5 * (m * third + u * u)
        return u, m * second + u, second, third
    over = 1.0 / m
    first = logarithm(1.0 + m) * over
    second = (first - u) * over
    return u, first, second, (2.0 * second - u * u) * over


@kernel(fastmath=REORDERED)
def _add_rows(outcome, weight, first, n, alpha, centre, near, eta, mean, curvature):
    """As `negative_binomial_terms`, whether α·means and α·centre are near 0; mean (n,) becomes the
    residual."""
    total = 0.0
    slope = 0.0
    bend = 0.0
    log_centre = np.log(centre)
    uc, first_c, second_c, third_c = _powers(alpha, centre, near)
    c1 = centre * first_c
    c2 = centre**2 * second_c
    c3 = centre**3 * third_c
    r_c = centre * uc
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        y = outcome[first + i]
        w = weight[first + i]
        mu = mean[i]
        u, t1, t2, t3 = _powers(alpha, mu, near)
        r = mu * u
        total += y * (eta[i] - log_centre) - (alpha * y + w) * (mu * t1 - c1)
        slope += w * (mu * mu * t2 - c2) - y * (r - r_c)
        bend += y * (r * r - r_c * r_c) - w * (mu * mu * mu * t3 - c3)
        residual = (y - w * mu) * u
        mean[i] = residual
        curvature[i] = r * u * (w + alpha * y)
        eta[i] = residual * r
    return total, slope, bend


@kernel(fastmath=REORDERED)
def _pull(pseudo, first, n, eta, mean, pulled):
    """Log-likelihood of pseudo-data of these rows, as of Poisson counts; fills pulled (n,): their
    expected counts."""
    total = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        pulled[i] = pseudo.weight[first + i] * mean[i]
        total += pseudo.outcome[first + i] * eta[i] - pulled[i]
    return total


@kernel(fastmath=REORDERED)
def _add_pull(pseudo, first, n, pulled, residual, curvature):
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        residual[i] += pseudo.outcome[first + i] - pulled[i]
        curvature[i] += pulled[i]


@kernel
def negative_binomial_terms(rows, work, owned, first, n, phi):
    """By how much the log-likelihood of rows with log rates eta (n,) is above that of the same rows
    at the mean `centre`, with its first and second derivative by α. Fills its derivative and minus
    its second derivative by eta, and eta itself with minus the derivative by eta and α. owned: with
    pseudo-data"""
    eta = work.eta
    residual = work.residual
    curvature = work.curvature
    outcome = rows.outcome
    weight = rows.weight
    alpha = dispersion_of(phi, rows.counts.scale)
    centre = rows.counts.centre
    more = 0.0
    squares = _means(rows.counts.exposure, first, n, eta, residual)
    if owned:
        more = _pull(work.pseudo, first, n, eta, residual, work.scaled)
    if alpha * np.sqrt(squares + centre**2) < _NEARLY_POISSON:
        total, slope, bend = _add_rows(
            outcome, weight, first, n, alpha, centre, YES, eta, residual, curvature
        )
    else:
        total, slope, bend = _add_rows(
            outcome, weight, first, n, alpha, centre, NO, eta, residual, curvature
        )
    if owned:
        _add_pull(work.pseudo, first, n, work.scaled, residual, curvature)
    return total + more, slope, bend


@kernel
def at_centre(counts, e, phi):
    """Log-likelihood of an environment whose rows all have the mean `centre`, with first and second
    derivative by φ."""
    n_pieces, n_coefficients = counts.pieces.shape[1:]
    half = 0.5 * counts.limit / n_pieces
    j = min(int(0.5 * phi / half), n_pieces - 1)
    t = phi / half - (2 * j + 1)
    value = 0.0
    slope = 0.0
    bend = 0.0
    for d in range(n_coefficients):
        bend = bend * t + 2.0 * slope
        slope = slope * t + value
        value = value * t + counts.pieces[e, j, d]
    return value, slope / half, bend / half**2


@kernel(inline="always")
def end_of(first_environment, stop_environment, n_environments):
    """Where a range of environments ends that goes on with the first after the last, if it stops
    before it begins"""
    return (
        stop_environment + n_environments
        if stop_environment < first_environment
        else stop_environment
    )


@kernel
def add_dispersion(
    counts, first_environment, stop_environment, slope, bend, curved, theta, n, work
):
    """The parts of score and hessian that belong to φ = theta[n - 1]: slope, bend are the
    derivatives by α of the rows' terms, and the last row of hessian has minus those by slopes and
    α. Where φ is at a limit that the likelihood would have it pass they are 0. Fills by_environment
    up to what rows add; returns its sum."""
    last = n - 1
    phi = theta[last]
    step = np.exp(theta[last]) / counts.scale
    score = step * slope
    information = -step * (step * bend + slope)
    total = 0.0
    n_environments = counts.pieces.shape[0]
    for place in range(
        first_environment, end_of(first_environment, stop_environment, n_environments)
    ):
        e = place % n_environments
        value, own_slope, own_bend = at_centre(counts, e, phi)
        if curved:
            work.cross[e, last] *= step
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


LOGISTIC, POISSON, NEGATIVE_BINOMIAL, PIECEWISE_EXPONENTIAL = range(4)


class Intervals(NamedTuple):
    """Of time, J of them. starts (E, J + 1): rows of environment e that end in interval j are
    starts[e, j]:starts[e, j + 1]; events (E, J): with those of the pseudo-data."""

    starts: Integers
    events: Floats


class Spans(NamedTuple):
    """How time is divided. steps: S of them, in each of which the pooled hazard is constant; widths
    (E, S): their lengths, as often as the rows of the environment count; intervals: J of them, in
    each of which an environment's own hazard is the pooled one times a constant; firsts (J + 1,):
    steps of interval j are firsts[j]:firsts[j + 1]."""

    steps: Intervals
    widths: Floats
    intervals: Intervals
    firsts: Integers


_NONE = Intervals(np.zeros((0, 1), np.int64), np.zeros((0, 0)))
NO_SPANS = Spans(_NONE, np.zeros((0, 0)), _NONE, np.zeros(1, np.int64))


class Own(NamedTuple):
    """Columns as an environment's own fits take them. columns (q, N): centred and scaled within
    each environment, 0 where they do not vary there. A column of `Rows` is shift + ratio · this one
    (E, q)."""

    columns: Floats
    shift: Floats
    ratio: Floats


NO_OWN = Own(np.zeros((0, 0)), np.zeros((0, 0)), np.zeros((0, 0)))
NO_SHARES = np.zeros(0)


class Rows(NamedTuple):
    """N rows, those of an environment one after the other, with what each environment owns of
    pseudo-data.

    columns (q, N): centred and scaled; where the model has an intercept, column 0 is 1. starts (E +
    1,): environment e is rows starts[e]:starts[e + 1]. outcome (N,): Σ of the outcome of a row and
    its pseudo-data; weight (N,): how much the row counts, times its exposure: for times to an
    event, how long it is watched in the step where it ends; for a negative binomial without
    exposure, which is in counts. own: without it an environment's fits take `columns` too. shares
    (E,): how often each row counts as pseudo-data in fits of some environments, whose outcome is
    then what the pooled fit expects; none where it is empty. free: fits of several environments
    have a baseline for each, which is maximised out; column 0, if that is 1, then is no parameter
    of theirs.
    """

    family: int
    columns: Floats
    starts: Integers
    outcome: Floats
    weight: Floats
    counts: Counts = NO_COUNTS
    spans: Spans = NO_SPANS
    own: Own = NO_OWN
    shares: Floats = NO_SHARES
    free: bool = False


def aligned(values: Floats) -> Floats:
    """A copy that begins with a cache line: loops over vectors that lie across two take a fifth
    longer."""
    room = np.empty(values.size + 7)
    first = -room.ctypes.data % 64 // 8
    copy = room[first : first + values.size].reshape(values.shape)
    copy[...] = values
    return copy


def with_columns(rows: Rows, kept: Integers) -> Rows:
    """The same rows with these columns alone, in this order."""
    shift, ratio = (np.take(part, kept, axis=1) for part in (rows.own.shift, rows.own.ratio))
    return rows._replace(
        columns=aligned(rows.columns[kept]), own=Own(aligned(rows.own.columns[kept]), shift, ratio)
    )


@kernel(inline="always")
def is_whole(rows, first_environment, stop_environment):
    return stop_environment - first_environment == rows.starts.size - 1


@kernel(inline="always")
def columns_for(rows, first_environment, stop_environment):
    """A single environment's own columns, where there are any"""
    return (
        rows.own.columns
        if stop_environment - first_environment == 1 and rows.own.columns.size
        else rows.columns
    )


class Baseline(NamedTuple):
    """What evaluations of hazards write on, of S steps or of J intervals, the first J then. at_risk
    (E, S): Σ of time · relative risk; log_hazard, hazard (S,): the latter of the rows with the
    largest relative risk; sums (K, S): of time · relative risk · columns.

    The last evaluation of all environments leaves what the fits of each go by: clock (N,): its
    cumulative hazard from where the last interval of a row begins; lengths (E, J): of the intervals
    on this clock; shape (E,): Σ of the log hazards at events; behind (1,): whether these are still
    to be found from the hazards."""

    at_risk: Floats
    log_hazard: Floats
    hazard: Floats
    sums: Floats
    clock: Floats
    lengths: Floats
    shape: Floats
    behind: Mask


class Pseudo(NamedTuple):
    """Outcome and weight (N,) of rows in fits of some environments, with pseudo-data at the pooled
    fit; of a negative binomial, of the pseudo-data alone; none where there are no shares."""

    outcome: Floats
    weight: Floats


class Work(NamedTuple):
    """What an evaluation and a maximisation write on. eta, residual, curvature, scaled: of a block
    of rows, or of all where there are intervals; score, step, origin (K,), hessian (K, K);
    by_environment (E,): log-likelihoods of the environments at the last evaluation; reached, own
    (E,): those of the pooled fit and of the environment's own, with pseudo-data. Where environments
    have levels of their own: levels (E,), at the last evaluation of several of them; cross (E, K):
    minus their derivatives by the other parameters there, and in column 0 minus the second
    derivative by the level itself."""

    eta: Floats
    residual: Floats
    curvature: Floats
    scaled: Floats
    score: Floats
    step: Floats
    origin: Floats
    hessian: Floats
    by_environment: Floats
    reached: Floats
    own: Floats
    baseline: Baseline
    pseudo: Pseudo
    levels: Floats
    cross: Floats


BLOCK = 512


def work_for(rows: Rows, most_parameters: int) -> Work:
    """Of fits with at most so many parameters."""
    k = max(most_parameters, 1)
    n_environments = len(rows.starts) - 1
    n_rows = len(rows.outcome)
    n_steps = rows.spans.widths.shape[1]
    n_intervals = rows.spans.firsts.size - 1
    length = max(n_rows if n_steps else int(np.diff(rows.starts).max()) if rows.free else 0, BLOCK)
    clock = np.empty(n_rows if n_steps else 0)
    lengths = np.empty((n_environments, n_intervals))
    at_risk = np.empty((n_environments, n_steps))
    hazards = np.empty((2, n_steps))
    sums = np.empty((k, n_steps))
    shape = np.empty(n_environments)
    behind = np.ones(1, dtype=bool)
    baseline = Baseline(at_risk, hazards[0], hazards[1], sums, clock, lengths, shape, behind)
    of_rows = np.empty((4, length))
    of_parameters = np.empty((3, k))
    by_environment = np.empty((3, n_environments))
    pseudo = Pseudo(*aligned(np.empty((2, n_rows if rows.shares.size else 0))))
    levels = np.zeros(n_environments)
    cross = np.empty((n_environments, k))
    return Work._make(
        [
            *aligned(of_rows),
            *of_parameters,
            np.empty((k, k)),
            *by_environment,
            baseline,
            pseudo,
            levels,
            cross,
        ]
    )


# A column of which less than this share is left when its means over the rows at risk are taken out
# is constant.
_CONSTANT = 1e-10
# Logarithm of the least risk beside the largest: products with times and their inverses are finite.
_LEAST = -600.0


@kernel(fastmath={"nnan", "nsz"})
def _largest(values, first, stop):
    largest = -np.inf
    for i in range(unsigned(first), unsigned(stop)):
        largest = max(largest, values[i])
    return largest


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
    """at_risk (J,) += Σ_i Δ_ij·risk_i over the rows of an environment"""
    later = 0.0
    for j in range(widths.size - 1, -1, -1):
        whole = 0.0
        last = 0.0
        for i in range(unsigned(starts[j]), unsigned(starts[j + 1])):
            whole += risk[i]
            last += weight[i] * risk[i]
        at_risk[j] += last + widths[j] * later
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


@kernel(**UNCOUNTED)
def _set_hazards(events, first_environment, stop_environment, highest, baseline):
    """The likeliest hazards of these environments together."""
    n_environments = events.shape[0]
    for j in range(events.shape[1]):
        d = 0.0
        total = 0.0
        for place in range(
            first_environment, end_of(first_environment, stop_environment, n_environments)
        ):
            e = place % n_environments
            d += events[e, j]
            total += baseline.at_risk[e, j]
        baseline.hazard[j] = d / total if d > 0.0 else 0.0
        baseline.log_hazard[j] = np.log(baseline.hazard[j]) - highest if d > 0.0 else -np.inf


@kernel(**UNCOUNTED)
def _subtract_means(events, first_environment, stop_environment, baseline, k, hessian):
    """hessian −= Σ_j d_j m_j m_j', m_j the mean of the columns over those at risk. On the diagonal,
    where a column hardly varies among them: minus what rounding may hide."""
    sums = baseline.sums
    for j in range(events.shape[1]):
        d = 0.0
        for place in range(
            first_environment, end_of(first_environment, stop_environment, events.shape[0])
        ):
            d += events[place % events.shape[0], j]
        share = baseline.hazard[j] / np.sqrt(d) if d > 0.0 else 0.0
        for a in range(k):
            sums[a, j] *= share
    for a in range(k):
        whole = hessian[a, a]
        for b in range(a + 1):
            for j in range(events.shape[1]):
                hessian[a, b] -= sums[a, j] * sums[b, j]
        if hessian[a, a] < _CONSTANT * whole:
            hessian[a, a] = -_CONSTANT * whole


@kernel(**UNCOUNTED)
def _set_clock(rows, baseline):
    """What the fits of each environment go by, from the hazards of steps; their unit does not
    matter."""
    steps = rows.spans.steps
    firsts = rows.spans.firsts
    for e in range(rows.starts.size - 1):
        baseline.shape[e] = 0.0
        for j in range(firsts.size - 1):
            before = 0.0
            for s in range(firsts[j], firsts[j + 1]):
                hazard = baseline.hazard[s]
                if steps.events[e, s] > 0.0:
                    baseline.shape[e] += steps.events[e, s] * np.log(hazard)
                for i in range(unsigned(steps.starts[e, s]), unsigned(steps.starts[e, s + 1])):
                    baseline.clock[i] = before + rows.weight[i] * hazard
                before += rows.spans.widths[e, s] * hazard
            baseline.lengths[e, j] = before


@kernel(**UNCOUNTED)
def evaluate_piecewise(rows, first_environment, stop_environment, members, k, theta, curved, work):
    """As `evaluate`, which has set what is summed up to 0."""
    columns = columns_for(rows, first_environment, stop_environment)
    if not rows.free:
        return _evaluate_together(
            rows, first_environment, stop_environment, columns, members, k, theta, curved, work
        )
    total = 0.0
    n_environments = rows.starts.size - 1
    for place in range(
        first_environment, end_of(first_environment, stop_environment, n_environments)
    ):
        e = place % n_environments
        total += _evaluate_together(rows, e, e + 1, columns, members, k, theta, curved, work)
    return total


@kernel(**UNCOUNTED)
def _evaluate_together(
    rows, first_environment, stop_environment, columns, members, k, theta, curved, work
):
    """Of environments with the same hazards. All environments, which have one for each step, leave
    theirs as a clock to the fits of each, which have one for each interval, or for each step if
    baselines are free. by_environment: each under the hazards of all of these."""
    baseline = work.baseline
    # widths (E, J); weight (N,): of the interval where a row ends.
    intervals = rows.spans.steps
    widths = rows.spans.widths
    weight = rows.weight
    n_environments = rows.starts.size - 1
    whole = is_whole(rows, first_environment, stop_environment)
    end = end_of(first_environment, stop_environment, n_environments)
    by_clock = not (whole or rows.free)
    if by_clock:
        if baseline.behind[0]:
            _set_clock(rows, baseline)
        intervals = rows.spans.intervals
        widths = baseline.lengths
        weight = baseline.clock
    baseline.behind[0] = whole
    outcome = rows.outcome
    risk = work.eta
    starts = intervals.starts
    events = intervals.events
    n_intervals = widths.shape[1]
    highest = -np.inf
    for place in range(first_environment, end):
        e = place % n_environments
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            fill_predictor(columns, members, k, theta, first, n, work.eta[first:])
        highest = max(highest, _largest(work.eta, rows.starts[e], rows.starts[e + 1]))
    for place in range(first_environment, end):
        e = place % n_environments
        work.by_environment[e] = _relative_risks(
            outcome, rows.starts[e], rows.starts[e + 1], highest, risk
        )
        baseline.at_risk[e, :n_intervals] = 0.0
        _add_up_risks(risk, weight, starts[e], widths[e], baseline.at_risk[e])
    _set_hazards(events, first_environment, stop_environment, highest, baseline)
    if curved:
        baseline.sums[:k, :n_intervals] = 0.0
    total = 0.0
    for place in range(first_environment, end):
        e = place % n_environments
        for j in range(n_intervals):
            work.by_environment[e] -= baseline.at_risk[e, j] * baseline.hazard[j]
            if events[e, j] > 0.0:
                work.by_environment[e] += events[e, j] * baseline.log_hazard[j]
        _expect(
            outcome,
            risk,
            weight,
            starts[e],
            widths[e],
            baseline.hazard,
            work.residual,
            work.curvature,
        )
        if by_clock:
            work.by_environment[e] += baseline.shape[e]
        total += work.by_environment[e]
        if curved:
            for a in range(k):
                column = columns[members[a]]
                for i in range(unsigned(rows.starts[e]), unsigned(rows.starts[e + 1])):
                    work.scaled[i] = column[i] * risk[i]
                _add_up_risks(work.scaled, weight, starts[e], widths[e], baseline.sums[a])
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            add_score(columns, members, k, first, n, work.residual[first:], work.score)
            if curved:
                add_hessian(
                    columns, members, k, first, n, work.curvature[first:], work.scaled, work.hessian
                )
    if curved:
        _subtract_means(events, first_environment, stop_environment, baseline, k, work.hessian)
    return total


@kernel(fastmath=REORDERED)
def logistic_terms(outcome, weight, first, n, eta, residual, curvature):
    """Log-likelihood of rows with log odds eta (n,), its derivative and minus its second derivative
    by eta."""
    total = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        shrunk = exponential(-abs(eta[i]))
        inverse = 1.0 / (1.0 + shrunk)
        chance = inverse if eta[i] >= 0.0 else shrunk * inverse
        w = weight[first + i]
        total += outcome[first + i] * eta[i] - w * max(eta[i], 0.0)
        residual[i] = outcome[first + i] - w * chance
        curvature[i] = w * shrunk * inverse * inverse
        eta[i] = 1.0 + shrunk
    # Rows of one environment weigh the same; a block lies in one, and 2**BLOCK is below the largest
    # float.
    product = 1.0
    for i in range(n):
        product *= eta[i]
    return total - weight[first] * np.log(product)


@kernel(fastmath=REORDERED)
def poisson_terms(outcome, weight, first, n, eta, residual, curvature):
    """As `logistic_terms`, for counts with mean weight·e**eta, up to a constant."""
    total = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        mean = weight[first + i] * exponential(eta[i])
        total += outcome[first + i] * eta[i] - mean
        residual[i] = outcome[first + i] - mean
        curvature[i] = mean
    return total


@kernel(inline="always")
def has_levels(rows):
    """Whether fits of several environments have an intercept for each that is maximised out"""
    return rows.free and rows.family != PIECEWISE_EXPONENTIAL


# Events that an environment has at least, and lacks at least, as a share of its rows: its level is
# finite then.
_FEWEST = 1e-12
# Changes of a level: the largest of one step, and one after which no other is needed.
_LARGEST_CHANGE = 20.0
_SMALLEST_CHANGE = 1e-8
_MOST_CHANGES = 100
# Rows count as decided whose log odds are farther from the level where a search begins; it begins
# again where it ends half as far away.
_DECIDED = 600.0
_MOST_SEARCHES = 20


@kernel(fastmath=REORDERED)
def _odds(exposure, first, n, eta):
    """eta (n,) becomes the odds, or the means, that it stands for; exposure: none where it is
    empty"""
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        eta[i] = exponential(min(max(eta[i], -_DECIDED), _DECIDED))
    if exposure.size:
        for i in range(n):
            eta[i] *= exposure[first + i]


@kernel(fastmath=REORDERED)
def _event_sums(outcome, weight, first, n, alpha, slopes):
    """Σ outcome and Σ weight; fills slopes (n,): outcome·α + weight"""
    events = 0.0
    whole = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        events += outcome[first + i]
        whole += weight[first + i]
        slopes[i] = weight[first + i] + alpha * outcome[first + i]
    return events, whole


@kernel(fastmath=REORDERED)
def _expected_events(odds, weight, first, n, factor, alpha):
    """Σ weight·m/(1 + αm) over means m = factor·odds, and its derivative by log(factor)"""
    total = 0.0
    slope = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        m = factor * odds[i]
        u = 1.0 / (1.0 + alpha * m)
        value = weight[first + i] * m * u
        total += value
        slope += value * u
    return total, slope


@kernel(**UNCOUNTED)
def _find_level(odds, slopes, events, alpha, pseudo, first, n):
    """log(factor) at which as many events are expected as there are, by Newton's method on their
    logarithm; pseudo: the weights of rows that count as Poisson counts besides, none where it is
    empty"""
    level = 0.0
    low = -np.inf
    high = np.inf
    for _ in range(_MOST_CHANGES):
        factor = np.exp(level)
        expected, slope = _expected_events(odds, slopes, ZERO, n, factor, alpha)
        if pseudo.size:
            more, steeper = _expected_events(odds, pseudo, first, n, factor, 0.0)
            expected = expected + more
            slope = slope + steeper
        if expected < events:
            low = level
        else:
            high = level
        change = np.log(events / expected) * expected / slope
        if abs(change) < _SMALLEST_CHANGE:
            return level + change
        if not abs(change) < np.inf:
            break
        level += min(max(change, -_LARGEST_CHANGE), _LARGEST_CHANGE)
        if not low < level < high and high - low < np.inf:
            level = 0.5 * (low + high)
    return level


@kernel(**UNCOUNTED)
def likeliest_level(rows, e, owned, outcome, weight, members, k, theta, phi, work):
    """The intercept of environment e that is likeliest with these slopes; the search goes on from
    the one before. theta[0] is overwritten."""
    first = rows.starts[e]
    n = rows.starts[e + 1] - rows.starts[e]
    odds = work.eta
    slopes = work.residual
    pseudo = weight[:0]
    scatter = 0.0
    if rows.family == NEGATIVE_BINOMIAL:
        scatter = dispersion_of(phi, rows.counts.scale)
    events, whole = _event_sums(outcome, weight, first, n, scatter, slopes)
    if rows.family == NEGATIVE_BINOMIAL and owned:
        pseudo = work.pseudo.weight
        events += _event_sums(work.pseudo.outcome, pseudo, first, n, 0.0, work.scaled)[0]
    events = max(events, _FEWEST * whole)
    if rows.family == LOGISTIC:
        events = min(events, (1.0 - _FEWEST) * whole)
    alpha = 1.0 if rows.family == LOGISTIC else scatter
    theta[0] = work.levels[e]
    for _ in range(_MOST_SEARCHES):
        for start in range(0, n, BLOCK):
            fill_predictor(
                rows.columns, members, k, theta, first + start, min(BLOCK, n - start), odds[start:]
            )
        _odds(rows.counts.exposure, first, n, odds)
        change = _find_level(odds, slopes, events, alpha, pseudo, first, n)
        theta[0] += change
        if abs(change) < 0.5 * _DECIDED:
            break
    return theta[0]


@kernel(**UNCOUNTED)
def _take_level_out(e, k, n_parameters, work):
    """Score and second derivatives of the other parameters once the level of environment e follows
    them. On the diagonal, where a column hardly varies: minus what rounding may hide. Returns what
    the level takes of the second derivative by a parameter without a column."""
    hessian = work.hessian
    score = work.score
    cross = work.cross
    taken = 0.0
    curvature = hessian[0, 0]
    cross[e, 0] = curvature
    for a in range(1, n_parameters):
        share = hessian[a, 0] / curvature if curvature > 0.0 else 0.0
        whole = hessian[a, a]
        cross[e, a] = share
        score[a] -= share * score[0]
        for b in range(1, a + 1):
            hessian[a, b] -= share * hessian[b, 0]
        if a >= k:
            taken = share * hessian[a, 0]
        elif hessian[a, a] < _CONSTANT * whole:
            hessian[a, a] = -_CONSTANT * whole
    score[0] = 0.0
    for a in range(n_parameters):
        hessian[a, 0] = 0.0
    return taken


@kernel(**UNCOUNTED)
def evaluate(
    rows, first_environment, stop_environment, members, k, theta, n_parameters, curved, work
):
    """Log-likelihood of the rows of these environments, with their pseudo-data if they are not all;
    fills score, by_environment and, if `curved`, the lower triangle of hessian, minus the second
    derivatives. theta: slopes of the first k of members, then what else the model has, n_parameters
    in all. A range that stops before it begins goes on with the first environment after the last.
    Where several environments have levels of their own, these are the likeliest; theta[0] is
    overwritten then, and stands for no parameter."""
    for a in range(n_parameters):
        work.score[a] = 0.0
    if curved:
        for a in range(n_parameters):
            for b in range(a + 1):
                work.hessian[a, b] = 0.0
    if rows.family == PIECEWISE_EXPONENTIAL:
        return evaluate_piecewise(
            rows, first_environment, stop_environment, members, k, theta, curved, work
        )
    outcome = rows.outcome
    weight = rows.weight
    eta = work.eta
    n_environments = rows.starts.size - 1
    columns = columns_for(rows, first_environment, stop_environment)
    total = 0.0
    slope = 0.0
    bend = 0.0
    owned = rows.shares.size > 0 and not is_whole(rows, first_environment, stop_environment)
    if owned and rows.family != NEGATIVE_BINOMIAL:
        outcome = work.pseudo.outcome
        weight = work.pseudo.weight
    levelled = has_levels(rows) and stop_environment - first_environment != 1
    for place in range(
        first_environment, end_of(first_environment, stop_environment, n_environments)
    ):
        e = place % n_environments
        own = 0.0
        if levelled:
            phi = theta[n_parameters - 1]
            theta[0] = likeliest_level(
                rows, e, owned, outcome, weight, members, k, theta, phi, work
            )
            work.levels[e] = theta[0]
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            fill_predictor(columns, members, k, theta, first, n, eta)
            if rows.family == LOGISTIC:
                own += logistic_terms(outcome, weight, first, n, eta, work.residual, work.curvature)
            elif rows.family == POISSON:
                own += poisson_terms(outcome, weight, first, n, eta, work.residual, work.curvature)
            elif rows.family == NEGATIVE_BINOMIAL:
                more, by_alpha, twice = negative_binomial_terms(
                    rows, work, owned, first, n, theta[k]
                )
                own = own + more
                slope = slope + by_alpha
                bend = bend + twice
                if curved:
                    add_score(columns, members, k, first, n, eta, work.hessian[k])
            add_score(columns, members, k, first, n, work.residual, work.score)
            if curved:
                add_hessian(
                    columns, members, k, first, n, work.curvature, work.scaled, work.hessian
                )
        work.by_environment[e] = own
        total += own
        if levelled and curved:
            bend += _take_level_out(e, k, n_parameters, work)
    if levelled:
        work.score[0] = 0.0
        work.hessian[0, 0] = 1.0
    if rows.family == NEGATIVE_BINOMIAL:
        total += add_dispersion(
            rows.counts,
            first_environment,
            stop_environment,
            slope,
            bend,
            curved,
            theta,
            n_parameters,
            work,
        )
    return total


@kernel(fastmath=REORDERED)
def _place_poisson(outcome, weight, first, n, share, eta, pseudo):
    """As `place_pseudo_data`, of rows with log rates eta (n,)"""
    total = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        expected = share * weight[first + i] * exponential(eta[i])
        pseudo.weight[first + i] = (1.0 + share) * weight[first + i]
        pseudo.outcome[first + i] = outcome[first + i] + expected
        total += expected * (eta[i] - 1.0)
    return total


@kernel(fastmath=REORDERED)
def _place_negative_binomial(exposure, first, n, share, alpha, eta, mean, pseudo):
    """The same; mean: work space"""
    _means(exposure, first, n, eta, mean)
    total = 0.0
    first = unsigned(first)
    n = unsigned(n)
    for i in range(n):
        weight = share / (1.0 + alpha * mean[i])
        pseudo.weight[first + i] = weight
        pseudo.outcome[first + i] = weight * mean[i]
        total += weight * mean[i] * (eta[i] - 1.0)
    return total


@kernel(**UNCOUNTED)
def place_pseudo_data(rows, members, k, theta, work):
    """Pseudo-data of all rows with the outcomes that the pooled fit theta expects; a negative
    binomial's are Poisson counts that say as much of slopes, and nothing of the dispersion. Adds
    their log-likelihood to reached (E,) and returns it."""
    alpha = dispersion_of(theta[k], rows.counts.scale) if rows.family == NEGATIVE_BINOMIAL else 0.0
    total = 0.0
    for e in range(rows.shares.size):
        own = 0.0
        if has_levels(rows):
            theta[0] = work.levels[e]
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            fill_predictor(rows.columns, members, k, theta, first, n, work.eta)
            if rows.family == NEGATIVE_BINOMIAL:
                given = work.eta, work.residual, work.pseudo
                own += _place_negative_binomial(
                    rows.counts.exposure, first, n, rows.shares[e], alpha, *given
                )
            else:
                own += _place_poisson(
                    rows.outcome, rows.weight, first, n, rows.shares[e], work.eta, work.pseudo
                )
        work.reached[e] += own
        total += own
    return total
