"""Several tabs, the button Back, broken-off uploads and odd requests: each page speaks of its own table and fit."""

from __future__ import annotations

import asyncio
import html
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("python_multipart", reason="needs pip install 'invariance[app]'")
pytest.importorskip("httpx", reason="needs httpx")
from starlette.requests import ClientDisconnect, Request
from starlette.testclient import TestClient

from invariance.app import pages
from invariance.app import security as uploads
from invariance.app.session import MOST_RUNS, Session
from invariance.app.worker import CANCELLED, DONE, FAILED, RUNNING, BusyError, Job

pytestmark = pytest.mark.integration

ROLES = {"outcome": "0", "environment": "1", "feature": "2"}


def column(name: str, groups: tuple[str, ...] = ("a", "b"), n_values: int | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "kind": "numbers",
        "examples": [],
        "missing": 0,
        "n_values": len(groups) if n_values is None else n_values,
        "groups": [[label, 9] for label in groups],
        "doubt": "",
        "as_outcome": ["linear Gaussian", f"{name} takes values that are no counts"],
    }


class Hand:
    """A worker whose fits end when a test says so; a table has the columns that its first line names."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.given: dict[str, Any] = {}

    def submit(self, task: str, **given: Any) -> Job:
        if self.job is not None and self.job.state == RUNNING:
            raise BusyError
        self.job, self.given = Job(task), given
        if task == "look":
            names = Path(given["file"]).read_text().split("\n")[0].split(",")
            if names == ["bad"]:
                self.job.end(FAILED, error="bad.csv is not UTF-8 text: --encoding latin-1.")
            else:
                found = [column(name) for name in names]
                self.job.end(DONE, result={"rows": 1, "columns": found, "warnings": []})
        return self.job

    def finish(self) -> None:
        assert self.job is not None
        for name in ("report.html", "reproduce.py"):
            Path(self.given["folder"], name).write_text(f"{name} of {self.given['choices']['outcome']}")
        self.job.end(DONE, result={"notes": ["a note <b>"], "warnings": ["a warning"]})

    def cancel(self) -> None:
        assert self.job is not None
        self.job.end(CANCELLED)


@pytest.fixture
def worker() -> Any:
    return Hand()


@pytest.fixture
def session(tmp_path: Path, worker: Any) -> Session:
    return Session(tmp_path, worker)


@pytest.fixture
def client(session: Session) -> TestClient:
    return TestClient(pages.application(session, "t", 8123), base_url="http://127.0.0.1:8123/t/")


def bring(client: TestClient, content: str, name: str = "table.csv") -> str:
    """The id of the table."""
    answer = client.post("table", files={"file": (name, content)})
    assert answer.status_code == 200
    found = re.search(r'name="table" value="(\w+)"', answer.text)
    assert found
    return found[1]


def fit(client: TestClient, table: str, **form: str) -> str:
    """The id of the fit."""
    answer = client.post("run", data={"table": table, **ROLES, **form})
    assert answer.url.path == "/t/run"
    return answer.url.params["id"]


def notice(text: str) -> str:
    found = re.search(r'<p class="notice" role="alert">(.*?)</p>', text, re.DOTALL)
    return html.unescape(found[1]) if found else ""


def test_a_form_is_for_its_own_table(client: TestClient, session: Session, worker: Any) -> None:
    first = bring(client, "y,site,a,b")
    second = bring(client, "age,clinic,c,d")
    for form in ({"table": first, **ROLES}, ROLES):
        answer = client.post("run", data=form)
        assert answer.status_code == 409
        assert notice(answer.text) == pages.STALE
        assert "clinic" in answer.text
        assert "selected>age" not in answer.text
    assert session.runs == {}
    fit(client, second)
    assert worker.given["choices"]["outcome"] == "age"


def test_what_is_told_of_a_choice_is_of_its_own_table(client: TestClient) -> None:
    first = bring(client, "y,site,a")
    assert "2 environments in site" in client.get("choice", params={"table": first, **ROLES}).text
    bring(client, "age,clinic,c")
    answer = client.get("choice", params={"table": first, **ROLES})
    assert (answer.headers["hx-redirect"], answer.text) == ("table", "")
    assert notice(client.get("table").text) == pages.STALE


def test_browsers_do_not_fill_in_the_form_of_another_table(client: TestClient) -> None:
    bring(client, "y,site,a")
    assert '<form action="run" method="post" autocomplete="off">' in client.get("table").text


def test_a_result_stays_what_it_was(client: TestClient, worker: Any) -> None:
    first = fit(client, bring(client, "y,site,a", "one.csv"))
    worker.finish()
    second = fit(client, bring(client, "age,clinic,c", "two.csv"))
    for name in ("report.html", "reproduce.py"):
        assert client.get(name, params={"id": first}).text == f"{name} of y"
        assert client.get(name, params={"id": second}).status_code == 409
    assert client.get("report", params={"id": second}).status_code == 409
    worker.finish()
    assert client.get("report", params={"id": first}).text == "report.html of y"
    page = client.get("result", params={"id": first}).text
    assert "y in one.csv" in page
    assert f'href="report.html?id={first}"' in page
    assert "Change the choices" not in page  # its table is gone
    assert "age in two.csv" in client.get("result", params={"id": second}).text
    assert client.get("report.html").status_code == client.get("report.html", params={"id": "x"}).status_code == 404


def test_progress_is_of_its_own_fit(client: TestClient, worker: Any) -> None:
    table = bring(client, "y,site,a")
    first = fit(client, table)
    worker.finish()
    second = fit(client, table)
    assert client.get("progress", params={"id": first}).headers["hx-redirect"] == f"result?id={first}"
    assert f'hx-get="progress?id={second}"' in client.get("progress", params={"id": second}).text
    client.post("cancel", data={"id": first})
    assert worker.job.state == RUNNING
    assert notice(client.post("cancel", data={"id": second}).text) == "The fit was cancelled."


def test_a_running_fit_and_the_last_result_are_found_again(client: TestClient, worker: Any) -> None:
    run = fit(client, bring(client, "y,site,a", "my.csv"))
    start = client.get("./").text
    assert f'<a href="run?id={run}">y in my.csv</a>' in start
    assert '<form class="running" action="cancel" method="post">' in start
    refused = client.post("table", files={"file": ("other.csv", "a,b")})
    assert refused.status_code == 409
    assert f'<a href="run?id={run}">y in my.csv</a>' in refused.text
    worker.finish()
    assert f'<a href="result?id={run}">The last report: y in my.csv</a>' in client.get("./").text


def test_notes_and_warnings_stand_with_the_result(client: TestClient, worker: Any) -> None:
    run = fit(client, bring(client, "y,site,a"))
    worker.finish()
    said = re.findall(r'<p class="notice">(.*?)</p>', client.get("result", params={"id": run}).text)
    assert said == ["a note &lt;b&gt;", "a warning"]


def test_nothing_is_left_of_what_was_refused(client: TestClient, tmp_path: Path) -> None:
    assert client.post("table", files={"file": ("bad.csv", "bad\n1")}).status_code == 422
    assert list(tmp_path.iterdir()) == []
    fit(client, bring(client, "y,site,a"))
    before = set(tmp_path.iterdir())
    assert client.post("table", files={"file": ("other.csv", "a,b")}).status_code == 409
    assert client.post("table").status_code == 422
    assert set(tmp_path.iterdir()) == before


def test_of_fits_the_latest_are_kept(client: TestClient, worker: Any, tmp_path: Path) -> None:
    table = bring(client, "y,site,a")
    ids = []
    for _ in range(MOST_RUNS + 1):
        ids.append(fit(client, table))
        worker.finish()
    assert client.get("report", params={"id": ids[0]}).status_code == 404
    assert notice(client.get("result", params={"id": ids[0]}).text) == pages.NO_RUN
    assert client.get("report", params={"id": ids[1]}).status_code == 200
    assert len(list(tmp_path.rglob("report.html"))) == MOST_RUNS


def test_nothing_is_left_of_an_upload_that_broke_off(tmp_path: Path) -> None:
    start = b'--b\r\nContent-Disposition: form-data; name="file"; filename="secret.csv"\r\n\r\nx'
    pieces = [
        {"type": "http.request", "body": start + b"1" * 5000, "more_body": True},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return pieces.pop(0)

    headers = [(b"content-type", b"multipart/form-data; boundary=b")]
    with pytest.raises(ClientDisconnect):
        asyncio.run(uploads.receive_table(Request({"type": "http", "headers": headers}, receive), tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_a_file_is_named_in_the_python_lines_as_it_was_sent(client: TestClient, worker: Any) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename=" my %22data%22\\'
        + b"x" * 300
        + b'.csv"\r\n\r\n'
        b"y,site,a\r\n--b--\r\n"
    )
    answer = client.post("table", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    found = re.search(r'name="table" value="(\w+)"', answer.text)
    assert found
    fit(client, found[1])
    assert worker.given["name"] == ' my "data"\\' + "x" * 300 + ".csv"
    assert len(Path(worker.given["file"]).name) == 50


@pytest.mark.parametrize("part", [b'name="\xff"\r\n\r\nv', b'name="sep"\r\n\r\n\xff'])
def test_fields_that_are_no_text_are_survived(client: TestClient, part: bytes) -> None:
    body = (
        b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\ny,site\r\n'
        b"--b\r\nContent-Disposition: form-data; " + part + b"\r\n--b--\r\n"
    )
    answer = client.post("table", content=body, headers={"content-type": "multipart/form-data; boundary=b"})
    assert answer.status_code == 200


@pytest.mark.parametrize("name", ["outcome", "seed", "min_rows"])
def test_very_long_numbers_are_refused(client: TestClient, name: str) -> None:
    table = bring(client, "y,site,a")
    answer = client.post("run", data={"table": table, **ROLES, name: "9" * 5000})
    assert answer.status_code == 422
    assert notice(answer.text)
    assert client.get("choice", params={"table": table, "outcome": "9" * 5000}).status_code == 200


def test_a_refusal_about_how_a_file_is_written_opens_those_fields(client: TestClient, worker: Any) -> None:
    opened = r"<details[^>]* open>\s*<summary>How the file is written"
    assert not re.search(opened, client.get("./").text)
    assert re.search(opened, client.post("table", files={"file": ("bad.csv", "bad\n1")}).text)
    table = bring(client, "y,site,a")
    assert not re.search(opened, client.get("table").text)
    run = fit(client, table)
    worker.job.end(FAILED, error="'a' is not numeric: if 'n/k' is a missing value, --na n/k.")
    answer = client.get("run", params={"id": run})
    assert "--na n/k" in notice(answer.text)
    assert re.search(opened, answer.text)


def test_a_table_is_read_again_in_another_way(client: TestClient, worker: Any, tmp_path: Path) -> None:
    table = bring(client, "y,site,a", "t.csv")
    assert client.post("again", data={"table": "other", "na": "n/k"}).status_code == 409
    answer = client.post("again", data={"table": table, "na": "n/k", "sep": ""})
    assert answer.url.path == "/t/table"
    assert worker.given["written"] == {"na": "n/k"}
    assert table not in answer.text
    assert [file.name for file in tmp_path.rglob("*") if file.is_file()] == ["t.csv"]


@pytest.mark.parametrize(
    ("form", "model"),
    [
        ({}, "linear Gaussian"),
        ({"event": "2"}, "piecewise exponential"),
        ({"exposure": "2"}, "negative binomial"),
        ({"family": "mean"}, "mean"),
    ],
)
def test_the_outcome_model_follows_from_all_that_is_chosen(
    client: TestClient, form: dict[str, str], model: str
) -> None:
    table = bring(client, "y,site,a")
    answer = client.get("choice", params={"table": table, **ROLES, **form})
    assert f"Outcome model: <strong>{model}</strong>" in answer.text


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        (column("site", (), 5000), "site has 5,000 different values, too many to list here."),
        (column("site", ("1",), 2), "site has one value: at least two environments are needed."),
        (column("site", ()), "site has no value: at least two environments are needed."),
    ],
)
def test_what_cannot_be_listed_is_told(
    client: TestClient, session: Session, site: dict[str, Any], sentence: str
) -> None:
    table = bring(client, "y,site,a")
    assert session.table is not None
    session.table.found["columns"][1] = site
    assert sentence in client.get("choice", params={"table": table, **ROLES}).text
