"""Maximum likelihood of regressions that are not linear Gaussian: one subset, a list of them, or all."""
