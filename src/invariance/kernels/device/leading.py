"""The iterates of many ascents that promise the highest ELBO, kept on the device."""

from typing import NamedTuple

import torch

from .ascent import Objectives, Stretch


class Leaders(NamedTuple):
    """Of B ascents: promise (B, L), ELBO less two errors, largest first; iteration (B, L); logits (B, L, d)."""

    promise: torch.Tensor
    iteration: torch.Tensor
    logits: torch.Tensor

    @classmethod
    def none(cls, n_outcomes: int, room: int, d: int, device: torch.device) -> "Leaders":
        promise = torch.full((n_outcomes, room), -torch.inf, dtype=torch.float64, device=device)
        iteration = torch.zeros((n_outcomes, room), dtype=torch.int64, device=device)
        return cls(promise, iteration, torch.zeros((n_outcomes, room, d), dtype=torch.float64, device=device))

    def choosing(self, which: torch.Tensor) -> "Leaders":
        return Leaders(*(part[which] for part in self))

    def joined(self, promise: torch.Tensor, first: int, logits: torch.Tensor) -> "Leaders":
        """With the best of T iterates: promise (T, B), logits (T, B, d). Of equals the earlier ones lead."""
        n_steps, room = len(promise), self.promise.shape[1]
        promise = torch.cat([self.promise, promise.T], dim=1)
        steps = torch.arange(first, first + n_steps, device=promise.device).expand(len(promise), n_steps)
        iteration = torch.cat([self.iteration, steps], dim=1)
        order = torch.sort(promise, dim=1, descending=True, stable=True).indices[:, :room]
        outcome = torch.arange(len(promise), device=promise.device)[:, None]
        kept = torch.where(
            (order < room)[:, :, None],
            self.logits[outcome, order.clamp(max=room - 1)],
            logits[(order - room).clamp(min=0), outcome],
        )
        return Leaders(promise.gather(1, order), iteration.gather(1, order), kept)


def with_prior_and_entropy(objectives: Objectives, stretch: Stretch, constant: torch.Tensor) -> torch.Tensor:
    """(T, B) the ELBO: what was recorded, and the terms of the prior and the entropy that are known exactly."""
    q = torch.sigmoid(stretch.logits)
    # A column that is always in or out has no entropy, and its odds are 0.
    entropy = torch.special.entr(q).sum(dim=2) + torch.special.entr(1.0 - q).sum(dim=2)
    return stretch.elbo + (q * objectives.log_odds).sum(dim=2) + constant + entropy
