"""The pictures of the package, as they stand on a page."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from .._tools.figures import Size, new_figure
from .._tools.fonts import fonts_brought_by_readers
from .._tools.layout import format_subset, printable
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..posterior.summary import format_p_value, format_probability, format_share
from .parts import Picture
from .svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MOST_NAMED = 5


def picture(draw: Callable[[Axes], object], size: Size, prefix: str, alt: str, caption: str) -> Picture:
    """What `draw` puts on axes, in matplotlib's own style, whatever a user set; prefix: as of `inline_svg`."""
    from matplotlib import style

    alt = printable(alt)
    with style.context("default"), fonts_brought_by_readers():
        figure = new_figure(*size)
        draw(figure.add_subplot())
        return Picture(inline_svg(figure, prefix, alt), alt, caption)


def _of_decision(decision: Decision, kind: str, alt: str, caption: str) -> Picture:
    from ..decisions.plots import picture_size, plot

    return picture(partial(plot, decision, kind), picture_size(decision, kind), kind[0], alt, caption)


def inclusion_picture(decision: Decision) -> Picture:
    posterior = decision.findings.posterior
    order = np.argsort(-posterior.inclusion, kind="stable")[:_MOST_NAMED]
    leading = ", ".join(f"{posterior.feature_names[j]} {format_probability(posterior.inclusion[j])}" for j in order)
    source = "as in the paper" if posterior.n_environments > 1 else "by the prior, as one environment cannot tell"
    return _of_decision(
        decision,
        "inclusion",
        f"Bars of inclusion probabilities, the largest first: {leading}.",
        f"How probable it is that each feature belongs to the invariant subset, {source}; dashed at one half.",
    )


def subsets_picture(decision: Decision) -> Picture:
    first = decision._names(decision.compatible.masks[0])
    several = decision.findings.posterior.n_environments > 1
    which = "Subsets that are compatible with invariance" if several else "Subsets by how well they predict"
    return _of_decision(
        decision,
        "subsets",
        f"{'Compatible subsets' if several else 'Subsets'}, the best predictor first, which is {format_subset(first)}; "
        "the table below has the same.",
        f"{which}: a dot for each feature in them. The selected one stands out.",
    )


def frontier_picture(decision: Decision) -> Picture:
    chosen = decision.evidence
    return _of_decision(
        decision,
        "frontier",
        f"R² against the p-value of invariance of the subsets; the selected one is at R² {format_share(chosen.r2)} and "
        f"p-value {format_p_value(chosen.p_invariant)}.",
        "What invariance costs: how well subsets predict against how much the data speak against their invariance.",
    )


def coefficients_picture(decision: Decision, intervals: bool) -> Picture:
    """intervals : whether the model gives any"""
    if decision.findings.posterior.n_environments > 1:
        against = "the line is that of all rows together"
        if intervals:
            against = "intervals far from the band speak against it"
        caption = f"Invariance asks for the same coefficient everywhere: {against}."
    else:
        caption = "Invariance asks for the same coefficient everywhere; one environment has nothing to compare with."
    return _of_decision(
        decision,
        "coefficients",
        "Coefficients of the selected features in each environment, beside those of all rows together; the table below "
        "has the same numbers.",
        caption,
    )


def environments_picture(diagnosis: Diagnosis) -> Picture:
    from ..decisions.environment_plot import environments_size, plot_environments

    return picture(
        partial(plot_environments, diagnosis),
        environments_size(diagnosis),
        "e",
        "Bars of −log₁₀ p of each environment against all others, by what may differ; a table below has the p-values.",
        "How much each environment differs from all others, given the selected features; diamonds, all parts together, "
        "beyond the dashed line raise an alarm.",
    )
