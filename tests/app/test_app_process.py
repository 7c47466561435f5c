"""The page as a process: a worker that may die, an end that leaves nothing behind, and no scripts
needed."""

from __future__ import annotations

import html
import io
import os
import re
import signal
import socket
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from app_server import RunningApp, bring, notice, running_app, table_id, wait_until
from bad_tables import table
from cli_runner import fails
from patients import patients

httpx = pytest.importorskip("httpx", reason="needs httpx")

pytestmark = pytest.mark.integration

NAMES = list(patients(3).columns)
CHOSEN = ("pressure", "hospital", "age", "smoking", "drugs")


def ended(client: httpx.Client, answer: httpx.Response) -> httpx.Response:
    """The page after the fit, as a browser without scripts comes to it."""
    end = time.monotonic() + 600
    while answer.url.path.endswith("/run"):
        assert '<meta http-equiv="refresh"' in answer.text
        assert time.monotonic() < end, "the fit does not end"
        time.sleep(0.1)
        answer = client.get(answer.url)
    return answer


def fit(client: httpx.Client, **form: str | list[str]) -> httpx.Response:
    """Send the form of the table that is there."""
    return client.post("run", data={"table": table_id(client.get("table")), **form})


def written(client: httpx.Client, answer: httpx.Response, name: str) -> httpx.Response:
    """A file that a page of a result links to, or shows."""
    return client.get(re.search(rf'(?:href|src)="({re.escape(name)}\?id=[^"]+)"', answer.text)[1])


def start_endless_fit(client: httpx.Client) -> None:
    """More than half an hour for 2^36 subsets."""
    columns = pd.DataFrame(np.random.default_rng(0).normal(size=(400, 37)))
    table = columns.assign(site=np.repeat(["a", "b", "c", "d"], 100))
    assert bring(client, table.to_csv(index=False)).status_code == 200
    form = {
        "outcome": "36",
        "environment": "37",
        "feature": [str(j) for j in range(36)],
        "engine": "exact",
    }
    assert fit(client, **form).url.path.endswith("/run")


def check_report_without_scripts(client: httpx.Client) -> None:
    content = patients().rename(columns={"sex": "Größe"}).to_csv(index=False).encode("latin-1")
    refused = bring(client, content, "patients.csv")
    assert refused.status_code == 422
    (button,) = re.findall(r'name="remedy" value="([^"]*)"', refused.text)
    answer = client.post(
        "table", data={"table": table_id(refused), "remedy": html.unescape(button)}
    )
    assert answer.url.path.endswith("/table")
    assert "600 rows and 7 columns" in answer.text
    assert "Größe" in answer.text
    assert fit(client, outcome="0", feature=["1"]).status_code == 422  # no environment
    outcome, environment, *features = (str(NAMES.index(name)) for name in CHOSEN)
    result = ended(client, fit(client, outcome=outcome, environment=environment, feature=features))
    assert result.url.path.endswith("/report")
    result = client.get(re.search(r'href="(result\?id=[^"]+)"', result.text)[1])
    assert written(client, result, "report.html").text.count("smoking") > 1
    predicted = client.post(
        re.search(r'action="(predict\?id=[^"]+)"', result.text)[1],
        files={"file": ("new.csv", patients(9).drop(columns="pressure").to_csv(index=False))},
    )
    assert len(pd.read_csv(io.StringIO(written(client, predicted, "predictions.csv").text))) == 36
    script = written(client, result, "reproduce.py")
    assert "features=('age', 'smoking', 'drugs')" in script.text
    assert "encoding='latin-1'" in script.text
    assert script.headers["content-disposition"] == 'attachment; filename="reproduce.py"'


def check_sentences_speak_no_shell(client: httpx.Client) -> None:
    """About files that cannot be read, and tables that cannot be fitted."""
    bad = {
        "table.csv": b"a,a,y,site\n1,2,3,p\n",
        "table.csv.gz": b"a,y,site\n",
        "t.doc": b"a\n",
        "e.csv": b"a,y\n",
    }
    for name, content in bad.items():
        answer = bring(client, content, name)
        assert answer.status_code == 422
        assert name in notice(answer)
        assert "--" not in notice(answer)
    bring(client, table(a=[0.5, "", -1, 2, 0.25, 3]))
    answer = ended(client, fit(client, outcome="2", environment="3", feature=["0", "1"]))
    assert answer.url.path.endswith("/table")
    assert "'a'" in notice(answer)
    assert "--" not in notice(answer)
    assert '"missing": "drop"' in html.unescape(answer.text)
    assert 'value="2" selected' in answer.text  # what was chosen is still chosen


def check_a_worker_that_dies_is_replaced(app: RunningApp, client: httpx.Client) -> None:
    start_endless_fit(client)
    answer = bring(client, "a\n1\n")
    assert answer.status_code == 409
    assert "A fit is running" in notice(answer)
    os.kill(app.worker, signal.SIGKILL)
    answer = ended(client, client.get("run"))
    assert answer.url.path.endswith("/table")
    assert "has ended before its answer" in notice(answer)


def check_nothing_is_left_behind(app: RunningApp, client: httpx.Client, name: str) -> None:
    """Whatever the page does when it ends, and whoever ends it."""
    start_endless_fit(client)
    worker = app.worker
    assert app.folder.stat().st_mode & 0o777 == 0o700
    assert list(app.folder.rglob("table.csv"))
    printed = app.end(getattr(signal, name))
    if name != "SIGKILL":
        assert app.process.returncode == 0
        assert printed.endswith("The page is closed.\n")
        assert "Traceback" not in printed
        assert list(app.temporary.iterdir()) == []
    wait_until(lambda: not list(app.temporary.glob("invariance-*")))
    wait_until(lambda: not Path(f"/proc/{worker}").exists())


@pytest.mark.parametrize(
    "name", ["SIGINT", pytest.param("SIGHUP", marks=pytest.mark.slow), "SIGKILL"]
)
def test_a_page_from_its_start_to_its_end(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that needs a page that runs, on one of them."""
    (tmp_path / "here").mkdir()
    (tmp_path / "temporary").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert f"port {port}" in fails("app", "--no-browser", "--port", port)
    with (
        running_app(tmp_path / "temporary", "--port", str(port)) as app,
        httpx.Client(base_url=app.address, follow_redirects=True, timeout=600) as client,
    ):
        assert app.address.startswith(f"http://127.0.0.1:{port}/")
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-For": "1.2.3.4"}
        assert (
            httpx.get(app.address.rstrip("/"), headers=headers).headers["location"] == app.address
        )
        if name == "SIGINT":
            check_report_without_scripts(client)
            check_sentences_speak_no_shell(client)
            check_a_worker_that_dies_is_replaced(app, client)
        check_nothing_is_left_behind(app, client, name)


def test_without_the_extra_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "invariance.app.server", raising=False)
    assert "pip install 'invariant-prediction[app]'" in fails("app", "--no-browser")
