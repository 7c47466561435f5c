"""Pictures on a page: text as text, the same bytes every time, nothing that another picture could trip over."""

from __future__ import annotations

import re

import matplotlib as mpl
import pytest

from invariance._tools.plotting import new_figure
from invariance.report.pictures import inline_svg


def _drawn(prefix: str = "a", title: str = "a title", alt: str = "what it shows") -> str:
    figure = new_figure(3.0, 2.0)
    ax = figure.add_subplot()
    ax.scatter([0.123456789, 2.0, 3.0], [1.0, 2.0, 3.0], color="#0072b2")
    ax.set_title(title, parse_math=False)
    return inline_svg(figure, prefix, alt)


def test_text_is_text_and_the_same_bytes() -> None:
    assert _drawn() == _drawn()
    assert ">a title</text>" in _drawn()
    with mpl.rc_context({"svg.fonttype": "path", "svg.hashsalt": "other", "font.sans-serif": ["Verdana"]}):
        assert "a title" in _drawn()


def test_ids_have_the_prefix() -> None:
    svg = _drawn("q")
    ids = re.findall(r' id="([^"]*)"', svg)
    assert ids
    assert len(ids) == len(set(ids))
    assert all(name.startswith("q-") for name in ids)
    references = set(re.findall(r'(?:url\(|href=")#([^)"]*)', svg))
    assert references
    assert references <= set(ids)


def test_it_is_one_element_without_a_background() -> None:
    svg = _drawn()
    assert svg.startswith('<svg role="img" aria-label="what it shows" viewBox="0 0 216 144" width="288" height="192">')
    assert svg.count("<svg") == svg.count("</svg>") == 1
    assert svg.count("<g") == svg.count("</g>")
    assert "#ffffff" not in svg
    assert "<!--" not in svg
    assert "http" not in svg


def test_numbers_are_short_and_text_is_left_alone() -> None:
    svg = _drawn(title="0.123456789: ; <b>")
    assert ">0.123456789: ; &lt;b&gt;</text>" in svg
    assert not re.search(r' [xy]="-?\d+\.\d{3,}"', svg)


@pytest.mark.parametrize("alt", ['"><script>', "a & b"])
def test_alternative_texts_are_escaped(alt: str) -> None:
    assert "<script>" not in _drawn(alt=alt)
    assert 'aria-label="a & b"' not in _drawn(alt=alt)
