"""Public docstrings: their examples run, and a lint rejects what numpydoc would not accept."""

from __future__ import annotations

import doctest
import inspect
import runpy
from pathlib import Path
from typing import Any

import pytest

LINT = runpy.run_path(str(Path(__file__).parents[2] / "scripts" / "docstrings.py"))
NAMES = list(LINT["public_names"]())


def function_of(member: Any) -> Any:
    """Return the function of a property, which doctest does not look into."""
    return getattr(member, "fget", None) or getattr(member, "func", None) or member


EXAMPLES = {
    name: found
    for name in NAMES
    for found in [inspect.getdoc(function_of(LINT["load"](name))) or ""]
    if ">>>" in found
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_of_a_public_docstring_run(name: str) -> None:
    examples = doctest.DocTestParser().get_doctest(EXAMPLES[name], {}, name, None, None)
    messages: list[str] = []
    doctest.DocTestRunner(verbose=False).run(examples, out=messages.append)
    assert "".join(messages) == ""


def test_every_name_of_the_package_has_an_example() -> None:
    top = {name for name in NAMES if name.count(".") == 1}
    assert len(top) > 30
    assert top <= set(EXAMPLES)
    assert len(EXAMPLES) > 45


def without_docstring(option: int) -> int:
    return option


def with_house_style(option: int) -> int:
    """(n,) the option, twice

    option : how often
    """
    return option


def as_numpydoc_wants_it(option: int = 1) -> int:
    """Return the option.

    Parameters
    ----------
    option : int, default=1
        A number.

    Returns
    -------
    int
        The same number.
    """
    return option


def with_another_default(option: int = 2) -> int:
    """Return the option.

    Parameters
    ----------
    option : int, default=1
        A number.

    Returns
    -------
    int
        The same number.
    """
    return option


@pytest.mark.parametrize(
    ("function", "codes"),
    [
        (without_docstring, {"GL08"}),
        (with_house_style, {"SS03", "PR01", "RT01"}),
        (with_another_default, {"default"}),
        (as_numpydoc_wants_it, set()),
    ],
)
def test_a_public_name_without_a_valid_docstring_is_found(function: Any, codes: set[str]) -> None:
    name = f"{__name__}.{function.__name__}"
    assert {code for code, _ in LINT["findings_of"](name)} == codes


def test_a_record_documents_its_fields() -> None:
    name = "invariance.decisions.levels.BaselineDifference"
    record = LINT["PublicDocstring"](name)
    assert record.parameter_mismatches == []
    record.doc._parsed_data["Attributes"].pop()
    assert [code for code, _ in record.parameter_mismatches] == ["PR01"]
