"""How fast the comparison methods are, side by side with causalicp and with EILLS' formula in a
NumPy loop.

    python benchmarks/comparison_methods.py [--quick]

causalicp comes with `pip install 'invariant-prediction[peers]'`; without it its column is left out.
"""

from __future__ import annotations

import argparse

import numpy as np

from _harness import median_seconds
from invariance.baselines import EILLS, ICP
from invariance.data import MultiEnvironmentData

try:
    import causalicp
except ImportError:
    causalicp = None


def simulated(p: int, n: int, E: int, seed: int = 0) -> MultiEnvironmentData:
    """Half of the features cause y, the others follow from it, all with shifts and scales of their
    own."""
    rng = np.random.default_rng(seed)
    env = np.repeat(np.arange(E), n)
    shift = rng.normal(size=(E, p))
    scale = rng.uniform(0.5, 2.0, (E, p))
    X = shift[env] + scale[env] * rng.normal(size=(n * E, p))
    causes = p // 2
    y = X[:, :causes] @ rng.normal(size=causes) + rng.normal(size=n * E)
    X[:, causes:] += np.outer(y, rng.normal(size=p - causes))
    return MultiEnvironmentData.from_arrays(X, y, env)


def eills_in_numpy(data: MultiEnvironmentData, gamma: float = 36.0) -> float:
    """The smallest loss, by the formula, one subset after the other."""
    X = data.X - data.X.mean(axis=0)
    y = data.y - data.y.mean()
    rows = [data.rows(e) for e in range(data.n_environments)]
    sigma = np.array([X[r].T @ X[r] / len(r) for r in rows])
    cross = np.array([X[r].T @ y[r] / len(r) for r in rows])
    best = 0.0
    for code in range(1, 1 << data.n_features):
        z = np.flatnonzero(code >> np.arange(data.n_features) & 1)
        s = sigma[:, z[:, None], z]
        c = cross[:, z]
        A = (s + gamma * s @ s).mean(axis=0)
        b = (c + gamma * (s @ c[:, :, None])[:, :, 0]).mean(axis=0)
        beta = np.linalg.solve(A, b)
        best = min(
            best, 0.5 * beta @ A @ beta - beta @ b + 0.5 * gamma * (c * c).sum(axis=1).mean()
        )
    return best


def icp_against_causalicp(repeats: int) -> None:
    print("ICP, all 1,024 subsets, p=10, n=200")
    print(f"{'E':>4} {'ours, ms':>10} {'causalicp, s':>14} {'ratio':>8} {'largest difference':>20}")
    for E in (2, 5, 10, 20):
        data = simulated(10, 200, E)
        model = ICP()
        ours = median_seconds(lambda data=data, model=model: model.fit(data), 7, warm_up=False)
        if causalicp is None:
            print(f"{E:>4} {1000 * ours:>10.2f} {'not installed':>14}")
            continue
        groups = [np.column_stack([data.X[data.rows(e)], data.y[data.rows(e)]]) for e in range(E)]
        theirs = median_seconds(
            lambda groups=groups: causalicp.fit(groups, 10), repeats, warm_up=False
        )
        p_values = causalicp.fit(groups, 10, alpha=0.05).pvalues
        difference = max(abs(p_values[j] - model.p_values_[j]) for j in range(10))
        print(
            f"{E:>4} {1000 * ours:>10.2f} {theirs:>14.2f} {theirs / ours:>8.0f} {difference:>20.1e}"
        )


def icp_with_many_features() -> None:
    print("\nICP, n=200, E=5, one thread and two")
    for p in (15, 20):
        data = simulated(p, 200, 5)
        one = median_seconds(lambda data=data: ICP(progress=False).fit(data), 1, warm_up=False)
        two = median_seconds(
            lambda data=data: ICP(n_jobs=2, progress=False).fit(data), 1, warm_up=False
        )
        print(f"p={p}: {1 << p:,} subsets in {one:.2f} s, {two:.2f} s")


def eills_against_numpy(repeats: int) -> None:
    print("\nEILLS, all 1,024 subsets, p=10, n=200")
    print(f"{'E':>4} {'ours, ms':>10} {'NumPy loop, ms':>16} {'ratio':>8}")
    for E in (2, 5, 20):
        data = simulated(10, 200, E)
        model = EILLS()
        ours = median_seconds(lambda data=data, model=model: model.fit(data), 7, warm_up=False)
        theirs = median_seconds(lambda data=data: eills_in_numpy(data), repeats, warm_up=False)
        assert abs(eills_in_numpy(data) - model.losses_.min()) < 1e-6 * max(
            1.0, abs(model.losses_.min())
        )
        print(f"{E:>4} {1000 * ours:>10.2f} {1000 * theirs:>16.1f} {theirs / ours:>8.0f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="time the slow peers once only")
    repeats = 1 if parser.parse_args().quick else 3
    if causalicp is None:
        print(
            "causalicp is not installed: pip install 'invariant-prediction[peers]' to compare "
            "with it.\n"
        )
    warm = simulated(4, 20, 2)
    ICP().fit(warm)  # compiles
    EILLS().fit(warm)
    icp_against_causalicp(repeats)
    icp_with_many_features()
    eills_against_numpy(repeats)


if __name__ == "__main__":
    main()
