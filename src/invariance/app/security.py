"""Who may speak to the page: a browser on this machine that was given the address, and nobody through it.

There is no cookie: cookies of 127.0.0.1 reach every port of it. The secret stands in the path instead.
"""

from __future__ import annotations

import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import create_form_parser
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..exceptions import DataError

REFUSED = "Refused. Paste the address that the terminal shows into the address bar of a browser on this machine."

_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
# same-origin, not no-referrer: with that, browsers send forms with "Origin: null".
HEADERS = {
    "Content-Security-Policy": _PAGE,
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


def report_policy(script_hashes: Iterable[str]) -> str:
    """For the report, whose styles are inline: a sandbox with an origin of its own, out of which nothing is sent.

    script_hashes: 'sha256-…' of the scripts that may run in it
    """
    scripts = " ".join(f"'{value}'" for value in script_hashes) or "'none'"
    return (
        f"sandbox allow-scripts; default-src 'none'; script-src {scripts}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    )


class Guard:
    """Answers 403 to whatever is not meant for this page, and puts the headers above on every answer."""

    def __init__(self, app: ASGIApp, token: str, port: int) -> None:
        self.app = app
        self.token = token
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        allowed = self.allows(Headers(scope=scope), scope["path"])
        answer = self.app if allowed else PlainTextResponse(REFUSED, 403)
        await answer(scope, receive, send_with_headers)

    def allows(self, headers: Headers, path: str) -> bool:
        """Host: no other name may lead here (DNS rebinding). Origin, Sec-Fetch-Site: no other page may send a browser
        here. Token: nobody may who was not told the address."""
        host = headers.get("host", "")
        return (
            headers.getlist("host") == [host]
            and host in self.hosts
            and all(origin == f"http://{host}" for origin in headers.getlist("origin"))
            and all(site in ("same-origin", "none") for site in headers.getlist("sec-fetch-site"))
            and secrets.compare_digest(path.partition("/")[2].partition("/")[0].encode(), self.token.encode())
        )


LARGEST = 200_000_000
_LONGEST_NAME = 200  # bytes
NO_FILE = "No table came with this request: choose a file first."


class TooLargeError(DataError):
    """More than is taken."""


class Upload(NamedTuple):
    """name: as it was sent; file: where it is; fields: the others of the form that are not empty"""

    name: str
    file: Path
    fields: dict[str, str]


async def receive_table(request: Request, folder: Path, largest: int = LARGEST) -> Upload:
    """A file, in a new folder inside the given one, of which nothing is left where it does not arrive.

    What is too large is read to its end all the same, and thrown away: a browser that is cut off shows no answer.
    """
    place = Path(tempfile.mkdtemp(dir=folder))
    try:
        return await _receive(request, place, largest)
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        raise


async def _receive(request: Request, place: Path, largest: int) -> Upload:
    files: list[Any] = []
    fields: list[Any] = []
    settings = {"UPLOAD_DIR": str(place), "UPLOAD_DELETE_TMP": False, "MAX_MEMORY_FILE_SIZE": 0}
    try:
        content_type = request.headers.get("content-type", "").encode("latin-1")
        parser = create_form_parser({"Content-Type": content_type}, fields.append, files.append, settings)
        size = 0
        async for chunk in request.stream():
            size += len(chunk)
            if size <= largest:
                parser.write(chunk)
        if size <= largest:
            parser.finalize()
        for file in files:
            if file.in_memory:  # it is empty
                file.flush_to_disk()
    except OSError as error:
        raise DataError(f"The table cannot be kept on this machine: {error.strerror or error}.") from error
    except (FormParserError, ValueError):
        raise DataError(NO_FILE) from None
    finally:
        for file in files:
            file.close()
    if size > largest:
        raise TooLargeError(
            f"The file has more than {largest // 1_000_000} MB, which is too large for this page. The command line "
            "takes files of any size."
        )
    if not files or not files[0].file_name:
        raise DataError(NO_FILE)
    name = sent_name(files[0].file_name)
    file = Path(files[0].actual_file_name.decode()).rename(place / plain_name(name))
    return Upload(name, file, {_text(field.field_name): _text(field.value) for field in fields if field.value})


def _text(sent: bytes) -> str:
    return sent.decode("utf-8", "replace")


def sent_name(sent: bytes) -> str:
    """The name that a file has where it comes from. Browsers write three signs of it otherwise."""
    name = _text(sent)
    for written, sign in (("%22", '"'), ("%0A", "\n"), ("%0D", "\r")):
        name = name.replace(written, sign)
    return name.rpartition("/")[2]


def plain_name(name: str) -> str:
    """The last part of a name, whatever system it comes from, as a file can have it on any."""
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable()).strip(" .") or "table"
    return name if len(name.encode()) <= _LONGEST_NAME else name[-_LONGEST_NAME // 4 :]
