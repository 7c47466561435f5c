"""A table of four sites in which one thing of each kind is planted."""

from __future__ import annotations

import numpy as np
import pandas as pd

SITES = "ayr", "bath", "cork", "deal"
N_SITE = 60


def planted_table() -> pd.DataFrame:
    """y follows age and w; `PLANTED` lists what is wrong with the other columns."""
    rng = np.random.default_rng(0)
    n = N_SITE * len(SITES)
    site = np.repeat(SITES, N_SITE)
    age = rng.normal(50, 10, n).round(1)
    w = rng.integers(0, 2, n)
    table = pd.DataFrame({"site": site, "age": age, "w": w})
    table["y"] = (0.1 * age + w + rng.normal(size=n)).round(3)
    table["chol"] = np.where(site == "bath", 0.0, rng.normal(240, 30, n).round())
    table["glucose"] = rng.normal(100, 15, n).round()
    table.loc[[3, 7], "glucose"] = 0.0
    table["grade"] = rng.choice([3, 6, 7], n)
    table["mark"] = rng.choice([1, 2, 3, 4, 5], n)
    table.loc[table.index % 24 == 0, "mark"] = 9
    table["weeks"] = rng.integers(0, 40, n).astype(float)
    table.loc[table.index % 30 == 5, "weeks"] = -1.0
    table["months"] = rng.integers(0, 12, n).astype(float)
    table.loc[table.index < 6, "months"] = -9.0
    table["dose"] = np.where(site == "cork", 5.0, rng.integers(1, 9, n) * 1.5)
    table["beds"] = (
        pd.Series(site).map(dict(zip(SITES, (120, 340, 80, 560), strict=True))).to_numpy()
    )
    table["region"] = np.where(np.isin(site, ["ayr", "bath"]), "north", "south")
    for name in SITES[:2]:
        table[f"at_{name}"] = (site == name).astype(int)
    table["lab"] = [
        f"{value:.1f}" if k % 11 else "?" for k, value in enumerate(rng.normal(5, 1, n))
    ]
    table["blood"] = np.where(np.arange(n) % 17 == 0, "?", rng.choice(["a", "b", "ab", "0"], n))
    table["rare"] = np.where(rng.random(n) < 0.7, np.nan, rng.normal(size=n).round(2))
    table["some"] = np.where(rng.random(n) < 0.04, np.nan, rng.normal(size=n).round(2))
    return table


# {(column, code): whether it is a question}; None: of several columns
PLANTED = {
    ("chol", "one_value"): False,
    ("glucose", "zeros"): True,
    ("grade", "skips"): True,
    ("mark", "skips"): True,
    ("weeks", "far_values"): False,
    ("months", "far_values"): False,
    ("dose", "one_value"): True,
    ("beds", "within"): False,
    ("region", "within"): False,
    (None, "within"): False,
    ("lab", "words"): False,
    ("blood", "signs"): False,
    (None, "exclusion"): False,
    ("rare", "missing"): False,
    ("some", "missing"): False,
}
