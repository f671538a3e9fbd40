"""Index of the mean difference, from moments of people; see `rindices.learners.contrastive.estimator`.

R-index 1 is the 98th percentile of normally distributed patients with the same mean and variance.

Shape letters: S members, R regions, Q severity levels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import norm

from rindices._typing import FloatArray
from rindices.federated.adjustment import shrink_normal_scatter
from rindices.federated.consensus import IndexMoments
from rindices.federated.preparation import Preparation
from rindices.federated.set_moments import MomentsBySet, SetMoments
from rindices.federated.subsets import SubsetPlan, name_half, name_member
from rindices.learners.base import handle_zeros_in_scale
from rindices.learners.contrastive.estimator import UNIT_SEVERITY_QUANTILE, average_directions
from rindices.learners.inference import SEVERITY_LEVELS, ContrastiveHead
from rindices.model.records import PatternRecord
from rindices.selection.choose import ConsensusMembers
from rindices.study.build import compute_interval


@dataclass(frozen=True, eq=False)
class DifferenceMembers:
    """Members of the index of the mean difference.

    weights (S, R): of the members; patterns (S, R): shift of each region at index 1; indices: moments in patients of
    the indices of members and halves.
    """

    preparation: Preparation
    weights: FloatArray
    patterns: FloatArray
    indices: IndexMoments
    controls: SetMoments
    patients: SetMoments

    def build_consensus(
        self, consensus: ConsensusMembers, correlations: Mapping[str, FloatArray]
    ) -> tuple[list[ContrastiveHead], FloatArray, tuple[PatternRecord, ...]]:
        """Return the heads of the agreeing members, scaled so that their mean is 1 at the 98th percentile, and curves.

        Returns heads; curves (S, Q, 1, R); records.
        """
        rows = list(consensus.agreeing)
        mean = self.weights[rows].mean(axis=0)
        unit = _compute_unit(self.patients, mean)
        heads = [replace(self.preparation.head, weights=self.weights[k][:, None] / unit) for k in rows]
        curves = [
            [head.to_control_sd(level * unit * self.patterns[k][None]) for level in SEVERITY_LEVELS]
            for k, head in zip(rows, heads, strict=True)
        ]
        return heads, np.array(curves), (self._make_record(mean, correlations),)

    def _make_record(self, weights: FloatArray, correlations: Mapping[str, FloatArray]) -> PatternRecord:
        """Return the record of the index, with groups that are normally distributed along it."""
        (low, low_sd), (high, high_sd) = (_project(each, weights) for each in (self.controls, self.patients))
        above = 1.0 - norm.cdf((low + norm.ppf(0.95) * low_sd - high) / high_sd)
        stability, split_half = correlations["stability"][:, 0], correlations["split_half"][:, 0]
        return PatternRecord(
            name="r1",
            stability=float(stability.mean()),
            stability_interval=compute_interval(stability),
            split_half=float(split_half.mean()),
            split_half_interval=compute_interval(split_half),
            carriers=float(np.clip((above - 0.05) / 0.95, 0.0, 1.0)),
            auc=float(norm.cdf((high - low) / np.hypot(low_sd, high_sd))),
        )


def fit_difference_members(preparation: Preparation, plan: SubsetPlan, moments: MomentsBySet) -> DifferenceMembers:
    """Fit the index to the people of each member and to both halves of each split."""
    members = [name_member(k) for k in range(plan.members)]
    halves = [name_half(k, half) for k in range(plan.members) for half in (0, 1)]
    patients = moments["all", "patients"]
    fits = [_fit_index(moments, name) for name in [*members, *halves]]
    weights = np.stack([own / _compute_unit(patients, own) for own, _ in fits])
    patterns = np.stack(
        [difference / float(difference @ own) for own, (_, difference) in zip(weights, fits, strict=True)]
    )
    people = patients.centre(np.zeros(weights.shape[1]))
    mean, covariance = people.project(weights.T)
    indices = IndexMoments(mean, covariance, 1)
    return DifferenceMembers(
        *(preparation, weights[: plan.members], patterns[: plan.members], indices),
        *(moments["all", "controls"], patients),
    )


def _fit_index(moments: MomentsBySet, name: str) -> tuple[FloatArray, FloatArray]:
    """Return weights (R,) and mean difference (R,) of a set of people."""
    groups = [moments[name, group] for group in ("controls", "patients")]
    number = sum(group.number for group in groups)
    scatter = np.sum([group.products - group.number * np.outer(group.mean, group.mean) for group in groups], axis=0)
    scale = handle_zeros_in_scale(np.sqrt(np.maximum(np.diag(scatter) / number, 0.0)))
    covariance = shrink_normal_scatter(scatter / np.outer(scale, scale), number) + 1e-9 * np.eye(len(scale))
    difference = groups[1].mean - groups[0].mean
    return average_directions(covariance, difference / scale)[:, 0] / scale, difference


def _project(people: SetMoments, weights: FloatArray) -> tuple[float, float]:
    """Return mean and standard deviation of people along weights (R,)."""
    mean = float(people.mean @ weights)
    variance = float(weights @ people.products @ weights) / people.number - mean**2
    return mean, float(np.sqrt(max(variance, 1e-300)))


def _compute_unit(patients: SetMoments, weights: FloatArray) -> float:
    """Return the 98th percentile of normally distributed patients along weights (R,)."""
    mean, sd = _project(patients, weights)
    unit = mean + float(norm.ppf(UNIT_SEVERITY_QUANTILE)) * sd
    return unit if unit > 1e-12 else 1.0
