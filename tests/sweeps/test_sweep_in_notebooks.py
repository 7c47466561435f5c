"""A sweep in a notebook, where standard error looks like trouble."""

from __future__ import annotations

import pytest

from decision_cases import made
from invariance import sweep
from invariance._tools import progress


@pytest.mark.parametrize("mode", ["auto", False])
def test_nothing_is_written_to_standard_error(
    mode: progress.ProgressMode, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    monkeypatch.setattr("invariance.sweeps.sweep.in_notebook", lambda: True, raising=False)
    sweep(made(n_environments=2, n=40), outcomes=["a"], progress=mode)
    assert capfd.readouterr().err == ""
