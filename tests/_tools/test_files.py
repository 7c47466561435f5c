"""Files are written as a whole or not at all."""

from __future__ import annotations

import os
import stat
import sys
from pathlib import Path

import pytest

from invariance._tools.files import check_writable, replacing, write_text
from invariance.exceptions import FileError
from posteriors import random_posterior


def test_failing_writer_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")

    def write_half() -> None:
        with replacing(path) as temporary:
            temporary.write_text("half of the new")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_written_file_replaces_the_old_one_and_keeps_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("old")
    path.chmod(0o640)
    write_text(path, "Λ")
    assert path.read_text(encoding="utf-8") == "Λ"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]


def test_links_are_followed(tmp_path: Path) -> None:
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    link.symlink_to(target)
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"


def test_temporary_name_keeps_the_ending(tmp_path: Path) -> None:
    with replacing(tmp_path / "a.png") as temporary:
        assert temporary.suffix == ".png"
        assert temporary.parent == tmp_path
        temporary.write_bytes(b"")


def test_devices_are_written_directly() -> None:
    with replacing("/dev/null") as path:
        assert str(path) == "/dev/null"
    check_writable("/dev/null")


def test_saved_posterior_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "posterior.json"
    path.write_text("old")
    posterior = random_posterior(0, diagnostics={"object": object()})
    with pytest.raises(TypeError, match="JSON cannot hold"):
        posterior.to_json(path)
    assert path.read_text() == "old"
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        random_posterior(0).to_json(tmp_path / "none" / "posterior.json")


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(FileError, match="it is a folder"):
        check_writable(tmp_path)
    with pytest.raises(FileError, match="is a file, not a folder"):
        check_writable(file / "below" / "a.json")
    check_writable(file)
    check_writable(tmp_path / "new" / "folder" / "a.json")
    assert list(tmp_path.iterdir()) == [file]


def test_missing_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Permissions do not bind the superuser, under whom tests may run.
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(FileError, match="no permission to write into"):
        check_writable(tmp_path / "a.json")
    (tmp_path / "b.json").write_text("")
    with pytest.raises(FileError, match="may not be changed"):
        check_writable(tmp_path / "b.json")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_durable_file_is_on_the_disk_before_it_has_its_name_and_its_name_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forced: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        "os.fsync",
        lambda handle: forced.append((os.readlink(f"/proc/self/fd/{handle}"), (tmp_path / "a.json").exists())),
    )
    write_text(tmp_path / "a.json", "{}", durable=True)
    (content, named_before), (folder, named_after) = forced
    assert content.startswith(f"{tmp_path}/.")
    assert folder == str(tmp_path)
    assert (named_before, named_after) == (False, True)
    forced.clear()
    write_text(tmp_path / "b.json", "{}")
    assert forced == []
