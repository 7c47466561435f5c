"""`invariance fit --report`: the page, the command on it, and what is refused before anything is computed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

pytest.importorskip("jinja2", reason="needs jinja2: pip install 'invariance[report]'")

from cli_runner import PLAIN, fails, run
from invariance import BIP
from invariance.cli.main import app
from invariance.datasets import make_example
from report_reader import Page

COLUMNS = ("--outcome", "blood_pressure", "--environment", "hospital")


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "a table.csv"
    make_example().to_frame().to_csv(file, index=False)
    return file


def _code(source: str) -> list[str]:
    import html

    return [html.unescape(text) for text in re.findall(r"<pre[^>]*><code>(.*?)</code>", source, re.DOTALL)]


def test_the_page_says_how_to_make_it_again(table: Path, tmp_path: Path) -> None:
    page = tmp_path / "new folder" / "report.html"
    arguments = ["fit", str(table), *COLUMNS, "--exclude", "salt,pulse", "--report", str(page), "--compare", "Lasso"]
    result = run(*arguments)
    assert result.exit_code == 0, result.stderr
    assert result.stdout.endswith(f"Saved the report to {page}\n")
    source = page.read_text(encoding="utf-8")
    shell, python = _code(source)
    assert shell == shlex.join(["invariance", *arguments])
    known: dict[str, BIP] = {}
    exec(python, known)
    read = Page(source)
    assert known["model"].decision_.verdict in read.text
    assert set(known["model"].posterior_.feature_names) == {row[0][0] for row in read.tables["Every feature"][1:]}
    assert [row[0][0] for row in read.tables["What each method selected"][1:]] == ["Lasso"]


def test_a_table_from_standard_input_can_be_read_again(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page, text = tmp_path / "report.html", table.read_text(encoding="utf-8").replace(",", ";")
    chosen = ("--features", "age,exercise,smoking", "--sep", ";")
    typed = ["fit", "-", *COLUMNS, *chosen, "--report", str(page)]
    result = CliRunner(env=PLAIN).invoke(app, typed, input=text, prog_name="invariance")
    assert result.exit_code == 0, result.stderr
    python = _code(page.read_text(encoding="utf-8"))[-1]
    assert "# The table came by standard input: save it as table.csv first.\ndata = " in python
    monkeypatch.chdir(tmp_path)
    Path("table.csv").write_text(text, encoding="utf-8")
    known: dict[str, BIP] = {}
    exec(python, known)
    assert known["model"].posterior_.feature_names == ("age", "exercise", "smoking")
    assert known["model"].posterior_.outcome_name == "blood_pressure"


def test_remedies_on_the_page_are_those_of_the_shell(tmp_path: Path) -> None:
    frame = make_example().to_frame()
    frame["blood_pressure"] = (frame["blood_pressure"] > frame["blood_pressure"].mean()).astype(int)
    file, page = tmp_path / "table.csv", tmp_path / "report.html"
    frame[["blood_pressure", "hospital", "age", "smoking"]].to_csv(file, index=False)
    assert run("fit", file, *COLUMNS, "--report", page).exit_code == 0
    source = page.read_text(encoding="utf-8")
    assert "--family gaussian overrides" in source
    assert "family=&#39;linear_gaussian&#39; overrides" not in source


def test_what_cannot_become_a_page_is_refused_at_once(
    table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BIP, "fit_data", lambda *_: pytest.fail("too late"))
    fit = ("fit", table, *COLUMNS)
    assert "cannot write a report as 'a.pdf': use a name that ends in .html" in fails(*fit, "--report", "a.pdf")
    assert "the same file is named twice" in fails(*fit, "--report", "a.html", "--json", "a.html")
    assert "--compare adds a section to a report: add --report report.html" in fails(*fit, "--compare", "ICP")
    page = tmp_path / "report.html"
    assert "no method is named 'Laso'; did you mean 'Lasso'?" in fails(*fit, "--report", page, "--compare", "ICP,Laso")
    from invariance.report import page as pages

    monkeypatch.setattr(pages, "find_spec", lambda name: None)
    assert "a report needs jinja2: pip install 'invariance[report]'." in fails(*fit, "--report", page)
    assert not page.exists()
