"""Checkpoints of the authors' package are read as they were written; anything else is
refused and never executed.

Tests of `rindices.exchange.importers` tamper with the content.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from rindices.errors import ModelError
from rindices.learners.gan.losses import copula_factor
from rindices.learners.gan.upstream_checkpoint import (
    make_upstream_networks,
    read_upstream_checkpoint,
)
from tests.exchange.test_importers import (
    N_PATTERNS,
    N_REGIONS,
    ShellCommand,
    make_checkpoint,
)


def test_a_checkpoint_is_read_as_it_was_written(tmp_path: Path) -> None:
    content = make_checkpoint(epochs=(300,), covariates=2)
    torch.save(content, tmp_path / "c")
    read = read_upstream_checkpoint(tmp_path / "c")
    assert (read.epoch, read.n_regions, read.n_patterns) == (300, N_REGIONS, N_PATTERNS)
    np.testing.assert_array_equal(
        read.mean, content["normalization_variables"]["cn_mean"]
    )
    np.testing.assert_array_equal(read.beta, content["correction_variables"]["beta"])
    for weights, name in (
        (read.g1, "netDecomposer"),
        (read.g2, "netReconstruction"),
        (read.f, "netMapping"),
    ):
        assert all(
            np.array_equal(weights[layer], tensor)
            for layer, tensor in content[300][name].items()
        )
    off_diagonal = 0.5 / np.sqrt(
        1.25
    )  # phi is (1, 0.5, 1), and rows are brought to norm one
    np.testing.assert_allclose(read.correlation, [[1, off_diagonal], [off_diagonal, 1]])


def test_the_networks_of_a_checkpoint_are_those_of_the_authors(tmp_path: Path) -> None:
    """Against layers of torch in the order of the authors' classes."""
    content = make_checkpoint(covariates=0)
    torch.save(content, tmp_path / "c")
    networks = make_upstream_networks(read_upstream_checkpoint(tmp_path / "c")).double()
    generator = torch.Generator().manual_seed(0)
    x = 1 + 0.1 * torch.randn(6, N_REGIONS, generator=generator, dtype=torch.float64)
    z = torch.rand(6, N_PATTERNS, generator=generator, dtype=torch.float64)

    def apply(name: str, layer: str, people: torch.Tensor) -> torch.Tensor:
        layers = {
            key: torch.as_tensor(value).double()
            for key, value in content[300][name].items()
        }
        return functional.linear(
            people, layers[f"{layer}.weight"], layers.get(f"{layer}.bias")
        )

    def leaky(people: torch.Tensor) -> torch.Tensor:
        return functional.leaky_relu(people, 0.2)

    code = leaky(
        apply("netMapping", "model.2", leaky(apply("netMapping", "model.0", x)))
    )
    code = code * torch.sigmoid(apply("netMapping", "model.4.add_noise.0", z))
    change = leaky(
        apply("netMapping", "model.7", leaky(apply("netMapping", "model.5", code)))
    )
    torch.testing.assert_close(networks.f(x[None], z[None])[0], x + change)
    shares = apply("netDecomposer", "model.1", leaky(x)).view(6, N_PATTERNS, N_REGIONS)
    torch.testing.assert_close(networks.g1(x[None])[0], shares)
    hidden = shares
    for layer in ("model.0", "model.2"):
        hidden = leaky(apply("netReconstruction", layer, hidden))
    torch.testing.assert_close(
        networks.reconstruct(shares[None])[0],
        apply("netReconstruction", "model.4", hidden),
    )
    factor = copula_factor(networks.copula.phi)[0]
    read = read_upstream_checkpoint(tmp_path / "c")
    np.testing.assert_allclose(
        (factor @ factor.T).detach(), read.correlation, atol=1e-6
    )


def test_covariates_and_copula_may_be_absent(tmp_path: Path) -> None:
    content = make_checkpoint(covariates=0)
    del content[300]["phi"]
    torch.save(content, tmp_path / "c")
    read = read_upstream_checkpoint(tmp_path / "c")
    assert (read.low.shape, read.high.shape, read.beta.shape, read.correlation) == (
        (0,),
        (0,),
        (0, N_REGIONS),
        None,
    )


def test_one_of_several_epochs_is_chosen(tmp_path: Path) -> None:
    torch.save(make_checkpoint(epochs=(100, 200)), tmp_path / "c")
    assert read_upstream_checkpoint(tmp_path / "c", epoch=100).epoch == 100
    for epoch, message in ((None, "holds 2 epochs"), (150, "has no epoch 150")):
        with pytest.raises(ModelError, match=message):
            read_upstream_checkpoint(tmp_path / "c", epoch=epoch)


def test_other_files_are_refused(tmp_path: Path) -> None:
    valid = tmp_path / "valid"
    torch.save(make_checkpoint(), valid)
    size = valid.stat().st_size
    contents = [valid.read_bytes()[:end] for end in (0, 1, 100, size // 2, size - 1)]
    contents += [
        pickle.dumps(ShellCommand(tmp_path / "mark")),
        b"PK\x03\x04 and no more",
        b"\x00" * 1000,
    ]
    for content in contents:
        (tmp_path / "c").write_bytes(content)
        with pytest.raises(ModelError, match=r"^c "):
            read_upstream_checkpoint(tmp_path / "c")
    torch.save(make_checkpoint(), tmp_path / "c", _use_new_zipfile_serialization=False)
    with pytest.raises(ModelError, match="not a file that torch wrote"):
        read_upstream_checkpoint(tmp_path / "c")
    with pytest.raises(ModelError, match="cannot be read"):
        read_upstream_checkpoint(tmp_path / "absent")
    assert not (tmp_path / "mark").exists()
