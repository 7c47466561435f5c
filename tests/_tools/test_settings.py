"""Names with settings, and engines from text."""

from __future__ import annotations

from typing import Any

import pytest

from invariance import Enumeration, Tempering, Variational
from invariance._tools.registry import read_call, split_outside_brackets
from invariance.exceptions import SettingError
from invariance.inference.registry import parse_engine


@pytest.mark.parametrize(
    ("text", "name", "settings"),
    [
        ("exact", "exact", {}),
        (" ICP ( max_size = 3 ) ", "ICP", {"max_size": 3}),
        ("t(steps=20_000, precision=1e-3,)", "t", {"steps": 20_000, "precision": 1e-3}),
        ("t(a=none, b=True, c='search', d=auto)", "t", {"a": None, "b": True, "c": "search", "d": "auto"}),
        ("Oracle(support=[a, 'b c'])", "Oracle", {"support": ["a", "b c"]}),
    ],
)
def test_read_call(text: str, name: str, settings: dict[str, Any]) -> None:
    assert read_call(text) == (name, settings)


@pytest.mark.parametrize("text", ["", "a b", "t(", "t(1)", "t(a=)", "t(=1)", "t)a=1("])
def test_unreadable(text: str) -> None:
    with pytest.raises(SettingError):
        read_call(text)


def test_commas_inside_brackets_do_not_split() -> None:
    assert split_outside_brackets("A(x=1, y=[a,b]), B,, C") == ["A(x=1, y=[a,b])", "B", "C"]


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ("auto", "auto"),
        ("Tempering", "tempering"),
        ("tempering(chains=8, steps=20000, searches=20)", Tempering(chains=8, steps=20_000, searches=20)),
        ("tempering(steps=auto)", Tempering(steps="auto")),
        ("exact(time_limit=none)", Enumeration(time_limit=None)),
        ("vi(iterations=50, screen=lasso)", Variational(iterations=50, screen="lasso")),
        ("vi(starts=[searched, informative])", Variational(starts=("searched", "informative"))),
    ],
)
def test_engines(text: str, engine: Any) -> None:
    assert repr(parse_engine(text)) == repr(engine)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("guess", "guess"),
        ("auto(chains=8)", "auto"),
        ("tempering(chain=8)", "'chains'"),
        ("tempering(chains=many)", "chains"),
        ("tempering(chains=2.5)", "chains"),
        ("tempering(chains=0)", "chains"),
        ("exact(keep=none)", "keep"),
        ("vi(schedule=3)", "schedule"),
        ("vi(screen=[lasso])", "screen"),
        ("vi(starts=true)", "starts"),
    ],
)
def test_engines_that_cannot_be_made(text: str, named: str) -> None:
    with pytest.raises(SettingError, match=named):
        parse_engine(text)
