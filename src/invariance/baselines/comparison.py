"""Several methods on one data set, side by side."""

from __future__ import annotations

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone, is_classifier

from .._tools.arrays import Floats, Mask
from .._tools.json import written
from .._tools.plotting import PLAIN, TRUE, Size, axes_for, plain_ticks, save_drawing, title, widest
from .._tools.progress import ProgressBar, ProgressMode
from .._tools.registry import check_settings, read_call, split_outside_brackets
from .._tools.sections import Rendered, Section
from .._tools.text import COLUMNS, display_width, duration, format_subset, name_labels, shorten
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
from ..prediction.new_environments import few_environments
from ..screening import LassoScreen, Screening
from .base import Baseline, Screened, feature_values, kind_for
from .registry import LISTING, METHODS, REMARKS, default_names
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
_FAVOURABLE = {"inclusion probability": "inclusion probability near 1", "p-value": "p-value near 0"}
_OUTCOMES = {
    "empty": "nothing selected",
    "rejected": "model rejected",
    "failed": "failed",
    "all": "uses all",
}
# Fields of a result that JSON has under the same name.
_WRITTEN = (
    *(
        "name",
        "outcome",
        "verdict",
        "level",
        "model",
        "as_number",
        "status",
        "p_values",
        "coefficients",
    ),
    *("column_coefficients", "seconds", "notes", "mean_error", "worst_error", "error_ratio"),
)
_FAILURES = ValueError, EngineError, np.linalg.LinAlgError
# in text
_NAME_WIDTH = 18
_TITLE_WIDTH = 17
# in the picture
_LONGEST_LABEL = 24
_MOST_DRAWN = 40


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method said.

    outcome : "selected", "empty", "rejected" (ICP accepted no subset), "failed", as `notes`
        explains, or "all": it predicts with all features and chooses none
    selected, seen : (p,); seen: passed the screen
    coefficients : (p,) the features' weights in its predictions, NaN for a feature of several
        columns
    column_coefficients : those of all columns, by name
    inclusion, p_values : (p,), None where the method has none or did not select by it; NaN for
        screened-out features and for a rejected model
    verdict, model : what differs between environments given the selected features, and the model of
        the outcome with its reason, if BIP says so; level : of invariance of these features, by BIP
    pooled : it asks what predicts on all rows together; as_number : it fits labels or counts by
        least squares
    left_out : {environment: error there of what was selected and fitted without it}, NaN where
        there is none; None where nobody asked; error_ratio : mean error over that of pooled
        regression on all features, in the environments where both have one
    """

    name: str
    outcome: str
    selected: Mask
    seen: Mask
    coefficients: Floats
    column_coefficients: Mapping[str, float]
    seconds: float
    notes: tuple[str, ...] = ()
    inclusion: Floats | None = None
    p_values: Floats | None = None
    verdict: str | None = None
    level: str | None = None
    model: str | None = None
    pooled: bool = False
    as_number: bool = False
    left_out: Mapping[Hashable, float] | None = None
    error_ratio: float = np.nan

    @property
    def mean_error(self) -> float:
        """Over the environments left out that have an error, each counting once; NaN where none
        has."""
        return float(np.mean(self._errors)) if len(self._errors) else np.nan

    @property
    def worst_error(self) -> float:
        return float(np.max(self._errors)) if len(self._errors) else np.nan

    @property
    def _errors(self) -> Floats:
        errors = np.array([*(self.left_out or {}).values()])
        return errors[~np.isnan(errors)]

    @property
    def differing(self) -> str:
        """What differs between environments given the selected features, in a few words; empty if
        nothing does."""
        if self.verdict is None:
            return ""
        free = LEFT_FREE.get(self.level or "")
        return (
            "the selected features are not invariant"
            if free is None
            else f"{free} differ between environments"
        )

    @property
    def evidence(self) -> tuple[str, Floats] | None:
        """What the method selects by: its kind and (p,) values; None where it has no value at
        all."""
        for kind, values in zip(_FAVOURABLE, (self.inclusion, self.p_values), strict=True):
            if values is not None and not np.isnan(values).all():
                return kind, values
        return None

    @property
    def status(self) -> NDArray[np.str_]:
        """(p,) one of STATUSES: what the method said of each feature, if anything."""
        if self.outcome == "failed":
            return np.full(self.seen.shape, "failed")
        inside = np.where(
            self.selected, "selected", "rejected" if self.outcome == "rejected" else "not selected"
        )
        return np.where(self.seen, inside, "screened out")


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(Rendered):
    """Results of several methods on the same features; groups : {feature: its columns} of those
    with several

    error : name of the error in environments left out: RMSE of numbers, log loss of two classes,
        Poisson deviance of counts, 1 − concordance of times, the smaller the better; None where
        nobody asked
    """

    feature_names: tuple[str, ...]
    outcome_name: str
    environments: tuple[Any, ...]
    n_rows: int
    methods: tuple[MethodResult, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    error: str | None = None

    @property
    def table(self) -> pd.DataFrame:
        """One row per method and feature, with the values of `MethodResult`; status : one of
        STATUSES"""
        frames = []
        of_method = ("outcome", "seconds", "mean_error", "worst_error", "error_ratio")
        for m in self.methods:
            frame = pd.DataFrame(
                {"method": m.name, "feature": list(self.feature_names), "status": m.status}
            )
            frame["selected"] = m.selected
            frame["inclusion_probability"] = np.nan if m.inclusion is None else m.inclusion
            frame["p_value"] = np.nan if m.p_values is None else m.p_values
            frames.append(
                frame.assign(
                    coefficient=m.coefficients, **{name: getattr(m, name) for name in of_method}
                )
            )
        return pd.concat(frames, ignore_index=True)

    @property
    def selected(self) -> pd.DataFrame:
        """Method × feature: whether it was selected."""
        masks = np.array([m.selected for m in self.methods])
        names = pd.Index([m.name for m in self.methods], name="method")
        return pd.DataFrame(
            masks, index=names, columns=pd.Index(self.feature_names, name="feature")
        )

    @property
    def errors(self) -> pd.DataFrame:
        """Method × environment: the error there of what was selected and fitted without it, NaN
        where there is none."""
        rows = [
            [(m.left_out or {}).get(label, np.nan) for label in self.environments]
            for m in self.methods
        ]
        names = pd.Index([m.name for m in self.methods], name="method")
        return pd.DataFrame(
            rows, index=names, columns=pd.Index(self.environments, name="environment")
        )

    def leading(self, limit: int) -> NDArray[np.intp]:
        """All features while they are few; else those that weigh most, in the order of the data:
        every method has one vote, which the features that it selected share."""
        if len(self.feature_names) <= limit:
            return np.arange(len(self.feature_names))
        weight = np.sum([m.selected / max(m.selected.sum(), 1) for m in self.methods], axis=0)
        order = np.argsort(-weight, kind="stable")[:limit]
        return np.sort(order[weight[order] > 0])

    def to_json(self, path: str | Path | None = None) -> str:
        """Strict JSON (a number that does not exist is null); also written to `path` when given.
        Errors left out are in the order of the environments."""
        labels = [
            label if isinstance(label, (str, int, float)) else str(label)
            for label in self.environments
        ]
        names = np.array(self.feature_names, dtype=object)
        methods = [
            {name: getattr(m, name) for name in _WRITTEN}
            | {"selected": names[m.selected], "inclusion_probabilities": m.inclusion}
            | {"left_out": None if m.left_out is None else [*m.left_out.values()]}
            for m in self.methods
        ]
        about = {
            "format": "invariance.comparison/3",
            "outcome": self.outcome_name,
            "environments": labels,
        }
        features = {"n_rows": self.n_rows, "features": self.feature_names, "groups": self.groups}
        content = about | features | {"error": self.error, "methods": methods}
        return written(content, path)

    def plot(self, ax: Axes | None = None, truth: Iterable[str] | ArrayLike | None = None) -> Axes:
        """One row per method, one column per feature: a square for what the method said of it.

        Shows up to 40 features, those that `leading` finds. `truth` (names or a mask (p,)) marks
        the features that are truly invariant. Without `ax` a new figure of pyplot is made; it is at
        `ax.figure`.
        """
        true = (
            np.zeros(len(self.feature_names), bool)
            if truth is None
            else as_mask(truth, self.feature_names)
        )
        shown = self.leading(_MOST_DRAWN)
        n = len(self.methods)
        k = len(shown)
        ax = axes_for(ax, self._plot_size)
        from matplotlib.patches import Patch, Rectangle

        looks: dict[str, dict[str, Any]] = {
            status: {
                "facecolor": face,
                "edgecolor": "0.8" if hatch is None else "0.55",
                "hatch": hatch,
            }
            for status, (_, _, face, hatch) in STATUSES.items()
        }
        drawn = [method.status[shown].tolist() for method in self.methods]
        for row, statuses in enumerate(drawn):
            for column, status in enumerate(statuses):
                ax.add_patch(Rectangle((column - 0.45, row - 0.45), 0.9, 0.9, **looks[status]))
        occurring = {status for statuses in drawn for status in statuses}
        handles = [
            Patch(**looks[status], label=status) for status in STATUSES if status in occurring
        ]
        ax.legend(
            handles=handles,
            loc="upper left",
            bbox_to_anchor=(1.02, 1.0),
            frameon=False,
            fontsize="small",
        )
        ax.set_xlim(-0.6, max(k, 1) - 0.4)
        ax.set_ylim(n - 0.4, -0.6)
        ax.set_aspect("equal")
        names = name_labels([self.feature_names[j] for j in shown], _LONGEST_LABEL)
        ax.set_xticks(np.arange(k), names, rotation=60, ha="right", rotation_mode="anchor")
        names = [f"{m.name} (least squares)" if m.as_number else m.name for m in self.methods]
        ax.set_yticks(np.arange(n), name_labels(names, _LONGEST_LABEL))
        plain_ticks(ax)
        for tick, j in zip(ax.get_xticklabels(), shown, strict=True):
            if true[j]:
                tick.set(color=TRUE, fontweight="bold")
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_xlabel(
            f"feature ({k} of {len(self.feature_names):,})"
            if k < len(self.feature_names)
            else "feature"
        )
        ax.set_ylabel("method")
        true_ones = "" if truth is None else "; true features in green"
        what = f"Selected for {shorten(self.outcome_name, _LONGEST_LABEL)}{true_ones}"
        doubts = [f"{m.name}: {m.differing}" for m in self.methods if m.differing]
        title(ax, "\n".join([*doubts, what]))
        return ax

    def save_plot(self, path: str | Path) -> Path:
        """Write the picture to a file whose ending gives the format (png when there is none)."""
        return save_drawing(self.plot, self._plot_size, path)

    @property
    def _plot_size(self) -> Size:
        """Inches of a figure with room for the names."""
        shown = self.leading(_MOST_DRAWN)
        names = widest(name_labels([self.feature_names[j] for j in shown], _LONGEST_LABEL))
        # Names of features stand at 60 degrees: the first reaches to the left, where the methods'
        # names are.
        methods = [f"{m.name} (least squares)" if m.as_number else m.name for m in self.methods]
        left = max(widest(name_labels(methods, _LONGEST_LABEL)), 0.5 * names)
        height = 1.3 + max(0.87 * names, 0.5) + 0.32 * max(len(self.methods), 4)
        return 3.6 + max(left, 1.0) + 0.32 * max(len(shown), 6), height

    @property
    def sections(self) -> Iterator[Section]:
        """Doubts about the answers, a feature × method grid, one line per method."""
        doubts = [f"{m.name}: {m.verdict}" for m in self.methods if m.verdict is not None]
        unexplained = any(m.verdict is not None and m.level not in LEFT_FREE for m in self.methods)
        features = f"{len(self.feature_names):,} features"
        n_environments = len(self.environments)
        said = (
            f"Outcome {self.outcome_name}: {self.n_rows:,} rows, {features}, environments: "
            f"{n_environments}"
        )
        yield Section(said, sentences=(*doubts, CAUSES) if unexplained else tuple(doubts))
        # What fits labels or counts by least squares answers another question: it stands apart.
        comparable = [m for m in self.methods if not m.as_number]
        titles = name_labels([m.name for m in comparable], _TITLE_WIDTH)
        fitted = [
            (title, m) for title, m in zip(titles, comparable, strict=True) if m.outcome != "failed"
        ]
        shown = self.leading(MOST_FEATURES)
        if fitted and len(shown):
            names = ("feature", *name_labels([self.feature_names[j] for j in shown], _NAME_WIDTH))
            chose = [(title, method) for title, method in fitted if method.outcome != "all"]
            columns = [(title, *(_cell(method, int(j)) for j in shown)) for title, method in chose]
            yield from _side_by_side(names, columns)
        hidden = np.delete(np.sum([m.selected for m in self.methods], axis=0), shown)
        if len(hidden):
            yield Section(
                f"Not shown: {len(hidden):,} features, selected by at most {hidden.max()} of the "
                "methods."
            )
        errors = ("mean", "worst", "ratio") if self.error is not None else ()
        rows: list[tuple[str, ...]] = [("method", "features", *errors, "time")]
        for heading, m in zip(titles, comparable, strict=True):
            what = _OUTCOMES.get(m.outcome, f"{m.selected.sum():,} selected")
            seconds = f"{1000 * m.seconds:.1f} ms" if m.seconds < 1.0 else duration(m.seconds)
            figures = [
                _figure(m.mean_error, ".4g"),
                _figure(m.worst_error, ".4g"),
                _figure(m.error_ratio, ".3f"),
            ]
            rows.append((heading, what, *figures[: len(errors)], seconds))
        notes = (
            f"- {title}: {note}"
            for title, m in zip(titles, comparable, strict=True)
            for note in m.notes
        )
        legend = _legend([m for _, m in fitted])
        left_out = (
            "" if self.error is None else f", and their {self.error} in environments left out"
        )
        about = tuple(self._about_errors())
        if comparable:
            yield Section(
                f"Methods{left_out}",
                about,
                table=tuple(rows),
                text_columns=(0, 1),
                notes=(*notes, *legend),
            )
        apart = [m for m in self.methods if m.as_number]
        if apart:
            why = (
                f"They fit {self.outcome_name}, which is no measured number, by least squares: "
                "what they select and "
                "their p-values are of another model, and not to be compared."
            )
            told = tuple((m.name, self._chosen(m)) for m in apart)
            more = tuple(f"- {m.name}: {note}" for m in apart for note in m.notes)
            yield Section("Apart: by least squares", (why,), facts=told, notes=more)

    def _chosen(self, method: MethodResult) -> str:
        """What a method selected, in words."""
        names = [
            name for name, flag in zip(self.feature_names, method.selected, strict=True) if flag
        ]
        return format_subset(names) if names else _OUTCOMES.get(method.outcome, "nothing selected")

    def _about_errors(self) -> Iterator[str]:
        n = len(self.environments)
        if self.error is None:
            return
        yield (
            "Each environment is predicted by each method, fitted without it: mean and worst "
            f"over {n} environments, "
            "and the mean relative to pooled regression on all features. What is selected is not "
            "always what predicts: "
            "Regression predicts with all features, and by default so does BIP, unless these fail."
        )
        few = few_environments(n)
        if few:
            yield f"{few[:1].upper()}{few[1:]}"


def _figure(value: float, form: str) -> str:
    return "–" if np.isnan(value) else format(value, form)


def _side_by_side(names: tuple[str, ...], columns: list[tuple[str, ...]]) -> Iterator[Section]:
    """As many methods as a line has room for, then the next."""
    room = COLUMNS - 2 - max(map(display_width, names))
    while columns:
        ends = np.cumsum([2 + max(map(display_width, column)) for column in columns])
        n = max(int(np.sum(ends <= room)), 1)
        table = tuple(zip(names, *columns[:n], strict=True))
        yield Section("Selected", table=table, text_columns=tuple(range(n + 1)))
        columns = columns[n:]


def _cell(method: MethodResult, j: int) -> str:
    mark = STATUSES[str(method.status[j])][0]
    value = np.nan if method.evidence is None else float(method.evidence[1][j])
    return mark if np.isnan(value) else f"{mark} {format_probability(value)}"


def _legend(fitted: list[MethodResult]) -> Iterator[str]:
    """What the marks and the values of these methods mean."""
    seen = {str(status) for m in fitted if m.outcome != "all" for status in m.status}
    evidence = {m.name: m.evidence[0] for m in fitted if m.evidence is not None}
    favourable = [
        f"{text} ({', '.join(name for name, found in evidence.items() if found == kind)})"
        for kind, text in _FAVOURABLE.items()
        if kind in evidence.values()
    ]
    for listed, text, separator in (
        (
            [f"{mark} {text}" for status, (mark, text, *_) in STATUSES.items() if status in seen],
            "",
            "; ",
        ),
        (favourable, "Evidence for a feature: ", " or "),
        ([m.name for m in fitted if m.pooled], "By prediction, not by invariance: ", ", "),
    ):
        if listed:
            yield f"{text}{separator.join(listed)}."


def compare(
    data: MultiEnvironmentData,
    methods: Iterable[str | EnvironmentSelector] | Mapping[str, EnvironmentSelector] | None = None,
    bip: BIP | None = None,
    left_out: bool = False,
    progress: ProgressMode = "auto",
) -> Comparison:
    """Fit several methods to one data set. One that cannot handle it is reported as failed, with
    its reason.

    methods : names out of `invariance.baselines.comparison.METHODS`, also with settings
        ("ICP(max_size=3)"; those of a name with -screen are the screen's), estimators, or a mapping
        from names to estimators; None is all that need not be told the truth. Screened methods with
        equal screens share one, counted in the seconds of the first.
    bip : what the names BIP and BIP-screen stand for; None is BIP() with its defaults
    left_out : also predict each environment by what each method selects and fits without it, and
        tell the errors
    progress : of leaving environments out, as in BIP
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
    results = tuple(_fit(name, model, varying, screenings) for name, model in models)
    if left_out:
        results = _with_errors(models, results, varying, progress)
    about = data.feature_names, data.outcome_name, data.environments, data.n_rows
    return Comparison(
        *about, results, data.features.groups, kind_for(data).error_name if left_out else None
    )


def _with_errors(
    models: list[tuple[str, EnvironmentSelector]],
    results: tuple[MethodResult, ...],
    data: MultiEnvironmentData,
    progress: ProgressMode,
) -> tuple[MethodResult, ...]:
    """The results with their errors in environments left out."""
    asked: dict[str | None, Any] = {
        m.name: model
        for (_, model), m in zip(models, results, strict=True)
        if m.outcome != "failed"
    }
    yardstick = next(
        (name for name, model in asked.items() if type(model) is PooledRegression), None
    )
    if yardstick is None:
        asked[None] = PooledRegression()
    errors: dict[str | None, dict[Hashable, float]] = {name: {} for name in asked}
    reasons: dict[str | None, dict[Message, list[Hashable]]] = {
        name: defaultdict(list) for name in asked
    }
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
                        others = data.choosing(
                            [other for other in data.environments if other != label]
                        )
                        errors[name][label] = error_in(
                            e, _fitted(model, others, screenings), data, table
                        )
                except _FAILURES as error:
                    errors[name][label] = np.nan
                    reasons[name][_reason(error)].append(label)
                bar.advance(1, name or "")

    def with_errors(m: MethodResult) -> MethodResult:
        notes = list(m.notes)
        ratio = _ratio(errors[m.name], errors[yardstick])
        for reason, labels in reasons[m.name].items():
            notes.append(
                Message(f"no error without {quoted(labels, 4)}: {reason.what}", *reason.remedies)
            )
        return replace(m, left_out=errors[m.name], error_ratio=ratio, notes=tuple(notes))

    return tuple(with_errors(m) if m.name in asked else m for m in results)


def error_in(environment: int, model: Any, data: MultiEnvironmentData, table: Any) -> float:
    """Of a model that was fitted without this environment, given by its place; table: the data as a
    data frame."""
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


def _ratio(errors: Mapping[Hashable, float], yardstick: Mapping[Hashable, float]) -> float:
    """Of the means over environments in which both are known; NaN where there are none."""
    pairs = np.array([[error, yardstick[label]] for label, error in errors.items()])
    both = pairs[~np.isnan(pairs).any(axis=1)]
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(both[:, 0].sum() / both[:, 1].sum()) if len(both) else np.nan


compare.__doc__ = f"{compare.__doc__}\n\n{LISTING}\n\n    {REMARKS}\n"


def named_methods(
    methods: Any, n_features: int, bip: BIP | None = None, left_out: bool = False
) -> list[tuple[str, EnvironmentSelector]]:
    """(name, unfitted estimator) pairs with distinct names."""
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
    """ "ICP(max_size=3)": what stands for it in the comparison, and the estimator with these
    settings."""
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
    name = type(model).__name__
    return next(
        (method.name for method in METHODS.values() if method.home.endswith(f":{name}")), name
    )


def _fitted(model: Any, data: MultiEnvironmentData, screenings: dict[str, Screening]) -> Any:
    """A clone, fitted; equal screens are found in, or added to, the screenings of these data."""
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


def _fit(
    name: str, model: Any, data: MultiEnvironmentData, screenings: dict[str, Screening]
) -> MethodResult:
    everything = np.ones(data.n_features, dtype=bool)
    single = data.features.widths == 1
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = _fitted(model, data, screenings)
    except _FAILURES as error:
        seconds = time.perf_counter() - started
        zeros = dict.fromkeys(data.features.columns, 0.0)
        nothing = ~everything, everything, np.where(single, 0.0, np.nan), zeros
        return MethodResult(name, "failed", *nothing, seconds, (_reason(error),))
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
    seen = everything
    if isinstance(model, Screened):
        inner = model.estimator_
        seen = feature_values(model, "screened_", data)
        by_correlation = (
            " by correlation, because the Lasso kept none" if model.used_fallback_ else ""
        )
        notes.append(
            f"{seen.sum()} of {data.n_features} features passed the screen{by_correlation}"
        )
    posterior = getattr(inner, "posterior_", None)
    decision = getattr(inner, "decision_", None)
    notes += () if posterior is None else posterior.notes
    inclusion = feature_values(model, "inclusion_probabilities_", data)
    if decision is not None and not decision.selects_by_posterior:
        inclusion = None
        notes.append(
            f"no subset is compatible: the selection is {fallback(decision)}; it gives no "
            "probabilities"
        )
    pooled = isinstance(
        inner, tuple(method.load() for method in METHODS.values() if method.kind == "prediction")
    )
    if data.design is not None and isinstance(inner, Baseline) and not pooled:
        what = "levels" if data.design.factors else "blocks"
        notes.append(f"compares {data.n_environments} {what} of {data.design.name}, as labels")
    by_column = dict(zip(model.columns_, model.coef_.tolist(), strict=True))
    weights = {column: by_column[column] for column in data.features.columns}
    # BIP where it was told to, and other methods that know no better.
    as_number = (
        inner._as_number if isinstance(inner, Baseline) else model._outcome.kind.by_least_squares
    )
    outcome = getattr(inner, "outcome_", "selected" if model.support_.any() else "empty")
    of_features = np.where(single, np.array([*weights.values()])[data.features.starts[:-1]], np.nan)
    found = outcome, feature_values(model, "support_", data), seen, of_features, weights, seconds
    return MethodResult(
        name,
        *found,
        tuple(dict.fromkeys(notes)),
        inclusion=inclusion,
        p_values=feature_values(model, "p_values_", data),
        verdict=None if decision is None or decision.invariant else str(decision.verdict),
        level=None if decision is None else decision.level,
        model=None if posterior is None else model_in_words(posterior),
        pooled=pooled,
        as_number=as_number and not kind_for(data).by_least_squares,
    )
