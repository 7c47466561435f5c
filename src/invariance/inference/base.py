"""The shape that every inference engine has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

import numpy as np

from .._tools.progress import ProgressMode
from ..data.checks import warn
from ..exceptions import SeparationWarning
from ..posterior.judge import Judge
from ..posterior.posterior import Posterior
from ..posterior.verdict import verdict_of
from .target import Target

_MOST_REMARKED = 20
AnyPosterior = TypeVar("AnyPosterior", bound=Posterior)


@dataclass(frozen=True)
class RunOptions:
    """How to run, as opposed to what to compute: none of it changes the result except the random generator."""

    n_jobs: int | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    progress: ProgressMode = "auto"


class Engine(Protocol):
    """A specification of how to compute: target → posterior, which ends with `judged`."""

    def run(self, target: Target, options: RunOptions) -> Posterior: ...


def described(target: Target) -> dict[str, Any]:
    """What every posterior says about the data and the prior, whichever engine computed it."""
    about = target.model.describe()
    return {
        "feature_names": target.prior.feature_names,
        "n_subsets": target.prior.support_size(),
        "prior": target.prior.name,
        "model": about.model,
        "model_reason": target.model.reason,
        "outcome_name": about.outcome_name,
        "environments": about.environments,
        "counts": about.counts,
        "judge": Judge(target.model),
    }


def judged(target: Target, posterior: AnyPosterior) -> AnyPosterior:
    """The posterior with log Λ in its table, and a verdict where its most probable subset is far from invariant."""
    if target.model.untilted is not target.model:
        posterior = replace(posterior, log_ratios=target.log_ratios(posterior.masks, posterior.log_ratios))
    remarks = target.model.untilted.remarks(posterior.masks[:_MOST_REMARKED])
    for alarm in remarks.alarms:
        warn(alarm, SeparationWarning)
    if remarks.notes or remarks.alarms:
        posterior = replace(posterior, notes=(*posterior.notes, *remarks.alarms, *remarks.notes))
    verdict = verdict_of(target.model.untilted, posterior.masks, posterior.log_ratios, posterior.n_subsets)
    return posterior if verdict is None else replace(posterior, verdict=verdict)
