"""A fingerprint of data: which rows, or moments, a saved model came from."""

from __future__ import annotations

import hashlib
import json

import numpy as np
from numpy.typing import NDArray

from ..data.multi_environment import MultiEnvironmentData
from ..moments.moments import Moments


def fingerprint(data: MultiEnvironmentData | Moments) -> str:
    """ "sha256:…" over, in this order: what kind of data it is, their shape, the names of the columns, of the outcome
    and of the environments as JSON; then the numbers as little-endian 64-bit values, row by row: X, y and the
    environment of each row, and events or exposures where there are such; or counts, means in two parts and scatter of
    moments.
    """
    arrays: tuple[NDArray, ...]
    if isinstance(data, Moments):
        arrays, columns = (data.counts, data.centre, data.rest, data.scatter), data.columns
    else:
        arrays, columns = (data.X, data.y, data.environment_index, *data.beside.values()), data.features.columns
    labels = [str(label) for label in data.environments]
    heading = [type(data).__name__, [list(array.shape) for array in arrays], columns, data.outcome_name, labels]
    digest = hashlib.sha256(json.dumps(heading).encode("utf-8"))
    for array in arrays:
        kind = "<i8" if array.dtype.kind == "i" else "<f8"
        digest.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    return f"sha256:{digest.hexdigest()}"
