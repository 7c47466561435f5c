"""Gene scale: how long one target gene takes on one core, 6,169 features, 262 wild types and 1,479
deletions.

Times are CPU seconds of one thread: what a core that does nothing else takes, also where others are
busy beside it.

python benchmarks/gene_scale.py                         BIP-VI, PyTorch and tempering, few
    iterations, extrapolated
python benchmarks/gene_scale.py --vi --iterations 10000     BIP-VI with the paper's whole budget,
    nothing extrapolated
python benchmarks/gene_scale.py --tempering --targets 5
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.special import logit
from threadpoolctl import threadpool_limits

from _harness import header, peak_memory_gb
from invariance import (
    BetaBinomialPrior,
    LinearGaussian,
    Moments,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    Variational,
)
from invariance.inference.base import Engine, RunOptions, Target
from invariance.inference.mean_field import FreeSpace, climb
from invariance.priors import Prior
from replication.knockouts import Deletions, knockouts

PUBLISHED = 10_000
PUBLISHED_PRIOR = UniformPrior(max_size=200)
START = 0.02
# Under the published prior the expected size rises from 0.02 · p to about this.
LATER_SIZE = 170


def cpu_seconds(function: Callable[[], Any]) -> float:
    started = time.process_time()
    function()
    return time.process_time() - started


def target_moments(data: Deletions, gene: str) -> Moments:
    """Of one gene given all others, without the samples where it is deleted itself."""
    kept = np.delete(np.arange(len(data.samples)), data.deleting(gene))
    values = data.values[kept]
    column = data.place[gene]
    others = np.delete(values, column, axis=1)
    return Moments.from_data(
        MultiEnvironmentData.from_arrays(others, values[:, column], data.environments[kept])
    )


def target_of(moments: Moments, prior: Prior) -> Target:
    model = LinearGaussian().bind(moments, n_jobs=1)
    return Target(model, prior.bind(moments.feature_names, model.largest_size))


def engine_seconds(moments: Moments, engine: Engine, prior: Prior) -> float:
    """Of a whole run, second moments given."""
    target = target_of(moments, prior)
    options = RunOptions(1, np.random.default_rng(0), progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return cpu_seconds(lambda: engine.run(target, options))


def seconds_an_iteration(moments: Moments, inclusion: float, iterations: int) -> float:
    """Of the ascent alone, from the same inclusion probability of all features."""
    space = FreeSpace(target_of(moments, PUBLISHED_PRIOR))
    logits = np.full(moments.n_features, logit(inclusion))

    def ascend(steps: int) -> None:
        climb(
            space, logits, np.random.default_rng(0), Variational.genes(iterations=steps, leading=1)
        )

    ascend(1)
    return cpu_seconds(lambda: ascend(iterations)) / iterations


def variational(moments: Moments, iterations: int) -> float:
    """Seconds a target at the published budget: measured, or extrapolated from fewer iterations at
    its two ends."""
    engine_seconds(moments, Variational.genes(iterations=1), PUBLISHED_PRIOR)  # compiles
    if iterations >= PUBLISHED:
        total = engine_seconds(moments, Variational.genes(), PUBLISHED_PRIOR)
        print(f"BIP-VI, {PUBLISHED:,} iterations: {total:.1f} s a target, measured")
        return total
    around = engine_seconds(moments, Variational.genes(iterations=1), PUBLISHED_PRIOR)
    print(f"BIP-VI, all but the ascent: {around:.1f} s")
    each = []
    for size in (START * moments.n_features, LATER_SIZE):
        each.append(seconds_an_iteration(moments, size / moments.n_features, iterations))
        print(
            f"BIP-VI, {size:.0f} features expected: {1e3 * each[-1]:.2f} ms an iteration",
            flush=True,
        )
    total = around + PUBLISHED * float(np.mean(each))
    print(
        f"BIP-VI, {PUBLISHED:,} iterations: {total:.1f} s a target, EXTRAPOLATED from "
        f"{iterations} at either size"
    )
    return total


def straightforward_torch(moments: Moments, iterations: int) -> float:
    import torch

    from _torch_vi import TorchVI

    torch.set_num_threads(1)
    ascent = TorchVI(moments, PUBLISHED_PRIOR.max_size)
    start = np.full(moments.n_features, START)
    ascent.run(start, seed=0, iterations=1, pairs=10)
    per_iteration = (
        cpu_seconds(lambda: ascent.run(start, seed=0, iterations=iterations, pairs=10)) / iterations
    )
    total = PUBLISHED * per_iteration
    print(
        f"PyTorch, one target at a time: {1e3 * per_iteration:.1f} ms an iteration, the ascent "
        "alone"
    )
    print(
        f"PyTorch, {PUBLISHED:,} iterations: {total:.0f} s a target, EXTRAPOLATED from {iterations}"
    )
    return total


def tempering(data: Deletions, genes: list[str]) -> None:
    prior = BetaBinomialPrior(max_size=20)
    times = [engine_seconds(target_moments(data, gene), Tempering(), prior) for gene in genes]
    print(
        f"tempering, beta-binomial prior up to 20: {np.median(times):.1f} s a target, median of "
        f"{len(times)} (",
        end="",
    )
    print(f"{min(times):.1f} to {max(times):.1f}; the first compiles)")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--vi", action="store_true")
    parser.add_argument("--torch", action="store_true")
    parser.add_argument("--tempering", action="store_true")
    parser.add_argument("--genes", type=int, default=6170)
    parser.add_argument("--targets", type=int, default=3, help="of tempering")
    parser.add_argument(
        "--iterations", type=int, default=200, help="of BIP-VI; 10000 is the paper's budget"
    )
    parser.add_argument("--torch-iterations", type=int, default=10)
    choices = parser.parse_args()
    every = not (choices.vi or choices.torch or choices.tempering)
    header("Gene scale, one core")
    simulated = knockouts(genes=choices.genes, seed=0).data
    genes = (
        np.random.default_rng(0).choice(simulated.genes, choices.targets, replace=False).tolist()
    )
    with threadpool_limits(1):
        if every or choices.vi or choices.torch:
            moments = target_moments(simulated, genes[0])
            print(
                f"{moments.n_features:,} features, {moments.n_rows:,} samples; "
                f"{peak_memory_gb():.2f} GB with moments"
            )
        if every or choices.vi:
            ours = variational(moments, choices.iterations)
            print(f"peak memory {peak_memory_gb():.2f} GB")
        if every or choices.torch:
            theirs = straightforward_torch(moments, choices.torch_iterations)
        if every or (choices.vi and choices.torch):
            print(f"PyTorch / BIP-VI: {theirs / ours:.1f}")
        if every or choices.tempering:
            tempering(simulated, genes)
