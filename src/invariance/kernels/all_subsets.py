"""All subsets of f features in one compiled call: scored block by block, weighed by the prior,
summed and sifted.

A block is a choice of the features beyond the first few, by the bits of its number, joined by all
subsets of those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cholesky import log_ratio_from_rows, settled
from .compiled import NO, ZERO, copy_into, kernel, longest
from .elementary import add_weighted_log, exp_shifted
from .row_residuals import fill_shares_from_rows, rows_at_hand, share_from_rows
from .subset_tree import add_environment, block_shares, joined_columns, screen_block, tree_work


class Layout(NamedTuple):
    """Subsets of f features, joined by the columns `forced`. starts (f+1,): feature j has the
    columns columns[starts[j]:starts[j+1]]; low_starts (b+1,): those of the first b, which make a
    block. sizes (2**b,): members of each subset of a block; counted (f+1,): sizes inside the
    prior's support. low_ranks, low_missing (2**b,): as in `screen_block`; ranks, missing (f+1,): of
    each feature, the last of the forced columns"""

    forced: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    low_starts: np.ndarray
    sizes: np.ndarray
    counted: np.ndarray
    low_ranks: np.ndarray
    low_missing: np.ndarray
    ranks: np.ndarray
    missing: np.ndarray


class LogPrior(NamedTuple):
    """log p(z) is the sum of the log odds (f,) of the members beyond the first b features, of low
    (f-b+1, 2**b), by how many these are, for the others, and of `constant`"""

    log_odds: np.ndarray
    low: np.ndarray
    constant: float


class Sums(NamedTuple):
    """Of several blocks. total (3,): log scale, then in units of exp of that Σ w and Σ w·log w;
    pairs (f, f), lower triangle: Σ w over subsets that hold two features, in these units;
    log_masses: of each of all blocks log Σ w.

    number (3,): how many subsets inside the prior's support are undecidable, how many leading ones
    there are, and how many that may be compatible. undecidable (f+1, m): the first positions of
    each size, -1 beyond. values, ratios, positions (k,): log posterior, log Λ and position of
    leading subsets, a heap whose root is the first to go. picks (n, 3), places (n,): gain, log
    posterior and log Λ, and position, of subsets that may be compatible
    """

    total: np.ndarray
    pairs: np.ndarray
    log_masses: np.ndarray
    number: np.ndarray
    undecidable: np.ndarray
    values: np.ndarray
    ratios: np.ndarray
    positions: np.ndarray
    picks: np.ndarray
    places: np.ndarray


class Space(NamedTuple):
    """Of a block of 2**b subsets, each (2**b,)"""

    log_ratio: np.ndarray
    gain: np.ndarray
    log_posterior: np.ndarray
    work: np.ndarray


def space_for(n):
    return Space(*np.empty((4, n)))


def sums_for(n_features, keep, examples, n_picks, log_masses):
    """Of nothing yet, with room for so many leading subsets, examples of each size and compatible
    subsets."""
    return Sums(
        np.array([-np.inf, 0.0, 0.0]),
        np.zeros((n_features, n_features)),
        log_masses,
        np.zeros(3, np.int64),
        np.full((n_features + 1, examples), -1),
        np.empty(keep),
        np.empty(keep),
        np.empty(keep, np.int64),
        np.empty((n_picks, 3)),
        np.empty(n_picks, np.int64),
    )


@kernel
def _high_columns(layout, number):
    """The forced columns and those of the features that a block chooses, ascending; how many of
    these there are, and the rank and the missing ranks of all"""
    forced = layout.forced
    columns = layout.columns
    starts = layout.starts
    b = layout.low_starts.size - 1
    ranks = layout.ranks
    missing = layout.missing
    f = starts.size - 1
    found = np.empty(forced.size + columns.size, np.int64)
    n = forced.size
    n_high = ZERO
    rank = ranks[f]
    lacking = missing[f]
    copy_into(found[:n], forced)
    for j in range(b, f):
        if (number >> (j - b)) & 1:
            n_high += 1
            rank += ranks[j]
            lacking += missing[j]
            for i in range(starts[j], starts[j + 1]):
                found[n] = columns[i]
                n += 1
    for i in range(1, n):
        value = found[i]
        k = i
        while k > 0 and found[k - 1] > value:
            found[k] = found[k - 1]
            k -= 1
        found[k] = value
    return found[:n], n_high, rank, lacking


@kernel
def _shares_from_rows(rows, outcome, g, fixed, starts, block, asked, tree_rows, shares):
    """Fill in what only the rows can decide, where asked (2**b,)."""
    unknown = NO
    for s in range(shares.size):
        unknown |= shares[s] != shares[s] and asked[s]
    if not unknown:
        return
    singles = longest(starts) <= 1
    decided = shares.copy()
    if singles:
        fill_shares_from_rows(rows, g, fixed, block, tree_rows, outcome, decided)
    for s in range(shares.size):
        if shares[s] != shares[s] and asked[s]:
            if singles:
                shares[s] = decided[s]
            else:
                shares[s] = share_from_rows(
                    rows, g, joined_columns(fixed, starts, block, s), outcome
                )


@kernel
def _settle(scoring, fixed, starts, block, asked, log_ratio):
    """Where second moments say more than is possible, and asked (2**b,), the rows decide."""
    for s in range(log_ratio.size):
        value = log_ratio[s] + scoring.offset
        if value > 0.0:
            value = settled(value, scoring.weights)
            if value != value and asked[s]:
                value = log_ratio_from_rows(scoring, joined_columns(fixed, starts, block, s))
        log_ratio[s] = value


@kernel(fastmath={"nnan", "nsz", "contract"})
def _highest(values):
    highest = -np.inf
    for s in range(values.size):
        highest = max(highest, values[s])
    return highest


@kernel(fastmath={"contract", "reassoc"})
def _totals(weights, values):
    """Σ w, and Σ w·value, where 0·(-inf) counts as 0"""
    total = 0.0
    weighted = 0.0
    for s in range(weights.size):
        total += weights[s]
        weighted += weights[s] * max(values[s], -1e300)
    return total, weighted


@kernel(fastmath={"contract", "reassoc"})
def _halved(weights, half):
    """Add the second half of 2·half weights to the first; returns the sum of the second."""
    total = 0.0
    for s in range(half):
        total += weights[half + s]
        weights[s] += weights[half + s]
    return total


@kernel
def fold_pairs(weights, b, pairs):
    """pairs (b, b), lower triangle: sums of weights (2**b,), which are overwritten, over positions
    with two bits"""
    for i in range(b - 1, -1, -1):
        half = 1 << i
        pairs[i, i] = _halved(weights, half)
        upper = weights[half : 2 * half]
        for j in range(i - 1, -1, -1):
            pairs[i, j] = _halved(upper, 1 << j)


@kernel
def _precedes(values, positions, i, k):
    """Whether leading subset i goes before k: it has the smaller value, of equal ones the later
    position."""
    return values[i] < values[k] or (values[i] == values[k] and positions[i] > positions[k])


@kernel
def lead(values, ratios, positions, n, value, ratio, position):
    """Add to the n leading subsets, of which the first to go makes room where there is none;
    returns how many there are."""
    full = n == values.size
    place = ZERO if full else n
    values[place] = value
    ratios[place] = ratio
    positions[place] = position
    n += not full
    while True:
        # A new one at the end rises, one that took the place of the root sinks.
        other = (place - 1) // 2
        if full:
            other = 2 * place + 1
            if other + 1 < n and _precedes(values, positions, other + 1, other):
                other += 1
            if other >= n or not _precedes(values, positions, other, place):
                return n
        elif place == 0 or not _precedes(values, positions, place, other):
            return n
        values[place], values[other] = values[other], values[place]
        ratios[place], ratios[other] = ratios[other], ratios[place]
        positions[place], positions[other] = positions[other], positions[place]
        place = other


@kernel
def _note_undecidable(log_ratio, asked, sizes, first, examples):
    """Subsets of a block that begins at position `first`, of `sizes` and more; returns how many
    there are."""
    n = ZERO
    n_unknown = ZERO
    for s in range(log_ratio.size):
        n_unknown += log_ratio[s] != log_ratio[s]
    for s in range(log_ratio.size if n_unknown else 0):
        if log_ratio[s] != log_ratio[s] and asked[s]:
            n += 1
            known = examples[sizes[s]]
            for i in range(known.size):
                if known[i] < 0:
                    known[i] = first + s
                    break
    return n


@kernel
def _note_leading(log_posterior, log_ratio, first, lowest, values, ratios, positions, n):
    """Those of a block, which exceed `lowest`; returns how many there are of all."""
    for s in range(log_posterior.size):
        if log_posterior[s] > lowest and (n < values.size or log_posterior[s] > values[0]):
            n = lead(values, ratios, positions, n, log_posterior[s], log_ratio[s], first + s)
    return n


@kernel
def _note_compatible(gain, log_posterior, log_ratio, first, picks, places, n):
    """Those of a block that have a gain; returns how many there are of all."""
    for s in range(gain.size):
        if gain[s] == gain[s] and log_posterior[s] > -np.inf:
            picks[n, 0] = gain[s]
            picks[n, 1] = log_posterior[s]
            picks[n, 2] = log_ratio[s]
            places[n] = first + s
            n += 1
    return n


@kernel
def _weigh(b, number, log_posterior, highest, weights, total, pairs):
    """Add the weights of a block of 2**b subsets; returns the logarithm of their sum."""
    f = pairs.shape[0]
    if highest > total[0]:
        shrink = np.exp(total[0] - highest)
        total[0] = highest
        total[1] *= shrink
        total[2] *= shrink
        for i in range(f):
            for j in range(i + 1):
                pairs[i, j] *= shrink
    exp_shifted(log_posterior, total[0], weights)
    mass, weighted = _totals(weights, log_posterior)
    total[1] += mass
    total[2] += weighted
    own = np.zeros((b, b))
    fold_pairs(weights, b, own)
    for i in range(f):
        if i >= b and not (number >> (i - b)) & 1:
            continue
        for j in range(i + 1):
            if i < b:
                pairs[i, j] += own[i, j]
            elif j < b:
                pairs[i, j] += own[j, j]
            elif (number >> (j - b)) & 1:
                pairs[i, j] += mass
    return total[0] + np.log(mass)


@kernel
def walk_blocks(scoring, screen, layout, prior, first, stop, least, lowest, whole, space, sums):
    """Add blocks first:stop to the sums, as far as there is room for subsets that may be
    compatible; returns the first block that is not added. least (r,): as in `screen_block`, or
    none; lowest (1,): what leading subsets exceed; others may raise both meanwhile. whole (2**f,),
    or none: gets log p(z)Λ(z)."""
    log_ratio = space.log_ratio
    gain = space.gain
    work = space.work
    starts = layout.low_starts
    sizes = layout.sizes
    counted = layout.counted
    block = layout.columns[: starts[-1]]
    values = sums.values
    ratios = sums.ratios
    positions = sums.positions
    counts = sums.number
    picks = sums.picks
    places = sums.places
    pairs = sums.pairs
    total = sums.total
    weights = scoring.weights
    rows = scoring.rows
    n = sizes.size
    last = scoring.weights.size - 1
    tree = tree_work(starts)
    absent = np.empty(block.size + 1, np.bool_)
    asked = np.empty(n, np.bool_)
    for number in range(first, stop):
        if least.size and places.size < counts[2] + n:
            return number
        fixed, n_high, rank, lacking = _high_columns(layout, number)
        for s in range(n):
            asked[s] = counted[n_high + sizes[s]]
        log_ratio[:] = 0.0
        work[:] = 0.0
        for g in range(last + 1):
            shares = block_shares(scoring, g, fixed, block, absent, tree)
            if rows_at_hand(rows):
                _shares_from_rows(
                    rows, scoring.outcome, g, fixed, starts, block, asked, tree.rows, shares
                )
            if g < last and least.size:
                add_environment(weights[g], screen.squares[g], shares, log_ratio, work)
                continue
            if least.size:
                screen_block(
                    screen,
                    shares,
                    work,
                    layout.low_ranks,
                    layout.low_missing,
                    rank,
                    lacking,
                    least,
                    gain,
                )
            add_weighted_log(log_ratio, weights[g], shares)
        _settle(scoring, fixed, starts, block, asked, log_ratio)
        constant = 0.0
        for j in range(starts.size - 1, layout.starts.size - 1):
            constant += prior.log_odds[j] if (number >> (j - starts.size + 1)) & 1 else 0.0
        constant -= prior.constant
        low = prior.low[n_high]
        start = number * n
        log_posterior = whole[start : start + n] if whole.size else space.log_posterior
        for s in range(n):
            value = log_ratio[s] + low[s] + constant
            log_posterior[s] = value if value == value else -np.inf
        highest = _highest(log_posterior)
        counts[0] += _note_undecidable(log_ratio, asked, sizes, start, sums.undecidable[n_high:])
        if values.size and highest > lowest[0]:
            counts[1] = _note_leading(
                log_posterior, log_ratio, start, lowest[0], values, ratios, positions, counts[1]
            )
        if least.size:
            counts[2] = _note_compatible(
                gain, log_posterior, log_ratio, start, picks, places, counts[2]
            )
        if highest > -np.inf:
            sums.log_masses[number] = _weigh(
                starts.size - 1, number, log_posterior, highest, work, total, pairs
            )
    return stop
