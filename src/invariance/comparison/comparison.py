"""Several methods on one data set, side by side."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from .._tools.arrays import Floats, Mask
from .._tools.files import write_text
from .._tools.settings import Value, is_a, read_call, split_outside_brackets
from ..baselines.registry import METHODS, compared_by_default, listing, name_of, remarks
from ..baselines.screened import Screened, feature_values
from ..conditionals.by_outcome import FAMILIES
from ..conditionals.predicts import Predicts, predicts_of
from ..conditionals.registry import GAUSSIAN
from ..data.checks import did_you_mean
from ..data.features import Features
from ..data.multi_environment import MultiEnvironmentData, require_data
from ..decisions.best_compatible import BestCompatible
from ..decisions.median import Median
from ..estimators.bip import BIP
from ..estimators.selector import EnvironmentSelector
from ..exceptions import DataWarning, EngineError, SettingError, WrongTypeError
from ..posterior.summary import model_in_words
from ..screening.lasso_screen import LassoScreen, Screening
from .text import comparison_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


STATUSES = ("selected", "not selected", "screened out", "rejected", "failed")


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method said.

    selected (p,); inclusion, p_values (p,) or None where the method has none, NaN for screened-out features and, with
    ICP, where the model is rejected; predictive_inclusion (p,): in the posterior over compatible subsets, where BIP
    selects by that, else None; coefficients (p,): the features' weights in its predictions, NaN for a feature of
    several columns; column_coefficients: those of all columns, by name; seen (p,): passed the screen. outcome:
    "selected", "empty", "rejected" (ICP accepted no subset) or "failed", as `notes` explains. verdict: that even the
    most probable subset is far from invariant, where BIP says so. pooled: the method asks what predicts on all rows
    together, not what is invariant. model: of the outcome, with the reason for it, where BIP says so. as_number: the
    method fits an outcome that is no number, or a count, by least squares.
    """

    name: str
    outcome: str
    selected: Mask
    inclusion: Floats | None
    p_values: Floats | None
    coefficients: Floats
    seen: Mask
    seconds: float
    notes: tuple[str, ...] = ()
    verdict: str | None = None
    pooled: bool = False
    column_coefficients: Mapping[str, float] = field(default_factory=dict)
    predictive_inclusion: Floats | None = None
    model: str | None = None
    as_number: bool = False

    @property
    def evidence(self) -> tuple[str, Floats] | None:
        """What the method selects by: its kind and (p,) values; None where it has no value at all."""
        for kind, values in (
            ("predictive inclusion", self.predictive_inclusion),
            ("inclusion probability", self.inclusion),
            ("p-value", self.p_values),
        ):
            if values is not None and not np.isnan(values).all():
                return kind, values
        return None

    @property
    def status(self) -> NDArray[np.str_]:
        """(p,) one of STATUSES: what the method said of each feature, if anything."""
        if self.outcome == "failed":
            return np.full(self.seen.shape, "failed")
        inside = np.where(self.selected, "selected", "rejected" if self.outcome == "rejected" else "not selected")
        return np.where(self.seen, inside, "screened out")


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of several methods on the same features; `print` shows them, `table` holds the numbers.

    groups : {feature: its columns} of the features that are not one column of the same name
    """

    feature_names: tuple[str, ...]
    outcome_name: str
    environments: tuple[Any, ...]
    n_rows: int
    methods: tuple[MethodResult, ...]
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def table(self) -> pd.DataFrame:
        """One row per method and feature: status, selected, inclusion_probability (BIP: in the posterior over invariant
        subsets), predictive_inclusion (in that over compatible subsets), p_value, coefficient, outcome, seconds.

        status is "selected", "not selected", "screened out" (the method never saw the feature), "rejected" (ICP
        accepted no subset, so nothing was selected from any) or "failed". coefficient is NaN for a feature of several
        columns; `MethodResult.column_coefficients` has theirs.
        """
        missing = np.full(len(self.feature_names), np.nan)
        return pd.concat(
            [
                pd.DataFrame(
                    {
                        "method": m.name,
                        "feature": list(self.feature_names),
                        "status": m.status,
                        "selected": m.selected,
                        "inclusion_probability": missing if m.inclusion is None else m.inclusion,
                        "predictive_inclusion": missing if m.predictive_inclusion is None else m.predictive_inclusion,
                        "p_value": missing if m.p_values is None else m.p_values,
                        "coefficient": m.coefficients,
                        "outcome": m.outcome,
                        "seconds": m.seconds,
                    }
                )
                for m in self.methods
            ],
            ignore_index=True,
        )

    @property
    def selected(self) -> pd.DataFrame:
        """Method × feature: whether it was selected."""
        masks = np.array([m.selected for m in self.methods])
        names = pd.Index([m.name for m in self.methods], name="method")
        return pd.DataFrame(masks, index=names, columns=pd.Index(self.feature_names, name="feature"))

    def to_json(self, path: str | Path | None = None) -> str:
        """Strict JSON (a number that does not exist is null); also written to `path` when given."""
        content = {
            "format": "invariance.comparison/1",
            "outcome": self.outcome_name,
            "environments": [
                label if isinstance(label, (str, int, float)) else str(label) for label in self.environments
            ],
            "n_rows": self.n_rows,
            "features": list(self.feature_names),
            "groups": {name: list(columns) for name, columns in self.groups.items()},
            "methods": [
                {
                    "name": m.name,
                    "outcome": m.outcome,
                    "verdict": m.verdict,
                    "model": m.model,
                    "as_number": m.as_number,
                    "status": m.status.tolist(),
                    "selected": [name for name, flag in zip(self.feature_names, m.selected, strict=True) if flag],
                    "inclusion_probabilities": _numbers(m.inclusion),
                    "predictive_inclusion": _numbers(m.predictive_inclusion),
                    "p_values": _numbers(m.p_values),
                    "coefficients": _numbers(m.coefficients),
                    "column_coefficients": dict(m.column_coefficients),
                    "seconds": m.seconds,
                    "notes": list(m.notes),
                }
                for m in self.methods
            ],
        }
        text = json.dumps(content, indent=1, allow_nan=False)
        if path is not None:
            write_text(Path(path), text + "\n")
        return text

    def plot(self, ax: Axes | None = None, truth: Any = None) -> Axes:
        """The method × feature grid; see invariance.comparison.plot.plot_comparison."""
        from .plot import plot_comparison

        return plot_comparison(self, ax, truth=truth)

    def __str__(self) -> str:
        return comparison_summary(self)

    __repr__ = __str__


def compare(
    data: MultiEnvironmentData,
    methods: Iterable[str | EnvironmentSelector] | Mapping[str, EnvironmentSelector] | None = None,
    bip: BIP | None = None,
) -> Comparison:
    """Fit several methods to one data set.

    methods : names out of `invariance.comparison.METHODS`, also with settings ("ICP(max_size=3)"; those of a name with
        -screen are the screen's), estimators, or a mapping from names to estimators; None is all that need not be told
        the truth. Screened methods with equal screens share one cross-validated path, which is timed apart and
        counted in the first of them.
    bip : what the names BIP and BIP-screen stand for; None is BIP() with its defaults

    A method that cannot handle the data is reported as failed, with its reason, and the others go on.

    """
    require_data(data, "compare")
    screenings: dict[str, Screening] = {}
    models = named_methods(methods, data.n_features, bip)
    # Constant features are no method's business: all results are over the features that vary.
    varying = replace(data, dropped_features=(), dropped_positions=())
    results = tuple(_fit(name, model, varying, screenings) for name, model in models)
    about = data.feature_names, data.outcome_name, data.environments, data.n_rows
    return Comparison(*about, results, data.features.groups)


compare.__doc__ = f"{compare.__doc__}\n{listing('    ')}\n\n    {remarks()}\n"


def named_methods(methods: Any, n_features: int, bip: BIP | None = None) -> list[tuple[str, EnvironmentSelector]]:
    """(name, unfitted estimator) pairs with distinct names."""
    if methods is None:
        methods = [method.name for method in compared_by_default(n_features)]
    if isinstance(methods, str):
        methods = split_outside_brackets(methods)
    if isinstance(methods, Mapping):
        pairs = [(str(name), model) for name, model in methods.items()]
    else:
        pairs = [_known(m, bip) if isinstance(m, str) else (_name_of(m), m) for m in methods]
    if not pairs:
        raise SettingError(f"no methods to compare: name some of {', '.join(METHODS)}.")
    for name, model in pairs:
        if not isinstance(model, EnvironmentSelector):
            kind = type(model).__name__
            raise WrongTypeError(f"method {name!r} is {kind}, which is not one of this package's methods.")
    counts: dict[str, int] = {}
    distinct = []
    for name, model in pairs:
        counts[name] = counts.get(name, 0) + 1
        distinct.append((name if counts[name] == 1 else f"{name} ({counts[name]})", model))
    return distinct


def _known(text: str, bip: BIP | None) -> tuple[str, EnvironmentSelector]:
    name, settings = read_call(text)
    folded = {known.casefold(): known for known in METHODS}
    if name.casefold() not in folded:
        hint = did_you_mean(name, list(METHODS))
        raise SettingError(f"no method is named {name!r}{hint or '.'} Known are {', '.join(METHODS)}.")
    method = METHODS[folded[name.casefold()]]
    model = method.build() if bip is None or method.load() is not BIP else method.around(clone(bip))
    return text.strip() if settings else method.name, _configured(model, settings)


def _configured(model: EnvironmentSelector, settings: dict[str, Value]) -> EnvironmentSelector:
    asked: Any = LassoScreen() if isinstance(model, Screened) else model
    kinds = signature(type(asked)).parameters
    for name, value in settings.items():
        kind = str(kinds[name].annotation) if name in kinds else "Any"
        if not is_a(value, kind):
            raise SettingError(f"{type(asked).__name__}: {name} cannot be {value!r}, it is of the kind {kind}.")
    try:
        asked.set_params(**settings)
    except ValueError as error:
        raise SettingError(str(error)) from None
    return model.set_params(screen=asked) if isinstance(model, Screened) and settings else model


def _name_of(model: Any) -> str:
    if isinstance(model, Screened):
        return f"{_name_of(model.estimator)}-screen"
    return name_of(type(model))


def _fit(
    name: str, model: EnvironmentSelector, data: MultiEnvironmentData, screenings: dict[str, Screening]
) -> MethodResult:
    model = clone(model)
    notes: list[str] = []
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if isinstance(model, Screened):
                key = repr(sorted(model.used_screen.get_params().items()))
                if key not in screenings:
                    screenings[key] = model.screening(data)
                model.fit_screened(data, screenings[key])
            else:
                model.fit_data(data)
    except (ValueError, EngineError, np.linalg.LinAlgError) as error:
        nothing, seconds = np.zeros(data.n_features, dtype=bool), time.perf_counter() - started
        weights = dict.fromkeys(data.features.columns, 0.0)
        return MethodResult(
            name,
            "failed",
            nothing,
            None,
            None,
            _one_each(weights, data.features),
            ~nothing,
            seconds,
            (str(error),),
            column_coefficients=weights,
        )
    seconds = time.perf_counter() - started
    for warning in caught:
        if issubclass(warning.category, DataWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    inner: Any = model
    if isinstance(model, Screened):
        notes.append(_passed(model, data.n_features))
        inner = model.estimator_
    posterior = getattr(inner, "posterior_", None)
    verdict = None if posterior is None else posterior.verdict
    notes += () if posterior is None else posterior.notes
    default = "selected" if model.support_.any() else "empty"

    def known(attribute: str) -> Any:
        """(p,), or None where the method has no such thing."""
        return feature_values(model, attribute, data) if hasattr(model, attribute) else None

    by_column = dict(zip(model.columns_, model.coef_.tolist(), strict=True))
    weights = {column: by_column[column] for column in data.features.columns}
    return MethodResult(
        name,
        getattr(inner, "outcome_", default),
        known("support_"),
        known("inclusion_probabilities_"),
        known("p_values_"),
        _one_each(weights, data.features),
        known("screened_") if isinstance(model, Screened) else np.ones(data.n_features, dtype=bool),
        seconds,
        tuple(dict.fromkeys(notes)),
        None if verdict is None else str(verdict.sentence),
        isinstance(inner, tuple(method.load() for method in METHODS.values() if method.kind == "prediction")),
        weights,
        _predictive_inclusion(inner, data) if isinstance(inner, BIP) else None,
        None if posterior is None else model_in_words(posterior),
        _fits_a_number(inner) and FAMILIES[data.outcome_kind[0]] != GAUSSIAN,
    )


def _fits_a_number(model: Any) -> bool:
    """All but BIP do, and BIP where it was told to."""
    return not isinstance(model, BIP) or predicts_of(model._conditional) is Predicts.number


def _predictive_inclusion(model: BIP, data: MultiEnvironmentData) -> Floats | None:
    """(p,) of the posterior that the features were selected by; NaN for screened-out features"""
    predictive = model.predictive_ if isinstance(model.decision_.rule, BestCompatible | Median) else None
    if predictive is None:
        return None
    by_name = dict(zip(predictive.feature_names, predictive.inclusion.tolist(), strict=True))
    return np.array([by_name.get(name, np.nan) for name in data.feature_names])


def _one_each(weights: Mapping[str, float], features: Features) -> Floats:
    """(p,) the weight of each feature's column; NaN where it has several."""
    first = [weights[features.columns[start]] for start in features.starts[:-1]]
    return np.where(features.widths == 1, first, np.nan)


def _passed(model: Screened, n_features: int) -> str:
    n_passed = len(model.screened_features_)
    by_correlation = " by correlation, because the Lasso kept none" if model.used_fallback_ else ""
    others = "; the others were not looked at" if n_passed < n_features else ""
    return f"{n_passed} of {n_features} features passed the screen{by_correlation}{others}"


def _numbers(values: Floats | None) -> list[float | None] | None:
    if values is None:
        return None
    return [float(v) if math.isfinite(v) else None for v in values]
