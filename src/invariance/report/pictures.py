"""The pictures of the package, as they stand on a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from .._tools.layout import format_subset, printable
from ..decisions.decision import Decision
from ..decisions.diagnosis import Diagnosis
from ..posterior.posterior import Posterior
from ..posterior.summary import format_probability
from .parts import Picture
from .svg import inline_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure, SubFigure

_MOST_NAMED = 5


def picture(figure: Figure | SubFigure, prefix: str, alt: str, caption: str) -> Picture:
    from matplotlib.figure import Figure

    assert isinstance(figure, Figure)
    alt = printable(alt)
    return Picture(inline_svg(figure, prefix, alt), alt, caption)


def inclusion_picture(posterior: Posterior) -> Picture:
    from ..posterior.plots import plot_inclusion

    order = np.argsort(-posterior.inclusion, kind="stable")[:_MOST_NAMED]
    leading = ", ".join(f"{posterior.feature_names[j]} {format_probability(posterior.inclusion[j])}" for j in order)
    return picture(
        plot_inclusion(posterior).figure,
        "i",
        f"Bars of inclusion probabilities, the largest first: {leading}.",
        "How probable it is that each feature belongs to the invariant subset; dashed at one half.",
    )


def subsets_picture(decision: Decision) -> Picture:
    from ..decisions.plots import plot_subsets

    first = decision._names(decision.compatible.masks[0])
    return picture(
        plot_subsets(decision),
        "s",
        f"Compatible subsets, the best predictor first, which is {format_subset(first)}; the table below has the same.",
        "Subsets that are compatible with invariance: a dot for each feature in them. The selected one stands out.",
    )


def frontier_picture(decision: Decision) -> Picture:
    from ..decisions.plots import plot_frontier

    chosen = decision.evidence
    return picture(
        plot_frontier(decision).figure,
        "f",
        f"R² against the p-value of invariance of the subsets; the selected one is at R² {chosen.r2:.3f} and p-value "
        f"{chosen.p_invariant:.3f}.",
        "What invariance costs: how well subsets predict against how much the data speak against their invariance.",
    )


def coefficients_picture(decision: Decision) -> Picture:
    from ..decisions.plots import plot_coefficients

    return picture(
        plot_coefficients(decision),
        "c",
        "Coefficients of the selected features in each environment, beside those of all rows together; the table below "
        "has the same numbers.",
        "Invariance asks for the same coefficient everywhere: intervals far from the band speak against it.",
    )


def environments_picture(diagnosis: Diagnosis) -> Picture:
    from ..decisions.environment_plot import plot_environments

    return picture(
        plot_environments(diagnosis).figure,
        "e",
        "Bars of −log₁₀ p of each environment against all others, by what may differ; a table below has the p-values.",
        "How much each environment differs from all others, given the selected features; the dashed line is where that "
        "raises an alarm.",
    )
