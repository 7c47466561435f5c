"""Plain twins of predictions for a new site: rows in place of second moments, solvers in place of
factorisations, one expert at a time."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from line_twins import mixed_by_rows

VARIANCES = (0.0, 0.003, 0.018, 0.1, 0.6, 4.0, 25.0, 150.0, 1000.0, 6000.0)
SCALES = (0.25, 1.0, 4.0)
MEAN_VARIANCES = np.append(0.0, 10.0 ** np.arange(-3.5, 2.01, 0.5))


class Sites(NamedTuple):
    """Standardised rows of the training sites, and how they were standardised."""

    X: np.ndarray
    y: np.ndarray
    label: np.ndarray
    selected: np.ndarray

    def without(self, e: int) -> Sites:
        kept = self.label != e
        return Sites(self.X[kept], self.y[kept], self.label[kept], self.selected)

    def rows(self, e: int) -> tuple[np.ndarray, np.ndarray]:
        return self.X[self.label == e], self.y[self.label == e]

    @property
    def labels(self) -> list[int]:
        return sorted(set(self.label.tolist()))


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(1 + k,) intercept and slopes"""
    return np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]


def lines(sites: Sites) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All features, the selected ones, and the mixed model: (1 + k,) each"""
    *slopes, intercept = mixed_by_rows(sites.X, sites.y, sites.label)[0]
    mixed = np.array([intercept, *slopes])
    every = 0.5 * (least_squares(sites.X, sites.y) + mixed)
    own = np.zeros(1 + sites.X.shape[1])
    own[np.insert(sites.selected, 0, True)] = least_squares(sites.X[:, sites.selected], sites.y)
    return every, own, mixed


def at(line: np.ndarray, X: np.ndarray) -> np.ndarray:
    return line[0] + X @ line[1:]


def together(sites: Sites, new: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Predictions of the rows of one new site, and the weights of all features"""
    every, own, mixed = lines(sites)
    n_sites = len(sites.labels)
    missed = np.empty((2, n_sites))
    gain = []
    noise = []
    counts = []
    for place, e in enumerate(sites.labels):
        X, y = sites.rows(e)
        others = lines(sites.without(e))
        residuals = [y - at(line, X) for line in others[:2]]
        missed[:, place] = [one.mean() for one in residuals]
        own_fit = y - at(least_squares(X, y), X)
        noise.append(own_fit @ own_fit / (len(y) - 1 - X.shape[1]))
        gain.append(max(residuals[1].var() - noise[-1], 0.0))
        counts.append(len(y))
    x = new.mean(axis=0)
    v = (missed**2).mean(axis=1) + np.mean(noise) / np.mean(counts)
    gap = (at(every, x) - at(own, x)) ** 2
    student = v**-0.5 * (1.0 + gap / (n_sites * v)) ** (-0.5 * (n_sites + 1))
    odds = 19.0 * (v[1] / v[0]) ** (n_sites / 2) * student[1] / student[0]
    weight = odds / (1.0 + odds)
    apart = ((new - x) @ (mixed - own)[1:]) ** 2
    share = min(1.0, np.mean(gain) / apart.mean())
    slopes = share * mixed[1:] + (1.0 - share) * own[1:]
    mean = weight * at(every, x) + (1.0 - weight) * at(own, x)
    return mean + (new - x) @ slopes, weight, share


class Moments(NamedTuple):
    K: np.ndarray
    h: np.ndarray
    q: float
    freedom: float


def moments(X: np.ndarray, y: np.ndarray) -> Moments:
    X = X - X.mean(axis=0)
    y = y - y.mean()
    return Moments(X.T @ X, X.T @ y, y @ y, len(y) - 1.0)


def given_selected(one: Moments, K: np.ndarray, W: np.ndarray, S: np.ndarray, base: np.ndarray):
    """The moments of v in b = Gv + base, and G"""
    A = K + 3.0 * W
    G = np.eye(len(S))
    G[np.ix_(S, ~S)] = -np.linalg.solve(A[np.ix_(S, S)], A[np.ix_(S, ~S)])
    rest = one.q - 2.0 * base @ one.h + base @ one.K @ base
    return Moments(G.T @ one.K @ G, G.T @ (one.h - one.K @ base), rest, one.freedom), G


def centre(each: list[Moments], t: np.ndarray, free: np.ndarray) -> np.ndarray:
    """Generalised least squares of slopes with variances t, 0 but for the free ones"""
    weight = [np.linalg.inv(np.eye(len(t)) + one.K @ np.diag(t)) for one in each]
    left = sum(w @ one.K for w, one in zip(weight, each, strict=True))
    right = sum(w @ one.h for w, one in zip(weight, each, strict=True))
    found = np.zeros(len(t))
    found[free] = np.linalg.solve(left[np.ix_(free, free)], right[free])
    return found


def by_em(each: list[Moments], W: np.ndarray, free: np.ndarray) -> np.ndarray:
    unit = 1.0 / np.diag(W)
    t = 0.05 * unit
    for _ in range(20):
        c = centre(each, t, free)
        found = []
        left = 0.0
        for one in each:
            V = np.linalg.inv(np.linalg.inv(np.diag(t)) + one.K)
            r = one.h - one.K @ c
            found.append((V @ r, np.diag(V)))
            left += one.q - 2.0 * one.h @ c + c @ one.K @ c - (V @ r) @ r
        s2 = left / sum(one.freedom for one in each)
        w = np.array([(u**2 / s2 + V) / unit for u, V in found])
        typical = np.exp(np.mean(np.log(w.mean(axis=0))))
        t = unit * np.maximum((w.sum(axis=0) + 2.0 * typical) / (len(each) + 2.0), 1e-8)
    return t


def experts(each: list[Moments], W: np.ndarray, S: np.ndarray, base: np.ndarray) -> list[Any]:
    """(invariant, prior, variances, centre) of each"""
    every = np.ones(len(S), dtype=bool)
    given = [given_selected(one, one.K, W, S, base)[0] for one in each]
    unit = 1.0 / np.diag(W)
    found = [(False, 0.45 / 10, v * unit) for v in VARIANCES]
    found += [(False, 0.45 / 3, scale * by_em(each, W, every)) for scale in SCALES]
    found += [(True, 0.10 / 3, scale * by_em(given, W, ~S)) for scale in SCALES]
    return [
        (inv, prior, t, centre(given, t, ~S) if inv else centre(each, t, every))
        for inv, prior, t in found
    ]


def posterior(one: Moments, c: np.ndarray, t: np.ndarray, s2: float) -> Any:
    """Slopes, log evidence, noise, covariance, residual sum of squares; T + 0 where t is 0"""
    r = one.h - one.K @ c
    A = np.eye(len(t)) + np.diag(t) @ one.K
    V = np.linalg.solve(A, np.diag(t))
    Q = one.q - 2.0 * c @ one.h + c @ one.K @ c - r @ V @ r
    evidence = -0.5 * np.linalg.slogdet(A)[1] - 0.5 * (5.0 + one.freedom) * np.log(5.0 * s2 + Q)
    noise = (5.0 * s2 + Q) / (5.0 + one.freedom)
    return c + V @ r, evidence + 2.5 * np.log(5.0 * s2), noise, noise * V, Q


def adapted(sites: Sites, known: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Line (1 + k,) of a site with the rows known, the first len(y) of them labelled, its noise,
    and the variance of its mean"""
    every, own, _ = lines(sites)
    n_sites = len(sites.labels)
    each = [moments(*sites.rows(e)) for e in sites.labels]
    counts = np.array([one.freedom + 1.0 for one in each])
    W = sum(one.K for one in each) / (counts.sum() - n_sites)
    S = sites.selected
    base = own[1:]
    whole = experts(each, W, S, base)
    missed = np.empty((2, n_sites))
    held_out = []
    for place, e in enumerate(sites.labels):
        X, outcome = sites.rows(e)
        others = lines(sites.without(e))
        missed[:, place] = [(outcome - at(line, X)).mean() for line in others[:2]]
        given, _ = given_selected(each[place], each[place].K, W, S, others[1][1:])
        held_out.append(
            [
                (given if inv else each[place], c, t)
                for inv, _, t, c in experts(each[:place] + each[place + 1 :], W, S, base)
            ]
        )
    s2 = np.mean(
        [[posterior(*one, 1.0)[4] / one[0].freedom for one in site] for site in held_out], axis=0
    )
    evidence = np.zeros(len(whole))
    for site in held_out:
        for k, (one, c, t) in enumerate(site):
            share = min(1.0, 25.0 / one.freedom)
            scaled = Moments(*(share * value for value in one))
            evidence[k] += posterior(scaled, c, t, s2[k])[1]
    prior = np.array([one[1] for one in whole])
    epsilon = 1.0 / (n_sites + 2.0)
    weights = np.exp(evidence - evidence.max()) * prior
    weights = (1.0 - epsilon) * weights / weights.sum() + epsilon * prior
    label = moments(known[: len(y)], y)
    x = known.mean(axis=0)
    given, G = given_selected(label, (known - x).T @ (known - x), W, S, base)
    found = []
    for k, (inv, _, t, c) in enumerate(whole):
        b, log_evidence, noise, V, _ = posterior(given if inv else label, c, t, s2[k])
        if inv:
            b, V = G @ b + base, G @ V @ G.T
        found.append((b, log_evidence, noise, V))
    logs = np.log(weights) + [one[1] for one in found]
    w = np.exp(logs - logs.max())
    w /= w.sum()
    b = sum(a * one[0] for a, one in zip(w, found, strict=True))
    noise = sum(a * one[2] for a, one in zip(w, found, strict=True))
    V = sum(
        a * (one[3] + np.outer(one[0] - b, one[0] - b)) for a, one in zip(w, found, strict=True)
    )
    gap = known[: len(y)].mean(axis=0) - x
    observed = y.mean() - gap @ b
    error = noise / len(y) + gap @ V @ gap
    terms = []
    for odds, line, k in ((0.95, every, missed[0]), (0.05, own, missed[1])):
        for tau2 in MEAN_VARIANCES:
            spread = tau2 + s2.min() / counts
            training = np.prod(np.exp(-0.5 * k**2 / spread) / np.sqrt(spread))
            terms.append((odds / len(MEAN_VARIANCES), training, at(line, x), tau2))
    prior, training, means, tau2 = map(np.array, zip(*terms, strict=True))
    p = prior * training
    p = (1.0 - epsilon) * p / p.sum() + epsilon * prior
    p *= np.exp(-0.5 * (observed - means) ** 2 / (tau2 + error)) / np.sqrt(tau2 + error)
    p /= p.sum()
    g = tau2 / (tau2 + error)
    each_mean = means + g * (observed - means)
    mean = p @ each_mean
    variance = p @ (g * error + (each_mean - mean) ** 2)
    return np.insert(b, 0, mean - x @ b), noise, variance
