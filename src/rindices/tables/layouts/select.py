"""Choose the regions among the columns of a table."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    format_count,
    join_names,
)
from rindices.tables.layouts import NAMES, freesurfer, muse
from rindices.tables.layouts.layout import Layout
from rindices.tables.layouts.ukbiobank import OTHER_FIELD

VENTRICLES = "ventricles"
"""Word for all ventricles of a table in the option ``include``."""


def _set_doubtful_aside(layout: Layout) -> Layout:
    """Return a layout whose numbers with names about people, such as total or tau, may
    be included.
    """
    others = tuple(
        name for name in layout.participant_columns if name not in layout.doubtful
    )
    aside = {**layout.aside, "about people": list(layout.doubtful)}
    return replace(layout, aside=aside, participant_columns=others)


def _find_all_included(
    include: Sequence[str],
    layout: Layout,
    names: Mapping[str, str],
    findings: Findings,
) -> list[str]:
    """Return the columns that the user includes by these names; ``names``: of columns
    that are left out otherwise.
    """
    used = {word.lower() for item in layout.regions.items() for word in item}
    found = list[str]()
    for name in include:
        columns = _find_included_columns(name, layout, names)
        if name.lower() in used:
            continue
        if not columns and name.lower() != VENTRICLES:
            what = f"there is no column '{name}' to include"
            choices = [VENTRICLES, *names]
            findings.misspelt(ProblemCode.UNKNOWN_REGION, what, name, choices)
        elif not columns:
            what = "there is no column of ventricles to include"
            cure = "Leave --include out, or name a column"
            findings.error(ProblemCode.UNKNOWN_REGION, what, cure, subject=name)
        found += columns
    return found


def select_columns(
    layout: Layout,
    include: Sequence[str],
    measure: str | None,
    model_regions: Collection[str],
    findings: Findings,
) -> Layout:
    """Return a layout with the selected regions.

    Parameters
    ----------
    layout : Layout
        Layout as detected from the header.
    include : sequence of str
        ``ventricles``, or names of single columns that are left out otherwise.
    measure : str or None
        ``volume``, ``thickness`` or ``area`` to use only columns of this kind. None or
        ``any`` for all.
    model_regions : collection of str
        Regions of the model that the table is read for. They are read even where they
        are left out otherwise.
    findings : Findings
        Collects errors about unknown names and, for training, a note about what is not
        used.
    """
    # An imported model may name its regions as the columns of its table, such as
    # 26562-2.0.
    kept = {
        c: c
        for c, region in layout.regions.items()
        if c in model_regions and region not in model_regions
    }
    layout = replace(layout, regions={**layout.regions, **kept})
    if holds_features(layout, measure) and layout.doubtful:
        layout = _set_doubtful_aside(layout)
    unused = [column for columns in layout.aside.values() for column in columns]
    names = {column: layout.aside_names.get(column, column) for column in unused}
    if layout.format == "dlmuse":
        names |= {
            column: muse.region_name(code)
            for column, code in muse.parse_muse_codes(unused).items()
        }
    wanted = [column for column, region in names.items() if region in model_regions]
    wanted += _find_all_included(include, layout, names, findings)
    wanted += _find_requested_columns(layout, measure)
    layout = _move_to_regions(layout, {column: names[column] for column in wanted})
    layout = _filter_measure(layout, measure)
    if model_regions:
        kinds = {
            layout.measure_of(region)
            for region in layout.regions.values()
            if region in model_regions
        }
        return _filter_measure(layout, kinds.pop()) if len(kinds) == 1 else layout
    _note_unused_columns(layout, findings)
    return layout


def holds_features(layout: Layout, measure: str | None) -> bool:
    """Return whether a table is read as features of any kind: the user says so, and no
    layout of regions is known.
    """
    is_unknown = layout.format in ("table", "surrealgan")
    has_fields = layout.format == "ukbiobank" and all(
        column == region for column, region in layout.regions.items()
    )
    return measure == "any" and (is_unknown or has_fields)


def _find_requested_columns(layout: Layout, measure: str | None) -> list[str]:
    """Return the unused columns that measure what is requested; all fields of a table
    that has no other regions.
    """
    kinds = [kind for kind in ("thickness", "area") if measure in (kind, "any")]
    columns = [column for kind in kinds for column in layout.aside.get(kind, [])]
    if measure == "any" and not layout.regions:
        columns += layout.aside.get(OTHER_FIELD, [])
    if holds_features(layout, measure):  # names of structures mean nothing there
        columns += [
            column
            for kind in freesurfer.UNUSED_KINDS
            for column in layout.aside.get(kind, [])
        ]
    return columns


def _find_included_columns(
    name: str, layout: Layout, names: Mapping[str, str]
) -> list[str]:
    """Return the unused columns that a word of the option means."""
    if name.lower() == VENTRICLES:
        columns = {
            column: layout.aside_names.get(column, column)
            for column in layout.aside.get("ventricle", [])
        }
        is_muse = layout.format == "dlmuse"
        return [
            column
            for column, region in columns.items()
            if is_muse or freesurfer.is_ventricle(region)
        ]
    return [
        column
        for column, region in names.items()
        if name.lower() in list_spellings(column, region)
    ]


def list_spellings(column: str, region: str) -> set[str]:
    """Return the words by which a user may name a region, in lower case: its column,
    its name or its MUSE label.
    """
    return {column.lower(), region.lower(), muse.region_label(region).lower()}


def _move_to_regions(layout: Layout, columns: Mapping[str, str]) -> Layout:
    if not columns:
        return layout
    measures = {region: freesurfer.infer_measure(region) for region in columns.values()}
    remaining = {
        why: [name for name in names if name not in columns]
        for why, names in layout.aside.items()
    }
    return replace(
        layout,
        regions={**layout.regions, **columns},
        aside={why: names for why, names in remaining.items() if names},
        participant_columns=tuple(
            name for name in layout.participant_columns if name not in columns
        ),
        measures={**layout.measures, **measures},
    )


def _filter_measure(layout: Layout, measure: str | None) -> Layout:
    """Set regions of other measures aside; a table without the measure is left to the
    checks of its values.
    """
    kinds = {
        column: layout.measure_of(region) for column, region in layout.regions.items()
    }
    if measure not in kinds.values():
        return layout
    aside = dict(layout.aside)
    for column, kind in kinds.items():
        if kind != measure:
            aside[kind] = [*aside.get(kind, []), column]
    regions = {
        column: region
        for column, region in layout.regions.items()
        if kinds[column] == measure
    }
    return replace(layout, regions=regions, aside=aside)


def _note_unused_columns(layout: Layout, findings: Findings) -> None:
    """Say which columns are not used and why, and how ventricles are included."""
    if not layout.aside:
        return
    columns = [column for names in layout.aside.values() for column in names]
    reasons = {
        why: NAMES["reasons"].get(why, f"of another kind ({why})")
        for why in layout.aside
    }
    listing = "; ".join(
        f"{len(names):,} {reasons[why]}: {join_names(names, 3)}"
        for why, names in layout.aside.items()
    )
    has_ventricles = bool(_find_included_columns(VENTRICLES, layout, {}))
    what = f"{format_count(len(columns), 'column is', 'columns are')} not used"
    cure = "To use the ventricles: --include ventricles" if has_ventricles else ""
    kind = OffenderKind.COLUMN
    findings.note(
        ProblemCode.COLUMNS_NOT_USED,
        what,
        cure,
        offenders=columns,
        offender_kind=kind,
        listing=listing,
    )
