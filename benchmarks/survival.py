"""Times to an event: how often the truth is rejected, what is found, and how fast.

python benchmarks/survival.py calibration     500 data sets a cell, one thread (4 minutes)
python benchmarks/survival.py discovery       exact discovery beside the linear Gaussian of log time
    (2 minutes)
python benchmarks/survival.py speed           all subsets of 15 features beside a statsmodels loop
    (1 minute)
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _harness import header
from invariance import BIP, LinearGaussian, MultiEnvironmentData, PiecewiseExponential

SIMULATIONS = 500
CAUSES = np.array([0.8, -0.6, 0.4])
LEVEL = 0.05


class Times(NamedTuple):
    time: NDArray
    event: NDArray


def times(rng: np.random.Generator, eta: NDArray, shape: float, censored: float) -> Times:
    """Weibull times of rows with log relative risk eta, of which a share is censored, at times of
    the same law."""
    death, leaves = (rng.exponential(size=(2, len(eta))) * np.exp(-eta)) ** (1.0 / shape)
    leaves = rng.permutation(leaves) if censored else np.inf
    return Times(np.minimum(death, leaves), (death <= leaves).astype(float))


def of_causes(
    rng: np.random.Generator, n: int, n_environments: int, shape: float, censored: float
) -> MultiEnvironmentData:
    """Three causes whose means and spread differ between environments, and nothing else."""
    environment = np.repeat(range(n_environments), n)
    shift = rng.normal(scale=0.7, size=(n_environments, len(CAUSES)))
    X = (
        rng.normal(size=(len(environment), len(CAUSES)))
        * rng.uniform(0.7, 1.4, n_environments)[environment, None]
    )
    X += shift[environment]
    found = times(rng, X @ CAUSES, shape, censored)
    return MultiEnvironmentData.from_arrays(X, found.time, environment, event=found.event)


def calibration() -> None:
    """Beside a baseline that is constant within intervals, steps=1."""
    print(
        f"\nthe truth rejected at {LEVEL:.0%}, and the mean of −2 log Λ over its degrees of freedom"
    )
    print(
        f"{'baseline':13}{'censored':>9}{'E':>4}{'n_e':>5}"
        + "".join(f"{f'steps={s}':>17}" for s in (16, 1))
    )
    everything = np.ones((1, len(CAUSES)), dtype=bool)
    laws = {1.0: "exponential", 1.6: "Weibull 1.6", 0.6: "Weibull 0.6"}
    for censored, shape, n_environments, n in product((0.0, 0.5), laws, (2, 5, 10), (50, 100, 300)):
        cells = []
        for steps in (16, 1):
            rng = np.random.default_rng([n, n_environments, int(10 * shape), int(10 * censored)])
            p_values = []
            ratios = []
            for _ in range(SIMULATIONS):
                data = of_causes(rng, n, n_environments, shape, censored)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = PiecewiseExponential(steps=steps).bind(data)
                value = model.log_ratio_many(everything)
                tails = model.invariance_tails(everything, value)
                p_values.append(tails[0])
                ratios.append(value[0] / model.null_many(everything).expected[0])
            cells.append(f"{np.mean(np.array(p_values) < LEVEL):>9.3f}{np.mean(ratios):>8.3f}")
        print(
            f"{laws[shape]:13}{censored:>9.0%}{n_environments:>4}{n:>5}" + "".join(cells),
            flush=True,
        )


def with_decoys(rng: np.random.Generator, n: int, n_environments: int = 5) -> MultiEnvironmentData:
    """Three causes, two features that follow the time, differently in each environment, and one
    that follows nothing; a third is censored."""
    environment = np.repeat(range(n_environments), n)
    X = (
        rng.normal(size=(len(environment), 6))
        + rng.normal(scale=0.7, size=(n_environments, 6))[environment]
    )
    eta = X[:, :3] @ CAUSES
    death = (rng.exponential(size=len(eta)) * np.exp(-eta)) ** (1.0 / 1.4)
    for j in (3, 4):
        X[:, j] = rng.uniform(-1.0, 1.5, n_environments)[environment] * np.log(death) + rng.normal(
            size=len(eta)
        )
    leaves = rng.exponential(2.0 * np.median(death), len(eta))
    found = Times(np.minimum(death, leaves), (death <= leaves).astype(float))
    return MultiEnvironmentData.from_arrays(X, found.time, environment, event=found.event)


def of_log_time(data: MultiEnvironmentData) -> MultiEnvironmentData:
    return MultiEnvironmentData.from_arrays(data.X, np.log(data.y), data.environment_index)


def discovery(repeats: int = 100) -> None:
    truth = (True, True, True, False, False, False)
    faces: dict[str, tuple[BIP, Callable[[MultiEnvironmentData], MultiEnvironmentData]]] = {
        "piecewise exponential": (BIP(PiecewiseExponential(), progress=False), lambda data: data),
        "Gaussian of log time": (BIP(LinearGaussian(), progress=False), of_log_time),
    }
    print(
        f"\nexactly the causes, of {repeats} data sets with E=5, p=6 and a third censored: "
        "selected / mode"
    )
    print(f"{'':24}" + "".join(f"{f'n_e={n}':>14}" for n in (50, 100, 300)))
    for name, (face, of) in faces.items():
        cells = []
        for n in (50, 100, 300):
            rng = np.random.default_rng(n)
            selected = 0
            mode = 0
            for _ in range(repeats):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = face.fit(of(with_decoys(rng, n)))
                selected += tuple(model.support_) == truth
                mode += tuple(model.posterior_.masks[0]) == truth
            cells.append(f"{selected / repeats:.2f} / {mode / repeats:.2f}")
        print(f"{name:24}" + "".join(f"{cell:>14}" for cell in cells), flush=True)


def speed(p: int = 15, n: int = 200, n_environments: int = 5) -> None:
    rng = np.random.default_rng(0)
    environment = np.repeat(range(n_environments), n)
    X = rng.normal(size=(len(environment), p))
    found = times(rng, X[:, :3] @ CAUSES, 1.0, 0.5)
    data = MultiEnvironmentData.from_arrays(X, found.time, environment, event=found.event)
    print(
        f"\nsubsets a second of one thread's own time, N={data.n_rows}, E={n_environments}, p={p}"
    )
    for steps in (16, 1):
        sizes = np.ones(p + 1, dtype=bool)
        taken = []
        for _ in range(3):
            # A model remembers what it has scored.
            walk = (
                PiecewiseExponential(steps=steps)
                .bind(data)
                .subset_walk(np.arange(p), np.empty(0, np.int64))
            )
            rest = p - walk.n_low
            started = time.thread_time()
            for block in range(1 << rest):
                walk.dense(walk.n_low + np.flatnonzero(block >> np.arange(rest) & 1), sizes)
            taken.append(time.thread_time() - started)
        print(f"  steps={steps:<3} {2**p / min(taken) / 1e3:>8.1f} thousand", flush=True)
    print(
        f"  statsmodels {statsmodels_rate(data) / 1e3:>6.4f} thousand (Poisson regressions on "
        "split rows)"
    )


def statsmodels_rate(data: MultiEnvironmentData, repeats: int = 5) -> float:
    """Subsets of half of the features a second"""
    import statsmodels.api as sm

    cuts = PiecewiseExponential().cuts(data)
    starts = np.concatenate([[0.0], cuts])
    ends = np.append(cuts, np.inf)
    watched = np.clip(np.minimum(data.y[:, None], ends) - starts, 0.0, None)
    events = ((starts < data.y[:, None]) & (data.y[:, None] <= ends)) * data.event[:, None]
    row, interval = np.nonzero(watched)
    y = events[row, interval]
    exposure = watched[row, interval]
    dummies = np.eye(len(ends))[interval]
    rng = np.random.default_rng(1)
    started = time.thread_time()
    for _ in range(repeats):
        chosen = rng.random(data.n_features) < 0.5
        for e in (*range(data.n_environments), None):
            own = slice(None) if e is None else data.environment_index[row] == e
            design = np.column_stack([data.X[row][:, chosen], dummies])[own]
            sm.GLM(y[own], design, sm.families.Poisson(), exposure=exposure[own]).fit()
    return repeats / (time.thread_time() - started)


if __name__ == "__main__":
    header("Times to an event")
    parts = {"calibration": calibration, "discovery": discovery, "speed": speed}
    for part in sys.argv[1:] or parts:
        parts[part]()
