"""Bayesian invariant prediction as a scikit-learn estimator."""

from __future__ import annotations

import copy
import inspect
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats, Integers, Mask
from .._tools.progress import ProgressMode, compilation_explained
from .._tools.text import format_subset
from ..data.checks import warn
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..decisions.decision import Decision, FitSummary
from ..decisions.diagnosis import Diagnosis, LeaveOut, diagnose
from ..decisions.residual_check import ResidualCheck, residual_check
from ..decisions.rules import Findings, Rule, as_rule
from ..decisions.search import Search, generator
from ..exceptions import NotInvariantWarning, SettingError, WrongTypeError
from ..inference.base import Engine
from ..models.base import Family
from ..models.gaussian import GaussianFromMoments
from ..models.invariance_test import Tolerance
from ..models.registry import as_family, as_fitted, prepared, settled
from ..moments.moments import Moments
from ..moments.second_pass import SecondPass
from ..posterior.posterior import Posterior
from ..posterior.summary import CAUSES
from ..prediction.new_environments import NewEnvironments, leave_one_out
from ..prediction.predictor import (
    PredictedOutcome,
    Predictor,
    RefittedPredictor,
    build,
    check_predict_with,
    refuse_moments,
    refuse_outcome_columns,
)
from ..priors.base import Prior
from ..priors.priors import as_prior
from ..report.page import checked_path, write_report
from ..report.sections import check_comparison, contents_of
from ..report.subject import Source, Subject
from .fitted import IntervalRegressor
from .selector import refuse_for_ready_data

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..report.subject import Source
    from .saved import SavedModel


def looked_at_again(model: BIP, moments: Moments, rows: Any, file_options: Mapping[str, Any]) -> Moments:
    """Where sums of fourth powers of all columns are too many, a fit without them tells which columns lead."""
    if model.environment is None:
        raise SettingError(
            "rows= needs the name of the column that holds the environment labels: BIP(environment=...) states it."
        )
    again = SecondPass(moments, rows, model.environment, model.n_jobs, file_options)
    decided = moments if GaussianFromMoments(moments).decides_all else again.with_factors()
    if again.all_columns_fit:
        return again.with_fourth_moments(decided, moments.columns)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = clone(model).fit_moments(decided)
    leading = _leading(first, moments.features.widths, again.most_features)
    return again.with_fourth_moments(decided, moments.features.chosen(leading).columns)


def _leading(model: BIP, widths: Integers, most: int) -> Mask:
    """(p,) features of at most so many columns: the selected ones first, and each of these, as of the others, by what
    it adds to R² beside the selected ones. Probability would not tell: where tails are heavy, causes are improbable as
    long as nobody looks at them.
    """
    selected, target = model.decision_.mask, model.decision_.findings.target.model
    added = np.abs(target.r2_many(selected ^ np.eye(len(widths), dtype=bool)) - target.r2_many(selected[None]))
    chosen = np.zeros(len(widths), dtype=bool)
    for j in np.lexsort([-np.where(np.isfinite(added), added, 0.0), ~selected]):
        chosen[j] = widths[chosen].sum() + widths[j] <= most
    return chosen


class BIP(IntervalRegressor):
    """Bayesian invariant prediction: the posterior over subsets of features that predict y alike in every environment.

    Parameters
    ----------
    family : "auto" chooses by the outcome, and the summary says why: "piecewise_exponential" for times with
        events, "logistic" for two values, "negative_binomial" for counts, "linear_gaussian" for any other number; or
        one of these names, "linear_gaussian_mean", "additive", "poisson", "bayesian_linear_gaussian", or a
        specification such as LinearGaussian(second_moments="on demand") or Additive(knots=5)
    prior : UniformPrior, InclusionPrior or BetaBinomialPrior, or a text such as "beta-binomial(1,3)"; None is uniform
        over all estimable subsets
    engine : "auto" (exact while that takes seconds, tempering beyond), "exact", "tempering", "vi", or an engine
        such as Tempering(chains=8)
    select : "predictive" selects the subset that predicts best among those compatible with invariance, "mode" the
        most probable subset, "threshold" every feature whose inclusion probability is at least `threshold`, "median"
        those that are in most compatible subsets, weighted by how these predict; or a rule
    tolerance : how different environments may be where a subset counts as compatible with invariance: a
        Tolerance(delta=0.02, tau=0.1, level=0.2), the default, or Tolerance.strict()
    environment : name of the column of a data frame X that holds the environment labels
    n_jobs : threads; None is one, -1 all cores. The result does not depend on it.
    random_state : seed or numpy Generator for engines that draw
    progress : "auto" shows a bar in terminals and notebooks when the wait passes two seconds; True, False; or a
        function of a fraction and a message, called as a stage begins, goes on and ends. What it raises stops the fit.
    categorical : columns of a data frame X whose values are levels; "auto" is those of text or of a categorical type,
        and a list names others in addition. The levels of a column enter and leave together.
    numeric : columns of text to read as numbers
    groups : columns that enter and leave together, {"region": ["r1", "r2"]}, or splines, [spline("age", knots=4)]
    handle_unknown : "error", or "ignore": `predict` takes a level that the training data lack for the reference level
    predict_with : "selected" predicts with the selected features; "average" with all subsets compatible with
        invariance, weighted by predictive_, up to 0.999 of it. It may be changed after fitting.
    regressor : a scikit-learn regressor, to be cloned and fitted to the selected features (the columns that became of
        them) of all rows, and to predict in the place of the linear fit; None: the linear fit predicts. Another one
        takes the next fit.

    Attributes
    ----------
    posterior_ : the Posterior over invariant subsets (the paper's), of the features that vary
    predictive_ : the Posterior over subsets compatible with invariance, by how well they predict; None where there is
        no such subset
    decision_ : the Decision for people to read: a verdict, its reasons, and what can be said of each feature
    invariant_ : whether the data leave it open that the selected features are, together, invariant
    inclusion_probabilities_, support_ : (n_features_in_,); constant features have 0, False, and columns of a group
        share theirs
    selected_features_ : names
    coef_ : one for each of columns_, the columns of X or, where these are levels, splines or grouped, what became of
        them; constant ones have 0
    regressor_ : the fitted regressor; None without one, and where no feature is selected: predict then gives the mean
    intercept_ : float; n_environments_ : int; environments_ : tuple of labels

    Where the outcome has two values, coefficients are log odds, and what is predicted is the probability of the second
    of these, which a note names; of a count with an exposure it is the expected count of one unit of exposure.

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> model = BIP().fit(data.X, data.y, environments=data.environment_index)
    >>> model.get_support(indices=True).tolist()
    [0, 2, 3]
    """

    def __init__(
        self,
        family: str | Family = "auto",
        prior: str | Prior | None = None,
        engine: str | Engine = "auto",
        select: str | Rule = "predictive",
        threshold: float = 0.5,
        tolerance: Tolerance | None = None,
        environment: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: ProgressMode = "auto",
        categorical: str | Sequence[str] = "auto",
        numeric: Sequence[str] = (),
        groups: Any = None,
        handle_unknown: str = "error",
        predict_with: str = "selected",
        regressor: Any = None,
    ) -> None:
        self.family = family
        self.prior = prior
        self.engine = engine
        self.select = select
        self.threshold = threshold
        self.tolerance = tolerance
        self.environment = environment
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress
        self.categorical = categorical
        self.numeric = numeric
        self.groups = groups
        self.handle_unknown = handle_unknown
        self.predict_with = predict_with
        self.regressor = regressor

    _single_environment_message = (
        "no environments were given, so all rows count as one environment and the posterior is the prior. "
        "Pass fit(X, y, environments=labels)."
    )

    def fit_moments(self, moments: Moments, rows: Any = None, **file_options: Any) -> Self:
        """Fit to second moments alone, for data that never were in memory as a whole.

        rows : what the moments were computed from, to be read again for what they do not tell: how heavy the tails of
            residuals are, subsets whose columns nearly depend on each other, what is left of rows in pictures and
            intervals. One reading where moments decide every subset, else two. `environment` names the column of the
            labels. Of more than 24 columns (fewer where environments are very many), tails are looked at in subsets
            of those selected without them and those that predict most beside these; the summary names the others.
        file_options : where rows are files, those of `Moments.from_rows` that say how they are written: sep, decimal,
            encoding, sheet, na, thousands

        `predict` finds columns by name: those of the table that the moments were computed from or, if that is not
        known, columns_.
        """
        if not isinstance(moments, Moments):
            raise WrongTypeError(
                f"fit_moments needs Moments, not {type(moments).__name__}: compute them with "
                "Moments.from_rows(rows, outcome=..., environment=...)."
            )
        self._check_handle_unknown()
        refuse_moments(self.regressor)
        refuse_for_ready_data(self, "fit_moments", "read_chunks")
        for option in file_options:
            if rows is None:
                raise SettingError(f"{option}= is for files that are read again: add rows=, or leave it out.")
        if rows is not None:
            moments = looked_at_again(self, moments, rows, file_options)
        self._fit_by_name(moments)
        return self

    def _fit_checked(self, data: MultiEnvironmentData | Moments) -> None:
        self._family, data = prepared(settled(as_family(self.family), data), data)
        if isinstance(data, MultiEnvironmentData):
            data = as_fitted(self._family, data)
        with compilation_explained(self.progress):
            super()._fit_checked(data)

    def _check_outcome(self, data: Any) -> None:
        """What cannot be fitted is for the conditional to say."""

    def _select(self, data: MultiEnvironmentData | Moments) -> Mask:
        check_predict_with(self.predict_with, self.regressor)
        refuse_outcome_columns(self.regressor, data)
        self._regressor = None if self.regressor is None else clone(self.regressor)
        self._settings = self.get_params(deep=False) | {"regressor": self._regressor}
        rng = generator(self.random_state)
        self._search = replace(self.search(copy.deepcopy(rng)), family=self._family)
        rule = self._search.rule
        self._findings = self._search.findings(data, self.progress, rng)
        selected = rule.select(self._findings)
        self._decision = Decision(self._findings, selected, rule)
        self.posterior_ = self._findings.posterior.drawn_by(self._decision)
        self.inclusion_probabilities_ = self._expand(self.posterior_.inclusion, 0.0)
        self.invariant_ = not self._findings.judge.rejected(selected[None])[0]
        if not self.invariant_:
            warn(_not_invariant(self._findings, selected), NotInvariantWarning)
        return selected

    def search(self, rng: np.random.Generator) -> Search:
        """What `fit` does, as far as the settings say."""
        families = as_family(self.family), as_prior(self.prior), self.engine
        rule = as_rule(self.select, threshold=self.threshold)
        return Search(*families, rule, _as_tolerance(self.tolerance), self.n_jobs, rng)

    def _predicted(self, data: MultiEnvironmentData | Moments) -> PredictedOutcome:
        return PredictedOutcome.of(data, self._family)

    @property
    def predictive_(self) -> Posterior | None:
        """The posterior over subsets compatible with invariance, by how well they predict."""
        check_is_fitted(self)
        predictive = self._findings.predictive
        return None if predictive is None else predictive.drawn_by(self._decision)

    def diagnose(self, subset: Subset | None = None, leave_out: LeaveOut = "auto") -> Diagnosis:
        """Which environment breaks the invariance of a subset, by default the selected one, and in what.

        subset : names of features, or a mask of those that vary; leave_out : whether to fit again without each
        environment. "auto" does so where all subsets are scored, and else judges the subset alone.
        """
        check_is_fitted(self)
        names = self._findings.target.model.feature_names
        mask = as_mask(self.selected_features_ if subset is None else subset, names)
        with compilation_explained(self.progress):
            return diagnose(self._search, self._findings, mask, leave_out, self.progress)

    def residual_check(self, subset: Subset | None = None, random_state: Any = 0) -> ResidualCheck:
        """Whether environments differ given a subset, by default the selected one, without a model of how features act:
        `invariance.residual_check` of the rows that were fitted. A diagnosis; it changes nothing of the fit."""
        check_is_fitted(self)
        chosen = self.selected_features_ if subset is None else subset
        return residual_check(self._data, chosen, random_state, self.n_jobs)

    @property
    def decision_(self) -> Decision:
        """What was decided, with the reasons, for people to read."""
        check_is_fitted(self)
        return self._decision

    def summary(self, top: int = 10) -> FitSummary:
        """The decision and, after it, the posterior with its `top` subsets: text within 80 columns, or HTML."""
        return FitSummary(self.decision_, self.posterior_.summary(top))

    def report(self, path: str | Path, comparison: Any = None, source: Source | None = None) -> Path:
        """Write one self-contained page: the answer with its caveats, tables, pictures, and how it was made.

        path : ends in .html; comparison : what `invariance.compare` returned for the same data, for a section of its
        own; source : where the rows came from, for the lines that make it again. Needs the extra `report`. It diagnoses
        the environments, as `diagnose` does, which may fit again without each. Returns the path.
        """
        pass

        return report(self, path, comparison, source)

    def plot(self, kind: str = "inclusion", ax: Axes | None = None, top: int | None = None) -> Any:
        """Draw the `top` of one kind, on axes or on a new figure, which notebooks show; returns the axes, an array of
        them where there are several. kind: "inclusion", "subsets", "coefficients", "environments" or "frontier"."""
        return self.decision_.plot(kind, ax, top)

    def _coefficients(self, data: MultiEnvironmentData | Moments, selected: Mask) -> tuple[Floats, float]:
        self._fit = self._findings.target.model.fit(selected, local=False)
        self._data, self._selected = data, selected
        self._predictors: dict[str, Predictor] = {}
        self._elsewhere: dict[str, NewEnvironments] = {}
        chosen = self._predictor("selected")
        self.regressor_ = chosen.regressor if isinstance(chosen, RefittedPredictor) else None
        coefficients = np.zeros(data.features.n_columns)
        coefficients[data.features.expand(selected)] = self._fit.coefficients
        return coefficients, self._fit.intercept

    def _predictor(self, kind: str) -> Predictor:
        if kind not in self._predictors:
            self._predictors[kind] = self._built(kind, self._findings, self._selected, self._data)
        return self._predictors[kind]

    def _built(self, kind: str, findings: Findings, selected: Mask, data: MultiEnvironmentData | Moments) -> Predictor:
        return build(kind, findings, selected, data, self._regressor)

    def _new_environments(self, kind: str) -> NewEnvironments:
        self._leave_out([kind])
        return self._elsewhere[kind]

    def _leave_out(self, kinds: Sequence[str]) -> None:
        """Find out what is missed in new environments by predictions of each kind, where that is not known."""
        new = [kind for kind in kinds if kind not in self._elsewhere]
        if new:
            builders = [partial(self._built, kind) for kind in new]
            found = leave_one_out(self._search, self._data, builders, self.progress)
            self._elsewhere |= dict(zip(new, found, strict=True))

    def save(self, path: str | Path) -> None:
        """Write all that predicts to one file of strict JSON: `invariance.load(path)` reads it again, without the data.

        It holds the intervals too, for which the first call repeats the selection without each environment. A
        `regressor` is written by skops, of the extra `skops`.
        """
        from .saved import save

        save(self, path)

    @staticmethod
    def load(path: str | Path, trusted: Sequence[str] = ()) -> SavedModel:
        """The same as `invariance.load`."""
        from .saved import load

        return load(path, trusted)

    def _mean(self, predictor: Floats) -> Floats:
        return self._fit.mean(predictor)

    def _way_out(self) -> str:
        if self.inclusion_probabilities_.any():
            # Low enough for the most probable feature to pass after rounding to two digits, which moves it by up to 5%.
            threshold = f"{0.95 * self.inclusion_probabilities_.max():.2g}"
            return (
                f"With set_params(select='threshold', threshold={threshold}) the next fit selects the most probable "
                "features"
            )
        return "Use another prior or other features"


def _as_tolerance(given: Tolerance | None) -> Tolerance:
    if given is None:
        return Tolerance()
    if not isinstance(given, Tolerance):
        raise SettingError(f"tolerance={given!r} is not known: use a Tolerance(...), Tolerance.strict() or None.")
    return given


def _not_invariant(findings: Findings, selected: Mask) -> str:
    """That the selected features (p,) are not invariant together, and why, where that is known."""
    posterior, verdict = findings.posterior, findings.posterior.verdict
    names = format_subset([name for name, flag in zip(posterior.feature_names, selected, strict=True) if flag])
    judge = findings.judge
    p_value = judge.evidence(selected[None]).p_invariant[0]
    if np.isnan(p_value):
        reasons = "; ".join(judge.model.unsupported(selected[None]).reasons)
        return f"whether the selected features {names} are invariant together cannot be judged: {reasons}."
    chance = f"{p_value:.2g}" if p_value > 1e-300 else "below 1e-300"
    chosen = (
        f"the selected features {names} do not predict {posterior.outcome_name} alike in all environments (p-value "
        f"{chance}): what is predicted with them may fail in a new one."
    )
    if not selected.any():
        chosen = (
            f"the selection is empty, and {posterior.outcome_name} itself is not alike in all environments (p-value "
            f"{chance}): its mean may be another one in a new one."
        )
    return chosen if verdict is None else f"{verdict.sentence} {CAUSES} T{chosen[1:]}"


def report(model: BIP, path: str | Path, comparison: Any, source: Source | None) -> Path:
    """What cannot be written is refused before environments are diagnosed, which takes a while."""
    check_is_fitted(model)
    file = checked_path(path)
    if comparison is not None:
        check_comparison(comparison, model.posterior_.outcome_name, model.posterior_.feature_names)
    subject = Subject(
        decision=model.decision_,
        data=model._data,
        family=model._family,
        diagnosis=_diagnosis(model),
        estimator=type(model).__name__,
        settings=model._settings,
        defaults={name: given.default for name, given in inspect.signature(type(model)).parameters.items()},
        by_name=model._by_name,
        comparison=comparison,
        source=source or Source(),
    )
    return write_report(contents_of(subject, model.progress), file)


def _diagnosis(model: BIP) -> Diagnosis | str:
    """Or why there is none."""
    try:
        return model.diagnose()
    except SettingError as error:
        told = str(error)
        return told[0].upper() + told[1:]
