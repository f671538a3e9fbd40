"""What is said of networks, for an f that is known: the change is sigmoid(z . gate +
bias) x_0 direction.
"""

from pathlib import Path

import numpy as np
import pytest
import torch
from scipy.special import expit

from rindices.learners.ensemble import Member, NetworkTraining, TrainingOutcome
from rindices.learners.gan.describe import (
    SHOWN_SEVERITIES,
    MemberPeople,
    NetworkEnsemble,
    make_networks,
    summarise_networks,
    write_networks,
)
from rindices.learners.gan.networks import SurrealNetworks, load_networks
from rindices.learners.gan.realism import measure_realism
from rindices.learners.inference import SurrealHead

REGIONS, GATE, BIAS = 8, np.array([3.0, 1.0]), -2.0
DIRECTION = np.linspace(0.05, 0.4, REGIONS)


def make_member(number: int, gate: np.ndarray = GATE, size: float = 1.0) -> Member:
    """A member whose f has one active unit in each layer."""
    shapes = {
        name: each.shape[1:]
        for name, each in SurrealNetworks(1, REGIONS, 2).state_dict().items()
    }
    weights = {
        name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()
    }
    for name in ("f.encode1", "f.encode2", "f.decode1"):
        weights[name][0, 0] = 1.0
    weights["f.decode2"][0] = size * DIRECTION
    weights["f.gate"][:, 0], weights["f.gate_bias"][0, 0] = gate, BIAS
    weights["copula.phi"][:] = np.eye(2)
    training = NetworkTraining(
        met_bars=True,
        checks=np.array([100]),
        losses=np.zeros((1, 8), dtype=np.float32),
        weights=weights,
    )
    head = SurrealHead.from_arrays(
        {
            name: np.zeros(shape)
            for name, shape in SurrealHead.shapes(REGIONS, 2).items()
        }
    )
    return Member(
        number=number,
        outcome=TrainingOutcome.CONVERGED,
        steps=100,
        head=head,
        patterns=np.zeros((4, 2, REGIONS)),
        training=training,
    )


def make_people(controls: int, patients: int, seed: int = 0) -> MemberPeople:
    rng = np.random.default_rng(seed)
    x, y = (
        1 + 0.1 * rng.standard_normal((number, REGIONS))
        for number in (controls, patients)
    )
    return MemberPeople(x, y + 0.05)


def test_changes_are_those_of_f_in_the_order_of_the_study() -> None:
    members = [make_member(0), make_member(4, GATE[::-1].copy(), 0.5)]
    people = [make_people(10, 20, seed) for seed in (1, 2)]
    summary = summarise_networks(
        members, [[0, 1], [1, 0]], people, is_held_out=False, seed=0
    )
    assert summary.changes.shape == (len(SHOWN_SEVERITIES), 2, REGIONS)
    means = [each.controls[:, 0].mean() for each in people]
    scale = (means[0] + 0.5 * means[1]) / 2
    for level, severity in enumerate(SHOWN_SEVERITIES):
        for k in range(2):
            expected = expit(severity * GATE[k] + BIAS) * scale * DIRECTION / 0.1
            np.testing.assert_allclose(summary.changes[level, k], expected, rtol=1e-5)


def test_moments_of_real_and_synthetic_patients() -> None:
    people = make_people(20_000, 500)
    summary = summarise_networks(
        [make_member(0)], [[0, 1]], [people], is_held_out=True, seed=0
    )
    real = (people.patients - 1) / 0.1
    np.testing.assert_allclose(summary.real_mean, real.mean(axis=0))
    np.testing.assert_allclose(summary.real_sd, real.std(axis=0))
    rng = np.random.default_rng(99)
    x, z = people.controls, rng.uniform(size=(20_000, 2))
    expected = (x + (expit(z @ GATE + BIAS) * x[:, 0])[:, None] * DIRECTION - 1) / 0.1
    np.testing.assert_allclose(summary.synthetic_mean, expected.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(summary.synthetic_sd, expected.std(axis=0), atol=0.02)
    assert summary.is_held_out


def test_severities_follow_the_copula_that_was_learnt() -> None:
    people = make_people(20_000, 5)
    member = make_member(0, np.array([3.0, 3.0]))
    independent = summarise_networks(
        [member], [[0, 1]], [people], is_held_out=False, seed=0
    )
    assert member.training is not None
    member.training.weights["copula.phi"][1, 0] = (
        20.0  # correlation close to 1: both severities are large together
    )
    together = summarise_networks(
        [member], [[0, 1]], [people], is_held_out=False, seed=0
    )
    assert together.synthetic_sd[-1] > 1.1 * independent.synthetic_sd[-1]


def test_realism_is_the_mean_of_the_members() -> None:
    members, people = (
        [make_member(0), make_member(1, size=3.0)],
        [make_people(60, 60, seed) for seed in (1, 2)],
    )
    both = summarise_networks(
        members, [[0, 1]] * 2, people, is_held_out=True, seed=0
    ).realism
    single = [
        summarise_networks([member], [[0, 1]], [each], is_held_out=True, seed=0).realism
        for member, each in zip(members, people, strict=True)
    ]
    assert both is not None
    for name, auc in both.auc.items():
        assert auc == pytest.approx(
            np.mean([each.auc[name] for each in single if each is not None])
        )
    assert single[0] is not None
    real = (people[0].patients - 1) / 0.1
    assert single[0].mean_error < 3.0
    assert measure_realism(real, real).mean_error == 0.0


def test_too_few_people_have_no_realism() -> None:
    summary = summarise_networks(
        [make_member(0)], [[0, 1]], [make_people(29, 60)], is_held_out=True, seed=0
    )
    assert summary.realism is None


def test_networks_are_written_as_they_were_trained(tmp_path: Path) -> None:
    members = [make_member(0), make_member(3, size=2.0)]
    summary = summarise_networks(
        members, [[0, 1]] * 2, [make_people(5, 5)] * 2, is_held_out=False, seed=0
    )
    ensemble = NetworkEnsemble(
        members=(make_member(1, size=3.0), *members),
        used=tuple(members),
        standardised_d=True,
        summary=summary,
    )
    write_networks(ensemble, tmp_path / "networks.safetensors")
    networks = load_networks(tmp_path / "networks.safetensors")
    assert networks.standardised_d
    assert networks.n_members == 2
    x, z = make_people(5, 5).controls, np.random.default_rng(0).uniform(size=(5, 2))
    expected = make_networks(members).f
    people = torch.as_tensor(x, dtype=torch.float32).expand(2, -1, -1)
    severities = torch.as_tensor(z, dtype=torch.float32).expand(2, -1, -1)
    assert torch.equal(networks.f(people, severities), expected(people, severities))
