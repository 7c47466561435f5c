from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

import kernel_cache
from bad_tables import GOOD
from cli_runner import run

kernel_cache.keep_in_order()
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
    assert run("demo", "--csv", "example.csv").exit_code == 0
    return workdir / "example.csv"
