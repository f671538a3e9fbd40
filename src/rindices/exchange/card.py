"""The model card in Markdown: facts from the model file, and gaps for its authors to
fill.
"""

import html
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from rindices.errors import join_names
from rindices.model.file import SCHEMA_VERSION
from rindices.model.findings import list_region_changes
from rindices.model.fitted import FittedModel
from rindices.model.records import RegionChange
from rindices.wording import FEATURE_UNIT, reword_template

UNKNOWN_TEXT = "not known"
_HUB_LICENCES = {
    "mit",
    "apache-2.0",
    "cc0-1.0",
    "cc-by-4.0",
    "cc-by-sa-4.0",
    "cc-by-nc-4.0",
    "cc-by-nc-sa-4.0",
}
"""Licences that model hubs know by these names."""
_N_LARGEST_REGIONS = 8  # regions named for each pattern


def render_model_card(model: FittedModel, facts: dict[str, str]) -> str:
    """Return the card of a model in Markdown; ``facts`` are those that ``rindices model
    show`` prints, by name.
    """
    card, is_features = model.card, model.card.unit == FEATURE_UNIT
    source = files("rindices.exchange").joinpath("card.md").read_text("utf-8")
    options: dict[str, Any] = {
        "trim_blocks": True,
        "lstrip_blocks": True,
        "keep_trailing_newline": True,
    }
    environment = Environment(
        finalize=_escape_cell, undefined=StrictUndefined, **options
    )
    return environment.from_string(
        reword_template(source) if is_features else source
    ).render(
        model=model,
        card=card,
        facts=facts,
        is_features=is_features,
        schema=SCHEMA_VERSION,
        known=card.licence.lower(),
        hub_licences=_HUB_LICENCES,
        licence_name=Markup(json.dumps(_escape_cell(card.licence))),
        reproduction=". ".join(
            f"{name}: {facts[name]}" for name in model.index_names if name in facts
        ),
        largest_regions=[
            _list_largest_regions(changes)
            for changes in list_region_changes(model).values()
        ],
    )


def _escape_cell(value: object) -> str:
    """Return text that stays in its cell of a table and holds neither HTML nor links of
    its own.
    """
    if isinstance(value, Markup):
        return value
    escaped = html.escape(str(value or UNKNOWN_TEXT), quote=False).replace("\n", " ")
    return re.sub(r"([|\[\]`])", r"\\\1", escaped)


def _list_largest_regions(changes: Sequence[RegionChange]) -> str:
    """Return the largest changes of a pattern, of those whose interval excludes 0 where
    it is known.
    """
    if all(each.low is not None for each in changes):
        changes = [each for each in changes if each.is_certain]
    listed = [
        f"{each.region} {each.change:+.1f}" for each in changes[:_N_LARGEST_REGIONS]
    ]
    return (
        join_names(listed, _N_LARGEST_REGIONS) or "none whose 95 % interval excludes 0"
    )
