"""Twins of what is computed for lists of subsets: those of one size are swept together."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Floats, Integers
from ..active_set import Scoring
from .rows import fits_from_rows, of_one_size
from .tree import settle

# Numbers in the matrices of subsets that are worked on together.
_MOST_NUMBERS = 1 << 21


def _sweep(matrices: Floats, i: int, reciprocals: Floats) -> None:
    """Remove column i of matrices (k+1, k+1, …) by regression from those after it."""
    row = matrices[i, i + 1 :]
    matrices[i + 1 :, i + 1 :] -= (row * reciprocals)[:, None] * row


def _fits(scoring: Scoring, members: Integers) -> tuple[Floats, Integers]:
    """(G, S) shares of the outcome that subsets (S, k) leave, from rows where second moments cannot tell, and ranks"""
    scale, tolerance = scoring.inverse_scale, scoring.tolerance
    grams = scoring.scatter * scale[:, :, None] * scale[:, None, :]
    k = members.shape[1]
    columns = np.column_stack([members, np.full(len(members), scoring.outcome)]).T
    matrices = grams[:, columns[:, None], columns].transpose(1, 2, 0, 3)
    present = scale[:, members.T].transpose(1, 0, 2) > 0.0
    dependent = np.zeros(present.shape[1:], dtype=bool)
    for i in range(k):
        usable = present[i] & (matrices[i, i] >= tolerance)
        dependent |= present[i] & ~usable
        _sweep(matrices, i, np.divide(1.0, matrices[i, i], out=np.zeros(usable.shape), where=usable))
    shares, ranks = matrices[k, k].copy(), present.sum(axis=0)
    unknown = dependent | ~(shares >= tolerance)
    shares[unknown] = np.nan
    if scoring.rows.values.size:
        for g in np.flatnonzero(unknown.any(axis=1)).tolist():
            asked = np.flatnonzero(unknown[g])
            shares[g, asked], from_rows = fits_from_rows(scoring.rows, g, members[asked], scoring.outcome)
            ranks[g, asked] = np.where(dependent[g, asked], from_rows, ranks[g, asked])
    return shares, ranks


def _pieces(scoring: Scoring, starts: Integers, members: Integers) -> list[tuple[Integers, Integers]]:
    pieces = []
    for which, chosen in of_one_size(starts, members):
        together = max(1, _MOST_NUMBERS // (len(scoring.weights) * (chosen.shape[1] + 1) ** 2))
        cuts = range(0, len(which), together)
        pieces += [(which[cut : cut + together], chosen[cut : cut + together]) for cut in cuts]
    return pieces


def _log_ratios(scoring: Scoring, shares: Floats) -> Floats:
    total = np.full(shares.shape[1], scoring.offset)
    for weight, share in zip(scoring.weights, shares, strict=True):
        total += weight * np.log(share)
    settle(total, scoring.weights)
    return total


def score_subsets(scoring: Scoring, penalty: float, starts: Integers, members: Integers, out: Floats) -> None:
    """Without a penalty: it is NaN."""
    for which, chosen in _pieces(scoring, starts, members):
        shares, _ = _fits(scoring, chosen)
        values = _log_ratios(scoring, shares)
        unsettled = np.flatnonzero(np.isnan(values) & ~np.isnan(shares).any(axis=0))
        if len(unsettled) and scoring.rows.values.size:
            asked = chosen[unsettled]
            groups = range(len(scoring.weights))
            again = [fits_from_rows(scoring.rows, g, asked, scoring.outcome)[0] for g in groups]
            values[unsettled] = _log_ratios(scoring, np.array(again))
        out[which] = values


def subset_fits(scoring: Scoring, starts: Integers, members: Integers, shares: Floats, ranks: Integers) -> None:
    for which, chosen in _pieces(scoring, starts, members):
        found, found_ranks = _fits(scoring, chosen)
        shares[which], ranks[which] = found.T, found_ranks.T


def subset_slopes(gram: Floats, tolerance: float, starts: Integers, members: Integers, slopes: Floats) -> None:
    for which, chosen in of_one_size(starts, members):
        k = chosen.shape[1]
        columns = np.column_stack([chosen, np.full(len(chosen), len(gram) - 1)]).T
        matrices = gram[columns[:, None], columns]
        for i in range(k):
            pivot = matrices[i, i]
            _sweep(matrices, i, 1.0 / np.where(pivot >= tolerance, pivot, np.nan))
        for i in reversed(range(k)):
            slope = matrices[i, k].copy()
            for j in range(i + 1, k):
                slope -= matrices[i, j] * slopes[which, chosen[:, j]]
            pivot = matrices[i, i]
            slopes[which, chosen[:, i]] = slope / np.where(pivot >= tolerance, pivot, np.nan)


def residual_powers(
    columns: Floats, slopes: Floats, starts: Integers, members: Integers, squares: Floats, fourths: Floats
) -> None:
    together = max(1, _MOST_NUMBERS // columns.shape[1])
    for cut in range(0, len(slopes), together):
        part = slopes[cut : cut + together]
        residuals = np.repeat(columns[-1:], len(part), axis=0)
        for slope, x in zip(part.T, columns[:-1], strict=True):
            used = np.flatnonzero(slope)
            residuals[used] -= slope[used, None] * x
        powers = residuals * residuals
        squares[cut : cut + together] = powers.sum(axis=1)
        fourths[cut : cut + together] = np.einsum("sn,sn->s", powers, powers)


def grouped_block_log_ratios(scoring: Scoring, fixed: Integers, starts: Integers, block: Integers, out: Floats) -> None:
    chosen = np.arange(len(out))[:, None] >> np.arange(len(starts) - 1) & 1 == 1
    columns = np.repeat(chosen, np.diff(starts), axis=1)
    holds = np.column_stack([np.ones((len(out), len(fixed)), dtype=bool), columns])
    ends = np.concatenate([[0], np.cumsum(holds.sum(axis=1))])
    score_subsets(scoring, np.nan, ends, np.concatenate([fixed, block])[np.nonzero(holds)[1]], out)
