"""What has to be said of the rows of a regression before anyone believes its fits: events, and what has none."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.layout import format_subset
from ..data.checks import listing
from .base import Remarks

if TYPE_CHECKING:
    from .regression_model import RegressionModel

# A fit that explains less of the log-likelihood than this does not come near to separating the rows.
_NEARLY_ALL = 0.5
_R2 = "R² is by the likelihood: 1 − exp(−2·gain/N), of the gain over the fit without features (Cox and Snell)."


def remarks_of(model: RegressionModel, masks: Mask) -> Remarks:
    """On the rows, and on the subsets in masks (S, p), those first that matter most."""
    notes = (_events(model), _R2, *model.specification.remarks(model, masks))
    return Remarks(
        notes, tuple(sentence for sentence in (_without_events(model), _separating(model, masks)) if sentence)
    )


def _events(model: RegressionModel) -> str:
    data = model.data
    events = np.bincount(data.environment_index, model.specification.events(data), data.n_environments)
    fewest = np.argsort(events, kind="stable")
    each = listing(f"{data.environments[e]!r} {events[e]:,.0f} in {data.counts[e]:,}" for e in fewest)
    return f"{events.sum():,.0f} events in {data.n_rows:,} rows, the fewest first: {each}."


def _without_events(model: RegressionModel) -> str:
    data, specification = model.data, model.specification
    events = np.bincount(data.environment_index, specification.events(data), data.n_environments)
    empty = np.flatnonzero(events == 0.0)
    full = np.flatnonzero(events == data.counts) if specification.two_values else empty[:0]
    found = [
        f"{what} in environment {listing(f'{data.environments[e]!r} ({data.counts[e]:,} rows)' for e in places)}"
        for what, places in (("there are no events", empty), ("every row is an event", full))
        if len(places)
    ]
    if not found:
        return ""
    rest = "rest on the pseudo-data there" if specification.pseudo_rows else "have no finite maximum there"
    return (
        f"{'; '.join(found)}: fits of its own {rest}. Merge it with a similar one, or leave it "
        "out, if that is not what you want to compare."
    )


def _separating(model: RegressionModel, masks: Mask) -> str:
    """That a subset tells the two values apart in all rows: then it looks invariant whatever the environments do."""
    if not model.specification.two_values:
        return ""
    found = [mask for mask in masks if separates(model, mask)]
    if not found:
        return ""
    names = format_subset([name for name, flag in zip(model.feature_names, found[0], strict=True) if flag])
    more = f" (and {len(found) - 1} more of the {len(masks)} leading subsets)" if len(found) > 1 else ""
    return (
        f"{names}{more} separates the two values of {model.data.outcome_name!r} in all rows: its log ratio then says "
        "nothing about invariance. Remove features that are copies or consequences of the outcome, or add rows."
    )


def separates(model: RegressionModel, mask: Mask) -> bool:
    """Whether some combination of the columns of a subset (p,) is higher in all rows with one value of the outcome than
    in all with the other."""
    data = model.data
    event = model.specification.events(data) > 0.0
    share = float(event.mean())
    fit = model.fit(mask, local=False)
    X = data.X[:, data.features.expand(mask)]
    predictor = X @ fit.coefficients + fit.intercept
    if predictor[event].min() > predictor[~event].max():
        return True
    log_likelihood = -float(np.logaddexp(0.0, np.where(event, -predictor, predictor)).sum())
    without = data.n_rows * (share * np.log(share) + (1.0 - share) * np.log1p(-share))
    return bool(log_likelihood > (1.0 - _NEARLY_ALL) * without and _plane_between(X, event))


def _plane_between(X: Floats, event: Mask) -> bool:
    """By a linear programme: whether sign·(b₀ + Xb) ≥ 1 has a solution."""
    from scipy.optimize import linprog

    scale = X.std(axis=0)
    columns = np.column_stack([np.ones(len(X)), (X - X.mean(axis=0)) / np.where(scale > 0.0, scale, 1.0)])
    signed = np.where(event, -1.0, 1.0)[:, None] * columns
    return (
        linprog(np.zeros(columns.shape[1]), signed, -np.ones(len(X)), bounds=(None, None), method="highs").status == 0
    )
