"""Those who wait for libraries read why, on terminals."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable

import pytest

from app_server import wait_until
from invariance.cli import inputs as loading
from invariance.cli.inputs import loading_announced

LAST = "invariance.estimators.bip"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def unloaded(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The libraries are not there until this is called."""
    import invariance.estimators.bip as loaded

    monkeypatch.delitem(sys.modules, LAST)
    monkeypatch.setattr(loading, "_PATIENCE", 0.01)
    return lambda: monkeypatch.setitem(sys.modules, LAST, loaded)


def test_a_line_that_goes_when_they_are_there(unloaded: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with loading_announced(True):
        wait_until(screen.getvalue)
        assert screen.getvalue() == "loading libraries …"
        unloaded()
        wait_until(lambda: screen.getvalue().endswith("\r"))
    assert screen.getvalue().split("\r") == ["loading libraries …", " " * 19, ""]


def test_it_goes_before_an_error_is_printed(unloaded: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", screen := Terminal())

    @loading_announced(True)
    def fails() -> None:
        wait_until(screen.getvalue)
        raise KeyError

    with pytest.raises(KeyError):
        fails()
    assert screen.getvalue().endswith("\r")


@pytest.mark.parametrize(("wanted", "screen"), [(False, Terminal()), (True, io.StringIO())])
def test_nobody_else_sees_it(
    wanted: bool, screen: io.StringIO, unloaded: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setattr(loading, "_announce", lambda left: screen.write("loading"))
    with loading_announced(wanted):
        pass
    assert screen.getvalue() == ""


def test_nor_who_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    import invariance.estimators.bip  # noqa: F401

    monkeypatch.setattr(loading, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stderr", screen := Terminal())
    with loading_announced(True):
        pass
    assert screen.getvalue() == ""
