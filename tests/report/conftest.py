"""Pictures take most of the time of a page; tests that do not look at them go without."""

from __future__ import annotations

import pytest

EMPTY = '<svg xmlns="" width="9pt" height="9pt"><g/></svg>'


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is drawn on axes, and nothing of it is written."""
    from invariance.report import svg

    monkeypatch.setattr(svg, "_drawn", lambda figure: EMPTY)
