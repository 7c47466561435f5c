"""What kernels compute, in NumPy."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from invariance.kernels.cholesky import settle
from invariance.kernels.row_residuals import DEPENDENT, of_one_size, relative_residuals


def centred_rows(X, y, rows, centre, rest, minimum, maximum):
    centred = np.concatenate([X[rows], y[rows, None]], axis=1, dtype=float)
    minimum[:], maximum[:] = centred.min(axis=0), centred.max(axis=0)
    centre[:] = np.where(minimum == maximum, minimum, centred.mean(axis=0))
    centred -= centre
    rest[:] = centred.mean(axis=0)
    centred -= rest
    return centred


def subset_slopes(gram, tolerance, starts, members):
    slopes = np.zeros((len(starts) - 1, len(gram) - 1))
    for which, chosen in of_one_size(starts, members, lambda k: (k + 1) ** 2):
        k = chosen.shape[1]
        columns = np.column_stack([chosen, np.full(len(chosen), len(gram) - 1)]).T
        matrices = gram[columns[:, None], columns]
        found = np.empty(chosen.T.shape)
        for i in range(k):
            matrices[i, i] = np.where(matrices[i, i] >= tolerance, matrices[i, i], np.nan)
            row = matrices[i, i + 1 :]
            matrices[i + 1 :, i + 1 :] -= (row * (1.0 / matrices[i, i]))[:, None] * row
        for i in reversed(range(k)):
            found[i] = matrices[i, k]
            for j in range(i + 1, k):
                found[i] -= matrices[i, j] * found[j]
            found[i] /= matrices[i, i]
        slopes[which[:, None], chosen] = found.T
    return slopes


# Numbers in the residuals that are worked on together.
_MOST_NUMBERS = 1 << 16


def residual_powers(columns, slopes, weights, squares, fourths):
    together = max(1, _MOST_NUMBERS // columns.shape[1])
    for start in range(0, len(slopes), together):
        part = slice(start, start + together)
        powers = np.repeat(columns[-1:], len(slopes[part]), axis=0)
        for slope, x in zip(
            slopes[part].T, columns[:-1], strict=True
        ):  # no product of matrices: its rows round together
            used = np.flatnonzero(slope)
            powers[used] -= slope[used, None] * x
        powers *= powers
        squares[part] = powers @ weights
        fourths[part] = np.einsum("sn,sn,n->s", powers, powers, weights)


_LOWEST_EXPONENT = -708.0


def exp_shifted(values, shift, out):
    with np.errstate(invalid="ignore"):
        exponents = values - shift
    inside = exponents > _LOWEST_EXPONENT
    np.exp(exponents, out=out, where=inside)
    out[~inside] = 0.0


def listed_inclusion(weights, members, pairs):
    holds = np.zeros((len(members), len(pairs) + 1))
    holds[np.arange(len(members))[:, None], members] = 1.0
    holds = holds[:, :-1]  # the last column took the places beyond the last member
    pairs += np.triu((weights[:, None] * holds).T @ holds)
    return float(weights.sum())


def add_listed_prior(log_odds, constant, log_size_weight, members, log_ratio, out):
    out[:] = log_ratio + constant
    for chosen in members.T:
        out += np.append(log_odds, 0.0)[chosen]
    out += log_size_weight[(members >= 0).sum(axis=1)]
    out[np.isnan(out)] = -np.inf


# ---------------------------------------------------------------- log Λ of subsets


def _log_ratios(scoring, shares):
    total = np.full(shares.shape[1], scoring.offset)
    for weight, share in zip(scoring.weights, shares, strict=True):
        total += weight * np.log(share)
    settle(total, scoring.weights)
    return total


def _outcome_shares(scoring, fixed, starts, block):
    """(G, 2**b) what each subset of b features, joined by the columns `fixed`, leaves of the
    outcome in each group; NaN where undecidable"""
    columns = np.concatenate([fixed, block, [scoring.outcome]])
    scale = scoring.inverse_scale[:, columns]
    nodes = (scoring.scatter[:, columns[:, None], columns] * scale[:, :, None] * scale[:, None])[
        ..., None
    ]
    absent = scale == 0.0
    for j in range(len(fixed)):
        nodes = _swept(nodes, absent[:, j], scoring.tolerance)
    for start, stop in pairwise(starts + len(fixed)):
        included = nodes
        for c in range(start, stop):
            included = _swept(included, absent[:, c], scoring.tolerance)
        nodes = np.concatenate([nodes[:, stop - start :, stop - start :], included], axis=-1)
    shares = nodes[:, 0, 0]
    return np.where(shares >= scoring.tolerance, shares, np.nan)


def _swept(moments, absent, tolerance):
    """moments (G, d, d, n) of n nodes without their first column, which is regressed out of the
    others; absent (G,)"""
    pivot = moments[:, 0, 0]
    with np.errstate(divide="ignore"):
        reciprocal = np.where(
            absent[:, None], 0.0, np.where(pivot >= tolerance, 1.0 / pivot, np.nan)
        )
    row = moments[:, 0, 1:]
    return moments[:, 1:, 1:] - (row * reciprocal[:, None])[:, :, None] * row[:, None]


def score_block(scoring, fixed, starts, block, out):
    out[:] = _log_ratios(scoring, _outcome_shares(scoring, fixed, starts, block))
    unknown = np.flatnonzero(np.isnan(out))
    if len(unknown) and scoring.rows.values.size:
        chosen = np.repeat(
            unknown[:, None] >> np.arange(len(starts) - 1) & 1 == 1, np.diff(starts), axis=1
        )
        holds = np.column_stack([np.ones((len(unknown), len(fixed)), dtype=bool), chosen])
        ends = np.concatenate([[0], np.cumsum(holds.sum(axis=1))])
        decided = np.empty(len(unknown))
        score_subsets(
            scoring, np.nan, ends, np.concatenate([fixed, block])[np.nonzero(holds)[1]], decided
        )
        out[unknown] = decided


def score_extensions(scoring, fixed, starts, block, prefix, first, max_size, members, out):
    scores = _log_ratios(scoring, _outcome_shares(scoring, fixed, starts, block))
    members[:] = -1
    members[:, : len(prefix)] = prefix
    for row, more in enumerate(_extensions((), len(starts) - 1, max_size - len(prefix))):
        members[row, len(prefix) : len(prefix) + len(more)] = np.add(more, first)
        out[row] = scores[sum(1 << j for j in more)]


def _extensions(subset, n_features, max_size):
    """The subset and all that extend it by features after its last one, in the order of a
    dictionary."""
    found = [subset]
    if len(subset) < max_size:
        for j in range(subset[-1] + 1 if subset else 0, n_features):
            found += _extensions((*subset, j), n_features, max_size)
    return found


def screen_block(screen, pooled, local, ranks, missing, first_rank, first_missing, least, gain):
    total = screen.counts[-1]
    environments = len(screen.counts) - 1
    rank = first_rank + ranks
    lacking = first_missing + missing
    left = total - environments * (1.0 + rank) + lacking
    between = total - 1.0 - rank - left
    with np.errstate(divide="ignore", invalid="ignore"):
        gain[:] = -0.5 * total * np.log(pooled)
        statistic = np.where(
            between > 0.0, (screen.squares[-1] * pooled - local) / between / (local / left), 0.0
        )
        tolerated = np.clip(
            np.nan_to_num(screen.per_signal * total * (1.0 / pooled - 1.0)), 0.0, screen.most
        )
        step = np.ceil((screen.limits.shape[2] - 1) * np.sqrt(tolerated / screen.most)).astype(int)
        light = ~(gain >= least[rank]) | np.isnan(local)
    gain[light | (statistic > screen.limits[rank, lacking, step])] = np.nan


def _fits(scoring, members):
    """(G, S) shares of the outcome that subsets (S, k) leave, from rows where second moments cannot
    tell, and ranks"""
    scale = scoring.inverse_scale
    tolerance = scoring.tolerance
    grams = scoring.scatter * scale[:, :, None] * scale[:, None, :]
    k = members.shape[1]
    columns = np.column_stack([members, np.full(len(members), scoring.outcome)]).T
    matrices = grams[:, columns[:, None], columns].transpose(1, 2, 0, 3)
    present = scale[:, members.T].transpose(1, 0, 2) > 0.0
    dependent = np.zeros(present.shape[1:], dtype=bool)
    for i in range(k):
        usable = present[i] & (matrices[i, i] >= tolerance)
        dependent |= present[i] & ~usable
        _sweep(
            matrices, i, np.divide(1.0, matrices[i, i], out=np.zeros(usable.shape), where=usable)
        )
    shares = matrices[k, k].copy()
    ranks = present.sum(axis=0)
    unknown = dependent | ~(shares >= tolerance)
    shares[unknown] = np.nan
    if scoring.rows.values.size:
        for g in np.flatnonzero(unknown.any(axis=1)).tolist():
            asked = np.flatnonzero(unknown[g])
            shares[g, asked], from_rows = _fits_from_rows(
                scoring.rows, g, members[asked], scoring.outcome
            )
            ranks[g, asked] = np.where(dependent[g, asked], from_rows, ranks[g, asked])
    return shares, ranks


def _sweep(matrices, i, reciprocals):
    """Remove column i of matrices (k+1, k+1, …) by regression from those after it."""
    row = matrices[i, i + 1 :]
    matrices[i + 1 :, i + 1 :] -= (row * reciprocals)[:, None] * row


def _fits_from_rows(rows, g, members, outcome):
    """Of subsets (S, k) in group g: (S,) shares of the outcome, NaN outside the support, and
    ranks"""
    values = rows.values[:, rows.starts[g] : rows.stops[g]]
    norms = np.sqrt(np.einsum("dn,dn->d", values, values))
    unit = values / np.where(norms > 0.0, norms, 1.0)[:, None]
    starts = np.arange(len(members) + 1) * members.shape[1]
    shares, ranks = relative_residuals(unit, starts, members.ravel(), outcome, DEPENDENT)
    return np.where((shares >= DEPENDENT) & (rows.counts[g] >= ranks + 2), shares, np.nan), ranks


def score_subsets(scoring, penalty, starts, members, out):
    """Without a penalty: it is NaN."""
    for which, chosen in of_one_size(
        starts, members, lambda k: scoring.weights.size * (k + 1) ** 2
    ):
        shares, _ = _fits(scoring, chosen)
        values = _log_ratios(scoring, shares)
        unsettled = np.flatnonzero(np.isnan(values) & ~np.isnan(shares).any(axis=0))
        if len(unsettled) and scoring.rows.values.size:
            asked = chosen[unsettled]
            groups = range(len(scoring.weights))
            again = [_fits_from_rows(scoring.rows, g, asked, scoring.outcome)[0] for g in groups]
            values[unsettled] = _log_ratios(scoring, np.array(again))
        out[which] = values


def subset_fits(scoring, starts, members, shares, ranks):
    for which, chosen in of_one_size(
        starts, members, lambda k: scoring.weights.size * (k + 1) ** 2
    ):
        found, found_ranks = _fits(scoring, chosen)
        shares[which] = found.T
        ranks[which] = found_ranks.T
