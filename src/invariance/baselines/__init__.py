"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from ..screening import LassoScreen
    from .eills import EILLS
    from .hidden_icp import HiddenICP
    from .icp import ICP
    from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression
    from .screened import Screened

_HOMES = {
    "EILLS": "eills",
    "HiddenICP": "hidden_icp",
    "ICP": "icp",
    "LassoScreen": "screened",
    "LassoSelection": "regression",
    "MarginalSelection": "regression",
    "Oracle": "regression",
    "PooledRegression": "regression",
    "Screened": "screened",
}

__all__ = [*_HOMES]
__getattr__, __dir__ = on_first_use(__name__, _HOMES)
