"""What leaves a site in each kind of round: the only place that says which arrays an answer has.

A site computes exactly these arrays, the centre refuses any other, and ``docs/federated.md`` lists them.

Shape letters: R regions, P columns of the design, M patterns, K steps of a curve, T tasks of a round (a member or a
half, with a number of patterns), H values of c, B blocks, D directions, S starts, Q cosines. A symmetric matrix of size
R is sent as its R (R + 1) / 2 numbers on and above the diagonal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rindices.federated.exceptions import ExchangeError
from rindices.federated.messages import Request, count_packed
from rindices.federated.subsets import GROUPS
from rindices.learners.severity_posterior import N_STEPS

Shapes = dict[str, tuple[int, ...]]
N_COSINES, N_DISTANCE_COSINES = 24, 60
"""Cosines that describe the distribution of an R-index and of a distance."""
DESCRIBE, MEANS, PRODUCTS, TRANSFORM = "describe", "means", "products", "transform"
MOMENTS, BLOCKS, ROTATION, CURVES = "moments", "blocks", "rotation", "curves"
AGREEMENT, DISTRIBUTION = "agreement", "distribution"


@dataclass(frozen=True)
class RequestKind:
    """A kind of round.

    purpose: what the centre learns from it; leaves: what leaves a site; people: over whom is summed; get_shapes: takes
    a request; returns the names and shapes of the arrays of its answer.
    """

    purpose: str
    leaves: str
    people: str
    get_shapes: Callable[[Request], Shapes]


def get_kind(name: str) -> RequestKind:
    """Return a kind by its name.

    Raises ExchangeError: if there is none.
    """
    if name not in KINDS:
        raise ExchangeError(f"there is no request of the kind {name[:40]!r}: update rindices on both sides.")
    return KINDS[name]


def list_groups_of_tasks(tasks: Sequence[Sequence[Any]]) -> dict[str, list[int]]:
    """Return the positions of the tasks of each number of patterns (and shape), by the key of their arrays."""
    groups: dict[str, list[int]] = {}
    for position, task in enumerate(tasks):
        groups.setdefault(make_key(*task[2:]), []).append(position)
    return groups


def list_counted_sets(request: Request) -> list[str]:
    """Return the names of the sets of people that an answer counts, in order."""
    settings = request.settings
    if request.kind == MOMENTS:
        return [f"{name}/{group}" for name, group in settings["sets"]]
    if request.kind == BLOCKS:
        return [f"block-{block}/{group}" for group in GROUPS for block in range(int(settings["n_blocks"][group]))]
    if request.kind in (ROTATION, CURVES):
        groups = list_groups_of_tasks(settings["tasks"]).values()
        tasks = [settings["tasks"][position] for positions in groups for position in positions]
        return list(dict.fromkeys(f"{name}/patients" for task in tasks for name in task[:2] if name))
    return ["patients"] if request.kind == AGREEMENT else list(GROUPS)


def make_key(n_patterns: int, shape: str = "") -> str:
    """Return the key of the arrays of tasks with a number of patterns and a shape."""
    return f"{shape}{n_patterns}"


def _get_array_length(request: Request, name: str, axis: int = 0) -> int:
    try:
        return int(request.arrays[name].shape[axis])
    except (KeyError, IndexError) as error:
        raise ExchangeError(f"the request {request.kind} lacks {name}: the centre must send it again.") from error


def _get_setting(request: Request, name: str) -> Any:
    if name not in request.settings:
        raise ExchangeError(f"the request {request.kind} lacks {name}: the centre must send it again.")
    return request.settings[name]


def _shape_describe(request: Request) -> Shapes:
    return {}


def _shape_means(request: Request) -> Shapes:
    return {f"{group}.sum": (int(_get_setting(request, "n_columns")),) for group in GROUPS}


def _shape_products(request: Request) -> Shapes:
    number = _get_array_length(request, "centre")
    sums: Shapes = {f"{group}.sum": (number,) for group in GROUPS}
    return sums | {f"{group}.products": (count_packed(number),) for group in GROUPS}


def _shape_transform(request: Request) -> Shapes:
    shape = (_get_array_length(request, "shares"), _get_array_length(request, "standardise.mean"))
    names = [f"{group}.{name}" for group in GROUPS for name in ("sum", "squares")]
    return dict.fromkeys(names, shape) | {f"{group}.logs": shape[:1] for group in GROUPS}


def _shape_moments(request: Request) -> Shapes:
    number, n_regions = len(_get_setting(request, "sets")), _get_array_length(request, "standardise.mean")
    shapes: Shapes = {"sum": (number, n_regions), "weighted": (number, n_regions), "fourth": (number,)}
    return shapes | {"products": (number, count_packed(n_regions))}


def _shape_blocks(request: Request) -> Shapes:
    number = sum(int(n) for n in _get_setting(request, "n_blocks").values())
    n_regions, n_directions = (_get_array_length(request, "directions", axis) for axis in (0, 1))
    shapes: Shapes = dict.fromkeys(("sum", "squares"), (number, n_regions))
    return shapes | {"products": (number, count_packed(n_directions))}


def _shape_rotation(request: Request) -> Shapes:
    groups = list_groups_of_tasks(_get_setting(request, "tasks"))
    shapes: Shapes = {}
    for key in groups:
        n_tasks, n_starts, n_patterns = (_get_array_length(request, f"directions.{key}", axis) for axis in (0, 1, 2))
        shapes[f"sums.{key}"] = (n_tasks, n_starts, n_patterns, count_rotation_sums(n_patterns))
    return shapes


def count_rotation_sums(n_patterns: int) -> int:
    """Return the numbers per direction: two contrast functions with their gradients and second derivatives."""
    return 2 * (1 + n_patterns + count_packed(n_patterns))


def _shape_curves(request: Request) -> Shapes:
    shapes: Shapes = {}
    for key, positions in list_groups_of_tasks(_get_setting(request, "tasks")).items():
        n_patterns = int(request.settings["tasks"][positions[0]][2])
        n_tasks, width = len(positions), n_patterns * N_STEPS
        shapes[f"cross.{key}"] = (n_tasks, _get_array_length(request, f"weights.{key}", 1), width)
        shapes[f"gram.{key}"] = (n_tasks, count_packed(width))
        shapes[f"normal.{key}"] = (n_tasks, count_packed(n_patterns))
        shapes[f"likelihood.{key}"] = (n_tasks,)
    return shapes


def _shape_agreement(request: Request) -> Shapes:
    width = _get_array_length(request, "weights") * int(_get_setting(request, "n_patterns"))
    return {"sum": (width,), "products": (count_packed(width),)}


def _shape_distribution(request: Request) -> Shapes:
    shape = (int(_get_setting(request, "n_patterns")), N_COSINES)
    shapes: Shapes = {f"{group}.cosines": shape for group in GROUPS}
    return shapes | ({"distances.cosines": (N_DISTANCE_COSINES,)} if "precision" in request.arrays else {})


KINDS: Mapping[str, RequestKind] = {
    DESCRIBE: RequestKind(
        "names and numbers",
        "names of regions, unit, names and categories of covariates, number of controls and patients; whether all "
        "values are positive",
        "everyone; categories of fewer than the fewest people are not named",
        _shape_describe,
    ),
    MEANS: RequestKind(
        "centre of covariates and regions",
        "sum of each covariate and region, P + R numbers a group",
        "controls, patients; nothing where a category has too few people",
        _shape_means,
    ),
    PRODUCTS: RequestKind(
        "adjustment, standardisation, effects of regions and of sites",
        "sums of products of covariates and regions about the centre, (P + R)(P + R + 1) / 2 numbers a group",
        "controls, patients; nothing where a category has too few people",
        _shape_products,
    ),
    TRANSFORM: RequestKind(
        "scale on which disease is additive",
        "sum and sum of squares of each region after each of H transforms, and one sum of logarithms",
        "controls, patients",
        _shape_transform,
    ),
    MOMENTS: RequestKind(
        "disease space, normal variation",
        "sum x, sum x x', sum |x|^2 x and sum |x|^4 of adjusted regions",
        "controls and patients: all, each member's, the first half of each split",
        _shape_moments,
    ),
    BLOCKS: RequestKind(
        "tests by exchanged labels",
        "sum and sum of squares of each adjusted region, and products of D directions, for each of B blocks",
        "blocks of controls and of patients that have nobody in common",
        _shape_blocks,
    ),
    ROTATION: RequestKind(
        "basis of the patterns",
        "two contrast functions of each direction, with first and second derivatives",
        "patients of each member and half",
        _shape_rotation,
    ),
    CURVES: RequestKind(
        "curves, one step of EM; choice of shape and number",
        "sum x E[b]' of regions and steps (R M K numbers), sum E[b b'], sum E[y y'], and one log-likelihood of "
        "held-out patients",
        "patients of each member and half; held-out patients of each member",
        _shape_curves,
    ),
    AGREEMENT: RequestKind(
        "agreement of members and halves",
        "sums of R-indices and of their products",
        "patients",
        _shape_agreement,
    ),
    DISTRIBUTION: RequestKind(
        "separation of the groups; distances of the training people (left out with --no-distances)",
        f"{N_COSINES} sums of cosines of each R-index, {N_DISTANCE_COSINES} of the distance from the mean",
        "controls, patients; everyone",
        _shape_distribution,
    ),
}
