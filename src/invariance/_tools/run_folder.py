"""A folder that long work writes into: one process at a time, and results of one kind only."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from ..exceptions import EngineError, OutputError
from .files import write_text

LOCK = ".lock"


@contextmanager
def held(folder: Path, error: type[EngineError]) -> Iterator[None]:
    """Create the folder and keep other processes out of it while the block runs; `error` is raised where one is in."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / LOCK).open("w")
    except OSError as problem:
        raise OutputError(f"cannot write into {str(folder)!r}: {problem.strerror or problem}") from problem
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
