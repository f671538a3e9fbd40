"""What leaves a site in each kind of round: the only place that says which arrays an answer has.

A site computes exactly these arrays, the centre refuses any other, and ``docs/federated.md`` lists them.

Shape letters: R regions, P columns of the design, M patterns, K steps of a curve, T tasks of a round (a member or a
half, with a number of patterns), H values of c, B blocks, D directions, S starts, Q cosines. A symmetric matrix of size
R is sent as its R (R + 1) / 2 numbers on and above the diagonal.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rindices.federated.messages import Arrays, ExchangeError, Request, count_packed
from rindices.federated.subsets import EVERYONE, GROUPS, name_member
from rindices.learners.inference import SHARES
from rindices.learners.severity_posterior import N_STEPS

Settings = Mapping[str, Any]
Shapes = dict[str, tuple[int, ...]]
N_COSINES, N_DISTANCE_COSINES = 24, 60
"""Cosines that describe the distribution of an R-index and of a distance."""
DESCRIBE, MEANS, PRODUCTS, TRANSFORM = "describe", "means", "products", "transform"
MOMENTS, BLOCKS, ROTATION, CURVES = "moments", "blocks", "rotation", "curves"
AGREEMENT, DISTRIBUTION = "agreement", "distribution"


@dataclass(frozen=True)
class RequestKind:
    """A kind of round.

    purpose: what the centre learns from it; leaves: what leaves a site; people: over whom is summed; list_shapes: takes
    the settings and the arrays of a request; returns the names and shapes of the arrays of its answer.
    """

    purpose: str
    leaves: str
    people: str
    list_shapes: Callable[[Settings, Arrays], Shapes]

    def get_shapes(self, request: Request) -> Shapes:
        """Return the names and shapes of the arrays of the answer to a request.

        Raises ExchangeError: if the request lacks a setting or an array.
        """
        try:
            return self.list_shapes(request.settings, request.arrays)
        except (KeyError, IndexError) as error:
            what = error.args[0] if isinstance(error, KeyError) else "an axis of an array"
            raise ExchangeError(f"the request {request.kind} lacks {what}: the centre must send it again.") from error


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
    for position, (_, _, n_patterns, *shape) in enumerate(tasks):
        groups.setdefault(f"{''.join(shape)}{n_patterns}", []).append(position)
    return groups


def group_tasks(settings: Settings) -> dict[str, list[Sequence[Any]]]:
    """Return the tasks of a request by the key of their arrays."""
    tasks = settings["tasks"]
    return {key: [tasks[k] for k in positions] for key, positions in list_groups_of_tasks(tasks).items()}


def list_counted_sets(request: Request) -> list[str]:
    """Return the names of the sets of people that an answer counts, in order."""
    settings = request.settings
    if request.kind in (PRODUCTS, MOMENTS):
        return list(dict.fromkeys(f"{name}/{group}" for *_, name, group in settings["sets"]))
    if request.kind == TRANSFORM:
        return [f"{name_member(number)}/{group}" for number in settings["members"] for group in GROUPS]
    if request.kind == BLOCKS:
        return [f"block-{block}/{group}" for group in GROUPS for block in range(int(settings["n_blocks"][group]))]
    if request.kind in (ROTATION, CURVES):
        tasks = [task for group in group_tasks(settings).values() for task in group]
        return list(dict.fromkeys(f"{name}/patients" for task in tasks for name in task[:2] if name))
    return ["patients"] if request.kind == AGREEMENT else list(GROUPS)


def _shape_products(settings: Settings, arrays: Arrays) -> Shapes:
    number, n_columns = len(settings["sets"]), arrays["centre"].shape[0]
    shapes: Shapes = {"sum": (number, n_columns), "products": (number, count_packed(n_columns))}
    n_controls = sum(group == "controls" for *_, group in settings["sets"])
    if "harmonise" not in settings:
        return shapes | ({"within": (n_controls, count_packed(n_columns))} if settings.get("within") else {})
    n_regions = n_columns - arrays[f"{EVERYONE}/harmonise.centre"].shape[0]
    return shapes | ({} if "sites" in settings else {"effect": (n_controls, 2, n_regions)})


def _count_regions(settings: Settings, arrays: Arrays) -> int:
    return int(arrays[f"{next(iter(settings['preparations']))}/standardise.mean"].shape[0])


def _shape_transform(settings: Settings, arrays: Arrays) -> Shapes:
    shape = (len(settings["members"]), len(SHARES))
    names = [f"{group}.{name}" for group in GROUPS for name in ("sum", "squares")]
    shapes: Shapes = dict.fromkeys(names, (*shape, _count_regions(settings, arrays)))
    return shapes | {f"{group}.logs": shape for group in GROUPS}


def _shape_moments(settings: Settings, arrays: Arrays) -> Shapes:
    number, n_regions = len(settings["sets"]), _count_regions(settings, arrays)
    return {"sum": (number, n_regions), "products": (number, count_packed(n_regions))}


def _shape_blocks(settings: Settings, arrays: Arrays) -> Shapes:
    number = sum(int(n) for n in settings["n_blocks"].values())
    directions = arrays["directions"]
    shapes: Shapes = dict.fromkeys(("sum", "squares"), (number, directions.shape[0]))
    return shapes | {"products": (number, count_packed(directions.shape[1]))}


def _shape_rotation(settings: Settings, arrays: Arrays) -> Shapes:
    shapes: Shapes = {}
    for key in list_groups_of_tasks(settings["tasks"]):
        n_tasks, n_starts, n_patterns = (arrays[f"directions.{key}"].shape[axis] for axis in (0, 1, 2))
        # two contrast functions with their gradients and second derivatives
        shapes[f"sums.{key}"] = (n_tasks, n_starts, n_patterns, 2 * (1 + n_patterns + count_packed(n_patterns)))
    return shapes


def _shape_curves(settings: Settings, arrays: Arrays) -> Shapes:
    shapes: Shapes = {}
    for key, tasks in group_tasks(settings).items():
        n_tasks, n_patterns = len(tasks), int(tasks[0][2])
        width = n_patterns * N_STEPS * (n_patterns + 1 if f"interaction.{key}" in arrays else 1)
        shapes[f"cross.{key}"] = (n_tasks, arrays[f"weights.{key}"].shape[1], width)
        shapes[f"moments.{key}"] = (n_tasks, count_packed(width))
        shapes[f"normal.{key}"] = (n_tasks, count_packed(n_patterns))
        shapes[f"likelihood.{key}"] = (n_tasks,)
    return shapes


def _shape_agreement(settings: Settings, arrays: Arrays) -> Shapes:
    width = arrays["weights"].shape[0] * int(settings["n_patterns"])
    return {"sum": (width,), "products": (count_packed(width),)}


def _shape_distribution(settings: Settings, arrays: Arrays) -> Shapes:
    shapes: Shapes = {f"{group}.cosines": (int(settings["n_patterns"]), N_COSINES) for group in GROUPS}
    return shapes | ({"distances.cosines": (N_DISTANCE_COSINES,)} if "precision" in arrays else {})


KINDS: Mapping[str, RequestKind] = {
    DESCRIBE: RequestKind(
        "names and numbers",
        "names of regions, unit, names and categories of covariates, number of controls and patients; whether all "
        "values are positive; public key",
        "everyone; categories of fewer than the fewest people are not named",
        lambda settings, arrays: {},
    ),
    MEANS: RequestKind(
        "centre of covariates and regions",
        "sum of each covariate and region, P + R numbers a group",
        "controls, patients; nothing where a category has too few people",
        lambda settings, arrays: {f"{group}.sum": (int(settings["n_columns"]),) for group in GROUPS},
    ),
    PRODUCTS: RequestKind(
        "adjustment, standardisation, effects of regions and of sites",
        "sums of products of covariates and regions about the centre, (P + R)(P + R + 1) / 2 numbers a set; where "
        "effects of sites are removed also those of controls about their mean at the site, then all without the effect "
        "and, if there are no masks, the site's shift and scale of each region",
        "controls of each member, and all; patients; nothing where a category has too few people",
        _shape_products,
    ),
    TRANSFORM: RequestKind(
        "scale on which disease is additive",
        "sum and sum of squares of each region after each of H transforms, and one sum of logarithms",
        "controls and patients of each member",
        _shape_transform,
    ),
    MOMENTS: RequestKind(
        "disease space, normal variation",
        "sum x and sum x x' of adjusted regions",
        "controls and patients of each fold, by the adjustment of each member",
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
        "sum x E[f]' of regions and functions of the severities (R M K numbers; M + 1 times as many where patterns "
        "interact), sum E[f f'], sum E[y y'], and one log-likelihood of held-out patients",
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
