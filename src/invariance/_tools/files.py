"""Writing files so that nobody ever finds half of one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ..exceptions import EngineError, FileError


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
    """Raise FileError when `path` can clearly not be written. Folders that do not exist yet are fine."""
    target = Path(os.path.realpath(path))
    if target.is_dir():
        raise FileError(f"cannot write {str(path)!r}: it is a folder, name a file in it")
    if target.exists():
        if not os.access(target, os.W_OK):
            raise FileError(f"cannot write {str(path)!r}: the file is there and may not be changed")
        if not target.is_file():
            return
    folder = next(parent for parent in target.parents if parent.exists())
    if not folder.is_dir():
        raise FileError(f"cannot write {str(path)!r}: {str(folder)!r} is a file, not a folder")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise FileError(f"cannot write {str(path)!r}: no permission to write into {str(folder)!r}")


LOCK = ".lock"


@contextmanager
def held(folder: Path, error: type[EngineError]) -> Iterator[None]:
    """Create the folder and keep other processes out of it while the block runs; `error` is raised where one is in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as problem:
        raise FileError(f"cannot write into {str(folder)!r}: {problem.strerror or problem}") from problem
    with lock:
        _hold(lock, folder, error)
        yield


def keep_apart(path: Path, identity: Mapping[str, Any], made: bool, error: type[EngineError]) -> None:
    """Write down in a folder without results what they will depend on; raise where it holds those of something else.

    path : the file that says so; made : whether there are results already
    """
    folder = path.parent
    now = json.loads(json.dumps(identity))
    if not made:
        write_text(path, json.dumps(now, indent=1) + "\n", durable=True)
    elif not path.exists():
        raise error(
            f"the folder {str(folder)!r} holds results but no {path.name} that says what made them. Name "
            "another folder, or delete this one."
        )
    else:
        there = _read(path, error)
        differing = [name for name in {**there, **now} if there.get(name) != now.get(name)]
        if differing:
            listed = "; ".join(f"{name}: {there.get(name)} there, {now.get(name)} now" for name in differing)
            raise error(
                f"the folder {str(folder)!r} holds results of other settings ({listed}). Name another folder, "
                "or delete this one."
            )


def _read(path: Path, error: type[EngineError]) -> dict[str, Any]:
    try:
        there = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        there = None
    if not isinstance(there, dict):
        raise error(
            f"{str(path)!r}, which says what made the results beside it, is damaged. Name another folder, or delete "
            "this one."
        )
    return there


def _hold(lock: TextIO, folder: Path, error: type[EngineError]) -> None:
    """The system drops the lock when the process ends, however it ends."""
    try:
        import fcntl
    except ImportError:
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise error(f"another process is writing into {str(folder)!r}: wait for it, or name another folder.") from None
    except OSError:
        return  # a file system without locks
