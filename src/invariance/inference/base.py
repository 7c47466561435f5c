"""The shape that every inference engine has."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from .._tools.progress import ProgressMode
from ..data.checks import quoted, warn
from ..exceptions import EngineError, NotInvariantWarning
from ..posterior.posterior import Posterior
from ..posterior.verdict import CAUSES, verdict_of
from ..priors.bound import BoundPrior

AnyPosterior = TypeVar("AnyPosterior", bound=Posterior)


def nothing_scored(conditional: Any, prior: BoundPrior) -> EngineError:
    """The error when not even the features that are forced in can be scored, with the reason."""
    forced = [name for name, flag in zip(prior.feature_names, prior.forced_in, strict=True) if flag]
    reasons = "; ".join(conditional.unsupported(prior.forced_in[None]).reasons)
    return EngineError(
        f"no subset in the prior's support can be scored{': ' if reasons else ''}{reasons}. "
        + (f"All subsets hold {quoted(forced)}: force fewer features in." if forced else "Use other features or rows.")
    )


@dataclass(frozen=True)
class RunOptions:
    """How to run, as opposed to what to compute: none of it changes the result except the random generator."""

    n_jobs: int | None = None
    rng: np.random.Generator = field(default_factory=np.random.default_rng)
    progress: ProgressMode = "auto"


class Engine(Protocol):
    """prior × conditional model → posterior, which ends with `judged`.

    needs : the abilities of a conditional model without which the engine cannot work
    """

    needs: ClassVar[tuple[str, ...]]

    def run(self, conditional: Any, prior: BoundPrior, options: RunOptions) -> Posterior: ...


def described(conditional: Any, prior: BoundPrior) -> dict[str, Any]:
    """What every posterior says about the data and the prior, whichever engine computed it."""
    moments = conditional.moments
    return {
        "feature_names": prior.feature_names,
        "n_subsets": prior.support_size(),
        "prior": prior.name,
        "outcome_name": moments.outcome_name,
        "environments": moments.environments,
        "counts": moments.counts,
    }


def judged(conditional: Any, posterior: AnyPosterior) -> AnyPosterior:
    """The posterior, with a verdict and a warning where its most probable subset is far from invariant."""
    verdict = verdict_of(conditional, posterior.masks, posterior.log_ratios, posterior.n_subsets)
    if verdict is None:
        return posterior
    warn(f"{verdict.sentence} {CAUSES}", NotInvariantWarning)
    return replace(posterior, verdict=verdict)
