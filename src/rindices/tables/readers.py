"""Read a table into a validated cohort, R-indices, and another table of the same
people.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import TypeAlias, cast

import numpy as np
import pandas as pd

import rindices.errors as errors
from rindices.tables.arguments import (
    DataFrameOfArrow,
    check_table,
    check_tables,
    is_frame,
    to_pandas,
)
from rindices.tables.checks.values import as_numbers
from rindices.tables.cohort import ID, SESSION, Cohort
from rindices.tables.layouts import column_names
from rindices.tables.options import TableOptions, make_options
from rindices.tables.participants import join_participants
from rindices.tables.sources.frames import MemoryTable, locate, to_text
from rindices.tables.table import ColumnRoles, Table, read_participants
from rindices.tables.validate import TableRequest, validate_table

CHOICES = errors.parse_codes(
    "covariates_used sites_used sites_not_used sites_left_out sessions_used group_column_guessed labels_guessed "
    "labels_folded"
)
"""Notes about what was decided about a table because the user did not say it."""
_PEOPLE_FILE_SUFFIX = ".txt"
_LOGGER = logging.getLogger("rindices")


def read_indices(path: Path, findings: errors.Findings) -> pd.DataFrame:
    """Read ``r_indices.tsv``: ``participant_id``, ``session_id`` if there are sessions,
    r1, r2, ...

    People without any R-index are left out, with a note.
    """
    table = read_participants(path, ColumnRoles(), [], findings)
    findings = findings.at(table.where)
    indices = _prepend_ids(table, table.frame, findings)
    return indices[_have_index(indices, findings)].reset_index(drop=True)


def read_indices_with_variables(
    path: Path, other: Path, roles: ColumnRoles, findings: errors.Findings
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Read R-indices and a table of the same people.

    Both are returned with the same people in the same order, without those who have no
    R-index. In a column of mostly numbers, other cells are missing, with a warning.

    Parameters
    ----------
    path : Path
        The R-indices.
    other : Path
        Clinical or other variables. The spelling of IDs may differ a little.
    roles : ColumnRoles
        Columns of ID and session in the other table, if they have unusual names.
    findings : Findings
        Collects the problems.
    """
    table = read_participants(path, ColumnRoles(), [], findings)
    people = join_participants(table, other, roles, findings)
    if n_absent := len({table.ids[row] for row in np.flatnonzero(people.unmatched)}):
        what = f"{errors.format_count(n_absent, 'person', 'people')} with R-indices have no row"
        people.findings.note(errors.ProblemCode.UNMATCHED_IDS, what)
    unusual = [name for name in (roles.id, roles.session) if name]
    variables = _prepend_ids(table, people.frame, people.findings, unusual)
    indices = _prepend_ids(table, table.frame, findings.at(table.where))
    rows = _have_index(indices, findings.at(table.where))
    return indices[rows].reset_index(drop=True), variables[rows].reset_index(drop=True)


def _have_index(indices: pd.DataFrame, findings: errors.Findings) -> pd.Series:
    """Return who has an R-index (N,), and note the others."""
    values = indices.filter(regex=r"^r\d+$")
    rows = (
        values.notna().any(axis=1)
        if values.shape[1]
        else pd.Series(True, indices.index)
    )
    if not rows.all():
        what = f"{errors.format_count(int((~rows).sum()), 'person has', 'people have')} no R-index; left out"
        findings.note(errors.ProblemCode.PEOPLE_WITHOUT_INDEX, what)
    return rows


def _prepend_ids(
    table: Table,
    frame: pd.DataFrame,
    findings: errors.Findings,
    id_names: Sequence[str] = (),
) -> pd.DataFrame:
    """Return the columns of a frame after the ids of a table, without the frame's
    columns of ids.
    """
    id_names = (*column_names.ID_NAMES, *column_names.SESSION_NAMES, *id_names)
    frame = frame[
        [
            name
            for name in frame.columns
            if not column_names.find_column([name], id_names)
        ]
    ]
    keys = {ID: table.ids} | (
        {} if table.sessions is None else {SESSION: table.sessions}
    )
    columns = [
        _convert_column(frame[name], table.ids, findings) for name in frame.columns
    ]
    return pd.concat(
        [pd.DataFrame(keys), *(column.reset_index(drop=True) for column in columns)],
        axis=1,
    )


def _convert_column(
    values: pd.Series, ids: list[str], findings: errors.Findings
) -> pd.Series:
    """Return a column of mostly numbers as numbers, any other as text."""
    if not column_names.is_mostly_numeric(values):
        return to_text(values).rename(values.name)
    problems = errors.Findings(where=findings.where)
    numbers = as_numbers(values.to_frame(), ids, problems).iloc[:, 0]
    cure = "These cells count as missing"
    findings.problems += [
        replace(problem, severity=errors.Severity.WARNING, cure=cure)
        for problem in problems
    ]
    return numbers


AnyTable: TypeAlias = str | PathLike[str] | pd.DataFrame | DataFrameOfArrow
Labels = str | int | Sequence[str | int]


def read_cohort(
    volumes: AnyTable | Sequence[AnyTable],
    participants: AnyTable | None = None,
    *,
    group: str | None = None,
    controls: Labels = (),
    patients: Labels = (),
    covariates: str | Sequence[str] | None = None,
    site: str | None = None,
    id: str | None = None,
    session: str | None = None,
    participants_id: str | None = None,
    exclude: str | Sequence[str] = (),
    measure: str | None = None,
    include: str | Sequence[str] = (),
    missing_codes: Labels = (),
    on_missing: str = "model",
    on_suspect: str = "error",
    impute_covariates: bool = False,
    leave_out_sites: str | Sequence[str] = (),
    exclude_people: str | int | PathLike[str] | Sequence[str | int] = (),
) -> Cohort:
    """Read a table of regional volumes and join it with its participants.

    Parameters
    ----------
    volumes : path, DataFrame, or sequence of them
        DLMUSE, FreeSurfer (asegstats2table, aparcstats2table: give both hemispheres),
        SynthSeg, ENIGMA, SurrealGAN or any wide table, separated by comma, tab,
        semicolon or blanks, parquet, or xlsx. Or a folder of FastSurfer subjects. Data
        frames may be of pandas, polars, pyarrow or another library that narwhals
        knows.
    participants : path or DataFrame, optional
        Table of the participants. Rows are joined by ID (and session), never by their
        order.
    group : str, optional
        Column of the diagnosis.
    controls, patients : str or sequence of str
        Labels of the two groups. They can be left out where they are unmistakable.
    covariates : sequence of str, optional
        Columns to adjust for, or ``none``. ``icv`` is the intracranial volume of the
        table. By default age, sex and head size, where they are recognised by name.
    site : str, optional
        Column of the site or scanner, whose effects `rindices.fit` removes, or
        ``none``. By default, a column with a usual name that holds several sites.
    id, session : str, optional
        Columns of the IDs and sessions, if they have unusual names.
    participants_id : str, optional
        Column of the IDs in ``participants``, if it has another name there.
    exclude : sequence of str
        Regions to leave out.
    measure : {'volume', 'thickness', 'area', 'any'}, optional
        Use columns of this kind alone. Left out, all kinds are used, but a table
        without any volume is refused.
    include : sequence of str
        ``ventricles``, or columns that are left out otherwise.
    missing_codes : sequence of str or int
        Values that stand for missing, such as -9999. ``none`` turns off the search for
        them.
    on_missing : {'model', 'drop', 'error'}
        What to do with people who lack a region. ``model`` keeps them with NaN, and
        `rindices.fit` uses the regions that they have. ``drop`` leaves them out, and
        also people without a covariate or a label. ``error`` stops. People without a
        covariate or a label are an error, except with ``drop``.
    on_suspect : {'error', 'keep'}
        What to do with blocks of people that look wrong as a whole, such as a site
        whose volumes have another unit, shifted columns or rows, left and right
        exchanged, or duplicate people. ``error`` stops, ``keep`` warns.
    impute_covariates : bool
        Keep people who lack a covariate, as NaN. The adjustment predicts it from their
        other covariates, as learnt from controls.
    leave_out_sites : sequence of str
        Sites whose people are left out.
    exclude_people : sequence of str, or path
        IDs of people to leave out, such as those with outlying measurements, or a
        ``.txt`` file with one ID per line. An ID that nobody has is an error.

    Returns
    -------
    Cohort
        The people.

    Raises
    ------
    TableError
        With all errors, each with its file and what to do about it.

    Examples
    --------
    >>> import pandas as pd
    >>> import rindices as ri
    >>> made = ri.simulate_cohort("tiny", seed=0).cohort
    >>> volumes = made.volumes.assign(participant_id=made.people["participant_id"])
    >>> participants = pd.concat([made.people, made.covariates], axis=1)
    >>> ri.read_cohort(volumes, participants, group="group", covariates=["age", "sex"])
    <Cohort: 180 people, 80 controls, 100 patients, 139 regions (dlmuse, mm3)>
    """
    check_tables(volumes, "volumes")
    if participants is not None:
        check_table(participants, "participants")
    options = make_options(
        group=group,
        controls=controls,
        patients=patients,
        covariates=covariates,
        site=site,
        id=id,
        session=session,
        participants_id=participants_id,
        exclude=exclude,
        measure=measure,
        include=include,
        missing_codes=missing_codes,
        on_missing=on_missing,
        on_suspect=on_suspect,
        impute_covariates=impute_covariates,
        leave_out_sites=leave_out_sites,
        exclude_people=exclude_people,
    )
    request = replace(
        make_request(volumes, participants, options), can_exclude_people=True
    )
    return _read_and_warn(request)


def _read_and_warn(request: TableRequest) -> Cohort:
    """Read a cohort, and log its warnings and what was decided about it."""
    with errors.name_arguments():
        result = validate_table(request)
        for problem in result.problems:
            if problem.severity is errors.Severity.WARNING or problem.code in CHOICES:
                _LOGGER.warning("%s", errors.name_problem_arguments(problem))
        return result.cohort_or_raise()


def make_request(
    volumes: AnyTable | Sequence[AnyTable],
    participants: AnyTable | None,
    options: TableOptions,
) -> TableRequest:
    """Return the request to read tables, with the IDs of people in place of files of
    IDs.
    """
    is_one = isinstance(volumes, str | PathLike) or is_frame(volumes)
    tables = cast("Sequence[AnyTable]", [volumes] if is_one else volumes)
    people = tuple(_read_people_files(options.exclude_people))
    return TableRequest(
        volumes=tuple(_to_source(table, "volumes") for table in tables),
        participants=(
            None if participants is None else _to_source(participants, "participants")
        ),
        options=options.model_copy(update={"exclude_people": people}),
    )


def locate_people_files(folder: Path, names: Sequence[str]) -> list[str]:
    """Return ids of people, and paths of files of ids, which are relative
    to a folder.
    """
    return [
        str(locate(folder, name)) if name.endswith(_PEOPLE_FILE_SUFFIX) else name
        for name in names
    ]


def _read_people_files(names: Iterable[str]) -> Iterator[str]:
    """Yield ids of people, with the lines of a file in place of its name."""
    for name in names:
        if not name.endswith(_PEOPLE_FILE_SUFFIX):
            yield name
            continue
        try:
            lines = Path(name).read_text("utf-8-sig").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            reason = (
                errors.describe_os_error(error)
                if isinstance(error, OSError)
                else "it is not UTF-8 text"
            )
            what, findings = (
                f"the ids to leave out cannot be read ({reason})",
                errors.Findings(where=name),
            )
            findings.fatal(
                errors.ProblemCode.FILE_UNREADABLE,
                what,
                "Give a text file with one id a line",
            )
        yield from (line.strip() for line in lines if line.strip())


def _to_source(table: AnyTable, argument: str) -> Path | MemoryTable:
    return (
        locate(Path(), table)
        if isinstance(table, str | PathLike)
        else MemoryTable(to_pandas(table, argument), argument)
    )
