"""The command `predict`: outcomes for the rows of a table, by a model that `fit --save` wrote."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._tools.text import format_subset, wrap
from ..exceptions import DataError, SettingError, use
from .console import show
from .inputs import Named
from .options import FileArgument, FileOptions, SpeechOptions, option
from .outputs import checked_outputs, save

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Floats, Integers
    from ..data.reading import TableFile
    from ..estimators.saved import SavedModel

_COVERAGE = 0.9
# Figures that are printed, and how.
_FIGURES = {
    "intercept": "calibration intercept {:+z.3f}",
    "slope": "calibration slope {:.3g}",
    "deviance_explained": "deviance explained {:.3g}",
    "brier": "Brier score {:.3g}",
    "auc": "AUC {:.3g}",
}


class Unknown(StrEnum):
    error = "error"
    ignore = "ignore"


class Gaps(StrEnum):
    error = "error"
    empty = "empty"


def predict(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="What `invariance fit --save` wrote.", show_default=False)
    ],
    file: FileArgument,
    out: Annotated[Path, option("CSV", "File for the predictions.")],
    coverage: Annotated[float | None, option("SHARE", "Coverage of the intervals.", f"{_COVERAGE:g}")] = None,
    average: Annotated[bool, option(None, "Average over compatible subsets.", False, "--average")] = False,
    unknown: Annotated[
        Unknown, option("error|ignore", "Levels that the training data lack: stop, or take the reference.", "error")
    ] = Unknown.error,
    missing: Annotated[
        Gaps, option("error|empty", "Rows with missing values: stop, or leave the prediction empty.", "error")
    ] = Gaps.error,
    *,
    form: FileOptions,
    speech: SpeechOptions,
) -> None:
    """Predict the outcome for the rows of a table, with intervals for a new environment.

    Writes the rows with the columns prediction, lower and upper; for two classes prediction and a probability; for
    counts with an exposure the rate, and prediction where the table has the exposure. Columns are found by name, and
    those that do not predict may be absent. Where the table has the outcome, prints the errors.
    """
    with speech.speaking():
        target = checked_outputs({"csv": out}, file)["csv"]

        import numpy as np

        from ..data.settings import Columns
        from ..estimators.saved import load

        saved = load(model)
        if average and saved.regressor_ is not None:
            raise SettingError("the model has a regressor of its own and no average: leave --average out.")
        columns = replace(saved.columns or Columns(), handle_unknown=unknown.value)
        saved.set_params(columns=columns, predict_with="average" if average else saved.predict_with)
        if Named.of([file]).file is None:
            what = "folder" if file.expanduser().is_dir() else "pattern"
            raise DataError(f"predict takes one file, and {str(file)!r} is a {what}: name its files one by one.")
        table = form.open(file)
        X, rows, lacking = _read(table, saved, missing)
        complete = np.setdiff1d(np.arange(len(rows)), lacking)
        exposure = _exposure(table, saved)
        predicted = Predicted.by(saved, X, coverage, None if exposure is None else exposure[complete])
        far = int(saved.extrapolates(X).sum())
        save(target, lambda path: _with_columns(rows, predicted.columns, complete).to_csv(path, index=False))
        known = _known(table, saved)
        by = "an average of compatible subsets" if _averages(saved) else format_subset(saved.selected_features_)
        sentences = [
            f"Predicted {saved.outcome_name_} for {_rows(len(complete))} of {table.name} by {by}{predicted.how}",
            f"No prediction for rows with missing values: {_numbered(lacking)}." if lacking else "",
            "No subset is compatible with invariance: there was nothing to average."
            if average and not _averages(saved)
            else "",
            f"{_rows(far) if far else 'No row'} far outside the range of the training rows.",
            predicted.missed([known[row] for row in complete] if known else [], table.name),
        ]
        for sentence in filter(None, sentences):
            show("\n".join(wrap(sentence)))
        show(f"Saved the predictions to {target}")


def _rows(n: int) -> str:
    return "1 row" if n == 1 else f"{n:,} rows"


def _averages(saved: SavedModel) -> bool:
    return saved.predict_with == "average" and saved.predictive_ is not None


def _numbered(rows: list[int]) -> str:
    from ..data.checks import listing

    return f"row{'s' if len(rows) > 1 else ''} {listing(str(row + 1) for row in rows)} below the header"


def _read(file: TableFile, saved: SavedModel, missing: Gaps) -> tuple[Any, pd.DataFrame, list[int]]:
    """Features of the complete rows; all columns as text, with decimal points; positions of the other rows."""
    import numpy as np

    from ..data.checks import most_first, quoted
    from ..data.columns import as_frame, frame_values
    from ..data.reading import column_names, in_points, read_columns

    names, needed = column_names(file), saved.columns_to_predict
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
    where = f"{file.name} has missing values in {most_first(needed, gaps.sum(axis=0))}" if lacking else ""
    if len(lacking) == len(rows):
        raise DataError(f"{where}: no row can be predicted. Replace them.")
    if lacking and missing is Gaps.error:
        raise DataError(f"{where}, {_numbered(lacking)}: replace them, or", use(missing="empty"))
    X = saved.completed(read.drop(index=lacking))
    of_numbers = saved.encoding is None and not hasattr(saved, "feature_names_in_")
    return X.to_numpy() if of_numbers else X, rows, lacking


def _exposure(file: TableFile, saved: SavedModel) -> Floats | None:
    """(n,) NaN where it is missing; None where the model or the table has none"""
    import numpy as np

    from ..data.checks import rows_text
    from ..data.columns import as_frame, series_values
    from ..data.reading import column_names, read_columns

    name = saved.outcome_.exposure
    if name is None or name not in column_names(file):
        return None
    exposure = series_values(as_frame(read_columns(file, [name]))[name], name)
    wrong = int(((exposure <= 0.0) | np.isinf(exposure)).sum())
    if wrong:
        raise DataError(
            f"exposure {name!r} of {file.name} must be above 0, and is not in {rows_text(wrong)}: leave those rows "
            "out, or that column to predict rates."
        )
    return exposure


def _known(file: TableFile, saved: SavedModel) -> list[Any]:
    """Outcomes of the rows; empty where the table lacks them."""
    from ..data.columns import as_frame
    from ..data.reading import column_names, read_columns

    name = saved.outcome_name_
    return as_frame(read_columns(file, [name]))[name].to_list() if name in column_names(file) else []


def _with_columns(rows: pd.DataFrame, new: dict[str, Any], at: Integers) -> pd.DataFrame:
    """The rows with new values at these positions."""
    import pandas as pd

    from ..data.columns import free_name

    columns = {free_name(name, list(rows.columns)): pd.Series(values, at, object) for name, values in new.items()}
    return rows.reset_index(drop=True).assign(**columns)


@dataclass(frozen=True, eq=False)
class Predicted:
    """columns : {name: (n,)} to write; how : end of the sentence that says what was predicted; mean (n,) : outcome,
    probability or rate; ends (n, 2) : of intervals, or None; exposure (n,) or None"""

    saved: SavedModel
    columns: dict[str, Any]
    how: str
    mean: Floats
    ends: Floats | None
    exposure: Floats | None

    @classmethod
    def by(cls, saved: SavedModel, X: Any, coverage: float | None, exposure: Floats | None) -> Predicted:
        from sklearn.base import is_classifier

        from ..estimators.fitted import TimesToEvent
        from ..models.base import Predicts

        outcome = saved.outcome_
        mean = saved.predict_proba(X)[:, 1] if is_classifier(saved) else saved.predict(X)
        ends, columns = None, {"prediction": mean}
        if outcome.predicts is not Predicts.number and coverage is not None:
            raise SettingError(f"predictions of {outcome.name!r} have no intervals: leave --coverage out.")
        if outcome.predicts is Predicts.number:
            wanted = _COVERAGE if coverage is None else coverage
            ends, how = saved.predict_interval(X, wanted), f", with {wanted:.3g} intervals."
            columns |= {"lower": ends[:, 0], "upper": ends[:, 1]}
        elif outcome.predicts is Predicts.probability:
            assert outcome.classes is not None
            first, second = outcome.classes
            labels = [second if probability > 0.5 else first for probability in mean]
            columns = {"prediction": labels, f"probability_{_plain(second)}": mean}
            how = f": the probability of {_plain(second)}, and the more probable class."
        elif outcome.predicts is Predicts.time:
            how = f": the {'median' if isinstance(saved, TimesToEvent) else 'expected'} time."
        elif outcome.exposure is None:
            how = "."
        else:
            columns = {"rate": mean} | ({} if exposure is None else {"prediction": mean * exposure})
            other = ", which the table lacks" if exposure is None else ", and the count in each row"
            how = f": the rate per unit of {outcome.exposure}{other}."
        return cls(saved, columns, how, mean, ends, exposure)

    def missed(self, values: list[Any], file: str) -> str:
        """A sentence on the errors of rows whose outcome is known; values : of all rows, or none"""
        import numpy as np
        import pandas as pd

        from ..data.checks import quoted, rows_text, warn
        from ..models.base import Predicts
        from ..prediction.new_environments import figures_of

        outcome = self.saved.outcome_
        if not values or outcome.predicts is Predicts.time:
            return ""
        given = pd.Series(values, dtype=object)
        stated = given.notna().to_numpy()
        if outcome.exposure is not None:
            stated = stated & (False if self.exposure is None else ~np.isnan(self.exposure))
        observed = given.where(stated).map(self._as_number).to_numpy(dtype=float)
        known = stated & ~np.isnan(observed)
        strange = given[stated & ~known]
        if len(strange):
            wanted = "numbers" if outcome.classes is None else " or ".join(map(_plain, outcome.classes))
            where = f"{outcome.name!r} of {file} holds {quoted(strange.unique(), 4)} in {rows_text(len(strange))}"
            warn(f"{where}, not {wanted}: their errors are left out.")
        if not known.any():
            return ""
        exposure = None if self.exposure is None else self.exposure[known]
        figures = figures_of(outcome.predicts, observed[known], self.mean[known], exposure)
        if self.ends is not None:
            inside = (observed[known] >= self.ends[known, 0]) & (observed[known] <= self.ends[known, 1])
            told = [f"root mean squared error {figures['rmse']:.4g}", f"{np.mean(inside):.3g} inside their intervals"]
        else:
            told = [f"on average {figures['observed']:.3g} where {figures['predicted']:.3g} is predicted"]
            defined = {name: value for name, value in figures.items() if name in _FIGURES and not np.isnan(value)}
            told += [_FIGURES[name].format(value) for name, value in defined.items()]
        return f"The outcome is known in {known.sum():,} of them: {', '.join(told)}."

    def _as_number(self, value: Any) -> float:
        """A known outcome; NaN where it is none of the classes, or no number."""
        from ..data.columns import reads_as_number

        classes = self.saved.outcome_.classes
        if classes is None:
            return float(value) if reads_as_number(value) else float("nan")
        same = [value == label or _written(value) == _written(label) for label in classes]
        return float(same[1]) if any(same) else float("nan")


def _written(value: Any) -> str:
    """The same for 1, 1.0 and the text '1'."""
    from ..data.columns import reads_as_number

    number = reads_as_number(value) and not isinstance(value, bool)
    return repr(float(value)) if number else str(value)


def _plain(label: Any) -> str:
    """A class as written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
