"""``rindices model``: what a model needs and holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json
from rindices.cli.options import Json
from rindices.errors import named

app = typer.Typer(no_args_is_help=True, help="What a model needs and holds.")


@app.command("show", epilog="Example: rindices model show model.safetensors")
def show(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A model.safetensors.")],
    as_json: Json = False,
) -> None:
    """Say what a table must have to be used with a model, and where the model comes from."""
    from rindices.model.fitted import SCHEMA, load

    model = load(path)
    card = dict(model.card)
    codings = model.preprocessing.residualiser.to_dict()
    if as_json:
        own = {"schema": SCHEMA, "n_patterns": model.n_patterns, "regions": list(model.regions)}
        print_json(own | {"units": card.pop("unit", None), "covariates": codings, **card})
        return
    agreement = dict(card.get("agreement") or {}).get("concordance")
    print_facts(
        [
            ("patterns", str(model.n_patterns)),
            ("regions", f"{len(model.regions)} in {card.get('unit')}: {named(model.regions)}"),
            ("covariates", ", ".join(_covariate(coding) for coding in codings) or "none"),
            ("trained on", ", ".join(f"{number:,} {who}" for who, number in card.get("trained_on", {}).items())),
            (
                "agreement",
                f"{agreement:.3f} ({card.get('agreement_between', 'members')}), {len(model.heads)} members"
                if agreement is not None
                else "",
            ),
            ("test", _tested(card)),
            ("recipe", f"{card.get('recipe', {}).get('recipe')}, seed {card.get('seed')}"),
            ("training", _training(card)),
            ("made by", f"rindices {card.get('rindices_version')}"),
            ("cite", str(card.get("citation", ""))),
        ]
    )


def _tested(card: dict[str, Any]) -> str:
    """Return how many patterns the test found and how each fared with other people; empty for older models."""
    number, patterns = card.get("number_of_patterns"), card.get("pattern_evidence", [])
    if not number:
        return ""
    halves = ", ".join(f"{p['name']} {p['split_half']:.2f}" for p in patterns)
    return f"{number['by_test']} patterns beyond chance; reproduced in disjoint halves: {halves}"


def _training(card: dict[str, Any]) -> str:
    """Return how far members of recipe default went; empty for other recipes."""
    recipe = card.get("recipe", {})
    if recipe.get("recipe") != "default" or not card.get("member_steps"):
        return ""
    moved = sum(steps > recipe["values"]["held_steps"] for steps in card["member_steps"])
    rest = len(card["member_steps"]) - moved
    return f"{rest} members fooled the discriminator from the start, {moved} were trained on"


def _covariate(coding: dict[str, Any]) -> str:
    if coding["kind"] == "numeric":
        return f"{coding['name']} ({coding['low']:g} to {coding['high']:g})"
    return f"{coding['name']} ({named(coding['levels'])})"
