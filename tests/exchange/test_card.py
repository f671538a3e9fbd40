"""The model card has the facts of the file, and marks what its authors must add."""

from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app

FIXTURES = Path(__file__).parents[1] / "model" / "fixtures"


@pytest.mark.parametrize("name", ["paper", "contrastive"])
def test_card_holds_the_facts(name: str) -> None:
    path = FIXTURES / f"{name}.safetensors"
    model = ri.load(path)
    done = CliRunner().invoke(app, ["model", "show", str(path), "--card"])
    assert done.exit_code == 0
    card = done.stdout
    assert (
        f"\n---\n# Model card: {model.n_patterns} R-indices from {len(model.regions)} regions\n"
        in card
    )
    assert f"`{model.card.fingerprint}`" in card
    for group, number in model.card.to_dict()["trained_on"].items():
        assert group == "people" or f"{number:,} {group}" in card
    for region in model.regions:
        assert f"`{region}`" in card
    assert model.card.citation in card
    concordance, between = (
        model.card.agreement.concordance,
        model.card.agreement_between,
    )
    is_shown = concordance is not None and between != "disjoint halves"
    agreement = f"{concordance:.3f} (c-index, members)" if is_shown else "not known"
    assert f"| agreement of members | {agreement} |" in card
    assert "| reproduction in other people |" in card
    assert "_To be written" in card
    assert "{" not in card  # nothing is left of the template


@pytest.mark.parametrize(
    ("licence", "known"),
    [
        ("CC-BY-4.0", "cc-by-4.0"),
        ("", "unknown"),
        ('our "own": ask', "other"),
        ("---\na: 1", "other"),
    ],
)
def test_front_matter_is_what_model_hubs_read(
    licence: str, known: str, tmp_path: Path
) -> None:
    model = ri.load(FIXTURES / "contrastive.safetensors")
    replace(
        model,
        card=model.card.model_copy(update={"licence": licence.replace("\n", " ")}),
    ).save(tmp_path / "model.safetensors")
    shown = (
        CliRunner()
        .invoke(app, ["model", "show", str(tmp_path / "model.safetensors"), "--card"])
        .stdout
    )
    front = yaml.safe_load(shown.split("---\n")[1])
    assert (front["license"], front["library_name"]) == (known, "rindices")
    assert front["license_name"] == (licence.replace("\n", " ") or "not known")
    assert "neuroimaging" in front["tags"]


def test_largest_changes_are_named_in_order() -> None:
    path = FIXTURES / "contrastive.safetensors"
    model = ri.load(path)
    row = next(
        x
        for x in CliRunner()
        .invoke(app, ["model", "show", str(path), "--card"])
        .stdout.splitlines()
        if "| r1 |" in x
    )
    change = dict(zip(model.regions, model.patterns[-1, 0], strict=True))
    named = [part.split() for part in row.split("|")[2].split(",")]
    assert [region for region, _ in named] == sorted(
        change, key=lambda region: -abs(change[region])
    )[: len(named)]
    assert [float(text) for _, text in named] == pytest.approx(
        [change[region] for region, _ in named], abs=0.05
    )


def test_card_and_json_exclude_each_other() -> None:
    path = str(FIXTURES / "contrastive.safetensors")
    assert (
        CliRunner().invoke(app, ["model", "show", path, "--card", "--json"]).exit_code
        == 2
    )


def test_texts_of_a_file_are_no_html(tmp_path: Path) -> None:
    attack = '<img src=x onerror="alert(1)"> [link](javascript:alert(1)) `code` | cell'
    path = FIXTURES / "contrastive.safetensors"
    model = ri.load(path)
    regions = (attack, *model.regions[1:])
    card = model.card.model_copy(
        update={
            "citation": attack,
            "licence": attack,
            "source": attack,
            "rindices_version": attack,
        }
    )
    replace(
        model, card=card, preprocessing=replace(model.preprocessing, regions=regions)
    ).save(tmp_path / "m.safetensors")
    text = (
        CliRunner()
        .invoke(app, ["model", "show", str(tmp_path / "m.safetensors"), "--card"])
        .stdout
    )
    assert text.count("&lt;img src=x") >= 5
    assert "<img" not in text
    assert "[link]" not in text.replace("\\[", "")
