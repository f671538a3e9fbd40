"""Adjustment, standardisation, log transform and effects of regions, from sums over the people of all sites.

The estimates are those of `rindices.preprocess` and `rindices.selection.group_difference`; two things differ. Ranges of
numeric covariates are mean +- 2.5 standard deviations, because the smallest and the largest value are those of single
people. The constant c of the log transform is the best of a grid.

Shape letters: R regions, P columns of the design, H values of c.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats

from rindices._typing import FloatArray
from rindices.errors import PreprocessingError, join_names
from rindices.federated import kinds
from rindices.federated.column_products import GroupProducts, add_products, compute_residual_products, regress_columns
from rindices.federated.exceptions import ExchangeError
from rindices.federated.harmonise import fit_site_effects, harmonise_products
from rindices.federated.messages import Answer, unpack_symmetric
from rindices.federated.preparation import Preparation, get_control_scale
from rindices.federated.rounds import Rounds, check_same_table
from rindices.federated.subsets import GROUPS, SubsetPlan
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.inference import ContrastiveHead
from rindices.learners.normal_variation import shrink_scatter
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import (
    CategoricalCovariate,
    CovariateCoding,
    NumericCovariate,
    Residualiser,
    count_columns,
    is_head_size,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD, Standardiser, find_constant_regions
from rindices.selection.group_difference import RegionEffects

SHARES = np.linspace(0.0, 0.3, 61)
"""Values c of the log transform that are compared."""
_RANGE_SD = 2.5
_EPSILON = 1e-12


@dataclass(frozen=True, eq=False)
class AdjustedSums:
    """Sums of covariates and regions by group, and what follows from them.

    centre (P + R,); groups: controls and patients who can be adjusted; counts: all controls and patients; harmoniser:
    effects of sites, which the sums are free of.
    """

    regions: tuple[str, ...]
    codings: tuple[CovariateCoding, ...]
    adjust: str
    centre: FloatArray
    groups: dict[str, GroupProducts]
    counts: dict[str, int]
    unit: str
    source: str
    harmoniser: Harmoniser | None = None

    @property
    def n_columns(self) -> int:
        """P."""
        return sum(count_columns(coding) for coding in self.codings)

    def to_settings(self) -> dict[str, object]:
        """Return what a site needs to build the columns."""
        return {
            "codings": [coding.to_dict() for coding in self.codings],
            "regions": list(self.regions),
            "adjust": self.adjust,
            **({} if self.harmoniser is None else {"harmonise": self.harmoniser.to_dict()}),
        }

    def to_arrays(self) -> dict[str, FloatArray]:
        """Return the effects of sites, which a site removes from the columns."""
        return {} if self.harmoniser is None else self.harmoniser.to_arrays()

    def fit_preprocessing(self) -> Preprocessing:
        """Return adjustment and standardisation, learnt from controls."""
        controls, n_columns = self.groups["controls"], self.n_columns
        if controls.number <= n_columns + 1:
            raise PreprocessingError(
                f"too few controls ({controls.number}) to adjust for {n_columns} covariate columns: adjust for fewer."
            )
        products = controls.centre_products()
        mean = self.centre + controls.total / controls.number
        coefficients = regress_columns(products, n_columns)
        squares = np.diag(compute_residual_products(products, coefficients))
        sd = np.sqrt(np.maximum(squares, 0.0) / (controls.number - 1))
        constant = find_constant_regions(mean[n_columns:], sd, self.regions)
        if constant:
            raise PreprocessingError(f"constant in the controls: {join_names(constant)}. Leave them out (--exclude).")
        covariance = products[:n_columns, :n_columns] / controls.number
        design_sd = np.sqrt(np.maximum(np.diag(covariance), 0.0))
        codings = _set_ranges(self.codings, mean[:n_columns], design_sd)
        residualiser = Residualiser(codings, mean[:n_columns], coefficients, (), covariance if n_columns else None)
        standardiser = Standardiser(mean[n_columns:], sd)
        return Preprocessing(self.regions, residualiser, standardiser, self.harmoniser, self.adjust)

    def regress_everyone(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return centre (P + R,), coefficients (P, R) and residual covariance (R, R) of everyone in both groups."""
        number = sum(group.number for group in self.groups.values())
        total = np.sum([group.total for group in self.groups.values()], axis=0)
        products = np.sum([group.products for group in self.groups.values()], axis=0)
        products = products - np.outer(total, total) / number
        coefficients = regress_columns(products, self.n_columns)
        return self.centre + total / number, coefficients, compute_residual_products(products, coefficients) / number

    def estimate_effects(self) -> RegionEffects:
        """Return the adjusted difference of each region between patients and controls; see `RegionEffects`."""
        controls, patients = (self.groups[group] for group in GROUPS)
        number, total = controls.number + patients.number, controls.total + patients.total
        products = controls.products + patients.products - np.outer(total, total) / number
        label = patients.total - patients.number * total / number  # products of the centred label
        square = patients.number * controls.number / number
        n_columns = self.n_columns
        with_label = np.block(
            [
                [products[:n_columns, :n_columns], label[:n_columns, None], products[:n_columns, n_columns:]],
                [label[None, :n_columns], np.array([[square]]), label[None, n_columns:]],
                [products[n_columns:, :n_columns], label[n_columns:, None], products[n_columns:, n_columns:]],
            ]
        )
        coefficients = regress_columns(with_label, n_columns + 1)
        rest = np.diag(compute_residual_products(with_label, coefficients))
        dof = number - n_columns - 2
        own = square - label[:n_columns] @ np.linalg.lstsq(products[:n_columns, :n_columns], label[:n_columns])[0]
        d = coefficients[-1] / np.sqrt(np.maximum(rest / dof, _EPSILON))
        error = 1.0 / np.sqrt(max(float(own), _EPSILON))
        half_width = stats.t.ppf(0.975, dof) * np.sqrt(error**2 + d**2 / (2.0 * dof))
        t = d / error
        return RegionEffects(d, d - half_width, d + half_width, t, 2.0 * stats.t.sf(np.abs(t), dof))

    def estimate_training_distribution(self, preprocessing: Preprocessing) -> tuple[TrainingDistribution, int, float]:
        """Return mean and shrunk covariance of all prepared people, their number, and what shrinkage leaves of it.

        The distribution has no distances.
        """
        scale = CONTROL_SD / preprocessing.standardiser.sd
        number = sum(group.number for group in self.groups.values())
        total = np.sum([group.total for group in self.groups.values()], axis=0)
        products = np.sum([group.products for group in self.groups.values()], axis=0)
        products = products - np.outer(total, total) / number
        linear = np.vstack([-preprocessing.residualiser.coefficients, np.eye(len(self.regions))]) * scale
        mean = self.centre + total / number
        offset = np.concatenate([preprocessing.residualiser.centre, preprocessing.standardiser.mean])
        scatter = linear.T @ products @ linear
        covariance = shrink_normal_scatter(scatter, number)
        largest = np.unravel_index(np.abs(np.triu(scatter, 1)).argmax(), scatter.shape)
        own_share = float(covariance[largest] / max(float(scatter[largest]) / number, _EPSILON, key=abs))
        return TrainingDistribution(CONTROL_MEAN + (mean - offset) @ linear, covariance), number, own_share


def shrink_normal_scatter(scatter: FloatArray, number: int) -> FloatArray:
    """Return the Ledoit-Wolf covariance of normally distributed people, from their scatter (R, R) alone."""
    covariance = scatter / number
    fourth_power = number * (np.trace(covariance) ** 2 + 2.0 * np.square(covariance).sum())
    return shrink_scatter(scatter, float(fourth_power), number)


def ask_for_adjustment(rounds: Rounds, adjust: str | None, harmonise: bool = False) -> AdjustedSums:
    """Ask for what the adjustment needs: names, means, products.

    adjust: by default ``log`` if the values of all sites are positive; harmonise: whether effects of sites are
    estimated from their controls and removed.
    """
    described = rounds.ask(kinds.DESCRIBE)
    check_same_table(described.answers)
    facts = described.answers[0].facts
    is_positive = all(answer.facts.get("positive") for answer in described.answers)
    adjust = adjust or ("log" if is_positive else "linear")
    if adjust == "rank" or (adjust == "log" and not is_positive):
        raise ExchangeError(f'adjust = "{adjust}" cannot be used here: take "linear" or leave it out.')
    codings = () if adjust == "none" else _join_codings(described.answers, adjust == "log")
    regions = tuple(facts["regions"])
    n_columns = sum(count_columns(coding) for coding in codings) + len(regions)
    sums = AdjustedSums(
        *(regions, codings, adjust, np.zeros(n_columns), {}, described.counts),
        *(str(facts.get("unit", "unknown")), str(facts.get("source", "table"))),
    )
    settings = sums.to_settings()
    means = rounds.ask(kinds.MEANS, settings | {"n_columns": n_columns})
    total = np.sum([means.arrays[f"{group}.sum"] for group in GROUPS], axis=0)
    number = sum(means.counts.values())
    if not number:
        raise ExchangeError("no site has enough people in all categories: adjust for fewer covariates.")
    centre = total / number
    answers = rounds.ask(kinds.PRODUCTS, settings, {"centre": centre}).answers
    by_site = {group: {answer.site: _read_products(answer, group) for answer in answers} for group in GROUPS}
    harmoniser = None
    if harmonise:
        harmoniser = fit_site_effects(by_site["controls"], centre, n_columns - len(regions), regions)
        by_site = {
            group: {site: harmonise_products(each, harmoniser, site, centre) for site, each in products.items()}
            for group, products in by_site.items()
        }
    groups = {group: add_products(products.values()) for group, products in by_site.items()}
    return replace(sums, centre=centre, groups=groups, harmoniser=harmoniser)


def _read_products(answer: Answer, group: str) -> GroupProducts:
    return GroupProducts(
        answer.counts[group],
        answer.arrays[f"{group}.sum"],
        unpack_symmetric(answer.arrays[f"{group}.products"]),
    )


def ask_for_transform(rounds: Rounds, preprocessing: Preprocessing, n_controls: int, plan: SubsetPlan) -> Preparation:
    """Ask for the sums of the log transform, and return the preparation with the most likely c."""
    n_regions = len(preprocessing.regions)
    ones = np.ones(n_regions)
    identity = ContrastiveHead(
        *(CONTROL_MEAN * ones, get_control_scale(n_controls) * ones, np.array(0.0), 0.0 * ones, ones),
        np.zeros((n_regions, 1)),
    )
    preparation = Preparation(preprocessing, identity)
    settings = {"plan": plan.to_dict(), **preparation.to_settings()}
    total = rounds.ask(kinds.TRANSFORM, settings, {"shares": SHARES, **preparation.to_arrays()})
    losses = np.sum([_compute_losses(total.arrays, group, total.counts[group]) for group in GROUPS], axis=0)
    best = int(np.argmin(losses))
    number = total.counts["controls"]
    mean = total.arrays["controls.sum"][best] / number
    variance = total.arrays["controls.squares"][best] / number - mean**2
    scale = handle_zeros_in_scale(np.sqrt(np.maximum(variance, 0.0)))
    return Preparation(
        preprocessing, replace(identity, share=np.array(SHARES[best]), shift_mean=mean, shift_scale=scale)
    )


def _compute_losses(arrays: Mapping[str, FloatArray], group: str, number: int) -> FloatArray:
    """Return the negative profile log-likelihood (H,) of a group; see `rindices.learners.inference`."""
    if not number:
        return np.zeros(len(SHARES))
    sums, squares, logs = (arrays[f"{group}.{name}"] for name in ("sum", "squares", "logs"))
    variances = squares / number - (sums / number) ** 2
    return np.asarray(0.5 * number * np.log(np.maximum(variances, 0.0) + _EPSILON).sum(axis=1) + logs)


def _join_codings(answers: Sequence[Answer], is_log: bool) -> tuple[CovariateCoding, ...]:
    """Return the codings of the covariates, which all sites agree on."""
    return tuple(_join_coding(name, answers, is_log) for name in answers[0].facts["covariates"])


def _join_coding(name: str, answers: Sequence[Answer], is_log: bool) -> CovariateCoding:
    parts = [answer.facts["covariates"][name] for answer in answers]
    levels = sorted({str(level) for part in parts for level in part["levels"]})
    if any(part.get("numeric") and not part["levels"] for part in parts) or (
        all(part.get("numeric") for part in parts) and len(levels) > 2
    ):
        is_positive = all(part.get("positive") for part in parts)
        return NumericCovariate(name, 0.0, 0.0, is_log and is_positive and is_head_size(name))
    return CategoricalCovariate(name, tuple(levels))


def _set_ranges(codings: Sequence[CovariateCoding], mean: FloatArray, sd: FloatArray) -> tuple[CovariateCoding, ...]:
    """Return the codings with ranges of numeric covariates from their mean and standard deviation in controls (P,)."""
    ranged, column = [], 0
    for coding in codings:
        if isinstance(coding, NumericCovariate):
            low, high = (mean[column] + sign * _RANGE_SD * sd[column] for sign in (-1.0, 1.0))
            low, high = (np.exp(low), np.exp(high)) if coding.log else (low, high)
            coding = replace(coding, low=float(low), high=float(high))
        ranged.append(coding)
        column += count_columns(coding)
    return tuple(ranged)
