"""Every command in README and docs is run as printed, after the Python of its page; or read, where it cannot be run."""

from __future__ import annotations

import doctest
import re
import runpy
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from cli_runner import run
from invariance.datasets import make_example, make_new_hospital
from invariance.faces.cli.main import app

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("*/*.md"))]
BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A command inside a sentence; without an option it is the name of one.
INLINE = re.compile(r"`(invariance\s+\w[^`]*--[^`]*)`")
# What is not at hand, or takes minutes: these commands are read, not run.
ELSEWHERE = (
    "invariance app",
    "--device cuda",
    "--dask tcp:",
    "--scale paper",
    "Kemmeren.RData",
    "FOLDER",
    "--simulated",
    "comparison-p",
)


def blocks(page: Path) -> Iterator[tuple[str, str]]:
    """("python", an example), ("command", a line for a shell) and ("shown", a line that it prints), in their order."""
    for language, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            examples = doctest.DocTestParser().get_examples(text)
            yield from (("python", example.source) for example in examples if example.exc_msg is None)
        elif language in ("console", ""):
            for line in text.replace("\\\n", " ").splitlines():
                if line.startswith(("$ invariance ", "invariance ")):
                    yield "command", line.removeprefix("$ ")
                elif text.startswith("$") and line != "…":
                    yield "shown", line


def commands(page: Path) -> list[str]:
    return [text for kind, text in blocks(page) if kind == "command"]


def arguments_of(command: str) -> list[str]:
    return shlex.split(command, comments=True)[1:]


def runs_here(command: str) -> bool:
    return not any(word in command for word in ELSEWHERE)


def inline(page: Path) -> list[str]:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    return [" ".join(command.split()) for command in INLINE.findall(text) if "…" not in command]


ALL = [(page.name, command) for page in PAGES for command in commands(page) + inline(page)]
TO_RUN = [page for page in PAGES if any(map(runs_here, commands(page)))]


@pytest.mark.parametrize(("page", "command"), ALL)
def test_every_command_can_be_read(page: str, command: str) -> None:
    arguments = arguments_of(command)
    group: Any = typer.main.get_command(app)
    with group.make_context("invariance", list(arguments), resilient_parsing=True) as context:
        while hasattr(group, "resolve_command"):
            _, group, arguments = group.resolve_command(context, arguments)
        parser = group.make_parser(context)
    parser.parse_args(list(arguments))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """With the files that pages take for granted."""
    monkeypatch.chdir(tmp_path)
    for name in ("patients.csv", "table.csv"):
        make_example().to_frame().to_csv(name, index=False)
    for name in ("new_patients.csv", "new.csv"):
        make_new_hospital().to_frame().to_csv(name, index=False)
    return tmp_path


@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    helpers = runpy.run_path(str(DOCS / "conftest.py"))
    if page.name == helpers["WITH_TUNNEL"]:
        if not helpers["TUNNEL"].is_file():
            pytest.skip("the light tunnel's data are not at hand")
        for name, module in helpers["stand_in"]().items():
            monkeypatch.setitem(sys.modules, name, module)
    printed = ""
    ready: dict[str, Any] = {"__name__": page.stem}
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(text, page.name, "single"), ready)
        elif kind == "shown":
            assert text in printed.splitlines()
        elif runs_here(text):
            result = run(*arguments_of(text))
            assert result.exit_code == 0, f"{text}\n{result.output}"
            printed = result.stdout


def test_commands_are_found() -> None:
    assert ("README.md", "invariance demo --csv patients.csv") in ALL
    assert any("--prior 'inclusion(0.2)'" in command for _, command in ALL)  # on the second line of a command
