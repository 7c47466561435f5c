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

_HOMES = {
    "Anchor": "linear_predictors",
    "EILLS": "eills",
    "GradientBoosting": "pooled",
    "HiddenICP": "icp",
    "ICP": "icp",
    "LassoScreen": "base",
    "LassoSelection": "regression",
    "MarginalSelection": "regression",
    "Oracle": "regression",
    "PooledRegression": "regression",
    "RandomForest": "pooled",
    "RidgeRegression": "pooled",
    "RandomIntercept": "linear_predictors",
    "Screened": "base",
    "StabilityICP": "stability",
    "StabilizedRegression": "stabilized_regression",
    "VREx": "linear_predictors",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
