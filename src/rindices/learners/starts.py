"""Where a warm training starts: a solved linear model of a member's own people, in closed form.

Shape letters: N people, R regions, M patterns.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rindices.errors import InputError
from rindices.learners.contrastive import control_covariance, learn_ica, learn_likelihood, severe_unit
from rindices.learners.seats import Seats
from rindices.learners.severity_prior import SeverityPrior, independent_prior, prior_from_moments
from rindices.learners.shared_noise import Refit, refit
from rindices.learners.sparse_patterns import severity_moments, severity_weights
from rindices.threads import one_thread

Floats = NDArray[np.float64]

_DRAWS = 20_000


class Start(NamedTuple):
    """A solved linear model: patients are D s + e.

    Attributes
    ----------
    seats : Seats
    patterns : (R, M)
        D, the shift of each region in control standard deviations at severity 1.
    noise : (R, R)
        Covariance of e.
    prior : SeverityPrior
        Of s.
    whitened_by : (R, R)
        Covariance in which people are whitened before D.
    """

    seats: Seats
    patterns: Floats
    noise: Floats
    prior: SeverityPrior
    whitened_by: Floats


def make_start(
    people: Floats, y: NDArray[np.intp], seats: Seats, n_patterns: int, kind: str, conditioning: str, seed: int
) -> Start:
    """Solve the linear model for the people of a member.

    Parameters
    ----------
    people : (N, R)
        Shifts in control standard deviations.
    kind : {'ica', 'likelihood'}
        ``ica``: plain contrastive ICA, the controls' covariance, uniform and independent severities. ``likelihood``:
        the contrastive learner's likelihood, normal variation shared by controls and patients, and severities with
        their own marginals and correlation. For a random start ``ica`` serves, of which only the covariance is used.
    conditioning : str
        See `Recipe`.
    """
    own, labels = people[seats.seen], y[seats.seen]
    if labels.sum() <= n_patterns:
        raise InputError(
            f"{labels.sum()} patients cannot give {n_patterns} patterns (a member sees that many of {(y == 1).sum()}): "
            "lower n_patterns or add patients."
        )
    centre = own[labels == 0].mean(axis=0)
    controls, patients = own[labels == 0] - centre, own[labels == 1] - centre
    try:
        with one_thread():
            found = (_likelihood if kind == "likelihood" else _ica)(controls, patients, n_patterns, seed)
            whitened_by = control_covariance(controls) if conditioning == "controls" else found.noise
    except np.linalg.LinAlgError as error:
        raise InputError(f"{n_patterns} patterns cannot be told apart in {len(own)} people: ask for fewer.") from error
    unit = severe_unit(patients @ severity_weights(found.patterns, found.noise))
    mean, covariance = found.mean / unit, found.covariance / np.outer(unit, unit)
    prior = (prior_from_moments if kind == "likelihood" else independent_prior)(mean, covariance)
    return Start(seats, found.patterns * unit, found.noise, prior, whitened_by)


def _ica(controls: Floats, patients: Floats, n_patterns: int, seed: int) -> Refit:
    patterns, noise = learn_ica(controls, patients, n_patterns, seed)[1], control_covariance(controls)
    return Refit(patterns, noise, *severity_moments(patients, patterns, noise))


def _likelihood(controls: Floats, patients: Floats, n_patterns: int, seed: int) -> Refit:
    patterns = learn_likelihood(controls, patients, n_patterns, seed)[1]
    return refit(controls, patients, patterns, control_covariance(controls))


def inverse_weights(z: Floats, change: Floats, noise: Floats) -> Floats:
    """Return the weights (R, M) of the best linear inverse: the regression of z on a person who was changed so.

    A person is e + change with e of covariance C, so the regression needs only the moments of z and the change.

    Parameters
    ----------
    z : (N, M)
        Severities as drawn.
    change : (N, R)
        What each does to a person.
    noise : (R, R)
        C.
    """
    moved, drawn = change - change.mean(axis=0), z - z.mean(axis=0)
    return np.asarray(np.linalg.solve(noise + moved.T @ moved / len(moved), moved.T @ drawn / len(moved)))


def start_weights(start: Start, rng: np.random.Generator) -> Floats:
    """Return the weights (R, M) of the inverse of the linear model itself."""
    z, s = start.prior.draw(_DRAWS, rng)
    return inverse_weights(z, s @ start.patterns.T, start.noise)


def start_curves(start: Start, levels: Sequence[float]) -> Floats:
    """Return the shift of each region under each pattern alone, at some levels of z: (Q, M, R)."""
    width = start.patterns.shape[1]
    severities = np.stack([start.prior.severities(np.full((1, width), level))[0] for level in levels])
    return np.asarray(severities[:, :, None] * start.patterns.T)
