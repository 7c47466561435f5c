"""Times to an event: how often the truth is rejected, what is found, and how fast.

python benchmarks/survival.py calibration     500 data sets a cell, one thread (3 minutes)
python benchmarks/survival.py discovery       exact discovery beside the linear Gaussian of log time (2 minutes)
python benchmarks/survival.py speed           all subsets of 15 features beside a statsmodels loop (1 minute)
"""

from __future__ import annotations

import sys
import time
import warnings
from itertools import product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from _harness import header
from invariance import MultiEnvironmentData
from invariance.conditionals.piecewise_exponential import PiecewiseExponential
from invariance.inference.base import RunOptions
from invariance.inference.target import Target

SIMULATIONS = 500
CAUSES = np.array([0.8, -0.6, 0.4])
LEVEL = 0.05


class Times(NamedTuple):
    time: NDArray
    event: NDArray


def times(rng: np.random.Generator, eta: NDArray, shape: float, censored: float) -> Times:
    """Weibull times of rows with log relative risk eta, of which a share is censored, at times of the same law."""
    death, leaves = (rng.exponential(size=(2, len(eta))) * np.exp(-eta)) ** (1.0 / shape)
    leaves = rng.permutation(leaves) if censored else np.inf
    return Times(np.minimum(death, leaves), (death <= leaves).astype(float))


def of_causes(rng: np.random.Generator, n: int, n_environments: int, shape: float, censored: float) -> Times | object:
    """Three causes whose means and spread differ between environments, and nothing else."""
    environment = np.repeat(range(n_environments), n)
    shift = rng.normal(scale=0.7, size=(n_environments, len(CAUSES)))
    X = rng.normal(size=(len(environment), len(CAUSES))) * rng.uniform(0.7, 1.4, n_environments)[environment, None]
    X += shift[environment]
    found = times(rng, X @ CAUSES, shape, censored)
    return MultiEnvironmentData.from_arrays(X, found.time, environment, event=found.event)


def calibration() -> None:
    specification = PiecewiseExponential()
    print(f"\nrejected at {LEVEL:.0%} ({SIMULATIONS} data sets), and the mean of −2 log Λ over its expectation")
    print(f"{'':24}" + "".join(f"   n_e={n:<4}     " for n in (50, 100, 300)))
    everything = np.ones((1, len(CAUSES)), dtype=bool)
    for censored, shape, n_environments in product((0.0, 0.5), (1.0, 1.6), (2, 5, 10)):
        cells = []
        for n in (50, 100, 300):
            rng = np.random.default_rng([n, n_environments, int(10 * shape), int(10 * censored)])
            rejected, ratio = 0, 0.0
            for _ in range(SIMULATIONS):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = specification.bind(of_causes(rng, n, n_environments, shape, censored))
                value = model.log_ratio_many(everything)
                tails = model.invariance_tails(everything, value)
                rejected += tails.probability[0] < LEVEL
                ratio += value[0] / tails.expected[0]
            cells.append(f"  {rejected / SIMULATIONS:.3f}  {ratio / SIMULATIONS:.3f}  ")
        law = "exponential" if shape == 1.0 else "Weibull"
        print(f"{law:12} {censored:4.0%}  E={n_environments:<3}" + "".join(cells), flush=True)


if __name__ == "__main__":
    header("Times to an event")
    calibration()
