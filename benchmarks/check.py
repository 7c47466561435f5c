"""Has anything become slower? Each operation beside plain NumPy or another fit of ours, in one
process, as a ratio.

python benchmarks/check.py               fails if a ratio is below .75 of the committed one
    (benchmarks/floors.toml)
python benchmarks/check.py --floor 0.5   on a noisy machine
python benchmarks/check.py --only rows   entries whose names contain one of these words
python benchmarks/check.py --write       commits the lowest of three runs of this machine instead

A ratio is the time of the plain way, or of the quicker fit, over ours: higher is better. Both are
timed in turns, the best of each counts, by processor time but where several cores work. An entry
that seems to have fallen is timed again. Kernels that are not compiled yet are compiled first,
which is counted apart.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

import _plain
from _harness import header
from _revision_worker import fit, operations, walk
from invariance._tools.parallel import n_workers
from revisions import write_data

FLOORS = Path(__file__).with_name("floors.toml")
NARROW = 10
MIDDLE = 18
WIDE = 24
# Seconds of an entry, and of the calls of one side in a round; how often an entry is timed before
# it has fallen
PATIENCE = 4.0
ROUND = 0.1
ATTEMPTS = 3
Call = Callable[[], object]


@dataclass(frozen=True)
class Pair:
    """share : the work of the plain call, where ours does 1
    workers : how many work for ours; the wall clock then counts"""

    ours: Call
    plain: Call
    share: float = 1.0
    workers: int = 1


def each(score: Callable[..., object], data: object, subsets: Sequence[object]) -> Call:
    """Return a call that scores the subsets one after the other."""
    return lambda: [score(data, columns) for columns in subsets]


@dataclass(frozen=True, eq=False)
class Worlds:
    """The data of all entries, those of `revisions.py`; folder : where they are written"""

    folder: Path

    @cached_property
    def prepared(self) -> dict[str, Callable[[], Call]]:
        write_data(self.folder, (NARROW, MIDDLE, WIDE))
        return operations(self.folder)

    def ours(self, operation: str) -> Call:
        return self.prepared[operation]()

    def arrays(self, name: str) -> dict[str, np.ndarray]:
        assert self.prepared
        return dict(np.load(self.folder / f"{name}.npz"))

    def data(self, name: str, n_features: int | None = None) -> _plain.MultiEnvironmentData:
        found = self.arrays(name)
        return _plain.MultiEnvironmentData.from_arrays(
            found["X"][:, :n_features], found["y"], found["site"]
        )

    def exact(self) -> Pair:
        data = self.data(f"alike {WIDE}", 7)
        subsets = _plain.subsets(7)
        return Pair(
            self.ours("all subsets"),
            each(_plain.least_squares, data, subsets),
            len(subsets) / 2**WIDE,
        )

    def exact_on_all_cores(self) -> Pair | str:
        cores = n_workers(-1)
        if cores == 1:
            return "one core"
        arrays = self.arrays(f"alike {WIDE}")
        return Pair(walk(arrays, cores), walk(arrays), workers=cores)

    def default_over_mode(self, world: str) -> Pair:
        return Pair(self.ours(f"fit {world}"), self.ours(f"fit {world}, mode"))

    def variational(self) -> Pair:
        """With the paper's budget: three starts of 2,000 iterations."""
        settings = {"engine": "vi", "select": "mode", "random_state": 0}
        plain = partial(_plain.ascent, self.data("many"), 20)
        return Pair(partial(fit, self.arrays("many"), **settings), plain, 20 / 6000)

    def tempering(self) -> Pair:
        """One chain of 300 sweeps at each temperature beside 100 flips of one feature."""
        from invariance import Tempering

        engine = Tempering(chains=1, steps=300, searches=1)
        settings = {"engine": engine, "select": "mode", "random_state": 0}
        return Pair(
            partial(fit, self.arrays("many"), **settings),
            partial(_plain.metropolis, self.data("many"), 100),
        )

    def logistic(self) -> Pair:
        data = self.data("classes")
        some = _plain.subsets(data.n_features)[::64]
        return Pair(self.ours("classifier 10, mode"), each(_plain.logistic, data, some), 1 / 64)

    def random_deviations(self) -> Pair:
        rng = np.random.default_rng(0)
        site = np.repeat(np.arange(20), 40)
        X = rng.normal(size=(len(site), 8)) + rng.normal(size=(20, 8))[site]
        y = (
            X[:, :3].sum(axis=1)
            + 0.3 * rng.normal(size=20)[site] * X[:, 0]
            + rng.normal(size=len(site))
        )
        data = _plain.MultiEnvironmentData.from_arrays(X, y, site)
        some = _plain.subsets(8)[::64]
        plain = each(_plain.random_coefficients, data, some)
        ours = partial(fit, {"X": X, "y": y, "site": site}, deviations="random", select="mode")
        return Pair(ours, plain, 1 / 64)

    def rows(self) -> Pair:
        return Pair(
            self.ours("moments of rows"),
            partial(_plain.second_moments, self.folder / "rows.parquet"),
        )

    def genes(
        self, n_outcomes: int, n_genes: int
    ) -> tuple[Callable[..., object], _plain.MultiEnvironmentData]:
        """A sweep over some outcomes, and the data of one of them."""
        import pandas as pd

        from invariance import BIP, UniformPrior, Variational, sweep

        rng = np.random.default_rng(0)
        site = np.repeat([0, 1], 200)
        X = rng.normal(size=(400, n_genes)) * (1 + site[:, None]) + rng.normal(
            size=(400, 5)
        ) @ rng.normal(size=(5, n_genes))
        table = pd.DataFrame(X, columns=[f"g{j}" for j in range(n_genes)]).assign(site=site)
        engine = Variational.genes(iterations=500)
        model = BIP(
            prior=UniformPrior(max_size=60), engine=engine, select="threshold", progress=False
        )
        outcomes = [f"g{j}" for j in range(n_outcomes)]
        run = partial(sweep, table, model, environments="site", outcomes=outcomes, progress=False)
        return run, _plain.MultiEnvironmentData.from_arrays(X[:, 1:], X[:, 0], site)

    def sweep_target(self) -> Pair:
        run, data = self.genes(1, 200)
        return Pair(run, partial(_plain.ascent, data, 10, 10), 10 / 500)

    def sweep_on_a_device(self) -> Pair | str:
        """Beside PyTorch for one target at a time on the same device: 20 of 32 × 500 iterations."""
        if importlib.util.find_spec("torch") is None:
            return "no PyTorch"
        import torch

        if not torch.cuda.is_available():
            return "no CUDA device"
        from _torch_vi import TorchVI
        from invariance import Moments

        run, data = self.genes(32, 2000)
        twin = TorchVI(Moments.from_data(data), 60, device="cuda")
        start = np.full(data.n_features, 0.02)

        def plain() -> None:
            twin.run(start, seed=0, iterations=20, pairs=10)
            torch.cuda.synchronize()

        # By the wall clock, and per device.
        return Pair(partial(run, device="cuda"), plain, 20 / (32 * 500), workers=0)


ENTRIES: dict[str, Callable[[Worlds], Pair | str]] = {
    "exact, one core": Worlds.exact,
    "exact, all cores: share of each core": Worlds.exact_on_all_cores,
    "default over mode, 10 features": lambda worlds: worlds.default_over_mode(f"{NARROW}, paper"),
    "default over mode, 18 features": lambda worlds: worlds.default_over_mode(f"{MIDDLE}, alike"),
    "variational": Worlds.variational,
    "tempering": Worlds.tempering,
    "logistic": Worlds.logistic,
    "random deviations": Worlds.random_deviations,
    "rows of a file": Worlds.rows,
    "one target of a sweep": Worlds.sweep_target,
    "targets of a sweep on a device": Worlds.sweep_on_a_device,
}


def seconds_of_a_call(call: Call, clock: Callable[[], float]) -> float:
    """The shortest of the calls of one round"""
    times: list[float] = []
    while sum(times) < ROUND:
        started = clock()
        call()
        times.append(clock() - started)
    return min(times)


def measured(pair: Pair) -> float:
    """The ratio: how many times quicker than the plain way, for each worker"""
    clock = time.process_time if pair.workers == 1 else time.perf_counter
    rounds: list[tuple[float, float]] = []
    started = time.perf_counter()
    while len(rounds) < 3 or time.perf_counter() - started < PATIENCE:
        rounds.append((seconds_of_a_call(pair.ours, clock), seconds_of_a_call(pair.plain, clock)))
    ours, plain = np.min(rounds, axis=0)
    return float(plain / pair.share / ours / max(pair.workers, 1))


def attempted(measure: Callable[[], float], least: float) -> float:
    """The best of some attempts, or the first that is not below the least"""
    best = -np.inf
    for _ in range(ATTEMPTS):
        best = max(best, measure())
        if best >= least:
            break
    return best


def lowest(measure: Callable[[], float]) -> float:
    return min(measure() for _ in range(ATTEMPTS))


def committed(file: Path = FLOORS) -> dict[str, float]:
    return tomllib.loads(file.read_text())["ratios"] if file.exists() else {}


def write(ratios: Mapping[str, float], file: Path = FLOORS) -> None:
    """Those that were measured, and the others as they were"""
    lines = [f'"{name}" = {ratio:.3g}' for name, ratio in {**committed(file), **ratios}.items()]
    said = (
        "# How many times quicker than the plain way: the lowest of three runs of `python "
        "benchmarks/check.py --write`."
    )
    file.write_text("\n".join([said, "[ratios]", *lines, ""]))


def verdict(name: str, ratio: float, known: Mapping[str, float], floor: float) -> str:
    """What is wrong, or nothing"""
    if name not in known:
        return "no committed ratio: run python benchmarks/check.py --write"
    return "" if ratio >= floor * known[name] else f"FELL below {floor:g} of {known[name]:.3g}"


def run(pair: Pair, settle: Callable[[Callable[[], float]], float]) -> tuple[float, float]:
    """The ratio, and seconds of the first calls. Only one worker holds BLAS to one thread: many
    find it as it is."""
    with threadpool_limits(1 if pair.workers == 1 else None):
        started = time.perf_counter()
        pair.ours()
        pair.plain()
        first = time.perf_counter() - started
        return settle(lambda: measured(pair)), first


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--floor", type=float, default=0.75)
    parser.add_argument("--only", nargs="*", default=[""])
    parser.add_argument("--write", action="store_true")
    choices = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    header("Has anything become slower?")
    known = committed()
    fell = []
    ratios = dict[str, float]()
    started = time.perf_counter()
    compiling = 0.0
    print(f"\n{'':40} {'ratio':>9} {'committed':>9} {'share':>6}")
    with tempfile.TemporaryDirectory() as folder:
        worlds = Worlds(Path(folder))
        for name in [name for name in ENTRIES if any(word in name for word in choices.only)]:
            pair = ENTRIES[name](worlds)
            if isinstance(pair, str):
                print(f"{name:40} skipped: {pair}", flush=True)
                continue
            least = choices.floor * known.get(name, 0.0)
            ratios[name], first = run(
                pair, lowest if choices.write else partial(attempted, least=least)
            )
            compiling += first
            wrong = "" if choices.write else verdict(name, ratios[name], known, choices.floor)
            fell += [name] * bool(wrong)
            before = known.get(name, np.nan)
            print(
                f"{name:40} {ratios[name]:>9.3g} {before:>9.3g} {ratios[name] / before:>6.2f} "
                f"{wrong}",
                flush=True,
            )
    seconds = time.perf_counter() - started
    print(
        f"\n{seconds - compiling:.0f} s, and {compiling:.0f} s for the first calls, which compile"
    )
    if choices.write:
        write(ratios)
    if fell:
        print("Slower than committed: " + "; ".join(fell))
    return int(bool(fell))


if __name__ == "__main__":
    sys.exit(main())
