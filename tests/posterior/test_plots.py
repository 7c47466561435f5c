"""The picture of the inclusion probabilities."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_hex

from invariance.exceptions import FileError
from invariance.posterior import Posterior
from invariance.posterior.plots import plot_inclusion, save_inclusion
from posteriors import random_posterior, run_without_package_init


def make_posterior(inclusion: Any, **changes: Any) -> Posterior:
    p = len(inclusion)
    names = {"feature_names": tuple(f"x{j}" for j in range(p))} | changes
    table = {"masks": np.zeros((1, p), dtype=bool), "log_ratios": [0.0], "log_probabilities": [0.0]}
    return replace(random_posterior(0, p=2), inclusion=np.asarray(inclusion), pairwise=None, **table, **names)


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What pyplot would keep open."""
    yield
    plt.close("all")


def labels(ax: Any) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


def bars(ax: Any) -> list[tuple[float, float, str]]:
    """(position, width, colour) of every bar from the top."""
    found = [(r.get_y() + r.get_height() / 2, r.get_width(), to_hex(r.get_facecolor())) for r in ax.patches]
    return sorted(found)


def test_bars_are_sorted_and_labelled() -> None:
    ax = plot_inclusion(make_posterior([0.2, 0.97, 0.2, 0.6]))
    assert labels(ax) == ["x1", "x3", "x0", "x2"]
    assert [width for _, width, _ in bars(ax)] == pytest.approx([0.97, 0.6, 0.2, 0.2])
    assert ax.get_xlabel() == "posterior inclusion probability"
    assert ax.get_ylabel() == "feature"
    assert ax.get_title(loc="left") == "Outcome y, 3 environments"
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.yaxis_inverted()
    assert [np.asarray(line.get_xdata()).tolist() for line in ax.get_lines()] == [[0.5, 0.5]]
    assert [text.get_text() for text in ax.texts] == ["0.970", "0.600", "0.200", "0.200"]
    assert ax.get_legend() is None


def test_top_and_long_names() -> None:
    names = tuple(f"{'a_very_long_feature_name_' * 4}{j}" for j in range(50))
    ax = plot_inclusion(make_posterior(np.linspace(0, 1, 50), feature_names=names), top=7)
    assert len(ax.patches) == 7
    assert ax.get_ylabel() == "feature (7 of 50)"
    assert all(len(label) == 32 and "…" in label for label in labels(ax))
    assert labels(ax)[0].endswith("49")


@pytest.mark.parametrize("truth", [["x0", "x2"], np.array([True, False, True])])
def test_truth_colours_the_bars(truth: Any) -> None:
    ax = plot_inclusion(make_posterior([0.9, 0.4, 0.1]), truth=truth)
    colours = [colour for _, _, colour in bars(ax)]
    assert colours[0] == colours[2] != colours[1]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["truly invariant", "not in the true subset"]


def test_files(tmp_path: Path) -> None:
    posterior = make_posterior([0.9, 0.4])
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        path = save_inclusion(posterior, tmp_path / name, truth=["x0"])
        assert path == tmp_path / name
        assert path.read_bytes().startswith(magic)
    with pytest.raises(FileError, match="nowhere"):
        save_inclusion(posterior, tmp_path / "nowhere" / "a.png")
    with pytest.raises(ValueError, match="x9"):
        plot_inclusion(posterior, truth=["x9"])


@pytest.mark.integration
def test_a_file_is_drawn_without_pyplot() -> None:
    run_without_package_init(
        "import tempfile\n"
        "import invariance.posterior.plots as plots\n"
        "assert 'matplotlib' not in sys.modules, 'matplotlib is imported before it is used'\n"
        "from posteriors import random_posterior\n"
        "with tempfile.TemporaryDirectory() as folder:\n"
        "    plots.save_inclusion(random_posterior(0), folder + '/a.png')\n"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot keeps global state'\n"
    )
