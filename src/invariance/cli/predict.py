"""The command `predict`: outcomes for the rows of a table, by a model that `fit --save` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import typer

from .._tools.names import PredictWith, Unknown
from .._tools.text import format_subset, wrap
from ..exceptions import DataError, SettingError, use
from .console import messages
from .options import (
    ENVIRONMENT,
    FileArgument,
    FileOptions,
    ResultOptions,
    option,
    read_names,
)

if TYPE_CHECKING:
    import pandas as pd

    from .._tools.arrays import Fields, Floats
    from ..data.reading import TableFile
    from ..estimators.saved import SavedModel
    from ..prediction.new_site import SitePrediction

_COVERAGE = 0.9
FORMAT = "invariance.prediction/1"
_NOTHING_TO_AVERAGE = (
    "No subset is compatible with invariance, and none to average: the selected features predict."
)
# Figures that are printed, and how.
_FIGURES = {
    "intercept": "calibration intercept {:+z.3f}",
    "slope": "calibration slope {:.3g}",
    "deviance_explained": "deviance explained {:.3g}",
    "brier": "Brier score {:.3g}",
    "auc": "AUC {:.3g}",
}
Gaps = Literal["error", "empty"]


def predict(
    model: Annotated[
        Path,
        typer.Argument(
            metavar="MODEL", help="What `invariance fit --save` wrote.", show_default=False
        ),
    ],
    file: FileArgument,
    out: Annotated[
        Path | None, option("CSV", "File for the rows with predictions; required without --json.")
    ] = None,
    coverage: Annotated[
        float | None, option("SHARE", "Coverage of the intervals.", f"{_COVERAGE:g}")
    ] = None,
    at: Annotated[
        str | None,
        option("T1,T2", "Times at which to give the probability of survival.", False, "--at"),
    ] = None,
    restricted_mean: Annotated[
        float | None, option("TIME", "Mean time to the event within this time.", False)
    ] = None,
    predict_with: Annotated[
        PredictWith | None,
        option(
            "auto|selected|everything|average",
            "What predicts: features, or an average of subsets.",
            "as fitted",
        ),
    ] = None,
    environment: Annotated[
        str | None,
        option(
            "COL",
            "Column of environments: those of the fit get their own intercepts.",
            False,
            *ENVIRONMENT,
        ),
    ] = None,
    new_site: Annotated[
        bool,
        option(
            None,
            "The rows are those of one new site: predict them together.",
            False,
            "--new-site",
        ),
    ] = False,
    unknown: Annotated[
        Unknown,
        option(
            "error|ignore",
            "Levels that the training data lack: stop, or take the reference.",
            "error",
        ),
    ] = "error",
    missing: Annotated[
        Gaps,
        option(
            "error|empty", "Rows with missing values: stop, or leave the prediction empty.", "error"
        ),
    ] = "error",
    *,
    form: FileOptions,
    speech: ResultOptions,
) -> None:
    """Predict the outcome for the rows of a table, with intervals for a new environment.

    All features predict, unless environments that were left out of the fit showed that these fail:
    then the selected ones do. Writes the rows with the columns prediction, lower and upper; for two
    classes prediction and a probability; for counts with an exposure the rate, and prediction where
    the table has the exposure; for times to an event their median, inf where it is longer than any
    time that was seen. Columns are found by name, and those that do not predict may be absent.
    Where the table has the outcome, prints the errors.
    """
    with messages(speech):
        from .._tools.json import written
        from ..estimators.saved import load
        from .inputs import InputFiles
        from .outputs import Files, checked_outputs, deliver

        if out is None and speech.json is None:
            raise SettingError("predictions need a file: add --out predicted.csv, or --json -.")
        outputs = checked_outputs({"csv": out, "json": speech.json}, file)
        saved = load(model)
        if InputFiles([file]).file is None:
            raise DataError(
                f"predict takes one file, and {str(file)!r} is several: name them one by one."
            )
        asked = (
            predict_with,
            unknown,
            missing,
            environment,
            coverage,
            read_names(at),
            restricted_mean,
            new_site,
        )
        found = predicted(saved, form.open(file), *asked)
        files: Files = {
            "csv": partial(found.rows.to_csv, index=False),
            "json": partial(written, found.content),
        }
        text = "\n".join(line for sentence in found.sentences for line in wrap(sentence))
        deliver(text, outputs, files)


class Predicted(NamedTuple):
    """rows : of a table as text, with columns of predictions; sentences about these; content : of
    the JSON"""

    rows: pd.DataFrame
    sentences: list[str]
    content: Fields


def predicted(
    saved: SavedModel,
    table: TableFile,
    predict_with: PredictWith | None = None,
    handle_unknown: Unknown = "error",
    missing: Gaps = "error",
    environment: str | None = None,
    coverage: float | None = None,
    at: Sequence[str] = (),
    restricted_mean: float | None = None,
    new_site: bool = False,
) -> Predicted:
    """Return predictions for the rows of a table, as the command and the page show them.

    arguments : options of the command
    """
    import numpy as np
    import pandas as pd

    from ..data.checks import listing, most_first, rows_text
    from ..data.columns import free_name
    from ..data.reading import with_columns
    from ..data.settings import Columns

    columns = replace(saved.columns or Columns(), handle_unknown=handle_unknown)
    saved.set_params(columns=columns, predict_with=predict_with or saved.predict_with)
    if environment is not None and getattr(saved.predictor_, "effects", None) is None:
        raise SettingError("what predicts is the same in every environment", use(environment=None))
    if new_site and environment is not None:
        raise SettingError("a new site has no intercept of its own yet", use(environment=None))
    needed = list(saved.columns_of_site if new_site else saved.columns_to_predict)
    read, rows = read_rows(table, saved, needed, environment)
    leveled = () if saved.encoding is None else saved.encoding.with_missing
    gaps = (read[needed].isna() & [name not in leveled for name in needed]).to_numpy()
    lacking = np.flatnonzero(gaps.any(axis=1))
    complete = np.flatnonzero(~gaps.any(axis=1))
    below = f"in rows {listing(str(row + 1) for row in lacking)} below the header"
    if len(lacking) and (missing == "error" or not len(complete)):
        counts = dict(zip(needed, gaps.sum(axis=0).tolist(), strict=True))
        told = f"{table.name} has missing values in {most_first(counts)}"
        if not len(complete):
            raise DataError(f"{told}: no row can be predicted. Replace them.")
        raise DataError(f"{told}, {below}", use(missing="empty"))
    known = read.iloc[complete]
    variable = [] if saved._span is None else [saved._span.column]
    X: Any = known[[*needed, *(name for name in variable if name in known)]]
    if saved.encoding is None and not hasattr(saved, "feature_names_in_"):
        X = saved.completed(X[needed]).to_numpy()
    labels = None if environment is None else known[environment].tolist()
    of_times = _of_times(saved, X, list(at), restricted_mean)  # first: it may refuse
    together = saved.predict_site(X, coverage or _COVERAGE) if new_site else None
    mean, ends, new, how = _predictions(saved, X, known, coverage, labels, together)
    new |= of_times
    taken = list(rows.columns)
    added = {
        free_name(name, taken): pd.Series(values, complete, object) for name, values in new.items()
    }
    by = format_subset(needed)
    kind = saved.predict_with
    averages = kind == "average" and saved.predictive_ is not None
    far, (errors, told_errors) = (
        int(saved.extrapolates(X).sum()),
        _errors(saved, known, mean, ends, table.name),
    )
    what = f"What predicts: {saved.prediction_.told(kind)}"
    if kind == "average" and not averages:
        what = _NOTHING_TO_AVERAGE
    as_site = together is not None and together.weight_of_all is not None
    apart = not as_site and saved.adaptation_ is None
    usual = saved.prediction_.uses if kind == "auto" else kind
    sentences = [
        f"Predicted {saved.outcome_name_} for {rows_text(len(complete))} of {table.name} by "
        f"{by}{how}",
        f"No prediction for missing values {below}." if len(lacking) else "",
        "" if together is None else str(together),
        saved.adaptation_ or "",
        what if apart else "",
        f"{rows_text(far) if far else 'No row'} far outside the range of the training rows.",
        told_errors,
    ]
    content = {
        "format": FORMAT,
        "outcome": saved.outcome_name_,
        "file": table.name,
        "n_rows": len(rows),
        "columns": needed,
        "predicts_with": usual if apart else "site",
        "missing_rows": lacking + 1,
        "n_far": far,
        "errors": errors,
        "predictions": {
            name: values.reindex(range(len(rows))).tolist() for name, values in added.items()
        },
    }
    return Predicted(with_columns(rows, added), list(filter(None, sentences)), content)


def read_rows(
    file: TableFile, saved: SavedModel, needed: list[str], environment: str | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the columns that the model needs, and all columns as text with decimal points.

    The former include exposure and outcome if the table has them.
    """
    from ..data.checks import quoted, rows_text
    from ..data.columns import as_frame, frame_values, series_values
    from ..data.reading import column_names, in_points, read_columns, with_columns

    names = column_names(file)
    exposure = saved.outcome_.exposure
    saved.check_columns(names, file.name, tuple(needed))
    if environment is not None and environment not in names:
        raise DataError(
            f"{file.name} has no column {environment!r}; it has {quoted(names)}",
            use(environment=None),
        )
    variable = None if saved._span is None else saved._span.column
    wanted = [
        name
        for name in (*needed, exposure, saved.outcome_name_, environment, variable)
        if name in names
    ]
    of_levels = () if saved.encoding is None else tuple(saved.encoding.of_levels)
    as_text = [name for name in of_levels if name in needed]
    read = read_columns(file, list(dict.fromkeys(wanted)), labels=environment, as_text=as_text)
    if not len(read):
        raise DataError(f"{file.name} has no rows to predict.")
    if saved.encoding is None:
        read[needed] = frame_values(as_frame(read), needed)
    else:
        mended = {
            name: saved.encoding.mending.series(as_frame(read)[name], name).to_native()
            for name in needed
        }
        read = with_columns(read, mended)
    if exposure is not None and exposure in read:
        values = series_values(as_frame(read)[exposure], exposure)
        wrong = int(((values <= 0.0) | (values == float("inf"))).sum())
        if wrong:
            told = (
                f"exposure {exposure!r} of {file.name} must be above 0, and is not in "
                f"{rows_text(wrong)}"
            )
            raise DataError(f"{told}: leave those rows out, or that column to predict rates.")
        read[exposure] = values
    rows = in_points(read_columns(file, names, as_text=names), file, of_levels)
    return read.reset_index(drop=True), rows.reset_index(drop=True)


def _predictions(
    saved: SavedModel,
    X: Any,
    known: pd.DataFrame,
    coverage: float | None,
    labels: list[Any] | None,
    together: SitePrediction | None,
) -> tuple[Floats, Floats | None, Fields, str]:
    """Outcome, probability or rate (n,), ends of intervals (n, 2) or None, columns to write, and
    what they are; known : complete rows, as `read_rows` gives them; labels : environments whose
    intercepts are used; together : predictions of the rows as one site"""
    from sklearn.base import is_classifier

    outcome = saved.outcome_
    mean = (
        saved.predict_proba(X)[:, 1]
        if is_classifier(saved)
        else saved.predict(X, environments=labels)
    )
    if outcome.has_intervals:
        wanted = _COVERAGE if coverage is None else coverage
        ends = together.interval if together is not None else saved.predict_interval(X, wanted)
        mean = mean if together is None else together.prediction
        told = ""
        if labels is not None and ends is not None:
            ends += (mean - ends.mean(axis=1))[:, None]
            told = " around predictions for each environment, as wide as for a new one"
        if ends is None:
            return mean, None, {"prediction": mean}, ", without intervals."
        columns: Fields = {"prediction": mean, "lower": ends[:, 0], "upper": ends[:, 1]}
        return mean, ends, columns, f", with {wanted:.3g} intervals{told}."
    if coverage is not None:
        raise SettingError(
            f"predictions of {outcome.name!r} have no intervals: leave --coverage out."
        )
    columns = {"prediction": mean}
    how = "."
    if outcome.kind.classifies:
        assert outcome.classes is not None
        first, second = outcome.classes
        labels = [second if probability > 0.5 else first for probability in mean]
        columns = {"prediction": labels, f"probability_{_plain(second)}": mean}
        how = f": the probability of {_plain(second)}, and the more probable class."
    elif outcome.kind.censored:
        how = ": the median time."
    elif outcome.exposure is not None:
        columns = {"rate": mean}
        how = f": the rate per unit of {outcome.exposure}."
        if outcome.exposure in known:
            columns["prediction"] = mean * known[outcome.exposure].to_numpy()
            how = f": the rate per unit of {outcome.exposure}, and the count."
    return mean, None, columns, how


def _of_times(
    saved: SavedModel, X: Any, at: list[str], restricted_mean: float | None
) -> dict[str, Floats]:
    """Columns of what is asked for besides the median time"""
    for name, value in {"at": at or None, "restricted_mean": restricted_mean}.items():
        if value is not None and not hasattr(saved, "predict_survival"):
            raise SettingError(
                f"{saved.outcome_.name!r} is no time to an event", use(**{name: None})
            )
    columns = (
        {}
        if not at
        else dict(zip(map("survival_{}".format, at), saved.predict_survival(X, at).T, strict=True))
    )
    if restricted_mean is not None:
        columns[f"restricted_mean_{restricted_mean:g}"] = saved.predict_restricted_mean(
            X, restricted_mean
        )
    return columns


def _errors(
    saved: SavedModel, rows: pd.DataFrame, mean: Floats, ends: Floats | None, file: str
) -> tuple[dict[str, float] | None, str]:
    """Errors of rows whose outcome is known, and a sentence on them; rows : complete, as
    `read_rows` gives them"""
    import numpy as np

    from ..data.checks import listing, rows_text, warn

    outcome = saved.outcome_
    exposure = saved.outcome_.exposure
    needed = [outcome.name] if exposure is None else [outcome.name, exposure]
    if outcome.kind.censored or not set(needed) <= set(rows.columns):
        return None, ""
    given = rows[outcome.name].astype(object)
    stated = rows[needed].notna().all(axis=1).to_numpy()
    observed = coded_outcomes(given.where(stated), outcome.classes)
    known = stated & ~np.isnan(observed)
    strange = given[stated & ~known]
    if len(strange):
        wanted = "numbers" if outcome.classes is None else " or ".join(map(_plain, outcome.classes))
        where = f"{outcome.name!r} of {file} holds {listing(map(repr, strange.unique()), 4)}"
        warn(f"{where} in {rows_text(len(strange))}, not {wanted}: their errors are left out.")
    if not known.any():
        return None, ""
    weights = None if exposure is None else rows[exposure].to_numpy()[known]
    measured = outcome.kind.measured(observed[known], mean[known], weights)
    figures = {name: each.value for name, each in measured.items()}
    n_known = int(known.sum())
    if ends is not None:
        known &= ~np.isnan(ends[:, 0])
        inside = (observed[known] >= ends[known, 0]) & (observed[known] <= ends[known, 1])
        figures["inside"] = float(np.mean(inside)) if known.any() else float("nan")
        share = (
            f"{inside.sum():,} of {len(inside):,} inside their intervals"
            if len(inside)
            else "none has an interval"
        )
        told = [f"root mean squared error {figures['rmse']:.4g}", share]
    else:
        told = [
            f"on average {figures['observed']:.3g} where {figures['predicted']:.3g} is predicted"
        ]
        told += [
            _FIGURES[name].format(figures[name])
            for name in _FIGURES
            if np.isfinite(figures.get(name, np.nan))
        ]
    return {
        "n_rows": n_known
    } | figures, f"The outcome is known in {n_known:,} of them: {', '.join(told)}."


def coded_outcomes(values: pd.Series, classes: tuple[Any, Any] | None) -> Floats:
    """(n,) numbers, or 0 and 1 for the classes; NaN for others"""
    return values.map(lambda value: _as_number(value, classes)).to_numpy(dtype=float)


def _as_number(value: Any, classes: tuple[Any, Any] | None) -> float:
    """A known outcome; NaN where it is none of the classes, or no number."""
    from ..data.reading import reads_as_number

    if classes is None:
        return float(value) if reads_as_number(value) else float("nan")
    same = [value == label or _plain(value) == _plain(label) for label in classes]
    return float(same[1]) if any(same) else float("nan")


def _plain(label: Any) -> str:
    """A class as written in a table: 1 for 1.0."""
    return f"{label:g}" if isinstance(label, float) else str(label)
