"""Tables with several environments, made from a seed by numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

OUTCOME = "y"
ENVIRONMENT = "site"
EVENT = "event"
EXPOSURE = "years"
NEW_ROWS = 4
_MOVES = (0.0, 1.5, -1.0, 2.0, -2.0)
_SCALES = (1.0, 0.6, 1.5, 1.2, 0.8)


@dataclass(frozen=True, eq=False)
class Table:
    """rows : features, outcome, what comes with it, and labels; new : a few rows of one more
    environment"""

    rows: pd.DataFrame
    new: pd.DataFrame

    @property
    def features(self) -> list[str]:
        return [name for name in self.rows if name not in (OUTCOME, ENVIRONMENT, EVENT, EXPOSURE)]


def make(
    seed: int,
    outcome: str = "number",
    rows: Sequence[int] = (80, 90, 100),
    features: int = 5,
    twists: Sequence[str] = (),
) -> Table:
    """x1 and x2 cause the outcome, x3 is caused by it in another way in each environment, the
    others do not matter.

    outcome : "number", "binary", "count", "overdispersed", "rate" or "time"; twists : what is
        unusual about the table
    """
    rng = np.random.default_rng(seed)
    parts = [
        _environment(rng, e, n, outcome, features, twists) for e, n in enumerate((*rows, NEW_ROWS))
    ]
    new = parts.pop().drop(columns=[OUTCOME, ENVIRONMENT, EVENT, EXPOSURE], errors="ignore")
    table = pd.concat(parts, ignore_index=True)
    if "gaps" in twists:
        for name in ("x2", "x5"):
            table.loc[rng.random(len(table)) < 0.04, name] = np.nan
    if "shuffled" in twists:
        table = table.iloc[rng.permutation(len(table))].reset_index(drop=True)
    return Table(table, new)


def _environment(
    rng: np.random.Generator, e: int, n: int, outcome: str, features: int, twists: Sequence[str]
) -> pd.DataFrame:
    move = _MOVES[e % 5]
    scale = _SCALES[e % 5]
    columns: dict[str, np.ndarray] = {}
    x1 = move + scale * rng.standard_normal(n)
    x2 = 0.5 * x1 - 0.5 * move + (1.0 + 0.3 * (e % 3)) * rng.standard_normal(n)
    if "strong" in twists and e == 1:
        x1 = x1 + 1e5 * rng.standard_normal(n)
    score = 0.5 + x1 - 0.8 * x2
    if "curved" in twists:
        score = np.sin(2.0 * x1) + 0.5 * x2**2
    if "shifted" in twists:
        score = score + 1.2 * e + 0.5 * e * x1
    if "region" in twists:
        region = rng.choice(
            ["north", "south", "west"], size=n, p=[0.5 - 0.1 * (e % 3), 0.3, 0.2 + 0.1 * (e % 3)]
        )
        score = score + np.where(region == "south", 0.9, np.where(region == "west", -0.7, 0.0))
    y, seen, beside = _outcome(rng, e, n, outcome, score, twists)
    columns |= {"x1": x1, "x2": x2}
    columns["x3"] = (0.3 + 0.5 * (e % 3)) * seen + 0.5 * move + 0.7 * rng.standard_normal(n)
    if "strong child" in twists and e == 1:
        columns["x3"] = 1e6 * seen + rng.standard_normal(n)
    columns["x4"] = 0.7 * x2 + rng.standard_normal(n)
    for j in range(5, features + 1):
        columns[f"x{j}"] = 0.4 * move * (j % 2) + rng.standard_normal(n)
    last = columns[f"x{features}"]
    unusual = {
        "near": x1 + 1e-4 * last,
        "nearer": x1 + 1e-8 * last,
        "sum": x1 + x2,
        "copy": x1.copy(),
    }
    unusual["constant"] = np.full(n, 2.0)
    columns |= {f"x{features}": values for twist, values in unusual.items() if twist in twists}
    if "constant inside" in twists and e == 0:
        columns["x4"] = np.full(n, 1.5)
    if "cause constant inside" in twists and e == 0:
        columns["x1"] = np.full(n, 0.0)
    if "region" in twists:
        columns["region"] = region
    if "codes" in twists:
        columns["grade"] = rng.integers(0, 3, size=n)
    return pd.DataFrame(columns | {OUTCOME: y} | beside | {ENVIRONMENT: [f"s{e}"] * n})


def _outcome(
    rng: np.random.Generator, e: int, n: int, outcome: str, score: np.ndarray, twists: Sequence[str]
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """The outcome, it as a number of usual size, and what comes with it."""
    if outcome == "number":
        noise = rng.standard_t(3, n) if "heavy tails" in twists else rng.standard_normal(n)
        y = score + (1.0 + 0.7 * e if "unequal noise" in twists else 1.0) * noise
        return y, y, {}
    if outcome == "binary":
        y = (rng.random(n) < 1.0 / (1.0 + np.exp(-score))).astype(np.float64)
        return y, 2.0 * y, {}
    if outcome == "time":
        times = rng.exponential(np.exp(-0.6 * np.clip(score, -6, 6)))
        limit = rng.uniform(0.5, 6.0, n)
        time = np.maximum(np.minimum(times, limit), 1e-3)
        return time, -np.log(time), {EVENT: (times <= limit).astype(np.float64)}
    mean = np.exp(0.4 * np.clip(score, -8, 6) + 0.5)
    if outcome == "overdispersed":
        mean = mean * rng.gamma(2.0, 0.5, n)
    exposure = rng.uniform(0.5, 3.0, n) if outcome == "rate" else np.ones(n)
    y = rng.poisson(mean * exposure).astype(np.float64)
    return y, np.log1p(y / exposure), {EXPOSURE: exposure} if outcome == "rate" else {}
