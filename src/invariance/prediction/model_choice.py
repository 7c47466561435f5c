"""The choice of the predictor: all features, unless held-out environments show that these fail.

All features are replaced by the selected ones if the ratio of their largest errors in held-out
environments exceeds exp(max(margin, 5 / E²)).
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, get_args

import numpy as np
from sklearn.base import clone

from .._tools.arrays import Fields, Floats, Labels, Mask, Names
from .._tools.names import PredictWith
from ..data.features import Features, as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.pipeline import Data, Findings, FitSettings
from ..exceptions import DataError, SettingError, use
from ..inference.base import Target
from ..kinds import OutcomeKind
from ..models.base import (
    BoundModel,
    EnvironmentData,
    Fit,
    Level,
    kind_of,
    link_of,
    moments_of,
    rows_for,
    rows_of,
)
from ..models.free_baselines import FreeBaselines
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.survival import PiecewiseExponentialFit
from ..moments.moments import Moments
from ..moments.random_intercept import uncertainty
from .all_features import (
    least_squares_line,
    line_of_everything,
    mean_deviance,
    random_intercept_line,
    regression_on,
    regression_on_everything,
    shrinks,
    usable_columns,
    without,
)
from .predictor import (
    Design,
    LinearPredictor,
    Predictor,
    RefittedPredictor,
    SurvivalPredictor,
    columns_of,
    member_of,
    squared_error,
)

PREDICT_WITH = get_args(PredictWith)
# Probability of the leading subsets that are averaged.
AVERAGED_MASS = 0.999


def check_predict_with(kind: Any, regressor: Any) -> None:
    if kind not in PREDICT_WITH:
        raise SettingError(
            f"predict_with={kind!r} is not known",
            *(use(predict_with=known) for known in PREDICT_WITH),
        )
    if kind == "average" and regressor is not None:
        remedies = use(predict_with="auto"), use(regressor=None)
        raise SettingError(
            "a regressor is fitted to the features of one subset, and cannot be averaged", *remedies
        )


def check_regressor(regressor: Any, data: EnvironmentData) -> None:
    """Raise if a regressor cannot be fitted to the data, or cannot use events or exposures."""
    rows = rows_of(data)
    name = type(regressor).__name__
    if regressor is not None and rows is None:
        raise SettingError(f"a {name} needs rows, and moments hold none", use(regressor=None))
    if regressor is not None and rows is not None and rows.outcome_columns:
        raise SettingError(
            f"a {name} knows nothing of the {' and '.join(rows.outcome_columns)}",
            use(regressor=None),
        )


@dataclass(eq=False)
class Selection:
    """Hold what a fit selects in some data, computed at first use; mask (p,)."""

    settings: FitSettings
    data: Data

    @cached_property
    def target(self) -> Target:
        return self.settings.target(self.data)

    @cached_property
    def findings(self) -> Findings:
        return self.settings.findings(self.target, False)

    @cached_property
    def mask(self) -> Mask:
        return self.settings.rule.select(self.findings)

    @cached_property
    def level(self) -> Level:
        """Return the level of invariance at which subsets are compatible.

        Below the full level they predict with free baselines.
        """
        return self.findings.level

    @cached_property
    def averaged(self) -> tuple[Mask, Floats]:
        """Return subsets (m, p) and weights (m,); the selected subset if none is compatible."""
        predictive = self.findings.predictive
        if predictive is None:
            return self.mask[None], np.ones(1)
        weights = np.exp(predictive.log_probabilities)
        n = int(np.searchsorted(np.cumsum(weights) / weights.sum(), AVERAGED_MASS)) + 1
        return predictive.masks[:n], weights[:n] / weights[:n].sum()

    @property
    def kind(self) -> OutcomeKind:
        return kind_of(self.settings.family)

    @property
    def linear(self) -> bool:
        """Return whether least squares fits the mean, instead of the family's likelihood."""
        family = self.settings.family
        return (
            self.kind.by_least_squares
            and link_of(family) == "identity"
            and not hasattr(family, "mean")
        )

    @classmethod
    def known(cls, settings: FitSettings, data: Data, findings: Findings, mask: Mask) -> Selection:
        found = cls(settings, data)
        vars(found).update(target=findings.target, findings=findings, mask=mask)
        return found


def build(kind: str, selection: Selection, regressor: Any = None) -> Predictor:
    """kind: one of PREDICT_WITH but "auto", or "constant"."""
    data = selection.data
    if regressor is not None and (columns := columns_of_kind(kind, selection)):
        rows = rows_for("regressor", data)
        X = columns_of(rows, columns)
        design = Design.of(rows, columns)
        slopes = design.whitening @ (
            design.whitening.T @ ((X - design.centre).T @ (rows.y - rows.y.mean()))
        )
        middle = np.quantile(X, [0.025, 0.975], axis=0)
        return RefittedPredictor(
            design, clone(regressor).fit(X, rows.y), slopes, middle, (X, rows.y)
        )
    if kind == "everything":
        if selection.linear:
            line = line_of_everything(data)
            found = replace(_of_fits([line], [1.0], data), effects=line.effects)
            used = as_mask(data.features.with_columns(line.columns), data.features.names)
            model = selection.target.model.at_level(Level.full)
            return found if line.effects is None else _with_environments(found, model, used[None])
        family = selection.settings.family
        return _of_fits([regression_on_everything(family, rows_for("whole", data))], [1.0], data)
    masks = np.zeros((1, data.features.n_features), dtype=bool)
    weights = np.ones(1)
    level = Level.full
    if kind != "constant":
        masks, weights = (
            selection.averaged if kind == "average" else (selection.mask[None], weights)
        )
        level = selection.level
    model = selection.target.model.at_level(level)
    fitted = _of_fits([model.line(mask) for mask in masks], weights.tolist(), data)
    return _with_environments(fitted, model, masks)


def _with_environments(
    predictor: LinearPredictor, model: BoundModel, masks: Mask
) -> LinearPredictor:
    """Return the predictor with the effects of environments of the fit, given the subset of each
    member.

    They are baselines if the model leaves these free, and coefficients for random deviations; the
    latter also have the uncertainty of coefficients in a new environment.
    """
    deviates = isinstance(model, GaussianRandomDeviations)
    free = isinstance(model, FreeBaselines)
    if not free and (not deviates or np.isnan(model.deviation_shares(masks)).any()):
        return predictor
    effects = np.zeros((model.n_environments, 1 + len(predictor.columns)))
    members = []
    for member, mask in zip(predictor.members, masks, strict=True):
        about: Fields = {}
        if isinstance(model, FreeBaselines):
            found: Any = model.random_intercept(mask)
            effects[:, 0] += member.weight * found.effects
            if deviates:
                moments = model.full.moments
                columns = moments.feature_columns[model.features.expand(mask)]
                about["uncertainty"] = uncertainty(moments, columns, found.ratio)
                about["between"] = model.n_environments - 1.0
        elif isinstance(model, GaussianRandomDeviations):
            found = model.blups(mask)
            own = model.effects_about(mask, member.coefficients, member.intercept)
            effects[:, np.append(0, 1 + member.at)] += member.weight * own
            about = {"freedom": found.freedom, "uncertainty": found.uncertainty}
            about["between"] = found.freedom_mean
        members.append(replace(member, noise=found.noise, **about) if deviates else member)
    return replace(predictor, members=tuple(members), effects=effects)


def columns_of_kind(kind: str, selection: Selection) -> Names:
    """Return the columns that a predictor uses: of all features, of the selected ones, or none."""
    features = selection.data.features
    if kind == "constant":
        return ()
    return features.columns if kind == "everything" else features.chosen(selection.mask).columns


@dataclass(eq=False)
class Refits:
    """Fit a regressor without one environment at a time, and keep its predictions there."""

    regressor: Any
    data: MultiEnvironmentData
    _known: dict[tuple[int, Names], Floats] = field(default_factory=dict)

    def predicted(self, place: int, columns: Names) -> Floats:
        """Return predictions (n_e,) for an environment by a fit of these columns to the others.

        Without columns it is their mean.
        """
        if (place, columns) not in self._known:
            left_out = self.data.environment_index == place
            X = columns_of(self.data, columns)
            y = self.data.y[~left_out]
            n = int(left_out.sum())
            predicted = np.full(n, y.mean())
            if columns:
                predicted = clone(self.regressor).fit(X[~left_out], y).predict(X[left_out])
            self._known[place, columns] = np.asarray(predicted, dtype=float).reshape(n)
        return self._known[place, columns]


def _of_fits(fits: list[Any], weights: list[float], data: Data) -> LinearPredictor:
    held = {name for fit in fits for name in fit.columns}
    used = tuple(name for name in data.features.columns if name in held)
    members = tuple(
        member_of(fit, weight, data, used) for fit, weight in zip(fits, weights, strict=True)
    )
    average = Design.of(data, used), members, fits[0].mean
    baselines = tuple(fit.baseline for fit in fits if isinstance(fit, PiecewiseExponentialFit))
    return (
        SurvivalPredictor(*average, baselines=baselines) if baselines else LinearPredictor(*average)
    )


# ---------------------------------------------------------------- the gate

# What the ratio of the worst errors must exceed for the selected features to predict: e to the
# power of the kind's `choice_margin`, or of this over E². benchmarks/predictions.py and
# prediction_gate.py show what that does.
_FEW = 5.0
# An RMSE that is less than this share of the outcome's standard deviation is rounding.
_ROUNDING = 1e-6
# Errors count as alike up to this ratio.
_ALIKE = 1.05


@dataclass(frozen=True, eq=False)
class Choice:
    """State whether all features predict or the selected ones, with the reason.

    The ratio of their largest errors in held-out environments decides.

    Attributes
    ----------
    uses : {"everything", "selected"}
        Features that predict.
    environments : tuple
        Labels of the E environments.
    everything, selected : ndarray of shape (E,)
        Error of both in each environment, held out with the selection as it is: RMSE, or for
        classes, counts and times the deviance relative to a constant. NaN if the others alone
        cannot be fitted.
    ratio : float
        Ratio of the largest errors; NaN if there are none.
    threshold : float
        Above it the selected features predict.
    n_features, n_selected : int
        Number of all and of the selected features.
    kind : OutcomeKind
        Kind of the outcome.
    reason : str
        Why all features cannot predict, or "".
    n_constant : int
        Features that are constant in every environment, which all features do without.
    """

    uses: str
    environments: Labels
    everything: Floats
    selected: Floats
    ratio: float
    threshold: float
    n_features: int
    n_selected: int
    kind: OutcomeKind
    reason: str = ""
    n_constant: int = 0

    @property
    def content(self) -> Fields:
        """Return the fields as `to_json` takes them, labels as text."""
        labels = [str(label) for label in self.environments]
        return vars(self) | {"environments": labels, "worst": self.worst, "sentence": str(self)}

    @property
    def worst(self) -> tuple[float, float]:
        """Return the largest errors of all features and of the selected ones.

        Returns
        -------
        tuple of float
            Over the environments with both errors.
        """
        return worst_of(self.everything, self.selected)

    @property
    def measure(self) -> str:
        """Return the name of the errors."""
        return self.kind.choice_error

    def named(self, kind: str) -> str:
        """Return a name of the predictor; kind : one of PREDICT_WITH."""
        n = self.n_features
        vary = " that vary within environments" if self.n_constant else ""
        everything = (
            f"all {n} features{vary}"
            if n > 1
            else f"the one feature{vary.replace('vary', 'varies')}"
        )
        names = {
            "everything": everything if n else "a constant",
            "selected": f"the {self.n_selected} selected" if self.n_selected else "a constant",
            "average": "an average of compatible subsets",
        }
        return names[self.uses if kind == "auto" else kind]

    def told(self, kind: str) -> str:
        """Describe in words which features predict and why.

        Parameters
        ----------
        kind : {"auto", "everything", "selected", "average"}
            The value of `predict_with`.

        Returns
        -------
        str
            A sentence.
        """
        return str(self) if kind == "auto" else f"{self.named(kind)}, as asked; by default {self}"

    def __str__(self) -> str:
        """Describe the choice in one sentence."""
        everything = self.named("everything")
        chosen = self.named("selected")
        them = "they fail" if self.n_features > 1 else "it fails"
        if self.reason:
            return f"{chosen}: {self.reason}"
        if np.isnan(self.ratio):
            return f"{everything}: no environment could be left out to show that {them}."
        (of_all, of_chosen), worst = self.worst, "the worst environment left out"
        errors = f"{self.measure}: {of_all:.3g} and {of_chosen:.3g}"
        if self.uses == "selected":
            return (
                f"{chosen}: with {everything} {worst} has {self.ratio:.2f} times the error of "
                f"{chosen} ({errors})."
            )
        if self.ratio > _ALIKE:
            n = int(_comparable(self.everything, self.selected).sum())
            shows = (
                f"with {n} environments only more than {self.threshold:.2f} times shows that {them}"
            )
            return (
                f"{everything}: {worst} has {self.ratio:.2f} times the error of {chosen} "
                f"({errors}); {shows}."
            )
        how = "as well as" if self.ratio > 1.0 / _ALIKE else "better than"
        predict = "they predict" if self.n_features > 1 else "it predicts"
        return f"{everything}: {predict} {worst} {how} {chosen} ({errors})."


def _comparable(everything: Floats, selected: Floats) -> Mask:
    """Return environments (E,) with both errors, of which those of the selected features are
    finite."""
    return ~np.isnan(everything) & np.isfinite(selected)


def worst_of(everything: Floats, selected: Floats) -> tuple[float, float]:
    """Return the largest errors of environments that can be compared; NaN if there are none."""
    known = _comparable(everything, selected)
    return (
        (float(everything[known].max()), float(selected[known].max()))
        if known.any()
        else (np.nan, np.nan)
    )


def gate(everything: Floats, selected: Floats, kind: OutcomeKind) -> tuple[float, float]:
    """Return the ratio of the largest errors, all features to selected ones, and its threshold.

    Above the threshold all features have failed. Errors (E,) are from held-out environments.
    """
    of_all, of_chosen = worst_of(everything, selected)
    n = int(_comparable(everything, selected).sum())
    with np.errstate(divide="ignore"):
        ratio = 1.0 if of_all == of_chosen else float(np.divide(of_all, of_chosen))
    return ratio, float(np.exp(max(kind.choice_margin, _FEW / max(n, 1) ** 2)))


def choose(selection: Selection, refits: Refits | None = None) -> Choice:
    """Choose all features, unless held-out environments show that they fail.

    The selection is kept when an environment is held out. refits : of a regressor that predicts in
    place of linear fits.
    """
    data = selection.data
    chosen = selection.data.features.chosen(selection.mask)
    errors = np.full((2, data.n_environments), np.nan)
    reason = ""
    try:
        if not selection.linear and refits is None:
            regression_on_everything(selection.settings.family, rows_for("whole", data))
        if data.n_environments > 1:
            errors = _left_out_errors(selection, chosen, refits)
    except DataError as error:
        # no remedy: the selected ones predict already
        reason = f"{error.args[0].what.removesuffix('.')}."
    if selection.kind.by_least_squares:
        spread = (
            np.sqrt(squared_error(data, -1, (), np.zeros(0), data.pooled_mean[data.outcome]))
            if isinstance(data, Moments)
            else data.y.std()
        )
        errors[errors < _ROUNDING * spread] = 0.0
    everything, selected = errors
    ratio, threshold = gate(everything, selected, selection.kind)
    uses = "selected" if reason or ratio > threshold else "everything"
    used = (
        data.features.n_features
        if refits is not None
        else len(data.features.with_columns(usable_columns(data)))
    )
    about = (
        ratio,
        threshold,
        used,
        chosen.n_features,
        selection.kind,
        reason,
        data.features.n_features - used,
    )
    return Choice(uses, data.environments, everything, selected, *about)


def _left_out_errors(selection: Selection, chosen: Features, refits: Refits | None) -> Floats:
    """Return errors (2, E) of all features and of the selected ones in held-out environments.

    NaN if the other environments alone cannot be fitted.
    """
    data: Any = selection.data
    family = selection.settings.family
    if selection.linear and refits is None and not shrinks(data):
        known = getattr(selection.target.model.at_level(Level.full), "moments", None)
        data = moments_of(data) if known is None else known
    errors = np.full((2, data.n_environments), np.nan)
    for place, label in enumerate(data.environments):
        with suppress(DataError):
            others = without(data, label)
            kept = set(others.features.columns)
            every = others.features.columns
            columns = tuple(name for name in chosen.columns if name in kept)
            if refits is not None:
                y = data.y[data.rows(place)]
                predicted = [refits.predicted(place, used) for used in (every, columns)]
                errors[:, place] = np.sqrt(np.mean((y - predicted) ** 2, axis=1))
                continue
            of_all: Any = (
                line_of_everything(others)
                if selection.linear
                else regression_on_everything(family, others)
            )
            fits = of_all, _fit_on(selection, others, columns, chosen.names)
            errors[:, place] = [_error(fit, data, place) for fit in fits]
            if isinstance(fits[0], Fit) and not selection.kind.by_least_squares:
                errors[:, place] /= _error(
                    regression_on(family, rows_for("whole", others), ()), data, place
                )
    return errors


def _fit_on(selection: Selection, data: Any, columns: Names, names: Names) -> Any:
    """Return the fit of the selected features to other data, with the baselines if these are
    free."""
    level = selection.level
    if selection.linear:
        return (least_squares_line if level is Level.full else random_intercept_line)(data, columns)
    family = selection.settings.family
    if level is Level.full:
        return regression_on(family, data, names)
    mask = as_mask([name for name in data.feature_names if name in names], data.feature_names)
    return family.bind(data).at_level(level).line(mask)


def _error(fit: Any, data: Any, place: int) -> float:
    """RMSE in an environment, or mean deviance"""
    if isinstance(fit, Fit) and not kind_of(fit.specification).by_least_squares:
        return mean_deviance(fit, data, data.rows(place))
    if isinstance(data, Moments):
        return float(
            np.sqrt(squared_error(data, place, fit.columns, fit.coefficients, fit.intercept))
        )
    rows = data.rows(place)
    return float(
        np.sqrt(np.mean((data.y[rows] - fit.predict(columns_of(data, fit.columns)[rows])) ** 2))
    )
