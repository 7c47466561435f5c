"""All of what leads from data to a selection, so that it can be repeated on other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from .._tools.progress import ProgressMode
from ..conditionals.base import Conditional
from ..conditionals.evidence import Judge
from ..conditionals.tolerance import Tolerance
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.base import Findings, Rule
from ..inference.base import Engine, RunOptions
from ..inference.registry import choose_engine
from ..inference.target import Target
from ..moments.moments import Moments
from ..priors.base import Prior


@dataclass(frozen=True)
class Procedure:
    """Settings only; `rule.select(findings)` is the selection."""

    conditional: Conditional
    prior: Prior
    inference: str | Engine
    rule: Rule
    tolerance: Tolerance
    n_jobs: int | None = None

    def findings(
        self, data: MultiEnvironmentData | Moments, rng: np.random.Generator, progress: ProgressMode
    ) -> Findings:
        model = self.conditional.bind(data, self.n_jobs)
        original = None if isinstance(data, Moments) else data.original_features
        prior = self.prior.bind(data.feature_names, model.largest_size, original)
        model.check_max_size(prior.max_size)
        target = Target(model, prior)
        options = RunOptions(self.n_jobs, rng, progress)
        engine = choose_engine(self.inference, target)
        posterior = engine.run(target, options)
        notes = data.losses + data.notes + posterior.notes
        posterior = replace(posterior, notes=notes, judge=Judge(model, self.tolerance))
        return Findings(target, posterior, engine, options, self.tolerance)
