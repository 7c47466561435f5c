"""Remarks on a verdict if selected features are constant within every environment."""

from __future__ import annotations

import numpy as np

from .._tools.arrays import Mask
from ..data.site_level import constant_in_words
from ..models.base import BoundModel


def absorbed_baselines(model: BoundModel, mask: Mask) -> int:
    """Return how many of the E − 1 differences between baselines a subset (p,) absorbs by features
    that are constant within every environment: the rank of their values about the mean."""
    values = model.observed.site_level.values_of(
        model.features.expand(mask & model.constant_within)
    )
    apart = values - values.mean(axis=0)
    largest = np.abs(apart).max(axis=0)
    return int(np.linalg.matrix_rank(apart / np.where(largest > 0.0, largest, 1.0)))


def site_level_caution(model: BoundModel, mask: Mask) -> str:
    """Return a caution for a subset (p,) with features that are constant within every
    environment."""
    names = model.features.chosen(mask & model.constant_within).names
    n_environments = model.n_environments
    counted = f"{absorbed_baselines(model, mask)} of {n_environments - 1}"
    caution = constant_in_words(names, n_environments)
    return (
        f"{caution}. Differences between baselines that this absorbs and leaves untested: "
        f"{counted}."
    )
