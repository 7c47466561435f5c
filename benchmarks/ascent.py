"""How far BIP-VI has come with 450 features: q at the true subset along the ascent.

python benchmarks/ascent.py                 a data set for each number of rows and strength, 40
    environments; a minute
python benchmarks/ascent.py --sets 2        as in docs/results/replication.md

The paper's budget, learning rates and informative start (Lasso on standardised features), an
infeasible draw below the worst feasible one. Data sets are those of `python -m replication
comparison-p450`.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np
from scipy.special import entr, expit

from _harness import header, table
from invariance import UniformPrior, Variational
from invariance.inference.base import RunOptions, Target
from invariance.inference.mean_field import FreeSpace
from invariance.kernels.mean_field import Objective, Trace, ascend
from invariance.models.gaussian import LinearGaussian
from replication import make_study
from replication.simulators import p450

ITERATIONS = 2000
SHOWN = (250, 500, 1000, 1500, 2000)
ENVIRONMENTS = 40


def course(n: int, strength: float, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """q at the truth and the training ELBO at each iteration, and whether q's mode is the truth
    there"""
    study = make_study("comparison-p450", "paper")
    cell = next(
        c for c in study.cells() if (c["n"], c["E"], c["strength"]) == (n, ENVIRONMENTS, strength)
    )
    rng = study.rng(cell, number)
    data = p450(ENVIRONMENTS, rng, strength=strength).sample(n, rng)
    model = LinearGaussian().bind(data)
    space = FreeSpace(Target(model, UniformPrior(20).bind(data.feature_names, model.largest_size)))
    engine = Variational.simulation(starts=("informative",), infeasible="relative")
    ready = engine.prepare(space, RunOptions(rng=np.random.default_rng(number), progress=False))
    logits, rng = ready.starts["informative"]
    prior = space.target.prior.over_free
    f = len(logits)
    objective = Objective(
        prior.log_odds, prior.log_size_weight, prior.max_size, float(data.n_rows), np.nan
    )
    uniforms = rng.random((ITERATIONS, engine.pairs, f))
    trace = Trace(*np.empty((3, ITERATIONS)), np.empty((ITERATIONS, f)))
    exact_kl = np.ones(ITERATIONS, dtype=bool)
    rates = engine.schedule.rates(ITERATIONS)
    scorer = space.scorer(engine.memory, searching=True)
    ascend(logits.copy(), uniforms, rates, exact_kl, objective, np.zeros(1), scorer, trace)
    q = expit(trace.logits)
    elbo = trace.elbo + (entr(q) + entr(1.0 - q)).sum(axis=1)
    at_truth = np.where(data.truth, q, 1.0 - q).prod(axis=1)
    return at_truth, elbo, ((q > 0.5) == data.truth).all(axis=1)


def main(sets: int) -> None:
    rows = []
    found = []
    for n in (50, 200, 500):
        ascents = [course(n, strength, number) for strength in (0.5, 1.0) for number in range(sets)]
        exact = [one for one in ascents if one[2][-1]]
        found += exact
        rows.append([f"n = {n}", f"{len(exact)} of {len(ascents)}", *means(exact)])
    table(
        ["", "truth found", *(f"iteration {t:,}" for t in SHOWN), "highest training ELBO"],
        [*rows, ["all", "", *means(found)]],
    )


def means(ascents: list[tuple[np.ndarray, np.ndarray, np.ndarray]]) -> list[str]:
    at = [[q[t - 1] for t in SHOWN] + [q[int(np.argmax(elbo))]] for q, elbo, _ in ascents]
    return [f"{mean:.2f}" for mean in np.mean(at, axis=0)] if at else [""] * (len(SHOWN) + 1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--sets", type=int, default=1, help="data sets for each number of rows and strength"
    )
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    header("The ascent of BIP-VI")
    print("Mean q at the true subset where the ascent ends with the truth, 40 environments\n")
    main(given.sets)
