"""The command `predict`: outcomes for the rows of a table, by a model that `fit --save` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from .._tools.text import format_subset, wrap
from ..exceptions import DataError, SettingError, use
from .console import show
from .inputs import Named
from .options import FileArgument, FileOptions, SpeechOptions, option
from .outputs import checked_outputs, save

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Floats, Integers, Mask
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

        from ..data.checks import listing, rows_text
        from ..data.settings import Columns
        from ..estimators.saved import load

        saved = load(model)
        if average and saved.regressor_ is not None:
            raise SettingError("the model has a regressor of its own and no average: leave --average out.")
        columns = replace(saved.columns or Columns(), handle_unknown=unknown.value)
        saved.set_params(columns=columns, predict_with="average" if average else saved.predict_with)
        if Named([file]).file is None:
            raise DataError(f"predict takes one file, and {str(file)!r} is several: name them one by one.")
        table = form.open(file)
        read, rows = _read(table, saved)
        gaps = read[list(saved.columns_to_predict)].isna().to_numpy()
        lacking = np.flatnonzero(gaps.any(axis=1))
        below = f"in rows {listing(str(row + 1) for row in lacking)} below the header"
        if len(lacking) and (missing is Gaps.error or len(lacking) == len(rows)):
            _refuse_gaps(f"{table.name} has missing values", below, saved.columns_to_predict, gaps)
        complete = np.flatnonzero(~gaps.any(axis=1))
        known = read.iloc[complete]
        predicted = Predicted.by(saved, known, coverage)
        new = _with_columns(rows, predicted.columns, complete)
        save(target, lambda path: new.to_csv(path, index=False))
        averages = saved.predict_with == "average" and saved.predictive_ is not None
        by = "an average of compatible subsets" if averages else format_subset(saved.selected_features_)
        sentences = [
            f"Predicted {saved.outcome_name_} for {rows_text(len(complete))} of {table.name} by {by}{predicted.how}",
            f"No prediction for missing values {below}." if len(lacking) else "",
            "No subset is compatible with invariance: there was nothing to average."
            if average and not averages
            else "",
            f"{rows_text(predicted.far) if predicted.far else 'No row'} far outside the range of the training rows.",
            predicted.missed(known, table.name),
        ]
        for sentence in filter(None, sentences):
            show("\n".join(wrap(sentence)))
        show(f"Saved the predictions to {target}")


def _refuse_gaps(what: str, where: str, names: Sequence[str], gaps: Mask) -> NoReturn:
    from ..data.checks import most_first

    told = f"{what} in {most_first(names, gaps.sum(axis=0))}"
    if gaps.any(axis=1).all():
        raise DataError(f"{told}: no row can be predicted. Replace them.")
    raise DataError(f"{told}, {where}", use(missing="empty"))


def _read(file: TableFile, saved: SavedModel) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the model reads, with exposure and outcome where the table has them; all columns as text, with decimal
    points."""
    from ..data.checks import quoted, rows_text
    from ..data.columns import as_frame, frame_values, series_values
    from ..data.reading import column_names, in_points, read_columns

    names, needed = column_names(file), list(saved.columns_to_predict)
    absent = [name for name in needed if name not in names]
    if absent:
        raise DataError(f"{file.name} lacks columns that the model needs: {quoted(absent)}; it has {quoted(names)}.")
    outcome = saved.outcome_
    wanted = [name for name in (*needed, outcome.exposure, saved.outcome_name_) if name in names]
    of_levels = () if saved.encoding is None else tuple(saved.encoding.of_levels)
    read = read_columns(file, list(dict.fromkeys(wanted)), as_text=[name for name in of_levels if name in needed])
    if not len(read):
        raise DataError(f"{file.name} has no rows to predict.")
    if saved.encoding is None:
        read[needed] = frame_values(as_frame(read), needed)
    if outcome.exposure is not None and outcome.exposure in read:
        exposure = series_values(as_frame(read)[outcome.exposure], outcome.exposure)
        wrong = int(((exposure <= 0.0) | (exposure == float("inf"))).sum())
        if wrong:
            raise DataError(
                f"exposure {outcome.exposure!r} of {file.name} must be above 0, and is not in {rows_text(wrong)}: "
                "leave those rows out, or that column to predict rates."
            )
        read[outcome.exposure] = exposure
    rows = in_points(read_columns(file, names, as_text=names), file, of_levels)
    return read.reset_index(drop=True), rows.reset_index(drop=True)


def _with_columns(rows: pd.DataFrame, new: dict[str, Any], at: Integers) -> pd.DataFrame:
    """The rows with new values at these positions."""
    import pandas as pd

    from ..data.columns import free_name

    columns = {free_name(name, list(rows.columns)): pd.Series(values, at, object) for name, values in new.items()}
    return rows.assign(**columns)


@dataclass(frozen=True, eq=False)
class Predicted:
    """columns : {name: (n,)} to write; how : end of the sentence that says what was predicted; mean (n,) : outcome,
    probability or rate; ends (n, 2) : of intervals, or None; far : rows far from the training rows"""

    saved: SavedModel
    columns: dict[str, Any]
    how: str
    mean: Floats
    ends: Floats | None
    far: int

    @classmethod
    def by(cls, saved: SavedModel, known: pd.DataFrame, coverage: float | None) -> Predicted:
        """known : complete rows, as `_read` gives them"""
        from sklearn.base import is_classifier

        from ..estimators.fitted import TimesToEvent
        from ..models.base import Predicts

        outcome = saved.outcome_
        if outcome.predicts is not Predicts.number and coverage is not None:
            raise SettingError(f"predictions of {outcome.name!r} have no intervals: leave --coverage out.")
        X: Any = saved.completed(known[list(saved.columns_to_predict)])
        if saved.encoding is None and not hasattr(saved, "feature_names_in_"):
            X = X.to_numpy()
        mean = saved.predict_proba(X)[:, 1] if is_classifier(saved) else saved.predict(X)
        ends, columns = None, {"prediction": mean}
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
        elif outcome.exposure in known:
            columns = {"rate": mean, "prediction": mean * known[outcome.exposure].to_numpy()}
            how = f": the rate per unit of {outcome.exposure}, and the count in each row."
        else:
            columns, how = {"rate": mean}, f": the rate per unit of {outcome.exposure}, which the table lacks."
        return cls(saved, columns, how, mean, ends, int(saved.extrapolates(X).sum()))

    def missed(self, rows: pd.DataFrame, file: str) -> str:
        """A sentence on the errors of rows whose outcome is known; rows : as of `by`"""
        import numpy as np

        from ..data.checks import quoted, rows_text, warn
        from ..models.base import Predicts
        from ..prediction.new_environments import figures_of

        outcome = self.saved.outcome_
        by_exposure = outcome.exposure is not None
        if (
            outcome.name not in rows
            or outcome.predicts is Predicts.time
            or (by_exposure and outcome.exposure not in rows)
        ):
            return ""
        given = rows[outcome.name].astype(object)
        stated = (given.notna() & rows[outcome.exposure].notna() if by_exposure else given.notna()).to_numpy()
        observed = given.where(stated).map(self._as_number).to_numpy(dtype=float)
        known = stated & ~np.isnan(observed)
        strange = given[stated & ~known]
        if len(strange):
            wanted = "numbers" if outcome.classes is None else " or ".join(map(_plain, outcome.classes))
            where = f"{outcome.name!r} of {file} holds {quoted(strange.unique(), 4)} in {rows_text(len(strange))}"
            warn(f"{where}, not {wanted}: their errors are left out.")
        if not known.any():
            return ""
        exposure = rows[outcome.exposure].to_numpy()[known] if by_exposure else None
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
        same = [value == label or _plain(value) == _plain(label) for label in classes]
        return float(same[1]) if any(same) else float("nan")


def _plain(label: Any) -> str:
    """A class as written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
