"""The result of a tempered sampler: agreement of its replicas, its evidence, what stands against relying on it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from ..._tools.arrays import Floats, Integers, Mask
from ...data.checks import warn
from ...exceptions import ApproximationWarning, Message, use
from ...posterior.posterior import Posterior, format_tail, table_order
from ..base import Target, described, rescore_leading
from ..modes import support_notes
from .crews import AnyCrew
from .ladders import Proposals, Round, Space

if TYPE_CHECKING:
    import pandas as pd

    from .engine import Tempering

# Features whose inclusion varies less than this do not count for R̂: their standard error alone speaks.
_SETTLED_VARIANCE = 1e-3
_PRIOR_DRAWS = 2000
_RUNGS = 12
_SETTLING, _KEPT = 60, 60
# Below this share of revisited draws the revisits say too little.
ENOUGH_REVISITS = 0.1
# The estimate from all segments scatters about so much less than one from two halves (its tests measure that).
_ALL_AGAINST_HALVES = 0.8
_COMPARED = 500
_FEWEST_SEGMENTS = 4
_SHOWN = 20
_SAME = 1e-6
# A subset this probable should have been visited.
_NOTABLE = 0.05
# A subset whose log ratio is so low for an invariant one may well be the best of those that are not.
_IMPLAUSIBLE = 1e-3
# The estimate of the evidence is nearer than this, in nats, unless a mode is missing.
_EXCESS = 1.0
_MORE_STEPS = use(engine="tempering(chains=8, steps=20000)")
_LONGER = use(engine="tempering(searches=20)")


@dataclass(frozen=True, eq=False)
class Agreement:
    """inclusion, standard_error, r_hat: (d,) each."""

    inclusion: Floats
    standard_error: Floats
    r_hat: Floats

    @property
    def largest_error(self) -> float:
        return float(self.standard_error.max(initial=0.0))

    @property
    def largest_r_hat(self) -> float:
        return float(self.r_hat.max(initial=1.0))

    def reached(self, precision: float, r_hat: float) -> bool:
        return self.largest_error <= precision and self.largest_r_hat <= r_hat


def agreement_of(batches: Floats) -> Agreement:
    """From batches (replicas, rounds, d): mean inclusion of each feature in each round of each replica.

    Segments are halves of replicas. R̂² = 1 + (variance between segments) / (Bernoulli variance within them). The
    standard error is the larger of two: from the batches, and from the segments, which see slow drifts.
    """
    n_replicas, n_rounds, d = batches.shape
    half = n_rounds // 2
    if half:
        parts = [batches[:, :half].mean(axis=1), batches[:, n_rounds - half :].mean(axis=1)]
        segments = np.concatenate(parts)
    else:
        segments = batches[:, 0]
    inclusion = batches.mean(axis=(0, 1))
    if len(segments) < 2:
        unknown = np.sqrt(inclusion * (1.0 - inclusion))
        return Agreement(inclusion, unknown, np.where(unknown > 0, np.inf, 1.0))
    flat = batches.reshape(n_replicas * n_rounds, d)
    between = segments.var(axis=0, ddof=1)
    within = np.clip(segments * (1.0 - segments), 0.0, None).mean(axis=0)
    error = np.sqrt(np.maximum(flat.var(axis=0, ddof=1) / len(flat), between / len(segments)))
    r_hat = np.sqrt(1.0 + between / np.maximum(within, 1e-12))
    settled = inclusion * (1.0 - inclusion) < _SETTLED_VARIANCE
    return Agreement(inclusion, error, np.where(settled, 1.0, r_hat))


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


def evidence_of(
    target: Target, crew: AnyCrew, proposals: Proposals, rounds: list[list[Round]], visited: Visited
) -> Evidence:
    """By revisits or, where these are too few, by stepping stones."""
    if target.model.describe().n_environments == 1 and target.model.untilted is target.model:
        return Evidence(0.0, 0.0, "one environment")
    traces = [np.concatenate([part.trace for part in kept]) for kept in rounds]
    return by_revisits(visited.log_joint, visited.visits) or by_stepping_stones(target, crew, proposals, traces)


def by_stepping_stones(target: Target, crew: AnyCrew, proposals: Proposals, traces: list[Floats]) -> Evidence:
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


class TemperingPosterior(Posterior):
    """Posterior estimated by parallel tempering.

    Inclusion probabilities are Rao-Blackwellised averages with Monte-Carlo standard errors (`inclusion_errors`). The
    probability of a subset is p(z)Λ(z) / Ẑ, where Ẑ = exp(log_evidence) comes from revisits or, where the posterior is
    too wide for that, from stepping stones; `diagnostics` says which, with its error.
    """

    @property
    def inclusion_errors(self) -> pd.Series:
        """Monte-Carlo standard error of each inclusion probability, by feature name."""
        import pandas as pd

        return pd.Series(
            self.diagnostics["inclusion_errors"], index=list(self.feature_names), name="standard_error", dtype=float
        )


@dataclass(frozen=True, eq=False)
class DrawnSource:
    """Answers from the conditional model and the evidence estimate; draws come from the kept ones.

    draws (n, ⌈p/8⌉): packed masks.
    """

    target: Target
    log_evidence: float
    draws: NDArray[np.uint8]

    def log_probability(self, masks: Mask) -> Floats:
        joint = self.target.log_joint(masks)
        excess = joint.max(initial=-np.inf) - self.log_evidence
        if excess > _EXCESS:
            times = f"{np.exp(min(excess, 700.0)):.3g} times its total probability"
            warn(Message(f"the sampler missed a mode: a subset has {times}", _LONGER), ApproximationWarning)
        return np.minimum(joint - self.log_evidence, 0.0)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        """n of the kept draws, with replacement."""
        rows = self.draws[rng.integers(0, len(self.draws), size=n)]
        return np.unpackbits(rows, axis=1, count=self.target.n_features).astype(bool)

    def leading(self, mass: float) -> None:
        return None


@dataclass(frozen=True, eq=False)
class Visited:
    """Distinct subsets of the coldest chains.

    masks (m, p); log_ratios, log_joint (m,): log Λ and log p(z)Λ(z); visits (segments, m): by each half (of few
    replicas, each smaller part) of each replica.
    """

    masks: Mask
    log_ratios: Floats
    log_joint: Floats
    visits: Integers

    @classmethod
    def of(cls, target: Space, rounds: list[list[Round]]) -> Visited:
        packed, values, segment = [], [], []
        per_replica = max(2, -(-_FEWEST_SEGMENTS // len(rounds)))
        for r, parts in enumerate(rounds):
            for i, part in enumerate(parts):
                packed.append(part.draws)
                values.append(part.trace[:, -1])
                segment.append(np.full(len(part.draws), per_replica * r + per_replica * i // len(parts)))
        rows, ratios, segments = np.concatenate(packed), np.concatenate(values), np.concatenate(segment)
        distinct, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        included = np.unpackbits(distinct, axis=1, count=target.n_columns).astype(bool)
        visits = np.zeros((per_replica * len(rounds), len(distinct)), np.int64)
        np.add.at(visits, (segments, group.ravel()), 1)
        log_joint = target.log_posterior(included, ratios[first])
        return cls(target.masks(included), ratios[first], log_joint, visits)

    def entropy(self, log_evidence: float) -> float:
        """Of each segment: Σ −p log p over what the others visited, and the mean of −log p of its own draws elsewhere.

        What the others visited does not depend on the segment's draws, so that nothing is counted twice or left out.
        """
        surprise = log_evidence - self.log_joint
        terms = np.exp(-surprise) * surprise
        estimates = []
        for own in self.visits[self.visits.sum(axis=1) > 0]:
            elsewhere = self.visits.sum(axis=0) > own
            estimates.append(terms[elsewhere].sum() + own[~elsewhere] @ surprise[~elsewhere] / own.sum())
        return max(0.0, float(np.mean(estimates)))

    def shares_of(self, masks: Mask) -> list[float]:
        """Share of all draws of each of the subsets (k, p), 0 for those that were not visited."""
        total = self.visits.sum(axis=0)
        known = dict(zip((mask.tobytes() for mask in self.masks), total / total.sum(), strict=True))
        return [float(known.get(mask.tobytes(), 0.0)) for mask in masks]

    def n_modes(self) -> int:
        """Leading subsets from which no other leading one, a single flip away, is more probable."""
        top = np.argsort(-self.log_joint, kind="stable")[:_COMPARED]
        masks, values = self.masks[top].astype(np.float64), self.log_joint[top]
        sizes = masks.sum(axis=1)
        distance = sizes[:, None] + sizes - 2.0 * masks @ masks.T
        return int((~((distance < 1.5) & (values[None] > values[:, None])).any(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class Sampled:
    """What a run leaves behind.

    rounds: for each replica its rounds; warm_up_bests (replicas,): log p(z)Λ(z) of the best of each in warm-up
    """

    crew: AnyCrew
    proposals: Proposals
    rounds: list[list[Round]]
    visited: Visited
    evidence: Evidence
    verdict: Agreement
    warm_up_bests: Floats

    @property
    def n_sweeps(self) -> int:
        return sum(len(part.draws) for part in self.rounds[0])

    def leading(self, keep: int) -> tuple[Mask, Floats]:
        """Masks and log ratios of the best `keep` subsets that were visited, and of the best one met anywhere."""
        visited, target, (included, value) = self.visited, self.crew.target, self.crew.best
        order = np.argsort(-visited.log_joint, kind="stable")[:keep]
        masks, log_ratios = visited.masks[order], visited.log_ratios[order]
        best = target.masks(included[None])[0]
        if (masks == best).all(axis=1).any():
            return masks, log_ratios
        log_ratio = value - target.log_posterior(included[None], np.zeros(1))[0]
        return np.concatenate([best[None], masks])[:keep], np.concatenate([[log_ratio], log_ratios])[:keep]

    def problem(self, log_evidence: float, agreement: float, tail: float) -> Message | None:
        """What stands against relying on the run, and what to do; None where nothing does.

        tail: probability that an invariant subset has a log ratio as low as the best one
        """
        best, verdict, searched = self.crew.best[1], self.verdict, self.crew.searched
        log_probability = best - log_evidence
        if best > self.visited.log_joint.max() + _SAME and log_probability > np.log(_NOTABLE):
            share = np.exp(log_probability)
            return Message(f"the best subset (probability {share:.2g}) was never sampled at temperature 1", _MORE_STEPS)
        if verdict.largest_r_hat > agreement:
            figures = f"R̂ up to {verdict.largest_r_hat:.2f}, standard errors up to {verdict.largest_error:.3f}"
            return Message(f"the replicas disagree ({figures})", _MORE_STEPS)
        if searched.hidden:
            near = f"only {searched.n_near} of {len(searched.ends)} searches came near the best subset"
            return Message(f"{near}, and a better one may be hidden", _LONGER)
        if tail < _IMPLAUSIBLE:
            low = f"the best subset has a low log ratio for an invariant one (tail probability {format_tail(tail)})"
            return Message(f"{low}; no subset is quite invariant, or a better one is hidden", _LONGER)
        return None

    def agreement_note(self, precision: float, agreement: float, problem: bool) -> str:
        verdict, n = self.verdict, len(self.rounds)
        figures = f"standard errors of inclusion up to {verdict.largest_error:.4f}, R̂ up to {verdict.largest_r_hat:.3f}"
        if verdict.reached(precision, agreement):
            settled = f"{n} replicas {'have' if problem else 'agree'} after {self.n_sweeps:,} sweeps"
            return f"{settled}: {figures}{'; but see the next note' if problem else ''}."
        target = f"standard errors {precision:g}, R̂ {agreement:g}"
        return f"the budget of {self.n_sweeps:,} sweeps ended before the target ({target}) was reached: {figures}."


def tempering_posterior(target: Target, sampled: Sampled, engine: Tempering, started: float) -> TemperingPosterior:
    """The posterior of a run, with a warning where it is not to be relied on."""
    crew, verdict, visited = sampled.crew, sampled.verdict, sampled.visited
    space, searched, best = crew.target, crew.searched, crew.best[1]
    precision, agreement = engine.precision, engine.agreement
    masks, log_ratios = sampled.leading(engine.keep)
    check = rescore_leading(target.model, masks, log_ratios, min(engine.rescore, len(masks)))
    log_joint = target.log_joint(masks, check.log_ratios)
    log_evidence = max(sampled.evidence.log_evidence, float(logsumexp(log_joint)))
    mode, tail = int(np.argmax(log_joint)), 1.0
    # Nothing can be hidden where every subset was visited, or where a block of the second recipe holds all columns.
    all_in_a_block = space.n_free <= sampled.proposals.rules[1].largest
    if not all_in_a_block and len(visited.masks) != target.prior.support_size():
        (log_ratio,) = target.log_ratios(masks[mode : mode + 1], check.log_ratios[mode : mode + 1])
        tail = float(target.model.invariance_tails(masks[mode : mode + 1], [log_ratio]).probability[0])
    problem = sampled.problem(log_evidence, agreement, tail)
    notes = [*check.notes, sampled.agreement_note(precision, agreement, problem is not None)]
    if problem is not None:
        notes.append(problem)
        warn(problem, ApproximationWarning)
    notes += support_notes(target, crew.without_value)
    every = [part for parts in sampled.rounds for part in parts]
    draws = np.concatenate([part.draws for part in every])
    included = np.unpackbits(draws, axis=1, count=space.n_columns).astype(bool)
    rejected = np.mean([part.rejected for part in every], axis=0)
    order = table_order(masks, log_joint)[:_SHOWN]
    return TemperingPosterior(
        **described(target),
        inclusion=np.clip(space.by_feature(verdict.inclusion, 1.0), 0.0, 1.0),
        masks=masks,
        log_ratios=check.log_ratios,
        log_probabilities=log_joint - log_evidence,
        log_evidence=log_evidence,
        entropy=visited.entropy(log_evidence),
        engine=f"parallel tempering ({len(sampled.rounds)} replicas, {sampled.n_sweeps:,} sweeps each)",
        notes=tuple(notes),
        diagnostics={
            "seconds": time.perf_counter() - started,
            "converged": bool(verdict.reached(precision, agreement) and problem is None),
            "sweeps": sampled.n_sweeps,
            "replicas": len(sampled.rounds),
            "inclusion_errors": space.by_feature(verdict.standard_error, 0.0).tolist(),
            "largest_error": verdict.largest_error,
            "largest_r_hat": _plain(verdict.largest_r_hat),
            "log_evidence_error": _plain(sampled.evidence.error),
            "log_evidence_method": sampled.evidence.method,
            "inverse_temperatures": sampled.proposals.betas.tolist(),
            "swap_rates": (1.0 - rejected).tolist(),
            "visited_subsets": len(visited.masks),
            "visit_shares": visited.shares_of(masks[order]),
            "distinct_modes": visited.n_modes(),
            "replicas_that_found_the_best": int((sampled.warm_up_bests > best - _SAME).sum()),
            "searches": len(searched.ends),
            "searches_that_found_the_best": int((searched.values > best - _SAME).sum()),
            "best_log_probability": best - log_evidence,
            "mean_log_ratio": float(np.concatenate([part.trace[:, -1] for part in every]).mean()),
            "rescoring_difference": check.difference,
        },
        source=DrawnSource(target, log_evidence, np.packbits(space.masks(included), axis=1)),
    )


def _plain(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
