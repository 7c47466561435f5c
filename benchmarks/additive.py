"""Curves in the place of straight lines: what is found, how often the truth is rejected, and how
fast.

python benchmarks/additive.py                     300 data sets a cell, 100 for the rule (five
    minutes on one core)
python benchmarks/additive.py --data curved       one kind of data only
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence

import numpy as np

from _harness import header
from invariance import BIP, Additive, LinearGaussian, MultiEnvironmentData
from invariance.models.base import Family

MODELS: dict[str, Family] = {
    "straight lines": LinearGaussian(),
    "curves, all coefficients": Additive(comparison="all"),
    "curves, by shape": Additive(),
}
ROWS = 50, 100, 200, 500
FEATURES = 6
ENVIRONMENTS = 5
CURVES: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    lambda x: np.tanh(1.5 * x),
    lambda x: x**2,
    np.abs,
    np.sin,
    lambda x: np.logaddexp(0.0, 2.0 * x),
)


def simulated(rng: np.random.Generator, n: int, curved: bool) -> MultiEnvironmentData:
    """Two or three causes, shifted and rescaled in every environment; the outcome is a sum of a
    curve, or a straight line, of each; one or two features follow the outcome, and all environments
    but the first act on these; the rest is irrelevant, with a mean that differs by environment. In
    random order."""
    environment = np.repeat(range(ENVIRONMENTS), n)

    def by_environment(values: np.ndarray) -> np.ndarray:
        return values[environment]

    def noise() -> np.ndarray:
        return rng.normal(size=len(environment))

    n_causes = rng.integers(2, 4)
    n_effects = rng.integers(1, 3)
    X = np.empty((len(environment), FEATURES))
    y = rng.uniform(0.4, 0.8) * noise()
    for j in range(FEATURES):
        shift = rng.normal(size=ENVIRONMENTS)
        scale = rng.uniform(0.7, 1.5, size=ENVIRONMENTS)
        X[:, j] = by_environment(shift) + by_environment(scale) * noise()
    for j in range(n_causes):
        part = CURVES[rng.integers(len(CURVES))](X[:, j]) if curved else X[:, j]
        y += rng.choice([-1.0, 1.0]) * rng.uniform(0.8, 1.5) * part / part.std()
    for j in range(n_causes, n_causes + n_effects):
        hit = (rng.random(ENVIRONMENTS) < 0.7) & (np.arange(ENVIRONMENTS) > 0)
        slope = rng.uniform(0.5, 1.5) * np.where(
            hit, rng.uniform(-1.0, 1.5, size=ENVIRONMENTS), 1.0
        )
        shift = np.where(hit, rng.normal(scale=2.0, size=ENVIRONMENTS), 0.0)
        spread = np.where(hit, rng.uniform(0.5, 2.0, size=ENVIRONMENTS), 1.0)
        X[:, j] = (
            by_environment(shift) + by_environment(slope) * y + by_environment(spread) * noise()
        )
    order = rng.permutation(FEATURES)
    data = MultiEnvironmentData.from_arrays(X[:, order], y, environment)
    object.__setattr__(data, "truth", order < n_causes)
    return data


def measured(family: Family, n: int, curved: bool, simulations: int) -> tuple[float, float, float]:
    """Shares of data sets where the rule finds the causes, where the mode does, where the truth is
    rejected at 5%. The rule, which takes longer, on a third of them."""
    found = 0
    mode = 0
    rejected = 0
    masks = np.arange(2**FEATURES)[:, None] >> np.arange(FEATURES) & 1
    for seed in range(simulations):
        data = simulated(np.random.default_rng([seed, n]), n, curved)
        truth = data.truth
        assert truth is not None
        model = family.bind(data)
        log_ratios = model.log_ratio_many(masks)
        mode += bool((masks[np.argmax(log_ratios)] == truth).all())
        tails = model.invariance_tails(truth[None], model.log_ratio_many(truth[None]))
        rejected += bool(tails[0] < 0.05)
        if seed < simulations // 3:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                fit = BIP(family, progress=False, random_state=0).fit(data)
            found += bool((fit.support_ == truth).all())
    return found / (simulations // 3), mode / simulations, rejected / simulations


def discovery(kinds: Sequence[str], simulations: int) -> None:
    heading = "".join(f"{f'n = {n}':>20}" for n in ROWS)
    for kind in kinds:
        print(f"\n{kind} data, p = {FEATURES}, E = {ENVIRONMENTS}, {simulations} data sets a cell:")
        print(f"causes found by the rule / by the mode (truth rejected at 5%)\n{'':<26}{heading}")
        for name, family in MODELS.items():
            cells = [measured(family, n, kind == "curved", simulations) for n in ROWS]
            print(
                f"{name:<26}"
                + "".join(f"{f'{a:.2f} / {b:.2f} ({c:.3f})':>20}" for a, b, c in cells),
                flush=True,
            )


def speed() -> None:
    rng = np.random.default_rng(0)
    print(
        f"\nsubsets a second of one core, N = 1,000, E = 5, knots = 6\n{'features':>10} "
        f"{'thousand/s':>12}"
    )
    for p in (6, 10, 15):
        X = rng.normal(size=(1000, p))
        y = np.tanh(X[:, 0]) + X[:, 1] ** 2 + rng.normal(size=1000)
        model = Additive().bind(MultiEnvironmentData.from_arrays(X, y, np.repeat(range(5), 200)))
        masks = (np.arange(2**p)[:, None] >> np.arange(p) & 1).astype(bool)
        model.log_ratio_many(masks)
        started = time.process_time()
        model.log_ratio_many(masks)
        print(f"{p:>10} {len(masks) / (time.process_time() - started) / 1e3:>12.0f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=300)
    parser.add_argument(
        "--data", choices=["curved", "linear"], nargs="*", default=["curved", "linear"]
    )
    arguments = parser.parse_args()
    header("additive models")
    speed()
    discovery(arguments.data, arguments.simulations)
