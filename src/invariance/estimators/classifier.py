"""Bayesian invariant prediction of two classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .._tools.progress import ProgressMode
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import two_values
from ..decisions.rules import Rule
from ..exceptions import DataError, SettingError
from ..inference.base import Engine
from ..models.base import Family, Predicts, predicts_of
from ..models.invariance_test import Tolerance
from ..models.registry import as_family, settled
from ..moments.moments import Moments
from ..priors.base import Prior
from .bip import BIP
from .fitted import ClassProbabilities, two_classes


class BIPClassifier(ClassProbabilities, BIP):
    """Bayesian invariant prediction of two classes: the posterior over subsets of features that predict them alike in
    every environment.

    Labels may be text, numbers or truth values; classes_ has them sorted. More than two classes are compared one with
    the rest, `fit(X, y == "a", environments)`; OneVsRestClassifier(BIPClassifier(environment="site")) does so for each.

    Parameters
    ----------
    family : "logistic", a specification such as Logistic(pseudo_rows=0), or another one that predicts
        probabilities
    Others are as those of BIP, which has the regressor besides. Another classifier is fitted to the selected features
    by a pipeline, make_pipeline(BIPClassifier(), RandomForestClassifier()).

    Attributes
    ----------
    classes_ : (2,) labels; probabilities, log odds and coefficients are for the second one
    Others are as those of BIP.

    Examples
    --------
    >>> from invariance import BIPClassifier
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> labels = ["high" if value > 0 else "low" for value in data.y - data.y.mean()]
    >>> model = BIPClassifier().fit(data.X, labels, environments=data.environment_index)
    >>> model.classes_.tolist(), model.predict_proba(data.X).shape
    (['high', 'low'], (600, 2))
    """

    def __init__(
        self,
        family: str | Family = "logistic",
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

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any, list[str] | None]:
        if y is not None:
            self._labels, y = two_classes(y)
        return super()._validated(X, y)

    def _fit_checked(self, data: MultiEnvironmentData | Moments) -> None:
        family = settled(as_family(self.family), data)
        if predicts_of(family) is not Predicts.probability:
            raise SettingError(
                f"family={self.family!r} predicts no probabilities, which BIPClassifier is for: use "
                "family='logistic', or BIP."
            )
        if isinstance(data, MultiEnvironmentData):
            data = self._with_labels(data)
        super()._fit_checked(data)

    def _with_labels(self, data: MultiEnvironmentData) -> MultiEnvironmentData:
        """The classes are those that `fit` was given or, after fit_data, the data's own."""
        if not self._by_name:
            return replace(data, classes=self._labels)
        if two_values(data.y) is None:
            raise DataError(
                f"outcome {data.outcome_name!r} has other than two values, and BIPClassifier tells two classes apart: "
                "compare one of them with the rest, or use BIP."
            )
        return data
