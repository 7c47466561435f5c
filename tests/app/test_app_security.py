"""Nobody but a browser on this machine that was given the address gets an answer."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="needs pip install 'invariance[app]'")
pytest.importorskip("httpx", reason="needs httpx")
from starlette.testclient import TestClient

from invariance.app.pages import application
from invariance.app.security import report_policy
from invariance.app.session import Session

pytestmark = pytest.mark.integration

HERE, TOKEN = "http://127.0.0.1:8123", "s3cret"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    nobody: Any = None
    return TestClient(application(Session(tmp_path, nobody), TOKEN, 8123), base_url=HERE, follow_redirects=False)


def test_the_address_answers(client: TestClient) -> None:
    assert client.get(f"/{TOKEN}/").status_code == 200
    assert client.get(f"/{TOKEN}/", headers={"host": "localhost:8123"}).status_code == 200
    assert client.get(f"/{TOKEN}/static/style.css").status_code == 200
    assert client.get(f"/{TOKEN}").headers["location"] == f"{HERE}/{TOKEN}/"
    assert client.post(f"/{TOKEN}/cancel", headers={"origin": HERE}).status_code == 303


@pytest.mark.parametrize("path", ["/", "//", "/other/", "/s3cre/", "/s3cret2/", "/S3CRET/", "/static/style.css", "/é/"])
def test_another_token_is_refused(client: TestClient, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code == 403
    assert "Paste the address" in answer.text


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", "0.0.0.0:8123", ""]
)
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get(f"/{TOKEN}/", headers={"host": host}).status_code == 403


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "origin",
    ["null", "http://evil.example", "http://127.0.0.1:8124", "http://localhost:8123", "https://127.0.0.1:8123"],
)
def test_another_origin_is_refused(client: TestClient, method: str, origin: str) -> None:
    path = "/" if method == "GET" else "/cancel"
    assert client.request(method, f"/{TOKEN}{path}", headers={"origin": origin}).status_code == 403


@pytest.mark.parametrize(
    ("site", "status"), [("cross-site", 403), ("same-site", 403), ("same-origin", 200), ("none", 200)]
)
def test_other_pages_cannot_send_a_browser_here(client: TestClient, site: str, status: int) -> None:
    assert client.get(f"/{TOKEN}/", headers={"sec-fetch-site": site}).status_code == status


@pytest.mark.parametrize("path", [f"/{TOKEN}/", "/wrong/", f"/{TOKEN}/nothing", f"/{TOKEN}/static/htmx.min.js"])
def test_every_answer_is_strict(client: TestClient, path: str) -> None:
    headers = client.get(path).headers
    policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
    assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert headers["cache-control"] == "no-store"
    assert headers["referrer-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "set-cookie" not in headers


def test_of_a_report_only_its_own_script_may_run() -> None:
    policy = report_policy("<script>alert(1)</script> text <script>sort()</script></body>")
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(b'sort()').digest()).decode()}';" in policy


def test_nothing_beside_the_static_files_is_served(client: TestClient) -> None:
    assert client.get(f"/{TOKEN}/static/../pages.py").status_code == 404
    assert client.get(f"/{TOKEN}/static/%2e%2e/pages.py").status_code == 404
    assert client.get(f"/{TOKEN}/reproduce.py").status_code == 404  # nothing was fitted
