"""A posterior in words, in text of 80 columns, in HTML and as a picture."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex

from invariance._tools.text import display_width, shorten
from invariance.exceptions import FileError
from invariance.posterior.plots import plot_inclusion, save_inclusion
from invariance.posterior.posterior import Evidence, Posterior
from invariance.posterior.summary import (
    bar,
    format_count,
    format_percent,
    format_probability,
    format_subset,
)
from posteriors import from_probabilities, random_posterior


@pytest.mark.parametrize(
    ("table", "spread", "told"),
    [
        ({(0, 1): 0.96, (0,): 0.04}, False, ["0.960", "{x0, x1}"]),
        ({(0, 1): 0.70, (0,): 0.30}, False, ["0.700", "x1 (0.700)"]),
        ({(): 0.85, (0,): 0.15}, False, ["0.850", "{}"]),
        (
            {(0, 1): 0.41, (0,): 0.38, (1,): 0.21},
            True,
            ["{x0, x1} (0.410)", "{x0} (0.380)", "{x1} (0.210)"],
        ),
        (
            {(0, 1): 0.45, (0,): 0.2, (1,): 0.2, (2,): 0.15},
            True,
            ["{x0, x1} (0.450)", "as wide as 4", "x2 (0.150)"],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["invariant", "predictive"])
def test_reading(
    table: dict[tuple[int, ...], float], spread: bool, told: list[str], kind: str
) -> None:
    posterior = from_probabilities(table, kind=kind)
    assert posterior.is_spread is spread
    reading = posterior.reading()
    assert all(text in reading for text in told)
    assert ("compatible" in reading) == (kind == "predictive")
    alone = replace(posterior, environments=("a",), counts=np.array([9])).reading()
    assert "One environment" in alone
    assert "{" not in alone


def test_small_formats() -> None:
    values = {
        0.0: "<0.001",
        4e-4: "<0.001",
        6e-4: "0.001",
        0.5: "0.500",
        0.9994: "0.999",
        0.9996: ">0.999",
    }
    assert {value: format_probability(value) for value in values} == values
    assert format_count(1048576) == "1,048,576"
    assert format_count(2**100) == "about 1.3e30"
    assert format_count(10**30_000) == "about 1.0e30000"
    assert [bar(value, 10) for value in (1.0, 0.55, 0.0)] == ["█" * 10, "█████▌", ""]
    assert shorten("abcdefghij", 5) == "ab…ij"
    assert shorten("遺伝子発現量", 6) == "遺…量"
    assert format_subset([]) == "{}"
    assert format_subset([f"g{i}" for i in range(30)], 20) == "{g0, g1, g2, … +27}"
    assert format_subset(["a\nb"]) == "{a\\nb}"


def make_posterior(inclusion: Any, masks: Any = None, **changes: Any) -> Posterior:
    """Equally probable subsets `masks` (k, p), by default the empty one, of features x0, x1, …"""
    p = len(inclusion)
    masks = np.zeros((1, p), dtype=bool) if masks is None else masks
    table = {
        "masks": masks,
        "log_ratios": -np.arange(len(masks)),
        "log_probabilities": -np.log(len(masks) * np.ones(len(masks))),
    }
    common = {
        "feature_names": tuple(f"x{j}" for j in range(p)),
        "pairwise": None,
        "n_subsets": 2**p,
    }
    return replace(
        random_posterior(0, p=2), inclusion=np.asarray(inclusion), **common | table | changes
    )


def test_summary_text() -> None:
    posterior = from_probabilities(
        {(0, 1): 0.96, (0,): 0.04}, notes=("12 subsets were outside the support.",)
    )
    lines = str(posterior.summary(top=2)).splitlines()
    assert [line for line in lines if line and line[0] != " "] == [
        "The paper's posterior, over invariant subsets",
        "Inclusion probability in the paper's posterior",
        "Most probable subsets",
        "Reading",
        "Notes",
    ]
    assert "  environments  3 with 1,150 rows: a (40), b (50), c (1,060)" in lines
    assert "  subsets       8 in the support of the prior" in lines
    assert "  x1   0.960  ████████████████████████████▊" in lines
    assert "  0.040      -3.22  {x0}" in lines
    assert "  - 12 subsets were outside the support." in lines
    many = str(make_posterior(np.linspace(0.9, 0.02, 45)).summary()).splitlines()
    assert "  … and 25 more features at 0.500 or below" in many
    assert sum(re.match(r"  x\d+ +0\.\d{3}  █", line) is not None for line in many) == 20
    assert "  subsets       about 3.5e13 in the support of the prior" in many


wide_text = st.text(
    st.one_of(st.characters(), st.sampled_from("遺伝子Ａ…é\u0301\t\n {}\\")),
    min_size=0,
    max_size=90,
)


@settings(max_examples=12)
@given(data=st.data(), p=st.sampled_from([1, 3, 60]))
def test_summary_never_passes_80_columns(data: st.DataObject, p: int) -> None:
    drawn = data.draw(st.lists(wide_text, min_size=1, max_size=4))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    masks = np.unique(rng.random((12, p)) < rng.random((12, 1)), axis=0)
    posterior = make_posterior(
        rng.random(p),
        masks,
        feature_names=tuple(f"{drawn[j % len(drawn)]}{j}" for j in range(p)),
        log_ratios=-(10.0 ** rng.uniform(-3, 12, len(masks))),
        outcome_name=data.draw(wide_text),
        environments=tuple(data.draw(st.lists(wide_text, min_size=9, max_size=9))),
        counts=np.full(9, 10**6),
        **{name: data.draw(wide_text) for name in ("engine", "prior")},
        notes=tuple(data.draw(st.lists(wide_text, max_size=2))),
    )
    text = str(posterior.summary(top=12))
    assert all(line.isprintable() and display_width(line) <= 80 for line in text.split("\n"))
    assert text.encode("utf-8")
    assert "\n" not in repr(posterior)
    assert len(repr(posterior)) < 200
    html = posterior._repr_html_()
    assert html.count("<div") == html.count("</div>")


def test_html_is_escaped_and_self_contained() -> None:
    posterior = from_probabilities(
        {(0,): 0.9, (): 0.1},
        p=2,
        feature_names=('<script>alert("x")</script>', "a&b"),
        outcome_name="<b>y</b>",
        environments=("<i>", "e", "f"),
        notes=("1 < 2",),
    )
    html = posterior._repr_html_()
    assert html == posterior.summary()._repr_html_()
    for raw in ("<script", "<b>", "<i>", "1 < 2", "a&b", 'alert("', "http", "class="):
        assert raw not in html
    for escaped in (
        "&lt;script&gt;",
        "a&amp;b",
        "&lt;b&gt;y&lt;/b&gt;",
        "&lt;i&gt; (40)",
        "1 &lt; 2",
    ):
        assert escaped in html


def test_evidence_of_the_leading_subsets_is_in_the_table() -> None:
    known = Evidence(
        **(
            Evidence.unknown(2).columns()
            | {"p_invariant": np.array([0.25, 0.0]), "r2": np.array([0.5, -3.0])}
        )
    )
    posterior = from_probabilities({(0, 1): 0.9, (0,): 0.06, (2,): 0.04}, table_evidence=known)
    lines = str(posterior.summary(3)).splitlines()
    start = lines.index("Most probable subsets")
    assert [line.split() for line in lines[start + 1 : start + 5]] == [
        ["prob.", "log", "ratio", "p_inv", "exact", "differ", "by", "R²", "subset"],
        ["0.900", "-0.11", "0.250", "–", "–", "0.500", "{x0,", "x1}"],
        ["0.060", "-2.81", "<0.001", "–", "–", "-3.000", "{x0}"],
        ["0.040", "-3.22", "–", "–", "–", "–", "{x2}"],
    ]
    alone = replace(posterior, environments=("a",), counts=np.array([9]))
    assert "p_inv" not in str(alone.summary())


def test_compatible_subsets_are_counted() -> None:
    counted = {"subsets_compatible": 5, "compatible_counted": True}
    sure = from_probabilities({(0, 1): 0.96, (0,): 0.04}, kind="predictive", diagnostics=counted)
    assert "  5 compatible of 8 in" in str(sure.summary())
    searched = replace(sure, diagnostics={"subsets_compatible": 5})
    assert "at least 5 compatible of 8 in" in str(searched.summary())
    assert "Of the 5 compatible subsets, " in " ".join(str(sure.summary()).split())
    assert "Of the compatible subsets, " in " ".join(str(searched.summary()).split())


# The picture of the inclusion probabilities


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """What pyplot would keep open."""
    yield
    plt.close("all")


def labels(ax: Any) -> list[str]:
    return [tick.get_text() for tick in ax.get_yticklabels()]


def bars(ax: Any) -> list[tuple[float, float, str]]:
    """(position, width, colour) of every bar from the top."""
    return sorted((bar.get_y(), bar.get_width(), to_hex(bar.get_facecolor())) for bar in ax.patches)


def test_bars_are_sorted_and_labelled() -> None:
    ax = plot_inclusion(make_posterior([0.2, 0.97, 0.2, 0.6]))
    assert labels(ax) == ["x1", "x3", "x0", "x2"]
    assert [width for _, width, _ in bars(ax)] == pytest.approx([0.97, 0.6, 0.2, 0.2])
    assert ax.get_xlim() == (0.0, 1.0)
    assert ax.yaxis_inverted()
    assert [np.asarray(line.get_xdata()).tolist() for line in ax.get_lines()] == [[0.5, 0.5]]
    assert [text.get_text() for text in ax.texts] == ["0.970", "0.600", "0.200", "0.200"]
    assert ax.get_legend() is None
    assert ax.get_title(loc="left") == "Outcome y, 3 environments"
    few = plot_inclusion(make_posterior(np.linspace(0, 1, 50)), top=7)
    assert (len(few.patches), few.get_ylabel(), labels(few)[0]) == (7, "feature (7 of 50)", "x49")


@pytest.mark.parametrize("truth", [["x0", "x2"], np.array([True, False, True])])
def test_truth_colours_the_bars(truth: Any) -> None:
    ax = plot_inclusion(make_posterior([0.9, 0.4, 0.1]), truth=truth)
    colours = [colour for _, _, colour in bars(ax)]
    assert colours[0] == colours[2] != colours[1]
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == [
        "truly invariant",
        "not in the true subset",
    ]


def test_differences_beyond_all_measure_leave_room_for_names() -> None:
    assert [format_percent(share) for share in (0.0, 0.03, 0.0999, 9.9, 417.98)] == [
        "0%",
        "3.0%",
        "10%",
        "990%",
        ">1000%",
    ]


def test_files(tmp_path: Path) -> None:
    posterior = make_posterior([0.9, 0.4])
    for name, magic in (("a.png", b"\x89PNG"), ("a.svg", b"<?xml"), ("a.pdf", b"%PDF")):
        path = save_inclusion(posterior, tmp_path / name, truth=["x0"])
        assert path == tmp_path / name
        assert path.read_bytes().startswith(magic)
    with pytest.raises(FileError, match="nowhere"):
        save_inclusion(posterior, tmp_path / "nowhere" / "a.png")
    with pytest.raises(ValueError, match="x9"):
        plot_inclusion(posterior, truth=["x9"])


@pytest.mark.integration
def test_a_file_is_drawn_without_pyplot(tmp_path: Path) -> None:
    code = (
        "import sys; from invariance.posterior.plots import save_inclusion; from posteriors "
        "import random_posterior\n"
        "assert 'matplotlib' not in sys.modules, 'matplotlib is imported before it is used'\n"
        f"save_inclusion(random_posterior(0), {str(tmp_path / 'a.png')!r})\n"
        "assert 'matplotlib.pyplot' not in sys.modules, 'pyplot keeps global state'\n"
    )
    path = os.pathsep.join(filter(None, sys.path))
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
