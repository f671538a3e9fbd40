"""Join participants to a table of regions by id, and read their groups, sites and
covariates.
"""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from pathlib import Path

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, IntArray
from rindices.errors import (
    Findings,
    OffenderKind,
    ProblemCode,
    ProblemDetails,
    format_count,
    get_close_name,
    join_names,
)
from rindices.tables.checks import groups
from rindices.tables.checks.groups import fold_case
from rindices.tables.checks.missing_codes import find_missing_codes, looks_like_code
from rindices.tables.checks.values import as_numbers
from rindices.tables.layouts import column_names
from rindices.tables.layouts.layout import Layout
from rindices.tables.sources.frames import MemoryTable, to_text
from rindices.tables.table import (
    NO_COLUMN,
    ColumnRoles,
    IndexedTable,
    Table,
    read_participants,
)

MISSING_CODES = (-1.0, -9.0, -99.0, -999.0, -9999.0, 99.0, 999.0, 9999.0)
"""Numbers that often stand for a missing value."""
_TWO_VALUED_NAMES = ("sex", "gender", "handedness")
# of people with one of two values, above which a covariate counts as two-valued
_TWO_VALUED_SHARE = 0.9
_MAX_RARE_CODES = 3
_COMMON_SHARE = 0.05  # of people, above which a category of sex is common
_CODES_TEXT = "-1 -8 -9 -99 -999 -9999 8 9 88 98 99 998 999 9999 u unk unknown ?"
_CODES_FOR_UNKNOWN = {*_CODES_TEXT.split()}
_ADULT_AGE = 18.0
MAX_AGE = 120.0
"""Highest age in years that is accepted."""
MAX_CHANCE = 0.01
"""Largest p-value at which groups are said to differ in sexes or in missing cells."""
MIN_AGE_OVERLAP = 0.7
"""Share of patients between the 5th and 95th percentile of controls' ages below which
there is a warning (benchmarks/age.py).
"""


@dataclass(frozen=True, kw_only=True)
class JoinedParticipants:
    """Columns about the people, in the rows of the table of regions.

    Attributes
    ----------
    ids : list of str
        IDs of the N rows.
    frame : DataFrame
        Columns (N, ...), those of the participants first.
    unmatched : ndarray of shape (N,)
        People without a row in the table of participants.
    findings : Findings
        Collects the problems of these columns, with the file that they are read from.
    participants : IndexedTable or None
        Table of the participants.
    rows : ndarray of shape (N,) or None
        Row of each person in it, or -1.
    icv_where : str
        File that the intracranial volume is read from.
    """

    ids: list[str]
    frame: pd.DataFrame
    unmatched: BoolArray
    findings: Findings
    participants: IndexedTable | None = None
    rows: IntArray | None = None
    icv_where: str = ""

    def get_findings(self, covariate: str) -> Findings:
        """Return the findings of the file that a covariate is read from."""
        return (
            self.findings.at(self.icv_where)
            if covariate == "icv" and self.icv_where
            else self.findings
        )

    def get_participant_ids(self) -> list[str]:
        """Return the ids as the participants spell them, where a person has a row
        there.
        """
        if self.rows is None or self.participants is None:
            return self.ids
        names = self.participants.table.ids
        return [
            names[row] if row >= 0 else name
            for row, name in zip(self.rows, self.ids, strict=True)
        ]

    def find(self, name: str | None) -> str | None:
        """Return the column of this name, in upper or lower case."""
        columns = [
            column
            for column in self.frame.columns
            if name and column.lower() == name.lower()
        ]
        return name if name in columns else columns[0] if len(columns) == 1 else None

    def find_or_report(self, name: str | None, role: str) -> str | None:
        """Return the column that the user named for a role; a name that does not exist
        is an error.
        """
        column = self.find(name)
        if name is not None and column is None:
            what = f"there is no column '{name}' for the {role}"
            self.findings.error(
                ProblemCode.UNKNOWN_COLUMN,
                what,
                self._suggest_column(name),
                subject=name,
            )
        return column

    def _suggest_column(self, name: str) -> str:
        """Return what to do about a name that is no column: it is several names,
        misspelt, or in another table.
        """
        parts = [part.strip() for part in name.split(",")]
        if len(parts) > 1 and all(map(self.find, parts)):
            return f"Give a list of names: {json.dumps(parts)}"
        columns = list(self.frame.columns)
        close = get_close_name(name, columns)
        if close is not None:
            return f"Did you mean '{close}'?"
        here = f"There is: {join_names(columns, 12)}" if columns else ""
        if self.participants is not None:
            return here
        return f"{here}{'. ' if here else ''}If another table has it, give that as well (--participants)"


def join_participants(
    table: Table,
    path: Path | MemoryTable | None,
    roles: ColumnRoles,
    findings: Findings,
    participants: IndexedTable | None = None,
) -> JoinedParticipants:
    """Join participants to the rows of a table by ID and, if both tables have it,
    session.

    Parameters
    ----------
    table : Table
        Table of regions.
    path : Path or MemoryTable or None
        Table of participants. With None, the columns of ``table`` are used.
    roles : ColumnRoles
        Columns that the user named.
    findings : Findings
        Collects the problems.
    participants : IndexedTable or None
        Content of ``path``, if an earlier chunk was joined with it.
    """
    columns = table.frame[
        list(dict.fromkeys(table.layout.participant_columns))
    ].reset_index(drop=True)
    if path is None:
        return JoinedParticipants(
            ids=table.ids,
            frame=columns,
            unmatched=np.zeros(len(columns), dtype=bool),
            findings=findings.at(table.where),
        )
    is_first = participants is None
    participants = participants or IndexedTable(
        read_participants(path, roles, table.ids, findings)
    )
    where = participants.table.where
    findings = findings.at(where)
    rows = participants.match_rows(table, findings, must_match=is_first)
    if is_first:
        _note_unused_participants(participants.table.ids, rows, table.where, findings)
    joined = participants.table.frame.reindex(rows).reset_index(drop=True)
    _warn_contradictions(table, columns, joined, findings)
    frame = pd.concat(
        [joined, columns[[name for name in columns if name not in joined]]], axis=1
    )
    icv_where = table.where if table.layout.icv is not None else where
    return JoinedParticipants(
        ids=table.ids,
        frame=frame,
        unmatched=rows < 0,
        findings=findings,
        participants=participants,
        rows=rows,
        icv_where=icv_where,
    )


def _note_unused_participants(
    ids: Sequence[str], rows: IntArray, where: str, findings: Findings
) -> None:
    """Note how many participants, and how many scans of others, have no row in the
    table ``where``.
    """
    is_used = np.zeros(len(ids), dtype=bool)
    is_used[rows[rows >= 0]] = True
    used = {name for name, used in zip(ids, is_used, strict=True) if used}
    unused = {name for name in ids if name not in used}
    n_scans = sum(
        name in used
        for name, is_row_used in zip(ids, is_used, strict=True)
        if not is_row_used
    )
    whom = [format_count(len(unused), "participant")] if unused else []
    if n_scans:
        whom.append(f"{format_count(n_scans, 'other scan')} of participants")
    if whom:
        is_one = len(unused) + n_scans == 1
        what = f"{' and '.join(whom)} {'is' if is_one else 'are'} not in {where}"
        findings.note(ProblemCode.UNUSED_PARTICIPANTS, what)


def _warn_contradictions(
    table: Table, columns: pd.DataFrame, joined: pd.DataFrame, findings: Findings
) -> None:
    """Warn of ages, sexes, groups and sites that differ between the tables: their rows
    may belong to different people.
    """
    usual = (
        *column_names.AGE_SEX_NAMES,
        *column_names.GROUP_NAMES,
        *column_names.SITE_NAMES,
    )
    for name in (
        name
        for name in columns
        if name in joined and column_names.find_column([name], usual)
    ):
        here, there = (
            groups.normalise_labels(frame[name]) for frame in (columns, joined)
        )
        offenders = list(
            compress(table.ids, here.notna() & there.notna() & (here != there))
        )
        if offenders:
            what = f"{name} differs from {table.where} for {format_count(len(offenders), 'person', 'people')}"
            cure = "Is it the table of these people? It is used here"
            findings.warn(
                ProblemCode.CONTRADICTORY_COLUMNS,
                what,
                cure,
                subject=name,
                offenders=offenders,
            )


@dataclass(frozen=True)
class GroupLabels:
    """Groups of people.

    Attributes
    ----------
    labels : Series
        ``control``, ``patient`` or None for each person.
    unlabelled : ndarray of shape (N,)
        Whether the cell is empty.
    """

    labels: pd.Series
    unlabelled: BoolArray

    def rows(self, name: str) -> BoolArray:
        """Return a mask of the people of a group (N,)."""
        return np.asarray(self.labels == name, dtype=bool)


def resolve_roles(
    people: JoinedParticipants,
    roles: ColumnRoles,
    layout: Layout,
    has_icv: bool,
    is_study: bool = True,
) -> ColumnRoles:
    """Return the roles with the covariates and the site that are recognised by name,
    where the user named none.

    Age, sex and, for measures that depend on it, head size are covariates. A column of
    sites is used with a note, in a study only if it has several of them.
    """
    site = (
        _recognise_site(people, roles, is_study) if roles.site is None else roles.site
    )
    covariates = roles.covariates
    if covariates is None:
        columns = [
            column_names.find_column(people.frame.columns, names)
            for names in (column_names.AGE_NAMES, column_names.SEX_NAMES)
        ]
        kinds = set(map(layout.measure_of, layout.regions.values()))
        covariates = tuple(name for name in columns if name and name != roles.group)
        covariates += ("icv",) if has_icv and kinds != {"thickness"} else ()
    return replace(roles, site=site, covariates=covariates)


def _recognise_site(
    people: JoinedParticipants, roles: ColumnRoles, is_study: bool
) -> str:
    column = column_names.find_column(people.frame.columns, column_names.SITE_NAMES)
    if column is None or column == roles.group or column in (roles.covariates or ()):
        return NO_COLUMN
    n_sites, n_people = people.frame[column].nunique(), len(people.frame)
    if is_study and n_sites > max(2, n_people // 3):
        count = f"{n_sites:,} values for {format_count(n_people, 'row')}"
        what, cure = (
            f"column '{column}' has {count} and is not used as the site",
            f"If it is the site: --site {column}",
        )
        people.findings.note(ProblemCode.SITES_NOT_USED, what, cure, subject=column)
        return NO_COLUMN
    if is_study and n_sites < 2:
        return NO_COLUMN
    what = f"column '{column}' holds {format_count(n_sites, 'site')}"
    what += ", whose effects are removed unless --harmonise none is given"
    people.findings.note(
        ProblemCode.SITES_USED,
        what,
        "If these are no sites: --site none",
        subject=column,
    )
    return column


def read_groups(
    people: JoinedParticipants,
    name: str | None,
    controls: Sequence[str],
    patients: Sequence[str],
    is_surrealgan: bool,
) -> GroupLabels | None:
    """Return the groups of people from the column that the user named, or a guessed
    one; None without groups.
    """
    column = people.find_or_report(name, "group")
    if name is None:
        column = _guess_group_column(people, bool(controls or patients), is_surrealgan)
    if column is None:
        return None
    labels, of_column = (
        people.frame[column],
        people.findings.at(f"{people.findings.where}, column {column}"),
    )
    assigned = groups.assign_groups(
        labels, controls, patients, of_column, is_surrealgan, people.ids
    )
    if assigned is None:
        return None
    unlabelled = np.asarray(to_text(labels).isna(), dtype=bool)
    return GroupLabels(
        pd.Series(assigned, index=labels.index, dtype="object"), unlabelled
    )


def _guess_group_column(
    people: JoinedParticipants, has_labels: bool, is_surrealgan: bool
) -> str | None:
    """Return a column with a usual name if its labels are unmistakable or the user
    named labels.
    """
    usual = [
        column_names.find_column(people.frame.columns, [name])
        for name in column_names.GROUP_NAMES
    ]
    candidates = [name for name in usual if name]
    clear = [
        name
        for name in candidates
        if groups.can_guess_groups(people.frame[name], is_surrealgan)
    ]
    guess, findings = next(iter([*clear, *candidates]), None), people.findings
    if guess is not None and (has_labels or clear):
        what = f"groups are read from column '{guess}'"
        findings.note(ProblemCode.GROUP_COLUMN_GUESSED, what, subject=guess)
        return guess
    if guess is not None:
        labels = list(groups.normalise_labels(people.frame[guess]).dropna().unique())
        what = f"column '{guess}' may hold the groups: {join_names(labels)}"
        what += (
            " alone, and a study compares controls with patients"
            if len(labels) == 1
            else ""
        )
        choice = groups.describe_label_choice(labels)
        cure = choice if len(labels) == 1 else f"If so: --group {guess}. {choice}"
        findings.note(ProblemCode.GROUP_COLUMN_POSSIBLE, what, cure, subject=guess)
    elif has_labels:
        what = "labels were given but no column of groups"
        findings.error(
            ProblemCode.GROUP_COLUMN_MISSING, what, "Name it: --group COLUMN"
        )
    else:
        cure = "Name the column: --group COLUMN"
        cure += (
            ""
            if people.participants
            else ". If another table has it, give that as well (--participants)"
        )
        findings.note(
            ProblemCode.NO_GROUPS, "no groups are known; fit needs them", cure
        )
    return None


def read_sites(people: JoinedParticipants, roles: ColumnRoles) -> pd.Series | None:
    """Return the site of each person as text; None if there is none."""
    column = (
        None if roles.site == NO_COLUMN else people.find_or_report(roles.site, "site")
    )
    if column is None:
        return None
    sites = groups.fold_labels(people.frame[column], "site", people.findings)
    warn_similar_categories(
        "the site",
        sorted(sites.dropna().unique()),
        people.findings,
        kind=OffenderKind.SITE,
    )
    return sites


def read_covariates(
    people: JoinedParticipants,
    names: Sequence[str],
    icv: pd.Series | None,
    kinds: Mapping[str, bool],
) -> pd.DataFrame:
    """Return the covariates (N, C) that the user named: numbers as floats, everything
    else as text.

    kinds: whether each covariate is a number, as far as the first chunk of the table
    has shown it.
    """
    covariates: dict[str, pd.Series] = {}
    for name in names:
        if name.lower() == "icv" and icv is not None:
            name, values = "icv", icv.reset_index(drop=True)
        elif (column := people.find_or_report(name, "covariate")) is not None:
            values = people.frame[column]
        else:
            continue
        is_number, findings = kinds.get(name), people.get_findings(name)
        covariates[name] = _convert_covariate(
            name, values, people.ids, findings, is_number
        )
    return pd.DataFrame(covariates, index=people.frame.index)


def _convert_covariate(
    name: str,
    values: pd.Series,
    people: Sequence[str],
    findings: Findings,
    is_number: bool | None = None,
) -> pd.Series:
    """Return a covariate of people, given by their ids, as numbers; as text if most
    cells are text or it is a site.
    """
    if is_number is None:
        is_number = column_names.is_mostly_numeric(
            values
        ) and not column_names.find_column([name], column_names.SITE_NAMES)
    if not is_number:
        texts = _to_categories(values, name, findings)
        counts = texts.value_counts()
        levels = sorted(map(str, counts.index))
        if column_names.find_column([name], column_names.AGE_NAMES) and levels:
            what = f"covariate {name} is text, not numbers: {join_names(levels, 3)}"
            cure = "Give years as numbers, with a decimal point"
            findings.error(ProblemCode.COVARIATE_IS_TEXT, what, cure, subject=name)
        by_initial = column_names.find_column([name], _TWO_VALUED_NAMES)
        warn_similar_categories(
            name,
            levels,
            findings,
            (lambda level: level[:1].lower()) if by_initial else fold_case,
        )
        common = sorted(map(str, counts[counts > _COMMON_SHARE * len(texts)].index))
        if len(common) > 2 and column_names.find_column([name], column_names.SEX_NAMES):
            what, cure = (
                f"covariate {name} has {len(common)} common categories",
                "Code it in one way",
            )
            findings.warn(
                ProblemCode.SIMILAR_CATEGORIES,
                what,
                cure,
                subject=name,
                offenders=common,
            )
        _warn_codes(
            name, texts, _find_rare_codes(name, texts, counts), people, findings
        )
        if len(counts) > max(10, len(texts) // 3):
            what = f"covariate {name} has {len(counts):,} categories for {format_count(len(texts), 'person', 'people')}"
            cure = "Is it a number written as text, or an id?"
            findings.warn(ProblemCode.MANY_CATEGORIES, what, cure, subject=name)
        return texts
    numbers = as_numbers(values.to_frame(name), people, findings)[name]
    _check_covariate_range(name, numbers, people, findings)
    return numbers


def _to_categories(values: pd.Series, name: str, findings: Findings) -> pd.Series:
    """Return `fold_labels` of labels as categories, in order of appearance; each label
    is converted once.
    """
    if not isinstance(values.dtype, pd.StringDtype):
        values = to_text(values)
    codes, labels = pd.factorize(values)
    category_of_label, categories = pd.factorize(
        groups.fold_labels(pd.Series(labels), name, findings)
    )
    codes = np.append(category_of_label, -1)[codes]  # -1 is the code of a missing label
    return pd.Series(pd.Categorical.from_codes(codes, categories), index=values.index)


def warn_similar_categories(
    name: str,
    levels: Sequence[str],
    findings: Findings,
    normalise: Callable[[str], str] = fold_case,
    kind: OffenderKind = OffenderKind.LABEL,
) -> None:
    """Warn of categories that are equal once they are normalised: by default in case
    and blanks.
    """
    counts = Counter(map(normalise, levels))
    similar = [level for level in levels if counts[normalise(level)] > 1]
    if similar:
        what, cure = (
            f"categories of {name} look like the same ones spelt twice",
            "Spell them alike",
        )
        labels: ProblemDetails = {
            "subject": name,
            "offenders": similar,
            "offender_kind": kind,
        }
        findings.warn(ProblemCode.SIMILAR_CATEGORIES, what, cure, **labels)


def _find_rare_codes(name: str, values: pd.Series, counts: pd.Series) -> BoolArray:
    """Return a mask (N,) of rare values beside two usual ones that may stand for
    missing, as 9 in a sex of 1 and 2.
    """
    if (
        not 3 <= len(counts) <= 2 + _MAX_RARE_CODES
        or counts.iloc[:2].sum() < _TWO_VALUED_SHARE * counts.sum()
    ):
        return np.zeros(len(values), dtype=bool)
    is_number = pd.api.types.is_numeric_dtype(values)
    is_sex = bool(column_names.find_column([name], _TWO_VALUED_NAMES))
    texts = {
        level: f"{level:g}" if is_number else str(level).lower()
        for level in counts.index[2:]
    }
    codes = [
        level
        for level, text in texts.items()
        if (is_number and is_sex) or text in _CODES_FOR_UNKNOWN
    ]
    return np.asarray(values.isin(codes), dtype=bool)


def _warn_codes(
    name: str,
    values: pd.Series,
    codes: BoolArray,
    people: Sequence[str],
    findings: Findings,
) -> None:
    if codes.any():
        what = f"{format_count(int(codes.sum()), 'cell')} of covariate {name} may hold codes for missing"
        cells, cure = (
            _name_cells(name, values, codes, people),
            f"If so: --missing-codes {_join_codes(values[codes])}",
        )
        findings.warn(ProblemCode.CODES_FOR_MISSING, what, cure, **cells)


def _check_covariate_range(
    name: str, numbers: pd.Series, people: Sequence[str], findings: Findings
) -> None:
    """Report impossible numbers: infinite ones, impossible ages and head sizes, codes
    for missing.
    """
    values = numbers.to_numpy(dtype=float)
    is_finite = np.isfinite(values)
    median = float(np.median(values[~np.isnan(values)])) if is_finite.any() else 0.0
    wrong = np.isinf(values)
    with np.errstate(invalid="ignore"):
        if column_names.find_column([name], column_names.AGE_NAMES):
            wrong |= (
                (values < 0)
                | (values > MAX_AGE)
                | ((values == 0) & (median >= _ADULT_AGE))
            )
        elif column_names.is_positive_covariate(name):
            wrong |= (values <= 0) | (values > 100 * median) | (values < median / 100)
    if wrong.any():
        cells = _name_cells(name, numbers, wrong, people)
        codes_text = _join_codes(
            numbers[wrong & [looks_like_code(value) for value in values]]
        )
        cure = f"Correct these values{'; if they stand for missing: --missing-codes ' if codes_text else ''}{codes_text}"
        findings.error(
            ProblemCode.IMPOSSIBLE_VALUES, f"covariate {name} cannot be", cure, **cells
        )
        return
    codes = np.isin(values, MISSING_CODES)
    if codes.any():
        others = values[~codes & is_finite]
        codes &= np.abs(values - median) > 5 * (others.std() if others.size else np.inf)
    if (
        len(np.unique(values[:100])) <= 3 + _MAX_RARE_CODES
    ):  # the third one is a missing value
        codes |= _find_rare_codes(name, numbers, numbers.value_counts())
    codes |= find_missing_codes(values)
    _warn_codes(name, numbers, codes, people, findings)


def _join_codes(values: pd.Series) -> str:
    """Return the distinct values as the option ``--missing-codes`` takes them."""
    codes = values.drop_duplicates().head(3)
    return ",".join(
        code if isinstance(code, str) else np.format_float_positional(code, trim="-")
        for code in codes
    )


def _name_cells(
    name: str, values: pd.Series, cells: BoolArray, people: Sequence[str]
) -> ProblemDetails:
    """Return the details of a problem of a covariate: its people and their values, by a
    mask of cells (N,).
    """
    offenders = list(compress(people, cells))
    texts = [
        value if isinstance(value, str) else f"{value:g}" for value in values[cells]
    ]
    listing = join_names(
        f"{text} for {person}" for text, person in zip(texts, offenders, strict=True)
    )
    return {"subject": name, "offenders": offenders, "listing": listing}


def check_sexes(
    people: JoinedParticipants, labels: GroupLabels, keep: BoolArray, roles: ColumnRoles
) -> None:
    """Warn of unequal sexes in the groups, among the people in a mask (N,)."""
    column = column_names.find_column(people.frame.columns, column_names.SEX_NAMES)
    if column is None or column == people.find(roles.group):
        return
    sexes = to_text(people.frame[column])
    groups_of_sexes = [
        sexes[keep & labels.rows(name)].dropna()
        for name in (groups.CONTROL, groups.PATIENT)
    ]
    levels = sorted({level for group in groups_of_sexes for level in group})
    if len(levels) != 2:
        return
    from scipy.stats import (
        fisher_exact,
    )  # applying a model needs numpy and pandas alone

    counts = np.array(
        [[int((group == level).sum()) for level in levels] for group in groups_of_sexes]
    )
    if counts.sum(axis=1).all() and fisher_exact(counts).pvalue < MAX_CHANCE:
        shares = counts[:, 0] / counts.sum(axis=1)
        levels_by_group = f"{levels[0]} in {shares[0]:.0%} of controls and {shares[1]:.0%} of patients"
        is_adjusted = any(
            column_names.find_column([name], column_names.SEX_NAMES)
            for name in roles.covariates or ()
        )
        cure = (
            "It is adjusted for; effects that differ between sexes are not"
            if is_adjusted
            else "Adjust for it"
        )
        what = f"sexes are unequal: {column} is {levels_by_group}"
        people.findings.warn(ProblemCode.UNEQUAL_SEXES, what, cure, subject=column)


def check_ages(
    people: JoinedParticipants, labels: GroupLabels, keep: BoolArray
) -> None:
    """Warn if many patients in a mask (N,) have ages that few controls have: adjustment
    has to extrapolate there.
    """
    column = column_names.find_column(people.frame.columns, column_names.AGE_NAMES)
    if column is None:
        return
    ages = pd.to_numeric(people.frame[column], errors="coerce")
    controls, patients = (
        ages[keep & labels.rows(name)].dropna()
        for name in (groups.CONTROL, groups.PATIENT)
    )
    if controls.empty or patients.empty:
        return
    low, high = controls.quantile([0.05, 0.95])
    within = float(patients.between(low, high).mean())
    if within < MIN_AGE_OVERLAP:
        common = f"common among controls ({low:.0f} to {high:.0f} years)"
        what = f"only {within:.0%} of patients have an age that is {common}"
        cure = "Ageing that controls do not show passes as disease: give controls of the patients' ages"
        people.findings.warn(ProblemCode.AGES_APART, what, cure, subject=column)


def check_shared_sites(
    people: JoinedParticipants,
    labels: GroupLabels,
    sites: pd.Series | None,
    is_unwanted: bool,
) -> None:
    """Refuse groups that share no site, or warn of them if the user asked not to use
    sites.

    Parameters
    ----------
    people : JoinedParticipants
        The people.
    labels : GroupLabels
        Their groups.
    sites : Series or None
        Site of each person. None if no column of sites is used.
    is_unwanted : bool
        Whether the user asked not to use sites.
    """
    if sites is None:
        column = column_names.find_column(people.frame.columns, column_names.SITE_NAMES)
        if column is None:
            return
        sites = to_text(people.frame[column])
    by_group = (sites[labels.rows(name)] for name in (groups.CONTROL, groups.PATIENT))
    controls, patients = (sorted(each.dropna().unique()) for each in by_group)
    if not controls or not patients or set(controls) & set(patients):
        return
    details: ProblemDetails = {
        "offenders": [*controls, *patients],
        "offender_kind": OffenderKind.SITE,
    }
    details["listing"] = (
        f"controls are of {join_names(controls)}, patients of {join_names(patients)}"
    )
    what = "controls and patients share no site, so a difference of sites would pass as disease"
    cure = "Give controls of the patients' sites"
    report = people.findings.warn if is_unwanted else people.findings.error
    cure += "" if is_unwanted else ". To compare all the same: --site none"
    report(ProblemCode.SITE_SEPARATES_GROUPS, what, cure, **details)
