"""The paper's tasks: lambda is chosen by agreement, a run goes on where it was stopped,
and whose program it is.
"""

import json
import sys
from pathlib import Path

import pytest
import torch

from benchmarks.paper import causes, full_length
from benchmarks.paper.common import PAPER, TrainedTask
from rindices.learners.gan import losses, state, train
from rindices.learners.gan.recipe import TrainingPlan


@pytest.mark.slow
def test_a_run_of_the_paper_chooses_lambda_by_agreement_and_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(full_length, "RESULTS", tmp_path)
    monkeypatch.setattr(full_length, "PATH", tmp_path / "rows.json")
    monkeypatch.setattr(full_length, "ORTHOGONALITY_WEIGHTS", (0.1, 0.8))
    options = [
        "--tasks",
        "scarce",
        "--members",
        "2",
        "--steps",
        "400",
        "--keep",
        str(tmp_path),
    ]
    monkeypatch.setattr(sys, "argv", ["full_length", *options])
    full_length.main()
    rows = json.loads((tmp_path / "rows.json").read_text("utf-8"))
    assert [row["orthogonality"] for row in rows] == [0.1, 0.8]
    assert [point["steps"] for row in rows for point in row["curve"][:1]] == [100] * 2
    (chosen,) = (row for row in rows if len(row["curve"]) > 1)
    assert chosen["curve"][0]["agreement"] == max(
        row["curve"][0]["agreement"] for row in rows
    )
    assert [point["steps"] for point in chosen["curve"]] == [100, 200, 300, 480]
    assert "| scarce | no | 0." in (tmp_path / "full_length.md").read_text("utf-8")
    recipe = PAPER.replace(
        orthogonality=chosen["orthogonality"], min_steps=400, max_steps=480
    )
    whole = TrainedTask.begin(
        "scarce",
        0,
        False,
        TrainingPlan(patterns=3, recipe=recipe, seed=0, members=(0, 1)),
    ).train_until(300)
    assert whole["members"] == chosen["curve"][2]["members"]
    full_length.main()
    assert json.loads((tmp_path / "rows.json").read_text("utf-8")) == rows


def test_the_program_of_2022_is_that_of_the_authors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Three steps of SurrealGAN 0.0.1 (``pip install --no-deps SurrealGAN==0.0.1``)
    give the same weights.
    """
    package = pytest.importorskip("SurrealGAN.model")
    if not hasattr(package, "sample_z_previous"):
        pytest.skip("another version of SurrealGAN is installed")
    for target, name, new in causes.CAUSES["the program of 2022"][0]:
        monkeypatch.setattr(target, name, new)
    stack = state.make_member_stack(
        (0,), TrainingPlan(patterns=3, recipe=PAPER, seed=7), 20, torch.zeros(())
    )
    own = stack.networks.get_member(0)
    options = {
        "lam": 0.2,
        "zeta": 80,
        "kappa": 80,
        "gamma": 6,
        "mu": 500,
        "eta": 6,
        "nROI": 20,
        "npattern": 3,
    }
    model = package.SurrealGAN()
    model.create(
        package.dotdict(
            options | {"lr": 8e-4, "beta1": 0.5, "max_gnorm": 100, "lipschitz_k": 0.5}
        )
    )
    layers = {
        "model.0": "encode1",
        "model.2": "encode2",
        "model.5": "decode1",
        "model.7": "decode2",
    }
    f = {f"{theirs}.weight": own[f"f.{ours}"].T for theirs, ours in layers.items()}
    gate = {"weight": own["f.gate"].T, "bias": own["f.gate_bias"][0]}
    model.netMapping.load_state_dict(
        f | {f"model.4.add_noise.0.{name}": value for name, value in gate.items()}
    )
    model.netDecomposer.load_state_dict(
        {"model.1.weight": own["g1.weight"].T, "model.1.bias": own["g1.bias"][0]}
    )
    for network, name in (
        (model.netReconstruction, "g2"),
        (model.netDiscriminator, "d"),
    ):
        weights = {
            f"model.{2 * k}.weight": own[f"{name}.weight{k + 1}"].T for k in range(3)
        }
        weights |= {
            f"model.{2 * k}.bias": own[f"{name}.bias{k + 1}"][0] for k in range(3)
        }
        if name == "d":  # their first logit is that of real patients, ours the second
            weights |= {
                key: weights[key].flip(0) for key in ("model.4.weight", "model.4.bias")
            }
        network.load_state_dict(weights)
    x, y = 1 + 0.1 * torch.randn(
        2, 1, 16, 20, generator=torch.Generator().manual_seed(0)
    )
    for _ in range(3):
        before = stack.streams[0].get_state()
        z = losses.draw_severities(stack.streams, 16, 0.05, stack.networks.copula.phi)
        stack.streams[0].set_state(before)
        higher = torch.diag_embed(z.higher)
        monkeypatch.setattr(
            package, "sample_z_previous", lambda _, i, __, z=z: z.singles[0, :, i]
        )
        monkeypatch.setattr(
            package,
            "sample_z_later",
            lambda _, __, i, ___, higher=higher: higher[0, :, i],
        )
        monkeypatch.setattr(package, "sample_z_cn", lambda _, __, z=z: z.near_zero[0])
        model.train_instance(x[0], y[0])
        train.take_step(stack, x, y)
    torch.testing.assert_close(
        model.netDecomposer.model[1].weight.T,
        stack.networks.g1.weight[0],
        rtol=0,
        atol=1e-6,
    )
    torch.testing.assert_close(
        model.netMapping.model[7].weight.T,
        stack.networks.f.decode2[0],
        rtol=0,
        atol=1e-6,
    )
    torch.testing.assert_close(
        model.netDiscriminator.model[0].weight.T,
        stack.networks.d.weight1[0],
        rtol=0,
        atol=1e-6,
    )
