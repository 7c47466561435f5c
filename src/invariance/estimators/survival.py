"""Bayesian invariant prediction of times to an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from .._tools.progress import ProgressMode
from ..conditionals.base import Conditional
from ..conditionals.by_outcome import settled
from ..conditionals.predicts import Predicts, predicts_of
from ..conditionals.registry import as_conditional
from ..conditionals.tolerance import Tolerance
from ..data.beside import beside_of
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.base import Rule
from ..exceptions import DataError, SettingError
from ..inference.base import Engine
from ..moments.moments import Moments
from ..prediction.survival import SurvivalPredictor, concordance
from ..priors.base import Prior
from .bip import BIP


class BIPSurvival(BIP):
    """Bayesian invariant prediction of times to an event, some of them censored on the right: the posterior over
    subsets of features with which the hazard is the same in every environment.

    fit(X, y, environments, event): y has the times, above 0, and `event` is 1 where one ended with the event, 0 where
    it was censored. All rows count as watched from time 0 on.

    Parameters
    ----------
    conditional : "piecewise_exponential", or a specification such as PiecewiseExponential(intervals=4)
    Others are as those of BIP, which has the regressor besides. There are no intervals for times, and `save` refuses
    them: use pickle.

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
        conditional: str | Conditional = "piecewise_exponential",
        prior: str | Prior | None = None,
        inference: str | Engine = "auto",
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
        families = conditional, prior, inference, select
        tables = categorical, numeric, groups, handle_unknown
        super().__init__(
            *families, threshold, tolerance, environment, n_jobs, random_state, progress, *tables, predict_with
        )

    def predict(self, X: Any, return_std: bool = False) -> Floats:
        """(n,) median times to the event by the fit to all rows: as many rows like this one have it before as after.

        Where that lies beyond the times that were seen, the last hazard goes on. return_std=True is refused.
        """
        if return_std:
            self._outcome.check_intervals()
        predictor, columns = self._curves(X)
        return predictor.median(columns)

    def predict_survival(self, X: Any, times: Any) -> Floats:
        """(n, len(times)) the probability that the event has not occurred by each of `times`, by the fit to all rows.

        Beyond the times that were seen the last hazard goes on.
        """
        predictor, columns = self._curves(X)
        return predictor.survival(columns, _as_times(times))

    def score(self, X: Any, y: Any, event: Any = None) -> float:
        """Harrell's concordance with times y (n,): of the pairs of rows of which it is known which event came first,
        the share whose predicted times are in this order; 0.5 is chance. event (n,), as in `fit`; None: all times
        ended with it."""
        predicted = self.predict(X)
        seen = np.asarray(y, dtype=float).reshape(-1)
        ended = np.ones(len(seen)) if event is None else beside_of(event, "event")[1]
        if not len(seen) == len(ended) == len(predicted):
            raise DataError(
                f"X has {len(predicted)} rows, y {len(seen)} and event {len(ended)}: pass one time and one event per "
                "row."
            )
        return concordance(seen, ended, predicted)

    def _curves(self, X: Any) -> tuple[SurvivalPredictor, Floats]:
        predictor, columns = self._rows_to_predict(X)
        assert isinstance(predictor, SurvivalPredictor)
        return predictor, columns

    def _fit_checked(self, data: MultiEnvironmentData | Moments) -> None:
        if predicts_of(settled(as_conditional(self.conditional), data)) is not Predicts.time:
            raise SettingError(
                f"conditional={self.conditional!r} predicts no times to an event, which BIPSurvival is for: use "
                "conditional='piecewise_exponential', or BIP."
            )
        super()._fit_checked(data)


def _as_times(times: Any) -> Floats:
    """(T,) of numbers from 0 on"""
    values = np.atleast_1d(np.asarray(times, dtype=float))
    if values.ndim != 1 or not (values >= 0.0).all():
        raise SettingError(f"times={times!r} are no times: use a list of numbers from 0 on, for example times=[1, 2].")
    return values
