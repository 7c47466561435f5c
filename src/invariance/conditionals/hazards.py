"""Hazards that are constant within intervals of time, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Floats, Integers


@dataclass(frozen=True, eq=False)
class PiecewiseHazard:
    """cuts (J − 1,): where one interval ends and the next begins, an end belonging to the former; hazards (J,):
    events per unit of time. The first interval begins at 0, and the last one has no end: its hazard goes on.
    """

    cuts: Floats
    hazards: Floats

    @property
    def starts(self) -> Floats:
        """(J,)"""
        return np.concatenate([[0.0], self.cuts])

    @property
    def _before(self) -> Floats:
        """(J,) the cumulative hazard at the start of each interval"""
        return np.concatenate([[0.0], np.cumsum(self.hazards[:-1] * np.diff(self.starts))])

    def cumulative(self, times: Floats) -> Floats:
        """The integral of the hazard from 0 to each of `times`, of any shape."""
        j = interval_of(times, self.cuts)
        return self._before[j] + self.hazards[j] * (times - self.starts[j])

    def times(self, cumulative: Floats) -> Floats:
        """When the cumulative hazard reaches each of these values; infinite where it never does."""
        j = np.maximum(np.searchsorted(self._before, cumulative, side="left") - 1, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            rest = (cumulative - self._before[j]) / self.hazards[j]
        return np.where(cumulative > 0.0, self.starts[j] + rest, 0.0)

    def survival(self, risk: Floats, times: Floats) -> Floats:
        """The probability that nothing has happened by `times` at `risk` times these hazards, of shapes that go
        together."""
        cumulative = self.cumulative(np.asarray(times, dtype=float))
        with np.errstate(over="ignore", invalid="ignore"):
            return np.exp(-np.where(cumulative > 0.0, risk * cumulative, 0.0))

    def expected_time(self, risk: Floats) -> Floats:
        """(n,) the mean time to the event at `risk` (n,) times these hazards."""
        widths = np.append(np.diff(self.starts), np.inf)
        alive = self.survival(risk[:, None], self.starts)
        rates = np.multiply.outer(risk, self.hazards)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            within = np.where(rates > 0.0, -np.expm1(-rates * widths) / rates, widths)
        return np.asarray(np.where(alive > 0.0, alive * within, 0.0).sum(axis=-1))


def interval_of(times: Floats, cuts: Floats) -> Integers:
    """Which interval each of the times ends in."""
    return np.searchsorted(cuts, times, side="left")


def cuts_at(events: Floats, shares: Floats) -> Floats:
    """Times of events by which these shares of them have occurred, each once, so that none of the intervals between is
    without an event."""
    cuts = np.unique(np.quantile(events, shares, method="inverted_cdf")) if len(shares) else np.zeros(0)
    return cuts[cuts < events.max()]


def equal_shares(n: int) -> Floats:
    """(n − 1,) that divide events into n parts"""
    return np.arange(1, n) / n


def shares_close_at_ends(n: int) -> Floats:
    """(n − 1,) as `equal_shares`, with few events in the first and the last parts, where hazards change most."""
    return np.asarray(np.sin(0.5 * np.pi * equal_shares(n)) ** 2)


def within_intervals(times: Floats, cuts: Floats) -> Iterator[Floats]:
    """(N,) how much of its time each row spends in an interval, for one after the other"""
    for start, end in zip((0.0, *cuts), (*cuts, np.inf), strict=True):
        yield np.clip(np.minimum(times, end) - start, 0.0, None)
