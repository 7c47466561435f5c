"""Bayesian invariant prediction: which features predict an outcome the same way in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._tools.progress import follow_cells
from ._tools.registry import on_first_use
from ._version import __version__

if TYPE_CHECKING:
    from .baselines import EILLS, ICP, HiddenICP, LassoSelection, MarginalSelection, Oracle, PooledRegression
    from .baselines.comparison import compare
    from .baselines.screened import Screened
    from .data import MultiEnvironmentData, read_table, spline
    from .decisions.plots import plot_coefficients, plot_environments, plot_frontier, plot_subsets
    from .decisions.residual_check import residual_check
    from .estimators.bip import BIP
    from .estimators.classifier import BIPClassifier
    from .estimators.saved import load
    from .estimators.survival import BIPSurvival
    from .exceptions import (
        ApproximationWarning,
        ClusterWarning,
        CoverageWarning,
        DataError,
        DataWarning,
        EmptySelectionWarning,
        EngineError,
        ExtrapolationWarning,
        InvarianceError,
        MissingFileError,
        MissingLettersWarning,
        MixingWarning,
        NotInvariantWarning,
        NumericalWarning,
        OutputError,
        PosteriorError,
        SeparationWarning,
        SettingError,
        SingleEnvironmentWarning,
        StudyError,
        SweepError,
        WrongTypeError,
    )
    from .inference.enumeration import Enumeration
    from .inference.tempering import Tempering
    from .inference.variational import Variational
    from .models.additive import Additive
    from .models.bayesian import BayesianLinearGaussian
    from .models.invariance_test import Tolerance
    from .models.linear_gaussian import LinearGaussian
    from .models.logistic import Logistic
    from .models.negative_binomial import NegativeBinomial
    from .models.poisson import Poisson
    from .models.survival import PiecewiseExponential
    from .moments import Moments
    from .moments.accumulator import MomentsAccumulator
    from .posterior import Posterior
    from .posterior.plots import plot_inclusion
    from .priors import BetaBinomialPrior, InclusionPrior, UniformPrior
    from .screening import LassoScreen
    from .sweeps.store import read_sweep
    from .sweeps.sweep import sweep

_HOMES = {
    "Additive": "models.additive",
    "ApproximationWarning": "exceptions",
    "BIP": "estimators.bip",
    "BIPClassifier": "estimators.classifier",
    "BIPSurvival": "estimators.survival",
    "BayesianLinearGaussian": "models.bayesian",
    "BetaBinomialPrior": "priors",
    "ClusterWarning": "exceptions",
    "CoverageWarning": "exceptions",
    "DataError": "exceptions",
    "DataWarning": "exceptions",
    "EILLS": "baselines",
    "EmptySelectionWarning": "exceptions",
    "EngineError": "exceptions",
    "Enumeration": "inference.enumeration",
    "ExtrapolationWarning": "exceptions",
    "HiddenICP": "baselines",
    "ICP": "baselines",
    "InclusionPrior": "priors",
    "InvarianceError": "exceptions",
    "LassoScreen": "screening",
    "LassoSelection": "baselines",
    "LinearGaussian": "models.linear_gaussian",
    "Logistic": "models.logistic",
    "PiecewiseExponential": "models.survival",
    "Poisson": "models.poisson",
    "MarginalSelection": "baselines",
    "MissingFileError": "exceptions",
    "MissingLettersWarning": "exceptions",
    "MixingWarning": "exceptions",
    "Moments": "moments",
    "MomentsAccumulator": "moments.accumulator",
    "MultiEnvironmentData": "data",
    "NegativeBinomial": "models.negative_binomial",
    "NotInvariantWarning": "exceptions",
    "NumericalWarning": "exceptions",
    "Oracle": "baselines",
    "OutputError": "exceptions",
    "PooledRegression": "baselines",
    "Posterior": "posterior",
    "PosteriorError": "exceptions",
    "Screened": "baselines.screened",
    "SeparationWarning": "exceptions",
    "SettingError": "exceptions",
    "SingleEnvironmentWarning": "exceptions",
    "StudyError": "exceptions",
    "SweepError": "exceptions",
    "Tempering": "inference.tempering",
    "Tolerance": "models.invariance_test",
    "UniformPrior": "priors",
    "Variational": "inference.variational",
    "WrongTypeError": "exceptions",
    "compare": "baselines.comparison",
    "load": "estimators.saved",
    "plot_coefficients": "decisions.plots",
    "plot_environments": "decisions.plots",
    "plot_frontier": "decisions.plots",
    "plot_inclusion": "posterior.plots",
    "plot_subsets": "decisions.plots",
    "read_sweep": "sweeps.store",
    "read_table": "data",
    "residual_check": "decisions.residual_check",
    "spline": "data",
    "sweep": "sweeps.sweep",
}

__all__ = [
    "BIP",
    "EILLS",
    "ICP",
    "Additive",
    "ApproximationWarning",
    "BIPClassifier",
    "BIPSurvival",
    "BayesianLinearGaussian",
    "BetaBinomialPrior",
    "ClusterWarning",
    "CoverageWarning",
    "DataError",
    "DataWarning",
    "EmptySelectionWarning",
    "EngineError",
    "Enumeration",
    "ExtrapolationWarning",
    "HiddenICP",
    "InclusionPrior",
    "InvarianceError",
    "LassoScreen",
    "LassoSelection",
    "LinearGaussian",
    "Logistic",
    "MarginalSelection",
    "MissingFileError",
    "MissingLettersWarning",
    "MixingWarning",
    "Moments",
    "MomentsAccumulator",
    "MultiEnvironmentData",
    "NegativeBinomial",
    "NotInvariantWarning",
    "NumericalWarning",
    "Oracle",
    "OutputError",
    "PiecewiseExponential",
    "Poisson",
    "PooledRegression",
    "Posterior",
    "PosteriorError",
    "Screened",
    "SeparationWarning",
    "SettingError",
    "SingleEnvironmentWarning",
    "StudyError",
    "SweepError",
    "Tempering",
    "Tolerance",
    "UniformPrior",
    "Variational",
    "WrongTypeError",
    "__version__",
    "compare",
    "load",
    "plot_coefficients",
    "plot_environments",
    "plot_frontier",
    "plot_inclusion",
    "plot_subsets",
    "read_sweep",
    "read_table",
    "residual_check",
    "spline",
    "sweep",
]

__getattr__, _names = on_first_use(__name__, _HOMES)
follow_cells()


def __dir__() -> list[str]:
    return __all__
