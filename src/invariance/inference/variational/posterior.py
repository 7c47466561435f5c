"""The result of a variational run: what draws of its approximation say after reweighting, and what it misses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import logsumexp

from ..._tools.arrays import Floats, Mask
from ..._tools.json import from_json, to_json
from ..._tools.text import format_subset
from ...data.checks import warn
from ...data.features import distinct
from ...exceptions import ApproximationWarning, Message, use
from ...kernels.subset_sums import weighted_shares
from ...posterior.posterior import Posterior, Verdict, verdict_of
from ..base import Target, described, rescore_leading, smallest
from ..modes import MISSED_SHARE, around, support_notes
from .ascent import Ascent, FreeSpace, log_ratios_of
from .mean_field import Approximation, Elbo, MeanField, Mixture

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 200
_RESCORED = 20
# Missing this much of the posterior, probabilities are off by as much.
_MUCH = 0.05
_FEW_SUBSETS = 1 << 24

_UNSEARCHED = "no search for subsets was made: whether the approximation misses probable ones is not known."
POOR_PARETO_K = 0.7
_FEWEST_IN_TAIL = 5
# Log weights this close are the same: draws of one subset, up to rounding.
_TIE = 1e-9
# A few draws above all others do no harm when they hold less than this share of the weight.
_NEGLIGIBLE = 0.01


@dataclass(frozen=True, eq=False)
class Reweighted:
    """Self-normalised importance estimates from draws of q.

    inclusion (p,); masks (k, p): distinct draws, most probable first; log_ratios, log_probabilities (k,)
    pareto_k: tail index of the weights, above 0.7 they cannot be trusted; -inf where the largest weights tie, inf where
    they are too few to tell; ess: effective number of draws
    log_evidence: estimate of log Σ p(z)Λ(z); n_draws; outside (m, p): the distinct draws that cannot be scored;
    undecided: their share
    """

    inclusion: Floats
    masks: Mask
    log_ratios: Floats
    log_probabilities: Floats
    pareto_k: float
    ess: float
    log_evidence: float
    n_draws: int
    outside: Mask
    undecided: float

    @property
    def poor(self) -> bool:
        return self.pareto_k > POOR_PARETO_K


def reweight(masks: Mask, log_ratios: Floats, log_prior: Floats, log_q: Floats, keep: int) -> Reweighted:
    """Weigh draws (S, p) of q by p(z)Λ(z)/q(z). log_q must be normalised over the support the draws come from."""
    log_weights = log_prior + log_ratios - log_q
    k, smoothed = pareto_smoothed(log_weights)
    weights = np.exp(smoothed - logsumexp(smoothed))
    first, group = distinct(masks)
    probability = np.bincount(group, weights=weights)
    order = np.lexsort((first, -probability))[:keep]
    order = order[probability[order] > 0]
    return Reweighted(
        inclusion=weighted_shares(masks, weights),
        masks=masks[first[order]],
        log_ratios=log_ratios[first[order]],
        log_probabilities=np.log(probability[order]),
        pareto_k=k,
        ess=float(1.0 / np.sum(weights**2)),
        log_evidence=float(logsumexp(log_weights) - np.log(len(masks))),
        n_draws=len(masks),
        outside=masks[first[log_ratios[first] == -np.inf]],
        undecided=float(np.mean(log_ratios == -np.inf)),
    )


def pareto_smoothed(log_weights: Floats) -> tuple[float, Floats]:
    """Pareto-k̂ and smoothed log weights (Vehtari, Simpson, Gelman, Yao & Gabry 2024).

    The largest weights are replaced by quantiles of a generalised Pareto distribution fitted to them. Draws of a subset
    have the same weight, so that there may be nothing to fit: k̂ is -inf where the largest weights tie, which have no
    tail, and inf where fewer than five draws stand above the others and hold a share of the weight that matters, or
    where these dwarf the rest of the tail so far that it vanishes in float64.
    """
    n = len(log_weights)
    centred = log_weights - log_weights.max()
    n_tail = min(max(int(min(0.2 * n, 3 * np.sqrt(n))), _FEWEST_IN_TAIL - 1), n - 1)
    order = np.argsort(centred, kind="stable")
    cutoff = centred[order[n - n_tail - 1]]
    tail = order[centred[order] > cutoff + _TIE]
    if len(tail) < _FEWEST_IN_TAIL:
        weights = np.exp(centred)
        return (np.inf if weights[tail].sum() > _NEGLIGIBLE * weights.sum() else -np.inf), log_weights
    if np.ptp(centred[tail]) <= _TIE:
        return -np.inf, log_weights
    excess = np.exp(centred[tail]) - np.exp(cutoff)
    if _lower_quarter(excess) == 0.0:
        return np.inf, log_weights
    k, sigma = _fit_generalised_pareto(excess)
    quantile = (np.arange(1, len(tail) + 1) - 0.5) / len(tail)
    spread = -np.log1p(-quantile) if abs(k) < 1e-12 else np.expm1(-k * np.log1p(-quantile)) / k
    smoothed = centred.copy()
    smoothed[tail] = np.minimum(np.log(np.exp(cutoff) + sigma * spread), 0.0)
    return float(k), smoothed + log_weights.max()


def _fit_generalised_pareto(sorted_excess: Floats) -> tuple[float, float]:
    """Shape and scale by the empirical-Bayes estimate of Zhang & Stephens (2009), with its weak prior on the shape."""
    n = len(sorted_excess)
    m = 30 + int(np.sqrt(n))
    grid = 1.0 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))
    theta = grid / (3.0 * _lower_quarter(sorted_excess)) + 1.0 / sorted_excess[-1]
    shape = np.log1p(-theta[:, None] * sorted_excess).mean(axis=1)
    log_likelihood = n * (-np.log(_scale(theta, shape, sorted_excess)) - shape - 1.0)
    weight = np.exp(log_likelihood - logsumexp(log_likelihood))
    best = float(weight @ theta)
    k = float(np.log1p(-best * sorted_excess).mean())
    sigma = float(_scale(np.array(best), np.array(k), sorted_excess))
    return (n * k + 5.0) / (n + 10.0), sigma


def _lower_quarter(sorted_excess: Floats) -> float:
    return float(sorted_excess[int(len(sorted_excess) / 4 + 0.5) - 1])


def _scale(theta: Floats, shape: Floats, excess: Floats) -> Floats:
    """-shape / theta; at theta = 0, which tied weights hit, the distribution is exponential."""
    return np.divide(-shape, theta, out=np.full_like(theta, excess.mean()), where=theta != 0.0)


@dataclass(frozen=True, eq=False)
class Missed:
    """What q misses.

    mass: posterior probability of all subsets to which q gives less than a fiftieth of theirs
    mask (p,): the most probable of them; probability, approximate: of that one, in the posterior and under q
    """

    mass: float
    mask: Mask
    probability: float
    approximate: float


def missed_in_table(space: FreeSpace, q: Approximation) -> Missed:
    """Exactly, where all subsets are known."""
    known = np.flatnonzero(space.table_log_joint > -np.inf)
    log_joint = space.table_log_joint[known]
    log_posterior = log_joint - logsumexp(log_joint)
    return _missed(q, space.target.masks(space.table_draws[known]), log_posterior, np.exp(log_posterior))


def missed_at_modes(target: Target, q: Approximation, modes: Mask, n_draws: int, rng: np.random.Generator) -> Missed:
    """Estimated by draws from q and from around each of modes (m, p), which see what draws from q alone do not."""
    components, weights = (q.components, q.weights) if isinstance(q, Mixture) else ((q,), np.ones(1))
    local = [around(target, mode) for mode in modes]
    shares = np.concatenate([0.5 * weights, np.full(len(local), 0.5 / len(local))])
    wide = Mixture((*components, *local), shares)
    masks = wide.sample(n_draws, rng)
    log_ratios = log_ratios_of(target.model, masks)
    seen = reweight(masks, log_ratios, target.prior.log_prob(masks), wide.log_prob(masks), len(masks))
    log_posterior = target.log_joint(seen.masks, seen.log_ratios) - seen.log_evidence
    return _missed(q, seen.masks, log_posterior, np.exp(seen.log_probabilities))


def _missed(q: Approximation, masks: Mask, log_posterior: Floats, weights: Floats) -> Missed:
    """masks (S, p): distinct; log_posterior (S,): of each; weights (S,): the part of the posterior it stands for"""
    log_q = q.log_prob(masks)
    rare = log_q < log_posterior + np.log(MISSED_SHARE)
    worst = int(np.argmax(np.where(rare, log_posterior, -np.inf)))
    probability, approximate = np.exp(min(log_posterior[worst], 0.0)), np.exp(log_q[worst])
    return Missed(float(weights[rare].sum()), masks[worst], float(probability), float(approximate))


class VariationalPosterior(Posterior):
    """Mean-field approximation q of the posterior; `log_evidence` is its ELBO, a lower bound.

    Inclusion probabilities, mode, subsets and probabilities are those of q. `reweighted` corrects them by importance
    weights from draws of q, as far as these reach; `diagnostics` holds elbo, elbo_error, iterations, seconds,
    feasible_fraction, pareto_k, effective_draws, missed_mass (how much of the posterior such draws do not reach) and
    the traces of all starts.
    """

    @property
    def elbo(self) -> float:
        return self.log_evidence

    @property
    def trace(self) -> pd.DataFrame:
        """One row per start and iteration: elbo, its Monte-Carlo standard error, share of draws inside the support."""
        import pandas as pd

        frames = [
            pd.DataFrame(columns).assign(start=start, iteration=np.arange(len(columns["elbo"])))
            for start, columns in self.diagnostics["trace"].items()
        ]
        return pd.concat(frames, ignore_index=True)[["start", "iteration", "elbo", "error", "feasible"]]

    @property
    def reweighted(self) -> Posterior:
        """The posterior as importance-weighted draws of q estimate it."""
        stored = self.diagnostics["reweighted"]
        masks = np.zeros((len(stored["subsets"]), self.n_features), dtype=bool)
        for row, members in zip(masks, stored["subsets"], strict=True):
            row[members] = True
        log_probabilities = np.array(stored["log_probabilities"])
        probabilities = np.exp(log_probabilities)
        return Posterior(
            feature_names=self.feature_names,
            inclusion=np.array(stored["inclusion"]),
            masks=masks,
            log_ratios=np.array(stored["log_ratios"]),
            log_probabilities=log_probabilities,
            log_evidence=stored["log_evidence"],
            entropy=float(-(probabilities * log_probabilities).sum()),
            n_subsets=self.n_subsets,
            engine="variational inference, importance-reweighted",
            prior=self.prior,
            model=self.model,
            outcome_name=self.outcome_name,
            environments=self.environments,
            counts=self.counts,
            notes=(_weighed(self.diagnostics["effective_draws"]), *self.notes[1:]),
            verdict=None if stored.get("verdict") is None else from_json(Verdict, stored["verdict"]),
        )


@dataclass(frozen=True, eq=False)
class ApproximateSource:
    """Answers for any subset under q."""

    q: Approximation

    def log_probability(self, masks: Mask) -> Floats:
        return self.q.log_prob(masks)

    def sample(self, n: int, rng: np.random.Generator) -> Mask:
        return self.q.sample(n, rng)

    def leading(self, mass: float) -> None:
        return None


def _weighed(effective: float) -> str:
    return f"`reweighted` weighs draws from the approximation by the posterior ({effective:.0f} effective draws)."


def variational_posterior(
    target: Target,
    q: Approximation,
    elbo: Elbo,
    fits: dict[str, Ascent],
    chosen: str,
    reweighted: Reweighted,
    missed: Missed | None,
    outside: Mask,
    seconds: float,
) -> VariationalPosterior:
    """Put a run's results together, with a warning when q is a poor approximation.

    outside (k, p): subsets that were met and have no value
    """
    fit, prior = fits[chosen], target.prior
    masks = q.leading(_LISTED)
    log_ratios = target.model.log_ratio_many(masks)
    if (log_ratios > -np.inf).any():
        masks, log_ratios = masks[log_ratios > -np.inf], log_ratios[log_ratios > -np.inf]
    check = rescore_leading(target.model, masks, log_ratios, min(_RESCORED, len(masks)))
    notes = [
        f"log evidence at least {elbo.value:.2f} (ELBO, error {elbo.error:.2g}; {chosen} start). Probabilities "
        f"are the approximation's. {_weighed(reweighted.ess)}"
    ]
    notes += [*check.notes, *support_notes(target, smallest(outside))]
    doubts = []
    if missed is None:
        notes.append(_UNSEARCHED)
    elif missed.mass >= _MUCH:
        subset = format_subset([name for name, member in zip(prior.feature_names, missed.mask, strict=True) if member])
        doubts.append(
            f"the approximation misses about {missed.mass:.2f} of the posterior, such as {subset} with probability "
            f"{missed.probability:.2g}, {missed.approximate:.1g} under q; Pareto k̂ and `reweighted` do not see it"
        )
    if reweighted.undecided >= _MUCH:
        doubts.append(
            f"the approximation gives {reweighted.undecided:.2f} of its probability to subsets that cannot be scored; "
            "its inclusion probabilities count them, `reweighted` does not"
        )
    if reweighted.poor:
        doubts.append(
            f"the approximation is poor: Pareto k̂ is {reweighted.pareto_k:.2f} (above {POOR_PARETO_K} importance "
            f"weights are unreliable), {reweighted.ess:.0f} of {reweighted.n_draws} draws are effective"
        )
    remedies = [use(engine="exact" if prior.support_size() <= _FEW_SUBSETS else "tempering")]
    if isinstance(q, MeanField):
        remedies.append(use(engine="vi(components=auto)"))
    for doubt in doubts:
        notes.append(Message(doubt, *remedies))
        warn(notes[-1], ApproximationWarning)
    reweighted_ratios = target.log_ratios(reweighted.masks, reweighted.log_ratios)
    verdict = verdict_of(target.model.untilted, reweighted.masks, reweighted_ratios, prior.support_size())
    return VariationalPosterior(
        **described(target),
        inclusion=q.inclusion,
        masks=masks,
        log_ratios=check.log_ratios,
        log_probabilities=q.log_prob(masks),
        log_evidence=elbo.value,
        entropy=q.entropy,
        engine="variational inference (mean field)" if isinstance(q, MeanField) else "variational inference (mixture)",
        notes=tuple(notes),
        diagnostics={
            "elbo": elbo.value,
            "elbo_error": elbo.error,
            "weights": q.weights.tolist() if isinstance(q, Mixture) else [1.0],
            "start": chosen,
            "iterations": len(fit.trace),
            "chosen_iteration": fit.iteration,
            "seconds": seconds,
            "feasible_fraction": fit.feasible,
            "pareto_k": reweighted.pareto_k,
            "effective_draws": reweighted.ess,
            "missed_mass": None if missed is None else missed.mass,
            "undecided_mass": reweighted.undecided,
            "elbo_by_start": {start: one.elbo for start, one in fits.items()},
            "rescoring_difference": check.difference,
            "trace": {
                start: {
                    "elbo": one.trace.tolist(),
                    "error": one.trace_error.tolist(),
                    "feasible": one.trace_feasible.tolist(),
                }
                for start, one in fits.items()
            },
            "reweighted": {
                "inclusion": reweighted.inclusion.tolist(),
                "subsets": [np.flatnonzero(mask).tolist() for mask in reweighted.masks],
                "log_ratios": reweighted_ratios.tolist(),
                "log_probabilities": reweighted.log_probabilities.tolist(),
                "log_evidence": reweighted.log_evidence,
                "verdict": to_json(verdict),
            },
        },
        source=ApproximateSource(q),
    )
