"""The check by random forests: how often it raises an alarm, beside tests of the same forests' residuals alone.

python benchmarks/residual_check.py                     150 data sets a cell (a quarter of an hour on one core)
python benchmarks/residual_check.py --rows 100 --simulations 20
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import levene, mannwhitneyu
from sklearn.ensemble import RandomForestRegressor

from _harness import header
from additive import simulated
from invariance import MultiEnvironmentData
from invariance.decisions.residual_check import residual_check

ROWS = 100, 200


def residuals_alone(data: MultiEnvironmentData, mask: np.ndarray, seed: int) -> bool:
    """Wilcoxon's and Levene's test of each environment's residuals against all others', by Bonferroni's rule at 5%"""
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
    found: dict[str, list[tuple[bool, bool]]] = {"the causes": [], "a cause left out": [], "another feature added": []}
    for seed in range(simulations):
        rng = np.random.default_rng([seed, n])
        data = simulated(rng, n, curved=True)
        assert data.truth is not None
        subsets = {"the causes": data.truth}
        if seed < simulations // 3:
            subsets["a cause left out"] = changed(rng, data.truth, False)
            subsets["another feature added"] = changed(rng, data.truth, True)
        for name, mask in subsets.items():
            found[name].append((residual_check(data, mask, seed).alarm, residuals_alone(data, mask, seed)))
    for name, pairs in found.items():
        check, alone = np.mean(pairs, axis=0)
        print(f"{n:>6} {name:<24} {len(pairs):>10} {check:>8.3f} {alone:>17.3f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=150)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS, help="of each environment")
    arguments = parser.parse_args()
    header("residual check, curved data, p = 6, E = 5: share of alarms at 5%")
    print(f"\n{'n_e':>6} {'subset':<24} {'data sets':>10} {'check':>8} {'residuals alone':>17}")
    for n in arguments.rows:
        alarms(n, arguments.simulations)
