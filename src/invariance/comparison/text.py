"""A comparison of methods as text within 80 columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .._tools.layout import COLUMNS, display_width, name_labels, wrap
from .._tools.wording import duration
from ..posterior.summary import MOST_FEATURES, format_probability
from ..posterior.verdict import CAUSES

if TYPE_CHECKING:
    from .comparison import Comparison, MethodResult

MARKS = {"selected": "●", "not selected": "·", "screened out": "–", "rejected": "×"}
_MEANINGS = {
    "selected": "selected",
    "not selected": "not selected",
    "screened out": "left out by the screen, not looked at",
    "rejected": "model rejected: no subset was accepted, so the feature was not judged",
}
_NAME_WIDTH = 18
_TITLE_WIDTH = 17
_CELL_WIDTH = 8
_OUTCOMES = {
    "empty": "nothing selected",
    "rejected": "model rejected",
    "failed": "failed",
}


def comparison_summary(comparison: Comparison) -> str:
    """The comparison for a terminal: doubts about the answers, a feature × method grid, one line per method."""
    return "\n".join(_lines(comparison))


def leading_features(comparison: Comparison, limit: int) -> NDArray[np.intp]:
    """All features while they are few; else those that weigh most, in the order of the data.

    Every method has one vote, which the features that it selected share: who selects nearly all says little of each.
    """
    if len(comparison.feature_names) <= limit:
        return np.arange(len(comparison.feature_names))
    weight = np.sum([m.selected / max(m.selected.sum(), 1) for m in comparison.methods], axis=0)
    order = np.argsort(-weight, kind="stable")[:limit]
    return np.sort(order[weight[order] > 0])


def _lines(comparison: Comparison) -> Iterator[str]:
    n = len(comparison.environments)
    yield from wrap(
        f"Outcome {comparison.outcome_name}: {comparison.n_rows:,} rows, {len(comparison.feature_names):,} features, "
        f"{n} environment{'' if n == 1 else 's'}"
    )
    yield ""
    yield from _verdicts(comparison)
    titles = name_labels([m.name for m in comparison.methods], _TITLE_WIDTH)
    titled = list(zip(titles, comparison.methods, strict=True))
    fitted = [(title, m) for title, m in titled if m.outcome != "failed"]
    shown = leading_features(comparison, MOST_FEATURES)
    if fitted and len(shown):
        yield from _grid(comparison, fitted, shown)
    hidden = np.delete(np.sum([m.selected for m in comparison.methods], axis=0), shown)
    if len(hidden):
        most = int(hidden.max())
        by = "no method" if most == 0 else "at most one method" if most == 1 else f"at most {most} methods"
        what = "1 feature" if len(hidden) == 1 else f"{len(hidden):,} features"
        yield f"{what} that {by} selected {'is' if len(hidden) == 1 else 'are'} not shown."
        yield ""
    yield f"{'method':<{_NAME_WIDTH}} {'features':<18} {'value':<22} {'time':>12}"
    for title, method in titled:
        yield from _method_lines(title, method)
    yield ""
    yield from wrap(_legend([m for _, m in fitted], comparison.outcome_name))


def _verdicts(comparison: Comparison) -> Iterator[str]:
    doubtful = [m for m in comparison.methods if m.verdict is not None]
    for method in doubtful:
        yield from wrap(f"{method.name}: {method.verdict}")
    if doubtful:
        yield from wrap(CAUSES)
        yield ""


def _legend(fitted: list[MethodResult], outcome: str) -> str:
    """What the marks and the values of these methods mean."""
    seen = {str(status) for m in fitted for status in m.status}
    sentences = ["; ".join(f"{mark} {_MEANINGS[status]}" for status, mark in MARKS.items() if status in seen)]
    kinds = {m.evidence[0] for m in fitted if m.evidence is not None}
    near = {
        "predictive inclusion": "a predictive inclusion near 1 (among compatible subsets, by how they predict)",
        "inclusion probability": "an inclusion probability near 1",
        "p-value": "a p-value near 0",
    }
    if kinds:
        which = " or ".join(near[kind] for kind in near if kind in kinds)
        sentences.append(f"{which[0].upper()}{which[1:]} speaks for a feature")
    numeric = [m.name for m in fitted if m.as_number]
    if numeric:
        sentences.append(f"{_said_of(numeric, 'fit')} {outcome} as a number, by least squares")
    pooled = [m.name for m in fitted if m.pooled]
    if pooled:
        sentences.append(f"{_said_of(pooled, 'ask')} what predicts on all rows together, not what is invariant")
    return " ".join(f"{sentence}." for sentence in sentences if sentence)


def _said_of(names: list[str], verb: str) -> str:
    who = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    return f"{who} {verb}{'s' if len(names) == 1 else ''}"


def _grid(comparison: Comparison, fitted: list[tuple[str, MethodResult]], shown: NDArray[np.intp]) -> Iterator[str]:
    names = name_labels([comparison.feature_names[j] for j in shown], _NAME_WIDTH)
    widths = [max(_CELL_WIDTH, display_width(title)) for title, _ in fitted]
    first = 0
    while first < len(fitted):
        last = first + 1
        while last < len(fitted) and _NAME_WIDTH + sum(w + 1 for w in widths[first : last + 1]) <= COLUMNS:
            last += 1
        panel = range(first, last)
        yield _padded("", _NAME_WIDTH) + "".join(" " + _padded(fitted[m][0], widths[m]) for m in panel).rstrip()
        for name, j in zip(names, shown, strict=True):
            cells = "".join(" " + _padded(_cell(fitted[m][1], int(j)), widths[m]) for m in panel)
            yield (_padded(name, _NAME_WIDTH) + cells).rstrip()
        yield ""
        first = last


def _cell(method: MethodResult, j: int) -> str:
    mark = MARKS[str(method.status[j])]
    value = np.nan if method.evidence is None else float(method.evidence[1][j])
    return mark if np.isnan(value) else f"{mark} {format_probability(value)}"


def _method_lines(title: str, method: MethodResult) -> Iterator[str]:
    count = int(method.selected.sum())
    what = _OUTCOMES.get(method.outcome, f"{count:,} selected")
    kind = "" if method.evidence is None else method.evidence[0]
    seconds = f"{1000 * method.seconds:.1f} ms" if method.seconds < 1.0 else duration(method.seconds)
    yield f"{_padded(title, _NAME_WIDTH)} {what:<18} {kind:<22} {seconds:>12}"
    for note in method.notes:
        yield from wrap(note, "    ", "    ")


def _padded(text: str, width: int) -> str:
    return text + " " * (width - display_width(text))
