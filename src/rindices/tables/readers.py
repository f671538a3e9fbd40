"""`read_cohort`: read a table into a validated cohort, or raise one error with all its problems."""

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

from rindices.tables.cohort import Cohort
from rindices.tables.table import ColumnRoles
from rindices.tables.validation.validate import TableRequest, validate_table

AnyPath = str | PathLike[str]
Labels = str | int | Sequence[str | int]


def read_cohort(
    volumes: AnyPath | Sequence[AnyPath],
    participants: AnyPath | None = None,
    *,
    group: str | None = None,
    controls: Labels = (),
    patients: Labels = (),
    covariates: str | Sequence[str] = (),
    site: str | None = None,
    id: str | None = None,
    session: str | None = None,
    participants_id: str | None = None,
    exclude: str | Sequence[str] = (),
    measure: str | None = None,
    include: str | Sequence[str] = (),
    missing_codes: Labels = (),
    on_missing: str = "model",
    impute_covariates: bool = False,
) -> Cohort:
    """Read a table of regional volumes and join it with its participants.

    Parameters
    ----------
    volumes : path or sequence of paths
        DLMUSE, FreeSurfer (asegstats2table, aparcstats2table: give both hemispheres), SynthSeg, ENIGMA, SurrealGAN
        or any wide table, separated by comma, tab, semicolon or blanks, or parquet; or a folder of FastSurfer subjects.
    participants : path, optional
        Table of the participants; joined by id (and session), never by row order.
    group : str, optional
        Column of the diagnosis.
    controls, patients : str or sequence of str
        Labels of the two groups; may be left out where they are unmistakable.
    covariates : sequence of str
        Columns to adjust for; ``icv`` is the intracranial volume of the table.
    site : str, optional
        Column of the site or scanner.
    id, session : str, optional
        Columns of the ids and sessions, if they have unusual names.
    participants_id : str, optional
        Column of the ids in ``participants``, if it has another name there.
    exclude : sequence of str
        Regions to leave out.
    measure : {'volume', 'thickness', 'area', 'any'}, optional
        Use columns of this kind alone. Left out, all kinds are used, but a table without any volume is refused.
    include : sequence of str
        ``ventricles``, or columns that are left out otherwise.
    missing_codes : sequence of str or int
        Values that stand for missing, such as -9999; ``none`` if there are none, which turns the search for them off.
    on_missing : {'model', 'drop', 'error'}
        What to do with people who lack a region. ``model``: keep them; their missing cells are NaN, and `rindices.fit`
        uses the cells that they have. ``drop``: leave them out, also people without a covariate or a label. ``error``:
        stop. People without a covariate or a label are an error, except with ``drop``.
    impute_covariates : bool
        Keep people without a covariate, whose cell is NaN then. The adjustment predicts it from their other covariates,
        as learnt from controls.

    Returns
    -------
    Cohort

    Raises
    ------
    TableError
        With all errors, each with its file and what to do about it.
    """
    request = make_request(
        volumes,
        participants,
        ColumnRoles(id, session, group, site, tuple(_to_list(covariates)), participants_id),
        controls=controls,
        patients=patients,
        exclude=exclude,
        measure=measure,
        include=include,
        missing_codes=missing_codes,
        on_missing=on_missing,
        impute_covariates=impute_covariates,
    )
    return validate_table(request).cohort_or_raise()


def make_request(
    volumes: AnyPath | Sequence[AnyPath],
    participants: AnyPath | None,
    roles: ColumnRoles,
    *,
    controls: Labels = (),
    patients: Labels = (),
    exclude: str | Sequence[str] = (),
    measure: str | None = None,
    include: str | Sequence[str] = (),
    missing_codes: Labels = (),
    on_missing: str = "report",
    impute_covariates: bool = False,
) -> TableRequest:
    """Return a request; each argument may be a single value or a sequence."""
    return TableRequest(
        volumes=tuple(Path(path) for path in _to_list(volumes)),
        participants=None if participants is None else Path(participants),
        roles=roles,
        controls=tuple(_to_list(controls)),
        patients=tuple(_to_list(patients)),
        exclude=tuple(_to_list(exclude)),
        measure=measure,
        on_missing=on_missing,
        include=tuple(_to_list(include)),
        missing_codes=tuple(_to_list(missing_codes)),
        impute_covariates=impute_covariates,
    )


def _to_list(value: object) -> list[str]:
    """Return a value or a sequence of values as a list of text."""
    if isinstance(value, str | PathLike) or not isinstance(value, Iterable):
        return [str(value)]
    return [str(item) for item in value]
