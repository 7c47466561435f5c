"""Parallel tempering over subsets, for posteriors with too many subsets to enumerate.

The target at inverse temperature β is π_β(z) ∝ p(z) Λ(z)^β, which is the posterior of equation 7 of
the paper (Wu et al. 2025, arXiv:2506.22675) at β = 1 and the prior at β = 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from .._tools.arrays import Floats, Integers, Mask, Rng
from .._tools.progress import ProgressBar
from .._tools.time_limit import out_of_time
from ..data.checks import warn
from ..exceptions import ApproximationWarning, Message, use
from ..models.base import check_number, check_whole_number
from ..posterior.posterior import Posterior, SubsetSource
from .base import (
    RESCORED,
    RunOptions,
    Target,
    common_fields,
    drawn,
    rescore_leading,
    support_notes,
    with_remarks,
)
from .mode_search import PATIENCE, SAME, Searched, first_betas, search_modes
from .replicas import (
    AnySampler,
    GenericSampler,
    Proposals,
    Round,
    Sampler,
    block_rules,
    n_proposed,
    sampler_of,
)

_FEWEST_TEMPERATURES = 4
_MOST_TEMPERATURES = 10
# the second where `_FEWEST_COSTLY` counts
_TUNING_SWEEPS = (20, 20, 20, 20)
_FEW_TUNING_SWEEPS = (8, 8, 8, 8)
_ROUND = 25
_FEWEST_ROUNDS = 6
_AGREEMENT = 1.05  # the largest R̂ of replicas that agree
_MOST_SWEEPS = 3000
_FEWEST_SWEEPS = 200
_FEWEST_COSTLY = (
    50  # where a table has so many levels that subsets are scored nearly, and again afterwards
)
_AFFORDABLE = 5e10  # what all sweeps may cost, in steps of a linear Gaussian's dense walk: minutes
_SETTLED_VARIANCE = (
    1e-3  # of inclusion, below which R̂ does not count: the standard error alone speaks
)
_PRIOR_DRAWS = 2000
_RUNGS = 12
_SETTLING = 60
_KEPT = 60
# draws of the prior, by their weights, that tell the evidence of the hottest chains well enough
_COUNTING = 200
_ENOUGH_REVISITS = 0.1  # share of draws
# The estimate from all segments scatters about so much less than one from two halves (its tests
# measure that).
_ALL_AGAINST_HALVES = 0.8
_FEWEST_SEGMENTS = 4
_NOTABLE = 0.05  # a subset this probable should have been visited
# a subset with so low a log ratio for an invariant one may be the best of those that are not
_IMPLAUSIBLE = 1e-3
_SAMPLING = "sampling of the paper's posterior"  # as a limit on the time lists it
_NEARLY = 0.05  # nats by which a sampled log ratio may be off
_EXCESS = 1.0  # nats: the estimate of the evidence is nearer, unless a mode is missing
_MORE_STEPS = use(engine="tempering(chains=8, steps=20000)")
_LONGER = use(engine="tempering(searches=20)")


@dataclass(frozen=True)
class Tempering:
    """Sample the posterior by parallel tempering with block Gibbs moves.

    Each replica is a ladder of chains, one at each inverse temperature β, with the target π_β(z) ∝
    p(z)·Λ(z)^β. During warm-up an annealed search finds modes, and the ladder, the choice of blocks
    and a list of jumps between modes are tuned. All of these are then fixed, and samples are kept.
    Every move leaves π_β unchanged:

    - exchanges: a member chosen uniformly leaves, and its replacement is drawn from the exact
      conditional distribution;
    - informed flips: Metropolis-Hastings with proposals ∝ single-site conditionals (Zanella 2020);
    - blocks: features enter a block independently, and one of its 2^b subsets is drawn with weight
      π_β(z)·P(block | z);
    - jumps: flip all features in which two modes of the warm-up differ;
    - swaps between neighbouring temperatures.

    Inclusion probabilities are Rao-Blackwellised by the conditionals of flips and blocks. Models
    without a compiled scorer, and features of several columns, are sampled by simpler moves of the
    same kinds.

    Parameters
    ----------
    chains : int, default=4
        Independent replicas, in threads. The result does not depend on the number of threads.
    steps : int or "auto", default="auto"
        Largest number of sweeps that are kept in each replica. "auto" is 3,000, or fewer if those
        would take more than minutes (at least 200, or 50 for features with several columns that are
        dependent in some environment).
    searches : int, default=4
        Annealed searches in each replica; up to four times as many until several come near the best
        subset.
    precision : float, default=0.01
        Target for the largest Monte Carlo standard error of an inclusion probability.
    keep : int, default=4096
        Number of leading subsets in the table of the result.

    References
    ----------
    Geyer, C. J. (1991), Markov chain Monte Carlo maximum likelihood, Computing Science and
    Statistics 23, 156-163.

    Zanella, G. (2020), Informed proposals for local MCMC in discrete spaces, Journal of the
    American Statistical Association 115, 852-865, arXiv:1711.07424.

    Examples
    --------
    >>> from invariance import BIP, Tempering
    >>> from invariance.datasets import make_example
    >>> engine = Tempering(chains=2, steps=200)
    >>> BIP(engine=engine, random_state=0).fit(make_example()).selected_features_
    ('age', 'exercise', 'smoking')
    """

    chains: int = 4
    steps: int | Literal["auto"] = "auto"
    searches: int = 4
    precision: float = 0.01
    keep: int = 4096

    def __post_init__(self) -> None:
        for name in ("chains", "steps", "searches", "keep"):
            if name != "steps" or self.steps != "auto":
                check_whole_number(self, name, 1, getattr(type(self), name))
        check_number(self, "precision", "standard error", positive=True)

    def run(self, target: Target, options: RunOptions) -> Posterior:
        started = time.perf_counter()
        most_sweeps = self.most_sweeps(target)
        n_rounds = max(1, -(-most_sweeps // _ROUND))
        stages = PATIENCE * self.searches + len(_TUNING_SWEEPS) + n_rounds
        with ProgressBar("sampling subsets", stages * self.chains, options.progress) as bar:
            sampler = sampler_of(target, self.chains, options, bar.advance)
            proposals, searched = self._warm_up(sampler)
            rounds, agreement = self._sample(sampler, proposals, n_rounds, min(_ROUND, most_sweeps))
            visited = Visited.of(sampler, rounds)
            evidence = evidence_of(sampler, proposals, rounds, visited)
        n_sweeps = sum(len(part.draws) for part in rounds[0])
        included, best = searched.best_met(sampler)
        masks, log_ratios = visited.leading(sampler, included, best, self.keep)
        if not target.model.samples_exactly:
            log_ratios = self._exactly(target, masks, log_ratios)
        check = rescore_leading(target.model, masks, log_ratios, RESCORED)
        log_joint = target.log_joint(masks, check.log_ratios)
        log_evidence = max(evidence.log_evidence, float(logsumexp(log_joint)))
        tail = 1.0
        # Nothing can be hidden where every subset was visited, or where a block of the second
        # recipe holds all columns.
        all_in_a_block = sampler.n_free <= proposals.rules[1].largest
        if not all_in_a_block and len(visited.masks) != target.prior.support_size():
            mode = np.argmax(log_joint, keepdims=True)
            log_ratio = target.log_ratios(masks[mode], check.log_ratios[mode])
            tail = float(target.model.invariance_tails(masks[mode], log_ratio)[0])
        never_sampled = best - log_evidence if best > visited.log_joint.max() + SAME else -np.inf
        reached = agreement.reached(self.precision)
        error = agreement.largest_error
        r_hat = agreement.largest_r_hat
        problem = _problem(searched, agreement, never_sampled, tail)
        end = "agree" if reached and problem is None else "stopped"
        figures = f"standard errors of inclusion up to {error:.4f}, R̂ up to {r_hat:.3f}"
        notes = [
            *check.notes,
            f"{len(rounds)} replicas {end} after {n_sweeps:,} sweeps: {figures}.",
        ]
        if problem is not None:
            notes.append(problem)
            warn(problem, ApproximationWarning)
        if isinstance(sampler, GenericSampler):
            unscored = sampler.masks(sampler.memory.without_value)
        else:
            assert searched.synergies is not None
            unscored = searched.synergies.undecidable()
        every = [part for parts in rounds for part in parts]
        draws = np.concatenate([part.draws for part in every])
        kept = sampler.masks(np.unpackbits(draws, axis=1, count=sampler.n_columns).astype(bool))
        posterior = Posterior(
            **common_fields(target),
            inclusion=np.clip(sampler.by_feature(agreement.inclusion, 1.0), 0.0, 1.0),
            masks=masks,
            log_ratios=check.log_ratios,
            log_probabilities=log_joint - log_evidence,
            log_evidence=log_evidence,
            entropy=visited.entropy(log_evidence),
            engine=f"parallel tempering ({len(rounds)} replicas, {n_sweeps:,} sweeps each)",
            notes=(*notes, *support_notes(target, unscored)),
            diagnostics={
                "seconds": time.perf_counter() - started,
                "converged": bool(reached and problem is None),
                "sweeps": n_sweeps,
                "replicas": len(rounds),
                "inclusion_errors": sampler.by_feature(agreement.standard_error, 0.0).tolist(),
                "largest_error": error,
                "largest_r_hat": _finite(r_hat),
                "log_evidence_error": _finite(evidence.error),
                "log_evidence_method": evidence.method,
                "inverse_temperatures": proposals.betas.tolist(),
                "swap_rates": (1.0 - np.mean([part.rejected for part in every], axis=0)).tolist(),
                "visited_subsets": len(visited.masks),
                "searches": len(searched.ends),
                "searches_that_found_the_best": sum(
                    value > best - SAME for _, value in searched.ends
                ),
                "rescoring_difference": check.difference,
            },
            source=DrawnSource(target, log_evidence, np.packbits(kept, axis=1)),
        )
        return with_remarks(target, posterior)

    @staticmethod
    def _exactly(target: Target, masks: Mask, sampled: Floats) -> Floats:
        """Return log Λ (k,) of the leading subsets exactly; warn if the sampler's value was
        poor."""
        exact = target.model.log_ratio_many(masks)
        off = np.abs(exact - sampled).max(initial=0.0)
        if not off <= _NEARLY:
            what = (
                "columns nearly depend on each other: log ratios while sampling were off by "
                f"up to {off:.2g}"
            )
            warn(
                f"{what}, and inclusion probabilities may be. Leave out one of each such pair.",
                ApproximationWarning,
            )
        return exact

    def most_sweeps(self, target: Target) -> int:
        if self.steps != "auto":
            return self.steps
        chains = self.chains * len(first_betas(target.model.n_rows))
        cost = chains * n_proposed(len(target.prior.free)) * target.model.steps_per_listed
        fewest = _FEWEST_SWEEPS if target.model.samples_exactly else _FEWEST_COSTLY
        return int(np.clip(_AFFORDABLE / max(cost, 1.0), fewest, _MOST_SWEEPS))

    def _warm_up(self, sampler: AnySampler) -> tuple[Proposals, Searched]:
        """Search, gather, tune. Nothing that is drawn here is kept."""
        size = sampler.block_size
        betas = first_betas(sampler.n_rows)
        searched = search_modes(sampler, betas, size, self.searches)
        interest = searched.interest
        doubt = np.zeros(sampler.n_columns)
        _redistribute(sampler, betas, searched)

        def proposals() -> Proposals:
            jumps = differences(searched.modes(sampler)[0])
            return Proposals(betas, block_rules(sampler, interest, size, doubt), jumps)

        for n in _TUNING_SWEEPS if sampler.target.model.samples_exactly else _FEW_TUNING_SWEEPS:
            if out_of_time(_SAMPLING):
                break
            rounds = sampler.advance(proposals(), n)
            interest = 0.5 * interest + 0.5 * np.mean([found.interest for found in rounds], axis=0)
            coldest = np.clip(np.mean([found.inclusion for found in rounds], axis=0), 0.0, 1.0)
            doubt = 0.5 * doubt + coldest * (1.0 - coldest)
            old = betas
            betas = retuned(betas, np.mean([found.rejected for found in rounds], axis=0))
            nearest = np.abs(np.log(old)[:, None] - np.log(betas)).argmin(axis=0)
            for replica in sampler.replicas:
                replica.place(replica.included[nearest], replica.log_ratios[nearest])
        return proposals(), searched

    def _sample(
        self, sampler: Sampler, proposals: Proposals, n_rounds: int, length: int
    ) -> tuple[list[list[Round]], Agreement]:
        """Run a limited number of rounds of `length` sweeps each in each replica."""
        rounds: list[list[Round]] = [[] for _ in sampler.replicas]
        for number in range(1, n_rounds + 1):
            for kept, new in zip(rounds, sampler.advance(proposals, length), strict=True):
                kept.append(new)
            due = number % 2 == 0 or number == n_rounds
            if due and number >= _FEWEST_ROUNDS and _agreement(rounds).reached(self.precision):
                break
            if number >= 2 and out_of_time(_SAMPLING):
                break
        return rounds, _agreement(rounds)


def _problem(
    searched: Searched, agreement: Agreement, never_sampled: float, tail: float
) -> Message | None:
    """Return why a run is unreliable, or None.

    never_sampled : log probability of the best subset if no chain visited it; tail : probability
        that an
    invariant subset has a log ratio as low as the best one.
    """
    share = np.exp(never_sampled)
    r_hat = agreement.largest_r_hat
    error = agreement.largest_error
    unseen = f"the best subset (probability {share:.2g}) was never sampled at temperature 1"
    torn = f"the replicas disagree (R̂ up to {r_hat:.2f}, standard errors up to {error:.3f})"
    near = f"only {searched.n_near} of {len(searched.ends)} searches came near the best subset"
    chance = "below 1e-300" if tail < 1e-300 else f"{tail:.0e}"
    low = f"the best subset has a low log ratio for an invariant one (tail probability {chance})"
    problems = (
        (share > _NOTABLE, unseen, _MORE_STEPS),
        (r_hat > _AGREEMENT, torn, _MORE_STEPS),
        (searched.hidden, f"{near}, and a better one may be hidden", _LONGER),
        (
            tail < _IMPLAUSIBLE,
            f"{low}; no subset is quite invariant, or a better one is hidden",
            _LONGER,
        ),
    )
    return next((Message(text, remedy) for stands, text, remedy in problems if stands), None)


def _finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _redistribute(sampler: AnySampler, betas: Floats, searched: Searched) -> None:
    """Let every chain start from what any search left at its temperature (at the coldest, also from
    the modes), drawn in proportion to π_β. Searches that ended in a poor mode are so abandoned."""
    modes, values = searched.modes(sampler)
    values = values - sampler.log_posterior(modes, np.zeros(len(modes)))
    for replica in sampler.replicas:
        included = np.empty((len(betas), sampler.n_columns), bool)
        log_ratios = np.empty(len(betas))
        for i, beta in enumerate(betas):
            masks = np.array([masks[i] for masks, _ in searched.states])
            ratios = np.array([values[i] for _, values in searched.states])
            if i == len(betas) - 1:
                masks = np.concatenate([masks, modes])
                ratios = np.concatenate([ratios, values])
            chosen = drawn(sampler.log_posterior(masks, beta * ratios), replica.rng)
            included[i] = masks[chosen]
            log_ratios[i] = ratios[chosen]
        replica.place(included, log_ratios)


def differences(modes: Mask) -> Mask:
    """Return the columns (n, d) in which pairs of modes (m, d) differ, without pairs one or two
    flips apart."""
    pairs = [modes[i] ^ modes[j] for i in range(len(modes)) for j in range(i)]
    wide = [pair for pair in pairs if pair.sum() > 2]
    return np.array(wide) if wide else np.zeros((0, modes.shape[1]), bool)


def retuned(betas: Floats, rejected: Floats) -> Floats:
    """Inverse temperatures between which swaps are refused equally often (Syed et al. 2022): the
    barrier, the sum of refusal rates, is cut into equal parts in log β, a few more than its
    height."""
    # A small slope keeps the curve increasing where no swap was refused.
    barrier = np.concatenate([[0.0], np.cumsum(rejected + 0.02)])
    number = int(np.clip(round(1.3 * rejected.sum()) + 2, _FEWEST_TEMPERATURES, _MOST_TEMPERATURES))
    tuned = np.exp(np.interp(np.linspace(0.0, barrier[-1], number), barrier, np.log(betas)))
    tuned[0] = betas[0]
    tuned[-1] = 1.0
    return tuned


# ---------------------------------------------------------------- agreement of the replicas, and
# the evidence


class Agreement(NamedTuple):
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

    def reached(self, precision: float) -> bool:
        return self.largest_error <= precision and self.largest_r_hat <= _AGREEMENT


def agreement_of(batches: Floats) -> Agreement:
    """Return the agreement of replicas from batches (replicas, rounds, d) of mean inclusion.

    Segments are halves of replicas: R̂² = 1 + (variance between segments) / (Bernoulli variance
    within them); the standard error is the larger of the batches' and the segments'.
    """
    n_replicas, n_rounds, d = batches.shape
    half = n_rounds // 2
    segments = batches[:, 0]
    if half:
        segments = np.concatenate(
            [batches[:, :half].mean(axis=1), batches[:, n_rounds - half :].mean(axis=1)]
        )
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


def _agreement(rounds: list[list[Round]]) -> Agreement:
    return agreement_of(np.array([[part.inclusion for part in kept] for kept in rounds]))


class LogEvidence(NamedTuple):
    """log_evidence: estimate of log Z; error: its Monte-Carlo standard error; method: how it came
    about."""

    log_evidence: float
    error: float
    method: str


def by_revisits(log_joint: Floats, visits: Integers) -> LogEvidence | None:
    """Estimate the log evidence from how often draws revisit subsets of other segments.

    log_joint (m,) : log p(z)Λ(z) of the distinct subsets; visits (segments, m). P(z in S) = Σ_S
    p(z)Λ(z) / Z is estimated by a segment's share of draws in S, the subsets that the others
    visited; the error is by halves of the segments. None if revisits are rare.
    """
    visits = visits[visits.sum(axis=1) > 0]
    half = len(visits) // 2
    if half < 2:
        return None
    total = visits.sum(axis=0)
    shares, inverses = np.array([_revisits(log_joint, own[None], total > own) for own in visits])[
        ..., 0
    ].T
    if np.mean(shares) < _ENOUGH_REVISITS:
        return None
    errors = []
    for one, other in ((visits[:half], visits[half:]), (visits[half:], visits[:half])):
        values = _revisits(log_joint, one, other.sum(axis=0) > 0)[1]
        errors.append(values.std(ddof=1) / np.sqrt(len(values)) / inverses.mean())
    lowest = float(logsumexp(log_joint))
    estimate = max(lowest, lowest - float(np.log(inverses.mean())))
    error = max(_ALL_AGAINST_HALVES * float(np.mean(errors)), 1.0 / float(total.sum()))
    return LogEvidence(estimate, error, "revisits")


def _revisits(log_joint: Floats, visits: Integers, known: Mask) -> tuple[Floats, Floats]:
    """Share (k,) of the draws of each segment that fall on `known` (m,) subsets, and the estimates
    of 1/Z that follow, relative to 1/Σ of all p(z)Λ(z)."""
    shares = visits[:, known].sum(axis=1) / visits.sum(axis=1)
    return shares, shares * np.exp(
        logsumexp(log_joint) - logsumexp(log_joint[known])
    ) if known.any() else shares


def evidence_of(
    sampler: Sampler, proposals: Proposals, rounds: list[list[Round]], visited: Visited
) -> LogEvidence:
    """Estimate the log evidence by revisits or, if these are too few, by stepping stones."""
    model = sampler.target.model
    if model.n_environments == 1 and model.untilted is model:
        return LogEvidence(0.0, 0.0, "one environment")
    traces = [np.concatenate([part.trace for part in kept]) for kept in rounds]
    return by_revisits(visited.log_joint, visited.visits) or by_stepping_stones(
        sampler, proposals, traces
    )


def by_stepping_stones(sampler: Sampler, proposals: Proposals, traces: list[Floats]) -> LogEvidence:
    """Estimate the log evidence through all temperatures by geometric bridges.

    It starts from draws of the prior, reweighted to the hottest chains or, if few of them count, by
    a ladder that is run for this. traces : log Λ (n, t) of each replica.
    """
    target = sampler.target
    hottest = proposals.betas[0]
    total = np.array([bridges(proposals.betas, trace) for trace in traces])
    drawn = target.model.log_ratio_many(target.prior.sample(_PRIOR_DRAWS, sampler.replicas[0].rng))
    weight = float(logsumexp(hottest * drawn))
    squares = float(logsumexp(2.0 * hottest * drawn))
    variance = float(
        np.exp(squares - 2.0 * weight)
    )  # 1 / how many draws count; NaN where all are undecidable
    if variance <= 1.0 / _COUNTING:
        total += weight - np.log(_PRIOR_DRAWS)
    else:
        variance = 0.0
        below = hottest * (np.arange(_RUNGS + 1) / _RUNGS) ** 3
        ladder = proposals._replace(betas=below)
        for replica in sampler.replicas:
            replica.place(
                np.repeat(replica.included[:1], len(below), 0),
                np.repeat(replica.log_ratios[:1], len(below)),
            )
        list(sampler.rounds(ladder, _SETTLING))
        total += [bridges(below, kept.trace) for kept in sampler.rounds(ladder, _KEPT)]
        total += np.log(max(np.isfinite(drawn).mean(), 0.5 / _PRIOR_DRAWS))
    error = (
        float(np.sqrt(total.var(ddof=1) / len(total) + variance))
        if len(total) > 1
        else float("inf")
    )
    return LogEvidence(float(total.mean()), error, "stepping stones")


def bridges(betas: Floats, trace: Floats) -> float:
    """log of Z(last β) / Z(first β) from log Λ (n, t) of chains at `betas` (t,)."""
    total = 0.0
    for i in range(len(betas) - 1):
        half = 0.5 * (betas[i + 1] - betas[i])
        total += float(logsumexp(half * trace[:, i]) - logsumexp(-half * trace[:, i + 1]))
    return total


# ---------------------------------------------------------------- the result


@dataclass(frozen=True, eq=False)
class DrawnSource(SubsetSource):
    """Answers from the model and the estimated evidence. draws (n, ⌈p/8⌉): packed masks that were
    kept"""

    target: Target
    log_evidence: float
    draws: NDArray[np.uint8]

    def log_probability(self, masks: Mask) -> Floats:
        joint = self.target.log_joint(masks)
        excess = joint.max(initial=-np.inf) - self.log_evidence
        if excess > _EXCESS:
            times = f"{np.exp(min(excess, 700.0)):.3g} times its total probability"
            warn(
                Message(f"the sampler missed a mode: a subset has {times}", _LONGER),
                ApproximationWarning,
            )
        return np.minimum(joint - self.log_evidence, 0.0)

    def sample(self, n: int, rng: Rng) -> Mask:
        """n of the kept draws, with replacement."""
        rows = self.draws[rng.integers(0, len(self.draws), size=n)]
        return np.unpackbits(rows, axis=1, count=self.target.n_features).astype(bool)


@dataclass(frozen=True, eq=False)
class Visited:
    """Distinct subsets of the coldest chains. masks (m, p); log_ratios, log_joint (m,): log Λ and
    log p(z)Λ(z); visits (segments, m): by each half (of few replicas, each smaller part) of each
    replica"""

    masks: Mask
    log_ratios: Floats
    log_joint: Floats
    visits: Integers

    @classmethod
    def of(cls, sampler: Sampler, rounds: list[list[Round]]) -> Visited:
        per_replica = max(2, -(-_FEWEST_SEGMENTS // len(rounds)))
        found = [
            (
                part.draws,
                part.trace[:, -1],
                np.full(len(part.draws), per_replica * r + per_replica * i // len(parts)),
            )
            for r, parts in enumerate(rounds)
            for i, part in enumerate(parts)
        ]
        rows, ratios, segments = (np.concatenate(values) for values in zip(*found, strict=True))
        distinct, first, group = np.unique(rows, axis=0, return_index=True, return_inverse=True)
        included = np.unpackbits(distinct, axis=1, count=sampler.n_columns).astype(bool)
        visits = np.zeros((per_replica * len(rounds), len(distinct)), np.int64)
        np.add.at(visits, (segments, group.ravel()), 1)
        log_joint = sampler.log_posterior(included, ratios[first])
        return cls(sampler.masks(included), ratios[first], log_joint, visits)

    def leading(
        self, sampler: AnySampler, best: Mask, value: float, keep: int
    ) -> tuple[Mask, Floats]:
        """Masks and log ratios of the best `keep` subsets and of the best met anywhere (d,), log
        p(z)Λ(z) = value"""
        order = np.argsort(-self.log_joint, kind="stable")[:keep]
        masks = self.masks[order]
        log_ratios = self.log_ratios[order]
        first = sampler.masks(best[None])
        if (masks == first).all(axis=1).any():
            return masks, log_ratios
        log_ratio = value - sampler.log_posterior(best[None], np.zeros(1))
        return np.concatenate([first, masks])[:keep], np.concatenate([log_ratio, log_ratios])[:keep]

    def entropy(self, log_evidence: float) -> float:
        """Return the entropy from each segment.

        It is Σ −p log p over the subsets that others visited, and the mean of −log p of its own
        draws elsewhere.
        """
        surprise = log_evidence - self.log_joint
        terms = np.exp(-surprise) * surprise
        estimates = []
        for own in self.visits[self.visits.sum(axis=1) > 0]:
            elsewhere = self.visits.sum(axis=0) > own
            estimates.append(
                terms[elsewhere].sum() + own[~elsewhere] @ surprise[~elsewhere] / own.sum()
            )
        return max(0.0, float(np.mean(estimates)))
