"""Files that commands write, checked before any long computation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from .._tools.arrays import Fields
from .._tools.files import check_writable, replacing
from .._tools.names import PlotKind
from .._tools.sections import Section, as_text
from .._tools.time_limit import out_of_time
from ..data.settings import FileFormat
from ..decisions.decision import Decision, FitSummary
from ..estimators.bip import BIP
from ..exceptions import FileError
from ..moments.moments import Moments
from ..posterior.posterior import FIT
from ..prediction.new_environments import few_environments
from ..report.methods import Source
from ..report.page import checked_path
from .console import for_shell, posterior_for_shell, show, show_found
from .inputs import InputFiles
from .options import STANDARD_OUTPUT, FitOptions

_PICTURES = (".png", ".pdf", ".svg")
_SAVED = "table.csv"

Outputs = dict[str, Path]
Refit = tuple[str, Callable[[], str]]
# {kind: function that writes it}; that of JSON gives the text, and writes it unless the path is
# None
Files = Mapping[str, Callable[[Any], object]]


def checked_outputs(
    given: Mapping[str, Path | None], source: Path | None, drawn: PlotKind | None = None
) -> Outputs:
    """The paths that were given, complete; raises FileError where one cannot be written.
    given : by kind: json, plot, csv, new_csv, effects_csv, model, report
    source : the file that is read; drawn : on the plot"""
    if drawn is not None and given["plot"] is None:
        raise FileError(f"--plot-kind {drawn} draws nothing without a file: add --plot {drawn}.png")
    outputs = {
        kind: Path(os.path.expanduser(path)) for kind, path in given.items() if path is not None
    }
    taken = set() if source is None else {os.path.realpath(os.path.expanduser(source))}
    for kind, path in outputs.items():
        if kind == "json" and path == STANDARD_OUTPUT:
            continue
        if kind == "plot":
            path = outputs[kind] = path if path.suffix else path.with_name(path.name + ".png")
            if path.suffix.lower() not in _PICTURES:
                raise FileError(
                    f"cannot write a picture as {path.suffix!r}: use {', '.join(_PICTURES)}"
                )
        elif kind.endswith("csv") and path.suffix.lower() != ".csv":
            raise FileError(f"cannot write a table as {path.name!r}: use a name that ends in .csv")
        with _write_errors(path):
            if kind == "report":
                checked_path(path)
            check_writable(path)
        if os.path.realpath(path) in taken:
            raise FileError(
                f"cannot write {str(path)!r}: the same file is named twice, choose another name"
            )
        taken.add(os.path.realpath(path))
    return outputs


def save(path: Path, write: Callable[[Path], object]) -> None:
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            write(temporary)


def save_effects(decision: Decision, path: Path) -> None:
    """Write the effects of all rows together and of each environment as a table."""
    decision.effects(by_environment=True).to_csv(path, index=False)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def deliver(
    result: object, outputs: Outputs, files: Files, closing: str = "", titled: bool = False
) -> None:
    """Save what was asked for, print the result (also when saving fails), unless it is None, and
    name the files."""
    saved = []
    try:
        for kind, write in files.items():
            if kind == "json" and outputs.get(kind) == STANDARD_OUTPUT:
                typer.echo(write(None))
            elif kind in outputs:
                save(outputs[kind], write)
                saved.append(f"Saved {outputs[kind]}")
    finally:
        if result is not None:
            show(result, titled)
    for paragraph in (closing, "\n".join(saved)):
        if paragraph:
            show(f"\n{paragraph}")


def deliver_fit(
    model: BIP,
    top: int,
    outputs: Outputs,
    files: Files,
    closing: str = "",
    refits: Sequence[Refit] = (),
) -> None:
    """files : others than the JSON; refits : titles and what fits again for a sentence, after the
    result is printed and before files are saved"""
    posterior = model.posterior_
    predictive = model.predictive_

    def write_json(path: Path | None) -> str:
        few = few_environments(model.n_environments_)
        more = {
            "format": FIT,
            "decision": model.decision_.to_plain(),
            "predictive": None if predictive is None else predictive.to_plain(),
            "new_environments": {"trusted": not few, "why_not": few or None},
        }
        return posterior.to_json(path, more)

    decision = model._decision  # not complete: nobody waits for the verdict until all is computed
    posterior_shown = posterior_for_shell(decision.posterior).summary(top)
    show_found(FitSummary(decision, posterior_shown, for_shell))
    for title, explain in refits:
        if not out_of_time(title.lower()):
            show(f"\n{as_text([Section(title, (explain(),))], for_shell)}", titled=True)
    # Saving a model finds the price of invariance, which the JSON then tells, too.
    deliver(None, outputs, {**files, "json": write_json}, closing)


def source_of_report(
    named: InputFiles, given: FitOptions, data: Any, typed: Sequence[str]
) -> Source:
    """Return how to read the rows again; data : rows or moments; typed : the command."""
    command = shlex.join(["invariance", *typed]) if typed else ""
    remark = ""
    if isinstance(data, Moments):
        table = {"rows": named.rows, **_stated(given)} | (
            {} if given.form == FileFormat() else {"form": given.form}
        )
    elif named.file is not None and not named.is_piped:
        table = table_arguments(str(named.file), given)
    else:
        came = "by standard input" if named.is_piped else "in several files"
        table = {"table": _SAVED, **_stated(given)}
        remark = f"The table came {came}: save all rows as {_SAVED} first."
    words = tuple(given.form.na)
    return Source(table, command, for_shell, remark, words_for_missing=words)


def table_arguments(file: str, given: FitOptions) -> Fields:
    """Return arguments as `MultiEnvironmentData.from_table` takes them."""
    return {
        "table": file if given.form == FileFormat() else given.open(Path(file)),
        **_stated(given),
    }


def _stated(given: FitOptions) -> Fields:
    """Arguments of what reads the rows, but those that are as by default."""
    columns: Fields = {"outcome": given.outcome, "environment": given.compared}
    usual = FitOptions(**columns).reading()
    return columns | {
        name: value for name, value in given.reading().items() if value != usual[name]
    }
