"""Which environment breaks the invariance of a subset, what each of them does to the result, and what would help."""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._tools.arrays import Floats, Mask
from .._tools.files import write_text
from .._tools.progress import ProgressMode
from ..conditionals.tolerance import Tolerance
from ..exceptions import OutputError, SettingError
from ..inference.enumeration import Enumeration
from .base import Findings
from .compatible import compatible_subsets
from .deviation import Deviation
from .environments import Broken, ComparedEnvironments, comparable, most_deviating
from .leaving_out import LeavingOut, LeftOut
from .search import Search
from .sites import Sites, sites_of
from .telling_apart import Experiment, Leading, experiments, leading_subsets

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

SURE, GAIN = 0.01, 0.02
LeaveOut = bool | Literal["auto"]


@dataclass(frozen=True, eq=False)
class Diagnosis(ComparedEnvironments):
    """What is known of the environments of a fit, for one subset; `print` it, or see `to_dict`.

    subset : names; p_invariant, r2 : of it, in all environments; NaN where it cannot be fitted to each of them, and
        then `unjudged` says why, in words
    tolerance : with the level that subsets had to reach: the weak one where none reaches the usual one
    whole : all environments against one common fit; tests : each against the others
    nothing_compatible : whether no subset at all is compatible with invariance, up to the tolerance
    alarm : whether the smallest p-value of an environment is below 0.05/E, or nothing is compatible
    named : the environment that breaks it, if there is an alarm: where nothing is compatible, the one without which
        the best subset is, else the one with the smallest p-value. None without an alarm, and of two environments.
    decisive : environments that alone speak against a subset that predicts better: no alarm, and good to know
    left_out : the fit without each environment, of three or more; refitted : whether whole fits were made for it
    inclusion, predictive_inclusion : (p,) of the fit to all environments, the latter NaN if nothing is compatible
    leading, experiments : the most probable compatible subsets, and which features to move to tell them apart
    sites : what small environments cost
    allowed : that the prior rules subsets out, in words, where it does
    judged_by : the tolerance in words; parts : in what environments are compared
    """

    feature_names: tuple[str, ...]
    p_invariant: float
    r2: float
    unjudged: str
    tolerance: Tolerance
    whole: Deviation | None
    nothing_compatible: bool
    left_out: tuple[LeftOut, ...]
    refitted: bool
    inclusion: Floats
    predictive_inclusion: Floats
    leading: Leading
    experiments: tuple[Experiment, ...]
    sites: Sites
    judged_by: str
    allowed: str

    @property
    def worst(self) -> Broken | None:
        """The environment with the smallest p-value."""
        return most_deviating(self.tests)

    @property
    def stands_out(self) -> bool:
        """Whether some environment's p-value is below the threshold."""
        return self.worst is not None and self.worst.p_value < self.threshold

    @property
    def alarm(self) -> bool:
        return self.nothing_compatible or self.stands_out

    @property
    def freed_by(self) -> LeftOut | None:
        """Where nothing is compatible: the environment without which the best subset is, if that predicts anything and
        the environment is at odds with it."""
        if not self.nothing_compatible:
            return None
        freeing = [left for left in self.left_out if _best_r2(left) > GAIN and self._at_odds(left)]
        return max(freeing, key=_best_r2, default=None)

    @property
    def decisive(self) -> tuple[LeftOut, ...]:
        """Where some subset is compatible: environments without which one that predicts better than the diagnosed one
        is, the largest gain first. Such an environment either acts on the outcome, or alone unmasks a feature."""
        if self.nothing_compatible:
            return ()
        better = [left for left in self.left_out if _best_r2(left) - left.r2 > GAIN and self._at_odds(left)]
        return tuple(sorted(better, key=lambda left: left.r2 - _best_r2(left)))

    def _at_odds(self, left: LeftOut) -> bool:
        """Whether an environment is unlike the others in the fit of the best subset without it."""
        return left.refit is not None and left.refit.p_against_best < SURE / self.n_environments

    @property
    def named(self) -> Hashable | None:
        if not self.alarm:
            return None
        if self.freed_by is not None:
            return self.freed_by.environment
        return None if self.worst is None else self.worst.environment

    def influence(self, predictive: bool = True) -> pd.DataFrame:
        """Change of each inclusion probability when an environment is left out: environments × features.

        Of the predictive posterior, or of the paper's. NaN where it is not known.
        """
        import pandas as pd

        whole = self.predictive_inclusion if predictive else self.inclusion
        changes = {
            left.environment: (left.refit.predictive_inclusion if predictive else left.refit.inclusion) - whole
            for left in self.left_out
            if left.refit is not None
        }
        return pd.DataFrame.from_dict(changes, orient="index", columns=list(self.feature_names))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Bars of −log₁₀ p for each environment and part."""
        from .environment_plot import plot_environments

        return plot_environments(self, ax)

    def __str__(self) -> str:
        from .diagnosis_text import as_text

        return as_text(self)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        from .diagnosis_text import as_html

        return as_html(self)

    def to_dict(self) -> dict[str, Any]:
        """As values that JSON can hold."""
        from .diagnosis_json import as_plain

        return as_plain(self)

    def to_json(self, path: str | Path) -> None:
        text = json.dumps(self.to_dict(), indent=1, ensure_ascii=False)
        try:
            write_text(Path(path).expanduser(), text + "\n")
        except OSError as error:
            raise OutputError(f"cannot write {str(path)!r}: {error.strerror or error}") from error


def _best_r2(left: LeftOut) -> float:
    return -np.inf if left.refit is None else left.refit.best_r2


def diagnose(
    search: Search, findings: Findings, mask: Mask, leave_out: LeaveOut = "auto", progress: ProgressMode = "auto"
) -> Diagnosis:
    """The diagnosis of a subset (p,). leave_out: whether to fit again without each environment; "auto" does where all
    subsets are scored, and otherwise judges the subset alone."""
    if leave_out not in (True, False, "auto"):
        raise SettingError(f"leave_out={leave_out!r} is not known: use True, False or 'auto'.")
    compared, posterior = comparable(findings.target.model), findings.posterior
    model = compared.model
    tests, predictive = compared.tests(mask), findings.predictive
    evidence = findings.judge.evidence(mask[None]).one()
    refit = isinstance(findings.engine, Enumeration) if leave_out == "auto" else leave_out
    enough, accepted = compared.n_environments > 2, compatible_subsets(findings).accepted
    leading = leading_subsets(model, posterior if predictive is None else predictive)
    return Diagnosis(
        subset=tuple(_names(model.feature_names, mask)),
        outcome_name=posterior.outcome_name,
        feature_names=model.feature_names,
        p_invariant=evidence.p_invariant,
        r2=evidence.r2,
        unjudged=_why_unjudged(findings, mask),
        tolerance=accepted,
        whole=tests.all_environments(),
        tests=tests.each(),
        nothing_compatible=predictive is None,
        left_out=LeavingOut(search, findings, compared, mask).each(refit, progress) if enough else (),
        refitted=refit and enough,
        inclusion=posterior.inclusion,
        predictive_inclusion=np.full(len(mask), np.nan) if predictive is None else predictive.inclusion,
        leading=leading,
        experiments=experiments(leading, model.feature_names),
        sites=sites_of(compared.moments),
        judged_by=compared.asked.judged_by(accepted),
        allowed=findings.allowed,
        parts=compared.asked.compares,
    )


def _why_unjudged(findings: Findings, mask: Mask) -> str:
    """Why a subset (p,) is outside the support; empty where it is inside."""
    outside = findings.judge.model.unsupported(mask[None])
    return "; ".join(outside.reasons) if outside.count else ""


def _names(names: tuple[str, ...], mask: Mask) -> Iterator[str]:
    return (name for name, flag in zip(names, mask, strict=True) if flag)
