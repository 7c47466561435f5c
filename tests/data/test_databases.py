"""Queries of real databases: the rows are streamed, and the moments are those of the same table in
memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import postgres_server
from arrow_rows import assert_alike
from invariance import Moments
from invariance.data import sources as base
from invariance.exceptions import DataError

pytestmark = pytest.mark.integration
N = 500


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_BATCH_ROWS", 64)


@pytest.fixture(scope="module")
def patients() -> pa.Table:
    rng = np.random.default_rng(0)
    age = rng.normal(50, 9, N)
    pulse = rng.normal(70, 5, N)
    site = rng.choice(["north", "süd", "east"], N)
    return pa.table(
        {
            "age": age,
            "pulse": pulse.astype(np.float32),
            "visits": rng.integers(0, 9, N),
            "smoker": rng.random(N) < 0.4,
            "ward": rng.choice(["day", "night"], N),
            "blood pressure": 0.5 * age + rng.normal(size=N),
            "site": site,
        }
    )


def of(rows: Any, **settings: Any) -> Moments:
    return Moments.from_rows(rows, "blood pressure", "site", **settings)


def test_types_of_duckdb(patients: pa.Table) -> None:
    duckdb = pytest.importorskip("duckdb", reason="needs duckdb")
    duck = duckdb.connect()
    duck.register("patients", patients)
    relation = duck.sql(
        'SELECT age::DECIMAL(9, 3) AS age, visits::HUGEINT AS visits, "blood pressure", smoker, '
        "ward::ENUM('night', 'day') AS ward, site FROM patients"
    )
    found = of(relation)
    assert found.columns == ("age", "visits", "smoker", "ward=night", "blood pressure")
    assert found.maximum[:, 0].max() == pytest.approx(np.round(patients["age"].to_numpy(), 3).max())
    with pytest.raises(DataError, match=r"column 'visits' holds whole numbers beyond 2\*\*53"):
        of(
            duck.sql(
                'SELECT visits + 9007199254740993 AS visits, "blood pressure", site FROM patients'
            )
        )


# ---------------------------------------------------------------- PostgreSQL


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    pytest.importorskip("adbc_driver_postgresql", reason="needs adbc-driver-postgresql")
    programs = postgres_server.programs()
    if programs is None:
        pytest.skip("needs PostgreSQL, and leave to start it")
    with postgres_server.running(programs) as address:
        yield address


@pytest.fixture
def cursor(server: str, patients: pa.Table) -> Iterator[Any]:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server) as connection, connection.cursor() as cursor:
        cursor.adbc_ingest("patients", patients, mode="replace")
        yield cursor


def test_a_query_of_postgresql(cursor: Any, patients: pa.Table) -> None:
    cursor.execute("SELECT * FROM patients")
    assert_alike(of(cursor.fetch_record_batch()), of(patients))


def test_types_of_postgresql(cursor: Any, patients: pa.Table) -> None:
    """A numeric comes as text, of any number of digits: the message says what to do, and that
    works."""
    query = 'SELECT round(age::numeric, 3) AS age, pulse, "blood pressure", site FROM patients'
    cursor.execute(query)
    with pytest.raises(DataError, match=r"column 'age' .*numeric=\['age'\]"):
        of(cursor.fetch_record_batch())
    cursor.execute(query)
    found = of(cursor.fetch_record_batch(), numeric=["age"])
    rounded = np.round(patients["age"].to_numpy(), 3)
    assert found.maximum[:, 0].max() == pytest.approx(rounded.max())
    cursor.execute(
        "SELECT date '2020-01-01' + visits::int AS seen, age, \"blood pressure\", site FROM "
        "patients"
    )
    with pytest.raises(DataError, match=r"column 'seen' is not numeric"):
        of(cursor.fetch_record_batch())


def test_an_error_on_the_way_is_not_taken_for_the_end(cursor: Any) -> None:
    """Half of the rows would give moments that look right."""
    from adbc_driver_manager import Error

    cursor.execute(
        'SELECT 1.0 / (n - 150000)::float8 AS x, n::float8 AS "blood pressure", n % 2 AS site '
        "FROM generate_series(1, 200000) n"
    )
    with pytest.raises((Error, OSError, pa.ArrowException), match="division by zero"):
        of(cursor.fetch_record_batch())


def test_the_page_about_databases(cursor: Any, server: str) -> None:
    """What it shows of PostgreSQL, with the address of this server, and its columns under other
    names."""
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "database.md").read_text(
        encoding="utf-8"
    )
    (shown,) = (block for block in page.split("```")[1::2] if "adbc_driver_postgresql" in block)
    renamed = 'age, site AS hospital, "blood pressure" AS blood_pressure, 2014 + visits AS year'
    cursor.execute(f"CREATE TABLE renamed AS SELECT {renamed} FROM patients")
    cursor.connection.commit()
    code = shown.removeprefix("python").replace("postgresql://reader@db.example.org/study", server)
    names: dict[str, Any] = {"Moments": Moments}
    exec(code.replace("FROM patients", "FROM renamed"), names)
    cursor.execute("SELECT * FROM patients WHERE visits >= 1")
    expected = of(cursor.fetch_record_batch(), features=["age"])
    np.testing.assert_allclose(names["moments"].scatter, expected.scatter, rtol=1e-12)
