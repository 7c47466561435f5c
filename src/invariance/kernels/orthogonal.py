"""Orthogonalisation of centred rows: the reference that second moments are checked against."""

import numpy as np

from .compiled import kernel
from .copying import copy_into

# Squared, scaled pivot below which float64 rows cannot tell a column from a combination of those before it.
DEPENDENT = 1e-26


@kernel(fastmath={"contract", "reassoc"})
def dot(a, b):
    total = 0.0
    for i in range(a.size):
        total += a[i] * b[i]
    return total


@kernel
def triangular_factor(columns, members, dependent):
    """QR by Gram-Schmidt, each column orthogonalised twice, over `members` of the unit-norm rows of columns (d, n).

    Returns R (k, k), upper triangular, and which columns stand on their own: one whose squared pivot is
    below `dependent` is a combination of those before it, gets a zero row and removes nothing from later ones.
    """
    k, n = members.size, columns.shape[1]
    basis = np.empty((k, n))
    triangle = np.zeros((k, k))
    independent = np.zeros(k, np.bool_)
    for j in range(k):
        v = basis[j]
        copy_into(v, columns[members[j]])
        for _ in range(2):
            for i in range(j):
                if independent[i]:
                    projection = dot(basis[i], v)
                    triangle[i, j] += projection
                    for r in range(n):
                        v[r] -= projection * basis[i, r]
        squared = dot(v, v)
        independent[j] = squared >= dependent
        if independent[j]:
            norm = np.sqrt(squared)
            triangle[j, j] = norm
            for r in range(n):
                v[r] /= norm
    return triangle, independent


@kernel
def relative_residuals(columns, starts, members, dependent, residual, rank):
    """residual[s] = share of the outcome's (the last row's) squares that subset s leaves; rank[s] its columns' rank.

    Subset s holds rows members[starts[s]:starts[s+1]] of columns (d, n).
    """
    outcome = columns.shape[0] - 1
    for s in range(starts.size - 1):
        k = starts[s + 1] - starts[s]
        chosen = np.empty(k + 1, np.int64)
        copy_into(chosen[:k], members[starts[s] : starts[s + 1]])
        chosen[k] = outcome
        triangle, independent = triangular_factor(columns, chosen, dependent)
        residual[s] = triangle[k, k] ** 2
        rank[s] = independent[:k].sum()
