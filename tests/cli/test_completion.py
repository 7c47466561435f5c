"""What a shell completes, asked as bash does."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import pytest

from cli_runner import run
from invariance.cli.options import FAMILIES
from invariance.models.registry import FAMILIES as KNOWN
from invariance.models.registry import SHORT


def completed(line: str) -> list[str]:
    """line : with a blank at the end where a new word begins"""
    place = str(len(line.split()) - (not line.endswith(" ")))
    asked = {"COMP_WORDS": line, "COMP_CWORD": place, "_INVARIANCE_COMPLETE": "complete_bash"}
    return [name for name in run(**asked).stdout.split("\n") if name]


@pytest.fixture
def tables(workdir: Path) -> None:
    text = 'age;blood pressure;"a;b";site\n1;2,5;3;x\n'
    Path("t.csv").write_text(text, encoding="utf-8-sig")
    Path("t.tsv.gz").write_bytes(gzip.compress(text.replace(";", "\t").encode()))
    Path("folder").mkdir()
    Path("folder/part.csv").write_text("year,yield\n")


@pytest.mark.usefixtures("tables")
@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("fit t.csv -o ", ["age", r"blood\ pressure", r"a\;b", "site"]),
        ("fit t.csv --outcome age -e s", ["site"]),
        ("fit t.csv --exclude age,site,b", [r"age,site,blood\ pressure"]),
        ("explain t.csv --subset a", ["age", r"a\;b"]),
        ("compare t.tsv.gz -o si", ["site"]),
        ("sweep folder --outcomes y", ["year", "yield"]),
        ("predict model.json t.csv -e s", ["site"]),
        ("fit absent.csv -o ", []),
        ("compare t.csv --methods ICP,La", ["ICP,Lasso"]),
        ("fit t.csv --family lo", ["logistic"]),
        ("fit t.csv --engine t", ["tempering"]),
        ("fit t.csv --prior i", [r"inclusion\(0.2\)"]),
        ("fit t.csv --select m", ["mode", "median"]),
        ("fit t.csv --baseline ", ["auto", "shared", "free"]),
        ("sweep t.csv --baseline s", ["shared"]),
        ("predict m.json t.csv --predict-with a", ["auto", "average"]),
    ],
)
def test_columns_and_names(line: str, names: list[str]) -> None:
    assert completed(f"invariance {line}") == names


def test_families_are_those_of_the_registry() -> None:
    assert set(FAMILIES) == set(KNOWN) - set(SHORT.values())


@pytest.mark.integration
def test_a_text_file_is_completed_without_heavy_libraries(workdir: Path) -> None:
    code = """
import atexit, sys
atexit.register(lambda: print("loaded:", {"numpy", "pandas", "rich"} & set(sys.modules)))
from invariance.__main__ import main
main()
"""
    line = {
        "COMP_WORDS": "invariance fit good.csv -o ",
        "COMP_CWORD": "4",
        "_INVARIANCE_COMPLETE": "complete_bash",
    }
    environment = line | {"PYTHONPATH": ":".join(sys.path)}
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment
    )
    assert said.stdout.split("\n")[-2] == "loaded: set()"
    assert "site" in said.stdout
