"""The package built, and installed in an environment of its own."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def built_wheel(folder: Path) -> Path:
    """Made of a source distribution, as by whoever downloads it; needs hatchling."""
    _run("hatchling", "build", "-t", "sdist", "-d", str(folder))
    (source,) = folder.glob("*.tar.gz")
    _run(
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(source),
    )
    (wheel,) = folder.glob("*.whl")
    return wheel


def installed(wheel: Path, folder: Path) -> Path:
    """The Python of a new environment in `folder`; packages that the wheel needs are those of this
    Python."""
    venv.create(folder, symlinks=True)
    python = folder / "bin" / "python"
    _run(
        "pip", "--python", str(python), "install", "--quiet", "--no-deps", "--no-index", str(wheel)
    )
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "others.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def _run(*module: str) -> None:
    subprocess.run([sys.executable, "-m", *module], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
