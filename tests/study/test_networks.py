"""A study with Surreal-GAN keeps, writes and shows what its networks have learnt."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import rindices as ri
from rindices.learners.gan.estimator import SurrealGAN
from rindices.learners.gan.recipe import LOSS_NAMES
from tests.cohorts import simulate_few_regions
from tests.report.helpers import Page, get_section_text, omit_pictures, read_figure_data
from tests.study.helpers import BRIEF


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> tuple[ri.FittedModel, Path]:
    folder = tmp_path_factory.mktemp("networks") / "results"
    cohort = simulate_few_regions("tiny", seed=1).cohort
    settings = {"orthogonality": 0.2, "members": 1, "method_settings": BRIEF}
    return ri.fit(cohort, 2, method="surreal-gan", workers=1, out=folder, **settings), folder


def read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.tsv", sep="\t")


def test_networks_are_written(fitted: tuple[ri.FittedModel, Path]) -> None:
    model, folder = fitted
    networks, head = SurrealGAN.load_networks(folder / "networks.safetensors"), model.heads[0].to_arrays()
    assert networks.n_members == 1
    np.testing.assert_array_equal(networks.g2.weight1[0].detach().numpy(), head["g2_weight1"])
    changes = read(folder, "transformation")
    assert list(changes) == ["pattern", "severity", "region", "change"]
    at_one = changes[changes["severity"] == 1].pivot_table(index="pattern", columns="region", values="change")
    expected = pd.DataFrame(model.patterns[-1], index=["r1", "r2"], columns=list(model.regions))
    np.testing.assert_allclose(at_one[expected.columns], expected, rtol=1e-4, atol=1e-6)
    x = torch.ones(1, 1, len(model.regions))
    assert networks.f(x, torch.full((1, 1, 2), 0.5)).shape == x.shape


def test_training_is_written(fitted: tuple[ri.FittedModel, Path]) -> None:
    model, folder = fitted
    assert model.networks is not None
    (member,) = model.networks.members
    assert member.training is not None
    table = read(folder, "training")
    assert list(table) == ["member", "step", *LOSS_NAMES]
    assert table["step"].tolist() == member.training.checks.tolist()
    np.testing.assert_allclose(table[list(LOSS_NAMES)], member.training.losses, rtol=1e-6)
    assert read(folder, "members").to_dict("records") == [
        {"member": 0, "steps": member.steps, "outcome": "converged", "met_bars": True, "used": True}
    ]
    for name in ("training", "members", "synthetic", "transformation"):
        described = json.loads((folder / f"{name}.json").read_text("utf-8"))
        assert list(described) == list(read(folder, name))


def test_synthetic_patients_are_described(fitted: tuple[ri.FittedModel, Path]) -> None:
    folder = fitted[1]
    table, realism = read(folder, "synthetic"), json.loads((folder / "realism.json").read_text("utf-8"))
    assert realism["mean_error"] == pytest.approx((table["mean_real"] - table["mean_synthetic"]).abs().mean())
    assert realism["sd_error"] == pytest.approx((table["sd_real"] - table["sd_synthetic"]).abs().mean())
    assert len(realism["auc"]) == 3 or realism["is_held_out"]  # of held-out people there may be too few


def test_the_page_shows_the_training(fitted: tuple[ri.FittedModel, Path]) -> None:
    folder = fitted[1]
    with omit_pictures():
        page = ri.write_report(folder).read_text("utf-8")
    text = get_section_text(page, "training")
    assert "The R-indices are the mean of 1 of 1 member" in text
    realism = json.loads((folder / "realism.json").read_text("utf-8"))
    if realism["auc"]:
        auc = max(realism["auc"].values())
        assert (
            f"A classifier tells synthetic patients from real ones with an AUC of {auc:.2f} (0.5: not at all)." in text
        )
    seen = "have not seen these" if realism["is_held_out"] else "were trained on these"
    assert seen in text
    assert "Agreement by number of patterns" not in text  # one weight was tried
    parsed = Page(page)
    assert [a for a in parsed.all("a") if a.get("href") == "#training"]
    np.testing.assert_allclose(read_figure_data(parsed, "training"), read(folder, "training"), rtol=1e-5)
    assert read_figure_data(parsed, "synthetic_mean").columns.tolist() == ["region", "mean_real", "mean_synthetic"]


def test_other_methods_have_no_such_files(tmp_path: Path) -> None:
    model = ri.fit(
        simulate_few_regions("tiny", seed=1).cohort, 2, method="contrastive", members=5, workers=1, out=tmp_path
    )
    assert model.networks is None
    assert not [path for path in tmp_path.iterdir() if path.name.startswith(("networks", "training", "members"))]
