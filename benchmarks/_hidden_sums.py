"""Data whose invariant features help only together: large parts of a small sum, each of which alone
looks useless."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from invariance import MultiEnvironmentData

HiddenSums = Literal[
    "plain",
    "parents",
    "two sums",
    "copies",
    "symmetric",
    "pair",
    "many parts",
    "weights",
    "decoy sums",
    "chain",
]
HIDDEN_SUMS: tuple[HiddenSums, ...] = get_args(HiddenSums)


def hidden_sums(kind: HiddenSums, rng: np.random.Generator) -> MultiEnvironmentData:
    """One data set of 100 to 1,000 features in 2 to 8 environments; all its parameters are drawn.

    kind : "plain": the outcome is a sum of three or four features plus noise; "parents": and of one
        to three ordinary ones; "two sums": of two such sums; "copies": with noisy copies of the
        parts; "symmetric": the sum is spread over its parts evenly; "pair": of two; "many parts":
        of five or six; "weights": with unequal weights; "decoy sums": others hide what follows the
        outcome; "chain": of two, one of which comes from a third

    Features lie in correlated blocks; up to 40 of them follow the outcome with coefficients of
    their own in every environment.
    """
    draw = _Draw(rng)
    n_parts = int(rng.choice([3, 4]))
    if kind == "parents":
        draw.hide(n_parts)
        for parent in draw.take(int(rng.integers(1, 4))):
            draw.X[:, parent] = draw.driver()
            draw.add(rng.choice([-1, 1]) * rng.uniform(0.5, 1.5) * draw.X[:, parent], [parent])
    elif kind == "two sums":
        draw.hide(3)
        draw.hide(3)
    elif kind == "copies":
        for part in draw.hide(n_parts):
            copies = draw.take(int(rng.integers(1, 5)))
            noise = rng.uniform(0.05, 0.3, len(copies)) * draw.X[:, part].std()
            draw.X[:, copies] = draw.X[:, [part]] + noise * rng.normal(
                size=(draw.n_rows, len(copies))
            )
    elif kind == "symmetric":
        parts = draw.take(n_parts)
        driver = draw.driver()
        pieces = draw.scale * draw.X[:, parts]
        draw.X[:, parts] = pieces - pieces.mean(axis=1, keepdims=True) + driver[:, None] / n_parts
        draw.add(driver, parts)
    elif kind == "chain":
        (origin,) = draw.take(1)
        draw.X[:, origin] = draw.scale * draw.driver()
        draw.hide(2, draw.X[:, origin] + draw.scale * draw.driver())
    else:
        weights = (
            rng.choice([-1, 1], n_parts) * rng.uniform(0.3, 3.0, n_parts)
            if kind == "weights"
            else None
        )
        draw.hide(
            {"pair": 2, "many parts": int(rng.choice([5, 6]))}.get(kind, n_parts), weights=weights
        )
    draw.follow(int(rng.integers(0, 41)))
    if kind == "decoy sums":
        draw.hide_followers(2)
    return draw.data()


class _Draw:
    """A data set in the making: X (N, p), y (N,), environment (N,), truth (p,)."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        p = int(rng.choice([100, 200, 300, 450, 700, 1000]))
        self.n_environments = int(rng.integers(2, 9))
        n = int(rng.choice([80, 150, 250])) if self.n_environments > 2 else 250
        self.n_rows = n * self.n_environments
        self.environment = np.repeat(np.arange(self.n_environments), n)
        share = float(rng.choice([0.0, 0.4, 0.8]))
        block = int(rng.integers(4, 16))
        common = np.repeat(rng.normal(size=(self.n_rows, -(-p // block))), block, axis=1)[:, :p]
        self.X = np.sqrt(share) * common + np.sqrt(1.0 - share) * rng.normal(size=(self.n_rows, p))
        self.y = rng.choice([0.2, 0.4, 0.8]) * rng.normal(size=self.n_rows)
        self.scale = float(rng.choice([4.0, 8.0, 15.0, 40.0]))
        self.truth = np.zeros(p, bool)
        self._unused = rng.permutation(p).tolist()

    def take(self, n: int) -> list[int]:
        """n columns that nothing has been made of yet"""
        taken = self._unused[:n]
        self._unused = self._unused[n:]
        return taken

    def driver(self) -> np.ndarray:
        """(N,) with a mean and a spread of its own in every environment"""
        spread = self.rng.uniform(0.5, 2.5, self.n_environments)
        shift = 1.5 * self.rng.normal(size=self.n_environments)
        return (
            self.rng.normal(size=self.n_rows) * spread[self.environment] + shift[self.environment]
        )

    def add(self, effect: np.ndarray, causes: list[int]) -> None:
        self.y = self.y + effect
        self.truth[causes] = True

    def hide(
        self, n_parts: int, first: np.ndarray | None = None, weights: np.ndarray | None = None
    ) -> list[int]:
        """Make the outcome depend on a new driver that shows only in a sum of n_parts columns,
        which are returned."""
        parts = self.take(n_parts)
        driver = self.driver()
        weights = np.ones(n_parts) if weights is None else weights
        spread = self.rng.uniform(0.5, 2.0, self.n_environments)[self.environment]
        self.X[:, parts[:-1]] *= self.scale * spread[:, None]
        if first is not None:
            self.X[:, parts[0]] = first
        self.X[:, parts[-1]] = (driver - self.X[:, parts[:-1]] @ weights[:-1]) / weights[-1]
        self.add(driver, parts)
        return parts

    def followers(self, n: int) -> np.ndarray:
        """(N, n) of the outcome, by coefficients that differ between environments, without noise"""
        coefficients = self.rng.uniform(0.3, 1.5, (self.n_environments, n))
        return self.y[:, None] * coefficients[self.environment]

    def follow(self, n: int) -> None:
        columns = self.take(n)
        self.X[:, columns] = self.followers(n) + self.rng.normal(size=(self.n_rows, n))

    def hide_followers(self, n: int) -> None:
        followers = self.followers(n) + 0.5 * self.rng.normal(size=(self.n_rows, n))
        for follower in followers.T:
            *parts, last = self.take(3)
            self.X[:, parts] *= self.scale
            self.X[:, last] = follower - self.X[:, parts].sum(axis=1)

    def data(self) -> MultiEnvironmentData:
        return replace(
            MultiEnvironmentData.from_arrays(self.X, self.y, self.environment), truth=self.truth
        )
