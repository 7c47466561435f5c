"""README and docs as what a reader types: Python and commands, in their order."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("*/*.md"))]
# A block, or a command inside a sentence; without an option it is the name of one.
TYPED = re.compile(
    r"^```(?P<language>[^\n]*)\n(?P<block>.*?)^```$|`(?P<inline>invariance\s+\w[^`]*--[^`]*)`", re.DOTALL | re.MULTILINE
)


class Step(NamedTuple):
    """kind: "python" (an example with >>>), "plain" (a block without), "command", "shown" (a line that it prints)"""

    kind: str
    text: str


def steps(page: Path) -> Iterator[Step]:
    for found in TYPED.finditer(page.read_text(encoding="utf-8")):
        if found["inline"] is not None:
            yield Step("command", " ".join(found["inline"].split()))
        elif found["language"] == "python":
            yield from _examples(found["block"])
        elif found["language"] == "console":
            yield from _lines(found["block"])


def _examples(block: str) -> Iterator[Step]:
    if ">>>" not in block:
        yield Step("plain", block)
    for example in doctest.DocTestParser().get_examples(block):
        if example.exc_msg is None:
            yield Step("python", example.source)


def _lines(block: str) -> Iterator[Step]:
    """With a prompt, what has none is shown; without any, every line is a command."""
    prompt = "$ " if block.startswith("$ ") else ""
    for line in block.replace("\\\n", " ").splitlines():
        if line.startswith(prompt):
            yield Step("command", line.removeprefix(prompt))
        elif line != "…":
            yield Step("shown", line)


def arguments_of(command: str) -> list[str]:
    """What follows the program's name."""
    return shlex.split(command, comments=True)[1:]


def with_stand_ins(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tutorial find its data without a download, hide extras that the page does not ask for, and skip what
    needs an absent one."""
    helpers = runpy.run_path(str(DOCS / "conftest.py"))
    helpers["hide_what_is_not_asked_for"](page, monkeypatch)
    if page.name == helpers["WITH_DUCKDB"]:
        pytest.importorskip("duckdb", reason="needs duckdb")
    if page.name == helpers["WITH_TUNNEL"]:
        if not helpers["TUNNEL"].is_file():
            pytest.skip("the light tunnel's data are not at hand")
        for name, module in helpers["stand_in"]().items():
            monkeypatch.setitem(sys.modules, name, module)


def run_python(source: str, page: Path, names: dict[str, Any]) -> None:
    exec(compile(source, page.name, "single"), names)
