"""BIP-VI: mean fields and mixtures of them, ascended by stochastic gradients."""
