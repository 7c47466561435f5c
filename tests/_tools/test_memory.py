from __future__ import annotations

from pathlib import Path

import pytest

from invariance._tools import parallel as memory


def test_files_that_the_system_keeps_count_as_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = tmp_path / "meminfo"
    told.write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   70 kB\nCached:  80 kB\n")
    monkeypatch.setattr(memory, "_LINUX", told)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    assert memory.free_bytes() == 70 * 1024
    monkeypatch.setattr(memory, "_LINUX", tmp_path / "nowhere")
    assert memory.free_bytes() is None or memory.free_bytes() > 0


def test_a_container_may_have_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told, limit = tmp_path / "meminfo", tmp_path / "memory.max"
    told.write_text("MemAvailable:   70 kB\n")
    monkeypatch.setattr(memory, "_LINUX", told)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    (tmp_path / "memory.current").write_text("30000\n")
    (tmp_path / "memory.stat").write_text("anon 5\n")
    for written, free in (("50000", 20_000), ("10000", 0), ("9223372036854771712", 70 * 1024), ("max", 70 * 1024)):
        limit.write_text(f"{written}\n")
        assert memory.free_bytes() == free
    # What is kept of files is given back when it is needed.
    limit.write_text("50000\n")
    (tmp_path / "memory.stat").write_text("anon 5\nactive_file 7\ninactive_file 4000\n")
    assert memory.free_bytes() == 24_000
