"""Surreal-GAN written plainly from the paper: one member, autograd, loops, no reuse."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional


class Reference:
    """One member with the paper's networks and Algorithm 1 (f, g1 and g2 on
    the sum).
    """

    def __init__(
        self, weights: Mapping[str, Tensor], rate: float, loss_weights: object
    ) -> None:
        self.p = {
            name: nn.Parameter(w.detach().clone())
            for name, w in weights.items()
            if "copula" not in name
        }
        self.w = loss_weights
        d = [p for name, p in self.p.items() if name.startswith("d.")]
        self.rest = [p for name, p in self.p.items() if not name.startswith("d.")]
        self.adam_d = torch.optim.Adam(d, lr=rate / 5, betas=(0.5, 0.999))
        self.adam = torch.optim.Adam(self.rest, lr=rate, betas=(0.5, 0.999))

    def change(self, x: Tensor, z: Tensor) -> Tensor:
        p = self.p
        h = functional.leaky_relu(x @ p["f.encode1"], 0.2)
        h = functional.leaky_relu(h @ p["f.encode2"], 0.2)
        h = h * torch.sigmoid(z @ p["f.gate"] + p["f.gate_bias"])
        h = functional.leaky_relu(h @ p["f.decode1"], 0.2)
        return functional.leaky_relu(h @ p["f.decode2"], 0.2)

    def perceptron(self, name: str, x: Tensor) -> Tensor:
        p = self.p
        h = functional.leaky_relu(x @ p[f"{name}.weight1"] + p[f"{name}.bias1"], 0.2)
        h = functional.leaky_relu(h @ p[f"{name}.weight2"] + p[f"{name}.bias2"], 0.2)
        return h @ p[f"{name}.weight3"] + p[f"{name}.bias3"]

    def decompose(self, y: Tensor) -> list[Tensor]:
        blocks = functional.leaky_relu(y, 0.2) @ self.p["g1.weight"] + self.p["g1.bias"]
        return list(blocks.split(y.shape[1], dim=1))

    def discrimination(self, x: Tensor, y: Tensor, z: Tensor) -> Tensor:
        fake = self.perceptron("d", (x + self.change(x, z)).detach())
        real = self.perceptron("d", y)
        ones = torch.ones(len(y), dtype=torch.long)
        return functional.cross_entropy(real, ones) + functional.cross_entropy(
            fake, 0 * ones
        )

    def terms(
        self, x: Tensor, z: Tensor, higher: Tensor, low: Tensor
    ) -> dict[str, Tensor]:
        delta, patterns = self.change(x, z), z.shape[1]
        targets = [z * torch.eye(patterns).to(z)[i] for i in range(patterns)]
        singles = [self.change(x, target) for target in targets]
        shares = self.decompose(x + delta)
        r = [self.perceptron("g2", share) for share in shares]
        ones = torch.ones(len(x), dtype=torch.long)
        excess = torch.clamp(delta.abs() - self.change(x, higher).abs(), min=0)
        return {
            "adversarial": functional.cross_entropy(
                self.perceptron("d", x + delta), ones
            ),
            "change": delta.abs().mean(),
            "decomposition": functional.mse_loss(
                torch.stack(shares), torch.stack(singles)
            ),
            "reconstruction": functional.mse_loss(torch.stack(r), torch.stack(targets)),
            "orthogonality": orthogonality(singles),
            "monotonicity": (excess**2).mean(),
            "near_zero": self.change(x, low).abs().mean(),
        }

    def step(
        self, x: Tensor, y: Tensor, z: Tensor, higher: Tensor, low: Tensor
    ) -> dict[str, Tensor]:
        """Update D, then the rest; the gradients each was updated with."""
        d = [name for name in self.p if name.startswith("d.")]
        discrimination = self.discrimination(x, y, z)
        grads = self._update(self.adam_d, discrimination, d)
        terms = self.terms(x, z, higher, low)
        total = sum(getattr(self.w, name) * term for name, term in terms.items())
        grads |= self._update(
            self.adam, total, [name for name in self.p if name not in d]
        )
        self.last = {"discrimination": discrimination.detach()}
        self.last |= {name: term.detach() for name, term in terms.items()}
        with torch.no_grad():
            for p in self.rest:
                p.clamp_(-0.5, 0.5)
        return grads

    def _update(
        self, adam: torch.optim.Adam, loss: Tensor, names: list[str]
    ) -> dict[str, Tensor]:
        adam.zero_grad()
        loss.backward()
        adam.step()
        return {name: self.p[name].grad.clone() for name in names}


def infer_r_indices(weights: Mapping[str, Tensor], y: Tensor) -> Tensor:
    """Return g2(g1(y)) of one member: (B, R) -> (B, M)."""
    member = Reference(weights, 1.0, None)
    return (
        torch.stack([member.perceptron("g2", share) for share in member.decompose(y)])
        .sum(dim=0)
        .detach()
    )


def orthogonality(singles: list[Tensor]) -> Tensor:
    """Mean over people of the mean square of A^T A - I, person by person."""
    total = torch.zeros((), dtype=singles[0].dtype)
    people, patterns = len(singles[0]), len(singles)
    for person in range(people):
        columns = [q[person].abs() / q[person].norm() for q in singles]
        a = torch.stack(columns, dim=1)
        total = total + ((a.T @ a - torch.eye(patterns, dtype=a.dtype)) ** 2).mean()
    return total / people
