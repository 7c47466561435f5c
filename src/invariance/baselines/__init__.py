"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from ..screening import LassoScreen
    from .base import Screened
    from .eills import EILLS
    from .icp import ICP, HiddenICP
    from .linear_predictors import Anchor, RandomIntercept, VREx
    from .pooled import GradientBoosting, RandomForest, RidgeRegression
    from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression
    from .stability import StabilityICP
    from .stabilized_regression import StabilizedRegression

_NAMES = {
    "base": ("LassoScreen", "Screened"),
    "eills": ("EILLS",),
    "icp": ("ICP", "HiddenICP"),
    "linear_predictors": ("Anchor", "RandomIntercept", "VREx"),
    "pooled": ("GradientBoosting", "RandomForest", "RidgeRegression"),
    "regression": ("LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"),
    "stability": ("StabilityICP",),
    "stabilized_regression": ("StabilizedRegression",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
