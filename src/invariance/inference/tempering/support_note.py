"""What a sampler or an approximation leaves out because no model can score it, in a sentence."""

from __future__ import annotations

import numpy as np

from ..._tools.arrays import Mask
from ...conditionals.gaussian import GaussianModel
from ..target import Target
from .replicas import CompiledTarget
from .together import Cliques, undecidable_subsets

_EXAMPLES = 64


def support_note(
    target: Target, known: Cliques | None = None, met: Mask | None = None, look: bool = True
) -> str | None:
    """A sentence when single features, or some that belong together, put subsets outside the support.

    met (k, p): subsets without a value that a sampler came across. They are what is known of models without a compiled
    scorer, and of others that were not to be looked through.
    """
    model, prior = target.model, target.prior
    allowed = ~prior.forced_out
    nearly = np.flatnonzero(allowed & model.nearly_outcome())
    alone = np.arange(len(allowed)) == nearly[:, None]
    every = allowed[None] if allowed.sum() <= prior.max_size else alone[:0]
    together = alone[:0] if met is None else met
    from_rows = model.has_rows if isinstance(model, GaussianModel) else model.rows is not None
    # Another compiled target would be another cache of second moments on demand.
    if look and (known is None or not from_rows or known.determining.any()):
        compiled = CompiledTarget.of(target)
        if compiled is not None:
            together = undecidable_subsets(compiled, from_rows, _EXAMPLES, known)
    reasons = model.unsupported(np.concatenate([alone, together, every])).reasons
    return f"Some subsets are outside the support: {'; '.join(reasons)}." if reasons else None
