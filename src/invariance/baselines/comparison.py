"""Several methods on one data set, side by side."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from sklearn.base import clone, is_classifier

from .._tools.arrays import Fields, Integers, Mask, Names
from .._tools.json import written
from .._tools.plotting import PLAIN, TRUE, Size, axes_for, plain_ticks, save_drawing, title, widest
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.registry import check_settings, read_call, split_outside_brackets
from .._tools.sections import Rendered, Section
from .._tools.text import (
    COLUMNS,
    UNKNOWN,
    display_width,
    duration,
    format_subset,
    name_labels,
    shorten,
)
from ..data.checks import did_you_mean, quoted
from ..data.features import as_mask
from ..data.multi_environment import MultiEnvironmentData, require_data
from ..decisions.decision import fallback
from ..decisions.levels import LEFT_FREE
from ..estimators.bip import BIP
from ..estimators.selector import EnvironmentSelector
from ..exceptions import (
    DataError,
    DataWarning,
    EngineError,
    InvarianceError,
    Message,
    SettingError,
    WrongTypeError,
)
from ..posterior.summary import CAUSES, MOST_FEATURES, format_probability, model_in_words
from ..prediction.all_features import without
from ..prediction.new_environments import few_environments
from ..screening import LassoScreen, Screening
from .base import Baseline, Screened, feature_values, kind_for
from .registry import METHODS, Method, default_names
from .regression import PooledRegression

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# {what a method said of a feature: mark, meaning, and face and hatch, which tell squares apart
# without colour too}
STATUSES: dict[str, tuple[str, str, str, str | None]] = {
    "selected": ("●", "selected", PLAIN, None),
    "not selected": ("·", "not selected", "white", None),
    "screened out": ("–", "screened out, not looked at", "0.88", None),
    "rejected": ("×", "model rejected: no subset was accepted", "#f9ddc7", "xxx"),
    "failed": ("", "failed", "white", "////"),
}
# {column with what a method selects by: what speaks for a feature}
_EVIDENCE = {
    "inclusion_probabilities": "inclusion probability near 1",
    "p_values": "p-value near 0",
}
_OUTCOMES = {
    "empty": "nothing selected",
    "rejected": "model rejected",
    "failed": "failed",
    "all": "uses all",
}
# A method that failed, or of which nothing more is known
_FAILED_ROW = {
    "outcome": "failed",
    "selected": (),
    "inclusion_probabilities": None,
    "p_values": None,
    "left_out": None,
    "mean_error": np.nan,
    "worst_error": np.nan,
    "error_ratio": np.nan,
    "verdict": None,
    "level": None,
    "model": None,
    "as_number": False,
    "pooled": False,
}
_FAILURES = ValueError, EngineError, np.linalg.LinAlgError
# in text
_NAME_WIDTH = 18
_TITLE_WIDTH = 17
# in the picture
_LABEL_WIDTH = 24
_MOST_DRAWN = 40


class Comparison(Rendered, pd.DataFrame):
    """Hold the results of several methods in a data frame with one row for each method.

    It prints with one column for each method. Selections of rows or columns are plain data frames.
    The dictionary `attrs` has the keys outcome, environments, n_rows, features, groups ({feature:
    its columns} of features with several columns) and error: the name of the error in held-out
    environments, which is the RMSE for numbers, the log loss for two classes, the Poisson deviance
    for counts and 1 − concordance for times, and None unless requested.

    Attributes
    ----------
    outcome : {"selected", "empty", "rejected", "failed", "all"}
        Whether features were selected, none was, ICP accepted no subset, the method failed (`notes`
        has the reason), or it predicts with all features and does not select.
    selected : tuple of str
        Names of the selected features.
    status : ndarray of shape (p,)
        "selected", "not selected", "screened out", "rejected" or "failed" for each feature.
    inclusion_probabilities, p_values : ndarray of shape (p,) or None
        None if the method does not have them or did not select by them; NaN for features that were
        screened out and for a rejected model.
    coefficients : ndarray of shape (p,)
        Weights of the features in predictions; NaN for a feature of several columns.
    column_coefficients : dict of str to float
        Weights of all columns by name.
    left_out : ndarray of shape (E,) or None
        Error in each environment of the method selected and fitted without it; NaN if it could not
        be computed, None unless requested.
    mean_error, worst_error : float
        Mean and largest error of the environments that have one; each counts once.
    error_ratio : float
        Mean error divided by that of pooled regression on all features, in the environments with
        both.
    verdict, level, model : str or None
        For BIP: what differs between environments given the selected features, the level of
        invariance, and the model of the outcome with the reason for it.
    as_number : bool
        Whether labels or counts were fitted by least squares.
    pooled : bool
        Whether the method fits all rows together and ignores invariance.
    seconds : float
        Time of the fit.
    notes : tuple of str
        Remarks.
    """

    def spread(self, column: str) -> pd.DataFrame:
        """Return the values of a column that has one value for each feature or environment.

        Parameters
        ----------
        column : str
            "status", "p_values", "inclusion_probabilities" or "coefficients", which are by feature,
            or "left_out", which is by environment.

        Returns
        -------
        DataFrame of shape (n_methods, p) or (n_methods, E)
            NaN for methods that do not have the values.
        """
        places = self.attrs["environments" if column == "left_out" else "features"]
        rows = [
            np.full(len(places), np.nan) if values is None else values for values in self[column]
        ]
        return pd.DataFrame(rows, self.index, places)

    def to_json(self, path: str | Path | None = None) -> str:  # type: ignore[override]
        """Return strict JSON of the comparison, and write it to a file if a path is given.

        Parameters
        ----------
        path : str or Path, default=None
            File to write.

        Returns
        -------
        str
            JSON text in which undefined numbers are null. Errors in held-out environments are in
            the order of the environments.
        """
        labels = [
            label if isinstance(label, (str, int, float)) else str(label)
            for label in self.attrs["environments"]
        ]
        methods = self.drop(columns="pooled").reset_index(names="name").to_dict("records")
        about = self.attrs | {"environments": labels, "methods": methods}
        return written({"format": "invariance.comparison/3"} | about, path)

    def plot(  # type: ignore[override]
        self, ax: Axes | None = None, truth: Iterable[str] | ArrayLike | None = None
    ) -> Axes:
        """Draw one row for each method and one column for each feature.

        The colour of a square shows the status of the feature. At most 40 features are drawn: all,
        or those that most methods selected.

        Parameters
        ----------
        ax : Axes, default=None
            Axes to draw on. None makes a new figure, which is at `ax.figure` of the result.
        truth : list of str or array of shape (p,), default=None
            Names or mask of the features that are truly invariant, which are highlighted.

        Returns
        -------
        Axes
            The axes.
        """
        features = self.attrs["features"]
        shown = self._leading(_MOST_DRAWN)
        k = len(shown)
        names, methods = self._labels
        ax = axes_for(ax, self._plot_size)
        statuses = self.spread("status").to_numpy()[:, shown]
        for status, (_, _, face, hatch) in STATUSES.items():
            rows, columns = np.nonzero(statuses == status)
            look: Any = {"facecolor": face, "edgecolor": "0.8" if hatch is None else "0.55"}
            if len(rows):
                ax.bar(columns, 0.9, 0.9, rows - 0.45, label=status, hatch=hatch, **look)
        ax.legend(
            *ax.get_legend_handles_labels(),
            loc="upper left",
            bbox_to_anchor=(1.02, 1.0),
            frameon=False,
            fontsize="small",
        )
        ax.set_xlim(-0.6, max(k, 1) - 0.4)
        ax.set_ylim(len(methods) - 0.4, -0.6)
        ax.set_aspect("equal")
        ax.set_xticks(np.arange(k), names, rotation=60, ha="right", rotation_mode="anchor")
        ax.set_yticks(np.arange(len(methods)), methods)
        plain_ticks(ax)
        true = np.zeros(len(features), bool) if truth is None else as_mask(truth, features)
        for tick, is_true in zip(ax.get_xticklabels(), true[shown], strict=True):
            if is_true:
                tick.set(color=TRUE, fontweight="bold")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel(f"feature ({k} of {len(features):,})" if k < len(features) else "feature")
        ax.set_ylabel("method")
        true_ones = "" if truth is None else "; true features in green"
        what = f"Selected for {shorten(self.attrs['outcome'], _LABEL_WIDTH)}{true_ones}"
        doubts = [f"{m.Index}: {_differing(m.level)}" for m in self._doubted]
        title(ax, "\n".join([*doubts, what]))
        return ax

    def save_plot(self, path: str | Path) -> Path:
        """Write the picture to a file.

        Parameters
        ----------
        path : str or Path
            File; its ending gives the format, png if it does not have one.

        Returns
        -------
        Path
            The file that was written.
        """
        return save_drawing(self.plot, self._plot_size, path)

    @property
    def _labels(self) -> tuple[list[str], list[str]]:
        """Return the names of features and methods in the picture."""
        features = [self.attrs["features"][j] for j in self._leading(_MOST_DRAWN)]
        marks = np.where(self["as_number"], " (least squares)", "")
        methods = [f"{name}{mark}" for name, mark in zip(self.index, marks, strict=True)]
        return name_labels(features, _LABEL_WIDTH), name_labels(methods, _LABEL_WIDTH)

    @property
    def _plot_size(self) -> Size:
        """Inches of a figure with room for the names."""
        names, methods = self._labels
        length = widest(names)
        # Names of features stand at 60 degrees: the first reaches to the left, where the methods'
        # names are.
        width = 3.6 + max(widest(methods), 0.5 * length, 1.0) + 0.32 * max(len(names), 6)
        return width, 1.3 + max(0.87 * length, 0.5) + 0.32 * max(len(methods), 4)

    @property
    def _selected(self) -> Mask:
        """Return which features each method selected, (M, p)."""
        return np.asarray(self.spread("status") == "selected")

    def _leading(self, limit: int) -> Integers:
        """All features while they are few; else those that weigh most, in the order of the data:
        every method has one vote, which the features that it selected share."""
        selected = self._selected
        if selected.shape[1] <= limit:
            return np.arange(selected.shape[1])
        weight = (selected / np.maximum(selected.sum(axis=1, keepdims=True), 1)).sum(axis=0)
        order = np.argsort(-weight, kind="stable")[:limit]
        return np.sort(order[weight[order] > 0])

    @property
    def _rows(self) -> list[Any]:
        return list(self.itertuples())

    @property
    def _doubted(self) -> list[Any]:
        """Return the rows of methods for which something differs between environments."""
        return [m for m in self._rows if isinstance(m.verdict, str)]

    @property
    def sections(self) -> Iterator[Section]:
        """Doubts about the answers, a feature × method grid, one line per method."""
        return self.as_sections()

    def as_sections(
        self, worded: Callable[[str], str] = str, known: Collection[str] = ()
    ) -> Iterator[Section]:
        """Yield the sections. worded : how notes that may carry remedies are written; known : notes
        that stand elsewhere"""
        about = self.attrs
        doubts = [f"{m.Index}: {m.verdict}" for m in self._doubted]
        if any(m.level not in LEFT_FREE for m in self._doubted):
            doubts.append(CAUSES)
        n_environments = len(about["environments"])
        rows_and_features = f"{about['n_rows']:,} rows, {len(about['features']):,} features"
        heading = f"Outcome {about['outcome']}: {rows_and_features}, environments: {n_environments}"
        yield Section(heading, tuple(doubts))
        titled = [*zip(name_labels([*self.index], _TITLE_WIDTH), self._rows, strict=True)]
        # What fits labels or counts by least squares answers another question.
        listed = [
            (name, m)
            for name, m in titled
            if m.outcome not in ("failed", "all") and not m.as_number
        ]
        shown = self._leading(MOST_FEATURES)
        if len(shown):
            names = name_labels([about["features"][j] for j in shown], _NAME_WIDTH)
            columns = [(name, *(_mark_of(m, j) for j in shown)) for name, m in listed]
            yield from _side_by_side(("feature", *names), columns)
        hidden = np.delete(self._selected.sum(axis=0), shown)
        if len(hidden):
            yield Section(
                f"Not shown: {len(hidden):,} features, selected by at most {hidden.max()} of the "
                "methods."
            )
        heading = "Methods"
        sentences: Names = ()
        heads = ["mean", "worst", "ratio"]
        if about["error"] is None:
            heads = []
        else:
            heading = f"Methods, and their {about['error']} in environments left out"
            few = few_environments(n_environments)
            about_errors = _ABOUT_ERRORS.format(n_environments), f"{few[:1].upper()}{few[1:]}"
            sentences = tuple(filter(None, about_errors))
        table = [("method", "features", *heads, "time")]
        for name, m in titled:
            what = _OUTCOMES.get(m.outcome, f"{len(m.selected):,} selected")
            seconds = f"{1000 * m.seconds:.1f} ms" if m.seconds < 1.0 else duration(m.seconds)
            errors = f"{m.mean_error:.4g}", f"{m.worst_error:.4g}", f"{m.error_ratio:.3f}"
            figures = [text.replace("nan", UNKNOWN) for text in errors[: len(heads)]]
            table.append((name, what, *figures, seconds))
        notes = [
            f"- {name}: {worded(note)}"
            for name, m in titled
            for note in m.notes
            if note not in known
        ]
        notes += _legend([m for _, m in listed])
        apart = [
            f"{name} {format_subset(m.selected)}"
            for name, m in titled
            if m.as_number and m.outcome != "failed"
        ]
        if apart:
            notes.append(
                f"By least squares, although {about['outcome']} is not a measured number, and "
                f"therefore not comparable with the others: {', '.join(apart)}."
            )
        yield Section(heading, sentences, (), tuple(table), tuple(notes), (0, 1))


_ABOUT_ERRORS = (
    "Each environment is predicted by each method, fitted without it: mean and worst over {} "
    "environments, and the mean relative to pooled regression on all features. What is selected is "
    "not always what predicts: Regression predicts with all features, and by default so does BIP, "
    "unless these fail."
)


def _differing(level: str) -> str:
    """Return in a few words what differs between environments given the selected features."""
    free = LEFT_FREE.get(level)
    return (
        "the selected features are not invariant"
        if free is None
        else f"{free} differ between environments"
    )


def _side_by_side(names: Names, columns: list[Names]) -> Iterator[Section]:
    """Yield tables of as many methods as fit into a line."""
    room = COLUMNS - 2 - max(map(display_width, names))
    while columns:
        ends = np.cumsum([2 + max(map(display_width, column)) for column in columns])
        n = max(int(np.sum(ends <= room)), 1)
        table = tuple(zip(names, *columns[:n], strict=True))
        yield Section("Selected", table=table, text_columns=tuple(range(n + 1)))
        columns = columns[n:]


def _evidence(method: Any) -> str | None:
    """Return the column by which the method selects; None if it does not have values."""
    for column in _EVIDENCE:
        values = getattr(method, column)
        if values is not None and not np.isnan(values).all():
            return column
    return None


def _mark_of(method: Any, j: int) -> str:
    mark = STATUSES[method.status[j]][0]
    column = _evidence(method)
    value = np.nan if column is None else getattr(method, column)[j]
    return mark if np.isnan(value) else f"{mark} {format_probability(value)}"


def _legend(listed: list[Any]) -> Iterator[str]:
    """Yield the meaning of the marks and values of these methods."""
    seen = {str(status) for m in listed for status in m.status}
    marks = [f"{mark} {text}" for status, (mark, text, *_) in STATUSES.items() if status in seen]
    favourable = []
    for column, text in _EVIDENCE.items():
        names = [m.Index for m in listed if _evidence(m) == column]
        if names:
            favourable.append(f"{text} ({', '.join(names)})")
    for said, parts in (
        ("", "; ".join(marks)),
        ("Evidence for a feature: ", " or ".join(favourable)),
        ("By prediction, not by invariance: ", ", ".join(m.Index for m in listed if m.pooled)),
    ):
        if parts:
            yield f"{said}{parts}."


def compare(
    data: MultiEnvironmentData,
    methods: Iterable[str | EnvironmentSelector] | Mapping[str, EnvironmentSelector] | None = None,
    bip: BIP | None = None,
    left_out: bool = False,
    progress: ProgressMode = "auto",
) -> Comparison:
    """Fit several methods to one data set.

    A method that cannot be fitted to the data is reported as failed, with the reason.

    Parameters
    ----------
    data : MultiEnvironmentData
        The data.
    methods : iterable of str or EnvironmentSelector, or mapping of names to these, default=None
        Names as listed below, also with settings ("ICP(max_size=3)"; settings of a name with
        -screen are those of the screen), or estimators. None is the usual methods.
    bip : BIP, default=None
        Estimator that the names BIP and BIP-screen stand for. None is `BIP()`.
    left_out : bool, default=False
        Whether to predict each environment by the selection and the fit without it, and report the
        errors.
    progress : {"auto", True, False} or callable, default="auto"
        Progress bar while environments are held out, as in `BIP`.

    Returns
    -------
    Comparison
        A data frame with one row for each method.

    Raises
    ------
    DataError
        If errors in held-out environments are requested for a single environment.
    SettingError
        If a name of a method or one of its settings is unknown.
    WrongTypeError
        If data or a method has the wrong type.

    Notes
    -----
    Screened methods with equal screens share one screen, whose time is counted for the first of
    them. The methods by name::

        BIP         the best predictor among invariant subsets
        ICP         what all subsets with invariant residuals have in common
        Stability   what ICP selects in most samples
        Hidden-ICP  effects that hold under hidden confounders
        EILLS       least squares with a penalty where environments disagree
        Stabilized  the average of stable and predictive subsets
        Regression  significant in regression on all
        Lasso       kept by a cross-validated Lasso
        Marginal    correlated with the outcome
        Ridge       all, by ridge regression
        Forest      all, by a random forest
        Boosting    all, by gradient boosting
        Mixed       all, with a random intercept
        Anchor      all, robust against shifts of the means
        V-REx       all, with errors alike in all environments
        Oracle      the true features that are significant: for simulations

    With more than 16 features ICP, Hidden-ICP, EILLS and Stabilized run by default behind a Lasso
    screen. NAME-screen runs any of these, Stability or BIP behind a screen. Stability runs only if
    named. Ridge to V-REx predict with all features, and run if they are named or environments are
    held out. Oracle needs the true features.

    Examples
    --------
    >>> from invariance import compare
    >>> from invariance.datasets import make_example
    >>> compare(make_example(), ["BIP", "ICP"])["outcome"].to_dict()
    {'BIP': 'selected', 'ICP': 'selected'}
    """
    require_data(data, "compare")
    models = named_methods(methods, data.n_features, bip, left_out)
    # Constant features are no method's business: all results are over the features that vary.
    varying = replace(data, dropped_features=(), dropped_positions=())
    if left_out and data.n_environments == 1:
        raise DataError(
            "errors in environments left out need two of them or more, and there is one: add "
            "another."
        )
    screenings: dict[str, Screening] = {}
    rows = {name: _fit(model, varying, screenings) for name, model in models}
    if left_out:
        _add_errors(dict(models), rows, varying, progress)
    result = Comparison([*rows.values()], index=pd.Index([*rows], name="method"))
    result.attrs = {
        "outcome": data.outcome_name,
        "environments": data.environments,
        "n_rows": data.n_rows,
        "features": data.feature_names,
        "groups": data.features.groups,
        "error": kind_for(data).error_name if left_out else None,
    }
    return result


def _add_errors(
    models: Mapping[str, EnvironmentSelector],
    rows: dict[str, Fields],
    data: MultiEnvironmentData,
    progress: ProgressMode,
) -> None:
    """Fit without each environment, and add the errors there to the rows of the methods."""
    asked = {name: model for name, model in models.items() if rows[name]["outcome"] != "failed"}
    yardstick = next((name for name, model in asked.items() if type(model) is PooledRegression), "")
    asked.setdefault(yardstick, PooledRegression())
    errors = {name: np.full(data.n_environments, np.nan) for name in asked}
    reasons: dict[str, dict[Message, list[Hashable]]] = {name: defaultdict(list) for name in asked}
    data = data.with_classes() if kind_for(data).classifies else data
    table = data.to_frame()
    with ProgressBar("leaving out environments", data.n_environments * len(asked), progress) as bar:
        for e, label in enumerate(data.environments):
            screenings: dict[str, Screening] = {}
            for name, model in asked.items():
                try:
                    if isinstance(model, Screened) and isinstance(model.screen, Screening):
                        raise SettingError(
                            "its screen knows all environments: pass LassoScreen(), not what it "
                            "found."
                        )
                    with warnings.catch_warnings():
                        # The fit to all environments has warned already.
                        warnings.simplefilter("ignore")
                        fitted = _fitted(model, without(data, label), screenings)
                        errors[name][e] = error_in(e, fitted, data, table)
                except _FAILURES as error:
                    reasons[name][_reason(error)].append(label)
                bar.advance(1, name)
    for name in asked.keys() & rows.keys():
        found = pd.Series(errors[name])
        both = ~np.isnan(errors[name] + errors[yardstick])
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = errors[name][both].sum() / errors[yardstick][both].sum()
        missing = (
            Message(f"no error without {quoted(labels, 4)}: {reason.what}", *reason.remedies)
            for reason, labels in reasons[name].items()
        )
        rows[name] |= {
            "left_out": errors[name],
            "mean_error": found.mean(),
            "worst_error": found.max(),
            "error_ratio": ratio,
            "notes": (*rows[name]["notes"], *missing),
        }


def error_in(environment: int, model: Any, data: MultiEnvironmentData, table: Any) -> float:
    """Return the error in an environment, given by its position, of a model fitted without it.

    table : the data as a data frame.
    """
    rows = data.rows(environment)
    kind = kind_for(data)
    if model._outcome.kind != kind:
        what = f"it predicts {data.outcome_name} as a {model._outcome.kind.predicts}"
        raise DataError(f"{what}, which has no {kind.error_name}.")
    X = table.iloc[rows]
    fitted = np.delete(data.y, rows)
    if kind.censored:
        # Medians are infinite for all rows that are likely to outlive the longest time.
        predicted = model.predict_restricted_mean(X, fitted.max())
    elif is_classifier(model):
        predicted = model.predict_proba(X)[:, 1]
    else:
        predicted = model.predict(X)
    beside = {role: values[rows] for role, values in data.outcome_columns.items()}
    return kind.error(data.y[rows], np.asarray(predicted), **beside)


def named_methods(
    methods: Any, n_features: int, bip: BIP | None = None, left_out: bool = False
) -> list[tuple[str, EnvironmentSelector]]:
    """Return (name, unfitted estimator) pairs with distinct names."""
    if methods is None:
        methods = default_names(n_features, left_out)
    if isinstance(methods, str):
        methods = split_outside_brackets(methods)
    if isinstance(methods, Mapping):
        pairs = [(str(name), model) for name, model in methods.items()]
    else:
        pairs = [_known(m, bip) if isinstance(m, str) else (_name_of(m), m) for m in methods]
    if not pairs:
        raise SettingError(f"no methods to compare: name some of {', '.join(METHODS)}.")
    counts: Counter[str] = Counter()
    distinct = []
    for name, model in pairs:
        if not isinstance(model, EnvironmentSelector):
            kind = type(model).__name__
            raise WrongTypeError(
                f"method {name!r} is {kind}, which is not one of this package's methods."
            )
        counts[name] += 1
        distinct.append((name if counts[name] == 1 else f"{name} ({counts[name]})", model))
    return distinct


def _known(text: str, bip: BIP | None) -> tuple[str, EnvironmentSelector]:
    """Return the name in the comparison and the estimator of a text such as "ICP(max_size=3)"."""
    name, settings = read_call(text)
    found = next((known for known in METHODS if known.casefold() == name.casefold()), None)
    if found is None:
        hint = did_you_mean(name, list(METHODS))
        raise SettingError(
            f"no method is named {name!r}{hint or '.'} Known are {', '.join(METHODS)}."
        )
    method = METHODS[found]
    model = method.build(clone(bip) if bip is not None and method.load() is BIP else None)
    configured: Any = LassoScreen() if method.screened else model
    check_settings(type(configured).__name__, type(configured), settings)
    configured.set_params(**settings)
    if method.screened:
        model.set_params(screen=configured)
    return text.strip() if settings else found, model


def _name_of(model: Any) -> str:
    if isinstance(model, Screened):
        return f"{_name_of(model.estimator)}-screen"
    method = _registered(model)
    return type(model).__name__ if method is None else method.name


def _registered(model: Any) -> Method | None:
    """Return the method of this class and with these settings, without its screen."""
    for method in METHODS.values():
        settings = {name: getattr(model, name, None) for name in method.settings}
        if method.home.endswith(f":{type(model).__name__}") and settings == method.settings:
            return method
    return None


def _fitted(model: Any, data: MultiEnvironmentData, screenings: dict[str, Screening]) -> Any:
    """Return a fitted clone; equal screens are shared through the screenings of these data."""
    model = clone(model)
    if isinstance(model, Screened) and not isinstance(model.screen, Screening):
        screen = model.screen or LassoScreen()
        key = repr(sorted(screen.get_params().items()))
        if key not in screenings:
            screenings[key] = screen.screen(data)
        model.set_params(screen=screenings[key])
    return model.fit(data)


def _reason(error: Exception) -> Message:
    said = error.args[0] if isinstance(error, InvarianceError) else str(error)
    return said if isinstance(said, Message) else Message(said)


def _fit(model: Any, data: MultiEnvironmentData, screenings: dict[str, Screening]) -> Fields:
    """Return the results of a method: a row of the comparison."""
    single = data.features.widths == 1
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = _fitted(model, data, screenings)
    except _FAILURES as error:
        return _FAILED_ROW | {
            "status": np.full(data.n_features, "failed"),
            "coefficients": np.where(single, 0.0, np.nan),
            "column_coefficients": dict.fromkeys(data.features.columns, 0.0),
            "seconds": time.perf_counter() - started,
            "notes": (_reason(error),),
        }
    seconds = time.perf_counter() - started
    notes = []
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
    inner = model
    seen = np.ones(data.n_features, dtype=bool)
    if isinstance(model, Screened):
        inner = model.estimator_
        seen = feature_values(model, "screened_", data)
        by_correlation = (
            " by correlation, because the Lasso kept none" if model.used_fallback_ else ""
        )
        notes.append(
            f"{seen.sum()} of {data.n_features} features passed the screen{by_correlation}"
        )
    outcome = getattr(inner, "outcome_", "selected" if model.support_.any() else "empty")
    refused = "rejected" if outcome == "rejected" else "not selected"
    inside = np.where(feature_values(model, "support_", data), "selected", refused)
    by_column = dict(zip(model.columns_, model.coef_.tolist(), strict=True))
    weights = {column: by_column[column] for column in data.features.columns}
    row = _FAILED_ROW | {
        "outcome": outcome,
        "selected": model.selected_features_,
        "status": np.where(seen, inside, "screened out"),
        "inclusion_probabilities": feature_values(model, "inclusion_probabilities_", data),
        "p_values": feature_values(model, "p_values_", data),
        "coefficients": np.where(
            single, np.array([*weights.values()])[data.features.starts[:-1]], np.nan
        ),
        "column_coefficients": weights,
        "seconds": seconds,
    }
    by_least_squares = model._outcome.kind.by_least_squares
    if isinstance(inner, Baseline):
        method = _registered(inner)
        row["pooled"] = outcome == "all" or getattr(method, "kind", "") == "prediction"
        if data.design is not None and not row["pooled"]:
            what = "levels" if data.design.factors else "blocks"
            notes.append(f"compares {data.n_environments} {what} of {data.design.name}, as labels")
        by_least_squares = inner._as_number
    # BIP that was told to, and other methods that know no better
    row["as_number"] = by_least_squares and not kind_for(data).by_least_squares
    if isinstance(inner, BIP):
        decision = inner._decision  # without what only its text shows
        notes += inner.posterior_.notes
        row["model"] = model_in_words(inner.posterior_)
        row["level"] = decision.level
        row["verdict"] = None if decision.invariant else str(decision.verdict)
        if not decision.selects_by_posterior:
            row["inclusion_probabilities"] = None
            notes.append(
                f"no subset is compatible: the selection is {fallback(decision)}; it gives no "
                "probabilities"
            )
    return row | {"notes": tuple(dict.fromkeys(notes))}
