"""The scikit-learn face: what every selector shares, and Bayesian invariant prediction."""

from .bip import BIP
from .classifier import BIPClassifier
from .selector import EnvironmentSelector

__all__ = ["BIP", "BIPClassifier", "EnvironmentSelector"]
