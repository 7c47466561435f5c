"""The script that draws the rooms of the package and says what is out of place, on small invented packages."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
PAGE = "# How we work\n\n<!-- house -->\n<!-- /house -->\n\nThe end.\n"


def house(root: Path, *options: str) -> list[str]:
    """The complaints, which are what the script fails with."""
    script = [sys.executable, PROJECT / "scripts" / "house.py", *options]
    done = subprocess.run(script, cwd=root, capture_output=True, text=True, encoding="utf-8", timeout=60, check=False)
    complaints = done.stderr.splitlines()
    assert done.returncode == int(bool(complaints)), done.stderr
    return complaints


def build(root: Path, files: dict[str, str], page: str = PAGE) -> Path:
    for place, text in files.items():
        path = root / "src" / "invariance" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (root / "CONTRIBUTING.md").write_text(page, encoding="utf-8")
    return root


def complaints(root: Path, files: dict[str, str]) -> list[str]:
    """Those of the check on a package whose drawing is up to date."""
    drawn = house(build(root, files))
    assert house(root, "--check") == drawn
    return drawn


def lines(n: int) -> str:
    return "x = 1\n" * n


PLAIN = {
    "__init__.py": '"""A package."""\n\nfrom .exceptions import Complaint\n',
    "exceptions.py": '"""What can go wrong."""\n\nclass Complaint(Exception): ...\n',
    "data/__init__.py": '"""Rows | columns.\n\nAnd more."""\n\nfrom .rows import Rows\n',
    "data/rows.py": "import numpy as np\nfrom ..exceptions import Complaint\nfrom .columns import names\n",
    "data/columns.py": "import faces\nfrom faces import cli\n\ndef names():\n    from .rows import Rows\n",
    "faces/__init__.py": "",
    "faces/cli.py": "from invariance.data.columns import names\nfrom ..data import Rows\nfrom . import text\n",
    "faces/text.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .cli import app\n",
}


def test_a_house_in_order_is_not_complained_about(tmp_path):
    assert complaints(tmp_path, PLAIN) == []


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("from ..faces.cli import app, main\n", 1),
        ("from ..faces import cli\n", 1),
        ("from .. import exceptions, faces\n", 1),
        ("import invariance.faces.cli as cli\n", 1),
        ("from invariance.faces import *\n", 1),
        ("def f():\n    from ..faces import cli\n", 2),
        ("class A:\n    async def f(self):\n        with x:\n            import numpy, invariance.faces\n", 4),
        ("if TYPE_CHECKING:\n    from ..faces import cli\n", 2),
        ("try:\n    import numpy\nexcept ImportError:\n    from ..faces import cli\n", 4),
        ("cli = import_module('..faces.cli', __package__)\n", 1),
        ("def f(name):\n    return importlib.import_module(f'invariance.faces.{name}')\n", 2),
    ],
)
def test_an_import_upwards_is_found_however_it_is_written(tmp_path, text, line):
    (complaint,) = complaints(tmp_path, PLAIN | {"data/checks.py": text})
    assert complaint.startswith(f"src/invariance/data/checks.py:{line}: import upwards, data → faces (invariance.faces")


def test_the_package_itself_is_above_its_rooms(tmp_path):
    (complaint,) = complaints(tmp_path, PLAIN | {"faces/__init__.py": "from .. import __version__\n"})
    assert complaint == "src/invariance/faces/__init__.py:1: import upwards, faces → __init__ (invariance)"


def test_a_name_computed_inside_the_own_room_is_no_import_upwards(tmp_path):
    assert complaints(tmp_path, PLAIN | {"data/__init__.py": "def f(x):\n    import_module(f'.{x}', __name__)\n"}) == []


def test_each_cycle_is_printed(tmp_path):
    ring = {"a": "b", "b": "c", "c": "a", "d": "e", "e": "d"}
    files = {f"priors/{here}.py": f"import math\nfrom .{there} import x\n" for here, there in ring.items()}
    found = sorted(complaints(tmp_path, PLAIN | files), key=len)
    steps = []
    for complaint in found:
        where, _, cycle = complaint.partition(":2: cycle, ")
        modules = cycle.split(" → ")
        assert modules[0] == modules[-1]
        assert where == f"src/{modules[0].replace('.', '/')}.py"
        steps.append({here[-1]: there[-1] for here, there in pairwise(modules)})
    assert steps == [{"d": "e", "e": "d"}, {"a": "b", "b": "c", "c": "a"}]


@pytest.mark.parametrize(
    ("text", "closes"),
    [
        ("from .a import x\n", True),
        ("class B:\n    from .a import x\n", True),
        ("from . import a\n", True),
        ("from . import P\n", True),  # the package imports a, and a imports b
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from .a import x\n", True),
        ("if not TYPE_CHECKING:\n    from .a import x\n", True),
        ("def f():\n    from .a import x\n", False),
        ("async def f():\n    from .a import x\n", False),
        ("if typing.TYPE_CHECKING:\n    from .a import x\n", False),
    ],
)
def test_a_cycle_is_made_of_imports_on_load(tmp_path, text, closes):
    rooms = {"priors/__init__.py": "from .a import P\n", "priors/a.py": "from .b import x\n", "priors/b.py": text}
    assert bool(complaints(tmp_path, PLAIN | rooms)) == closes


def test_a_cycle_through_the_package_around_a_module_is_found(tmp_path):
    rooms = {
        "inference/first/walk.py": "from ..second.step import x\n",
        "inference/second/__init__.py": "from .leap import y\n",
        "inference/second/step.py": "x = 1\n",
        "inference/second/leap.py": "from ..first.walk import z\n",
    }
    (complaint,) = complaints(tmp_path, PLAIN | rooms)
    for module in ("first.walk", "second", "second.leap"):
        assert f" invariance.inference.{module} " in f"{complaint} "


@pytest.mark.parametrize(("length", "expected"), [(400, 0), (401, 1)])
def test_a_long_file_is_found(tmp_path, length, expected):
    found = complaints(tmp_path, PLAIN | {"data/long.py": lines(length)})
    assert [f"src/invariance/data/long.py: {length} lines" in complaint for complaint in found] == [True] * expected


@pytest.mark.parametrize(("length", "expected"), [(130, 0), (131, 1)])
def test_files_without_code_do_not_hold_the_median_down(tmp_path, length, expected):
    rooms = {"__init__.py": "", "data/__init__.py": '"""Rows."""\n', "data/rows.py": lines(length)}
    found = complaints(tmp_path, rooms)
    assert [f"median file has {length} lines" in complaint for complaint in found] == [True] * expected


@pytest.mark.parametrize("top", [12, 13])
def test_more_than_a_dozen_modules_at_the_top_are_too_many(tmp_path, top):
    rooms = ["__init__", "__main__", "exceptions", "_version", "data", "moments", "conditionals", "priors", "posterior"]
    rooms += ["inference", "estimators", "baselines", "comparison"][: top - len(rooms)]
    found = complaints(tmp_path, {f"{room}.py": lines(1) for room in rooms} | {"faces/cli.py": lines(1)})
    assert [f"{top} modules beside the rooms" in complaint for complaint in found] == [True] * (top - 12)


def test_a_place_without_a_height_is_found_and_drawn_on_top(tmp_path):
    rooms = {"attic.py": "from .data import Rows\n", "faces/cli.py": "from .. import attic\n"}
    (complaint,) = complaints(tmp_path, PLAIN | rooms)
    assert "attic is no room" in complaint
    assert "|  5 | `attic.py` " in (tmp_path / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_drawing(tmp_path):
    house(build(tmp_path, PLAIN))
    drawing = (tmp_path / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert drawing.startswith("# How we work\n\n<!-- house -->\n|  # | room ")
    assert drawing.endswith("```\n<!-- /house -->\n\nThe end.\n")
    cells = [[cell.strip() for cell in line.split("|")[1:6]] for line in drawing.splitlines() if line.startswith("|")]
    assert cells[2:] == [
        ["1", "`exceptions.py`", "1", "3", "`exceptions.py` (3)"],
        ["2", "`data/`", "3", "13", "`data/__init__.py` (5)"],
        ["3", "`faces/`", "3", "6", "`faces/cli.py` (3)"],
        ["4", "`__init__.py`", "1", "3", "`__init__.py` (3)"],
        ["", "in all", "8", "25", "`data/__init__.py` (5)"],
    ]
    assert "| What can go wrong. |\n" in drawing
    assert "| Rows \\| columns. |\n" in drawing
    assert "| the median file has 3 lines |\n" in drawing
    matrix = drawing.partition("```text\n")[2].partition("```")[0]
    assert [row.split() for row in matrix.splitlines()] == [
        ["1", "2", "3", "4"],
        ["1", "exceptions"],
        ["2", "data", "1"],
        ["3", "faces", "·", "1"],
        ["4", "__init__", "1", "·", "·"],
    ]


def test_a_drawing_out_of_date_is_found_and_drawn_again(tmp_path):
    build(tmp_path, PLAIN)
    page = tmp_path / "CONTRIBUTING.md"
    advice = ["CONTRIBUTING.md: the drawing of the rooms is out of date; run `make house`"]
    assert house(tmp_path, "--check") == advice
    assert page.read_text(encoding="utf-8") == PAGE
    assert house(tmp_path) == []
    assert house(tmp_path, "--check") == []

    build(tmp_path, {"data/rows.py": PLAIN["data/rows.py"] + "\n"}, page=page.read_text(encoding="utf-8"))
    assert house(tmp_path, "--check") == advice
    assert house(tmp_path) == []
    assert house(tmp_path, "--check") == []


def test_a_page_without_a_place_for_the_drawing_is_left_alone(tmp_path):
    build(tmp_path, PLAIN, page="# How we work\n")
    (complaint,) = house(tmp_path)
    assert "add the lines <!-- house --> and <!-- /house -->" in complaint
    assert (tmp_path / "CONTRIBUTING.md").read_text(encoding="utf-8") == "# How we work\n"


def test_the_house_is_in_order():
    out_of_place = house(PROJECT, "--check")
    assert not out_of_place, "\n".join(out_of_place)
