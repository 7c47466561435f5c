"""Writing files so that nobody ever finds half of one."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ..exceptions import OutputError


@contextmanager
def replacing(path: str | os.PathLike[str], durable: bool = False) -> Iterator[Path]:
    """A temporary name in the folder of `path`, with its ending, for the caller to write to.

    When the block ends well the file takes the place of `path` in one step; otherwise `path` stays as it was. Links
    are followed, and what is not a plain file (a pipe, /dev/null) is written directly. durable: it is on the disk,
    under its name, when the block has ended.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {str(target.parent)!r} to write {target.name!r} into")
    temporary = target.with_name(f".{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        if durable:
            _force_to_disk(temporary)
        os.replace(temporary, target)
        if durable:
            _force_to_disk(target.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _force_to_disk(path: Path) -> None:
    """Wait until a file, or the list of names in a folder, is there."""
    if path.is_dir() and os.name == "nt":
        return  # Windows opens no folders
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str, durable: bool = False) -> None:
    """Write UTF-8 text in one step."""
    with replacing(path, durable) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise OutputError when `path` can clearly not be written. Folders that do not exist yet are fine."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: it is a folder, name a file in it")
    if target.exists():
        if not os.access(target, os.W_OK):
            raise OutputError(f"cannot write {str(path)!r}: the file is there and may not be changed")
        if not target.is_file():
            return
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir():
        raise OutputError(f"cannot write {str(path)!r}: {str(folder)!r} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise OutputError(f"cannot write {str(path)!r}: no permission to write into {str(folder)!r}")
