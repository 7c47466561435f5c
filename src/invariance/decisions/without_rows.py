"""What a fit to second moments does not know, and what tells it."""

from __future__ import annotations

from collections.abc import Iterator

from .._tools.arrays import Mask
from ..conditionals.base import BoundConditional
from ..conditionals.compared import VARIANCE
from ..conditionals.gaussian import GaussianModel
from ..data.checks import quoted
from ..moments.moments import Moments

REMEDY = "fit_moments(moments, rows=...) reads the rows again for that"


def moments_notes(moments: Moments, model: BoundConditional) -> tuple[str, ...]:
    """Sentences for who reads the result of a fit to moments."""
    return tuple(_notes(moments, VARIANCE in model.compares))


def _notes(moments: Moments, compares_variances: bool) -> Iterator[str]:
    second = moments.second
    if second is None or second.fourths is None:
        tails = "p-values of equal variances, which heavy tails make too small, and " if compares_variances else ""
        yield (
            f"second moments alone are known: {tails}intervals of predictions take errors for normally distributed; "
            f"{REMEDY}."
        )
        return
    times = {1: "once", 2: "twice"}.get(second.n_readings, f"{second.n_readings} times")
    yield f"the rows were read again, {times}, for what second moments do not tell."
    unseen = [name for name in moments.feature_names if not _seen(moments, name, second.fourths.columns)]
    if unseen and compares_variances:
        yield (
            f"tails were looked at in subsets of {moments.n_features - len(unseen):,} leading features; residuals of "
            f"subsets with others ({quoted(unseen, 4)}) count as normal, which makes p-values of equal variances too "
            "small where tails are heavy: a feature that these alone speak against may break invariance, or not."
        )


def tails_unseen(model: BoundConditional, mask: Mask) -> bool:
    """Whether residuals of the subset (p,) count as normal though the rows were read again: for other columns."""
    if VARIANCE not in model.compares or not isinstance(model, GaussianModel) or model.fourths is None:
        return False
    return model.fourths.places(model.features.chosen(mask).columns) is None


def _seen(moments: Moments, feature: str, columns: tuple[str, ...]) -> bool:
    return set(moments.groups.get(feature, (feature,))) <= set(columns)
