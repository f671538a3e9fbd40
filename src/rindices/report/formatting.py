"""Numbers and lists as the report's templates show them."""

import base64
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from jinja2 import Environment, FunctionLoader, PackageLoader, StrictUndefined

from rindices.errors import capitalise_first, end_sentence, format_count
from rindices.model.records import (
    MIN_SPLIT_HALF,
    GroupSummary,
    Record,
    SettingRecord,
)
from rindices.packing import read_decoder
from rindices.tables.sources.spreadsheet import protect_texts
from rindices.wording import FEATURE_UNIT, reword_template

_NUMBER_WORDS = (
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
)


class _Environment(Environment):
    """Templates in which filters such as ``map(attribute=...)`` read attributes."""

    def getitem(self, obj: Any, argument: Any) -> Any:
        """Return an attribute of a record, or an item of something else."""
        if isinstance(obj, Record):
            return getattr(obj, argument)
        return super().getitem(obj, argument)


def make_environment(unit: str = "", is_html: bool = True) -> Environment:
    """Return the templates of the report with their filters.

    An undefined name in a template is an error.

    Parameters
    ----------
    unit : str
        Unit of the table. The texts for tables of features do not speak of regions of
        the brain.
    is_html : bool
        False for plain text, in which nothing is escaped and a minus is a hyphen.
    """
    templates = PackageLoader("rindices.report")

    def load_reworded(name: str) -> str:
        source = templates.get_source(environment, name)[0]
        return source if name.endswith(".js") else reword_template(source)

    environment = _Environment(
        loader=FunctionLoader(load_reworded) if unit == FEATURE_UNIT else templates,
        autoescape=is_html,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"decoder": read_decoder(), "min_split_half": MIN_SPLIT_HALF}
    environment.filters |= {
        "capfirst": capitalise_first,
        "count": format_count,
        "csv": encode_csv_uri,
        "decimal": format_decimal,
        "join_and": join_with_and,
        "measured": format_if_measured,
        "p_value": format_p_value,
        "percent": lambda share, digits=0: f"{100 * share:.{digits}f}",
        "setting": describe_setting,
        "end_sentence": end_sentence,
        "signed": format_signed,
        "small_p": format_small_p,
        "spell": spell_number,
        "thousands": "{:,}".format,
    }
    if not is_html:
        environment.filters["decimal"] = lambda value, digits=2: f"{value:.{digits}f}"
        environment.filters["signed"] = lambda value, digits=2: format_signed(
            value, digits
        ).replace("\N{MINUS SIGN}", "-")
    return environment


def encode_csv_uri(table: pd.DataFrame) -> str:
    """Return a table as a CSV file in a data URI."""
    text = protect_texts(table).to_csv(
        index=False, lineterminator="\n", float_format="%.6g"
    )
    return f"data:text/csv;base64,{base64.b64encode(text.encode()).decode()}"


def format_signed(value: float, digits: int = 2) -> str:
    """Return a number with its sign, a true minus, and no sign for zero."""
    text = f"{value:+.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(text) else f"{0:.{digits}f}"


def format_decimal(value: float, digits: int = 2) -> str:
    """Return a number with a true minus."""
    return f"{value:.{digits}f}".replace("-", "\N{MINUS SIGN}")


def format_if_measured(value: float, kind: str = "decimal", digits: int = 2) -> str:
    """Return a number as ``decimal``, ``signed`` or ``p_value``; 'n/a' where it is
    missing.
    """
    if value != value:
        return "n/a"
    if kind == "p_value":
        return "< 0.001" if value < 0.001 else format_p_value(value)
    return (
        format_signed(value, digits)
        if kind == "signed"
        else format_decimal(value, digits)
    )


def format_small_p(p: float) -> str:
    """Return a p-value with its sign of comparison: '= 0.02', '< 0.001'."""
    return "< 0.001" if p < 0.001 else f"= {format_p_value(p)}"


def format_p_value(p: float) -> str:
    """Return a p-value with three digits where it is small, else two."""
    return f"{p:.3f}" if p < 0.1 else f"{p:.2f}"


def format_number(value: float) -> str:
    """Return a number without an exponent: 1,373,000 and 55.9."""
    digits = 2 - int(np.floor(np.log10(abs(value)))) if value else 0
    return (
        f"{round(value, digits + 1):,.0f}"
        if abs(value) >= 1000
        else f"{value:.{min(max(digits, 0), 4)}f}"
    )


def format_summary(summary: GroupSummary) -> str:
    """Return mean, standard deviation and, where they are known, the bounds of
    a covariate without 5 % of people on each side.
    """
    numbers = (summary.mean, summary.sd, summary.low, summary.high)
    texts = [format_number(value) for value in numbers if value is not None]
    middle = " ± ".join(texts[:2])
    return f"{middle} ({' to '.join(texts[2:])})" if len(texts) > 2 else middle


def spell_number(number: int) -> str:
    """Return a small number in letters."""
    return _NUMBER_WORDS[number] if number < len(_NUMBER_WORDS) else str(number)


def join_with_and(items: Iterable[object], max_items: int = 12) -> str:
    """Return names as a sentence lists them."""
    names = [str(item) for item in items]
    if len(names) > max_items:
        names = [*names[:max_items], f"{len(names) - max_items} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def describe_setting(setting: SettingRecord) -> str:
    """Return a setting in words."""
    patterns = format_count(setting.n_patterns, "pattern")
    return (
        patterns
        if setting.orthogonality is None
        else f"{patterns}, λ {setting.orthogonality:g}"
    )
