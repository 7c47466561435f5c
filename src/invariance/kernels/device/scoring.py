"""log Λ of subsets on a device, by the kernels that this device has."""

import torch

from . import draws_torch, shares_torch
from .draws_torch import Draws
from .problem import Problem, Subsets


def has_triton(device: torch.device) -> bool:
    """Whether the fused kernels can run: on a CUDA device where Triton is installed, as it is with torch on Linux."""
    if device.type != "cuda":
        return False
    try:
        import triton  # noqa: F401
    except ImportError:
        return False
    return True


def log_ratios(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """(S,) log Λ; NaN where undecidable or not scored"""
    weights = problem.weights[subsets.owner]
    total = problem.offset[subsets.owner] + (weights * log_shares(problem, subsets)).sum(dim=1)
    # As `subset_tree.settled`: rounding above 0 is 0, more than rounding is undecidable.
    rounding = 1e-6 + 1e-9 * weights[:, -1].abs()
    bounded = (total > 0.0) & (weights.sum(dim=1) >= 0.0)
    return torch.where(bounded, torch.where(total <= rounding, 0.0, torch.nan), total)


def log_shares(problem: Problem, subsets: Subsets) -> torch.Tensor:
    """As `shares_torch.log_shares`."""
    if has_triton(problem.device):
        from . import shares_triton

        return shares_triton.log_shares(problem, subsets)
    return shares_torch.log_shares(problem, subsets)


def draw_pairs(
    inclusion: torch.Tensor, direction: torch.Tensor, seeds: torch.Tensor, step: int, pairs: int, room: int
) -> Draws:
    """As `draws_torch.draw_pairs`."""
    if has_triton(inclusion.device):
        from . import draws_triton

        return draws_triton.draw_pairs(inclusion, direction, seeds, step, pairs, room)
    return draws_torch.draw_pairs(inclusion, direction, seeds, step, pairs, room)
