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


@pytest.mark.parametrize(
    ("limit", "taken", "folder"),
    [("memory.max", "memory.current", "."), ("memory.limit_in_bytes", "memory.usage_in_bytes", "memory")],
)
def test_a_container_may_have_less(
    limit: str, taken: str, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told, group = tmp_path / "meminfo", tmp_path / folder
    told.write_text("MemAvailable:   70 kB\n")
    group.mkdir(exist_ok=True)
    monkeypatch.setattr(memory, "_LINUX", told)
    monkeypatch.setattr(memory, "_GROUP", tmp_path)
    (group / taken).write_text("30000\n")
    for written, free in (("50000", 20_000), ("10000", 0), ("9223372036854771712", 70 * 1024), ("max", 70 * 1024)):
        (group / limit).write_text(f"{written}\n")
        assert memory.free_bytes() == free
    # What is kept of files is given back when it is needed.
    (group / limit).write_text("50000\n")
    (group / "memory.stat").write_text("anon 5\nactive_file 7\ninactive_file 4000\n")
    assert memory.free_bytes() == 24_000
