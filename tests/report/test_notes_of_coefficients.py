"""Where a coefficient is not known, the table of a page says why, as the table of a decision does."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from decision_cases import Fixed, made
from invariance import BIP
from report_reader import Page

CAPTION = "Coefficients with 95% intervals by environment"
SENTENCE = "the table says why"


def _page(model: BIP, tmp_path: Path) -> Page:
    return Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))


@pytest.fixture
def model() -> BIP:
    """b is 2a at site 1, noise0 is constant at site 2, and site 3 has three rows."""
    data = made()
    X, where = data.X.copy(), data.environment_index
    X[where == 1, 1] = 2.0 * X[where == 1, 0]
    X[where == 2, 3] = 7.0
    kept = np.flatnonzero((where < 3) | (np.arange(data.n_rows) >= data.n_rows - 3))
    data = replace(data, X=X[kept], y=data.y[kept], environment_index=where[kept])
    return BIP(select=Fixed((True, True, False, True))).fit(data)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_notes_stand_in_the_cells(model: BIP, tmp_path: Path, without_pictures: None) -> None:
    read = _page(model, tmp_path)
    assert SENTENCE in read.text
    notes = model.decision_.coefficients().set_index(["environment", "column"])["note"]
    said = {column: read.column(CAPTION, column) for column in ("a", "b", "noise0")}
    assert said["b"]["site 1"] == ("not identified", None)
    assert said["noise0"]["site 2"] == ("constant", None)
    assert said["b"]["site 3"] == ("too few rows", None)
    for (site, column), note in notes.items():
        text, _ = said[column]["all together" if site == "pooled" else site]
        assert text.endswith(note) if note else text.endswith(")")
