"""Gene scale on a CUDA device: BIP-VI for many targets at once, beside PyTorch written for one
target at a time.

6,170 genes, 262 wild types and 1,479 deletions, simulated; the paper's budget of 10,000 iterations
of 10 pairs, prior uniform up to 200 of 6,169 features. Samples that delete a target are not used
for it.

python benchmarks/gene_device.py                  all of it; needs a CUDA device
python benchmarks/gene_device.py --vi --targets 256
python benchmarks/gene_device.py --vi --targets 32 --deletions deletions.npz    real strains, 150 of
    them held out
python benchmarks/gene_device.py --host --targets 6     what the processor does for a target; needs
    torch, no device
python benchmarks/gene_device.py --tempering --targets 512 --jobs 16     processes beside, no device
python benchmarks/gene_device.py --vi --targets 4 --iterations 50 --genes 600 --device cpu --jobs 2
    a trial anywhere
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread

import numpy as np
import pandas as pd
import torch

from _harness import best_seconds, header, peak_memory_gb
from _torch_vi import TorchVI
from gene_scale import PUBLISHED, PUBLISHED_PRIOR, START
from invariance import BIP, BetaBinomialPrior, LinearGaussian, Moments, Variational
from invariance.inference import variational_device
from invariance.inference.mean_field import Climb, Iterate
from invariance.inference.variational_device import GaussianOnDevice, SharedScatter
from invariance.kernels.active_set import active_set, add_column, flip_scores, load, remove_column
from invariance.kernels.device.torch_kernels import Problem, listed
from invariance.sweeps.data import SweepData, read_sweep_data
from invariance.sweeps.fitting import Sweep, fit_outcome
from invariance.sweeps.store import results_in
from invariance.sweeps.sweep import _job, run_sweep
from replication.knockouts import knockouts

_BETWEEN_REPORTS = 10.0  # seconds


def swept(
    reading: SweepData,
    targets: list[str],
    model: BIP,
    jobs: int,
    folder: Path,
    device: str | None = None,
) -> float:
    """Seconds of a sweep over these targets, second moments given."""
    run = run_sweep(reading, model, targets, folder, 20, jobs, None, 0, False, device)
    failed = run.results[run.results["feature"].isna()]
    assert failed.empty, f"{len(failed)} targets failed: {failed['verdict'].iloc[0]}"
    return run.seconds


@contextmanager
def reported(folder: Path, iterations: int) -> Iterator[None]:
    """Say now and then how far the sweep is: what has been measured is known also where the run is
    cut short."""
    started = time.perf_counter()
    stopped = Event()

    def watch() -> None:
        before = 0
        while not stopped.wait(_BETWEEN_REPORTS):
            seconds = time.perf_counter() - started
            done = results_in(folder)["outcome"].nunique()
            if done > before:
                before = done
                say(done, seconds, iterations)

    thread = Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


def say(done: int, seconds: float, iterations: int) -> None:
    each = seconds / done
    peak = torch.cuda.max_memory_allocated() / 1e9
    print(
        f"BIP-VI, {done} targets, {iterations:,} iterations: {seconds:.0f} s, {each:.2f} s a "
        f"target, {peak:.1f} GB of "
        f"the device;\n  6,170 targets: {6170 * each / 3600:.2f} hours, EXTRAPOLATED; "
        f"{peak_memory_gb():.1f} GB of the "
        "machine",
        flush=True,
    )


@contextmanager
def timed_ascents() -> Iterator[list[float]]:
    """Collect, inside the block, the wall and the processor seconds of all ascents."""
    seconds = [0.0, 0.0]
    climb = variational_device.climb_together

    def timed(*arguments: object) -> list[Climb | None]:
        wall = time.perf_counter()
        processor = time.process_time()
        climbs = climb(*arguments)
        seconds[0] += time.perf_counter() - wall
        seconds[1] += time.process_time() - processor
        return climbs

    variational_device.climb_together = timed
    try:
        yield seconds
    finally:
        variational_device.climb_together = climb


def published(iterations: int) -> BIP:
    engine = Variational.genes(iterations=iterations)
    return BIP(prior=PUBLISHED_PRIOR, engine=engine, select="threshold", deviations="free")


def variational(
    reading: SweepData, targets: list[str], iterations: int, jobs: int, device: str
) -> float:
    """Seconds a target of one sweep over all of them."""
    with TemporaryDirectory() as first, TemporaryDirectory() as folder:
        swept(reading, targets[:2], published(2), jobs, Path(first), device)  # compiles
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        with reported(Path(folder), iterations), timed_ascents() as ascents:
            seconds = swept(reading, targets, published(iterations), jobs, Path(folder), device)
    wall, processor = ascents
    print("All of them:")
    say(len(targets), seconds, iterations)
    print(
        f"  ascents {wall:.0f} s ({wall / len(targets):.2f} s a target), processor "
        f"{processor / wall:.2f} of it;"
    )
    print(f"  before and after them {(seconds - wall) / len(targets):.2f} s a target", flush=True)
    return seconds / len(targets) * PUBLISHED / iterations


def host(reading: SweepData, targets: list[str]) -> None:
    """Processor seconds of a target before and after its ascent, which is left out: log Λ of any
    subset is drawn, and the leading iterates include 27 of a thousand genes on average, as those of
    an ascent do."""
    rng = np.random.default_rng(0)
    engine = Variational.genes()
    sweep = Sweep(reading, published(PUBLISHED), 20, 0)
    shared = SharedScatter(reading.moments, torch.device("cpu"))

    def drawn(self: GaussianOnDevice, masks: np.ndarray, *_: object) -> np.ndarray:
        return -600.0 + 20.0 * np.random.default_rng(0).normal(size=len(masks))

    def ascended(waiting: variational_device._Waiting) -> variational_device._Waiting:
        n_free = len(waiting.starts[0].logits)
        chances = np.exp(rng.normal(np.log(0.027), 0.4, n_free))
        logits = np.log(chances / (1.0 - chances))
        leaders = [
            Iterate(-1000.0, step, (1.0 + 0.001 * step) * logits)
            for step in range(engine.leading + 1)
        ]
        return waiting._replace(climbs=(Climb(leaders, *np.zeros((3, PUBLISHED))),))

    GaussianOnDevice._score = drawn
    spent = []
    for target in targets:
        times = [time.process_time()]
        waiting = variational_device._prepared(engine, _job(sweep, target, shared), shared)
        times.append(time.process_time())
        found = variational_device._finished(engine, ascended(waiting))
        times.append(time.process_time())
        fit_outcome(sweep, target, found)
        times.append(time.process_time())
        spent.append(np.diff(times))
    before, after, decision = np.median(spent[1:], axis=0)
    print(
        f"processor seconds a target (median of {len(spent) - 1}): {before:.2f} before the "
        f"ascent, {after:.2f} to"
    )
    print(
        f"  measure and reweight after it, {decision:.2f} to decide; {peak_memory_gb():.1f} GB of "
        "memory"
    )


def deletions(file: Path) -> tuple[pd.DataFrame, list[str]]:
    """Log ratios of strains, without 150 that are held out, and the genes. Strains that change
    fewer than four genes stand in for wild types."""
    stored = np.load(file, allow_pickle=True)
    genes = stored["genes"].astype(str).tolist()
    ratios = pd.DataFrame(stored["log2_ratio_times_2000"] / 2000.0, columns=genes)
    changed = stored["changes"]
    ratios["environment"] = np.where(changed < 4, "quiet", "responsive")
    ratios["deleted"] = stored["deleted"].astype(str)
    kept = np.sort(np.random.default_rng(0).permutation(len(ratios))[150:])
    return ratios.iloc[kept], genes


def one_at_a_time(moments: Moments, iterations: int) -> float:
    plain = TorchVI(moments, PUBLISHED_PRIOR.max_size, device="cuda")
    start = np.full(moments.n_features, START)
    plain.run(start, seed=0, iterations=3, pairs=10)
    torch.cuda.synchronize()
    started = time.perf_counter()
    plain.run(start, seed=0, iterations=iterations, pairs=10)
    each = (time.perf_counter() - started) / iterations
    total = PUBLISHED * each
    print(
        f"PyTorch, one target at a time: {1e3 * each:.1f} ms an iteration, {total:.0f} s a "
        "target, EXTRAPOLATED"
    )
    return total


def tempering(reading: SweepData, targets: list[str], jobs: int) -> None:
    model = BIP(prior=BetaBinomialPrior(max_size=20), engine="tempering", select="threshold")
    with TemporaryDirectory() as one, TemporaryDirectory() as other:
        first = swept(reading, targets[:jobs], model, jobs, Path(one))
        each = swept(reading, targets[jobs:], model, jobs, Path(other)) / (len(targets) - jobs)
    hours = 6170 * each / 3600
    print(
        f"tempering on {jobs} processes: {each:.2f} s a target over {len(targets) - jobs}; 6,170: "
        f"{hours:.2f} hours,"
    )
    print(f"  EXTRAPOLATED. The first {jobs}, which compile, took {first:.0f} s.")


def flip_shares(problem: Problem, members: torch.Tensor) -> torch.Tensor:
    """(C, G, d) share of the outcome left when each column joins the subsets members (C, k) of one
    outcome."""
    out = []
    for g in range(len(problem.scatter)):
        scale = problem.scale[0, g]
        gram = problem.scatter[g]
        rows = gram[members] * scale[members][:, :, None] * scale
        factor, _ = torch.linalg.cholesky_ex(
            rows.gather(2, members[:, None, :].expand(-1, members.shape[1], -1))
        )
        solved = torch.linalg.solve_triangular(factor, rows, upper=False)
        y = int(problem.outcome[0])
        left = 1.0 - (solved**2).sum(dim=1)
        covariance = gram[y] * scale * scale[y] - (solved * solved[:, :, y : y + 1]).sum(dim=1)
        out.append(left[:, y : y + 1] - covariance**2 / left)
    return torch.stack(out, dim=1)


def flips(moments: Moments, chains: int, size: int) -> None:
    """All one-flip neighbours of many chains at once, beside what a chain on a core does for one
    more move: it adds a column to the factors that it keeps, scans all neighbours, and takes the
    column out again."""
    model = LinearGaussian().bind(moments)
    columns = np.random.default_rng(0).choice(moments.feature_columns, size + 1, replace=False)
    scoring = model.scoring_by_moments()
    included = np.zeros(len(moments.columns), dtype=bool)
    included[columns[:-1]] = True
    state = active_set(len(moments.group_counts), len(included), size + 2)
    change = np.empty(len(included))
    load(scoring, state, included)

    def move() -> None:
        add_column(scoring, state, columns[-1])
        flip_scores(scoring, state, change)
        remove_column(scoring, state, columns[-1])

    core = best_seconds(move, 50)
    shared = SharedScatter(moments, torch.device("cuda"))
    problem = shared.problem([(scoring, np.zeros((0, 3, len(moments.columns))))])
    members = listed(
        torch.as_tensor(included, device="cuda").expand(chains, -1), chains, size
    ).members.long()

    def scan() -> None:
        flip_shares(problem, members)
        torch.cuda.synchronize()

    device = best_seconds(scan, 5) / chains
    print(
        f"neighbours of a subset of {size}: {1e6 * core:.0f} µs a chain on one core, "
        f"{1e6 * device:.1f} on the device,"
    )
    print(
        f"  {chains} chains at once: {core / device:.1f} cores' worth, before anything is decided "
        "or moved"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for part in ("--vi", "--plain", "--tempering", "--flips", "--host"):
        parser.add_argument(part, action="store_true")
    parser.add_argument("--targets", type=int, default=512)
    parser.add_argument("--iterations", type=int, default=PUBLISHED)
    parser.add_argument("--jobs", type=int, default=16)
    parser.add_argument("--deletions", type=Path, help="real strains in place of simulated ones")
    parser.add_argument("--genes", type=int, default=6170, help="simulated")
    parser.add_argument("--device", default="cuda", help="of --vi")
    choices = parser.parse_args()
    every = not (choices.vi or choices.plain or choices.tempering or choices.flips or choices.host)
    warnings.simplefilter("ignore")
    header("Gene scale on a device")
    if torch.cuda.is_available():
        print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}")
    if choices.deletions is None:
        simulated = knockouts(choices.genes, deletions=min(1479, choices.genes // 2), seed=0).data
        table = simulated.to_frame()
        genes = simulated.genes
    else:
        table, genes = deletions(choices.deletions)
    started = time.perf_counter()
    reading = read_sweep_data(table, "environment", "deleted", allow_unmeasured=True)
    print(
        f"reading and second moments: {time.perf_counter() - started:.1f} s, "
        f"{peak_memory_gb():.1f} GB",
        flush=True,
    )
    targets = np.random.default_rng(0).choice(genes, choices.targets, replace=False).tolist()
    one = reading.moments_for(targets[0])[0] if every or choices.plain or choices.flips else None
    if every or choices.plain:
        theirs = one_at_a_time(one, 100)
    if every or choices.flips:
        for size in (3, 20):
            flips(one, 512, size)
    if every or choices.vi:
        ours = variational(reading, targets, choices.iterations, choices.jobs, choices.device)
    if every or (choices.vi and choices.plain):
        print(f"PyTorch one at a time / BIP-VI: {theirs / ours:.0f}")
    if choices.host:
        host(reading, targets)
    if every or choices.tempering:
        tempering(reading, targets, choices.jobs)
    print(f"peak memory of the main process {peak_memory_gb():.1f} GB")
