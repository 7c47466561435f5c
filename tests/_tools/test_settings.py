"""Names with settings, and engines from text."""

from __future__ import annotations

from typing import Any

import pytest

from invariance import Enumeration, Tempering, Variational
from invariance._tools.registry import read_call, split_outside_brackets
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
    with pytest.raises(ValueError, match="cannot read"):
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
        ("exact(time_limit=60)", Enumeration(time_limit=60)),
    ],
)
def test_engines(text: str, engine: Any) -> None:
    assert parse_engine(text) == engine


def test_settings_of_vi() -> None:
    engine = parse_engine("vi(iterations=50, screen=lasso, components=auto)")
    assert isinstance(engine, Variational)
    assert (engine.iterations, engine.screen, engine.components) == (50, "lasso", "auto")


@pytest.mark.parametrize("starts", [("searched",), ("searched", "informative")])
def test_a_list_for_a_tuple(starts: tuple[str, ...]) -> None:
    engine = parse_engine(f"vi(starts=[{', '.join(starts)}])")
    assert isinstance(engine, Variational)
    assert engine.starts == starts


@pytest.mark.parametrize(
    ("text", "phrase"),
    [
        ("guess", "'guess' is not known: use 'auto', 'exact', 'tempering', 'vi'"),
        ("auto(chains=8)", "auto has no settings: name the engine instead"),
        ("tempering(chain=8)", r"tempering has no setting 'chain'; did you mean 'chains'\?"),
        ("tempering(chains=many)", "chains cannot be 'many'"),
        ("tempering(chains=2.5)", "chains cannot be 2.5"),
        ("tempering(chains=0)", "chains=0 must be a whole number from 1 on"),
        ("exact(keep=none)", "keep cannot be None"),
        ("vi(schedule=3)", "schedule cannot be 3"),
        ("vi(screen=[lasso])", r"screen cannot be \['lasso'\]"),
        ("vi(starts=true)", "starts cannot be True"),
    ],
)
def test_engines_that_cannot_be_made(text: str, phrase: str) -> None:
    with pytest.raises(ValueError, match=phrase):
        parse_engine(text)
