"""The parts that a fit combines, so that it can be repeated with other rows."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from .._tools.progress import ProgressMode
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import SettingError
from ..inference.base import Engine, RunOptions, Target
from ..inference.registry import choose_engine
from ..models.base import VARIANCE, BoundModel, Family
from ..models.invariance_test import Tolerance
from ..models.registry import refuse_unused
from ..moments.moments import Moments
from ..posterior.posterior import Judge
from ..priors.base import Prior
from .rules import Findings, Rule


def moments_notes(moments: Moments, model: BoundModel) -> Iterator[str]:
    """What a reader of a fit to moments should know."""
    second, compares_variances = moments.second, VARIANCE in model.compares
    if second is None or second.fourths is None:
        tails = "p-values of equal variances, which heavy tails make too small, and " if compares_variances else ""
        yield (
            f"second moments alone are known: {tails}intervals of predictions take errors for normally distributed. "
            "Fit with the rows, too, to test that."
        )
        return
    yield f"the rows were read again for what second moments do not tell ({second.n_readings}x)."
    known = set(second.fourths.columns)
    unseen = [name for name in moments.feature_names if not known.issuperset(moments.groups.get(name, (name,)))]
    if unseen and compares_variances:
        yield (
            f"tails were looked at in subsets of {moments.n_features - len(unseen):,} leading features; residuals of "
            f"subsets with others ({quoted(unseen, 4)}) count as normal, so that p-values of equal variances may be "
            "too small there."
        )


@dataclass(frozen=True, eq=False)
class Search:
    """rng : as before the fit, so that it can be repeated"""

    family: Family
    prior: Prior
    engine: str | Engine
    rule: Rule
    tolerance: Tolerance
    n_jobs: int | None
    rng: np.random.Generator

    def findings(
        self, data: MultiEnvironmentData | Moments, progress: ProgressMode, rng: np.random.Generator | None = None
    ) -> Findings:
        """rng : to draw from, by default the random numbers of the fit"""
        target = self.target(data)
        options = RunOptions(self.n_jobs, copy.deepcopy(self.rng) if rng is None else rng, progress)
        engine = choose_engine(self.engine, target)
        posterior = engine.run(target, options)
        notes = data.losses + data.notes + posterior.notes
        if isinstance(data, Moments):
            notes += tuple(moments_notes(data, target.model))
        posterior = replace(posterior, notes=notes, judge=Judge(target.model, self.tolerance))
        later = replace(options, rng=options.rng.spawn(1)[0])
        return Findings(target, posterior, engine, later, self.tolerance)

    def target(self, data: MultiEnvironmentData | Moments) -> Target:
        """The model and the prior, bound to data."""
        refuse_unused(self.family, data)
        model = self.family.bind(data, self.n_jobs)
        original = None if isinstance(data, Moments) else data.original_features
        prior = self.prior.bind(data.feature_names, model.largest_size, original)
        model.check_max_size(prior.max_size)
        return Target(model, prior)


def generator(random_state: Any) -> np.random.Generator:
    """A RandomState, which cannot spawn others, seeds one by its next draws."""
    if isinstance(random_state, np.random.RandomState):
        random_state = random_state.randint(1 << 32, size=4, dtype=np.uint32)
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise SettingError(
            f"random_state={random_state!r} is no seed: use a whole number from 0 on, a numpy Generator, or None."
        ) from None
