"""Times to an event for tests, and the piecewise exponential likelihood on split rows in plain
NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from invariance import MultiEnvironmentData, PiecewiseExponential
from invariance.data.features import Features


def survived(
    n: int = 60,
    n_environments: int = 3,
    p: int = 5,
    seed: int = 0,
    shape: float = 1.4,
    grouped: bool = False,
) -> MultiEnvironmentData:
    """Times follow x0 and x2 alike in all environments, and the last feature follows them,
    differently in each; about a third of the rows is censored."""
    rng = np.random.default_rng(seed)
    environment = np.repeat(range(n_environments), n)
    X = (
        rng.normal(size=(len(environment), p))
        + 0.6 * rng.normal(size=(n_environments, p))[environment]
    )
    times = (rng.exponential(size=len(X)) * np.exp(-0.9 * X[:, 0] + 0.7 * X[:, 2])) ** (1.0 / shape)
    X[:, -1] = np.resize([1.0, -0.5, 0.3], n_environments)[environment] * np.log(
        times
    ) + rng.normal(size=len(X))
    leaves = rng.exponential(2.0, len(X))
    data = MultiEnvironmentData.from_arrays(
        X, np.minimum(times, leaves), environment, event=times <= leaves
    )
    if not grouped:
        return data
    features = Features.of(data.feature_names, {"g": ("x0", "x1")})
    return replace(
        data, feature_names=features.names, original_features=features.names, grouping=features
    )


class Split(NamedTuple):
    """Rows split at the ends of S steps. events, watched (N, S): with pseudo-data; group (S,): the
    interval of each."""

    events: NDArray
    watched: NDArray
    group: NDArray


def split(data: MultiEnvironmentData, specification: PiecewiseExponential) -> Split:
    fine = specification.rates(data).cuts
    cuts = specification.cuts(data)
    starts = np.concatenate([[0.0], fine])
    ends = np.append(fine, np.inf)
    watched = np.clip(np.minimum(data.y[:, None], ends) - starts, 0.0, None)
    events = ((starts < data.y[:, None]) & (data.y[:, None] <= ends)) * data.event[:, None]
    rate = events.sum(axis=0) / watched.sum(axis=0)
    share = (specification.pseudo_rows / data.counts)[data.environment_index][:, None]
    group = np.array([np.sum(cuts < end) for end in ends])
    return Split(events + share * rate * watched, (1.0 + share) * watched, group)


def split_by_site(
    data: MultiEnvironmentData, specification: PiecewiseExponential
) -> list[tuple[NDArray, NDArray]]:
    """events, watched (n, S) of each environment, with pseudo-data, split at quantiles of its own
    events"""
    rates = specification.rates(data)
    n_steps = 2 * specification.steps
    found = []
    shares = np.sin(0.5 * np.pi * np.arange(1, n_steps) / n_steps) ** 2
    for e, n in enumerate(data.counts):
        rows = data.rows(e)
        y = data.y[rows, None]
        event = data.event[rows, None]
        happened = np.sort(y[event == 1.0])
        cuts = np.unique(
            happened[np.maximum(np.ceil(shares * len(happened) - 1e-9).astype(int) - 1, 0)]
        )
        cuts = cuts[cuts < happened[-1]]
        starts = np.append(0.0, cuts)
        ends = np.append(cuts, np.inf)
        watched = np.clip(np.minimum(y, ends) - starts, 0.0, None)
        expected = rates.cumulative(np.minimum(y, ends)) - rates.cumulative(np.minimum(y, starts))
        ratio = (n * event.sum() / expected.sum() + 1.0) / (n + 1.0)
        share = specification.pseudo_rows / n
        events = ((starts < y) & (y <= ends)) * event + share * ratio * expected
        found.append((events, (1.0 + share) * watched))
    return found


def hazards_of(events: NDArray, watched: NDArray, eta: NDArray) -> NDArray:
    """(S,) the likeliest at log relative risks eta (N,)"""
    return events.sum(axis=0) / (np.exp(eta) @ watched)


def log_likelihood(events: NDArray, watched: NDArray, eta: NDArray, hazards: NDArray) -> float:
    """Of a Poisson law for each row and step, up to a constant"""
    mean = np.exp(eta)[:, None] * hazards * watched
    log_mean = eta[:, None] + np.log(hazards)
    return float(np.sum(np.where(events > 0.0, events * log_mean, 0.0)) - mean.sum())
