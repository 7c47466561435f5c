"""BIP-VI: mean fields and mixtures of them, ascended by stochastic gradients."""

from .engine import Variational

__all__ = ["Variational"]
