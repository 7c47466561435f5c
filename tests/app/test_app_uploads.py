"""Tables arrive piece by piece, under their own names, up to a limit."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("python_multipart", reason="needs pip install 'invariance[app]'")
pytest.importorskip("httpx", reason="needs httpx")
from starlette.requests import Request
from starlette.testclient import TestClient

from invariance.app import pages
from invariance.app import security as uploads
from invariance.app.session import Session
from invariance.app.worker import DONE, Job


class Reader:
    """A worker that has read a table as soon as it gets it."""

    job = None

    def __init__(self) -> None:
        self.content = b""
        self.name = ""
        self.written: dict[str, str] = {}

    def submit(self, task: str, file: str, written: dict[str, str]) -> Job:
        self.content, self.name = Path(file).read_bytes(), Path(file).name
        self.written = written
        done = Job(task)
        done.end(DONE, result={"rows": 1, "columns": [], "warnings": []})
        return done


@pytest.fixture
def reader() -> Any:
    return Reader()


@pytest.fixture
def client(tmp_path: Path, reader: Any, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setattr(pages, "receive_table", partial(uploads.receive_table, largest=10_000))
    app = pages.application(Session(tmp_path, reader), "t", 8123)
    return TestClient(app, base_url="http://127.0.0.1:8123", follow_redirects=False)


def files_in(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*") if path.is_file()]


def test_a_table_keeps_its_name_and_its_content(client: TestClient, reader: Any, tmp_path: Path) -> None:
    content = bytes(range(256)) * 30
    assert client.post("/t/table", files={"file": ("my table.csv", content)}).headers["location"] == "table"
    assert (reader.name, reader.content) == ("my table.csv", content)
    assert files_in(tmp_path) == ["my table.csv"]


def test_the_next_table_takes_the_place_of_the_last(client: TestClient, tmp_path: Path) -> None:
    for name in ("a.csv", "b.csv"):
        client.post("/t/table", files={"file": (name, b"x")})
    assert files_in(tmp_path) == ["b.csv"]


def test_how_it_is_written_comes_with_it(client: TestClient, reader: Any) -> None:
    form = {"sep": ";", "encoding": "latin-1", "sheet": "", "other": "x"}
    client.post("/t/table", files={"file": ("a.csv", b"x")}, data=form)
    assert reader.written == {"sep": ";", "encoding": "latin-1"}


def test_an_empty_file_is_a_file(client: TestClient, reader: Any) -> None:
    assert client.post("/t/table", files={"file": ("empty.csv", b"")}).status_code == 303
    assert (reader.name, reader.content) == ("empty.csv", b"")


PIECES = (
    b'--b\r\nContent-Disposition: form-data; name="file"; filename="a.csv"\r\n\r\n',
    *[b"1" * 1000] * 50,
    b"\r\n--b--\r\n",
)
MULTIPART = {"content-type": "multipart/form-data; boundary=b"}


def test_what_is_too_large_is_refused(client: TestClient, tmp_path: Path) -> None:
    answer = client.post("/t/table", content=b"".join(PIECES), headers=MULTIPART)
    assert answer.status_code == 413
    assert "too large for this page" in answer.text
    assert files_in(tmp_path) == []


def test_of_what_is_too_large_no_more_than_the_limit_is_ever_kept(tmp_path: Path) -> None:
    pieces, sizes = list(PIECES), []

    async def receive() -> dict[str, Any]:
        sizes.append(sum(path.stat().st_size for path in tmp_path.rglob("*") if path.is_file()))
        return {"type": "http.request", "body": pieces.pop(0), "more_body": bool(pieces)}

    scope = {"type": "http", "headers": [(name.encode(), value.encode()) for name, value in MULTIPART.items()]}
    with pytest.raises(uploads.TooLargeError):
        asyncio.run(uploads.receive_table(Request(scope, receive), tmp_path, largest=30_000))
    assert pieces == []
    assert 10_000 < max(sizes) <= 30_000
    assert files_in(tmp_path) == []


def test_the_limit_is_200_megabytes() -> None:
    assert uploads.LARGEST == 200_000_000


@pytest.mark.parametrize(
    "request_parts",
    [
        {},
        {"content": b"x", "headers": {"content-type": "text/plain"}},
        {"content": b"x", "headers": {"content-type": "multipart/form-data"}},
        {"content": b"nonsense", "headers": {"content-type": "multipart/form-data; boundary=b"}},
        {"files": {"file": ("", b"")}},
        {"data": {"file": "text"}},
    ],
)
def test_requests_without_a_file_are_told_so(client: TestClient, request_parts: dict[str, Any]) -> None:
    answer = client.post("/t/table", **request_parts)
    assert answer.status_code == 422
    assert "choose a file first" in answer.text


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        (b"table.csv", "table.csv"),
        (b"../../etc/passwd", "passwd"),
        (rb"C:\Users\me\t.csv", "t.csv"),
        (b"..", "table"),
        (b"/", "table"),
        (b"a\x00b\n.csv", "ab.csv"),
        ("Größe.csv".encode(), "Größe.csv"),
        (b"\xff.csv", "\ufffd.csv"),
        (b"x" * 300 + b".csv.gz", "x" * 43 + ".csv.gz"),
    ],
)
def test_names_are_plain(sent: bytes, name: str) -> None:
    assert uploads.plain_name(uploads.sent_name(sent)) == name
