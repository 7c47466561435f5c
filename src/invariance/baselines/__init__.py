"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from typing import TYPE_CHECKING

from .._tools.registry import on_first_use

if TYPE_CHECKING:
    from .eills import EILLS
    from .hidden_icp import HiddenICP
    from .icp import ICP
    from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression

__all__ = ["EILLS", "ICP", "HiddenICP", "LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"]
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "EILLS": "eills",
        "HiddenICP": "hidden_icp",
        "ICP": "icp",
        "LassoSelection": "regression",
        "MarginalSelection": "regression",
        "Oracle": "regression",
        "PooledRegression": "regression",
    },
)
