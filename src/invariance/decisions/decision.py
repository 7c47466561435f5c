"""What a person reads after a fit: which features to use, how sure that is, and what can be said of each feature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from .._tools.arrays import Mask
from ..conditionals.tolerance import Tolerance
from ..posterior.evidence import SubsetEvidence
from ..posterior.summary import Summary
from .base import Findings, Rule
from .compatible import CompatibleSubsets, Survey, compatible_subsets, survey
from .noise import NoiseChecks, noise_checks
from .registry import RULES
from .roles import FeatureRole, feature_roles, plain_number

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True, eq=False, repr=False)
class Decision:
    """The subset (p,) that a rule chose; `str()` tells it within 80 columns, notebooks show it as HTML.

    findings : what it was chosen from; mask : the chosen subset (p,); rule : that chose it
    """

    findings: Findings
    mask: Mask
    rule: Rule

    @cached_property
    def selected(self) -> tuple[str, ...]:
        """Names of the chosen features."""
        return self._names(self.mask)

    @cached_property
    def evidence(self) -> SubsetEvidence:
        """What the data say about the chosen subset."""
        return self.findings.judge.evidence(self.mask[None]).one()

    @property
    def accepted(self) -> Tolerance:
        """With the level that subsets had to reach: the weak one where none reaches the usual one."""
        return self.compatible.accepted

    @property
    def invariant(self) -> bool:
        """Whether the data leave it open that the chosen subset is invariant."""
        return self.evidence.p_invariant >= self.findings.tolerance.lowest_level

    @property
    def judged(self) -> bool:
        """Whether the rows suffice to judge the chosen subset."""
        return bool(np.isfinite(self.evidence.deviance))

    @property
    def is_compatible(self) -> bool:
        """Whether the chosen subset is one of the compatible ones, whose level may be higher."""
        return self.evidence.p_invariant >= self.accepted.level

    @cached_property
    def noise(self) -> NoiseChecks | None:
        """Checks of the chosen subset's residuals; None where there are none to make."""
        return noise_checks(self.findings.judge.model, self.mask, self.findings.tolerance)

    @cached_property
    def mode_evidence(self) -> SubsetEvidence:
        """What the data say about the most probable subset of the paper's posterior."""
        return self.findings.judge.evidence(self.findings.posterior.mode_mask[None]).one()

    @cached_property
    def compatible(self) -> CompatibleSubsets:
        return compatible_subsets(self.findings)

    @cached_property
    def features(self) -> tuple[FeatureRole, ...]:
        """The chosen features in their order, then the others, by how much they would add to R²."""
        return feature_roles(self.findings, self.mask, self.compatible)

    @cached_property
    def survey(self) -> Survey:
        """p-values and R² of the chosen subset and of those that the posteriors list."""
        return survey(self.findings, self.mask)

    @property
    def rule_says(self) -> str:
        """What the rule does, in a few words."""
        name = RULES.class_names.get(type(self.rule).__name__)
        if name is None:
            return repr(self.rule)
        settings = ", ".join(f"{key} {value:g}" for key, value in vars(self.rule).items())
        return f"{name}: {RULES.members[name].help}{f' ({settings})' if settings else ''}"

    @property
    def verdict(self) -> str:
        """One or two sentences: whether the chosen features predict alike everywhere."""
        from .words import verdict

        return verdict(self)

    def coefficients(self, coverage: float = 0.95) -> pd.DataFrame:
        """Of the chosen subset, with intervals: one row for each column and environment, and for the pool of all.

        Columns: column, environment ("pooled" for the pool), estimate, lower, upper, note. NaN where a column is
        constant or a combination of others, which the note says, as it does where a coefficient stands for such a
        column too.
        """
        from .coefficients import coefficient_table

        return coefficient_table(self.findings.target.model, self.mask, coverage)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of the chosen features, to which the coefficients belong."""
        return self.findings.target.model.features.chosen(self.mask).columns

    def plot(self, kind: str = "inclusion", ax: Axes | None = None, top: int | None = None) -> Any:
        """Draw the `top` of one kind, on axes or on a new figure, which notebooks show; returns the axes, an array of
        them where there are several. kind: "inclusion", "subsets", "coefficients", "environments" or "frontier"."""
        from .plots import plot

        return plot(self, kind, ax, top)

    def to_plain(self) -> dict[str, Any]:
        """As values that JSON can hold; numbers that are not known are None."""
        posterior, compatible = self.findings.posterior, self.compatible
        coefficients = self.coefficients().replace({np.nan: None})
        coefficients["environment"] = [str(label) for label in coefficients["environment"]]
        return {
            "verdict": self.verdict,
            "invariant": self.invariant if posterior.n_environments > 1 else None,
            "selected": list(self.selected),
            "rule": self.rule_says,
            "tolerance": asdict(self.findings.tolerance),
            "evidence": _plain(self.evidence),
            "compatible": {
                "subsets": compatible.n,
                "all_scored": compatible.all_scored,
                "level": compatible.accepted.level,
            },
            "most_probable": {
                "subset": list(posterior.mode),
                "probability": posterior.mode_probability,
                "evidence": _plain(self.mode_evidence),
            },
            "noise": None if self.noise is None else self.noise.to_plain(),
            "features": [feature.to_plain() for feature in self.features],
            "coefficients": coefficients.to_dict("records"),
        }

    def __str__(self) -> str:
        from .words import text_lines

        return "\n".join(text_lines(self))

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        from .words import html

        return html(self)

    def _names(self, mask: Mask) -> tuple[str, ...]:
        names = self.findings.posterior.feature_names
        return tuple(name for name, flag in zip(names, mask, strict=True) if flag)


@dataclass(frozen=True)
class FitSummary:
    """The decision, then the posterior that it rests on; `str()` gives the text, notebooks show the HTML.

    worded : what to make of a sentence of the decision that may name a remedy
    """

    decision: Decision
    posterior: Summary
    worded: Callable[[str], str] = str

    def __str__(self) -> str:
        from .words import text_lines

        decision = "\n".join(text_lines(self.decision, self.worded))
        return f"{decision}\n\n{self.posterior}"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.decision._repr_html_() + self.posterior._repr_html_()


def _plain(evidence: SubsetEvidence) -> dict[str, float | None]:
    return {name: plain_number(value) for name, value in asdict(evidence).items()}
