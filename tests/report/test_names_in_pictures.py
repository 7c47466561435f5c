"""Names are drawn as they are, whatever they hold, and a picture has no style but its own."""

from __future__ import annotations

import re
from functools import partial

import matplotlib as mpl
import matplotlib.pyplot as plt
import pytest
from matplotlib.axes import Axes

from invariance.report.pictures import picture

HOSTILE = ['a style="}*{display:none"', 'href="#age', 'x id="q" y', "url(#x)", ' id="a0" style="fill:red"']


def _drawn(names: list[str]) -> str:
    return picture(partial(_draw, names), (4.0, 3.0), "a", "alt", "caption").svg


def _draw(names: list[str], ax: Axes) -> None:
    ax.plot(range(len(names)), "o")
    ax.set_xticks(range(len(names)), names)
    ax.set_title(names[0])


@pytest.mark.parametrize("name", HOSTILE)
def test_names_are_text_and_no_markup(name: str) -> None:
    svg, plain = _drawn([name, name]), _drawn(["plain", "plain"])
    assert svg.count(f">{name}</text>") == 3
    assert re.findall(r"<style>.*?</style>", svg) == re.findall(r"<style>.*?</style>", plain)
    assert re.findall(r"<[a-z]+", svg) == re.findall(r"<[a-z]+", plain)


@pytest.mark.parametrize("own", ["dark_background", {"font.size": 20.0, "lines.linewidth": 5.0}, {"text.usetex": True}])
def test_the_style_of_a_user_changes_no_picture(own: str | dict[str, object]) -> None:
    plain = _drawn(["a", "b"])
    with plt.style.context(own):
        kept = "axes.facecolor", "font.size", "text.usetex"
        before = [mpl.rcParams[name] for name in kept]
        assert _drawn(["a", "b"]) == plain
        assert [mpl.rcParams[name] for name in kept] == before
