from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from numba.core.caching import IndexDataCacheFile

from bad_tables import GOOD
from invariance.datasets import make_example
from invariance.report.page import Picture


def _one_process_at_a_time(method: Callable[..., Any]) -> Callable[..., Any]:
    """Of two processes that save two signatures of a kernel, numba may let the index name the code of the other."""

    def locked(cache: IndexDataCacheFile, *arguments: Any) -> Any:
        folder = os.open(cache._cache_path, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            return method(cache, *arguments)
        finally:
            os.close(folder)

    return locked


for _name in ("save", "load"):
    setattr(IndexDataCacheFile, _name, _one_process_at_a_time(getattr(IndexDataCacheFile, _name)))
settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")


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
    """For tests of other things: short searches for compatible subsets, and luck simulated from few data sets."""
    monkeypatch.setattr("invariance.decisions.predictive._STEPS", 30)
    monkeypatch.setattr("invariance.decisions.luck.SIMULATED", 10)


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pictures take most of the time of a report; their words stay."""
    pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")
    monkeypatch.setattr("invariance.report.sections.picture", lambda draw, size, caption: Picture("", caption))
