"""Errors of predictions in new environments, estimated by leaving out each environment in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit
from scipy.stats import norm

from .._tools.arrays import Floats
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Rendered, Section, by_environment, shown_first
from .._tools.text import in_quotes, printable
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError
from ..models.base import Predicts
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from .choice import Refits, Selection, build, columns_of_kind
from .everything import without
from .predictor import PredictedOutcome, Predictor, SurvivalPredictor, columns_of, concordance, log_odds, squared_error

if TYPE_CHECKING:
    import pandas as pd

# {what is predicted: names of the figures}
FIGURES: dict[Predicts, tuple[str, ...]] = {
    Predicts.number: ("observed", "predicted", "rmse", "r2"),
    Predicts.probability: ("observed", "predicted", "intercept", "slope", "brier", "log_loss", "auc"),
    Predicts.rate: ("observed", "predicted", "intercept", "slope", "deviance_explained"),
    Predicts.time: ("concordance",),
}
_MOST_STEPS = 100
_ENOUGH = 1e-12
# Cumulant function of outcomes at linear predictors (n,), and its derivatives, mean and variance
_Law = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], Callable[[Floats], Floats]]
_BERNOULLI: _Law = (lambda eta: np.logaddexp(0.0, eta), expit, lambda eta: expit(eta) * expit(-eta))


def figures_of(
    predicts: Predicts, observed: Floats, predicted: Floats, exposure: Floats | None = None, event: Floats | None = None
) -> dict[str, float]:
    """Of outcomes (n,), classes as 0 and 1, and predictions (n,) per unit of exposure (n,); event (n,) of times.
    observed, predicted : means, or totals over the total exposure
    intercept, slope : calibration of log odds or logarithms of rates; 0 and 1 where predictions are right
    rmse, brier, log_loss : means over rows; auc, concordance : share of pairs in the right order
    r2, deviance_explained : share of the scatter around the environment's own mean that predictions explain
    NaN where something is not defined, as with one class only."""
    if predicts is Predicts.number:
        missed = float(np.mean((observed - predicted) ** 2))
        explained = share_explained(missed, float(observed.var()))
        values: tuple[Any, ...] = observed.mean(), predicted.mean(), np.sqrt(missed), explained
    elif predicts is Predicts.probability:
        values = _of_probabilities(observed, predicted)
    elif predicts is Predicts.rate:
        values = _of_rates(observed, predicted, np.ones(len(observed)) if exposure is None else exposure)
    else:
        assert event is not None
        values = (concordance(observed, event, predicted),)
    return dict(zip(FIGURES[predicts], map(float, values), strict=True))


def _of_probabilities(y: Floats, predicted: Floats) -> tuple[Any, ...]:
    from sklearn.metrics import roc_auc_score

    odds, share = log_odds(predicted), float(y.mean())
    log_loss, brier = np.mean(np.logaddexp(0.0, odds) - y * odds), np.mean((y - predicted) ** 2)
    intercept = slope = auc = np.nan
    if 0.0 < share < 1.0:
        events, others, auc = odds[y == 1.0], odds[y == 0.0], roc_auc_score(y, predicted)
        # What makes the mean of the probabilities that of y.
        intercept = float(logit(share)) - odds.max()
        if odds.min() < odds.max():
            ends = intercept, float(logit(share)) - odds.min()
            intercept = brentq(lambda shift: np.mean(expit(odds + shift)) - share, *ends)
        # Where log odds of the classes do not overlap, the best slope is infinite.
        if events.min() < others.max() and others.min() < events.max():
            slope = _slope(y, odds, _BERNOULLI, float(logit(share)))
    return share, predicted.mean(), intercept, slope, brier, log_loss, auc


def _of_rates(y: Floats, rate: Floats, exposure: Floats) -> tuple[Any, ...]:
    from sklearn.metrics import mean_poisson_deviance

    expected, total = rate * exposure, exposure.sum()
    own = y.sum() / total
    if not y.any() or not (rate > 0.0).all():
        return own, expected.sum() / total, np.nan, np.nan, np.nan
    logs, slope = np.log(rate), np.nan
    events = logs[y > 0.0]
    # Else a slope, however large, makes events certain where they are and impossible elsewhere.
    if events.min() < events.max() or logs.min() < events[0] < logs.max():
        law: _Law = (lambda eta: exposure * np.exp(eta),) * 3
        slope = _slope(y, logs, law, float(np.log(own)))
    explained = share_explained(mean_poisson_deviance(y, expected), mean_poisson_deviance(y, exposure * own))
    return own, expected.sum() / total, np.log(y.sum() / expected.sum()), slope, explained


def _slope(y: Floats, predictor: Floats, law: _Law, start: float) -> float:
    """Maximum likelihood slope of y on the predictor (n,), which must exist; start : intercept without a slope."""
    cumulant, mean, variance = law
    scale = predictor.std()
    design = np.column_stack([np.ones(len(y)), (predictor - predictor.mean()) / scale])

    def log_likelihood(theta: Floats) -> float:
        return float(y @ (design @ theta) - cumulant(design @ theta).sum())

    theta = np.array([start, 0.0])
    value = log_likelihood(theta)
    for _ in range(_MOST_STEPS):
        eta = design @ theta
        score = design.T @ (y - mean(eta))
        try:
            step = np.linalg.solve((design * variance(eta)[:, None]).T @ design, score)
        except np.linalg.LinAlgError:
            return np.nan
        if step @ score < _ENOUGH:
            return float(theta[1] / scale)
        while not (new := log_likelihood(theta + step)) >= value and np.abs(step).max() > _ENOUGH:
            step = 0.5 * step
        theta, value = theta + step, new
    return np.nan


def share_explained(missed: float, scatter: float) -> float:
    """NaN where nothing scatters"""
    return 1.0 - missed / scatter if scatter > 0.0 else np.nan


# Quantiles of the errors that are kept of an environment with more rows.
_MOST_KEPT = 1001
# Rounding must not move a share of the environments that is a whole number to the next one.
_ROUNDING = 1e-9

# {environment left out: what was selected without it, as `Selection` has it}
Selected = dict[Hashable, dict[str, Any]]


@dataclass(frozen=True, eq=False)
class EnvironmentErrors:
    """Errors in one environment of what was chosen and fitted without it.

    features : that predict; unseen : columns that are constant without this environment
    absolute_errors : (m,) sorted, or equally spaced quantiles of them; None where only second moments are known, or the
        outcome has no intervals
    rows : of the environment; figures : those of `FIGURES`
    """

    environment: Hashable
    features: tuple[str, ...]
    absolute_errors: Floats | None
    unseen: tuple[str, ...] = ()
    rows: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)

    def quantile(self, coverage: float) -> float:
        """Of the absolute errors; of a normal distribution without rows."""
        if self.absolute_errors is None:
            return float(norm.ppf(0.5 + 0.5 * coverage)) * self.figures["rmse"]
        return float(np.quantile(self.absolute_errors, coverage))


_MAY_MISS = "intervals may not cover how new environments differ."


def few_environments(n: int) -> str:
    """Why intervals cannot be trusted after a fit to n environments; empty where there are enough."""
    if n > 2:
        return ""
    why = "of two training environments each is predicted from the other alone, which cannot tell how they differ"
    if n == 1:
        why = "one training environment says nothing about others"
    return f"{why}: intervals and errors for a new environment cannot be trusted."


_HEADS = {"r2": "R²", "brier": "Brier", "auc": "AUC", "deviance_explained": "explained"}
_BY = {
    "everything": "all features, fitted without it",
    "selected": "the features selected and fitted without it",
    "average": "an average of the subsets that are compatible without it, fitted without it",
    "constant": "a constant, fitted without it",
}
_SCALES = {Predicts.probability: "log odds", Predicts.rate: "logarithms of rates"}


@dataclass(frozen=True, eq=False, repr=False)
class NewEnvironments(Rendered):
    """How predictions did in environments that were left out, each in turn; `figures_of` explains the figures.

    left_out : none where there is one environment; impossible : those without which nothing could be fitted; by : what
    predicts, as in `Predictions`
    """

    outcome: PredictedOutcome
    left_out: tuple[EnvironmentErrors, ...]
    impossible: tuple[Hashable, ...] = ()
    by: str = "selected"

    def half_width(self, coverage: float) -> float:
        """The ⌈coverage · (E + 1)⌉-th smallest of the environments' quantiles, at most the largest; 0 without any."""
        if not self.left_out:
            return 0.0
        quantiles = sorted(errors.quantile(coverage) for errors in self.left_out)
        rank = int(np.ceil(coverage * (len(quantiles) + 1) - _ROUNDING))
        return quantiles[min(max(rank, 1), len(quantiles)) - 1]

    @property
    def n_environments(self) -> int:
        return max(len(self.left_out) + len(self.impossible), 1)

    def limit(self, used: Collection[str] = ()) -> str:
        """What limits intervals of predictions from the columns `used`; empty where nothing does."""
        if few := few_environments(self.n_environments):
            return few
        if self.impossible:
            who = f"{len(self.impossible)} of {self.n_environments} environments ({quoted(self.impossible, 4)})"
            return f"{who} could not be left out, because the others alone cannot be fitted as asked: {_MAY_MISS}"
        alone = {left.environment: [name for name in left.unseen if name in used] for left in self.left_out}
        told = [f"{quoted(names, 4)} without {in_quotes(label)}" for label, names in alone.items() if names]
        return f"columns are constant without one environment ({'; '.join(told[:4])}): {_MAY_MISS}" if told else ""

    def to_frame(self) -> pd.DataFrame:
        """One row for each environment that was left out: its label, rows, figures, and what was selected then."""
        import pandas as pd

        rows = [{**vars(left), **left.figures} for left in self.left_out]
        return pd.DataFrame(rows, columns=["environment", "rows", *FIGURES[self.outcome.predicts], "features"])

    @property
    def sections(self) -> tuple[Section]:
        names = [name for name in FIGURES[self.outcome.predicts] if name != "log_loss"]  # for which there is no room
        usual = "z.4g" if self.outcome.predicts is Predicts.number else "z.3f"

        def shown(name: str, value: float) -> str:
            return "–" if np.isnan(value) else format(value, "+z.3f" if name == "intercept" else usual)

        places, notes = shown_first([-abs(left.figures.get("rmse", left.rows)) for left in self.left_out])
        chosen = [self.left_out[place] for place in places]
        rows = [(f"{left.rows:,}", *(shown(name, left.figures[name]) for name in names)) for left in chosen]
        head = ("rows", *(_HEADS.get(name, name) for name in names))
        table = by_environment(head, [left.environment for left in chosen], rows) if rows else ()
        title = f"New environments: {printable(self.outcome.in_words)}"
        return (Section(title, tuple(self._sentences()), table=table, notes=notes),)

    def _sentences(self) -> Iterator[str]:
        limit = self.limit()
        if limit:
            yield f"{limit[:1].upper()}{limit[1:]}"
        if not self.left_out:
            return
        yield f"Each environment is predicted by {_BY[self.by]}."
        known = [left for left in self.left_out if not np.isnan(left.figures.get("predicted", np.nan))]
        if known:
            worst = max(known, key=lambda left: abs(left.figures["observed"] - left.figures["predicted"]))
            told = f"{worst.figures['observed']:.3g} observed, {worst.figures['predicted']:.3g} predicted"
            yield f"The mean is farthest off in {in_quotes(worst.environment)}: {told}."
        scale = _SCALES.get(self.outcome.predicts)
        if scale is not None:
            yield (
                f"Intercept: what is missing in all {scale} (0 where predictions are right on average). Slope: by what "
                f"{scale} are to be multiplied (1 where they are right, less where predictions are too extreme)."
            )


def cross_validate(
    whole: Selection,
    outcome: PredictedOutcome,
    kinds: Sequence[str],
    progress: ProgressMode,
    refits: Refits | None,
    selected: Selected,
) -> dict[str, NewEnvironments]:
    """Of each of the kinds that `build` takes. Repeats the selection without each environment, with the random numbers
    of the fit, where a kind needs it and it is not among those `selected`, which it joins; refits: of a regressor."""
    data = whole.data
    if data.n_environments == 1:
        return {kind: NewEnvironments(outcome, (), by=kind) for kind in kinds}
    found: list[list[EnvironmentErrors | None]] = []
    with ProgressBar("leaving out environments", data.n_environments, progress) as bar:
        for label in data.environments:
            found.append(_without(label, whole, outcome.predicts, kinds, refits, selected))
            bar.advance()
    each = {}
    for kind, *errors in zip(kinds, *found, strict=True):
        impossible = tuple(label for label, own in zip(data.environments, errors, strict=True) if own is None)
        each[kind] = NewEnvironments(outcome, tuple(own for own in errors if own is not None), impossible, kind)
    return each


def _without(
    label: Hashable,
    whole: Selection,
    predicts: Predicts,
    kinds: Sequence[str],
    refits: Refits | None,
    selected: Selected,
) -> list[EnvironmentErrors | None]:
    """For each kind, None where it cannot be fitted without this environment"""
    data, place = whole.data, whole.data.environments.index(label)
    predictors: list[Predictor | tuple[str, ...] | None] = [None] * len(kinds)
    with warnings.catch_warnings():
        # The fit to all environments has warned already.
        warnings.simplefilter("ignore")
        try:
            selection = Selection(whole.settings, without(data, label))
        except DataError:
            return [None] * len(kinds)
        vars(selection).update(selected.get(label, {}))
        for k, kind in enumerate(kinds):
            with suppress(DataError, EngineError):
                predictors[k] = build(kind, selection) if refits is None else columns_of_kind(kind, selection)
        if "findings" in vars(selection):
            selected[label] = {"mask": selection.mask, "averaged": selection.averaged}
    features = selection.data.features
    unseen = tuple(name for name in data.features.columns if name not in set(features.columns))
    found: list[EnvironmentErrors | None] = []
    for predictor in predictors:
        if predictor is None:
            found.append(None)
            continue
        columns = predictor if isinstance(predictor, tuple) else predictor.design.columns
        if isinstance(predictor, tuple):
            assert refits is not None
            absolute, figures = _errors_of_rows(refits.data, place, refits.predicted(place, columns), predicts)
        elif isinstance(data, Moments):
            absolute, figures = _errors_of_moments(data, place, predictor)
        else:
            X = columns_of(data, columns)[data.rows(place)]
            mean = predictor.order(X) if isinstance(predictor, SurvivalPredictor) else predictor.predict(X)
            absolute, figures = _errors_of_rows(data, place, mean, predicts)
        used = features.with_columns(columns)
        found.append(EnvironmentErrors(label, used, absolute, unseen, int(data.counts[place]), figures))
    return found


def _errors_of_rows(
    data: MultiEnvironmentData, place: int, mean: Floats, predicts: Predicts
) -> tuple[Floats | None, dict[str, float]]:
    """Absolute errors of numbers, and figures, of predicted means (n_e,) of the rows of an environment."""
    rows = data.rows(place)
    outcome_columns = {role: values[rows] for role, values in data.outcome_columns.items()}
    figures = figures_of(predicts, data.y[rows], mean, **outcome_columns)
    return _kept(np.abs(data.y[rows] - mean)) if predicts is Predicts.number else None, figures


def _errors_of_moments(moments: Moments, place: int, predictor: Any) -> tuple[Floats | None, dict[str, float]]:
    """Of a line: figures of all rows, and absolute errors of the rows that a second pass kept, None without one."""
    columns, (coefficients, intercept) = predictor.design.columns, predictor.line
    at, y, means = [moments.columns.index(name) for name in columns], moments.outcome, moments.means[place]
    missed = squared_error(moments, place, columns, coefficients, intercept)
    variance = float(moments.scatter[place, y, y]) / float(moments.counts[place])
    values = means[y], means[at] @ coefficients + intercept, np.sqrt(missed), share_explained(missed, variance)
    figures = dict(zip(FIGURES[Predicts.number], map(float, values), strict=True))
    sample = sampled_data(moments, columns)
    if sample is None:
        return None, figures
    return _kept(np.abs(sample.y - predictor.predict(columns_of(sample, columns)))[sample.rows(place)]), figures


def _kept(errors: Floats) -> Floats:
    return np.sort(errors) if len(errors) <= _MOST_KEPT else np.quantile(errors, np.linspace(0.0, 1.0, _MOST_KEPT))
