"""Which of all subsets of a few features the tests of invariance can still accept, by a tree of Schur complements."""

import numpy as np

from .compiled import kernel
from .elementary import add_weighted_log
from .subset_tree import included_columns, outcome_shares, reduce_to_low, tree_work, widest_feature

REJECTED, POSSIBLE, UNDECIDABLE = 0, 1, 2


@kernel
def screen_grouped_block(
    grams, absent, squares, counts, mean_limits, spread_limit, tolerance, starts, prefix, n_low, high, low, share, state
):
    """Of the 2**n_low subsets of features that extend one choice of the last features (see `score_grouped_block`):
    share (2**n_low,): log of what the pooled fit leaves of the outcome; state (2**n_low,): REJECTED where a test
    statistic is above its limit, UNDECIDABLE where second moments do not tell.

    squares, counts (G,): sums of squares of the outcome, and rows. high (G,), low (G, 2**n_low): ranks of the features
    in the choice, and of each subset of the first features. mean_limits (r, m): of the F statistic of common
    coefficients, by the rank in the pool and by how much less those in the E environments are in sum than E times that.
    spread_limit: of Bartlett's.
    """
    widest_feature(starts)
    n, last = share.size, grams.shape[0] - 1
    columns = included_columns(starts, prefix, n_low)
    work = tree_work(starts[: n_low + 1])
    absent_low = np.empty(starts[n_low] + 1, np.bool_)
    local, left, spread, inverse = np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n)
    logs = np.empty(n)
    for g in range(last):
        reduce_to_low(grams[g], absent[g], tolerance, columns, work.matrices[0], absent_low)
        shares = outcome_shares(absent_low, tolerance, work)
        logs[:] = 0.0
        add_weighted_log(logs, 1.0, shares)
        largest = counts[g] - 1.0 - high[g]
        offsets, inverses = np.empty(starts[n_low] + 1), np.empty(starts[n_low] + 1)
        for r in range(offsets.size):
            freedom = max(largest - r, 1.0)
            offsets[r], inverses[r] = np.log(squares[g] / freedom), 1.0 / freedom
        for s in range(n):
            r = low[g, s]
            freedom = max(largest - r, 1.0)
            local[s] += squares[g] * shares[s]
            left[s] += freedom
            spread[s] += freedom * (logs[s] + offsets[r])
            inverse[s] += inverses[r]
    reduce_to_low(grams[last], absent[last], tolerance, columns, work.matrices[0], absent_low)
    shares = outcome_shares(absent_low, tolerance, work)
    share[:] = 0.0
    add_weighted_log(share, 1.0, shares)
    for s in range(n):
        if not share[s] + spread[s] < np.inf:
            state[s] = UNDECIDABLE
            continue
        pooled_rank = high[last] + low[last, s]
        missing = 0
        for g in range(last):
            missing += pooled_rank - high[g] - low[g, s]
        between = counts[last] - 1.0 - pooled_rank - left[s]
        statistic = (squares[last] * shares[s] - local[s]) / between / (local[s] / left[s]) if between > 0.0 else 0.0
        bartlett = 0.0
        if last > 1:
            correction = 1.0 + (inverse[s] - 1.0 / left[s]) / (3.0 * (last - 1))
            bartlett = (left[s] * np.log(local[s] / left[s]) - spread[s]) / correction
        rejected = statistic > mean_limits[pooled_rank, missing] or bartlett > spread_limit
        state[s] = REJECTED if rejected else POSSIBLE
