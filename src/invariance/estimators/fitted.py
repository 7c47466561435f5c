"""Predictions in new environments: what a fitted model and a saved one share."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal, NoReturn, Self, overload

import narwhals as nw
import numpy as np
from numpy.typing import NDArray
from scipy.special import erf
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._tools.arrays import Floats, Mask, Names
from .._tools.names import PredictWith
from ..data.checks import check_lengths, listing, quoted, rows_text, warn
from ..data.columns import aligned, as_frame, frame_names
from ..data.outcomes import Classes, has_classes, one_series, outcome_column, outcome_of
from ..data.reading import with_columns
from ..data.structure import Span
from ..data.weights import weighted
from ..exceptions import DataError, PredictionWarning, SettingError, use
from ..kinds.classes import log_odds
from ..kinds.time import concordance
from ..prediction.model_choice import check_predict_with
from ..prediction.new_environments import NewEnvironments
from ..prediction.new_site import FEWEST_ROWS, NewSites, SitePrediction
from ..prediction.predictor import (
    Design,
    LinearPredictor,
    Predictor,
    RefittedPredictor,
    SurvivalPredictor,
    places_of_rows,
)
from ..prediction.recalibration import recalibrated, recalibration_prior
from .bases import ClassifierMixin, available_if
from .selector import EnvironmentSelector

# The share of a normal distribution within one standard deviation.
_ONE_DEVIATION = float(erf(np.sqrt(0.5)))
# So many tell how random deviations spread: intervals by them cover what they should.
_ENOUGH_ENVIRONMENTS = 8
# Of so few environments left out the largest error is too small, if they differ much
# (benchmarks/environments.py).
_FEW_ENVIRONMENTS = 4


def _of_times(model: IntervalRegressor) -> bool:
    check_is_fitted(model)
    return model._outcome.kind.censored


class IntervalRegressor(EnvironmentSelector):
    """A selector with intervals for environments it has not seen.
    A subclass has the parameter `predict_with`, one of PREDICT_WITH."""

    predict_with: PredictWith
    _kind = "regressor"  # in saved files
    _regressor: Any = None  # the parameter when the model was fitted
    _span: Span | None = None  # of the variable along which environments were compared
    _site: LinearPredictor | None = None  # of the site that the model was adapted to
    adaptation_: str | None = None

    @abstractmethod
    def _predictor(self, kind: str) -> Predictor: ...

    @abstractmethod
    def _new_environments(self, kind: str, new: str | None = None) -> NewEnvironments: ...

    @abstractmethod
    def _new_sites(self) -> NewSites: ...

    @abstractmethod
    def _batch_errors(self) -> NewEnvironments: ...

    @property
    def predictor_(self) -> Predictor:
        """Return the predictor for the present value of `predict_with`.

        Returns
        -------
        Predictor
            Its columns, coefficients and intercept.
        """
        check_is_fitted(self)
        if self._site is not None:
            return self._site
        check_predict_with(self.predict_with, self._regressor)
        return self._predictor(self.predict_with)

    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = False, environments: Any = None
    ) -> Floats: ...

    @overload
    def predict(
        self, X: Any, return_std: Literal[True], environments: Any = None
    ) -> tuple[Floats, Floats]: ...

    def predict(
        self, X: Any, return_std: bool = False, environments: Any = None
    ) -> Floats | tuple[Floats, Floats]:
        """Predict the outcome by the fit to all rows.

        Rows far outside the training rows are counted in a warning.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        return_std : bool, default=False
            Whether to return a standard deviation for a new environment as well: half the width of
            `predict_interval(X, coverage=0.683)`.
        environments : array-like of shape (n,) or str or list of str, default=None
            Label of each row, the name of a column of X, or the list of columns of `fit`, of which
            the first counts. If all features predict a number, or selected ones with different
            baselines (`decision_.level`), rows of an environment of the fit get its intercept,
            predicted as in a mixed model, and after a fit with random deviations its coefficients.
            Rows without labels and of other labels are predicted as rows of a new environment.

        Returns
        -------
        predicted : ndarray of shape (n,)
            Expected outcome; for two classes the probability of the second one; for counts the
            expected count, per unit of exposure if there is one; for times to an event the median,
            infinite (with a warning) if it exceeds all observed times.
        std : ndarray of shape (n,)
            Standard deviation, only if `return_std`.

        Raises
        ------
        DataError
            If X lacks a column that predicts.
        SettingError
            If a standard deviation is requested for an outcome without prediction intervals.
        """
        predictor, columns = self._columns_to_predict(X)
        predicted = predictor.predict(columns)
        if environments is not None:
            if isinstance(predictor, LinearPredictor) and predictor.effects is not None:
                predicted = predicted + predictor.own(
                    columns, places_of_rows(X, environments, self.environments_)
                )
            else:
                told = (
                    "what predicts is the same in every environment: environments= changes nothing."
                )
                warn(told, PredictionWarning)
        if isinstance(predictor, SurvivalPredictor) and np.isinf(predicted).any():
            where = f"{np.isinf(predicted).sum():,} of {rows_text(len(predicted))}"
            warn(
                f"the median is not reached by {predictor.until}, in {where}: inf.",
                PredictionWarning,
            )
        return (
            (predicted, self._half_width(predictor, columns, _ONE_DEVIATION, X))
            if return_std
            else predicted
        )

    def predict_interval(self, X: Any, coverage: float = 0.9, new: str | None = None) -> Floats:
        """Return prediction intervals for the outcome in a new environment.

        Half the width of an interval is the larger of two numbers. The first is that of Student's t
        interval for rows like the training rows. The second is from the errors in held-out
        environments: the `coverage` quantile of the absolute errors in each of the E environments,
        of which the ⌈coverage · (E + 1)⌉-th smallest is taken, or the largest. The first call
        repeats the selection E times; later calls do not.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        coverage : float, default=0.9
            Probability that an interval contains the outcome, between 0 and 1.
        new : str, default=None
            If several factors were compared, the factor with a new level. None is the first.

        Returns
        -------
        ndarray of shape (n, 2)
            Lower and upper ends. NaN outside the range of the variable along which environments
            were compared.

        Raises
        ------
        SettingError
            If coverage is not between 0 and 1, or the outcome does not have prediction intervals:
            classes, counts, censored times, and numbers with a link other than the identity.

        See Also
        --------
        new_environments : Return errors and calibration in held-out environments.

        Notes
        -----
        If a `regressor` predicts, the difference between it and a linear extrapolation is added
        outside the range of the training rows, because regressors such as forests stay constant
        there.

        After a fit with random deviations the variance of a prediction is::

            Var ε (1 + w'Σw + w'(Σ_e W_e'V_e⁻¹W_e)⁻¹w),    w = (1, x − x̄)

        with the covariance Σ of the deviations by restricted maximum likelihood and degrees of
        freedom by Satterthwaite's rule, E − 1 for the deviations. With eight environments or more,
        environments are then not held out. With three or four environments a warning states that
        intervals may be too narrow.

        The quantile over environments follows the idea of conformal prediction for a new group
        (Dunn, Wasserman and Ramdas 2023).

        After a fit to moments the errors in an environment are those of a sample of its rows;
        without a sample they are taken as normal.

        References
        ----------
        Dunn, R., Wasserman, L. and Ramdas, A. (2023), Distribution-free prediction sets for
        two-layer hierarchical models, Journal of the American Statistical Association 118,
        2491-2502, arXiv:1809.07441.

        Satterthwaite, F. E. (1946), An approximate distribution of estimates of variance
        components, Biometrics Bulletin 2, 110-114, doi:10.2307/3002019.
        """
        _check_coverage(coverage)
        predictor, columns = self._columns_to_predict(X)
        mean = predictor.predict(columns)
        half = self._half_width(predictor, columns, float(coverage), X, new)
        return np.column_stack([mean - half, mean + half])

    def predict_site(self, X: Any, coverage: float = 0.9) -> SitePrediction:
        """Predict the rows of one new site together.

        The rows show where the site lies. Its mean is predicted by an average of all features and
        of the selected ones, and differences within it by an average of their slopes, with weights
        by the errors of both in held-out training sites. A row's prediction thus depends on the
        other rows. Numbers only, from three training environments and ten rows on; else each row is
        predicted as by `predict`, and the result states why.

        Parameters
        ----------
        X : (n, p) table
            Rows of one site, with all features.
        coverage : float, default=0.9
            Of the intervals, which are as wide as errors in held-out training sites require.

        Returns
        -------
        SitePrediction
            `prediction` (n,), `interval` (n, 2), the two weights, and a sentence.
        """
        check_is_fitted(self)
        _check_coverage(coverage)
        why = self._why_rows(len(X))
        if why:
            interval = self.predict_interval(X, coverage) if self._outcome.has_intervals else None
            sentence = f"Each row was predicted by itself: {why}."
            return SitePrediction(np.asarray(self.predict(X)), interval, coverage, sentence)
        sites = self._new_sites()
        assert sites.adaptation is not None
        training = sites.adaptation.training
        columns = self._encoded(X, training.columns)
        self._warn_of_far_rows(sites.design, columns)
        predicted, weight, share = training.predict(columns)
        errors = self._batch_errors()
        half = errors.half_width(coverage)
        interval = np.column_stack([predicted - half, predicted + half])
        if not errors.left_out:
            interval = None
        sentence = training.sentence(weight, share)
        return SitePrediction(predicted, interval, coverage, sentence, weight, share)

    @property
    def _can_predict_sites(self) -> bool:
        return self._outcome.has_intervals and self._regressor is None

    def _why_rows(self, n_rows: int) -> str:
        """Return why rows of a site are predicted one by one; empty if they are not."""
        if self._site is not None:
            return "the model is adapted to a site"
        if not self._outcome.has_intervals:
            return f"only numbers are predicted together, and {self._outcome.in_words} is not one"
        if self._regressor is not None:
            return "a regressor predicts"
        if n_rows < FEWEST_ROWS:
            return f"{n_rows} rows are fewer than {FEWEST_ROWS}"
        return self._new_sites().reason

    def adapt(
        self, X: Any, y: Any, X_site: Any = None, *, event: Any = None, exposure: Any = None
    ) -> Self:
        """Return a copy of the model for one site, adapted by labelled rows of it.

        For numbers, slopes and baseline of the site are averages over prior distributions of how
        sites differ, weighted by how well these predict held-out training sites and the labelled
        rows. Below five labelled rows, or three training environments, the site gets an intercept
        of its own as in a mixed model. For classes, counts and times the intercept and the slope of
        the predictions are recalibrated, shrunken towards what held-out training sites needed.

        Parameters
        ----------
        X : (m, p) table
            Labelled rows of the site, drawn as its other rows are.
        y : (m,)
            Their outcomes.
        X_site : (n, p) table, default=None
            Other rows of the site, which show where it lies.
        event, exposure : array-like of shape (m,), default=None
            As in `fit`, of times and of counts.

        Returns
        -------
        model
            With `predict`, `predict_interval`, `score` and, of a fitted model, `save`;
            `adaptation_` states what was done.

        Raises
        ------
        DataError
            If an outcome is missing, or lengths differ.
        SettingError
            If a regressor or an average predicts, or too few training sites show how sites differ.
        """
        check_is_fitted(self)
        if self._regressor is not None:
            raise SettingError("a regressor cannot be adapted to a site", use(regressor=None))
        given = aligned(X, y=y, event=event, exposure=exposure)
        outcome = np.asarray(self._outcome.coded(_one_column(given[0])), dtype=float)
        check_lengths({"X": len(X), "y": len(outcome)})
        if not len(outcome) or not np.isfinite(outcome).all():
            missing = int((~np.isfinite(outcome)).sum())
            raise DataError(
                f"y is missing in {rows_text(missing)} of {len(outcome)}: adapt by labelled rows."
            )
        adapted = copy.copy(self)
        if self._outcome.has_intervals:
            sites = self._new_sites()
            labelled, known = self._site_rows(X, X_site, sites.design.columns)
            adapted._site = sites.adapted(labelled, outcome, known)
        else:
            adapted._site = self._recalibrated(X, outcome, X_site, *given[1:])
        adapted.adaptation_ = f"Adapted to one site by {rows_text(len(outcome))} of it."
        return adapted

    def _site_rows(self, X: Any, X_site: Any, columns: Names) -> tuple[Floats, Floats]:
        """Return labelled rows (m, k) and all known rows (n, k) of a site."""
        labelled = self._encoded(X, columns)
        if X_site is None:
            return labelled, labelled
        return labelled, np.vstack([labelled, self._encoded(X_site, columns)])

    def _recalibrated(
        self, X: Any, y: Floats, X_site: Any, event: Any, exposure: Any
    ) -> LinearPredictor:
        """Return the predictor with the intercept and the slope of a site."""
        predictor = self._predictor(self.predict_with)
        if not isinstance(predictor, LinearPredictor) or len(predictor.members) > 1:
            raise SettingError("an average cannot be adapted to a site", use(predict_with="auto"))
        prior = recalibration_prior(self._new_environments(self.predict_with))
        labelled, known = self._site_rows(X, X_site, predictor.columns)
        slopes, intercept = predictor.line
        linear = labelled @ slopes + intercept
        centre = float(np.mean(known @ slopes + intercept))
        seen = y
        rows = None
        if isinstance(predictor, SurvivalPredictor):
            seen = np.ones(len(y)) if event is None else outcome_column(event, "event")[1]
            rows = predictor.baselines[0].cumulative(np.minimum(y, predictor.end))
        elif not self._outcome.kind.classifies:
            rows = np.ones(len(y)) if exposure is None else np.asarray(exposure, dtype=float)
        shift, slope = recalibrated(linear, seen, rows, prior, centre)
        (member,) = predictor.members
        member = replace(
            member,
            coefficients=slope * member.coefficients,
            intercept=slope * member.intercept + (1.0 - slope) * centre + shift,
        )
        return replace(predictor, members=(member,))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R² of the predictions.

        For two classes it is the R² of 0 and 1, for counts with an exposure that of rates.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        y : array-like of shape (n,)
            Outcome.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows, from 0 on.

        Returns
        -------
        float
            R².

        Raises
        ------
        DataError
            If a weight is missing or negative.
        SettingError
            If the outcome may be censored, or rates are predicted and their weights were not given.
        """
        check_is_fitted(self)
        outcome = self._outcome
        if outcome.kind.censored:
            raise SettingError(
                f"{outcome.name!r} may be censored, so that squared errors of it are not known."
            )
        if outcome.exposure is not None and sample_weight is None:
            what = (
                f"predictions are per unit of {outcome.exposure!r}: pass rates with their weights"
            )
            raise SettingError(f"{what}, score(X, y / exposure, sample_weight=exposure).")
        _check_weights(sample_weight)
        return super().score(X, y, sample_weight)

    def new_environments(self) -> NewEnvironments:
        """Return errors and calibration of the predictions in held-out environments.

        Each environment is held out in turn, from the selection and from the fit. The first call
        repeats the selection for each; later calls do not.

        Returns
        -------
        NewEnvironments
            Figures for each environment.
        """
        check_is_fitted(self)
        if self._site is not None:
            raise SettingError(
                "the model is adapted to one site: call new_environments() of the model that was "
                "adapted."
            )
        check_predict_with(self.predict_with, self._regressor)
        return self._new_environments(self.predict_with)

    @available_if(_of_times)
    def predict_survival(self, X: Any, times: Any) -> Floats:
        """Predict the probability that the event has not occurred by each of several times.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        times : array-like of shape (n_times,)
            Times from 0 to the longest observed time.

        Returns
        -------
        ndarray of shape (n, n_times)
            Survival probabilities by the fit to all rows.

        Raises
        ------
        SettingError
            If a time exceeds the longest observed time.
        """
        predictor, columns = self._curves(X)
        return predictor.survival(columns, _as_times("survival at", times, predictor))

    @available_if(_of_times)
    def predict_restricted_mean(self, X: Any, horizon: float) -> Floats:
        """Predict the mean time to the event, or to a horizon if that is earlier.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        horizon : float
            Time from 0 to the longest observed time.

        Returns
        -------
        ndarray of shape (n,)
            Restricted mean times by the fit to all rows.

        Raises
        ------
        SettingError
            If the horizon exceeds the longest observed time.
        """
        predictor, columns = self._curves(X)
        return predictor.restricted_mean(
            columns, float(_as_times("a mean within", [horizon], predictor)[0])
        )

    def _curves(self, X: Any) -> tuple[SurvivalPredictor, Floats]:
        predictor, columns = self._columns_to_predict(X)
        assert isinstance(predictor, SurvivalPredictor)
        return predictor, columns

    @property
    def columns_to_predict(self) -> Names:
        """Return the names of the columns that predict.

        Returns
        -------
        tuple of str
            Columns that a table for `predict` must have.
        """
        if self._site is None:
            check_predict_with(self.predict_with, self._regressor)
            return self._needed(self.predict_with)
        return self._of_tables(self._site.columns)

    @property
    def columns_of_site(self) -> Names:
        """Names of the columns that `predict_site` and `adapt` need."""
        if self._site is not None or not self._can_predict_sites:
            return self.columns_to_predict
        return self._of_tables(self._new_sites().design.columns)

    def _needed(self, kind: str) -> Names:
        return self._of_tables(self._predictor(kind).design.columns)

    def _of_tables(self, columns: Names) -> Names:
        """Names of the columns of tables from which these columns are made."""
        used = set(columns)
        encoding = self._layout.encoding
        if encoding is not None:
            used = {term.column for term in encoding.terms if used.intersection(term.names)}
        return tuple(name for name in self._layout.columns_of_tables if name in used)

    def check_columns(
        self, names: Sequence[str], where: str = "X", needed: Names | None = None
    ) -> None:
        """Raise where a table with columns of these names lacks one that predicts, or is needed."""
        wanted = self.columns_to_predict if needed is None else needed
        absent = [name for name in wanted if name not in names]
        if absent:
            selected_will_do = set(self._needed("selected")) <= set(names)
            remedy = (
                use(predict_with="selected")
                if selected_will_do
                else use(" in a new fit", exclude=absent)
            )
            what = (
                f"{where} lacks {quoted(absent)}, by which the model predicts; it has "
                f"{quoted(names)}"
            )
            raise DataError(what, remedy)

    def completed(self, X: Any, needed: Names | None = None) -> Any:
        """A data frame as it was fitted: with the columns that predict, or those needed; others are
        there, and any value does."""
        frame = as_frame(X, "X")
        encoding = self._layout.encoding
        self.check_columns(frame.columns, needed=needed)
        levels = {} if encoding is None else encoding.of_levels
        names = list(self._layout.columns_of_tables)
        needed = self.columns_to_predict if needed is None else needed
        native = frame.to_native()
        others = {
            name: levels[name].levels[0] if name in levels else 0.0
            for name in names
            if name not in needed
        }
        if hasattr(native, "reindex"):  # pandas, all at once
            filled = native[list(needed)].reindex(columns=names, fill_value=0.0)
            return with_columns(
                filled, {name: text for name, text in others.items() if name in levels}
            )
        fillers = (nw.lit(value).alias(name) for name, value in others.items())
        return frame.with_columns(*fillers).select(*names).to_native()

    def extrapolates(self, X: Any) -> Mask:
        """Return which rows are far outside the training rows.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,), bool
            True for rows with more than twice the largest leverage of the training rows.
        """
        predictor, columns = self._columns_to_predict(X, warns=False)
        return predictor.design.far(columns) > 0.0

    def _columns_to_predict(self, X: Any, warns: bool = True) -> tuple[Predictor, Floats]:
        """Return the predictor and the columns (n, k) that it needs; warn of rows far from the
        training rows."""
        predictor = self.predictor_
        columns = self._encoded(X, predictor.design.columns)
        if warns:
            self._warn_of_far_rows(predictor.design, columns)
        unable = (
            predictor.cannot_follow(columns)
            if warns and isinstance(predictor, RefittedPredictor)
            else ""
        )
        if unable:
            warn(f"{unable}: intervals there are wider by the difference.", PredictionWarning)
        if warns and self._span is not None and (beyond := self._span.beyond(X)).any():
            warn(f"{self._span.told(beyond)}: there are no intervals.", PredictionWarning)
        return predictor, columns

    def _warn_of_far_rows(self, design: Design, columns: Floats) -> None:
        derived = () if self._layout.encoding is None else self._layout.encoding.derived
        if outside := design.outside(columns, derived):
            warn(f"{outside}. What is predicted there is extrapolated.", PredictionWarning)

    def _encoded(self, X: Any, names: Names) -> Floats:
        """Return the columns (n, k) of these names, as they were fitted."""
        named = hasattr(self, "feature_names_in_") and frame_names(X) is not None
        encoded = self._fitted_columns(self.completed(X, self._of_tables(names)) if named else X)
        place = {name: j for j, name in enumerate(self.columns_)}
        at = np.array([place[name] for name in names], dtype=np.intp)
        return np.take(encoded, at, axis=1)

    def _half_width(
        self, predictor: Predictor, columns: Floats, coverage: float, X: Any, new: str | None = None
    ) -> Floats:
        half = self._half_width_within(predictor, columns, coverage, new)
        return half if self._span is None else np.where(self._span.beyond(X), np.nan, half)

    def _half_width_within(
        self, predictor: Predictor, columns: Floats, coverage: float, new: str | None
    ) -> Floats:
        self._outcome.check_intervals()
        if self._site is not None:
            return self._site.half_width(columns, coverage)
        deviates = isinstance(predictor, LinearPredictor) and predictor.knows_new_environments
        if deviates and self.n_environments_ >= _ENOUGH_ENVIRONMENTS:
            return predictor.half_width(columns, coverage)
        elsewhere = self._new_environments(self.predict_with, new)
        limit = elsewhere.limit(predictor.design.columns)
        n = elsewhere.n_environments
        if not limit and n <= _FEW_ENVIRONMENTS and coverage > n / (n + 1):
            few = f"{n} training environments are few"
            limit = f"{few}: if new ones differ much, intervals cover less than {coverage:.0%}."
        if limit:
            warn(limit, PredictionWarning)
        half = np.maximum(predictor.half_width(columns, coverage), elsewhere.half_width(coverage))
        return (
            half + predictor.departure(columns)
            if isinstance(predictor, RefittedPredictor)
            else half
        )


class ClassProbabilities(ClassifierMixin, IntervalRegressor):
    """A classifier by a model of the probability of the second of two classes."""

    _kind = "classifier"

    @property
    def classes_(self) -> NDArray:
        """Return the two labels.

        Returns
        -------
        ndarray of shape (2,)
            Labels; probabilities are those of the second one.
        """
        check_is_fitted(self)
        assert self._outcome.classes is not None
        labels = np.array(self._outcome.classes)
        # Labels of two types stay as they are.
        return (
            labels
            if labels.tolist() == list(self._outcome.classes)
            else np.array(self._outcome.classes, object)
        )

    @overload
    def predict(
        self, X: Any, return_std: Literal[False] = False, environments: Any = None
    ) -> NDArray: ...

    @overload
    def predict(self, X: Any, return_std: Literal[True], environments: Any = None) -> NoReturn: ...

    def predict(self, X: Any, return_std: bool = False, environments: Any = None) -> NDArray:
        """Predict the more probable class.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        return_std : bool, default=False
            Classes do not have a standard deviation: True is refused.
        environments : array-like of shape (n,) or str, default=None
            Labels as in `BIP.predict`, which use the intercept of a known environment if baselines
            differ.

        Returns
        -------
        ndarray of shape (n,)
            Labels.

        Raises
        ------
        SettingError
            If `return_std`.
        """
        if return_std:
            self._outcome.check_intervals()
        return self.classes_[
            (np.asarray(super().predict(X, environments=environments)) > 0.5).astype(np.intp)
        ]

    def predict_proba(self, X: Any) -> Floats:
        """Predict the probabilities of the classes by the fit to all rows.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n, 2)
            Probabilities in the order of `classes_`.
        """
        probability = self._probability(X)
        return np.column_stack([1.0 - probability, probability])

    def decision_function(self, X: Any) -> Floats:
        """Return the log odds of the second class.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.

        Returns
        -------
        ndarray of shape (n,)
            Log odds.
        """
        return log_odds(self._probability(X))

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the share of rows whose class is predicted.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        y : array-like of shape (n,)
            Labels.
        sample_weight : array-like of shape (n,), default=None
            Weights of the rows, from 0 on.

        Returns
        -------
        float
            Accuracy.

        Raises
        ------
        DataError
            If a weight is missing or negative, or labels have several types.
        """
        y, sample_weight = aligned(X, y=y, sample_weight=sample_weight)
        _check_weights(sample_weight)
        return float(super().score(X, _as_one_type(_one_column(y)), sample_weight))

    def _probability(self, X: Any) -> Floats:
        return np.asarray(super().predict(X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # As regressors here: fit(X, y) alone has no environments to learn from.
        tags.classifier_tags.poor_score = True
        tags.regressor_tags = None
        return tags


def _check_coverage(coverage: Any) -> None:
    if not isinstance(coverage, int | float | np.number) or not 0.0 < coverage < 1.0:
        raise SettingError(
            f"coverage={coverage!r} is no share between 0 and 1: use 0.9, for example."
        )


def _check_weights(weights: Any) -> None:
    """Raise if weights of a mean over rows, which need not be counts, are missing or negative."""
    wrong = 0 if weights is None else int((~(np.asarray(weights, dtype=np.float64) >= 0.0)).sum())
    if wrong:
        raise DataError(
            f"sample_weight is missing or below 0 in {rows_text(wrong)}: give weights from 0 on."
        )


def two_classes(y: Any) -> tuple[Classes, Floats]:
    """The two labels, sorted, and (n,) 1 for the second, 0 for the first, NaN where a label is
    missing."""
    import pandas as pd

    try:
        given = _one_column(y, warn=True)
        present = ~pd.isna(given)
        labels = _as_one_type(given[present])
        check_classification_targets(labels)
    except ValueError as error:
        raise DataError(str(error)) from None
    found = np.unique(labels).tolist()
    if len(found) != 2:
        # Scikit-learn's checks look for these words.
        classes = listing(map(repr, found), 4)
        what = (
            f"Only binary classification is supported: y has {len(found)} class labels, {classes}"
        )
        if len(found) < 2:
            raise DataError(f"{what}. It needs rows of two.")
        raise DataError(
            f"{what}. Compare one with the rest, as y == {found[0]!r} does, or each by "
            "OneVsRestClassifier."
        )
    coded = np.full(len(given), np.nan)
    coded[present] = labels == found[1]
    return (found[0], found[1]), coded


def _one_column(y: Any, warn: bool = False) -> NDArray:
    """Return y (n,) as scikit-learn takes it, also from a series or a data frame of any library."""
    import pandas as pd

    series, _ = one_series(
        pd.Series(y) if isinstance(y, pd.api.extensions.ExtensionArray) else y, "y"
    )
    return np.asarray(
        column_or_1d(y if series is None else np.array(series.to_list(), dtype=object), warn=warn)
    )


def _as_one_type(labels: NDArray) -> NDArray:
    """Objects as numbers, truth values or text, whatever they are all of."""
    kinds = sorted({type(label).__name__ for label in labels})
    if labels.dtype == object and len(kinds) > 1:
        raise DataError(
            f"y holds labels of several types, {quoted(kinds)}: make them one, for example text."
        )
    return np.array(labels.tolist()) if labels.dtype == object else labels


class TimesToEvent(IntervalRegressor):
    """A model of the hazard of an event; it is scored by the order of the times."""

    _kind = "survival"

    # The third of other estimators is the weight: here it is the event, without which times say
    # little.
    def score(  # type: ignore[override]
        self, X: Any, y: Any, event: Any = None, *, sample_weight: Any = None
    ) -> float:
        """Return Harrell's concordance of predicted and observed times.

        Parameters
        ----------
        X : array-like of shape (n, p) or data frame
            Rows with the columns of the fit.
        y : array-like of shape (n,)
            Times above 0.
        event : array-like of shape (n,), default=None
            1 if a time ended with the event, 0 if it was censored. None: all ended with the event.
        sample_weight : array-like of shape (n,), default=None
            Frequency weights, as in `fit`.

        Returns
        -------
        float
            Share of comparable pairs in the right order; 0.5 is chance.

        Raises
        ------
        DataError
            If times are not above 0, or events not 0 or 1.

        References
        ----------
        Harrell, F. E., Lee, K. L. and Mark, D. B. (1996), Multivariable prognostic models,
        Statistics in Medicine 15, 361-387,
        doi:10.1002/(SICI)1097-0258(19960229)15:4<361::AID-SIM168>3.0.CO;2-4.
        """
        y, event, sample_weight = aligned(X, y=y, event=event, sample_weight=sample_weight)
        predictor, columns = self._curves(X)
        predicted = predictor.order(columns)
        seen = outcome_of(y).values
        ended = np.ones(len(seen)) if event is None else outcome_column(event, "event")[1]
        check_lengths({"X": len(predicted), "y": len(seen), "event": len(ended)})
        if sample_weight is not None:
            given = {"X": predicted, "y": seen, "event": ended}
            predicted, seen, ended = weighted(given, sample_weight, "sample_weight")[0].values()
        unknown = ~(np.isfinite(seen) & (seen > 0.0)) | np.isnan(ended)
        if has_classes(y) or unknown.any():
            where = rows_text(int(unknown.sum()) or len(seen))
            raise DataError(
                f"y must be times above 0 and event 0 or 1, and are not in {where}: leave those "
                "out."
            )
        return concordance(seen, ended, predicted)


def _as_times(what: str, given: Any, predictor: SurvivalPredictor) -> Floats:
    """Return times (T,) from 0 to the longest observed time; what : is predicted there."""
    try:
        values = np.atleast_1d(np.asarray(given, dtype=float))
    except (ValueError, TypeError):
        values = np.full(1, np.nan)
    if values.ndim != 1 or not ((values >= 0.0) & (values <= predictor.end)).all():
        asked = listing(map(str, np.ravel(given)))
        raise SettingError(
            f"{what} {asked} cannot be predicted: use times from 0 to {predictor.until}."
        )
    return values
