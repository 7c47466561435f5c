"""Each page speaks of its own table and fit, whatever is uploaded, opened in tabs or sent again. Nobody but a browser
on this machine that was given the address gets an answer."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("python_multipart", reason="needs pip install 'invariant-prediction[app]'")
pytest.importorskip("httpx", reason="needs httpx")
from starlette.testclient import TestClient

import app_server
from app_server import notice, table_id
from invariance.app import pages, security
from invariance.app.session import CANCELLED, DONE, FAILED, RUNNING, BusyError, Job, Session

pytestmark = pytest.mark.integration

HERE, HOME = "http://127.0.0.1:8123", "/s3cret/"
ROLES = {"outcome": "0", "environment": "1", "feature": "2"}


def column(name: str) -> dict[str, Any]:
    shown = {"name": name, "kind": "numbers", "examples": [], "missing": 0, "n_values": 2, "doubt": ""}
    return shown | {"groups": [["a", 9], ["b", 9]], "as_outcome": ["linear Gaussian", "no counts"]}


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
            names = given["file"].read_text(errors="replace").split("\n")[0].split(",")
            if names == ["bad"]:
                self.job.end(FAILED, error="bad.csv is not UTF-8 text: --encoding latin-1.")
            else:
                found = [column(name) for name in names]
                self.job.end(DONE, result={"rows": 1, "columns": found, "warnings": []})
        return self.job

    def finish(self) -> None:
        assert self.job is not None
        for name in ("report.html", "reproduce.py"):
            (self.given["folder"] / name).write_text(f"{name} of {self.given['choices'].outcome}<script></script>")
        self.job.end(DONE, result={"notes": ["a note <b>"], "warnings": ["a warning"]})

    def cancel(self) -> None:
        assert self.job is not None
        self.job.end(CANCELLED)


@pytest.fixture
def client(tmp_path: Path) -> Any:
    """With its session, whose worker is at hand."""
    worker: Any = Hand()
    session = Session(tmp_path, worker)
    client: Any = TestClient(pages.application(session, "s3cret", 8123), base_url=HERE + HOME)
    client.session, client.worker = session, worker
    return client


def bring(client: Any, content: str, name: str = "table.csv", **form: str) -> str:
    """The id of the table."""
    return table_id(app_server.bring(client, content, name, **form))


def fit(client: Any, table: str, **form: str) -> str:
    """The id of the fit."""
    answer = client.post("run", data={"table": table, **ROLES, **form})
    assert answer.url.path == f"{HOME}run"
    return answer.url.params["id"]


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_a_table_takes_the_place_of_the_last_and_is_read_again_in_another_way(client: Any, tmp_path: Path) -> None:
    bring(client, "y,site\n" + "é" * 3000, "my table.csv", sep=";", sheet="", other="x")
    assert client.worker.given["written"] == {"sep": ";"}
    assert client.worker.given["file"].read_text() == "y,site\n" + "é" * 3000
    assert files_in(tmp_path) == ["my table.csv"]
    table = bring(client, "y,site,a", "t.csv")
    assert client.post("again", data={"table": "other", "na": "n/k"}).status_code == 409
    answer = client.post("again", data={"table": table, "na": "n/k", "sep": ""})
    assert (answer.url.path, client.worker.given["written"]) == (f"{HOME}table", {"na": "n/k"})
    assert table not in answer.text
    assert files_in(tmp_path) == ["t.csv"]


def test_requests_without_a_file_or_with_a_large_one(
    client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for sent in (
        {},
        {"content": b"x", "headers": {"content-type": "text/plain"}},
        {"content": b"nonsense", "headers": {"content-type": "multipart/form-data; boundary=b"}},
        {"files": {"file": ("", b"")}},
        {"data": {"file": "text"}},
    ):
        answer = client.post("table", **sent)
        assert (answer.status_code, notice(answer)) == (422, security.NO_FILE)
    assert security.LARGEST == 200_000_000
    monkeypatch.setattr(security, "LARGEST", 10_000)
    assert client.post("table", files={"file": ("a.csv", b"1" * 20_000)}).status_code == 413
    assert files_in(tmp_path) == []


def test_names_are_plain() -> None:
    for sent, name in {
        "table.csv": "table.csv",
        "../../etc/passwd": "passwd",
        r"C:\Users\me\t.csv": "t.csv",
        "..": "table",
        "a\x00b\n.csv": "ab.csv",
        "Größe.csv": "Größe.csv",
        "x" * 300 + ".csv.gz": "x" * 43 + ".csv.gz",
    }.items():
        assert security.plain_name(sent) == name


def test_a_form_is_for_its_own_table(client: Any) -> None:
    first = bring(client, "y,site,a,b")
    assert "2 environments in site" in client.get("choice", params={"table": first, **ROLES}).text
    second = bring(client, "age,clinic,c,d")
    for form in ({"table": first, **ROLES}, ROLES):
        answer = client.post("run", data=form)
        assert (answer.status_code, notice(answer)) == (409, pages.STALE)
        assert "selected>age" not in answer.text
    answer = client.get("choice", params={"table": first, **ROLES})
    assert (answer.headers["hx-redirect"], answer.text) == ("table", "")
    assert notice(client.get("table")) == pages.STALE
    assert client.session.runs == {}
    fit(client, second)
    assert client.worker.given["choices"].outcome == "age"


def test_a_result_stays_what_it_was(client: Any) -> None:
    first = fit(client, bring(client, "y,site,a", "one.csv"))
    client.worker.finish()
    second = fit(client, bring(client, "age,clinic,c", "two.csv"))
    for name in ("report.html", "reproduce.py"):
        assert client.get(name, params={"id": first}).text.startswith(f"{name} of y")
        assert client.get(name, params={"id": second}).status_code == 409
    client.worker.finish()
    shown = client.get("report", params={"id": first})
    assert shown.text.startswith("report.html of y")
    assert shown.headers["content-security-policy"] == security.report_policy(shown.text)
    page = client.get("result", params={"id": first}).text
    assert f'href="report.html?id={first}"' in page
    assert "Change the choices" not in page  # its table is gone
    assert re.findall(r'<p class="notice">(.*?)</p>', page) == ["a note &lt;b&gt;", "a warning"]
    assert "age in two.csv" in client.get("result", params={"id": second}).text
    assert client.get("report.html", params={"id": "x"}).status_code == 404
    assert notice(client.get("result", params={"id": "x"})) == pages.NO_RUN


def test_progress_is_of_its_own_fit(client: Any) -> None:
    table = bring(client, "y,site,a")
    first = fit(client, table)
    client.worker.finish()
    second = fit(client, table)
    assert client.get("progress", params={"id": first}).headers["hx-redirect"] == f"result?id={first}"
    assert f'hx-get="progress?id={second}"' in client.get("progress", params={"id": second}).text
    client.post("cancel", data={"id": first})
    assert client.worker.job.state == RUNNING
    assert notice(client.post("cancel", data={"id": second})) == "The fit was cancelled."


def test_a_running_fit_and_the_last_result_are_found_again(client: Any, tmp_path: Path) -> None:
    run = fit(client, bring(client, "y,site,a", "my.csv"))
    assert f'<a href="run?id={run}">y in my.csv</a>' in client.get("./").text
    before = set(tmp_path.iterdir())
    refused = app_server.bring(client, "a,b")
    assert refused.status_code == 409
    assert f'<a href="run?id={run}">y in my.csv</a>' in refused.text
    assert set(tmp_path.iterdir()) == before
    client.worker.finish()
    assert f'<a href="result?id={run}">The last report: y in my.csv</a>' in client.get("./").text


def test_a_refusal_about_how_a_file_is_written_opens_those_fields(client: Any, tmp_path: Path) -> None:
    opened = r"<details[^>]* open>\s*<summary>How the file is written"
    assert not re.search(opened, client.get("./").text)
    refused = app_server.bring(client, "bad\n1")
    assert (refused.status_code, list(tmp_path.iterdir())) == (422, [])
    assert re.search(opened, refused.text)
    table = bring(client, "y,site,a")
    assert not re.search(opened, client.get("table").text)
    run = fit(client, table)
    client.worker.job.end(FAILED, error="'a' is not numeric: if 'n/k' is a missing value, --na n/k.")
    answer = client.get("run", params={"id": run})
    assert "--na n/k" in notice(answer)
    assert re.search(opened, answer.text)


def test_the_outcome_model_follows_from_all_that_is_chosen(client: Any) -> None:
    table = bring(client, "y,site,a")
    models = {"piecewise exponential": {"event": "2"}, "negative binomial": {"exposure": "2"}}
    models |= {"linear Gaussian": {}, "mean": {"family": "mean"}}
    for model, form in models.items():
        answer = client.get("choice", params={"table": table, **ROLES, **form})
        assert f"Outcome model: <strong>{model}</strong>" in answer.text


# ---- who gets an answer


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", ""])
def test_another_host_is_refused(client: Any, host: str) -> None:
    assert client.get(HERE + HOME, headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    ("method", "path", "headers", "status"),
    [
        ("GET", HOME, {}, 200),
        ("GET", HOME, {"host": "localhost:8123"}, 200),
        ("GET", HOME, {"sec-fetch-site": "same-origin"}, 200),
        ("GET", HOME, {"sec-fetch-site": "none"}, 200),
        ("GET", f"{HOME}static/style.css", {}, 200),
        ("POST", f"{HOME}cancel", {"origin": HERE}, 303),
        *(("GET", path, {}, 403) for path in ("/", "//", "/other/", "/s3cre/", "/s3cret2/", "/S3CRET/", "/é/")),
        *(("GET", HOME, {"sec-fetch-site": site}, 403) for site in ("cross-site", "same-site")),
        *(
            ("POST", f"{HOME}cancel", {"origin": origin}, 403)
            for origin in ("null", "http://evil.example", "http://127.0.0.1:8124", "http://localhost:8123")
        ),
        ("GET", f"{HOME}static/%2e%2e/pages.py", {}, 404),
        ("GET", f"{HOME}reproduce.py", {}, 404),  # nothing was fitted
    ],
)
def test_who_gets_an_answer(client: Any, method: str, path: str, headers: dict[str, str], status: int) -> None:
    assert client.request(method, HERE + path, headers=headers, follow_redirects=False).status_code == status


def test_every_answer_is_strict(client: Any) -> None:
    for path in (HOME, "/wrong/", f"{HOME}nothing", f"{HOME}static/htmx.min.js"):
        headers = client.get(HERE + path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers


def test_of_a_report_only_its_own_script_may_run() -> None:
    policy = security.report_policy("<script>alert(1)</script> text <script>sort()</script></body>")
    own = base64.b64encode(hashlib.sha256(b"sort()").digest()).decode()
    assert policy.startswith(f"sandbox allow-scripts; default-src 'none'; script-src 'sha256-{own}';")
