"""Sums over the people of a site, as functions of arrays: the arithmetic of each kind of round.

Shape letters: N people, R regions, M patterns, K steps, S starts, H values of c, D directions, B blocks, Q cosines.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from rindices._typing import FloatArray, IntArray
from rindices.federated.messages import pack_symmetric, unpack_symmetric
from rindices.learners.inference import IDENTITY_THRESHOLD, LOG_FLOOR, apply_log_transform
from rindices.learners.severity_posterior import (
    PosteriorSummary,
    SeverityPosterior,
    compute_log_copula,
    make_normal_points,
)

_CHUNK = 2_000  # people whose posteriors are in memory at once


def sum_transforms(z: FloatArray, shares: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sum and sum of squares (H, R) of log-transformed people (N, R) for each c, and the sums of logs (H,)."""
    sums, squares = (np.zeros((len(shares), z.shape[1])) for _ in range(2))
    logs = np.zeros(len(shares))
    for k, share in enumerate(shares.tolist()):
        shifts = apply_log_transform(z, share)
        sums[k], squares[k] = shifts.sum(axis=0), np.einsum("nr,nr->r", shifts, shifts)
        is_log = 1.0 + share * z.min(initial=0.0) >= LOG_FLOOR  # no tangents, so that the logarithms are known already
        logs[k] = share * sums[k].sum() if is_log else _sum_logs(z, share)
    return sums, squares, logs


def _sum_logs(z: FloatArray, share: float) -> float:
    """Return the logarithm of the Jacobian of the log transform, over all people and regions."""
    return 0.0 if share < IDENTITY_THRESHOLD else float(np.log(np.maximum(1.0 + share * z, LOG_FLOOR)).sum())


def sum_moments(people: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, float]:
    """Return sum x (R,), packed sum x x', sum |x|^2 x (R,) and sum |x|^4 of people (N, R)."""
    lengths = np.square(people).sum(axis=1)
    products = pack_symmetric(people.T @ people)
    return people.sum(axis=0), products, lengths @ people, float(np.square(lengths).sum())


def sum_blocks(
    residuals: FloatArray, directions: FloatArray, blocks: IntArray, n_blocks: int
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return sums and squares (B, R) of people (N, R), and packed products of directions (R, D), by block (N,)."""
    people = [residuals[blocks == block] for block in range(n_blocks)]
    sums = np.stack([each.sum(axis=0) for each in people])
    squares = np.stack([(each**2).sum(axis=0) for each in people])
    scores = [each @ directions for each in people]
    return sums, squares, np.stack([pack_symmetric(each.T @ each) for each in scores])


def sum_contrasts(white: FloatArray, directions: FloatArray) -> FloatArray:
    """Sum the contrast functions of severities s = white @ direction, with derivatives.

    The functions are s exp(-s^2 / 2) and exp(-s^2 / 2), see `rindices.learners.contrastive.rotation`.

    white (N, M): whitened severities of patients; directions (S, M, M): unit vectors in the rows. Returns (S, M, 2 (1 +
    M + M (M + 1), for each direction both functions, both gradients and both second derivatives (packed).
    """
    s = white @ directions.reshape(-1, white.shape[1]).T
    bell = np.exp(-0.5 * s * s)
    functions = np.stack([s * bell, bell])
    slopes = np.stack([(1.0 - s * s) * bell, -s * bell])
    curvatures = np.stack([(s**3 - 3.0 * s) * bell, (s * s - 1.0) * bell])
    products = pack_symmetric(white[:, :, None] * white[:, None, :])
    parts = [functions.sum(axis=1)[:, :, None], *(array.transpose(0, 2, 1) for array in (slopes, curvatures))]
    sums = np.concatenate([parts[0], parts[1] @ white, parts[2] @ products], axis=2)  # (2, S M, 1 + M + packed)
    return np.asarray(sums.transpose(1, 0, 2).reshape(*directions.shape[:2], -1))


def make_packed_posterior(gram: FloatArray, correlation: FloatArray) -> SeverityPosterior:
    """Return the posterior of packed products of the steps and packed correlations."""
    correlations = unpack_symmetric(correlation)
    return SeverityPosterior.from_gram(unpack_symmetric(gram), compute_log_copula(correlations), len(correlations))


def sum_expectations(
    patients: FloatArray, weights: FloatArray, posterior: SeverityPosterior
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the sums of the E step: sum x E[b]' (R, M * K), packed sum E[b b'] and packed sum E[y y'].

    b is the basis of the steps and y the severities as normal quantiles. ``patients`` are (N, R).
    """
    cross, point_weights = np.zeros(weights.shape), np.zeros(len(posterior.points))
    for part, summary in _summarise(patients, weights, posterior):
        cross += part.T @ summary.basis
        point_weights += summary.point_weights
    basis, normal = posterior.basis, make_normal_points(posterior.points.shape[1])
    gram, second = ((array * point_weights[:, None]).T @ array for array in (basis, normal))
    return cross, pack_symmetric(gram), pack_symmetric(second)


def sum_likelihood(patients: FloatArray, weights: FloatArray, posterior: SeverityPosterior) -> float:
    """Return the summed log-likelihood of patients (N, R), relative to a control."""
    return float(sum(summary.log_sum.sum() for _, summary in _summarise(patients, weights, posterior)))


def _summarise(
    patients: FloatArray, weights: FloatArray, posterior: SeverityPosterior
) -> Iterator[tuple[FloatArray, PosteriorSummary]]:
    for start in range(0, len(patients), _CHUNK):
        part = patients[start : start + _CHUNK]
        yield part, posterior.summarise(part @ weights)


def infer_indices(
    people: FloatArray, weights: FloatArray, grams: FloatArray, correlations: FloatArray
) -> list[FloatArray]:
    """Return the R-indices (N, M) of people (N, R) under each of T models: (T, R, M * K), (T, ...), (T, ...)."""
    models = zip(weights, grams, correlations, strict=True)
    return [make_packed_posterior(gram, corr).compute_means(people @ each) for each, gram, corr in models]


def average_indices(indices: Sequence[FloatArray], orders: Sequence[Sequence[int]]) -> FloatArray:
    """Return the mean (N, M) of the members' R-indices, with columns in the orders of the consensus."""
    return np.asarray(np.mean([each[:, list(order)] for each, order in zip(indices, orders, strict=True)], axis=0))


def sum_cosines(values: FloatArray, number: int) -> FloatArray:
    """Return the sums of cos(k pi v), k = 1 to Q, of values from 0 to 1, (N, M) -> (M, Q)."""
    return np.asarray(np.cos(np.pi * values.T[:, :, None] * np.arange(1, number + 1)).sum(axis=1))


def scale_distances(
    people: FloatArray, mean: FloatArray, precision: FloatArray, number: int, own_share: float
) -> FloatArray:
    """Return distances (N,) from the mean of all people as if each was not among them, scaled to 0 to 1.

    Without a person, the mean moves away by a factor n / (n - 1) and the covariance loses the person's part, of which
    shrinkage leaves the share ``own_share``. The distance 1 is `get_largest_distance`.
    """
    centred, factor = people - mean, number / (number - 1.0)
    squares = ((centred @ precision) * centred).sum(axis=1)
    left_out = factor**2 * squares / np.maximum(1.0 - own_share * factor * squares / (number - 1.0), 0.01)
    return np.asarray(np.clip(np.sqrt(left_out) / get_largest_distance(len(mean)), 0.0, 1.0))


def get_largest_distance(n_regions: int) -> float:
    """Return the distance that is scaled to 1; it is about sqrt(R) on average."""
    return float(2.5 * np.sqrt(n_regions))
