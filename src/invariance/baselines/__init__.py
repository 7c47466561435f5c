"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from ..screening import LassoScreen
    from .all_features import Anchor, GradientBoosting, RandomForest, RandomIntercept, RidgeRegression, VREx
    from .base import Screened
    from .eills import EILLS
    from .icp import ICP, HiddenICP, StabilityICP
    from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression
    from .stabilized_regression import StabilizedRegression

_NAMES = {
    "all_features": ("Anchor", "GradientBoosting", "RandomForest", "RandomIntercept", "RidgeRegression", "VREx"),
    "base": ("LassoScreen", "Screened"),
    "eills": ("EILLS",),
    "icp": ("ICP", "HiddenICP", "StabilityICP"),
    "regression": ("LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"),
    "stabilized_regression": ("StabilizedRegression",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
