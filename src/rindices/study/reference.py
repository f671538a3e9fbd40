"""Read the reference population of a study."""

from dataclasses import replace
from pathlib import Path

from rindices.errors import Problem, ProblemCode
from rindices.model.normal_reference import MUSE_REFERENCE, NormalReference, load_reference_file
from rindices.preprocess.measures import DEFAULT_ICV_FOR
from rindices.study.config import DataConfig
from rindices.tables.cohort import keep_first_scans
from rindices.tables.table import NO_COLUMN
from rindices.tables.validate import TableRequest, validate_table


def read_reference(data: DataConfig, folder: Path) -> NormalReference | None:
    """Return the reference that a study names.

    data: its ``reference`` is ``muse``, a file of ``rindices reference``, or a table of healthy people, which is read
    with the column names of the study's table; folder: folder that paths are relative to. Returns none if the study
    names none. Raises TableError: if the table cannot be read. Raises ModelError: if the file is not a reference, or
    too few people are in the table.
    """
    if data.reference is None:
        return None
    if data.reference == MUSE_REFERENCE:
        return load_reference_file(MUSE_REFERENCE)
    path = folder / data.reference
    if path.suffix == ".safetensors":
        return load_reference_file(path)
    request = replace(data.request(folder), volumes=(path,), participants=None, controls=(), patients=())
    site = None if request.roles.site == NO_COLUMN else request.roles.site
    roles = replace(request.roles, group=None, participants_id=None, site=site)
    request = replace(request, roles=roles, on_missing="drop", impute_covariates=False)
    return fit_reference(request, data.adjust, is_other_table=True, icv_for=data.icv_for)[0]


def fit_reference(
    request: TableRequest, adjust: str | None = None, is_other_table: bool = False, icv_for: str = DEFAULT_ICV_FOR
) -> tuple[NormalReference, list[Problem]]:
    """Learn a reference from a table of healthy people.

    request: with one table. Of people with several scans, the first one is used; adjust: scale of the adjustment for
    covariates; is_other_table: whether sessions and sites are named for another table. They are left out if there are
    no such columns here; icv_for: regions that are adjusted for head size in a table with thickness and other measures.
    Returns reference; problems: notes and warnings about the table.
    """
    result = validate_table(request)
    absent = {problem.subject for problem in result.problems if problem.code is ProblemCode.UNKNOWN_COLUMN}
    if is_other_table and absent & {request.roles.session, request.roles.site}:
        roles = request.roles
        roles = replace(roles, session=None if roles.session in absent else roles.session)
        roles = replace(roles, site=None if roles.site in absent else roles.site)
        result = validate_table(replace(request, roles=roles))
    cohort, notes = keep_first_scans(result.cohort_or_raise())
    return NormalReference.fit(cohort, request.volumes[0].name, adjust, icv_for), [*result.problems, *notes]
