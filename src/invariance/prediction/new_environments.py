"""How far predictions are off in an environment that was not there: found out by leaving out each one in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm

from .._tools.arrays import Floats, Mask
from .._tools.progress import ProgressBar, ProgressMode
from ..conditionals.predicts import Predicts, predicts_of
from ..data.checks import quoted
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.base import Findings
from ..decisions.search import Search
from ..exceptions import DataError, EngineError
from ..moments.moments import Moments
from ..moments.sampling import sampled_data
from .building import squared_error
from .calibration import FIGURES, figures_of, share_explained
from .design import columns_of
from .outcome import as_observed
from .predictor import LinearPredictor, Predictor

# So many quantiles of the errors in an environment are kept where it has more rows.
_MOST_KEPT = 1001
# Rounding must not move a share of the environments that is a whole number to the next one.
_ROUNDING = 1e-9

Data = MultiEnvironmentData | Moments
Builder = Callable[[Findings, Mask, Data], Predictor]


@dataclass(frozen=True, eq=False)
class LeftOut:
    """What was missed in one environment by all that was selected and fitted without it.

    features : those that were selected; rmse : root of the mean squared error
    unseen : columns that are constant without this environment, so that the fit knows nothing of them
    absolute : (m,) sorted absolute errors, or quantiles of them, equally spaced from the least to the largest, of a
        sample where rows are not in memory; None where only second moments are known, or the outcome has no intervals
    rows : of the environment; figures : by name, as `FIGURES` has them for what is predicted
    """

    environment: Hashable
    features: tuple[str, ...]
    rmse: float
    absolute: Floats | None
    unseen: tuple[str, ...] = ()
    rows: int = 0
    figures: Mapping[str, float] = field(default_factory=dict)

    def quantile(self, coverage: float) -> float:
        """What so large a share of the absolute errors is below; of a normal distribution without rows."""
        if self.absolute is None:
            return float(norm.ppf(0.5 + 0.5 * coverage)) * self.rmse
        return float(np.quantile(self.absolute, coverage))


@dataclass(frozen=True, eq=False)
class NewEnvironments:
    """Of each environment that could be left out, none where there is one only; impossible: those that could not."""

    left_out: tuple[LeftOut, ...]
    impossible: tuple[Hashable, ...] = ()

    def half_width(self, coverage: float) -> float:
        """The ⌈coverage · (E + 1)⌉-th smallest of the environments' quantiles, at most the largest; 0 without any."""
        if not self.left_out:
            return 0.0
        quantiles = sorted(errors.quantile(coverage) for errors in self.left_out)
        rank = int(np.ceil(coverage * (len(quantiles) + 1) - _ROUNDING))
        return quantiles[min(max(rank, 1), len(quantiles)) - 1]

    def caution(self, used: Collection[str] = ()) -> str:
        """What is to be said about intervals where environments are too few, or one alone moves a column that is used
        to predict; empty where nothing is."""
        return "".join(self.limits(used))

    def limits(self, used: Collection[str] = ()) -> tuple[str, str]:
        """As `caution`, in two parts: what is so, and what follows from it for intervals."""
        n = len(self.left_out) + len(self.impossible)
        if self.impossible:
            return (
                f"{len(self.impossible)} of {n} environments ({quoted(self.impossible, 4)}) could not be left out, "
                "because the others alone cannot be fitted as asked",
                ": intervals do not know how different these are.",
            )
        if n == 0:
            return (
                "there is one environment, so that nothing is known about others",
                ": intervals hold for rows like those that were fitted.",
            )
        if n == 2:
            return (
                "with two environments features are selected in one of them and tried in the other: one environment "
                "cannot tell which features are invariant",
                ", and intervals may be many times wider than with three.",
            )
        alone = {left.environment: [name for name in left.unseen if name in used] for left in self.left_out}
        told = [f"{quoted(names, 4)} without {label!r}" for label, names in alone.items() if names]
        if told:
            return (
                f"columns are constant without one environment ({'; '.join(told[:4])}): the fit to the others cannot "
                "know what they do",
                ", and what it misses there may make all intervals wider.",
            )
        return "", ""


def leaving_out(
    search: Search, data: Data, builders: Sequence[Builder], progress: ProgressMode
) -> tuple[NewEnvironments, ...]:
    """For each builder. Repeats the whole selection without each environment in turn, once for all of them, with the
    random numbers of the first one."""
    if data.n_environments == 1:
        return (NewEnvironments(()),) * len(builders)
    found: list[tuple[LeftOut, ...]] = []
    impossible: list[Hashable] = []
    with ProgressBar("leaving out environments", data.n_environments, progress) as bar:
        for label in data.environments:
            try:
                found.append(_without(label, search, data, builders))
            except (DataError, EngineError):
                impossible.append(label)
            bar.advance()
    return tuple(NewEnvironments(tuple(each[b] for each in found), tuple(impossible)) for b in range(len(builders)))


def _without(label: Hashable, search: Search, data: Data, builders: Sequence[Builder]) -> tuple[LeftOut, ...]:
    with warnings.catch_warnings():
        # What is wrong with the data is said of all of them, once.
        warnings.simplefilter("ignore")
        others = _others(data, label)
        findings = search.findings(others, False)
        selected = search.rule.select(findings)
        predictors = [build(findings, selected, others) for build in builders]
    names = others.features.chosen(selected).names
    left = set(others.features.columns)
    unseen = tuple(name for name in data.features.columns if name not in left)
    predicts = predicts_of(search.conditional)
    return tuple(_left_out(data, label, predictor, predicts, names, unseen) for predictor in predictors)


def _left_out(
    data: Data,
    label: Hashable,
    predictor: Predictor,
    predicts: Predicts,
    features: tuple[str, ...],
    unseen: tuple[str, ...],
) -> LeftOut:
    place = data.environments.index(label)
    n_rows = int(data.counts[place])
    if isinstance(data, Moments):
        assert isinstance(predictor, LinearPredictor)
        figures = _figures_of_moments(data, place, predictor)
        return LeftOut(
            label, features, figures["rmse"], _sampled_errors(data, place, predictor), unseen, n_rows, figures
        )
    rows = data.rows(place)
    mean = predictor.mean(columns_of(data, predictor.design.columns))
    errors = np.abs(data.y - as_observed(mean, data))[rows]
    beside = {role: values[rows] for role, values in data.beside.items()}
    figures = figures_of(predicts, data.y[rows], mean[rows], **beside)
    absolute = _kept(errors) if predicts is Predicts.number else None
    return LeftOut(label, features, float(np.sqrt(np.mean(errors**2))), absolute, unseen, n_rows, figures)


def _figures_of_moments(moments: Moments, place: int, predictor: LinearPredictor) -> dict[str, float]:
    """Those of numbers, as `figures_of` has them of the rows of the environment."""
    columns, (coefficients, intercept) = predictor.design.columns, predictor.line
    at, y, means = [moments.columns.index(name) for name in columns], moments.outcome, moments.means[place]
    missed = squared_error(moments, place, columns, coefficients, intercept)
    variance = float(moments.scatter[place, y, y]) / float(moments.counts[place])
    values = means[y], means[at] @ coefficients + intercept, np.sqrt(missed), share_explained(missed, variance)
    return dict(zip(FIGURES[Predicts.number], map(float, values), strict=True))


def _sampled_errors(moments: Moments, place: int, predictor: Predictor) -> Floats | None:
    """Of the rows of an environment that a second look at all of them kept; None where there was none."""
    data = sampled_data(moments, predictor.design.columns)
    if data is None:
        return None
    rows = data.rows(place)
    return _kept(np.abs(data.y[rows] - predictor.mean(columns_of(data, predictor.design.columns)[rows])))


def _others(data: Data, label: Hashable) -> Data:
    return data.choosing([other for other in data.environments if other != label])


def _kept(errors: Floats) -> Floats:
    if len(errors) <= _MOST_KEPT:
        return np.sort(errors)
    return np.quantile(errors, np.linspace(0.0, 1.0, _MOST_KEPT))
