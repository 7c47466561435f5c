"""The same as `shares_triton` in plain torch operations: one batched factorisation of padded matrices."""

import torch

from .problem import Problem, Subsets


def log_shares(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """(S, G) log of what each subset leaves of its outcome in each group; NaN where undecidable or not scored."""
    n_subsets, room = subsets.members.shape
    n_groups = len(problem.scatter)
    place = torch.arange(room + 1, device=problem.device)
    # The outcome comes last, after the places that a smaller subset leaves open.
    columns = torch.cat([subsets.members.long(), problem.outcome[subsets.owner, None]], dim=1)
    there = (place < subsets.size[:, None]) | (place == room)
    columns = torch.where(there, columns, 0)
    out = torch.empty((n_subsets, n_groups), dtype=torch.float64, device=problem.device)
    for g in range(n_groups):
        gram = problem.scatter[g][columns[:, :, None], columns[:, None, :]]
        for removed in problem.removed[subsets.owner, :, g].unbind(1):
            part = removed.gather(1, columns)
            gram -= part[:, :, None] * part[:, None, :]
        scale = problem.scale[subsets.owner, g].gather(1, columns) * there
        gram *= scale[:, :, None] * scale[:, None, :]
        gram.diagonal(dim1=1, dim2=2).add_((scale == 0.0).double())
        factor, failed = torch.linalg.cholesky_ex(gram)
        pivots = factor.diagonal(dim1=1, dim2=2) ** 2
        decided = (failed == 0) & (pivots >= problem.tolerance).all(dim=1) & (subsets.size <= room)
        out[:, g] = torch.where(decided, torch.log(pivots[:, -1]), torch.nan)
    return out
