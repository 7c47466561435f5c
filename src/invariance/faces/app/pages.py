"""The pages: a table is brought, looked at, fitted, and reported on. All of them work without scripts too."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ..._tools.wording import duration
from ..._version import __version__
from ...conditionals.parsing import FAMILIES
from ...data.checks import SMALLEST_ENVIRONMENT
from ...decisions.registry import RULES
from ...exceptions import DataError, InvarianceError
from ...inference.registry import ENGINES
from ...priors.registry import PRIORS
from .choices import read_choices
from .script import REPORT, SCRIPT
from .security import Guard, report_policy
from .session import Session, Table
from .uploads import LARGEST, TooLargeError, receive_table
from .worker import CANCELLED, DONE, RUNNING, BusyError

HERE = Path(__file__).parent
BUSY = "A fit is running: wait for it, or cancel it first."
# So many columns get a line each; one tick stands for all others.
MOST_LINES = 300
# How a file is written, where it does not show: {field: what it is}
WRITTEN = {
    "sep": "Sign between cells",
    "decimal": "Sign before decimals",
    "thousands": "Sign between thousands",
    "encoding": "Encoding",
    "sheet": "Sheet of an Excel file",
}
_FOLDED = {"prior": "uniform", "max_size": "", "inference": "auto", "select": "predictive", "seed": "0", "strict": ""}
_LARGEST_FORM = 20_000_000

_templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
_templates.globals |= {
    "version": __version__,
    "ways_of_writing": WRITTEN,
    "families": FAMILIES,
    "engines": ("auto", *ENGINES),
    "rules": tuple(RULES),
    "priors": PRIORS.forms,
    "largest": LARGEST,
    "most_lines": MOST_LINES,
    "smallest_environment": SMALLEST_ENVIRONMENT,
}


def application(session: Session, token: str, port: int) -> Guard:
    """The page for one session, at http://127.0.0.1:port/token/."""
    pages = Pages(session)
    routes = [
        Route("/", pages.start),
        Route("/table", pages.table),
        Route("/table", pages.bring, methods=["POST"]),
        Route("/choice", pages.choice),
        Route("/run", pages.run),
        Route("/run", pages.fit, methods=["POST"]),
        Route("/progress", pages.progress),
        Route("/cancel", pages.cancel, methods=["POST"]),
        Route("/result", pages.result),
        Route("/report", pages.report),
        Route(f"/{REPORT}", pages.download),
        Route(f"/{SCRIPT}", pages.download),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, port)


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(template).render(values), status)


def go(place: str) -> Response:
    """Places are relative: all pages stand side by side."""
    return RedirectResponse(place, 303)


class Pages:
    def __init__(self, session: Session) -> None:
        self.session = session

    async def start(self, request: Request) -> Response:
        return page("start.html", notice=self.session.take_notice(), written={})

    async def bring(self, request: Request) -> Response:
        """A table arrives; it is read before the next page is shown."""
        written: dict[str, str] = {}
        try:
            file, fields = await receive_table(request, self.session.folder)
            written = {name: value for name, value in fields.items() if name in WRITTEN}
            job = self.session.look(file, written)
        except BusyError:
            return page("start.html", 409, notice=BUSY, written=written)
        except DataError as error:
            status = 413 if isinstance(error, TooLargeError) else 422
            return page("start.html", status, notice=str(error), written=written)
        await run_in_threadpool(job.ended.wait)
        if job.state != DONE:
            return page("start.html", 422, notice=job.error or "Another table came in between.", written=written)
        self.session.keep(Table(file, written, job.result))
        return go("table")

    async def table(self, request: Request) -> Response:
        """What was understood, and the choices."""
        if self.session.table is None:
            return go("./")
        return self._choosing(self.session.table, self.session.take_notice())

    def _choosing(self, table: Table, notice: str = "", status: int = 200) -> Response:
        form = Form(self.session.form)
        values = {"file": table.file.name, "found": table.found, "rest": len(_rest(table)), "notice": notice}
        return page("table.html", status, form=form, **values, **self._choice(table, form))

    async def choice(self, request: Request) -> Response:
        """What is known of the outcome and the environments that are chosen at the moment."""
        if self.session.table is None:
            return go("./")
        return page("_choice.html", **self._choice(self.session.table, Form(request.query_params.multi_items())))

    def _choice(self, table: Table, form: Form) -> dict[str, Any]:
        def column(role: str) -> dict[str, Any] | None:
            position = form.value(role)
            columns: list[dict[str, Any]] = table.found["columns"]
            return columns[int(position)] if position.isdecimal() and int(position) < len(columns) else None

        return {"outcome": column("outcome"), "environment": column("environment")}

    async def fit(self, request: Request) -> Response:
        session = self.session
        if session.table is None:
            return go("./")
        session.form = await _read_form(request)
        try:
            session.start(session.table, read_choices(session.form, session.table.names, _rest(session.table)))
        except BusyError:
            session.notice = BUSY
        except InvarianceError as error:
            return self._choosing(session.table, str(error), 422)
        return go("run")

    async def run(self, request: Request) -> Response:
        place = self._after_run()
        return page("run.html", **self._state()) if place is None else go(place)

    async def progress(self, request: Request) -> Response:
        """A piece of the page of a run, asked for again and again by htmx, which is then led on."""
        place = self._after_run()
        return page("_progress.html", **self._state()) if place is None else Response(headers={"HX-Redirect": place})

    def _state(self) -> dict[str, Any]:
        run = self.session.run
        assert run is not None
        elapsed = duration(max(run.job.seconds, 0.1))
        return {"job": run.job, "choices": run.choices, "elapsed": elapsed, "notice": self.session.take_notice()}

    def _after_run(self) -> str | None:
        """Where to go when nothing is running."""
        run = self.session.run
        if run is not None and run.job.state == RUNNING:
            return None
        if run is not None and run.job.state == DONE:
            return "result"
        if run is not None:
            self.session.notice = "The fit was cancelled." if run.job.state == CANCELLED else run.job.error
            self.session.run = None
        return "table"

    async def cancel(self, request: Request) -> Response:
        run = self.session.run
        if run is not None and run.job.state == RUNNING:
            await run_in_threadpool(self.session.worker.cancel)
        return go("run")

    async def result(self, request: Request) -> Response:
        run, table = self.session.run, self.session.table
        if run is None or table is None or run.job.state != DONE:
            return go("run")
        said = run.job.result["warnings"]
        return page("result.html", file=table.file.name, choices=run.choices, said=said)

    async def report(self, request: Request) -> Response:
        """The report inside the page, in a sandbox."""
        file = self._written(REPORT)
        if file is None:
            return go("run")
        text = file.read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": report_policy(script_hashes(text))})

    async def download(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        file = self._written(name)
        return go("run") if file is None else FileResponse(file, filename=name)

    def _written(self, name: str) -> Path | None:
        run = self.session.run
        return run.folder / name if run is not None and run.job.state == DONE else None


class Form:
    """Fields as they were sent, to be shown again; `sent` is false before that."""

    def __init__(self, fields: Sequence[tuple[str, str]]) -> None:
        self.sent = bool(fields)
        self._fields = set(fields)
        self._values = dict(fields)

    @property
    def has_settings(self) -> bool:
        """Whether one of those that are folded away differs from what it is by itself."""
        return any(self.value(name, usual) != usual for name, usual in _FOLDED.items())

    def value(self, name: str, default: str = "") -> str:
        return self._values.get(name, default)

    def has(self, name: str, value: str) -> bool:
        return (name, value) in self._fields


def _rest(table: Table) -> list[str]:
    """The usable columns beyond those that have a line."""
    return [column["name"] for column in table.found["columns"][MOST_LINES:] if not column["doubt"]]


async def _read_form(request: Request) -> list[tuple[str, str]]:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk[: _LARGEST_FORM - len(body)]
    return parse_qsl(body.decode("ascii", "replace"), keep_blank_values=True)


def script_hashes(html: str) -> list[str]:
    """Of the script at the end of a report, its only one: whatever else looks like one came with the table."""
    scripts = re.findall(r"<script>(.*?)</script>", html, re.DOTALL)[-1:]
    return [f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}" for text in scripts]
