"""The command `predict`: outcomes for the rows of a table, by a model that `fit --save` wrote."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..._tools.layout import COLUMNS, format_subset, wrap
from ...exceptions import DataError, SettingError
from .console import show
from .inputs import FileOptions, SpeechOptions
from .option_groups import with_option_groups
from .options import FileArgument
from .outputs import checked_outputs, save
from .streaming import Named

if TYPE_CHECKING:
    import pandas as pd

    from ..._tools.arrays import Floats
    from ...data.table_file import TableFile
    from ...estimators.saved import SavedModel

_EXAMPLES = """\b
Examples:
  invariance fit table.csv --outcome yield --environment site \\
      --save model.json
  invariance predict model.json new.csv --out predicted.csv
  invariance predict model.json new.csv --out predicted.csv --coverage 0.8
"""


class Unknown(StrEnum):
    error = "error"
    ignore = "ignore"


def register(app: typer.Typer) -> None:
    app.command(epilog=_EXAMPLES)(with_option_groups(predict))


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="What `invariance fit --save` wrote.", show_default=False)
    ],
    file: FileArgument,
    out: Annotated[Path, typer.Option(metavar="CSV", help="Where to write the predictions.", show_default=False)],
    coverage: Annotated[
        float | None,
        typer.Option(metavar="SHARE", help="Share of outcomes that intervals should hold.", show_default="0.9"),
    ] = None,
    average: Annotated[
        bool, typer.Option("--average", help="Average over the subsets compatible with invariance.")
    ] = False,
    unknown: Annotated[
        Unknown, typer.Option(help="Levels that the training data lack: stop, or take the reference level.")
    ] = Unknown.error,
    *,
    form: FileOptions,
    speech: SpeechOptions,
) -> None:
    """Predict the outcome for the rows of a table, with intervals for a new environment.

    Columns are found by name. The rows are written as they are, with the columns prediction, lower and upper; of two
    classes with prediction and the probability of one of them; of counts with an exposure with the rate and, where the
    table has the exposure, prediction. Where the table has the outcome too, what was missed is printed.
    """
    with speech.speaking():
        target = checked_outputs(None, None, out, source=file).csv
        assert target is not None

        from ...estimators.saved import load
        from .predicted import Predicted

        saved = load(model)
        if average and saved.regressor_ is not None:
            raise SettingError("the model has a regressor of its own and no average: leave --average out.")
        saved.set_params(handle_unknown=unknown.value, predict_with="average" if average else saved.predict_with)
        if Named.of([file]).file is None:
            what = "folder" if file.expanduser().is_dir() else "pattern"
            raise DataError(
                f"predict takes one file, and {str(file)!r} is a {what}: name its files one after the other."
            )
        table = form.open(file)
        X, rows = _read(table, saved)
        predicted = Predicted.by(saved, X, coverage, _exposure(table, saved))
        far = int(saved.extrapolates(X).sum())
        save(target, lambda path: _with_columns(rows, predicted.columns).to_csv(path, index=False))
        said = [
            _what(saved, table, len(rows)) + predicted.how,
            *(["There was nothing to average: no subset is compatible with invariance."] if _none(saved) else []),
            _how_far(far),
            *predicted.missed(_known(table, saved), table.name),
        ]
        for sentence in said:
            show("\n".join(wrap(sentence, "", "", COLUMNS)))
        show(f"Saved the predictions to {target}")


def _read(file: TableFile, saved: SavedModel) -> tuple[Any, pd.DataFrame]:
    """The features, and all columns as they are written, but for decimal commas and thousands."""
    import pandas as pd

    from ...data.checks import quoted, with_counts
    from ...data.columns import as_frame, frame_values
    from ...data.reading import column_names, read_columns
    from ...data.text_columns import in_points

    names = column_names(file)
    needed = saved.columns_to_predict
    lacking = [name for name in needed if name not in names]
    if lacking:
        raise DataError(f"{file.name} lacks columns that the model needs: {quoted(lacking)}; it has {quoted(names)}.")
    of_levels = () if saved.encoding is None else tuple(saved.encoding.of_levels)
    X: Any = read_columns(file, needed, as_text=[name for name in of_levels if name in names])
    rows = in_points(read_columns(file, names, as_text=names), file, of_levels)
    if not len(rows):
        raise DataError(f"{file.name} has no rows to predict.")
    if saved.encoding is None:
        values = frame_values(as_frame(X), needed)
        gaps = with_counts(needed, pd.isna(values).sum(axis=0))
        if gaps:
            raise DataError(f"{file.name} has missing values in {gaps}. Replace them, or leave those rows out.")
        X = pd.DataFrame(values, columns=list(needed)) if hasattr(saved, "feature_names_in_") else values
    return X, rows


def _exposure(file: TableFile, saved: SavedModel) -> Floats | None:
    """(n,) where the model has one and the table too, NaN where it is missing"""
    import numpy as np

    from ...data.checks import rows_text
    from ...data.columns import as_frame, series_values
    from ...data.reading import column_names, read_columns

    name = saved.outcome_.exposure
    if name is None or name not in column_names(file):
        return None
    exposure = series_values(as_frame(read_columns(file, [name]))[name], name)
    wrong = int(((exposure <= 0.0) | np.isinf(exposure)).sum())
    if wrong:
        raise DataError(
            f"exposure {name!r} of {file.name} must be above 0, and is not in {rows_text(wrong)}: leave those rows "
            "out, or that column, without which rates are predicted."
        )
    return exposure


def _known(file: TableFile, saved: SavedModel) -> list[Any]:
    """The outcomes of the rows, none where the table lacks them."""
    from ...data.columns import as_frame
    from ...data.reading import column_names, read_columns

    name = saved.outcome_name_
    return as_frame(read_columns(file, [name]))[name].to_list() if name in column_names(file) else []


def _with_columns(rows: pd.DataFrame, new: dict[str, Any]) -> pd.DataFrame:
    from ...data.columns import free_name

    return rows.assign(**{free_name(name, list(rows.columns)): values for name, values in new.items()})


def _what(saved: SavedModel, file: TableFile, n_rows: int) -> str:
    by = (
        "an average of compatible subsets"
        if saved.predict_with == "average" and not _none(saved)
        else format_subset(saved.selected_features_)
    )
    counted = "1 row" if n_rows == 1 else f"{n_rows:,} rows"
    return f"Predicted {saved.outcome_name_} for {counted} of {file.name} by {by}"


def _none(saved: SavedModel) -> bool:
    """Whether an average is asked for, and no subset is there to be averaged."""
    return saved.predict_with == "average" and saved.predictive_ is None


def _how_far(far: int) -> str:
    if not far:
        return "No row lies far outside the rows that were fitted."
    return f"{'1 row lies' if far == 1 else f'{far:,} rows lie'} far outside the rows that were fitted."
