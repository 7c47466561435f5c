"""Bayesian invariant prediction as scikit-learn estimators: of numbers and counts, of two classes,
of times."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._tools.arrays import Floats
from .._tools.names import (
    Baseline,
    Deviations,
    EngineName,
    FamilyName,
    PlotKind,
    PredictWith,
    RuleName,
)
from .._tools.parallel import one_thread
from .._tools.progress import ProgressMode, compilation_explained
from .._tools.text import format_subset
from .._tools.time_limit import ended_early
from ..data.checks import keeping_warnings, said_in_search, warn
from ..data.features import Subset, as_mask
from ..data.multi_environment import MultiEnvironmentData
from ..data.outcomes import two_values
from ..data.settings import Columns
from ..decisions.decision import TOP, Decision, FitSummary
from ..decisions.diagnosis import Diagnosis, LeaveOut, diagnose
from ..decisions.pipeline import Data, FitSettings, generator
from ..decisions.residual_check import ResidualCheck, residual_check
from ..decisions.rules import Rule
from ..decisions.selection_error import ChanceSelection
from ..exceptions import (
    ApproximationWarning,
    DataError,
    NotInvariantWarning,
    SettingError,
    or_why_not,
    use,
)
from ..inference.base import Engine
from ..kinds import CLASS, TIME, OutcomeKind
from ..models.base import Family, Level, kind_of
from ..models.invariance_test import Tolerance
from ..models.registry import ByOutcome, as_family, resolve_family, with_family_columns
from ..moments.moments import Moments
from ..posterior.posterior import Posterior
from ..posterior.summary import CAUSES
from ..prediction.model_choice import Selection, check_predict_with, check_regressor
from ..prediction.new_environments import NewEnvironments
from ..prediction.new_site import NewSites
from ..prediction.predictions import CostOfInvariance, Predictions
from ..prediction.predictor import PredictedOutcome, Predictor
from ..priors import Prior
from ..report.methods import Source, Subject, methods_paragraph
from ..report.page import checked_path
from ..report.sections import MOST_LISTED, check_comparison, write_report
from .fitted import ClassProbabilities, IntervalRegressor, TimesToEvent, two_classes
from .saved import SavedModel, load, save
from .selector import explains_unknown, refuse_arguments, worded_for_fit

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BIP(IntervalRegressor):
    """Bayesian invariant prediction: the posterior over subsets of features that predict y alike in
    every environment.

    Parameters
    ----------
    family : "auto" chooses by the outcome, and the summary says why: "piecewise_exponential" for
        times with events, "logistic" for two values, "negative_binomial" for counts,
        "linear_gaussian" for any other number; or one of these names, "linear_gaussian_mean",
        "additive", "poisson", "bayesian_linear_gaussian", or a specification such as
        LinearGaussian(prediction=0.1) or Additive(knots=5)
    prior : UniformPrior, InclusionPrior or BetaBinomialPrior, or a text such as
        "beta-binomial(1,3)"; None is uniform over all estimable subsets
    engine : "auto" (exact while that takes seconds, tempering beyond), "exact", "tempering", "vi",
        or an engine such as Tempering(chains=8)
    select : "predictive" selects the subset that predicts best among those compatible with
        invariance, "mode" the most probable subset (as in the paper), "threshold" every feature
        whose inclusion probability is at least 0.5, "threshold(0.9)" at least 0.9, "median" those
        that are in most compatible subsets, weighted by how these predict; or a rule of
        `invariance.decisions` such as Threshold(0.9)
    tolerance : how different environments may be where a subset counts as compatible with
        invariance: a Tolerance(rho=0.1, tau=0.1, level=0.2), the default, or Tolerance.strict()
    deviations : of coefficients between environments: "free", a fit of its own in each, for
        environments with more rows than features; "random", drawn from one distribution, for
        environments of any size; "auto": random where, of at most 20 features, some environment has
        too few rows for free ones of eight (or of all, if fewer), or these would take more than a
        quarter of the degrees of freedom
    baseline : whether environments must have the same baseline (intercept, baseline hazard):
        "shared", as in the paper; "free", each has its own, and effects alone are compared; "auto":
        shared and, if no subset is compatible with that, free, then free with noise of their own.
        `decision_.level` is the level of invariance that holds
    columns : how a data frame X is read, Columns(environment="site", categorical=["code"])
    predict_with : "auto" predicts with all features, unless environments that are left out show
        that these fail, and then with the selected ones: `decision_.prediction` says which, and
        why; "everything", "selected": with these; "average": with all subsets compatible with
        invariance, weighted by predictive_, up to 0.999 of it. It may be changed after fitting, and
        changes neither what is selected nor coef_.
    regressor : a scikit-learn regressor that predicts in place of linear fits, fitted to the same
        features of all rows
    n_jobs : threads; None is one, -1 all cores. The result does not depend on it.
    random_state : seed or numpy Generator for engines that draw
    progress : "auto" shows a bar in terminals and notebooks when the wait passes two seconds, and
        elsewhere logs a line every ten seconds (logger "invariance", level INFO); True, False; or a
        function of a fraction and a message, called as a stage begins, goes on and ends. What it
        raises stops the fit.

    Attributes
    ----------
    posterior_ : the Posterior over invariant subsets (the paper's), of the features that vary
    predictive_ : the Posterior over subsets compatible with invariance, by how well they predict;
        None where there is no such subset
    decision_ : the Decision: a verdict, its reasons, and the role of each feature; computed when it
        is first asked for, and shown without further fits
    invariant_ : True if `decision_.level` is "full" and no difference was found, or none beyond the
        tolerance. Where effects are the same and baselines differ it is False, and
        `decision_.heterogeneity.same` is True
    inclusion_probabilities_ : (n_features_in_,) probabilities of the posterior by which the rule
        selects: posterior_ (the paper's marginal inclusion probabilities) for "mode" and
        "threshold"; predictive_ for "predictive" and "median" (posterior_ if no subset is
        compatible). `posterior_.inclusion_probabilities` is the paper's for any rule. Constant
        features have 0, and columns of a group share theirs
    support_ : (n_features_in_,) selected features
    selected_features_ : names
    coef_ : of the selected features, one for each of columns_, the columns of X or, if these are
        levels, splines or grouped, what became of them; constant ones have 0. Of two classes they
        are log odds of the second one. They predict, and pseudo-data (`pseudo_rows` of the family)
        may shrink them: effects to report are decision_.effects() and decision_.coefficients(), by
        plain maximum likelihood
    predictor_ : what predicts, with its own columns, coefficients and intercept
    regressor_ : the fitted regressor; None without one, and where no feature predicts: predict then
        gives the mean
    intercept_ : float; n_environments_ : int; environments_ : tuple of labels

    Examples
    --------
    >>> from invariance import BIP
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> model = BIP().fit(data.X, data.y, environments=data.environment_index)
    >>> model.get_support(indices=True).tolist()
    [0, 2, 3]
    """

    posterior_: Posterior
    inclusion_probabilities_: Floats
    regressor_: Any
    _takes_moments = True

    @explains_unknown
    def __init__(
        self,
        family: FamilyName | Family = "auto",
        prior: str | Prior | None = None,
        engine: EngineName | Engine = "auto",
        select: RuleName | Rule = "predictive",
        tolerance: Tolerance | None = None,
        deviations: Deviations = "auto",
        baseline: Baseline = "auto",
        columns: Columns | None = None,
        predict_with: PredictWith = "auto",
        regressor: Any = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: ProgressMode = "auto",
    ) -> None:
        self.family = family
        self.prior = prior
        self.engine = engine
        self.select = select
        self.tolerance = tolerance
        self.deviations = deviations
        self.baseline = baseline
        self.columns = columns
        self.predict_with = predict_with
        self.regressor = regressor
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.progress = progress

    @keeping_warnings
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        environments: ArrayLike | str | None = None,
        *,
        sample_weight: Any = None,
        event: Any = None,
        exposure: Any = None,
        **unknown: Never,
    ) -> Self:
        """Fit to a table X (n, p), y (n,) and one environment label per row; to a
        MultiEnvironmentData; or to Moments.

        environments : labels, or the name of a column of X, as Columns(environment=...) states it
        sample_weight : how many rows each row counts as, whole numbers, 0 for none; one value per
            row, or the name of a column of X, as Columns(weights=...) states it
        event : 1 where the time y ended with the event, 0 where it was censored; exposure : of a
            count y; one value per row, or the name of a column of X

        After a fit to a data set or to moments, `predict` finds columns by name, and constant ones
        may be absent.
        """
        refuse_arguments(unknown)
        data = self._read(X, y, environments, {"event": event, "exposure": exposure}, sample_weight)
        check_regressor(self.regressor, data)
        with worded_for_fit(X):
            family, data = with_family_columns(*self._family_for(data))
        rng = generator(self.random_state)
        settings = FitSettings.of(self, copy.deepcopy(rng), family)
        with compilation_explained(self.progress):
            with worded_for_fit(X):
                target = settings.target(
                    data
                )  # the model, bound to sufficient statistics, × the prior
            with one_thread():
                findings = settings.findings(target, self.progress, rng)  # one pass of the engine
                mask = settings.rule.select(findings)
                self._keep_fit(data, Selection.known(settings, data, findings, mask))
        return self

    def _check_settings(self) -> None:
        check_predict_with(self.predict_with, self.regressor)

    def _family_for(self, data: Data) -> tuple[Family, Data]:
        """The outcome model that is fitted, and the data with the classes that it predicts."""
        return resolve_family(as_family(self.family), data, self.deviations), data

    def _keep_fit(self, data: Data, selection: Selection) -> None:
        """The findings, and what predicts by them."""
        findings = selection.findings
        settings = selection.settings
        self._site = None
        self.adaptation_ = None
        if told := ended_early():
            findings.note(told)
            warn(told, ApproximationWarning)
        self._regressor = None if self.regressor is None else clone(self.regressor)
        outcome = PredictedOutcome.of(data, settings.family)
        self._predictions = Predictions(selection, outcome, self._regressor, self.progress)
        about = self._predictions, self.predict_with
        decision = Decision(findings, selection.mask, settings.rule, *about)
        self._data = data
        self._fit_settings = settings
        self._decision = decision
        self._settings = self.get_params(deep=False) | {"regressor": self._regressor}
        fit = decision.findings.target.model.fit(decision.mask, local=False)
        coefficients = np.zeros(data.features.n_columns)
        coefficients[data.features.expand(decision.mask)] = fit.coefficients
        self._span = (
            None if isinstance(data, Moments) or data.design is None else data.design.fitted
        )
        self._lay_out(data)
        self._keep(data, decision.mask, outcome, coefficients, fit.intercept)
        self.posterior_ = decision.findings.posterior
        self.inclusion_probabilities_ = self._expand(decision.posterior.inclusion, 0.0)
        if decision.findings.level is not Level.full and not said_in_search(
            "", NotInvariantWarning
        ):
            names = format_subset(decision.selected)
            warn(f"{names}: {decision.in_short}. {decision.verdict.follows}", NotInvariantWarning)
        elif decision.rejected and not said_in_search("", NotInvariantWarning):
            told = f"{decision.verdict} {CAUSES}"
            if not decision.judged:
                reasons = "; ".join(
                    decision.findings.judge.model.outside_support(decision.mask[None])
                )
                names = format_subset(decision.selected)
                told = (
                    f"whether the selected features {names} are invariant together cannot be "
                    f"judged: {reasons}."
                )
            warn(told, NotInvariantWarning)
        if decision.autocorrelation is not None and decision.autocorrelation.alarms:
            warn(decision.autocorrelation.sentence, ApproximationWarning)
        self.regressor_ = (
            None if self._regressor is None else getattr(self.predictor_, "regressor", None)
        )

    @property
    def invariant_(self) -> bool:
        """Whether the selected features are invariant: effects, baseline and noise are the same in
        all environments up to the tolerance, or no difference was found."""
        check_is_fitted(self)
        return self._decision.invariant

    @property
    def predictive_(self) -> Posterior | None:
        """The posterior over subsets compatible with invariance, by how well they predict."""
        check_is_fitted(self)
        return self._decision.predictive

    @property
    def decision_(self) -> Decision:
        """What was decided, with the reasons: computed when it is first asked for."""
        check_is_fitted(self)
        check_predict_with(self.predict_with, self._regressor)
        decision = self._decision.complete()
        if self.predict_with == decision.predict_with:
            return decision
        return decision.stating(predict_with=self.predict_with)

    def summary(self, top: int = TOP) -> FitSummary:
        """The decision and, after it, the posterior with its `top` subsets: text within 80 columns,
        or HTML."""
        decision = self.decision_
        return FitSummary(decision, decision.posterior.summary(top))

    def diagnose(self, subset: Subset | None = None, leave_out: LeaveOut = "auto") -> Diagnosis:
        """Which environment breaks the invariance of a subset, by default the selected one, and in
        what.

        subset : names of features, or a mask of those that vary; leave_out : whether to fit again
            without each
        environment, "auto": where all subsets are scored and that takes seconds
        """
        check_is_fitted(self)
        findings = self._decision.findings
        mask = self._decision.mask
        if subset is not None:
            mask = as_mask(subset, findings.posterior.feature_names)
        with compilation_explained(self.progress):
            return diagnose(self._fit_settings, findings, mask, leave_out, self.progress)

    def residual_check(self, subset: Subset | None = None, random_state: Any = 0) -> ResidualCheck:
        """Whether environments differ given a subset, by default the selected one, without a model
        of how features act: `invariance.decisions.residual_check` of the fitted rows."""
        check_is_fitted(self)
        chosen = self._decision.selected if subset is None else subset
        return residual_check(self._data, chosen, random_state, self.n_jobs)

    def plot(
        self, kind: PlotKind = "inclusion", ax: Axes | None = None, top: int | None = None
    ) -> Any:
        """Draw the `top` of one kind, on axes or on a new figure, which notebooks show; returns the
        axes, or {name: axes} where there are several. kind: "inclusion", "effects", "left_out",
        "calibration", "subsets", "coefficients", "environments", "frontier", "along" a variable or,
        of engine="vi", "trace"."""
        return self.decision_.plot(kind, ax, top)

    def report(
        self, path: str | Path, comparison: Any = None, source: Source | None = None
    ) -> Path:
        """Write one self-contained page, with what `diagnose` finds, and return its path. Needs the
        extra `report`.

        path : ends in .html; comparison : what `invariance.compare` returned for the same data, for
            a section of its
        own; source : where the rows came from, for the lines that make it again
        """
        check_is_fitted(self)
        file = checked_path(path)
        if comparison is not None:
            check_comparison(
                comparison, self.posterior_.outcome_name, self.posterior_.feature_names
            )
        try:
            diagnosis: Diagnosis | str = self.diagnose()
        except SettingError as error:
            diagnosis = str(error)
        if self.n_environments_ > 1:  # found here, so that the page only shows it
            self.new_environments()
            self.explain_cost()
            if self.decision_.is_compatible:
                or_why_not(self.chance_selection)
        _ = self.predictor_
        for posterior in filter(None, (self.predictive_, self.posterior_)):
            posterior.leading_evidence(MOST_LISTED)
        return write_report(
            Subject(self, source or Source(), diagnosis, comparison), file, self.progress
        )

    def cost_of_invariance(self) -> CostOfInvariance:
        """Return errors in environments that are left out: of the features selected without each,
        of all features and of a constant.

        The first call repeats the selection without each environment; later ones do not.
        `decision_` and its JSON then show the result.

        Raises
        ------
        SettingError
            If a limit on the time of the fit kept environments from being left out.
        """
        check_is_fitted(self)
        cost = self._predictions.cost_of_invariance
        self._decision = self._decision.stating(cost=cost)
        return cost

    def chance_selection(self) -> ChanceSelection:
        """Return how often the search among subsets selects a feature that is not invariant, in
        data sets simulated from one invariant subset.

        Takes about a second for ten features, once. `decision_` and its JSON then show the result.

        Raises
        ------
        SettingError
            If the rule did not choose among compatible subsets, or for other models than linear
            Gaussian ones.
        """
        check_is_fitted(self)
        chance = self._decision.chance or self._decision.simulated_chance()
        self._decision = self._decision.stating(chance=chance)
        return chance

    def explain_cost(self, repeat: bool = False) -> str:
        """Return the cost of invariance in words, or why it is not known: a selection that takes
        long is repeated for it only if `repeat`."""
        check_is_fitted(self)
        findings = self._decision.findings
        if repeat or findings.cheap_without_each or self._predictions.repeated:
            return or_why_not(self.cost_of_invariance)
        return (
            "What invariance costs was not estimated, because that repeats the selection without "
            f"each of {self.n_environments_} environments. In Python cost_of_invariance() "
            "estimates it, on the command line --save."
        )

    def methods_paragraph(self) -> str:
        """The methods of this fit in words, for a paper."""
        check_is_fitted(self)
        return methods_paragraph(Subject(self))

    def save(self, path: str | Path) -> None:
        """Write all that predicts, intervals too, to one file of strict JSON, which
        `invariance.load(path)` reads without the data. A `regressor` needs the extra `skops`."""
        save(self, path)

    @staticmethod
    def load(path: str | Path, trusted: Sequence[str] = ()) -> SavedModel:
        """The same as `invariance.load`."""
        return load(path, trusted)

    def _predictor(self, kind: str) -> Predictor:
        return self._predictions.predictor(kind)

    def _new_sites(self) -> NewSites:
        return self._predictions.new_sites

    def _batch_errors(self) -> NewEnvironments:
        return self._predictions.batch_errors

    def _new_environments(self, kind: str, new: str | None = None) -> NewEnvironments:
        kind = self._predictions.resolved(kind)
        return (
            self._predictions if new is None else self._predictions.of_factor(new)
        ).new_environments(kind)


class _OneKindOfOutcome(BIP):
    """BIP for outcomes of one kind, whose usual family is "auto"; no other regressor predicts
    them."""

    _usual_family: FamilyName
    _kind_of_outcome: OutcomeKind

    @explains_unknown
    def __init__(
        self,
        family: FamilyName | Family = "auto",
        prior: str | Prior | None = None,
        engine: EngineName | Engine = "auto",
        select: RuleName | Rule = "predictive",
        tolerance: Tolerance | None = None,
        baseline: Baseline = "auto",
        columns: Columns | None = None,
        predict_with: PredictWith = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        progress: ProgressMode = "auto",
    ) -> None:
        given = family, prior, engine, select, tolerance
        run = {"n_jobs": n_jobs, "random_state": random_state, "progress": progress}
        super().__init__(
            *given, baseline=baseline, columns=columns, predict_with=predict_with, **run
        )

    def _family_for(self, data: Data) -> tuple[Family, Data]:
        given = as_family(self.family)
        family = as_family(self._usual_family) if isinstance(given, ByOutcome) else given
        if kind_of(family) != self._kind_of_outcome:
            what = f"family={self.family!r} does not predict a {self._kind_of_outcome.predicts}"
            what = f"{what}, as {type(self).__name__} must"
            raise SettingError(what, use(family=self._usual_family))
        return family, data


class BIPClassifier(ClassProbabilities, _OneKindOfOutcome):
    """Bayesian invariant prediction of two classes: the posterior over subsets of features that
    predict them alike in every environment.

    More than two classes are compared one with the rest, `fit(X, y == "a", environments)`;
    OneVsRestClassifier(BIPClassifier(columns=...)) does so for each.

    Parameters
    ----------
    family : "auto", which is "logistic", a specification such as Logistic(pseudo_rows=0), or
        another one that predicts probabilities
    Others are as those of BIP, without the regressor. Another classifier is fitted to the selected
    features by a pipeline, make_pipeline(BIPClassifier(), RandomForestClassifier()).

    Attributes
    ----------
    classes_ : (2,) labels; probabilities, log odds and coefficients are for the second one
    Others are as those of BIP.

    Examples
    --------
    >>> from invariance import BIPClassifier
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> labels = ["high" if value > 0 else "low" for value in data.y - data.y.mean()]
    >>> model = BIPClassifier().fit(data.X, labels, environments=data.environment_index)
    >>> model.classes_.tolist(), model.predict_proba(data.X).shape
    (['high', 'low'], (900, 2))
    """

    _usual_family = "logistic"
    _kind_of_outcome = CLASS

    def _validated(self, X: Any, y: Any) -> tuple[Any, Any, list[str] | None]:
        self._labels, coded = two_classes(y)
        return super()._validated(X, coded)

    def _family_for(self, data: Data) -> tuple[Family, Data]:
        if isinstance(data, MultiEnvironmentData):
            if not self._by_name:
                data = replace(data, classes=self._labels)
            elif two_values(data.y) is None:
                what = f"outcome {data.outcome_name!r} has other than two values"
                raise DataError(f"{what}: compare one class with the rest, or use BIP.")
        return super()._family_for(data)


class BIPSurvival(TimesToEvent, _OneKindOfOutcome):
    """Bayesian invariant prediction of times to an event, some of them censored on the right: the
    posterior over subsets of features with which the hazard is the same in every environment.

    fit(X, y, environments, event=event): y has the times, above 0, all observed from 0 on; `event`
    is 1 where one ended with the event, 0 where it was censored.

    Parameters
    ----------
    family : "auto", which is "piecewise_exponential", or a specification such as
        PiecewiseExponential(intervals=4)
    Others are as those of BIP, without the regressor. There are no intervals for times.

    Attributes
    ----------
    coef_ : logarithms of hazard ratios, as they predict; decision_.effects() has those to report
    Others are as those of BIP.

    Examples
    --------
    >>> import numpy as np
    >>> from invariance import BIPSurvival
    >>> from invariance.datasets import make_example
    >>> data = make_example()
    >>> times = np.exp((data.y.mean() - data.y) / data.y.std())
    >>> censored = np.quantile(times, 0.8)
    >>> seen, event = np.minimum(times, censored), times <= censored
    >>> model = BIPSurvival().fit(data.X, seen, environments=data.environment_index, event=event)
    >>> model.predict_survival(data.X, [0.5, 1.0]).shape
    (900, 2)
    """

    _usual_family = "piecewise_exponential"
    _kind_of_outcome = TIME
