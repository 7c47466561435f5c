"""Several methods on one data set, side by side."""

from __future__ import annotations

import json
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from sklearn.base import clone

from .baselines import EILLS, ICP, HiddenICP, LassoSelection, MarginalSelection, Oracle, PooledRegression
from .checks import DataWarning, did_you_mean
from .comparison_text import comparison_summary
from .data import MultiEnvironmentData
from .estimators import BIP
from .files import write_text
from .inference.base import EngineError
from .screening import Screened, Screening
from .selector import EnvironmentSelector

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

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
_POOLED = ("Regression", "Lasso", "Marginal")
# Beyond this many features the methods that visit every subset take their screened form by default.
_MOST_UNSCREENED = 16


@dataclass(frozen=True, eq=False)
class MethodResult:
    """What one method said.

    selected (p,); inclusion, p_values (p,) or None where the method has none, NaN for screened-out features;
    coefficients (p,): the features' weights in its predictions; seen (p,): passed the screen.
    outcome: "selected", "empty", "rejected" (ICP accepted no subset) or "failed", and then `notes` says why.
    """

    name: str
    outcome: str
    selected: NDArray[np.bool_]
    inclusion: Floats | None
    p_values: Floats | None
    coefficients: Floats
    seen: NDArray[np.bool_]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def evidence(self) -> tuple[str, Floats] | None:
        """What the method attaches to each feature: its kind and (p,) values."""
        if self.inclusion is not None:
            return "inclusion probability", self.inclusion
        return None if self.p_values is None else ("p-value", self.p_values)


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
        """One row per method and feature: selected, inclusion_probability, p_value, coefficient, seconds."""
        missing = np.full(len(self.feature_names), np.nan)
        return pd.concat(
            [
                pd.DataFrame(
                    {
                        "method": m.name,
                        "feature": list(self.feature_names),
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
        from .comparison_plot import plot_comparison

        return plot_comparison(self, ax, truth=truth)

    def __str__(self) -> str:
        return comparison_summary(self)

    __repr__ = __str__


def compare(
    data: MultiEnvironmentData,
    methods: Iterable[str | EnvironmentSelector] | Mapping[str, EnvironmentSelector] | None = None,
) -> Comparison:
    """Fit several methods to one data set.

    methods : names out of `invariance.comparison.METHODS`, estimators, or a mapping from names to estimators; None is
        BIP, ICP, Hidden-ICP, EILLS and the three pooled selections, the first four behind a screen when there are more
        than 16 features. Screened methods with equal screens share one cross-validated path, which is timed apart and
        counted in the first of them.

    A method that cannot handle the data is reported as failed, with its reason, and the others go on.
    """
    if not isinstance(data, MultiEnvironmentData):
        raise TypeError(
            f"compare needs a MultiEnvironmentData, not {type(data).__name__}: build one with "
            "MultiEnvironmentData.from_table(table, outcome=..., environment=...)."
        )
    screenings: dict[str, Screening] = {}
    results = tuple(_fit(name, model, data, screenings) for name, model in named_methods(methods, data.n_features))
    return Comparison(data.feature_names, data.outcome_name, data.environments, data.n_rows, results)


def named_methods(methods: Any, n_features: int) -> list[tuple[str, EnvironmentSelector]]:
    """(name, unfitted estimator) pairs with distinct names."""
    if methods is None:
        suffix = "-screen" if n_features > _MOST_UNSCREENED else ""
        methods = [*(name + suffix for name in ("BIP", "ICP", "Hidden-ICP", "EILLS")), *_POOLED]
    if isinstance(methods, str):
        methods = [part.strip() for part in methods.split(",")]
    if isinstance(methods, Mapping):
        pairs = [(str(name), model) for name, model in methods.items()]
    else:
        pairs = [_known(m) if isinstance(m, str) else (_name_of(m), m) for m in methods]
    if not pairs:
        raise ValueError(f"no methods to compare: name some of {', '.join(METHODS)}.")
    for name, model in pairs:
        if not isinstance(model, EnvironmentSelector):
            raise TypeError(f"method {name!r} is {type(model).__name__}, which is not one of this package's methods.")
    counts: dict[str, int] = {}
    distinct = []
    for name, model in pairs:
        counts[name] = counts.get(name, 0) + 1
        distinct.append((name if counts[name] == 1 else f"{name} ({counts[name]})", model))
    return distinct


def _known(name: str) -> tuple[str, EnvironmentSelector]:
    folded = {known.casefold(): known for known in METHODS}
    if name.casefold() not in folded:
        hint = did_you_mean(name, list(METHODS))
        raise ValueError(f"no method is named {name!r}{hint or ';'} Known are {', '.join(METHODS)}.")
    found = folded[name.casefold()]
    return found, METHODS[found]()


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
                    screenings[key] = model.used_screen.screen(data)
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
        passed = f"{len(model.screened_features_)} of {data.n_features} features passed the screen"
        notes.append(passed + (" by correlation: the Lasso kept none" if model.used_fallback_ else ""))
        inner = model.estimator_
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
        tuple(notes),
    )


def _numbers(values: Floats | None) -> list[float | None] | None:
    if values is None:
        return None
    return [float(v) if math.isfinite(v) else None for v in values]
