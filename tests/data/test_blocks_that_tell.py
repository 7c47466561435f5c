"""Which blocks of a large text are looked at for signs of decimals, and that nothing else changes."""

from __future__ import annotations

import io

import numpy as np
import pytest

from invariance.data import text as decimal_signs
from invariance.data.text import TellingLines, decimals_in, numbers_in

SEPARATORS = [",", ";", "\t"]


@pytest.mark.parametrize("sep", SEPARATORS)
@pytest.mark.parametrize("number", ["1.5", "-1.5", "+.5", "5.", "1.234", " 1.5 ", "2.5e-3", '"1.5"'])
@pytest.mark.parametrize("place", ["first", "middle", "last"])
def test_numbers_with_a_point_are_found(sep: str, number: str, place: str) -> None:
    cells = {"first": (number, "a", "7"), "middle": ("a", number, "7"), "last": ("7", "a", number)}[place]
    assert decimals_in(sep)(f"x\n{sep.join(cells)}\ny\n")


@pytest.mark.parametrize(("sep", "found"), [(",", False), (";", True), ("\t", True)])
def test_numbers_with_a_comma_are_found_where_it_is_none_between_cells(sep: str, found: bool) -> None:
    assert decimals_in(sep)(f"a{sep}1,5{sep}7\n") is found
    assert decimals_in(sep)(f'a{sep}"1,5"{sep}7\n')
    assert decimals_in(sep)(f'a{sep}"1,234"{sep}7\n')


@pytest.mark.parametrize("sep", SEPARATORS)
@pytest.mark.parametrize(
    "cell", ["7", "1500", "10:00:00.123", "a.5", "1.5a", "1.2.3", "v1.5", "1 1.5 1", "", '"a, 5"', '"see 1.5 there"']
)
def test_other_cells_are_not(sep: str, cell: str) -> None:
    assert not decimals_in(sep)(f"x\na{sep}{cell}{sep}b\ny\n")


@pytest.mark.parametrize("sep", SEPARATORS)
def test_whole_numbers_from_100_on_may_be_looked_for_too(sep: str) -> None:
    for cell in ("1.5", "1.234", "100", "-950", "1500"):
        assert numbers_in(sep)(f"a{sep}{cell}{sep}b\n"), cell
    for cell in ("99", "012", "a100", "100a"):
        assert not numbers_in(sep)(f"a{sep}{cell}{sep}b\n"), cell


@pytest.fixture
def short_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decimal_signs, "_BLOCK", 20)


def given(text: str, whole: float = 0) -> tuple[list[tuple[int, str]], TellingLines]:
    lines = TellingLines(io.StringIO(text, newline=""), whole, decimals_in(","))
    return [(lines.number, line) for line in lines], lines


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_that_are_left_out_are_counted(end: str) -> None:
    rows = ["1,2"] * 30 + ["1.5,2"] + ["3,4"] * 30
    found, lines = given(end.join(rows) + end)
    assert (31, f"1.5,2{end}") in found
    assert len(found) < 20 or end == "\r"  # which ends no line for a text that is read by lines
    assert not lines.all_given or end == "\r"


@pytest.mark.usefixtures("short_blocks")
def test_the_beginning_is_given_whole() -> None:
    text = "1,2\n" * 30
    found, lines = given(text, len(text))
    assert len(found) == 30
    assert lines.all_given


@pytest.mark.usefixtures("short_blocks")
def test_a_quote_is_as_open_after_what_is_left_out_as_before() -> None:
    rng = np.random.default_rng(0)
    cells = ["7", '"a"', '"b\n8,c\nd"', "9", '"x,y"', '""']
    for _ in range(50):
        text = "".join(f"{cells[k]},{cells[m]}\n" for k, m in rng.integers(0, len(cells), (40, 2)))
        found, _ = given("0,0\n" * 6 + text + "1.5,2\n")
        assert sum(line.count('"') for _, line in found) % 2 == 0
        assert found[-1][1] == "1.5,2\n"
