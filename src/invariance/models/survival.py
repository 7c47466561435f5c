"""Times to an event that may be censored on the right, by piecewise exponential regression.

The hazard h(t | x^z) = h_0(t) exp(β'x^z) has a baseline h_0 that is constant between cut points;
its likelihood is that of Poisson counts of events with the time at risk as exposure. Λ(z) compares
the fit to the pool with a fit to each environment (equation 7 of the paper, Wu et al. 2025,
arXiv:2506.22675).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np

from .._tools.arrays import Floats, Integers
from ..data.checks import quoted, warn
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..exceptions import DataError, DataWarning, use
from ..kernels.likelihoods import PIECEWISE_EXPONENTIAL, Intervals, Rows, Spans, work_for
from ..kernels.newton import CURVATURES, regress
from .base import BASELINE, Fit, check_whole_number
from .gaussian_fits import row_groups
from .regression import READ, Regression, RegressionModel, baseline_ratios, environment_starts
from .separation import Pulls


@dataclass(frozen=True, eq=False)
class PiecewiseHazard:
    """cuts (J − 1,): ends of all intervals but the last; hazards (J,): events per unit of time;
    end: the longest time that was seen, beyond which nothing is known"""

    cuts: Floats
    hazards: Floats
    end: float

    @property
    def starts(self) -> Floats:
        """Return the start of each interval, (J,)."""
        return np.concatenate([[0.0], self.cuts])

    @property
    def _before(self) -> Floats:
        """Return the cumulative hazard at the start of each interval, (J,)."""
        return np.concatenate([[0.0], np.cumsum(self.hazards[:-1] * np.diff(self.starts))])

    def cumulative(self, times: Floats) -> Floats:
        """The integral of the hazard from 0 to each of `times`, of any shape."""
        j = interval_of(times, self.cuts)
        return self._before[j] + self.hazards[j] * (times - self.starts[j])

    def times(self, cumulative: Floats) -> Floats:
        """When the cumulative hazard reaches each of these values; infinite where that is beyond
        the end."""
        j = np.maximum(np.searchsorted(self._before, cumulative, side="left") - 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (cumulative - self._before[j]) / self.hazards[j]
        times = np.where(cumulative > 0.0, self.starts[j] + rest, 0.0)
        return np.where(times <= self.end, times, np.inf)

    def survival(self, risk: Floats, times: Floats) -> Floats:
        """The probability that nothing has happened by `times` at `risk` times these hazards."""
        cumulative = self.cumulative(np.asarray(times, dtype=float))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(-np.where(cumulative > 0.0, risk * cumulative, 0.0))

    def median(self, risk: Floats) -> Floats:
        """Return the median time (n,) to the event at `risk` (n,) times these hazards.

        It is infinite beyond the end.
        """
        with np.errstate(divide="ignore"):
            return self.times(np.log(2.0) / risk)

    def restricted_mean(self, risk: Floats, horizon: float) -> Floats:
        """Return the mean time (n,) to the event or an earlier horizon at `risk` (n,) times these
        hazards."""
        widths = np.diff(np.minimum(np.append(self.starts, np.inf), horizon))
        alive = self.survival(risk[:, None], self.starts)
        rates = np.multiply.outer(risk, self.hazards)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            within = np.where(rates > 0.0, -np.expm1(-rates * widths) / rates, widths)
        return np.asarray(np.where(alive > 0.0, alive * within, 0.0).sum(axis=-1))


def interval_of(times: Floats, cuts: Floats) -> Integers:
    """Return the interval in which each of the times (N,) ends; cuts (J − 1,), or (N, J − 1) of
    each."""
    return (
        np.searchsorted(cuts, times, side="left")
        if cuts.ndim == 1
        else np.sum(cuts < times[:, None], axis=1)
    )


def cuts_at(events: Floats, shares: Floats) -> Floats:
    """Distinct times of events by which these shares of them have occurred: no interval is without
    an event."""
    cuts = (
        np.unique(np.quantile(events, shares, method="inverted_cdf"))
        if len(shares)
        else np.zeros(0)
    )
    return cuts[cuts < events.max()]


def within_intervals(times: Floats, cuts: Floats) -> Iterator[Floats]:
    """Yield the time (N,) that each row spends in one interval after the other; cuts as in
    `interval_of`."""
    for start, end in zip((0.0, *cuts.T), (*cuts.T, np.inf), strict=True):
        yield np.clip(np.minimum(times, end) - start, 0.0, None)


@dataclass(frozen=True, eq=False)
class PiecewiseExponentialFit(Fit):
    """intercept: minus the coefficients at the mean of the columns; baseline: of rows there, by the
    pooled fit"""

    baseline: PiecewiseHazard = field(kw_only=True)

    def risk(self, X: Floats) -> Floats:
        """Return the hazards of rows X (n, k) relative to the baseline, (n,)."""
        with np.errstate(over="ignore"):
            return np.exp(X @ self.coefficients + self.intercept)

    def mean(self, predictor: Floats) -> Floats:
        """Return the median time to the event, (n,): means of censored times are not known."""
        with np.errstate(over="ignore"):
            return self.baseline.median(np.exp(predictor))


class Proportional(NamedTuple):
    """Hazards of environments that are proportional: hazards (S,) in each step at the mean of their
    logarithms, factors (E,) of the environments; expected (N,): events of each row, up to the
    factor"""

    hazards: Floats
    factors: Floats
    expected: Floats


_MOST_ROUNDS = 1_000
_SETTLED = 1e-12


class PiecewiseExponentialModel(RegressionModel):
    specification: PiecewiseExponential

    @property
    def n_informative(self) -> int:
        return int(events_by_environment(self.data).sum())

    @cached_property
    def profiled(self) -> Integers:
        """A factor for each interval in which an environment is watched; the pooled fit has all of
        them. Free baselines count as one parameter each."""
        if self.free:
            return np.append(np.ones(self.n_environments, np.int64), self.n_environments)
        events = self.problem.spans.intervals.events
        return np.count_nonzero(np.vstack([events, events.sum(axis=0)]), axis=1)

    @cached_property
    def profiled_rests(self) -> Integers:
        if self.free:
            return self.profiled[-1] - self.profiled[:-1]
        events = self.problem.spans.intervals.events
        return np.count_nonzero(
            [np.delete(events, e, axis=0).any(axis=0) for e in range(len(events))], axis=1
        )

    def fit(self, subset: Subset, local: bool = True) -> PiecewiseExponentialFit:
        """One subset; with free baselines `baseline` has the shape that they share if they are
        proportional, and their mean level."""
        mask = as_mask(subset, self.feature_names)
        rates = self.specification.rates(self.data)
        plain = super().fit(mask, local)
        members = np.flatnonzero(self.features.expand(mask))
        if self.free:
            hazards = self._proportional(
                self.data.X[:, members] @ plain.coefficients + plain.intercept
            ).hazards
            baseline = PiecewiseHazard(rates.cuts, rates.hazards * hazards, rates.end)
            return PiecewiseExponentialFit(**vars(plain), baseline=baseline)
        k = len(members)
        theta = self.scores(mask[None], READ).thetas[0, -1]
        work = work_for(self.problem, k)
        given = mask[None], members, members, theta[None, :k].copy(), 0.0, work
        regress(CURVATURES, self.problem, *given, inverses=np.empty((1, k, k)))
        baseline = PiecewiseHazard(
            rates.cuts, rates.hazards * np.exp(work.baseline.log_hazard), rates.end
        )
        return PiecewiseExponentialFit(**vars(plain), baseline=baseline)

    def baselines(self, subset: Subset) -> tuple[Floats, Floats]:
        """Return the logarithm of each environment's baseline hazard over their mean, and its
        standard error.

        By the slopes of the stratified fit, as if baseline hazards were proportional; the mean is
        that of logarithms, weighted by rows, and the error is that of a rate whose shape over time
        is known.

        Returns
        -------
        values, errors : ndarray of shape (n_environments,)
        """
        mask = as_mask(subset, self.feature_names)
        self.require_free_baselines()
        chosen = self.features.expand(mask)
        data = self.data
        theta = self.scores(mask[None], READ).thetas[0, -1]
        (inverse,), _ = self._curvatures(chosen, theta[None])
        X = (data.X[:, chosen] - self._centre[-1, chosen]) / self._scale[-1, chosen]
        found = self._proportional(X @ theta[: X.shape[1]])
        events = self.problem.spans.steps.events.sum(axis=1)
        means = np.array(
            [
                np.average(X[rows], axis=0, weights=found.expected[rows])
                for rows in row_groups(data)[:-1]
            ]
        )
        variances = 1.0 / events + np.einsum("ea,ab,eb->e", means, inverse, means)
        return np.log(found.factors), np.sqrt(variances)

    def _proportional(self, log_risk: Floats) -> Proportional:
        """Return the likeliest proportional hazards of rows with these log relative hazards (N,).

        They are fitted by iterative proportional fitting to the events, with pseudo-data, of each
        environment and step.
        """
        data = self.data
        rates = self.specification.rates(self.data)
        events = self.specification.step_events(data, self.specification.step_cuts(data), self.free)
        risk = np.exp(log_risk)
        times = rates.cumulative(data.y)
        ends = rates.cumulative(rates.cuts)
        exposed = np.column_stack([risk * part for part in within_intervals(times, ends)])
        at_risk = np.add.reduceat(exposed[self._order], environment_starts(data)[:-1], axis=0)
        at_risk *= 1.0 + self.specification.shares(data)[:, None]
        factors = np.ones(self.n_environments)
        for _ in range(_MOST_ROUNDS):
            before = factors
            hazards = events.sum(axis=0) / (factors @ at_risk)
            factors = events.sum(axis=1) / (at_risk @ hazards)
            if np.allclose(factors, before, rtol=_SETTLED, atol=0.0):
                break
        mean = np.exp(np.average(np.log(factors), weights=data.counts))
        return Proportional(hazards * mean, factors / mean, exposed @ hazards)


_MOST_INTERVALS = 8
_EVENTS_PER_INTERVAL = 5


@dataclass(frozen=True)
class PiecewiseExponential(Regression):
    """Model the hazard of an event by piecewise exponential regression on the selected columns.

    The hazard is baseline(time) · exp(β'x^z), fitted by maximum likelihood; times may be censored
    on the right. Invariance includes the baseline. The outcome is the time, above 0, `event` of the
    data is 1 if the time ended with the event, and all rows are observed from time 0 on.
    Predictions are median times, infinite if a median exceeds all observed times.

    Parameters
    ----------
    intervals : int or "auto", default="auto"
        Number of time intervals, with about equally many pooled events in each; an environment has
        a factor of the baseline in each. "auto" is the number that gives five events to each
        interval in the environment with the fewest events, from 1 to 8.
    steps : int, default=16
        Number of steps within which, and within intervals, the pooled baseline is constant; it
        gives all environments its shape within intervals. With 1 the baseline is constant in
        intervals. Steps are narrow at the first and the last events.
    pseudo_rows : float, default=1.0
        Weight, in rows, of the pseudo-data of each environment, in which events occur at the pooled
        rate of each step. They keep fits finite if an environment has no events. 0 is without
        pseudo-data.

    Raises
    ------
    SettingError
        If intervals or steps are not whole numbers from 1 on.

    References
    ----------
    Laird, N. and Olivier, D. (1981), Covariance analysis of censored survival data using log-linear
    analysis techniques, Journal of the American Statistical Association 76, 231-240,
    doi:10.1080/01621459.1981.10477634.

    Friedman, M. (1982), Piecewise exponential models for survival data with covariates, Annals of
    Statistics 10, 101-113, doi:10.1214/aos/1176345693.

    Examples
    --------
    >>> from invariance import BIPSurvival, PiecewiseExponential
    >>> BIPSurvival(PiecewiseExponential(intervals=4)).family
    PiecewiseExponential(pseudo_rows=1.0, intervals=4, steps=16)
    """

    intervals: str | int = "auto"
    steps: int = 16
    pseudo_rows: float = field(default=1.0, kw_only=True)

    name: ClassVar[str] = "piecewise exponential"
    intercept: ClassVar[bool] = False
    takes: ClassVar[tuple[str, ...]] = ("event",)
    model: ClassVar[type[RegressionModel]] = PiecewiseExponentialModel  #: :meta private:
    about_mean: ClassVar[tuple[str, ...]] = (BASELINE,)
    kind: ClassVar[str] = "time"
    link: ClassVar[str] = "log"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.intervals != "auto":
            check_whole_number(self, "intervals", 1, "auto")
        check_whole_number(self, "steps", 1, 16)

    def check(self, data: MultiEnvironmentData) -> None:
        if data.event is None:
            what = (
                f"the {self.name} model needs to know which times {data.outcome_name!r} ended "
                "with the event"
            )
            raise DataError(what, use(" (1: event, 0: censored)", event="column"))
        if (data.y <= 0.0).any():
            n_wrong = int((data.y <= 0.0).sum())
            raise DataError(
                f"{self.name} times are above 0, and {data.outcome_name!r} is not in {n_wrong:,} "
                "rows."
            )
        if not data.event.any():
            raise DataError(
                f"the {self.name} model needs events, and {data.event_name!r} is 0 in all rows."
            )
        without = [
            label
            for label, n in zip(data.environments, events_by_environment(data), strict=True)
            if not n
        ]
        what = f"no event occurs in environment {quoted(without)}"
        if without and not self.pseudo_rows:
            raise DataError(f"{what}, where no hazard can be fitted", use(pseudo_rows=1))
        if without:
            warn(f"{what}: it hardly says which features matter.", DataWarning)

    def events(self, data: MultiEnvironmentData) -> Floats:
        assert data.event is not None
        return data.event

    def working_outcome(self, data: MultiEnvironmentData) -> Floats:
        """Martingale residuals without features: events less those that the hazard of all rows
        expects."""
        return self.events(data) - self.rates(data).cumulative(data.y)

    def pulls(self, data: MultiEnvironmentData, pooled: bool) -> Pulls:
        """Return the pulls of rows in each interval, whose hazard is free.

        Rows that are observed without an event pull down; the pooled fit has the narrow intervals
        of `rates`.
        """
        cuts = self.rates(data).cuts if pooled else self.cuts(data)
        last = interval_of(data.y, cuts)
        event = self.events(data) > 0.0
        rows = np.repeat(np.arange(data.n_rows), last + 1)
        interval = np.concatenate([np.arange(n + 1) for n in last])
        ended = event[rows] & (interval == last[rows])
        return Pulls(rows, np.where(ended, 0.0, -1.0), interval)

    def cuts(self, data: MultiEnvironmentData) -> Floats:
        """Return the ends of intervals except the last, (J − 1,)."""
        n_intervals = int(events_by_environment(data).min()) // _EVENTS_PER_INTERVAL
        n_intervals = (
            max(min(n_intervals, _MOST_INTERVALS), 1)
            if self.intervals == "auto"
            else int(self.intervals)
        )
        return cuts_at(_event_times(data), np.arange(1, n_intervals) / n_intervals)

    def rates(self, data: MultiEnvironmentData) -> PiecewiseHazard:
        """The hazard of all rows, whatever their features, in each step."""
        times = _event_times(data)
        shares = _denser_at_the_ends(np.arange(1, self.steps) / self.steps)
        cuts = np.union1d(self.cuts(data), cuts_at(times, shares))
        watched = [part.sum() for part in within_intervals(data.y, cuts)]
        return PiecewiseHazard(
            cuts, np.bincount(interval_of(times, cuts)) / np.array(watched), float(data.y.max())
        )

    def step_cuts(self, data: MultiEnvironmentData, free: bool = False) -> Floats:
        """Return the ends of steps except the last, (S − 1,).

        If baselines are free (E, S − 1): twice as many in each environment, by its own events,
        infinite beyond its last event.
        """
        if not free:
            return self.rates(data).cuts
        assert data.event is not None
        shares = _denser_at_the_ends(np.arange(1, 2 * self.steps) / (2.0 * self.steps))
        parts = [data.rows(e) for e in range(data.n_environments)]
        own = [data.y[rows][data.event[rows] > 0.0] for rows in parts]
        each = [cuts_at(times, shares) if len(times) else times for times in own]
        most = max(map(len, each))
        return np.array(
            [np.pad(cuts, (0, most - len(cuts)), constant_values=np.inf) for cuts in each]
        )

    def step_events(self, data: MultiEnvironmentData, cuts: Floats, free: bool) -> Floats:
        """Return the events (E, S) in the steps with these cuts, with those of pseudo-data."""
        assert data.event is not None
        environment = data.environment_index
        rates = self.rates(data)
        shape = (data.n_environments, cuts.shape[-1] + 1)
        times = rates.cumulative(data.y)
        ends = _of_rows(rates.cumulative(cuts), environment)
        watched = np.column_stack(
            [np.bincount(environment, part, shape[0]) for part in within_intervals(times, ends)]
        )
        pseudo = self.shares(data) * baseline_ratios(data, data.event, times, free)
        cell = environment * shape[1] + interval_of(data.y, _of_rows(cuts, environment))
        return (
            np.bincount(cell, data.event, shape[0] * shape[1]).reshape(shape)
            + pseudo[:, None] * watched
        )

    def order(self, data: MultiEnvironmentData, free: bool = False) -> Integers:
        step = interval_of(data.y, _of_rows(self.step_cuts(data, free), data.environment_index))
        return np.lexsort((step, data.environment_index)).astype(np.int64)

    def arrange(
        self, data: MultiEnvironmentData, columns: Floats, order: Integers, free: bool = False
    ) -> Rows:
        """Time is counted in pooled cumulative hazards, so that all rates are 1; where baselines
        are free, as it is."""
        assert data.event is not None
        rates = self.rates(data)
        extra = self.shares(data)
        first = environment_starts(data)
        environment = data.environment_index
        cuts = self.step_cuts(data, free)
        step = interval_of(data.y, _of_rows(cuts, environment))
        events = self.step_events(data, cuts, free)
        expected = rates.cumulative(data.y)
        shape = events.shape
        times, ends = (
            (data.y / data.y.mean(), cuts / data.y.mean())
            if free
            else (expected, rates.cumulative(cuts))
        )
        counts = np.bincount(environment * shape[1] + step, minlength=events.size).reshape(shape)
        starts = np.column_stack([first[:-1], first[:-1, None] + np.cumsum(counts, axis=1)]).astype(
            np.int64
        )
        begins = np.column_stack(
            [np.zeros(shape[0]), np.broadcast_to(ends, (shape[0], shape[1] - 1))]
        )
        last = np.column_stack([~np.isfinite(begins[:, 1:]), np.ones(shape[0], dtype=bool)])
        pseudo = (extra * baseline_ratios(data, data.event, expected, free))[environment]
        weight = (1.0 + extra[environment]) * (times - begins[environment, step])
        # Nobody is watched beyond the last step.
        with np.errstate(invalid="ignore"):
            lengths = np.where(last, 0.0, np.diff(begins, append=0.0))
        widths = np.ascontiguousarray((1.0 + extra)[:, None] * lengths)
        firsts = np.arange(shape[1] + 1) if free else self._firsts(data, rates.cuts)
        joined = (
            np.ascontiguousarray(starts[:, firsts]),
            np.add.reduceat(events, firsts[:-1], axis=1),
        )
        spans = Spans(Intervals(starts, events), widths, Intervals(*joined), firsts)
        outcome = (data.event + pseudo * expected)[order]
        return Rows(PIECEWISE_EXPONENTIAL, columns, first, outcome, weight[order], spans=spans)

    def _firsts(self, data: MultiEnvironmentData, cuts: Floats) -> Integers:
        """Return the first step of each interval, of steps with these cuts, (J + 1,)."""
        return np.concatenate([[0], 1 + np.searchsorted(cuts, self.cuts(data)), [len(cuts) + 1]])

    def beginning(self, rows: Rows) -> Floats:
        return np.zeros((len(rows.starts), 0))


def _of_rows(cuts: Floats, environment: Integers) -> Floats:
    """Cuts of environments, if they have their own (E, S − 1), as those of rows (N, S − 1)"""
    return cuts if cuts.ndim == 1 else cuts[environment]


def _denser_at_the_ends(shares: Floats) -> Floats:
    """Few events in the first and the last steps, where hazards change most"""
    return np.asarray(np.sin(0.5 * np.pi * shares) ** 2)


def events_by_environment(data: MultiEnvironmentData) -> Integers:
    """Return the number of events of each environment, (E,)."""
    return np.bincount(data.environment_index, data.event, data.n_environments).astype(np.int64)


def _event_times(data: MultiEnvironmentData) -> Floats:
    assert data.event is not None
    return data.y[data.event > 0.0]
