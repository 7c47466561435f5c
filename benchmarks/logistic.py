"""The logistic model: how often it rejects the truth, how often it finds it beside the linear
Gaussian, and its speed.

python benchmarks/logistic.py calibration   500 simulations a cell (some minutes)
python benchmarks/logistic.py discovery     100 data sets a cell (some minutes)
python benchmarks/logistic.py speed         subsets a second of one core, beside statsmodels (a
    minute)
python benchmarks/logistic.py many          200 features, 5,000 rows, 5 environments by tempering
    (minutes)
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from _harness import header
from invariance import (
    BIP,
    BetaBinomialPrior,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Poisson,
)
from invariance.exceptions import DataError
from invariance.models.regression import Regression

_SIMULATIONS = 500
_DATA_SETS = 100


def with_outcome(X: np.ndarray, y: np.ndarray, environment: np.ndarray) -> MultiEnvironmentData:
    """Also where the outcome is constant inside an environment."""
    return replace(MultiEnvironmentData.from_arrays(X, X[:, 0], environment), y=y)


def invariant_rows(
    n: int, n_environments: int, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Two causes that shift between environments, and an outcome that follows them alike, 1 in a
    share of the rows."""
    environment = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(environment), 2)) + rng.normal(size=(n_environments, 2))[environment]
    slopes = X @ (rng.choice([-1.0, 1.0], 2) * rng.uniform(0.5, 1.2, 2))
    level = brentq(lambda value: expit(slopes + value).mean() - share, -40.0, 40.0)
    return X, (rng.random(len(X)) < expit(slopes + level)).astype(float), environment


def calibration() -> None:
    print(
        "\nThe truth, two causes: share rejected at 5%, and mean of −2 log Λ/df; without "
        "pseudo-data, with one row"
    )
    print(f"{'events':>7} {'E':>3} {'n_e':>4} {'plain':>12} {'pseudo_rows=1':>14}")
    truth = np.ones((1, 2), dtype=bool)
    for share in (0.5, 0.05):
        for n_environments in (2, 5, 10):
            for n in (50, 100, 200):
                rng = np.random.default_rng((n, n_environments, int(100 * share)))
                rejected = np.zeros(2)
                ratio = np.zeros(2)
                for _ in range(_SIMULATIONS):
                    rows = invariant_rows(n, n_environments, share, rng)
                    while not 0.0 < rows[1].mean() < 1.0:
                        rows = invariant_rows(n, n_environments, share, rng)
                    for column, weight in enumerate((0.0, 1.0)):
                        model = Logistic(weight).bind(with_outcome(*rows))
                        log_ratio = model.log_ratio_many(truth)
                        null = model.null_many(truth)
                        rejected[column] += model.invariance_tails(truth, log_ratio)[0] < 0.05
                        ratio[column] += log_ratio[0] / null.expected[0]
                cells = [
                    f"{r:.3f} {m:.2f}"
                    for r, m in zip(rejected / _SIMULATIONS, ratio / _SIMULATIONS, strict=True)
                ]
                print(
                    f"{share:>7.0%} {n_environments:>3} {n:>4} {cells[0]:>12} {cells[1]:>14}",
                    flush=True,
                )


def with_decoys(
    n: int, n_environments: int, p: int, strength: float, rng: np.random.Generator
) -> tuple[np.ndarray, ...]:
    """Two or three causes, whose law given nothing else shifts in every environment; the outcome;
    two features that follow it so strongly, differently in each environment; the others are
    irrelevant. Returns X, y, environment, truth."""
    environment = np.repeat(np.arange(n_environments), n)
    n_causes = int(rng.integers(2, 4))
    X = rng.normal(size=(len(environment), p)) + rng.normal(size=(n_environments, p))[environment]
    slopes = rng.choice([-1.0, 1.0], n_causes) * rng.uniform(0.7, 1.5, n_causes)
    predictor = X[:, :n_causes] @ slopes
    y = (rng.random(len(X)) < expit(predictor - predictor.mean())).astype(float)
    for j in (p - 1, p - 2):
        X[:, j] += (rng.normal(size=n_environments) + 1.0)[environment] * strength * (y - 0.5)
    return X, y, environment, np.arange(p) < n_causes


def discovery() -> None:
    print(f"\nExactly the causes, of {_DATA_SETS} data sets: rule 'predictive' and 'mode'")
    print(
        "Followers of the outcome shift by (1 + z)·strength, z normal by environment; the "
        "Gaussian model refuses an"
    )
    print("environment with one value, and then has found nothing.")
    print(f"{'strength':>8} {'p':>3} {'E':>3} {'n_e':>4} {'logistic':>12} {'Gaussian':>12}")
    cells = ((6, 3, 100), (6, 5, 100), (6, 5, 300), (8, 5, 200))
    for strength, (p, n_environments, n) in product((1.0, 2.0), cells):
        rng = np.random.default_rng((p, n_environments, n))
        found = np.zeros((2, 2))
        for _ in range(_DATA_SETS):
            X, y, environment, truth = with_decoys(n, n_environments, p, strength, rng)
            for row, family in enumerate((Logistic(), LinearGaussian())):
                for column, rule in enumerate(("predictive", "mode")):
                    found[row, column] += is_found(
                        BIP(family, select=rule, progress=False), X, y, environment, truth
                    )
        shares = [f"{a:.2f} {b:.2f}" for a, b in found / _DATA_SETS]
        print(
            f"{strength:>8g} {p:>3} {n_environments:>3} {n:>4} {shares[0]:>12} {shares[1]:>12}",
            flush=True,
        )


def is_found(
    model: BIP, X: np.ndarray, y: np.ndarray, environment: np.ndarray, truth: np.ndarray
) -> bool:
    try:
        return bool((model.fit(X, y, environments=environment).support_ == truth).all())
    except DataError:
        return False


def core_seconds(function: Callable[[], object], repeats: int = 3) -> float:
    """Least time that this thread was at work in a call."""
    times = []
    for _ in range(repeats):
        started = time.thread_time()
        function()
        times.append(time.thread_time() - started)
    return min(times)


def speed() -> None:
    import statsmodels.api as sm

    print("\nN=1,000, E=5, p=15, thousand subsets/s of one core")
    print(f"{'':>10} {'all subsets':>12} {'one by one':>11} {'statsmodels':>12}")
    rng = np.random.default_rng(0)
    environment = np.repeat(np.arange(5), 200)
    X = rng.normal(size=(1000, 15)) + 0.7 * rng.normal(size=(5, 15))[environment]
    predictor = 0.8 * (X[:, 0] - X[:, 1] + 0.5 * X[:, 2])
    binary = rng.random(1000) < expit(predictor)
    whole = rng.poisson(np.exp(0.4 * predictor))
    families = (
        ("logistic", Logistic(), binary, sm.families.Binomial()),
        ("Poisson", Poisson(), whole, sm.families.Poisson()),
    )
    for label, specification, y, family in families:
        model = specification.bind(
            MultiEnvironmentData.from_arrays(X, y.astype(float), environment)
        )
        walked = walk_seconds(specification, X, y.astype(float), environment)
        masks = rng.random((500, 15)) < 0.5
        listed = core_seconds(lambda model=model, masks=masks: model.scores(masks)) / len(masks)
        rows = [np.flatnonzero(environment == e) for e in range(5)] + [np.arange(1000)]

        started = time.thread_time()
        for mask in masks[:20]:
            for group in rows:
                sm.GLM(y[group], sm.add_constant(X[np.ix_(group, mask)]), family=family).fit()
        loop = (time.thread_time() - started) / 20
        print(
            f"{label:>10} {1e-3 / walked:>12.1f} {1e-3 / listed:>11.1f} {1e-3 / loop:>12.3f}",
            flush=True,
        )


def walk_seconds(
    specification: Regression, X: np.ndarray, y: np.ndarray, environment: np.ndarray
) -> float:
    """Of a subset in a walk over four blocks of all."""
    walk = specification.bind(MultiEnvironmentData.from_arrays(X, y, environment)).subset_walk(
        np.arange(15), np.empty(0, np.int64)
    )
    blocks = [
        np.array(high, np.int64) for high in ([], [10, 11], [12, 13, 14], [10, 11, 12, 13, 14])
    ]

    def walked() -> None:
        walk.model.walked.clear()
        for high in blocks:
            walk.dense(high, np.ones(16, dtype=bool))

    walked()
    return core_seconds(walked) / (len(blocks) << walk.n_low)


def many() -> None:
    rng = np.random.default_rng(0)
    environment = np.repeat(np.arange(5), 1000)
    hidden = rng.normal(size=(5000, 20))
    X = rng.normal(size=(5000, 200)) + 0.2 * hidden @ rng.normal(size=(20, 200))
    X += 0.7 * rng.normal(size=(5, 200))[environment]
    y = rng.random(5000) < expit(X[:, 0] - X[:, 1] + 0.7 * X[:, 2] - 0.6 * X[:, 3])
    for j in range(10, 20):
        X[:, j] += rng.normal(size=5)[environment] * 2.0 * (y - 0.5)
    started = time.perf_counter()
    worked = time.process_time()
    model = BIP(Logistic(), prior=BetaBinomialPrior(max_size=20), n_jobs=2, random_state=0)
    model.fit(X, y.astype(float), environments=environment)
    print(
        f"\n{time.perf_counter() - started:.0f} s, {time.process_time() - worked:.0f} s of all "
        "cores"
    )
    print("selected:", ", ".join(model.selected_features_), "(truth: x0, x1, x2, x3)")
    print(model.posterior_.summary(5))


if __name__ == "__main__":
    chosen = sys.argv[1:] or ["calibration", "discovery", "speed", "many"]
    header("The logistic model")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in chosen:
            {"calibration": calibration, "discovery": discovery, "speed": speed, "many": many}[
                name
            ]()
