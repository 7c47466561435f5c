"""What becomes of two methods of the paper's comparison in their published form.

python benchmarks/published_settings.py     EILLS on raw data (p=10), the Lasso screen on raw
    features (p=450); a minute
"""

from __future__ import annotations

import warnings

import numpy as np

from _harness import header
from invariance.baselines import EILLS, LassoScreen
from invariance.simulation import p10
from replication.simulators import p450


def data_set(preset, n_environments: int, n: int, seed: int):
    rng = np.random.default_rng([n_environments, n, seed])
    return preset(n_environments, rng).sample(n, rng)


def eills(sets: int = 80) -> None:
    print(
        f"\nexact discovery of EILLS, p=10, n = 50, 200, 500, {3 * sets} data sets a line\n  E   "
        "centred   raw"
    )
    for n_environments in (5, 10, 20):
        found = {True: 0, False: 0}
        for n in (50, 200, 500):
            for seed in range(sets):
                data = data_set(p10, n_environments, n, seed)
                for center in found:
                    model = EILLS(center=center, progress=False).fit(data)
                    found[center] += bool((model.support_ == data.truth).all())
        shares = [found[center] / (3 * sets) for center in (True, False)]
        print(f"{n_environments:>3} {shares[0]:>9.2f} {shares[1]:>5.2f}", flush=True)


def screens(sets: int = 12) -> None:
    print(
        f"\nshare of {sets} data sets whose true features all pass the Lasso screen, p=450, n=200"
    )
    print("  E   standardised   raw")
    for n_environments in (5, 20, 40):
        kept = {True: 0, False: 0}
        for seed in range(sets):
            data = data_set(p450, n_environments, 200, seed)
            for standardize in kept:
                screening = LassoScreen(standardize=standardize, n_jobs=2).screen(data)
                kept[standardize] += bool(screening.kept[data.truth].all())
        print(
            f"{n_environments:>3} {kept[True] / sets:>14.2f} {kept[False] / sets:>5.2f}", flush=True
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    header("Published settings")
    eills()
    screens()
