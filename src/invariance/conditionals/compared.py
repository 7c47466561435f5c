"""In what environments can differ, given a subset."""

from __future__ import annotations

INTERCEPT, SLOPES = IN_MEAN = "intercept", "slopes"
VARIANCE, DISPERSION, BASELINE = "variance", "dispersion", "baseline"
