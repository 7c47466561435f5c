"""The methods of a comparison by name, with a line of help each. Loads none of them until one is built."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from .._tools.registry import load

if TYPE_CHECKING:
    from ..estimators.selector import EnvironmentSelector

Kind = Literal["invariance", "prediction", "truth"]


@dataclass(frozen=True)
class Method:
    """A method that can be named.

    home : "room.module:Class"; help : what it selects
    kind : whether it asks for invariance, for prediction on all rows together, or must be told the truth
    most_features : beyond so many a comparison screens first, unless told otherwise; None: never
    screened : it sees only what a Lasso screen lets pass
    """

    name: str
    home: str
    help: str
    kind: Kind = "invariance"
    most_features: int | None = None
    screened: bool = False

    def load(self) -> type[EnvironmentSelector]:
        """The class of the method itself, without its screen."""
        found: type[EnvironmentSelector] = load(self.home)
        return found

    def build(self, **settings: Any) -> EnvironmentSelector:
        """The unfitted method; settings are its own, not its screen's."""
        return self.around(self.load()(**settings))

    def around(self, model: EnvironmentSelector) -> EnvironmentSelector:
        """`model` in place of the method with its defaults: behind the screen, where there is one."""
        if not self.screened:
            return model
        from .screened import Screened

        return Screened(model)

    def behind_screen(self) -> Method:
        text = f"{self.name} on the features that a Lasso screen lets pass"
        return replace(self, name=f"{self.name}-screen", help=text, most_features=None, screened=True)

    def for_features(self, n_features: int) -> Method:
        """What a comparison takes for data of so many features, unless told otherwise."""
        return self if self.most_features is None or n_features <= self.most_features else self.behind_screen()


_ALONE = (
    Method("BIP", "estimators.bip:BIP", "the best predictor among invariant subsets"),
    Method("ICP", "baselines.icp:ICP", "what all subsets with invariant residuals have in common", most_features=16),
    Method(
        "Hidden-ICP", "baselines.hidden_icp:HiddenICP", "effects that hold under hidden confounders", most_features=16
    ),
    Method(
        "EILLS", "baselines.eills:EILLS", "least squares with a penalty where environments disagree", most_features=16
    ),
    Method("Regression", "baselines.regression:PooledRegression", "significant in pooled least squares", "prediction"),
    Method("Lasso", "baselines.regression:LassoSelection", "kept by a cross-validated Lasso", "prediction"),
    Method(
        "Marginal", "baselines.regression:MarginalSelection", "significantly correlated with the outcome", "prediction"
    ),
    Method("Oracle", "baselines.regression:Oracle", "the true features that are significant: for simulations", "truth"),
)

METHODS = {m.name: m for m in (*_ALONE, *(m.behind_screen() for m in _ALONE if m.kind == "invariance"))}


def compared_by_default(n_features: int) -> list[Method]:
    """Every method that need not be told the truth, screened where there are too many features for it."""
    return [method.for_features(n_features) for method in _ALONE if method.kind != "truth"]


def class_names() -> dict[str, str]:
    """{name of the class: name of the method}"""
    return {method.home.partition(":")[2]: method.name for method in _ALONE}


def name_of(estimator: type) -> str:
    """The name of the method that a class is, or else the class's own."""
    return next((method.name for method in _ALONE if method.load() is estimator), estimator.__name__)


def remarks() -> str:
    """What the names alone do not say, in sentences."""
    limits = sorted({method.most_features for method in _ALONE if method.most_features is not None})
    sentences = [
        f"Beyond {most} features {_names(m for m in _ALONE if m.most_features == most)} see by default only those that "
        "a Lasso screen lets pass."
        for most in limits
    ]
    sentences += [
        f"{_names(m for m in _ALONE if m.kind == 'invariance')} also run behind a screen: add -screen to the name.",
        f"{_names(m for m in _ALONE if m.kind == 'prediction')} do not ask for invariance.",
    ]
    return " ".join(sentences)


def _names(methods: Iterable[Method]) -> str:
    *others, last = (method.name for method in methods)
    return f"{', '.join(others)} and {last}" if others else last


def listing(indent: str) -> str:
    """One line for each method: its name and its help."""
    width = max(len(method.name) for method in _ALONE)
    return "\n".join(f"{indent}{method.name:<{width}}  {method.help}" for method in _ALONE)
