"""Tables that do not fit into memory are refused by the page with the sentences of the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from invariance.app.tasks import look
from invariance.exceptions import DataError


def test_refused_before_reading(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "t.csv"
    file.write_text("a,y,site\n" + "1.5,2.5,x\n" * 400)
    assert look(lambda *_: None, str(file), {})["rows"] == 400
    for place in ("data.sources", "_tools.parallel"):
        monkeypatch.setattr(f"invariance.{place}.free_bytes", lambda: 7_200)
    with pytest.raises(DataError, match=r"(?s)about 400 rows of 3 columns.*About 88 rows fit.*command line reads"):
        look(lambda *_: None, str(file), {})
