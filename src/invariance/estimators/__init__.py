"""Bayesian invariant prediction as scikit-learn estimators."""

from .bip import BIP, BIPClassifier, BIPSurvival
from .selector import EnvironmentSelector

__all__ = ["BIP", "BIPClassifier", "BIPSurvival", "EnvironmentSelector"]
