"""Pictures take most of the time of a page; tests that do not look at them go without."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from report_reader import Page


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is drawn; the words of the pictures stay."""
    from invariance.report import residuals, sections
    from invariance.report.page import Picture

    for module in (residuals, sections):
        monkeypatch.setattr(module, "picture", lambda draw, size, caption: Picture("", caption))


@pytest.fixture
def page(tmp_path: Path) -> Callable[[Any], Page]:
    """The report of a fitted model, read."""
    return lambda model: Page(model.report(tmp_path / "report.html").read_text(encoding="utf-8"))
