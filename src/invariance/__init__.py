"""Bayesian invariant prediction: which features predict an outcome the same way in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .baselines import EILLS, ICP, HiddenICP, LassoSelection, MarginalSelection, Oracle, PooledRegression
    from .comparison import compare
    from .conditionals.linear_gaussian import LinearGaussian
    from .data import DataError, DataWarning, MultiEnvironmentData
    from .estimators import BIP
    from .inference.enumeration import Enumeration
    from .inference.tempering import Tempering
    from .inference.tempering_posterior import MixingWarning
    from .inference.variational import Variational
    from .inference.variational_posterior import ApproximationWarning
    from .moments import Moments
    from .posterior import Posterior
    from .priors import BetaBinomialPrior, InclusionPrior, UniformPrior
    from .screening import LassoScreen, Screened
    from .verdict import NotInvariantWarning

_HOMES = {
    "ApproximationWarning": "inference.variational_posterior",
    "BIP": "estimators",
    "BetaBinomialPrior": "priors",
    "DataError": "data",
    "DataWarning": "data",
    "EILLS": "baselines",
    "Enumeration": "inference.enumeration",
    "HiddenICP": "baselines",
    "ICP": "baselines",
    "InclusionPrior": "priors",
    "LassoScreen": "screening",
    "LassoSelection": "baselines",
    "LinearGaussian": "conditionals.linear_gaussian",
    "MarginalSelection": "baselines",
    "MixingWarning": "inference.tempering_posterior",
    "Moments": "moments",
    "MultiEnvironmentData": "data",
    "NotInvariantWarning": "verdict",
    "Oracle": "baselines",
    "PooledRegression": "baselines",
    "Posterior": "posterior",
    "Screened": "screening",
    "Tempering": "inference.tempering",
    "UniformPrior": "priors",
    "Variational": "inference.variational",
    "compare": "comparison",
}

__all__ = [
    "BIP",
    "EILLS",
    "ICP",
    "ApproximationWarning",
    "BetaBinomialPrior",
    "DataError",
    "DataWarning",
    "Enumeration",
    "HiddenICP",
    "InclusionPrior",
    "LassoScreen",
    "LassoSelection",
    "LinearGaussian",
    "MarginalSelection",
    "MixingWarning",
    "Moments",
    "MultiEnvironmentData",
    "NotInvariantWarning",
    "Oracle",
    "PooledRegression",
    "Posterior",
    "Screened",
    "Tempering",
    "UniformPrior",
    "Variational",
    "__version__",
    "compare",
]


def __getattr__(name: str) -> Any:
    # Public names load on first use: numba and scikit-learn cost a second that `invariance --help` need not wait for.
    if name not in _HOMES:
        raise AttributeError(f"module 'invariance' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
