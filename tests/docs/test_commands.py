"""Every command in README and docs is run as printed, in an empty folder, after what its page has printed before it;
or read, where it cannot be run."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

from cli_runner import run
from doc_pages import PAGES, ROOT, arguments_of, run_python, steps, with_stand_ins
from invariance.cli.main import app
from replication.__main__ import study_parser

# {what stands in a command: why it is read and not run}
ELSEWHERE = {
    "…": "something is left out",
    "invariance app": "serves a page until it is closed",
    "--device cuda": "needs a GPU; the file is there",
    "--dask tcp:": "needs a cluster; the file is there",
}


FOR_DEVELOPERS = {"test", "docs", "lint", "bench", "peers", "browser"}


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def commands(page: Path, program: str = "invariance") -> list[str]:
    typed = [step.text for step in steps(page) if step.kind == "command"]
    return [command for command in typed if command.split()[0] == program]


def runs_here(command: str) -> bool:
    return not any(word in command for word in ELSEWHERE)


def has_its_file(command: str) -> bool:
    return any(word in command for word, reason in ELSEWHERE.items() if reason.endswith("the file is there"))


ALL = [(page.name, command) for page in PAGES for command in commands(page)]
TO_RUN = [page for page in PAGES if any(runs_here(c) or has_its_file(c) for c in commands(page))]


@pytest.mark.parametrize(("page", "command"), ALL)
def test_every_command_can_be_read(page: str, command: str) -> None:
    arguments = arguments_of(command)
    group: Any = typer.main.get_command(app)
    with group.make_context("invariance", list(arguments), resilient_parsing=True) as context:
        while hasattr(group, "resolve_command"):
            _, group, arguments = group.resolve_command(context, arguments)
        parser = group.make_parser(context)
    parser.parse_args(list(arguments))


@pytest.mark.parametrize("page", TO_RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_stand_ins(page, monkeypatch)
    monkeypatch.chdir(tmp_path)
    printed = ""
    names: dict[str, Any] = {"__name__": page.stem}
    for kind, text in steps(page):
        if kind == "python":
            run_python(text, page, names)
        elif kind == "shown":
            assert text in printed.splitlines()
        elif kind == "command" and text.startswith("invariance ") and runs_here(text):
            result = run(*arguments_of(text))
            assert result.exit_code == 0, f"{text}\n{result.output}"
            printed = result.stdout
        elif kind == "command" and has_its_file(text):
            assert Path(arguments_of(text)[1]).is_file(), text


def test_every_reason_not_to_run_is_one() -> None:
    assert [word for word in ELSEWHERE if not any(word in command for _, command in ALL)] == []
    assert sum(runs_here(command) for _, command in ALL) > 25


def test_commands_are_found() -> None:
    assert ("README.md", "invariance demo --csv patients.csv --new-csv new_patients.csv") in ALL
    assert any("--prior 'inclusion(0.2)'" in command for _, command in ALL)  # on the second line of a command
    assert ("guide.md", "invariance compare patients.csv --outcome blood_pressure --environment hospital") in ALL


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_programs_have_what_is_asked_of_them(page: Path) -> None:
    """pip finds its extras in pyproject.toml, make its targets in the Makefile; python runs studies."""
    typed = [step.text for step in steps(page) if step.kind == "command"]
    assert {command.split()[0] for command in typed} <= {"invariance", "pip", "make", "python"}
    for command in commands(page, "python"):
        assert command.split()[:3] == ["python", "-m", "replication"]
        study_parser().parse_args(shlex.split(command, comments=True)[3:])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE) for command in commands(page, "make"))
    asked = re.findall(r"(?:invariance|\.)\[([\w,]+)\]", page.read_text(encoding="utf-8"))
    assert {extra for names in asked for extra in names.split(",")} <= extras()


def test_the_readme_lists_every_extra_for_users() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {extra for extra in extras() - FOR_DEVELOPERS if f"`{extra}`" not in text} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_command_hides_in_a_block_without_a_language(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert re.findall(r"^```(?:text|sh|bash|shell)?\n(?:\$ )?(?:invariance|pip|python) .*", text, re.MULTILINE) == []
