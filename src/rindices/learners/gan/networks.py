"""The networks of Surreal-GAN as modules, for a stack of members that are trained by
the same matrix products.

The leading axis of every parameter is that of the members. Shape letters, here and in
all of ``learners.gan``: S members, B people of a batch, R regions, M patterns; H = R //
2 and L = R // 4 are the widths of the hidden layers (69 and 34 in the paper, where R =
139).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as to_bytes
from torch import Tensor, nn
from torch.nn import functional

from rindices.atomic import write_atomically
from rindices.errors import ModelError, explain_write_errors
from rindices.learners.inference import LEAKY_RELU_SLOPE, compute_hidden_widths
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD

NETWORKS_FORMAT = "rindices.surreal.networks/1"


def _make_parameter(*shape: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(shape))


def _leaky_relu_(x: Tensor) -> Tensor:
    return functional.leaky_relu_(x, LEAKY_RELU_SLOPE)


class Transformation(nn.Module):
    """f of Table 3: turns controls x and severities z into synthesised patients x +
    change.
    """

    def __init__(self, n_members: int, n_regions: int, n_patterns: int) -> None:
        super().__init__()
        s, r, m, (h, n) = (
            n_members,
            n_regions,
            n_patterns,
            compute_hidden_widths(n_regions),
        )
        self.encode1, self.encode2 = _make_parameter(s, r, h), _make_parameter(s, h, n)
        self.gate, self.gate_bias = _make_parameter(s, m, n), _make_parameter(s, 1, n)
        self.decode1, self.decode2 = _make_parameter(s, n, h), _make_parameter(s, h, r)

    def encode(self, x: Tensor) -> Tensor:
        """Return the code of controls, from which `decode` computes changes: (S, B, R)
        -> (S, B, L).
        """
        hidden = _leaky_relu_(torch.bmm(x, self.encode1))
        return _leaky_relu_(torch.bmm(hidden, self.encode2))

    def decode(self, code: Tensor, z: Tensor) -> Tensor:
        """Return f(x, z) - x for controls with a code (S, B, L) and severities (S, B,
        ..., M): (S, B, ..., R).
        """
        gate = torch.baddbmm(self.gate_bias, z.flatten(1, -2), self.gate).sigmoid_()
        product = gate.view(*code.shape[:2], -1, code.shape[2]) * code.unsqueeze(2)
        hidden = _leaky_relu_(torch.bmm(product.flatten(1, 2), self.decode1))
        return _leaky_relu_(torch.bmm(hidden, self.decode2)).view(*z.shape[:-1], -1)

    def forward(self, x: Tensor, z: Tensor) -> Tensor:
        """Return f(x, z): (S, B, R) and (S, B, M) -> (S, B, R)."""
        return x + self.decode(self.encode(x), z)


class Decomposition(nn.Module):
    """g1 of Table 4: the part of each pattern in a patient's regions."""

    def __init__(self, n_members: int, n_regions: int, n_patterns: int) -> None:
        super().__init__()
        self.weight = _make_parameter(n_members, n_regions, n_patterns * n_regions)
        self.bias = _make_parameter(n_members, 1, n_patterns * n_regions)

    def forward(self, y: Tensor) -> Tensor:
        """Return g1(y): (S, B, R) -> (S, B, M, R)."""
        people = functional.leaky_relu(y, LEAKY_RELU_SLOPE)
        return torch.baddbmm(self.bias, people, self.weight).view(
            *y.shape[:2], -1, y.shape[2]
        )


class Perceptron(nn.Module):
    """g2 and D of Table 4: three layers, without a last activation."""

    def __init__(self, n_members: int, n_regions: int, n_outputs: int) -> None:
        super().__init__()
        s, (h, n) = n_members, compute_hidden_widths(n_regions)
        self.weight1, self.bias1 = (
            _make_parameter(s, n_regions, h),
            _make_parameter(s, 1, h),
        )
        self.weight2, self.bias2 = _make_parameter(s, h, n), _make_parameter(s, 1, n)
        self.weight3, self.bias3 = (
            _make_parameter(s, n, n_outputs),
            _make_parameter(s, 1, n_outputs),
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return the outputs of people: (S, B, R) -> (S, B, outputs)."""
        hidden = _leaky_relu_(torch.baddbmm(self.bias1, x, self.weight1))
        hidden = _leaky_relu_(torch.baddbmm(self.bias2, hidden, self.weight2))
        return torch.baddbmm(self.bias3, hidden, self.weight3)


class Copula(nn.Module):
    """Free parameters phi of the Gaussian copula between the severities; see
    `losses.copula_factor`.
    """

    def __init__(self, n_members: int, n_patterns: int) -> None:
        super().__init__()
        self.phi = nn.Parameter(torch.eye(n_patterns).repeat(n_members, 1, 1))


class SurrealNetworks(nn.Module):
    """All networks of S members.

    Parameters
    ----------
    n_members, n_regions, n_patterns : int
        S, R and M.
    standardised_d : bool, default=False
        Whether D reads a person's deviations from the controls, in control standard
        deviations, instead of the regions.
    """

    def __init__(
        self,
        n_members: int,
        n_regions: int,
        n_patterns: int,
        standardised_d: bool = False,
    ) -> None:
        super().__init__()
        self.n_members, self.n_regions, self.n_patterns = (
            n_members,
            n_regions,
            n_patterns,
        )
        self.standardised_d = standardised_d
        self.f = Transformation(n_members, n_regions, n_patterns)
        self.g1 = Decomposition(n_members, n_regions, n_patterns)
        self.g2 = Perceptron(n_members, n_regions, n_patterns)
        self.d = Perceptron(n_members, n_regions, 2)
        self.copula = Copula(n_members, n_patterns)

    @classmethod
    def from_members(
        cls, weights: Sequence[Mapping[str, Tensor]], standardised_d: bool = False
    ) -> Self:
        """Return the networks of members, given the weights of each by name, without an
        axis of members.
        """
        stacked = {
            name: torch.stack([each[name] for each in weights]) for name in weights[0]
        }
        n_regions, n_patterns = (
            stacked["f.encode1"].shape[1],
            stacked["f.gate"].shape[1],
        )
        networks = cls(len(weights), n_regions, n_patterns, standardised_d).to(
            stacked["f.encode1"]
        )
        networks.load_state_dict(stacked)
        return networks

    @torch.no_grad()
    def draw_weights(self, sd: float, streams: Sequence[torch.Generator]) -> None:
        """Draw normal weights from the stream of each member; biases are zero, and the
        copula is independence.
        """
        for name, weight in self.named_parameters():
            if not name.startswith("copula.") and "bias" not in name:
                for member, stream in zip(weight, streams, strict=True):
                    member.copy_(torch.randn(member.shape, generator=stream) * sd)

    def judge(self, people: Tensor) -> Tensor:
        """Return D's logits of people: (S, B, R) -> (S, B, 2)."""
        logits: Tensor = self.d(
            (people - CONTROL_MEAN) / CONTROL_SD if self.standardised_d else people
        )
        return logits

    def reconstruct(self, shares: Tensor) -> Tensor:
        """Return g2 of the part of each pattern: (S, B, M, R) -> (S, B, M, M)."""
        numbers: Tensor = self.g2(shares.flatten(1, 2))
        return numbers.view(*shares.shape[:3], -1)

    def select(self, positions: Sequence[int]) -> SurrealNetworks:
        """Return copies of the networks of the members at these positions of the S
        axis.
        """
        index = list(positions)
        selected = SurrealNetworks(
            len(index), self.n_regions, self.n_patterns, self.standardised_d
        )
        selected.to(self.f.encode1).load_state_dict(
            {name: each[index] for name, each in self.state_dict().items()}
        )
        return selected

    def get_member(self, position: int) -> dict[str, Tensor]:
        """Return the weights of one member by name, without an axis of members, on the
        CPU.
        """
        return {
            name: weight[position].cpu().clone()
            for name, weight in self.state_dict().items()
        }


def save_networks(networks: SurrealNetworks, path: Path) -> None:
    """Write the networks of all members to a safetensors file."""
    tensors = {
        name: weight.cpu().contiguous()
        for name, weight in networks.state_dict().items()
    }
    sizes = [
        networks.n_members,
        networks.n_regions,
        networks.n_patterns,
        networks.standardised_d,
    ]
    with explain_write_errors(str(path), ModelError, "give another path"):
        write_atomically(
            path,
            to_bytes(tensors, {"format": NETWORKS_FORMAT, "sizes": json.dumps(sizes)}),
        )


def load_networks(path: Path) -> SurrealNetworks:
    """Return the networks in a file of `save_networks`."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("format") != NETWORKS_FORMAT:
            raise ValueError("another format")
        n_members, n_regions, n_patterns, standardised_d = json.loads(metadata["sizes"])
        if (
            tensors["f.gate"].shape[:2] != (n_members, n_patterns)
            or tensors["g1.weight"].shape[1] != n_regions
        ):
            raise ValueError("its sizes are others than it says")
        networks = SurrealNetworks(
            n_members, n_regions, n_patterns, bool(standardised_d)
        ).to(tensors["f.gate"])
        networks.load_state_dict(tensors)
    except OSError as error:
        raise ModelError(f"{path} cannot be read: check the path.") from error
    except (SafetensorError, KeyError, ValueError, TypeError, RuntimeError) as error:
        cure = "give a file that SurrealGAN.save_networks has written"
        raise ModelError(
            f"{path} does not hold networks of Surreal-GAN: {cure}."
        ) from error
    return networks
