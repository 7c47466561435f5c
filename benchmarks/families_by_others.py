"""Families that somebody else wrote: how often invariant data are rejected in small environments.

python benchmarks/families_by_others.py            150 data sets a cell, the true subset (a few
    minutes)
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.stats import chi2

from _families import GammaLog, PlainLogistic, skewed
from _harness import header, table
from invariance import MultiEnvironmentData
from invariance.models.invariance_test import deviance_test
from invariance.models.likelihood import ByLikelihood

ROWS = (4, 8, 15, 30, 60)
COLUMNS = (1, 3)
ENVIRONMENTS = 6
LEVEL = 0.05
# {name: shape of Gamma outcomes; None: of two classes}
OUTCOMES: dict[str, float | None] = {
    "gamma, shape 0.7": 0.7,
    "gamma, shape 2": 2.0,
    "gamma, shape 10": 10.0,
    "class": None,
}


def data_set(shape: float | None, n_rows: int, columns: int, seed: int) -> MultiEnvironmentData:
    X, y, sites = skewed(ENVIRONMENTS, n_rows, seed, shape or 2.0, max(COLUMNS))
    if shape is None:
        y = (
            np.random.default_rng([seed, 1]).random(len(y)) < 1.0 / (1.0 + np.exp(-X[:, 0]))
        ).astype(float)
    return MultiEnvironmentData.from_arrays(X[:, :columns], y, sites)


def rejected(shape: float | None, n_rows: int, columns: int, sets: int) -> list[str]:
    """By a chi-square law, and by the law that is used; and of how many data sets no fit was had"""
    family: ByLikelihood = PlainLogistic() if shape is None else GammaLog()
    found = []
    for seed in range(sets):
        model = family.bind(data_set(shape, n_rows, columns, seed))
        mask = np.ones((1, columns), dtype=bool)
        figures = model.figures(mask)
        if not figures.log_ratio[0] > -np.inf:
            continue
        null = model.null_of(figures)
        deviance = -2.0 * figures.log_ratio
        used = deviance_test(deviance, -2.0 * null.expected, null.degrees, np.zeros(1))[0]
        found.append([chi2.sf(deviance, figures.degrees)[0], used])
    if not found:
        return ["–", "refused", f"{sets}"]
    return [
        *(f"{share:.3f}" for share in np.mean(np.array(found) < LEVEL, axis=0)),
        f"{sets - len(found)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=150)
    sets = parser.parse_args().sets
    header(
        f"Invariant data rejected at {LEVEL:g}: {ENVIRONMENTS} environments, {sets} data sets a "
        "cell"
    )
    head = ("outcome", "columns", "rows each", "by chi-square", "as tested", "without a fit")
    cells = ((name, k, n) for name in OUTCOMES for k in COLUMNS for n in ROWS)
    table(
        head,
        ((name, f"{k}", f"{n}", *rejected(OUTCOMES[name], n, k, sets)) for name, k, n in cells),
    )


if __name__ == "__main__":
    main()
