"""Names in any script: with fonts that have their letters or, where there is none, with one sentence and no more."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from fontTools.fontBuilder import FontBuilder
from fontTools.pens.ttGlyphPen import TTGlyphPen
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text

from cli_runner import run
from decision_cases import made
from invariance import BIP, compare
from invariance._tools.plotting import _fonts_with
from invariance.decisions.plots import PICTURES, save_picture
from invariance.exceptions import InvarianceWarning

LETTERS = "年龄体重"
NAMES = tuple(f"{letter} $" for letter in LETTERS)


@pytest.fixture(autouse=True)
def known_fonts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Those that come with matplotlib, and all are forgotten that a test brings."""
    own = [font for font in font_manager.fontManager.ttflist if "mpl-data" in str(font.fname)]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", own)
    monkeypatch.setattr("invariance._tools.plotting._tell_new_fonts", lambda: None)
    _fonts_with.cache_clear()
    yield
    plt.close("all")
    _fonts_with.cache_clear()


@pytest.fixture(scope="module")
def model() -> BIP:
    return BIP().fit(made(feature_names=NAMES, outcome_name=f"y {LETTERS}"))


def font_with(letters: str, name: str, folder: Path, outlines: bool = True) -> None:
    """A font that matplotlib knows from now on."""
    pen = TTGlyphPen(None)
    pen.moveTo((0, 0))
    for corner in ((0, 500), (500, 500), (500, 0)):
        pen.lineTo(corner)
    pen.closePath()
    square, names = pen.glyph(), {ord(letter): f"g{ord(letter)}" for letter in letters}
    font = FontBuilder(1000, isTTF=True)
    font.setupGlyphOrder([".notdef", *names.values()])
    font.setupCharacterMap(names)
    nothing = TTGlyphPen(None).glyph()
    glyphs = {".notdef": square} | dict.fromkeys(names.values(), square if outlines else nothing)
    font.setupGlyf(glyphs)
    font.setupHorizontalMetrics(dict.fromkeys(glyphs, (600, 0)))
    font.setupHorizontalHeader(ascent=800, descent=-200)
    font.setupNameTable({"familyName": name, "styleName": "Regular"})
    font.setupOS2()
    font.setupPost()
    font.save(folder / f"{name}.ttf")
    font_manager.fontManager.addfont(folder / f"{name}.ttf")


def drawn(model: BIP, kind: str) -> tuple[Figure, list[warnings.WarningMessage]]:
    """As a notebook draws it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        axes = model.plot(kind)
        figure = axes.figure if isinstance(axes, Axes) else axes.flat[0].figure
        figure.draw_without_rendering()
        figure.canvas.draw()
    return figure, told


@pytest.mark.parametrize("kind", PICTURES)
def test_one_sentence_tells_of_letters_that_no_font_has(model: BIP, kind: str) -> None:
    _, told = drawn(model, kind)
    assert [warning.category for warning in told] == [InvarianceWarning]
    named = set(str(told[0].message).partition(" has ")[2].partition(":")[0])
    assert named <= set(LETTERS)
    assert named == set(LETTERS) or kind in ("subsets", "coefficients", "environments")
    assert "model.report('report.html')" in str(told[0].message)


@pytest.mark.parametrize("kind", PICTURES)
def test_fonts_that_have_them_draw_them(model: BIP, kind: str, tmp_path: Path) -> None:
    font_with(LETTERS[:2], "Half", tmp_path)
    font_with(LETTERS[1:], "Most", tmp_path)
    figure, told = drawn(model, kind)
    assert told == []
    families = {text.get_text(): text.get_fontfamily() for text in figure.findobj(Text) if text.get_text()}
    lettered = [family for text, family in families.items() if set(text) & set(LETTERS)]
    assert lettered
    assert all(family == lettered[0] for family in lettered)
    assert lettered[0][:2] == ["sans-serif", "Most"] or kind in ("subsets", "coefficients", "environments")
    assert all(family == ["sans-serif"] for text, family in families.items() if not set(text) & set(LETTERS))


def test_a_font_that_was_installed_since_is_seen(model: BIP, tmp_path: Path) -> None:
    assert drawn(model, "frontier")[1]
    font_with(LETTERS, "Late", tmp_path)
    assert not drawn(model, "frontier")[1]


def test_fonts_without_outlines_are_left_alone(tmp_path: Path) -> None:
    colourful = "\U0001fae0"
    assert _fonts_with(colourful, 0) == ((), colourful)
    font_with(colourful, "Colours", tmp_path, outlines=False)
    assert _fonts_with(colourful, 1) == ((), colourful)
    font_with(colourful, "Lines", tmp_path)
    assert _fonts_with(colourful, 2) == (("Lines",), "")


def test_files_and_comparisons_say_it_once(model: BIP, tmp_path: Path) -> None:
    with pytest.warns(InvarianceWarning) as told:
        save_picture(model.decision_, "subsets", tmp_path / "subsets.png")
    assert len(told) == 1
    with pytest.warns(InvarianceWarning) as told:
        compare(made(feature_names=NAMES), ["BIP", "Lasso"]).plot()
    assert len(told) == 1


@pytest.mark.filterwarnings("error")
def test_a_report_has_them_as_text_whatever_the_fonts(model: BIP, tmp_path: Path) -> None:
    without = model.report(tmp_path / "without.html").read_text("utf-8")
    font_with(LETTERS, "All", tmp_path)
    assert model.report(tmp_path / "with.html").read_text("utf-8") == without
    for name in NAMES:
        assert re.search(rf"<text[^>]*>{re.escape(name)}</text>", without)


def test_in_a_shell_the_remedy_is_an_option(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    site = np.repeat(["a", "b"], 60)
    cause = rng.normal(size=120) + (site == "a")
    pd.DataFrame({LETTERS: cause, "y": cause + rng.normal(size=120), "site": site}).to_csv(tmp_path / "t.csv")
    wanted = ["fit", str(tmp_path / "t.csv"), "--outcome", "y", "--environment", "site", "--features", LETTERS]
    told = run(*wanted, "--plot", str(tmp_path / "p.png")).stderr
    assert told.count("warning") == 1
    remedy = "`invariance fit` with --report report.html"
    assert remedy in told
    page = tmp_path / remedy.split()[-1]
    assert run(*wanted, remedy.split()[-2], str(page)).stderr.count("warning") == 0
    assert page.exists()
