"""The model card: what a model file knows of itself, as Markdown, with room for what only its makers know."""

from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from rindices.errors import join_names
from rindices.model.fitted import FittedModel
from rindices.model.records import ModelCard
from rindices.model.schemas import SCHEMA_VERSION

UNKNOWN_TEXT = "not known"
_N_LARGEST_REGIONS = 8  # regions named for each pattern


def render_model_card(model: FittedModel, facts: dict[str, str]) -> str:
    """Return the card of a model.

    Parameters
    ----------
    model : FittedModel
    facts : dict of str
        What is said in words elsewhere: ``covariates``, ``sites``, ``recipe``, ``intervals``, ``novelty``.
    """
    card = model.card
    names = model.index_names
    known = {name: _escape_cell(value) for name, value in facts.items()}
    text = Template(files("rindices.model").joinpath("card.md").read_text("utf-8"))
    return text.substitute(
        known,
        title=f"{model.n_patterns} R-indices from {len(model.regions)} regions",
        version=card.rindices_version or UNKNOWN_TEXT,
        n_patterns=str(model.n_patterns),
        names=", ".join(names),
        n_regions=str(len(model.regions)),
        unit=_escape_cell(card.unit),
        members=str(len(model.heads)),
        schema=str(SCHEMA_VERSION),
        fingerprint=_escape_cell(card.fingerprint),
        licence=_escape_cell(card.licence or "_to be written_"),
        meaning=_describe_scale(card),
        trained_on=_escape_cell(", ".join(f"{number:,} {who}" for who, number in card.trained_on.items())),
        source=_escape_cell(card.source),
        agreement=_escape_cell(_format_agreement(card)),
        patterns="\n".join(
            f"| {name} | {_escape_cell(_list_largest_regions(model, k))} |" for k, name in enumerate(names)
        ),
        regions=", ".join(f"`{region}`" for region in model.regions),
        citation=card.citation or UNKNOWN_TEXT,
    )


def _escape_cell(value: Any) -> str:
    """Return text that stays in its cell of a table."""
    return str(value or UNKNOWN_TEXT).replace("|", "\\|").replace("\n", " ")


def _describe_scale(card: ModelCard) -> str:
    if card.trained_on:
        return "0 is the average control, 1 the patients' 98th percentile; values are not cut at either end."
    return "Values are those of the imported model; their scale is its own."


def _format_agreement(card: ModelCard) -> str:
    concordance = card.agreement and card.agreement.concordance
    return "" if concordance is None else f"{concordance:.3f} (c-index, {card.agreement_between or 'members'})"


def _list_largest_regions(model: FittedModel, pattern: int) -> str:
    """Return the regions that change most in a pattern, with their change."""
    change = model.patterns[-1, pattern]
    order = np.argsort(-np.abs(change))[:_N_LARGEST_REGIONS]
    return join_names([f"{model.regions[int(place)]} {change[place]:+.1f}" for place in order], _N_LARGEST_REGIONS)
