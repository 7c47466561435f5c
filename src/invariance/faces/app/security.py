"""Who may speak to the page: a browser on this machine that was given the address, and nobody through it.

There is no cookie: cookies of 127.0.0.1 reach every port of it. The secret stands in the path instead.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
