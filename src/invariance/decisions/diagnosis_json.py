"""A diagnosis as values that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import asdict, is_dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from .diagnosis import Diagnosis


def as_plain(diagnosis: Diagnosis) -> dict[str, Any]:
    named = diagnosis.named
    return {
        "outcome": diagnosis.outcome_name,
        "subset": list(diagnosis.subset),
        "alarm": diagnosis.alarm,
        "named": None if named is None else _label(named),
        "decisive": [_label(left.environment) for left in diagnosis.decisive],
        "threshold": diagnosis.threshold,
        "nothing_compatible": diagnosis.nothing_compatible,
        "p_invariant": _plain(diagnosis.p_invariant),
        "r2": _plain(diagnosis.r2),
        "unjudged": diagnosis.unjudged or None,
        "tolerance": _plain(diagnosis.tolerance),
        "all_environments": _plain(diagnosis.whole),
        "environments": [
            {"environment": _label(test.environment), "rows": test.rows, "against_the_rest": _plain(test.deviation)}
            for test in diagnosis.tests
        ],
        "features": list(diagnosis.feature_names),
        "inclusion": _plain(diagnosis.inclusion),
        "predictive_inclusion": _plain(diagnosis.predictive_inclusion),
        "left_out": [
            {
                "environment": _label(left.environment),
                "p_invariant": _plain(left.p_invariant),
                "r2": _plain(left.r2),
                "refit": _plain(left.refit),
            }
            for left in diagnosis.left_out
        ],
        "leading_subsets": _plain(diagnosis.leading),
        "experiments": _plain(diagnosis.experiments),
        "sites": {
            "largest_subset": diagnosis.sites.largest,
            "largest_without": {_label(site.environment): site.largest_without for site in diagnosis.sites.each},
        },
    }


def _label(label: Hashable) -> str:
    return str(label)


def _plain(value: Any) -> Any:
    """Numbers, text, lists and dictionaries; None for what is not a finite number."""
    if is_dataclass(value) and not isinstance(value, type):
        return _plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value
