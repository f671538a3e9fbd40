"""The model card has the facts of the file, and marks what its authors must add."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app

FIXTURES = Path(__file__).parent / "fixtures"


@pytest.mark.parametrize("name", ["schema1-paper", "schema2-contrastive"])
def test_card_holds_the_facts(name: str) -> None:
    path = FIXTURES / f"{name}.safetensors"
    model = ri.load(path)
    done = CliRunner().invoke(app, ["model", "show", str(path), "--card"])
    assert done.exit_code == 0
    card = done.stdout
    assert card.startswith(f"# Model card: {model.n_patterns} R-indices from {len(model.regions)} regions\n")
    assert f"`{model.card['fingerprint']}`" in card
    for group, number in model.card["trained_on"].items():
        assert f"{number:,} {group}" in card
    for region in model.regions:
        assert f"`{region}`" in card
    assert model.card["citation"] in card
    concordance = model.card["agreement"]["concordance"]
    assert ("| agreement | not known |" if concordance is None else f"{concordance:.3f} (c-index") in card
    assert "_To be written" in card
    assert "$" not in card  # every placeholder was filled


def test_largest_changes_are_named_in_order() -> None:
    path = FIXTURES / "schema2-contrastive.safetensors"
    model = ri.load(path)
    row = next(
        x for x in CliRunner().invoke(app, ["model", "show", str(path), "--card"]).stdout.splitlines() if "| r1 |" in x
    )
    change = dict(zip(model.regions, model.patterns[-1, 0], strict=True))
    named = [part.split() for part in row.split("|")[2].split(",")]
    assert [region for region, _ in named] == sorted(change, key=lambda region: -abs(change[region]))[: len(named)]
    assert [float(text) for _, text in named] == pytest.approx([change[region] for region, _ in named], abs=0.05)


def test_card_and_json_exclude_each_other() -> None:
    path = str(FIXTURES / "schema2-contrastive.safetensors")
    assert CliRunner().invoke(app, ["model", "show", path, "--card", "--json"]).exit_code == 2
