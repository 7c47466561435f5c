"""Builds the package. A wheel carries its kernels compiled, for the machine and the versions that
it was built with.

HATCH_BUILD_NO_HOOKS=true builds the wheel for all machines, which compiles on first use; so does
one whose compilation failed. Checkouts (pip install -e .) compile in place.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.build import get_requires_for_build_wheel as _usual
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]
# Where pip will install, in an isolated build too: what is there already is what the package will
# run with.
_INSTALLED = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """What fits need, where it is not installed yet."""
    needed = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"][
        "dependencies"
    ]
    installed = {found.name.lower() for found in distributions(path=_INSTALLED)}
    there = all(re.match(r"[\w-]+", one)[0] in installed for one in needed)
    return (
        _usual()
        if there or os.environ.get("HATCH_BUILD_NO_HOOKS") in ("1", "true")
        else [*_usual(), *needed]
    )


class CompiledKernels(BuildHookInterface):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable":
            return
        self._copy = tempfile.TemporaryDirectory()
        source, copy = Path(self.root, "src"), Path(self._copy.name, "src")
        shutil.copytree(source, copy, ignore=shutil.ignore_patterns("__pycache__"))
        path = os.pathsep.join([str(copy), *_INSTALLED, os.environ.get("PYTHONPATH", "")])
        environment = os.environ | {
            "PYTHONPATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "NUMBA_CACHE_DIR": "",
        }
        command = [sys.executable, "-m", "invariance", "warmup", "--all"]
        done = subprocess.run(command, env=environment, cwd=copy, check=False)
        if done.returncode:
            self.app.display_warning(
                "The kernels could not be compiled: the wheel compiles them on first use."
            )
            return
        compiled = "invariance/kernels/__pycache__"
        build_data |= {"pure_python": False, "infer_tag": True}
        build_data["force_include"][str(copy / compiled)] = compiled

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._copy.cleanup()
