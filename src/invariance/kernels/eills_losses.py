"""EILLS' loss of listed subsets; a list of subsets is (starts, members) as in residual_tests."""

import numpy as np

from .compiled import kernel


@kernel
def subset_losses(quadratic, penalty, linear, slope, constant, starts, members, tolerance, loss, beta):
    """loss[s] = min over β of ½β'Aβ − β'b + ½k of subset s; NaN where a scaled pivot of A is below `tolerance`.

    A subset z has A = quadratic[z, z] + Σ penalty[l][z, z], b = linear[z] + Σ slope[l][z], k = Σ constant[l], each sum
    over l in z. Shapes (p, p), (p, p, p), (p,), (p, p), (p,). beta (largest size,): the last subset's minimiser.
    """
    largest = 0
    for s in range(starts.size - 1):
        largest = max(largest, starts[s + 1] - starts[s])
    factor = np.empty((largest, largest))
    b = np.empty(largest)
    for s in range(starts.size - 1):
        z = members[starts[s] : starts[s + 1]]
        k = z.size
        squares = 0.0
        for i in range(k):
            b[i] = linear[z[i]]
            squares += constant[z[i]]
            for j in range(i + 1):
                factor[i, j] = quadratic[z[i], z[j]]
        for m in range(k):
            added, added_slope = penalty[z[m]], slope[z[m]]
            for i in range(k):
                b[i] += added_slope[z[i]]
                row = added[z[i]]
                for j in range(i + 1):
                    factor[i, j] += row[z[j]]
        decided = True
        for i in range(k):
            diagonal = factor[i, i]
            for j in range(i + 1):
                value = factor[i, j]
                for m in range(j):
                    value -= factor[i, m] * factor[j, m]
                if j < i:
                    factor[i, j] = value / factor[j, j]
                else:
                    decided = decided and value >= tolerance * diagonal
                    factor[i, i] = np.sqrt(value)
        fitted = 0.0
        for i in range(k):
            value = b[i]
            for m in range(i):
                value -= factor[i, m] * beta[m]
            beta[i] = value / factor[i, i]
            fitted += beta[i] ** 2
        for i in range(k - 1, -1, -1):
            value = beta[i]
            for m in range(i + 1, k):
                value -= factor[m, i] * beta[m]
            beta[i] = value / factor[i, i]
        loss[s] = 0.5 * (squares - fitted) if decided else np.nan
