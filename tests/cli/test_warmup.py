"""The command `warmup`; what it leaves compiled: tests/test_installation.py."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from cli_runner import fails, run
from invariance.cli.warmup import _OTHERS, _USUAL, _fit
from invariance.exceptions import InvarianceWarning
from invariance.kernels.compiled import NOTHING_IS_KEPT


def test_warmup_runs_kinds_of_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The usual ones, or all; an error where what they compile is lost."""
    asked: list[list[str]] = []

    def give_out(function: Any, names: list[str], **how: Any) -> tuple[str, Iterator[str]]:
        asked.append(names)
        return "nobody", iter(names)

    def lose(function: Any, names: list[str], **how: Any) -> tuple[str, Iterator[str]]:
        return "nobody", map(refuse, names)

    def refuse(name: str) -> str:
        raise InvarianceWarning(NOTHING_IS_KEPT)

    monkeypatch.setattr("invariance._tools.parallel.run_tasks", give_out)
    for options in ([], ["--all"]):
        assert (
            f"{len(_USUAL | (_OTHERS if options else {}))} kinds of fits"
            in run("warmup", *options).stdout
        )
    assert asked == [[*_USUAL], [*_USUAL, *_OTHERS]]
    monkeypatch.setattr("invariance._tools.parallel.run_tasks", lose)
    assert "NUMBA_CACHE_DIR" in fails("warmup")


def test_a_fit_of_warmup_whose_code_is_lost_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    def fit(*_: Any, **__: Any) -> None:
        warnings.warn(NOTHING_IS_KEPT, InvarianceWarning, stacklevel=1)

    assert _fit(None, "comparison") == "comparison"
    monkeypatch.setattr("invariance.compare", fit, raising=False)
    with pytest.raises(InvarianceWarning):
        _fit(None, "comparison")
