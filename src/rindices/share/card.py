"""The model card in Markdown: facts from the model file, and gaps for its authors to fill."""

import html
import json
import re
from importlib.resources import files
from string import Template

import numpy as np

from rindices.errors import join_names
from rindices.learners.inference import TrajectoryHead
from rindices.model.file import SCHEMA_VERSION
from rindices.model.fitted import FittedModel
from rindices.wording import FEATURE_UNIT, get_wording

UNKNOWN_TEXT = "not known"
_HUB_LICENCES = {"mit", "apache-2.0", "cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "cc-by-nc-sa-4.0"}
"""Licences that model hubs know by these names."""
_N_LARGEST_REGIONS = 8  # regions named for each pattern


def render_model_card(model: FittedModel, facts: dict[str, str]) -> str:
    """Return the card of a model.

    facts: descriptions of ``covariates``, ``adjustment``, ``sites``, ``recipe``, ``trained_on``, ``agreement``,
    ``reproduction``, ``intervals``, ``unusual`` and ``privacy``. Returns Markdown.
    """
    card, names, known = model.card, model.index_names, model.card.licence.lower()
    rows = [f"| {name} | {_escape_cell(_list_largest_regions(model, k))} |" for k, name in enumerate(names)]
    word = get_wording(card.unit)
    parts = re.split(r"(\$\w+)", files("rindices.share").joinpath("card.md").read_text("utf-8"))
    text = "".join(part if part.startswith("$") else word(part) for part in parts)  # names of fields stay
    return Template(text).substitute(
        {name: _escape_cell(value) for name, value in facts.items()},
        title=f"{model.n_patterns} R-indices from {len(model.regions)} {word('regions')}",
        version=_escape_cell(card.rindices_version),
        n_patterns=str(model.n_patterns),
        names=", ".join(names),
        n_regions=str(len(model.regions)),
        unit="units of their own" if card.unit == FEATURE_UNIT else _escape_cell(card.unit),
        members=str(len(model.heads)),
        schema=str(SCHEMA_VERSION),
        fingerprint=_escape_cell(card.fingerprint),
        licence=_escape_cell(card.licence) if card.licence else "_to be written_",
        hub_licence=known if known in _HUB_LICENCES else "other" if known else "unknown",
        field="tabular" if card.unit == FEATURE_UNIT else "neuroimaging",
        licence_name=json.dumps(_escape_cell(card.licence)),
        meaning=_describe_scale(model),
        source=_escape_cell(card.source),
        patterns="\n".join(rows),
        regions=", ".join(f"`{_escape_cell(region)}`" for region in model.regions),
        citation=_escape_cell(card.citation),
    )


def _escape_cell(text: str) -> str:
    """Return text that stays in its cell of a table and holds neither HTML nor links of its own."""
    escaped = html.escape(text or UNKNOWN_TEXT, quote=False).replace("\n", " ")
    return re.sub(r"([|\[\]`])", r"\\\1", escaped)


def _describe_scale(model: FittedModel) -> str:
    if isinstance(model.heads[0], TrajectoryHead):
        return "The posterior mean of the severity, from 0 (none of the pattern) to 1 (the most severe patients)."
    if model.card.trained_on:
        return "0 is the average control, 1 the patients' 98th percentile; values below 0 or above 1 occur."
    return "Values are those of the imported model, on its own scale."


def _list_largest_regions(model: FittedModel, pattern: int) -> str:
    """Return the regions with the largest changes in a pattern."""
    change = model.patterns[-1, pattern]
    order = np.argsort(-np.abs(change))[:_N_LARGEST_REGIONS]
    return join_names([f"{model.regions[int(index)]} {change[index]:+.1f}" for index in order], _N_LARGEST_REGIONS)
