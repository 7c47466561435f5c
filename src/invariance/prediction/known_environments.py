"""What is added to predictions in environments that were fitted."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from .._tools.arrays import Floats
from ..data.checks import check_lengths, nearest, warn, with_counts
from ..data.columns import aligned, as_frame, frame_names, label_list
from ..data.labels import encode_labels
from ..exceptions import DataError, PredictionWarning


def effects_of_rows(X: Any, environments: Any, effects: Mapping[Hashable, float]) -> Floats:
    """(n,) the effect of the environment of each row of X; 0, with a warning, where it is not known.

    environments : one label per row, or the name of a column of X; effects : {label: effect}
    """
    if isinstance(environments, str):
        available = frame_names(X) or []
        if environments not in available:
            raise DataError(f"environments={environments!r} is no column of X; {nearest(environments, available)}")
        environments = as_frame(X, "X")[environments].to_native()
    codes, labels = encode_labels(label_list(*aligned(X, environments=environments)))
    check_lengths({"X": len(X), "environments": len(codes)})
    written = {str(label): effect for label, effect in effects.items()}
    # A missing label has the code -1, the last place.
    found = np.array([*(effects.get(label, written.get(str(label), np.nan)) for label in labels), np.nan])
    unknown = np.isnan(found)
    counts = np.bincount(codes % len(found), minlength=len(found)) * unknown
    if counts.any():
        where = with_counts((*labels, "missing label"), counts)
        warn(
            f"no row of these environments was fitted: {where}. They get the intercept of a new one.", PredictionWarning
        )
    return np.where(unknown, 0.0, found)[codes]
