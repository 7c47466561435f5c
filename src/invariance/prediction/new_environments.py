"""Errors of predictions in new environments, estimated by leaving out each environment in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, logit, xlogy
from scipy.stats import binomtest, norm, rankdata
from scipy.stats import t as student

from .._tools.arrays import Floats
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Rendered, Section, by_environment, shown_first
from .._tools.text import in_quotes, printable
from .._tools.time_limit import out_of_time
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError
from ..models.base import Predicts
from ..moments.moments import Moments
from ..moments.second_pass import sampled_data
from .choice import Refits, Selection, build, columns_of_kind
from .everything import without
from .predictor import (
    PredictedOutcome,
    Predictor,
    SurvivalPredictor,
    columns_of,
    concordant_pairs,
    log_odds,
    squared_error,
)

if TYPE_CHECKING:
    import pandas as pd


class Kind(NamedTuple):
    """figures : names; measure : the one that tells how well; scale : on which predictions are calibrated; mean : what
    that of a group of rows is"""

    figures: tuple[str, ...]
    measure: str
    scale: str
    mean: str


_ALL = "observed", "predicted", "intercept", "slope"
KINDS = {
    Predicts.number: Kind((*_ALL, "rmse", "r2"), "rmse", "predictions", "mean"),
    Predicts.probability: Kind((*_ALL, "brier", "log_loss", "auc"), "auc", "log odds", "probability"),
    Predicts.rate: Kind((*_ALL, "deviance_explained"), "deviance_explained", "logarithms of rates", "rate"),
    Predicts.time: Kind((*_ALL, "concordance"), "concordance", "logarithms of hazards", "share of rows with the event"),
}
COVERAGE = 0.95
_MOST_STEPS = 100
_ENOUGH = 1e-12
_MOST_GROUPS, _ROWS_PER_GROUP = 5, 20
# The largest mean of a Poisson law by which none occur with probability 2.5%
_MOST_OF_NONE = -float(np.log(0.5 - 0.5 * COVERAGE))
# Cumulant function of outcomes at linear predictors (n,), and its derivatives, mean and variance
_Law = tuple[Callable[[Floats], Floats], Callable[[Floats], Floats], Callable[[Floats], Floats]]
_BERNOULLI: _Law = (lambda eta: np.logaddexp(0.0, eta), expit, lambda eta: expit(eta) * expit(-eta))


class Figure(NamedTuple):
    """An estimate with a 95% interval, NaN where there is none"""

    value: float
    low: float = np.nan
    high: float = np.nan


def _around(value: float, error: float, freedom: float = np.inf) -> Figure:
    margin = float(student.ppf(0.5 + 0.5 * COVERAGE, freedom)) * error if freedom > 0.0 else np.nan
    return Figure(float(value), float(value - margin), float(value + margin))


def _share(value: float, error: float) -> Figure:
    """Between 0 and 1: symmetric in log odds; no interval at the ends, where the error is not known."""
    if not 0.0 < value < 1.0 or not error > 0.0:
        return Figure(value)
    _, *ends = _around(float(logit(value)), error / (value * (1.0 - value)))
    return Figure(value, *(float(expit(end)) for end in ends))


def figures_of(
    predicts: Predicts, observed: Floats, predicted: Floats, exposure: Floats | None = None, event: Floats | None = None
) -> dict[str, float]:
    """Of outcomes (n,), classes as 0 and 1, and predictions (n,) per unit of exposure (n,); event (n,) of times.
    observed, predicted : means, or totals over the total exposure; of times the events per row, and those expected
    intercept, slope : calibration of numbers, log odds or logarithms of rates; 0 and 1 where predictions are right
    rmse, brier, log_loss : means over rows; auc, concordance : share of pairs in the right order
    r2, deviance_explained : share of the scatter around the environment's own mean that predictions explain
    NaN where something is not defined, as with one class only."""
    return {name: each.value for name, each in measured(predicts, observed, predicted, exposure, event).items()}


def measured(
    predicts: Predicts,
    observed: Floats,
    predicted: Floats,
    exposure: Floats | None = None,
    event: Floats | None = None,
    hazard: tuple[Floats, Floats, Floats] | None = None,
) -> dict[str, Figure]:
    """Figures with intervals, by standard errors that hold whatever the distribution of the rows (sandwich, DeLong).
    hazard : of times, as `_cumulative_hazards` has it"""
    if predicts is Predicts.number:
        values: tuple[Figure, ...] = _of_numbers(observed, predicted)
    elif predicts is Predicts.probability:
        values = _of_probabilities(observed, predicted)
    elif predicts is Predicts.rate:
        values = _of_rates(observed, predicted, np.ones(len(observed)) if exposure is None else exposure)
    else:
        assert event is not None
        calibration = (Figure(np.nan),) * 4
        if hazard is not None:
            risk, time, seen = hazard
            _, _, intercept, slope, _ = _of_rates(seen, risk, time)
            calibration = Figure(seen.mean()), Figure(float(np.mean(risk * time))), intercept, slope
        values = *calibration, _concordance(observed, event, predicted)
    return dict(zip(KINDS[predicts].figures, values, strict=True))


def _of_numbers(y: Floats, predicted: Floats) -> tuple[Figure, ...]:
    errors, n = y - predicted, len(y)
    missed, about = float(np.mean(errors**2)), predicted - predicted.mean()
    scatter = float(about @ about)
    intercept = _around(errors.mean(), float(errors.std(ddof=1)) / np.sqrt(n), n - 1.0) if n > 1 else Figure(np.nan)
    slope = Figure(np.nan)
    if scatter > (1e-12 * float(np.abs(predicted).max())) ** 2 * n:
        value = float(about @ y) / scatter
        left = y - y.mean() - value * about
        slope = _around(value, float(np.sqrt((about**2) @ left**2 * n / max(n - 2, 1))) / scatter, n - 2.0)
    relative = float(np.std(errors**2, ddof=1)) / (2.0 * missed * np.sqrt(n)) if missed and n > 2 else np.nan
    rmse, means = _ratio(float(np.sqrt(missed)), relative, n - 1.0), (Figure(y.mean()), Figure(predicted.mean()))
    return *means, intercept, slope, rmse, _explained(errors**2, (y - y.mean()) ** 2)


def _ratio(value: float, relative: float, freedom: float = np.inf) -> Figure:
    """Above 0: symmetric in logarithms."""
    _, *ends = _around(0.0, relative, freedom)
    return Figure(value, *(value * float(np.exp(end)) for end in ends))


def _of_probabilities(y: Floats, predicted: Floats) -> tuple[Figure, ...]:
    odds, share = log_odds(predicted), float(y.mean())
    log_loss, brier = np.mean(np.logaddexp(0.0, odds) - y * odds), np.mean((y - predicted) ** 2)
    intercept = slope = auc = Figure(np.nan)
    if 0.0 < share < 1.0:
        events, others = odds[y == 1.0], odds[y == 0.0]
        # What makes the mean of the probabilities that of y.
        shift = float(logit(share)) - odds.max()
        if odds.min() < odds.max():
            ends = shift, float(logit(share)) - odds.min()
            shift = brentq(lambda shift: np.mean(expit(odds + shift)) - share, *ends)
        own = expit(odds + shift)
        intercept = _around(shift, float(np.sqrt(np.sum((y - own) ** 2)) / np.sum(own * (1.0 - own))))
        # Where log odds of the classes do not overlap, the best slope is infinite.
        if events.min() < others.max() and others.min() < events.max():
            slope = _slope(y, odds, _BERNOULLI, float(logit(share)))
        auc = _auc(events, others)
    means = Figure(share), Figure(float(predicted.mean()))
    return *means, intercept, slope, Figure(float(brier)), Figure(float(log_loss)), auc


def _auc(events: Floats, others: Floats) -> Figure:
    """By the midranks of the scores of both classes; the interval by DeLong's variance."""
    (m, n), ranks = (len(events), len(others)), rankdata(np.concatenate([events, others]))
    above = (ranks[:m] - rankdata(events)) / n
    below = 1.0 - (ranks[m:] - rankdata(others)) / m
    variance = above.var(ddof=1) / m + below.var(ddof=1) / n if min(m, n) > 1 else np.nan
    return _share(float(above.mean()), float(np.sqrt(variance)))


def _concordance(times: Floats, event: Floats, predicted: Floats) -> Figure:
    """With an interval by what each row contributes to the pairs (infinitesimal jackknife)."""
    right, pairs = concordant_pairs(times, event, predicted)
    if not pairs.any():
        return Figure(np.nan)
    value = float(right.sum() / pairs.sum())
    return _share(value, 2.0 * float(np.sqrt(np.sum((right - value * pairs) ** 2))) / float(pairs.sum()))


def _of_rates(y: Floats, rate: Floats, exposure: Floats) -> tuple[Figure, ...]:
    expected, total = rate * exposure, exposure.sum()
    own = y.sum() / total
    means = Figure(own), Figure(expected.sum() / total)
    if not y.any() or not (expected > 0.0).all():
        return *means, *(Figure(np.nan),) * 3
    logs, slope, times = np.log(rate), Figure(np.nan), y.sum() / expected.sum()
    intercept = _around(np.log(times), float(np.sqrt(np.sum((y - times * expected) ** 2)) / y.sum()))
    events = logs[y > 0.0]
    # Else a slope, however large, makes events certain where they are and impossible elsewhere.
    if events.min() < events.max() or logs.min() < events[0] < logs.max():
        law: _Law = (lambda eta: exposure * np.exp(eta),) * 3
        slope = _slope(y, logs, law, float(np.log(own)))
    missed, scatter = (xlogy(y, y / mean) - y + mean for mean in (expected, exposure * own))
    return *means, intercept, slope, _explained(missed, scatter)


def _slope(y: Floats, predictor: Floats, law: _Law, start: float) -> Figure:
    """Maximum likelihood slope of y on the predictor (n,), which must exist, with its sandwich standard error;
    start : intercept without a slope."""
    cumulant, mean, variance = law
    scale = predictor.std()
    design = np.column_stack([np.ones(len(y)), (predictor - predictor.mean()) / scale])

    def log_likelihood(theta: Floats) -> float:
        return float(y @ (design @ theta) - cumulant(design @ theta).sum())

    theta = np.array([start, 0.0])
    value = log_likelihood(theta)
    for _ in range(_MOST_STEPS):
        eta = design @ theta
        scores = design * (y - mean(eta))[:, None]
        try:
            steps = np.linalg.solve((design * variance(eta)[:, None]).T @ design, scores.T)
        except np.linalg.LinAlgError:
            return Figure(np.nan)
        step, score = steps.sum(axis=1), scores.sum(axis=0)
        if step @ score < _ENOUGH:
            return _around(theta[1] / scale, float(np.sqrt(np.sum(steps[1] ** 2)) / scale))
        while not (new := log_likelihood(theta + step)) >= value and np.abs(step).max() > _ENOUGH:
            step = 0.5 * step
        theta, value = theta + step, new
    return Figure(np.nan)


def calibration_groups(
    predicts: Predicts, observed: Floats, predicted: Floats, exposure: Floats | None, by: Floats
) -> Floats:
    """(k, 5) of up to five groups of rows with similar predictions `by` (n,): predicted and observed mean, or totals
    over the exposure, the ends of a 95% interval of the latter, and rows."""
    n_groups = int(np.clip(len(by) // _ROWS_PER_GROUP, 1, _MOST_GROUPS))
    ends = np.unique(np.quantile(by, np.linspace(0.0, 1.0, n_groups + 1)[1:-1]))
    group, weights, found = np.searchsorted(ends, by, side="right"), exposure, []
    for k in np.unique(group):
        rows = group == k
        n, weight = int(rows.sum()), np.ones(int(rows.sum())) if weights is None else weights[rows]
        mean = float(observed[rows].sum() / weight.sum())
        if predicts in (Predicts.probability, Predicts.time):
            interval = binomtest(round(observed[rows].sum()), n).proportion_ci(COVERAGE, method="wilson")
            low, high = interval.low, interval.high
        else:
            left = float(np.sum((observed[rows] - mean * weight) ** 2)) * n / max(n - 1, 1)
            _, low, high = _around(mean, float(np.sqrt(left)) / float(weight.sum()), n - 1.0)
            if predicts is Predicts.rate:
                low, high = (max(low, 0.0), high) if mean else (0.0, _MOST_OF_NONE / float(weight.sum()))
        found.append((float((predicted[rows] * weight).sum() / weight.sum()), mean, low, high, n))
    return np.array(found)


def _explained(missed: Floats, scatter: Floats) -> Figure:
    """From the errors (n,) of rows, and from those around the environment's own mean, where these are smallest."""
    value = share_explained(float(missed.sum()), float(scatter.sum()))
    error = np.sqrt(np.sum((missed - (1.0 - value) * scatter) ** 2)) / scatter.sum() if np.isfinite(value) else np.nan
    _, low, high = _around(value, float(error))
    return Figure(value, low, float(np.minimum(high, 1.0)))


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
    rows : of the environment; figures : those of `KINDS`; intervals : {name: 95% interval} of those that have one
    events : how often the second class, the event or what is counted occurred, None of numbers
    calibration : (k, 5) of `calibration_groups`, None where only second moments are known
    """

    environment: Hashable
    features: tuple[str, ...]
    absolute_errors: Floats | None
    unseen: tuple[str, ...] = ()
    rows: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    events: int | None = None
    calibration: Floats | None = None

    def quantile(self, coverage: float) -> float:
        """Of the absolute errors; of a normal distribution without rows."""
        if self.absolute_errors is None:
            return float(norm.ppf(0.5 + 0.5 * coverage)) * self.figures["rmse"]
        return float(np.quantile(self.absolute_errors, coverage))


OUT_OF_TIME = "no environment was left out, because the limit on the time of the fit had passed"
_LEAVING_OUT = "errors without each environment"  # as a limit on the time lists it
_MAY_MISS = "intervals may not cover how new environments differ."


def few_environments(n: int) -> str:
    """Why intervals cannot be trusted after a fit to n environments; empty where there are enough."""
    if n > 2:
        return ""
    why = "of two training environments each is predicted from the other alone, which cannot tell how they differ"
    if n == 1:
        why = "one training environment says nothing about others"
    return f"{why}: intervals and errors for a new environment cannot be trusted."


_HEADS = {"r2": "R²", "rmse": "RMSE", "brier": "Brier", "auc": "AUC", "deviance_explained": "explained"}
_BY = {
    "everything": "all features",
    "selected": "the features selected without it",
    "average": "an average of the subsets that are compatible without it",
    "constant": "a constant",
}


@dataclass(frozen=True, eq=False, repr=False)
class NewEnvironments(Rendered):
    """How predictions did in environments that were left out, each in turn; `figures_of` explains the figures.

    left_out : none where there is one environment; impossible : those without which nothing could be fitted; by : what
    predicts, as in `Predictions`; not_left_out : as many as a limit on the time kept from being left out, all or none
    """

    outcome: PredictedOutcome
    left_out: tuple[EnvironmentErrors, ...]
    impossible: tuple[Hashable, ...] = ()
    by: str = "selected"
    not_left_out: int = 0

    def half_width(self, coverage: float) -> float:
        """The ⌈coverage · (E + 1)⌉-th smallest of the environments' quantiles, at most the largest; 0 without any."""
        self.outcome.check_intervals()
        if not self.left_out:
            return 0.0
        quantiles = sorted(errors.quantile(coverage) for errors in self.left_out)
        rank = int(np.ceil(coverage * (len(quantiles) + 1) - _ROUNDING))
        return quantiles[min(max(rank, 1), len(quantiles)) - 1]

    @property
    def n_environments(self) -> int:
        return max(len(self.left_out) + len(self.impossible) + self.not_left_out, 1)

    @property
    def why_none(self) -> str:
        """Why no environment was left out, of several."""
        if self.not_left_out:
            return f"{OUT_OF_TIME[:1].upper()}{OUT_OF_TIME[1:]}."
        return "No environment could be left out: the others alone cannot be fitted."

    def limit(self, used: Collection[str] = ()) -> str:
        """What limits intervals of predictions from the columns `used`; empty where nothing does."""
        if few := few_environments(self.n_environments):
            return few
        if self.not_left_out:
            return f"{OUT_OF_TIME}: {_MAY_MISS}"
        if self.impossible:
            who = f"{len(self.impossible)} of {self.n_environments} environments ({quoted(self.impossible, 4)})"
            return f"{who} could not be left out, because the others alone cannot be fitted as asked: {_MAY_MISS}"
        alone = {left.environment: [name for name in left.unseen if name in used] for left in self.left_out}
        told = [f"{quoted(names, 4)} without {in_quotes(label)}" for label, names in alone.items() if names]
        return f"columns are constant without one environment ({'; '.join(told[:4])}): {_MAY_MISS}" if told else ""

    def to_frame(self) -> pd.DataFrame:
        """One row for each environment that was left out: its label, rows, events, figures, the ends of those that have
        intervals (`slope_lower`, `slope_upper`), and what was selected then."""
        import pandas as pd

        names = "intercept", "slope", self.kind.measure
        ends = {f"{name}_{end}": (name, k) for name in names for k, end in enumerate(("lower", "upper"))}
        rows = [
            {**vars(left), **left.figures}
            | {column: left.intervals[name][k] for column, (name, k) in ends.items() if name in left.intervals}
            for left in self.left_out
        ]
        return pd.DataFrame(rows, columns=["environment", "rows", "events", *self.kind.figures, *ends, "features"])

    @property
    def kind(self) -> Kind:
        return KINDS[self.outcome.predicts]

    @staticmethod
    def head_of(name: str) -> str:
        """Of a figure, over a column or a panel."""
        return _HEADS.get(name, name)

    @property
    def told(self) -> str:
        """What is predicted, and by what."""
        return f"{printable(self.outcome.in_words)}, by {self.by_in_words}, fitted without it"

    @property
    def by_in_words(self) -> str:
        """What predicts an environment, chosen without it."""
        return _BY[self.by]

    @property
    def of_shares(self) -> bool:
        """Whether rows have an event or none."""
        return self.outcome.predicts in (Predicts.probability, Predicts.time)

    def on_average(self, name: str) -> float:
        """The mean of a figure over the environments that have it, each counting once; NaN where none has."""
        known = [left.figures[name] for left in self.left_out if np.isfinite(left.figures[name])]
        return float(np.mean(known)) if known else np.nan

    @property
    def sections(self) -> tuple[Section]:
        names = [name for name in self.kind.figures if name != "log_loss"]  # for which there is no room
        usual = "z.4g" if self.outcome.predicts is Predicts.number else "z.3f"

        def shown(name: str, value: float) -> str:
            return "–" if np.isnan(value) else format(value, "+z.3f" if name == "intercept" else usual)

        places, notes = shown_first([-abs(left.figures.get("rmse", left.rows)) for left in self.left_out])
        chosen = [self.left_out[place] for place in places]
        rows = [(f"{left.rows:,}", *(shown(name, left.figures[name]) for name in names)) for left in chosen]
        head = ("rows", *map(self.head_of, names))
        table = by_environment(head, [left.environment for left in chosen], rows) if rows else ()
        title = f"New environments: {printable(self.outcome.in_words)}"
        return (Section(title, tuple(self._sentences()), table=table, notes=notes),)

    def _sentences(self) -> Iterator[str]:
        limit = self.limit()
        if limit:
            yield f"{limit[:1].upper()}{limit[1:]}"
        if not self.left_out:
            return
        yield f"Each environment is predicted by {self.by_in_words}, fitted without it."
        known = [left for left in self.left_out if not np.isnan(left.figures.get("predicted", np.nan))]
        if known:
            worst = max(known, key=lambda left: abs(left.figures["observed"] - left.figures["predicted"]))
            told = f"{worst.figures['observed']:.3g} observed, {worst.figures['predicted']:.3g} predicted"
            mean = "mean" if self.outcome.predicts is Predicts.probability else self.kind.mean
            yield f"The {mean} is farthest off in {in_quotes(worst.environment)}: {told}."
        scale = self.kind.scale
        yield (
            f"Intercept: calibration-in-the-large of {scale} (ideal 0). Slope: calibration slope (ideal 1; below 1: "
            "predictions too extreme)."
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
    of the fit, where a kind needs it and it is not among those `selected`, which it joins; refits: of a regressor. Once
    a limit on the time has passed, which also cuts searches of selections short, none counts as left out."""
    data = whole.data
    if data.n_environments == 1:
        return {kind: NewEnvironments(outcome, (), by=kind) for kind in kinds}
    found: list[list[EnvironmentErrors | None]] = []
    with ProgressBar("leaving out environments", data.n_environments, progress) as bar:
        for label in data.environments:
            if out_of_time(_LEAVING_OUT):
                break
            found.append(_without(label, whole, outcome.predicts, kinds, refits, selected))
            bar.advance()
    if out_of_time(_LEAVING_OUT):
        selected.clear()
        return {kind: NewEnvironments(outcome, (), by=kind, not_left_out=data.n_environments) for kind in kinds}
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
            selected[label] = {name: getattr(selection, name) for name in ("mask", "averaged", "level")}
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
            errors = _errors_of_rows(refits.data, place, refits.predicted(place, columns), predicts)
        elif isinstance(data, Moments):
            errors = _errors_of_moments(data, place, predictor)
        else:
            X, hazard = columns_of(data, columns)[data.rows(place)], None
            if isinstance(predictor, SurvivalPredictor):
                assert data.event is not None
                hazard = _cumulative_hazards(predictor, X, data.y[data.rows(place)], data.event[data.rows(place)])
            mean = predictor.order(X) if isinstance(predictor, SurvivalPredictor) else predictor.predict(X)
            errors = _errors_of_rows(data, place, mean, predicts, hazard)
        used = features.with_columns(columns)
        found.append(EnvironmentErrors(label, used, unseen=unseen, rows=int(data.counts[place]), **errors))
    return found


def _cumulative_hazards(
    predictor: SurvivalPredictor, X: Floats, times: Floats, event: Floats
) -> tuple[Floats, Floats, Floats]:
    """(n,) by the end, beyond which nothing is predicted; by `times` (n,) as a share of that; and whether the event had
    occurred by the end. Infinite hazards count as large."""

    def by(when: Floats) -> Floats:
        return -np.log(np.maximum(predictor.survival(X, when[:, None])[:, 0], np.finfo(float).tiny))

    whole = by(np.full(len(X), predictor.end))
    return whole, by(np.minimum(times, predictor.end)) / whole, np.where(times <= predictor.end, event, 0.0)


def _errors_of_rows(
    data: MultiEnvironmentData,
    place: int,
    mean: Floats,
    predicts: Predicts,
    hazard: tuple[Floats, Floats, Floats] | None = None,
) -> dict[str, Any]:
    """Fields of EnvironmentErrors, of predicted means (n_e,) of the rows of an environment; hazard : of `measured`"""
    rows = data.rows(place)
    y, outcome_columns = data.y[rows], {role: values[rows] for role, values in data.outcome_columns.items()}
    found = measured(predicts, y, mean, **outcome_columns, hazard=hazard)
    fields: dict[str, Any] = {"absolute_errors": None, **_plain(found)}
    if predicts is Predicts.number:
        return fields | {
            "absolute_errors": _kept(np.abs(y - mean)),
            "calibration": calibration_groups(predicts, y, mean, None, mean),
        }
    count = outcome_columns.get("event", y)
    seen, expected, by = (count, mean, mean) if hazard is None else (hazard[2], hazard[0] * hazard[1], hazard[0])
    groups = calibration_groups(predicts, seen, expected, outcome_columns.get("exposure"), by)
    return fields | {"events": round(float(count.sum())), "calibration": groups}


def _plain(found: Mapping[str, Figure]) -> dict[str, Any]:
    intervals = {name: each[1:] for name, each in found.items() if np.isfinite(each.low)}
    return {"figures": {name: float(each.value) for name, each in found.items()}, "intervals": intervals}


def _errors_of_moments(moments: Moments, place: int, predictor: Any) -> dict[str, Any]:
    """Fields of EnvironmentErrors, of a line: figures of all rows, their intervals as if errors were normal, and
    absolute errors and groups of the rows that a second pass kept, None without one."""
    columns, (coefficients, intercept) = predictor.design.columns, predictor.line
    at, y, means = [moments.columns.index(name) for name in columns], moments.outcome, moments.means[place]
    n, scatter = float(moments.counts[place]), moments.scatter[place]
    missed = squared_error(moments, place, columns, coefficients, intercept)
    total, covered = float(scatter[y, y]), float(coefficients @ scatter[at, y])
    spread = float(coefficients @ scatter[np.ix_(at, at)] @ coefficients)
    predicted = float(means[at] @ coefficients + intercept)
    errors = max(total - 2.0 * covered + spread, 0.0) / max(n - 1.0, 1.0)  # variance around their mean
    slope = Figure(np.nan)
    if spread > 1e-12 * total:
        left = max(total - covered**2 / spread, 0.0) / max(n - 2.0, 1.0)
        slope = _around(covered / spread, float(np.sqrt(left / spread)), n - 2.0)
    values = (
        *(Figure(float(means[y])), Figure(predicted), _around(means[y] - predicted, np.sqrt(errors / n), n - 1.0)),
        *(slope, _ratio(float(np.sqrt(missed)), np.sqrt(0.5 / n)), Figure(share_explained(missed, total / n))),
    )
    found = _plain(dict(zip(KINDS[Predicts.number].figures, values, strict=True)))
    sample = sampled_data(moments, columns)
    if sample is None:
        return {"absolute_errors": None, **found}
    rows = sample.rows(place)
    observed, mean = sample.y[rows], predictor.predict(columns_of(sample, columns))[rows]
    groups = calibration_groups(Predicts.number, observed, mean, None, mean)
    return {"absolute_errors": _kept(np.abs(observed - mean)), "calibration": groups, **found}


def _kept(errors: Floats) -> Floats:
    return np.sort(errors) if len(errors) <= _MOST_KEPT else np.quantile(errors, np.linspace(0.0, 1.0, _MOST_KEPT))
