"""Methods that predict with all features.

Pooled methods fit any kind of outcome to all rows together. Linear methods for numbers also use
how environments differ: a random intercept, anchor regression, V-REx.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Mask
from ..data.checks import warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.settings import Columns
from ..exceptions import DataError, SettingError
from ..kinds import OutcomeKind
from ..moments.moments import Moments
from ..moments.random_intercept import random_intercept, whitening_of
from ..prediction.all_features import rates, without
from ..prediction.predictor import places_of_rows, squared_error
from ..screening import standardized
from .base import Baseline, Line, kind_for
from .regression import per_unit
from .subsets import check_columns

_STRENGTHS = np.logspace(-4.0, 2.0, 13)
_N_FOLDS = 5
# Of V-REx: Newton's steps at one weight, the least share of the strongest bend, and of the value
# that is left to gain.
_MAX_NEWTON_STEPS = 500
_FLAT = 1e-10
_NOTHING_TO_GAIN = 1e-13


class AllFeatures(Baseline):
    """Base of methods that use all features."""

    outcome_ = "all"

    def _select(self, data: MultiEnvironmentData) -> Mask:
        return np.ones(data.n_features, dtype=bool)


class _AllRows(AllFeatures):
    """Base of methods that fit all rows together by a model for the kind of outcome."""

    _takes = ("exposure",)
    _as_number = False
    _any_size = True


@dataclass(eq=False, repr=False)
class RidgeRegression(_AllRows):
    """Predict by ridge regression on all features.

    Numbers are fitted by least squares, two classes by logistic and counts by Poisson regression.
    The strength of the penalty is the one out of 13 between 0.0001 and 100 with the smallest error
    in five random folds of all rows.

    Parameters
    ----------
    random_state : int, default=0
        Seed of the folds.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    strength_ : float
        Strength of the penalty, strength/2 · Σ coefficient², on the mean negative log-likelihood
        (half the squared error), for columns of standard deviation 1.
    coef_ : ndarray of shape (n_columns,)
        Coefficients per unit of each column.
    intercept_ : float
        Intercept.

    References
    ----------
    Hoerl, A. E. and Kennard, R. W. (1970), Ridge regression: biased estimation for nonorthogonal
    problems, Technometrics 12, 55-67, doi:10.1080/00401706.1970.10488634.
    """

    random_state: int = 0
    columns: Columns | None = None

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        from sklearn.model_selection import KFold, StratifiedKFold, cross_val_predict

        X = standardized(data)
        kind = kind_for(data)
        y, weights = rates(data)
        splitter = StratifiedKFold if kind.classifies else KFold
        folds = splitter(_N_FOLDS, shuffle=True, random_state=self.random_state)
        way = "predict_proba" if kind.classifies else "predict"
        given = {"params": {"sample_weight": weights}} if weights is not None else {}
        unit = kind.unit(y, weights)

        def error(strength: float) -> float:
            model = kind.ridge(strength * data.n_rows, data.y)
            predicted = cross_val_predict(model, X, y / unit, cv=folds, method=way, **given)
            predicted = predicted[:, 1] if predicted.ndim == 2 else unit * predicted
            return kind.error(data.y, predicted, data.exposure)

        self.strength_ = float(min(_STRENGTHS, key=error))
        fit = kind.ridge(self.strength_ * data.n_rows, data.y).fit(
            X, y / unit, sample_weight=weights
        )
        return per_unit(data, np.ravel(fit.coef_), np.ravel(fit.intercept_)[0] + np.log(unit))


def _learner(name: str, kind: OutcomeKind, random_state: int) -> Any:
    """Return the estimator of scikit-learn for this kind of outcome."""
    if name == "forest":
        from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

        settings = {"min_samples_leaf": 5, "random_state": random_state}
        if kind.classifies:
            return RandomForestClassifier(**settings)
        return RandomForestRegressor(criterion=kind.tree_loss, **settings)
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    if kind.classifies:
        return HistGradientBoostingClassifier(random_state=random_state)
    return HistGradientBoostingRegressor(loss=kind.tree_loss, random_state=random_state)


@dataclass(eq=False, repr=False)
class Pooled(_AllRows):
    """Predict by an estimator of scikit-learn that is fitted to all rows and all features.

    Parameters
    ----------
    estimator : {"forest", "boosting"} or estimator, default="forest"
        A regressor, for two classes a classifier with `predict_proba`; "forest", a random forest of
        100 trees with at least five rows in a leaf; or "boosting", histogram gradient boosting with
        scikit-learn's defaults. The latter two use the Poisson deviance for counts. For counts with
        an exposure, rates are fitted with the exposure as the weight.
    random_state : int, default=0
        Seed of "forest" and "boosting".
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    model_ : estimator
        The fitted estimator.
    coef_ : ndarray of shape (n_columns,)
        NaN.
    intercept_ : float
        NaN.

    Examples
    --------
    >>> from invariance import compare
    >>> from invariance.baselines import Pooled
    >>> from invariance.datasets import make_example
    >>> from sklearn.neighbors import KNeighborsRegressor
    >>> result = compare(make_example(), ["BIP", Pooled(KNeighborsRegressor())], left_out=True)
    >>> result["error_ratio"].round(1).to_dict()
    {'BIP': 1.0, 'Pooled': 1.3}
    """

    estimator: Any = "forest"
    random_state: int = 0
    columns: Columns | None = None

    def _check_settings(self) -> None:
        if isinstance(self.estimator, str) and self.estimator not in ("forest", "boosting"):
            raise SettingError(
                f"estimator={self.estimator!r} is not known: use 'forest', 'boosting' or an "
                "estimator of scikit-learn."
            )

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        """Return NaN: there are none."""
        kind = kind_for(data)
        learner = self.estimator
        if isinstance(learner, str):
            learner = _learner(learner, kind, self.random_state)
        if is_classifier(learner) != kind.classifies:
            wanted = "classifier" if kind.classifies else "regressor"
            name = type(learner).__name__
            raise DataError(f"{name} does not predict {data.outcome_name!r}: pass a {wanted}.")
        y, weights = rates(data)
        weighted = {} if weights is None else {"sample_weight": weights}
        self.model_ = clone(learner).fit(data.X, y, **weighted)
        self._used = [self.columns_.index(name) for name in data.features.columns]
        # Half a row: what no row has shown is not impossible.
        self._least = 0.5 / (data.n_rows if weights is None else weights.sum())
        return np.full(data.features.n_columns, np.nan), np.nan

    def predict(self, X: Any) -> Floats:
        """Predict the outcome by the fitted estimator.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,)
            Expected outcome, for two classes the probability of the second one, for counts the
            expected count per unit of exposure.
        """
        check_is_fitted(self)
        columns = self._fitted_columns(X)[:, self._used]
        kind = self._outcome.kind
        if kind.classifies:
            predicted = self.model_.predict_proba(columns)[:, 1]
        else:
            predicted = np.asarray(self.model_.predict(columns))
        return kind.within_range(predicted, self._least)


class Linear(AllFeatures):
    """Base of linear methods: a subclass implements `_line(moments)`.

    It returns coefficients (q,) and the intercept.
    """

    _kinds = ("number",)

    @abstractmethod
    def _line(self, moments: Moments) -> Line: ...

    def _coefficients(self, data: MultiEnvironmentData, selected: Mask) -> Line:
        check_columns(type(self).__name__, data, data.n_rows - 2)
        return self._line(Moments.from_data(data.by_labels))


@dataclass(eq=False, repr=False)
class RandomIntercept(Linear):
    """Fit a linear mixed model with a random intercept for each environment.

    The variances are estimated by restricted maximum likelihood (REML).

    Parameters
    ----------
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns,)
        Fixed effects, by generalised least squares.
    intercept_ : float
        Fixed intercept, which predicts in a new environment.
    ratio_ : float
        Variance of the random intercepts divided by the variance of the noise.
    noise_ : float
        Variance of the noise.
    effects_ : dict
        {label: random intercept of the environment}, by best linear unbiased prediction (BLUP).

    References
    ----------
    Laird, N. M. and Ware, J. H. (1982), Random-effects models for longitudinal data, Biometrics 38,
    963-974, doi:10.2307/2529876.
    """

    _any_size = True

    columns: Columns | None = None

    def _line(self, moments: Moments) -> Line:
        fit = random_intercept(moments, moments.feature_columns)
        self.ratio_ = fit.ratio
        self.noise_ = fit.noise
        self.effects_ = dict(zip(moments.environments, fit.effects.tolist(), strict=True))
        return fit.coefficients, fit.intercept

    def predict(self, X: Any, environments: ArrayLike | str | None = None) -> Floats:
        """Predict the outcome, in a new environment or in environments of the fit.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        environments : array-like of shape (n,) or str, default=None
            Label of each row, or the name of a column of X. Rows of an environment of the fit get
            its random intercept. None predicts for a new environment.

        Returns
        -------
        ndarray of shape (n,)
            Expected outcome.
        """
        predicted = super().predict(X)
        if environments is None:
            return predicted
        places = places_of_rows(X, environments, [*self.effects_])
        return predicted + np.array([*self.effects_.values(), 0.0])[places]


class Penalised(Linear):
    """Fit least squares with a penalty on differences between environments.

    Held-out environments select the weight of the penalty unless it is given. A subclass implements
    `_lines`.
    """

    # Weights that are tried, the one of least squares first: it wins where others are as good.
    _weights: ClassVar[tuple[float, ...]]
    _name: ClassVar[str]

    @abstractmethod
    def _lines(self, moments: Moments, weights: tuple[float, ...]) -> tuple[Floats, Floats]:
        """Return coefficients (S, q) and intercepts (S,) at these weights (S,)."""

    def _check_settings(self) -> None:
        weight = getattr(self, self._name)
        if weight is not None and not 0.0 <= weight < np.inf:
            raise SettingError(
                f"{self._name}={weight!r} is not a weight: use None or a number from 0 on, such "
                "as 10."
            )

    def _line(self, moments: Moments) -> Line:
        weight = getattr(self, self._name)
        n_environments = moments.n_environments
        self.left_out_errors_: dict[float, float] = {}
        if weight is None and n_environments > 2:
            errors = np.mean([self._errors(moments, e) for e in range(n_environments)], axis=0)
            self.left_out_errors_ = dict(zip(self._weights, np.sqrt(errors).tolist(), strict=True))
            weight = self._weights[int(np.argmin(errors))]
        elif weight is None:
            weight = self._weights[0]
            if n_environments == 2:
                why = (
                    f"{self._name} is chosen by environments left out, which takes three, and "
                    "there are two"
                )
                warn(f"{why}: this is least squares. Give {self._name} to {type(self).__name__}.")
        setattr(self, f"{self._name}_", float(weight))
        coefficients, intercepts = self._lines(moments, (float(weight),))
        return coefficients[0], float(intercepts[0])

    def _errors(self, moments: Moments, e: int) -> list[float]:
        """Return mean squared errors in one environment, for all weights, of fits to the others."""
        others = without(moments, moments.environments[e])
        lines = zip(*self._lines(others, self._weights), strict=True)
        columns = others.columns[:-1]
        return [squared_error(moments, e, columns, slopes, float(at_0)) for slopes, at_0 in lines]


@dataclass(eq=False, repr=False)
class Anchor(Penalised):
    """Fit anchor regression with the indicators of the environments as anchors.

    It minimises, over all rows of centred columns::

        Σ residual² + (γ − 1) Σ (mean residual of the row's environment)²

    Parameters
    ----------
    gamma : float, default=None
        Weight γ. 0 uses differences within environments only, 1 is least squares, large values
        protect against shifts of the means. None selects one of 0 and 0.1 to 1000 by the mean
        squared error in held-out environments, which count equally.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    gamma_ : float
        The γ of the fit; 1 if γ is to be selected from fewer than three environments.
    left_out_errors_ : dict of float to float
        {γ: root mean squared error in held-out environments}; empty if γ was not selected.
    coef_ : ndarray of shape (n_columns,)
        Coefficients.
    intercept_ : float
        Intercept.

    References
    ----------
    Rothenhäusler, D., Meinshausen, N., Bühlmann, P. and Peters, J. (2021), Anchor regression:
    heterogeneous data meet causality, Journal of the Royal Statistical Society B 83, 215-246,
    arXiv:1801.06229.
    """

    _weights = (1.0, 0.0, 0.1, 0.3, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    _name = "gamma"

    gamma: float | None = None
    columns: Columns | None = None

    def _lines(self, moments: Moments, weights: tuple[float, ...]) -> tuple[Floats, Floats]:
        gaps = moments.gaps
        within = moments.scatter[:-1].sum(axis=0)
        lines = []
        for gamma in weights:
            products = within + gamma * (moments.counts * gaps.T) @ gaps
            whitening = whitening_of(products[:-1, :-1])
            lines.append(whitening @ (whitening.T @ products[:-1, -1]))
        means = moments.pooled_mean
        return np.array(lines), means[-1] - np.array(lines) @ means[:-1]


@dataclass(eq=False, repr=False)
class VREx(Penalised):
    """Fit linear risk extrapolation with a penalty on the variance of risks (V-REx).

    It minimises the mean of the environments' mean squared errors plus λ times their variance.

    Parameters
    ----------
    penalty : float, default=None
        Weight λ for an outcome of variance 1. None selects one of 0 and 0.1 to 1000 by the mean
        squared error in held-out environments, which count equally.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read.

    Attributes
    ----------
    penalty_ : float
        The λ of the fit; 0 if λ is to be selected from fewer than three environments.
    left_out_errors_ : dict of float to float
        {λ: root mean squared error in held-out environments}; empty if λ was not selected.
    coef_ : ndarray of shape (n_columns,)
        Coefficients.
    intercept_ : float
        Intercept.

    Notes
    -----
    Environments count equally, whatever their numbers of rows. The objective may have several local
    minima: the result is the one that is reached from least squares as λ grows.

    References
    ----------
    Krueger, D., Caballero, E., Jacobsen, J.-H., Zhang, A., Binas, J., Zhang, D., Le Priol, R. and
    Courville, A. (2021), Out-of-distribution generalization via risk extrapolation (REx),
    International Conference on Machine Learning, arXiv:2003.00688.
    """

    _weights = (0.0, 0.1, 1.0, 10.0, 100.0, 1000.0)
    _name = "penalty"

    penalty: float | None = None
    columns: Columns | None = None

    def _lines(self, moments: Moments, weights: tuple[float, ...]) -> tuple[Floats, Floats]:
        products = moments.scatter[-1]
        n = moments.n_rows
        # Columns of mean 0 and variance 1, without correlation, and the outcome in the same way.
        whitening = np.sqrt(n) * whitening_of(products[:-1, :-1])
        unit = np.sqrt(products[-1, -1] / n)
        basis = np.zeros((len(products), whitening.shape[1] + 1))
        basis[:-1, :-1] = whitening
        basis[-1, -1] = 1.0 / unit
        means = np.hstack([np.ones((moments.n_environments, 1)), moments.gaps @ basis])
        squares = means[:, :, None] * means[:, None]
        local = basis.T @ moments.scatter[:-1] @ basis
        squares[:, 1:, 1:] += local / moments.counts[:, None, None]
        path = [weight for weight in self._weights if weight < weights[-1]]
        found = unit * _along(squares, (*path, weights[-1]))[-len(weights) :]
        coefficients = found[:, 1:] @ whitening.T
        centre = moments.pooled_mean
        return coefficients, centre[-1] + found[:, 0] - coefficients @ centre[:-1]


def _along(squares: Floats, penalties: tuple[float, ...]) -> Floats:
    """Minimise mean + λ · variance of the risks of the environments at rising λ (S,), (S, k).

    Each minimum is found from the one before. squares (E, k + 1, k + 1): mean products of k columns
    and the outcome in each environment.
    """

    def value(found: Floats, penalty: float) -> float:
        left = np.append(-found, 1.0)
        risks = squares @ left @ left
        return float(risks.mean() + penalty * risks.var())

    average = squares.mean(axis=0)
    current = np.linalg.solve(average[:-1, :-1], average[:-1, -1])
    found = []
    for penalty in penalties:
        for _ in range(_MAX_NEWTON_STEPS):
            left = np.append(-current, 1.0)
            risks = squares @ left @ left
            slopes = -2.0 * (squares @ left)[:, :-1]
            shares = (1.0 + 2.0 * penalty * (risks - risks.mean())) / len(risks)
            gradient = shares @ slopes
            apart = slopes - slopes.mean(axis=0)
            spread = 2.0 * penalty * apart.T @ apart / len(risks)
            curvature = np.tensordot(2.0 * shares, squares[:, :-1, :-1], 1) + spread
            # Newton's step, downhill also where the surface bends down.
            bends, directions = np.linalg.eigh(curvature)
            bends = np.maximum(np.abs(bends), _FLAT * np.abs(bends).max())
            step = directions @ (directions.T @ gradient / bends)
            before = value(current, penalty)
            converged = gradient @ step <= _NOTHING_TO_GAIN * before
            while (
                not converged and value(current - step, penalty) > before - 1e-4 * gradient @ step
            ):
                step = step / 2.0
            current = current - step
            if converged:
                break
        found.append(current)
    return np.array(found)
