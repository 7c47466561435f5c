"""The normalising constant Z = Σ p(z)Λ(z) from draws at several temperatures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp

from ..._tools.arrays import Floats, Integers, Mask
from ..target import Target
from .crew import Crew
from .ladders import Proposals

_PRIOR_DRAWS = 2000
_RUNGS = 12
_SETTLING, _KEPT = 60, 60
# Below this share of revisited draws the revisits say too little.
ENOUGH_REVISITS = 0.1
# The estimate from all segments scatters about so much less than one from two halves (its tests measure that).
_ALL_AGAINST_HALVES = 0.8


@dataclass(frozen=True)
class Evidence:
    """log_evidence: estimate of log Z; error: its Monte-Carlo standard error; method: how it came about."""

    log_evidence: float
    error: float
    method: str


def by_revisits(log_joint: Floats, visits: Integers) -> Evidence | None:
    """From how often one part of the draws falls on subsets that the other parts visited; None when hardly ever.

    log_joint (m,): log p(z)Λ(z) of the distinct subsets; visits (segments, m).
    For any set S of subsets P(z in S) = Σ_S p(z)Λ(z) / Z. For each segment, S is what the other segments visited, and
    the probability of S is the segment's own share of draws there. A subset that two segments visit counts for both, so
    that these estimates depend on each other; those of one half of the segments, with S from the other half, do not,
    and tell the error.
    """
    visits = visits[visits.sum(axis=1) > 0]
    half = len(visits) // 2
    if half < 2:
        return None
    total = visits.sum(axis=0)
    shares, inverses = np.array([_revisits(log_joint, own[None], total > own) for own in visits])[..., 0].T
    if np.mean(shares) < ENOUGH_REVISITS:
        return None
    errors = []
    for one, other in ((visits[:half], visits[half:]), (visits[half:], visits[:half])):
        values = _revisits(log_joint, one, other.sum(axis=0) > 0)[1]
        errors.append(values.std(ddof=1) / np.sqrt(len(values)) / inverses.mean())
    lowest = float(logsumexp(log_joint))
    estimate = max(lowest, lowest - float(np.log(inverses.mean())))
    return Evidence(estimate, max(_ALL_AGAINST_HALVES * float(np.mean(errors)), 1.0 / float(total.sum())), "revisits")


def _revisits(log_joint: Floats, visits: Integers, known: Mask) -> tuple[Floats, Floats]:
    """Share (k,) of the draws of each segment that fall on `known` (m,) subsets, and the estimates of 1/Z that follow,
    relative to 1/Σ of all p(z)Λ(z)."""
    shares = visits[:, known].sum(axis=1) / visits.sum(axis=1)
    return shares, shares * np.exp(logsumexp(log_joint) - logsumexp(log_joint[known])) if known.any() else shares


def by_stepping_stones(target: Target, crew: Crew[Any], proposals: Proposals, traces: list[Floats]) -> Evidence:
    """From the prior through all temperatures to the posterior, by geometric bridges between neighbours.

    traces: of each replica (n, t) log Λ. Below the hottest temperature, a ladder down to the prior is run for this.
    """
    hottest = proposals.betas[0]
    below = hottest * (np.arange(_RUNGS + 1) / _RUNGS) ** 3
    ladder = Proposals(below, proposals.rules, proposals.differences)
    for replica in crew.replicas:
        replica.place(np.repeat(replica.included[:1], len(below), 0), np.repeat(replica.log_ratios[:1], len(below)))
    list(crew.rounds(ladder, _SETTLING))
    from_prior = np.array([bridges(below, kept.trace) for kept in crew.rounds(ladder, _KEPT)])
    from_hottest = np.array([bridges(proposals.betas, trace) for trace in traces])
    drawn = target.prior.sample(_PRIOR_DRAWS, crew.replicas[0].rng)
    decidable = np.isfinite(target.model.log_ratio_many(drawn)).mean()
    start = float(np.log(max(decidable, 0.5 / _PRIOR_DRAWS)))
    total = start + from_prior + from_hottest
    error = float(total.std(ddof=1) / np.sqrt(len(total))) if len(total) > 1 else float("inf")
    return Evidence(float(total.mean()), error, "stepping stones")


def bridges(betas: Floats, trace: Floats) -> float:
    """log of Z(last β) / Z(first β) from log Λ (n, t) of chains at `betas` (t,)."""
    total = 0.0
    for i in range(len(betas) - 1):
        half = 0.5 * (betas[i + 1] - betas[i])
        total += float(logsumexp(half * trace[:, i]) - logsumexp(-half * trace[:, i + 1]))
    return total
