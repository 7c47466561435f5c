"""Python in README and docs that no doctest runs, because it needs a server: run where one can be started."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

import postgres_server
from doc_pages import DOCS, PAGES, ROOT, TYPED, run_python, steps, with_stand_ins
from invariance.datasets import make_example

DATABASE = DOCS / "how-to" / "database.md"
CLUSTER = DOCS / "how-to" / "cluster-and-gpu.md"


def plain(page: Path) -> list[str]:
    return [text for kind, text in steps(page) if kind == "plain"]


def run_plain(page: Path, here: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The page up to its block, which finds here what it looks for elsewhere; gives the names that are then known."""
    with_stand_ins(page, monkeypatch)
    names: dict[str, Any] = {"__name__": page.stem}
    for kind, text in steps(page):
        if kind == "python":
            run_python(text, page, names)
        if kind == "plain":
            for there, address in here.items():
                assert text.count(there) == 1
                text = text.replace(there, address)
            exec(compile(text, page.name, "exec"), names)
            break
    return names


def test_all_other_python_is_run_by_doctest() -> None:
    assert {page: len(plain(page)) for page in PAGES if plain(page)} == {DATABASE: 1, CLUSTER: 1}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_python_hides_in_a_block_of_text(page: Path) -> None:
    for found in TYPED.finditer(page.read_text(encoding="utf-8")):
        if found["language"] in ("text", ""):
            assert " = " not in found["block"]
            assert "import " not in found["block"]


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
        names = run_plain(DATABASE, {"postgresql://reader@db.example.org/study": address}, monkeypatch)
    assert names["moments"].n_rows == 300
    assert names["moments"].feature_names == ("age",)


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
    names = run_plain(CLUSTER, {"s3://trials/rows": str(tmp_path / "rows.parquet")}, monkeypatch)
    names["spark"].stop()
    assert names["model"].selected_features_ == ("age", "exercise", "smoking")
