"""Differences between environments that are not given by one label.

They are split by factor, by coefficient along the variable, and by cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from .._tools.arrays import Fields, Mask
from .._tools.text import printable
from ..data.structure import Design
from ..models.base import BoundModel
from ..models.invariance_test import Tolerance
from ..models.random_coefficients import GaussianRandomDeviations
from ..models.varying_coefficients import ComponentTest, Curves, StructuredDeviations
from ..posterior.summary import format_p_value, format_small_p_value

# A p-value below which something differs.
_FOUND = 0.05
# Rows that cells must have on average to be compared.
_ROWS_OF_CELLS = 2.0


@dataclass(frozen=True)
class Change:
    """The coefficient that changes most along the variable. column : "" for the level of the
    outcome; p_value : that it alone changes; how : "weaker", … than in all rows; first, last : of
    the third of all rows where it is so most"""

    column: str
    p_value: float
    how: str
    first: str
    last: str

    def told(self, outcome: str) -> str:
        what = (
            f"the effect of {printable(self.column)}"
            if self.column
            else f"the level of {printable(outcome)}"
        )
        than = "" if "other sign" in self.how else " than on average"
        return f"{what}, {self.how}{than} from {self.first} to {self.last}"


@dataclass(frozen=True)
class Cells:
    """Random deviations of the cells of several factors, a second check: p-values up to the
    tolerance, and exact."""

    n_cells: int
    p_value: float
    p_exact: float


@dataclass(frozen=True)
class Components:
    """Hold tests of one subset: of each factor given the others, of the variable given the factors.

    change : None if none is found; cells : None without several factors, with few rows in each, or
        if they
    are the levels of one factor; sees_factors : False if a remark of the model states that their
    test has little power
    """

    design: Design
    tests: tuple[ComponentTest, ...]
    change: Change | None
    cells: Cells | None
    sees_factors: bool = True

    @property
    def differing(self) -> str:
        """Return by what coefficients differ, and by what not: "by state, not by year"."""
        beyond = [test for test in self.tests if test.p_value < _FOUND]
        beyond = beyond or [test for test in self.tests if test.p_exact < _FOUND]
        alike = [
            test
            for test in self.tests
            if test.p_exact >= _FOUND and (test.along or self.sees_factors)
        ]
        words = " and ".join(map(_named, beyond)) or " or ".join(map(_named, self.tests))
        return f"{words}, not {' or '.join(map(_named, alike))}" if beyond and alike else words

    def facts(self, outcome: str) -> Iterator[tuple[str, str]]:
        if len(self.tests) > 1:
            told = (
                _p_values(*test[2:]) if test.p_exact >= 0.0 else "not tested, as the others tell it"
                for test in self.tests
            )
            each = "; ".join(
                f"{_named(test)} {p_values}"
                for test, p_values in zip(self.tests, told, strict=True)
            )
            factors = [test for test in self.tests if not test.along]
            nested = ((printable(inner), printable(outer)) for inner, outer in self.design.nested)
            without = "".join(
                f", but {outer} without {inner}, which is nested in it" for inner, outer in nested
            )
            given = (
                [f"each factor given the other{'s' * (len(factors) > 2)}{without}"]
                if len(factors) > 1
                else []
            )
            given += (
                [f"{_named(self.tests[-1])} given the rest"]
                if len(factors) < len(self.tests)
                else []
            )
            yield "components", f"{each} ({'; '.join(given)})"
        if self.change is not None:
            p_value = f"p-value {format_small_p_value(self.change.p_value)} of it alone"
            yield "change", f"most in {self.change.told(outcome)} ({p_value})"
        if self.cells is not None:
            beyond = self.cells.p_exact < _FOUND and all(
                test.p_exact >= _FOUND for test in self.tests
            )
            hidden = ": single cells differ, though no factor does" if beyond else ""
            names = " × ".join(printable(factor.name) for factor in self.design.factors)
            p_values = _p_values(self.cells.p_value, self.cells.p_exact)
            yield (
                "cells",
                f"random deviations of {self.cells.n_cells:,} cells of {names}: {p_values}{hidden}",
            )

    @property
    def content(self) -> Fields:
        """Return the fields as `to_json` takes them."""
        tests = [test._asdict() for test in self.tests]
        return {
            "compared": self.design.in_words,
            "tests": tests,
            "change": self.change,
            "cells": self.cells,
        }


def _named(test: ComponentTest) -> str:
    return f"{'along' if test.along else 'by'} {printable(test.name)}"


def _p_values(p_value: float, p_exact: float) -> str:
    return f"p-value {format_p_value(p_value)}, exact {format_small_p_value(p_exact)}"


def components_of(model: BoundModel, mask: Mask, tolerance: Tolerance) -> Components | None:
    """Return the components of a subset (p,); None for one label, and outside the support."""
    if not isinstance(model, StructuredDeviations) or model.swept(mask[None])[0] is None:
        return None
    tests = model.component_tests(mask, tolerance)
    changes = any(test.along and test.p_exact < _FOUND for test in tests)
    return Components(
        model.design,
        tests,
        change_of(model.curves(mask), model.design) if changes else None,
        _cells(model, mask, tolerance),
        not any(model.remarks(mask[None])),
    )


def change_of(curves: Curves, design: Design) -> Change:
    """Return the change of the coefficient with the smallest p-value.

    It is in that third of the rows in which its curve is farthest from a constant coefficient.
    """
    j = int(np.argmin(curves.p_values))
    thirds = np.array_split(np.arange(len(curves.values)), 3)
    away = [float(np.mean(curves.estimates[third, j] - curves.common[j])) for third in thirds]
    place = int(np.argmax(np.abs(away)))
    common = float(curves.common[j])
    there = float(curves.common[j]) + away[place]
    if not curves.columns[j]:
        how = "higher" if away[place] > 0.0 else "lower"
    elif common * there < 0.0:
        how = "of the other sign"
    else:
        how = "stronger" if abs(there) > abs(common) else "weaker"
    ends = curves.values[thirds[place][[0, -1]]]
    return Change(curves.columns[j], float(curves.p_values[j]), how, *map(design.written, ends))


def _cells(model: StructuredDeviations, mask: Mask, tolerance: Tolerance) -> Cells | None:
    design = model.design
    data = model.data
    if len(design.factors) < 2 or (design.variable is not None and design.variable.ar):
        return None
    codes = np.column_stack([factor.codes for factor in design.factors])
    listed, places = np.unique(codes, axis=0, return_inverse=True)
    most = max(len(factor.levels) for factor in design.factors)
    if data.n_rows < _ROWS_OF_CELLS * len(listed) or len(listed) == most:
        return None
    labels = tuple(range(len(listed)))
    rows = replace(data.by_labels, environment_index=places.ravel(), environments=labels)
    cells = GaussianRandomDeviations(rows, model.n_jobs)
    exact = replace(tolerance, rho=0.0, tau=0.0)
    p_values = (
        float(cells.invariance_test(mask[None], each).mean[0]) for each in (tolerance, exact)
    )
    return Cells(len(listed), *p_values)
