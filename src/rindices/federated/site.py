"""A site: holds people and answers requests with sums over them.

It needs no memory of earlier rounds but the ledger of the sets that it has answered about (`privacy`), so it can be
stopped and started again at any time. The arithmetic of each kind of round is in functions of arrays, below.

Shape letters: N people, R regions, P columns of the design, M patterns, K steps, S starts, T models, H values of c, D
directions, B blocks, Q cosines.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import RindicesError, format_count
from rindices.federated import kinds, secure
from rindices.federated.messages import (
    COMPUTE_ERRORS,
    Answer,
    ExchangeError,
    Preparation,
    RefusedError,
    Request,
    check_arrays,
    get_prepared_arrays,
    pack_symmetric,
    unpack_symmetric,
)
from rindices.federated.privacy import FEWEST_PEOPLE, SetGuard
from rindices.federated.subsets import (
    EVERYONE,
    GROUPS,
    MIN_SPLIT,
    SAMPLE,
    SubsetPlan,
    Subsets,
    list_folds,
    name_set,
    read_set,
)
from rindices.learners.contrastive.linear_start import sum_contrasts
from rindices.learners.contrastive.whole_cohort_start import sum_group_losses
from rindices.learners.inference import SHARES, ContrastiveHead, TransformSums
from rindices.learners.missing_cells import complete_people
from rindices.learners.people_source import PeopleSet
from rindices.learners.prepared_people import N_FOLDS, HashArray, hash_people
from rindices.learners.severity_posterior import N_STEPS, SeverityPosterior, compute_log_copula
from rindices.learners.trajectory.expectation_maximisation import list_functions, sum_points, summarise_people
from rindices.model.fitted import FittedModel
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.residualise import build_coding, build_design_matrix, derive_codings
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.threads import limit_blas_threads

if TYPE_CHECKING:
    from rindices.federated.masks import SiteKey

MAX_SPREAD = 4.0
"""Largest standard deviation, over the people of a set, of whitened severities, which is about 1 over all sites."""
MIN_CORRELATION = 0.1
"""Smallest correlation, over the people of a site, of an adjusted region with what its covariates leave of it there."""
MAX_MISSING = 0.5
"""Largest share of regions that a person may lack."""
BATCH = 10_000
"""People whose values are in memory at once where sums are over everyone."""


@dataclass
class _Sums:
    """Numbers of people of the sets of a request, sums over them, and facts about the table."""

    numbers: list[int] = field(default_factory=list)
    arrays: dict[str, FloatArray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    def add_rows(self, names: Sequence[str], parts: Sequence[Sequence[Any]]) -> None:
        """Add arrays with one row for each part."""
        self.arrays |= {name: np.stack(each) for name, each in zip(names, zip(*parts, strict=True), strict=True)}


class Site:
    """People of one hospital, who are never sent.

    name: name that the centre sees; it need not be that of the hospital; cohort: controls and patients, one scan each.
    Missing cells are drawn (`complete_volumes`). People who lack covariates or most regions are left out; fewest:
    fewest people of a sum; 0 for people of one owner, about whom nothing is refused; ledger: file of the sets that were
    answered about; see `SetGuard`; key: for masks; a site that accepted others answers under masks alone.
    """

    def __init__(
        self,
        name: str,
        cohort: Cohort,
        fewest: int = FEWEST_PEOPLE,
        ledger: Path | None = None,
        key: "SiteKey | None" = None,
    ) -> None:
        is_first = ~cohort.people[ID].duplicated().to_numpy()
        used = cohort.take(find_usable_people(cohort) & is_first & (cohort.is_control | cohort.is_patient))
        self._missing = np.packbits(used.volumes.isna().to_numpy(dtype=bool), axis=1)
        used = complete_volumes(used)
        self.name, self.fewest, self.regions, self.key = name, fewest, cohort.regions, key
        self.n_left_out, self.n_repeated = len(cohort) - len(used), int((~is_first).sum())
        self.cohort = replace(used, people=used.people.assign(**{SITE: name}))
        self._groups = {"controls": self.cohort.is_control, "patients": self.cohort.is_patient}
        everyone = np.arange(len(used))
        people = [row.tobytes() for row in self._get_measured(everyone)] if fewest else ()
        self._guard = SetGuard(people, fewest, ledger)
        self._is_masked = key is not None and bool(key.accepted)
        self._preparations: dict[str, tuple[list[bytes], Preparation]] = {}
        self._shifts: dict[tuple[str, int], FloatArray] = {}
        self._subsets: tuple[SubsetPlan, Subsets] | None = None

    @limit_blas_threads()
    def answer(self, request: Request) -> Answer:
        """Return the sums that a request asks for, by the method that has the name of its kind.

        Raises RefusedError: if a sum would be over too few people. Raises ExchangeError: if the request is not as it
        should be.
        """
        sums = _Sums()
        if any(not np.isfinite(array).all() for array in request.arrays.values()):
            raise ExchangeError(f"the request {request.kind} has parameters that are not finite.")
        try:
            shapes = kinds.get_answer_shapes(request)
            self._bind_to_sites(request)
            self._guard.count_round()
            self._bind(request)
            getattr(self, f"_answer_{request.kind}")(request, sums)
        except RindicesError:
            raise
        except COMPUTE_ERRORS as error:
            raise ExchangeError(f"the request {request.kind} cannot be computed ({error}).") from error
        check_arrays(sums.arrays, shapes, f"the answer of {self.name}")
        answer = Answer(request.digest, sums.numbers, sums.arrays, sums.facts, self.name)
        if self.key is not None and secure.is_masked(request):
            masked = {secure.MASKED: self.key.mask(self.name, answer, request)}
            answer = Answer(request.digest, arrays=masked, site=self.name)
        self._guard.save()
        return answer

    def _answer_describe(self, request: Request, sums: _Sums) -> None:
        cohort = self.cohort
        sums.numbers = [self._count(mask, group, "all") for group, mask in self._groups.items()]
        everyone = np.ones(len(cohort), dtype=bool)
        not_positive = _add_batches(everyone, lambda rows: [(self._get_volumes(rows) <= 0).sum()])[0]
        sums.facts = {
            "regions": list(self.regions),
            "unit": cohort.unit,
            "source": cohort.source,
            "positive": not not_positive,
            **({} if self.key is None else {"key": self.key.public}),
            "covariates": {str(name): self._describe_covariate(str(name)) for name in cohort.covariates},
        }

    def _describe_covariate(self, name: str) -> dict[str, Any]:
        """Return whether a covariate is a number, and else its categories that are not rare."""
        values = self.cohort.covariates[name]
        is_numeric = bool(pd.api.types.is_numeric_dtype(values))
        if is_numeric and values.nunique() > 2:
            return {"numeric": True, "positive": bool((values > 0).all()), "levels": []}
        common = [level for level, size in values.value_counts().items() if size >= self.fewest]
        levels = [f"{float(level):g}" if is_numeric else str(level) for level in common]
        return {"numeric": is_numeric, "positive": True, "levels": sorted(levels)}

    def _build_design(self, request: Request) -> FloatArray:
        """Return covariates (N, P) as they are regressed."""
        codings = [build_coding(record) for record in request.settings["codings"]]
        if list(request.settings["regions"]) != list(self.regions):
            raise ExchangeError("the request names other regions than the table here.")
        return build_design_matrix(codings, self.cohort.covariates)

    @cached_property
    def _table(self) -> bytes:
        """All values of the people; if they changed, the same masks would hide other sums."""
        return b"".join(table.to_csv().encode() for table in (self.cohort.people, self.cohort.covariates)) + bytes(
            self.cohort.volumes.to_numpy(dtype=float)
        )

    def bind_study(self, settings: Mapping[str, Any]) -> None:
        """Fix the settings of the study at the first run under masks, and refuse others."""
        self._guard.bind("study", json.dumps(settings, sort_keys=True).encode())

    def _bind_to_sites(self, request: Request) -> None:
        """Fix the sites, the table and each round at the first request under masks, and refuse others."""
        if request.kind == kinds.DESCRIBE:
            return
        if secure.is_masked(request) != self._is_masked:
            raise RefusedError("other-masks: sums of this site leave under masks alone, or without them alone.")
        if self.key is None or not self._is_masked:
            self._guard.bind("list of sites", b"")
            return
        sites: secure.Sites = request.settings["sites"]
        self.key.check_sites(self.name, request, {group: int(mask.sum()) for group, mask in self._groups.items()})
        totals = tuple(sum(int(entry[group]) for entry in sites.values()) for group in GROUPS)
        if any(0 < total < self.fewest for total in totals):
            raise RefusedError(f"few-people: all sites together have {totals} controls and patients.")
        if "plan" in request.settings:
            plan = SubsetPlan.from_dict(request.settings["plan"])
            if plan.sizes != totals or not plan.allows_parts(self.fewest):
                raise RefusedError("other-plan: its parts are too small, or it names other numbers of people.")
        agreed = [(name, entry["key"], *(entry[group] for group in GROUPS)) for name, entry in sorted(sites.items())]
        self._guard.bind("list of sites", json.dumps(agreed).encode())
        self._guard.bind("table", self._table)
        left = sorted(name for name, until in self.key.left.items() if until == request.round)
        number = f"round {request.round}" + (f" without {', '.join(left)}" if left else "")
        self._guard.bind(number, request.encode())

    def _bind(self, request: Request) -> None:
        """Fix plan, adjustment, preparation and what is asked once, each at the first request that has it."""
        settings = request.settings
        if not self.fewest:
            return
        if "codings" in settings:
            self._check_codings(settings["codings"])
            adjustment = [settings[name] for name in ("codings", "regions", "adjust")]
            self._guard.bind("adjustment", json.dumps(adjustment).encode())
        if "plan" in settings:
            plan = SubsetPlan.from_dict(settings["plan"])
            if plan.sizes and not self._is_masked:
                raise RefusedError("other-plan: it says that sums are masked.")
            self._guard.bind("plan", json.dumps(plan.to_dict()).encode())
        for key, own in settings.get("preparations", {}).items() if request.kind != kinds.TRANSFORM else ():
            self._check_codings(own["covariates"])
            fixed = Request("preparation", 0, own, get_prepared_arrays(request, key))
            self._guard.bind(f"preparation-{key}", fixed.encode())
        if request.kind in (kinds.PRODUCTS, kinds.TRANSFORM, kinds.MOMENTS, kinds.BLOCKS):
            own = {name: value for name, value in settings.items() if name != "sites"}
            name = f"{request.kind}{' without effects' * ('harmonise' in settings)}"
            self._guard.bind(name, Request(request.kind, 0, own, request.arrays).encode())

    def _check_adjusted(self, values: FloatArray, design: FloatArray) -> None:
        """Refuse adjusted regions (N, R) that are mainly covariates (N, P), or deviations of few people.

        An honest adjustment may leave an effect of covariates, where sites differ, and still has the rest of a region.
        Under masks, where all sites see the same request, sites of few people leave it to the others.
        """
        if not self.fewest or (self._is_masked and len(values) < MIN_SPLIT * self.fewest):
            return
        volumes, columns = self._get_volumes(np.arange(len(values))), np.insert(design, 0, 1.0, axis=1)
        rest = volumes - columns @ np.linalg.lstsq(columns, volumes, rcond=None)[0]
        centred = values - values.mean(axis=0)
        products = np.sqrt((centred**2).sum(axis=0) * (rest**2).sum(axis=0))
        if ((centred * rest).sum(axis=0) < MIN_CORRELATION * products).any():
            raise RefusedError("other-preparation: a region is hardly correlated with itself after the adjustment.")
        self._guard.check_weights(centred, "the adjustment")

    def _check_codings(self, codings: Sequence[Mapping[str, Any]]) -> None:
        """Refuse a number that is coded as a category: the category could be one person."""
        for coding in codings:
            described = self._describe_covariate(coding["name"])
            if coding["kind"] != "numeric" and described["numeric"] and not described["levels"]:
                raise RefusedError(f"other-coding: {coding['name']} is a number here, and not a category.")

    def _get_columns(
        self, request: Request, design: FloatArray, rows: IntArray, harmoniser: Harmoniser | None = None
    ) -> FloatArray:
        """Return covariates and regions (n, P + R) of some people, without the effect of the site, if it is given."""
        volumes = self._get_volumes(rows)
        volumes = np.log(volumes) if request.settings["adjust"] == "log" else volumes
        if harmoniser is not None:
            volumes = harmoniser.transform(volumes, design[rows], [self.name] * len(rows))
        return np.concatenate([design[rows], volumes], axis=1)

    def _get_centred(
        self, request: Request, design: FloatArray, harmoniser: Harmoniser | None, rows: IntArray
    ) -> FloatArray:
        """Return the columns (n, P + R) of some people about the centre of the request."""
        return self._get_columns(request, design, rows, harmoniser) - request.arrays["centre"]

    def _get_harmoniser(self, request: Request, key: str, design: FloatArray) -> Harmoniser | None:
        """Return a harmoniser of a request, with the effect of this site, from its controls, if it lacks it."""
        if "harmonise" not in request.settings:
            return None
        harmoniser = Harmoniser.from_parts(request.settings["harmonise"][key], get_prepared_arrays(request, key))
        if self.name in harmoniser.sites:
            return harmoniser
        rows = np.flatnonzero(self._find_controls(request, key))
        if len(rows) < 2:
            raise RefusedError(
                f"no-controls: the effect of {self.name} needs controls: leave the site out (--leave-out), or set "
                'harmonise = "none".'
            )
        volumes = self._get_columns(request, design, rows)[:, design.shape[1] :]
        return harmoniser.with_sites(volumes, design[rows], [self.name] * len(rows), 2)

    def _answer_means(self, request: Request, sums: _Sums) -> None:
        design, parts = self._build_design(request), []
        for group, mask in self._find_adjustable(request).items():
            sums.numbers.append(self._count(mask, group, "all"))
            parts.append(_add_batches(mask, lambda rows: [self._get_columns(request, design, rows).sum(axis=0)]))
        sums.add_rows(("sum",), parts)

    def _answer_products(self, request: Request, sums: _Sums) -> None:
        design, allowed, products = self._build_design(request), self._find_adjustable(request), []
        within, effects, sizes = [], [], self._count_categories(request, "controls")
        # where folds would have few people of a category, members are adjusted as everyone
        is_split = not self._is_masked or bool(((sizes <= 0) | (sizes >= N_FOLDS * self.fewest)).all())
        for key, name, group in request.settings["sets"]:
            mask = self._get_subsets(request).find(str(name) if is_split else "all", str(group)) & allowed[group]
            sums.numbers.append(self._count(mask, group, name))
            harmoniser = self._get_harmoniser(request, str(key), design)
            products.append(_add_moments(mask, partial(self._get_centred, request, design, harmoniser)))
            if group == "controls":
                total = products[-1][0]
                squares = pack_symmetric(np.outer(total, total)) / max(sums.numbers[-1], 1)
                within.append([products[-1][1] - squares])
                if harmoniser is not None:
                    row = harmoniser.sites.index(self.name)
                    effects.append([np.stack([harmoniser.shift[row], harmoniser.scale[row]])])
        sums.add_rows(("sum", "products"), products)
        if effects and not self._is_masked:
            sums.add_rows(("effect",), effects)
        elif request.settings.get("within"):
            sums.add_rows(("within",), within)

    def _find_adjustable(self, request: Request) -> dict[str, BoolArray]:
        """Return the people (N,) of each group; nobody where a category has too few people.

        The product of an indicator and a region is a sum over the people of one category.
        """
        sizes = {group: self._count_categories(request, group) for group in GROUPS}
        is_small = {group: bool(((each > 0) & (each < self.fewest)).any()) for group, each in sizes.items()}
        return {group: np.zeros_like(mask) if is_small[group] else mask for group, mask in self._groups.items()}

    def _count_categories(self, request: Request, group: str) -> FloatArray:
        """Return the numbers of people of a group with and without each indicator; under masks, those of all sites."""
        design, mask = self._build_design(request), self._groups[group]
        is_indicator = np.array([set(np.unique(column)) <= {0.0, 1.0} for column in design.T], dtype=bool)
        ones, number = design[mask][:, is_indicator].sum(axis=0), float(mask.sum())
        if self._is_masked:  # the first round has no sums by category
            known = request.arrays.get("numbers")
            row = GROUPS.index(group)
            ones = ones[:0] if known is None else known[row, : design.shape[1]][is_indicator]
            number = sum(float(entry[group]) for entry in request.settings["sites"].values())
        return np.concatenate([ones, number - ones])

    def _answer_transform(self, request: Request, sums: _Sums) -> None:
        added = []
        for name, group in kinds.list_sets(request):
            key = str(read_set(name).member)
            head = self._get_preparation(request, key).head

            def sum_batch(rows: IntArray, key: str = key, head: ContrastiveHead = head) -> list[FloatArray]:
                z = (self._get_values(request, key, rows) - head.control_mean) / head.control_scale
                parts = [TransformSums.compute(z, share) for share in SHARES.tolist()]
                return [np.array(each) for each in zip(*parts, strict=True)]

            added.append(_add_batches(self._select(request, sums, name, group), sum_batch))
        sums.add_rows(("sum", "squares", "logs"), added)

    def _answer_moments(self, request: Request, sums: _Sums) -> None:
        moments = []
        for key, name, group in request.settings["sets"]:
            compute_shifts = partial(self._compute_shifts, request, str(key))
            moments.append(_add_moments(self._select(request, sums, name, group), compute_shifts))
        sums.add_rows(("sum", "products"), moments)

    def _answer_blocks(self, request: Request, sums: _Sums) -> None:
        design, arrays, added = self._build_design(request), request.arrays, []
        coefficients, harmoniser = arrays["coefficients"], self._get_harmoniser(request, EVERYONE, design)

        def adjust(rows: IntArray) -> FloatArray:
            centred = self._get_centred(request, design, harmoniser, rows)
            return np.asarray(centred[:, len(coefficients) :] - centred[:, : len(coefficients)] @ coefficients)

        if self.fewest:
            self._check_adjusted(adjust(np.arange(len(self.cohort))), design)
        for group in GROUPS:
            n_blocks = int(request.settings["n_blocks"][group])
            blocks = self._get_subsets(request).assign_blocks(group, n_blocks)
            for block in range(n_blocks):
                sums.numbers.append(self._count(blocks == block, group, f"block {block}"))
                added.append(_add_moments(blocks == block, lambda rows: adjust(rows) / arrays["scale"]))
        sums.add_rows(("sum", "products"), added)

    def _answer_rotation(self, request: Request, sums: _Sums) -> None:
        for k, (name, _) in enumerate(request.settings["tasks"]):
            linear_map, offset, directions = (request.arrays[f"{each}.{k}"] for each in ("map", "offset", "directions"))
            white = self._get_patients(request, sums, name) @ linear_map - offset
            self._check_rotation(white, directions)
            values, gradients, curvatures = sum_contrasts(white, directions)
            parts = np.concatenate([values[..., None], gradients, pack_symmetric(curvatures)], axis=3)
            sums.arrays[f"sums.{k}"] = parts.reshape(*values.shape[:2], -1)

    def _check_rotation(self, white: FloatArray, directions: FloatArray) -> None:
        """Refuse severities (n, M) that are not whitened, and directions (S, M, M) that see few people."""
        if not self.fewest or not len(white):
            return
        if max(white.std(axis=0).max() / MAX_SPREAD, np.linalg.norm(directions, axis=-1).max() - 1e-6) > 1.0:
            raise RefusedError("steep-map: the severities of a rotation are not whitened, so it sees few people.")
        s = white @ directions.reshape(-1, white.shape[1]).T
        self._guard.check_weights(np.exp(-0.5 * s * s), "a rotation")

    def _answer_curves(self, request: Request, sums: _Sums) -> None:
        for k, (name, held_out) in enumerate(request.settings["tasks"]):
            people = read_set(name)
            if held_out and (people.part, read_set(held_out)) != ("seen", people._replace(part="unseen")):
                raise RefusedError(f"other-likelihood: {held_out[:40]} is not what {name[:40]} has not seen.")
            model, patients = SentModel.read(request, k), self._get_patients(request, sums, name)
            others = self._get_patients(request, _Sums(), held_out) if held_out else patients[:0]
            added = (*model.sum_expectations(patients), model.compute_log_ratio(others).sum())
            names = ("cross", "moments", "normal", "likelihood")
            sums.arrays |= {f"{each}.{k}": array for each, array in zip(names, added, strict=True)}

    def _answer_losses(self, request: Request, sums: _Sums) -> None:
        for k, (name, _) in enumerate(request.settings["tasks"]):
            people = read_set(name)
            if people.part != "unseen":
                raise RefusedError(f"other-losses: {name[:40]} is not a set of people whom a member has not seen.")
            model, losses = SentModel.read(request, k), []
            for group in GROUPS:
                rows = np.flatnonzero(self._select(request, sums, name, group))
                shifts = self._compute_shifts(request, str(people.member), rows)
                losses.append(sum_group_losses(model.compute_log_ratio(shifts), group == "patients"))
            sums.arrays[f"losses.{k}"] = np.array(losses)

    def _answer_agreement(self, request: Request, sums: _Sums) -> None:
        indices = np.concatenate(self._infer_indices(request, sums, "patients")[0], axis=1)
        self._check_range(indices)
        sums.add_rows(("sum", "products"), [sum_moments(indices)])

    def _answer_distribution(self, request: Request, sums: _Sums) -> None:
        is_used, cosines = np.zeros(len(self.cohort), dtype=bool), []
        for group in GROUPS:
            indices, mask = self._infer_indices(request, sums, group)
            is_used |= mask
            orders = request.settings["orders"]
            mean = np.mean([each[:, list(order)] for each, order in zip(indices, orders, strict=True)], axis=0)
            self._check_range(mean)
            cosines.append([sum_cosines(mean, kinds.N_COSINES)])
        sums.add_rows(("cosines",), cosines)
        if "precision" in request.arrays:
            precision = unpack_symmetric(request.arrays["precision"])
            number, own_share = int(request.settings["n_people"]), float(request.settings["own_share"])
            values = self._get_values(request, EVERYONE, np.flatnonzero(is_used))
            distances = scale_distances(values, request.arrays["mean"], precision, number, own_share)
            self._check_range(distances[:, None])
            sums.arrays["distances"] = sum_cosines(distances[:, None], kinds.N_DISTANCE_COSINES)[0]

    def _check_range(self, values: FloatArray) -> None:
        """Refuse numbers (n, K) from 0 to 1 of which few people are near 0 or near 1 while all others are not."""
        self._guard.check_weights(np.concatenate([values, 1.0 - values], axis=1), "R-indices or distances")

    def _infer_indices(self, request: Request, sums: _Sums, group: str) -> tuple[list[FloatArray], BoolArray]:
        """Return the R-indices (n, M) of the people of a group by each of T models, and who they are (N,)."""
        mask = self._select(request, sums, SAMPLE, group)
        indices, people = [], dict[str, FloatArray]()
        for k, key in enumerate(map(str, request.settings["members"])):
            if key not in people:
                people[key] = self._compute_shifts(request, key, np.flatnonzero(mask))
            model = SentModel.read(request, k)
            indices.append(model.posterior.compute_means(people[key] @ model.weights))
        return indices, mask

    def _get_patients(self, request: Request, sums: _Sums, name: str) -> FloatArray:
        """Return the shifts (n, R) of the patients of a set by the preparation of its member, and count them."""
        self._select(request, sums, name, "patients")
        people, parts = read_set(name), []
        key = str(people.member)
        self._get_preparation(request, key)
        for fold in list_folds(people):
            if (key, fold) not in self._shifts:
                mask = self._get_subsets(request).find(name_set(PeopleSet(fold, "unseen")), "patients")
                self._shifts[key, fold] = self._compute_shifts(request, key, np.flatnonzero(mask))
            parts.append(self._shifts[key, fold])
        return np.concatenate(parts)

    def _select(self, request: Request, sums: _Sums, name: str, group: str) -> BoolArray:
        """Return the people (N,) of a set and a group, and count them, if a sum over them is allowed."""
        mask = self._get_subsets(request).find(str(name), str(group))
        sums.numbers.append(self._count(mask, group, name))
        return mask

    def _count(self, mask: BoolArray, group: str, name: str) -> int:
        """Return the number of people of a set, if the guard allows a sum over them."""
        if not self._is_masked:
            self._guard.check(mask, group, name)
        return int(mask.sum())

    def _get_volumes(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people."""
        return np.asarray(self.cohort.volumes.to_numpy(dtype=float)[rows])

    def _get_measured(self, rows: IntArray) -> FloatArray:
        """Return the volumes (n, R) of some people; missing cells are NaN."""
        is_missing = np.unpackbits(self._missing[rows], axis=1, count=len(self.regions))
        return np.where(is_missing, np.nan, self._get_volumes(rows))

    def _get_values(self, request: Request, key: str, rows: IntArray) -> FloatArray:
        """Return the values (n, R) of some people by a preparation."""
        volumes = pd.DataFrame(self._get_volumes(rows), columns=list(self.regions))
        cohort = replace(self.cohort.take(rows), volumes=volumes)
        return self._get_preparation(request, key).preprocessing.transform(cohort)

    def _compute_shifts(self, request: Request, key: str, rows: IntArray) -> FloatArray:
        """Return the shifts (n, R) of some people by a preparation."""
        return self._get_preparation(request, key).head.prepare(self._get_values(request, key, rows))

    def _get_preparation(self, request: Request, key: str) -> Preparation:
        """Return a preparation of a request, after it was checked; shifts by another one of this key are forgotten."""
        arrays = get_prepared_arrays(request, key)
        content = [arrays[name].tobytes() for name in sorted(arrays)]
        if key not in self._preparations or self._preparations[key][0] != content:
            self._shifts = {each: shifts for each, shifts in self._shifts.items() if each[0] != key}
            own = Preparation.from_request(request, key)
            harmoniser = own.preprocessing.harmoniser
            if harmoniser is not None and self.name not in harmoniser.sites:
                seen = self.cohort.take(self._find_controls(request, key))
                own = replace(own, preprocessing=own.preprocessing.with_sites(seen, 2))
            self._preparations[key] = content, own
            if self.fewest:
                design = own.preprocessing.residualiser.build_design(self.cohort.covariates)
                try:
                    self._check_adjusted(self._compute_shifts(request, key, np.arange(len(self.cohort))), design)
                except RindicesError:
                    del self._preparations[key]
                    raise
        return self._preparations[key][1]

    def _find_controls(self, request: Request, key: str) -> BoolArray:
        """Return the controls (N,) from whom the effect of this site is learnt; all, if a member sees none of them."""
        name = "all" if key == EVERYONE else name_set(PeopleSet(int(key), "seen"))
        seen = self._get_subsets(request).find(name, "controls")
        return seen if seen.sum() > 1 else self._groups["controls"]

    def _get_subsets(self, request: Request) -> Subsets:
        plan = SubsetPlan.from_dict(request.settings.get("plan", {}))
        if self._subsets is None or self._subsets[0] != plan:
            self._subsets = plan, self._make_subsets(plan)
        return self._subsets[1]

    def _make_subsets(self, plan: SubsetPlan) -> Subsets:
        """Return the sets of a plan."""

        def hash_own_people(purpose: str) -> HashArray:
            batches = map(self._get_measured, _split_rows(np.arange(len(self.cohort))))
            return np.concatenate([hash_people(values, plan.seed, purpose) for values in batches])

        columns = [
            (values == level).to_numpy()
            for _, values in self.cohort.covariates.items()
            if not pd.api.types.is_numeric_dtype(values) or values.nunique() <= 2
            for level in values.unique()
        ]
        categories = np.column_stack(columns) if columns else None
        return Subsets(hash_own_people, self._groups["patients"], plan, self.fewest, categories)

    def tabulate_people(self, model: FittedModel) -> pd.DataFrame:
        """Return the cross-fitted R-indices of the people of the site, by the model of a study that they were in.

        Each is the mean over the members of the model that have not seen the person, and empty without any.
        """
        settings = model.card.method.settings if model.card.method is not None else {}
        if "numbers" not in settings:
            raise ExchangeError("the model is not that of a federated study: apply it with rindices apply.")
        harmoniser, plan = model.preprocessing.harmoniser, SubsetPlan.from_dict(settings["plan"])
        subsets = self._make_subsets(plan)
        seen = [
            np.any([subsets.find(name_set(PeopleSet(int(number), "seen")), group) for group in GROUPS], axis=0)
            for number in settings["numbers"]
        ]
        tables, unseen = [], ~np.stack(seen)
        if harmoniser is not None and self.name not in harmoniser.sites:
            is_control, own = self.cohort.is_control, []
            for pipeline, mask in zip(model.pipelines, seen, strict=True):
                rows = mask if (mask & is_control).sum() > 1 else np.ones_like(mask)
                own.append(pipeline.with_sites(self.cohort.take(rows), 2))
            model = replace(model.with_sites(self.cohort, 2), pipelines=tuple(own))
        for rows in _split_rows(np.arange(len(self.cohort))):
            volumes = pd.DataFrame(self._get_measured(rows), columns=list(self.regions))
            tables.append(model.tabulate_own_people(replace(self.cohort.take(rows), volumes=volumes), unseen[:, rows]))
        return pd.concat(tables, ignore_index=True)

    def describe_people(self) -> str:
        """Return the numbers of people in words, for the screen."""
        people = f"{self.cohort.n_controls} controls and {self.cohort.n_patients} patients"
        left_out = f" ({format_count(self.n_left_out, 'person', 'people')} left out)" if self.n_left_out else ""
        return f"{people}, {len(self.regions)} regions{left_out}"


def _add_batches(mask: BoolArray, function: Callable[[IntArray], Sequence[Any]]) -> list[Any]:
    """Return the sums of a function of rows over the people of a mask (N,), in batches; an empty one for nobody."""
    parts = [function(rows) for rows in _split_rows(np.flatnonzero(mask))]
    return [np.sum(each, axis=0) for each in zip(*parts, strict=True)]


def _split_rows(rows: IntArray) -> list[IntArray]:
    """Return rows (n,) in batches; an empty one for nobody."""
    return [rows[start : start + BATCH] for start in range(0, max(len(rows), 1), BATCH)]


def _add_moments(mask: BoolArray, prepare: Callable[[IntArray], FloatArray]) -> list[Any]:
    """Return the moments of the people of a mask (N,), in batches; prepare: takes rows and returns people (n, R)."""
    return _add_batches(mask, lambda rows: sum_moments(prepare(rows)))


def find_usable_people(cohort: Cohort) -> BoolArray:
    """Return who (N,) has all covariates and half of the regions, and no missing cell that the group cannot predict."""
    is_missing, is_usable = cohort.volumes.isna().to_numpy(), ~cohort.covariates.isna().any(axis=1).to_numpy()
    if is_missing.any():
        is_usable &= is_missing.mean(axis=1) <= MAX_MISSING
        for mask in (cohort.is_control, cohort.is_patient):
            is_rare = (~is_missing[mask & is_usable]).sum(axis=0) < FEWEST_PEOPLE
            is_usable &= ~(mask & is_missing[:, is_rare].any(axis=1))
    return np.asarray(is_usable)


def complete_volumes(cohort: Cohort) -> Cohort:
    """Return people whose missing cells are drawn from what their group, other cells and covariates predict.

    They are the people of one site, or of one part: what is learnt of them does not leave.
    """
    volumes = cohort.volumes.to_numpy(dtype=float)
    is_missing = np.isnan(volumes)
    if not is_missing.any():
        return cohort
    design = build_design_matrix(derive_codings(cohort.covariates), cohort.covariates)
    is_positive = bool((volumes[~is_missing] > 0).all())
    joined = np.column_stack([design, np.log(volumes) if is_positive else volumes])
    drawn = complete_people(joined, cohort.is_patient.astype(np.intp), np.random.default_rng(0))[:, design.shape[1] :]
    return replace(cohort, volumes=cohort.volumes.mask(is_missing, np.exp(drawn) if is_positive else drawn))


def sum_moments(people: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return sum x (R,) and packed sum x x' of people (N, R)."""
    return people.sum(axis=0), pack_symmetric(people.T @ people)


class SentModel(NamedTuple):
    """A model of curves that a request has.

    weights (R, M * K); functions (G, T): of the severities at the points of the posterior, of which sums are asked for.
    """

    weights: FloatArray
    posterior: SeverityPosterior
    functions: FloatArray

    @classmethod
    def read(cls, request: Request, k: int) -> Self:
        """Return a model of a request."""
        weights, gram, correlation = (request.arrays[f"{name}.{k}"] for name in ("weights", "gram", "correlation"))
        correlation, interaction = unpack_symmetric(correlation), request.arrays.get(f"interaction.{k}")
        prior, n_patterns = compute_log_copula(correlation), len(correlation)
        posterior = SeverityPosterior.from_gram(unpack_symmetric(gram), prior, n_patterns, interaction)
        return cls(weights, posterior, list_functions(n_patterns, N_STEPS, interaction is not None))

    def sum_expectations(self, patients: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums of the E step: sum x E[f]' (R, T), packed sum E[f f'] and packed sum E[y y'].

        f are the functions and y the severities as normal quantiles. ``patients`` are (N, R).
        """
        cross, point_weights = np.zeros((len(self.weights), self.functions.shape[1])), np.zeros(len(self.functions))
        functions = None if self.functions.shape[1] == self.weights.shape[1] else self.functions
        for part, summary in summarise_people(patients, self.weights, self.posterior, functions):
            cross += part.T @ summary.basis
            point_weights += summary.point_weights
        moments, normal = sum_points(self.functions, self.posterior.points, point_weights)
        return cross, pack_symmetric(moments), pack_symmetric(normal)

    def compute_log_ratio(self, people: FloatArray) -> FloatArray:
        """Return the log-likelihood (N,) of people (N, R) as patients, relative to a control."""
        summaries = summarise_people(people, self.weights, self.posterior)
        return np.concatenate([np.zeros(0), *(summary.log_sum for _, summary in summaries)])


def sum_cosines(values: FloatArray, number: int) -> FloatArray:
    """Return the sums of cos(k pi v), k = 1 to Q, of values from 0 to 1, (N, M) -> (M, Q)."""
    return np.asarray(np.cos(np.pi * values.T[:, :, None] * np.arange(1, number + 1)).sum(axis=1))


def scale_distances(
    people: FloatArray, mean: FloatArray, precision: FloatArray, number: int, own_share: float
) -> FloatArray:
    """Return distances (N,) from the mean of all people as if each was not among them, scaled to 0 to 1.

    Without a person, the mean moves away by a factor n / (n - 1) and the covariance loses the person's part, of which
    shrinkage leaves the share ``own_share``. The distance 1 is `get_largest_distance`.
    """
    centred, factor = people - mean, number / (number - 1.0)
    squares = ((centred @ precision) * centred).sum(axis=1)
    left_out = factor**2 * squares / np.maximum(1.0 - own_share * factor * squares / (number - 1.0), 0.01)
    return np.asarray(np.clip(np.sqrt(left_out) / get_largest_distance(len(mean)), 0.0, 1.0))


def get_largest_distance(n_regions: int) -> float:
    """Return the distance that is scaled to 1; it is about sqrt(R) on average."""
    return float(2.5 * np.sqrt(n_regions))
