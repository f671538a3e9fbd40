"""A validated cohort, the order of its people, and several scans of a person."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.errors import (
    Findings,
    Problem,
    ProblemCode,
    Severity,
    format_count,
    join_names,
)
from rindices.row_hashes import hash_rows
from rindices.tables.checks.groups import CONTROL, PATIENT, normalise_labels
from rindices.tables.checks.ids import normalise_session
from rindices.tables.layouts.column_names import AGE_NAMES, SEX_NAMES, find_column
from rindices.tables.table import Table
from rindices.wording import get_nouns

ID, SESSION, GROUP, SITE = "participant_id", "session_id", "group", "site"
PERSON_COLUMNS = frozenset({ID, "person"})
"""Columns of the tables of results that hold values of single people."""
_MIN_OUTSIDE = 5  # fewest people outside the bounds of a covariate
_AGE_TOLERANCE = 0.05  # years by which an age may fall, because ages are rounded
MAX_YEARS_BETWEEN_VISITS = 30
"""Years between two visits of a person beyond which the times, or the ids, are wrong.
"""


@dataclass(frozen=True, eq=False, kw_only=True)
class Cohort:
    """People with their regional volumes, read and validated.

    Rows are sorted by participant and session, and regions by name (MUSE by code), so
    that results do not depend on the order of rows or columns in a file.

    Attributes
    ----------
    volumes : DataFrame
        (N, R), one column per region. Missing cells are NaN, if the table was read with
        ``on_missing="model"``.
    people : DataFrame
        (N, ...), same rows: ``participant_id``, and ``session_id``, ``group``
        (``control`` or ``patient``) and ``site`` if the table has them.
    covariates : DataFrame
        (N, C), same rows. Numeric columns are numbers, text columns are categories.
        Missing values are NaN, if the table was read with ``impute_covariates=True``.
    source : str
        Format of the table: ``dlmuse``, ``freesurfer``, ...
    unit : str
        Unit of the regions, guessed from their magnitude.
    visits : Cohort or None
        All scans of the same people, if patterns are learnt from repeat visits. The
        rows of this cohort are then the first scans.
    suspicions : tuple of Problem
        What is suspicious about whole blocks of the table, such as a site. A study says
        it beside its finding.

    Examples
    --------
    >>> import rindices as ri
    >>> cohort = ri.simulate_cohort("tiny", seed=0).cohort
    >>> len(cohort), cohort.volumes.shape
    (180, (180, 139))
    >>> list(cohort.covariates)
    ['age', 'sex', 'icv']
    """

    volumes: pd.DataFrame
    people: pd.DataFrame
    covariates: pd.DataFrame
    source: str = "table"
    unit: str = "unknown"
    visits: "Cohort | None" = None
    suspicions: tuple[Problem, ...] = ()

    def __len__(self) -> int:
        return len(self.people)

    def __repr__(self) -> str:
        n_controls, n_patients = (
            self.people.loc[rows, ID].nunique()
            for rows in (self.is_control, self.is_patient)
        )
        groups = (
            f", {n_controls} controls, {n_patients} patients"
            if GROUP in self.people
            else ""
        )
        noun = get_nouns(self.unit).regions
        n_people = self.people[ID].nunique()
        scans = f"{len(self)} scans of " if len(self) > n_people else ""
        return f"<Cohort: {scans}{n_people} people{groups}, {self.n_regions} {noun} ({self.source}, {self.unit})>"

    def _repr_html_(self) -> str:
        """Return the same and the first rows, for notebooks."""
        shown = pd.concat(
            [self.people, self.covariates, self.volumes.iloc[:, :3]], axis=1
        ).head()
        return f"<p>{escape(repr(self)[1:-1])}</p>{shown.to_html(index=False, escape=True)}"

    @property
    def regions(self) -> tuple[str, ...]:
        """Names of the regions."""
        return tuple(self.volumes.columns.tolist())

    @property
    def n_regions(self) -> int:
        """R, the number of regions."""
        return len(self.regions)

    @property
    def is_control(self) -> BoolArray:
        """(N,) True for controls."""
        return self._is_in_group(CONTROL)

    @property
    def is_patient(self) -> BoolArray:
        """(N,) True for patients."""
        return self._is_in_group(PATIENT)

    @property
    def n_controls(self) -> int:
        """Number of controls."""
        return int(self.is_control.sum())

    @property
    def n_patients(self) -> int:
        """Number of patients."""
        return int(self.is_patient.sum())

    def take(self, rows: BoolArray | IntArray) -> "Cohort":
        """Select people.

        Parameters
        ----------
        rows : (N,) bool or array of int
            Mask or positions of the rows; their order does not matter.

        Returns
        -------
        Cohort
            The selected people in the order of this cohort.
        """
        positions = np.flatnonzero(rows) if rows.dtype == bool else np.sort(rows)
        taken = _reorder_rows(self, positions)
        if self.visits is None:
            return taken
        is_taken = self.visits.people[ID].isin(taken.people[ID]).to_numpy()
        return replace(taken, visits=self.visits.take(is_taken))

    def fingerprint(self) -> str:
        """Hash everything that training uses: people, groups, covariates, regions and
        volumes, in any order of rows.

        Returns
        -------
        str
            Hexadecimal SHA-256.
        """
        names = [list(self.people.columns), list(self.covariates.columns), self.regions]
        cells = zip(
            *list_json_columns(self.people),
            *list_json_columns(self.covariates),
            strict=True,
        )
        volumes = np.ascontiguousarray(self.volumes.to_numpy(dtype="<f8"))
        rows = [
            json.dumps(row).encode() + values.tobytes()
            for row, values in zip(cells, volumes, strict=True)
        ]
        digest = hashlib.sha256(json.dumps(names).encode())
        for row_digest in sorted(hashlib.sha256(row).digest() for row in rows):
            digest.update(row_digest)
        if self.visits is not None:
            digest.update(self.visits.fingerprint().encode())
        return digest.hexdigest()

    def _is_in_group(self, label: str) -> BoolArray:
        if GROUP not in self.people:
            return np.zeros(len(self), dtype=bool)
        return np.asarray(self.people[GROUP] == label, dtype=bool)


def list_json_columns(frame: pd.DataFrame) -> list[list[object]]:
    """Return the cells column by column as values that JSON can write."""
    return [
        frame[column].astype(float).tolist()
        if pd.api.types.is_numeric_dtype(frame[column])
        else [None if pd.isna(value) else str(value) for value in frame[column]]
        for column in frame.columns
    ]


def describe_cohort(cohort: Cohort) -> dict[str, Any]:
    """Return the size of a cohort and the distribution of each covariate in each group,
    for JSON.
    """
    groups = {
        "all": cohort.covariates,
        "control": cohort.covariates[cohort.is_control],
        "patient": cohort.covariates[cohort.is_patient],
    }
    return {
        "source": cohort.source,
        "unit": cohort.unit,
        "people": len(cohort),
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
        "regions": cohort.n_regions,
        "covariates": [
            {
                "name": name,
                "groups": {
                    group: _summarise_covariate(frame[name])
                    for group, frame in groups.items()
                },
            }
            for name in cohort.covariates.columns
        ],
        "sites": _count_by_site(cohort),
        **({} if cohort.visits is None else {"scans": len(cohort.visits)}),
    }


def _summarise_covariate(values: pd.Series) -> dict[str, Any]:
    """Return mean, standard deviation and range of numbers, or the number of people in
    each category.
    """
    if pd.api.types.is_numeric_dtype(values) and values.nunique() > 2:
        known = np.sort(values.dropna().to_numpy(dtype=float))
        statistics = {"mean": float(known.mean()), "sd": float(known.std(ddof=1))}
        return statistics | _bound(known)
    counts = values.value_counts().sort_index()
    names = [
        f"{level:g}" if isinstance(level, int | float) else str(level)
        for level in counts.index
    ]
    return {"counts": dict(zip(names, counts.tolist(), strict=True))}


def _bound(values: FloatArray) -> dict[str, float]:
    """Return bounds of sorted values (N,) with 5 % of people and at least five outside
    each, with three digits; nothing for less than twenty people.

    Halfway between two people, so that they are nobody's values.
    """
    n_outside = max(_MIN_OUTSIDE, len(values) // 20)
    if len(values) < 4 * _MIN_OUTSIDE:
        return {}
    low, high = (
        values[[n_outside - 1, n_outside]].mean(),
        values[[-n_outside - 1, -n_outside]].mean(),
    )
    return {"low": float(f"{low:.3g}"), "high": float(f"{high:.3g}")}


def _count_by_site(cohort: Cohort) -> dict[str, dict[str, int]]:
    """Return the number of people of each group at each site; empty without sites."""
    if SITE not in cohort.people or GROUP not in cohort.people:
        return {}
    table = pd.crosstab(cohort.people[SITE], cohort.people[GROUP])
    return {
        str(site): {str(group): int(number) for group, number in row.items()}
        for site, row in table.iterrows()
    }


def order_people(cohort: Cohort, seed: int) -> IntArray:
    """Return the positions (N,) of people in the order of a hash of their values and a
    seed.

    Random draws depend on the order of people. In this order they depend neither on ids
    nor on the order of rows, so a study with other pseudonyms has the same members,
    permutations and halves.

    cohort: the volumes of its rows are hashed, in the order of the names of regions,
    with six significant digits. Returns (N,), people with the same hash are ordered by
    group, site and covariates; those who are equal in all of these by id.
    """
    names = sorted(cohort.volumes.columns)
    hashes = hash_rows(cohort.volumes[names].to_numpy(dtype=float), str(seed))
    people = cohort.people.drop(columns=ID)
    cells = [*list_json_columns(people), *list_json_columns(cohort.covariates)]
    others = [str(row) for row in zip(*cells, strict=True)] or [""] * len(hashes)
    ids = cohort.people[ID].astype(str).tolist()
    return sort_keys(list(zip(hashes, others, ids, strict=True)))


def sort_keys(keys: Sequence[Any]) -> IntArray:
    """Return the positions (N,) of keys in ascending order; equal keys keep their
    order.
    """
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.intp)


def sort_people(cohort: Cohort, seed: int) -> Cohort:
    """Return a cohort with its people, and their visits, in the order of
    `order_people`.
    """
    cohort = _reorder_rows(cohort, order_people(cohort, seed))
    if cohort.visits is None:
        return cohort
    rank = dict(zip(cohort.people[ID], range(len(cohort)), strict=True))
    order = np.argsort(cohort.visits.people[ID].map(rank).to_numpy(), kind="stable")
    return replace(cohort, visits=_reorder_rows(cohort.visits, order))


def _reorder_rows(cohort: Cohort, positions: AnyArray) -> Cohort:
    frames = (cohort.volumes, cohort.people, cohort.covariates)
    volumes, people, covariates = (
        frame.iloc[positions].reset_index(drop=True) for frame in frames
    )
    return replace(cohort, volumes=volumes, people=people, covariates=covariates)


def keep_first_scans(cohort: Cohort, where: str = "") -> tuple[Cohort, list[Problem]]:
    """Return the first scan of each person, because scans of one person are not
    independent.

    The cohort is unchanged if no one has several scans. Otherwise a note names the
    sessions and the numbers of people and of rows that are left out.

    Parameters
    ----------
    cohort : Cohort
        All scans.
    where : str
        The file, for the message.
    """
    if SESSION not in cohort.people or not cohort.people[ID].duplicated().any():
        return cohort, []
    rows = find_first_scans(cohort.people)
    counts = Counter(str(session) for session in cohort.people[SESSION].iloc[rows])
    used = join_names(
        f"{session} ({format_count(n, 'person', 'people')})"
        for session, n in counts.most_common()
    )
    what = (
        f"{format_count(len(rows), 'person has', 'people have')} {len(cohort):,} scans; fit uses the first session of "
        f"each person: {used}; {format_count(len(cohort) - len(rows), 'row is', 'rows are')} left out"
    )
    cure = (
        "Use apply for the other sessions, or give the rows of another session to fit"
    )
    return cohort.take(rows), [
        Problem(
            severity=Severity.NOTE,
            what=what,
            where=where,
            cure=cure,
            code=ProblemCode.REPEATED_SCANS,
        )
    ]


def find_first_scans(people: pd.DataFrame) -> IntArray:
    """Return the row of each person's first session, in ascending order."""
    order = sort_keys([make_session_key(str(session)) for session in people[SESSION]])
    return np.sort(order[~people[ID].iloc[order].duplicated().to_numpy()])


def attach_visits(cohort: Cohort, where: str = "") -> tuple[Cohort, list[Problem]]:
    """Return the first scan of each person, with all scans as ``visits``.

    Scans at which a person belongs to another group than at the first one are left out.
    The cohort is unchanged if no one has several scans. Otherwise a note gives the
    numbers of people and of scans.

    Parameters
    ----------
    cohort : Cohort
        All scans.
    where : str
        The file, for the message.
    """
    first = keep_first_scans(cohort)[0]
    if first is cohort:
        return cohort, []
    visits = cohort
    if GROUP in cohort.people:
        groups = cohort.people[ID].map(first.people.set_index(ID)[GROUP])
        visits = cohort.take((cohort.people[GROUP] == groups).to_numpy(dtype=bool))
    n_changed = len(cohort) - len(visits)
    changed = (
        f", without {format_count(n_changed, 'scan')} at which the group has changed"
        if n_changed
        else ""
    )
    what = f"patterns are learnt from {len(visits):,} scans of {format_count(len(first), 'person', 'people')}{changed}"
    cure = "Use --visits first to learn from the first session of each person alone"
    return replace(first, visits=visits), [
        Problem(
            severity=Severity.NOTE,
            what=what,
            where=where,
            cure=cure,
            code=ProblemCode.REPEATED_SCANS,
        )
    ]


def find_visit_times(visits: Cohort) -> FloatArray:
    """Return the time of each scan (V,): a covariate that grows from scan to scan in
    everyone, as age does.

    Without such a covariate, the number of the scan in the order of the sessions.
    """
    ids = visits.people[ID].to_numpy()
    order = _sort_visits(ids, visits.people[SESSION])
    is_same_person = ids[order][1:] == ids[order][:-1]
    for name in visits.covariates:
        if pd.api.types.is_numeric_dtype(visits.covariates[name]):
            times: FloatArray = visits.covariates[name].to_numpy(dtype=float)
            if (np.diff(times[order])[is_same_person] > 0).all():
                return times
    numbers = np.empty(len(visits))
    numbers[order] = pd.Series(ids[order]).groupby(ids[order]).cumcount().to_numpy()
    return numbers


def _sort_visits(ids: Iterable[object], sessions: Iterable[object]) -> IntArray:
    """Return the positions of visits by person and session."""
    return sort_keys(
        [
            (str(name), make_session_key(str(each)))
            for name, each in zip(ids, sessions, strict=True)
        ]
    )


def check_visits(table: Table, people: pd.DataFrame, findings: Findings) -> None:
    """Refuse visits of one id that cannot be of one person: two sexes, ages that fall
    or are too far apart.

    table: with sessions; people (N, ...): columns about the people.
    """
    ids, sessions = table.ids, table.sessions or []
    if len(set(ids)) == len(ids):
        return
    joined = f"{table.session_column or 'COLUMN'},{table.id_column}"
    cure = f"If they are different people, join columns to unique IDs: --id {joined}. Otherwise correct the values"
    order = _sort_visits(ids, sessions)
    names = pd.Series([ids[row] for row in order])
    sex, age = (find_column(people.columns, kinds) for kinds in (SEX_NAMES, AGE_NAMES))
    if sex is not None:
        initials = (
            normalise_labels(people[sex].iloc[order])
            .reset_index(drop=True)
            .str.lower()
            .str[:1]
        )
        n_sexes = initials.groupby(names).nunique()
        mixed = [str(name) for name in n_sexes.index[n_sexes > 1]]
        if mixed:
            what = f"visits of {format_count(len(mixed), 'id')} have two sexes"
            findings.error(
                ProblemCode.CONTRADICTORY_VISITS,
                what,
                cure,
                subject=sex,
                offenders=mixed,
            )
    if age is not None:
        ages = pd.to_numeric(people[age].iloc[order], errors="coerce").reset_index(
            drop=True
        )
        by_person = ages.groupby(names)
        falls = by_person.diff().groupby(names).min() < -_AGE_TOLERANCE
        is_wrong = falls | (
            by_person.max() - by_person.min() > MAX_YEARS_BETWEEN_VISITS
        )
        wrong = [str(name) for name in is_wrong.index[is_wrong]]
        if wrong:
            what = (
                f"ages of {format_count(len(wrong), 'id')} fall from session to session"
            )
            what += f", or are more than {MAX_YEARS_BETWEEN_VISITS} years apart"
            findings.error(
                ProblemCode.CONTRADICTORY_VISITS,
                what,
                cure,
                subject=age,
                offenders=wrong,
            )


def make_session_key(session: str) -> list[tuple[int, int, str]]:
    """Return a key by which sessions are sorted with their numbers as numbers, 2 before
    10, and pre before post.
    """
    words = re.findall(r"\d+|\D+", normalise_session(session))
    return [
        (0, int(word), "") if word.isdigit() else (1 + word.startswith("post"), 0, word)
        for word in words
    ]
