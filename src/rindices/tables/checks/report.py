"""Search the blocks of a table that is read, and report what is suspicious.

Whole sites, groups, files, kinds of ids and ranges of rows are compared
(`rindices.tables.checks.search`).
"""

import re
import shlex
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    Problem,
    ProblemCode,
    Severity,
    join_names,
    parse_codes,
)
from rindices.tables.checks.block_table import (
    Block,
    BlockKind,
    BlockTable,
    Division,
    Suspicion,
    divide,
    make_block_table,
)
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.prefixes import list_id_parts
from rindices.tables.checks.scanners import check_scanner_columns, find_scanner_columns
from rindices.tables.checks.search import search_blocks
from rindices.tables.checks.values import Unit
from rindices.tables.layouts import column_names, freesurfer
from rindices.tables.sources.frames import to_text

if TYPE_CHECKING:
    from rindices.tables.participants import JoinedParticipants
    from rindices.tables.regions import UnfilteredCohort

SUSPECT_CODES = parse_codes(
    "suspect_rows suspect_codes suspect_units suspect_factor suspect_columns suspect_sides suspect_join "
    "suspect_covariate suspect_copies"
)
"""Problems that the search of blocks reports."""
SEARCHED_UNITS = (
    Unit.MM3,
    Unit.ML,
    Unit.MM,
    Unit.MM2,
    Unit.NORMALISED,
    Unit.MIXED,
    Unit.UNKNOWN,
)
_VALUE_ERRORS = parse_codes(
    "not_a_number mixed_units wrong_measure infinite_values negative_values"
)
_SAME_OVERLAP, _SAME_SHARE = (
    0.8,
    0.8,
)  # of people of two blocks, and of the blocks of a division
_HEAD_SIZE_REGEX = re.compile(r"head.?(size|vol)|^tiv|^icv|intracranial", re.IGNORECASE)
_OFFENDER_KINDS = {
    BlockKind.SITE: OffenderKind.SITE,
    BlockKind.FILE: OffenderKind.SITE,
    BlockKind.PREFIX: OffenderKind.SITE,
    BlockKind.COLUMN: OffenderKind.SITE,
    BlockKind.GROUP: OffenderKind.LABEL,
}
"""What the label of a block is a name of; rows and people are named by their ids."""
_CURE = "Correct the table, or go on all the same (--on-suspect keep)"


def report_blocks(
    parts: "UnfilteredCohort", unit: Unit, policy: str, findings: Findings
) -> BlockTable | None:
    """Search the blocks of a table, and report what is suspicious.

    Parameters
    ----------
    parts : UnfilteredCohort
        Content of the table.
    unit : Unit
        Unit of the regions.
    policy : str
        ``error`` to stop, or ``keep`` to warn.
    findings : Findings
        Problems of the file.

    Returns
    -------
    BlockTable or None
        The table after the search. None if it cannot be searched, or nothing is
        suspicious.
    """
    if parts.groups is not None:
        check_scanner_columns(parts, policy, findings)
    if any(problem.code in _VALUE_ERRORS for problem in findings.errors()):
        return None
    table = build_block_table(parts) if unit in SEARCHED_UNITS else None
    if table is None:
        what = "blocks of the table (sites, ranges of rows) were not tested: too few people, or standardised values"
        findings.note(ProblemCode.BLOCKS_NOT_TESTED, what)
        return None
    problems = [
        make_problem(table, suspicion, policy, findings.where)
        for suspicion in search_blocks(table)
    ]
    copied = {
        name
        for problem in problems
        if problem.code is ProblemCode.SUSPECT_COPIES
        for name in problem.offenders
    }
    is_said = [
        each.code is ProblemCode.EQUAL_ROWS and not copied.isdisjoint(each.offenders)
        for each in findings
    ]
    findings.problems[:] = [
        each for each, said in zip(findings, is_said, strict=True) if not said
    ]
    findings.problems += problems
    _note_untested(table, findings)
    return table if table.suspicions else None


def make_problem(
    table: BlockTable, suspicion: Suspicion, policy: str, where: str
) -> Problem:
    """Return a suspicion as a problem: an error if a study must not go on, and the user
    does not keep the block.
    """
    block = suspicion.block
    stops = suspicion.stops and policy == "error"
    return Problem(
        severity=Severity.ERROR if stops else Severity.WARNING,
        what=suspicion.what,
        where=where,
        cure=_CURE if stops else "Look at these rows in the file",
        code=suspicion.code,
        offenders=_name_offenders(table, block),
        offender_kind=_OFFENDER_KINDS.get(block.kind, OffenderKind.PARTICIPANT),
        listing="" if block.kind is BlockKind.TABLE else table.describe_block(block),
        ending=suspicion.ending,
        exclusion=_offer_exclusion(block) if stops else "",
    )


def _name_offenders(table: BlockTable, block: Block) -> tuple[str, ...]:
    if block.kind in (BlockKind.PEOPLE, BlockKind.ROWS):
        return tuple(np.asarray(table.ids, dtype=object)[block.rows].tolist())
    return () if block.kind is BlockKind.TABLE else (block.label,)


def _offer_exclusion(block: Block) -> str:
    if block.kind is not BlockKind.SITE:
        return ""
    return f"To leave the site out: --leave-out-site {shlex.quote(block.label)}"


def _note_untested(table: BlockTable, findings: Findings) -> None:
    """Say what could not be tested, and how large a factor must be to be found."""
    n_blocks = len(table.blocks)
    counts = Counter(question for question, _ in table.untested)
    if counts:
        parts = [
            f"{question} in {min(number, n_blocks)} of {n_blocks} blocks"
            for question, number in counts.items()
        ]
        what = "not tested, for too few people or too little information, whether a block fits the others"
        findings.note(ProblemCode.BLOCKS_NOT_TESTED, what, listing=join_names(parts))
    if table.smallest_factors:
        low, high = (f"{each(table.smallest_factors):.2f}" for each in (min, max))
        sizes = low if low == high else f"{low} to {high}, depending on the block"
        what = "a wrong factor on all values of a group, a site or a file would be found from this size on"
        findings.note(ProblemCode.BLOCKS_NOT_TESTED, what, listing=sizes)


def build_block_table(parts: "UnfilteredCohort") -> BlockTable | None:
    """Return the first scans of a table in blocks; None if it holds too little."""
    people, rows = parts.people, _find_first_rows(parts.table.ids)
    age, sex = (
        _find_about(people, names)
        for names in (column_names.AGE_NAMES, column_names.SEX_NAMES)
    )
    head_size = parts.icv if parts.icv is not None else _find_head_size(parts)
    layout, regions = parts.table.layout, _order_as_in_file(parts)
    return make_block_table(
        values=parts.regions.loc[rows, regions],
        measures=[layout.measure_of(region) for region in regions],
        ids=np.asarray(parts.table.ids, dtype=object)[rows].tolist(),
        age=None if age is None else age[rows],
        sex=None if sex is None else to_text(sex[rows]).tolist(),
        head_size=None if head_size is None else head_size.reset_index(drop=True)[rows],
        groups=_code_groups(parts, rows),
        divisions=_list_divisions(parts, rows),
        positions=np.flatnonzero(rows)
        if parts.positions is None
        else parts.positions[rows],
    )


def _order_as_in_file(parts: "UnfilteredCohort") -> list[str]:
    """Return the regions in the order of the columns: a header is moved by one column
    of the file, and regions are read in the order of their names.
    """
    names, known = parts.table.layout.regions, set(parts.regions.columns)
    ordered = [names[each] for each in parts.table.frame if each in names]
    ordered = [each for each in ordered if each in known]
    return ordered + [each for each in parts.regions if each not in set(ordered)]


def _find_first_rows(ids: Sequence[str]) -> BoolArray:
    return np.asarray(~pd.Series(ids).duplicated().to_numpy(dtype=bool))


def _find_about(people: "JoinedParticipants", names: Sequence[str]) -> pd.Series | None:
    column = column_names.find_column(people.frame.columns, names)
    return None if column is None else people.frame[column].reset_index(drop=True)


def _find_head_size(parts: "UnfilteredCohort") -> pd.Series | None:
    """Return a column that stands for the size of the head where the table has no
    intracranial volume.
    """
    about, table = parts.people.frame, parts.table.frame
    named = next((name for name in about if _HEAD_SIZE_REGEX.search(name)), None)
    if named is not None:
        return about[named]
    brain = next((name for name in table if freesurfer.is_head_size(name)), None)
    return None if brain is None else table[brain]


def _code_groups(parts: "UnfilteredCohort", rows: BoolArray) -> IntArray | None:
    if parts.groups is None:
        return None
    codes = parts.groups.labels.map({CONTROL: 0, PATIENT: 1}).fillna(-1)
    return np.asarray(codes.to_numpy(dtype=int)[rows], dtype=np.intp)


def _list_divisions(parts: "UnfilteredCohort", rows: BoolArray) -> list[Division]:
    """Return the divisions of the people in a mask (N,): sites, groups, files, kinds of
    ids, and scanner columns.
    """
    frame, ids = (
        parts.people.frame,
        np.asarray(parts.table.ids, dtype=object)[rows].tolist(),
    )
    usual = column_names.find_column(frame.columns, column_names.SITE_NAMES)
    sites = (
        parts.sites
        if parts.sites is not None
        else None
        if usual is None
        else to_text(frame[usual])
    )
    divisions = [] if sites is None else [divide(BlockKind.SITE, sites[rows])]
    if parts.table.files is not None:
        divisions.append(
            divide(BlockKind.FILE, pd.Series(parts.table.files, dtype="object")[rows])
        )
    divisions += [divide(BlockKind.PREFIX, part) for part in list_id_parts(ids)]
    scanners = [
        (name, texts) for name, texts in find_scanner_columns(frame) if name != usual
    ]
    divisions += [
        divide(BlockKind.COLUMN, texts[rows], name) for name, texts in scanners
    ]
    if parts.groups is not None:
        divisions.append(divide(BlockKind.GROUP, parts.groups.labels[rows]))
    n_sites = 0 if sites is None else sites.nunique()
    too_many = n_sites > max(2, len(ids) // 3)
    distinct: list[Division] = []
    for division in divisions:
        is_new = not any(_are_same(division, other) for other in distinct)
        if (
            len(division) > 1
            and is_new
            and not (too_many and division.kind is BlockKind.SITE)
        ):
            distinct.append(division)
    return distinct


def _are_same(division: Division, other: Division) -> bool:
    """Return whether nearly all blocks of a division are nearly a block of
    another one.
    """
    counts = np.zeros((len(division) + 1, len(other) + 1))
    np.add.at(counts, (division.codes, other.codes), 1)
    either = (
        counts.sum(axis=1, keepdims=True) + counts.sum(axis=0, keepdims=True) - counts
    )
    overlap = (counts / np.maximum(either, 1))[: len(division), : len(other)]
    return bool((overlap.max(axis=1) > _SAME_OVERLAP).mean() >= _SAME_SHARE)
