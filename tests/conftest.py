from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from bad_tables import GOOD
from invariance.datasets import make_example
from invariance.report.page import Picture

# Neither an example nor the making of examples has to be quick.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("untimed"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "untimed")


@pytest.fixture
def workdir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.csv").write_text(GOOD)
    return tmp_path


@pytest.fixture
def example(workdir: Path) -> Path:
    """The demo's data as a table."""
    make_example().to_frame().to_csv("example.csv", index=False)
    return workdir / "example.csv"


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests of other things: short searches for compatible subsets, and luck simulated from few
    data sets."""
    monkeypatch.setattr("invariance.decisions.predictive._STEPS", 30)
    monkeypatch.setattr("invariance.decisions.selection_error.SIMULATED", 10)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take most of the time of a report; their words stay."""
    pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariant-prediction[report]'")
    monkeypatch.setattr(
        "invariance.report.sections.picture", lambda draw, size, caption: Picture("", "", caption)
    )
