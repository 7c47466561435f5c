"""When columns count as collinear."""

# A squared pivot, or an eigenvalue, of columns scaled to unit length: what is solved with a
# smaller one from second moments has fewer than six digits.
PIVOT_TOLERANCE = 1e-9
