"""Words for tables of any features, which are not regions of the brain.

Messages are composed with `Nouns`. Templates of pages and descriptions of columns are
written for regions of the brain, and reworded when they are read.

A table that was read with the measure ``any`` and has no known layout holds features of
any kind. Its cohort and its model have the unit `FEATURE_UNIT`. Only texts of the
package are reworded, never names of features.
"""

import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files

FEATURE_UNIT = "any"
"""Unit of tables whose columns are features of any kind, each in a unit of its own."""
_CONTROL_WORDS_TEXT = (
    "control controls cn nc hc hv ctl ctrl con healthy normal cognitively_normal cu td"
)
CONTROL_WORDS = {
    *_CONTROL_WORDS_TEXT.split(),
    "healthy control",
    "healthy controls",
    "cognitively normal",
}
"""Labels of controls that are recognised, in lower case."""
_REPLACEMENTS: dict[str, str] = tomllib.loads(
    (files("rindices") / "wording.toml").read_text("utf-8")
)
_PATTERN = re.compile(
    "|".join(rf"(?<!\w){re.escape(phrase)}(?!\w)" for phrase in _REPLACEMENTS)
)
_TEMPLATE_CODE = re.compile(r"({{.*?}}|{%.*?%})", re.DOTALL)
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")

Wording = Callable[[str], str]


@dataclass(frozen=True, kw_only=True)
class Nouns:
    """What the parts of a table are called in messages.

    Attributes
    ----------
    region : str
        What a column measures.
    regions : str
        Several of them.
    volumes : str
        Their values.
    scanner : str
        What they were measured with.
    """

    region: str = "region"
    regions: str = "regions"
    volumes: str = "volumes"
    scanner: str = "scanner"


BRAIN_NOUNS = Nouns()
FEATURE_NOUNS = Nouns(
    region="feature", regions="features", volumes="values", scanner="device"
)


def get_nouns(unit: str | None) -> Nouns:
    """Return the nouns of messages about a table with a unit."""
    return FEATURE_NOUNS if unit == FEATURE_UNIT else BRAIN_NOUNS


def reword(text: str) -> str:
    """Return a text about regions of the brain as a text about features; it must not
    hold names of features.
    """
    return _PATTERN.sub(lambda match: _REPLACEMENTS[match[0]], text)


def get_wording(unit: str | None) -> Wording:
    """Return the function that words texts for tables of a unit: `reword`, or one that
    leaves texts as they are.
    """
    return reword if unit == FEATURE_UNIT else str


def load_columns(table: str) -> dict[str, str]:
    """Return the columns of a table that the package writes, in their order, and what
    they hold.
    """
    columns: dict[str, str] = tomllib.loads(
        (files("rindices") / "columns.toml").read_text("utf-8")
    )[table]
    return columns


def reword_template(source: str) -> str:
    """Return the source of a Jinja template with its text reworded; of its code, only
    quoted texts.
    """
    parts = _TEMPLATE_CODE.split(source)
    return "".join(
        _QUOTED.sub(lambda match: reword(match[0]), part) if k % 2 else reword(part)
        for k, part in enumerate(parts)
    )
