"""Errors of predictions in new environments, estimated by holding out each environment in turn."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import norm

from .._tools.arrays import Fields, Floats, Labels, Names
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.sections import Rendered, Section, by_environment, shown_first
from .._tools.text import in_quotes, printable
from .._tools.time_limit import out_of_time
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, EngineError
from ..kinds import OutcomeKind
from ..kinds.figures import Figure, around, ratio, share_explained
from ..moments.moments import Moments
from .all_features import without
from .model_choice import Refits, Selection, build, columns_of_kind
from .pooled_performance import PooledPerformance, pooled_performance
from .predictor import (
    PredictedOutcome,
    SurvivalPredictor,
    columns_of,
    squared_error,
)

if TYPE_CHECKING:
    import pandas as pd


_MOST_GROUPS = 5
_ROWS_PER_GROUP = 20


def calibration_groups(
    kind: OutcomeKind, observed: Floats, predicted: Floats, exposure: Floats | None, by: Floats
) -> Floats:
    """Return the calibration (k, 5) of up to five groups of rows with similar predictions `by`
    (n,).

    Columns are predicted and observed mean (or totals over the exposure), the ends of a 95%
    interval of the observed mean, and rows.
    """
    n_groups = int(np.clip(len(by) // _ROWS_PER_GROUP, 1, _MOST_GROUPS))
    ends = np.unique(np.quantile(by, np.linspace(0.0, 1.0, n_groups + 1)[1:-1]))
    group = np.searchsorted(ends, by, side="right")
    weights = np.ones(len(by)) if exposure is None else exposure
    found = []
    for rows in (group == k for k in np.unique(group)):
        mean = np.average(predicted[rows], weights=weights[rows])
        interval = kind.interval_of_mean(observed[rows], weights[rows])
        found.append((mean, *interval, rows.sum()))
    return np.array(found)


# Quantiles of the errors that are kept of an environment with more rows.
_MOST_KEPT = 1001
# Rounding must not move a share of the environments that is a whole number to the next one.
_ROUNDING = 1e-9

# {environment left out: what was selected without it, as `Selection` has it}
Selected = dict[Hashable, Fields]


@dataclass(frozen=True, eq=False)
class EnvironmentErrors:
    """Hold the errors in one environment of a predictor selected and fitted without it.

    features : that predict; unseen : columns that are constant without this environment
    absolute_errors : (m,) sorted, or equally spaced quantiles of them; None if only second moments
        are
        known, or the outcome does not have intervals
    rows : of the environment; figures : those of `KINDS`; intervals : {name: 95% interval}
    events : number of events, counts or rows of the second class, None for numbers
    calibration : (k, 5) of `calibration_groups`, None if only second moments are known
    """

    environment: Hashable
    features: Names
    absolute_errors: Floats | None
    unseen: Names = ()
    rows: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)
    intervals: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    events: int | None = None
    calibration: Floats | None = None

    def quantile(self, coverage: float) -> float:
        """Return a quantile of the absolute errors; without rows, of a normal distribution."""
        if self.absolute_errors is None:
            return float(norm.ppf(0.5 + 0.5 * coverage)) * self.figures["rmse"]
        return float(np.quantile(self.absolute_errors, coverage))


OUT_OF_TIME = "no environment was left out, because the limit on the time of the fit had passed"
_LEAVING_OUT = "errors without each environment"  # as a limit on the time lists it
_MAY_MISS = "intervals may not cover how new environments differ."


def few_environments(n: int) -> str:
    """Return why intervals are unreliable after a fit to n environments; "" if n suffices."""
    if n > 2:
        return ""
    why = (
        "of two training environments each is predicted from the other alone, which cannot tell "
        "how they differ"
    )
    if n == 1:
        why = "one training environment says nothing about others"
    return f"{why}: intervals and errors for a new environment cannot be trusted."


_HEADS = {
    "r2": "R²",
    "rmse": "RMSE",
    "brier": "Brier",
    "auc": "AUC",
    "deviance_explained": "explained",
}
_BY = {
    "everything": "all features",
    "selected": "the features selected without it",
    "average": "an average of the subsets that are compatible without it",
    "constant": "a constant",
    "site": "its rows together",
}


@dataclass(frozen=True, eq=False, repr=False)
class NewEnvironments(Rendered):
    """Hold errors and calibration of predictions in held-out environments.

    Each environment is held out in turn, from the selection and from the fit.

    Attributes
    ----------
    outcome : PredictedOutcome
        The outcome.
    left_out : tuple of EnvironmentErrors
        Results for each environment; empty for a single environment.
    impossible : tuple
        Labels of environments without which the model could not be fitted.
    by : {"selected", "everything", "average", "constant"}
        Features that predict.
    not_left_out : int
        Number of environments that a limit on the time prevented from being held out, all or none.

    Notes
    -----
    The figures of an environment are, with NaN for those that are undefined, as with one class
    only:

    - observed, predicted: means, for counts totals over the total exposure, for times events per
      row;
    - intercept, slope: calibration of numbers, log odds or log rates, ideally 0 and 1;
    - rmse, brier, log_loss: means over rows;
    - auc, concordance: share of pairs in the right order;
    - r2, deviance_explained: share of the variation around the mean of the environment that
      predictions explain.

    References
    ----------
    Steyerberg, E. W. and Harrell, F. E. (2016), Prediction models need appropriate internal,
    internal-external, and external validation, Journal of Clinical Epidemiology 69, 245-247,
    doi:10.1016/j.jclinepi.2015.04.005.
    """

    outcome: PredictedOutcome
    left_out: tuple[EnvironmentErrors, ...]
    impossible: Labels = ()
    by: str = "selected"
    not_left_out: int = 0

    def half_width(self, coverage: float) -> float:
        """Return half the width of an interval for an outcome in a new environment.

        Parameters
        ----------
        coverage : float
            Probability that an interval contains the outcome.

        Returns
        -------
        float
            The ⌈coverage · (E + 1)⌉-th smallest of the environments' quantiles of absolute errors,
            or the largest; 0 without environments.

        Raises
        ------
        SettingError
            If the outcome does not have prediction intervals.
        """
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
        """Return why none of several environments was held out."""
        if self.not_left_out:
            return f"{OUT_OF_TIME[:1].upper()}{OUT_OF_TIME[1:]}."
        return "No environment could be left out: the others alone cannot be fitted."

    def limit(self, used: Collection[str] = ()) -> str:
        """Return what limits intervals of predictions from the columns `used`; "" if nothing
        does."""
        if few := few_environments(self.n_environments):
            return few
        if self.not_left_out:
            return f"{OUT_OF_TIME}: {_MAY_MISS}"
        if self.impossible:
            who = (
                f"{len(self.impossible)} of {self.n_environments} environments "
                f"({quoted(self.impossible, 4)})"
            )
            return (
                f"{who} could not be left out, because the others alone cannot be fitted as "
                f"asked: {_MAY_MISS}"
            )
        alone = {
            left.environment: [name for name in left.unseen if name in used]
            for left in self.left_out
        }
        told = [
            f"{quoted(names, 4)} without {in_quotes(label)}"
            for label, names in alone.items()
            if names
        ]
        return (
            f"columns are constant without one environment ({'; '.join(told[:4])}): {_MAY_MISS}"
            if told
            else ""
        )

    def to_frame(self) -> pd.DataFrame:
        """Return the results as a data frame.

        Returns
        -------
        DataFrame
            One row for each held-out environment: environment, rows, events, figures, ends of
            intervals (such as `slope_lower` and `slope_upper`), and the selected features.
        """
        import pandas as pd

        names = "intercept", "slope", self.kind.measure
        ends = {
            f"{name}_{end}": (name, k) for name in names for k, end in enumerate(("lower", "upper"))
        }
        rows = [
            {**vars(left), **left.figures}
            | {
                column: left.intervals[name][k]
                for column, (name, k) in ends.items()
                if name in left.intervals
            }
            for left in self.left_out
        ]
        return pd.DataFrame(
            rows, columns=["environment", "rows", "events", *self.kind.figures, *ends, "features"]
        )

    def pooled(self) -> PooledPerformance:
        """Return random-effects means of the measures, with prediction intervals.

        Returns
        -------
        PooledPerformance
            Of calibration intercept and slope, RMSE, AUC or concordance over held-out environments.
        """
        return pooled_performance(self.left_out, self.kind.classifies)

    @property
    def kind(self) -> OutcomeKind:
        return self.outcome.kind

    @staticmethod
    def head_of(name: str) -> str:
        """Return the heading of a figure, for a column or a panel."""
        return _HEADS.get(name, name)

    @property
    def told(self) -> str:
        """Return what is predicted, and by which features."""
        return f"{printable(self.outcome.in_words)}, by {self.by_in_words}, fitted without it"

    @property
    def by_in_words(self) -> str:
        """Return in words the features that predict a held-out environment."""
        return _BY[self.by]

    @property
    def of_shares(self) -> bool:
        """Return whether each row has the event or does not."""
        return self.kind.of_shares

    def on_average(self, name: str) -> float:
        """Return the mean of a figure over the environments that have it; NaN without any."""
        known = [left.figures[name] for left in self.left_out if np.isfinite(left.figures[name])]
        return float(np.mean(known)) if known else np.nan

    @property
    def sections(self) -> tuple[Section]:
        names = [
            name for name in self.kind.figures if name != "log_loss"
        ]  # for which there is no room

        def shown(name: str, value: float) -> str:
            usual = "+z.3f" if name == "intercept" else self.kind.figure_format
            return "–" if np.isnan(value) else format(value, usual)

        places, notes = shown_first(
            [-abs(left.figures.get("rmse", left.rows)) for left in self.left_out]
        )
        chosen = [self.left_out[place] for place in places]
        rows = [
            (f"{left.rows:,}", *(shown(name, left.figures[name]) for name in names))
            for left in chosen
        ]
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
        known = [
            left for left in self.left_out if not np.isnan(left.figures.get("predicted", np.nan))
        ]
        if known:
            worst = max(
                known, key=lambda left: abs(left.figures["observed"] - left.figures["predicted"])
            )
            told = (
                f"{worst.figures['observed']:.3g} observed, {worst.figures['predicted']:.3g} "
                "predicted"
            )
            yield (
                f"The {self.kind.mean_name} is farthest off in {in_quotes(worst.environment)}: "
                f"{told}."
            )
        scale = self.kind.scale
        yield (
            f"Intercept: calibration-in-the-large of {scale} (ideal 0). Slope: calibration slope "
            "(ideal 1; below 1: "
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
    """Return errors in held-out environments of each of the predictors that `build` takes.

    The selection is repeated without each environment, with the random numbers of the fit, if a
    predictor needs it and it is not among those `selected`, which it joins. refits : of a
    regressor. After a limit on the time, which also ends searches of selections early, none counts
    as held out.
    """
    data = whole.data
    if data.n_environments == 1:
        return {kind: NewEnvironments(outcome, (), by=kind) for kind in kinds}
    found = []
    with ProgressBar("leaving out environments", data.n_environments, progress) as bar:
        for label in data.environments:
            if out_of_time(_LEAVING_OUT):
                break
            found.append(_without(label, whole, outcome.kind, kinds, refits, selected))
            bar.advance()
    if out_of_time(_LEAVING_OUT):
        selected.clear()
        return {
            kind: NewEnvironments(outcome, (), by=kind, not_left_out=data.n_environments)
            for kind in kinds
        }
    each = {}
    for kind, *errors in zip(kinds, *found, strict=True):
        labelled = zip(data.environments, errors, strict=True)
        impossible = tuple(label for label, own in labelled if own is None)
        known = tuple(own for own in errors if own is not None)
        each[kind] = NewEnvironments(outcome, known, impossible, kind)
    return each


def _without(
    label: Hashable,
    whole: Selection,
    outcome_kind: OutcomeKind,
    kinds: Sequence[str],
    refits: Refits | None,
    selected: Selected,
) -> list[EnvironmentErrors | None]:
    """Return errors of each predictor; None if it cannot be fitted without this environment."""
    data = whole.data
    place = data.environments.index(label)
    found: list[EnvironmentErrors | None] = [None] * len(kinds)
    with warnings.catch_warnings():
        # The fit to all environments has warned already.
        warnings.simplefilter("ignore")
        try:
            selection = Selection(whole.settings, without(data, label))
        except DataError:
            return found
        vars(selection).update(selected.get(label, {}))
        features = selection.data.features
        unseen = tuple(name for name in data.features.columns if name not in features.columns)
        for k, kind in enumerate(kinds):
            with suppress(DataError, EngineError):
                if refits is None:
                    predictor = build(kind, selection)
                    columns = predictor.design.columns
                    errors_of = _errors_of_moments if isinstance(data, Moments) else _errors_of_rows
                    errors = errors_of(data, place, predictor, outcome_kind)
                else:
                    columns = columns_of_kind(kind, selection)
                    mean = refits.predicted(place, columns)
                    errors = _errors_of_means(refits.data, place, mean, outcome_kind)
                used = features.with_columns(columns)
                rows = int(data.counts[place])
                found[k] = EnvironmentErrors(label, used, unseen=unseen, rows=rows, **errors)
        if "findings" in vars(selection):
            selected[label] = {
                name: getattr(selection, name) for name in ("mask", "averaged", "level")
            }
    return found


def _cumulative_hazards(
    predictor: SurvivalPredictor, X: Floats, times: Floats, event: Floats
) -> tuple[Floats, Floats, Floats]:
    """Return cumulative hazards (n,) by the end, shares of them by `times` (n,), and events by the
    end.

    Predictions do not exceed the end. Infinite hazards count as large.
    """

    def by(when: Floats) -> Floats:
        return -np.log(np.maximum(predictor.survival(X, when[:, None])[:, 0], np.finfo(float).tiny))

    whole = by(np.full(len(X), predictor.end))
    return (
        whole,
        by(np.minimum(times, predictor.end)) / whole,
        np.where(times <= predictor.end, event, 0.0),
    )


def _errors_of_rows(data: Any, place: int, predictor: Any, kind: OutcomeKind) -> Fields:
    """Fields of EnvironmentErrors, of the rows of an environment"""
    rows = data.rows(place)
    X = columns_of(data, predictor.design.columns)[rows]
    if not isinstance(predictor, SurvivalPredictor):
        return _errors_of_means(data, place, predictor.predict(X), kind)
    assert data.event is not None
    hazard = _cumulative_hazards(predictor, X, data.y[rows], data.event[rows])
    return _errors_of_means(data, place, predictor.order(X), kind, hazard)


def _errors_of_means(
    data: MultiEnvironmentData,
    place: int,
    mean: Floats,
    kind: OutcomeKind,
    hazard: tuple[Floats, Floats, Floats] | None = None,
) -> Fields:
    """Fields of EnvironmentErrors, of predicted means (n_e,) of the rows of an environment; hazard
    : of `measured`"""
    rows = data.rows(place)
    y = data.y[rows]
    outcome_columns = {role: values[rows] for role, values in data.outcome_columns.items()}
    found = kind.measured(y, mean, **outcome_columns, hazard=hazard)
    fields: Fields = {"absolute_errors": None, **_plain(found)}
    if kind.by_least_squares:
        return fields | {
            "absolute_errors": quantiles_of(np.abs(y - mean)),
            "calibration": calibration_groups(kind, y, mean, None, mean),
        }
    count = outcome_columns.get("event", y)
    seen, expected, by = (
        (count, mean, mean) if hazard is None else (hazard[2], hazard[0] * hazard[1], hazard[0])
    )
    groups = calibration_groups(kind, seen, expected, outcome_columns.get("exposure"), by)
    return fields | {"events": round(float(count.sum())), "calibration": groups}


def _plain(found: Mapping[str, Figure]) -> Fields:
    intervals = {name: each[1:] for name, each in found.items() if np.isfinite(each.low)}
    return {
        "figures": {name: float(each.value) for name, each in found.items()},
        "intervals": intervals,
    }


def _errors_of_moments(moments: Any, place: int, predictor: Any, kind: OutcomeKind) -> Fields:
    """Fields of EnvironmentErrors, of a line: figures of all rows, their intervals as if errors
    were normal, and absolute errors and groups of a sample of rows, None without one."""
    columns, (coefficients, intercept) = predictor.design.columns, predictor.line
    at = [moments.columns.index(name) for name in columns]
    y = moments.outcome
    means = moments.means[place]
    n = float(moments.counts[place])
    scatter = moments.scatter[place]
    missed = squared_error(moments, place, columns, coefficients, intercept)
    total = float(scatter[y, y])
    covered = float(coefficients @ scatter[at, y])
    spread = float(coefficients @ scatter[np.ix_(at, at)] @ coefficients)
    predicted = float(means[at] @ coefficients + intercept)
    errors = max(total - 2.0 * covered + spread, 0.0) / max(
        n - 1.0, 1.0
    )  # variance around their mean
    slope = Figure(np.nan)
    if spread > 1e-12 * total:
        left = max(total - covered**2 / spread, 0.0) / max(n - 2.0, 1.0)
        slope = around(covered / spread, float(np.sqrt(left / spread)), n - 2.0)
    values = (
        Figure(float(means[y])),
        Figure(predicted),
        around(means[y] - predicted, np.sqrt(errors / n), n - 1.0),
        slope,
        ratio(float(np.sqrt(missed)), np.sqrt(0.5 / n)),
        Figure(share_explained(missed, total / n)),
    )
    found = _plain(dict(zip(kind.figures, values, strict=True)))
    sample = moments.sampled
    if sample is None:
        return {"absolute_errors": None, **found}
    rows = sample.rows(place)
    observed = sample.y[rows]
    mean = predictor.predict(columns_of(sample, columns))[rows]
    groups = calibration_groups(kind, observed, mean, None, mean)
    return {
        "absolute_errors": quantiles_of(np.abs(observed - mean)),
        "calibration": groups,
        **found,
    }


def quantiles_of(errors: Floats) -> Floats:
    """Return the sorted errors, or equally spaced quantiles of many."""
    return (
        np.sort(errors)
        if len(errors) <= _MOST_KEPT
        else np.quantile(errors, np.linspace(0.0, 1.0, _MOST_KEPT))
    )
