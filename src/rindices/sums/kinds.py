"""Kinds of requests, one class each: over whom to sum, what is summed, its shapes, and
which sums are possible.

The sums of a request are all that leaves a part. `KINDS` lists them, and the table
"what leaves a site" of the documentation is written from it. The rows of an array are
the sets of people of the request (`list_sets`). In requests of several tasks, each task
has arrays of its own.

Sums that no people can have are refused. Sums of products of functions of people are
Gram matrices, which have no negative eigenvalue, and sums of functions with a range lie
within that range times the number of people. What is possible and merely untrue passes.

Shape letters: N people, R regions, P columns of the design, M patterns, K steps of a
curve, S starts, T models, H values of c, B blocks, Q cosines, D columns of a Gram
matrix. A symmetric matrix of size R is sent as its R (R + 1) / 2 numbers on and above
the diagonal.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Self

import numpy as np

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.learners.contrastive.linear_start import sum_contrasts
from rindices.learners.contrastive.whole_cohort_start import (
    MAX_LOG_RATIO,
    sum_group_losses,
)
from rindices.learners.inference import LOG_CONSTANTS, ContrastiveHead, TransformSums
from rindices.learners.people_source import PeopleSet
from rindices.learners.severity_posterior import (
    N_STEPS,
    SeverityPosterior,
    compute_log_copula,
)
from rindices.learners.trajectory.expectation import sum_points, summarise_people
from rindices.learners.trajectory.model import list_functions
from rindices.sums.batches import add_batches, add_moments, sum_moments
from rindices.sums.messages import (
    Answer,
    Request,
    SumsError,
    count_packed,
    pack_symmetric,
    unpack_symmetric,
)
from rindices.sums.subsets import EVERYONE, GROUPS, SAMPLE, name_set, read_set

if TYPE_CHECKING:
    from rindices.sums.people import LocalPeople

Shapes = dict[str, tuple[int, ...]]
SetOfPeople = tuple[str, str]
"""Name of a set and of its group."""
Gram = tuple[str, FloatArray]
"""Name of an array, and the sums of products (..., D, D) of 1 and functions of people
that it has.
"""
Range = tuple[str, FloatArray, float, float]
"""Name of an array, its values, and the smallest and the largest value that people can
have.
"""
N_COSINES, N_DISTANCE_COSINES = 24, 60
"""Cosines that describe the distribution of an R-index and of a distance."""
DESCRIBE, MEANS, PRODUCTS, TRANSFORM = "describe", "means", "products", "transform"
MOMENTS, BLOCKS, ROTATION, CURVES, LOSSES = (
    "moments",
    "blocks",
    "rotation",
    "curves",
    "losses",
)
AGREEMENT, DISTRIBUTION = "agreement", "distribution"
_TOLERANCE = 1e-8
_SQUARE_ROOT_OF_E = float(np.exp(0.5))
_MAX_LOSS = float(np.logaddexp(0.0, MAX_LOG_RATIO))


@dataclass
class LocalSums:
    """Sums over the people of one part.

    Parameters
    ----------
    numbers : list of int
        People of each set of the request.
    arrays : dict of str to ndarray
        The sums.
    facts : dict
        About the table.
    """

    numbers: list[int]
    arrays: dict[str, FloatArray] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)


class RequestKind(ABC):
    """A kind of request."""

    leaves: ClassVar[str]
    """What leaves a part, in words."""

    @abstractmethod
    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the sets of people of a request, in the order of the numbers of an
        answer.
        """

    @abstractmethod
    def list_shapes(self, request: Request) -> Shapes:
        """Return the names and shapes of the arrays of an answer."""

    @abstractmethod
    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the sums over people."""

    def list_grams(self, answer: Answer, request: Request) -> Iterator[Gram]:
        """Yield sums of products of 1 and functions of people; the first is their
        number.
        """
        return iter(())

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield sums of functions of people that have a smallest and a
        largest value.
        """
        return iter(())


class Describe(RequestKind):
    """Names of regions and covariates, and numbers of people."""

    leaves = (
        "names of regions, unit, names and categories of covariates, number of controls and patients; whether all "
        "values are positive"
    )

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return both groups."""
        return [("all", group) for group in GROUPS]

    def list_shapes(self, request: Request) -> Shapes:
        """Return no arrays."""
        return {}

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return numbers of people and facts about the table."""
        cohort = people.cohort
        everyone = np.ones(len(cohort), dtype=bool)
        not_positive = add_batches(
            everyone, lambda rows: [(people.get_volumes(rows) <= 0).sum()]
        )[0]
        facts = {
            "regions": list(people.regions),
            "unit": cohort.unit,
            "source": cohort.source,
            "positive": not not_positive,
            "covariates": {
                name: people.describe_covariate(name)
                for name in sorted(map(str, cohort.covariates))
            },
        }
        return LocalSums(
            [int(mask.sum()) for mask in people.groups.values()], facts=facts
        )


class Means(RequestKind):
    """Sums of covariates and regions."""

    leaves = "sum of each covariate and region, P + R numbers a group"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return both groups."""
        return [("all", group) for group in GROUPS]

    def list_shapes(self, request: Request) -> Shapes:
        """Return a row of sums for each group."""
        return {"sum": (len(GROUPS), int(request.settings["n_columns"]))}

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return sums of covariates and regions."""
        design, masks = people.build_design(request), list(people.groups.values())
        parts = [
            add_batches(
                mask, lambda rows: [people.get_columns(request, design, rows).sum(0)]
            )
            for mask in masks
        ]
        return LocalSums([int(mask.sum()) for mask in masks], _stack(("sum",), parts))


class _Moments(RequestKind):
    """Sums of x and of x x' of each set."""

    @abstractmethod
    def get_width(self, request: Request) -> int:
        """Return the number of values of a person."""

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shapes of sum x and sum x x' of each set."""
        number, width = len(self.list_sets(request)), self.get_width(request)
        return {"sum": (number, width), "products": (number, count_packed(width))}

    def list_grams(self, answer: Answer, request: Request) -> Iterator[Gram]:
        """Yield the products of 1 and x."""
        numbers = np.array(answer.numbers, dtype=float)
        yield (
            "products",
            _border(
                unpack_symmetric(answer.arrays["products"]),
                answer.arrays["sum"],
                numbers,
            ),
        )


class Products(_Moments):
    """Sums of products of covariates and regions about a centre, and what is needed of
    the effects of sites.
    """

    leaves = (
        "sums of products of covariates and regions about the centre, (P + R)(P + R + 1) / 2 numbers a set; where "
        "effects of sites are removed also those of controls about their mean at the site, then all without the effect "
        "and the site's shift and scale of each region"
    )

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the sets that the request names."""
        return [(str(name), str(group)) for _, name, group in request.settings["sets"]]

    def get_width(self, request: Request) -> int:
        """Return P + R."""
        return int(request.arrays["centre"].shape[0])

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shapes of the moments, and of what is needed of the effects of
        sites.
        """
        settings, n_columns, shapes = (
            request.settings,
            self.get_width(request),
            super().list_shapes(request),
        )
        n_controls = sum(group == "controls" for _, group in self.list_sets(request))
        if "harmonise" in settings and settings["with_effects"]:
            n_regions = (
                n_columns - request.arrays[f"{EVERYONE}/harmonise.centre"].shape[0]
            )
            shapes["effect"] = (n_controls, 2, n_regions)
        elif "harmonise" not in settings and settings.get("within"):
            shapes["within"] = (n_controls, count_packed(n_columns))
        return shapes

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return moments about the centre, and the effects of the site or the moments
        about its mean.
        """
        design, numbers, moments, within, effects = (
            people.build_design(request),
            list[int](),
            [],
            [],
            [],
        )
        for key, name, group in request.settings["sets"]:
            mask = people.select(request, name, group)
            harmoniser = people.get_harmoniser(request, str(key), design)
            total, products = add_moments(
                mask, partial(people.get_centred, request, design, harmoniser)
            )
            numbers.append(int(mask.sum()))
            moments.append([total, products])
            if group == "controls":
                within.append(
                    [
                        products
                        - pack_symmetric(np.outer(total, total)) / max(numbers[-1], 1)
                    ]
                )
                if harmoniser is not None:
                    row = harmoniser.sites.index(people.name)
                    effects.append(
                        [np.stack([harmoniser.shift[row], harmoniser.scale[row]])]
                    )
        arrays = _stack(("sum", "products"), moments)
        if effects and request.settings["with_effects"]:
            arrays |= _stack(("effect",), effects)
        elif not effects and request.settings.get("within"):
            arrays |= _stack(("within",), within)
        return LocalSums(numbers, arrays)

    def list_grams(self, answer: Answer, request: Request) -> Iterator[Gram]:
        """Yield the products of 1 and x, and those of controls about their mean."""
        yield from super().list_grams(answer, request)
        if "within" in answer.arrays:
            is_control = np.array(
                [group == "controls" for _, group in self.list_sets(request)]
            )
            within = unpack_symmetric(answer.arrays["within"])
            yield (
                "within",
                _border(
                    within,
                    0.0 * within[:, 0],
                    np.array(answer.numbers, dtype=float)[is_control],
                ),
            )


class Transform(RequestKind):
    """Sums of regions after log transforms."""

    leaves = "sum and sum of squares of each region after each of H transforms, and one sum of logarithms"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return both groups of the people that each member sees."""
        members = map(int, request.settings["members"])
        return [
            (name_set(PeopleSet(number, "seen")), group)
            for number in members
            for group in GROUPS
        ]

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shapes of sums, sums of squares and sums of logarithms by
        transform.
        """
        shape, n_regions = (
            (len(self.list_sets(request)), len(LOG_CONSTANTS)),
            _count_regions(request),
        )
        return {
            "sum": (*shape, n_regions),
            "squares": (*shape, n_regions),
            "logs": shape,
        }

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return sums of transformed regions."""
        numbers, added = [], []
        for name, group in self.list_sets(request):
            key = str(read_set(name).member)
            head = people.get_preparation(request, key).head

            def sum_batch(
                rows: IntArray, key: str = key, head: ContrastiveHead = head
            ) -> list[FloatArray]:
                z = (
                    people.get_values(request, key, rows) - head.control_mean
                ) / head.control_scale
                parts = [TransformSums.compute(z, c) for c in LOG_CONSTANTS.tolist()]
                return [np.array(each) for each in zip(*parts, strict=True)]

            mask = people.select(request, name, group)
            numbers.append(int(mask.sum()))
            added.append(add_batches(mask, sum_batch))
        return LocalSums(numbers, _stack(("sum", "squares", "logs"), added))

    def list_grams(self, answer: Answer, request: Request) -> Iterator[Gram]:
        """Yield the products of 1 and each transformed region."""
        squares, total = (
            answer.arrays["squares"][..., None, None],
            answer.arrays["sum"][..., None],
        )
        numbers = np.array(answer.numbers, dtype=float)[:, None, None]
        yield "squares", _border(squares, total, numbers)


class Moments(_Moments):
    """Moments of prepared people."""

    leaves = "sum x and sum x x' of adjusted regions"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the sets that the request names."""
        return [(str(name), str(group)) for _, name, group in request.settings["sets"]]

    def get_width(self, request: Request) -> int:
        """Return R."""
        return _count_regions(request)

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the moments of the shifts of each set."""
        masks = [
            people.select(request, name, group)
            for name, group in self.list_sets(request)
        ]
        keys = [str(key) for key, _, _ in request.settings["sets"]]
        parts = [
            add_moments(mask, partial(people.compute_shifts, request, key))
            for key, mask in zip(keys, masks, strict=True)
        ]
        return LocalSums(
            [int(mask.sum()) for mask in masks], _stack(("sum", "products"), parts)
        )


class Blocks(_Moments):
    """Moments of adjusted people of each block, for the tests of groups."""

    leaves = "sum x and sum x x' of adjusted regions for each block"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the blocks of both groups."""
        numbers = request.settings["n_blocks"]
        return [
            (f"block-{k}", group)
            for group in GROUPS
            for k in range(int(numbers[group]))
        ]

    def get_width(self, request: Request) -> int:
        """Return R."""
        return int(request.arrays["scale"].shape[0])

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the moments of adjusted regions of each block."""
        design, coefficients, scale = (
            people.build_design(request),
            *_get(request, "coefficients", "scale"),
        )
        harmoniser, numbers, parts = (
            people.get_harmoniser(request, EVERYONE, design),
            [],
            [],
        )

        def adjust(rows: IntArray) -> FloatArray:
            centred = people.get_centred(request, design, harmoniser, rows)
            adjusted = (
                centred[:, len(coefficients) :]
                - centred[:, : len(coefficients)] @ coefficients
            )
            return np.asarray(adjusted / scale)

        for group in GROUPS:
            n_blocks = int(request.settings["n_blocks"][group])
            blocks = people.get_subsets(request).assign_blocks(group, n_blocks)
            for block in range(n_blocks):
                numbers.append(int((blocks == block).sum()))
                parts.append(add_moments(blocks == block, adjust))
        return LocalSums(numbers, _stack(("sum", "products"), parts))


class _Tasks(RequestKind):
    """Sums for several tasks, each over the patients of a set."""

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the patients of each task."""
        return [(str(name), "patients") for name, _ in request.settings["tasks"]]


class Rotation(_Tasks):
    """Contrast functions of a linear start."""

    leaves = (
        "two contrast functions of each direction, with first and second derivatives"
    )

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shape of the sums of each task: two functions with their gradients
        and second derivatives.
        """
        shapes: Shapes = {}
        for k in range(len(request.settings["tasks"])):
            n_starts, n_patterns = (
                request.arrays[f"directions.{k}"].shape[axis] for axis in (0, 1)
            )
            shapes[f"sums.{k}"] = (
                n_starts,
                n_patterns,
                2 * (1 + n_patterns + count_packed(n_patterns)),
            )
        return shapes

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the sums of contrast functions."""
        numbers, arrays = list[int](), dict[str, FloatArray]()
        for k, (name, _) in enumerate(request.settings["tasks"]):
            linear_map, offset, directions = _get(
                request, f"map.{k}", f"offset.{k}", f"directions.{k}"
            )
            patients = people.select_patients(request, name)
            values, gradients, curvatures = sum_contrasts(
                patients @ linear_map - offset, directions
            )
            parts = np.concatenate(
                [values[..., None], gradients, pack_symmetric(curvatures)], axis=3
            )
            arrays[f"sums.{k}"] = parts.reshape(*values.shape[:2], -1)
            numbers.append(len(patients))
        return LocalSums(numbers, arrays)

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield the sums of s exp(-s^2 / 2) and of exp(-s^2 / 2)."""
        for k, number in enumerate(answer.numbers):
            array, largest = answer.arrays[f"sums.{k}"], number / _SQUARE_ROOT_OF_E
            yield f"sums.{k}", array[..., 0], -largest, largest
            yield f"sums.{k}", array[..., array.shape[-1] // 2], 0.0, number


class Curves(_Tasks):
    """Expectations of an E step."""

    leaves = (
        "sum x E[f]' of regions and functions of the severities (R M K numbers; M + 1 times as many where patterns "
        "interact), sum E[f f'], sum E[y y'], and one log-likelihood of held-out patients"
    )

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shapes of the sums of each task."""
        shapes: Shapes = {}
        for k in range(len(request.settings["tasks"])):
            n_regions, width = (
                request.arrays[f"weights.{k}"].shape[axis] for axis in (0, 1)
            )
            n_patterns = width // N_STEPS
            width *= n_patterns + 1 if f"interaction.{k}" in request.arrays else 1
            shapes |= {
                f"cross.{k}": (n_regions, width),
                f"moments.{k}": (count_packed(width),),
            }
            shapes |= {
                f"normal.{k}": (count_packed(n_patterns),),
                f"likelihood.{k}": (),
            }
        return shapes

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the expectations of patients, and the log-likelihood of held-out ones
        relative to controls.
        """
        numbers, arrays = list[int](), dict[str, FloatArray]()
        for k, (name, held_out) in enumerate(request.settings["tasks"]):
            model, patients = (
                SentModel.read(request, k),
                people.select_patients(request, name),
            )
            others = (
                people.select_patients(request, held_out) if held_out else patients[:0]
            )
            sums = (
                *model.sum_expectations(patients),
                model.compute_log_ratio(others).sum(),
            )
            names = ("cross", "moments", "normal", "likelihood")
            arrays |= {
                f"{each}.{k}": array for each, array in zip(names, sums, strict=True)
            }
            numbers.append(len(patients))
        return LocalSums(numbers, arrays)

    def list_grams(self, answer: Answer, request: Request) -> Iterator[Gram]:
        """Yield sums of E[f f'] and of E[y y']."""
        for name in [
            name for name in answer.arrays if name.startswith(("moments.", "normal."))
        ]:
            yield name, unpack_symmetric(answer.arrays[name])

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield sums of products of functions from 0 to 1."""
        for k, number in enumerate(answer.numbers):
            yield f"moments.{k}", answer.arrays[f"moments.{k}"], 0.0, number


class Losses(RequestKind):
    """Group losses of held-out people under several models."""

    leaves = "sum over each group of how badly a model distinguishes its people from the other group"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return both groups of each task."""
        return [
            (str(name), group)
            for name, _ in request.settings["tasks"]
            for group in GROUPS
        ]

    def list_shapes(self, request: Request) -> Shapes:
        """Return a number for each group and task."""
        models = [
            request.arrays[f"weights.{k}"]
            for k in range(len(request.settings["tasks"]))
        ]
        return {f"losses.{k}": (len(GROUPS),) for k in range(len(models))}

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the losses of both groups."""
        numbers, arrays = list[int](), dict[str, FloatArray]()
        for k, (name, _) in enumerate(request.settings["tasks"]):
            model, losses = SentModel.read(request, k), []
            for group in GROUPS:
                rows = np.flatnonzero(people.select(request, name, group))
                shifts = people.compute_shifts(
                    request, str(read_set(name).member), rows
                )
                losses.append(
                    sum_group_losses(
                        model.compute_log_ratio(shifts), group == "patients"
                    )
                )
                numbers.append(len(rows))
            arrays[f"losses.{k}"] = np.array(losses)
        return LocalSums(numbers, arrays)

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield the losses, which are clipped."""
        for row, number in enumerate(answer.numbers):
            k, group = divmod(row, len(GROUPS))
            yield (
                f"losses.{k}",
                answer.arrays[f"losses.{k}"][group],
                0.0,
                _MAX_LOSS * number,
            )


class Agreement(_Moments):
    """Moments of R-indices by several models."""

    leaves = "sums of R-indices and of their products"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return the patients in whom fits are compared."""
        return [(SAMPLE, "patients")]

    def get_width(self, request: Request) -> int:
        """Return the number of R-indices of all models."""
        return len(request.settings["members"]) * _count_patterns(request)

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the moments of R-indices."""
        mask = people.select(request, SAMPLE, "patients")
        indices = np.concatenate(_infer_indices(people, request, mask), axis=1)
        return LocalSums(
            [int(mask.sum())], _stack(("sum", "products"), [sum_moments(indices)])
        )

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield the sums of R-indices, which are from 0 to 1."""
        yield "sum", answer.arrays["sum"], 0.0, answer.numbers[0]


class Distribution(RequestKind):
    """Distribution of R-indices and of distances from the mean."""

    leaves = f"{N_COSINES} sums of cosines of each R-index, {N_DISTANCE_COSINES} of the distance from the mean"

    def list_sets(self, request: Request) -> list[SetOfPeople]:
        """Return both groups of the people by whom fits are compared."""
        return [(SAMPLE, group) for group in GROUPS]

    def list_shapes(self, request: Request) -> Shapes:
        """Return the shapes of the sums of cosines."""
        shapes: Shapes = {"cosines": (len(GROUPS), _count_patterns(request), N_COSINES)}
        return shapes | (
            {"distances": (N_DISTANCE_COSINES,)}
            if "precision" in request.arrays
            else {}
        )

    def sum(self, people: "LocalPeople", request: Request) -> LocalSums:
        """Return the sums of cosines."""
        masks, cosines, orders = [], [], request.settings["orders"]
        for group in GROUPS:
            masks.append(people.select(request, SAMPLE, group))
            indices = _infer_indices(people, request, masks[-1])
            mean = np.mean(
                [
                    each[:, list(order)]
                    for each, order in zip(indices, orders, strict=True)
                ],
                axis=0,
            )
            cosines.append([sum_cosines(mean, N_COSINES)])
        sums = LocalSums(
            [int(mask.sum()) for mask in masks], _stack(("cosines",), cosines)
        )
        if "precision" in request.arrays:
            precision = unpack_symmetric(request.arrays["precision"])
            number, own_share = (
                int(request.settings["n_people"]),
                float(request.settings["own_share"]),
            )
            values = people.get_values(
                request, EVERYONE, np.flatnonzero(masks[0] | masks[1])
            )
            distances = scale_distances(
                values, request.arrays["mean"], precision, number, own_share
            )
            sums.arrays["distances"] = sum_cosines(
                distances[:, None], N_DISTANCE_COSINES
            )[0]
        return sums

    def list_ranges(self, answer: Answer, request: Request) -> Iterator[Range]:
        """Yield the sums of cosines."""
        for row, number in zip(answer.arrays["cosines"], answer.numbers, strict=True):
            yield "cosines", row, -number, number
        if "distances" in answer.arrays:
            yield (
                "distances",
                answer.arrays["distances"],
                -sum(answer.numbers),
                sum(answer.numbers),
            )


KINDS: Mapping[str, RequestKind] = {
    DESCRIBE: Describe(),
    MEANS: Means(),
    PRODUCTS: Products(),
    TRANSFORM: Transform(),
    MOMENTS: Moments(),
    BLOCKS: Blocks(),
    ROTATION: Rotation(),
    CURVES: Curves(),
    LOSSES: Losses(),
    AGREEMENT: Agreement(),
    DISTRIBUTION: Distribution(),
}


def get_kind(request: Request) -> RequestKind:
    """Return the kind of a request.

    Raises SumsError: if there is no such kind.
    """
    if request.kind not in KINDS:
        raise SumsError(
            f"there is no request of the kind {request.kind[:40]!r}: update rindices everywhere."
        )
    return KINDS[request.kind]


def get_answer_shapes(request: Request) -> Shapes:
    """Return the names and shapes of the arrays of the answer to a request.

    Raises SumsError: if there is no such kind, or a setting or an array is missing.
    """
    try:
        return get_kind(request).list_shapes(request)
    except (KeyError, IndexError) as error:
        what = error.args[0] if isinstance(error, KeyError) else "an axis of an array"
        raise SumsError(
            f"{what} is missing in the request {request.kind}: it must be sent again."
        ) from error


def list_sets(request: Request) -> list[SetOfPeople]:
    """Return the sets of people of a request, each with its group, in the order of the
    numbers of an answer.
    """
    return get_kind(request).list_sets(request)


def find_impossible_sums(answer: Answer, request: Request) -> str:
    """Return the name of sums that no people can have; empty if there are none."""
    kind = get_kind(request)
    grams = (
        name
        for name, matrices in kind.list_grams(answer, request)
        if not _is_gram(matrices)
    )
    ranges = (
        name
        for name, array, low, high in kind.list_ranges(answer, request)
        if (
            (array < low - _TOLERANCE * (high + 1.0))
            | (array > high + _TOLERANCE * (high + 1.0))
        ).any()
    )
    return next(grams, "") or next(ranges, "")


class SentModel(NamedTuple):
    """A model that a request has.

    Parameters
    ----------
    weights : ndarray of shape (R, M * K)
    posterior : SeverityPosterior
    functions : ndarray of shape (G, T)
        Functions of the severities at the points of the posterior; their sums are
        asked for.
    """

    weights: FloatArray
    posterior: SeverityPosterior
    functions: FloatArray

    @classmethod
    def read(cls, request: Request, k: int) -> Self:
        """Return a model of a request."""
        weights, gram, correlation = _get(
            request, f"weights.{k}", f"gram.{k}", f"correlation.{k}"
        )
        correlation, interaction = (
            unpack_symmetric(correlation),
            request.arrays.get(f"interaction.{k}"),
        )
        prior, n_patterns = compute_log_copula(correlation), len(correlation)
        posterior = SeverityPosterior.from_gram(
            unpack_symmetric(gram), prior, n_patterns, interaction
        )
        return cls(
            weights,
            posterior,
            list_functions(n_patterns, N_STEPS, interaction is not None),
        )

    def sum_expectations(
        self, patients: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return the sums of the E step: sum x E[f]' (R, T), packed sum E[f f'] and
        packed sum E[y y'].

        f are the functions and y the severities as normal quantiles. ``patients`` are
        (N, R).
        """
        cross, point_weights = (
            np.zeros((len(self.weights), self.functions.shape[1])),
            np.zeros(len(self.functions)),
        )
        functions = (
            None if self.functions.shape[1] == self.weights.shape[1] else self.functions
        )
        for part, summary in summarise_people(
            patients, self.weights, self.posterior, functions
        ):
            cross += part.T @ summary.basis
            point_weights += summary.point_weights
        moments, normal = sum_points(
            self.functions, self.posterior.points, point_weights
        )
        return cross, pack_symmetric(moments), pack_symmetric(normal)

    def compute_log_ratio(self, people: FloatArray) -> FloatArray:
        """Return the log-likelihood (N,) of people (N, R) as patients, relative to a
        control.
        """
        summaries = summarise_people(people, self.weights, self.posterior)
        return np.concatenate(
            [np.zeros(0), *(summary.log_sum for _, summary in summaries)]
        )


def _infer_indices(
    people: "LocalPeople", request: Request, mask: BoolArray
) -> list[FloatArray]:
    """Return the R-indices (n, M) of the people of a mask by each of T models."""
    indices, shifts, rows = [], dict[str, FloatArray](), np.flatnonzero(mask)
    for k, key in enumerate(map(str, request.settings["members"])):
        if key not in shifts:
            shifts[key] = people.compute_shifts(request, key, rows)
        model = SentModel.read(request, k)
        indices.append(model.posterior.compute_means(shifts[key] @ model.weights))
    return indices


def sum_cosines(values: FloatArray, number: int) -> FloatArray:
    """Return the sums of cos(k pi v), k = 1 to Q, of values from 0 to 1, (N, M) -> (M,
    Q).
    """
    return np.asarray(
        np.cos(np.pi * values.T[:, :, None] * np.arange(1, number + 1)).sum(axis=1)
    )


def scale_distances(
    people: FloatArray,
    mean: FloatArray,
    precision: FloatArray,
    number: int,
    own_share: float,
) -> FloatArray:
    """Return distances (N,) from the mean of all people as if each was not among them,
    scaled to 0 to 1.

    Without a person, the mean moves away by a factor n / (n - 1) and the covariance
    loses the person's part, of which shrinkage leaves the share ``own_share``. The
    distance 1 is `get_largest_distance`.
    """
    centred, factor = people - mean, number / (number - 1.0)
    squares = ((centred @ precision) * centred).sum(axis=1)
    left_out = (
        factor**2
        * squares
        / np.maximum(1.0 - own_share * factor * squares / (number - 1.0), 0.01)
    )
    return np.asarray(
        np.clip(np.sqrt(left_out) / get_largest_distance(len(mean)), 0.0, 1.0)
    )


def get_largest_distance(n_regions: int) -> float:
    """Return the distance that is scaled to 1; it is about sqrt(R) on average."""
    return float(2.5 * np.sqrt(n_regions))


def _get(request: Request, *names: str) -> tuple[FloatArray, ...]:
    return tuple(request.arrays[name] for name in names)


def _count_regions(request: Request) -> int:
    return int(
        request.arrays[
            f"{next(iter(request.settings['preparations']))}/standardise.mean"
        ].shape[0]
    )


def _count_patterns(request: Request) -> int:
    return int(request.arrays["weights.0"].shape[1]) // N_STEPS


def _stack(
    names: Sequence[str], parts: Sequence[Sequence[Any]]
) -> dict[str, FloatArray]:
    """Return arrays with one row for each part."""
    return {
        name: np.stack(each)
        for name, each in zip(names, zip(*parts, strict=True), strict=True)
    }


def _border(products: FloatArray, edge: FloatArray, corner: FloatArray) -> FloatArray:
    """Return matrices (..., D, D) with one more row and column in front."""
    matrices = np.empty(
        (*products.shape[:-2], *(size + 1 for size in products.shape[-2:]))
    )
    matrices[..., 1:, 1:], matrices[..., 0, 0] = products, corner
    matrices[..., 0, 1:] = matrices[..., 1:, 0] = edge
    return matrices


def _is_gram(matrices: FloatArray) -> bool:
    """Return whether matrices (..., D, D) have no negative eigenvalue, but for
    rounding, and nobody has no sums.
    """
    diagonal = np.diagonal(matrices, axis1=-2, axis2=-1)
    if (diagonal < 0).any() or matrices[diagonal[..., 0] == 0].any():
        return False
    scale = np.sqrt(np.where(diagonal > 0, diagonal, 1.0))
    scaled = matrices / scale[..., :, None] / scale[..., None, :]
    try:
        np.linalg.cholesky(scaled + _TOLERANCE * np.eye(matrices.shape[-1]))
    except np.linalg.LinAlgError:
        return False
    return True
