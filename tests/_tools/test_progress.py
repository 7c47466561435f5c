"""When a progress bar appears, and what it says. What a notebook keeps of it: tests/notebooks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
from numba.core import event

from invariance._tools import progress
from invariance._tools.progress import COMPILING, ProgressBar, compilation_explained


class Clock:
    """Seconds pass when a test says so, and only then do timers call."""

    def __init__(self) -> None:
        self.now, self.timers = 0.0, list[SimpleNamespace]()

    def timer(self, seconds: float, call: Callable[[], None]) -> SimpleNamespace:
        timer = SimpleNamespace(call=call, at=self.now + seconds)
        timer.start = lambda: self.timers.append(timer)
        timer.cancel = lambda: setattr(timer, "at", np.inf)
        return timer

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for timer in self.timers:
            if timer.at <= self.now:
                timer.cancel()
                timer.call()


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: clock.now))
    monkeypatch.setattr(progress.threading, "Timer", clock.timer)
    monkeypatch.setattr(progress, "_called_at", np.inf)
    return clock


@pytest.mark.parametrize(
    ("mode", "wait", "shown"),
    [(True, 1.8, False), (True, 2.1, True), (False, 9.0, False), ("auto", 9.0, False)],
)
def test_long_work_shows_a_bar_where_somebody_looks(
    mode: progress.ProgressMode,
    wait: float,
    shown: bool,
    clock: Clock,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """While it goes on, never after the end."""
    with ProgressBar("counting", 100, mode) as bar:
        clock.sleep(wait)
        clock.sleep(0.1)
        bar.advance(1, "best -3.2")
    clock.sleep(9.0)
    said = capfd.readouterr().err
    assert all((text in said) == shown for text in ("counting", "best -3.2"))
    assert COMPILING not in said


@contextmanager
def compilation() -> Iterator[None]:
    with event.trigger_event("numba:compile"), event.trigger_event("numba:compile"):
        yield


def read(text: str, capfd: pytest.CaptureFixture[str]) -> bool:
    """Whether it appears, before long."""
    said = ""
    for _ in range(60_000):
        said += capfd.readouterr().err
        if text in said:
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("before", [0.0, 3.0])
def test_kernels_that_compile_are_the_reason(
    before: float, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether they begin before the wait is long or after it; a step has been done already."""
    with ProgressBar("counting", 2, True) as bar:
        bar.advance()
        clock.sleep(before)
        with compilation():
            clock.sleep(3.0)
            assert read(COMPILING, capfd)


@pytest.mark.parametrize("mode", [True, False, "auto"])
def test_kernels_that_compile_without_a_bar(
    mode: progress.ProgressMode, clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with compilation_explained(mode):
        with compilation():
            pass
        clock.sleep(3.0)
        assert capfd.readouterr().err == ""
        with compilation():
            pass
    assert (COMPILING in capfd.readouterr().err) == (mode is True)


@pytest.mark.parametrize(("mode", "lines"), [("auto", [COMPILING]), (False, []), (True, [])])
def test_kernels_that_compile_where_nobody_looks_are_logged_once(
    mode: progress.ProgressMode,
    lines: list[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(progress, "_logged", [])
    with caplog.at_level("INFO", "invariance"), compilation_explained(mode):
        for _ in range(2):
            with ProgressBar("counting", 2, mode), compilation():
                pass
    assert caplog.messages == lines


def test_a_function_hears_of_every_stage_and_of_compilations(clock: Clock) -> None:
    heard: list[tuple[float, str]] = []

    def hear(done: float, what: str) -> None:
        heard.append((done, what))

    with compilation_explained(hear):
        with compilation():
            pass
        with ProgressBar("counting", 2, hear) as bar:
            clock.sleep(0.12)
            bar.advance()
            with compilation():
                pass
    compiling = [(0.5, f"counting: {COMPILING}"), (0.5, "counting")]
    counted = [(0.0, "counting"), (0.5, "counting"), *compiling, (1.0, "counting")]
    assert heard == [(0.0, f"preparing: {COMPILING}"), *counted]
    heard.clear()
    with ProgressBar("counting", 700, hear) as bar:
        for _ in range(700):
            clock.sleep(1 / 64)
            bar.advance()
    assert len(heard) == 102  # every seventh step, which is after .1 s, and both ends
    heard.clear()
    with pytest.raises(ZeroDivisionError), ProgressBar("counting", 2, hear):
        raise ZeroDivisionError
    assert heard == [(0.0, "counting")]  # an error of the work is not the end of a stage


class Stopped(BaseException):
    pass


@pytest.mark.parametrize(
    ("at", "steps"), [("begun", 0), ("going on", 1), ("compiling", 2), ("done", 4)]
)
def test_what_a_function_raises_stops_the_work(at: str, steps: int, clock: Clock) -> None:
    reached = []

    def refuse(done: float, what: str) -> None:
        now = (
            "compiling" if COMPILING in what else {0.0: "begun", 1.0: "done"}.get(done, "going on")
        )
        if now == at:
            raise Stopped(at)

    def work() -> None:
        with ProgressBar("counting", 2, refuse) as bar:
            reached.append("begun")
            clock.sleep(0.12)
            bar.advance()
            reached.append("going on")
            with compilation():
                reached.append("compiling")
            bar.advance()
            reached.append("done")

    with pytest.raises(Stopped, match=at):
        work()
    assert len(reached) == steps


def test_lines_where_nobody_looks(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Many short stages of one fit are one wait; short work says nothing, however often."""
    now = [0.0]
    monkeypatch.setattr(progress, "time", SimpleNamespace(perf_counter=lambda: now[0]))

    def stages(mode: progress.ProgressMode = "auto") -> None:
        for stage in range(4):
            with ProgressBar(f"stage {stage}", 4, mode) as bar:
                bar.advance(1)
                now[0] += 6.0
                bar.advance(1, "best -3.2")

    with caplog.at_level("INFO", "invariance"):
        stages()
        for mode in (False, True):
            with compilation_explained(mode):
                stages(mode)
        assert caplog.messages == []
        with compilation_explained("auto"):
            stages()
    assert caplog.messages == ["stage 1: 50% (best -3.2)", "stage 3: 50% (best -3.2)"]


def test_lines_also_where_no_step_is_done(caplog: pytest.LogCaptureFixture, clock: Clock) -> None:
    with caplog.at_level("INFO", "invariance"), ProgressBar("counting", 4):
        clock.sleep(9.0)
        assert caplog.messages == []
        clock.sleep(1.0)
        assert caplog.messages == ["counting: 0%"]
    clock.sleep(99.0)
    assert caplog.messages == ["counting: 0%"]


@pytest.mark.parametrize("mode", [True, "auto"])
def test_short_work_after_short_work_starts_no_other_thread(
    mode: progress.ProgressMode, clock: Clock
) -> None:
    for _ in range(20):
        with compilation_explained(mode), ProgressBar("counting", 4, mode):
            clock.sleep(0.01)
    assert len(clock.timers) == 1
    clock.sleep(99.0)
    assert len(clock.timers) == 1  # nothing is open


def test_every_bar_appears_when_its_own_wait_is_long(
    clock: Clock, capfd: pytest.CaptureFixture[str]
) -> None:
    with ProgressBar("short", 4, True):
        clock.sleep(1.5)
    with ProgressBar("counting", 4, True):
        clock.sleep(1.9)
        assert capfd.readouterr().err == ""
        clock.sleep(0.2)
    assert "counting" in capfd.readouterr().err
