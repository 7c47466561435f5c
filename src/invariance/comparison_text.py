"""A comparison of methods as text within 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .summary import COLUMNS, MOST_FEATURES, display_width, format_probability, shorten, wrap
from .wording import duration

if TYPE_CHECKING:
    from .comparison import Comparison, MethodResult

SELECTED, LEFT, UNSEEN = "●", "·", "–"
_NAME_WIDTH = 18
_CELL_WIDTH = 8
_OUTCOMES = {
    "empty": "nothing selected",
    "rejected": "model rejected",
    "failed": "failed",
}


def comparison_summary(comparison: Comparison) -> str:
    """The comparison for a terminal: a feature × method grid, then one line per method."""
    return "\n".join(_lines(comparison))


def leading_features(comparison: Comparison, limit: int) -> NDArray[np.intp]:
    """All features while they are few; else those selected most often, in the order of the data."""
    votes = np.sum([m.selected for m in comparison.methods], axis=0)
    if len(votes) <= limit:
        return np.arange(len(votes))
    order = np.argsort(-votes, kind="stable")[:limit]
    return np.sort(order[votes[order] > 0])


def _lines(comparison: Comparison) -> Iterator[str]:
    n = len(comparison.environments)
    yield from wrap(
        f"Outcome {comparison.outcome_name}: {comparison.n_rows:,} rows, {len(comparison.feature_names):,} features, "
        f"{n} environment{'' if n == 1 else 's'}"
    )
    yield ""
    fitted = [m for m in comparison.methods if m.outcome != "failed"]
    shown = leading_features(comparison, MOST_FEATURES)
    if fitted and len(shown):
        yield from _grid(comparison, fitted, shown)
    hidden = len(comparison.feature_names) - len(shown)
    if hidden:
        yield f"{hidden:,} features that are selected least often, or never, are not shown."
        yield ""
    yield f"{'method':<{_NAME_WIDTH}} {'features':<18} {'value':<22} {'time':>12}"
    for method in comparison.methods:
        yield from _method_lines(method)
    yield ""
    yield from wrap(
        f"{SELECTED} selected, {LEFT} not selected, {UNSEEN} left out by the screen. Inclusion probabilities near 1, "
        "but p-values near 0, speak for a feature."
    )


def _grid(comparison: Comparison, fitted: list[MethodResult], shown: NDArray[np.intp]) -> Iterator[str]:
    names = [shorten(comparison.feature_names[j], _NAME_WIDTH) for j in shown]
    titles = [shorten(m.name, 17) for m in fitted]
    widths = [max(_CELL_WIDTH, display_width(title)) for title in titles]
    first = 0
    while first < len(fitted):
        last = first + 1
        while last < len(fitted) and _NAME_WIDTH + sum(w + 1 for w in widths[first : last + 1]) <= COLUMNS:
            last += 1
        panel = range(first, last)
        yield _padded("", _NAME_WIDTH) + "".join(" " + _padded(titles[m], widths[m]) for m in panel).rstrip()
        for name, j in zip(names, shown, strict=True):
            cells = "".join(" " + _padded(_cell(fitted[m], int(j)), widths[m]) for m in panel)
            yield (_padded(name, _NAME_WIDTH) + cells).rstrip()
        yield ""
        first = last


def _cell(method: MethodResult, j: int) -> str:
    if not method.seen[j]:
        return UNSEEN
    mark = SELECTED if method.selected[j] else LEFT
    value = np.nan if method.evidence is None else float(method.evidence[1][j])
    return mark if np.isnan(value) else f"{mark} {format_probability(value)}"


def _method_lines(method: MethodResult) -> Iterator[str]:
    count = int(method.selected.sum())
    what = _OUTCOMES.get(method.outcome, f"{count:,} selected")
    kind = "" if method.evidence is None else method.evidence[0]
    seconds = f"{1000 * method.seconds:.1f} ms" if method.seconds < 1.0 else duration(method.seconds)
    yield f"{_padded(shorten(method.name, _NAME_WIDTH), _NAME_WIDTH)} {what:<18} {kind:<22} {seconds:>12}"
    for note in method.notes:
        yield from wrap(note, "    ", "    ")


def _padded(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))
