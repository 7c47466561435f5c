"""Bayesian invariant prediction: which features predict an outcome the same way in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._tools.registry import on_first_use
from ._version import __version__

if TYPE_CHECKING:
    from .baselines.comparison import compare
    from .data.environments import Environments
    from .data.multi_environment import MultiEnvironmentData
    from .data.reading import read_table
    from .data.settings import Columns, FileFormat
    from .data.terms import spline
    from .estimators.bip import BIP, BIPClassifier, BIPSurvival
    from .estimators.saved import load
    from .inference.enumeration import Enumeration
    from .inference.tempering.engine import Tempering
    from .inference.variational.engine import Variational
    from .models.additive import Additive
    from .models.bayesian import BayesianLinearGaussian
    from .models.counts import NegativeBinomial, Poisson
    from .models.gaussian import LinearGaussian
    from .models.invariance_test import Tolerance
    from .models.logistic import Logistic
    from .models.survival import PiecewiseExponential
    from .moments.accumulator import MomentsAccumulator
    from .moments.moments import Moments
    from .posterior.posterior import Posterior
    from .priors.priors import BetaBinomialPrior, InclusionPrior, UniformPrior
    from .sweeps.store import read_sweep
    from .sweeps.sweep import sweep

_HOMES = {
    "BIP": "estimators.bip",
    "BIPClassifier": "estimators.bip",
    "BIPSurvival": "estimators.bip",
    "load": "estimators.saved",
    "compare": "baselines.comparison",
    "sweep": "sweeps.sweep",
    "read_sweep": "sweeps.store",
    "MultiEnvironmentData": "data.multi_environment",
    "Moments": "moments.moments",
    "MomentsAccumulator": "moments.accumulator",
    "read_table": "data.reading",
    "Columns": "data.settings",
    "Environments": "data.settings",
    "FileFormat": "data.settings",
    "spline": "data.terms",
    "LinearGaussian": "models.gaussian",
    "BayesianLinearGaussian": "models.bayesian",
    "Additive": "models.additive",
    "Logistic": "models.logistic",
    "Poisson": "models.counts",
    "NegativeBinomial": "models.counts",
    "PiecewiseExponential": "models.survival",
    "Tolerance": "models.invariance_test",
    "UniformPrior": "priors.priors",
    "InclusionPrior": "priors.priors",
    "BetaBinomialPrior": "priors.priors",
    "Enumeration": "inference.enumeration",
    "Tempering": "inference.tempering.engine",
    "Variational": "inference.variational.engine",
    "Posterior": "posterior.posterior",
}

__all__ = ["__version__", *_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
