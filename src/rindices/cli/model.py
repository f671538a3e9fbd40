"""``rindices model``: what a model needs and holds."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_facts, print_json, split_option
from rindices.cli.options import Json
from rindices.errors import join_names
from rindices.study.recipes import RECIPES

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.model.records import ModelCard
    from rindices.preprocess.harmonise import HarmoniserRecord
    from rindices.preprocess.residualise import CovariateRecord

app = typer.Typer(no_args_is_help=True, help="What a model needs and holds.")


@app.command("show", epilog="Example: rindices model show model.safetensors")
def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")],
    as_json: Json = False,
    as_card: Annotated[bool, typer.Option("--card", help="Print a model card in Markdown.")] = False,
) -> None:
    """Say what a table must have to be used with a model, and where the model comes from."""
    from rindices.model.fitted import load
    from rindices.model.schemas import SCHEMA_VERSION

    if as_json and as_card:
        raise typer.BadParameter("give --json or --card, not both")
    model = load(path)
    card = model.card
    codings = model.preprocessing.residualiser.to_dict()
    if as_card:
        _print_card(model, codings)
        return
    if as_json:
        own = {"schema": SCHEMA_VERSION, "n_patterns": model.n_patterns, "regions": list(model.regions)}
        own |= {"intervals": _describe_intervals(model), "novelty": _describe_novelty(model), "sums": dict(model.sums)}
        own |= {"units": card.unit, "covariates": codings}
        rest = json.loads(json.dumps(card.to_dict(), sort_keys=True))
        del rest["unit"]
        print_json(own | {"harmonise": model.preprocessing.to_dict().get("harmonise"), **rest})
        return
    agreement = card.agreement and card.agreement.concordance
    print_facts(
        [
            ("patterns", str(model.n_patterns)),
            ("regions", f"{len(model.regions)} in {card.unit}: {join_names(model.regions)}"),
            ("sums", f"{len(model.sums)} of the regions are sums of columns, made by apply" if model.sums else ""),
            ("covariates", ", ".join(_describe_covariate(coding) for coding in codings) or "none"),
            ("sites", _describe_sites(model.preprocessing.to_dict().get("harmonise"))),
            (
                "trained on",
                ", ".join(f"{number:,} {who}" for who, number in card.trained_on.items()) or "not known",
            ),
            ("intervals", _describe_intervals(model) or "none: nothing is known of this model's error"),
            ("novelty", _describe_novelty(model)),
            (
                "agreement",
                f"{agreement:.3f} ({card.agreement_between or 'members'}), {len(model.heads)} members"
                if agreement is not None
                else "",
            ),
            ("test", _describe_test(card)),
            ("recipe", _describe_recipe(card)),
            ("training", _describe_training(card)),
            ("made by", f"rindices {card.rindices_version}"),
            ("licence", card.licence),
            ("cite", card.citation),
        ]
    )


@app.command(
    "import",
    epilog="Example: rindices model import brain_aging_5rindices.saved_model --as brain_aging_5rindices "
    "--out ageing.safetensors",
)
def import_(
    path: Annotated[Path, typer.Argument(metavar="CHECKPOINT", help="A checkpoint of SurrealGAN 0.1.1.")],
    out: Annotated[Path, typer.Option(help="The model to write, .safetensors.")],
    name: Annotated[
        str | None, typer.Option("--as", help="A published model: ad_2rindices or brain_aging_5rindices.")
    ] = None,
    regions: Annotated[
        Path | None,
        typer.Option(help="Any other: file of its regions in order, one a line; 47+48 is a sum of MUSE codes."),
    ] = None,
    covariates: Annotated[
        list[str] | None, typer.Option(help="Any other: its covariates in order, e.g. sex=F/M,age.")
    ] = None,
    epoch: Annotated[int | None, typer.Option(help="Any other: which of its epochs, where it holds several.")] = None,
    as_json: Json = False,
) -> None:
    """Turn a checkpoint of the authors' package into a model; it is read, never run."""
    from rindices.model.importers import import_checkpoint, import_published, read_region_list

    if (name is None) == (regions is None):
        raise typer.BadParameter("give --as NAME for a published model, or --regions FILE for any other")
    if out.suffix != ".safetensors" or out.resolve() == path.resolve() or not out.absolute().parent.is_dir():
        raise typer.BadParameter("give a new .safetensors file in a folder that is there", param_hint="--out")
    if name is not None:
        model = import_published(path, name)
    else:
        assert regions is not None
        model = import_checkpoint(path, read_region_list(regions), split_option(covariates), epoch)
    model.save(out)
    if as_json:
        needs = {"n_patterns": model.n_patterns, "regions": len(model.regions), "covariates": list(model.covariates)}
        print_json({"out": str(out), **needs})
    else:
        wanted = ", ".join(model.covariates) or "no covariates"
        typer.echo(f"{model.n_patterns} R-indices from {len(model.regions)} regions and {wanted}: {out}", err=True)


@app.command("export", epilog="Example: rindices model export model.safetensors --onnx model.onnx")
def export(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")],
    onnx: Annotated[Path, typer.Option(help="The graph to write, .onnx.")],
    as_json: Json = False,
) -> None:
    """Write a model as one ONNX graph, from the columns of a table to R-indices, for R, JavaScript and others."""
    from rindices.model.export import export_onnx
    from rindices.model.fitted import load

    if onnx.suffix != ".onnx" or not onnx.absolute().parent.is_dir():
        raise typer.BadParameter("give an .onnx file in a folder that is there", param_hint="--onnx")
    names = export_onnx(load(path), onnx)
    if as_json:
        print_json({"out": str(onnx), **names})
    else:
        typer.echo(f"{len(names['inputs'])} inputs, outputs {', '.join(names['outputs'])}: {onnx}", err=True)


def _print_card(model: "FittedModel", codings: "list[CovariateRecord]") -> None:
    from rindices.model.card import render_model_card

    facts = {
        "covariates": ", ".join(_describe_covariate(coding) for coding in codings) or "none",
        "sites": _describe_sites(model.preprocessing.to_dict().get("harmonise")) or "not harmonised",
        "recipe": _describe_recipe(model.card),
        "intervals": _describe_intervals(model) or "none",
        "novelty": _describe_novelty(model),
    }
    typer.echo(render_model_card(model, facts), nl=False)


def _describe_intervals(model: "FittedModel") -> str | None:
    """Return what intervals rest on; None where there are none."""
    if model.intervals is None:
        return None
    return "90 %, from simulated truth on the training controls and the spread among members"


def _describe_novelty(model: "FittedModel") -> str:
    """Return what new people can be held against."""
    if model.training is not None and len(model.training.distances):
        return "regions and covariates, against the training people"
    return "ranges of covariates alone: nothing else is known of the training people"


def _describe_recipe(card: "ModelCard") -> str:
    recipe = card.recipe
    if recipe is not None and recipe.name == "published":
        return f"imported from {recipe.settings['package']}, epoch {recipe.settings['epoch']:,}"
    return f"{recipe and recipe.name}, seed {card.seed}"


def _describe_test(card: "ModelCard") -> str:
    """Return how many patterns the test found and how each fared with other people; empty for older models."""
    if card.number_of_patterns is None:
        return ""
    halves = ", ".join(f"{pattern.name} {pattern.split_half:.2f}" for pattern in card.pattern_evidence)
    return f"{card.number_of_patterns.by_test} patterns beyond chance; reproduced in disjoint halves: {halves}"


def _describe_training(card: "ModelCard") -> str:
    """Return how the training of the members went; empty where the recipe has nothing to say."""
    recipe = None if card.recipe is None else RECIPES.get(card.recipe.name)
    if card.recipe is None or recipe is None:
        return ""
    return recipe.summarise_training(card.recipe.settings, card.member_steps)


def _describe_sites(values: "HarmoniserRecord | None") -> str:
    """Return the sites whose effects are known, and how they were learnt; empty where none were harmonised."""
    return "" if values is None else f"{join_names(values['sites'])}, their effects learnt from {values['mode']}"


def _describe_covariate(coding: "CovariateRecord") -> str:
    if coding["kind"] == "numeric":
        return f"{coding['name']} ({coding['low']:g} to {coding['high']:g})"
    return f"{coding['name']} ({join_names(coding['levels'])})"
