"""``rindices model``: what a model needs, how it was trained, as text and as JSON."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.model.records import MethodRecord, ModelCard

FIXTURES = Path(__file__).parents[1] / "model" / "fixtures"


def show(path: Path, *options: str) -> str:
    done = CliRunner().invoke(app, ["model", "show", str(path), *options])
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize(
    "path", sorted(FIXTURES.glob("*.safetensors")), ids=lambda path: path.stem
)
def test_json_has_the_needs_and_the_card(path: Path) -> None:
    model, shown = ri.load(path), json.loads(show(path, "--json"))
    assert shown["regions"] == list(model.regions)
    assert [coding["name"] for coding in shown["covariates"]] == list(model.covariates)
    assert shown["units"] == model.card.unit
    assert "unit" not in shown
    rest = {key: value for key, value in model.card.to_dict().items() if key != "unit"}
    assert {key: shown[key] for key in rest} == rest
    assert list(rest) != sorted(rest)
    assert list(shown)[-len(rest) :] == sorted(rest)  # in the order of the file


def test_text_names_what_is_known() -> None:
    text = show(FIXTURES / "contrastive.safetensors")
    trained_on = ri.load(FIXTURES / "contrastive.safetensors").card.trained_on
    assert (
        f"{trained_on['controls']} controls and {trained_on['patients']} patients"
        in text
    )
    assert "contrastive, seed 0" in text
    assert "90 %, from simulated truth" in text


def test_text_says_what_a_model_lacks(tmp_path: Path) -> None:
    model = replace(
        ri.load(FIXTURES / "contrastive.safetensors"), intervals=None, training=None
    )
    model.save(tmp_path / "m.safetensors")
    text = show(tmp_path / "m.safetensors")
    assert "none: the error of this model was not measured" in text
    assert "ranges of covariates alone" in text


def test_an_imported_model_has_its_origin() -> None:
    from rindices.cli.model import _describe_method

    card = ModelCard(
        method=MethodRecord(
            name="published", settings={"package": "SurrealGAN 0.1.1", "epoch": 15000}
        )
    )
    assert _describe_method(card) == "imported from SurrealGAN 0.1.1, epoch 15,000"
    assert (
        _describe_method(ModelCard(method=MethodRecord(name="published", settings={})))
        == "imported from unknown, epoch unknown"
    )


def test_import_asks_for_a_name_or_regions(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app,
        ["model", "import", "x.saved_model", "--out", str(tmp_path / "m.safetensors")],
    )
    assert done.exit_code == 2
    message = " ".join(done.stderr.replace("│", " ").split())
    assert (
        "give --as ad_2rindices or --as brain_aging_5rindices for a published model, or --regions FILE"
        in message
    )
    done = CliRunner().invoke(
        app,
        [
            "model",
            "import",
            "x",
            "--as",
            "ad_2rindices",
            "--out",
            str(tmp_path / "m.pt"),
        ],
    )
    assert done.exit_code == 2
