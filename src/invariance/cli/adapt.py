"""The command `adapt`: a saved model for one site, by labelled rows of that site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..exceptions import DataError, use
from .console import messages, show
from .options import FileArgument, FileOptions, SpeechOptions, option

if TYPE_CHECKING:
    from ..data.reading import TableFile
    from ..estimators.saved import SavedModel


def adapt(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="What `invariance fit --save` wrote.", show_default=False
        ),
    ],
    file: FileArgument,
    save_to: Annotated[Path, option("MODEL", "File for the adapted model.", False, "--save")],
    event: Annotated[
        str | None, option("COL", "Column of events, 1 or 0, of times.", False, "--event")
    ] = None,
    *,
    form: FileOptions,
    speech: SpeechOptions,
) -> None:
    """Adapt a saved model to one site, by rows of the site whose outcome is known.

    Rows without an outcome are used too: they show where the site lies. The adapted model predicts
    the site's rows: `invariance predict`. Numbers get slopes and a baseline of the site, from five
    labelled rows on, and a baseline below; those of classes, counts and times are recalibrated.
    """
    with messages(speech):
        from ..estimators.saved import load
        from .inputs import InputFiles
        from .outputs import checked_outputs, save

        outputs = checked_outputs({"model": save_to}, file)
        saved = load(model)
        if InputFiles([file]).file is None:
            raise DataError(f"adapt takes one file, and {str(file)!r} is several: name one.")
        adapted = adapted_to(saved, form.open(file), event)
        save(outputs["model"], adapted.save)
        assert adapted.adaptation_ is not None
        show(f"{adapted.adaptation_}\nSaved {outputs['model']}")


def adapted_to(saved: SavedModel, table: TableFile, event: str | None = None) -> SavedModel:
    """Return the model, adapted by the rows of a table of one site."""
    import numpy as np

    from ..data.checks import most_first
    from .predict import coded_outcomes, read_rows

    needed = list(saved.columns_of_site)
    outcome = saved.outcome_
    read, _ = read_rows(table, saved, needed, event)
    wanted = [outcome.name, *([outcome.exposure] if outcome.exposure else [])]
    absent = [name for name in wanted if name not in read]
    if absent:
        raise DataError(f"{table.name} has no column {absent[0]!r}: adapting needs known outcomes.")
    if outcome.kind.censored and event is None:
        raise DataError(f"{outcome.name!r} is a time to an event", use(event="COL"))
    gaps = read[needed].isna().to_numpy()
    if gaps.any():
        counts = dict(zip(needed, gaps.sum(axis=0).tolist(), strict=True))
        raise DataError(f"{table.name} has missing values in {most_first(counts)}: replace them.")
    X: Any = read[needed]
    if saved.encoding is None and not hasattr(saved, "feature_names_in_"):
        X = saved.completed(X).to_numpy()
    y = coded_outcomes(read[outcome.name], outcome.classes)
    known = np.isfinite(y)
    if not known.any():
        raise DataError(f"{outcome.name!r} of {table.name} is missing in all rows.")
    labels = y[known]
    if outcome.classes is not None:
        labels = np.array(outcome.classes, dtype=object)[labels.astype(int)]
    about: dict[str, Any] = {}
    if event is not None:
        about["event"] = coded_outcomes(read[event], (0, 1))[known]
    if outcome.exposure is not None:
        about["exposure"] = read.loc[known, outcome.exposure].to_numpy()
    site = X[~known] if (~known).any() else None
    return saved.adapt(X[known], labels, site, **about)
