"""Choose the columns of a table that are used as regions: ventricles on request, and one kind of measure."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from rindices.errors import Findings, OffenderKind, ProblemCode, capitalise_first, did_you_mean, format_count
from rindices.tables.layout import freesurfer, muse, ukbiobank
from rindices.tables.layout.formats import Layout

VENTRICLES = "ventricles"
"""Word for all ventricles of a table in the option ``include``."""
_REASONS = {
    "ventricle": "of ventricles or fluid (the published method leaves them out)",
    "composite": "that sum up other columns",
    "no tissue": "of vessels, lesions, chiasm or callosum",
    "few whole numbers": "of few whole numbers (codes or counts)",
    "other field": "of UK Biobank fields that are not structures of a brain atlas",
    "other atlas": "of another atlas of the same structures",
    "other visit": "of another visit",
    "other version": "of another version of the pipeline",
    "no structure": "that are not measures of a structure",
    "empty": "without any value",
    "about people": "whose names may be about people (to use one: --include COLUMN)",
}


@dataclass(frozen=True)
class ColumnSelection:
    """Which columns are used as regions, beyond what the layout says.

    include: ``ventricles``, or names of single columns that are left out otherwise; measure: ``volume``, ``thickness``
    or ``area`` to use columns of this kind alone; None or ``any`` for all; model_regions: regions of a model that the
    table is read for: they are read even where they are left out otherwise.
    """

    include: tuple[str, ...] = ()
    measure: str | None = None
    model_regions: tuple[str, ...] = ()


def select_columns(layout: Layout, selection: ColumnSelection, where: str, findings: Findings) -> Layout:
    """Return a layout with the selected regions.

    layout: as detected from the header; where: the file, for messages; findings: takes errors about unknown names, and
    for training a note about what is not used.
    """
    layout = _keep_model_names(layout, selection.model_regions)
    if holds_features(layout, selection.measure):
        layout = _set_doubtful_aside(layout)
    names = {column: _name_region(column, layout) for columns in layout.aside.values() for column in columns}
    wanted = [column for column, region in names.items() if region in set(selection.model_regions)]
    for name in selection.include:
        columns = _find_included_columns(name, layout, names)
        if name.lower() in {word.lower() for item in layout.regions.items() for word in item}:
            continue
        if not columns and name.lower() != VENTRICLES:
            cure = capitalise_first(did_you_mean(name, [VENTRICLES, *names]))
            what = f"there is no column '{name}' to include"
            findings.error(ProblemCode.UNKNOWN_REGION, what, where, cure, subject=name)
        elif not columns:
            what, cure = "there is no column of ventricles to include", "Leave --include out, or name a column"
            findings.error(ProblemCode.UNKNOWN_REGION, what, where, cure, subject=name)
        wanted += columns
    wanted += _find_requested_columns(layout, selection.measure)
    layout = _filter_measure(_move_to_regions(layout, {column: names[column] for column in wanted}), selection.measure)
    if selection.model_regions:
        return _filter_measure(layout, _find_model_measure(layout, selection.model_regions))
    _note_unused_columns(layout, where, findings)
    return layout


def holds_features(layout: Layout, measure: str | None) -> bool:
    """Return whether a table is read as features of any kind: the user says so, and no layout of regions is known."""
    is_unknown = layout.format in ("table", "surrealgan")
    has_fields = layout.format == "ukbiobank" and all(column == region for column, region in layout.regions.items())
    return measure == "any" and (is_unknown or has_fields)


def count_measures(regions: Collection[str], measures: Mapping[str, str]) -> dict[str, int]:
    """Return the number of regions of each kind of measure, the most frequent first."""
    return dict(Counter(measures.get(region, "volume") for region in regions).most_common())


def _keep_model_names(layout: Layout, model_regions: Sequence[str]) -> Layout:
    """Return a layout in which columns keep their names if a model has regions of these names and not of the others.

    An imported model may name its regions as the columns of its table, such as ``26562-2.0``.
    """
    wanted = set(model_regions)
    renamed = {c: c for c, region in layout.regions.items() if c in wanted and region not in wanted}
    return replace(layout, regions={**layout.regions, **renamed}) if renamed else layout


def _set_doubtful_aside(layout: Layout) -> Layout:
    """Return a layout in which numbers whose names hold a word about people, such as total or tau, may be included."""
    columns = list(layout.doubtful)
    others = tuple(name for name in layout.participant_columns if name not in columns)
    aside = {**layout.aside, "about people": columns} if columns else layout.aside
    return replace(layout, aside=aside, participant_columns=others)


def _find_requested_columns(layout: Layout, measure: str | None) -> list[str]:
    """Return the unused columns that measure what is requested; all fields of a table that has no other regions."""
    kinds = [kind for kind in ("thickness", "area") if measure in (kind, "any")]
    columns = [column for kind in kinds for column in layout.aside.get(kind, [])]
    if measure == "any" and not layout.regions:
        columns += layout.aside.get(ukbiobank.OTHER_FIELD, [])
    if holds_features(layout, measure):  # names of structures mean nothing there
        columns += [column for kind in ("ventricle", "composite", "no tissue") for column in layout.aside.get(kind, [])]
    return columns


def _name_region(column: str, layout: Layout) -> str:
    """Return the name that a column has as a region of a cohort."""
    if layout.format != "dlmuse":
        return layout.aside_names.get(column, column)
    code = muse.parse_muse_codes([column]).get(column)
    return column if code is None else muse.region_name(code)


def _find_included_columns(name: str, layout: Layout, names: Mapping[str, str]) -> list[str]:
    """Return the unused columns that a word of the option means."""
    if name.lower() == VENTRICLES:
        columns = layout.aside.get("ventricle", [])
        return [
            column
            for column in columns
            if layout.format == "dlmuse" or freesurfer.is_ventricle(layout.aside_names.get(column, column))
        ]
    aliases = {
        column: {column.lower(), region.lower(), muse.region_label(region).lower()} for column, region in names.items()
    }
    return [column for column, spellings in aliases.items() if name.lower() in spellings]


def _move_to_regions(layout: Layout, columns: Mapping[str, str]) -> Layout:
    if not columns:
        return layout
    measures = {region: freesurfer.infer_measure(region) for region in columns.values()}
    remaining = {why: [name for name in names if name not in columns] for why, names in layout.aside.items()}
    return replace(
        layout,
        regions={**layout.regions, **columns},
        aside={why: names for why, names in remaining.items() if names},
        participant_columns=tuple(name for name in layout.participant_columns if name not in columns),
        measures={**layout.measures, **measures},
    )


def _find_model_measure(layout: Layout, model_regions: Collection[str]) -> str | None:
    """Return what the regions of a model measure; None if they are of several kinds, or not in the table."""
    wanted = set(model_regions)
    kinds = {layout.measures.get(region, "volume") for region in layout.regions.values() if region in wanted}
    return kinds.pop() if len(kinds) == 1 else None


def _filter_measure(layout: Layout, measure: str | None) -> Layout:
    """Set regions of other measures aside; a table without the measure is left to the checks of its values."""
    kinds = {column: layout.measures.get(region, "volume") for column, region in layout.regions.items()}
    if measure not in kinds.values():
        return layout
    aside = dict(layout.aside)
    for column, kind in kinds.items():
        if kind != measure:
            aside[kind] = [*aside.get(kind, []), column]
    regions = {column: region for column, region in layout.regions.items() if kinds[column] == measure}
    return replace(layout, regions=regions, aside=aside)


def _note_unused_columns(layout: Layout, where: str, findings: Findings) -> None:
    """Say which columns are not used and why, and how ventricles are included."""
    if not layout.aside:
        return
    columns = [column for names in layout.aside.values() for column in names]
    listing = ", ".join(
        f"{len(names):,} {_REASONS.get(why, f'of another kind ({why})')}" for why, names in layout.aside.items()
    )
    has_ventricles = bool(_find_included_columns(VENTRICLES, layout, {}))
    findings.note(
        ProblemCode.COLUMNS_NOT_USED,
        f"{format_count(len(columns), 'column is', 'columns are')} not used",
        where,
        "To use the ventricles: --include ventricles" if has_ventricles else "",
        offenders=columns,
        offender_kind=OffenderKind.COLUMN,
        listing=listing,
    )
