"""Times to an event, some of them censored."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral
from typing import ClassVar

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.checks import quoted, warn
from ..data.multi_environment import MultiEnvironmentData
from ..data.subsets import Subset, as_mask
from ..exceptions import DataError, DataWarning, SettingError
from ..kernels.newton.evaluation import evaluate
from ..kernels.newton.rows import PIECEWISE_EXPONENTIAL, Intervals, Rows, work_for
from .hazards import PiecewiseHazard, cuts_at_quantiles, interval_of
from .regression import Regression, RegressionFit, RegressionModel
from .rows_of_environments import environment_starts

_MOST_INTERVALS = 8
_EVENTS_PER_INTERVAL = 5


@dataclass(frozen=True)
class PiecewiseExponential(Regression):
    """Time to an event with hazard baseline(time) · exp(coefficients · columns of z), by maximum likelihood; rows may be
    censored on the right. What must be the same in all environments is the baseline too.

    intervals : of time, in each of which the baseline is constant, about as many pooled events in each; "auto": as many
        as give five events to each in the environment with the fewest, from 1 to 8
    pseudo_rows : how many rows the pseudo-data of each environment weigh, in which events occur at the pooled rate of
        each interval; 0: none. They keep fits finite where an environment has no events

    The outcome is the time, above 0, and `event` of the data says which times ended with the event. All rows are
    watched from time 0 on. Predicted is the expected time, for which the hazard of the last interval goes on.
    """

    intervals: str | int = "auto"
    pseudo_rows: float = field(default=1.0, kw_only=True)

    name: ClassVar[str] = "piecewise exponential"
    intercept: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("event",)

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.intervals
        whole = isinstance(given, Integral) and not isinstance(given, bool) and given >= 1
        if given != "auto" and not whole:
            raise SettingError(f"intervals={given!r} is no number of intervals: use 'auto', or a whole number from 1 on.")

    def check(self, data: MultiEnvironmentData) -> None:
        if data.event is None:
            raise DataError(
                f"the {self.name} model needs to know which times {data.outcome_name!r} ended with the event: give "
                "event=, 1 where one did and 0 where it is censored."
            )
        if (data.y <= 0.0).any():
            raise DataError(
                f"the {self.name} model is for times above 0, and {data.outcome_name!r} is not in "
                f"{int((data.y <= 0.0).sum()):,} rows."
            )
        if not data.event.any():
            raise DataError(f"the {self.name} model needs events, and {data.event_name!r} is 0 in all rows.")
        without = [label for label, n in zip(data.environments, events_by_environment(data), strict=True) if not n]
        if not without:
            return
        if not self.pseudo_rows:
            raise DataError(
                f"no event occurs in environment {quoted(without)}, so that its hazards cannot be fitted: use "
                "pseudo_rows=1, or leave it out."
            )
        warn(
            f"no event occurs in environment {quoted(without)}: it says how long nothing happened, and hardly which "
            "features matter. The baseline has one interval unless intervals= says otherwise.",
            DataWarning,
        )

    def cuts(self, data: MultiEnvironmentData) -> Floats:
        """(J − 1,) where intervals end, but for the last"""
        assert data.event is not None
        if self.intervals == "auto":
            n_intervals = min(int(events_by_environment(data).min()) // _EVENTS_PER_INTERVAL, _MOST_INTERVALS)
        else:
            n_intervals = int(self.intervals)
        return cuts_at_quantiles(data.y[data.event > 0.0], max(n_intervals, 1))

    def order(self, data: MultiEnvironmentData) -> Integers:
        return np.lexsort((interval_of(data.y, self.cuts(data)), data.environment_index)).astype(np.int64)

    def arrange(self, data: MultiEnvironmentData, columns: Floats, order: Integers) -> Rows:
        assert data.event is not None
        cuts, extra = self.cuts(data), self.shares(data)
        n_intervals, n_environments = len(cuts) + 1, data.n_environments
        place = data.environment_index * n_intervals + interval_of(data.y, cuts)
        ends = np.cumsum(np.bincount(place, minlength=n_environments * n_intervals)).reshape(n_environments, -1)
        starts = np.column_stack([environment_starts(data)[:-1], ends])
        watched = watched_within(data.y, cuts)
        happened = np.bincount(place, data.event, n_environments * n_intervals).reshape(n_environments, -1)
        rates = happened.sum(axis=0) / watched.sum(axis=0)
        by_environment = np.array([watched[data.rows(e)].sum(axis=0) for e in range(n_environments)])
        widths = np.append(np.diff(cuts, prepend=0.0), 0.0)
        own = extra[data.environment_index]
        last = np.take_along_axis(watched, interval_of(data.y, cuts)[:, None], axis=1)[:, 0]
        return Rows(
            PIECEWISE_EXPONENTIAL,
            columns,
            environment_starts(data),
            (data.event + own * (watched @ rates))[order],
            ((1.0 + own) * last)[order],
            Intervals(
                starts.astype(np.int64),
                np.multiply.outer(1.0 + extra, widths),
                happened + extra[:, None] * rates * by_environment,
            ),
        )

    def beginning(self, rows: Rows) -> Floats:
        return np.zeros((len(rows.starts), 0))

    def profiled(self, rows: Rows) -> Integers:
        """A hazard for each interval in which something happens; none where no row is watched."""
        events = rows.intervals.events
        return np.count_nonzero(np.vstack([events, events.sum(axis=0)]), axis=1)

    def mean(self, predictor: Floats) -> Floats:
        raise NotImplementedError("expected times need a baseline, which fits have")

    def tied(self, data: MultiEnvironmentData, n_jobs: int | None) -> PiecewiseExponentialModel:
        return PiecewiseExponentialModel(self, data, n_jobs)


@dataclass(frozen=True, eq=False)
class PiecewiseExponentialFit(RegressionFit):
    """As `RegressionFit`. intercept: minus the coefficients at the mean of the columns, so that baselines are those of
    rows in the middle; baseline: of the pooled fit; local_baselines: of each environment's own."""

    baseline: PiecewiseHazard
    local_baselines: tuple[PiecewiseHazard, ...]

    def risk(self, X: Floats) -> Floats:
        """(n,) how many times the baseline the hazard of rows X (n, k) is"""
        with np.errstate(over="ignore"):
            return np.exp(X @ self.coefficients + self.intercept)

    def survival(self, X: Floats, times: Floats) -> Floats:
        """(n, len(times)) the probability that nothing has happened by each time to rows X (n, k), by the pooled fit;
        beyond the last cut the last hazard goes on."""
        return survival(self.baseline, self.risk(X), times)

    def mean(self, predictor: Floats) -> Floats:
        """(n,) expected time to the event; the last hazard goes on, also where nobody was watched as long."""
        with np.errstate(over="ignore"):
            return self.baseline.expected_time(np.exp(predictor))


class PiecewiseExponentialModel(RegressionModel):
    """Times to an event, tied to rows."""

    specification: PiecewiseExponential

    def fit(self, subset: Subset, local: bool = True) -> PiecewiseExponentialFit:
        plain = super().fit(subset, local)
        mask = as_mask(subset, self.feature_names)
        members = np.flatnonzero(self.features.expand(mask))
        problem, cuts = self.problem, self.specification.cuts(self.data)
        work, k = work_for(problem, len(members)), len(members)
        pool = self.data.n_environments
        baselines = []
        for g, theta in enumerate(self.scores(mask[None]).thetas[0]):
            groups = (g, g + 1) if g < pool else (0, pool)
            evaluate(problem, *groups, members, k, theta, k, False, work)
            baselines.append(PiecewiseHazard(cuts, np.exp(work.baseline.log_hazard)))
        return PiecewiseExponentialFit(
            **vars(plain), baseline=baselines[-1], local_baselines=tuple(baselines[:-1]) if local else ()
        )


def survival(baseline: PiecewiseHazard, risk: Floats, times: Floats) -> Floats:
    """(n, len(times)) of rows with risk (n,) times the baseline"""
    with np.errstate(over="ignore", invalid="ignore"):
        exponent = np.multiply.outer(risk, baseline.cumulative(np.asarray(times, dtype=float)))
    return np.exp(-np.where(np.isnan(exponent), 0.0, exponent))


def watched_within(times: Floats, cuts: Floats) -> Floats:
    """(N, J) how much of its time each row spends in each interval"""
    starts, ends = np.concatenate([[0.0], cuts]), np.append(cuts, np.inf)
    return np.clip(np.minimum(times[:, None], ends) - starts, 0.0, None)


def events_by_environment(data: MultiEnvironmentData) -> Integers:
    """(E,)"""
    return np.bincount(data.environment_index, data.event, data.n_environments).astype(np.int64)
