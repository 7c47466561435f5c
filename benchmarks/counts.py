"""Counts: how often the truth is rejected, what is found, and how fast.

python benchmarks/counts.py --jobs 16              all
python benchmarks/counts.py calibration            logistic and survival outcomes too (--families
    Poisson for one)
python benchmarks/counts.py discovery
python benchmarks/counts.py speed                  subsets a second of one core, beside statsmodels
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy import special
from scipy.optimize import brentq

from _harness import header
from invariance import (
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    NegativeBinomial,
    PiecewiseExponential,
    Poisson,
    Tolerance,
)
from invariance.kernels.likelihoods import POISSON, Rows
from invariance.models.base import BoundModel, Family
from invariance.models.invariance_test import EACH
from invariance.models.regression import environment_starts

LEVEL = 0.05
N_ENVIRONMENTS = 5
SHIFT = 0.7
P = 6
N_CAUSES = 2
MASKS = (np.arange(1 << P)[:, None] >> np.arange(P) & 1).astype(bool)
TRUTH = np.arange(P) < N_CAUSES
MODELS: dict[str, Family] = {"negative binomial": NegativeBinomial(), "Poisson": Poisson()}


def draw(
    n: int, n_environments: int, dispersion: float, mean: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows, counts and environments: two causes, whose means differ by environment; two effects of
    the count, whose coefficient and mean differ; a sibling, made of the causes, and a feature of
    its own."""
    site = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(len(site), P)) + 0.5 * rng.normal(size=(n_environments, P))[site]
    slopes = rng.choice([-1.0, 1.0], N_CAUSES) * rng.uniform(0.3, 0.7, N_CAUSES)
    rate = mean * np.exp(X[:, :N_CAUSES] @ slopes)
    scatter = rng.gamma(1.0 / dispersion, dispersion, len(site)) if dispersion > 0.0 else 1.0
    y = rng.poisson(rate * scatter).astype(float)
    X[:, 2:4] += rng.uniform(-0.5, 1.5, (n_environments, 2))[site] * np.log1p(y)[:, None]
    X[:, 4] = rng.uniform(-1.0, 1.5, n_environments)[site] * X[:, 0] + X[:, 1] + 0.5 * X[:, 4]
    return X, y, site


@dataclass(frozen=True)
class Cell:
    """Invariant data of one cause: `level` is the mean at 0, or the share of events (logistic,
    survival)."""

    family: str
    level: float
    slope: float
    dispersion: float
    n: int
    exposed: bool = False

    def draw(self, rng: np.random.Generator) -> MultiEnvironmentData:
        site = np.repeat(np.arange(N_ENVIRONMENTS), self.n)
        x = rng.normal(size=len(site)) + SHIFT * rng.normal(size=N_ENVIRONMENTS)[site]
        eta = self.slope * x
        more = {}
        if self.family == "logistic":
            at = brentq(lambda at: special.expit(eta + at).mean() - self.level, -50.0, 50.0)
            y = rng.random(len(x)) < special.expit(eta + at)
        elif self.family == "survival":
            y = rng.exponential(np.exp(-eta)) + 1e-12
            leaves = rng.exponential(1.0, len(x))
            leaves *= brentq(lambda unit: (y <= unit * leaves).mean() - self.level, 1e-9, 1e9)
            more = {"event": (y <= leaves).astype(float)}
            y = np.minimum(y, leaves)
        else:
            exposure = np.exp(rng.normal(size=len(x))) if self.exposed else np.ones(len(x))
            scatter = (
                rng.gamma(1.0 / self.dispersion, self.dispersion, len(x))
                if self.dispersion
                else 1.0
            )
            y = rng.poisson(self.level * exposure * np.exp(eta) * scatter)
            more = {"exposure": exposure} if self.exposed else {}
        # An environment may have one value of the outcome.
        data = MultiEnvironmentData.from_arrays(x[:, None], rng.normal(size=len(x)), site)
        return replace(data, y=y.astype(float), **more)


class AtPooledMean(Poisson):
    """Pseudo-data at the pooled rate, whatever the features are"""

    def arrange(self, data: MultiEnvironmentData, columns: np.ndarray, order: np.ndarray) -> Rows:
        y, expected, exposure = self.guarded(data, order)
        extra = np.repeat(self.shares(data), data.counts)
        return Rows(
            POISSON,
            columns,
            environment_starts(data),
            y + extra * expected,
            (1.0 + extra) * exposure,
        )


FAMILIES = {
    "Poisson": (Poisson(), AtPooledMean()),
    "negative binomial": (NegativeBinomial(),),
    "logistic": (Logistic(),),
    "survival": (PiecewiseExponential(),),
}


def one_set(cell: Cell, seed: int) -> list[float]:
    """Of the truth: p-value, −2 log Λ over its expectation, p-values of the rule and of each
    environment; then p-value and ratio with the other pseudo-data."""
    warnings.simplefilter("ignore")
    numbers = (cell.level, cell.slope, cell.dispersion, cell.n, cell.exposed)
    rng = np.random.default_rng([seed, *(int(100 * number) for number in numbers)])
    data = cell.draw(rng)
    found = []
    truth = np.ones((1, 1), dtype=bool)
    while not data.y.any():
        data = cell.draw(rng)
    for place, family in enumerate(FAMILIES[cell.family]):
        model = family.bind(data, 1)
        log_ratio = model.log_ratio_many(truth)
        found += [
            model.invariance_tails(truth, log_ratio)[0],
            log_ratio[0] / model.null_many(truth).expected[0],
        ]
        if not place:
            test = model.invariance_test(truth, Tolerance())
            found += [test.joint[0], test.each[0]]
    return [*map(float, found), *[np.nan] * (6 - len(found))]


def cells(families: list[str]) -> Iterator[Cell]:
    for family in families:
        if family in ("logistic", "survival"):
            yield from (
                Cell(family, *given)
                for given in product((0.5, 0.05), (0.3, 0.8, 1.5, 3.0), (0.0,), (50, 200))
            )
        else:
            dispersions = (0.0,) if family == "Poisson" else (0.05, 0.5)
            given = product(
                (1.0, 10.0, 100.0, 1000.0), (0.3, 0.8, 1.5), dispersions, (50, 200), (False, True)
            )
            yield from (Cell(family, *each) for each in given)


def calibration(sets: int, jobs: int, families: list[str]) -> None:
    print(
        "\nInvariant outcome of one cause whose mean differs by environment (standard deviation "
        f"{SHIFT:g}), E = 5,"
    )
    print(
        f"{sets} data sets a cell. mean: at 0, or the share of events. T: −2 log Λ. rejected: "
        f"p-value below {LEVEL:g};"
    )
    print(
        "rule: rejected with the usual tolerance; each: an environment deviates from the rest. "
        "Then rejected and"
    )
    print("T/E[T] with pseudo-data at the pooled mean.")
    head = (
        "mean",
        "slope",
        "scatter",
        "n",
        "exposure",
        "rejected",
        "T/E[T]",
        "rule",
        "each",
        "at mean",
        "T/E[T]",
    )
    print(f"{'family':<18}" + "".join(f"{name:>9}" for name in head))
    for cell in cells(families):
        found = np.array(Parallel(jobs)(delayed(one_set)(cell, seed) for seed in range(sets)))
        p_values, ratio, rule, each, other, its_ratio = found.T
        tolerance = Tolerance()
        shown = [(p_values < LEVEL).mean(), ratio.mean(), (rule < tolerance.level).mean()]
        shown += [(each < EACH * tolerance.level).mean()]
        shown += [] if np.isnan(other).any() else [(other < LEVEL).mean(), its_ratio.mean()]
        exposed = "yes" if cell.exposed else "no"
        about = f"{cell.level:>9g}{cell.slope:>9g}{cell.dispersion:>9g}{cell.n:>9}{exposed:>9}"
        print(
            f"{cell.family:<18}{about}" + "".join(f"{value:>9.3f}" for value in shown), flush=True
        )


def chosen(model: BoundModel) -> np.ndarray:
    """(p,) of the subsets that are not rejected, the one with the smallest BIC"""
    log_ratios = model.log_ratio_many(MASKS)
    gain = model.gain_many(MASKS)
    kept = model.invariance_tails(MASKS, log_ratios) >= LEVEL
    cost = np.where(kept, MASKS.sum(axis=1) * np.log(model.n_rows) - 2.0 * gain, np.inf)
    return MASKS[cost.argmin()] if kept.any() else np.zeros(P, dtype=bool)


def discovery(draws: int) -> None:
    print(
        f"\nexactly the causes found: the smallest BIC of what {LEVEL:.0%} does not reject; "
        f"{draws} data sets a cell"
    )
    models = MODELS | {"Gaussian on log(1 + y)": LinearGaussian()}
    print(f"{'n':>5}{'E':>4}{'mean':>6}{'alpha':>7}" + "".join(f"{name:>26}" for name in models))
    for mean, dispersion, n, n_environments in product(
        (1.0, 10.0), (0.0, 0.5), (50, 100, 200), (5,)
    ):
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
    """All subsets of ten of 15 features beside the other five, N = 1,000, E = 5; statsmodels: some
    of them."""
    import statsmodels.api as sm

    n = 200
    n_environments = 5
    p = 15
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
        started = time.thread_time()
        times = 0
        while time.thread_time() - started < 5.0:
            subset = rng.random(p) < 0.5
            for own in [*(site == e for e in range(n_environments)), np.ones(len(y), bool)]:
                design = np.column_stack([np.ones(own.sum()), X[np.ix_(own, subset)]])
                reference[name](y[own], design).fit(disp=False)
            times += 1
        theirs = times / (time.thread_time() - started)
        print(
            f"  {name:<20}{ours:8,.0f}   statsmodels {theirs:6.1f}   {ours / theirs:8,.0f} times",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "part", nargs="?", choices=["all", "calibration", "discovery", "speed"], default="all"
    )
    parser.add_argument("--sets", type=int, default=500, help="data sets a cell")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--families", nargs="+", choices=list(FAMILIES), default=list(FAMILIES))
    given = parser.parse_args()
    header("Counts")
    warnings.simplefilter("ignore")
    if given.part in ("all", "calibration"):
        calibration(given.sets, given.jobs, given.families)
    if given.part in ("all", "discovery"):
        discovery(given.sets)
    if given.part in ("all", "speed"):
        speed()


if __name__ == "__main__":
    main()
