"""Files are written as a whole or not at all."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from invariance._tools.files import check_writable, replacing, write_text
from invariance.exceptions import FileError
from posteriors import random_posterior


def test_a_file_is_replaced_as_a_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    link = tmp_path / "link"
    path.write_text("old")
    path.chmod(0o640)

    def write_half() -> None:
        with replacing(path) as temporary:
            assert (temporary.suffix, temporary.parent) == (".json", tmp_path)
            temporary.write_text("half of the new")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    with pytest.raises(TypeError, match="JSON cannot hold"):
        random_posterior(0, diagnostics={"object": object()}).to_json(path)
    assert path.read_text() == "old"
    link.symlink_to(path)
    write_text(link, "Λ")
    assert path.read_text(encoding="utf-8") == "Λ"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert link.is_symlink()
    assert sorted(tmp_path.iterdir()) == [path, link]
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        write_text(tmp_path / "none" / "posterior.json", "")


def test_what_cannot_be_written_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with replacing("/dev/null") as path:
        assert str(path) == "/dev/null"
    for possible in ("/dev/null", file, tmp_path / "new" / "folder" / "a.json"):
        check_writable(possible)
    with pytest.raises(FileError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(FileError, match="is a file, not a folder"):
        check_writable(file / "below" / "a.json")
    assert list(tmp_path.iterdir()) == [file]
    # Permissions do not bind the superuser, under whom tests may run.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(FileError, match="no permission to write into"):
        check_writable(tmp_path / "a.json")
    with pytest.raises(FileError, match="may not be changed"):
        check_writable(file)
