"""The scikit-learn face: what every selector shares, and Bayesian invariant prediction."""

from .bip import BIP
from .classifier import BIPClassifier
from .selector import EnvironmentSelector
from .survival import BIPSurvival

__all__ = ["BIP", "BIPClassifier", "BIPSurvival", "EnvironmentSelector"]
