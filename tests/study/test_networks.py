"""A study with Surreal-GAN keeps, writes and shows what its networks have learnt."""

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

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
    settings = {"orthogonality": 0.2, "members": 5, "method_settings": BRIEF}
    return ri.fit(
        cohort, 2, method="surreal-gan", workers=1, out=folder, **settings
    ), folder


def read(folder: Path, name: str) -> pd.DataFrame:
    return pd.read_csv(folder / f"{name}.tsv", sep="\t")


def test_networks_are_those_of_the_model(fitted: tuple[ri.FittedModel, Path]) -> None:
    model, folder = fitted
    networks = SurrealGAN.load_networks(folder / "networks.safetensors")
    assert networks.n_members == len(model.heads)
    for weight, head in zip(networks.g2.weight1, model.heads, strict=True):
        np.testing.assert_array_equal(
            weight.detach().numpy(), head.to_arrays()["g2_weight1"]
        )


def test_changes_of_held_out_controls_are_like_the_patterns(
    fitted: tuple[ri.FittedModel, Path],
) -> None:
    model, folder = fitted
    changes = read(folder, "transformation")
    assert list(changes) == ["pattern", "severity", "region", "change"]
    assert sorted(changes["severity"].unique()) == pytest.approx([1 / 3, 2 / 3, 1])
    at_one = changes[changes["severity"] == 1].pivot_table(
        index="pattern", columns="region", values="change"
    )
    expected = pd.DataFrame(
        model.patterns[-1], index=["r1", "r2"], columns=list(model.regions)
    )
    size = (
        expected.abs().to_numpy().max()
    )  # the patterns are the changes of other controls
    np.testing.assert_allclose(at_one[expected.columns], expected, atol=0.1 * size)


def test_training_of_every_member_is_written(
    fitted: tuple[ri.FittedModel, Path],
) -> None:
    model, folder = fitted
    assert model.networks is not None
    table, endings = (
        read(folder, "training"),
        read(folder, "members").to_dict("records"),
    )
    assert list(table) == ["member", "step", *LOSS_NAMES]
    used = [member.number for member in model.networks.used]
    assert len(used) == len(model.heads)
    for member, ending in zip(model.networks.members, endings, strict=True):
        assert member.training is not None
        own = table[table["member"] == member.number]
        assert own["step"].tolist() == member.training.checks.tolist()
        np.testing.assert_allclose(
            own[list(LOSS_NAMES)], member.training.losses, rtol=1e-6
        )
        expected = {
            "steps": member.steps,
            "outcome": str(member.outcome),
            "met_bars": member.training.met_bars,
        }
        assert ending == {
            "member": member.number,
            **expected,
            "used": member.number in used,
        }
    for name in ("training", "members", "synthetic", "transformation"):
        assert list(json.loads((folder / f"{name}.json").read_text("utf-8"))) == list(
            read(folder, name)
        )


def test_synthetic_patients_are_compared_with_people_who_were_held_out(
    fitted: tuple[ri.FittedModel, Path],
) -> None:
    folder = fitted[1]
    table, realism = (
        read(folder, "synthetic"),
        json.loads((folder / "realism.json").read_text("utf-8")),
    )
    assert realism["mean_error"] == pytest.approx(
        (table["mean_real"] - table["mean_synthetic"]).abs().mean()
    )
    assert realism["sd_error"] == pytest.approx(
        (table["sd_real"] - table["sd_synthetic"]).abs().mean()
    )
    assert realism["is_held_out"]
    assert realism["auc"] == {}  # a fifth of the people are too few


def test_the_page_shows_the_training(fitted: tuple[ri.FittedModel, Path]) -> None:
    folder = fitted[1]
    with omit_pictures():
        page = ri.write_report(folder).read_text("utf-8")
    text, number = (
        get_section_text(page, "training"),
        int(read(folder, "members")["used"].sum()),
    )
    assert f"The R-indices are the mean of {number} of 5 members" in text
    assert (
        "They are too few for a classifier to tell them from real ones. The members have not seen these"
        in text
    )
    assert "Agreement by number of patterns" not in text  # one weight was tried
    parsed = Page(page)
    assert [a for a in parsed.all("a") if a.get("href") == "#training"]
    np.testing.assert_allclose(
        read_figure_data(parsed, "training"), read(folder, "training"), rtol=1e-5
    )
    assert read_figure_data(parsed, "synthetic_mean").columns.tolist() == [
        "region",
        "mean_real",
        "mean_synthetic",
    ]


def test_the_page_says_how_well_a_classifier_does(
    fitted: tuple[ri.FittedModel, Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(fitted[1], tmp_path / "results"))
    path = folder / "realism.json"
    realism = json.loads(path.read_text("utf-8"))
    path.write_text(
        json.dumps(realism | {"auc": {"a": 0.512, "b": 0.567}, "is_held_out": False}),
        "utf-8",
    )
    with omit_pictures():
        text = get_section_text(ri.write_report(folder).read_text("utf-8"), "training")
    assert (
        "A classifier tells synthetic patients from real ones with an AUC of 0.57 (0.5: not at all)."
        in text
    )
    assert "The members were trained on these controls and patients." in text


def test_other_methods_have_no_such_files(tmp_path: Path) -> None:
    model = ri.fit(
        simulate_few_regions("tiny", seed=1).cohort,
        2,
        method="contrastive",
        members=5,
        workers=1,
        out=tmp_path,
    )
    assert model.networks is None
    assert not [
        path
        for path in tmp_path.iterdir()
        if path.name.startswith(("networks", "training", "members"))
    ]
