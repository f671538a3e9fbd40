"""The linear start: patterns of variance that patients have in excess of controls, from
sums over people.

Moments of people give the disease space (`GroupMoments.solve_space`). Its basis
maximises the likelihood of `rotation`, whose first term is a sum over patients. This
term is summed together with its first and second derivatives, so that the likelihood is
known near the current basis. Between rotations the patterns are refined by a sparse
factor model (`refine_patterns`).

With s = B u the severities, u the whitened ones (M,), and D = patterns B^-1 (R, M), the
loss of an unmixing B (M, M) has three terms.

- People: with free marginals and a Gaussian copula of free correlation, the part that
  depends on B is the negentropy of the marginals, -N sum_k J(s_k).
- Independence: -N log |det corr(s)| / 2, the further term of full ICA.
- Regions: entries of D are logistic, sum of 2 log cosh(D / 2) + R log |det B|.

Shape letters: N people, R regions, M patterns, S starts, U unmixings.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, Self

import numpy as np
from scipy.linalg import eigh

from rindices._typing import FloatArray, IntArray
from rindices.errors import InputError
from rindices.learners.contrastive.rotation import (
    EVEN_MOMENT_WEIGHT,
    ODD_MOMENT_WEIGHT,
    LikelihoodWeights,
    LossTerm,
    PeopleMoments,
    SeverityPrior,
    add_pattern_terms,
    compute_severity_weights,
    draw_rotation_starts,
    estimate_severity_moments,
    fit_prior_to_moments,
    normalise_rows,
    refine_patterns,
)
from rindices.learners.normal_variation import (
    ReferenceTarget,
    add_ridge,
    shrink_normal_scatter,
)
from rindices.learners.people_source import PeopleSet, PeopleSource, Question

N_REFINEMENTS, N_EM_STEPS, N_RANDOM_STARTS = 2, 10, 3
"""Rounds of refinement and rotation, EM steps of a refinement, and random starts of the
first rotation.
"""
MAX_ROTATION_STEPS = 20
"""Largest number of steps of a rotation; most end after about twelve."""
_MAX_NEWTON_STEPS, _MIN_NEWTON_GAIN = 6, 1e-8  # between two sums over people
_STEP_FRACTIONS = np.array([0.5, 0.2, 0.05, 0.01])  # where a whole step loses
_FIRST_RADIUS, _MIN_RADIUS = (
    0.5,
    1e-4,
)  # relative to the length of a row of the unmixing
_TIE = 1e-4  # difference of log-likelihoods below which two starts found the same basis
_MIN_GAIN = 1e-7  # of the log-likelihood, at which a start has converged
_MOMENT_WEIGHTS = np.array([ODD_MOMENT_WEIGHT, EVEN_MOMENT_WEIGHT])


class GroupMoments(NamedTuple):
    """Moments of the controls and of the patients of a set of people.

    Attributes
    ----------
    controls : PeopleMoments
    patients : PeopleMoments
    target : ReferenceTarget or None
        Correlations of a reference population, for the controls' covariance.
    """

    controls: PeopleMoments
    patients: PeopleMoments
    target: ReferenceTarget | None = None

    @classmethod
    def compute(
        cls,
        controls: FloatArray,
        patients: FloatArray,
        target: ReferenceTarget | None = None,
    ) -> Self:
        """Return the moments of controls and patients (N, R)."""
        return cls(
            PeopleMoments.compute(controls), PeopleMoments.compute(patients), target
        )

    def solve_space(self, n_patterns: int) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Find the directions in which patients vary more than controls.

        Solves E[(y - mean x)(y - mean x)'] w = rho C w for controls x and patients y.
        The second moment about the controls' mean is the covariance plus the squared
        mean shift. The shift lies in the same space and is estimated far better than
        any variance. C is the shrunk covariance of the controls, mixed with that of the
        reference.

        Parameters
        ----------
        n_patterns : int
            M.

        Returns
        -------
        patterns : ndarray of shape (R, M)
            C w of the M largest rho. Their signs give patients a positive mean.
        noise : ndarray of shape (R, R)
            C.
        spectrum : ndarray of shape (R,)
            rho, descending.
        """
        noise, covariance = (
            add_ridge(shrink_normal_scatter(each.scatter, each.number))
            for each in (self.controls, self.patients)
        )
        if self.target is not None:
            noise = self.target.mix_with_scale(
                noise, np.sqrt(np.diag(self.controls.covariance))
            )
        shift = self.patients.mean - self.controls.mean
        spectrum, vectors = eigh(covariance + np.outer(shift, shift), noise)
        top = vectors[:, ::-1][:, :n_patterns]
        return (
            noise @ (top * np.where(shift @ top < 0, -1.0, 1.0)),
            noise,
            spectrum[::-1],
        )


class PeopleInMemory(Protocol):
    """People of a member, as shifts from the controls' mean, by parts of
    `PeopleSet`.
    """

    def compute_moments(self, part: str) -> GroupMoments:
        """Return the moments of a part; missing cells are drawn."""
        ...

    def complete_patients(self, part: str) -> FloatArray:
        """Return the patients (N, R) of a part; missing cells are drawn."""
        ...

    def select(self, part: str, label: int) -> FloatArray:
        """Return the people (N, R) of a part and a group; missing cells are NaN."""
        ...


@dataclass(frozen=True, eq=False)
class MomentsQuestion(Question[GroupMoments]):
    """Asks for the `GroupMoments` of a set of people.

    Attributes
    ----------
    people : PeopleSet
    """

    people: PeopleSet

    def sum_in_memory(self, people: PeopleInMemory) -> GroupMoments:
        """Return the moments of the people of a member."""
        return people.compute_moments(self.people.part)


@dataclass(frozen=True, eq=False, kw_only=True)
class ContrastQuestion(Question["list[ContrastSums]"]):
    """Asks how contrast functions, summed over the patients of a set, depend on the
    basis.

    Attributes
    ----------
    people : PeopleSet
    linear_map : ndarray of shape (R, M)
        Patients @ linear_map - offset are whitened severities.
    offset : ndarray of shape (M,)
        Patients @ linear_map - offset are whitened severities.
    directions : ndarray of shape (S, M, M)
        Unit vectors in the rows. The answer has a `ContrastSums` for each of the S
        bases.
    """

    people: PeopleSet
    linear_map: FloatArray
    offset: FloatArray
    directions: FloatArray

    def sum_in_memory(self, people: PeopleInMemory) -> "list[ContrastSums]":
        """Return the contrasts of the people of a member."""
        patients = people.complete_patients(self.people.part)
        sums = sum_contrasts(patients @ self.linear_map - self.offset, self.directions)
        means = [each / len(patients) for each in sums]
        return [
            ContrastSums(
                directions=directions,
                values=values,
                gradients=gradients,
                curvatures=curvatures,
            )
            for directions, values, gradients, curvatures in zip(
                self.directions, *means, strict=True
            )
        ]


def sum_contrasts(
    white: FloatArray, directions: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Sum the contrast functions of severities s = white @ direction, with derivatives.

    The functions are s exp(-s^2 / 2) and exp(-s^2 / 2), as of `ContrastSums`.

    Parameters
    ----------
    white : ndarray of shape (N, M)
        Whitened severities of patients.
    directions : ndarray of shape (S, M, M)
        Unit vectors in the rows.

    Returns
    -------
    tuple of ndarray
        Sums (S, M, 2), gradients (S, M, 2, M) and second derivatives (S, M, 2, M,
        M).
    """
    shape, n_patterns = directions.shape[:2], white.shape[1]
    s = white @ directions.reshape(-1, n_patterns).T
    bell = np.exp(-0.5 * s * s)
    square = s * s
    slopes = np.concatenate([(1.0 - square) * bell, -s * bell], axis=1)
    bends = np.concatenate([(square - 3.0) * s * bell, (square - 1.0) * bell], axis=1)
    products = (white[:, :, None] * white[:, None, :]).reshape(
        len(white), n_patterns**2
    )
    values = np.stack([(s * bell).sum(axis=0), bell.sum(axis=0)])
    gradients, curvatures = slopes.T @ white, bends.T @ products
    return (
        values.T.reshape(*shape, 2),
        gradients.reshape(2, *shape, n_patterns).transpose(1, 2, 0, 3),
        curvatures.reshape(2, *shape, n_patterns, n_patterns).transpose(1, 2, 0, 3, 4),
    )


@dataclass(frozen=True, kw_only=True)
class ContrastSums:
    """Means over patients of the two contrast functions s exp(-s^2 / 2) and exp(-s^2 /
    2), with derivatives.

    Attributes
    ----------
    directions : ndarray of shape (M, M)
        Unit vectors in the rows.
    values : ndarray of shape (M, 2)
    gradients : ndarray of shape (M, 2, M)
    curvatures : ndarray of shape (M, 2, M, M)
    """

    directions: FloatArray
    values: FloatArray
    gradients: FloatArray
    curvatures: FloatArray

    def extrapolate(self, unmixings: FloatArray) -> LossTerm:
        """Return minus the negentropy per person (U,) at unmixings (U, M, M) nearby,
        and gradients (U, M, M).
        """
        norm = np.linalg.norm(unmixings, axis=2, keepdims=True)
        unit = unmixings / norm
        step = unit - self.directions
        bent = np.einsum("kfij,ukj->ukfi", self.curvatures, step)
        even_mean = np.array([0.0, np.sqrt(0.5)])  # of a normal severity
        values = (
            self.values
            - even_mean
            + np.einsum("ukfi,uki->ukf", self.gradients + 0.5 * bent, step)
        )
        slope = -2.0 * np.einsum(
            "f,ukf,ukfi->uki", _MOMENT_WEIGHTS, values, self.gradients + bent
        )
        tangent = (slope - (slope * unit).sum(axis=2, keepdims=True) * unit) / norm
        return LossTerm(-(values**2 @ _MOMENT_WEIGHTS).sum(axis=1), tangent)


def compute_losses(
    contrasts: ContrastSums, unmixings: FloatArray, number: int, patterns: FloatArray
) -> LossTerm:
    """Return the negative log-likelihood (U,) of unmixings (U, M, M) in a number of
    patients, and its gradients.
    """
    sign, logdet = np.linalg.slogdet(unmixings)
    is_singular = (sign == 0) | ~np.isfinite(logdet)
    unmixings = np.where(
        is_singular[:, None, None], np.eye(unmixings.shape[1]), unmixings
    )
    loss, gradient = contrasts.extrapolate(unmixings)
    people, logdet = (
        LossTerm(number * loss, number * gradient),
        np.where(is_singular, 0.0, logdet),
    )
    term = add_pattern_terms(
        people, unmixings, logdet, patterns, number, LikelihoodWeights()
    )
    return LossTerm(np.where(is_singular, np.inf, term.loss), term.gradient)


@dataclass(kw_only=True)
class BasisSearch:
    """Search from one start: unmixings (M, M), the best so far and the next one to ask
    about.

    Each answer tells the likelihood near the unmixing that was asked about. The most
    likely unmixing within a radius is asked about next; the radius is relative to the
    length of a row of the unmixing.

    Attributes
    ----------
    unmixing : ndarray
    candidate : ndarray
    loss : float
    contrasts : ContrastSums or None
    radius : float
    is_done : bool
    """

    unmixing: FloatArray
    candidate: FloatArray
    loss: float = np.inf
    contrasts: ContrastSums | None = None
    radius: float = _FIRST_RADIUS
    is_done: bool = False

    def update(
        self, contrasts: ContrastSums, number: int, patterns: FloatArray
    ) -> None:
        """Take the contrasts at the candidate, of a number of patients, and choose the
        next one.
        """
        loss = float(
            compute_losses(contrasts, self.candidate[None], number, patterns).loss[0]
        )
        gain = self.loss - loss
        if gain > -_MIN_GAIN:  # at the optimum, rounding decides on the sign
            self.unmixing, self.loss, self.contrasts = self.candidate, loss, contrasts
            self.radius = min(1.0, 2.0 * self.radius)
        else:
            self.radius *= 0.25
        if abs(gain) < _MIN_GAIN or self.radius < _MIN_RADIUS:
            self.is_done = True
        elif self.contrasts is not None:
            self.candidate = find_by_newton_steps(
                self.contrasts, self.unmixing, number, patterns, self.radius
            )


def _compute_newton_step(gradients: FloatArray, width: float) -> FloatArray:
    """Return the step -|H|^-1 g of a loss, given its gradient g at a point, and at
    points that are ``width`` away along each axis (1 + P, P).

    The Hessian is H = V diag(v) V' by differences; with |v| in the place of v, the step
    goes downhill also where the loss is not convex.
    """
    values, vectors = np.linalg.eigh((gradients[1:] - gradients[0]) / width)
    values = np.maximum(np.abs(values), 1e-6 * np.abs(values).max())
    return np.asarray(vectors / values @ (vectors.T @ -gradients[0]))


def find_by_newton_steps(
    contrasts: ContrastSums,
    unmixing: FloatArray,
    number: int,
    patterns: FloatArray,
    radius: float,
) -> FloatArray:
    """Return the most likely unmixing (M, M) within a radius, by derivatives at the
    present one.

    Newton steps converge to the last digit, so rounding, which depends on the division
    into sites, does not matter.
    """
    limit = radius * np.linalg.norm(unmixing, axis=1, keepdims=True)
    size = unmixing.size
    width = 1e-5 * float(np.linalg.norm(unmixing)) / np.sqrt(size)
    offsets = width * np.concatenate([np.zeros((1, size)), np.eye(size)]).reshape(
        -1, *unmixing.shape
    )
    current, trial, lowest = unmixing, unmixing, np.inf
    for _ in range(_MAX_NEWTON_STEPS):
        losses, slopes = compute_losses(contrasts, trial + offsets, number, patterns)
        # the last step is taken whatever rounding says
        if abs(lowest - losses[0]) < _MIN_NEWTON_GAIN:
            return np.asarray(trial)
        if losses[0] < lowest:
            current, lowest = trial, losses[0]
            gradients = slopes.reshape(size + 1, size)
            step = _compute_newton_step(gradients, width).reshape(unmixing.shape)
            step /= max(1.0, float(np.abs(step / limit).max()))
            trial = np.clip(current + step, unmixing - limit, unmixing + limit)
            continue
        trials = np.clip(
            current + _STEP_FRACTIONS[:, None, None] * step,
            unmixing - limit,
            unmixing + limit,
        )
        shorter = compute_losses(contrasts, trials, number, patterns).loss
        if not shorter.min() < lowest:
            break
        trial = trials[int(np.argmin(shorter))]
    return np.asarray(current)


def find_most_likely_search(searches: Sequence[BasisSearch]) -> BasisSearch:
    """Return the most likely search; of those that are equal but for rounding, the
    first.
    """
    best = min(search.loss for search in searches)
    return next(search for search in searches if search.loss <= best + _TIE)


@dataclass(frozen=True, kw_only=True)
class LinearStart:
    """A solved linear model: patients are D s + e.

    Attributes
    ----------
    patterns : ndarray of shape (R, M)
        D, the shift of each region per unit of severity.
    noise : ndarray of shape (R, R)
        Covariance of e.
    prior : SeverityPrior
        Of s.
    spectrum : ndarray of shape (R,)
        See `GroupMoments.solve_space`.
    target : ReferenceTarget or None
        See `GroupMoments`.
    """

    patterns: FloatArray
    noise: FloatArray
    prior: SeverityPrior
    spectrum: FloatArray
    target: ReferenceTarget | None = None


def fit_linear_start(
    people: PeopleSource, own: PeopleSet, n_patterns: int, rng: np.random.Generator
) -> LinearStart:
    """Solve the linear model for a set of people; ``rng`` draws the starts of the first
    rotation.

    Raises
    ------
    InputError
        If the set has too few patients, or too few people, for that many patterns.
    """
    moments = people.sum(MomentsQuestion(own))
    n_patients = moments.patients.number
    if n_patients <= n_patterns:
        raise InputError(
            f"{n_patients} patients cannot give {n_patterns} patterns (a member sees that many): lower n_patterns or "
            "add patients."
        )
    try:
        centre = moments.controls.mean
        patients = moments.patients.centre(centre)
        patterns, noise, spectrum = moments.solve_space(n_patterns)
        for stage in range(N_REFINEMENTS + 1):
            if stage:
                patterns = refine_patterns(patients, patterns, noise, N_EM_STEPS)
            rotation = Rotation.begin(
                patients, patterns, noise, 0 if stage else N_RANDOM_STARTS, rng
            )
            for _ in range(MAX_ROTATION_STEPS):
                if all(search.is_done for search in rotation.searches):
                    break
                offset = rotation.offset + centre @ rotation.linear_map
                rotation.update(
                    people.sum(
                        ContrastQuestion(
                            people=own,
                            linear_map=rotation.linear_map,
                            offset=offset,
                            directions=rotation.directions,
                        )
                    )
                )
            patterns = orient_patterns(rotation.end(), noise, patients.mean)
        prior = fit_prior_to_moments(
            *estimate_severity_moments(patients, patterns, noise)
        )
    except np.linalg.LinAlgError as error:
        number = moments.controls.number + n_patients
        raise InputError(
            f"{n_patterns} patterns cannot be distinguished in {number} people: ask for fewer."
        ) from error
    return LinearStart(
        patterns=patterns,
        noise=noise,
        prior=prior,
        spectrum=spectrum,
        target=moments.target,
    )


@dataclass(kw_only=True)
class Rotation:
    """Search for the most likely basis of patterns (R, M).

    Attributes
    ----------
    number : int
        Of patients.
    patterns : ndarray of shape (R, M)
        Change of each region per unit of whitened severity.
    linear_map : ndarray of shape (R, M)
        Patients @ linear_map - offset are whitened severities.
    offset : ndarray of shape (M,)
        Patients @ linear_map - offset are whitened severities.
    searches : list of BasisSearch
        One for each start. None for one pattern.
    """

    number: int
    patterns: FloatArray
    linear_map: FloatArray
    offset: FloatArray
    searches: list[BasisSearch]

    @classmethod
    def begin(
        cls,
        patients: PeopleMoments,
        patterns: FloatArray,
        noise: FloatArray,
        n_random_starts: int,
        rng: np.random.Generator,
    ) -> Self:
        """Whiten the severities of patterns (R, M), and draw the starts."""
        weights = compute_severity_weights(patterns, noise)
        mean, covariance = patients.project(weights)
        root = compute_covariance_root(covariance)
        rotated, inverse = patterns @ root, np.linalg.inv(root)
        starts = (
            draw_rotation_starts(rotated, n_random_starts, rng)
            if patterns.shape[1] > 1
            else []
        )
        searches = [BasisSearch(unmixing=start, candidate=start) for start in starts]
        return cls(
            number=patients.number,
            patterns=rotated,
            linear_map=weights @ inverse,
            offset=mean @ inverse,
            searches=searches,
        )

    @property
    def directions(self) -> FloatArray:
        """Directions (S, M, M) at which sums are needed."""
        return np.stack([normalise_rows(search.candidate) for search in self.searches])

    def update(self, answers: list[ContrastSums]) -> None:
        """Take the answers at the candidates."""
        for search, contrasts in zip(self.searches, answers, strict=True):
            if not search.is_done:
                search.update(contrasts, self.number, self.patterns)

    def end(self) -> FloatArray:
        """Return the patterns (R, M) in the most likely basis, per unit of severities
        of variance 1.
        """
        if not self.searches:
            return self.patterns
        unmixing = find_most_likely_search(self.searches).unmixing
        return np.asarray(self.patterns @ np.linalg.inv(normalise_rows(unmixing)))


def compute_covariance_root(covariance: FloatArray) -> FloatArray:
    """Return the root (M, M) of a covariance; it is symmetric, so that the current
    basis remains a good start.
    """
    values, vectors = np.linalg.eigh(covariance)
    values = np.maximum(values, 1e-12 * max(float(values.max()), 1e-300))
    return np.asarray(vectors * np.sqrt(values) @ vectors.T)


def orient_patterns(
    patterns: FloatArray, noise: FloatArray, mean: FloatArray
) -> FloatArray:
    """Return patterns (R, M) with positive severities of patients of this mean (R,),
    the strongest first.
    """
    patterns = patterns * np.where(
        mean @ compute_severity_weights(patterns, noise) < 0, -1.0, 1.0
    )
    return np.asarray(patterns[:, order_by_strength(patterns, noise)])


def order_by_strength(patterns: FloatArray, metric: FloatArray) -> IntArray:
    """Return the order of patterns by size in a metric, which does not depend on the
    start.
    """
    strength = (patterns * np.linalg.solve(metric, patterns)).sum(axis=0)
    return np.argsort(-strength, kind="stable")
