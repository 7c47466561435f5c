"""The methods that Bayesian invariant prediction is compared with, behind the same estimator interface."""

from .eills import EILLS
from .hidden_icp import HiddenICP
from .icp import ICP
from .regression import LassoSelection, MarginalSelection, Oracle, PooledRegression

__all__ = ["EILLS", "ICP", "HiddenICP", "LassoSelection", "MarginalSelection", "Oracle", "PooledRegression"]
