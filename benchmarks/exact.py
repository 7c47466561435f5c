"""Exact inference: subsets per second, memory, and the plain ways of doing it beside ours.

python benchmarks/exact.py            p = 10, 15, 20, 25 and the comparisons (under a minute)
python benchmarks/exact.py --billion  adds p = 30, streamed
python benchmarks/exact.py --predictive  only the predictive posterior beside the paper's
"""

from __future__ import annotations

import os
import sys
from itertools import combinations
from math import comb

import numpy as np

from _harness import header, median_seconds, peak_memory_gb, seconds
from _plain import least_squares, subsets
from invariance import BIP, Enumeration, LinearGaussian, MultiEnvironmentData, UniformPrior
from invariance.decisions.predictive import predictive_posterior
from invariance.inference.base import RunOptions, Target
from invariance.inference.enumeration import subset_blocks


def simulated(p: int, n: int = 200, n_environments: int = 5, seed: int = 0) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(n_environments), n)
    X = rng.normal(size=(n * n_environments, p)) * (1 + environment[:, None] / 2) + rng.normal(
        size=p
    )
    y = X[:, :3].sum(axis=1) + rng.normal(size=len(X))
    X[:, p - 1] += (1 + environment) * y
    return MultiEnvironmentData.from_arrays(X, y, environment)


def plain_loop(data: MultiEnvironmentData) -> np.ndarray:
    """The paper's Algorithm 1 as one writes it down: a least-squares fit per subset and
    environment."""
    return np.array([least_squares(data, columns) for columns in subsets(data.n_features)])


def batched_cholesky(data: MultiEnvironmentData) -> np.ndarray:
    """Second moments once, then numpy's batched Cholesky over all subsets of one size."""
    moments = LinearGaussian().bind(data).moments
    p = data.n_features
    counts = moments.group_counts
    scales = np.sqrt(np.einsum("gjj->gj", moments.scatter))
    grams = moments.scatter / scales[:, :, None] / scales[:, None, :]
    weights = 0.5 * np.append(counts[:-1], -counts[-1])
    offset = weights @ np.log(scales[:, -1] ** 2 / counts)
    values = np.empty(1 << p)
    for k in range(p + 1):
        subsets = np.array(list(combinations(range(p), k)), dtype=int).reshape(comb(p, k), k)
        codes = (1 << subsets).sum(axis=1)
        columns = np.column_stack([subsets, np.full(len(subsets), p)])
        batch = grams[:, columns[:, :, None], columns[:, None, :]]
        pivots = np.linalg.cholesky(batch)[..., -1, -1] ** 2
        values[codes] = offset + weights @ np.log(pivots)
    return values


def throughput() -> None:
    cores = os.cpu_count() or 1
    print(
        f"\n{'p':>3} {'subsets':>13} {'1 core':>10} {f'{cores} cores':>10} "
        f"{'M subsets/s/core':>17} {'peak GB':>8}"
    )
    for p in (10, 15, 20, 25, *([30] if "--billion" in sys.argv else [])):
        model = LinearGaussian().bind(simulated(p))
        prior = UniformPrior().bind(p)
        engine = Enumeration(time_limit=None)

        def run(jobs, model=model, prior=prior, engine=engine):
            return engine.run(Target(model, prior), RunOptions(n_jobs=jobs))

        timed = seconds if p == 30 else median_seconds
        every = timed(lambda: run(cores))
        one = timed(lambda: run(1))
        rate = (1 << p) / one / 1e6
        print(
            f"{p:>3} {1 << p:>13,} {one:>9.3f}s {every:>9.3f}s {rate:>17.1f} "
            f"{peak_memory_gb():>8.2f}",
            flush=True,
        )


def all_log_ratios(model) -> np.ndarray:
    """(2**p,) by the walk of an enumeration"""
    walk = model.subset_walk(np.arange(model.n_features), np.empty(0, np.int64))
    blocks = subset_blocks(walk, UniformPrior().bind(model.n_features))
    return np.concatenate([blocks.scored(b).log_ratio for b in range(blocks.n_blocks)])


def against_plain() -> None:
    print(
        f"\n{'p':>3} {'plain loop':>12} {'batched Cholesky':>17} {'ours, 1 core':>13} "
        f"{'ratios':>20}"
    )
    small = simulated(10)
    assert np.allclose(plain_loop(small), all_log_ratios(LinearGaussian().bind(small)), rtol=1e-8)
    for p in (10, 15):
        data = simulated(p)
        ours = median_seconds(lambda data=data: all_log_ratios(LinearGaussian().bind(data)), 200)
        reference = all_log_ratios(LinearGaussian().bind(data))
        batched = median_seconds(lambda data=data: batched_cholesky(data), 1)
        assert np.allclose(batched_cholesky(data), reference, rtol=1e-8)
        loop = seconds(lambda: plain_loop(small)) * (1 << p) / (1 << 10)
        ratios = f"{loop / ours:>9.0f}× {batched / ours:>8.0f}×"
        print(
            f"{p:>3} {loop:>10.2f}s{'*' if p > 10 else ' '} {batched:>16.3f}s "
            f"{ours * 1e3:>11.2f}ms {ratios:>20}"
        )
    print("    * 32 times the loop at p=10; longer fits would make it slower still")


def estimator() -> None:
    data = simulated(10)
    fit = median_seconds(lambda: BIP().fit(data.X, data.y, environments=data.environment_index), 50)
    print(f"\nBIP().fit at p=10, arrays to posterior, warm: {fit * 1e3:.1f} ms")


def scaling() -> None:
    print("\nnanoseconds per subset, all 2^18 (1 core)")
    prior = UniformPrior().bind(18)
    for label, settings in (
        ("n = 50, 200, 2000 (E=5)", [(50, 5), (200, 5), (2000, 5)]),
        ("E = 2, 5, 10, 20 (n=200)", [(200, 2), (200, 5), (200, 10), (200, 20)]),
    ):
        figures = []
        for n, n_environments in settings:
            model = LinearGaussian().bind(simulated(18, n, n_environments))
            figures.append(
                median_seconds(
                    lambda m=model: Enumeration(rescore=0).run(Target(m, prior), RunOptions()), 3
                )
            )
        print(f"  {label:26} " + "  ".join(f"{t / (1 << 18) * 1e9:6.1f}" for t in figures))


def predictive() -> None:
    cores = os.cpu_count() or 1
    print(
        f"\n{'p':>3} {'largest':>8} {'subsets':>12} {'paper':>9} {'predictive':>11} "
        f"{'compatible':>12}  {cores} cores"
    )
    for p, max_size in ((10, None), (15, None), (20, None), (24, None), (60, 4)):
        model = LinearGaussian().bind(simulated(p), n_jobs=cores)
        target = Target(model, UniformPrior(max_size).bind(p))
        options = RunOptions(n_jobs=cores)
        paper = median_seconds(lambda t=target, o=options: Enumeration().run(t, o), 3)
        posteriors = []

        def run(target=target, options=options, posteriors=posteriors):
            posteriors.append(predictive_posterior(target, Enumeration(), options))

        ours = median_seconds(run, 3)
        found = posteriors[-1].diagnostics
        number = f"{'' if found['compatible_counted'] else '≥ '}{found['subsets_compatible']:,}"
        n_subsets = target.prior.support_size()
        print(
            f"{p:>3} {max_size or p:>8} {n_subsets:>12,} {paper:>8.3f}s {ours:>10.3f}s "
            f"{number:>12}",
            flush=True,
        )


if __name__ == "__main__":
    header("Exact enumeration, E=5, n=200 per environment")
    if "--predictive" in sys.argv:
        predictive()
        sys.exit()
    throughput()
    against_plain()
    estimator()
    scaling()
