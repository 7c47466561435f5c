"""The methods of a comparison by name, with a line of help each; each is loaded when built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from .._tools.registry import load

if TYPE_CHECKING:
    from ..estimators.selector import EnvironmentSelector

# Beyond so many features a comparison screens first where a method is slow with many, unless told
# otherwise.
MAX_UNSCREENED = 16


@dataclass(frozen=True)
class Method:
    """Describe a method of a comparison.

    home : "room.module:Class"; help : what it selects
    kind : whether it uses invariance, predicts on all rows together, or needs the true features
    many : it accepts many features; screened : it uses only features that pass a Lasso screen
    predictor : it predicts with all features, and is compared by default only together with errors
    slow : it is compared only if named
    settings : parameters of the class
    """

    name: str
    home: str
    help: str
    kind: Literal["invariance", "prediction", "truth"] = "invariance"
    many: bool = True
    screened: bool = False
    predictor: bool = False
    slow: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)

    def load(self) -> Any:
        """Return the class of the method itself, without its screen."""
        return load(self.home)

    def build(
        self, model: EnvironmentSelector | None = None, **settings: Any
    ) -> EnvironmentSelector:
        """Return the unfitted method, behind its screen if it has one; or the screened `model`."""
        from .base import Screened

        if model is None:
            model = self.load()(**self.settings, **settings)
        return Screened(model) if self.screened else model


_STABILIZED = "baselines.stabilized_regression:StabilizedRegression"
_POOLED = "baselines.all_features:Pooled"
_predictor = partial(Method, kind="prediction", predictor=True)
_ALONE = (
    Method("BIP", "estimators.bip:BIP", "the best predictor among invariant subsets"),
    Method(
        "ICP",
        "baselines.icp:ICP",
        "what all subsets with invariant residuals have in common",
        many=False,
    ),
    Method(
        "Stability",
        "baselines.icp:StabilityICP",
        "what ICP selects in most samples",
        many=False,
        slow=True,
    ),
    Method(
        "Hidden-ICP",
        "baselines.icp:HiddenICP",
        "effects that hold under hidden confounders",
        many=False,
    ),
    Method(
        "EILLS",
        "baselines.eills:EILLS",
        "least squares with a penalty where environments disagree",
        many=False,
    ),
    Method("Stabilized", _STABILIZED, "the average of stable and predictive subsets", many=False),
    Method(
        "Regression",
        "baselines.regression:PooledRegression",
        "significant in regression on all",
        "prediction",
    ),
    Method(
        "Lasso",
        "baselines.regression:LassoSelection",
        "kept by a cross-validated Lasso",
        "prediction",
    ),
    Method(
        "Marginal",
        "baselines.regression:MarginalSelection",
        "correlated with the outcome",
        "prediction",
    ),
    _predictor("Ridge", "baselines.all_features:RidgeRegression", "all, by ridge regression"),
    _predictor("Forest", _POOLED, "all, by a random forest", settings={"estimator": "forest"}),
    _predictor(
        "Boosting", _POOLED, "all, by gradient boosting", settings={"estimator": "boosting"}
    ),
    _predictor("Mixed", "baselines.all_features:RandomIntercept", "all, with a random intercept"),
    _predictor(
        "Anchor", "baselines.all_features:Anchor", "all, robust against shifts of the means"
    ),
    _predictor(
        "V-REx", "baselines.all_features:VREx", "all, with errors alike in all environments"
    ),
    Method(
        "Oracle",
        "baselines.regression:Oracle",
        "the true features that are significant: for simulations",
        "truth",
    ),
)
_BEHIND_SCREENS = (
    replace(m, name=f"{m.name}-screen", screened=True) for m in _ALONE if m.kind == "invariance"
)

METHODS = {method.name: method for method in (*_ALONE, *_BEHIND_SCREENS)}
LISTING = "\n".join(f"    {method.name:<10}  {method.help}" for method in _ALONE)
REMARKS = (
    f"Beyond {MAX_UNSCREENED} features ICP, Hidden-ICP, EILLS and Stabilized see by default only "
    "what a Lasso screen "
    "lets pass; these, Stability and BIP run behind one as NAME-screen. From Regression on "
    "invariance is not asked "
    "for. Stability runs if named; Ridge to V-REx predict with all features, and run if named or "
    "environments are left "
    "out."
)


def default_names(n_features: int, left_out: bool = False) -> list[str]:
    """Return the methods that are compared by default.

    They are not slow and do not need the true features; they are screened if there are too many
    features for them. Those that only predict are included if environments are held out.
    """
    usual = (method for method in _ALONE if method.kind != "truth" and not method.slow)
    told = [method for method in usual if left_out or not method.predictor]
    return [m.name if m.many or n_features <= MAX_UNSCREENED else f"{m.name}-screen" for m in told]
