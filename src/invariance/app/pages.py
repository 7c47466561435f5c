"""The pages: a table is uploaded, checked, fitted, reported and used; scripts are not needed."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from .._tools.arrays import Fields
from .._tools.text import duration
from .._version import __version__
from ..data.check import DataCheck
from ..data.checks import SMALLEST_ENVIRONMENT
from ..data.look import MOST_GROUPS
from ..data.outcomes import outcome_kind
from ..decisions.rules import RULES
from ..exceptions import DataError, InvarianceError, SettingError
from ..inference.base import ENGINES
from ..models.registry import FAMILIES, FAMILY_OF_KIND, SHORT
from ..priors import PRIOR_FORMS
from .choices import (
    BASELINES,
    NUMBERS,
    OF_FIT,
    OF_PREDICTION,
    PREDICTING,
    ROLES,
    WAYS,
    WORDS,
    WRITTEN,
    Form,
    changed,
    read_choices,
    read_settings,
    rewritten,
    said,
    sent,
)
from .security import LARGEST, NO_FILE, Guard, TooLargeError, receive_table, report_policy
from .session import CANCELLED, DONE, RUNNING, BusyError, Run, Session, Table, discard
from .tasks import PICTURES, REPORT, TABLES

HERE = Path(__file__).parent
BUSY = "A fit is running: wait for it, or cancel it first."
STALE = "Another table has come in between: choose again, for this one."
NO_RUN = "There is no such fit."
# So many columns get a line each; one tick stands for all others.
MOST_LINES = 300
# So many columns and environments are shown in the table of missing values.
MOST_GAPS = 40
# Form of more settings, as they are when nobody has changed them
USUAL = {
    "prior": "uniform",
    "engine": "auto",
    "select": "predictive",
    "deviations": "auto",
    "baseline": "auto",
}
USUAL |= {"max_size": "", "seed": ""}
# Findings of columns that are better no features
NO_FEATURE = ("identifier", "dates", "text", "with_unit", "objects", "constant")

_templates = Environment(
    loader=FileSystemLoader(HERE / "templates"), autoescape=True, undefined=StrictUndefined
)
_templates.filters["capital"] = lambda text: text[:1].upper() + text[1:]
_templates.globals |= {
    "version": __version__,
    "ways_of_writing": WRITTEN,
    "roles": ROLES,
    "labels": WORDS | NUMBERS,
    "ways": WAYS,
    "baselines": BASELINES,
    "predicting": PREDICTING,
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
    """Return the page for one session, at http://127.0.0.1:port/token/."""
    pages = Pages(session)
    routes = [
        Route("/", pages.start),
        Route("/table", pages.table),
        Route("/table", pages.upload, methods=["POST"]),
        Route("/choices", pages.choose, methods=["POST"]),
        Route("/run", pages.run),
        Route("/run", pages.fit, methods=["POST"]),
        Route("/progress", pages.progress),
        Route("/cancel", pages.cancel, methods=["POST"]),
        Route("/report", pages.report),
        Route("/result", pages.result),
        Route("/predict", pages.predict, methods=["POST"]),
        Mount("/static", StaticFiles(directory=HERE / "static")),
        Route("/{name}", pages.download),
    ]
    return Guard(Starlette(routes=[Mount(f"/{token}", routes=routes)]), token, port)


def go(place: str) -> Response:
    return RedirectResponse(place, 303)


async def sent_fields(request: Request) -> Form:
    return Form([(name, str(value)) for name, value in (await request.form()).multi_items()])


class Pages:
    def __init__(self, session: Session) -> None:
        self.session = session
        self._looking = asyncio.Lock()
        self._newest = 0

    def _page(
        self,
        template: str,
        step: str,
        notice: str = "",
        status: int = 200,
        run: Run | None = None,
        **values: Any,
    ) -> Response:
        """notice : a message, whose remedies become buttons"""
        values |= {
            "notice": said(notice) if notice else None,
            "running": self.session.latest(RUNNING),
            "run": run,
        }
        values |= {"step": step, "steps": self._steps(run)}
        return HTMLResponse(_templates.get_template(template).render(values), status)

    def _steps(self, run: Run | None) -> dict[str, str]:
        """Return {step: its address, "" if it is not available yet}; run : the fit it is about."""
        running = self.session.latest(RUNNING)
        done = run if run is not None and run.job.state == DONE else self.session.latest(DONE)
        going = f"run?id={running.id}" if running else ""
        return {
            "Table": "./",
            "Choices": "table" if self.session.read else "",
            "Report": f"report?id={done.id}" if done else going,
            "Files and prediction": f"result?id={done.id}" if done else "",
        }

    def _start_page(self, notice: str = "", status: int = 200) -> Response:
        unread = None if self.session.read else self.session.table
        values: Fields = {
            "unread": unread,
            "why": said(unread.error) if unread else None,
            "last": self.session.latest(DONE),
        }
        return self._page("start.html", "Table", notice, status, **values)

    def _table_page(self, table: Table, notice: str = "", status: int = 200) -> Response:
        found = table.found
        form = self.session.form
        columns = table.columns
        chosen = {role: sent(columns, form.get(role, "")) for role in ROLES}
        values = {
            "table": table,
            "found": found,
            "form": form,
            "rest": len(_usable(found)[1]),
            "chosen": chosen,
        }
        of_columns: dict[str, list[Any]] = {name: [] for name in columns}
        general: list[Any] = []
        n_open = 0
        for finding in found.findings:
            told = self._told(table, finding)
            off = finding.column in columns and str(
                columns.index(finding.column)
            ) not in form.getlist("feature")
            off = off and finding.column not in chosen.values()
            is_open = (
                bool(told.buttons) and not off and not any(button.set for button in told.buttons)
            )
            n_open += is_open and not finding.asks
            of_columns.get(finding.column or "", general).append((finding.code, told, is_open))
        alike = {
            str(label)
            for each in found.findings
            if each.code == "labels_alike"
            for label in each.environments
        }
        outcome = sent(found.columns, form.get("outcome", ""))
        environment = sent(found.columns, form.get("environment", ""))
        values["settings_changed"] = "strict" in form or any(
            form.get(k, v) != v for k, v in USUAL.items()
        )
        values |= {"findings": of_columns, "general": general, "n_open": n_open, "alike": alike}
        values["missing"] = (
            found.missing_values.cells(MOST_GAPS, MOST_GAPS) if found.missing_values.columns else ()
        )
        values |= {
            "outcome": outcome,
            "environment": environment,
            "outcome_model": _model(outcome, chosen, form),
        }
        return self._page("table.html", "Choices", notice or self.session.problem, status, **values)

    def _told(self, table: Table, finding: Any) -> Any:
        """Return a finding with its buttons; buttons that would not change anything are marked."""
        told = said(finding.message)
        now = (table.written, self.session.form)
        same = set()
        for button in told.buttons:
            with suppress(SettingError):
                same |= (
                    {button} if self._with(table, read_settings(button.settings)) == now else set()
                )
        return told._replace(
            buttons=tuple(button._replace(set=button in same) for button in told.buttons)
        )

    def _with(self, table: Table, settings: Mapping[str, Any]) -> tuple[dict[str, str], Form]:
        return rewritten(table.written, settings), changed(
            self.session.form, settings, table.columns
        )

    async def start(self, request: Request) -> Response:
        return self._start_page(self.session.take_notice())

    async def upload(self, request: Request) -> Response:
        """A table arrives, or the one that is here is to be read in another way; kept also where it
        cannot be read."""
        before = self.session.table
        table = await self._received(request, self.session.folder, before, OF_FIT, self._start_page)
        if isinstance(table, Response):
            return table
        again = before is not None and before.file == table.file
        if not await self._read(table, self._roles() if again else {}):
            return self._start_page(BUSY, 409)
        return go("table") if table.result else self._start_page("", 422)

    async def _received(
        self,
        request: Request,
        folder: Path,
        before: Table | None,
        of: Collection[str],
        refused: Callable[..., Response],
    ) -> Table | Response:
        """The table that was sent or, where a form came without one, the one before, as that form
        and a button of the settings `of` have it; an answer by `refused` where there is neither."""
        try:
            name, file, fields = await receive_table(request, folder)
        except ClientDisconnect:
            return Response(status_code=400)  # which nobody reads
        except DataError as error:
            return refused(str(error), 413 if isinstance(error, TooLargeError) else 422)
        if file is None:
            if "table" not in fields:
                return refused(NO_FILE, 422)
            if before is None or fields["table"] != before.id:
                return refused(STALE, 409)
            name = before.name
            file = before.file
        settings = read_settings(fields.get("remedy", ""), of)
        ways = {
            way: str(given) for way in PREDICTING if (given := settings.get(way) or fields.get(way))
        }
        written = {field: fields[field] for field in WRITTEN if fields.get(field)}
        return Table(name, file, rewritten(written, settings), ways)

    async def _done(self, task: str, table: Table, before: Table | None, **arguments: Any) -> bool:
        """Whether the worker has answered: not while a fit is running, and then a file that is new
        is deleted."""
        try:
            job = self.session.worker.submit(
                task, file=table.file, written=table.written, **arguments
            )
        except BusyError:
            if before is None or before.file != table.file:
                discard(table.file)
            return False
        await run_in_threadpool(job.ended.wait)
        table.error = job.error or ("" if job.state == DONE else "Another table came in between.")
        table.result = job.result if job.state == DONE else {}
        return True

    def _roles(self) -> Fields:
        """Return the choices that `tasks.look` receives."""
        table = self.session.read
        form = self.session.form
        if table is None:
            return {}
        columns = table.columns
        chosen = {
            role: name for role in ROLES if (name := sent(columns, form.get(role, ""))) is not None
        }
        lines = columns[:MOST_LINES]
        off = [name for j, name in enumerate(lines) if str(j) not in form.getlist("feature")]
        weight = (
            [chosen.pop("weight")] if "weight" in chosen else []
        )  # of which `check` is not told
        off = [name for name in off if name not in chosen.values()]
        return {"roles": chosen, "exclude": list(dict.fromkeys([*off, *weight]))}

    async def _read(self, table: Table, known: Mapping[str, Any]) -> bool:
        """Keep a table with what is found in it, or why it cannot be read; False while a fit is
        running."""
        if not await self._done("look", table, self.session.table, **known):
            return False
        self.session.keep(table)
        if table.result and not {"feature", "table"}.intersection(self.session.form):
            ticked = [
                ("feature", str(table.columns.index(name))) for name in _usable(table.found)[0]
            ]
            self.session.form = Form([*ticked, ("rest", "on")])
        return True

    async def table(self, request: Request) -> Response:
        """What was understood, and the choices."""
        table = self.session.read
        if table is None:
            return go("./")
        return self._table_page(table, self.session.take_notice())

    async def _take(self, request: Request) -> Response | None:
        """The choices that were sent, as a button changes them; then what is found with them. An
        answer if refused."""
        form = await sent_fields(request)
        self._newest = self._newest + 1
        number = self._newest
        async with self._looking:
            if number != self._newest and "hx-request" in request.headers:
                return Response(status_code=204)  # whoever sent it has sent another since
            return await self._look_with(form)

    async def _look_with(self, form: Form) -> Response | None:
        session = self.session
        table = session.read
        if table is None:
            return go("./")
        if form.get("table") != table.id:
            return self._table_page(table, STALE, 409)
        before = self._roles()
        session.form = Form([pair for pair in form.multi_items() if pair[0] != "remedy"])
        wanted = form.get("remedy", "")
        settings = dict(table.found.settings) if wanted == "all" else read_settings(wanted)
        try:
            written, session.form = self._with(table, settings)
        except SettingError as error:
            return self._table_page(table, str(error), 422)
        if written == table.written and self._roles() == before:
            return None
        new = Table(table.name, table.file, written, id=table.id)
        if not await self._read(new, self._roles()):
            return self._table_page(table, BUSY, 409)
        if new.result:
            return None
        if written != table.written:
            return go("./")
        session.keep(table)
        return self._table_page(table, new.error, 422)

    async def choose(self, request: Request) -> Response:
        return await self._take(request) or go("table")

    async def fit(self, request: Request) -> Response:
        refused = await self._take(request)
        if refused is not None:
            return refused
        session = self.session
        table = session.read
        assert table is not None
        try:
            run = session.start(
                table,
                read_choices(session.form, table.columns, _usable(table.found)[1], table.written),
            )
        except BusyError:
            session.notice = BUSY
            return go("run")
        except InvarianceError as error:
            session.problem = error.args[0]
            return self._table_page(table, "", 422)
        return go(f"run?id={run.id}")

    def _asked(self, request: Request) -> Run | None:
        """Return the fit with the id in the address, or the latest one without an id."""
        wanted = request.query_params.get("id")
        return self.session.latest() if wanted is None else self.session.runs.get(wanted)

    async def run(self, request: Request) -> Response:
        run = self._asked(request)
        if run is None or run.job.state != RUNNING:
            return go(self._after(run))
        return self._page(
            "run.html", "Report", self.session.take_notice(), run=run, elapsed=_elapsed(run)
        )

    async def progress(self, request: Request) -> Response:
        """A piece of the page of a run, asked for again and again by htmx, which is then led on."""
        run = self._asked(request)
        if run is None or run.job.state != RUNNING:
            return Response(headers={"HX-Redirect": self._after(run)})
        return self._page("_progress.html", "Report", run=run, elapsed=_elapsed(run))

    def _after(self, run: Run | None) -> str:
        """Return the page to show when a fit is not running any more, or is unknown."""
        if run is not None and run.job.state == DONE:
            return f"report?id={run.id}"
        if run is not None and run.job.state == CANCELLED:
            self.session.notice = "The fit was cancelled."
        elif run is not None and run is self.session.latest():
            self.session.problem = run.job.error
        return "table"

    async def cancel(self, request: Request) -> Response:
        wanted = (await sent_fields(request)).get("id", "")
        run = self.session.latest(RUNNING)
        if run is not None and wanted == run.id:
            await run_in_threadpool(self.session.worker.cancel)
        return go(f"run?{urlencode({'id': wanted})}")

    async def report(self, request: Request) -> Response:
        """The report as a page of its own, with the steps above it."""
        run = self._finished(request)
        text = (run.folder / REPORT).read_text(encoding="utf-8")
        policy = report_policy(text)
        bar = _templates.get_template("_bar.html").render(steps=self._steps(run), step="Report")
        text = re.sub(r"<body[^>]*>", lambda body: f"{body[0]}\n{bar}", text, count=1)
        return HTMLResponse(text, headers={"Content-Security-Policy": policy})

    async def result(self, request: Request) -> Response:
        run = self._asked(request)
        if run is None:
            self.session.notice = NO_RUN
            return go("./")
        if run.job.state != DONE:
            return go(f"run?id={run.id}")
        return self._result_page(run, self.session.take_notice())

    def _result_page(self, run: Run, notice: str = "", status: int = 200) -> Response:
        table = self.session.table
        result = run.job.result
        second = run.second
        cautions = second.result.get("warnings", ()) if second is not None else ()
        there = {path.name for path in run.folder.iterdir()}
        follows = result["lines"][-1:] or ["\n"]  # which a fit also warns of
        values = {
            "result": result,
            "notes": [said(text) for text in result["notes"]],
            "warnings": [
                said(text) for text in result["warnings"] if not text.endswith(follows[0])
            ],
            "pictures": {kind: text for kind, text in PICTURES.items() if f"{kind}.png" in there},
            "tables": {kind: text for kind, text in TABLES.items() if f"{kind}.csv" in there},
            "second": second,
            "why": said(second.error, OF_PREDICTION)
            if second is not None and second.error
            else None,
            "cautions": [said(text, OF_PREDICTION) for text in cautions],
            "table_is_here": table is not None and table.id == run.table.id,
        }
        return self._page("result.html", "Files and prediction", notice, status, run=run, **values)

    async def predict(self, request: Request) -> Response:
        """The outcomes of a second table are predicted, or again, with other settings."""
        run = self._finished(request)
        second = await self._received(
            request, run.folder, run.second, OF_PREDICTION, partial(self._result_page, run)
        )
        if isinstance(second, Response):
            return second
        if not await self._done(
            "predict", second, run.second, settings=second.settings, folder=run.folder
        ):
            return self._result_page(run, BUSY, 409)
        if run.second is not None and run.second.file != second.file:
            discard(run.second.file)
        run.second = second
        return go(f"result?id={run.id}#prediction")

    async def download(self, request: Request) -> Response:
        files = {
            file.name: file for file in self._finished(request).folder.iterdir() if file.is_file()
        }
        name = request.path_params["name"]
        if name not in files:
            raise HTTPException(404, "There is no such file of this fit.")
        return FileResponse(files[name], filename=name)

    def _finished(self, request: Request) -> Run:
        """Return the finished fit that the address names."""
        run = self.session.runs.get(request.query_params.get("id", ""))
        if run is None:
            raise HTTPException(404, NO_RUN)
        if run.job.state != DONE:
            raise HTTPException(409, "This fit has no report.")
        return run


def _usable(found: DataCheck) -> tuple[list[str], list[str]]:
    """Columns but for those that are better no features: those that have a line, and the rest."""
    doubted = {finding.column for finding in found.findings if finding.code in NO_FEATURE}
    lines = found.columns[:MOST_LINES]
    rest = found.columns[MOST_LINES:]
    usable = (
        [column.name for column in part if column.name not in doubted] for part in (lines, rest)
    )
    return next(usable), next(usable)


def _model(outcome: Any, chosen: Mapping[str, str | None], form: Form) -> list[str]:
    """Return the model of the selected outcome with the reason; nothing if it cannot have one."""
    if outcome is None:
        return []
    if form.get("family", "auto") != "auto":
        return [form["family"], "chosen below"]
    kind = outcome.as_outcome
    if chosen["event"] or chosen["exposure"]:
        kind = outcome_kind(np.empty(0), outcome.name, chosen["event"], chosen["exposure"])
    name = (
        FAMILY_OF_KIND[kind.kind].replace("_", " ").replace("gaussian", "Gaussian") if kind else ""
    )
    return [name, kind.reason] if kind else []


def _elapsed(run: Run) -> str:
    return duration(max(time.monotonic() - run.job.started, 0.1))
