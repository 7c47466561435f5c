"""Counts: how often the truth is rejected, what is found, and how fast.

python benchmarks/counts.py                        all (a quarter of an hour)
python benchmarks/counts.py calibration --dispersions 0.3 1
python benchmarks/counts.py discovery
python benchmarks/counts.py speed                  subsets a second of one core, beside statsmodels
"""

from __future__ import annotations

import argparse
import time
import warnings
from itertools import product

import numpy as np

from _harness import header
from invariance import LinearGaussian, MultiEnvironmentData, NegativeBinomial, Poisson
from invariance.models.base import BoundModel, Family

LEVEL = 0.05
P, N_CAUSES = 6, 2
MASKS = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(bool)
TRUTH = np.arange(P) < N_CAUSES
MODELS: dict[str, Family] = {"negative binomial": NegativeBinomial(), "Poisson": Poisson()}


def draw(
    n: int, n_environments: int, dispersion: float, mean: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, counts and environments: two causes, whose means differ by environment; two effects of the count, whose
    coefficient and mean differ; a sibling, made of the causes, and a feature of its own."""
    site = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(site), P)) + 0.5 * rng.normal(size=(n_environments, P))[site]
    slopes = rng.choice([-1.0, 1.0], N_CAUSES) * rng.uniform(0.3, 0.7, N_CAUSES)
    rate = mean * np.exp(X[:, :N_CAUSES] @ slopes)
    scatter = rng.gamma(1.0 / dispersion, dispersion, len(site)) if dispersion > 0.0 else 1.0
    y = rng.poisson(rate * scatter).astype(float)
    X[:, 2:4] += rng.uniform(-0.5, 1.5, (n_environments, 2))[site] * np.log1p(y)[:, None]
    X[:, 4] = rng.uniform(-1.0, 1.5, n_environments)[site] * X[:, 0] + X[:, 1] + 0.5 * X[:, 4]
    return X, y, site


def rejected(model: BoundModel) -> tuple[bool, float]:
    """Whether the truth is, and −2 log Λ over its expectation."""
    log_ratios = model.log_ratio_many(TRUTH[None])
    tails, expected = model.invariance_tails(TRUTH[None], log_ratios), model.null_many(TRUTH[None]).expected
    return bool(tails[0] < LEVEL), float(log_ratios[0] / expected[0])


def calibration(draws: int, dispersions: list[float]) -> None:
    print(f"\nthe truth rejected at {LEVEL:.0%}, and the mean of log Λ over what is expected; {draws} data sets a cell")
    print(f"{'n':>5}{'E':>4}{'mean':>6}{'alpha':>7}" + "".join(f"{name:>26}" for name in MODELS))
    for mean, dispersion, n, n_environments in product((1.0, 10.0), dispersions, (50, 100, 200), (2, 5, 10)):
        rng = np.random.default_rng(1)
        found: dict[str, list[tuple[bool, float]]] = {name: [] for name in MODELS}
        for _ in range(draws):
            data = MultiEnvironmentData.from_arrays(*draw(n, n_environments, dispersion, mean, rng))
            for name, family in MODELS.items():
                found[name].append(rejected(family.bind(data, 1)))
        shown = ["{:14.3f} ({:.2f})".format(*np.mean(values, axis=0)) for values in found.values()]
        print(f"{n:5}{n_environments:4}{mean:6.0f}{dispersion:7.1f}" + "".join(f"{s:>26}" for s in shown), flush=True)


def chosen(model: BoundModel) -> np.ndarray:
    """(p,) of the subsets that are not rejected, the one with the smallest BIC"""
    log_ratios, gain = model.log_ratio_many(MASKS), model.gain_many(MASKS)
    kept = model.invariance_tails(MASKS, log_ratios) >= LEVEL
    cost = np.where(kept, MASKS.sum(axis=1) * np.log(model.n_rows) - 2.0 * gain, np.inf)
    return MASKS[cost.argmin()] if kept.any() else np.zeros(P, dtype=bool)


def discovery(draws: int) -> None:
    print(f"\nexactly the causes found: the smallest BIC of what {LEVEL:.0%} does not reject; {draws} data sets a cell")
    models = MODELS | {"Gaussian on log(1 + y)": LinearGaussian()}
    print(f"{'n':>5}{'E':>4}{'mean':>6}{'alpha':>7}" + "".join(f"{name:>26}" for name in models))
    for mean, dispersion, n, n_environments in product((1.0, 10.0), (0.0, 0.5), (50, 100, 200), (5,)):
        rng = np.random.default_rng(2)
        exact: dict[str, list[bool]] = {name: [] for name in models}
        for _ in range(draws):
            X, y, site = draw(n, n_environments, dispersion, mean, rng)
            for name, family in models.items():
                outcome = np.log1p(y) if "log" in name else y
                model = family.bind(MultiEnvironmentData.from_arrays(X, outcome, site), 1)
                exact[name].append(bool((chosen(model) == TRUTH).all()))
        shown = "".join(f"{np.mean(values):26.2f}" for values in exact.values())
        print(f"{n:5}{n_environments:4}{mean:6.0f}{dispersion:7.1f}{shown}", flush=True)


def speed() -> None:
    """All subsets of ten of 15 features beside the other five, N = 1,000, E = 5; statsmodels: some of them."""
    import statsmodels.api as sm

    n, n_environments, p = 200, 5, 15
    rng = np.random.default_rng(3)
    X, y, site = draw(n, n_environments, 0.5, 3.0, rng)
    X = np.column_stack([X, rng.normal(size=(len(y), p - P))])
    data = MultiEnvironmentData.from_arrays(X, y, site)
    print(f"\nsubsets a second of one core, N = {len(y):,}, E = {n_environments}, p = {p}")
    reference = {"negative binomial": sm.NegativeBinomial, "Poisson": sm.Poisson}
    for name, family in MODELS.items():
        model = family.bind(data, 1)
        walk = model.subset_walk(np.arange(p), np.empty(0, np.int64))
        assert walk is not None
        walk.dense(np.empty(0, np.int64), np.ones(p + 1, bool))
        started = time.thread_time()
        for high in ([], [11, 13], [10, 12, 14], [10, 11, 12, 13, 14]):
            walk.dense(np.array(high, dtype=np.int64), np.ones(p + 1, bool))
        ours = 4 * (1 << walk.n_low) / (time.thread_time() - started)
        started, times = time.thread_time(), 0
        while time.thread_time() - started < 5.0:
            subset = rng.random(p) < 0.5
            for own in [*(site == e for e in range(n_environments)), np.ones(len(y), bool)]:
                design = np.column_stack([np.ones(own.sum()), X[np.ix_(own, subset)]])
                reference[name](y[own], design).fit(disp=False)
            times += 1
        theirs = times / (time.thread_time() - started)
        print(f"  {name:<20}{ours:8,.0f}   statsmodels {theirs:6.1f}   {ours / theirs:8,.0f} times", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("part", nargs="?", choices=["all", "calibration", "discovery", "speed"], default="all")
    parser.add_argument("--draws", type=int, default=500)
    parser.add_argument("--dispersions", type=float, nargs="+", default=[0.0, 0.3, 1.0])
    given = parser.parse_args()
    header("Counts")
    warnings.simplefilter("ignore")
    if given.part in ("all", "calibration"):
        calibration(given.draws, given.dispersions)
    if given.part in ("all", "discovery"):
        discovery(given.draws)
    if given.part in ("all", "speed"):
        speed()


if __name__ == "__main__":
    main()
