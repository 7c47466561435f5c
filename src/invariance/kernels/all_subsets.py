"""All subsets of f features in one compiled call: scored block by block, weighed by the prior, summed and sifted.

A block is a choice of the features beyond the first few, by the bits of its number, joined by all subsets of those.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cholesky import log_ratio_from_rows, settled
from .compiled import NO, ZERO, kernel, longest
from .elementary import add_weighted_log, exp_shifted
from .row_residuals import fill_shares_from_rows, rows_at_hand, share_from_rows
from .subset_tree import add_environment, block_shares, joined_columns, screen_block, tree_work


class Walk(NamedTuple):
    """Subsets of f features, joined by the columns `forced`. starts (f+1,): feature j has the columns
    columns[starts[j]:starts[j+1]]; low_starts (b+1,): those of the first b, which make a block. log_odds (f,) and
    low_log_prior (f-b+1, 2**b), by how many of the others are in, sum to log p(z) with `constant`. sizes (2**b,):
    members of each subset of a block; counted (f+1,): sizes inside the prior's support.

    screen, low_ranks, low_missing (2**b,), ranks, missing (f+1,): as in `screen_block`, the last of the forced columns
    """

    scoring: NamedTuple
    forced: np.ndarray
    columns: np.ndarray
    starts: np.ndarray
    low_starts: np.ndarray
    log_odds: np.ndarray
    low_log_prior: np.ndarray
    constant: float
    sizes: np.ndarray
    counted: np.ndarray
    screen: NamedTuple
    low_ranks: np.ndarray
    low_missing: np.ndarray
    ranks: np.ndarray
    missing: np.ndarray


class Sums(NamedTuple):
    """Of several blocks. total (3,): log scale, then in units of exp of that Σ w and Σ w·log w; pairs (f, f), lower
    triangle: Σ w over subsets that hold two features, in these units; log_masses: of each of all blocks log Σ w.

    number (3,): how many subsets inside the prior's support are undecidable, how many leading ones there are, and how
    many that may be compatible. undecidable (f+1, m): the first positions of each size, -1 beyond. values, ratios,
    positions (k,): log posterior, log Λ and position of leading subsets, a heap whose root is the first to go. picks
    (n, 3), places (n,): gain, log posterior and log Λ, and position, of subsets that may be compatible
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
    """Of nothing yet, with room for so many leading subsets, examples of each size and compatible subsets."""
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
def _high_columns(walk, block):
    """The forced columns and those of the features that a block chooses, ascending; how many of these there are"""
    b, f = walk.low_starts.size - 1, walk.starts.size - 1
    found = np.empty(walk.forced.size + walk.columns.size, np.int64)
    n, n_high = ZERO, ZERO
    for i in range(walk.forced.size):
        found[n] = walk.forced[i]
        n += 1
    for j in range(b, f):
        if (block >> (j - b)) & 1:
            n_high += 1
            for i in range(walk.starts[j], walk.starts[j + 1]):
                found[n] = walk.columns[i]
                n += 1
    for i in range(1, n):
        value, k = found[i], i
        while k > 0 and found[k - 1] > value:
            found[k] = found[k - 1]
            k -= 1
        found[k] = value
    return found[:n], n_high


@kernel
def _shares_from_rows(walk, g, fixed, block, n_high, tree, shares):
    """Fill in what only the rows can decide, of the sizes that count."""
    rows, outcome, asked = walk.scoring.rows, walk.scoring.outcome, NO
    for s in range(shares.size):
        asked |= shares[s] != shares[s] and walk.counted[n_high + walk.sizes[s]]
    if not asked:
        return
    singles, decided = longest(walk.low_starts) <= 1, shares.copy()
    if singles:
        fill_shares_from_rows(rows, g, fixed, block, tree.rows, outcome, decided)
    for s in range(shares.size):
        if shares[s] != shares[s] and walk.counted[n_high + walk.sizes[s]]:
            if singles:
                shares[s] = decided[s]
            else:
                shares[s] = share_from_rows(rows, g, joined_columns(fixed, walk.low_starts, block, s), outcome)


@kernel
def _score(walk, number, least, tree, space):
    """log Λ of a block, NaN where undecidable, and if there is a `least` gain, gains as in `screen_block`; returns how
    many features it chooses"""
    scoring, log_ratio, local = walk.scoring, space.log_ratio, space.work
    fixed, n_high = _high_columns(walk, number)
    block = walk.columns[: walk.low_starts[-1]]
    absent, last = np.empty(block.size + 1, np.bool_), scoring.weights.size - 1
    log_ratio[:] = 0.0
    local[:] = 0.0
    for g in range(last + 1):
        shares = block_shares(scoring, g, fixed, block, absent, tree)
        if rows_at_hand(scoring.rows):
            _shares_from_rows(walk, g, fixed, block, n_high, tree, shares)
        if g < last and least.size:
            add_environment(scoring.weights[g], walk.screen.squares[g], shares, log_ratio, local)
            continue
        if least.size:
            rank, lacking = walk.ranks[-1], walk.missing[-1]
            for j in range(walk.low_starts.size - 1, walk.starts.size - 1):
                if (number >> (j - walk.low_starts.size + 1)) & 1:
                    rank += walk.ranks[j]
                    lacking += walk.missing[j]
            screen_block(
                walk.screen, shares, local, walk.low_ranks, walk.low_missing, rank, lacking, least, space.gain
            )
        add_weighted_log(log_ratio, scoring.weights[g], shares)
    for s in range(log_ratio.size):
        value = log_ratio[s] + scoring.offset
        if value > 0.0:
            value = settled(value, scoring.weights)
            if value != value and walk.counted[n_high + walk.sizes[s]]:
                # Second moments say more than is possible.
                value = log_ratio_from_rows(scoring, joined_columns(fixed, walk.low_starts, block, s))
        log_ratio[s] = value
    return n_high


@kernel(fastmath={"nnan", "nsz", "contract"})
def _highest(values):
    highest = -np.inf
    for s in range(values.size):
        highest = max(highest, values[s])
    return highest


@kernel(fastmath={"contract", "reassoc"})
def _totals(weights, values):
    """Σ w, and Σ w·value, where 0·(-inf) counts as 0"""
    total, weighted = 0.0, 0.0
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
    """pairs (b, b), lower triangle: sums of weights (2**b,), which are overwritten, over positions with two bits"""
    for i in range(b - 1, -1, -1):
        half = 1 << i
        pairs[i, i] = _halved(weights, half)
        upper = weights[half : 2 * half]
        for j in range(i - 1, -1, -1):
            pairs[i, j] = _halved(upper, 1 << j)


@kernel
def _precedes(values, positions, i, k):
    """Whether leading subset i goes before k: it has the smaller value, of equal ones the later position."""
    return values[i] < values[k] or (values[i] == values[k] and positions[i] > positions[k])


@kernel
def _swap(sums, i, k):
    sums.values[i], sums.values[k] = sums.values[k], sums.values[i]
    sums.ratios[i], sums.ratios[k] = sums.ratios[k], sums.ratios[i]
    sums.positions[i], sums.positions[k] = sums.positions[k], sums.positions[i]


@kernel
def lead(sums, value, ratio, position):
    """Add to the leading subsets, of which the first to go makes room where there is none."""
    n = sums.number[1]
    place = n if n < sums.values.size else ZERO
    sums.values[place] = value
    sums.ratios[place] = ratio
    sums.positions[place] = position
    if place == n:
        sums.number[1] += 1
        while place > 0 and _precedes(sums.values, sums.positions, place, (place - 1) // 2):
            _swap(sums, place, (place - 1) // 2)
            place = (place - 1) // 2
        return
    while 2 * place + 1 < n:
        child = 2 * place + 1
        if child + 1 < n and _precedes(sums.values, sums.positions, child + 1, child):
            child += 1
        if not _precedes(sums.values, sums.positions, child, place):
            return
        _swap(sums, place, child)
        place = child


@kernel
def _sift(walk, n_high, first, least, lowest, highest, log_posterior, space, sums):
    """Note the undecidable subsets of a block that begins at position `first`, the leading and the compatible ones."""
    log_ratio, n_unknown = space.log_ratio, ZERO
    for s in range(log_ratio.size):
        n_unknown += log_ratio[s] != log_ratio[s]
    for s in range(log_ratio.size if n_unknown else 0):
        size = n_high + walk.sizes[s]
        if log_ratio[s] != log_ratio[s] and walk.counted[size]:
            sums.number[0] += 1
            for i in range(sums.undecidable.shape[1]):
                if sums.undecidable[size, i] < 0:
                    sums.undecidable[size, i] = first + s
                    break
    for s in range(log_posterior.size if sums.values.size and highest > lowest[0] else 0):
        least_value = sums.values[0] if sums.number[1] == sums.values.size else -np.inf
        if log_posterior[s] > max(least_value, lowest[0]):
            lead(sums, log_posterior[s], log_ratio[s], first + s)
    for s in range(space.gain.size if least.size else 0):
        if space.gain[s] == space.gain[s] and log_posterior[s] > -np.inf:
            n = sums.number[2]
            sums.picks[n, 0] = space.gain[s]
            sums.picks[n, 1] = log_posterior[s]
            sums.picks[n, 2] = log_ratio[s]
            sums.places[n] = first + s
            sums.number[2] += 1


@kernel
def _weigh(walk, number, log_posterior, highest, space, sums):
    """Add the weights of a block."""
    b, f, total = walk.low_starts.size - 1, walk.starts.size - 1, sums.total
    if highest > total[0]:
        shrink = np.exp(total[0] - highest)
        total[0] = highest
        total[1] *= shrink
        total[2] *= shrink
        for i in range(f):
            for j in range(i + 1):
                sums.pairs[i, j] *= shrink
    exp_shifted(log_posterior, total[0], space.work)
    mass, weighted = _totals(space.work, log_posterior)
    total[1] += mass
    total[2] += weighted
    pairs = np.zeros((f, f))
    fold_pairs(space.work, b, pairs)
    for i in range(b):
        for j in range(i + 1):
            sums.pairs[i, j] += pairs[i, j]
    for i in range(b, f):
        if (number >> (i - b)) & 1:
            for j in range(b):
                sums.pairs[i, j] += pairs[j, j]
            for j in range(b, i + 1):
                sums.pairs[i, j] += mass if (number >> (j - b)) & 1 else 0.0
    return total[0] + np.log(mass)


@kernel
def walk_blocks(walk, first, stop, least, lowest, whole, space, sums):
    """Add blocks first:stop to the sums, as far as there is room for subsets that may be compatible; returns the first
    block that is not added. least (r,): as in `screen_block`, or none; lowest (1,): what leading subsets exceed; others
    may raise both meanwhile. whole (2**f,), or none: gets log p(z)Λ(z)."""
    n, tree = walk.sizes.size, tree_work(walk.low_starts)
    for number in range(first, stop):
        if sums.places.size < sums.number[2] + (n if least.size else 0):
            return number
        n_high, constant = _score(walk, number, least, tree, space), 0.0
        for j in range(walk.low_starts.size - 1, walk.starts.size - 1):
            constant += walk.log_odds[j] if (number >> (j - walk.low_starts.size + 1)) & 1 else 0.0
        constant -= walk.constant
        log_posterior = whole[number * n : (number + 1) * n] if whole.size else space.log_posterior
        log_prior = walk.low_log_prior[n_high]
        for s in range(n):
            value = space.log_ratio[s] + log_prior[s] + constant
            log_posterior[s] = value if value == value else -np.inf
        highest = _highest(log_posterior)
        _sift(walk, n_high, number * n, least, lowest, highest, log_posterior, space, sums)
        if highest > -np.inf:
            sums.log_masses[number] = _weigh(walk, number, log_posterior, highest, space, sums)
    return stop
