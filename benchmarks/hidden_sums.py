"""Features that help only together: does the sampler find them, and does it say so when it does
not?

python benchmarks/hidden_sums.py                  ten data sets, a minute
python benchmarks/hidden_sums.py --sets 120       the figures of docs/results/many-features.md, a
    quarter of an hour
python benchmarks/hidden_sums.py --prior uniform  with the paper's prior instead of the
    beta-binomial one
"""

from __future__ import annotations

import argparse
import time
import warnings
from dataclasses import dataclass

import numpy as np

from _harness import header
from _hidden_sums import HIDDEN_SUMS, hidden_sums
from invariance import BetaBinomialPrior, LinearGaussian, Tempering, UniformPrior
from invariance.exceptions import ApproximationWarning
from invariance.inference.base import RunOptions, Target
from invariance.priors import Prior

MAX_SIZE = 15
PRIORS: dict[str, Prior] = {
    "beta-binomial": BetaBinomialPrior(max_size=MAX_SIZE),
    "uniform": UniformPrior(max_size=MAX_SIZE),
}
# A reported subset this many nats below the truth is a miss.
MISS = 3.0


@dataclass(frozen=True)
class Outcome:
    """gap: log p(z)Λ(z) of the truth less that of the reported subset; exact: that is the truth."""

    gap: float
    exact: bool
    warned: bool
    agree: bool
    seconds: float


def fit(number: int, prior: Prior) -> Outcome:
    data = hidden_sums(HIDDEN_SUMS[number % len(HIDDEN_SUMS)], np.random.default_rng([7, number]))
    model = LinearGaussian().bind(data)
    bound = prior.bind(data.feature_names, model.largest_size)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        posterior = Tempering().run(
            Target(model, bound), RunOptions(2, np.random.default_rng(number), progress=False)
        )
    seconds = time.perf_counter() - started
    subsets = np.array([data.truth, posterior.mode_mask])
    truth, found = model.log_ratio_many(subsets) + bound.log_prob(subsets)
    return Outcome(
        gap=float(truth - found),
        exact=bool((posterior.mode_mask == data.truth).all()),
        warned=any(issubclass(warning.category, ApproximationWarning) for warning in caught),
        agree=any("replicas agree" in note for note in posterior.notes),
        seconds=seconds,
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=10)
    parser.add_argument("--first", type=int, default=0, help="number of the first data set")
    parser.add_argument("--prior", choices=PRIORS, default="beta-binomial")
    arguments = parser.parse_args()
    header(
        f"features that help only together, {arguments.prior} prior, subsets of at most {MAX_SIZE}"
    )
    print(
        f"found: the mode is at most {MISS:g} nats less probable than the truth; silent: missed "
        "without a warning\n"
    )
    fit(0, PRIORS[arguments.prior])
    outcomes = []
    for number in range(arguments.first, arguments.first + arguments.sets):
        outcomes.append(fit(number, PRIORS[arguments.prior]))
        if outcomes[-1].gap > MISS:
            print(
                f"missed: number {number} ({HIDDEN_SUMS[number % len(HIDDEN_SUMS)]}), "
                f"{outcomes[-1]}",
                flush=True,
            )
    missed = [one for one in outcomes if one.gap > MISS]
    seconds = [one.seconds for one in outcomes]
    print(" sets  found  exact  warned  missed  silent  median s  max s")
    print(
        f"{len(outcomes):>5} {1 - len(missed) / len(outcomes):>6.3f} "
        f"{np.mean([one.exact for one in outcomes]):>6.2f} "
        f"{sum(one.warned for one in outcomes):>7} {len(missed):>7} "
        f"{sum(not one.warned for one in missed):>7} "
        f"{np.median(seconds):>9.2f} {max(seconds):>6.1f}"
    )


if __name__ == "__main__":
    main()
