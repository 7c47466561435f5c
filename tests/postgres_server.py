"""A PostgreSQL server of the system's packages, with a new and empty database."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NOBODY_ELSE = "-c listen_addresses= -c fsync=off -c unix_socket_directories={folder}"


def programs() -> Path | None:
    """The folder of initdb and pg_ctl; None where there is no server, or where nobody may start
    one."""
    packaged = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: float(path.parts[-3])
    )
    found = shutil.which("initdb") or (packaged[-1] if packaged else None)
    if found is None or (_is_root() and shutil.which("runuser") is None):
        return None
    return Path(found).resolve().parent


def _is_root() -> bool:
    return hasattr(os, "geteuid") and os.geteuid() == 0


@contextmanager
def running(programs: Path) -> Iterator[str]:
    """Its address, for as long as it runs; it listens to a file in a folder of its own only."""
    with tempfile.TemporaryDirectory(prefix="pg") as name:
        folder = Path(name)
        # The server refuses to be started by root.
        as_whom = ["runuser", "-u", "postgres", "--"] if _is_root() else []
        if as_whom:
            shutil.chown(folder, "postgres")

        def call(program: str, *arguments: str) -> None:
            command = [*as_whom, str(programs / program), "-D", str(folder / "data"), *arguments]
            with (folder / "said").open("ab") as said:
                subprocess.run(command, cwd="/", check=True, stdout=said, stderr=said, timeout=600)

        call("initdb", "-A", "trust", "-U", "tester", "-E", "UTF8", "--locale=C", "--no-sync")
        call(
            "pg_ctl",
            "-w",
            "-t",
            "600",
            "-l",
            str(folder / "log"),
            "-o",
            NOBODY_ELSE.format(folder=folder),
            "start",
        )
        try:
            yield f"postgresql:///postgres?host={folder}&user=tester"
        finally:
            call("pg_ctl", "-w", "-m", "immediate", "stop")
