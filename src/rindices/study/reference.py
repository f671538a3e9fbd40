"""Read the reference population of a study."""

from dataclasses import replace
from pathlib import Path

from rindices.errors import ProblemCode
from rindices.model.normal_reference import MUSE_REFERENCE, NormalReference, load_reference_file
from rindices.study.config import DataConfig
from rindices.tables.sessions import keep_first_scans
from rindices.tables.validation.validate import TableRequest, validate_table


def read_reference(data: DataConfig, folder: Path) -> NormalReference | None:
    """Return the reference that a study names.

    Parameters
    ----------
    data : DataConfig
        Its ``reference`` is ``muse``, a file of ``rindices reference``, or a table of healthy people, which is read
        with the column names of the study's table.
    folder : Path
        Folder that paths are relative to.

    Returns
    -------
    NormalReference or None
        None if the study names none.

    Raises
    ------
    TableError
        If the table cannot be read.
    ModelError
        If the file is not a reference, or too few people are in the table.
    """
    if data.reference is None:
        return None
    if data.reference == MUSE_REFERENCE:
        return load_reference_file(MUSE_REFERENCE)
    path = folder / data.reference
    if path.suffix == ".safetensors":
        return load_reference_file(path)
    request = replace(data.request(folder), volumes=(path,), participants=None, controls=(), patients=())
    roles = replace(request.roles, group=None, site=None, participants_id=None)
    return fit_reference(replace(request, roles=roles, on_missing="drop"), data.adjust)


def fit_reference(request: TableRequest, adjust: str | None = None) -> NormalReference:
    """Learn a reference from a table of healthy people.

    Parameters
    ----------
    request : TableRequest
        With one table. If it names no column of sites, a column with a usual name is used. Of people with several
        scans, the first one is used.
    adjust : {'log', 'linear', 'none'}, optional
        Scale of the adjustment for covariates.
    """
    result = validate_table(request)
    sites = [problem.subject for problem in result.problems if problem.code is ProblemCode.SITE_COLUMN_POSSIBLE]
    if sites:
        result = validate_table(replace(request, roles=replace(request.roles, site=sites[0])))
    cohort, _ = keep_first_scans(result.cohort_or_raise())
    return NormalReference.fit(cohort, request.volumes[0].name, adjust)
