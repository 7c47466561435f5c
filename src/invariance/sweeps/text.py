"""A finished sweep in words: how many outcomes have which verdict, the strongest pairs, and what failed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .._tools.text import COLUMNS, display_width, duration, name_labels, pad, shorten, wrap
from ..data.checks import listing
from .fitting import VERDICTS
from .sweep import SweepRun

if TYPE_CHECKING:
    import pandas as pd

_MOST_PAIRS, _MOST_FAILED = 10, 5
_NAME_WIDTH = 26


def sweep_lines(run: SweepRun) -> Iterator[str]:
    """Within 80 columns."""
    outcomes = run.results.drop_duplicates("outcome")
    failed, n = outcomes[outcomes["feature"].isna()], len(outcomes)
    were = "was" if run.n_before == 1 else "were"
    before = f"; {run.n_before:,} {were} there before" if run.n_before else ""
    took = f"{run.n_now:,} of them now, in {duration(run.seconds)} by {run.workers}{before}"
    yield from wrap(f"Sweep over {n:,} outcome{'s' * (n != 1)}: {took}.")
    yield from ("", "Verdict on the selected features")
    verdicts = outcomes["verdict"].where(outcomes["feature"].notna(), "failed")
    counts = [(word, int((verdicts == word).sum())) for word in (*VERDICTS, "failed")]
    yield from (f"  {word:<16}  {count:>{len(f'{n:,}')},}" for word, count in counts if count)
    selected = run.results[run.results["selected"]]
    chosen = selected["outcome"].nunique()
    each = f", {len(selected) / chosen:.1f} on average" if chosen else ""
    yield from ("", f"Some features are selected for {chosen:,} of {n:,} outcomes{each}.")
    yield from _pairs(selected[selected["verdict"].isin(VERDICTS[:2])])
    if len(failed):
        yield from ("", "Failed")
    for row in failed[:_MOST_FAILED].itertuples():
        yield from wrap(f"{shorten(str(row.outcome), _NAME_WIDTH)}: {row.verdict}", "  ", "    ", COLUMNS)
    more = [shorten(str(name), _NAME_WIDTH) for name in failed["outcome"][_MOST_FAILED:]]
    if more:
        yield from wrap(f"and {len(more):,} more: {listing(more, 20)}", "  ", "    ", COLUMNS)
    yield ""
    yield from wrap(
        "P-values come from second moments alone and take noise for Gaussian: where tails are heavy, or outcomes are "
        "counts, they reject too often. Fit such an outcome by itself, with invariance fit, to correct for that."
    )


def _pairs(selected: pd.DataFrame) -> Iterator[str]:
    """Those whose features are selected, and invariant together, by how probable the feature is."""
    strongest = selected.sort_values(["inclusion", "predictive", "r2"], ascending=False, kind="stable")[:_MOST_PAIRS]
    if strongest.empty:
        return
    padded = []
    for column in ("outcome", "feature"):
        distinct = list(dict.fromkeys(strongest[column]))
        labels = dict(zip(distinct, name_labels(distinct, _NAME_WIDTH), strict=True))
        cells = [column, *(labels[name] for name in strongest[column])]
        width = max(map(display_width, cells))
        padded.append([pad(cell, width) for cell in cells])
    (outcome, *outcomes), (feature, *features) = padded
    yield from ("", "Strongest pairs, selected and at least weakly invariant")
    yield f"  {outcome}  {feature}  inclusion  p_invariant"
    for first, second, row in zip(outcomes, features, strongest.itertuples(), strict=True):
        yield f"  {first}  {second}  {row.inclusion:>9.3f}  {row.p_invariant:>11.2g}"
