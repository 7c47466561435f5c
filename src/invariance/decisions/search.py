"""Everything that a fit is made with, so that it can be made again with other rows."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._tools.progress import ProgressMode
from ..conditionals.base import Conditional
from ..conditionals.by_outcome import refuse_unused
from ..conditionals.tolerance import Tolerance
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..inference.base import Engine, RunOptions
from ..inference.registry import choose_engine
from ..inference.target import Target
from ..moments.moments import Moments
from ..posterior.judge import Judge
from ..priors.base import Prior
from .base import Findings, Rule
from .without_rows import moments_notes


@dataclass(frozen=True, eq=False)
class Search:
    """The members of the families that a fit combines; rng: as it was before the fit, so that it can be repeated."""

    conditional: Conditional
    prior: Prior
    inference: str | Engine
    rule: Rule
    tolerance: Tolerance
    n_jobs: int | None
    rng: np.random.Generator

    def findings(
        self, data: MultiEnvironmentData | Moments, progress: ProgressMode, rng: np.random.Generator | None = None
    ) -> Findings:
        """rng: to draw from, if not from the same random numbers as the fit did"""
        target = self.target(data)
        options = RunOptions(self.n_jobs, copy.deepcopy(self.rng) if rng is None else rng, progress)
        engine = choose_engine(self.inference, target)
        posterior = engine.run(target, options)
        notes = data.losses + data.notes + posterior.notes
        if isinstance(data, Moments):
            notes += moments_notes(data, target.model)
        posterior = replace(posterior, notes=notes, judge=Judge(target.model, self.tolerance))
        later = replace(options, rng=options.rng.spawn(1)[0])
        return Findings(target, posterior, engine, later, self.tolerance)

    def target(self, data: MultiEnvironmentData | Moments) -> Target:
        """The conditional and the prior, tied to data."""
        refuse_unused(self.conditional, data)
        model = self.conditional.bind(data, self.n_jobs)
        original = None if isinstance(data, Moments) else data.original_features
        prior = self.prior.bind(data.feature_names, model.largest_size, original)
        model.check_max_size(prior.max_size)
        return Target(model, prior)


def generator(random_state: Any) -> np.random.Generator:
    """Of a RandomState, which cannot spawn others, one that its next draws seed."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 32, size=4, dtype=np.uint32)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(
            f"random_state={random_state!r} is no seed: use a whole number from 0 on, a numpy Generator, or None."
        ) from None
