"""Columns of unusual names that hold scanners or sites, and separate the groups."""

import re
from typing import TYPE_CHECKING

import pandas as pd

from rindices.errors import Findings, OffenderKind, ProblemCode, join_names
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.layouts import column_names
from rindices.tables.sources.frames import to_text

if TYPE_CHECKING:
    from rindices.tables.regions import UnfilteredCohort

SCANNER_WORDS = (
    "scanner",
    "machine",
    "vendor",
    "manufacturer",
    "coil",
    "protocol",
    "batch",
    "software",
    "version",
)
"""Words in the name of a column that say how people were measured."""
MAX_VALUES_SHARE = 1 / 8
"""Most values of such a column, as a share of the people."""
_SCANNER_REGEX = re.compile(
    r"siemens|philips|general electric|\bge\b|toshiba|canon|prisma|skyra|verio|\btrio\b|avanto|allegra|achieva|ingenia"
    r"|signa|discovery|biograph|magnetom|\b(1[.,]5|3([.,]0)?|7([.,]0)?) ?t(esla)?\b",
    re.IGNORECASE,
)


def find_scanner_columns(frame: pd.DataFrame) -> list[tuple[str, pd.Series]]:
    """Return the columns that say how people were measured, by their names or values,
    with their texts (N,).
    """
    found = []
    for name in frame.columns:
        is_named = any(word in str(name).lower() for word in SCANNER_WORDS)
        if not is_named and pd.api.types.is_numeric_dtype(frame[name]):
            continue
        texts = to_text(frame[name])
        levels = texts.dropna().unique()
        if not 1 < len(levels) <= max(2, MAX_VALUES_SHARE * len(texts)):
            continue
        n_scanners = sum(bool(_SCANNER_REGEX.search(str(level))) for level in levels)
        if is_named or 2 * n_scanners > len(levels):
            found.append((str(name), texts))
    return found


def check_scanner_columns(
    parts: "UnfilteredCohort", policy: str, findings: Findings
) -> None:
    """Report a scanner of which one group alone has been measured, in a column that is
    not used as the site.
    """
    assert parts.groups is not None
    for name, texts in find_scanner_columns(parts.people.frame):
        if column_names.find_column([name], column_names.SITE_NAMES):
            continue  # these are compared as sites
        controls, patients = (
            set(texts[parts.groups.rows(group)].dropna())
            for group in (CONTROL, PATIENT)
        )
        if not controls or not patients or controls & patients:
            continue
        what = f"controls and patients share no value of column '{name}', so a difference of scanners passes as disease"
        listing = f"controls have {join_names(sorted(controls))}, patients {join_names(sorted(patients))}"
        report = findings.error if policy == "error" else findings.warn
        report(
            ProblemCode.SITE_SEPARATES_GROUPS,
            what,
            f"If it is a scanner, name it (--site {name}), or go on all the same (--on-suspect keep)",
            subject=name,
            offenders=sorted(controls | patients),
            offender_kind=OffenderKind.SITE,
            listing=listing,
        )
