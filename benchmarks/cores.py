"""Many cores: wall time, processor time and results by the number of workers.

python benchmarks/cores.py                     24 to 28 and 30 features: subsets, fits; tempering,
    logistic, a sweep
python benchmarks/cores.py --quick             small forms of all (under a minute of one core)
python benchmarks/cores.py --only exact,fit    some of: exact, fit, mode, tempering, logistic, sweep
python benchmarks/cores.py --features 24,25 --workers 1,2,4

"busy": processor time over wall time × workers, at most 1 but for what others than our workers
burn. Results must be the same to the last bit for every number of workers; a run ends with an error
where they are not. BLAS has its default number of threads, unless OMP_NUM_THREADS is set.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from _harness import header
from exact import simulated
from invariance import (
    BIP,
    Enumeration,
    LinearGaussian,
    Logistic,
    MultiEnvironmentData,
    Tempering,
    UniformPrior,
    sweep,
)
from invariance.inference.base import RunOptions, Target

Run = Callable[[int], Any]


def exact(p: int) -> Run:
    target = Target(LinearGaussian().bind(simulated(p)), UniformPrior().bind(p))
    return lambda n_jobs: Enumeration(time_limit=None).run(
        target, RunOptions(n_jobs=n_jobs, progress=False)
    )


def fit(p: int, **settings: Any) -> Run:
    data = simulated(p)
    engine = Enumeration(time_limit=None)

    def run(n_jobs: int) -> Any:
        model = BIP(engine=engine, n_jobs=n_jobs, progress=False, **settings)
        model.fit(data.X, data.y, environments=data.environment_index)
        return model.decision_.posterior

    return run


def binary(p: int, n: int, seed: int = 0) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    environment = np.repeat(np.arange(5), n)
    X = rng.normal(size=(5 * n, p)) + rng.normal(size=(5, p))[environment]
    y = rng.random(5 * n) < 1.0 / (1.0 + np.exp(-X[:, :3].sum(axis=1)))
    return MultiEnvironmentData.from_arrays(X, y.astype(float), environment)


def logistic(p: int) -> Run:
    data = binary(p, 100)

    def run(n_jobs: int) -> Any:
        # What a model scored it remembers.
        target = Target(Logistic().bind(data, n_jobs), UniformPrior().bind(p))
        return Enumeration(time_limit=None).run(target, RunOptions(n_jobs=n_jobs, progress=False))

    return run


def tempering(p: int, chains: int, steps: int) -> Run:
    target = Target(LinearGaussian().bind(simulated(p)), UniformPrior(max_size=20).bind(p))
    engine = Tempering(chains=chains, steps=steps, searches=1, precision=1e-9)

    def run(n_jobs: int) -> Any:
        warnings.simplefilter("ignore")
        options = RunOptions(n_jobs=n_jobs, rng=np.random.default_rng(0), progress=False)
        return engine.run(target, options)

    return run


def whole_sweep(p: int, outcomes: int) -> Run:
    """A chain, each column the cause of the next, in environments that move the first."""
    rng = np.random.default_rng(0)
    site = np.repeat(np.arange(5), 200)
    X = rng.normal(size=(1000, p))
    X[:, 0] = (1.0 + site) * X[:, 0] + site
    for j in range(1, p):
        X[:, j] += 0.8 * X[:, j - 1]
    table = pd.DataFrame(X, columns=[f"x{j}" for j in range(p)]).assign(site=site)
    names = [f"x{1 + j % (p - 1)}" for j in range(outcomes)]
    model = BIP(prior=UniformPrior(max_size=3), progress=False)

    def run(n_jobs: int) -> Any:
        found = sweep(
            table, model, environments="site", outcomes=names, n_jobs=n_jobs, progress=False
        )
        return found.drop(columns="seconds")

    return run


def compared(result: Any) -> list[Any]:
    """What must be the same for any number of workers."""
    if isinstance(result, pd.DataFrame):
        return [result.to_csv(index=False)]
    arrays = result.inclusion, result.masks, result.log_ratios, result.log_probabilities
    return [*(values.tobytes() for values in arrays), result.log_evidence, result.entropy]


def processor_seconds() -> float:
    """Of this process and of its children, those that still run too where the system tells."""
    times = os.times()
    ticks = 1.0
    total = times.user + times.system + times.children_user + times.children_system
    if sys.platform == "linux":
        ticks = os.sysconf("SC_CLK_TCK")
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == os.getpid():
                total += (int(fields[11]) + int(fields[12])) / ticks
    return total


def measured(
    name: str, size: float, run: Run, workers: list[int], repeats: int, warm: Run | None = None
) -> None:
    """size: subsets, or 0 where they are not counted; warm: to be run before, where workers have to
    be started"""
    first: list[Any] = []
    alone = np.nan
    for n in workers:
        walls = []
        busy = []
        if warm is not None:
            warm(n)
        for repeat in range(repeats):
            started = time.perf_counter()
            worked = processor_seconds()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = compared(run(n))
            walls.append(time.perf_counter() - started)
            busy.append((processor_seconds() - worked) / walls[-1] / n)
            if not first:
                first = result
            if result != first:
                sys.exit(f"{name}: another result with {n} workers in run {repeat + 1}")
        wall = min(walls)
        alone = wall * n if np.isnan(alone) else alone
        rate = f"{size / wall / 1e6:8.1f}" if size else f"{'':8}"
        print(
            f"{name:>22} {n:>7} {wall:>9.3f} {alone / wall:>8.2f} {busy[walls.index(wall)]:>6.2f} "
            f"{rate}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", default="exact,fit,mode,tempering,logistic,sweep")
    parser.add_argument("--features", help="of exact, fit and mode")
    parser.add_argument("--workers")
    parser.add_argument("--repeats", type=int, default=2)
    options = parser.parse_args()
    cores = os.cpu_count() or 1
    workers = [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= max(cores, 2)]
    if options.workers:
        workers = [int(n) for n in options.workers.split(",")]
    wanted = options.only.split(",")
    sizes = [18, 20] if options.quick else [24, 25, 26, 27, 28]
    if options.features:
        sizes = [int(p) for p in options.features.split(",")]
    header("Many cores")
    print(f"{'':>22} {'workers':>7} {'seconds':>9} {'speed-up':>8} {'busy':>6} {'M subsets/s':>8}")
    # Kernels are compiled, or loaded, before anything is measured.
    for warm in (exact(15), fit(15), fit(15, select="mode")):
        warm(1)
    for p in sizes:
        for name, make in (
            ("exact", exact),
            ("fit", fit),
            ("mode", lambda p: fit(p, select="mode")),
        ):
            if name in wanted:
                measured(f"{name}, {p} features", 2.0**p, make(p), workers, options.repeats)
    if "exact" in wanted and not options.quick and not options.features:
        measured("exact, 30 features", 2.0**30, exact(30), [workers[-1]], 1)
    if "tempering" in wanted:
        run = tempering(20, 2, 25) if options.quick else tempering(60, 16, 200)
        tempering(20, 2, 25)(1)
        measured("tempering", 0.0, run, workers, 1)
    if "logistic" in wanted:
        p = 11 if options.quick else 18
        logistic(11)(1)
        measured(f"logistic, {p} features", 2.0**p, logistic(p), workers, 1)
    if "sweep" in wanted:
        run = whole_sweep(12, 4) if options.quick else whole_sweep(64, 63)
        # As many outcomes as workers: a process that starts while it is measured would count.
        warm = whole_sweep(max(12, max(workers) + 1), max(11, max(workers)))
        measured("sweep", 0.0, run, workers, 1, warm)


if __name__ == "__main__":
    main()
