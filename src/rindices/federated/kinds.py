"""What leaves a site in each kind of round: the only place that says which arrays an answer has.

A site computes exactly these arrays, the centre refuses any other, and ``docs/federated.md`` lists them. The rows of an
array are the sets of people of the request (`list_sets`); in rounds of several tasks, each task has arrays of its own.

Shape letters: R regions, M patterns, K steps of a curve, S starts, T models. A symmetric matrix of size R is sent as
its R (R + 1) / 2 numbers on and above the diagonal.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from rindices.federated.messages import ExchangeError, Request, count_packed
from rindices.federated.subsets import EVERYONE, GROUPS, SAMPLE, name_set
from rindices.learners.inference import SHARES
from rindices.learners.people_source import PeopleSet
from rindices.learners.severity_posterior import N_STEPS

Shapes = dict[str, tuple[int, ...]]
N_COSINES, N_DISTANCE_COSINES = 24, 60
"""Cosines that describe the distribution of an R-index and of a distance."""
DESCRIBE, MEANS, PRODUCTS, TRANSFORM = "describe", "means", "products", "transform"
MOMENTS, BLOCKS, ROTATION, CURVES, LOSSES = "moments", "blocks", "rotation", "curves", "losses"
AGREEMENT, DISTRIBUTION = "agreement", "distribution"


class RequestKind(NamedTuple):
    """A kind of round: what leaves a site, and the shapes of the arrays of an answer to a request."""

    leaves: str
    list_shapes: Callable[[Request], Shapes]


def get_answer_shapes(request: Request) -> Shapes:
    """Return the names and shapes of the arrays of the answer to a request.

    Raises ExchangeError: if there is no such kind, or the request lacks a setting or an array.
    """
    if request.kind not in KINDS:
        raise ExchangeError(f"there is no request of the kind {request.kind[:40]!r}: update rindices on both sides.")
    try:
        return KINDS[request.kind].list_shapes(request)
    except (KeyError, IndexError) as error:
        what = error.args[0] if isinstance(error, KeyError) else "an axis of an array"
        raise ExchangeError(f"the request {request.kind} lacks {what}: the centre must send it again.") from error


def list_sets(request: Request) -> list[tuple[str, str]]:
    """Return the sets of people of a request, each with its group, in the order of the numbers of an answer."""
    settings = request.settings
    if request.kind in (PRODUCTS, MOMENTS):
        return [(str(name), str(group)) for _, name, group in settings["sets"]]
    if request.kind == TRANSFORM:
        return [(name_set(PeopleSet(int(number), "seen")), group) for number in settings["members"] for group in GROUPS]
    if request.kind == BLOCKS:
        return [(f"block-{k}", group) for group in GROUPS for k in range(int(settings["n_blocks"][group]))]
    if request.kind in (ROTATION, CURVES):
        return [(str(name), "patients") for name, _ in settings["tasks"]]
    if request.kind == LOSSES:
        return [(str(name), group) for name, _ in settings["tasks"] for group in GROUPS]
    if request.kind == AGREEMENT:
        return [(SAMPLE, "patients")]
    return [(SAMPLE if request.kind == DISTRIBUTION else "all", group) for group in GROUPS]


def _shape_moments(request: Request, width: int) -> Shapes:
    """Return the shapes of sum x and sum x x' of each set, for x of this width."""
    number = len(list_sets(request))
    return {"sum": (number, width), "products": (number, count_packed(width))}


def _shape_products(request: Request) -> Shapes:
    settings, n_columns = request.settings, request.arrays["centre"].shape[0]
    shapes = _shape_moments(request, n_columns)
    n_controls = sum(group == "controls" for _, group in list_sets(request))
    if "harmonise" in settings and "sites" not in settings:
        n_regions = n_columns - request.arrays[f"{EVERYONE}/harmonise.centre"].shape[0]
        shapes["effect"] = (n_controls, 2, n_regions)
    elif "harmonise" not in settings and settings.get("within"):
        shapes["within"] = (n_controls, count_packed(n_columns))
    return shapes


def _count_regions(request: Request) -> int:
    return int(request.arrays[f"{next(iter(request.settings['preparations']))}/standardise.mean"].shape[0])


def _shape_transform(request: Request) -> Shapes:
    shape, n_regions = (len(list_sets(request)), len(SHARES)), _count_regions(request)
    return {"sum": (*shape, n_regions), "squares": (*shape, n_regions), "logs": shape}


def _shape_rotation(request: Request) -> Shapes:
    shapes: Shapes = {}
    for k in range(len(request.settings["tasks"])):
        n_starts, n_patterns = (request.arrays[f"directions.{k}"].shape[axis] for axis in (0, 1))
        # two contrast functions with their gradients and second derivatives
        shapes[f"sums.{k}"] = (n_starts, n_patterns, 2 * (1 + n_patterns + count_packed(n_patterns)))
    return shapes


def _shape_curves(request: Request) -> Shapes:
    shapes: Shapes = {}
    for k in range(len(request.settings["tasks"])):
        n_regions, width = (request.arrays[f"weights.{k}"].shape[axis] for axis in (0, 1))
        n_patterns = width // N_STEPS
        width *= n_patterns + 1 if f"interaction.{k}" in request.arrays else 1
        shapes |= {f"cross.{k}": (n_regions, width), f"moments.{k}": (count_packed(width),)}
        shapes |= {f"normal.{k}": (count_packed(n_patterns),), f"likelihood.{k}": ()}
    return shapes


def _shape_losses(request: Request) -> Shapes:
    models = [request.arrays[f"weights.{k}"] for k in range(len(request.settings["tasks"]))]
    return {f"losses.{k}": (len(GROUPS),) for k in range(len(models))}


def _count_patterns(request: Request) -> int:
    return int(request.arrays["weights.0"].shape[1]) // N_STEPS


def _shape_agreement(request: Request) -> Shapes:
    return _shape_moments(request, len(request.settings["members"]) * _count_patterns(request))


def _shape_distribution(request: Request) -> Shapes:
    shapes: Shapes = {"cosines": (len(GROUPS), _count_patterns(request), N_COSINES)}
    return shapes | ({"distances": (N_DISTANCE_COSINES,)} if "precision" in request.arrays else {})


KINDS: Mapping[str, RequestKind] = {
    DESCRIBE: RequestKind(
        "names of regions, unit, names and categories of covariates, number of controls and patients; whether all "
        "values are positive; public key",
        lambda request: {},
    ),
    MEANS: RequestKind(
        "sum of each covariate and region, P + R numbers a group",
        lambda request: {"sum": (len(GROUPS), int(request.settings["n_columns"]))},
    ),
    PRODUCTS: RequestKind(
        "sums of products of covariates and regions about the centre, (P + R)(P + R + 1) / 2 numbers a set; where "
        "effects of sites are removed also those of controls about their mean at the site, then all without the effect "
        "and, if there are no masks, the site's shift and scale of each region",
        _shape_products,
    ),
    TRANSFORM: RequestKind(
        "sum and sum of squares of each region after each of H transforms, and one sum of logarithms",
        _shape_transform,
    ),
    MOMENTS: RequestKind(
        "sum x and sum x x' of adjusted regions",
        lambda request: _shape_moments(request, _count_regions(request)),
    ),
    BLOCKS: RequestKind(
        "sum x and sum x x' of adjusted regions for each block",
        lambda request: _shape_moments(request, request.arrays["scale"].shape[0]),
    ),
    ROTATION: RequestKind(
        "two contrast functions of each direction, with first and second derivatives",
        _shape_rotation,
    ),
    CURVES: RequestKind(
        "sum x E[f]' of regions and functions of the severities (R M K numbers; M + 1 times as many where patterns "
        "interact), sum E[f f'], sum E[y y'], and one log-likelihood of held-out patients",
        _shape_curves,
    ),
    LOSSES: RequestKind(
        "sum over each group of how badly a model distinguishes its people from the other group", _shape_losses
    ),
    AGREEMENT: RequestKind("sums of R-indices and of their products", _shape_agreement),
    DISTRIBUTION: RequestKind(
        f"{N_COSINES} sums of cosines of each R-index, {N_DISTANCE_COSINES} of the distance from the mean",
        _shape_distribution,
    ),
}
