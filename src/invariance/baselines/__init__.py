"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .eills import EILLS
    from .hidden_icp import HiddenICP
    from .icp import ICP
    from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression

__all__ = ["EILLS", "ICP", "HiddenICP", "LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"]


def __getattr__(name: str) -> Any:
    # `invariance --help` reads the registry beside this file and need not wait for numba and scikit-learn.
    from .registry import METHODS

    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return next(method.load() for method in METHODS.values() if method.estimator == name)


def __dir__() -> list[str]:
    return __all__
