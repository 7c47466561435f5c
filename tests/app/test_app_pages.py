"""Each page speaks of its own table and fit, whatever is uploaded, opened in tabs or sent again.
Nobody but a browser on this machine that was given the address gets an answer."""

from __future__ import annotations

import base64
import hashlib
import html
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
from invariance.data.check import DataCheck
from invariance.data.look import ColumnLook, Finding
from invariance.data.outcomes import OutcomeKind
from invariance.exceptions import Message, use

pytestmark = pytest.mark.integration

HERE = "http://127.0.0.1:8123"
HOME = "/s3cret/"
ROLES = {"outcome": "0", "environment": "1", "feature": "2"}


def column(name: str) -> ColumnLook:
    return ColumnLook(
        name, "numbers", 2, 0, (), (("a", 9), ("b", 9)), OutcomeKind("number", "no counts")
    )


FINDINGS = (
    Finding(
        "text",
        "note",
        "'note' holds sentences.",
        (use(exclude=["note"]), use(categorical=["note"])),
    ),
    Finding("words", "x", "'x' holds 'n/k'.", (use(na=["n/k"]), use(exclude=["x"]))),
    Finding(
        "missing", "x", "'x' is missing in 3 rows.", (use(" (keeps 6 of 9 rows)", missing="drop"),)
    ),
)


def check(names: list[str]) -> DataCheck:
    found = tuple(finding for finding in FINDINGS if finding.column in names)
    settings = {"missing": "drop", "na": ["n/k"]} if "x" in names else {}
    return DataCheck(found, 1, tuple(map(column, names)), settings=settings)


def found_in(names: list[str]) -> dict[str, Any]:
    return {"found": check(names)}


class Hand:
    """A worker whose fits end when a test says so; a table has the columns that its first line
    names."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.given: dict[str, Any] = {}

    def submit(self, task: str, **given: Any) -> Job:
        if self.job is not None and self.job.state == RUNNING:
            raise BusyError
        self.job = Job(task)
        self.given = given
        if task == "look":
            names = given["file"].read_text(errors="replace").split("\n")[0].split(",")
            if names == ["bad"]:
                refused = Message("bad.csv is not UTF-8 text", use(encoding="latin-1"))
                mended = given["written"].get("encoding") == "latin-1"
                self.job.end(
                    DONE if mended else FAILED,
                    error="" if mended else refused,
                    result=found_in(names) if mended else {},
                )
            else:
                self.job.end(DONE, result=found_in(names))
        elif task == "predict":
            refused = Message("'a' is missing in row 1", use(missing="empty"))
            (given["folder"] / "predictions.csv").write_text("a,prediction\n1,2\n")
            cells = {
                "columns": ["prediction", "a"],
                "cells": [["2", "<b>"]],
                "n_rows": 1,
                "sentences": ["Predicted."],
            }
            done = given["settings"].get("missing") == "empty"
            self.job.end(
                DONE if done else FAILED,
                error="" if done else refused,
                result=cells | {"warnings": []},
            )
        return self.job

    def finish(self) -> None:
        assert self.job is not None
        for name in ("report.html", "reproduce.py", "model.json", "inclusion.png", "subsets.csv"):
            (self.given["folder"] / name).write_text(
                f"<body>{name} of {self.given['choices'].outcome}<script></script>"
            )
        lines = ["Effects are the same.", "Baselines differ."]
        result = {
            "notes": ["a note <b>"],
            "warnings": ["a warning", " ".join(lines)],
            "selected": ("a",),
        }
        result |= {"verdict": "effects alike", "lines": lines, "level": "effects (and noise)"}
        self.job.end(DONE, result=result)

    def cancel(self) -> None:
        assert self.job is not None
        self.job.end(CANCELLED)


@pytest.fixture
def client(tmp_path: Path) -> Any:
    """With its session, whose worker is at hand."""
    worker: Any = Hand()
    session = Session(tmp_path, worker)
    client: Any = TestClient(pages.application(session, "s3cret", 8123), base_url=HERE + HOME)
    client.session = session
    client.worker = worker
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


def test_a_table_takes_the_place_of_the_last_and_is_read_again_in_another_way(
    client: Any, tmp_path: Path
) -> None:
    bring(client, "y,site\n" + "é" * 3000, "my table.csv", sep=";", sheet="", other="x")
    assert client.worker.given["written"] == {"sep": ";"}
    assert client.worker.given["file"].read_text() == "y,site\n" + "é" * 3000
    assert files_in(tmp_path) == ["my table.csv"]
    table = bring(client, "y,site,a", "t.csv")
    assert client.post("table", data={"table": "other", "na": "n/k"}).status_code == 409
    answer = client.post("table", data={"table": table, "na": "n/k", "sep": ""})
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
    second = bring(client, "age,clinic,c,d")
    for place in ("run", "choices"):
        for form in ({"table": first, **ROLES}, ROLES):
            answer = client.post(place, data=form)
            assert (answer.status_code, notice(answer)) == (409, pages.STALE)
            assert "selected>age" not in answer.text
    assert client.session.runs == {}
    assert (
        "2 environments in clinic" in client.post("choices", data={"table": second, **ROLES}).text
    )
    fit(client, second)
    assert client.worker.given["choices"].outcome == "age"


def test_a_result_stays_what_it_was(client: Any) -> None:
    first = fit(client, bring(client, "y,site,a", "one.csv"))
    client.worker.finish()
    second = fit(client, bring(client, "age,clinic,c", "two.csv"))
    for name in ("report.html", "reproduce.py", "model.json", "inclusion.png", "subsets.csv"):
        assert f"{name} of y" in client.get(name, params={"id": first}).text
        assert client.get(name, params={"id": second}).status_code == 409
    assert client.get("subsets.svg", params={"id": first}).status_code == 404
    client.worker.finish()
    page = client.get("result", params={"id": first}).text
    assert f'href="report.html?id={first}"' in page
    assert f'src="inclusion.png?id={first}"' in page
    assert "Calibration" not in page  # not drawn
    assert re.findall(r'<div class="(note|notice)"><p>(.*?)</p>', page) == [
        ("notice", "A warning."),
        ("note", "A note &lt;b&gt;."),
    ]
    assert "age in two.csv" in client.get("result", params={"id": second}).text
    for name in ("report.html", "report"):
        assert client.get(name, params={"id": "x"}).status_code == 404
    assert notice(client.get("result", params={"id": "x"})) == pages.NO_RUN


def test_a_result_tells_its_level_and_what_differs_once(client: Any) -> None:
    run = fit(client, bring(client, "y,site,a"))
    client.worker.finish()
    page = client.get("result", params={"id": run}).text
    assert "effects (and noise)" in page
    assert [page.count(line) for line in ("Effects are the same.", "Baselines differ.")] == [1, 1]


def test_baselines_that_are_chosen_stay_chosen(client: Any) -> None:
    table = bring(client, "y,site,a")
    page = client.post("choices", data={"table": table, **ROLES, "baseline": "free"}).text
    assert re.search(r'<option value="free" selected>', page)
    assert "<details open>" in page
    fit(client, table, baseline="free")
    assert client.worker.given["choices"].baseline == "free"


def test_the_report_is_a_page_with_steps_that_lead_back(client: Any) -> None:
    assert steps(client.get("./")) == {
        "Table": None,
        "Choices": None,
        "Report": None,
        "Files and prediction": None,
    }
    run = fit(client, bring(client, "y,site,a"))
    assert steps(client.get("run"))["Choices"] == "table"
    client.worker.finish()
    shown = client.get("run", params={"id": run})
    assert shown.url.path == f"{HOME}report"
    assert shown.headers["content-security-policy"] == security.report_policy("<script></script>")
    assert "<iframe" not in shown.text
    assert steps(shown) == {
        "Table": "./",
        "Choices": "table",
        "Report": None,
        "Files and prediction": f"result?id={run}",
    }
    assert client.get("table").status_code == 200


def steps(answer: Any) -> dict[str, str | None]:
    """Where each step leads; None where it is not a link."""
    listed = re.search(r'<ol class="steps">(.*?)</ol>', answer.text, re.DOTALL)[1]
    found = re.findall(r'<li>(?:<a href="([^"]*)">|<span[^>]*>)(.*?)</', listed)
    return {name: place or None for place, name in found}


def test_findings_stand_beside_their_columns(client: Any) -> None:
    """What is better no feature is off; a button sets the form, and is then marked."""
    page = app_server.bring(client, "y,site,x,note")
    assert ticked(page) == ["0", "1", "2"]
    assert re.search(
        r'<input type="checkbox"[^>]*id="f3">.*?holds sentences.*?aria-pressed="true">Leave out '
        r"note",
        page.text,
        re.S,
    )
    assert "--" not in re.sub(r"<!--.*?-->|<style>.*?</style>", "", page.text, flags=re.DOTALL)
    form = {"table": table_id(page), **ROLES, "feature": ["2"]}
    page = client.post("choices", data=form | {"remedy": '{"missing": "drop"}'})
    assert client.session.form["missing"] == "drop"
    assert re.search(
        r'aria-pressed="true">Leave out rows with missing values \(keeps 6 of 9 rows\)', page.text
    )
    assert 'value="0" selected' in page.text
    assert re.search(r"is the outcome", page.text)
    assert 'id="f0"' not in page.text  # which cannot be ticked
    assert client.worker.given["roles"] == {"outcome": "y", "environment": "site"}
    assert client.worker.given["exclude"] == ["note"]
    client.post("choices", data=form | {"weight": "2"})
    assert client.worker.given["roles"] == {"outcome": "y", "environment": "site"}
    assert client.worker.given["exclude"] == ["note", "x"]
    refused = client.post(
        "choices", data=form | {"remedy": '{"merge_environments": {"a+b": ["a+b", "a"]}}'}
    )
    assert (refused.status_code, "'a+b'" in html.unescape(notice(refused))) == (422, True)
    client.post("choices", data=form | {"remedy": "all"})
    assert (client.session.form["missing"], client.session.table.written) == ("drop", {"na": "n/k"})


def ticked(answer: Any) -> list[str]:
    return re.findall(
        r'<input type="checkbox" name="feature" value="(\d+)"[^>]* checked', answer.text
    )


def test_a_refused_fit_goes_on_by_a_button(client: Any) -> None:
    table = bring(client, "y,site,a")
    run = fit(client, table)
    client.worker.job.end(
        FAILED, error=Message("'a' is missing in row 1", use(missing="drop"), use(n_jobs=1))
    )
    page = client.get("run", params={"id": run})
    (button,) = re.findall(r'<button formaction="run" name="remedy" value="([^"]*)"', page.text)
    fit(client, table, remedy=html.unescape(button))
    assert client.worker.given["choices"].missing == "drop"


def test_a_second_table_is_predicted(client: Any, tmp_path: Path) -> None:
    run = fit(client, bring(client, "y,site,a"))
    assert client.post(f"predict?id={run}", files={"file": ("new.csv", "a\n1")}).status_code == 409
    client.worker.finish()
    assert client.post(f"predict?id={run}").status_code == 422
    page = client.post(f"predict?id={run}", files={"file": ("new.csv", "a\n1")})
    assert "new.csv" in files_in(tmp_path)  # kept
    assert notice(page).startswith("'a' is missing in row 1.")
    (button,) = re.findall(r'name="remedy" value="([^"]*)"', page.text)
    page = client.post(
        f"predict?id={run}",
        data={"table": table_id(page), "remedy": html.unescape(button), "sep": ";"},
    )
    assert (client.worker.given["written"], client.worker.given["settings"]) == (
        {"sep": ";"},
        {"missing": "empty"},
    )
    assert notice(page) == ""
    assert "<td>&lt;b&gt;</td>" in page.text
    assert client.get(f"predictions.csv?id={run}").text == "a,prediction\n1,2\n"
    other = fit(client, bring(client, "y,site,a"))
    assert client.post(f"predict?id={run}", data={"table": table_id(page)}).status_code == 409
    assert "new.csv" in files_in(tmp_path)  # kept while another fit is running
    client.post("cancel", data={"id": other})
    client.post(f"predict?id={run}", files={"file": ("other.csv", "a\n1")})
    assert "new.csv" not in files_in(tmp_path)
    assert client.post("predict?id=x", files={"file": ("new.csv", "a\n1")}).status_code == 404


def test_progress_is_of_its_own_fit(client: Any) -> None:
    table = bring(client, "y,site,a")
    first = fit(client, table)
    client.worker.finish()
    second = fit(client, table)
    assert (
        client.get("progress", params={"id": first}).headers["hx-redirect"] == f"report?id={first}"
    )
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
    assert f'<a href="report?id={run}">The last report: y in my.csv</a>' in client.get("./").text


def test_a_file_that_cannot_be_read_is_kept(client: Any, tmp_path: Path) -> None:
    refused = app_server.bring(client, "bad\n1", "bad.csv")
    assert (refused.status_code, files_in(tmp_path)) == (422, ["bad.csv"])
    (button,) = re.findall(
        r'<button formaction="table" name="remedy" value="([^"]*)"', refused.text
    )
    assert client.get("table").url.path == HOME
    again = client.post(
        "table", data={"table": table_id(refused), "sep": ";", "remedy": html.unescape(button)}
    )
    assert again.url.path == f"{HOME}table"
    assert client.worker.given["written"] == {"sep": ";", "encoding": "latin-1"}


def test_the_outcome_model_follows_from_all_that_is_chosen(client: Any) -> None:
    table = bring(client, "y,site,a")
    models = {"piecewise exponential": {"event": "2"}, "negative binomial": {"exposure": "2"}}
    models |= {"linear Gaussian": {}, "mean": {"family": "mean"}}
    for model, form in models.items():
        answer = client.post("choices", data={"table": table, **ROLES, **form})
        assert f"Model of the outcome: <strong>{model}</strong>" in answer.text


# ---- who gets an answer


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", ""]
)
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
        ("POST", f"{HOME}choices", {"origin": HERE}, 303),
        *(
            ("GET", path, {}, 403)
            for path in ("/", "//", "/other/", "/s3cre/", "/s3cret2/", "/S3CRET/", "/é/")
        ),
        *(
            ("GET", HOME + name, {"sec-fetch-site": "cross-site"}, 403)
            for name in ("", "report", "predictions.csv")
        ),
        ("GET", HOME, {"sec-fetch-site": "same-site"}, 403),
        *(
            ("POST", f"{HOME}{place}", {"origin": origin}, 403)
            for place in ("cancel", "table", "choices", "run", "predict?id=x")
            for origin in (
                "null",
                "http://evil.example",
                "http://127.0.0.1:8124",
                "http://localhost:8123",
            )
        ),
        ("GET", f"{HOME}static/%2e%2e/pages.py", {}, 404),
        *(
            ("GET", f"{HOME}{name}", {}, 404) for name in ("reproduce.py", "model.json", "report")
        ),  # nothing was fitted
        ("POST", f"{HOME}predict", {}, 404),
    ],
)
def test_who_gets_an_answer(
    client: Any, method: str, path: str, headers: dict[str, str], status: int
) -> None:
    assert (
        client.request(method, HERE + path, headers=headers, follow_redirects=False).status_code
        == status
    )


def test_every_answer_is_strict(client: Any) -> None:
    for path in (HOME, "/wrong/", f"{HOME}nothing", f"{HOME}static/htmx.min.js"):
        headers = client.get(HERE + path).headers
        policy = dict(
            part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
        )
        assert policy["default-src"] == "'none'"
        assert (
            policy["script-src"]
            == policy["style-src"]
            == policy["connect-src"]
            == policy["form-action"]
            == "'self'"
        )
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers


def test_of_a_report_only_its_own_script_may_run() -> None:
    policy = security.report_policy("<script>alert(1)</script> text <script>sort()</script></body>")
    own = base64.b64encode(hashlib.sha256(b"sort()").digest()).decode()
    assert policy.startswith(f"default-src 'none'; script-src 'sha256-{own}';")
