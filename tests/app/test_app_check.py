"""What `check` finds stands on the page, and "do what is suggested" leads to a fit that is not
refused."""

from __future__ import annotations

import html
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'invariant-prediction[app]'")
pytest.importorskip("httpx", reason="needs pip install httpx")

from starlette.testclient import TestClient

import app_server
from invariance.app import pages
from invariance.app.choices import read_choices
from invariance.app.session import DONE, Job, Session
from invariance.app.tasks import look
from invariance.cli.inputs import begin, read_file
from planted import planted_table

HERE = "http://127.0.0.1:8123"
HOME = "/s3cret/"


class Looking:
    """A worker that looks at tables at once."""

    job: Job | None = None

    def submit(self, task: str, **given: Any) -> Job:
        self.job = Job(task)
        self.job.end(DONE, result=look(lambda *_: None, **given))
        return self.job


@pytest.fixture
def client(tmp_path: Path) -> Any:
    worker: Any = Looking()
    session = Session(tmp_path, worker)
    client: Any = TestClient(pages.application(session, "s3cret", 8123), base_url=HERE + HOME)
    client.session = session
    return client


def text_of(answer: Any) -> str:
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", answer.text)).split())


def form_of(client: Any) -> dict[str, Any]:
    form = client.session.form
    return {
        "table": client.session.table.id,
        **{name: form.getlist(name) for name in form if name != "table"},
    }


def test_what_is_suggested_is_read(client: Any) -> None:
    table = planted_table()
    app_server.bring(client, table.to_csv(index=False))
    columns = list(table)
    roles = {"outcome": str(columns.index("y")), "environment": str(columns.index("site"))}
    page = client.post("choices", data={**form_of(client), **roles})
    shown = text_of(page)
    assert "Missing values, in percent of the rows of each site" in shown
    assert re.search(r"chol 25 \. 100 \. \.", shown)
    assert (
        "Leave out chol, rare; Leave out rows with missing values (keeps 184 of 240 rows" in shown
    )
    assert "Is 9 a missing value?" in shown
    # Questions wait too, but not for what is suggested first.
    found = client.session.table.found
    assert f"{sum(not each.asks for each in found.findings)} findings below wait" in shown
    page = client.post("choices", data={**form_of(client), "remedy": "all"})
    assert "wait for a choice" not in text_of(page)
    assert "Is 9 a missing value?" in text_of(page)
    session = client.session
    given = read_choices(session.form, columns, (), session.table.written)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = read_file(session.table.file, given)
        begin(given.bip(1), data)
    assert data.n_rows == 184
    assert not {"chol", "rare", "beds", "region", "at_ayr", "at_bath"} & set(data.feature_names)


def test_codes_of_one_column_are_looked_at(tmp_path: Path) -> None:
    planted_table().to_csv(tmp_path / "t.csv", index=False)

    def found(**written: str) -> Any:
        return look(
            lambda *_: None, tmp_path / "t.csv", written, {"outcome": "y", "environment": "site"}
        )["found"]

    assert ("chol", "one_value") in {(each.column, each.code) for each in found().findings}
    assert ("chol", "one_value") not in {
        (each.column, each.code) for each in found(na="chol=0").findings
    }
    assert found(na="chol=0").missing_by_environment().loc["chol", "bath"] == 60


def test_missing_values_and_refusals_are_those_of_the_ticked_features(tmp_path: Path) -> None:
    table = planted_table()
    table.assign(y=table["age"] + table["w"]).to_csv(tmp_path / "t.csv", index=False)
    roles = {"outcome": "y", "environment": "site"}
    others = [name for name in table if name not in ("site", "y", "age", "w")]

    def codes(exclude: list[str]) -> set[str]:
        found = look(lambda *_: None, tmp_path / "t.csv", {}, roles, exclude)["found"]
        assert found.missing_values.columns == () or not exclude
        return {each.code for each in found.findings}

    assert {"missing", "exclusion", "stopped"} <= codes([])
    left = codes([*others, "age"])
    assert not {"missing", "exclusion", "stopped"} & left
    assert "one_value" in left  # as one sees why a column is off
