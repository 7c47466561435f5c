"""A typo in a method, a fitted attribute or the name of a setting is an error where types are
checked."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import get_args

import pytest

import invariance
from invariance._tools import names
from invariance.decisions.plots import PICTURES
from invariance.decisions.rules import RULES
from invariance.inference.base import ENGINES
from invariance.models.registry import MODELS

USER = Path(__file__).with_name("typing_errors.py")


@pytest.mark.integration
@pytest.mark.skipif(find_spec("mypy") is None, reason="needs mypy")
def test_typos_of_users_are_found() -> None:
    """By mypy's own defaults, as in a project that has the package installed."""
    source = Path(invariance.__file__).parents[1]
    options = (
        "--config-file=",
        "--no-implicit-reexport",
        "--follow-imports=silent",
        "--cache-dir",
        USER.parents[1] / ".mypy_cache/users",
    )
    command = [sys.executable, "-m", "mypy", *options, USER]
    said = subprocess.run(
        command, capture_output=True, text=True, env={"MYPYPATH": str(source)}
    ).stdout
    found = set(re.findall(rf"{USER.name}:(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE))
    lines = enumerate(USER.read_text().splitlines(), 1)
    wanted = {
        (str(number), line.split("# error: ")[1]) for number, line in lines if "# error: " in line
    }
    assert found == wanted, said


def test_types_have_the_names_of_the_registries() -> None:
    assert set(get_args(names.FamilyName)) == set(MODELS)
    assert set(get_args(names.EngineName)) == {"auto", *ENGINES}
    assert set(get_args(names.RuleName)) == set(RULES)
    assert set(get_args(names.PlotKind)) == set(PICTURES)
