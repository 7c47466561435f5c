"""Files that commands write, checked before any long computation, and where the result is said to be."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._tools.files import check_writable, replacing
from ..exceptions import FileError
from .advice import for_command_line, posterior_for_command_line
from .console import show
from .options import PlotKind

if TYPE_CHECKING:
    from ..data.multi_environment import MultiEnvironmentData
    from ..estimators.bip import BIP

_PICTURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class Outputs:
    """Files to write, in this order; None where none was asked for. plot_kind: what the picture is of."""

    json: Path | None
    plot: Path | None
    csv: Path | None
    model: Path | None
    plot_kind: PlotKind
    report: Path | None = None
    new_csv: Path | None = None


def checked_outputs(
    json: Path | None,
    plot: Path | None,
    csv: Path | None = None,
    source: Path | None = None,
    model: Path | None = None,
    plot_kind: PlotKind | None = None,
    report: Path | None = None,
    new_csv: Path | None = None,
) -> Outputs:
    """Complete the paths and refuse, before any long computation, those that cannot be written."""
    if plot is None and plot_kind is not None:
        kind = plot_kind.value
        raise FileError(f"--plot-kind {kind} draws nothing without a file: add --plot {kind}.png")
    given = (json, plot, csv, model, report, new_csv)
    paths = [None if path is None else Path(os.path.expanduser(path)) for path in given]
    json, plot, csv, model, report, new_csv = paths
    if plot is not None:
        plot = plot if plot.suffix else plot.with_name(plot.name + ".png")
        if plot.suffix.lower() not in _PICTURES:
            raise FileError(f"cannot write a picture as {plot.suffix!r}: use {', '.join(_PICTURES)}")
    for table in (csv, new_csv):
        if table is not None and table.suffix.lower() != ".csv":
            raise FileError(f"cannot write a table as {table.name!r}: use a name that ends in .csv")
    if report is not None:
        from ..report.page import checked_path

        checked_path(report)
    taken = set() if source is None else {os.path.realpath(os.path.expanduser(source))}
    for path in (json, plot, csv, model, report, new_csv):
        if path is None:
            continue
        with _write_errors(path):
            check_writable(path)
        if os.path.realpath(path) in taken:
            raise FileError(f"cannot write {str(path)!r}: the same file is named twice, choose another name")
        taken.add(os.path.realpath(path))
    return Outputs(json, plot, csv, model, plot_kind or PlotKind.inclusion, report, new_csv)


def deliver(
    model: BIP,
    top: int,
    outputs: Outputs,
    closing: str = "",
    data: MultiEnvironmentData | None = None,
    new: MultiEnvironmentData | None = None,
) -> None:
    """Save what was asked for, print the result (also when saving fails) and say where the files are."""
    from ..decisions.decision import FitSummary

    posterior, saved = model.posterior_, []
    try:
        if outputs.json is not None:
            save(outputs.json, lambda path: posterior.to_json(path, _with_decision(model)))
            saved.append(f"Saved the posterior and the decision to {outputs.json}")
        if outputs.plot is not None:
            save(outputs.plot, lambda path: _draw(model, outputs.plot_kind, path, data))
            saved.append(f"Saved the picture to {outputs.plot}")
        if outputs.csv is not None and data is not None:
            save(outputs.csv, lambda path: data.to_frame().to_csv(path, index=False))
            saved.append(f"Saved the data to {outputs.csv}")
        if outputs.new_csv is not None and new is not None:
            save(outputs.new_csv, lambda path: new.to_frame().to_csv(path, index=False))
            saved.append(f"Saved a hospital that the fit has not seen to {outputs.new_csv}")
    finally:
        show(FitSummary(model.decision_, posterior_for_command_line(posterior).summary(top), for_command_line))
    for paragraph in (closing, "\n".join(saved)):
        if paragraph:
            show(f"\n{paragraph}")


def deliver_report(
    text: str, what: str, write_json: Callable[[Path], object], draw: Callable[[Path], object], outputs: Outputs
) -> None:
    """Save a report, print it (also when saving fails) and say where the files are."""
    saved = []
    try:
        if outputs.json is not None:
            save(outputs.json, write_json)
            saved.append(f"Saved the {what} to {outputs.json}")
        if outputs.plot is not None:
            save(outputs.plot, draw)
            saved.append(f"Saved the picture to {outputs.plot}")
    finally:
        show(text)
    if saved:
        show("\n" + "\n".join(saved))


def _with_decision(model: BIP) -> dict[str, Any]:
    from ..posterior.io import to_plain

    predictive = model.predictive_
    return {
        "decision": model.decision_.to_plain(),
        "predictive": None if predictive is None else to_plain(predictive),
    }


def _draw(model: BIP, kind: PlotKind, path: Path, data: MultiEnvironmentData | None) -> None:
    if kind is PlotKind.inclusion:
        from ..posterior.plots import save_inclusion

        save_inclusion(model.posterior_, path, truth=None if data is None else data.truth)
    else:
        from ..decisions.plots import save_picture

        save_picture(model.decision_, kind.value, path)


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
