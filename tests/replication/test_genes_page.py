"""The page of the yeast study says what the published tables say, and these what the deletions
say."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from replication import make_study
from replication.genes import FOLDS, LISTED, MARKS, Genes, published
from replication.genes_methods import GENE_METHODS, PAPER_COLUMNS, PAPER_PREDICTIONS, VALIDATED

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "docs" / "results"
STRAINS = ROOT.parent / "shared" / "data" / "yeast_deletions"
PAGE = (RESULTS / "genes.md").read_text(encoding="utf-8")
TARGETS = pd.read_csv(RESULTS / "genes-table1.csv")
METHODS = pd.read_csv(RESULTS / "genes-methods.csv", dtype=str)
ONE_FIT = pd.read_csv(RESULTS / "genes-bip-vi.csv")
OURS = {column: column.split(" (")[0] for column in TARGETS if column.endswith(")")}


def rows_of(first: str) -> list[list[str]]:
    """The table of the page that begins with this cell, without its head"""
    lines = PAGE[PAGE.index(f"| {first} |") :].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def listed(target: str, column: str) -> list[str]:
    return names_in(TARGETS.set_index("target").loc[target, column])


def names_in(entry: str) -> list[str]:
    """Genes of an entry without their marks"""
    return [re.sub(r"[*\\ˣ]", "", gene) for gene in entry.split(", ")] if entry != "∅" else []


def causes(column: str) -> int:
    """How many of the validated causes of the paper's first column are listed"""
    told = {target: published(target, PAPER_COLUMNS[0])[0] for target in PAPER_PREDICTIONS}
    return sum(
        gene in listed(t, column) for t, (gene, verdict) in told.items() if verdict == VALIDATED
    )


def test_the_page_shows_the_published_tables() -> None:
    assert rows_of("target") == TARGETS.to_numpy().tolist()
    found = {(method, setting): cells for method, setting, *cells in rows_of("method | setting")}
    assert set(found) == {
        (m, LISTED.get(m, GENE_METHODS[m].settings[0])) for m in METHODS["method"]
    }
    columns = ["causes found", "genes a target", "checked", "precision", "at random", "p", "recall"]
    table = METHODS.set_index(["method", "setting"])[columns]
    assert {key: table.loc[key].tolist() for key in found} == found


def test_the_page_shows_the_drawn_targets() -> None:
    drawn = pd.read_csv(RESULTS / "genes-drawn.csv", dtype=str).fillna("")
    settings = {
        method: LISTED.get(method, each.settings[0]) for method, each in GENE_METHODS.items()
    }
    shown = [row for row in drawn.to_numpy().tolist() if settings[row[0]] == row[1]]
    assert rows_of("of the drawn targets, method") == shown
    elsewhere = pd.read_csv(RESULTS / "genes-elsewhere.csv", dtype=str).fillna("")
    leading = elsewhere.groupby(["checked on", "method"], sort=False).head(1)
    assert rows_of("checked on") == leading.to_numpy().tolist()
    above = leading[leading["over chance (95%)"].str.extract(r"\((\S+)")[0].astype(float) > 1.0]
    for laboratory in ("induction", "knock-outs"):
        methods = set(above.loc[above["checked on"].str.startswith(laboratory), "method"])
        assert methods >= {"BIP-screen", "Hidden-ICP-screen", "EILLS-screen", "Lasso"}


def test_the_papers_columns_are_the_papers() -> None:
    for column in PAPER_COLUMNS:
        for target in PAPER_PREDICTIONS:
            entry = (
                ", ".join(
                    MARKS[verdict].format(gene) for gene, verdict in published(target, column)
                )
                or "∅"
            )
            assert TARGETS.set_index("target").loc[target, f"the paper: {column}"] == entry


@pytest.mark.parametrize("column", list(OURS))
def test_both_tables_count_the_same_causes(column: str) -> None:
    setting = column.split("(")[1].removesuffix(")")
    of_method = METHODS[(METHODS["method"] == OURS[column]) & (METHODS["setting"] == setting)]
    assert of_method["causes found"].tolist() == [f"{causes(column)} of 9"]
    sizes = [len(listed(target, column)) for target in PAPER_PREDICTIONS]
    assert of_method["genes a target"].astype(float).tolist() == [
        pytest.approx(sum(sizes) / 10, abs=0.051)
    ]


def test_one_fit_of_the_variational_method_beside_the_papers() -> None:
    assert rows_of("target | held out") == ONE_FIT.to_numpy().tolist()
    told = {target: published(target, PAPER_COLUMNS[0])[0] for target in ONE_FIT["target"]}
    assert [gene for gene, _ in told.values()] == ONE_FIT["held out"].tolist()
    causes = {(target, gene) for target, (gene, verdict) in told.items() if verdict == VALIDATED}
    entries = ONE_FIT.set_index("target")
    found = {
        column: {(t, g) for t in entries.index for g in names_in(entries.loc[t, column])}
        for column in entries.columns[1:]
    }
    (paper, ours) = found
    counts = [len(found[column] & causes) for column in (ours, paper)]
    assert (
        f"It finds {counts[0]} of {len(causes)} causes, where the paper's finds {counts[1]}" in PAGE
    )
    same = sum(
        set(names_in(row[paper])) == set(names_in(row[ours])) for _, row in entries.iterrows()
    )
    assert f"for {same} of {len(entries)} targets the genes are exactly the paper's" in PAGE
    assert found[paper] == {(t, g) for t in entries.index for g, _ in published(t, "BIP-VI")}


def test_statements_of_the_page() -> None:
    screen, icp, hidden = OURS
    assert (causes(screen), causes(hidden), causes(icp)) == (7, 7, 3)
    assert "finds 7 of the 9 causes that a deletion\nconfirms, as Hidden-ICP does, ICP 3" in PAGE
    paper = {(t, g) for t in PAPER_PREDICTIONS for g, _ in published(t, "ICP-screen")}
    here = {(t, g) for t in PAPER_PREDICTIONS for g in listed(t, icp)}
    assert (len(paper), len(here), len(here & paper)) == (11, 3, 3)
    assert "lists 3 genes, all among the paper's 11" in PAGE
    assert (
        len(
            {
                (t, gene)
                for t in PAPER_PREDICTIONS
                for c in PAPER_COLUMNS
                for gene in published(t, c)
            }
        )
        == 20
    )
    strict = METHODS[(METHODS["method"] == "BIP-screen") & (METHODS["setting"] == "t=0.9")].iloc[0]
    assert (strict["causes found"], strict["genes a target"]) == ("7 of 9", "1.4")
    assert "the same seven with 1.4 genes a target" in PAGE
    marginal = METHODS[METHODS["method"] == "Marginal"].iloc[0]
    assert f"{float(marginal['predicted']) / (10 * FOLDS):,.0f} of the 6,164 genes a fit" in PAGE
    assert f"here {marginal['precision'][1:]} and {marginal['recall'][1:]}" in PAGE
    assert f"(p = {marginal['p'][1:]})" in PAGE
    fit = METHODS[(METHODS["method"] == "BIP-screen") & (METHODS["setting"] == "t=0.5")].iloc[0]
    right = [
        round(float(fit[f"{kind}: checked"]) * float(fit[f"{kind}: precision"])) for kind in KINDS
    ]
    assert right == [4, 4]
    assert [fit[f"{kind}: checked"] for kind in KINDS] == ["6", "7"]
    assert "right in 4 of 6 and in 4 of 7 of these, at random .25 and .018" in PAGE
    lowest = METHODS.assign(
        precision=METHODS["precision"].astype(float), recall=METHODS["recall"].astype(float)
    )
    assert lowest.loc[lowest["precision"].idxmin(), "method"] == "Marginal"
    assert lowest.loc[lowest["recall"].idxmax(), "method"] == "Marginal"


KINDS = ("responsive", "non-responsive")


@pytest.mark.skipif(not STRAINS.is_dir(), reason="the yeast deletions are not at hand")
def test_the_deletions_say_what_the_marks_say() -> None:
    study = make_study(
        "genes", data=str(STRAINS), targets="paper", replicates=1, methods=("Marginal",)
    )
    assert isinstance(study, Genes)
    for column in TARGETS.columns[1:]:
        for target, entry in zip(TARGETS["target"], TARGETS[column], strict=True):
            genes = listed(target, column)
            marked = [MARKS[study.verdict(0, gene, target)].format(gene) for gene in genes]
            assert (", ".join(marked) or "∅") == entry, (target, column)
    for target, cause, _, entry in ONE_FIT.to_numpy().tolist():
        fold = study.split(0, 0).fold_of(cause)
        marked = []
        for gene in names_in(entry):
            bare = gene.strip("()")
            seen = study.split(0, 0).fold_of(bare) not in (None, fold)
            marked.append(
                f"({bare})" if seen else MARKS[study.verdict(0, bare, target)].format(bare)
            )
        assert (", ".join(marked) or "∅") == entry
