"""All names of `rindices` that this package uses, and what a site and a server do with
them.

A site computes sums over its people (`LocalPeople`). A server runs the study
(`run_study`) and gets the sums through a transport, which takes a `Request` to all
sites and returns their answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rindices.atomic import write_atomically, write_json
from rindices.errors import (
    RindicesError,
    StudyError,
    describe_os_error,
    format_count,
    join_names,
)
from rindices.learners.prepared_people import N_FOLDS
from rindices.model.fitted import FittedModel
from rindices.preprocess.measures import find_thickness
from rindices.preprocess.residualise import (
    CategoricalCovariate,
    build_coding,
    count_columns,
    is_head_size,
)
from rindices.study.config import StudyConfig, read_study
from rindices.study.outlying_measurements import check_cells
from rindices.study.preflight import resolve_study
from rindices.sums import kinds
from rindices.sums.messages import Answer, Request
from rindices.sums.people import LocalPeople
from rindices.sums.study import SumsResult, SumsSettings, run_study_from_sums
from rindices.sums.subsets import GROUPS
from rindices.tables.cohort import ID

from rindices_nvflare.masks import Integers, to_integers, to_numbers

__all__ = [
    "ALL_SITES",
    "DESCRIBE",
    "GROUPS",
    "LEAVES",
    "MASKED",
    "N_FOLDS",
    "Answer",
    "FittedModel",
    "LocalPeople",
    "Request",
    "RindicesError",
    "StudyError",
    "SumsResult",
    "VisitsError",
    "ask_for_masks",
    "count_sets",
    "describe_os_error",
    "describe_table",
    "find_fewest",
    "is_masked",
    "join_names",
    "list_sums",
    "make_settings",
    "open_site",
    "read_job_study",
    "read_total",
    "run_study",
    "sum_people",
    "tabulate_people",
    "write_atomically",
    "write_json",
]

DESCRIBE = kinds.DESCRIBE
LEAVES: Mapping[str, str] = {
    name: kind.leaves for name, kind in kinds.KINDS.items() if name != DESCRIBE
}
"""What leaves a site, by the kind of question."""
MASKED = "masked"
"""Setting of a request for masked sums, and name of the array of an answer that holds
them.
"""
ALL_SITES = "all sites"
"""Name of the total of all sites, where the answers of single sites are not seen."""
_AT_SITES = "sites"
_DECIDED_BY_JOB = {"adjust", "harmonise", "reference"}
"""Settings of a table that all sites have in common."""
_JOB_SETTINGS = {"data": {"volumes", "adjust", "harmonise"}, "run": {"seed"}}
"""Settings that a job can have, by section; a study checks those of ``model``."""


class VisitsError(StudyError):
    """People of a table have several visits."""


def open_site(name: str, study_file: Path) -> LocalPeople:
    """Return the people of the table that a study file names.

    Parameters
    ----------
    name : str
        Name of the site in the study.
    study_file : Path
        Its section ``data`` names the table.

    Raises
    ------
    VisitsError
        If people have several visits, and the study file does not say that the first
        ones are used.
    StudyError
        If the study file has settings that a study between sites cannot follow.
    """
    study = read_study(study_file)
    if unused := sorted(_DECIDED_BY_JOB & study.data.model_fields_set):
        raise StudyError(
            f"{join_names(unused)} of [data] in {study_file.name} cannot be decided by "
            "one site: leave it out here, and ask the centre for it."
        )
    result, study = resolve_study(study, study_file.absolute().parent)
    cohort = result.cohort_or_raise()
    if cohort.visits is not None:
        ids = cohort.visits.people[ID]
        number = ids[ids.duplicated()].nunique()
        raise VisitsError(
            f"{format_count(number, 'person has', 'people have')} several visits, and a study "
            f'between sites takes one of each: set visits = "first" in [data] of '
            f"{study_file.name}."
        )
    has_head_size = any(is_head_size(str(column)) for column in cohort.covariates)
    if has_head_size and find_thickness(cohort, study.data.icv_for) is not None:
        raise StudyError(
            "a study between sites adjusts thickness for head size as volumes are: if so, "
            f'set icv_for = "all" in [data] of {study_file.name}; for volumes alone, '
            'measure = "volume".'
        )
    checked = check_cells(cohort, study.run.seed, study.adjust, study.data.on_outlier)
    return LocalPeople(name, checked.cohort_or_raise())


def describe_table(site: LocalPeople, fewest: int) -> Answer:
    """Return numbers of people and facts about a table, without categories of fewer
    people than the fewest.
    """
    answer = site.answer(Request(kind=DESCRIBE, round=1))
    covariates = {name: dict(each) for name, each in answer.facts["covariates"].items()}
    for name, each in covariates.items():
        values = site.cohort.covariates[name]
        labels = values.map("{:g}".format) if each["numeric"] else values.astype(str)
        sizes = labels.value_counts()
        each["levels"] = [level for level in each["levels"] if sizes[level] >= fewest]
    return replace(answer, facts={**answer.facts, "covariates": covariates})


def ask_for_masks(request: Request) -> Request:
    """Return the request for sums that are seen in the total of all sites alone."""
    return replace(request, settings={**request.settings, MASKED: True})


def is_masked(request: Request) -> bool:
    """Return whether a request asks for sums that are seen in the total of all sites
    alone.
    """
    return bool(request.settings.get(MASKED, False))


def sum_people(
    site: LocalPeople, request: Request
) -> tuple[list[int], dict[str, np.ndarray[Any, Any]]]:
    """Return numbers of people and the sums of a site; where masks are asked for, as
    one array of integers (n, 2).
    """
    answer = site.answer(request)
    numbers = [int(number) for number in answer.numbers]
    if not is_masked(request):
        return numbers, {name: np.asarray(each) for name, each in answer.arrays.items()}
    arrays = [answer.arrays[key].ravel() for key in kinds.get_answer_shapes(request)]
    return numbers, {
        MASKED: to_integers(np.concatenate([np.asarray(numbers, dtype=float), *arrays]))
    }


def read_total(request: Request, total: Integers) -> Answer:
    """Return the sums of all sites from their total (n, 2), in which masks have
    cancelled.
    """
    n_sets, values, arrays = count_sets(request), to_numbers(total), {}
    start = n_sets
    for name, shape in kinds.get_answer_shapes(request).items():
        end = start + int(np.prod(shape))
        arrays[name], start = values[start:end].reshape(shape), end
    return Answer(
        request=request.digest,
        numbers=[round(number) for number in values[:n_sets].tolist()],
        arrays=arrays,
    )


def find_fewest(
    request: Request, numbers: Sequence[int], arrays: Mapping[str, np.ndarray[Any, Any]]
) -> int:
    """Return the fewest people of a sum, other than nobody: of a set, or of a category
    of a covariate.

    The product of an indicator and a region is a sum over the people of one category,
    and the round ``means`` has their number.
    """
    counts = [float(number) for number in numbers]
    if request.kind == kinds.MEANS:
        start = 0
        for record in request.settings["codings"]:
            coding = build_coding(record)
            end = start + count_columns(coding)
            if isinstance(coding, CategoricalCovariate):
                for number, sums in zip(
                    numbers, arrays["sum"][:, start:end], strict=True
                ):
                    counts += [*sums.tolist(), number - float(sums.sum())]
            start = end
    return round(min((count for count in counts if count > 0.5), default=0.0))


def count_sets(request: Request) -> int:
    """Return how many numbers of people an answer to a request begins with."""
    return len(kinds.list_sets(request))


def list_sums(request: Request) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the type and the shape of each array of the answer to a request: what
    leaves a site.
    """
    shapes, n_sets = kinds.get_answer_shapes(request), count_sets(request)
    if is_masked(request):
        return {
            MASKED: (
                "uint64",
                (n_sets + sum(int(np.prod(shape)) for shape in shapes.values()), 2),
            )
        }
    return {
        "numbers": ("int64", (n_sets,)),
        **{name: ("float64", shape) for name, shape in shapes.items()},
    }


def tabulate_people(
    site: LocalPeople, model_file: Path
) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return the cross-fitted R-indices of the people of a site, and who is a patient
    (N,).

    model_file: of a model that these people were in.
    """
    return site.tabulate_people(FittedModel.load(model_file)), np.asarray(
        site.cohort.is_patient
    )


def make_settings(study: StudyConfig, masked: bool) -> dict[str, Any]:
    """Return what decides the numbers of a study, besides its people, as
    plain values.
    """
    settings = SumsSettings(
        model=study.model,
        seed=study.run.seed,
        adjust=study.data.adjust,
        by_site=True,
        harmonise=study.data.harmonise != "none",
        with_effects=not masked,
    )
    return {**settings.to_dict(), MASKED: masked}


def read_job_study(path: Path) -> StudyConfig:
    """Return the study of a file whose table stays at the sites.

    Raises
    ------
    StudyError
        If the file has settings that do not affect a study between sites.
    """
    study = read_study(path, volumes=_AT_SITES)
    unused = [
        f"[{section}] {name}"
        for section, used in _JOB_SETTINGS.items()
        for name in sorted(getattr(study, section).model_fields_set - used)
    ]
    if study.data.volumes != (_AT_SITES,):
        unused.append("[data] volumes")
    if study.data.harmonise == "all":
        unused.append('[data] harmonise = "all"')
    if unused:
        raise StudyError(
            f"{join_names(unused)} in {path.name} cannot be used by a job: leave it out; "
            "columns are named in the study file of each site."
        )
    return study


def run_study(
    ask: Callable[[Request], Mapping[str, Answer]],
    settings: Mapping[str, Any],
    out: Path,
    on_stage: Callable[[str], None],
) -> SumsResult:
    """Run a study whose sums come from ``ask``, and write its files to a folder."""
    transport: Any = _Asking(ask)
    own = SumsSettings.from_dict(
        {name: value for name, value in settings.items() if name != MASKED}
    )
    return run_study_from_sums(transport, own, out, on_stage, clear=lambda path: None)


@dataclass(frozen=True)
class _Asking:
    ask: Callable[[Request], Mapping[str, Answer]]
