"""Everything in README and docs is run as printed, in an empty folder, after what its page has printed before it; or
read, where it cannot be run."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import typer

import postgres_server
from doc_pages import DOCS, ELSEWHERE, PAGES, ROOT, TYPED, arguments_of, commands, run_page, steps
from invariance.cli.main import app
from invariance.datasets import make_example
from replication.__main__ import study_parser

DATABASE, CLUSTER = DOCS / "how-to" / "database.md", DOCS / "how-to" / "cluster-and-gpu.md"
FOR_DEVELOPERS = {"test", "docs", "lint", "bench", "peers", "browser"}
ALL = [(page.name, command) for page in PAGES for command in commands(page)]


@pytest.mark.integration
@pytest.mark.parametrize("page", [page for page in PAGES if any(steps(page))], ids=lambda page: page.name)
def test_a_page_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_page(page, monkeypatch)


def test_every_command_can_be_read() -> None:
    for _, command in ALL:
        arguments, group = arguments_of(command), typer.main.get_command(app)
        with group.make_context("invariance", list(arguments), resilient_parsing=True) as context:
            while hasattr(group, "resolve_command"):
                _, group, arguments = group.resolve_command(context, arguments)
            parser = group.make_parser(context)
        parser.parse_args(list(arguments))
    assert [word for word in ELSEWHERE if not any(word in command for _, command in ALL)] == []
    assert sum(not any(word in command for word in ELSEWHERE) for _, command in ALL) > 25
    assert ("README.md", "invariance demo --csv patients.csv --new-csv new_patients.csv") in ALL
    assert any("--prior 'inclusion(0.2)'" in command for _, command in ALL)  # on the second line of a command


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_other_programs_have_what_is_asked_of_them(page: Path) -> None:
    """pip finds its extras in pyproject.toml, make its targets in the Makefile; python runs studies. Nothing hides in a
    block of another language."""
    text = page.read_text(encoding="utf-8")
    typed = [step.text for step in steps(page) if step.kind == "command"]
    assert {command.split()[0] for command in typed} <= {"invariance", "pip", "make", "python"}
    for command in commands(page, "python"):
        assert command.split()[:3] == ["python", "-m", "replication"]
        study_parser().parse_args(shlex.split(command, comments=True)[3:])
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert all(re.search(rf"^{command.split()[1]}:", makefile, re.MULTILINE) for command in commands(page, "make"))
    asked = re.findall(r"(?:invariance|\.)\[([\w,]+)\]", text)
    assert {extra for names in asked for extra in names.split(",")} <= extras()
    assert re.findall(r"^```(?:text|sh|bash|shell)?\n(?:\$ )?(?:invariance|pip|python) .*", text, re.MULTILINE) == []
    for found in TYPED.finditer(text):
        if found["language"] in ("text", ""):
            assert not re.search(r" = |import ", found["block"])


def extras() -> set[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return set(project["optional-dependencies"])


def test_the_readme_lists_every_extra_for_users() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {extra for extra in extras() - FOR_DEVELOPERS if f"`{extra}`" not in text} == set()


# ---- blocks that need a server, and are run where one can be started


def test_all_other_python_is_run() -> None:
    plain = [page for page in PAGES for step in steps(page) if step.kind == "plain"]
    assert sorted(plain) == sorted([DATABASE, CLUSTER])


@pytest.mark.integration
def test_a_query_of_postgresql(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dbapi = pytest.importorskip("adbc_driver_postgresql.dbapi", reason="needs adbc-driver-postgresql")
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("needs a PostgreSQL server that can be started")
    monkeypatch.chdir(tmp_path)
    pyarrow = pytest.importorskip("pyarrow")
    patients = make_example().to_frame().assign(year=[2010, 2020] * 300)
    with postgres_server.running(programs) as address:
        with dbapi.connect(address) as connection, connection.cursor() as cursor:
            cursor.adbc_ingest("patients", pyarrow.Table.from_pandas(patients, preserve_index=False), mode="create")
            connection.commit()
        names: dict[str, Any] = run_page(DATABASE, monkeypatch, {"postgresql://reader@db.example.org/study": address})
    assert (names["moments"].n_rows, names["moments"].feature_names) == (300, ("age",))


@pytest.mark.slow
def test_a_data_frame_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark", reason="needs pyspark")
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("Spark needs Java")
    monkeypatch.chdir(tmp_path)
    make_example().to_frame().to_parquet("rows.parquet", index=False)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    names = run_page(CLUSTER, monkeypatch, {"s3://trials/rows": str(tmp_path / "rows.parquet")})
    names["spark"].stop()
    assert names["model"].selected_features_ == ("age", "exercise", "smoking")
