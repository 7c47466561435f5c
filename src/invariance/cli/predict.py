"""The command `predict`: outcomes for the rows of a table, by a model that `fit --save` wrote."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from sklearn.base import is_classifier

from .._tools.arrays import Floats
from .._tools.text import COLUMNS, format_subset, wrap
from ..data.checks import quoted, rows_text, warn
from ..data.columns import reads_as_number
from ..data.outcomes import Classes, in_words
from ..data.settings import Columns
from ..estimators.fitted import TimesToEvent
from ..exceptions import DataError, SettingError
from ..models.base import Predicts
from ..prediction.new_environments import figures_of
from ..prediction.predictor import PredictedOutcome
from .console import show
from .inputs import FileOptions, SpeechOptions
from .options import FileArgument, with_option_groups
from .outputs import checked_outputs, save
from .streaming import Named

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Floats, Integers
    from ..data.reading import TableFile
    from ..estimators.saved import SavedModel

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

        from ..estimators.saved import load

        pass

        saved = load(model)
        if average and saved.regressor_ is not None:
            raise SettingError("the model has a regressor of its own and no average: leave --average out.")
        columns = Columns(handle_unknown=unknown.value)
        saved.set_params(columns=columns, predict_with="average" if average else saved.predict_with)
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

    from ..data.checks import most_first, quoted
    from ..data.columns import as_frame, frame_values
    from ..data.reading import column_names, in_points, read_columns

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
    from ..data.checks import listing

    return f"row{'s' if len(rows) > 1 else ''} {listing(str(row + 1) for row in rows)} below the header"


def _exposure(file: TableFile, saved: SavedModel) -> Floats | None:
    """(n,) where the model has one and the table too, NaN where it is missing"""
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
            "out, or that column, without which rates are predicted."
        )
    return exposure


def _known(file: TableFile, saved: SavedModel) -> list[Any]:
    """The outcomes of the rows, none where the table lacks them."""
    from ..data.columns import as_frame
    from ..data.reading import column_names, read_columns

    name = saved.outcome_name_
    return as_frame(read_columns(file, [name]))[name].to_list() if name in column_names(file) else []


def _with_columns(rows: pd.DataFrame, new: dict[str, Any], at: Integers) -> pd.DataFrame:
    """With values for the rows at these places, and nothing in the others."""
    import pandas as pd

    from ..data.columns import free_name

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


_COVERAGE = 0.9
# {figure: how it is told}; others are not.
_WORDS = {
    "intercept": "calibration intercept {:+z.3f}",
    "slope": "calibration slope {:.3g}",
    "deviance_explained": "deviance explained {:.3g}",
    "brier": "Brier score {:.3g}",
    "auc": "AUC {:.3g}",
}


@dataclass(frozen=True, eq=False)
class Predicted:
    """mean (n,): the outcome, a probability, or a rate; ends (n, 2): of intervals of that coverage, None where there
    are none; exposure (n,): of the rows, None where it is not known; median: whether times are medians"""

    outcome: PredictedOutcome
    mean: Floats
    ends: Floats | None
    coverage: float
    exposure: Floats | None
    median: bool = False

    @classmethod
    def by(cls, saved: SavedModel, X: Any, coverage: float | None, exposure: Floats | None) -> Predicted:
        outcome, ends = saved.outcome_, None
        mean = saved.predict_proba(X)[:, 1] if is_classifier(saved) else saved.predict(X)
        if outcome.predicts is Predicts.number:
            ends = saved.predict_interval(X, _COVERAGE if coverage is None else coverage)
        elif coverage is not None:
            raise SettingError(f"predictions of {outcome.name!r} have no intervals: leave --coverage out.")
        used = _COVERAGE if coverage is None else coverage
        return cls(outcome, mean, ends, used, exposure, isinstance(saved, TimesToEvent))

    @property
    def _of_classes(self) -> Classes | None:
        """The classes, where probabilities of them are predicted."""
        return self.outcome.classes if self.outcome.predicts is Predicts.probability else None

    @property
    def columns(self) -> dict[str, Any]:
        """{name: values (n,)} to write beside the rows"""
        if self.ends is not None:
            return {"prediction": self.mean, "lower": self.ends[:, 0], "upper": self.ends[:, 1]}
        if self._of_classes is not None:
            first, second = self._of_classes
            labels = [second if probability > 0.5 else first for probability in self.mean]
            return {"prediction": labels, f"probability_{_plain(second)}": self.mean}
        if self.outcome.exposure is None:
            return {"prediction": self.mean}
        return {"rate": self.mean} | ({} if self.exposure is None else {"prediction": self.mean * self.exposure})

    @property
    def how(self) -> str:
        """The end of the sentence that says what was predicted."""
        if self.ends is not None:
            return f", with {self.coverage:.3g} intervals."
        if self._of_classes is not None:
            return f": the probability of {_plain(self._of_classes[1])}, and the more probable class."
        if self.outcome.predicts is Predicts.time:
            return f": the {'median' if self.median else 'expected'} time."
        if self.outcome.exposure is None:
            return "."
        if self.exposure is None:
            return f": the rate per unit of {self.outcome.exposure}, which the table lacks."
        return f": the rate per unit of {self.outcome.exposure}, and what that makes in each row."

    def missed(self, values: list[Any], file: str) -> list[str]:
        """One sentence about the rows whose outcome is known, if there are any; values: outcomes of all rows of the
        file, or nothing."""
        import pandas as pd

        if not values or self.outcome.predicts is Predicts.time:
            return []
        given = pd.Series(values, dtype=object)
        stated = given.notna().to_numpy()
        if self.outcome.exposure is not None:
            stated = stated & (False if self.exposure is None else ~np.isnan(self.exposure))
        observed = given.where(stated).map(self._compared).to_numpy(dtype=float)
        known = stated & ~np.isnan(observed)
        strange = given[stated & ~known]
        if len(strange):
            warn(
                f"{self.outcome.name!r} of {file} holds {quoted(strange.unique(), 4)} in {rows_text(len(strange))}, "
                f"{self._expected}: what is missed there is not told."
            )
        if not known.any():
            return []
        exposure = None if self.exposure is None else self.exposure[known]
        figures = figures_of(self.outcome.predicts, observed[known], self.mean[known], exposure)
        return [f"The outcome is known in {known.sum():,} of them: {self._figures(figures, observed[known], known)}."]

    def _compared(self, value: Any) -> float:
        """A known outcome as it is compared with predictions; NaN where it is none of the classes, or no number."""
        if self.outcome.classes is None:
            return float(value) if reads_as_number(value) else np.nan
        same = [value == label or _written(value) == _written(label) for label in self.outcome.classes]
        return float(same[1]) if any(same) else np.nan

    @property
    def _expected(self) -> str:
        """A clause about what outcomes should be."""
        if self.outcome.classes is None:
            return "and the model predicts numbers"
        first, second = map(in_words, self.outcome.classes)
        return f"and the model tells {second} from {first}"

    def _figures(self, figures: dict[str, float], observed: Floats, known: Any) -> str:
        if self.ends is not None:
            inside = (observed >= self.ends[known, 0]) & (observed <= self.ends[known, 1])
            return f"root mean squared error {figures['rmse']:.4g}, {np.mean(inside):.3g} inside their intervals"
        means = f"on average {figures['observed']:.3g} where {figures['predicted']:.3g} is predicted"
        defined = {name: value for name, value in figures.items() if name in _WORDS and not np.isnan(value)}
        return ", ".join([means, *(_WORDS[name].format(value) for name, value in defined.items())])


def _written(value: Any) -> str:
    """The same for 1, 1.0 and the text '1'."""
    number = reads_as_number(value) and not isinstance(value, bool)
    return repr(float(value)) if number else str(value)


def _plain(label: Any) -> str:
    """A class as it is written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
