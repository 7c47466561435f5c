"""Expression in wild types and in samples where one gene is deleted."""

from __future__ import annotations

import numpy as np
import pytest

from invariance.exceptions import DataError
from replication.yeast import YeastDeletions

VALUES = np.array(
    [[0.1, 0.2, 0.0], [-0.1, 0.0, 0.1], [-3.0, 0.5, 0.0], [0.0, 0.1, -4.0], [-2.0, 0.0, 0.3], [0.0, 0.0, 0.0]]
)
DELETED = (None, None, "a", "c", "a", "z")
SAMPLES = tuple("stuvwx")


@pytest.fixture
def deletions() -> YeastDeletions:
    return YeastDeletions(VALUES, ("a", "b", "c"), SAMPLES, DELETED)


def test_rows_of_a_gene(deletions: YeastDeletions) -> None:
    for gene in ("a", "b", "c", "z", "nobody"):
        assert deletions.deleting(gene).tolist() == [row for row, name in enumerate(DELETED) if name == gene]
    assert deletions.values[deletions.deleting("b")].shape == (0, 3)
    assert deletions.wild_type.tolist() == [True, True, False, False, False, False]
    assert deletions.environments.tolist() == ["wild type"] * 2 + ["deletion"] * 4
    assert deletions.place == {"a": 0, "b": 1, "c": 2}


def test_share_silenced(deletions: YeastDeletions) -> None:
    # a is down in u and w, c in v; z is not measured
    assert deletions.silenced == 1.0
    shifted = YeastDeletions(VALUES, ("a", "b", "c"), SAMPLES, (None, None, "a", "b", "c", "a"))
    assert shifted.silenced == pytest.approx(1 / 4)
    assert np.isnan(YeastDeletions(VALUES[:3], ("a", "b", "c"), SAMPLES[:3], (None, None, "z")).silenced)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"genes": ("a", "b")}, "2 genes"),
        ({"samples": SAMPLES[:5]}, "5 samples"),
        ({"deleted": DELETED[1:]}, "5 deleted"),
        ({"values": VALUES.ravel()}, "shape"),
        ({"genes": ("a", "b", "a")}, "measured twice: 'a'"),
        ({"values": np.where(VALUES == 0.5, np.nan, VALUES)}, "1 values .* gene 'b' in sample 'u'"),
        ({"deleted": (None,) * 6}, "all 6 samples are of one kind, wild type"),
        ({"deleted": ("a",) * 6}, "all 6 samples are of one kind, deletion"),
    ],
)
def test_complaints(changed: dict, message: str) -> None:
    fields = {"values": VALUES, "genes": ("a", "b", "c"), "samples": SAMPLES, "deleted": DELETED}
    with pytest.raises(DataError, match=message):
        YeastDeletions(**(fields | changed))
