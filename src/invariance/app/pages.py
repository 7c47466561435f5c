"""The pages: a table is brought, looked at, fitted, and reported on. All of them work without scripts too."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .._tools.text import duration
from .._version import __version__
from ..cli.options import FitOptions, write_names
from ..data.checks import SMALLEST_ENVIRONMENT
from ..data.findings import MOST_GROUPS
from ..decisions.rules import RULES
from ..exceptions import DataError, InvarianceError, SettingError
from ..inference.base import ENGINES
from ..models.registry import FAMILIES, SHORT
from ..priors import PRIOR_FORMS
from .security import LARGEST, Guard, TooLargeError, receive_table, report_policy
from .session import CANCELLED, DONE, RUNNING, BusyError, Fields, Run, Session, Table, discard
from .tasks import REPORT, SCRIPT, with_outcome_columns

HERE = Path(__file__).parent
BUSY = "A fit is running: wait for it, or cancel it first."
STALE = "Another table has come in between: choose again, for this one."
NO_RUN = "There is no such fit."
# So many columns get a line each; one tick stands for all others.
MOST_LINES = 300
# How a file is written, where it does not show: {field: what it is}
WRITTEN = {
    "sep": "Sign between cells",
    "decimal": "Sign before decimals",
    "thousands": "Sign between thousands",
    "encoding": "Encoding",
    "sheet": "Sheet of an Excel file",
    "na": "Words for missing values",
}

_templates = Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined)
_templates.globals |= {
    "version": __version__,
    "ways_of_writing": WRITTEN,
    "families": [name for name in FAMILIES if name not in SHORT.values()],
    "engines": ("auto", *ENGINES),
    "rules": tuple(RULES),
    "priors": PRIOR_FORMS,
    "largest": LARGEST,
    "most_lines": MOST_LINES,
    "most_groups": MOST_GROUPS,
    "smallest_environment": SMALLEST_ENVIRONMENT,
}


def application(session: Session, token: str, port: int) -> Guard:
    """The page for one session, at http://127.0.0.1:port/token/."""
    pages = Pages(session)
    routes = [
        Route("/", pages.start),
        Route("/table", pages.table),
        Route("/table", pages.upload, methods=["POST"]),
        Route("/again", pages.read_again, methods=["POST"]),
        Route("/choice", pages.choice),
        Route("/run", pages.run),
        Route("/run", pages.fit, methods=["POST"]),
        Route("/progress", pages.progress),
        Route("/cancel", pages.cancel, methods=["POST"]),
        Route("/result", pages.result),
        Route("/report", pages.report),
        *(Route(f"/{name}", pages.download) for name in (REPORT, SCRIPT)),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, port)


def page(template: str, status: int = 200, **values: Any) -> HTMLResponse:
    return HTMLResponse(_templates.get_template(template).render(values), status)


def go(place: str) -> Response:
    return RedirectResponse(place, 303)


async def sent_fields(request: Request) -> Fields:
    return Fields([(name, str(value)) for name, value in (await request.form()).multi_items()])


class Pages:
    def __init__(self, session: Session) -> None:
        self.session = session

    def _page(self, template: str, notice: str, status: int, written: Mapping[str, str], **values: Any) -> Response:
        """A page with the fields of how a file is written, which are open where the notice names one of them."""
        about_writing = any(re.search(rf"--{name}\b", notice) for name in WRITTEN)
        values = {"about_writing": about_writing, "running": self.session.latest(RUNNING)} | values
        return page(template, status, notice=notice, written=written, **values)

    def _start_page(self, notice: str, status: int = 200, written: Mapping[str, str] | None = None) -> Response:
        opened = {"about_writing": True} if written else {}
        return self._page("start.html", notice, status, written or {}, last=self.session.latest(DONE), **opened)

    def _table_page(self, table: Table, notice: str = "", status: int = 200) -> Response:
        form = self.session.form
        values = {"table": table, "found": table.found, "rest": len(_rest(table)), "form": form}
        return self._page("table.html", notice, status, table.written, **values, **_choice(table, form))

    async def start(self, request: Request) -> Response:
        return self._start_page(self.session.take_notice())

    async def upload(self, request: Request) -> Response:
        """A table arrives; it is read before the next page is shown."""
        try:
            name, file, fields = await receive_table(request, self.session.folder)
        except ClientDisconnect:
            return Response(status_code=400)  # which nobody reads
        except DataError as error:
            return self._start_page(str(error), 413 if isinstance(error, TooLargeError) else 422)
        written = _how_written(fields)
        refused = await self._read(name, file, written)
        if refused is None:
            return go("table")
        discard(file)
        return self._start_page(*refused, written)

    async def read_again(self, request: Request) -> Response:
        """The table that is here already, written in another way."""
        form, table = await sent_fields(request), self.session.table
        if table is None:
            return go("./")
        if form.get("table") != table.id:
            return self._table_page(table, STALE, 409)
        refused = await self._read(table.name, table.file, _how_written(form))
        return go("table") if refused is None else self._table_page(table, *refused)

    async def _read(self, name: str, file: Path, written: dict[str, str]) -> tuple[str, int] | None:
        """Keep a table, or say why not, and with which status."""
        try:
            job = self.session.worker.submit("look", file=file, written=written)
        except BusyError:
            return BUSY, 409
        await run_in_threadpool(job.ended.wait)
        if job.state != DONE:
            return job.error or "Another table came in between.", 422
        self.session.keep(Table(name, file, written, job.result))
        return None

    async def table(self, request: Request) -> Response:
        """What was understood, and the choices."""
        table = self.session.table
        return go("./") if table is None else self._table_page(table, self.session.take_notice())

    async def choice(self, request: Request) -> Response:
        """What is known of the outcome and the environments that are chosen at the moment, asked for by htmx."""
        form, table = request.query_params, self.session.table
        if table is None or form.get("table") != table.id:
            self.session.notice = STALE
            return Response(headers={"HX-Redirect": "./" if table is None else "table"})
        return page("_choice.html", **_choice(table, form))

    async def fit(self, request: Request) -> Response:
        session, form = self.session, await sent_fields(request)
        table = session.table
        if table is None:
            return go("./")
        if form.get("table") != table.id:
            return self._table_page(table, STALE, 409)
        session.form = form
        try:
            names = [column["name"] for column in table.found["columns"]]
            run = session.start(table, read_choices(form, names, _rest(table), table.written))
        except BusyError:
            session.notice = BUSY
            return go("run")
        except InvarianceError as error:
            return self._table_page(table, str(error), 422)
        return go(f"run?id={run.id}")

    def _asked(self, request: Request) -> Run | None:
        """The fit whose id is in the address; the latest where there is none."""
        wanted = request.query_params.get("id")
        return self.session.latest() if wanted is None else self.session.runs.get(wanted)

    async def run(self, request: Request) -> Response:
        run = self._asked(request)
        if run is None or run.job.state != RUNNING:
            return go(self._after(run))
        return page("run.html", run=run, elapsed=_elapsed(run), notice=self.session.take_notice())

    async def progress(self, request: Request) -> Response:
        """A piece of the page of a run, asked for again and again by htmx, which is then led on."""
        run = self._asked(request)
        if run is None or run.job.state != RUNNING:
            return Response(headers={"HX-Redirect": self._after(run)})
        return page("_progress.html", run=run, elapsed=_elapsed(run))

    def _after(self, run: Run | None) -> str:
        """Where to go when a fit is no longer running, or not known."""
        if run is not None and run.job.state == DONE:
            return f"result?id={run.id}"
        if run is not None:
            self.session.notice = "The fit was cancelled." if run.job.state == CANCELLED else run.job.error
        return "table"

    async def cancel(self, request: Request) -> Response:
        wanted, run = (await sent_fields(request)).get("id"), self.session.latest(RUNNING)
        if run is not None and wanted in (None, run.id):
            await run_in_threadpool(self.session.worker.cancel)
        return go("run" if wanted is None else f"run?{urlencode({'id': wanted})}")

    async def result(self, request: Request) -> Response:
        run, table = self._asked(request), self.session.table
        if run is None:
            self.session.notice = NO_RUN
            return go("./")
        if run.job.state != DONE:
            return go(f"run?id={run.id}")
        said = [*run.job.result["notes"], *run.job.result["warnings"]]
        return page("result.html", run=run, said=said, table_is_here=table is not None and table.id == run.table.id)

    async def report(self, request: Request) -> Response:
        """The report inside the page, in a sandbox."""
        text = self._written(request, REPORT).read_text(encoding="utf-8")
        return HTMLResponse(text, headers={"Content-Security-Policy": report_policy(text)})

    async def download(self, request: Request) -> Response:
        name = request.url.path.rpartition("/")[2]
        return FileResponse(self._written(request, name), filename=name)

    def _written(self, request: Request, name: str) -> Path:
        """A file of the fit that is named in the address."""
        run = self.session.runs.get(request.query_params.get("id", ""))
        if run is None:
            raise HTTPException(404, NO_RUN)
        if run.job.state != DONE:
            raise HTTPException(409, "This fit has no report.")
        return run.folder / name


ROLES = ("outcome", "environment", "event", "exposure")


def _choice(table: Table, form: Fields) -> dict[str, Any]:
    """The outcome, its model and the environment that are chosen at the moment."""
    outcome, environment, event, exposure = (_sent(table.found["columns"], form.get(role, "")) for role in ROLES)
    model = outcome["as_outcome"] if outcome else []
    if model and (event or exposure):
        model = with_outcome_columns(outcome["name"], event and event["name"], exposure and exposure["name"])
    if model and form.get("family", "auto") != "auto":
        model = [form["family"], "chosen below"]
    return {"outcome": outcome, "outcome_model": model, "environment": environment}


def _elapsed(run: Run) -> str:
    return duration(max(time.monotonic() - run.job.started, 0.1))


def _rest(table: Table) -> list[str]:
    """The usable columns beyond those that have a line."""
    return [column["name"] for column in table.found["columns"][MOST_LINES:] if not column["doubt"]]


def _how_written(fields: Mapping[str, str]) -> dict[str, str]:
    return {name: fields[name] for name in WRITTEN if fields.get(name)}


def read_choices(form: Fields, columns: Sequence[str], rest: Iterable[str], written: Mapping[str, Any]) -> FitOptions:
    """The form as the options of `invariance fit`.
    form : columns by their positions; rest : columns that one tick stands for; written : as `FileOptions` has it"""
    given = {name: value.strip() for name, value in form.items()}
    roles = {role: _sent(columns, given.get(role, "")) for role in ROLES}
    for role in ("outcome", "environment"):
        if roles[role] is None:
            raise SettingError(f"Choose the column of the {role}.")
    ticked = {*(_sent(columns, position) for position in form.getlist("feature")), *(rest if "rest" in given else ())}
    others = [name for name in columns if name not in roles.values()]
    features = [name for name in others if name in ticked]
    if not features:
        raise SettingError("Tick at least one feature that is neither the outcome nor the environment.")
    read_as = {name: given.get(f"as{position}") for position, name in enumerate(columns)}
    for name in roles.values():
        if read_as.get(name):
            raise SettingError(f"'Read as' is for features, and {name!r} is none: choose 'it is' in its line.")
    texts = "family", "prior", "engine", "select", "deviations", "drop_environment", "merge"
    typed: dict[str, Any] = {name: given[name] for name in texts if given.get(name)}
    return FitOptions(
        **written,
        **typed,
        **roles,
        features=None if features == others else write_names(features),
        categorical=write_names(name for name in features if read_as[name] == "category") or None,
        numeric=write_names(name for name in features if read_as[name] == "number") or None,
        missing="drop" if "drop_missing" in given else "error",
        min_rows=_whole(given, "min_rows", "Fewest rows of an environment") or 0,
        max_size=_whole(given, "max_size", "Most features in a subset"),
        strict="strict" in given,
        seed=_whole(given, "seed", "Seed") or 0,
    )


_WHOLE_NUMBER = re.compile(r"\d{1,18}", re.ASCII)


def _sent(columns: Sequence[Any], position: str) -> Any:
    """The column whose position was sent; None if there is none."""
    place = int(position) if _WHOLE_NUMBER.fullmatch(position) else len(columns)
    return columns[place] if place < len(columns) else None


def _whole(given: Mapping[str, str], name: str, label: str) -> int | None:
    text = given.get(name, "")
    if text and not _WHOLE_NUMBER.fullmatch(text):
        raise SettingError(f"{label}: {text[:40]!r} is no whole number of at most 18 digits.")
    return int(text) if text else None
