"""The decision rule of METHODS 8, 9 and 13 in plain NumPy and SciPy: every subset, every
environment, no kernel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats
from scipy.special import chndtr, ncfdtr, polygamma, psi

from invariance.data import MultiEnvironmentData
from twins import all_masks

NEGLIGIBLE = 1e-11  # singular value of the scaled columns, relative to the largest


def fits(
    X: np.ndarray, y: np.ndarray, masks: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """RSS (S,), rank (S,) and slopes (S, p) of centred y on centred X; minimum-norm where columns
    are dependent."""
    norms = np.linalg.norm(X, axis=0)
    norms[norms == 0.0] = 1.0
    triangle = np.linalg.qr(np.column_stack([X / norms, y]), mode="r")
    columns = triangle[:, :-1]
    outcome = triangle[:, -1]
    rss = np.empty(len(masks))
    rank = np.zeros(len(masks), int)
    slopes = np.zeros(masks.shape)
    rss[:] = outcome @ outcome
    for size in range(1, masks.shape[1] + 1):
        here = np.flatnonzero(masks.sum(axis=1) == size)
        if len(here) == 0:
            continue
        members = np.nonzero(masks[here])[1].reshape(-1, size)
        u, s, vt = np.linalg.svd(columns[:, members].transpose(1, 0, 2), full_matrices=False)
        kept = s > NEGLIGIBLE * np.maximum(s[:, :1], 1e-300)
        along = np.where(kept, u.transpose(0, 2, 1) @ outcome, 0.0)
        residual = outcome - np.einsum("sij,sj->si", u, along)
        rss[here], rank[here] = (residual**2).sum(axis=1), kept.sum(axis=1)
        scaled = np.einsum("sji,sj->si", vt, along / np.where(kept, s, 1.0))
        slopes[here[:, None], members] = scaled / norms[members]
    return rss, rank, slopes


@dataclass
class Evidence:
    """One number per subset, in the order of `masks`. `local`, `ranks` and, of the rows outside
    each environment, `rests` and `rest_ranks` are (E, S)."""

    masks: np.ndarray
    counts: np.ndarray
    pooled: np.ndarray
    within: np.ndarray
    local: np.ndarray
    pooled_rank: np.ndarray
    ranks: np.ndarray
    kurtosis: np.ndarray
    rests: np.ndarray
    rest_ranks: np.ndarray
    total: float

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def freedom(self) -> tuple[np.ndarray, np.ndarray]:
        """ν_p (S,) and ν_e (E, S)"""
        return self.n - 1 - self.pooled_rank, self.counts[:, None] - 1 - self.ranks

    @property
    def deviance(self) -> np.ndarray:
        local = self.counts[:, None] * np.log(self.local / self.counts[:, None])
        return self.n * np.log(self.pooled / self.n) - local.sum(axis=0)

    @property
    def expected_deviance(self) -> np.ndarray:
        nu_p, nu = self.freedom
        counts = self.counts[:, None]
        constant = (self.counts * np.log(self.counts)).sum() - self.n * np.log(self.n)
        return self.n * psi(nu_p / 2) - (counts * psi(nu / 2)).sum(axis=0) + constant

    @property
    def variance_of_deviance(self) -> np.ndarray:
        nu_p, nu = self.freedom
        return (self.counts[:, None] ** 2 * polygamma(1, nu / 2)).sum(
            axis=0
        ) - self.n**2 * polygamma(1, nu_p / 2)

    def noncentrality(self, rho: float) -> np.ndarray:
        r2 = 1.0 - self.pooled / self.total
        return np.minimum(0.02 * self.n, rho**2 * self.n * np.maximum(r2, 0.0) / (1.0 - r2))

    def p_mean(self, rho: float) -> np.ndarray:
        nu_p, nu_e = self.freedom
        nu = nu_e.sum(axis=0)
        rss = self.local.sum(axis=0)
        d = nu_p - nu
        f = np.maximum(self.pooled - rss, 0.0) / d / (rss / nu)
        return np.where(d > 0, tails(f, d, nu, self.noncentrality(rho)), 1.0)

    def p_each(self, rho: float) -> np.ndarray:
        """1 with two environments."""
        if len(self.counts) < 3:
            return np.ones(len(self.masks))
        nu_p, nu_e = self.freedom
        nu = nu_e.sum(axis=0)
        rss = self.local.sum(axis=0)
        counts = self.counts[:, None]
        d = nu_p - (self.n - counts - 1 - self.rest_ranks) - nu_e
        f = np.maximum(self.pooled - self.rests - self.local, 0.0) / d / (rss / nu)
        p_values = np.where(d > 0, tails(f, d, nu, self.noncentrality(rho) * counts / self.n), 1.0)
        return 1.0 - (1.0 - p_values.min(axis=0)) ** len(self.counts)

    def p_variance(self, tau: float) -> np.ndarray:
        _, nu_e = self.freedom
        nu = nu_e.sum(axis=0)
        n_environments = len(self.counts)
        m = nu * np.log(self.local.sum(axis=0) / nu) - (nu_e * np.log(self.local / nu_e)).sum(
            axis=0
        )
        c = 1 + ((1 / nu_e).sum(axis=0) - 1 / nu) / (3 * (n_environments - 1))
        kappa = 1 + np.maximum(self.kurtosis, 0.0) / 2
        x = np.maximum(m, 0.0) / (c * kappa)
        away = self.n * tau**2 / (2 * kappa)
        return (
            1.0 - chndtr(x, n_environments - 1, away)
            if tau
            else stats.chi2.sf(x, n_environments - 1)
        )

    def p_invariant(self, rho: float = 0.1, tau: float = 0.1, lowest: float = 0.02) -> np.ndarray:
        """Environments one by one are looked at where the whole is not below the lowest level."""
        with np.errstate(divide="ignore"):
            both = np.log(self.p_mean(rho)) + np.log(self.p_variance(tau))
        joint = stats.chi2.sf(-2 * both, 4)
        return np.where(joint < lowest, joint, np.minimum(joint, 20.0 * self.p_each(rho)))


def tails(f: np.ndarray, d: np.ndarray, nu: np.ndarray, noncentrality: np.ndarray) -> np.ndarray:
    """P(F' ≥ f)"""
    return np.where(
        noncentrality > 0.0, 1.0 - ncfdtr(d, nu, noncentrality, f), stats.f.sf(f, d, nu)
    )


def evidence(data: MultiEnvironmentData, masks: np.ndarray | None = None) -> Evidence:
    masks = all_masks(data.n_features) if masks is None else masks
    parts = [(data.X[rows], data.y[rows]) for rows in map(data.rows, range(data.n_environments))]
    local = [fits(X - X.mean(axis=0), y - y.mean(), masks) for X, y in parts]
    pooled, rank, _ = fits(data.X - data.X.mean(axis=0), data.y - data.y.mean(), masks)
    X = np.concatenate([X - X.mean(axis=0) for X, _ in parts])
    y = np.concatenate([y - y.mean() for _, y in parts])
    within, _, slopes = fits(X, y, masks)
    rests = []
    for e in range(data.n_environments):
        rest = data.environment_index != e
        X_rest = data.X[rest]
        y_rest = data.y[rest]
        rests.append(
            fits(X_rest - X_rest.mean(axis=0), y_rest - y_rest.mean(), masks)
            if rest.any()
            else local[e]
        )
    return Evidence(
        masks=masks,
        counts=np.array([len(y) for _, y in parts]),
        pooled=pooled,
        within=within,
        local=np.array([rss for rss, _, _ in local]),
        pooled_rank=rank,
        ranks=np.array([rank for _, rank, _ in local]),
        kurtosis=np.concatenate(
            [excess_kurtosis(y[:, None] - X @ b.T) for b in np.array_split(slopes, 16) if len(b)]
        ),
        rests=np.array([rss for rss, _, _ in rests]),
        rest_ranks=np.array([rank for _, rank, _ in rests]),
        total=float(((data.y - data.y.mean()) ** 2).sum()),
    )


def excess_kurtosis(residuals: np.ndarray) -> np.ndarray:
    return (residuals**4).mean(axis=0) / (residuals**2).mean(axis=0) ** 2 - 3.0


def risk_in_a_new_environment(data: MultiEnvironmentData, mask: np.ndarray) -> float:
    """s²_pool + (1 + 1/E)·tr(T̂₊ M̄): what the random-effects rule minimises, coefficients at 1 and
    x − x̄. On k columns that are constant in every environment heights are regressed, which costs a
    factor (E − 2)/(E − 2 − k)."""
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    n = data.n_environments
    groups = [data.rows(e) for e in range(n)]
    varying = np.array(
        [any(np.ptp(X[rows, j]) > 0.0 for rows in groups) for j in range(X.shape[1])]
    )
    design = np.column_stack([np.ones(data.n_rows), X[:, mask & varying]])
    betas = []
    variances = []
    d = design.shape[1]
    k = int((mask & ~varying).sum())
    for rows in groups:
        gram = np.linalg.pinv(design[rows].T @ design[rows])
        beta = gram @ design[rows].T @ data.y[rows]
        rss = ((data.y[rows] - design[rows] @ beta) ** 2).sum()
        betas.append(beta)
        variances.append(gram * rss / (len(rows) - d))
    apart = np.array(betas) - np.mean(betas, axis=0)
    steady = np.column_stack(
        [np.ones(n), np.array([X[rows].mean(axis=0) for rows in groups])[:, mask & ~varying]]
    )
    apart[:, 0] -= steady @ np.linalg.lstsq(steady, apart[:, 0], rcond=None)[0]
    apart[:, 0] *= np.sqrt((n - 1) / (n - 1 - k))
    scatter = apart.T @ apart / (n - 1) - np.mean(variances, axis=0)
    whole = np.column_stack([np.ones(data.n_rows), X[:, mask]])
    pooled = data.y - whole @ np.linalg.lstsq(whole, data.y, rcond=None)[0]
    # The positive part is taken where the second moment is the identity, so that it does not depend
    # on units.
    root = np.linalg.cholesky(design.T @ design / data.n_rows)
    between = np.maximum(np.linalg.eigvalsh(root.T @ scatter @ root), 0.0).sum()
    factor = (1 + 1 / n) * ((n - 2) / (n - 2 - k) if k else 1.0)
    return pooled @ pooled / (data.n_rows - whole.shape[1]) + factor * between


def separate_gains(data: MultiEnvironmentData, mask: np.ndarray) -> np.ndarray:
    """(p,) freedom · log(RSS without a feature / RSS), least squares with a baseline in each
    environment, plus the same of columns that vary in one environment at most, in a regression of
    the baselines on them; NaN outside the subset"""
    index = data.environment_index
    owners = np.repeat(np.arange(len(mask)), data.features.widths)
    parts = [data.X[index == e] for e in range(data.n_environments)]
    sloped = np.sum([np.ptp(part, axis=0) > 0.0 for part in parts], axis=0) >= 2
    means = np.array([part.mean(axis=0) for part in parts])
    sites = np.eye(data.n_environments)[index]

    def fitted(design: np.ndarray, y: np.ndarray) -> tuple[float, int, np.ndarray]:
        slopes, _, rank, _ = np.linalg.lstsq(design, y, rcond=1e-9)
        return float(((y - design @ slopes) ** 2).sum()), len(y) - int(rank), slopes

    def within(features: np.ndarray) -> tuple[float, int, np.ndarray]:
        used = sloped & features[owners]
        return fitted(np.column_stack([data.X[:, used], sites]), data.y)

    rss, freedom, slopes = within(mask)
    used = sloped & mask[owners]
    baselines = np.array([data.y[index == e].mean() for e in range(data.n_environments)])
    baselines -= means[:, used] @ slopes[: used.sum()]

    def between(features: np.ndarray) -> tuple[float, int, np.ndarray]:
        return fitted(
            np.column_stack([means[:, ~sloped & features[owners]], np.ones(len(means))]), baselines
        )

    rss_between, freedom_between, _ = between(mask)
    gains = np.full(len(mask), np.nan)
    for j in np.flatnonzero(mask):
        others = mask & (np.arange(len(mask)) != j)
        gains[j] = freedom * np.log(within(others)[0] / rss)
        if (~sloped & (owners == j)).any() and freedom_between > 0:
            gains[j] += freedom_between * np.log(between(others)[0] / rss_between)
    return gains
