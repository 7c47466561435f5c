"""When a progress bar appears, and what it says."""

from __future__ import annotations

import time

import pytest

from invariance import progress
from invariance.progress import ProgressBar


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_WORTH_SHOWING", 0.2)
    monkeypatch.setattr(progress, "_FIRST_LOOK", 0.02)


def test_short_work_shows_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 3, True) as bar:
        for _ in range(3):
            bar.advance()
    assert capfd.readouterr().err == ""


def test_long_work_shows_a_bar(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 100, True) as bar:
        time.sleep(0.05)
        bar.advance(1, "best -3.2")
        assert bar.shown
    shown = capfd.readouterr().err
    assert "counting" in shown
    assert "best -3.2" in shown


def test_a_first_step_that_takes_long_is_explained(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, True) as bar:
        time.sleep(0.5)
        assert bar.shown
    assert "compiling, once after an installation" in capfd.readouterr().err


@pytest.mark.parametrize("mode", [False, "auto"])
def test_not_where_nobody_looks(mode: progress.ProgressMode, capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, mode) as bar:
        time.sleep(0.3)
        bar.advance()
        assert not bar.shown
    assert capfd.readouterr().err == ""


def test_nothing_appears_after_the_end(capfd: pytest.CaptureFixture[str]) -> None:
    with ProgressBar("counting", 2, True) as bar:
        pass
    time.sleep(0.3)
    assert not bar.shown
    assert capfd.readouterr().err == ""
