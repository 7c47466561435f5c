from __future__ import annotations

from pathlib import Path

import pytest

from invariance._tools import memory


def test_files_that_the_system_keeps_count_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   70 kB\nCached:  80 kB\n")
    monkeypatch.setattr(memory, "_LINUX", told)
    assert memory.free_bytes() == 70 * 1024
    monkeypatch.setattr(memory, "_LINUX", tmp_path / "nowhere")
    assert memory.free_bytes() is None or memory.free_bytes() > 0
