"""Models of the outcome given a subset: whether it is invariant, and how well it predicts.

A model estimates the local conditionals p_e(y | x^z) and the pooled conditional g(y | x^z) by
maximum likelihood (equations 5 and 6 of the paper, Wu et al. 2025, arXiv:2506.22675).
"""
