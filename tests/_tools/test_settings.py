"""Names with settings, and engines from text."""

from __future__ import annotations

import pytest

from invariance import Enumeration, Tempering, Variational
from invariance._tools.registry import read_call, split_outside_brackets
from invariance.exceptions import SettingError
from invariance.inference.base import parse_engine


def test_names_with_settings() -> None:
    for text, name, settings in (
        ("exact", "exact", {}),
        (" ICP ( max_size = 3 ) ", "ICP", {"max_size": 3}),
        (
            "t(steps=20_000, precision=1e-3, a=-1)",
            "t",
            {"steps": 20_000, "precision": 1e-3, "a": -1},
        ),
        (
            "t(a=none, b=True, c='search', d=auto)",
            "t",
            {"a": None, "b": True, "c": "search", "d": "auto"},
        ),
        ("Oracle(support=[a, 'b c'])", "Oracle", {"support": ["a", "b c"]}),
    ):
        assert read_call(text) == (name, settings)
    for unreadable in ("", "a b", "t(", "t(1)", "t(a=)", "t(=1)", "t)a=1("):
        with pytest.raises(SettingError):
            read_call(unreadable)
    assert split_outside_brackets("A(x=1, y=[a,b]), B,, C") == ["A(x=1, y=[a,b])", "B", "C"]


def test_engines() -> None:
    for text, engine in {
        "auto": "auto",
        "Tempering": "tempering",
        "tempering(chains=8, steps=20000, searches=20)": Tempering(
            chains=8, steps=20_000, searches=20
        ),
        "tempering(steps=auto)": Tempering(steps="auto"),
        "exact(time_limit=none)": Enumeration(time_limit=None),
        "vi(iterations=50, screen=lasso)": Variational(iterations=50, screen="lasso"),
        "vi-genes": "vi-genes",
        "vi-genes(draws=9)": Variational.genes(draws=9),
        "VI-simulation(screen=raw_lasso)": Variational.simulation(screen="raw_lasso"),
        "vi(starts=[searched, informative])": Variational(starts=("searched", "informative")),
    }.items():
        assert repr(parse_engine(text)) == repr(engine)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("guess", "guess"),
        ("auto(chains=8)", "auto"),
        ("tempering(chain=8)", "chains"),
        ("tempering(chains=many)", "chains"),
        ("tempering(chains=2.5)", "chains"),
        ("tempering(chains=0)", "chains"),
        ("exact(keep=none)", "keep"),
        ("exact(time_limit=inf)", "time_limit"),
        ("tempering(precision=nan)", "precision"),
        ("vi(schedule=3)", "schedule"),
        ("vi(screen=[lasso])", "screen"),
        ("vi(starts=true)", "starts"),
        ("vi-genes(schedule=3)", "schedule"),
        ("vi-simulation(pair=3)", "pairs"),
    ],
)
def test_engines_that_cannot_be_made(text: str, named: str) -> None:
    with pytest.raises(SettingError, match=named):
        parse_engine(text)
