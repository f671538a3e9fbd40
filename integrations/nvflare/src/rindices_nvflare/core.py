"""All names of `rindices` that this package uses, and what a site and a server do with them.

A site computes sums over its people (`Site`). A server runs the study (`run_study`) and gets the sums through a
transport, which takes a `Request` to all sites and returns their answers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rindices.atomic import write_atomically, write_json
from rindices.errors import RindicesError, StudyError, describe_os_error, join_names
from rindices.federated import kinds
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.messages import Answer, Request
from rindices.federated.secure import MASKED
from rindices.federated.site import Site
from rindices.federated.subsets import GROUPS
from rindices.model.fitted import FittedModel
from rindices.study.config import StudyConfig, read_study
from rindices.study.preflight import resolve_study
from rindices.study.wrong_cells import check_cells

from rindices_nvflare.masks import Integers, to_integers

__all__ = [
    "DESCRIBE",
    "GROUPS",
    "LEAVES",
    "MASKED",
    "PUBLIC",
    "Answer",
    "FederatedResult",
    "FederatedSettings",
    "FittedModel",
    "Request",
    "RindicesError",
    "Site",
    "StudyError",
    "count_sets",
    "describe_os_error",
    "is_masked",
    "join_names",
    "list_sums",
    "make_settings",
    "open_site",
    "read_job_study",
    "run_study",
    "sum_people",
    "tabulate_people",
    "write_atomically",
    "write_json",
]

DESCRIBE = kinds.DESCRIBE
LEAVES: Mapping[str, str] = {name: kind.leaves for name, kind in kinds.KINDS.items() if name != DESCRIBE}
"""What leaves a site, by the kind of question."""
PUBLIC = "nvflare"
"""Stands for a site's key, because seeds travel with NVFLARE and there are no other keys."""


@dataclass(frozen=True)
class TotalsOnly:
    """Says to a `Site` that its sums are seen in the total of all sites alone.

    sites: names of all sites, by the list of this site.
    """

    sites: frozenset[str]
    public: str = PUBLIC

    @property
    def accepted(self) -> frozenset[str]:
        """Names of all sites: with them, a site gives sums for totals and refuses to give others."""
        return self.sites

    @property
    def left(self) -> dict[str, int]:
        """No site leaves: a study goes on with all sites, or ends."""
        return {}

    def check_sites(self, name: str, request: Request, sizes: Mapping[str, int]) -> None:
        """Refuse a request that names other sites, or other numbers of people of this site."""
        named = request.settings["sites"]
        if frozenset(named) != self.sites or dict(named[name]) != {"key": self.public, **sizes}:
            raise StudyError("other-sites: the request names other sites or other numbers of people than this site.")

    def mask(self, name: str, answer: Answer, request: Request) -> Integers:
        """Return numbers of people and sums as integers (n, 2); masks are added before they leave."""
        arrays = [answer.arrays[key].ravel() for key in kinds.get_answer_shapes(request)]
        return to_integers(np.concatenate([np.asarray(answer.numbers, dtype=float), *arrays]))


def open_site(name: str, study_file: Path, fewest: int, sites: Sequence[str] = ()) -> Site:
    """Return the site of the people whose table a study file names.

    name: of the site in the study; fewest: fewest people of a sum; sites: all sites if sums are masked, else none.
    """
    study = read_study(study_file)
    result, study = resolve_study(study, study_file.absolute().parent)
    checked = check_cells(result.cohort_or_raise(), study.run.seed, study.adjust, study.data.on_outlier)
    key: Any = TotalsOnly(frozenset(sites)) if sites else None
    return Site(name, checked.cohort_or_raise(), fewest, key=key)


def sum_people(site: Site, request: Request) -> tuple[list[int], dict[str, np.ndarray[Any, Any]]]:
    """Return numbers of people and the sums of a site; under masks they are one array of integers (n, 2)."""
    answer = site.answer(request)
    return [int(number) for number in answer.numbers], {name: np.asarray(each) for name, each in answer.arrays.items()}


def is_masked(request: Request) -> bool:
    """Return whether a request asks for sums that are seen in the total of all sites alone."""
    return "sites" in request.settings


def count_sets(request: Request) -> int:
    """Return how many numbers of people an answer to a request begins with."""
    return len(kinds.list_sets(request))


def list_sums(request: Request) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return the type and the shape of each array of the answer to a request: what leaves a site."""
    shapes, n_sets = kinds.get_answer_shapes(request), count_sets(request)
    if is_masked(request):
        return {MASKED: ("uint64", (n_sets + sum(int(np.prod(shape)) for shape in shapes.values()), 2))}
    return {"numbers": ("int64", (n_sets,)), **{name: ("float64", shape) for name, shape in shapes.items()}}


def tabulate_people(site: Site, model_file: Path) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    """Return the cross-fitted R-indices of the people of a site, and who is a patient (N,).

    model_file: of a model that these people were in.
    """
    return site.tabulate_people(FittedModel.load(model_file)), np.asarray(site.cohort.is_patient)


def make_settings(study: StudyConfig, masked: bool) -> dict[str, Any]:
    """Return what decides the numbers of a study, besides its people, as plain values."""
    harmonise = study.data.harmonise != "none"
    settings = FederatedSettings(study.model, study.run.seed, study.data.adjust, harmonise, masked=masked)
    return settings.to_dict()


def read_job_study(path: Path) -> StudyConfig:
    """Return the study of a file whose table stays at the sites."""
    return read_study(path, volumes="sites")


def run_study(
    ask: Callable[[Request], Mapping[str, Answer]],
    settings: Mapping[str, Any],
    out: Path,
    on_stage: Callable[[str], None],
) -> FederatedResult:
    """Run a study whose sums come from ``ask``, and write its files to a folder."""
    transport: Any = _Asking(ask)
    return run_federated_study(transport, FederatedSettings.from_dict(settings), out, on_stage, clear=lambda path: None)


@dataclass(frozen=True)
class _Asking:
    ask: Callable[[Request], Mapping[str, Answer]]
