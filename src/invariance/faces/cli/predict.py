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

    from ..._tools.arrays import Floats, Integers
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


class Gaps(StrEnum):
    error = "error"
    empty = "empty"


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
    missing: Annotated[
        Gaps, typer.Option(help="Rows that lack a value that predicts: stop, or leave their prediction empty.")
    ] = Gaps.error,
    *,
    form: FileOptions,
    speech: SpeechOptions,
) -> None:
    """Predict the outcome for the rows of a table, with intervals for a new environment.

    Columns are found by name; those that do not predict, as features that were not selected, may be absent. The rows
    are written as they are, with the columns prediction, lower and upper; of two
    classes with prediction and the probability of one of them; of counts with an exposure with the rate and, where the
    table has the exposure, prediction. Where the table has the outcome too, what was missed is printed.
    """
    with speech.speaking():
        target = checked_outputs(None, None, out, source=file).csv
        assert target is not None

        import numpy as np

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
        X, rows, lacking = _read(table, saved, missing)
        complete = np.setdiff1d(np.arange(len(rows)), lacking)
        exposure = _exposure(table, saved)
        predicted = Predicted.by(saved, X, coverage, None if exposure is None else exposure[complete])
        far = int(saved.extrapolates(X).sum())
        save(target, lambda path: _with_columns(rows, predicted.columns, complete).to_csv(path, index=False))
        known = _known(table, saved)
        said = [
            _what(saved, table, len(complete)) + predicted.how,
            *([f"Without a prediction, as values that predict are missing: {_numbered(lacking)}."] if lacking else []),
            *(["There was nothing to average: no subset is compatible with invariance."] if _none(saved) else []),
            _how_far(far),
            *predicted.missed([known[row] for row in complete] if known else [], table.name),
        ]
        for sentence in said:
            show("\n".join(wrap(sentence, "", "", COLUMNS)))
        show(f"Saved the predictions to {target}")


def _read(file: TableFile, saved: SavedModel, missing: Gaps) -> tuple[Any, pd.DataFrame, list[int]]:
    """The features of the rows that can be predicted; all columns as they are written, but for decimal commas and
    thousands; and the rows that lack something. Columns that do not predict are not looked at."""
    import numpy as np

    from ...data.checks import most_first, quoted
    from ...data.columns import as_frame, frame_values
    from ...data.reading import column_names, read_columns
    from ...data.text_columns import in_points

    names = column_names(file)
    needed = saved.columns_to_predict
    absent = [name for name in needed if name not in names]
    if absent:
        raise DataError(f"{file.name} lacks columns that the model needs: {quoted(absent)}; it has {quoted(names)}.")
    of_levels = () if saved.encoding is None else tuple(saved.encoding.of_levels)
    read = read_columns(file, needed, as_text=[name for name in of_levels if name in needed]).reset_index(drop=True)
    rows = in_points(read_columns(file, names, as_text=names), file, of_levels)
    if not len(rows):
        raise DataError(f"{file.name} has no rows to predict.")
    if saved.encoding is None:
        read[list(needed)] = frame_values(as_frame(read), needed)
    gaps = read.isna().to_numpy()
    lacking = np.flatnonzero(gaps.any(axis=1)).tolist()
    if len(lacking) == len(rows) or (lacking and missing is Gaps.error):
        where = f"{file.name} has missing values in {most_first(needed, gaps.sum(axis=0))}"
        raise DataError(
            f"{where}: no row can be predicted. Replace them."
            if len(lacking) == len(rows)
            else f"{where}: {_numbered(lacking)}. Replace them, leave those rows out, or write them without a "
            "prediction with --missing empty."
        )
    X = saved.completed(read.drop(index=lacking))
    of_numbers = saved.encoding is None and not hasattr(saved, "feature_names_in_")
    return X.to_numpy() if of_numbers else X, rows, lacking


def _numbered(rows: list[int]) -> str:
    from ...data.checks import listing

    return f"row{'s' if len(rows) > 1 else ''} {listing(str(row + 1) for row in rows)} below the header"


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


def _with_columns(rows: pd.DataFrame, new: dict[str, Any], at: Integers) -> pd.DataFrame:
    """With values for the rows at these places, and nothing in the others."""
    import pandas as pd

    from ...data.columns import free_name

    columns = {free_name(name, list(rows.columns)): pd.Series(values, at, object) for name, values in new.items()}
    return rows.reset_index(drop=True).assign(**columns)


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
