"""People of one part of a study, who answer requests with sums: those of a table in
parts, or of one site.

They need no memory of earlier rounds, so whoever holds them can be stopped and started
again at any time. What is summed is in the classes of `kinds`.

Shape letters: N people, R regions, P columns of the design, M patterns.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import RindicesError, format_count
from rindices.learners.missing_cells import complete_people
from rindices.learners.people_source import PeopleSet
from rindices.learners.prepared_people import HashArray, hash_people
from rindices.model.fitted import FittedModel
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.residualise import (
    build_coding,
    build_design_matrix,
    derive_codings,
)
from rindices.sums import kinds
from rindices.sums.batches import split_rows
from rindices.sums.messages import (
    COMPUTE_ERRORS,
    Answer,
    Preparation,
    Request,
    SumsError,
    check_arrays,
    get_prepared_arrays,
)
from rindices.sums.subsets import (
    EVERYONE,
    GROUPS,
    SubsetPlan,
    Subsets,
    list_folds,
    name_set,
    read_set,
)
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

MAX_MISSING = 0.5
"""Largest share of the regions of a person that may be missing."""
MIN_MEASURED = 10
"""People of a group who must have a region, so that it can be predicted for those in
whom it is missing.
"""


class LocalPeople:
    """People of one part, who are never sent.

    Parameters
    ----------
    name : str
        Name of the part.
    cohort : Cohort
        Controls and patients, one scan each. Missing cells are drawn
        (`complete_volumes`). People in whom covariates or most regions are missing are
        left out.

    Attributes
    ----------
    cohort : Cohort
        The people who are not left out.
    regions : tuple of str
    groups : dict of str to ndarray of shape (N,)
        Masks of controls and of patients.
    n_left_out : int
        Number of people who are left out.
    n_repeated : int
        Number of rows with an ID that an earlier row has; they are left out, too.
    """

    def __init__(self, name: str, cohort: Cohort) -> None:
        is_first = ~cohort.people[ID].duplicated().to_numpy()
        used = cohort.take(
            find_usable_people(cohort)
            & is_first
            & (cohort.is_control | cohort.is_patient)
        )
        self._missing = np.packbits(used.volumes.isna().to_numpy(dtype=bool), axis=1)
        used = complete_volumes(used)
        self.name, self.regions = name, cohort.regions
        self.n_left_out, self.n_repeated = (
            len(cohort) - len(used),
            int((~is_first).sum()),
        )
        self.cohort = replace(used, people=used.people.assign(**{SITE: name}))
        self.groups = {
            "controls": self.cohort.is_control,
            "patients": self.cohort.is_patient,
        }
        self._preparations: dict[str, tuple[list[bytes], Preparation]] = {}
        self._shifts: dict[tuple[str, int], FloatArray] = {}
        self._subsets: tuple[SubsetPlan, Subsets] | None = None

    @limit_blas_threads()
    def answer(self, request: Request) -> Answer:
        """Return the sums that a request asks for.

        Raises SumsError: if the request is not as it should be.
        """
        if any(not np.isfinite(array).all() for array in request.arrays.values()):
            raise SumsError(
                f"the request {request.kind} has parameters that are not finite."
            )
        try:
            kind = kinds.get_kind(request)
            shapes = kinds.get_answer_shapes(request)
            sums = kind.sum(self, request)
        except RindicesError:
            raise
        except COMPUTE_ERRORS as error:
            raise SumsError(
                f"the request {request.kind} cannot be computed ({error})."
            ) from error
        check_arrays(sums.arrays, shapes, f"the answer of {self.name}")
        return Answer(
            request=request.digest,
            numbers=sums.numbers,
            arrays=sums.arrays,
            facts=sums.facts,
        )

    def build_design(self, request: Request) -> FloatArray:
        """Return covariates (N, P) as they are regressed."""
        codings = [build_coding(record) for record in request.settings["codings"]]
        if list(request.settings["regions"]) != list(self.regions):
            raise SumsError("the request names other regions than the table here.")
        return build_design_matrix(codings, self.cohort.covariates)

    def get_columns(
        self,
        request: Request,
        design: FloatArray,
        rows: IntArray,
        harmoniser: Harmoniser | None = None,
    ) -> FloatArray:
        """Return covariates and regions (n, P + R) of some people, without the effect
        of the site, if it is given.
        """
        volumes = self.get_volumes(rows)
        volumes = np.log(volumes) if request.settings["adjust"] == "log" else volumes
        if harmoniser is not None:
            volumes = harmoniser.transform(
                volumes, design[rows], [self.name] * len(rows)
            )
        return np.concatenate([design[rows], volumes], axis=1)

    def get_centred(
        self,
        request: Request,
        design: FloatArray,
        harmoniser: Harmoniser | None,
        rows: IntArray,
    ) -> FloatArray:
        """Return the columns (n, P + R) of some people about the centre of
        the request.
        """
        return (
            self.get_columns(request, design, rows, harmoniser)
            - request.arrays["centre"]
        )

    def get_harmoniser(
        self, request: Request, key: str, design: FloatArray
    ) -> Harmoniser | None:
        """Return a harmoniser of a request, with the effect of this site, from its
        controls, if it is missing.
        """
        if "harmonise" not in request.settings:
            return None
        harmoniser = Harmoniser.from_parts(
            request.settings["harmonise"][key], get_prepared_arrays(request, key)
        )
        if self.name in harmoniser.sites:
            return harmoniser
        rows = np.flatnonzero(self._find_controls(request, key))
        if len(rows) < 2:
            raise SumsError(
                f'the effect of {self.name} needs at least two controls: leave the site out, or set harmonise = "none".'
            )
        volumes = self.get_columns(request, design, rows)[:, design.shape[1] :]
        return harmoniser.with_sites(volumes, design[rows], [self.name] * len(rows), 2)

    def select(self, request: Request, name: str, group: str) -> BoolArray:
        """Return the people (N,) of a set and a group."""
        return self.get_subsets(request).find(str(name), str(group))

    def select_patients(self, request: Request, name: str) -> FloatArray:
        """Return the shifts (n, R) of the patients of a set by the preparation of its
        member.
        """
        people, parts = read_set(name), []
        key = str(people.member)
        self.get_preparation(request, key)
        for fold in list_folds(people):
            if (key, fold) not in self._shifts:
                mask = self.select(
                    request, name_set(PeopleSet(fold, "unseen")), "patients"
                )
                self._shifts[key, fold] = self.compute_shifts(
                    request, key, np.flatnonzero(mask)
                )
            parts.append(self._shifts[key, fold])
        return np.concatenate(parts)

    def get_volumes(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people."""
        return np.asarray(self.cohort.volumes.to_numpy(dtype=float)[rows])

    def get_values(self, request: Request, key: str, rows: IntArray) -> FloatArray:
        """Return the values (n, R) of some people by a preparation."""
        volumes = pd.DataFrame(self.get_volumes(rows), columns=list(self.regions))
        cohort = replace(self.cohort.take(rows), volumes=volumes)
        return self.get_preparation(request, key).preprocessing.transform(cohort)

    def compute_shifts(self, request: Request, key: str, rows: IntArray) -> FloatArray:
        """Return the shifts (n, R) of some people by a preparation."""
        return self.get_preparation(request, key).head.prepare(
            self.get_values(request, key, rows)
        )

    def get_preparation(self, request: Request, key: str) -> Preparation:
        """Return a preparation of a request; shifts by another one of this key are
        forgotten.
        """
        arrays = get_prepared_arrays(request, key)
        content = [arrays[name].tobytes() for name in sorted(arrays)]
        if key not in self._preparations or self._preparations[key][0] != content:
            self._shifts = {
                each: shifts for each, shifts in self._shifts.items() if each[0] != key
            }
            own = Preparation.from_request(request, key)
            harmoniser = own.preprocessing.harmoniser
            if harmoniser is not None and self.name not in harmoniser.sites:
                seen = self.cohort.take(self._find_controls(request, key))
                own = replace(own, preprocessing=own.preprocessing.with_sites(seen, 2))
            self._preparations[key] = content, own
        return self._preparations[key][1]

    def get_subsets(self, request: Request) -> Subsets:
        """Return the sets of the plan of a request."""
        plan = SubsetPlan.from_dict(request.settings.get("plan", {}))
        if self._subsets is None or self._subsets[0] != plan:
            self._subsets = plan, self.make_subsets(plan)
        return self._subsets[1]

    def make_subsets(self, plan: SubsetPlan) -> Subsets:
        """Return the sets of a plan."""

        def hash_own_people(purpose: str) -> HashArray:
            batches = map(self._get_measured, split_rows(np.arange(len(self.cohort))))
            return np.concatenate(
                [hash_people(values, plan.seed, purpose) for values in batches]
            )

        return Subsets(hash_own_people, self.groups["patients"], plan)

    def describe_covariate(self, name: str) -> dict[str, Any]:
        """Return whether a covariate is a number, and else its categories."""
        values = self.cohort.covariates[name]
        is_numeric = bool(pd.api.types.is_numeric_dtype(values))
        if is_numeric and values.nunique() > 2:
            return {"numeric": True, "positive": bool((values > 0).all()), "levels": []}
        levels = [
            f"{float(level):g}" if is_numeric else str(level)
            for level in values.unique()
        ]
        return {"numeric": is_numeric, "positive": True, "levels": sorted(levels)}

    def tabulate_people(self, model: FittedModel) -> pd.DataFrame:
        """Return the cross-fitted R-indices of the people, by the model of a study that
        they were in.

        Each is the mean over the members of the model that have not seen the person,
        and empty without any.
        """
        settings: Mapping[str, Any] = (
            model.card.method.settings if model.card.method is not None else {}
        )
        if "numbers" not in settings:
            raise SumsError(
                "the model is not that of a study from sums: apply it with rindices apply."
            )
        harmoniser, plan = (
            model.preprocessing.harmoniser,
            SubsetPlan.from_dict(settings["plan"]),
        )
        subsets = self.make_subsets(plan)
        seen = [
            np.any(
                [
                    subsets.find(name_set(PeopleSet(int(number), "seen")), group)
                    for group in GROUPS
                ],
                axis=0,
            )
            for number in settings["numbers"]
        ]
        tables, unseen = [], ~np.stack(seen)
        if harmoniser is not None and self.name not in harmoniser.sites:
            is_control, own = self.cohort.is_control, []
            for pipeline, mask in zip(model.pipelines, seen, strict=True):
                rows = mask if (mask & is_control).sum() > 1 else np.ones_like(mask)
                own.append(pipeline.with_sites(self.cohort.take(rows), 2))
            model = replace(model.with_sites(self.cohort, 2), pipelines=tuple(own))
        for rows in split_rows(np.arange(len(self.cohort))):
            volumes = pd.DataFrame(self._get_measured(rows), columns=list(self.regions))
            tables.append(
                model.tabulate_own_people(
                    replace(self.cohort.take(rows), volumes=volumes), unseen[:, rows]
                )
            )
        return pd.concat(tables, ignore_index=True)

    def describe_people(self) -> str:
        """Return the numbers of people in words, for the screen."""
        people = (
            f"{self.cohort.n_controls} controls and {self.cohort.n_patients} patients"
        )
        left_out = (
            f" ({format_count(self.n_left_out, 'person', 'people')} left out)"
            if self.n_left_out
            else ""
        )
        return f"{people}, {len(self.regions)} regions{left_out}"

    def _find_controls(self, request: Request, key: str) -> BoolArray:
        """Return the controls (N,) from whom the effect of this site is learnt; all, if
        a member sees none of them.
        """
        name = "all" if key == EVERYONE else name_set(PeopleSet(int(key), "seen"))
        seen = self.select(request, name, "controls")
        return seen if seen.sum() > 1 else self.groups["controls"]

    def _get_measured(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people; missing cells are NaN."""
        is_missing = np.unpackbits(self._missing[rows], axis=1, count=len(self.regions))
        return np.where(is_missing, np.nan, self.get_volumes(rows))


def find_usable_people(cohort: Cohort) -> BoolArray:
    """Return who (N,) has all covariates and half of the regions, and no missing cell
    that the group cannot predict.
    """
    is_missing, is_usable = (
        cohort.volumes.isna().to_numpy(),
        ~cohort.covariates.isna().any(axis=1).to_numpy(),
    )
    if is_missing.any():
        is_usable &= is_missing.mean(axis=1) <= MAX_MISSING
        for mask in (cohort.is_control, cohort.is_patient):
            is_rare = (~is_missing[mask & is_usable]).sum(axis=0) < MIN_MEASURED
            is_usable &= ~(mask & is_missing[:, is_rare].any(axis=1))
    return np.asarray(is_usable)


def complete_volumes(cohort: Cohort) -> Cohort:
    """Return people whose missing cells are drawn from what their group, other cells
    and covariates predict.

    They are the people of one part: what is learnt of them does not leave.
    """
    volumes = cohort.volumes.to_numpy(dtype=float)
    is_missing = np.isnan(volumes)
    if not is_missing.any():
        return cohort
    design = build_design_matrix(derive_codings(cohort.covariates), cohort.covariates)
    is_positive = bool((volumes[~is_missing] > 0).all())
    joined = np.column_stack([design, np.log(volumes) if is_positive else volumes])
    drawn = complete_people(
        joined, cohort.is_patient.astype(np.intp), np.random.default_rng(0)
    )[:, design.shape[1] :]
    return replace(
        cohort,
        volumes=cohort.volumes.mask(
            is_missing, np.exp(drawn) if is_positive else drawn
        ),
    )
