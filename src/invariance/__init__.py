"""Bayesian invariant prediction: which features predict an outcome the same way in every environment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .conditionals.linear_gaussian import LinearGaussian
    from .data import DataError, DataWarning, MultiEnvironmentData
    from .estimators import BIP
    from .inference.enumeration import Enumeration
    from .moments import Moments
    from .posterior import Posterior
    from .priors import BetaBinomialPrior, InclusionPrior, UniformPrior

_HOMES = {
    "BIP": "estimators",
    "BetaBinomialPrior": "priors",
    "DataError": "data",
    "DataWarning": "data",
    "Enumeration": "inference.enumeration",
    "InclusionPrior": "priors",
    "LinearGaussian": "conditionals.linear_gaussian",
    "Moments": "moments",
    "MultiEnvironmentData": "data",
    "Posterior": "posterior",
    "UniformPrior": "priors",
}

__all__ = [
    "BIP",
    "BetaBinomialPrior",
    "DataError",
    "DataWarning",
    "Enumeration",
    "InclusionPrior",
    "LinearGaussian",
    "Moments",
    "MultiEnvironmentData",
    "Posterior",
    "UniformPrior",
    "__version__",
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
