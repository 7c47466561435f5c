"""The linear Gaussian model with its subsets scored on a device, where they are many or large."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from .._tools.arrays import Floats, Mask
from ..exceptions import SettingError, use
from ..kernels.active_set import Scoring
from ..kernels.subset_sums import listed, sizes
from ..moments.moments import Moments
from .base import PIVOT_TOLERANCE
from .gaussian import GaussianFromMoments

if TYPE_CHECKING:
    import torch

    from ..kernels.device.torch_kernels import Problem

# Factors of so many bytes at a time are on the device: enough subsets of 200 to keep an H200 busy.
_WORK_BYTES = 1 << 30


def as_device(name: str) -> torch.device:
    """The device of this name; raise where torch, or the device, is not there."""
    try:
        import torch
    except ImportError:
        raise SettingError(f"device={name!r} needs PyTorch: pip install 'invariant-prediction[gpu]'.") from None
    cuda = [f"cuda:{index}" for index in range(torch.cuda.device_count())]
    known = ["cpu", *(["cuda"] if cuda else []), *cuda]
    if name not in known:
        what = f"device={name!r} is not known to torch {torch.__version__}"
        raise SettingError(what, *(use(device=other) for other in known))
    return torch.device(name)


class SharedScatter:
    """Second moments on a device, for models of any outcome whose moments are these, with rows removed or not."""

    def __init__(self, moments: Moments, device: torch.device) -> None:
        import torch

        self.columns = moments.columns
        self.diagonal = np.einsum("gjj->gj", moments.scatter).copy()
        self.device = device
        self.scoring = Lock()  # held by the thread whose subsets are scored
        self.scatter = torch.as_tensor(moments.scatter, dtype=torch.float64, device=device)

    def suits(self, model: GaussianFromMoments, removed: Floats) -> bool:
        """Whether the model's scatter is this one without rows `removed` (R, G, d), and its features single columns."""
        if model.features.grouped or model.moments.columns != self.columns:
            return False
        left = self.diagonal - (removed**2).sum(axis=0)
        return np.allclose(left, np.einsum("gjj->gj", model.moments.scatter), rtol=1e-8, atol=0.0)

    def problem(self, outcomes: Sequence[tuple[Scoring, Floats]]) -> Problem:
        """What scores the subsets of all these outcomes, given by `scoring_by_moments` and rows removed (R, G, d)."""
        import torch

        from ..kernels.device.torch_kernels import Problem

        scorings, gone = zip(*outcomes, strict=True)
        removed = np.zeros((len(outcomes), max(map(len, gone)), *self.scatter.shape[:2]))
        for rows, own in zip(removed, gone, strict=True):
            rows[: len(own)] = own

        def tensor(values: object) -> torch.Tensor:
            return torch.as_tensor(np.asarray(values), device=self.device)

        return Problem(
            scatter=self.scatter,
            outcome=tensor([scoring.outcome for scoring in scorings]),
            scale=tensor([scoring.inverse_scale for scoring in scorings]),
            removed=tensor(removed),
            weights=tensor([scoring.weights for scoring in scorings]),
            offset=tensor([scoring.offset for scoring in scorings]),
            tolerance=PIVOT_TOLERANCE,
        )


class GaussianOnDevice(GaussianFromMoments):
    """As `GaussianFromMoments`, which decides what the device cannot."""

    def __init__(self, model: GaussianFromMoments, shared: SharedScatter, removed: Floats) -> None:
        super().__init__(model.moments if model.data is None else model.data, model.n_jobs, model.prediction)
        self._shared, self._removed = shared, removed

    def _score(self, masks: Mask, penalty: float = np.nan, scoring: Scoring | None = None) -> Floats:
        if scoring is not None or not len(masks):
            return super()._score(masks, penalty, scoring)
        import torch

        from ..kernels.device.ascent import log_ratios
        from ..kernels.device.torch_kernels import Subsets

        size, values = sizes(masks), np.empty(len(masks))
        room = max(int(size.max()), 1)
        members = listed(masks, self.moments.feature_columns, room)
        step = max(1, _WORK_BYTES // (8 * len(self._shared.scatter) * (room + 64) ** 2))
        problem = self._shared.problem([(self.scoring_by_moments(), self._removed)])
        for start in range(0, len(masks), step):
            part = slice(start, start + step)
            there = [torch.as_tensor(given[part], device=problem.device) for given in (members, size)]
            with self._shared.scoring:
                owner = torch.zeros(len(there[1]), dtype=torch.int64, device=problem.device)
                values[part] = log_ratios(problem, Subsets(owner, *there)).cpu().numpy()
        unknown = np.isnan(values)
        values[unknown] = super()._score(masks[unknown], penalty)
        return values
