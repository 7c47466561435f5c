"""Small excerpts of the yeast deletions: panels of genes, each deleted once."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from invariance._tools.arrays import Mask
from invariance.data.checks import quoted
from invariance.exceptions import DataError, FileError

from .yeast import YeastDeletions

_FILE = "panels_nodes.npz"
_ARRAYS = ("X", "samples", "genes", "is_obs", "ko_index", "labels")
_NOTE = (
    "A panel is 2% of the published matrix: few direct parents of a gene are inside, and a null result is possible. A "
    "deletion on which a gene is validated must not have been used to fit."
)


@dataclass(frozen=True, eq=False)
class YeastPanel:
    """One panel of d genes.

    strong : (d, d) strong[i, j]: deleting gene i moves gene j by at least 5 interquartile ranges from the median of
        other wild types; the diagonal is what deletions do to their own gene
    """

    number: int
    deletions: YeastDeletions
    strong: Mask


def load_yeast_panels(path: str | os.PathLike[str]) -> tuple[YeastPanel, ...]:
    """The panels of panels_nodes.npz, or of the folder where it lies."""
    place = Path(path).expanduser()
    file = place / _FILE if place.is_dir() else place
    if not file.exists():
        raise FileError(f"there is no file {str(file)!r}. Panels are read from {_FILE}.")
    try:
        with np.load(file) as archive:
            missing = [name for name in _ARRAYS if name not in archive]
            if missing:
                raise DataError(f"{file.name} holds no panels: it has no array {quoted(missing)}.")
            arrays = {name: archive[name] for name in _ARRAYS}
    except DataError:
        raise
    except Exception as error:
        raise DataError(f"{file.name} cannot be read as .npz: {error}. Check that the file is whole.") from error
    counts = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"{name} of {count}" for name, count in counts.items())
        raise DataError(f"{file.name}: arrays differ in the number of panels: {listed}. Check how it was written.")
    if not counts["X"]:
        raise DataError(f"{file.name} holds no panels: its arrays are empty. Check how it was written.")
    return tuple(
        _panel(number, *arrays_of_panel) for number, arrays_of_panel in enumerate(zip(*arrays.values(), strict=True))
    )


def _panel(
    number: int,
    values: np.ndarray,
    samples: np.ndarray,
    genes: np.ndarray,
    wild_type: np.ndarray,
    position: np.ndarray,
    labels: np.ndarray,
) -> YeastPanel:
    if not np.array_equal(wild_type, position < 0) or position.max(initial=-1) >= len(genes):
        raise DataError(f"panel {number}: is_obs and ko_index do not agree on which samples are wild types.")
    if labels.shape != (len(genes), len(genes)):
        raise DataError(f"panel {number}: labels are of {labels.shape}, not of {len(genes)} × {len(genes)} genes.")
    names = tuple(genes.tolist())
    deleted = tuple(None if j < 0 else names[j] for j in position.tolist())
    deletions = YeastDeletions(values, names, tuple(samples.tolist()), deleted, (_NOTE,))
    return YeastPanel(number, deletions, labels.astype(bool))
