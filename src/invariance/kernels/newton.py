"""The largest log-likelihood of one subset of columns in some environments, by Newton's method."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers
from .compiled import NO, UNCOUNTED, YES, ZERO, copy_into, kernel, longest
from .likelihoods import (
    BLOCK,
    PIECEWISE_EXPONENTIAL,
    columns_for,
    end_of,
    evaluate,
    fill_predictor,
    has_levels,
    place_pseudo_data,
)

# A column of which less than this share is left when the others are taken out is a combination of
# them.
DEPENDENT = 1e-12
# The likelihood need not be concave in parameters without a column: this share of a second
# derivative is always left.
_CONCAVE = 1e-3
_MOST_STEPS = 200
# Second derivatives are computed anew where a step promises more than this share of what the one
# before did, and after every step that promised so much.
_SLOW = 0.05
_FAR = 0.5
_MOST_HALVINGS = 40
# No linear predictor changes by more in a step that promises much, by twice as much after each that
# gains: beyond the maximum, where few rows have all the weight, second derivatives may be lost to
# rounding.
_MOST_CHANGE = 8.0
# What a step promises, times the tolerance, up to where the step before may tell how certain that
# is.
_NEARLY_DONE = 4.0
# Share of a log-likelihood that rounding may hide: where a step promises less, Newton's is the
# last.
_ROUNDING = 1e-13
# A fit that cannot go on although more than this is left to gain, in nats, has failed.
_LEFT = 1e-2
# Where the second derivatives at a dispersion have it that none costs less than this, none is
# tried: there may be two maxima.
_NEARLY_NONE = 2.0
# Where there is none: shares of the largest that are tried, if the likelihood there, with the same
# slopes, is not lower by more than this.
_DISPERSIONS = (0.0, 0.15, 0.35)
_NEARLY_AS_GOOD = 4.0
# Fits to so small a tolerance, which are reported, try whatever the likelihood there is.
_CAREFUL = 1e-8
# A maximum that is higher by less is the same.
_HIGHER = 1e-6


@kernel
def invert(hessian, k, n, inverse):
    """inverse[:n, :n] of the lower triangle of hessian, made positive definite from row k on; rows
    and columns that depend on earlier ones, or are 0, are 0. Returns how many do not, and those
    from k on."""
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
    """The most that a slope alone promises of those that inverse leaves out: less than the others
    promise where its column is a combination of theirs; at least this where rounding hides the
    second derivative, which then is below 0."""
    most = 0.0
    for a in range(k):
        if inverse[a, a] == 0.0 and hessian[a, a] != 0.0:
            most = max(most, 0.5 * score[a] * score[a] / abs(hessian[a, a]))
    return most


@kernel(**UNCOUNTED)
def _share_within(rows, first_environment, stop_environment, members, k, step, reach, work):
    """The share of a step of the slopes that changes no linear predictor by more than `reach`."""
    columns = columns_for(rows, first_environment, stop_environment)
    eta = work.eta
    most = 0.0
    n_environments = rows.starts.size - 1
    for place in range(
        first_environment, end_of(first_environment, stop_environment, n_environments)
    ):
        e = place % n_environments
        for first in range(rows.starts[e], rows.starts[e + 1], BLOCK):
            n = min(first + BLOCK, rows.starts[e + 1]) - first
            fill_predictor(columns, members, k, step, first, n, eta)
            for i in range(n):
                most = max(most, abs(eta[i]))
    return min(1.0, reach / most) if most > 0.0 else 1.0


@kernel
def _missed(promise, before, tolerance):
    """What a step may gain more or less than it promises, after one that promised `before`: what
    that one left goes as the square of the error of the second derivatives. Where steps leave much,
    rows may be separated."""
    if not 0.0 < promise < min(_SLOW * before, _NEARLY_DONE * tolerance) or before == np.inf:
        return promise
    return promise * np.sqrt(promise / before)


@kernel(**UNCOUNTED)
def maximise(
    rows,
    first_environment,
    stop_environment,
    members,
    k,
    theta,
    n,
    inverse,
    inherited,
    tolerance,
    work,
):
    """Climb from theta, slopes of the first k of members and what else there is, n in all, until
    what another step promises, which is added, is certain to `tolerance`. inverse: of minus the
    second derivatives; inherited: it comes from a fit nearby, and serves until steps by it gain too
    little. Both are left for those who go on from here; by_environment is at theta before the last
    step. Returns the log-likelihood, NaN where the climb comes to no end, and the number of
    parameters that can be told apart."""
    step = work.step
    origin = work.origin
    limit = rows.counts.limit
    fresh = not inherited
    rank = n
    before = np.inf
    promise = np.inf
    left = max(_LEFT, 2.0 * tolerance)
    reach = _MOST_CHANGE
    _bound(theta, k, n, limit)
    now = evaluate(rows, first_environment, stop_environment, members, k, theta, n, fresh, work)
    for _ in range(_MOST_STEPS):
        # Other parameters may be held at a limit, where the score is 0, than when inverse was
        # computed.
        others = NO
        for a in range(k, n):
            others |= (work.score[a] == 0.0) != (inverse[a, a] == 0.0)
        if not fresh and others:
            fresh = YES
            now = evaluate(
                rows, first_environment, stop_environment, members, k, theta, n, fresh, work
            )
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
            now = evaluate(
                rows, first_environment, stop_environment, members, k, theta, n, fresh, work
            )
            continue
        before = promise
        for a in range(n):
            origin[a] = theta[a]
        far = fresh and promise > _FAR
        share = 1.0
        value = -np.inf
        if far:
            share = _share_within(
                rows, first_environment, stop_environment, members, k, step, reach, work
            )
            reach *= 1.0 if share == 1.0 else 2.0
        for _ in range(_MOST_HALVINGS):
            _move(theta, origin, share, step, k, n, limit)
            value = evaluate(
                rows, first_environment, stop_environment, members, k, theta, n, far, work
            )
            if value >= now:
                break
            share *= 0.5
            reach = _MOST_CHANGE
        if not value >= now:
            # Rounding hides what is left to gain, unless the steps were another fit's.
            for a in range(n):
                theta[a] = origin[a]
            now = evaluate(
                rows, first_environment, stop_environment, members, k, theta, n, YES, work
            )
            if fresh:
                return now if promise < left else np.nan, invert(work.hessian, k, n, inverse)
            fresh = YES
            continue
        now = value
        fresh = far
    return now if promise < left else np.nan, rank


@kernel
def _other_maximum(rows, group, members, k, theta, n, inverse, value, rank, tolerance, work):
    """Climb again from other dispersions, from 0 if theta has one, else from some above 0; where
    that ends higher than `value`, theta and inverse become those. Returns the highest and its
    rank."""
    inside = theta[k] > 0.0
    other = np.empty(n)
    other_inverse = np.empty((n, n))
    for share in _DISPERSIONS:
        if inside == (share > 0.0):
            continue
        copy_into(other, theta)
        other[k] = share * rows.counts.limit
        if tolerance > _CAREFUL and not inside:
            there = evaluate(rows, group[0], group[1], members, k, other, n, NO, work)
            if there < value - _NEARLY_AS_GOOD:
                continue
        higher, its_rank = maximise(
            rows, group[0], group[1], members, k, other, n, other_inverse, NO, tolerance, work
        )
        if higher > value + _HIGHER or (np.isnan(value) and not np.isnan(higher)):
            value = higher
            rank = its_rank
            copy_into(theta[:n], other)
            for a in range(n):
                copy_into(inverse[a, :n], other_inverse[a])
    evaluate(rows, group[0], group[1], members, k, theta, n, NO, work)
    return value, rank


@kernel
def fit_group(
    rows,
    first_environment,
    stop_environment,
    members,
    k,
    theta,
    n,
    inverse,
    inherited,
    tolerance,
    work,
):
    """As `maximise`; with a dispersion, the higher of two maxima, one of them at or near 0. Where
    the tolerance is not that of reported fits, the second is looked for only where it seems within
    reach."""
    group = first_environment, stop_environment
    value, rank = maximise(
        rows, group[0], group[1], members, k, theta, n, inverse, inherited, tolerance, work
    )
    if n == k or (tolerance > _CAREFUL and theta[k] ** 2 > 2.0 * _NEARLY_NONE * inverse[k, k]):
        return value, rank
    return _other_maximum(rows, group, members, k, theta, n, inverse, value, rank, tolerance, work)


@kernel
def without_parameter(theta, inverse, n, j):
    """Take entry j out of theta (n,), the others becoming the best by the quadratic form of inverse
    (n, n), and out of this; both in place."""
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
def _as_own(rows, e, members, k, theta, n, levels, own):
    """The parameters theta of the pooled columns, in terms of those of environment e."""
    if has_levels(rows):
        theta[0] = levels[e]
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
    """log Λ and the pooled log-likelihood, which is without pseudo-data at the pooled fit, of one
    subset, from starts thetas (E + 1, ·), the pool last; NaN where a fit comes to no end. A local
    fit that ends below what the pooled one reaches there starts again from it: log Λ is at most
    0."""
    pool = rows.starts.size - 1
    timed = rows.family == PIECEWISE_EXPONENTIAL
    # The local fits go by what the pooled one expects, whose error is about the root of what it
    # leaves.
    most_left = tolerance ** (1.6 if timed else 1.3 if rows.shares.size else 1.0)
    pooled, ranks[pool] = fit_group(
        rows, ZERO, pool, members, k, thetas[pool], n, inverses[pool], inherited, most_left, work
    )
    if (timed or (rows.free and rows.shares.size > 0)) and not np.isnan(pooled):
        pooled = evaluate(rows, ZERO, pool, members, k, thetas[pool], n, NO, work)
    for e in range(pool):
        work.reached[e] = work.by_environment[e]
    together = pooled
    if rows.shares.size:
        together += place_pseudo_data(rows, members, k, thetas[pool], work)
    local = 0.0
    for e in range(pool):
        own, ranks[e] = fit_group(
            rows, e, e + 1, members, k, thetas[e], n, inverses[e], inherited, tolerance, work
        )
        if not own >= work.reached[e]:
            _as_own(rows, e, members, k, thetas[pool], n, work.levels, thetas[e])
            own, ranks[e] = fit_group(
                rows, e, e + 1, members, k, thetas[e], n, inverses[e], NO, tolerance, work
            )
            if own < work.reached[e]:
                own = work.reached[e]
        work.own[e] = own
        local += own
    if np.isnan(together - local):
        return np.nan, np.nan
    if pool == 1:
        return 0.0, pooled
    return min(together - local, 0.0), pooled


_FEW_FOLLOW = 3


@kernel
def columns_of(chosen, starts, always, members):
    """Fill members with the columns `always` and those of the chosen features (f,); returns how
    many."""
    k = always.size
    copy_into(members[:k], always)
    for j in range(chosen.size):
        if chosen[j]:
            for c in range(starts[j], starts[j + 1]):
                members[k] = c
                k += 1
    return k


@kernel
def begin(beginning, n_always, k, thetas, levels):
    """thetas (E + 1, ·) of k slopes, and levels (E,), where those of the empty subset are,
    `beginning` as in `score_lists`"""
    extra = beginning.shape[1] - n_always
    thetas[:] = 0.0
    if beginning.shape[1] > 0:
        for e in range(levels.size):
            levels[e] = beginning[e, 0]
    for g in range(len(thetas)):
        copy_into(thetas[g, :n_always], beginning[g])
        copy_into(thetas[g, k : k + extra], beginning[g, n_always:])


@kernel
def score_lists(
    rows, masks, starts, always, beginning, tolerance, work, log_ratio, pooled, ranks, thetas
):
    """Of the subsets in masks (S, f), each from the start: log Λ, pooled log-likelihood (S,), ranks
    (S, E + 1) and thetas (S, E + 1, K), 0 beyond the parameters of the subset. always (k,): columns
    of every subset; feature j has the columns starts[j]:starts[j + 1]; beginning (E + 1, k + r):
    parameters of the empty subset, those without a column last."""
    members = np.empty(rows.columns.shape[0], np.int64)
    extra = beginning.shape[1] - always.size
    most = thetas.shape[2]
    inverses = np.empty((rows.starts.size, most, most))
    for s in range(masks.shape[0]):
        k = columns_of(masks[s], starts, always, members)
        begin(beginning, always.size, k, thetas[s], work.levels)
        log_ratio[s], pooled[s] = score_fits(
            rows, members, k, thetas[s], k + extra, inverses, NO, tolerance, ranks[s], work
        )


@kernel
def score_rests(rows, masks, starts, always, beginning, tolerance, work, log_ratio, ranks, rests):
    """Of the subsets in masks (S, f): log Λ of each environment against all others (S, E), ranks
    (S, E + 1) and those of the others (S, E). Other arguments as in `score_lists`. Fits of the
    others begin with the pooled one."""
    members = np.empty(rows.columns.shape[0], np.int64)
    extra = beginning.shape[1] - always.size
    pool = ranks.shape[1] - 1
    most = work.score.size
    thetas = np.empty((pool + 1, most))
    inverses = np.empty((pool + 1, most, most))
    theta = np.empty(most)
    inverse = np.empty((most, most))
    for s in range(masks.shape[0]):
        k = columns_of(masks[s], starts, always, members)
        n = k + extra
        begin(beginning, always.size, k, thetas, work.levels)
        score_fits(rows, members, k, thetas, n, inverses, NO, tolerance, ranks[s], work)
        for e in range(pool):
            reached = 0.0
            for other in range(pool):
                reached += work.reached[other] if other != e else 0.0
            copy_into(theta[:n], thetas[pool])
            for a in range(n):
                copy_into(inverse[a, :n], inverses[pool, a])
            rest, rests[s, e] = fit_group(
                rows, e + 1, e, members, k, theta, n, inverse, YES, tolerance, work
            )
            log_ratio[s, e] = min(reached - rest, 0.0) + min(work.reached[e] - work.own[e], 0.0)


@kernel
def score_dense(
    rows, high, n_low, starts, always, beginning, tolerance, work, log_ratio, pooled, ranks
):
    """Of the features `high` joined by each subset of the first n_low: log Λ, pooled log-likelihood
    (2**n_low,) and ranks (2**n_low, E + 1). Other arguments as in `score_lists`. The first subset
    has all of the first n_low. The fits of another begin with those of its parent, which has the
    first feature that it lacks; fits that come to no end from there begin as in `score_lists`."""
    n_groups = rows.starts.size
    extra = beginning.shape[1] - always.size
    chosen = np.zeros(starts.size - 1, np.bool_)
    chosen[high] = True
    members = np.empty(rows.columns.shape[0], np.int64)
    chosen[:n_low] = True
    most = columns_of(chosen, starts, always, members) + extra
    # Of a subset, of its parent and so on, by how many of the first n_low they lack.
    thetas = np.empty((n_low + 1, n_groups, most))
    inverses = np.empty((n_low + 1, n_groups, most, most))
    for code in range((1 << n_low) - 1, -1, -1):
        lacking = ZERO
        j = n_low
        for i in range(n_low - 1, -1, -1):
            chosen[i] = (code >> i) & 1
            if not chosen[i]:
                lacking = lacking + 1
                j = i
        k = columns_of(chosen, starts, always, members)
        theta = thetas[lacking]
        inverse = inverses[lacking]
        inherited = NO
        if lacking == 0:
            begin(beginning, always.size, k, theta, work.levels)
        else:
            # Where many subsets follow, and where a column depended on another, second derivatives
            # are computed anew.
            inherited = j < _FEW_FOLLOW
            width = starts[j + 1] - starts[j]
            n = k + width + extra
            for g in range(n_groups):
                for a in range(n):
                    theta[g, a] = thetas[lacking - 1, g, a]
                    inherited &= inverses[lacking - 1, g, a, a] > 0.0
                    copy_into(inverse[g, a, :n], inverses[lacking - 1, g, a])
                for c in range(width):
                    without_parameter(
                        theta[g], inverse[g], n - c, always.size + starts[j] - starts[0]
                    )
        log_ratio[code], pooled[code] = score_fits(
            rows, members, k, theta, k + extra, inverse, inherited, tolerance, ranks[code], work
        )
        if np.isnan(log_ratio[code]) and lacking:
            begin(beginning, always.size, k, theta, work.levels)
            log_ratio[code], pooled[code] = score_fits(
                rows, members, k, theta, k + extra, inverse, NO, tolerance, ranks[code], work
            )


# Columns that are tried together: their second derivatives among each other are computed for
# nothing.
_TOGETHER = 8


@kernel
def _half_quadratic(matrix, vector, places, k, n_base, part, own):
    """½·v'M⁻¹v of the entries `places` of a vector and of the lower triangle of a matrix, made
    positive definite from row k to n_base as in `invert`; part, own: work space."""
    n = places.size
    total = 0.0
    for a in range(n):
        own[a] = vector[places[a]]
        for b in range(a + 1):
            part[a, b] = matrix[max(places[a], places[b]), min(places[a], places[b])]
    for j in range(n):
        pivot = part[j, j]
        whole = matrix[places[j], places[j]]
        if k <= j < n_base:
            pivot = max(abs(pivot), _CONCAVE * abs(whole))
        if not pivot > DEPENDENT * whole:
            continue
        total += 0.5 * own[j] * own[j] / pivot
        for a in range(j + 1, n):
            factor = part[a, j] / pivot
            own[a] -= factor * own[j]
            for b in range(j + 1, a + 1):
                part[a, b] -= factor * part[b, j]
    return total


@kernel
def flip_gains(rows, chosen, starts, always, thetas, extra, work, gains):
    """gains (E + 1, f): change of the largest log-likelihood in each environment and the pool when
    each feature is added to the chosen ones (f,) or removed, to second order around their fits
    thetas (E + 1, ·). extra: parameters without a column; other arguments as in `score_lists`,
    which leaves `work`."""
    pool = rows.starts.size - 1
    f = chosen.size
    members = np.empty(rows.columns.shape[0], np.int64)
    k = columns_of(chosen, starts, always, members)
    n = k + extra
    most = n + max(longest(starts), _TOGETHER)
    theta = np.empty(most)
    own = np.empty(most)
    step = np.empty(most)
    places = np.empty(most, np.int64)
    inverse = np.empty((most, most))
    part = np.empty((most, most))
    for g in range(pool + 1):
        first_environment, stop_environment = (g, g + 1) if g < pool else (ZERO, pool)
        copy_into(theta[:n], thetas[g])
        evaluate(rows, first_environment, stop_environment, members, k, theta, n, YES, work)
        invert(work.hessian, k, n, inverse)
        left = newton_step(inverse, work.score, n, step)
        place = always.size
        j = ZERO
        while j < f:
            stop = j
            more = ZERO
            while stop < f and (
                more == 0 or chosen[stop] or more + starts[stop + 1] - starts[stop] <= _TOGETHER
            ):
                if not chosen[stop]:
                    for c in range(starts[stop], starts[stop + 1]):
                        members[k + more] = c
                        more += 1
                stop += 1
            theta[k : k + more] = 0.0
            copy_into(theta[k + more : n + more], thetas[g, k:])
            evaluate(
                rows,
                first_environment,
                stop_environment,
                members,
                k + more,
                theta,
                n + more,
                YES,
                work,
            )
            first = k
            for i in range(j, stop):
                width = starts[i + 1] - starts[i]
                if chosen[i]:
                    # Parameters that depend on others are 0 already.
                    m = ZERO
                    for a in range(place, place + width):
                        if inverse[a, a] > 0.0:
                            places[m] = a
                            m += 1
                    gains[g, i] = -_half_quadratic(inverse, theta, places[:m], m, m, part, own)
                    place += width
                    continue
                for a in range(n + width):
                    places[a] = a if a < k else (a + more if a < n else first + a - n)
                wide = places[: n + width]
                gains[g, i] = (
                    _half_quadratic(work.hessian, work.score, wide, k, n, part, own) - left
                )
                first += width
            j = stop


@kernel
def second_derivatives(rows, members, thetas, work, inverses):
    """inverses (m, n, n): `invert` of minus the second derivatives at thetas (m, n), slopes of the
    members first, in the last m of the environments and the pool. The pool comes first: what
    environments have may go by it."""
    k = members.size
    n = thetas.shape[1]
    pool = rows.starts.size - 1
    most = len(thetas) - 1
    for i in range(most, -1, -1):
        g = pool - most + i
        first_environment, stop_environment = (g, g + 1) if g < pool else (ZERO, pool)
        evaluate(rows, first_environment, stop_environment, members, k, thetas[i], n, YES, work)
        if g == pool and rows.shares.size:
            place_pseudo_data(rows, members, k, thetas[i], work)
        invert(work.hessian, k, n, inverses[i])


# ---------------------------------------------------------------- what Python asks for, compiled as
# one

WALK, LIST, RESTS, FLIPS, CURVATURES = range(5)


class Answer(NamedTuple):
    """Arrays that a task fills; those of others have no rows."""

    log_ratio: Floats = np.empty(0)
    pooled: Floats = np.empty(0)
    ranks: Integers = np.empty((0, 0), np.int64)
    thetas: Floats = np.empty((0, 0, 0))
    against: Floats = np.empty((0, 0))
    rests: Integers = np.empty((0, 0), np.int64)
    gains: Floats = np.empty((0, 0))
    inverses: Floats = np.empty((0, 0, 0))


_NO_FEATURES = np.empty(0, np.int64)


def regress(
    task,
    rows,
    masks,
    starts,
    always,
    beginning,
    tolerance,
    work,
    high=_NO_FEATURES,
    n_low=0,
    **answer,
):
    """WALK: `score_dense`; LIST: `score_lists`; RESTS: `score_rests`; FLIPS: `flip_gains`;
    CURVATURES: `second_derivatives` of the columns `always` at `beginning`"""
    given = starts, always, beginning, tolerance, work
    _regress(task, rows, np.ascontiguousarray(masks), high, n_low, *given, Answer(**answer))


@kernel
def _regress(task, rows, masks, high, n_low, starts, always, beginning, tolerance, work, answer):
    if task == WALK:
        found = answer.log_ratio, answer.pooled, answer.ranks
        score_dense(
            rows,
            high,
            n_low,
            starts,
            always,
            beginning,
            tolerance,
            work,
            found[0],
            found[1],
            found[2],
        )
    elif task == LIST:
        found = answer.log_ratio, answer.pooled, answer.ranks
        score_lists(
            rows,
            masks,
            starts,
            always,
            beginning,
            tolerance,
            work,
            found[0],
            found[1],
            found[2],
            answer.thetas,
        )
    elif task == RESTS:
        against = answer.against
        rests = answer.rests
        score_rests(
            rows, masks, starts, always, beginning, tolerance, work, against, answer.ranks, rests
        )
    elif task == FLIPS:
        extra = beginning.shape[1] - always.size
        flip_gains(rows, masks[0], starts, always, answer.thetas[0], extra, work, answer.gains)
    else:
        second_derivatives(rows, always, beginning, work, answer.inverses)
