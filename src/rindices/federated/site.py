"""A site: holds people and answers requests with sums over them.

It needs no memory of earlier rounds but the ledger of the sets that it has answered about (`privacy`), so it can be
stopped and started again at any time.

Shape letters: N people, R regions, P columns of the design.
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray
from rindices.errors import format_count
from rindices.federated import kinds, site_sums
from rindices.federated.exceptions import ExchangeError, RefusedError
from rindices.federated.messages import Answer, Request, compute_message_digest, pack_symmetric, unpack_symmetric
from rindices.federated.preparation import Preparation, check_arrays
from rindices.federated.privacy import FEWEST_PEOPLE, SetGuard
from rindices.federated.subsets import GROUPS, SubsetPlan, Subsets
from rindices.preprocess.estimate import get_volumes
from rindices.preprocess.residualise import build_coding, build_design_matrix
from rindices.tables.cohort import ID, Cohort
from rindices.threads import limit_blas_threads

MAX_ROUNDS = 300
"""Rounds after which a site refuses: a study takes fewer than 100, and each answer tells a little."""


class _Sums(NamedTuple):
    """Sums and the number of people in each."""

    arrays: dict[str, FloatArray]
    counts: dict[str, int]
    facts: dict[str, Any]


class Site:
    """People of one hospital, who are never sent.

    Parameters
    ----------
    name : str
        Name that the centre sees; it need not be that of the hospital.
    cohort : Cohort
        Controls and patients, one scan each. People who lack regions or covariates are left out.
    fewest : int
        Fewest people of a sum.
    ledger : Path, optional
        File of the sets that were answered about; see `SetGuard`.
    """

    def __init__(self, name: str, cohort: Cohort, fewest: int = FEWEST_PEOPLE, ledger: Path | None = None) -> None:
        is_complete = ~(cohort.volumes.isna().any(axis=1) | cohort.covariates.isna().any(axis=1)).to_numpy()
        is_first = ~cohort.people[ID].duplicated().to_numpy()
        is_used = is_complete & is_first & (cohort.is_control | cohort.is_patient)
        self.name, self.fewest = name, fewest
        self.n_left_out = int((~is_used).sum())
        self.cohort = cohort.take(is_used)
        self._guard = SetGuard(self.cohort.people[ID].tolist(), fewest, ledger)
        self._prepared: tuple[tuple[bytes, ...], FloatArray, FloatArray] | None = None
        self._subsets: tuple[SubsetPlan, Subsets] | None = None

    @limit_blas_threads()
    def answer(self, request: Request) -> Answer:
        """Return the sums that a request asks for.

        Raises
        ------
        RefusedError
            If a sum would be over too few people.
        ExchangeError
            If the request is not as it should be.
        """
        shapes = kinds.get_kind(request.kind).get_shapes(request)
        if request.round > MAX_ROUNDS:
            raise RefusedError(f"round {request.round} is refused: a site answers at most {MAX_ROUNDS} rounds.")
        if any(not np.isfinite(array).all() for array in request.arrays.values()):
            raise ExchangeError(f"the request {request.kind} has parameters that are not finite.")
        try:
            sums = self._answers[request.kind](request)
        except (KeyError, ValueError, IndexError, TypeError, np.linalg.LinAlgError) as error:
            raise ExchangeError(f"the request {request.kind} cannot be computed ({error}).") from error
        check_arrays(sums.arrays, shapes, f"the answer of {self.name}")
        self._guard.save()
        digest = compute_message_digest(request.encode())
        return Answer(self.name, request.kind, request.round, digest, sums.counts, sums.arrays, sums.facts)

    @cached_property
    def _answers(self) -> dict[str, Callable[[Request], _Sums]]:
        return {
            kinds.DESCRIBE: self._describe,
            kinds.MEANS: self._sum_columns,
            kinds.PRODUCTS: self._sum_products,
            kinds.TRANSFORM: self._sum_transforms,
            kinds.MOMENTS: self._sum_moments,
            kinds.BLOCKS: self._sum_blocks,
            kinds.ROTATION: self._sum_contrasts,
            kinds.CURVES: self._sum_expectations,
            kinds.AGREEMENT: self._sum_agreement,
            kinds.DISTRIBUTION: self._sum_distribution,
        }

    def _describe(self, request: Request) -> _Sums:
        cohort = self.cohort
        counts = {group: self._count(self._find("all", group, None), group, "all") for group in GROUPS}
        facts = {
            "regions": list(cohort.regions),
            "unit": cohort.unit,
            "source": cohort.source,
            "positive": bool((cohort.volumes.to_numpy(dtype=float) > 0).all()),
            "covariates": {str(name): self._describe_covariate(str(name)) for name in cohort.covariates},
        }
        return _Sums({}, counts, facts)

    def _describe_covariate(self, name: str) -> dict[str, Any]:
        """Return whether a covariate is a number, and else its categories that are not rare."""
        values = self.cohort.covariates[name]
        is_numeric = bool(pd.api.types.is_numeric_dtype(values))
        if is_numeric and values.nunique() > 2:
            return {"numeric": True, "positive": bool((values > 0).all()), "levels": []}
        sizes = values.value_counts()
        common = [level for level, size in sizes.items() if size >= self.fewest]
        levels = [f"{float(level):g}" if is_numeric else str(level) for level in common]
        return {"numeric": is_numeric, "positive": True, "levels": sorted(levels)}

    def _build_columns(self, request: Request) -> tuple[FloatArray, BoolArray]:
        """Return covariates and regions (N, P + R) as they are regressed, and the mask of indicator columns (P,)."""
        codings = [build_coding(record) for record in request.settings["codings"]]
        if list(request.settings["regions"]) != list(self.cohort.regions):
            raise ExchangeError("the request names other regions than the table here.")
        design = build_design_matrix(codings, self.cohort.covariates)
        volumes = get_volumes(self.cohort, request.settings["adjust"] == "log")
        is_indicator = np.array([set(np.unique(column)) <= {0.0, 1.0} for column in design.T], dtype=bool)
        return np.concatenate([design, volumes], axis=1), is_indicator

    def _find_adjustable(self, group: str, columns: FloatArray, is_indicator: BoolArray) -> tuple[BoolArray, list[str]]:
        """Return the people of a group, nobody where a category has too few of them, and a note about it.

        The product of an indicator and a region is a sum over the people of one category.
        """
        mask = self._find("all", group, None)
        indicators = columns[mask][:, : len(is_indicator)][:, is_indicator]
        sizes = np.concatenate([indicators.sum(axis=0), (1.0 - indicators).sum(axis=0)])
        if ((sizes > 0) & (sizes < self.fewest)).any():
            note = f"{group} are adjusted with the effects of the other sites: a category has too few of them here"
            return np.zeros_like(mask), [note]
        self._count(mask, group, "all")
        return mask, []

    def _sum_columns(self, request: Request) -> _Sums:
        columns, is_indicator = self._build_columns(request)
        return self._sum_by_group(columns, is_indicator, lambda people: {"sum": people.sum(axis=0)})

    def _sum_products(self, request: Request) -> _Sums:
        columns, is_indicator = self._build_columns(request)
        centre = request.arrays["centre"]
        return self._sum_by_group(
            columns,
            is_indicator,
            lambda people: {
                "sum": (people - centre).sum(axis=0),
                "products": pack_symmetric((people - centre).T @ (people - centre)),
            },
        )

    def _sum_by_group(
        self, columns: FloatArray, is_indicator: BoolArray, function: Callable[[FloatArray], dict[str, FloatArray]]
    ) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        notes: list[str] = []
        for group in GROUPS:
            mask, group_notes = self._find_adjustable(group, columns, is_indicator)
            arrays |= {f"{group}.{name}": array for name, array in function(columns[mask]).items()}
            counts[group] = int(mask.sum())
            notes += group_notes
        return _Sums(arrays, counts, {"notes": notes} if notes else {})

    def _sum_transforms(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        head = Preparation.from_request(request).head
        z = (self._prepare(request)[0] - head.control_mean) / head.control_scale
        for group in GROUPS:
            mask = self._find("all", group, None)
            counts[group] = self._count(mask, group, "all")
            sums = site_sums.sum_transforms(z[mask], request.arrays["shares"])
            arrays |= {f"{group}.{name}": a for name, a in zip(("sum", "squares", "logs"), sums, strict=True)}
        return _Sums(arrays, counts, {})

    def _sum_moments(self, request: Request) -> _Sums:
        shifts, sums, counts = self._prepare(request)[1], [], {}
        for name, group in request.settings["sets"]:
            mask = self._find(name, group, request)
            counts[f"{name}/{group}"] = self._count(mask, group, name)
            sums.append(site_sums.sum_moments(shifts[mask]))
        total, products, weighted, fourth = (np.stack(arrays) for arrays in zip(*sums, strict=True))
        return _Sums({"sum": total, "products": products, "weighted": weighted, "fourth": fourth}, counts, {})

    def _sum_blocks(self, request: Request) -> _Sums:
        columns, _ = self._build_columns(request)
        coefficients = request.arrays["coefficients"]
        centred = columns - request.arrays["centre"]
        residuals = centred[:, len(coefficients) :] - centred[:, : len(coefficients)] @ coefficients
        subsets, parts, counts = self._get_subsets(request), [], {}
        for group in GROUPS:
            n_blocks = int(request.settings["n_blocks"][group])
            blocks = subsets.assign_blocks(group, n_blocks)
            for block in range(n_blocks):
                counts[f"block-{block}/{group}"] = self._count(blocks == block, group, f"block {block}")
            mask = blocks >= 0
            parts.append(site_sums.sum_blocks(residuals[mask], request.arrays["directions"], blocks[mask], n_blocks))
        arrays = [np.concatenate(each) for each in zip(*parts, strict=True)]
        return _Sums(dict(zip(("sum", "squares", "products"), arrays, strict=True)), counts, {})

    def _sum_contrasts(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        for key, tasks, patients in self._iterate_tasks(request):
            maps, offsets, directions = (request.arrays[f"{name}.{key}"] for name in ("map", "offset", "directions"))
            sums = []
            for k, (task, people) in enumerate(zip(tasks, patients, strict=True)):
                sums.append(site_sums.sum_contrasts(people @ maps[k] - offsets[k], directions[k]))
                counts[f"{task[0]}/patients"] = len(people)
            arrays[f"sums.{key}"] = np.stack(sums)
        return _Sums(arrays, counts, {})

    def _sum_expectations(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        shifts = self._prepare(request)[1]
        for key, tasks, patients in self._iterate_tasks(request):
            sums, likelihoods = [], []
            for k, (task, people) in enumerate(zip(tasks, patients, strict=True)):
                weights = request.arrays[f"weights.{key}"][k]
                if f"common.{key}" in request.arrays:  # straight patterns: one direction each
                    common = request.arrays[f"common.{key}"][k]
                    weights = (weights[:, :, None] * common).reshape(len(weights), -1)
                posterior = site_sums.make_packed_posterior(
                    request.arrays[f"gram.{key}"][k], request.arrays[f"correlation.{key}"][k]
                )
                sums.append(site_sums.sum_expectations(people, weights, posterior))
                counts[f"{task[0]}/patients"] = len(people)
                held_out = self._find(task[1], "patients", request) if task[1] else np.zeros(len(shifts), dtype=bool)
                if task[1]:
                    counts[f"{task[1]}/patients"] = self._count(held_out, "patients", task[1])
                likelihoods.append(site_sums.sum_likelihood(shifts[held_out], weights, posterior))
            names = ("cross", "gram", "normal")
            arrays |= {f"{n}.{key}": np.stack(a) for n, a in zip(names, zip(*sums, strict=True), strict=True)}
            arrays[f"likelihood.{key}"] = np.array(likelihoods)
        return _Sums(arrays, counts, {})

    def _sum_agreement(self, request: Request) -> _Sums:
        mask = self._find("all", "patients", request)
        count = self._count(mask, "patients", "all")
        heads = [request.arrays[name] for name in ("weights", "gram", "correlation")]
        indices = np.concatenate(site_sums.infer_indices(self._prepare(request)[1][mask], *heads), axis=1)
        return _Sums(
            {"sum": indices.sum(axis=0), "products": pack_symmetric(indices.T @ indices)}, {"patients": count}, {}
        )

    def _sum_distribution(self, request: Request) -> _Sums:
        values, shifts = self._prepare(request)
        heads = [request.arrays[name] for name in ("weights", "gram", "correlation")]
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        for group in GROUPS:
            mask = self._find("all", group, request)
            counts[group] = self._count(mask, group, "all")
            indices = site_sums.average_indices(
                site_sums.infer_indices(shifts[mask], *heads), request.settings["orders"]
            )
            arrays[f"{group}.cosines"] = site_sums.sum_cosines(indices, kinds.N_COSINES)
        if "precision" in request.arrays:
            precision = unpack_symmetric(request.arrays["precision"])
            number = int(request.settings["n_people"])
            own_share = float(request.settings["own_share"])
            distances = site_sums.scale_distances(values, request.arrays["mean"], precision, number, own_share)
            arrays["distances.cosines"] = site_sums.sum_cosines(distances[:, None], kinds.N_DISTANCE_COSINES)[0]
        return _Sums(arrays, counts, {})

    def _iterate_tasks(self, request: Request) -> "list[tuple[str, list[Sequence[Any]], list[FloatArray]]]":
        """Return the key of each group of tasks, its tasks, and the patients of each."""
        tasks, shifts, groups = request.settings["tasks"], self._prepare(request)[1], []
        for key, positions in kinds.list_groups_of_tasks(tasks).items():
            members = [tasks[position] for position in positions]
            patients = []
            for task in members:
                mask = self._find(task[0], "patients", request)
                self._count(mask, "patients", task[0])
                patients.append(shifts[mask])
            groups.append((key, members, patients))
        return groups

    def _prepare(self, request: Request) -> tuple[FloatArray, FloatArray]:
        """Return prepared people and their shifts, (N, R) each."""
        key = Preparation.get_key(request)
        if self._prepared is None or self._prepared[0] != key:
            preparation = Preparation.from_request(request)
            values = preparation.preprocessing.transform(self.cohort)
            self._prepared = key, values, preparation.head.prepare(values)
        return self._prepared[1:]

    def _get_subsets(self, request: Request) -> Subsets:
        plan = SubsetPlan.from_dict(request.settings.get("plan", {}))
        if self._subsets is None or self._subsets[0] != plan:
            ids = self.cohort.people[ID].tolist()
            self._subsets = plan, Subsets(ids, self.cohort.is_patient, plan, self.fewest)
        return self._subsets[1]

    def _find(self, name: str, group: str, request: Request | None) -> BoolArray:
        """Return the people (N,) of a set and a group; the whole group needs no plan."""
        if name == "all" and group in GROUPS:
            return self.cohort.is_patient if group == "patients" else self.cohort.is_control
        if request is None:
            raise ExchangeError(f"there is no set {name[:40]!r} in this request.")
        return self._get_subsets(request).find(str(name), str(group))

    def _count(self, mask: BoolArray, group: str, name: str) -> int:
        """Return the number of people of a set, if the guard allows a sum over them."""
        self._guard.check(mask, group, name)
        return int(mask.sum())

    def describe_people(self) -> str:
        """Return the numbers of people in words, for the screen."""
        people = f"{self.cohort.n_controls} controls and {self.cohort.n_patients} patients"
        left_out = f" ({format_count(self.n_left_out, 'person', 'people')} left out)" if self.n_left_out else ""
        return f"{people}, {self.cohort.n_regions} regions{left_out}"
