"""The mixed start: local patterns of the contrastive start, and diffuse patterns of the
whole cohort in what these leave, from sums over people.

The contrastive start finds local patterns, and the whole-cohort start
(`whole_cohort_start`) finds diffuse ones. Where patients have both, the local patterns
are kept as they are, and the others are found as in the whole-cohort start. The
equations are in ``docs/whole_cohort_start.md``.

Shape letters: R regions, M patterns, L local patterns.
"""

from collections.abc import Sequence

import numpy as np

from rindices._typing import FloatArray
from rindices.errors import InputError
from rindices.learners.contrastive.linear_start import (
    GroupMoments,
    LinearStart,
    MomentsQuestion,
    fit_linear_start,
    orient_patterns,
)
from rindices.learners.contrastive.rotation import (
    compute_severity_weights,
    estimate_severity_moments,
    fit_prior_to_moments,
)
from rindices.learners.contrastive.whole_cohort_start import (
    compute_excess,
    find_leading_directions,
    find_rotation,
    shrink_controls,
    whiten_severities,
)
from rindices.learners.people_source import PeopleSet, PeopleSource

MAX_LOCAL_SHARE = 1.0 / 9.0
"""Share of regions (`compute_region_shares`) below which a pattern is local.

Where people differed by two real factors, the most local pattern of the contrastive
start had a share of 0.12 at least (medians over members, 48 tables). With a pattern of
13 regions among others on real people it was 0.10 at most, where that was found at all.
"""


def compute_region_shares(patterns: FloatArray) -> FloatArray:
    """Return the share (M,) of the regions in which each pattern (R, M) is
    concentrated.

    Equation 7: mean(D_k^2)^2 / mean(D_k^4), over regions. This is 1 where all regions
    change alike, p where a share p of them does and the others do not, and about 1/3
    for normally distributed changes.
    """
    squares = patterns**2
    return np.asarray(squares.mean(axis=0) ** 2 / (squares**2).mean(axis=0))


def has_local_patterns(patterns: Sequence[FloatArray]) -> bool:
    """Return whether the median over members of the share of the most local pattern is
    that of a local one; patterns (R, M) of each member, of the contrastive start.

    One pattern alone is never mixed.
    """
    shares = [compute_region_shares(each).min() for each in patterns]
    return patterns[0].shape[1] > 1 and bool(np.median(shares) <= MAX_LOCAL_SHARE)


def solve_mixed(moments: GroupMoments, contrastive: FloatArray) -> LinearStart:
    """Return the linear model of the mixed start, given the patterns (R, M) of the
    contrastive start.

    Equation 8: L are the local patterns, at least the most local one and at most all
    but one. With W = C^-1 L (L' C^-1 L)^-1 and Q = 1 - L W', the other directions are
    those of equation 1 for Q (P + mu mu' - C) Q'. Severities are whitened as in
    equation 3, so that they are independent in the whole cohort. The first local
    pattern keeps its regions, each further one loses what would correlate it with those
    before it, and the diffuse ones are rotated as in equation 4. C is that of controls,
    because what an estimate of a local pattern misses would be pooled into it.

    Raises
    ------
    LinAlgError
        If patients vary less than controls.
    """
    n_patterns, noise = contrastive.shape[1], shrink_controls(moments)
    shares = compute_region_shares(contrastive)
    n_local = min(max(int((shares <= MAX_LOCAL_SHARE).sum()), 1), n_patterns - 1)
    local = contrastive[:, np.argsort(shares, kind="stable")[:n_local]]
    left = np.eye(len(local)) - local @ compute_severity_weights(local, noise).T
    excess = left @ compute_excess(moments, noise) @ left.T
    diffuse = find_leading_directions(excess, noise, n_patterns - n_local)[1]
    space = np.hstack([local, diffuse])  # each of length 1 in units of normal variation
    space = space / np.sqrt((space * np.linalg.solve(noise, space)).sum(axis=0))
    patterns, means = whiten_severities(moments, space, noise)

    # orthogonal basis whose first vectors give the local patterns, one after another
    root = np.linalg.lstsq(space, patterns, rcond=None)[0]
    basis = np.linalg.qr(np.linalg.inv(root))[0]
    others = basis[:, n_local:]
    basis[:, n_local:] = others @ find_rotation(patterns @ others, means @ others)

    patients = moments.patients.centre(moments.controls.mean)
    patterns = orient_patterns(patterns @ basis, noise, patients.mean)
    prior = fit_prior_to_moments(*estimate_severity_moments(patients, patterns, noise))
    return LinearStart(
        patterns=patterns,
        noise=noise,
        prior=prior,
        spectrum=np.zeros(0),
        target=moments.target,
    )


def fit_mixed_start(
    people: PeopleSource, own: PeopleSet, n_patterns: int, rng: np.random.Generator
) -> LinearStart:
    """Solve the linear model of the mixed start for a set of people; ``rng`` is that of
    the contrastive start.

    Raises
    ------
    InputError
        If there are too few people, or patients do not vary more than controls.
    """
    contrastive = fit_linear_start(people, own, n_patterns, rng)
    moments = people.sum(MomentsQuestion(own))
    try:
        return solve_mixed(moments, contrastive.patterns)
    except np.linalg.LinAlgError as error:
        raise InputError(
            f"patients do not vary more than controls in {n_patterns} directions: ask for fewer patterns."
        ) from error
