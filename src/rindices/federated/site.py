"""A site: holds people and answers requests with sums over them.

It needs no memory of earlier rounds but the ledger of the sets that it has answered about (`privacy`), so it can be
stopped and started again at any time.

Shape letters: N people, R regions, P columns of the design.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import RindicesError, format_count
from rindices.federated import kinds, site_sums
from rindices.federated.exceptions import COMPUTE_ERRORS, ExchangeError, RefusedError
from rindices.federated.messages import Answer, Request, compute_message_digest, pack_symmetric, unpack_symmetric
from rindices.federated.preparation import Preparation, check_arrays
from rindices.federated.privacy import FEWEST_PEOPLE, SetGuard
from rindices.federated.subsets import GROUPS, SAMPLE, SubsetPlan, Subsets
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.residualise import build_coding, build_design_matrix
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

MAX_ROUNDS = 300
"""Rounds after which a site refuses: a study takes fewer than 100, and each answer tells a little."""

BATCH = 10_000
"""People whose values are in memory at once where sums are over everyone."""


class _Sums(NamedTuple):
    """Sums and the number of people in each."""

    arrays: dict[str, FloatArray]
    counts: dict[str, int]
    facts: dict[str, Any]


class Site:
    """People of one hospital, who are never sent.

    name: name that the centre sees; it need not be that of the hospital; cohort: controls and patients, one scan each.
    People who lack regions or covariates are left out; fewest: fewest people of a sum; 0 for people of one owner, about
    whom nothing is refused; ledger: file of the sets that were answered about; see `SetGuard`.
    """

    def __init__(self, name: str, cohort: Cohort, fewest: int = FEWEST_PEOPLE, ledger: Path | None = None) -> None:
        is_complete = ~(cohort.volumes.isna().any(axis=1) | cohort.covariates.isna().any(axis=1)).to_numpy()
        is_first = ~cohort.people[ID].duplicated().to_numpy()
        is_used = is_complete & is_first & (cohort.is_control | cohort.is_patient)
        self.name, self.fewest = name, fewest
        self.n_left_out, self.n_repeated = int((~is_used).sum()), int((~is_first).sum())
        self.cohort = _name_site(cohort.take(is_used), name)
        self.regions = cohort.regions
        self._groups = {"controls": self.cohort.is_control, "patients": self.cohort.is_patient}
        self._guard = SetGuard(self.cohort.people[ID].tolist() if fewest else (), fewest, ledger)
        self._prepared: tuple[tuple[bytes, ...], FloatArray, FloatArray] | None = None
        self._subsets: tuple[SubsetPlan, Subsets] | None = None

    @limit_blas_threads()
    def answer(self, request: Request) -> Answer:
        """Return the sums that a request asks for.

        Raises RefusedError: if a sum would be over too few people. Raises ExchangeError: if the request is not as it
        should be.
        """
        kind = kinds.get_kind(request.kind)
        if request.round > MAX_ROUNDS:
            raise RefusedError(f"round {request.round} is refused: a site answers at most {MAX_ROUNDS} rounds.")
        if any(not np.isfinite(array).all() for array in request.arrays.values()):
            raise ExchangeError(f"the request {request.kind} has parameters that are not finite.")
        try:
            shapes, sums = kind.get_shapes(request), self._answers[request.kind](request)
        except RindicesError:
            raise
        except COMPUTE_ERRORS as error:
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
        everyone = np.ones(len(cohort), dtype=bool)
        facts = {
            "regions": list(self.regions),
            "unit": cohort.unit,
            "source": cohort.source,
            "positive": all(bool((self._get_volumes(rows) > 0).all()) for rows in _list_batches(everyone)),
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

    def _build_design(self, request: Request) -> tuple[FloatArray, BoolArray]:
        """Return covariates (N, P) as they are regressed, and the mask of indicator columns (P,)."""
        codings = [build_coding(record) for record in request.settings["codings"]]
        if list(request.settings["regions"]) != list(self.regions):
            raise ExchangeError("the request names other regions than the table here.")
        design = build_design_matrix(codings, self.cohort.covariates)
        return design, np.array([set(np.unique(column)) <= {0.0, 1.0} for column in design.T], dtype=bool)

    def _get_columns(self, request: Request, design: FloatArray, rows: IntArray) -> FloatArray:
        """Return covariates and regions (n, P + R) of some people."""
        volumes = self._get_volumes(rows)
        volumes = np.log(volumes) if request.settings["adjust"] == "log" else volumes
        if "harmonise" in request.settings:
            harmoniser = Harmoniser.from_parts(request.settings["harmonise"], request.arrays)
            volumes = harmoniser.transform(volumes, design[rows], [self.name] * len(rows))
        return np.concatenate([design[rows], volumes], axis=1)

    def _find_adjustable(self, group: str, design: FloatArray, is_indicator: BoolArray) -> tuple[BoolArray, list[str]]:
        """Return the people of a group, nobody where a category has too few of them, and a note about it.

        The product of an indicator and a region is a sum over the people of one category.
        """
        mask = self._find("all", group, None)
        indicators = design[mask][:, is_indicator]
        sizes = np.concatenate([indicators.sum(axis=0), (1.0 - indicators).sum(axis=0)])
        if ((sizes > 0) & (sizes < self.fewest)).any():
            note = f"{group} are adjusted with the effects of the other sites: a category has too few of them here"
            return np.zeros_like(mask), [note]
        self._count(mask, group, "all")
        return mask, []

    def _sum_columns(self, request: Request) -> _Sums:
        return self._sum_by_group(request, lambda people: {"sum": people.sum(axis=0)})

    def _sum_products(self, request: Request) -> _Sums:
        centre = request.arrays["centre"]
        return self._sum_by_group(
            request,
            lambda people: {
                "sum": (people - centre).sum(axis=0),
                "products": pack_symmetric((people - centre).T @ (people - centre)),
            },
        )

    def _sum_by_group(self, request: Request, function: Callable[[FloatArray], dict[str, FloatArray]]) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        notes: list[str] = []
        design, is_indicator = self._build_design(request)
        for group in GROUPS:
            mask, group_notes = self._find_adjustable(group, design, is_indicator)
            parts = [function(self._get_columns(request, design, rows)) for rows in _list_batches(mask)]
            arrays |= {f"{group}.{name}": _add([part[name] for part in parts]) for name in parts[0]}
            counts[group] = int(mask.sum())
            notes += group_notes
        return _Sums(arrays, counts, {"notes": notes} if notes else {})

    def _sum_transforms(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        head = Preparation.from_request(request).head
        for group in GROUPS:
            mask = self._find(SAMPLE, group, request)
            counts[group] = self._count(mask, group, SAMPLE)
            parts = []
            for rows in _list_batches(mask):
                z = (self._get_values(request, rows) - head.control_mean) / head.control_scale
                parts.append(site_sums.sum_transforms(z, request.arrays["shares"]))
            sums = [_add(each) for each in zip(*parts, strict=True)]
            arrays |= {f"{group}.{name}": a for name, a in zip(("sum", "squares", "logs"), sums, strict=True)}
        return _Sums(arrays, counts, {})

    def _sum_moments(self, request: Request) -> _Sums:
        sums, counts = [], {}
        for name, group in request.settings["sets"]:
            mask = self._find(name, group, request)
            counts[f"{name}/{group}"] = self._count(mask, group, name)
            parts = [site_sums.sum_moments(self._get_shifts(request, rows)) for rows in _list_batches(mask)]
            sums.append([_add(each) for each in zip(*parts, strict=True)])
        total, products, weighted, fourth = (np.stack(arrays) for arrays in zip(*sums, strict=True))
        return _Sums({"sum": total, "products": products, "weighted": weighted, "fourth": fourth}, counts, {})

    def _sum_blocks(self, request: Request) -> _Sums:
        design, _ = self._build_design(request)
        coefficients, directions = request.arrays["coefficients"], request.arrays["directions"]
        subsets, sums, counts = self._get_subsets(request), [], {}
        for group in GROUPS:
            n_blocks = int(request.settings["n_blocks"][group])
            blocks = subsets.assign_blocks(group, n_blocks)
            for block in range(n_blocks):
                counts[f"block-{block}/{group}"] = self._count(blocks == block, group, f"block {block}")
            parts = []
            for rows in _list_batches(blocks >= 0):
                centred = self._get_columns(request, design, rows) - request.arrays["centre"]
                residuals = centred[:, len(coefficients) :] - centred[:, : len(coefficients)] @ coefficients
                parts.append(site_sums.sum_blocks(residuals, directions, blocks[rows], n_blocks))
            sums.append([_add(each) for each in zip(*parts, strict=True)])
        arrays = [np.concatenate(each) for each in zip(*sums, strict=True)]
        return _Sums(dict(zip(("sum", "squares", "products"), arrays, strict=True)), counts, {})

    def _sum_contrasts(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        for key, tasks in _group_tasks(request).items():
            maps, offsets, directions = (request.arrays[f"{name}.{key}"] for name in ("map", "offset", "directions"))
            sums = []
            for k, task in enumerate(tasks):
                people = self._get_patients(request, task[0], counts)
                sums.append(site_sums.sum_contrasts(people @ maps[k] - offsets[k], directions[k]))
            arrays[f"sums.{key}"] = np.stack(sums)
        return _Sums(arrays, counts, {})

    def _sum_expectations(self, request: Request) -> _Sums:
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        for key, tasks in _group_tasks(request).items():
            sums, likelihoods = [], []
            for k, task in enumerate(tasks):
                weights = request.arrays[f"weights.{key}"][k]
                if f"common.{key}" in request.arrays:  # straight patterns: one direction each
                    common = request.arrays[f"common.{key}"][k]
                    weights = (weights[:, :, None] * common).reshape(len(weights), -1)
                posterior = site_sums.make_packed_posterior(
                    request.arrays[f"gram.{key}"][k], request.arrays[f"correlation.{key}"][k]
                )
                people = self._get_patients(request, task[0], counts)
                sums.append(site_sums.sum_expectations(people, weights, posterior))
                held_out = self._get_patients(request, task[1], counts) if task[1] else people[:0]
                likelihoods.append(site_sums.sum_likelihood(held_out, weights, posterior))
            names = ("cross", "gram", "normal")
            arrays |= {f"{n}.{key}": np.stack(a) for n, a in zip(names, zip(*sums, strict=True), strict=True)}
            arrays[f"likelihood.{key}"] = np.array(likelihoods)
        return _Sums(arrays, counts, {})

    def _sum_agreement(self, request: Request) -> _Sums:
        mask = self._find(SAMPLE, "patients", request)
        count = self._count(mask, "patients", SAMPLE)
        heads = [request.arrays[name] for name in ("weights", "gram", "correlation")]
        people = self._get_shifts(request, np.flatnonzero(mask))
        indices = np.concatenate(site_sums.infer_indices(people, *heads), axis=1)
        return _Sums(
            {"sum": indices.sum(axis=0), "products": pack_symmetric(indices.T @ indices)}, {"patients": count}, {}
        )

    def _sum_distribution(self, request: Request) -> _Sums:
        heads = [request.arrays[name] for name in ("weights", "gram", "correlation")]
        arrays: dict[str, FloatArray] = {}
        counts: dict[str, int] = {}
        is_used = np.zeros(len(self.cohort), dtype=bool)
        for group in GROUPS:
            mask = self._find(SAMPLE, group, request)
            counts[group] = self._count(mask, group, SAMPLE)
            is_used |= mask
            people = self._get_shifts(request, np.flatnonzero(mask))
            indices = site_sums.average_indices(site_sums.infer_indices(people, *heads), request.settings["orders"])
            arrays[f"{group}.cosines"] = site_sums.sum_cosines(indices, kinds.N_COSINES)
        if "precision" in request.arrays:
            precision = unpack_symmetric(request.arrays["precision"])
            number = int(request.settings["n_people"])
            own_share = float(request.settings["own_share"])
            values = self._get_values(request, np.flatnonzero(is_used))
            distances = site_sums.scale_distances(values, request.arrays["mean"], precision, number, own_share)
            arrays["distances.cosines"] = site_sums.sum_cosines(distances[:, None], kinds.N_DISTANCE_COSINES)[0]
        return _Sums(arrays, counts, {})

    def _get_patients(self, request: Request, name: str, counts: dict[str, int]) -> FloatArray:
        """Return the shifts (n, R) of the patients of a set, and count them."""
        mask = self._find(name, "patients", request)
        counts[f"{name}/patients"] = self._count(mask, "patients", name)
        return self._get_shifts(request, np.flatnonzero(mask))

    def _get_volumes(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people."""
        return np.asarray(self.cohort.volumes.to_numpy(dtype=float)[rows])

    def _get_values(self, request: Request, rows: IntArray) -> FloatArray:
        """Return the prepared values (n, R) of some people."""
        return self._prepare(request)[0][rows]

    def _get_shifts(self, request: Request, rows: IntArray) -> FloatArray:
        """Return the shifts (n, R) of some people."""
        return self._prepare(request)[1][rows]

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
            self._subsets = plan, Subsets(ids, self._groups["patients"], plan, self.fewest)
        return self._subsets[1]

    def _find(self, name: str, group: str, request: Request | None) -> BoolArray:
        """Return the people (N,) of a set and a group; the whole group needs no plan."""
        if name == "all" and group in GROUPS:
            return self._groups[group]
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
        return f"{people}, {len(self.regions)} regions{left_out}"


def _name_site(cohort: Cohort, name: str) -> Cohort:
    """Return the people with the name of the exchange site as their site."""
    return replace(cohort, people=cohort.people.assign(**{SITE: name}))


def _list_batches(mask: BoolArray) -> Iterator[IntArray]:
    """Yield the rows of a mask (N,) in batches; an empty one for nobody."""
    rows = np.flatnonzero(mask)
    for start in range(0, max(len(rows), 1), BATCH):
        yield rows[start : start + BATCH]


def _add(parts: Sequence[Any]) -> Any:
    """Return the sum of arrays or numbers, the only one as it is."""
    return parts[0] if len(parts) == 1 else np.sum(parts, axis=0)


def _group_tasks(request: Request) -> dict[str, list[Sequence[Any]]]:
    """Return the tasks of a request by their key."""
    tasks = request.settings["tasks"]
    return {key: [tasks[k] for k in positions] for key, positions in kinds.list_groups_of_tasks(tasks).items()}
