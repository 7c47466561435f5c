"""Writing files so that nobody ever finds half of one."""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from ..exceptions import EngineError, FileError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary name beside `path` to write to, which takes its place when the block ends well.
    Links are followed, and what is not a plain file (a pipe, /dev/null) is written directly."""
    target = Path(os.path.realpath(path))
    if target.exists() and not target.is_file():
        yield target
        return
    if not target.parent.is_dir():
        raise FileNotFoundError(
            f"there is no folder {str(target.parent)!r} to write {target.name!r} into"
        )
    temporary = target.with_name(f".{secrets.token_hex(6)}{target.suffix}")
    try:
        yield temporary
        if target.exists():
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text in one step."""
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_writable(path: str | os.PathLike[str]) -> None:
    """Raise FileError when `path` can clearly not be written. Folders that do not exist yet are
    fine."""
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


@contextmanager
def lock_folder(folder: Path) -> Iterator[None]:
    """Create the folder and keep other processes out of it while the block runs; EngineError where
    one is in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / ".lock").open("w")
    except OSError as problem:
        raise FileError(
            f"cannot write into {str(folder)!r}: {problem.strerror or problem}"
        ) from problem
    with lock:
        # The system drops the lock when the process ends; Windows and some file systems have none.
        with suppress(ImportError, OSError):
            import fcntl

            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                busy = f"another process is writing into {str(folder)!r}"
                raise EngineError(f"{busy}: wait for it, or name another folder.") from None
        yield


def check_identity(path: Path, identity: Mapping[str, Any], made: bool) -> None:
    """Write down in a folder without results what they will depend on; raise where it holds those
    of something else.
    path : the file that says so; made : whether there are results already"""
    now = json.loads(json.dumps(identity))
    if not made:
        write_text(path, json.dumps(now, indent=1) + "\n")
        return
    holds = f"the folder {str(path.parent)!r} holds results of other settings"
    try:
        there = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        raise EngineError(
            f"{holds}: its {path.name} is missing or damaged. Name another folder."
        ) from None
    differing = [name for name in {**there, **now} if there.get(name) != now.get(name)]
    if differing:
        told = "; ".join(
            f"{name}: {there.get(name)} there, {now.get(name)} now" for name in differing
        )
        raise EngineError(f"{holds} ({told}). Name another folder, or delete this one.")
