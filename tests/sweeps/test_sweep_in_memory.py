"""A sweep without a folder: the table of one with a folder, and no pyarrow."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path

import pandas as pd
import pytest

from invariance import sweep
from invariance._tools import progress
from invariance.datasets import make_example
from invariance.exceptions import DataWarning
from invariance.sweeps.store import COLUMNS


@pytest.mark.parametrize("outcomes", [["flat"], ["salt", "flat"]])
def test_the_table_is_that_of_a_folder(tmp_path: Path, outcomes: list[str]) -> None:
    rows = make_example().to_frame().assign(flat=1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        kept, found = (
            sweep(rows, outcomes=outcomes, out=out, environments="hospital").drop(columns="seconds")
            for out in (tmp_path, None)
        )
    pd.testing.assert_frame_equal(kept, found, check_exact=True)
    assert [*found.columns] == [name for name in COLUMNS if name != "seconds"]
    assert found["outcome"].is_monotonic_increasing


@pytest.mark.integration
def test_pyarrow_is_not_needed() -> None:
    """In a process of its own: pandas takes pyarrow for its strings wherever it has been imported."""
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "from invariance import sweep\n"
        "from invariance.datasets import make_example\n"
        "found = sweep(make_example().to_frame(), outcomes=['blood_pressure'], environments='hospital')\n"
        "print(sorted(found.feature[found.selected]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.stdout == "['age', 'exercise', 'smoking']\n", done.stderr


@pytest.mark.parametrize("mode", ["auto", False])
def test_notebooks_show_nothing_on_standard_error(
    mode: progress.ProgressMode, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "_notebook", object)
    sweep(make_example(), outcomes=["salt"], progress=mode)
    assert capfd.readouterr().err == ""
