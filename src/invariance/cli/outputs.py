"""Files that commands write, checked before any long computation."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tools.files import check_writable, replacing
from ..exceptions import FileError
from .console import show
from .inputs import Named
from .options import PlotKind, TableOptions
from .remedies import comparison_for_shell, for_shell, posterior_for_shell

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..estimators.bip import BIP
    from ..moments.moments import Moments
    from ..report.subject import Source

_PICTURES = (".png", ".pdf", ".svg")
_SAVED = Path("table.csv")
_PIPED = f"The table came by standard input: save it as {_SAVED} first."
_SEVERAL = f"The table came in several files: save all rows as {_SAVED} first."

Outputs = dict[str, Path]
# {kind: (what it holds, function that writes it)}
Files = Mapping[str, tuple[str, Callable[[Path], object]]]


def checked_outputs(given: Mapping[str, Path | None], source: Path | None = None) -> Outputs:
    """The paths that were given, complete; raises FileError where one cannot be written.

    given : by kind: json, plot, csv, new_csv, model, report; source : the file that is read
    """
    outputs = {kind: Path(os.path.expanduser(path)) for kind, path in given.items() if path is not None}
    taken = set() if source is None else {os.path.realpath(os.path.expanduser(source))}
    for kind, path in outputs.items():
        if kind == "plot":
            path = outputs[kind] = path if path.suffix else path.with_name(path.name + ".png")
            if path.suffix.lower() not in _PICTURES:
                raise FileError(f"cannot write a picture as {path.suffix!r}: use {', '.join(_PICTURES)}")
        elif kind.endswith("csv") and path.suffix.lower() != ".csv":
            raise FileError(f"cannot write a table as {path.name!r}: use a name that ends in .csv")
        elif kind == "report":
            from ..report.page import checked_path

            checked_path(path)
        with _write_errors(path):
            check_writable(path)
        if os.path.realpath(path) in taken:
            raise FileError(f"cannot write {str(path)!r}: the same file is named twice, choose another name")
        taken.add(os.path.realpath(path))
    return outputs


def check_plot_kind(kind: PlotKind | None, plot: Path | None) -> None:
    if plot is None and kind is not None:
        raise FileError(f"--plot-kind {kind.value} draws nothing without a file: add --plot {kind.value}.png")


def save(path: Path, write: Callable[[Path], object]) -> None:
    with _write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary:
            write(temporary)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except FileError:
        raise
    except OSError as error:
        raise FileError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def deliver(result: object, outputs: Outputs, files: Files, closing: str = "") -> None:
    """Save what was asked for, print the result (also when saving fails) and name the files."""
    saved = []
    try:
        for kind, (what, write) in files.items():
            if kind in outputs:
                save(outputs[kind], write)
                saved.append(f"Saved {what} to {outputs[kind]}")
    finally:
        show(result)
    for paragraph in (closing, "\n".join(saved)):
        if paragraph:
            show(f"\n{paragraph}")


def deliver_fit(
    model: BIP,
    top: int,
    outputs: Outputs,
    kind: PlotKind | None,
    data: MultiEnvironmentData | None = None,
    more: Files | None = None,
    closing: str = "",
) -> None:
    """data : whose true features the picture marks, where they are known"""
    from ..decisions.decision import FitSummary

    def write_json(path: Path) -> None:
        from ..posterior.io import to_plain

        predictive = model.predictive_
        decided = {"decision": model.decision_.to_plain()}
        posterior.to_json(path, decided | {"predictive": None if predictive is None else to_plain(predictive)})

    def draw(path: Path) -> None:
        from ..decisions.plots import save_picture
        from ..posterior.plots import save_inclusion

        if kind in (None, PlotKind.inclusion):
            save_inclusion(posterior, path, truth=None if data is None else data.truth)
        else:
            save_picture(model.decision_, str(kind), path)

    posterior = model.posterior_
    files = {"json": ("the posterior and the decision", write_json), "plot": ("the picture", draw)}
    summary = FitSummary(model.decision_, posterior_for_shell(posterior).summary(top), for_shell)
    deliver(summary, outputs, files | dict(more or {}), closing)


def check_compared(methods: str | None, report: Path | None) -> None:
    if methods is None:
        return
    if report is None:
        raise FileError("--compare adds a section to a report: add --report report.html")
    from ..baselines.comparison import named_methods

    named_methods(methods, 1)


def write_report(path: Path, model: BIP, data: Any, methods: str | None, source: Source) -> None:
    """methods : to compare with, or None"""
    comparison = None
    if methods is not None:
        from ..baselines.comparison import compare

        comparison = comparison_for_shell(compare(data, methods, model))
    save(path, lambda temporary: model.report(temporary, comparison, source))
    show(f"\nSaved the report to {path}")


def source_of_report(
    named: Named,
    outcome: str,
    environment: str,
    table: TableOptions,
    data: MultiEnvironmentData | Moments,
    typed: Sequence[str],
) -> Source:
    """How to read the rows again; typed : the command"""
    from ..moments.moments import Moments
    from ..report.subject import Source

    columns = {"outcome": outcome, "environment": environment}
    command = shlex.join(["invariance", *typed]) if typed else ""
    form = {name: value for name, value in table.format().items() if value}
    if isinstance(data, Moments):
        reading = {name: value for name, value in table.reading().items() if value is not None}
        return Source({"rows": named.rows, **columns, **reading, **form}, command, for_shell)
    file = None if named.is_piped else named.file
    remark = "" if file is not None else _PIPED if named.is_piped else _SEVERAL
    opened = _SAVED if file is None else table.open(file) if form else file
    return Source({"table": opened, **columns, **table.reading()}, command, for_shell, remark)
