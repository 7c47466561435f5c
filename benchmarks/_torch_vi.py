"""The paper's variational algorithm as one writes it in PyTorch: second moments and batched
Cholesky."""

from __future__ import annotations

import numpy as np
import torch

from invariance import Moments


class TorchVI:
    """Plain gradient ascent of the ELBO divided by N with U2G gradients; triangular learning
    rates."""

    def __init__(
        self, moments: Moments, max_size: int, jitter: float = 1e-8, device: str = "cpu"
    ) -> None:
        columns = np.append(moments.feature_columns, moments.outcome)
        scatter = moments.scatter[:, columns[:, None], columns]
        scale = np.sqrt(np.einsum("gjj->gj", scatter))
        self.device = device
        self.grams = torch.tensor(scatter / scale[:, :, None] / scale[:, None, :], device=device)
        counts = moments.group_counts
        self.weights = torch.tensor(
            0.5 * counts * np.append(np.ones(len(counts) - 1), -1.0), device=device
        )
        self.offset = float(self.weights.cpu().numpy() @ np.log(scale[:, -1] ** 2 / counts))
        self.p = moments.n_features
        self.max_size = max_size
        self.n_rows = moments.n_rows
        self.jitter = jitter

    def log_ratio(self, draws: torch.Tensor) -> torch.Tensor:
        """log Λ of draws (S, p), each with at most max_size features."""
        k = min(self.max_size, self.p)
        chosen, index = torch.topk(draws.double(), k, dim=1)
        index = torch.cat([index, torch.full((len(draws), 1), self.p, device=self.device)], dim=1)
        present = torch.cat(
            [chosen, torch.ones(len(draws), 1, dtype=torch.double, device=self.device)], dim=1
        )
        sub = self.grams[:, index[:, :, None], index[:, None, :]]
        sub = sub * (present[:, :, None] * present[:, None, :])
        diagonal = torch.diag_embed(1.0 - present + self.jitter * present)
        factor, _ = torch.linalg.cholesky_ex(sub + diagonal)
        return self.offset + (self.weights[:, None] * 2.0 * torch.log(factor[:, :, -1, -1])).sum(
            dim=0
        )

    def run(
        self, start: np.ndarray, seed: int, iterations: int = 2000, pairs: int = 20
    ) -> np.ndarray:
        """Inclusion probabilities (p,) at the iterate with the highest training ELBO."""
        generator = torch.Generator(self.device).manual_seed(seed)
        phi = torch.logit(torch.tensor(start, device=self.device))
        best = -np.inf
        best_q = None
        lowest = -1.0
        for t in range(iterations):
            q = torch.sigmoid(phi)
            u = torch.rand(
                pairs, self.p, generator=generator, dtype=torch.double, device=self.device
            )
            draws = torch.cat([u > 1.0 - q, u < q])
            feasible = draws.sum(dim=1) <= self.max_size
            value = torch.full((2 * pairs,), np.nan, dtype=torch.double, device=self.device)
            if feasible.any():
                value[feasible] = self.log_ratio(draws[feasible]) / self.n_rows
            good = torch.isfinite(value)
            if good.any():
                lowest = min(lowest, float(value[good].min()))
            value = torch.where(good, value, 1.1 * lowest)
            difference = value[:pairs] - value[pairs:]
            sign = draws[:pairs].double() - draws[pairs:].double()
            gradient = (0.5 * torch.sigmoid(phi.abs()) * difference[:, None] * sign).mean(dim=0)
            entropy = -(torch.xlogy(q, q) + torch.xlogy(1 - q, 1 - q)).sum()
            elbo = float(value.mean() + entropy / self.n_rows)
            if elbo > best:
                best = elbo
                best_q = q.clone()
            rate = 1.0 + 9.0 * (1.0 - abs((t % 1000) / 500 - 1.0))
            phi = phi + rate * (gradient - phi * q * (1 - q) / self.n_rows)
        return best_q.cpu().numpy()
