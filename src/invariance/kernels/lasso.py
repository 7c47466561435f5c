"""Coordinate descent for the Lasso on the products of columns."""

from __future__ import annotations

import numpy as np

from .compiled import kernel


@kernel
def descend(gram, gradient, w, penalty, n_sweeps):
    """Sweep n times, or until no coefficient changes by more than 1e-9 of the largest one.

    gram (m or more, m or more): products of columns; gradient (m,): of the columns with the
    residual; w (m,). Both
    follow each step. penalty : on the scale of the gradient
    """
    for _ in range(n_sweeps):
        change = 0.0
        largest = 0.0
        for j in range(w.size):
            pull = gradient[j] + gram[j, j] * w[j]
            moved = np.sign(pull) * max(abs(pull) - penalty, 0.0)
            if moved != 0.0:
                moved /= gram[j, j]
            step = moved - w[j]
            if step != 0.0:
                w[j] = moved
                for i in range(w.size):
                    gradient[i] -= step * gram[j, i]
            change = max(change, abs(step))
            largest = max(largest, abs(moved))
        if change <= 1e-9 * largest:
            break
