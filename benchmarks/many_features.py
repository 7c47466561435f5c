"""Many features: does the sampler find the posterior's mode, how long does it take, and what does a
step cost?

python benchmarks/many_features.py                      a few data sets of the p=450 simulation, a
    minute or two
python benchmarks/many_features.py --sets 40 --rows 50 200 500 --environments 3 5 10 20 40    the
    whole table, hours
python benchmarks/many_features.py --methods tempering vi vi-lasso      BIP-VI at the paper's budget
    beside it
python benchmarks/many_features.py --at-a-time 8        that many fits at once, where there are the
    cores for it
python benchmarks/many_features.py --cost               cost per step against p = 100 … 10,000 and k
    = 5 … 100
"""

from __future__ import annotations

import argparse
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from dataclasses import astuple, dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from _harness import header, median_seconds, peak_memory_gb
from invariance import (
    BetaBinomialPrior,
    LinearGaussian,
    MultiEnvironmentData,
    Posterior,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.inference.base import Engine, RunOptions, Target
from invariance.inference.replicas import sampler_of
from invariance.kernels.active_set import active_set, add_column, flip_scores, load, remove_column
from invariance.kernels.subset_tree import score_block
from invariance.priors import Prior
from replication.simulators import p450

MAX_SIZE = 20
BOTH = ("uninformative", "informative")
UNIFORM = UniformPrior(MAX_SIZE)
BETA_BINOMIAL = BetaBinomialPrior(max_size=MAX_SIZE)
METHODS: dict[str, tuple[Engine, Prior]] = {
    "tempering": (Tempering(), UNIFORM),
    "tempering-bb": (Tempering(), BETA_BINOMIAL),
    "vi": (Variational(starts=BOTH), UNIFORM),
    "vi-lasso": (Variational(starts=BOTH, screen="lasso"), UNIFORM),
}


@dataclass
class Outcome:
    """One fit: did it find a subset at least as probable as the truth, the truth itself, and in
    what time?

    discovered: the most probable subset is the truth; by_halves: the features with inclusion above
    ½ are.
    """

    found: bool
    discovered: bool
    by_halves: bool
    truth: float
    converged: bool
    seconds: float


def fit(engine: Engine, prior: Prior, data: MultiEnvironmentData, seed: int, jobs: int) -> Outcome:
    model = LinearGaussian().bind(data)
    bound = prior.bind(data.feature_names, model.largest_size)
    started = time.perf_counter()
    with warnings.catch_warnings(), threadpool_limits(jobs):
        warnings.simplefilter("ignore")
        posterior: Posterior = engine.run(
            Target(model, bound), RunOptions(jobs, np.random.default_rng(seed), progress=False)
        )
    seconds = time.perf_counter() - started
    subsets = np.array([posterior.mode_mask, data.truth])
    mode, truth = model.log_ratio_many(subsets) + bound.log_prob(subsets)
    return Outcome(
        found=bool(mode >= truth - 1e-6),
        discovered=bool((posterior.mode_mask == data.truth).all()),
        by_halves=bool(((posterior.inclusion > 0.5) == data.truth).all()),
        truth=posterior.probability(data.truth),
        converged=bool(posterior.diagnostics.get("converged", False)),
        seconds=seconds,
    )


def data_set(n_environments: int, n_rows: int, seed: int) -> MultiEnvironmentData:
    rng = np.random.default_rng([seed, n_environments, n_rows])
    return p450(n_environments, rng).sample(n_rows, rng)


def numbered_fit(method: str, n_environments: int, n_rows: int, jobs: int, seed: int) -> Outcome:
    return fit(*METHODS[method], data_set(n_environments, n_rows, seed), seed, jobs)


def figures(outcomes: list[Outcome]) -> str:
    found, discovered, by_halves, truth, converged, _ = np.mean(
        [astuple(one) for one in outcomes], axis=0
    )
    times = [one.seconds for one in outcomes]
    shares = f"{found:>7.3f} {discovered:>7.3f} {by_halves:>7.3f} {truth:>8.3f} {converged:>6.2f}"
    return f"{shares} {np.median(times):>8.2f} {max(times):>7.2f}"


def recovery(
    environments: list[int],
    rows: list[int],
    methods: list[str],
    sets: int,
    jobs: int,
    at_a_time: int,
) -> None:
    print(f"\np=450, {sets} data sets a cell, {jobs} threads a fit, {at_a_time} at a time")
    print(
        "tempering-bb has the beta-binomial prior, the others the uniform one, over subsets of "
        f"at most {MAX_SIZE}"
    )
    print(
        "vi: BIP-VI with the paper's budget and two starts, screened by search; vi-lasso: by "
        "Lasso, as published"
    )
    print(
        "found: the mode is at least as probable as the truth; exact: it is the truth; half: the "
        "features with"
    )
    print(
        "inclusion above 1/2 are the truth; P(truth): mean posterior probability of the truth; "
        "agree: share of runs"
    )
    print("whose replicas agreed within the budget\n")
    measures = (
        f"{'found':>7} {'exact':>7} {'half':>7} {'P(truth)':>8} {'agree':>6} "
        f"{'median s':>8} {'max s':>7}"
    )
    print(f"{'method':12} {'E':>3} {'n':>4} {measures}")
    with ProcessPoolExecutor(at_a_time) as pool:
        for n_environments in environments:
            for n_rows in rows:
                for method in methods:
                    one = partial(numbered_fit, method, n_environments, n_rows, jobs)
                    row = figures(list(pool.map(one, range(sets))))
                    print(f"{method:12} {n_environments:>3} {n_rows:>4} {row}", flush=True)


def independent(
    p: int, n_environments: int = 2, n_rows: int = 300, seed: int = 0
) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(n_environments), n_rows)
    X = rng.normal(size=(len(environment), p))
    return MultiEnvironmentData.from_arrays(
        X, X[:, :3].sum(axis=1) + rng.normal(size=len(X)), environment
    )


def step_costs(target: Target, k: int) -> tuple[float, float, float]:
    """Microseconds: flip scores of all features with one update; factorising k members; one block
    of 12."""
    scoring = target.model.scoring()
    assert scoring is not None
    n_groups, d = scoring.inverse_scale.shape
    state = active_set(n_groups, d, k + 2)
    change = np.empty(d)
    included = np.zeros(d, bool)
    included[:k] = True

    def step() -> None:
        add_column(scoring, state, k)
        flip_scores(scoring, state, change)
        remove_column(scoring, state, k)

    load(scoring, state, included)
    block = np.arange(k), np.arange(13), np.arange(k, k + 12), np.empty(1 << 12)
    return (
        1e6 * median_seconds(step, 30),
        1e6 * median_seconds(lambda: load(scoring, state, included), 10),
        1e6 * median_seconds(lambda: score_block(scoring, *block), 10),
    )


def slopes(sizes: list[int], costs: list[tuple[float, float, float]]) -> str:
    logs = np.log(np.array(costs))
    return "  ".join(f"{np.polyfit(np.log(sizes), column, 1)[0]:.2f}" for column in logs.T)


def costs() -> None:
    title = f"{'':>7} {'step':>9} {'factorise':>10} {'block':>9}   microseconds, E=2, one core"
    print(f"\nstep: add one feature, score all p flips, remove it; block: 2^12 subsets\n\n{title}")
    features = [100, 300, 1000, 3000, 10_000]
    sizes = [5, 10, 20, 50, 100]
    measured = []
    for p in features:
        model = LinearGaussian().bind(independent(p))
        target = sampler_of(Target(model, UniformPrior(100).bind(p)), 1, RunOptions())
        measured.append(step_costs(target, 10))
        print(
            f"p={p:>5} {measured[-1][0]:>9.1f} {measured[-1][1]:>10.1f} {measured[-1][2]:>9.1f}",
            flush=True,
        )
    print(
        f"slope in p (k=10): {slopes(features, measured)}; from p=1,000 on: "
        f"{slopes(features[2:], measured[2:])}"
    )
    print(
        f"peak memory {peak_memory_gb():.2f} GB (second moments at p=10,000: "
        f"{3 * 10_001**2 * 8 / 1e9:.2f} GB)"
    )
    model = LinearGaussian().bind(independent(3000))
    target = sampler_of(Target(model, UniformPrior(120).bind(3000)), 1, RunOptions())
    measured = []
    for k in sizes:
        measured.append(step_costs(target, k))
        print(
            f"k={k:>5} {measured[-1][0]:>9.1f} {measured[-1][1]:>10.1f} {measured[-1][2]:>9.1f}",
            flush=True,
        )
    print(
        f"slope in k (p=3,000): {slopes(sizes, measured)}; from k=20 on: "
        f"{slopes(sizes[2:], measured[2:])}"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--environments", type=int, nargs="+", default=[3, 10])
    parser.add_argument("--rows", type=int, nargs="+", default=[200])
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument(
        "--methods", nargs="+", choices=METHODS, default=["tempering", "tempering-bb"]
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--at-a-time", type=int, default=1)
    parser.add_argument("--cost", action="store_true")
    choices = parser.parse_args()
    header("Sampling subsets of many features")
    if choices.cost:
        costs()
    else:
        fit(Tempering(chains=1, steps=1, searches=1), UNIFORM, data_set(2, 50, 0), 0, 1)  # compiles
        recovery(
            choices.environments,
            choices.rows,
            choices.methods,
            choices.sets,
            choices.jobs,
            choices.at_a_time,
        )
