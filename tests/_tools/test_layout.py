"""Labels that fit a width and stay different."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from invariance._tools.text import display_width, name_labels, subset_labels, wrap
from invariance.posterior.plots import plot_inclusion
from posteriors import random_posterior

odd_names = st.lists(
    st.one_of(
        st.text(max_size=40),
        st.integers(0, 60).map(lambda j: f"gene_with_a_long_name_{j}_of_the_chip"),
    ),
    min_size=1,
    max_size=40,
    unique=True,
)


@settings(max_examples=25)
@given(
    names=odd_names,
    width=st.integers(24, 100),
    seed=st.integers(0, 10**6),
    flips=st.integers(1, 20),
)
def test_labels_are_distinct_and_within_the_width(
    names: list[str], width: int, seed: int, flips: int
) -> None:
    """Of names, and of neighbours of one random subset, `flips` features away from it."""
    rng = np.random.default_rng(seed)
    first = rng.random(len(names)) < 0.6
    changed = [first ^ (rng.random(len(names)) < flips / len(names)) for _ in range(12)]
    masks = {tuple(mask): None for mask in [first, *changed]}
    subsets = [[name for name, inside in zip(names, mask, strict=True) if inside] for mask in masks]
    for labels, told in (
        (subset_labels(subsets, width), subsets),
        (name_labels(names, width), names),
    ):
        assert len(set(labels)) == len(labels) == len(told)
        assert all(label.isprintable() and display_width(label) <= width for label in labels)


def test_a_subset_that_does_not_fit_is_told_by_what_differs() -> None:
    """Cut where it is the first or far from it, and by a number where that tells no difference."""
    first = [f"x{j}" for j in range(10, 30)]
    others = [["y", *(f"{letter}{j}" for j in range(16))] for letter in "ab"]
    assert subset_labels(
        [first, [*first[:18], "x7", "x29"], first[1:], ["x1"], *others, [*others[1], "b"]], 30
    ) == [
        "{x10, x11, x12, x13, … +16}",
        "the first + x7 − x28",
        "the first − x10",
        "{x1}",
        "{y, a0, a1, a2, a3, a4, … +11}",
        "{y, b0, b1, b2, b3, b4, … +11}",
        "{y, b0, b1, b2, b3, b4, … +12}",
    ]
    assert subset_labels([first, [*others[0], "c"], [*others[0], "d"]], 30)[2].startswith(
        "no. 3: {y, a0"
    )
    first, second = (f"expression_of_{gene}_in_liver_tissue" for gene in ("BRCA1", "BRCA2"))
    assert name_labels([first, second, "age"], 20) == [
        "expression…er_tissue",
        "…2_in_liver_tissue",
        "age",
    ]
    assert name_labels(["a\nb", "a\\nb"], 20) == ["a\\nb", "no. 2: a\\nb"]


def test_no_table_or_picture_shows_two_subsets_or_features_alike() -> None:
    """Subsets of 30 of 60 features with long names, neighbours of the first."""
    masks = np.zeros((6, 60), dtype=bool)
    masks[:, :30] = True
    for row in range(1, 6):
        masks[row, 29 - row] = False
        masks[row, 29 + row] = row % 2 == 0
    posterior = replace(
        random_posterior(0, p=2, pairwise=None),
        feature_names=tuple(
            f"expression_of_gene_{j:02}_measured_in_the_liver_tissue" for j in range(60)
        ),
        inclusion=np.linspace(1, 0, 60),
        masks=masks,
        log_ratios=-np.arange(6.0),
        log_probabilities=np.log([0.3, 0.25, 0.2, 0.1, 0.1, 0.05]),
        n_subsets=2**60,
    )
    lines = str(posterior.summary()).splitlines()
    assert max(map(display_width, lines)) <= 80
    start = lines.index("Most probable subsets") + 2
    labels = [line.split("  ")[-1] for line in lines[start : start + 6]]
    assert len(set(labels)) == 6
    assert labels[1] == "the first − …28_measured_in_the_live"
    start = lines.index("Inclusion probability in the paper's posterior") + 1
    assert len({line[:40] for line in lines[start : start + 20]}) == 20
    ticks = [tick.get_text() for tick in plot_inclusion(posterior).get_yticklabels()]
    assert len(set(ticks)) == len(ticks) == 30


def test_a_list_without_blanks_is_broken_between_its_names() -> None:
    names = ",".join(f"name{j}=?" for j in range(30))
    lines = list(wrap(f"use --na '{names}'.", rest="  ", width=40))
    assert max(map(len, lines)) <= 40
    assert all(line.endswith(",") for line in lines[1:-1])
    assert "".join(line.strip() for line in lines[1:]) == f"'{names}'."
