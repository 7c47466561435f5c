"""Pictures take most of the time of a page; tests that do not look at them go without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report_reader import Page

EMPTY = '<svg xmlns="" width="9pt" height="9pt"><g/></svg>'


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is drawn on axes, and nothing of it is written."""
    from invariance.report import pictures as svg

    monkeypatch.setattr(svg, "_drawn", lambda *_: EMPTY)


@pytest.fixture
def page(tmp_path: Path) -> Callable[[Any], Page]:
    """The report of a fitted model, read."""
    return lambda model: Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))
