"""The tests of environments, and the check by random forests: how often they raise an alarm.

python benchmarks/residual_check.py                     150 data sets a cell (a quarter of an hour
    on one core)
python benchmarks/residual_check.py --rows 100 --simulations 20
python benchmarks/residual_check.py --noise --simulations 1000 --jobs 16     noise that is not
    normal, by linear models
"""

from __future__ import annotations

import argparse
from itertools import product

import numpy as np
from joblib import Parallel, delayed
from scipy.stats import levene, mannwhitneyu
from sklearn.ensemble import RandomForestRegressor

from _harness import header
from additive import simulated
from invariance import LinearGaussian, MultiEnvironmentData
from invariance.decisions.environments import compared_environments
from invariance.decisions.residual_check import residual_check

ROWS = 100, 200


def residuals_alone(data: MultiEnvironmentData, mask: np.ndarray, seed: int) -> bool:
    """Wilcoxon's and Levene's test of each environment's residuals against all others', by
    Bonferroni's rule at 5%"""
    forest = RandomForestRegressor(100, min_samples_leaf=5, oob_score=True, random_state=seed)
    left = data.y - forest.fit(data.X[:, mask], data.y).oob_prediction_
    own = [data.environment_index == e for e in range(data.n_environments)]
    p_values = [test(left[e], left[~e]).pvalue for e in own for test in (mannwhitneyu, levene)]
    return bool(min(p_values) * len(p_values) < 0.05)


def changed(rng: np.random.Generator, mask: np.ndarray, on: bool) -> np.ndarray:
    """The mask with one feature, at random, added to it or left out"""
    other = mask.copy()
    other[rng.choice(np.flatnonzero(mask != on))] = on
    return other


def alarms(n: int, simulations: int) -> None:
    found: dict[str, list[tuple[bool, bool]]] = {
        "the causes": [],
        "a cause left out": [],
        "another feature added": [],
    }
    for seed in range(simulations):
        rng = np.random.default_rng([seed, n])
        data = simulated(rng, n, curved=True)
        assert data.truth is not None
        subsets = {"the causes": data.truth}
        if seed < simulations // 3:
            subsets["a cause left out"] = changed(rng, data.truth, False)
            subsets["another feature added"] = changed(rng, data.truth, True)
        for name, mask in subsets.items():
            found[name].append(
                (residual_check(data, mask, seed).alarm, residuals_alone(data, mask, seed))
            )
    for name, pairs in found.items():
        check, alone = np.mean(pairs, axis=0)
        print(f"{n:>6} {name:<24} {len(pairs):>10} {check:>8.3f} {alone:>17.3f}", flush=True)


NOISES = {
    "normal": np.random.Generator.standard_normal,
    "t5": lambda rng, size: rng.standard_t(5, size),
    "t3": lambda rng, size: rng.standard_t(3, size),
    "exponential": np.random.Generator.standard_exponential,
}
PARTS = "intercept", "slopes", "variance"
FAULTS = "none", *PARTS


def one_alarm(noise: str, fault: str, n: int, n_environments: int, seed: int) -> list[bool]:
    """Whether there is an alarm by all parts and by each alone; with a fault, in the first
    environment, the right one. Faults are the larger the fewer rows: 0.6 deviations, a slope by
    0.5, and a noise by 0.7 at 50."""
    rng = np.random.default_rng([seed, n, n_environments])
    place = np.repeat(np.arange(n_environments), n)
    scale = rng.uniform(0.5, 2.0, (n_environments, 2))
    shift = rng.normal(size=(n_environments, 2))
    X = rng.normal(size=(len(place), 2)) * scale[place] + shift[place]
    left = NOISES[noise](rng, len(place))
    first = place == 0
    size = np.sqrt(50 / n)
    unit = np.sqrt(3.0) if noise == "t3" else 1.0
    left *= 1.0 + 0.7 * size * first * (fault == "variance")
    y = X[:, 0] - X[:, 1] + left + 0.6 * size * unit * first * (fault == "intercept")
    y -= 0.5 * size * unit * X[:, 0] * first * (fault == "slopes")
    model = LinearGaussian().bind(MultiEnvironmentData.from_arrays(X, y, place.tolist()))
    compared = compared_environments(model, np.ones(2, dtype=bool))
    found = [test.deviation for test in compared.tests]
    p_values = np.array(
        [[each.p_value, *(each.parts[part].p_value for part in PARTS)] for each in found]
    )
    right = (p_values.argmin(axis=0) == 0) | (fault == "none")
    return list((p_values.min(axis=0) < compared.threshold) & right)


def noises(simulations: int, jobs: int) -> None:
    print(
        f"\n{'noise':<12} {'fault':<10} {'n_e':>4} {'E':>3} {'alarm':>6}"
        + "".join(f"{part:>11}" for part in PARTS)
    )
    for fault, noise, n, n_environments in product(FAULTS, NOISES, (20, 50, 200), (3, 5, 10)):
        if fault != "none" and (noise not in ("normal", "t3") or n_environments == 5):
            continue
        tasks = (
            delayed(one_alarm)(noise, fault, n, n_environments, seed) for seed in range(simulations)
        )
        shares = np.mean(Parallel(jobs)(tasks), axis=0)
        figures = "".join(f"{share:>11.3f}" for share in shares[1:])
        print(
            f"{noise:<12} {fault:<10} {n:>4} {n_environments:>3} {shares[0]:>6.3f}{figures}",
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=150)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="of each environment")
    parser.add_argument(
        "--noise", action="store_true", help="tests of environments given the causes"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes, with --noise")
    arguments = parser.parse_args()
    if arguments.noise:
        header(
            "tests of environments, two causes: share of data sets with an alarm, by all parts "
            "and by each alone"
        )
        noises(arguments.simulations, arguments.jobs)
        parser.exit()
    header("residual check, curved data, p = 6, E = 5: share of alarms at 5%")
    print(f"\n{'n_e':>6} {'subset':<24} {'data sets':>10} {'check':>8} {'residuals alone':>17}")
    for n in arguments.rows:
        alarms(n, arguments.simulations)
