"""BIP-VI: ours beside a plain PyTorch version with the same budget (T=2000, M=20), one thread each.

python benchmarks/variational.py             speed (needs torch==2.13.0: pip install
    'invariant-prediction[bench]')
python benchmarks/variational.py --recovery  adds exact discovery at p=450, 20 data sets a cell
    (minutes)
"""

from __future__ import annotations

import sys
import warnings
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from _harness import header, median_seconds, seconds
from invariance import LinearGaussian, UniformPrior, Variational
from invariance.baselines import LassoScreen
from invariance.inference.base import RunOptions, Target
from invariance.simulation import p10
from replication.simulators import p450

BOTH = ("uninformative", "informative")


def data_set(preset, n_environments: int, n: int, seed: int):
    rng = np.random.default_rng([n_environments, n, seed])
    return preset(n_environments, rng).sample(n, rng)


def ours(model: LinearGaussian, max_size: int | None, start: str) -> Variational:
    prior = UniformPrior(max_size).bind(model.feature_names)
    engine = Variational(starts=(start,), screen="lasso")
    return engine.run(
        Target(model, prior), RunOptions(rng=np.random.default_rng(0), progress=False)
    )


def against_torch() -> None:
    try:
        import torch

        from _torch_vi import TorchVI
    except ImportError:
        sys.exit("this comparison needs PyTorch: pip install 'invariant-prediction[bench]'")
    torch.set_num_threads(1)
    print(
        f"\nT=2000, M=20, one thread\n{'p':>4} {'n':>5} {'E':>3} {'starts':>7} {'torch':>8} "
        f"{'ours':>8} {'ratio':>7}"
    )
    for preset, n, n_environments, max_size in ((p10, 200, 5, 10), (p450, 200, 5, 20)):
        data = data_set(preset, n_environments, n, 1)
        model = LinearGaussian().bind(data)
        p = data.n_features
        kept = LassoScreen(k=10).screen(data).kept
        starts = [
            np.full(p, min(0.9 * max_size / p, 0.4)),
            np.where(kept, 0.5, min(0.1, 1 / max(p - 10, 1))),
        ]
        twin = TorchVI(model.moments, max_size)
        twin.run(starts[0], 0, iterations=5)
        for start in BOTH:
            ours(model, max_size, start)
        theirs = sum(seconds(partial(twin.run, start, 0)) for start in starts)
        mine = sum(median_seconds(partial(ours, model, max_size, start), 3) for start in BOTH)
        print(
            f"{p:>4} {n:>5} {n_environments:>3} {2:>7} {theirs:>7.2f}s {mine:>7.3f}s "
            f"{theirs / mine:>6.0f}×"
        )


def cost_table() -> None:
    print("\nseconds, both starts, moments included (p=10), median over 3 data sets")
    for label, cells in (
        ("n = 50, 200, 500, 2000 (E=5)", [(50, 5), (200, 5), (500, 5), (2000, 5)]),
        ("E = 2, 5, 10, 20 (n=200)", [(200, 2), (200, 5), (200, 10), (200, 20)]),
    ):
        figures = []
        for n, n_environments in cells:
            times = []
            for seed in range(3):
                data = data_set(p10, n_environments, n, seed)

                def run(data=data) -> None:
                    model = LinearGaussian().bind(data)
                    prior = UniformPrior().bind(model.feature_names)
                    engine = Variational(starts=BOTH)
                    engine.run(
                        Target(model, prior),
                        RunOptions(rng=np.random.default_rng(0), progress=False),
                    )

                times.append(median_seconds(run, 3))
            figures.append(np.median(times))
        print(f"  {label:30} " + "  ".join(f"{t:.3f}" for t in figures))


def recovery() -> None:
    print("\nexact discovery at p=450, n=200, max_size=20, 20 data sets a cell")
    engines = {
        f"both starts, screen={name}": Variational(starts=BOTH, screen=name)
        for name in ("search", "lasso")
    }
    engines["all three starts"] = Variational()
    for n_environments in (20, 40):
        found = dict.fromkeys(engines, 0)
        for seed in range(20):
            data = data_set(p450, n_environments, 200, seed)
            model = LinearGaussian().bind(data)
            prior = UniformPrior(20).bind(model.feature_names)
            for name, engine in engines.items():
                options = RunOptions(n_jobs=2, rng=np.random.default_rng(seed), progress=False)
                posterior = engine.run(Target(model, prior), options)
                found[name] += bool((posterior.mode_mask == data.truth).all())
        print(
            f"  E={n_environments:<3} "
            + "  ".join(f"{name}: {n / 20:.2f}" for name, n in found.items()),
            flush=True,
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    header("Variational inference")
    with threadpool_limits(1):
        against_torch()
        cost_table()
        if "--recovery" in sys.argv:
            recovery()
