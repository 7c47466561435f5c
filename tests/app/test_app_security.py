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
HOME = f"/{TOKEN}/"


@pytest.fixture
def client(tmp_path: Path) -> TestClient:
    nobody: Any = None
    return TestClient(application(Session(tmp_path, nobody), TOKEN, 8123), base_url=HERE, follow_redirects=False)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8123", "127.0.0.1", "127.0.0.1:8124", ""])
def test_another_host_is_refused(client: TestClient, host: str) -> None:
    assert client.get(HOME, headers={"host": host}).status_code == 403


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
def test_who_gets_an_answer(client: TestClient, method: str, path: str, headers: dict[str, str], status: int) -> None:
    assert client.request(method, path, headers=headers).status_code == status


def test_every_answer_is_strict(client: TestClient) -> None:
    for path in (HOME, "/wrong/", f"{HOME}nothing", f"{HOME}static/htmx.min.js"):
        headers = client.get(path).headers
        policy = dict(part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";"))
        assert policy["default-src"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == policy["form-action"] == "'self'"
        assert policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert (headers["cache-control"], headers["referrer-policy"]) == ("no-store", "same-origin")
        assert headers["x-content-type-options"] == "nosniff"
        assert "set-cookie" not in headers


def test_of_a_report_only_its_own_script_may_run() -> None:
    policy = report_policy("<script>alert(1)</script> text <script>sort()</script></body>")
    assert f"script-src 'sha256-{base64.b64encode(hashlib.sha256(b'sort()').digest()).decode()}';" in policy
