"""Studies on samples that are made up."""

from __future__ import annotations

import pytest
from gene_samples import QUICK_METHODS

from replication import genes, make_study
from replication.genes import Genes


@pytest.fixture
def on(monkeypatch: pytest.MonkeyPatch):
    """make(samples, **changes): the study of samples in place of a file"""

    def make(*samples: object, **changes: object) -> Genes:
        monkeypatch.setattr(genes, "samples_of", lambda *source: samples)
        monkeypatch.setattr(genes, "same_samples", lambda *source: samples)
        settings = {"methods": QUICK_METHODS, "targets": None, "replicates": 2} | changes
        study = make_study("genes", simulated=1, **settings)
        assert isinstance(study, Genes)
        return study

    return make
