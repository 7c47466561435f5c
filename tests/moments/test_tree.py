"""The order of merging: the same bits whether pieces come one after the other or as a tree, and nothing is changed."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")

from invariance.moments.accumulator import MomentsAccumulator
from invariance.moments.from_rows import eights, folded, merged, rooted


def piece(seed: int) -> MomentsAccumulator:
    """Levels and environments come in an order of its own."""
    rng = np.random.default_rng(seed)
    values = {"x": 1e3 * seed + rng.normal(size=40), "kind": rng.choice(list("abc"), 40), "y": rng.normal(size=40)}
    rows = pa.record_batch({**values, "site": rng.choice(["n", "s"], 40)})
    return MomentsAccumulator(["x", "kind", "y"], "site").add(rows).settled()


def pieces(n: int) -> list[MomentsAccumulator]:
    return [piece(seed) for seed in range(n)]


def assert_same_bits(one: MomentsAccumulator, other: MomentsAccumulator) -> None:
    assert one.wide_columns == other.wide_columns
    assert list(one.parts) == list(other.parts)
    for label, part in one.parts.items():
        for name, value in part._asdict().items():
            np.testing.assert_array_equal(value, getattr(other.parts[label], name), err_msg=f"{label}: {name}")


@pytest.mark.parametrize("n", [1, 2, 7, 8, 9, 16, 17, 63, 64, 65, 73])
def test_pieces_that_come_one_after_the_other_make_the_same_tree(n: int) -> None:
    assert_same_bits(folded(pieces(n), piece(0)), rooted(pieces(n), merged))


def test_a_worker_that_gets_eight_pieces_makes_the_same_tree() -> None:
    eight_at_once = [rooted(each, merged) for each in eights(pieces(21))]
    assert_same_bits(rooted(eight_at_once, merged), rooted(pieces(21), merged))


def test_no_pieces() -> None:
    empty = MomentsAccumulator(["x"], "site")
    assert folded([], empty) is empty


def test_merging_changes_nothing_that_it_is_given() -> None:
    """Or a task that runs again would count rows twice."""
    given = pieces(8)
    before = [pickle.dumps(each) for each in given]
    once = merged(*given)
    assert [pickle.dumps(each) for each in given] == before
    assert_same_bits(merged(*given), once)


def test_half_of_the_products_travels_and_says_all() -> None:
    rng = np.random.default_rng(0)
    columns = [f"x{j}" for j in range(200)]
    rows = MomentsAccumulator(columns, "site")
    rows.add(pa.record_batch({**{name: rng.normal(size=300) for name in columns}, "site": ["n"] * 300}))
    content = pickle.dumps(rows)
    assert len(content) < 0.6 * 8 * 200**2
    assert_same_bits(pickle.loads(content), rows)


def test_split_by_environment_and_put_together_again() -> None:
    rows = folded(pieces(5), piece(0))
    split = dict(rows.split())
    assert list(split) == [None, *rows.parts]
    assert [each.tally.n_rows for each in split.values()] == [200, 0, 0]
    assert_same_bits(merged(*split.values()), rows)
    assert merged(*split.values()).levels == rows.levels
