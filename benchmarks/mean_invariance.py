"""What must be the same, the distribution or the mean: rejection of the truth at 5%, exact
discovery, and speed.

python benchmarks/mean_invariance.py                 the tables of docs/how-to/noise.md, one
    process, some minutes
python benchmarks/mean_invariance.py --sets 50       a quick look
python benchmarks/mean_invariance.py --speed         only how many subsets a second are scored

Tables are Markdown: "rejected" is the share of data sets in which the p-value of log Λ of the true
subset is below 0.05, "found" the share in which the true subset is the mode of the posterior under
the uniform prior. A share of k data sets has a standard error of at most 1/(2√k), and one near 0.05
of 1/(4.6√k).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from _harness import header, seconds
from invariance import BIP, LinearGaussian, Moments, MultiEnvironmentData
from invariance.models.base import BoundModel

Floats = NDArray[np.float64]
TRUTH = np.array([True, True, False, False, False, False])
MASKS = (np.arange(1 << len(TRUTH))[:, None] >> np.arange(len(TRUTH)) & 1).astype(bool)
LEVEL = 0.05


def standard_t3(rng: np.random.Generator, x: Floats, e: int) -> Floats:
    return rng.standard_t(3, size=len(x)) / np.sqrt(3.0)


def skewed(rng: np.random.Generator, x: Floats, e: int) -> Floats:
    return (rng.chisquare(4, size=len(x)) - 4.0) / np.sqrt(8.0)


def depends_on_x(rng: np.random.Generator, x: Floats, e: int) -> Floats:
    return rng.normal(size=len(x)) * (0.5 + 0.5 * np.abs(x))


def differs(rng: np.random.Generator, x: Floats, e: int) -> Floats:
    return rng.normal(size=len(x)) * rng.uniform(0.5, 2.0)


def noisier_if_small(rng: np.random.Generator, x: Floats, e: int) -> Floats:
    return rng.normal(size=len(x)) * (2.0 if e % 2 else 1.0)


NOISES: dict[str, Callable[[np.random.Generator, Floats, int], Floats]] = {
    "normal": lambda rng, x, e: rng.normal(size=len(x)),
    "t3": standard_t3,
    "skewed": skewed,
    "variance depends on x": depends_on_x,
    "variance differs by environment": differs,
    "small environments noisier": noisier_if_small,
}


def simulated(
    noise: str, n: int, n_environments: int, rng: np.random.Generator
) -> MultiEnvironmentData:
    """The outcome follows x0 and x1, whose means shift; x2 and x3 follow it, differently in each
    environment; x4 and x5 have nothing to do with it. Where small environments are noisier, every
    other one has three times the rows."""
    X = []
    y = []
    labels = []
    coefficients = rng.choice([-1.0, 1.0], 2) * rng.uniform(0.5, 1.5, 2)
    for e in range(n_environments):
        rows = 3 * n if noise == "small environments noisier" and e % 2 == 0 else n
        x = rng.normal(size=(rows, 6)) + rng.normal(size=6)
        y.append(x[:, :2] @ coefficients + NOISES[noise](rng, x[:, 0], e))
        x[:, 2:4] = (
            y[-1][:, None] * rng.uniform(-1.0, 1.5, 2)
            + rng.normal(size=(rows, 2))
            + rng.normal(size=2)
        )
        X.append(x)
        labels.append(np.full(rows, e))
    return MultiEnvironmentData.from_arrays(np.vstack(X), np.concatenate(y), np.concatenate(labels))


def judged(model: BoundModel) -> tuple[bool, bool]:
    """Whether the truth is rejected, and whether it is the mode"""
    log_ratios = model.log_ratio_many(MASKS)
    truth = int(np.flatnonzero((MASKS == TRUTH).all(axis=1))[0])
    p_value = model.invariance_tails(TRUTH[None], log_ratios[truth : truth + 1])[0]
    return bool(p_value < LEVEL), bool(log_ratios.argmax() == truth)


def cell(noise: str, n: int, n_environments: int, sets: int) -> Floats:
    """(2, 2) shares: rejected and found, of distribution and mean"""
    counted = np.zeros((2, 2))
    for seed in range(sets):
        rng = np.random.default_rng([seed, n, n_environments, list(NOISES).index(noise)])
        moments = Moments.from_data(simulated(noise, n, n_environments, rng))
        counted += [
            judged(LinearGaussian(invariance=kind).bind(moments))
            for kind in ("distribution", "mean")
        ]
    return counted / sets


def calibration(sets: int, numbers: list[int], rows: list[int]) -> None:
    for n in rows:
        print(f"\nn_e = {n}, {sets} data sets a cell: rejected / found\n")
        print(
            f"| noise | {' | '.join(f'E = {k}, distribution | E = {k}, mean' for k in numbers)} |"
        )
        print("|---|" + "---|" * 2 * len(numbers))
        for noise in NOISES:
            shares = [share for k in numbers for share in cell(noise, n, k, sets)]
            print(
                f"| {noise} | {' | '.join(f'{a:.3f} / {b:.3f}' for a, b in shares)} |", flush=True
            )


def of_features(p: int) -> MultiEnvironmentData:
    """N = 1,000 rows in E = 5 environments"""
    rng = np.random.default_rng(0)
    environment = np.repeat(range(5), 200)
    X = rng.normal(size=(1000, p)) + rng.normal(size=(5, p))[environment]
    y = (
        X[:, 0]
        - X[:, 2]
        + 0.5 * X[:, 3]
        + rng.uniform(0.5, 2.0, 5)[environment] * rng.normal(size=1000)
    )
    X[:, 5] = rng.normal(size=5)[environment] * y + rng.normal(size=1000)
    return MultiEnvironmentData.from_arrays(X, y, environment)


def speed() -> None:
    """All subsets of 15 features by one thread, and whole fits."""
    data = of_features(15)
    print("\nThousand subsets a second of one core's time, p = 15, N = 1,000, E = 5:")
    for kind in ("distribution", "mean"):

        def all_blocks(kind=kind) -> None:
            walk = (
                LinearGaussian(invariance=kind)
                .bind(data)
                .subset_walk(np.arange(15), np.empty(0, np.int64))
            )
            for block in range(1 << (15 - walk.n_low)):
                high = walk.n_low + np.flatnonzero(block >> np.arange(15 - walk.n_low) & 1)
                walk.dense(high, np.ones(16, bool))

        print(
            f"  {kind:14} {(1 << 15) / least_processor_time(all_blocks) / 1e3:>10,.0f}", flush=True
        )
    print('\nSeconds of BIP(LinearGaussian(invariance="mean")).fit, one thread and all cores:')
    for p in (15, 18, 21):
        table = of_features(p)
        taken = [
            seconds(
                lambda jobs=jobs, table=table: BIP(
                    LinearGaussian(invariance="mean"), n_jobs=jobs
                ).fit(table)
            )
            for jobs in (1, -1)
        ]
        print(f"  p = {p}: {taken[0]:.1f} {taken[1]:.1f}", flush=True)


def least_processor_time(work: Callable[[], None], repeats: int = 9) -> float:
    """Seconds, after one call that is not counted: what others do on the machine counts less than
    by the clock"""
    times = []
    for _ in range(repeats + 1):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times[1:])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=500, help="data sets a cell")
    parser.add_argument("--environments", type=int, nargs="+", default=[2, 5, 10])
    parser.add_argument(
        "--rows", type=int, nargs="+", default=[50, 200], help="rows an environment"
    )
    parser.add_argument("--speed", action="store_true", help="only the speed")
    given = parser.parse_args()
    header("What must be the same: the distribution, or the mean")
    speed()
    if not given.speed:
        calibration(given.sets, given.environments, given.rows)
