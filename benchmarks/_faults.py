"""Environments with a planted fault: is the right one named, and is none named where there is no
fault?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import _light_tunnel as tunnel
from invariance import BIP, MultiEnvironmentData
from invariance.decisions.diagnosis import Diagnosis
from invariance.simulation import flat

KINDS = ("none", "intercept + σ", "slope × 0", "noise × 2")


def planted(
    kind: str, seed: int, n: int = 200, n_environments: int = 10
) -> tuple[MultiEnvironmentData, int]:
    """The flat simulation, with the outcome recorded in another way in one environment."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    model = flat(n_environments, rng)
    data = model.sample(n, rng)
    broken = int(rng.integers(1, n_environments))
    cause = int(rng.choice(np.flatnonzero(model.truth)))
    rows = data.rows(broken)
    y = data.y.copy()
    deviation = np.sqrt(model.variances[broken, -1])
    if kind == "intercept + σ":
        y[rows] += deviation
    elif kind == "slope × 0":
        y[rows] -= model.coefficients[broken, -1, cause] * data.X[rows, cause]
    elif kind == "noise × 2":
        y[rows] += np.sqrt(3.0) * deviation * rng.normal(size=len(rows))
    return replace(data, y=y), broken


def one_fault(kind: str, seed: int) -> tuple[bool, bool, bool]:
    """Whether there is an alarm, whether it names the environment that was disturbed, and whether
    that is named or told first among those without which a better subset is compatible."""
    data, broken = planted(kind, seed)
    return _told(BIP(progress=False).fit(data).diagnose(), data.environments[broken])


def _told(diagnosis: Diagnosis, label: object) -> tuple[bool, bool, bool]:
    named = diagnosis.named == label
    return (
        diagnosis.alarm,
        named,
        named or (len(diagnosis.decisive) > 0 and diagnosis.decisive[0].environment == label),
    )


def one_faulty_tunnel(n: int, seed: int) -> tuple[bool, bool, bool]:
    data = tunnel.environments_apart(n, np.random.default_rng([seed, n]), extra=(tunnel.FAULTY,))
    return _told(BIP(progress=False).fit(data).diagnose(), tunnel.FAULTY)
