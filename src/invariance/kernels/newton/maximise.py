"""The largest log-likelihood of one subset of columns in some environments, by Newton's method."""

import numpy as np

from ..compiled import kernel
from ..copying import copy_into
from ..typed import NO, YES, ZERO
from .columns import add_predictor
from .evaluation import evaluate
from .rows import BLOCK, PIECEWISE_EXPONENTIAL
from .uncounted import UNCOUNTED

# A column of which less than this share is left when the others are taken out is a combination of them.
DEPENDENT = 1e-12
# The likelihood need not be concave in parameters without a column: this share of a second derivative is always left.
_CONCAVE = 1e-3
_MOST_STEPS = 200
# Second derivatives are computed anew where a step promises more than this share of what the one before did, and after
# every step that promised so much.
_SLOW = 0.05
_FAR = 0.5
_MOST_HALVINGS = 40
# No linear predictor changes by more in a step that promises much, by twice as much after each that gains: beyond the
# maximum, where few rows have all the weight, second derivatives may be lost to rounding.
_MOST_CHANGE = 8.0
# What a step promises, times the tolerance, up to where the step before may tell how certain that is.
_NEARLY_DONE = 4.0
# Share of a log-likelihood that rounding may hide: where a step promises less, Newton's is the last.
_ROUNDING = 1e-13
# A fit that cannot go on although more than this is left to gain, in nats, has failed.
_LEFT = 1e-2
# Where the second derivatives at a dispersion have it that none costs less than this, none is tried: there may be two
# maxima.
_NEARLY_NONE = 2.0
# Where there is none: shares of the largest that are tried, if the likelihood there, with the same slopes, is not lower
# by more than this.
_DISPERSIONS = (0.0, 0.15, 0.35)
_NEARLY_AS_GOOD = 4.0
# Fits to so small a tolerance, which are reported, try whatever the likelihood there is.
_CAREFUL = 1e-8
# A maximum that is higher by less is the same.
_HIGHER = 1e-6


@kernel
def invert(hessian, k, n, inverse):
    """inverse[:n, :n] of the matrix in the lower triangle of hessian, made positive definite from row k on; rows and
    columns that depend on earlier ones, or are 0, are 0. Returns how many do not, and those from k on."""
    for a in range(n):
        for b in range(a + 1):
            inverse[a, b] = hessian[a, b]
            inverse[b, a] = hessian[a, b]
    rank = 0
    for j in range(n):
        pivot = inverse[j, j]
        if j >= k:
            pivot = max(abs(pivot), _CONCAVE * abs(hessian[j, j]))
        if not pivot > DEPENDENT * hessian[j, j]:
            for a in range(n):
                inverse[a, j] = 0.0
                inverse[j, a] = 0.0
            rank += j >= k
            continue
        rank += 1
        for a in range(n):
            if a == j:
                continue
            factor = inverse[a, j] / pivot
            if factor != 0.0:
                for b in range(n):
                    if b != j:
                        inverse[a, b] -= factor * inverse[j, b]
            inverse[a, j] = -factor
        for b in range(n):
            if b != j:
                inverse[j, b] /= pivot
        inverse[j, j] = 1.0 / pivot
    return rank


@kernel
def newton_step(inverse, score, n, step):
    """step = inverse·score; returns the gain that it promises, ½·score·step."""
    promise = 0.0
    for a in range(n):
        total = 0.0
        for b in range(n):
            total += inverse[a, b] * score[b]
        step[a] = total
        promise += 0.5 * total * score[a]
    return promise


@kernel
def _bound(theta, k, n, limit):
    """Keep parameters without a column from 0 to limit."""
    for a in range(k, n):
        theta[a] = min(max(theta[a], 0.0), limit)


@kernel
def _move(theta, origin, share, step, k, n, limit):
    """theta = origin + share·step, within bounds"""
    for a in range(n):
        theta[a] = origin[a] + share * step[a]
    _bound(theta, k, n, limit)


@kernel
def _step_within(theta, inverse, score, k, n, limit, step):
    """As `newton_step`, for the best step that ends within bounds."""
    promise = newton_step(inverse, score, n, step)
    for a in range(k, n):
        beyond = theta[a] + step[a] - min(max(theta[a] + step[a], 0.0), limit)
        if beyond != 0.0 and inverse[a, a] > 0.0:
            share = beyond / inverse[a, a]
            promise -= 0.5 * beyond * share
            for b in range(n):
                step[b] -= inverse[b, a] * share
    return promise


@kernel
def _left_out(inverse, score, hessian, k):
    """The most that a slope alone promises of those that inverse leaves out. It is less than what the others promise
    where its column is a combination of theirs; where rounding hides the second derivative, which then is below 0, it
    promises at least this."""
    most = 0.0
    for a in range(k):
        if inverse[a, a] == 0.0 and hessian[a, a] != 0.0:
            most = max(most, 0.5 * score[a] * score[a] / abs(hessian[a, a]))
    return most


@kernel(**UNCOUNTED)
def _share_within(rows, first_environment, stop_environment, members, k, step, reach, work):
    """The share of a step of the slopes that changes no linear predictor by more than `reach`."""
    columns = rows.own.columns if stop_environment - first_environment == 1 and rows.own.columns.size else rows.columns
    eta, most = work.eta, 0.0
    for first in range(rows.starts[first_environment], rows.starts[stop_environment], BLOCK):
        n = min(first + BLOCK, rows.starts[stop_environment]) - first
        for i in range(n):
            eta[i] = 0.0
        add_predictor(columns, members, k, step, first, n, eta)
        for i in range(n):
            most = max(most, abs(eta[i]))
    return min(1.0, reach / most) if most > 0.0 else 1.0


@kernel
def _others_held(inverse, score, k, n):
    """Whether other parameters are held at a limit, where the score is 0, than when inverse was computed"""
    others = False
    for a in range(k, n):
        others |= (score[a] == 0.0) != (inverse[a, a] == 0.0)
    return others


@kernel
def _missed(promise, before, tolerance):
    """What a step gains more or less than it promises, after one that promised `before`: what that one left goes as the
    square of the error of the second derivatives. Where steps leave much, rows may be separated."""
    if not 0.0 < promise < min(_SLOW * before, _NEARLY_DONE * tolerance) or before == np.inf:
        return promise
    return promise * np.sqrt(promise / before)


@kernel(**UNCOUNTED)
def maximise(rows, first_environment, stop_environment, members, k, theta, n, inverse, inherited, tolerance, work):
    """Climb from theta, slopes of the first k of members and what else there is, n in all, until what another step
    promises, which is added, is certain to `tolerance`.

    inverse: of minus the second derivatives; inherited: it comes from a fit nearby, and serves until steps by it gain
    too little. theta and inverse are left for those who go on from here; by_environment is at theta before the last
    step. Returns the log-likelihood, NaN where the climb comes to no end, and the number of parameters that can be told
    apart.
    """
    step, origin, limit = work.step, work.origin, rows.counts.limit
    fresh, rank, before, promise = not inherited, n, np.inf, np.inf
    left, reach = max(_LEFT, 2.0 * tolerance), _MOST_CHANGE
    _bound(theta, k, n, limit)
    now = evaluate(rows, first_environment, stop_environment, members, k, theta, n, fresh, work)
    for _ in range(_MOST_STEPS):
        if not fresh and _others_held(inverse, work.score, k, n):
            fresh = YES
            now = evaluate(rows, first_environment, stop_environment, members, k, theta, n, fresh, work)
        if fresh:
            rank = invert(work.hessian, k, n, inverse)
        promise = _step_within(theta, inverse, work.score, k, n, limit, step)
        hidden = promise <= _ROUNDING * abs(now)
        done = not _missed(promise, before, tolerance) > tolerance
        if (done or (fresh and hidden)) and (fresh or promise >= 0.0):
            if _left_out(inverse, work.score, work.hessian, k) > left or np.isnan(now + promise):
                return np.nan, rank
            if promise > 0.0:
                now += promise
                _move(theta, theta, 1.0, step, k, n, limit)
            return now, rank
        if not fresh and (hidden or promise > _SLOW * before):
            fresh = YES
            now = evaluate(rows, first_environment, stop_environment, members, k, theta, n, fresh, work)
            continue
        before = promise
        for a in range(n):
            origin[a] = theta[a]
        far = fresh and promise > _FAR
        share, value = 1.0, -np.inf
        if far:
            share = _share_within(rows, first_environment, stop_environment, members, k, step, reach, work)
            reach *= 1.0 if share == 1.0 else 2.0
        for _ in range(_MOST_HALVINGS):
            _move(theta, origin, share, step, k, n, limit)
            value = evaluate(rows, first_environment, stop_environment, members, k, theta, n, far, work)
            if value >= now:
                break
            share *= 0.5
            reach = _MOST_CHANGE
        if not value >= now:
            # Rounding hides what is left to gain, unless the steps were another fit's.
            for a in range(n):
                theta[a] = origin[a]
            now = evaluate(rows, first_environment, stop_environment, members, k, theta, n, YES, work)
            if fresh:
                return now if promise < left else np.nan, invert(work.hessian, k, n, inverse)
            fresh = YES
            continue
        now, fresh = value, far
    return now if promise < left else np.nan, rank


@kernel
def _other_maximum(rows, first_environment, stop_environment, members, k, theta, n, inverse, value, tolerance, work):
    """Climb again from other dispersions, from 0 if theta has one, else from some above 0; where that ends higher than
    `value`, theta and inverse become those. Returns the highest, and the rank if it is another, else -1."""
    group, inside, rank = (first_environment, stop_environment), theta[k] > 0.0, -1
    other, other_inverse = np.empty(n), np.empty((n, n))
    for share in _DISPERSIONS:
        if inside == (share > 0.0):
            continue
        copy_into(other, theta)
        other[k] = share * rows.counts.limit
        if tolerance > _CAREFUL and not inside:
            there = evaluate(rows, group[0], group[1], members, k, other, n, NO, work)
            if there < value - _NEARLY_AS_GOOD:
                continue
        higher, its_rank = maximise(rows, group[0], group[1], members, k, other, n, other_inverse, NO, tolerance, work)
        if higher > value + _HIGHER or (np.isnan(value) and not np.isnan(higher)):
            value, rank = higher, its_rank
            copy_into(theta[:n], other)
            for a in range(n):
                copy_into(inverse[a, :n], other_inverse[a])
    evaluate(rows, group[0], group[1], members, k, theta, n, NO, work)
    return value, rank


@kernel(inline="always")
def fit_group(rows, first_environment, stop_environment, members, k, theta, n, inverse, inherited, tolerance, work):
    """As `maximise`; with a dispersion, the higher of two maxima, one of them at or near 0.

    Where the tolerance is not that of reported fits, the second is looked for only where it seems within reach: a walk
    over all subsets may rarely take the lower one.
    """
    group = first_environment, stop_environment
    value, rank = maximise(rows, group[0], group[1], members, k, theta, n, inverse, inherited, tolerance, work)
    if n == k or (tolerance > _CAREFUL and theta[k] ** 2 > 2.0 * _NEARLY_NONE * inverse[k, k]):
        return value, rank
    value, other_rank = _other_maximum(rows, group[0], group[1], members, k, theta, n, inverse, value, tolerance, work)
    return value, other_rank if other_rank >= 0 else rank


@kernel
def without_parameter(theta, inverse, n, j):
    """The best theta (n,) with theta[j] = 0, by the quadratic form of inverse (n, n), which then is that of the others:
    both in place, with entry j taken out."""
    pivot = inverse[j, j]
    if pivot > 0.0:
        share = theta[j] / pivot
        for a in range(n):
            if a != j:
                theta[a] -= inverse[a, j] * share
                factor = inverse[a, j] / pivot
                for b in range(n):
                    if b != j:
                        inverse[a, b] -= factor * inverse[j, b]
    for a in range(j, n - 1):
        theta[a] = theta[a + 1]
    for a in range(n):
        for b in range(j, n - 1):
            inverse[a, b] = inverse[a, b + 1]
    for a in range(j, n - 1):
        for b in range(n - 1):
            inverse[a, b] = inverse[a + 1, b]


@kernel
def _as_own(rows, e, members, k, theta, n, own):
    """The parameters theta of the pooled columns, in terms of those of environment e."""
    for a in range(n):
        own[a] = theta[a]
    if rows.own.columns.size:
        for a in range(k):
            own[a] = theta[a] * rows.own.ratio[e, members[a]]
            # Without an intercept, hazards make up for the shift.
            if rows.family != PIECEWISE_EXPONENTIAL:
                own[0] += theta[a] * rows.own.shift[e, members[a]]


@kernel
def score_fits(rows, members, k, thetas, n, inverses, inherited, tolerance, ranks, work):
    """log Λ and the pooled log-likelihood of one subset, from starts thetas (E + 1, ·), the pool last.

    A local fit that ends below what the pooled one reaches in its environment starts again from there: so that log Λ is
    at most 0. Both are NaN where a fit comes to no end.
    """
    pool = rows.starts.size - 1
    timed = rows.family == PIECEWISE_EXPONENTIAL
    # The local fits go by the hazards that the pooled one ends with, whose error is about the root of what it leaves.
    most_left = tolerance**1.6 if timed else tolerance
    pooled, ranks[pool] = fit_group(
        rows, ZERO, pool, members, k, thetas[pool], n, inverses[pool], inherited, most_left, work
    )
    if timed and not np.isnan(pooled):
        pooled = evaluate(rows, ZERO, pool, members, k, thetas[pool], n, NO, work)
    for e in range(pool):
        work.reached[e] = work.by_environment[e]
    local = 0.0
    for e in range(pool):
        own, ranks[e] = fit_group(rows, e, e + 1, members, k, thetas[e], n, inverses[e], inherited, tolerance, work)
        if not own >= work.reached[e]:
            _as_own(rows, e, members, k, thetas[pool], n, thetas[e])
            own, ranks[e] = fit_group(rows, e, e + 1, members, k, thetas[e], n, inverses[e], NO, tolerance, work)
            if own < work.reached[e]:
                own = work.reached[e]
        local += own
    if np.isnan(pooled - local):
        return np.nan, np.nan
    if pool == 1:
        return 0.0, pooled
    return min(pooled - local, 0.0), pooled
