"""Covariance of normal variation, from the people of a study and, if there is one, a
reference population.

A study has a few dozen controls; healthy people measured with the same program number
thousands. Means need local controls, but the correlations of regions are much the same
everywhere, so a reference can stand in for part of the covariance. How far it is
trusted is decided by the study's own people: the weight of the reference is the one
under which people left out are most likely. A reference that does not fit gets no
weight.

Shape letters: N people, R regions.
"""

from typing import NamedTuple, Self

import numpy as np
from scipy.linalg import solve_triangular
from sklearn.covariance import ledoit_wolf

from rindices._typing import FloatArray
from rindices.learners.base import handle_zeros_in_scale
from rindices.preprocess.standardise import shrink_covariance, shrink_normal_covariance

REFERENCE_WEIGHTS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0)
"""Weights of the reference that are compared."""
REFERENCE_SHRINKAGE = 0.1
"""Weight of the identity in the correlations of the reference."""
_N_FOLDS = 5
# share of the mean variance; keeps the covariance invertible where a region is constant
_RIDGE = 1e-9


class ReferenceTarget(NamedTuple):
    """Correlations that the covariance of a study is shrunk to.

    Attributes
    ----------
    correlation : ndarray of shape (R, R)
        Of the reference population, shrunk a little to the identity.
    weight : float
        Weight of the reference, from 0 to 1.
    """

    correlation: FloatArray
    weight: float

    @classmethod
    def choose(cls, people: FloatArray, reference: FloatArray | None) -> Self | None:
        """Choose the weight under which people left out are most likely (5 folds,
        normal distribution).

        Parameters
        ----------
        people : ndarray of shape (N, R)
            Of one group, or deviations from the means of their groups.
        reference : ndarray of shape (R, R) or None
            Correlations of the reference population.

        Returns
        -------
        Self or None
            None without a reference.
        """
        if reference is None:
            return None
        correlation = (
            1.0 - REFERENCE_SHRINKAGE
        ) * reference + REFERENCE_SHRINKAGE * np.eye(len(reference))
        targets = [cls(correlation, weight) for weight in REFERENCE_WEIGHTS]
        folds = np.arange(len(people)) % min(_N_FOLDS, len(people) // 2)
        likelihoods = np.zeros(len(targets))
        for fold in np.unique(folds):
            seen, left_out = people[folds != fold], people[folds == fold]
            own = estimate_covariance(seen)
            for k, target in enumerate(targets):
                likelihoods[k] += _compute_log_likelihood(
                    left_out - seen.mean(axis=0), target.mix(own, seen)
                )
        return targets[int(np.argmax(likelihoods))]

    def mix(self, own: FloatArray, people: FloatArray) -> FloatArray:
        """Return the mean of a covariance (R, R) and the reference's, with the
        variances of the people (N, R).
        """
        return self.mix_with_scale(own, handle_zeros_in_scale(people.std(axis=0)))

    def mix_with_scale(self, own: FloatArray, scale: FloatArray) -> FloatArray:
        """Return the mean of a covariance (R, R) and the reference's, with standard
        deviations (R,).
        """
        if not self.weight:
            return own
        return np.asarray(
            (1.0 - self.weight) * own
            + self.weight * self.correlation * np.outer(scale, scale)
        )


def estimate_covariance(
    people: FloatArray, target: ReferenceTarget | None = None
) -> FloatArray:
    """Estimate the covariance of people who may be fewer than regions.

    Parameters
    ----------
    people : ndarray of shape (N, R)
    target : ReferenceTarget or None
        Correlations of a reference population.

    Returns
    -------
    ndarray of shape (R, R)
        , Ledoit-Wolf covariance, mixed with the reference.
    """
    own = add_ridge(ledoit_wolf(people)[0])
    return own if target is None else target.mix(own, people)


def add_ridge(covariance: FloatArray) -> FloatArray:
    """Return a covariance (R, R) that can be inverted where a region is constant."""
    size = len(covariance)
    return np.asarray(
        covariance
        + _RIDGE * max(float(np.trace(covariance)) / size, 1e-12) * np.eye(size)
    )


def shrink_scatter(scatter: FloatArray, fourth_power: float, number: int) -> FloatArray:
    """Return the Ledoit-Wolf covariance of people from sums over them.

    Parameters
    ----------
    scatter : ndarray of shape (R, R)
        Sum of x x' over people, or its expectation.
    fourth_power : float
        Sum of |x|^4.
    number : int
        Of people.

    Returns
    -------
    ndarray of shape (R, R)
    """
    return shrink_covariance(scatter / number, fourth_power, number)


def shrink_normal_scatter(scatter: FloatArray, number: int) -> FloatArray:
    """Return the Ledoit-Wolf covariance of normally distributed people, from their
    scatter (R, R) alone.
    """
    return shrink_normal_covariance(scatter / number, number)


def _compute_log_likelihood(people: FloatArray, covariance: FloatArray) -> float:
    """Return the log-likelihood of people (N, R) under a normal distribution of mean 0,
    up to a constant.
    """
    root = np.linalg.cholesky(covariance)
    white = solve_triangular(root, people.T, lower=True)
    return float(-0.5 * (white**2).sum() - len(people) * np.log(np.diag(root)).sum())
