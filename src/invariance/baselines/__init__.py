"""The methods that Bayesian invariant prediction is compared with, behind the same estimator
interface."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from ..screening import LassoScreen as LassoScreen
    from .all_features import Anchor as Anchor
    from .all_features import GradientBoosting as GradientBoosting
    from .all_features import RandomForest as RandomForest
    from .all_features import RandomIntercept as RandomIntercept
    from .all_features import RidgeRegression as RidgeRegression
    from .all_features import VREx as VREx
    from .base import Screened as Screened
    from .eills import EILLS as EILLS
    from .icp import ICP as ICP
    from .icp import HiddenICP as HiddenICP
    from .icp import StabilityICP as StabilityICP
    from .regression import LassoSelection as LassoSelection
    from .regression import MarginalSelection as MarginalSelection
    from .regression import Oracle as Oracle
    from .regression import PooledRegression as PooledRegression
    from .stabilized_regression import StabilizedRegression as StabilizedRegression

_NAMES = {
    "all_features": (
        "Anchor",
        "GradientBoosting",
        "RandomForest",
        "RandomIntercept",
        "RidgeRegression",
        "VREx",
    ),
    "base": ("LassoScreen", "Screened"),
    "eills": ("EILLS",),
    "icp": ("ICP", "HiddenICP", "StabilityICP"),
    "regression": ("LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"),
    "stabilized_regression": ("StabilizedRegression",),
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = [*_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
