"""Adjustment, harmonisation, tests, log transform and effects of regions, from sums
over people.

The estimates are those of `rindices.preprocess` and
`rindices.selection.group_difference`, of everyone and of the people of each member. One
thing differs: ranges of numeric covariates are mean +- 2.5 standard deviations, because
the smallest and the largest value are those of single people.

Where parts are sites, each is a site of ComBat (`rindices.preprocess.harmonise`). What
all sites have in common follows from the products of covariates and regions. Each site
then finds its own shift and scale, and gives products without them.

Shape letters: K sites, R regions, P columns of the design.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.rotation import PeopleMoments
from rindices.learners.inference import (
    LOG_CONSTANTS,
    ContrastiveHead,
    TransformSums,
    find_log_constant,
)
from rindices.learners.normal_variation import shrink_normal_scatter
from rindices.learners.people_source import PeopleSet
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess import ageing, residualise
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import (
    CONTROL_MEAN,
    CONTROL_SD,
    Standardiser,
    refuse_constant_regions,
)
from rindices.selection import group_difference
from rindices.selection.block_tests import BlockSums, compare_blocks
from rindices.study.group_tests import GroupTests
from rindices.sums import kinds
from rindices.sums.messages import Answer, Preparation, SumsError, unpack_symmetric
from rindices.sums.rounds import PreparedRounds, Rounds, Total, check_same_table
from rindices.sums.subsets import EVERYONE, GROUPS, SubsetPlan, name_set

_RANGE_SD = 2.5
_N_BLOCKS = 5  # of the smaller group, for tests
_EPSILON = 1e-12


def _regress_columns(
    products: FloatArray, n_columns: int
) -> tuple[FloatArray, FloatArray]:
    """Regress regions on the first P columns, from centred products.

    Returns coefficients (P, R) and the products (R, R) of the residuals.
    """
    scale = handle_zeros_in_scale(
        np.sqrt(np.maximum(np.diag(products)[:n_columns], 0.0))
    )
    normal = products[:n_columns, :n_columns] / np.outer(scale, scale)
    right = products[:n_columns, n_columns:] / scale[:, None]
    coefficients = np.linalg.lstsq(normal, right, rcond=1e-10)[0] / scale[:, None]
    linear = np.vstack([-coefficients, np.eye(len(products) - n_columns)])
    return coefficients, linear.T @ products @ linear


@dataclass(frozen=True, eq=False, kw_only=True)
class AdjustedSums:
    """Sums of covariates and regions by group, and what follows from them.

    Parameters
    ----------
    regions : tuple of str
    codings : tuple of CovariateCoding
        How covariates become columns.
    adjust : {'log', 'linear', 'none'}
    centre : ndarray of shape (P + R,)
        About which products are taken.
    groups : dict of str to PeopleMoments
        Controls and patients who can be adjusted.
    counts : dict of str to int
        All controls and patients.
    unit, source : str
        Of the regions.
    harmoniser : Harmoniser, optional
        Effects of sites, which the sums are free of.
    ranged : tuple of CovariateCoding
        The codings with ranges of numeric covariates.
    """

    regions: tuple[str, ...]
    codings: tuple[residualise.CovariateCoding, ...]
    adjust: str
    centre: FloatArray
    groups: dict[str, PeopleMoments]
    counts: dict[str, int]
    unit: str
    source: str
    harmoniser: Harmoniser | None = None
    ranged: tuple[residualise.CovariateCoding, ...] = ()

    @property
    def n_columns(self) -> int:
        """P."""
        return sum(residualise.count_columns(coding) for coding in self.codings)

    @property
    def everyone(self) -> PeopleMoments:
        """Moments of both groups."""
        return self.groups["controls"].add(self.groups["patients"])

    def to_settings(self) -> dict[str, object]:
        """Return what a site needs to build the columns."""
        return {
            "codings": [coding.to_dict() for coding in self.codings],
            "regions": list(self.regions),
            "adjust": self.adjust,
            **(
                {}
                if self.harmoniser is None
                else {"harmonise": {EVERYONE: self.harmoniser.to_dict()}}
            ),
        }

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the effects of sites, which are removed from the columns."""
        arrays = {} if self.harmoniser is None else self.harmoniser.to_arrays()
        return {f"{EVERYONE}/{name}": array for name, array in arrays.items()}

    def fit_preprocessing(self) -> Preprocessing:
        """Return adjustment and standardisation, learnt from controls."""
        controls, n_columns = self.groups["controls"], self.n_columns
        residualise.check_control_number(controls.number, n_columns)
        products, mean = controls.scatter, self.centre + controls.mean
        coefficients, residual_products = _regress_columns(products, n_columns)
        sd = np.sqrt(
            np.maximum(np.diag(residual_products), 0.0) / (controls.number - 1)
        )
        standardiser = Standardiser.from_moments(mean[n_columns:], sd, self.regions)
        covariance = products[:n_columns, :n_columns] / controls.number
        residualiser = residualise.Residualiser(
            codings=self.ranged,
            centre=mean[:n_columns],
            coefficients=coefficients,
            notes=(),
            covariance=covariance if n_columns else None,
        )
        return Preprocessing(
            regions=self.regions,
            residualiser=residualiser,
            standardiser=standardiser,
            harmoniser=self.harmoniser,
            adjust=self.adjust,
        )

    def estimate_effects(self) -> group_difference.RegionEffects:
        """Return the adjusted difference of each region between patients and controls;
        see `RegionEffects`.
        """
        patients, everyone, n_columns = (
            self.groups["patients"],
            self.everyone,
            self.n_columns,
        )
        label = (
            patients.total - patients.number * everyone.mean
        )  # products of the centred label
        square = patients.number * (everyone.number - patients.number) / everyone.number
        order = np.insert(
            np.arange(len(label)), n_columns, len(label)
        )  # the label after the covariates
        bordered = np.block(
            [[everyone.scatter, label[:, None]], [label[None], np.array([[square]])]]
        )
        products = bordered[np.ix_(order, order)]
        coefficients, residual_products = _regress_columns(products, n_columns + 1)
        predicted = np.linalg.lstsq(
            products[:n_columns, :n_columns], label[:n_columns]
        )[0]
        unexplained = square - float(label[:n_columns] @ predicted)
        return group_difference.compute_region_effects(
            coefficients[-1],
            np.diag(residual_products),
            unexplained,
            everyone.number - n_columns - 2,
        )

    def estimate_training_distribution(
        self, preprocessing: Preprocessing
    ) -> tuple[TrainingDistribution, int, float]:
        """Return mean and shrunk covariance of all prepared people, their number, and
        what shrinkage leaves of it.

        The distribution has no distances.
        """
        everyone, residualiser, standardiser = (
            self.everyone,
            preprocessing.residualiser,
            preprocessing.standardiser,
        )
        linear = np.vstack([-residualiser.coefficients, np.eye(len(self.regions))]) * (
            CONTROL_SD / standardiser.sd
        )
        offset = np.concatenate([residualiser.centre, standardiser.mean])
        scatter = linear.T @ everyone.scatter @ linear
        covariance = shrink_normal_scatter(scatter, everyone.number)
        largest = np.unravel_index(np.abs(np.triu(scatter, 1)).argmax(), scatter.shape)
        own_share = float(
            covariance[largest]
            / max(float(scatter[largest]) / everyone.number, _EPSILON, key=abs)
        )
        mean = CONTROL_MEAN + (self.centre + everyone.mean - offset) @ linear
        return (
            TrainingDistribution(mean=mean, covariance=covariance),
            everyone.number,
            own_share,
        )


def _describe_table(described: Total, adjust: str | None) -> AdjustedSums:
    """Return the regions, the covariates and the people of a table, given the answers
    of all parts, without sums.
    """
    check_same_table(described.answers)
    all_facts = [answer.facts for answer in described.answers.values()]
    facts, is_positive = all_facts[0], all(each.get("positive") for each in all_facts)
    adjust = adjust or ("log" if is_positive else "linear")
    if adjust == "log" and not is_positive:
        raise SumsError(
            'adjust = "log" cannot be used here: take "linear" or leave it out.'
        )
    names = () if adjust == "none" else facts["covariates"]
    codings = tuple(_join_coding(name, all_facts, adjust == "log") for name in names)
    regions, counts = (
        tuple(facts["regions"]),
        dict(zip(GROUPS, described.numbers, strict=True)),
    )
    return AdjustedSums(
        regions=regions,
        codings=codings,
        adjust=adjust,
        centre=np.zeros(0),
        groups={},
        counts=counts,
        unit=facts["unit"],
        source=facts["source"],
    )


def _ask_for_centre(rounds: Rounds, sums: AdjustedSums) -> FloatArray:
    """Ask for the mean of covariates and regions of everyone."""
    n_columns = sums.n_columns + len(sums.regions)
    means = rounds.ask(kinds.MEANS, sums.to_settings() | {"n_columns": n_columns})
    if not any(means.numbers):
        raise SumsError(
            "there are no people who have all covariates: adjust for fewer."
        )
    return np.asarray(means.arrays["sum"].sum(axis=0) / sum(means.numbers))


def _ask_without_sites(
    rounds: Rounds,
    settings: Mapping[str, Any],
    arrays: Mapping[str, FloatArray],
    harmonisers: Mapping[str, Harmoniser],
) -> Total:
    """Ask for the products again, of values without the effects of sites."""
    own = {
        f"{key}/{name}": array
        for key, each in harmonisers.items()
        for name, array in each.to_arrays().items()
    }
    records = {key: each.to_dict() for key, each in harmonisers.items()}
    return rounds.ask(
        kinds.PRODUCTS, {**settings, "harmonise": records}, {**arrays, **own}
    )


def ask_for_adjustment(
    rounds: Rounds,
    adjust: str | None,
    harmonise: bool,
    make_plan: Callable[[Mapping[str, int]], SubsetPlan],
    with_effects: bool = True,
    with_curve: bool = False,
) -> tuple[AdjustedSums, list[AdjustedSums], SubsetPlan]:
    """Ask for what the adjustment needs, and return the sums of everyone and of
    members, and the plan of their sets.

    Parameters
    ----------
    rounds : Rounds
        Asks the parts.
    adjust : str or None
        By default ``log`` if the values of all parts are positive.
    harmonise : bool
        Whether effects of sites are estimated from their controls and removed.
    make_plan : callable
        Takes the numbers of controls and patients.
    with_effects : bool
        Whether the model gets the effects of sites.
    with_curve : bool
        Whether age is a spline where held-out controls are more likely under it.
    """
    described = rounds.ask(kinds.DESCRIBE)
    sums = _describe_table(described, adjust)
    settings, plan = sums.to_settings(), make_plan(sums.counts)
    centre = _ask_for_centre(rounds, sums)
    keys = {EVERYONE: "all"} | {
        str(k): name_set(PeopleSet(k, "seen")) for k in range(plan.members)
    }
    sets = [
        [EVERYONE, "all", "patients"],
        *([key, name, "controls"] for key, name in keys.items()),
    ]
    settings |= {"plan": plan.to_dict(), "sets": sets}
    arrays = {"centre": centre}
    within = {"within": True} if harmonise else {}
    total = rounds.ask(kinds.PRODUCTS, settings | within, arrays)
    if with_curve and (bent := _bend_age(sums, total, centre)) is not None:
        arrays = {"centre": bent.centre}
        own = {**settings, **bent.to_settings()}
        curved = rounds.ask(kinds.PRODUCTS, own | within, arrays)
        if _is_bent(curved, bent, harmonise, plan.members):
            sums, centre, total, settings = bent, bent.centre, curved, own
        arrays = {"centre": centre}
    harmonisers: dict[str, Harmoniser | None] = dict.fromkeys(keys)
    if harmonise:
        common = {
            key: _fit_harmoniser(total, row, centre, sums)
            for row, key in enumerate(keys)
        }
        settings |= {"with_effects": with_effects}
        total = _ask_without_sites(rounds, settings, arrays, common)
        sizes = tuple(answer.numbers[0] for answer in described.answers.values())
        for row, (key, each) in enumerate(common.items()):
            harmonisers[key] = _add_site_effects(each, row, total.answers, sizes)
    patients = _read_moments(total, 0)
    controls = {key: _read_moments(total, 1 + k) for k, key in enumerate(keys)}
    sums = _set_centre(sums, centre, controls[EVERYONE])
    everyone, *members = (
        replace(
            sums,
            groups={"controls": controls[key], "patients": patients},
            harmoniser=harmonisers[key],
        )
        for key in keys
    )
    return everyone, members, plan


def _set_centre(
    sums: AdjustedSums, centre: FloatArray, controls: PeopleMoments
) -> AdjustedSums:
    """Return the sums with their centre, and the ranges of covariates in controls."""
    mean = centre + controls.mean
    sd = np.sqrt(np.maximum(np.diag(controls.scatter), 0.0) / max(controls.number, 1))
    ranged = _set_ranges(sums.codings, mean[: sums.n_columns], sd)
    return replace(sums, centre=centre, ranged=ranged)


def _bend_age(
    sums: AdjustedSums, total: Total, centre: FloatArray
) -> AdjustedSums | None:
    """Return the regions and covariates with age as a spline, and the centre of their
    columns; None where there is no age or there are too few controls.
    """
    controls, age = _read_moments(total, 1), ageing.find_age(sums.codings)
    if age is None or controls.number < ageing.MIN_CONTROLS:
        return None
    column = residualise.find_first_column(sums.codings, age)
    mean = float(centre[column] + controls.mean[column])
    variance = float(controls.scatter[column, column]) / controls.number
    knots = ageing.place_knots(mean, float(np.sqrt(max(variance, 0.0))))
    if not knots:
        return None
    codings = residualise.bend_codings(sums.codings, age, knots)
    is_bent = residualise.find_bent_columns(codings)
    is_new = np.concatenate([is_bent, np.zeros(len(sums.regions), dtype=bool)])
    wider = np.zeros(len(is_new))
    wider[~is_new] = centre
    return replace(sums, codings=codings, centre=wider)


def _is_bent(total: Total, bent: AdjustedSums, harmonise: bool, members: int) -> bool:
    """Return whether held-out controls are more likely under the spline, as in memory:
    with the folds of the first members.
    """

    def get_sums(row: int) -> ageing.ControlSums:
        moments = _read_moments(total, 1 + row)
        scatter = (
            unpack_symmetric(total.arrays["within"][row])
            if harmonise
            else moments.scatter
        )
        return ageing.ControlSums(moments.number, scatter)

    seen = [get_sums(1 + k) for k in range(min(ageing.N_FOLDS, members))]
    is_added = residualise.find_bent_columns(bent.codings)
    return ageing.measure_bend(get_sums(0), seen, is_added) > ageing.MIN_MARGIN


def _read_moments(total: Total, row: int) -> PeopleMoments:
    products = unpack_symmetric(total.arrays["products"][row])
    return PeopleMoments(total.numbers[row], total.arrays["sum"][row], products)


def _fit_harmoniser(
    total: Total, row: int, centre: FloatArray, sums: AdjustedSums
) -> Harmoniser:
    """Return `Harmoniser.fit` of the controls of all sites but for the effects of
    sites, which each site finds itself.

    total: products of controls about the centre (P + R,), and about their mean at each
    site; row: of the set.
    """
    controls, n_columns, regions = (
        _read_moments(total, 1 + row),
        sums.n_columns,
        sums.regions,
    )
    if controls.number < 2:
        raise PreprocessingError(
            'there are no controls that can be adjusted, and effects of sites need them: set harmonise = "none".'
        )
    within = unpack_symmetric(total.arrays["within"][row])
    coefficients, products = _regress_columns(within, n_columns)
    mean, nobody = centre + controls.mean, np.zeros((0, len(regions)))
    sd = np.sqrt(np.maximum(np.diag(products), 0.0) / controls.number)
    refuse_constant_regions(mean[n_columns:], sd, regions, "constant within sites")
    return Harmoniser(
        mode="controls",
        sites=(),
        counts=(),
        mean=mean[n_columns:],
        centre=mean[:n_columns],
        coefficients=coefficients,
        sd=sd,
        shift=nobody,
        scale=nobody,
    )


def _add_site_effects(
    harmoniser: Harmoniser,
    row: int,
    answers: Mapping[str, Answer],
    counts: tuple[int, ...],
) -> Harmoniser:
    """Return the harmoniser with the effects of sites, if they are in the answers."""
    effects = {
        site: answer.arrays["effect"][row]
        for site, answer in answers.items()
        if "effect" in answer.arrays
    }
    if not effects:
        return harmoniser
    shift, scale = np.stack(list(effects.values()), axis=1)
    return replace(
        harmoniser, sites=tuple(effects), counts=counts, shift=shift, scale=scale
    )


def ask_for_tests(rounds: Rounds, sums: AdjustedSums, plan: SubsetPlan) -> GroupTests:
    """Ask for the sums over blocks, and test whether patients differ from controls and
    from each other.
    """
    everyone = sums.everyone
    coefficients, products = _regress_columns(everyone.scatter, sums.n_columns)
    covariance = products / everyone.number
    smaller = min(sums.counts.values())
    n_blocks = {
        group: max(2, round(_N_BLOCKS * sums.counts[group] / smaller))
        for group in GROUPS
    }
    scale = np.sqrt(np.maximum(np.diag(covariance), _EPSILON))
    metric = group_difference.compute_metric(covariance / np.outer(scale, scale))
    settings = {"plan": plan.to_dict(), "n_blocks": n_blocks, **sums.to_settings()}
    arrays = {
        "centre": sums.centre + everyone.mean,
        "coefficients": coefficients,
        "scale": scale,
        **sums.to_arrays(),
    }
    total = rounds.ask(kinds.BLOCKS, settings, arrays)
    is_patient, is_used = (
        np.repeat([False, True], list(n_blocks.values())),
        np.array(total.numbers) > 0,
    )
    products = unpack_symmetric(total.arrays["products"])[is_used]
    blocks = BlockSums(
        numbers=np.array(total.numbers, dtype=float)[is_used],
        total=total.arrays["sum"][is_used] * scale,
        squares=np.diagonal(products, axis1=1, axis2=2) * scale**2,
        products=products,
        directions=np.diag(1.0 / scale),
        leading=np.ascontiguousarray(metric[:, -group_difference.MAX_DIRECTIONS :]),
        is_patient=is_patient[is_used],
    )
    n_controls, n_patients = (sums.counts[group] for group in GROUPS)
    smallest_effect = group_difference.smallest_detectable_effect(
        n_controls, n_patients, len(sums.regions)
    )
    difference, dimensions = compare_blocks(blocks, [plan.seed, 12])
    return GroupTests(
        difference=difference,
        dimensions=dimensions,
        effects=sums.estimate_effects(),
        smallest_effect=smallest_effect,
    )


def ask_for_transform(
    rounds: Rounds,
    everyone_sums: AdjustedSums,
    member_sums: Sequence[AdjustedSums],
    plan: SubsetPlan,
) -> PreparedRounds:
    """Ask for the sums of the log transform, and return rounds with the preparation of
    each member.
    """
    members, everyone = range(plan.members), _prepare_without_transform(everyone_sums)
    own = {
        number: _prepare_without_transform(member_sums[number]) for number in members
    }
    prepared = PreparedRounds(
        rounds=rounds, everyone=everyone, preparations=own, plan=plan
    )
    total = prepared.ask(kinds.TRANSFORM, members, {"members": list(members)})

    def fit_transform(number: int) -> Preparation:
        def get_sums(row: int, k: int) -> tuple[TransformSums, int]:
            row += len(GROUPS) * number
            arrays = (total.arrays[name][row, k] for name in ("sum", "squares", "logs"))
            return TransformSums(*arrays), total.numbers[row]

        def compute_loss(k: int) -> float:
            return sum(
                each.compute_loss(n)
                for each, n in (get_sums(row, k) for row in range(len(GROUPS)))
            )

        best = find_log_constant(compute_loss)
        controls, n_controls = get_sums(0, best)
        mean, scale = controls.compute_scale(n_controls)
        scales = {
            "log_constant": LOG_CONSTANTS[best],
            "shift_mean": mean,
            "shift_scale": handle_zeros_in_scale(scale),
        }
        return replace(own[number], head=replace(own[number].head, **scales))

    return replace(
        prepared, preparations={number: fit_transform(number) for number in members}
    )


def _prepare_without_transform(sums: AdjustedSums) -> Preparation:
    """Return the preparation of controls whose log transform is the identity."""
    ones, number = np.ones(len(sums.regions)), sums.groups["controls"].number
    # the standard deviation of controls, divided by N, where that divided by N - 1 is
    # 0.1
    control_scale = CONTROL_SD * np.sqrt((number - 1) / number)
    head = ContrastiveHead(
        control_mean=CONTROL_MEAN * ones,
        control_scale=control_scale * ones,
        log_constant=np.array(0.0),
        shift_mean=0.0 * ones,
        shift_scale=ones,
        weights=np.zeros((len(ones), 1)),
    )
    return Preparation(sums.fit_preprocessing(), head)


def _join_coding(
    name: str, facts: Sequence[Mapping[str, Any]], is_log: bool
) -> residualise.CovariateCoding:
    """Return the coding of a covariate, which all parts agree on."""
    parts = [each["covariates"][name] for each in facts]
    levels = sorted({str(level) for part in parts for level in part["levels"]})
    if any(part.get("numeric") and not part["levels"] for part in parts) or (
        all(part.get("numeric") for part in parts) and len(levels) > 2
    ):
        is_positive = all(part.get("positive") for part in parts)
        return residualise.NumericCovariate(
            name=name,
            low=0.0,
            high=0.0,
            log=is_log and is_positive and residualise.is_head_size(name),
        )
    return residualise.CategoricalCovariate(name, tuple(levels))


def _set_ranges(
    codings: Sequence[residualise.CovariateCoding], mean: FloatArray, sd: FloatArray
) -> tuple[residualise.CovariateCoding, ...]:
    """Return the codings with ranges of numeric covariates from their mean and standard
    deviation in controls (P,).
    """
    ranged, column = [], 0
    for coding in codings:
        if isinstance(coding, residualise.NumericCovariate):
            low, high = (
                mean[column] + sign * _RANGE_SD * sd[column] for sign in (-1.0, 1.0)
            )
            low, high = (np.exp(low), np.exp(high)) if coding.log else (low, high)
            coding = replace(coding, low=float(low), high=float(high))
        ranged.append(coding)
        column += residualise.count_columns(coding)
    return tuple(ranged)
