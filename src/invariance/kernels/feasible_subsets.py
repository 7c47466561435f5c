"""Many subsets by `feasible_least_squares`, from second moments: of a list, or all of some features."""

import numpy as np

from .compiled import kernel
from .feasible_least_squares import (
    ENOUGH,
    EXACTLY,
    append_column,
    excess_at,
    fill_leverages,
    local_fits,
    pooled_work,
    smallest_excess,
    start_with_constant,
    supported,
)
from .typed import ZERO


@kernel
def score_subset(moments, fits, k, enough, work):
    """log Λ, and what the environments' own fits gain over their means: ½ Σ_e n_e log(scatter/RSS_e). NaN twice where
    second moments cannot decide."""
    if not supported(moments, fits, k):
        return np.nan, np.nan
    excess = smallest_excess(moments.counts, fits, k, moments.tolerance, enough, work)
    local, y = 0.0, moments.outcome
    for e in range(moments.counts.size):
        local -= 0.5 * moments.counts[e] * np.log(fits.rss[k, e] / moments.scatter[e, y, y])
    return -excess, local if excess == excess else np.nan


@kernel
def _append_all(moments, fits, path, k, columns):
    for column in columns:
        append_column(moments, fits, path, k, column)
        path[k] = column
        k += 1
    return k


@kernel
def score_lists(moments, starts, members, ratios, gains, squares, leverages):
    """Of the subset with columns members[starts[s]:starts[s+1]], as `score_subset`, and RSS_e of the pooled fit and the
    leverages (S, E)."""
    largest = longest(starts)
    fits, work = local_fits(moments.counts.size, largest), pooled_work(moments.counts.size, largest)
    path = np.empty(largest, np.int64)
    start_with_constant(moments, fits)
    for s in range(starts.size - 1):
        k = _append_all(moments, fits, path, ZERO, members[starts[s] : starts[s + 1]])
        ratios[s], gains[s] = score_subset(moments, fits, k, ENOUGH, work)
        squares[s], leverages[s] = np.nan, np.nan
        if ratios[s] == ratios[s]:
            excess_at(moments.counts, fits, k, work.beta, work)
            squares[s] = work.squares
            fill_leverages(fits, k, work, leverages[s])


@kernel
def longest(starts):
    """The most members of a list."""
    most = 0
    for s in range(starts.size - 1):
        most = max(most, starts[s + 1] - starts[s])
    return most


@kernel
def fit_from_moments(moments, members):
    """The pooled fit of columns `members`: a constant and slopes (k + 1,), and RSS_e there (E,); NaN if undecidable."""
    k, n_environments = members.size, moments.counts.size
    fits, work = local_fits(n_environments, k), pooled_work(n_environments, k)
    start_with_constant(moments, fits)
    _append_all(moments, fits, np.empty(k, np.int64), ZERO, members)
    ratio, _ = score_subset(moments, fits, k, EXACTLY, work)
    if ratio != ratio:
        work.beta[:] = np.nan
    excess_at(moments.counts, fits, k, work.beta, work)
    return work.beta, work.squares


@kernel
def walk_extensions(moments, fixed, columns, starts, first, stop, most, sizes, members, ratios, gains):
    """All subsets that join columns `fixed` with at most `most` of the features first:stop, each after its parent.

    columns, starts: feature j is columns[starts[j]:starts[j+1]]. sizes (most + 1,): which numbers of these features
    count; others are left NaN. members (n, most): which they are, -1 beyond the last; ratios, gains (n,).
    """
    room = fixed.size + starts[stop] - starts[first]
    fits, work = local_fits(moments.counts.size, room), pooled_work(moments.counts.size, room)
    path, chosen = np.empty(room, np.int64), np.empty(most + 1, np.int64)
    start_with_constant(moments, fits)
    k = _append_all(moments, fits, path, ZERO, fixed)
    row, depth, j = 0, 0, first
    members[:] = -1
    while True:
        ratios[row], gains[row] = score_subset(moments, fits, k, ENOUGH, work) if sizes[depth] else (np.nan, np.nan)
        for i in range(depth):
            members[row, i] = chosen[i]
        row += 1
        while depth == most or j == stop:
            if depth == 0:
                return
            depth -= 1
            j = chosen[depth]
            k -= starts[j + 1] - starts[j]
            j += 1
        k = _append_all(moments, fits, path, k, columns[starts[j] : starts[j + 1]])
        chosen[depth] = j
        depth += 1
        j += 1
