"""Why subsets are outside the support of a linear Gaussian model, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from .._tools.arrays import Mask
from ..data.checks import quoted
from ..moments.moments import Moments

# Subsets that are looked at for causes, the smallest first.
_EXAMPLES = 64
_MOST_SENTENCES = 3
_FROM_ROWS = (
    "more than second moments can resolve: build LinearGaussian from the data, or let fit_moments(moments, rows=...) "
    "read the rows again"
)


@dataclass(frozen=True, eq=False)
class Cause:
    """Features that, once a subset holds all of them, put it outside the support, and the groups where they do.

    shares: what they leave of the outcome's variance in these groups, or NaN where they are themselves collinear.
    """

    features: Mask
    groups: tuple[int, ...]
    shares: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Unsupported:
    """Subsets with log ratio -inf. too_large, undecidable (S,): bool; features: the names involved; reasons: sentences.

    too_large: an environment has too few rows for them; undecidable: any other cause.
    """

    too_large: Mask
    undecidable: Mask
    features: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def count(self) -> int:
        return int((self.too_large | self.undecidable).sum())

    def __str__(self) -> str:
        subsets = "1 subset" if self.count == 1 else f"{self.count:,} subsets"
        return f"{subsets} outside the support" + (": " + "; ".join(self.reasons) if self.reasons else "")


def without_value(masks: Mask, outside: Mask, names: Sequence[str]) -> Unsupported:
    """The subsets where `outside` (S,) holds, of which nothing is known but that the model has no value for them."""
    smallest = min((mask for mask in masks[outside]), key=np.sum, default=np.zeros(len(names), dtype=bool))
    involved = tuple(name for name, flag in zip(names, smallest, strict=True) if flag)
    subset = f"{{{', '.join(involved)}}}"
    reasons = (f"the model has no value for {subset}",) if outside.any() else ()
    return Unsupported(np.zeros_like(outside), outside, involved, reasons)


def find_causes(
    masks: Mask, decidable: Callable[[Mask], Mask], places: Callable[[Mask], tuple[tuple[int, ...], tuple[float, ...]]]
) -> list[Cause]:
    """The smallest undecidable subsets inside some of the undecidable `masks` (S, p), small ones first."""
    causes: list[Cause] = []
    smallest_first = np.argsort(masks.sum(axis=1), kind="stable")
    for mask in masks[smallest_first[:_EXAMPLES]]:
        if any((mask & cause.features).sum() == cause.features.sum() for cause in causes):
            continue
        smallest = mask.copy()
        for j in np.flatnonzero(mask):
            smallest[j] = False
            smallest[j] = decidable(smallest[None])[0]
        causes.append(Cause(smallest, *places(smallest)))
    return causes


def too_few_rows(moments: Moments, masks: Mask) -> list[str]:
    """A sentence where some of masks (S, p) have more columns than an environment's rows can fit."""
    needed = masks.astype(float) @ moments.varying_widths[:-1].T
    room = moments.counts - 2
    short = np.flatnonzero((needed > room).any(axis=0))
    if not len(short):
        return []
    e = int(short[np.argmin(room[short])])
    label, n = moments.environments[e], moments.counts[e]
    what = "columns of features" if moments.features.grouped else "features"
    return [f"environment {label!r} has {n} rows, too few to fit more than {max(room[e], 0)} {what} that vary there"]


def reasons_of(causes: Iterable[Cause], moments: Moments, from_rows: bool, remedy: str = _FROM_ROWS) -> list[str]:
    """One sentence for all collinear features, and one for each set that explains the outcome too well."""
    causes = list(causes)
    collinear = [cause for cause in causes if np.isnan(cause.shares).any()]
    reasons = []
    if collinear:
        names = _names(np.any([cause.features for cause in collinear], axis=0), moments)
        groups = sorted({g for cause in collinear for g in cause.groups})
        reasons.append(f"{quoted(names)} are too collinear {_where(groups, moments)}, {remedy}")
    explaining = [cause for cause in causes if not np.isnan(cause.shares).any()]
    leading = explaining[:_MOST_SENTENCES]
    reasons += [_determined(cause, moments) if from_rows else _explained(cause, moments, remedy) for cause in leading]
    if len(explaining) > _MOST_SENTENCES:
        reasons.append(f"likewise for {len(explaining) - _MOST_SENTENCES} more sets of features")
    return reasons


def _determined(cause: Cause, moments: Moments) -> str:
    names = _names(cause.features, moments)
    everywhere = moments.n_environments in cause.groups
    place = "" if everywhere else f"{_where(cause.groups, moments)} "
    if len(names) == 1:
        return (
            f"{place}{names[0]!r} determines the outcome exactly (a copy, or an exact linear function of it): subsets "
            "that hold it have no residual and are left out. Remove it from the features"
        )
    return (
        f"{place}{quoted(names)} together determine the outcome exactly: subsets that hold them all have no residual "
        "and are left out. Remove one of them from the features"
    )


def _explained(cause: Cause, moments: Moments, remedy: str) -> str:
    names = _names(cause.features, moments)
    verb = "explains" if len(names) == 1 else "together explain"
    share = max(cause.shares)
    rest = f"{share:.0e}" if share > 1e-14 else "rounding"
    return (
        f"{_where(cause.groups, moments)} {quoted(names)} {verb} all but {rest} of the outcome's variance (a strong "
        f"intervention, or a copy of the outcome), {remedy}"
    )


def _names(features: Mask, moments: Moments) -> list[str]:
    return [moments.feature_names[j] for j in np.flatnonzero(features)]


def _where(groups: Iterable[int], moments: Moments) -> str:
    labels = [moments.environments[g] for g in groups if g < moments.n_environments]
    if not labels:
        return "over all rows"
    return f"in environment{'s' if len(labels) > 1 else ''} {quoted(labels)}"
