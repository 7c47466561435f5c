"""Twins of the sums over the weights of subsets, and over their members."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Floats, Integers, Mask

_LOWEST_EXPONENT = -708.0


def exp_shifted(values: Floats, shift: float, out: Floats) -> None:
    with np.errstate(invalid="ignore"):
        exponents = values - shift
    inside = exponents > _LOWEST_EXPONENT
    np.exp(exponents, out=out, where=inside)
    out[~inside] = 0.0


def weighted_sum(weights: Floats, values: Floats) -> float:
    positive = weights > 0.0
    return float((weights[positive] * values[positive]).sum())


def fold_inclusion(weights: Floats, n_low: int, pairs: Floats) -> float:
    """As the kernel, but for `weights`, which stay as they are."""
    for j in reversed(range(n_low)):
        upper = weights[1 << j :]
        pairs[j, j], pairs[j, :j] = _folded(upper, j)
        pairs[:j, j] = pairs[j, :j]
        weights = weights[: 1 << j] + upper
    return float(weights[0])


def _folded(weights: Floats, n_low: int) -> tuple[float, Floats]:
    """The total of weights (2**n_low,), and (n_low,) their sums over positions with bit j"""
    sums = np.empty(n_low)
    for j in reversed(range(n_low)):
        upper = weights[1 << j :]
        sums[j] = upper.sum()
        weights = weights[: 1 << j] + upper
    return float(weights[0]), sums


def listed_inclusion(weights: Floats, members: Integers, pairs: Floats) -> float:
    holds = np.zeros((len(members), len(pairs) + 1))
    holds[np.arange(len(members))[:, None], members] = 1.0
    holds = holds[:, :-1]  # the last column took the places beyond the last member
    pairs += np.triu((weights[:, None] * holds).T @ holds)
    return float(weights.sum())


def add_dense_prior(
    low_log_odds: Floats, low_sizes: Integers, constant: float, log_size_weight: Floats, log_ratio: Floats, out: Floats
) -> None:
    out[:] = log_ratio + low_log_odds + constant + log_size_weight[low_sizes]
    out[np.isnan(out)] = -np.inf


def add_listed_prior(
    log_odds: Floats, constant: float, log_size_weight: Floats, members: Integers, log_ratio: Floats, out: Floats
) -> None:
    out[:] = log_ratio + constant
    for chosen in members.T:
        out += np.append(log_odds, 0.0)[chosen]
    out += log_size_weight[(members >= 0).sum(axis=1)]
    out[np.isnan(out)] = -np.inf


def sizes(masks: Mask) -> Integers:
    return masks.sum(axis=1)


def sums_over_members(masks: Mask, values: Floats) -> Floats:
    return np.where(masks, values, 0.0).sum(axis=1)
