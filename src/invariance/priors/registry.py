"""The family of priors by name; a form says what may stand in brackets when one is typed."""

from __future__ import annotations

from .._tools.family import Family, Member

PRIORS = Family(
    {
        "uniform": Member("priors.uniform:UniformPrior", "over all subsets"),
        "beta-binomial": Member(
            "priors.beta_binomial:BetaBinomialPrior", "over sizes", ("beta-binomial", "beta-binomial(A,B)")
        ),
        "inclusion": Member("priors.inclusion:InclusionPrior", "of each feature alone", ("inclusion(Q)",)),
    }
)
