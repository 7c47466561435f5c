"""Predictors with their uncertainty: a linear fit, an average of several, or a user's regressor."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import t as student

from .._tools.arrays import Floats, Integers, Names
from ..data.checks import check_lengths, nearest, warn, with_counts
from ..data.columns import aligned, as_frame, frame_names, label_list
from ..data.labels import encode_labels
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import Classes, class_in_words
from ..data.structure import parts_of
from ..exceptions import DataError, PredictionWarning, SettingError
from ..kinds import NUMBER, OutcomeKind
from ..models.base import (
    INVERSE_LINKS,
    EnvironmentData,
    Family,
    Fit,
    kind_of,
    link_of,
    moments_of,
    rows_of,
)
from ..models.survival import PiecewiseHazard
from ..moments.moments import Moments
from ..moments.random_intercept import whitening_of, whitening_of_rows


@dataclass(frozen=True)
class PredictedOutcome:
    """Describe the outcome that is predicted.

    link : between the mean and intercept + coefficients · columns; classes : labels of 0 and 1, if
        any
    exposure : name of the unit of rates, if any
    """

    name: str
    kind: OutcomeKind = NUMBER
    classes: Classes | None = None
    exposure: str | None = None
    link: str = "identity"

    @classmethod
    def of(cls, data: EnvironmentData, family: Family | None) -> PredictedOutcome:
        """family : None is least squares"""
        kind = kind_of(family)
        link = link_of(family)
        rows = rows_of(data)
        if rows is None:
            return cls(data.outcome_name, kind, link=link)
        classes = (0, 1) if kind.classifies and rows.classes is None else rows.classes
        return cls(data.outcome_name, kind, classes, rows.exposure_name, link)

    @property
    def in_words(self) -> str:
        """Describe a prediction: "yield", "the probability that died is 'yes'", "visits per unit of
        years"."""
        if self.kind.classifies and self.classes is not None:
            return f"the probability that {self.name} is {class_in_words(self.classes[1])}"
        return self.name if self.exposure is None else f"{self.name} per unit of {self.exposure}"

    def coded(self, y: Any) -> Any:
        """y as it is compared with predictions: the second class counts 1, the first 0."""
        if self.classes is None:
            return y
        values = np.asarray(y, dtype=object).reshape(-1)
        unknown = [value for value in values if value not in self.classes]
        if unknown:
            first, second = self.classes
            raise DataError(
                f"y holds {unknown[0]!r}, and the model tells {second!r} from {first!r}: leave it "
                "out."
            )
        return (values == self.classes[1]).astype(float)

    @property
    def inverse_link(self) -> Callable[[Floats], Floats] | None:
        """Return the mean as a function of intercept + coefficients · columns; None for a link of
        one's own.

        For times these are logarithms of relative hazards, which are combined with a baseline.
        """
        return INVERSE_LINKS.get("identity" if self.kind.censored else self.link)

    @property
    def has_intervals(self) -> bool:
        """Return whether errors have one size: the outcome is a number that is linear in the
        columns."""
        return self.kind.by_least_squares and self.link == "identity"

    def check_intervals(self) -> None:
        """Raise if intervals of one width are not meaningful."""
        if not self.has_intervals:
            by_mean = f" with a {self.link} link, as its errors depend on its mean"
            why = by_mean if self.kind.by_least_squares else ""
            raise SettingError(
                f"{self.in_words} has no intervals{why}: new_environments() shows how far it is "
                "off."
            )


def as_observed(mean: Floats, data: MultiEnvironmentData) -> Floats:
    """Return expected outcomes (N,) of the rows, from those of one unit of exposure."""
    return mean if data.exposure is None else mean * data.exposure


# Leverage relative to the largest training leverage, beyond which a row is far outside.
FAR = 2.0


@dataclass(frozen=True, eq=False)
class Design:
    """columns : k names; n_rows : how many were fitted; centre : (k,) their mean
    whitening : (k, r) with (x − centre) · whitening = r numbers whose squares sum to the leverage,
        less 1 / n_rows
    minimum, maximum : (k,); farthest : largest leverage of a fitted row, less 1 / n_rows"""

    columns: Names
    n_rows: int
    centre: Floats
    whitening: Floats
    minimum: Floats
    maximum: Floats
    farthest: float

    def __post_init__(self) -> None:
        # Lists, as JSON has them, do not tell how wide no rows are.
        k = len(self.columns)
        object.__setattr__(
            self, "whitening", self.whitening.reshape(k, self.whitening.size // max(k, 1))
        )

    @classmethod
    def of(cls, data: EnvironmentData, columns: Names) -> Design:
        """Return the design of these data; from second moments `farthest` is an upper bound."""
        rows = rows_of(data)
        if rows is None:
            moments = moments_of(data)
            at = [moments.columns.index(name) for name in columns]
            low = moments.minimum[:, at]
            high = moments.maximum[:, at]
            centre = moments.pooled_mean[at]
            whitening = whitening_of(moments.scatter[-1][np.ix_(at, at)])
            reach = np.maximum(high - centre, centre - low)
            farthest = min(
                float(_squares(reach @ np.abs(whitening)).max(initial=0.0)),
                1.0 - 1.0 / moments.n_rows,
            )
            return cls(
                columns,
                moments.n_rows,
                centre,
                whitening,
                low.min(axis=0),
                high.max(axis=0),
                farthest,
            )
        X = columns_of(rows, columns)
        centre = X.mean(axis=0)
        whitening = whitening_of_rows(X - centre)
        farthest = float(_squares((X - centre) @ whitening).max(initial=0.0))
        return cls(columns, len(X), centre, whitening, X.min(axis=0), X.max(axis=0), farthest)

    @property
    def rank(self) -> int:
        return self.whitening.shape[1]

    def leverage(self, X: Floats) -> Floats:
        """Return the leverage (n,) of rows X (n, k)."""
        return 1.0 / self.n_rows + _squares((X - self.centre) @ self.whitening)

    def far(self, X: Floats) -> Floats:
        """Return leverage (n,) relative to the largest training leverage if that exceeds `FAR`,
        else 0."""
        if not self.rank:
            return np.zeros(len(X))
        times = _squares((X - self.centre) @ self.whitening) / self.farthest
        return np.where(times > FAR, times, 0.0)

    def outside(self, X: Floats, derived: Collection[str] = ()) -> str:
        """Describe rows X (n, k) far from the training rows; "" if there are none.

        Derived columns are not named.
        """
        times = self.far(X)
        n_far = int((times > 0.0).sum())
        if not n_far:
            return ""
        row = X[int(np.argmax(times))]
        width = self.maximum - self.minimum
        excess = np.maximum(row - self.maximum, self.minimum - row) / np.where(
            width > 0.0, width, 1.0
        )
        excess[[name in derived for name in self.columns]] = 0.0
        j = int(np.argmax(excess))
        what = f"combines values of {', '.join(self.columns[:4])} as no fitted row does"
        if excess[j] > 0.0:
            fitted = f"{self.minimum[j]:.4g} to {self.maximum[j]:.4g}"
            what = f"has {self.columns[j]} = {row[j]:.4g}, and the fitted rows have {fitted}"
        return (
            f"{n_far:,} of {len(X):,} rows lie far outside the rows that were fitted: the "
            f"farthest {what}"
        )


def columns_of(data: MultiEnvironmentData, columns: Names) -> Floats:
    """Return columns (N, k) by name."""
    place = {name: j for j, name in enumerate(data.features.columns)}
    return data.X[:, [place[name] for name in columns]]


def _squares(values: Floats) -> Floats:
    return np.einsum("nk,nk->n", values, values)


_FOLDS = 5
_LARGE = 0.25


@dataclass(frozen=True, eq=False)
class LinearFit:
    """Hold a fit by least squares.

    columns : k names; coefficients : (k,); freedom : residual degrees of freedom; effects : (E, 1 +
        k)
    differences of the intercepts of environments, then 0, if estimated
    """

    columns: Names
    coefficients: Floats
    intercept: float
    freedom: float
    effects: Floats | None = None

    def predict(self, X: Floats) -> Floats:
        """Return predictions (n,) for rows X (n, k)."""
        return X @ self.coefficients + self.intercept

    @staticmethod
    def mean(predictor: Floats) -> Floats:
        return predictor


@dataclass(frozen=True, eq=False)
class AveragedFit:
    """One linear fit. at : (m,) positions of its columns; weight : its share in an average; noise :
    residual variance;
    freedom : degrees of freedom it was estimated with; design : of its own columns; uncertainty :
        (1 + m, 1 + m) of
    random deviations between environments and of their mean, as `Blups` has it, None of a pooled
    fit; between : degrees of freedom of these, None of a pooled fit and in files of before"""

    at: Integers
    coefficients: Floats
    intercept: float
    weight: float
    noise: float
    freedom: float
    design: Design
    uncertainty: Floats | None = None
    between: float | None = None

    def variance(self, X: Floats) -> Floats:
        """Return the variance (n,) of the outcome of rows X (n, m) around the prediction."""
        if self.uncertainty is None:
            return self.noise * (1.0 + self.design.leverage(X))
        w = np.insert(X - self.design.centre, 0, 1.0, axis=1)
        return np.asarray(self.noise * (1.0 + np.einsum("ni,ij,nj->n", w, self.uncertainty, w)))

    def freedom_of(self, X: Floats) -> Floats:
        """Return the degrees of freedom (n,) of this variance by Satterthwaite's rule.

        Its parts are the noise and the deviations of environments.
        """
        if self.between is None:
            return np.full(len(X), self.freedom)
        deviating = self.variance(X) / self.noise - 1.0
        return np.asarray(
            (1.0 + deviating) ** 2 / (1.0 / self.freedom + deviating**2 / self.between)
        )


@dataclass(frozen=True, eq=False)
class LinearPredictor:
    """Predict by an average of linear fits, often of one.

    inverse_link : expected outcome at intercept + coefficients · columns; design : of the k columns
        that
    rows to predict must have, in its order; effects (E, 1 + k) : deviations of intercept and
    coefficients of each environment of the fit, None if not estimated
    """

    design: Design
    members: tuple[AveragedFit, ...]
    inverse_link: Callable[[Floats], Floats]
    effects: Floats | None = None

    @property
    def weights(self) -> Floats:
        """Return the weights (K,) of the members."""
        return np.array([member.weight for member in self.members])

    def predict(self, X: Floats) -> Floats:
        """Return the expected outcome, (n,)."""
        return self.weights @ self._each(X)

    def half_width(self, X: Floats, coverage: float) -> Floats:
        """Return half the width (n,) of intervals by Student's t.

        It includes noise, uncertain coefficients and, in an average, the spread of the members.
        """
        means = self._each(X)
        weights = self.weights
        apart = weights @ (means - weights @ means) ** 2
        columns = [np.take(X, m.at, axis=1) for m in self.members]
        own = [
            m.weight * m.variance(values) for m, values in zip(self.members, columns, strict=True)
        ]
        each = [m.freedom_of(values) for m, values in zip(self.members, columns, strict=True)]
        freedom = np.min(each, axis=0)
        return student.ppf(0.5 + 0.5 * coverage, freedom) * np.sqrt(np.sum(own, axis=0) + apart)

    @property
    def knows_new_environments(self) -> bool:
        """Return whether `half_width` includes the deviations of environments."""
        return all(member.uncertainty is not None for member in self.members)

    def own(self, X: Floats, places: Integers) -> Floats:
        """Return the deviations (n,) of rows X (n, k) of the environments at these places (n,); 0
        at -1."""
        assert self.effects is not None
        shifts = np.vstack([self.effects, np.zeros(self.effects.shape[1])])[places]
        return np.asarray(shifts[:, 0] + np.einsum("nk,nk->n", X, shifts[:, 1:]))

    def _each(self, X: Floats) -> Floats:
        """Return the predictions of each member, (K, n)."""
        return np.array([self.inverse_link(values) for values in self._linear(X)])

    def _linear(self, X: Floats) -> list[Floats]:
        """Return intercept + coefficients · columns (n,) of each member."""
        return [np.take(X, m.at, axis=1) @ m.coefficients + m.intercept for m in self.members]

    @property
    def columns(self) -> Names:
        return self.design.columns

    @property
    def coefficients(self) -> Floats:
        """Return the coefficients (k,) of the average."""
        return self.line[0]

    @property
    def intercept(self) -> float:
        return self.line[1]

    @cached_property
    def line(self) -> tuple[Floats, float]:
        """Coefficients (k,) and intercept of the average."""
        coefficients = np.zeros(len(self.design.columns))
        for member in self.members:
            coefficients[member.at] += member.weight * member.coefficients
        return coefficients, float(sum(member.weight * member.intercept for member in self.members))


def places_of_rows(X: Any, environments: Any, known: Sequence[Hashable]) -> Integers:
    """Return the position (n,) of the environment of each row among the known ones.

    It is -1, with a warning, for unknown environments. environments : one label per row, or the
    name of a column of X, or as `fit` took it: the first column
        of a list
    """
    available = frame_names(X) or []
    parts = parts_of(environments)
    if parts is not None and not parts.labels:
        what = (
            f"environments={environments!r} says where rows lie along {parts.name!r}, and "
            "predictions do not use it"
        )
        raise SettingError(f"{what}: leave it out.")
    if parts is not None and (
        parts.along is not None or set(parts.labels) <= {*available} - {*map(str, known)}
    ):
        environments = parts.name
    if isinstance(environments, str):
        if environments not in available:
            raise DataError(
                f"environments={environments!r} is no column of X; "
                f"{nearest(environments, available)}"
            )
        environments = as_frame(X, "X")[environments].to_native()
    codes, labels = encode_labels(label_list(*aligned(X, environments=environments)))
    check_lengths({"X": len(X), "environments": len(codes)})
    place = {str(label): e for e, label in enumerate(known)} | {
        label: e for e, label in enumerate(known)
    }
    # A missing label has the code -1, the last place.
    found = np.array([*(place.get(label, place.get(str(label), -1)) for label in labels), -1])
    counts = np.bincount(codes % len(found), minlength=len(found)) * (found < 0)
    if counts.any():
        told = (
            "no row of these environments was fitted: "
            f"{with_counts((*labels, 'missing label'), counts)}"
        )
        warn(f"{told}. They are predicted as a new one.", PredictionWarning)
    return found[codes]


@dataclass(frozen=True, eq=False)
class RefittedPredictor:
    """Predict by a regressor fitted to the selected columns of all rows.

    slopes (k,) : of least squares to the same rows; middle (2, k) : range of 95% of the values of
    each column; rows : their X (n, k) and y (n,), None in a saved model; known_noise : residual
    variance, None if it is not known yet
    """

    design: Design
    regressor: Any
    slopes: Floats
    middle: Floats
    rows: tuple[Floats, Floats] | None = None
    known_noise: float | None = None

    @cached_property
    def noise(self) -> float:
        """Residual variance, by cross-validation over the rows."""
        from sklearn.base import clone
        from sklearn.model_selection import KFold, cross_val_predict

        if self.known_noise is not None:
            return self.known_noise
        assert self.rows is not None
        X, y = self.rows
        folds = KFold(min(_FOLDS, len(y)), shuffle=True, random_state=0)
        predicted = cross_val_predict(clone(self.regressor), X, y, cv=folds)
        return float(np.mean((y - np.reshape(predicted, len(y))) ** 2))

    def predict(self, X: Floats) -> Floats:
        """Return predictions (n,) for rows X (n, k)."""
        return np.asarray(self.regressor.predict(X), dtype=float).reshape(len(X))

    def departure(self, X: Floats) -> Floats:
        """Return the extrapolation discrepancy (n,) between the regressor and a linear fit.

        It is how much the two diverge from the middle of the training rows to X (n, k): 0 in the
        middle, and the whole change of the linear fit if the regressor is constant, as forests are.
        """
        nearest = np.clip(X, *self.middle)
        apart = np.zeros(len(X))
        beyond = (nearest != X).any(axis=1)
        if beyond.any():
            X = X[beyond]
            nearest = nearest[beyond]
            apart[beyond] = np.abs(
                (X - nearest) @ self.slopes - (self.predict(X) - self.predict(nearest))
            )
        return apart

    def cannot_follow(self, X: Floats) -> str:
        """Describe rows X (n, k) for which the discrepancy is large; "" if there are none.

        It is compared with the change of the linear fit in the middle of the training rows.
        """
        rise = np.abs(self.slopes) @ np.diff(self.middle, axis=0)[0]
        name = type(self.regressor).__name__
        apart = int((self.departure(X) > _LARGE * rise).sum())
        beyond = f"{apart:,} of {len(X):,} rows lie where few training rows do"
        return f"{beyond}, and the {name} does not go on as a straight line would" if apart else ""

    def half_width(self, X: Floats, coverage: float) -> Floats:
        """Return half the width (n,) of intervals with this coverage for rows like the training
        rows."""
        freedom = max(self.design.n_rows - 1.0 - self.design.rank, 1.0)
        return student.ppf(0.5 + 0.5 * coverage, freedom) * np.sqrt(
            self.noise * (1.0 + self.design.leverage(X))
        )


Predictor = LinearPredictor | RefittedPredictor

# Halvings of an interval of time, after which nothing is left of it.
_HALVINGS = 60


@dataclass(frozen=True, eq=False)
class SurvivalPredictor(LinearPredictor):
    """baselines: hazards of each of the members, whose linear predictors are logarithms of relative
    risks."""

    baselines: tuple[PiecewiseHazard, ...] = field(default=(), kw_only=True)

    @property
    def end(self) -> float:
        """Return the longest observed time, which predictions do not exceed."""
        return self.baselines[0].end

    @property
    def until(self) -> str:
        return f"{np.format_float_positional(self.end, trim='-')}, the longest time seen"

    def survival(self, X: Floats, times: Floats) -> Floats:
        """Return the survival probabilities (n, T) by times (T,), or by times (n, T) of each
        row."""
        curves = [
            baseline.survival(risk[:, None], np.atleast_2d(times))
            for baseline, risk in self._risks(X)
        ]
        return np.einsum("m,mnt->nt", self.weights, np.array(curves))

    def predict(self, X: Floats) -> Floats:
        """Return the median time to the event, (n,), infinite beyond the end."""
        each = [baseline.median(risk) for baseline, risk in self._risks(X)]
        if len(each) == 1:
            return each[0]
        low = np.zeros(len(X))
        high = np.full(len(X), self.end)
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            alive = self.survival(X, middle[:, None])[:, 0] > 0.5
            low = np.where(alive, middle, low)
            high = np.where(alive, high, middle)
        return np.where(self.survival(X, np.array([self.end]))[:, 0] <= 0.5, high, np.inf)

    def restricted_mean(self, X: Floats, horizon: float) -> Floats:
        """Return the mean time to the event, or to the horizon if that is earlier, (n,)."""
        return self.weights @ np.array(
            [baseline.restricted_mean(risk, horizon) for baseline, risk in self._risks(X)]
        )

    def order(self, X: Floats) -> Floats:
        """Return values (n,) in the expected order of events, also if the median is not reached."""
        return self.restricted_mean(X, self.end)

    def _risks(self, X: Floats) -> list[tuple[PiecewiseHazard, Floats]]:
        """Return the baseline and the relative hazards (n,) of each member."""
        with np.errstate(over="ignore"):
            risks = [np.exp(values) for values in self._linear(X)]
        return list(zip(self.baselines, risks, strict=True))


def member_of(
    fit: Fit | LinearFit, weight: float, data: EnvironmentData, used: Names
) -> AveragedFit:
    design = Design.of(data, fit.columns)
    rows = rows_of(data)
    freedom = getattr(fit, "freedom", max(design.n_rows - 1.0 - design.rank, 1.0))
    at = np.array([used.index(name) for name in fit.columns], dtype=np.int64)
    coefficients = np.ascontiguousarray(fit.coefficients, dtype=float)
    if rows is None:
        squares = design.n_rows * squared_error(
            moments_of(data), -1, fit.columns, fit.coefficients, fit.intercept
        )
    else:
        residuals = rows.y - as_observed(fit.predict(columns_of(rows, fit.columns)), rows)
        squares = float(residuals @ residuals)
    return AveragedFit(
        at, coefficients, float(fit.intercept), float(weight), squares / freedom, freedom, design
    )


def squared_error(
    moments: Moments, group: int, columns: Names, coefficients: Floats, intercept: float
) -> float:
    """Return the mean squared error of a linear prediction in an environment, or in all rows
    (-1)."""
    used = [*(moments.columns.index(name) for name in columns), moments.outcome]
    mean = moments.pooled_mean
    n_rows = moments.n_rows
    if group != -1:
        mean = moments.means[group]
        n_rows = int(moments.counts[group])
    slopes = np.append(-coefficients, 1.0)
    scatter = max(float(slopes @ moments.scatter[group][np.ix_(used, used)] @ slopes), 0.0)
    return scatter / float(n_rows) + (float(slopes @ mean[used]) - intercept) ** 2
