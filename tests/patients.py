"""A table of patients with categories and numbers: smoking and age raise blood pressure alike in
every hospital."""

from __future__ import annotations

import numpy as np
import pandas as pd

LEVELS = {
    "sex": ["f", "m"],
    "smoking": ["never", "former", "current"],
    "region": ["north", "south", "east", "west", "centre"],
}


def patients(n: int = 150, seed: int = 0) -> pd.DataFrame:
    """n rows in each of four hospitals, in which ages, smoking and what follows from blood pressure
    differ."""
    rng = np.random.default_rng(seed)
    parts = []
    for e, hospital in enumerate(["aa", "bb", "cc", "dd"]):
        smoking = rng.choice(LEVELS["smoking"], n, p=[0.2 + 0.15 * e, 0.3, 0.5 - 0.15 * e])
        age = rng.normal(40.0 + 6.0 * e, 5.0 + 3.0 * e, n)
        effect = pd.Series(smoking).map({"never": 0.0, "former": 8.0, "current": 5.0}).to_numpy()
        pressure = 100.0 + 0.5 * age + effect + rng.normal(0.0, 3.0, n)
        drugs = pressure + rng.normal(0.0, 2.0 + 4.0 * e, n) + 10.0 * e
        parts.append(
            pd.DataFrame(
                {
                    "sex": rng.choice(LEVELS["sex"], n),
                    "age": age,
                    "smoking": smoking,
                    "region": rng.choice(LEVELS["region"], n),
                    "drugs": drugs,
                    "pressure": pressure,
                    "hospital": hospital,
                }
            )
        )
    return pd.concat(parts, ignore_index=True)
