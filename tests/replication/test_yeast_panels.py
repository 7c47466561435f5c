"""Panels of yeast genes, and what importing the room costs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from invariance.exceptions import DataError, FileError
from replication.yeast_panels import YeastPanel, load_yeast_panels


def arrays(panels: int = 2, genes: int = 3, wild_types: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    n = wild_types + genes
    values = rng.normal(size=(panels, n, genes))
    order = np.array([rng.permutation(genes) for _ in range(panels)]).reshape(panels, genes)
    for panel in range(panels):
        values[panel, wild_types + np.arange(genes), order[panel]] = -9.0
    return {
        "X": values,
        "samples": np.array([[f"s{panel}{i}" for i in range(n)] for panel in range(panels)], dtype=str),
        "genes": np.array([[f"G{panel}{j}" for j in range(genes)] for panel in range(panels)], dtype=str),
        "is_obs": np.repeat([[True] * wild_types + [False] * genes], panels, axis=0),
        "ko_index": np.hstack([np.full((panels, wild_types), -1), order]).astype(np.int16),
        "labels": rng.integers(0, 2, (panels, genes, genes)).astype(np.int8),
    }


def save(folder: Path, **changed: np.ndarray | None) -> Path:
    kept = {name: array for name, array in (arrays() | changed).items() if array is not None}
    np.savez(folder / "panels_nodes.npz", **kept)
    return folder


def test_panels(tmp_path: Path) -> None:
    panels = load_yeast_panels(save(tmp_path))
    published = arrays()
    assert [panel.number for panel in panels] == [0, 1]
    for p, panel in enumerate(panels):
        assert isinstance(panel, YeastPanel)
        np.testing.assert_array_equal(panel.deletions.values, published["X"][p])
        np.testing.assert_array_equal(panel.strong, published["labels"][p] == 1)
        assert panel.strong.dtype == bool
        assert panel.deletions.genes == (f"G{p}0", f"G{p}1", f"G{p}2")
        assert panel.deletions.deleted[4:] == tuple(f"G{p}{j}" for j in published["ko_index"][p, 4:])
        assert panel.deletions.silenced == 1.0
        assert "a null result is possible" in panel.deletions.describe()
    assert load_yeast_panels(tmp_path / "panels_nodes.npz")[1].deletions.samples[0] == "s10"


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"labels": None}, "no array 'labels'"),
        ({"is_obs": ~arrays()["is_obs"]}, "panel 0: is_obs and ko_index"),
        ({"ko_index": arrays()["ko_index"] * 2}, "panel 0: is_obs and ko_index"),
        ({"genes": arrays()["genes"][:1]}, "X of 2, samples of 2, genes of 1, is_obs"),
        (arrays(panels=0), "no panels"),
        ({"labels": arrays()["labels"][:, :, :2]}, r"panel 0: labels are of \(3, 2\)"),
    ],
)
def test_complaints(tmp_path: Path, changed: dict, named: str) -> None:
    with pytest.raises(DataError, match=named):
        load_yeast_panels(save(tmp_path, **changed))


def test_files_that_are_not_there_or_cut_off(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"panels_nodes.npz"):
        load_yeast_panels(tmp_path)
    file = save(tmp_path) / "panels_nodes.npz"
    file.write_bytes(file.read_bytes()[:300])
    with pytest.raises(DataError, match=r"cannot be read as .npz"):
        load_yeast_panels(file)


@pytest.mark.integration
def test_importing_the_room_is_light() -> None:
    heavy = "pandas", "scipy", "numba", "h5py", "rdata"
    code = f"import sys, invariance.datasets; print([name for name in {heavy} if name in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"
