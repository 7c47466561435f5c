"""Standard errors of the additive model belong to its estimates: pooled shapes, scaled in each environment."""

from __future__ import annotations

import numpy as np

from invariance import BIP
from invariance.datasets import make_example

DATA = make_example()


def test_local_errors_are_those_of_the_slopes_on_the_curves() -> None:
    model = BIP("additive").fit(DATA).decision_.findings.target.model
    mask = np.isin(model.feature_names, ["age", "exercise"])
    fit, errors = model.fit(mask), model.standard_errors(mask)
    widths, curves = model.features.widths[mask], model._pooled(mask)[1]
    for e in range(DATA.n_environments):
        rows = model.data.rows(e)
        design = np.column_stack([np.ones(len(rows)), curves[rows]])
        slopes, (rss,), *_ = np.linalg.lstsq(design, model.data.y[rows])
        freedom = len(rows) - design.shape[1]
        known = np.sqrt(rss / freedom * np.diag(np.linalg.inv(design.T @ design)))
        assert errors.freedom[e] == freedom
        pooled = np.abs(fit.coefficients)
        np.testing.assert_allclose(errors.values[e], np.repeat(known[1:], widths) * pooled, rtol=1e-6)
        np.testing.assert_allclose(
            fit.local_coefficients[e], np.repeat(slopes[1:], widths) * fit.coefficients, rtol=1e-6
        )
    columns = model.linear.standard_errors(mask)
    np.testing.assert_allclose(errors.values[-1], columns.values[-1])
    assert errors.freedom[-1] == columns.freedom[-1]


def test_nothing_selected_has_no_errors() -> None:
    model = BIP("additive").fit(DATA).decision_.findings.target.model
    assert model.standard_errors([]).values.shape == (DATA.n_environments + 1, 0)
