"""Where the samples of the gene study come from: the published file, excerpts of it, or a simulated network."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from pathlib import Path

from ..exceptions import EngineError, SettingError
from ..simulation.knockouts import Deletions

# Of the published file.
WILD_TYPES, DELETIONS, GENES = 262, 1479, 6170
NEEDED = (
    f"the study 'genes' needs the yeast deletions of Kemmeren et al. (2014), {WILD_TYPES} wild types and {DELETIONS:,} "
    f"deletions of {GENES:,} genes, from https://deleteome.holstegelab.nl (Kemmeren.RData, its HDF5 form, or the text "
    "files), which is not downloaded"
)
_PANELS = "panels_nodes.npz"
_DIGITS = 16


@lru_cache(maxsize=1)
def samples_of(data: str | None, simulated: int | None, seed: int) -> tuple[Deletions, ...]:
    """The sets of samples that are studied side by side, each with its own genes: one, or the panels of an excerpt."""
    if (data is None) == (simulated is None):
        raise SettingError(f"{NEEDED}: name it, data='Kemmeren.RData', or simulate a network, simulated=600.")
    if simulated is not None:
        from ..simulation import knockouts

        deletions = max(round(simulated * DELETIONS / GENES), 1)
        return (knockouts(simulated, WILD_TYPES, deletions, pairs=min(10, simulated // 20), seed=seed).data,)
    from ..datasets import load_yeast, load_yeast_panels

    assert data is not None
    path = Path(data).expanduser()
    if path.suffix == ".npz" or (path / _PANELS).exists():
        return tuple(panel.deletions for panel in load_yeast_panels(path))
    return (load_yeast(path),)


@lru_cache(maxsize=1)
def fingerprint(samples: tuple[Deletions, ...]) -> str:
    """Tells whether two sources hold the same numbers and names."""
    digest = hashlib.sha256()
    for one in samples:
        digest.update(one.values.tobytes())
        digest.update(repr((one.genes, one.deleted)).encode())
    return digest.hexdigest()[:_DIGITS]


def same_samples(data: str | None, simulated: int | None, seed: int, expected: str) -> tuple[Deletions, ...]:
    """As `samples_of`, on a machine that may have another file at that path."""
    samples = samples_of(data, simulated, seed)
    if fingerprint(samples) != expected:
        where = "the simulated samples" if data is None else f"the file {data!r}"
        raise EngineError(f"{where} differ between the machines of this study: use the same file and versions on all.")
    return samples
