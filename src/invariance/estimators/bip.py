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
    """Infer which features predict an outcome in the same way in every environment.

    Bayesian invariant prediction computes the posterior over feature selectors z, up to
    normalisation::

        p(z | D) ∝ p(z) Π_e Π_i g(y_ei | x_ei^z) / p_e(y_ei | x_ei^z)

    with the conditional g fitted to the pool of all environments and p_e to environment e (equation
    7 of the paper). A rule selects a subset from it, by default the best predictor among the
    subsets that are compatible with invariance.

    Parameters
    ----------
    family : {"auto", "linear_gaussian", "logistic", ...} or Family, default="auto"
        Model of the outcome. "auto" selects it by the outcome: "piecewise_exponential" for times
        with events, "logistic" for two values, "negative_binomial" for counts, "linear_gaussian"
        for other numbers; the summary states the reason. Further names are "linear_gaussian_mean",
        "additive", "poisson" and "bayesian_linear_gaussian". A specification such as
        `LinearGaussian(prediction=0.1)` or `Additive(knots=5)` sets its parameters.
    prior : str or Prior, default=None
        The prior p(z): `UniformPrior`, `InclusionPrior` or `BetaBinomialPrior`, or text such as
        "beta-binomial(1,3)". None is uniform over all estimable subsets.
    engine : {"auto", "exact", "tempering", "vi", ...} or Engine, default="auto"
        How the posterior is computed. "auto" is exact while that takes seconds and tempering
        beyond. "vi-simulation" and "vi-genes" are the settings of the paper's studies. An engine
        such as `Tempering(chains=8)` sets its parameters.
    select : {"predictive", "mode", "threshold", "median"} or Rule, default="predictive"
        Rule that selects features. "predictive" is the subset that predicts best among those
        compatible with invariance, "mode" the most probable subset (as in the paper), "threshold"
        each feature with an inclusion probability of at least 0.5 ("threshold(0.9)": 0.9), "median"
        the features that are in most compatible subsets, weighted by how these predict.
    tolerance : Tolerance, default=None
        Differences between environments that count as compatible with invariance. None is
        `Tolerance(rho=0.1, tau=0.1, level=0.2)`; `Tolerance.strict()` tests exact invariance.
    deviations : {"auto", "free", "random"}, default="auto"
        How coefficients deviate between environments. "free" fits each environment separately,
        which requires more rows than features in each. "random" draws the deviations from one
        distribution, for environments of any size. "auto" is random if there are at most 20
        features and some environment has too few rows for free coefficients of eight of them (or of
        all, if fewer), or these would use more than a quarter of the degrees of freedom.
    baseline : {"auto", "shared", "free"}, default="auto"
        Whether environments must have the same baseline (intercept, baseline hazard). "shared" is
        the paper's model; "free" compares effects only; "auto" is shared and, if no subset is
        compatible with that, free, then free with a noise variance for each environment.
        `decision_.level` is the level of invariance that holds.
    columns : Columns, default=None
        Which columns of a data frame X are features, and how each is read, for example
        `Columns(environment="site", categorical=["code"])`.
    predict_with : {"auto", "everything", "selected", "average"}, default="auto"
        Features that predict. "auto" is all features unless held-out environments show that they
        fail, and then the selected ones: `decision_.prediction` has the reason. "average" averages
        over all subsets compatible with invariance, weighted by `predictive_`, up to a probability
        of 0.999. It may be changed after fitting, and does not affect the selection or `coef_`.
    regressor : regressor of scikit-learn, default=None
        Predicts in place of linear fits; it is fitted to the same features of all rows.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores. The result does not depend on it.
    random_state : int or numpy.random.Generator, default=None
        Seed for engines that draw.
    progress : {"auto", True, False} or callable, default="auto"
        "auto" shows a bar in terminals and notebooks if the wait exceeds two seconds, and elsewhere
        logs a line every ten seconds (logger "invariance", level INFO). A function of a fraction
        and a message is called as a stage begins, proceeds and ends; an exception that it raises
        stops the fit.

    Attributes
    ----------
    posterior_ : Posterior
        The paper's posterior over invariant subsets of the features that vary.
    predictive_ : Posterior or None
        Posterior over the subsets compatible with invariance, by how well they predict. None if
        there is no such subset.
    decision_ : Decision
        The verdict, its reasons and the role of each feature.
    invariant_ : bool
        True if `decision_.level` is "full" and differences are absent or within the tolerance. If
        effects are the same and baselines differ it is False, and `decision_.heterogeneity.same` is
        True.
    inclusion_probabilities_ : ndarray of shape (n_features,)
        Marginal inclusion probabilities of the posterior by which the rule selects: `posterior_`
        for "mode" and "threshold", `predictive_` for "predictive" and "median" (`posterior_` if no
        subset is compatible). `posterior_.inclusion_probabilities` is the paper's for any rule.
        Constant features have 0; columns of a group share theirs.
    support_ : ndarray of shape (n_features,), bool
        Selected features.
    selected_features_ : tuple of str
        Names of the selected features.
    columns_ : tuple of str
        Columns that `coef_` is about: those of X, or what levels, splines and groups were encoded
        as.
    coef_ : ndarray of shape (n_columns,)
        Pooled coefficients, 0 for columns that are not selected. For two classes they are log odds
        of the second class. They predict, and pseudo-data (`pseudo_rows` of the family) may shrink
        them: report `decision_.effects()` and `decision_.coefficients()`, which are by maximum
        likelihood.
    intercept_ : float
        Intercept of the pooled fit.
    predictor_ : Predictor
        The predictor with its columns, coefficients and intercept.
    regressor_ : regressor or None
        The fitted regressor. None if no regressor was given or no feature was selected; `predict`
        then returns the mean.
    n_environments_ : int
        Number of environments E.
    environments_ : tuple
        Labels of the environments.

    See Also
    --------
    BIPClassifier : The same for two classes.
    BIPSurvival : The same for times to an event.
    compare : Compare the selection with other methods.
    check : Check a table before it is fitted.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, arXiv:2506.22675.

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
        """Fit to rows with one environment label each, to a data set or to moments.

        After a fit to a data set or to moments, `predict` finds columns by name, and constant
        columns may be absent.

        Parameters
        ----------
        X : array-like of shape (n, p), data frame, MultiEnvironmentData or Moments
            Features. A data set or moments bring their outcome and environments.
        y : array-like of shape (n,), default=None
            Outcome. None only if X is a data set or moments.
        environments : array-like of shape (n,), str or Along, default=None
            Label of each row, or the name of the column of X that has the labels. None takes the
            column of `Columns(environment=...)`.
        sample_weight : array-like of shape (n,) or str, default=None
            Frequency weight of each row, a whole number (0 drops the row), or the name of a column
            of X.
        event : array-like of shape (n,) or str, default=None
            1 if the time y ended with the event, 0 if it was censored; or the name of a column of
            X.
        exposure : array-like of shape (n,) or str, default=None
            Time or size at risk of a count y, or the name of a column of X.
        **unknown : Any
            Arguments that `fit` does not have; they are refused by name.

        Returns
        -------
        Self
            The fitted estimator.

        Raises
        ------
        DataError
            If the data cannot be used as given; the message names the columns or rows.
        SettingError
            If a parameter is unknown or impossible for these data.
        EngineError
            If the engine cannot do this job.
        WrongTypeError
            If an argument is unknown.

        Warns
        -----
        NotInvariantWarning
            If the selection is not invariant, or cannot be tested.
        DataWarning
            If rows, columns or environments were dropped.
        ApproximationWarning
            If a numerical or sampling approximation is poor.
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
        """Return whether invariance of the selected features is compatible with the data.

        True if effects, baseline and noise are the same in all environments up to the tolerance, or
        no difference was found.

        Returns
        -------
        bool
            False if invariance is rejected, cannot be tested, or holds for the effects only.
        """
        check_is_fitted(self)
        return self._decision.invariant

    @property
    def predictive_(self) -> Posterior | None:
        """Return the posterior over subsets compatible with invariance, by how well they predict.

        Returns
        -------
        Posterior or None
            None if no subset is compatible.
        """
        check_is_fitted(self)
        return self._decision.predictive

    @property
    def decision_(self) -> Decision:
        """Return the decision with its reasons.

        Returns
        -------
        Decision
            The decision for the present value of `predict_with`.
        """
        check_is_fitted(self)
        check_predict_with(self.predict_with, self._regressor)
        decision = self._decision.complete()
        if self.predict_with == decision.predict_with:
            return decision
        return decision.stating(predict_with=self.predict_with)

    def summary(self, top: int = TOP) -> FitSummary:
        """Summarise the decision and the posterior.

        Parameters
        ----------
        top : int, default=10
            Number of subsets that are listed.

        Returns
        -------
        FitSummary
            Prints as text of at most 80 columns, and shows as HTML in notebooks.
        """
        decision = self.decision_
        return FitSummary(decision, decision.posterior.summary(top))

    def diagnose(self, subset: Subset | None = None, leave_out: LeaveOut = "auto") -> Diagnosis:
        """Show which environment violates the invariance of a subset, and in which parameters.

        Parameters
        ----------
        subset : list of str or array of shape (p,), default=None
            Names of features, or a mask of the features that vary. None is the selected subset.
        leave_out : {"auto", True, False}, default="auto"
            Whether to fit again without each environment. "auto" does if all subsets are scored and
            the fits take seconds.

        Returns
        -------
        Diagnosis
            Tests of each environment, and the selection without it.

        Raises
        ------
        SettingError
            If there is one environment, the model does not have tests of environments, or leave_out
            is unknown.
        """
        check_is_fitted(self)
        findings = self._decision.findings
        mask = self._decision.mask
        if subset is not None:
            mask = as_mask(subset, findings.posterior.feature_names)
        with compilation_explained(self.progress):
            return diagnose(self._fit_settings, findings, mask, leave_out, self.progress)

    def residual_check(self, subset: Subset | None = None, random_state: Any = 0) -> ResidualCheck:
        """Test whether environments differ given a subset, without a model of how features act.

        Random forests replace the linear fits, so that the check also detects differences that the
        model of the outcome cannot represent.

        Parameters
        ----------
        subset : list of str or array of shape (p,), default=None
            Names of features, or a mask of the features that vary. None is the selected subset.
        random_state : int or numpy.random.Generator, default=0
            Seed of the forests.

        Returns
        -------
        ResidualCheck
            P-values for the mean and the spread of the outcome in each environment.

        Raises
        ------
        SettingError
            If there is one environment, the outcome has events or an exposure, or the model was
            fitted to moments without a sample of rows.
        """
        check_is_fitted(self)
        chosen = self._decision.selected if subset is None else subset
        return residual_check(self._data, chosen, random_state, self.n_jobs)

    def plot(
        self, kind: PlotKind = "inclusion", ax: Axes | None = None, top: int | None = None
    ) -> Any:
        """Draw one kind of plot.

        Parameters
        ----------
        kind : {"inclusion", "effects", "left_out", ...}, default="inclusion"
            Further kinds are "calibration", "subsets", "coefficients", "environments", "frontier",
            "along" for environments along a variable, and "trace" for `engine="vi"`.
        ax : Axes, default=None
            Axes to draw on. None makes a new figure, which notebooks show.
        top : int, default=None
            Largest number of features, subsets or environments drawn. None is as many as fit.

        Returns
        -------
        Axes or dict of str to Axes
            The axes, by name if the plot has several.
        """
        return self.decision_.plot(kind, ax, top)

    def report(
        self, path: str | Path, comparison: Any = None, source: Source | None = None
    ) -> Path:
        """Write a self-contained HTML report of the fit.

        It includes `diagnose`, and needs the extra `report`.

        Parameters
        ----------
        path : str or Path
            File to write, with the ending .html.
        comparison : Comparison, default=None
            Result of `invariance.compare` for the same data, which gets a section.
        source : Source, default=None
            Origin of the rows, for the lines of code that reproduce the report.

        Returns
        -------
        Path
            The file that was written.

        Raises
        ------
        FileError
            If the path does not end in .html or cannot be written.
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
        """Estimate the cost of invariance: errors in held-out environments of three predictors.

        They are the features selected without the environment, all features, and a constant. The
        first call repeats the selection without each environment; later calls do not. The decision
        and its JSON then show the result.

        Returns
        -------
        CostOfInvariance
            Errors in each environment.

        Raises
        ------
        SettingError
            If a limit on the time of the fit prevented holding out environments.
        """
        check_is_fitted(self)
        cost = self._predictions.cost_of_invariance
        self._decision = self._decision.stating(cost=cost)
        return cost

    def chance_selection(self) -> ChanceSelection:
        """Estimate how often the search among subsets selects a feature that is not invariant.

        The data sets are simulated from one invariant subset. The first call takes about a second
        for ten features. The decision and its JSON then show the result.

        Returns
        -------
        ChanceSelection
            Share of the simulated data sets with such a selection.

        Raises
        ------
        SettingError
            If the rule did not select among compatible subsets, or the model is not linear
            Gaussian.
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
        """Return a methods paragraph of this fit for a paper.

        Returns
        -------
        str
            Data, model, prior, engine, rule, tolerance, missing values and seed.
        """
        check_is_fitted(self)
        return methods_paragraph(Subject(self))

    def save(self, path: str | Path) -> None:
        """Write the predictors and their intervals to one file of strict JSON.

        `invariance.load(path)` reads it and does not need the data.

        Parameters
        ----------
        path : str or Path
            File to write. A `regressor` needs the extra `skops`.

        Raises
        ------
        FileError
            If the file cannot be written.
        SettingError
            If the predictors cannot be saved, as with a link of a family's own.
        EngineError
            If a regressor is saved and the extra `skops` is not installed.
        """
        save(self, path)

    @staticmethod
    def load(path: str | Path, trusted: Sequence[str] = ()) -> SavedModel:
        """Read a model that `save` wrote, like `invariance.load`.

        Parameters
        ----------
        path : str or Path
            The file.
        trusted : sequence of str, default=()
            Types that a saved regressor may contain in addition to those that skops trusts.

        Returns
        -------
        SavedModel
            A model that predicts.
        """
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
    """Infer which features predict two classes in the same way in every environment.

    More than two classes are compared one against the rest, by `fit(X, y == "a", environments)` or
    `OneVsRestClassifier(BIPClassifier(columns=...))`. Another classifier is fitted to the selected
    features by a pipeline, `make_pipeline(BIPClassifier(), RandomForestClassifier())`.

    Parameters
    ----------
    family : {"auto", "logistic"} or Family, default="auto"
        Model of the outcome; "auto" is "logistic". A specification such as
        `Logistic(pseudo_rows=0)` sets its parameters.
    prior : str or Prior, default=None
        As in `BIP`.
    engine : {"auto", "exact", "tempering", "vi", ...} or Engine, default="auto"
        As in `BIP`.
    select : {"predictive", "mode", "threshold", "median"} or Rule, default="predictive"
        As in `BIP`.
    tolerance : Tolerance, default=None
        As in `BIP`.
    baseline : {"auto", "shared", "free"}, default="auto"
        As in `BIP`.
    columns : Columns, default=None
        As in `BIP`.
    predict_with : {"auto", "everything", "selected", "average"}, default="auto"
        As in `BIP`.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores. The result does not depend on it.
    random_state : int or numpy.random.Generator, default=None
        Seed for engines that draw.
    progress : {"auto", True, False} or callable, default="auto"
        As in `BIP`.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Labels. Probabilities, log odds and coefficients are those of the second one.
    posterior_ : Posterior
        The posterior over invariant subsets; the other attributes are those of `BIP`.

    See Also
    --------
    BIP : The estimator for any kind of outcome, with all attributes.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, arXiv:2506.22675.

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
    """Infer which features predict the hazard of an event in the same way in every environment.

    Times may be censored on the right: `fit(X, y, environments, event=event)` takes times y above
    0, observed from 0 on, and `event`, which is 1 if a time ended with the event and 0 if it was
    censored. Prediction intervals for times are not available.

    Parameters
    ----------
    family : {"auto", "piecewise_exponential"} or Family, default="auto"
        Model of the outcome; "auto" is "piecewise_exponential". A specification such as
        `PiecewiseExponential(intervals=4)` sets its parameters.
    prior : str or Prior, default=None
        As in `BIP`.
    engine : {"auto", "exact", "tempering", "vi", ...} or Engine, default="auto"
        As in `BIP`.
    select : {"predictive", "mode", "threshold", "median"} or Rule, default="predictive"
        As in `BIP`.
    tolerance : Tolerance, default=None
        As in `BIP`.
    baseline : {"auto", "shared", "free"}, default="auto"
        As in `BIP`.
    columns : Columns, default=None
        As in `BIP`.
    predict_with : {"auto", "everything", "selected", "average"}, default="auto"
        As in `BIP`.
    n_jobs : int, default=None
        Threads. None is one, -1 all cores. The result does not depend on it.
    random_state : int or numpy.random.Generator, default=None
        Seed for engines that draw.
    progress : {"auto", True, False} or callable, default="auto"
        As in `BIP`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_columns,)
        Logarithms of hazard ratios, for prediction; report `decision_.effects()`.
    posterior_ : Posterior
        The posterior over invariant subsets; the other attributes are those of `BIP`.

    See Also
    --------
    BIP : The estimator for any kind of outcome, with all attributes.
    PiecewiseExponential : The model of the hazard.

    References
    ----------
    Wu, L., Yin, M., Wang, Y., Cunningham, J. P. and Blei, D. M. (2025), Bayesian invariance
    modeling of multi-environment data, arXiv:2506.22675.

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
