"""Bayesian invariant prediction of times to an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .._tools.progress import ProgressMode
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.rules import Rule
from ..exceptions import SettingError
from ..inference.base import Engine
from ..models.base import Family, Predicts, predicts_of
from ..models.invariance_test import Tolerance
from ..models.registry import ByOutcome, as_family, settled
from ..models.survival import PiecewiseExponential
from ..moments.moments import Moments
from ..priors.base import Prior
from .bip import BIP
from .fitted import TimesToEvent


class BIPSurvival(TimesToEvent, BIP):
    """Bayesian invariant prediction of times to an event, some of them censored on the right: the posterior over
    subsets of features with which the hazard is the same in every environment.

    fit(X, y, environments, event): y has the times, above 0, and `event` is 1 where one ended with the event, 0 where
    it was censored. All rows count as watched from time 0 on.

    Parameters
    ----------
    family : "piecewise_exponential", or a specification such as PiecewiseExponential(intervals=4)
    Others are as those of BIP, which has the regressor besides. There are no intervals for times.

    Attributes
    ----------
    coef_ : logarithms of hazard ratios
    Others are as those of BIP.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance import BIPSurvival
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> times = np.exp(-data.y / data.y.std())
    >>> censored = np.quantile(times, 0.8)
    >>> seen, event = np.minimum(times, censored), times <= censored
    >>> model = BIPSurvival().fit(data.X, seen, environments=data.environment_index, event=event)
    >>> model.predict_survival(data.X, [0.5, 1.0]).shape
    (600, 2)
    """

    def __init__(
        self,
        family: str | Family = "piecewise_exponential",
        prior: str | Prior | None = None,
        engine: str | Engine = "auto",
        select: str | Rule = "predictive",
        threshold: float = 0.5,
        tolerance: Tolerance | None = None,
        environment: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: ProgressMode = "auto",
        categorical: str | Sequence[str] = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        handle_unknown: str = "error",
        predict_with: str = "selected",
    ) -> None:
        families = family, prior, engine, select
        tables = categorical, numeric, groups, handle_unknown
        super().__init__(
            *families, threshold, tolerance, environment, n_jobs, random_state, progress, *tables, predict_with
        )

    def _fit_checked(self, data: MultiEnvironmentData | Moments) -> None:
        family = as_family(self.family)
        if predicts_of(settled(family, data)) is not Predicts.time:
            if isinstance(family, ByOutcome):
                # What "auto" was meant to be says what it lacks.
                PiecewiseExponential().bind(data)
            raise SettingError(
                f"family={self.family!r} predicts no times to an event, which BIPSurvival is for: use "
                "family='piecewise_exponential', or BIP."
            )
        super()._fit_checked(data)
