"""What a sampler or an approximation leaves out because no model can score it, in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...priors.bound import BoundPrior
from .together import Cliques, undecidable_subsets

_EXAMPLES = 64


def support_note(conditional: Any, prior: BoundPrior, known: Cliques | None = None) -> str | None:
    """A sentence when single features, or some that belong together, put subsets outside the support."""
    allowed = ~prior.forced_out
    alone = np.eye(len(allowed), dtype=bool)[allowed & conditional.nearly_outcome()]
    every = allowed[None] if allowed.sum() <= prior.max_size else alone[:0]
    together = undecidable_subsets(conditional, prior, _EXAMPLES, known)
    reasons = conditional.unsupported(np.concatenate([alone, together, every])).reasons
    return f"Some subsets are outside the support: {'; '.join(reasons)}." if reasons else None
