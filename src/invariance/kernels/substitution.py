"""Forward substitution through linear structural equations."""

from .compiled import kernel


@kernel
def propagate(coefficients, ordering, values):
    """Turn each variable's own input, values (d, m), into the variable: values[i] += Σ_j coefficients[i, j] values[j].

    ordering (d,) visits a variable after those it depends on. No fused operations: the same on every machine.
    """
    for k in range(ordering.size):
        i = ordering[k]
        for before in range(k):
            j = ordering[before]
            c = coefficients[i, j]
            if c != 0.0:
                for r in range(values.shape[1]):
                    values[i, r] += c * values[j, r]
