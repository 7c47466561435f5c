"""Draws from the light tunnel (Gamella, Peters, Bühlmann, "Causal chambers", CC BY 4.0): outcome
ir_3, five causes."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from invariance import MultiEnvironmentData

FILE = (
    Path(__file__).resolve().parents[2] / "shared" / "data" / "light_tunnel" / "light_tunnel.csv.gz"
)
OUTCOME = "ir_3"
CAUSES = ("red", "green", "blue", "pol_1", "pol_2")
DECOYS = ("vis_1", "vis_2", "vis_3", "ir_1", "ir_2", "current")
WEAK = ("t_ir_1_weak", "t_ir_2_weak", "t_vis_1_weak", "t_vis_2_weak", "t_vis_3_weak")
LAMPS = ("red_mid", "green_mid", "blue_mid")
# It acts on the outcome itself.
FAULTY = "t_ir_3_weak"


@cache
def rows_by_environment() -> dict[str, pd.DataFrame]:
    table = pd.read_csv(FILE, usecols=["environment", OUTCOME, *CAUSES, *DECOYS]).astype(
        {OUTCOME: float}
    )
    return {str(name): rows for name, rows in table.groupby("environment")}


def environments_apart(
    n: int, rng: np.random.Generator, extra: tuple[str, ...] = ()
) -> MultiEnvironmentData:
    """n rows of the reference and of every weak environment."""
    return _data(
        [_drawn(rows_by_environment()[name], n, rng) for name in ("reference", *WEAK, *extra)]
    )


def environments_and_rest(
    n: int, rng: np.random.Generator
) -> tuple[MultiEnvironmentData, dict[str, MultiEnvironmentData]]:
    """n rows of the reference and of every weak environment; all other rows of the weak ones, and
    those in which a lamp was set differently."""
    drawn = {name: _drawn(rows_by_environment()[name], n, rng) for name in ("reference", *WEAK)}
    rest = {name: rows_by_environment()[name].drop(drawn[name].index) for name in WEAK}
    rest |= {name: rows_by_environment()[name] for name in LAMPS}
    return _data([*drawn.values()]), {name: _data([rows]) for name, rows in rest.items()}


def reference_and_mixture(
    n: int, rng: np.random.Generator, left_out: str = ""
) -> tuple[MultiEnvironmentData, dict[str, MultiEnvironmentData]]:
    """FAIR's protocol: n rows of the reference, and n of the weak environments together, but for
    one left out.

    And what was not drawn of every weak environment.
    """
    weak = pd.concat([rows_by_environment()[name] for name in WEAK if name != left_out])
    mixture = _drawn(weak, n, rng)
    reference = _drawn(rows_by_environment()["reference"], n, rng)
    rest = {name: rows_by_environment()[name].drop(mixture.index, errors="ignore") for name in WEAK}
    seen = _data([reference, mixture.assign(environment="mixture")])
    return seen, {name: _data([rows]) for name, rows in rest.items()}


def _drawn(rows: pd.DataFrame, n: int, rng: np.random.Generator) -> pd.DataFrame:
    return rows.iloc[rng.choice(len(rows), n, replace=False)]


def _data(parts: list[pd.DataFrame]) -> MultiEnvironmentData:
    table = pd.concat(parts)
    index, labels = pd.factorize(table["environment"])
    return MultiEnvironmentData(
        X=table[[*CAUSES, *DECOYS]].to_numpy(float),
        y=table[OUTCOME].to_numpy(float),
        environment_index=index,
        feature_names=(*CAUSES, *DECOYS),
        environments=tuple(labels),
        outcome_name=OUTCOME,
        environment_name="environment",
        truth=np.arange(len(CAUSES) + len(DECOYS)) < len(CAUSES),
    )
