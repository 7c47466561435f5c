"""Simulated patients in hospitals with known causes: a clean table, and a clinical one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ._tools.arrays import Floats
from .data.multi_environment import MultiEnvironmentData

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["make_clinical_table", "make_example", "make_new_hospital"]
_CAUSES = ("age", "exercise", "smoking")
_FEATURES = ("age", "pulse", "exercise", "smoking", "medication", "salt", "visits", "sleep")
# The hospitals, the new one last: how old and unhealthy their patients are, and how each effect
# follows blood pressure.
_HOSPITALS = ("north", "south", "east", "west", "coast", "hill", "centre")
_SHIFT = (0, 1, 2, 3, 0.5, 2.5, 4)
_FOLLOWS = {
    "pulse": (0.45, 0.1, -0.25, 0.3, 0.4, 0.35, -0.4),
    "medication": (0.12, 0.03, 0.08, -0.05, 0.1, 0.08, -0.1),
    "salt": (-0.15, 0.05, -0.03, 0.1, -0.12, -0.1, 0.15),
    "visits": (0.15, -0.1, 0.05, 0.0, 0.12, 0.1, -0.15),
    "sleep": (0.1, -0.05, 0.0, -0.1, 0.08, 0.06, 0.12),
}


def make_example(rows_per_environment: int = 150, seed: int = 11) -> MultiEnvironmentData:
    """Simulate blood pressures in six hospitals.

    Age, exercise and smoking cause blood pressure, with the same effects in every hospital. The
    other five features are effects of blood pressure that differ between hospitals: they predict
    well within a hospital and mislead in another one.

    Parameters
    ----------
    rows_per_environment : int, default=150
        Patients of each hospital.
    seed : int, default=11
        Seed.

    Returns
    -------
    MultiEnvironmentData
        Data of 8 features; `truth` marks the causes.

    Examples
    --------
    >>> from invariance.datasets import make_example
    >>> make_example().X.shape
    (900, 8)
    """
    return _hospitals(range(6), rows_per_environment, seed)


def make_new_hospital(rows: int = 150, seed: int = 12) -> MultiEnvironmentData:
    """Simulate a seventh hospital for the models of `make_example`.

    Causes act as in the other hospitals, effects of blood pressure differ.

    Parameters
    ----------
    rows : int, default=150
        Patients.
    seed : int, default=12
        Seed.

    Returns
    -------
    MultiEnvironmentData
        Data of one environment.
    """
    return _hospitals(range(6, 7), rows, seed)


def _hospitals(numbers: range, n: int, seed: int) -> MultiEnvironmentData:
    rng = np.random.default_rng(seed)
    rows = np.vstack([_rows(h, n, rng) for h in numbers])
    return MultiEnvironmentData(
        X=np.ascontiguousarray(rows[:, :-1]),
        y=rows[:, -1].copy(),
        environment_index=np.repeat(np.arange(len(numbers)), n),
        feature_names=_FEATURES,
        environments=tuple(_HOSPITALS[h] for h in numbers),
        outcome_name="blood_pressure",
        environment_name="hospital",
        truth=np.isin(_FEATURES, _CAUSES),
    )


def _rows(h: int, n: int, rng: np.random.Generator) -> Floats:
    """Return the features and blood pressure of hospital h, (n, 9)."""
    shift = _SHIFT[h]
    age = rng.normal(45 + 6 * shift, 10 + 2 * shift, n)
    exercise = rng.normal(4 - 0.6 * shift, 1.5, n) - 0.02 * (age - 45)
    smoking = np.clip(rng.normal(6 + 2.5 * shift, 4, n), 0, None)
    pressure = 90 + 0.6 * age - 2.5 * exercise + 0.9 * smoking + rng.normal(0, 4, n)
    follows = {name: slopes[h] * (pressure - 120) for name, slopes in _FOLLOWS.items()}
    pulse = 75 + follows["pulse"] + rng.normal(0, 4, n)
    medication = 3 + follows["medication"] + rng.normal(0, 1, n)
    salt = 8 + follows["salt"] + 0.05 * age + rng.normal(0, 1, n)
    visits = 4 + follows["visits"] + rng.normal(0, 1 + 0.3 * shift, n)
    sleep = 7 + follows["sleep"] + 0.2 * exercise + rng.normal(0, 0.8, n)
    return np.column_stack(
        [age, pulse, exercise, smoking, medication, salt, visits, sleep, pressure]
    )


# ---------------------------------------------------------------- a table as it comes from a
# hospital

_SITES = ("Ashford", "Brook", "Castle", "Dale", "Elmwood", "Fenton", "Grove", "Hill", "St. Mary")
# How each effect follows its outcome, in each hospital
_PULSE = (-0.10, 0.04, -0.07, 0.02, -0.12, 0.06, -0.02, 0.08, -0.09)
_CRP = (1.9, -1.3, 1.2, -0.4, 2.2, -1.6, 0.7, -0.9, 1.5)
_VISITS = (-1.4, 0.6, -0.9, 0.2, -1.7, 0.9, -0.3, 0.5, -1.1)
_DRUGS = (1.1, -0.4, 0.7, 0.0, 1.3, -0.6, 0.3, -0.2, 0.9)
_WARDS = (11, 12, 23, 31)
_NOTE = (
    (
        "Patient alert and oriented",
        "Feels weak since the weekend",
        "Slept badly, appetite normal",
        "No complaints today",
    ),
    (
        "wound dry and clean",
        "oedema of both legs",
        "lungs clear on both sides",
        "walks with a frame",
    ),
    (
        "daughter informed by phone",
        "physiotherapy twice a day",
        "diet discussed with the kitchen",
        "see letter of GP",
    ),
)


def make_clinical_table(rows: int = 2500, seed: int = 34, decimal: str = ".") -> pd.DataFrame:
    """Simulate patients of nine hospitals in a table with the defects of clinical tables.

    `invariance.check` reports the defects. The outcomes are readmitted (0 or 1); days until death
    or the end of observation, with died (0 or 1); falls in years of observation; and walk, the
    metres walked in six minutes. Age, haemoglobin, BMI and smoking cause each of them, with the
    same effects in every hospital. Pulse is an effect of walk, CRP of readmission, visits of days
    and drugs of falls, with effects that differ between hospitals.

    Parameters
    ----------
    rows : int, default=2500
        Patients.
    seed : int, default=34
        Seed. The default was selected among eight for a clear example; with each of the eight the
        four causes are selected.
    decimal : str, default="."
        Decimal sign of numbers that are written as text; `to_csv` takes the sign of the others.

    Returns
    -------
    DataFrame of shape (rows, n_columns)
        The table.

    Examples
    --------
    >>> from invariance.datasets import make_clinical_table
    >>> len(make_clinical_table())
    2500
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    sizes = rng.multinomial(rows - 9 * (rows // 18), np.full(9, 1 / 9)) + rows // 18
    site = np.repeat(np.arange(9), sizes)
    shift = rng.permutation(np.linspace(-1, 1, 9)).repeat(sizes)

    age = np.clip(rng.normal(64 + 9 * shift, 11), 18, 99).round()
    woman = rng.random(rows) < 0.5
    bmi = np.clip(
        rng.normal(27 - 2.5 * rng.permutation(np.linspace(-1, 1, 9))[site], 4), 15, 55
    ).round(1)
    haemoglobin = (
        rng.normal(13.4 - 1.2 * rng.permutation(np.linspace(-1, 1, 9))[site], 1.5) - 0.8 * woman
    ).round(1)
    smoker = rng.choice(
        np.array(["never", "former", "current"], dtype=object), rows, p=[0.5, 0.3, 0.2]
    )
    smoking = np.select([smoker == "former", smoker == "current"], [0.4, 1.0], 0.0)
    frailty = (
        0.05 * (age - 64) - 0.35 * (haemoglobin - 13) + 0.09 * (bmi - 27) + 1.1 * (smoking - 0.3)
    )

    readmitted = (rng.random(rows) < 1 / (1 + np.exp(0.9 - frailty))).astype(int)
    death = rng.exponential(500 * np.exp(-0.9 * frailty))
    followed = rng.uniform(120, 720, rows)
    died = (death < followed).astype(int)
    days = np.maximum(np.minimum(death, followed), 0.5).round(1)
    years = rng.uniform(0.3, 2.0, rows).round(2)
    falls = rng.poisson(years * np.exp(0.1 + 0.6 * frailty))
    walk = (430 - 45 * frailty + rng.normal(0, 45, rows)).round()

    pulse = (78 + np.array(_PULSE)[site] * (walk - 430) + rng.normal(0, 5, rows)).round()
    crp = np.exp(1.2 + np.array(_CRP)[site] * (readmitted - 0.3) + rng.normal(0, 0.9, rows))
    visits = (9 + np.array(_VISITS)[site] * np.log(days / 200) + rng.normal(0, 1.2, rows)).round(1)
    drugs = (7 + np.array(_DRUGS)[site] * (falls - 1) + rng.normal(0, 1.4, rows)).round(1)
    lactate = np.exp(rng.normal(0.3, 0.35, rows)).round(2)
    creatinine = 70 + 0.5 * (age - 64) - 12 * woman
    creatinine = creatinine * np.exp(rng.normal(0.1, 0.25, rows))

    # What is untidy: units, codes, limits, gaps and labels
    hill = site == _SITES.index("Hill")
    creatinine = np.where(hill, (creatinine / 88.4).round(2), creatinine.round())
    bmi[rng.random(rows) < 0.01] = 999
    haemoglobin[rng.random(rows) < 0.04] = np.nan
    smoker[rng.random(rows) < 0.05] = None
    lactate[site == _SITES.index("Fenton")] = np.nan
    written = np.array([f"{value:.1f}".replace(".", decimal) for value in crp], dtype=object)
    hospital = np.array(_SITES, dtype=object)[site]
    hospital[(hospital == "St. Mary") & (rng.random(rows) < 0.4)] = "St.\N{NO-BREAK SPACE}Mary"
    table = {
        "patient_id": rng.choice(np.arange(100_000, 999_999), rows, replace=False),
        "hospital": hospital,
        "admission_date": pd.Timestamp("2023-01-01")
        + pd.to_timedelta(rng.integers(0, 700, rows), "D"),
        "age": age.astype(int),
        "sex": np.where(woman, "f", "m"),
        "ward": rng.choice(_WARDS, rows),
        "smoker": smoker,
        "bmi": bmi,
        "haemoglobin": haemoglobin,
        "creatinine": creatinine,
        "lactate": lactate,
        "crp": np.where(crp < 0.5, f"<0{decimal}5", written),
        "pulse": pulse.astype(int),
        "visits": visits,
        "drugs": drugs,
        "note": [
            ". ".join(parts)
            for parts in zip(*(rng.choice(words, rows) for words in _NOTE), strict=True)
        ],
        "readmitted": readmitted,
        "days": days,
        "died": died,
        "falls": falls,
        "years": years,
        "walk": walk,
    }
    frame = pd.DataFrame(table).sample(frac=1, random_state=seed, ignore_index=True)
    return frame.assign(admission_date=frame["admission_date"].dt.strftime("%Y-%m-%d"))
