"""The result of a variational run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..._tools.arrays import Floats, Mask
from ..._tools.json import from_json, to_json
from ...data.checks import warn
from ...exceptions import ApproximationWarning, Message, Remedy, use
from ...models.base import BoundModel
from ...posterior.posterior import Posterior
from ...posterior.summary import Verdict, format_subset, verdict_of
from ...priors.base import BoundPrior
from ..base import Target, described, rescore_leading, smallest
from ..modes import support_note
from .ascent import Ascent
from .diagnostics import POOR_PARETO_K, Missed, Reweighted
from .mean_field import Approximation, Elbo, MeanField, Mixture

if TYPE_CHECKING:
    import pandas as pd

_LISTED = 200
_RESCORED = 20
# Missing this much of the posterior, probabilities are off by as much.
_MUCH = 0.05
_FEW_SUBSETS = 1 << 24
# Up to so many free features it is quick to look for those that pick each other.
_LOOKED_THROUGH = 1000

_UNSEARCHED = "no search for subsets was made: whether the approximation misses probable ones is not known."


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


def _supported(model: BoundModel, masks: Mask) -> tuple[Mask, Floats]:
    """The subsets that the model can score, and their log ratios; all of them when it can score none."""
    log_ratios = model.log_ratio_many(masks)
    finite = log_ratios > -np.inf
    return (masks[finite], log_ratios[finite]) if finite.any() else (masks, log_ratios)


def _weighed(effective: float) -> str:
    return f"`reweighted` weighs draws from the approximation by the posterior ({effective:.0f} effective draws)."


def _missing(prior: BoundPrior, missed: Missed) -> str:
    subset = format_subset([name for name, member in zip(prior.feature_names, missed.mask, strict=True) if member])
    return (
        f"the approximation misses about {missed.mass:.2f} of the posterior, such as {subset} with probability "
        f"{missed.probability:.2g}, {missed.approximate:.1g} under q; Pareto k̂ and `reweighted` do not see it"
    )


def _better_engines(prior: BoundPrior, q: Approximation) -> list[Remedy]:
    better = use(engine="exact" if prior.support_size() <= _FEW_SUBSETS else "tempering")
    return [better] if isinstance(q, Mixture) else [better, use(engine="vi(components=auto)")]


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
    masks, log_ratios = _supported(target.model, q.leading(_LISTED))
    check = rescore_leading(target.model, masks, log_ratios, min(_RESCORED, len(masks)))
    notes = [
        f"log evidence at least {elbo.value:.2f} (ELBO, error {elbo.error:.2g}; {chosen} start). Probabilities "
        f"are the approximation's. {_weighed(reweighted.ess)}"
    ]
    notes += check.notes
    left_out = support_note(target, met=smallest(outside), look=len(target.free) <= _LOOKED_THROUGH)
    if left_out is not None:
        notes.append(left_out)
    doubts = []
    if missed is None:
        notes.append(_UNSEARCHED)
    elif missed.mass >= _MUCH:
        doubts.append(_missing(prior, missed))
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
    for doubt in doubts:
        notes.append(Message(doubt, *_better_engines(prior, q)))
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
