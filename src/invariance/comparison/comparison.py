"""Several methods on one data set, side by side."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from .._tools.arrays import Floats, Mask
from .._tools.files import write_text
from .._tools.settings import Value, read_call, split_outside_brackets
from ..baselines import (
    EILLS,
    ICP,
    HiddenICP,
    LassoSelection,
    MarginalSelection,
    Oracle,
    PooledRegression,
)
from ..baselines.screened import Screened
from ..data.checks import did_you_mean
from ..data.multi_environment import MultiEnvironmentData
from ..estimators.bip import BIP
from ..estimators.selector import EnvironmentSelector, require_data
from ..exceptions import DataWarning, EngineError, SettingError
from ..screening.lasso_screen import LassoScreen, Screening
from .text import comparison_summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes


METHODS: dict[str, Callable[[], EnvironmentSelector]] = {
    "BIP": BIP,
    "ICP": ICP,
    "Hidden-ICP": HiddenICP,
    "EILLS": EILLS,
    "Regression": PooledRegression,
    "Lasso": LassoSelection,
    "Marginal": MarginalSelection,
    "Oracle": Oracle,
    "BIP-screen": lambda: Screened(BIP()),
    "ICP-screen": lambda: Screened(ICP()),
    "Hidden-ICP-screen": lambda: Screened(HiddenICP()),
    "EILLS-screen": lambda: Screened(EILLS()),
}
_SCREENABLE = ("ICP", "Hidden-ICP", "EILLS")
_POOLED = ("Regression", "Lasso", "Marginal")
_POOLED_METHODS = (PooledRegression, LassoSelection, MarginalSelection)
# Beyond this many features those that need few take their screened form by default. BIP needs no screen.
_MOST_UNSCREENED = 16


STATUSES = ("selected", "not selected", "screened out", "rejected", "failed")


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method said.

    selected (p,); inclusion, p_values (p,) or None where the method has none, NaN for screened-out features and, with
    ICP, where the model is rejected; coefficients (p,): the features' weights in its predictions; seen (p,): passed
    the screen. outcome: "selected", "empty", "rejected" (ICP accepted no subset) or "failed", as `notes` explains.
    verdict: that even the most probable subset is far from invariant, where BIP says so. pooled: the method asks what
    predicts on all rows together, not what is invariant.
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

    @property
    def evidence(self) -> tuple[str, Floats] | None:
        """What the method attaches to each feature: its kind and (p,) values; None where it has no value at all."""
        for kind, values in (("inclusion probability", self.inclusion), ("p-value", self.p_values)):
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
    """Results of several methods on the same features; `print` shows them, `table` holds the numbers."""

    feature_names: tuple[str, ...]
    outcome_name: str
    environments: tuple[Any, ...]
    n_rows: int
    methods: tuple[MethodResult, ...]

    @property
    def table(self) -> pd.DataFrame:
        """One row per method and feature: status, selected, inclusion_probability, p_value, coefficient, seconds.

        status is "selected", "not selected", "screened out" (the method never saw the feature), "rejected" (ICP
        accepted no subset, so nothing was selected from any) or "failed".
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
            "methods": [
                {
                    "name": m.name,
                    "outcome": m.outcome,
                    "verdict": m.verdict,
                    "status": m.status.tolist(),
                    "selected": [name for name, flag in zip(self.feature_names, m.selected, strict=True) if flag],
                    "inclusion_probabilities": _numbers(m.inclusion),
                    "p_values": _numbers(m.p_values),
                    "coefficients": _numbers(m.coefficients),
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
        """The method × feature grid; see invariance.comparison_plot.plot_comparison."""
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
        -screen are the screen's), estimators, or a mapping from names to estimators; None is BIP, ICP, Hidden-ICP,
        EILLS and the three pooled selections. With more than 16 features ICP, Hidden-ICP and EILLS are behind a screen;
        BIP never is, unless BIP-screen is asked for. Screened methods with equal screens share one cross-validated
        path, which is timed apart and counted in the first of them.
    bip : what the names BIP and BIP-screen stand for; None is BIP() with its defaults

    A method that cannot handle the data is reported as failed, with its reason, and the others go on.
    """
    require_data(data, "compare")
    screenings: dict[str, Screening] = {}
    models = named_methods(methods, data.n_features, bip)
    # Constant features are no method's business: all results are over the features that vary.
    varying = replace(data, dropped_features=(), dropped_positions=())
    results = tuple(_fit(name, model, varying, screenings) for name, model in models)
    return Comparison(data.feature_names, data.outcome_name, data.environments, data.n_rows, results)


def named_methods(methods: Any, n_features: int, bip: BIP | None = None) -> list[tuple[str, EnvironmentSelector]]:
    """(name, unfitted estimator) pairs with distinct names."""
    if methods is None:
        suffix = "-screen" if n_features > _MOST_UNSCREENED else ""
        methods = ["BIP", *(name + suffix for name in _SCREENABLE), *_POOLED]
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
            raise TypeError(f"method {name!r} is {type(model).__name__}, which is not one of this package's methods.")
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
        raise SettingError(f"no method is named {name!r}{hint or ';'} Known are {', '.join(METHODS)}.")
    found = folded[name.casefold()]
    model = METHODS[found]()
    if bip is not None and found in ("BIP", "BIP-screen"):
        model = clone(bip) if found == "BIP" else Screened(clone(bip))
    return text.strip() if settings else found, _configured(model, settings)


def _configured(model: EnvironmentSelector, settings: dict[str, Value]) -> EnvironmentSelector:
    try:
        if isinstance(model, Screened):
            return model.set_params(screen=LassoScreen().set_params(**settings)) if settings else model
        return model.set_params(**settings)
    except ValueError as error:
        raise SettingError(str(error)) from None


def _name_of(model: Any) -> str:
    if isinstance(model, Screened):
        return f"{_name_of(model.estimator)}-screen"
    for name, factory in METHODS.items():
        if type(model) is factory:
            return name
    return type(model).__name__


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
        nothing = np.zeros(data.n_features)
        return MethodResult(
            name, "failed", nothing > 0, None, None, nothing, nothing == 0, time.perf_counter() - started, (str(error),)
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
    return MethodResult(
        name,
        getattr(inner, "outcome_", default),
        model.support_,
        getattr(model, "inclusion_probabilities_", None),
        getattr(model, "p_values_", None),
        model.coef_,
        model.screened_ if isinstance(model, Screened) else np.ones(data.n_features, dtype=bool),
        seconds,
        tuple(dict.fromkeys(notes)),
        None if verdict is None else str(verdict.sentence),
        isinstance(inner, _POOLED_METHODS),
    )


def _passed(model: Screened, n_features: int) -> str:
    n_passed = len(model.screened_features_)
    by_correlation = " by correlation, because the Lasso kept none" if model.used_fallback_ else ""
    others = "; the others were not looked at" if n_passed < n_features else ""
    return f"{n_passed} of {n_features} features passed the screen{by_correlation}{others}"


def _numbers(values: Floats | None) -> list[float | None] | None:
    if values is None:
        return None
    return [float(v) if math.isfinite(v) else None for v in values]
