"""Small data sets whose truth is known."""

from __future__ import annotations

import numpy as np

from .data.multi_environment import MultiEnvironmentData

_CAUSES = ("age", "exercise", "smoking")
_EFFECTS = ("pulse", "medication", "salt", "visits", "sleep")
_HOSPITALS = ("north", "south", "east", "west")


def make_example(rows_per_environment: int = 150, seed: int = 11) -> MultiEnvironmentData:
    """Invented blood pressures in four hospitals.

    Age, exercise and smoking cause blood pressure, in every hospital alike. The other five features follow from it, in
    each hospital in another way: they predict well inside a hospital and mislead in the next. `truth` marks the causes.
    """
    rng = np.random.default_rng(seed)
    blocks = []
    for h in range(len(_HOSPITALS)):
        n = rows_per_environment
        age = rng.normal(45 + 6 * h, 10 + 2 * h, n)
        exercise = rng.normal(4 - 0.6 * h, 1.5, n) - 0.02 * (age - 45)
        smoking = np.clip(rng.normal(6 + 2.5 * h, 4, n), 0, None)
        pressure = 90 + 0.6 * age - 2.5 * exercise + 0.9 * smoking + rng.normal(0, 4, n)
        excess = pressure - 120
        pulse = 75 + (0.45 - 0.15 * h) * excess + rng.normal(0, 4, n)
        medication = 3 + (0.05 + 0.05 * h) * excess + rng.normal(0, 1, n)
        salt = 8 - (0.02 + 0.03 * h) * excess + 0.05 * age + rng.normal(0, 1, n)
        visits = 4 + (0.12 - 0.03 * h) * excess + rng.normal(0, 1 + 0.3 * h, n)
        sleep = 7 - (0.03 * h) * excess + 0.2 * exercise + rng.normal(0, 0.8, n)
        blocks.append(np.column_stack([age, pulse, exercise, smoking, medication, salt, visits, sleep, pressure]))
    rows = np.vstack(blocks)
    names = ("age", "pulse", "exercise", "smoking", *_EFFECTS[1:])
    return MultiEnvironmentData(
        X=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        environment_index=np.repeat(np.arange(len(_HOSPITALS)), rows_per_environment),
        feature_names=names,
        environments=_HOSPITALS,
        outcome_name="blood_pressure",
        environment_name="hospital",
        truth=np.isin(names, _CAUSES),
    )
