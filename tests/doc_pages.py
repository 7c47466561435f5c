"""README and docs as what a reader types: Python and commands, in their order, in an empty folder, without extras that
the page does not name."""

from __future__ import annotations

import builtins
import doctest
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import pandas as pd
import pytest

from cli_runner import run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("*/*.md"))]
TUNNEL = ROOT.parent / "shared" / "data" / "light_tunnel" / "light_tunnel.csv.gz"
# A block, or a command inside a sentence; without an option it is the name of one.
TYPED = re.compile(
    r"^```(?P<language>[^\n]*)\n(?P<block>.*?)^```$|`(?P<inline>invariance\s+\w[^`]*--[^`]*)`", re.DOTALL | re.MULTILINE
)
ASKED = re.compile(r"pip install ['\"](?:invariance|\.)\[([\w,]+)\]")
# {a package: extras that bring it}
BROUGHT_BY = {
    "pyarrow": ("parquet", "spark"),
    "jinja2": ("report", "app", "dask"),
    "distributed": ("dask",),
    "starlette": ("app",),
    "openpyxl": ("excel",),
    "polars": ("polars",),
    "xarray": ("xarray",),
    "skops": ("skops",),
    "rdata": ("genes",),
    "pyspark": ("spark",),
    "torch": ("gpu",),
}
# {what stands in a command: why it is read and not run}
ELSEWHERE = {
    "…": "something is left out",
    "invariance app": "serves a page until it is closed",
    "--device cuda": "needs a GPU; the file is there",
    "--dask tcp:": "needs a cluster; the file is there",
}


class Step(NamedTuple):
    """kind: "python" (a block with >>>), "plain" (one without), "command", "shown" (a line that it prints)"""

    kind: str
    text: str


def steps(page: Path) -> Iterator[Step]:
    for found in TYPED.finditer(page.read_text(encoding="utf-8")):
        if found["inline"] is not None:
            yield Step("command", " ".join(found["inline"].split()))
        elif found["language"] == "python":
            yield Step("python" if ">>>" in found["block"] else "plain", found["block"])
        elif found["language"] == "console":
            # With a prompt, what has none is shown; without any, every line is a command.
            prompt = "$ " if found["block"].startswith("$ ") else ""
            for line in found["block"].replace("\\\n", " ").splitlines():
                if line.startswith(prompt):
                    yield Step("command", line.removeprefix(prompt))
                elif line != "…":
                    yield Step("shown", line)


def commands(page: Path, program: str = "invariance") -> list[str]:
    typed = [step.text for step in steps(page) if step.kind == "command"]
    return [command for command in typed if command.split()[0] == program]


def arguments_of(command: str) -> list[str]:
    """What follows the program's name."""
    return shlex.split(command, comments=True)[1:]


def run_page(page: Path, monkeypatch: pytest.MonkeyPatch, here: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Run a page, or with `here` up to a block that finds there what it looks for elsewhere; gives the known names."""
    with_stand_ins(page, monkeypatch)
    names, printed = {"__name__": page.stem}, ""
    for kind, text in steps(page):
        if kind == "python":
            run_examples(text, page, names)
        elif kind == "plain" and here is not None:
            for there, address in here.items():
                assert text.count(there) == 1
                text = text.replace(there, address)
            exec(compile(text, page.name, "exec"), names)
            return names
        elif kind == "shown":
            assert text in printed.splitlines()
        elif kind == "command" and text.startswith("invariance ") and here is None:
            why_not = [reason for word, reason in ELSEWHERE.items() if word in text]
            if not why_not:
                result = run(*arguments_of(text))
                assert result.exit_code == 0, f"{text}\n{result.output}"
                printed = result.stdout
            elif why_not[0].endswith("the file is there"):
                assert Path(arguments_of(text)[1]).is_file(), text
    return names


def run_examples(block: str, page: Path, names: dict[str, Any]) -> None:
    examples = doctest.DocTestParser().get_doctest(block, {}, page.name, str(page), 0)
    examples.globs = names
    said = StringIO()
    doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(examples, out=said.write, clear_globs=False)
    assert said.getvalue() == "", said.getvalue()


class Dataset:
    """What the tutorial uses of the package causalchamber, without its download."""

    def __init__(self, name: str, root: str, download: bool) -> None:
        assert (name, download) == ("lt_interventions_standard_v1", True)
        self.rows = pd.read_csv(TUNNEL)

    def get_experiment(self, name: str) -> Dataset:
        kind, _, self.environment = name.partition("_")
        assert kind == "uniform"
        assert self.environment in set(self.rows["environment"])
        return self

    def as_pandas_dataframe(self) -> pd.DataFrame:
        return self.rows[self.rows["environment"] == self.environment].drop(columns="environment")


def with_stand_ins(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tutorial find its data without a download, hide extras that the page does not ask for, and skip what
    needs an absent one."""
    if page.name == "database.md":
        pytest.importorskip("duckdb", reason="needs duckdb")
    if page.name == "tutorial.md":
        if not TUNNEL.is_file():
            pytest.skip("the light tunnel's data are not at hand")
        datasets = ModuleType("causalchamber.datasets")
        datasets.Dataset = Dataset
        for module in (ModuleType("causalchamber"), datasets):
            monkeypatch.setitem(sys.modules, module.__name__, module)
    asked = {extra for names in ASKED.findall(page.read_text(encoding="utf-8")) for extra in names.split(",")}
    hidden = {package for package, extras in BROUGHT_BY.items() if asked.isdisjoint(extras)}
    ours = ("invariance", "__main__", page.stem)
    usual = builtins.__import__

    def checked(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> ModuleType:
        importer = (globals or {}).get("__name__", page.stem)
        if level == 0 and name.partition(".")[0] in hidden and importer.partition(".")[0] in ours:
            raise ImportError(f"{page.name} uses {name}, and names no extra that brings it")
        return usual(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", checked)
