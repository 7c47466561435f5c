"""Access to the page: only by a browser on this machine that has the address.

There is no cookie, because cookies of 127.0.0.1 reach every port of it; the secret is in the path.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import shutil
import tempfile
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders, UploadFile
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..exceptions import DataError

REFUSED = (
    "Refused. Paste the address that the terminal shows into the address bar of a browser "
    "on this machine."
)

_PAGE = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src "
    "'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
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


def report_policy(html: str) -> str:
    """Nothing is loaded or sent, and the report's own script, the last one, may run alone. It is of
    the same origin, or links back to the page would be refused."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)
    own = base64.b64encode(hashlib.sha256(scripts[-1].encode()).digest()).decode()
    return (
        f"default-src 'none'; script-src 'sha256-{own}'; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    )


class Guard:
    """Answers 403 to whatever is not meant for this page, and puts the headers above on every
    answer."""

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

        answer = (
            self.app
            if self.allows(Headers(scope=scope), scope["path"])
            else PlainTextResponse(REFUSED, 403)
        )
        await answer(scope, receive, send_with_headers)

    def allows(self, headers: Headers, path: str) -> bool:
        """Return whether a request is allowed, by its host, origin and token.

        Host: other names may not lead here (DNS rebinding). Origin, Sec-Fetch-Site: other pages may
        not send a browser here. Token: only those with the address have it.
        """
        host = headers.get("host", "")
        return (
            headers.getlist("host") == [host]
            and host in self.hosts
            and all(origin == f"http://{host}" for origin in headers.getlist("origin"))
            and all(site in ("same-origin", "none") for site in headers.getlist("sec-fetch-site"))
            and secrets.compare_digest(
                path.partition("/")[2].partition("/")[0].encode(), self.token.encode()
            )
        )


LARGEST = 200_000_000
_LONGEST_NAME = 200  # bytes
NO_FILE = "No table came with this request: choose a file first."


class TooLargeError(DataError):
    """More than is taken."""


async def receive_table(request: Request, folder: Path) -> tuple[str, Path | None, dict[str, str]]:
    """Name as it was sent, file in a new folder inside the given one, None where none came, and the
    form's other texts. What is too large is read to its end all the same: a browser that is cut off
    shows no answer."""
    if int(request.headers.get("content-length", 0)) > LARGEST:
        async for _ in request.stream():
            pass
        megabytes = LARGEST // 1_000_000
        raise TooLargeError(
            f"The file has more than {megabytes} MB, which is too large for this page."
        )
    try:
        form = await request.form()
    except HTTPException:
        raise DataError(NO_FILE) from None
    fields = {field: value for field, value in form.items() if isinstance(value, str)}
    sent = form.get("file")
    if not isinstance(sent, UploadFile) or not sent.filename:
        return "", None, fields
    name = sent.filename.replace("%22", '"').rpartition("/")[2]  # browsers write quotes as %22
    file = Path(tempfile.mkdtemp(dir=folder)) / plain_name(name)
    with file.open("wb") as kept:
        await run_in_threadpool(shutil.copyfileobj, sent.file, kept)
    await form.close()
    return name, file, fields


def plain_name(name: str) -> str:
    """Return the last part of a file name of any system, as a name that is valid on all."""
    name = name.replace("\\", "/").rpartition("/")[2]
    name = "".join(c for c in name if c.isprintable()).strip(" .") or "table"
    return name if len(name.encode()) <= _LONGEST_NAME else name[-_LONGEST_NAME // 4 :]
