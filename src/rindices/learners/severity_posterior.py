"""Points of the severities, and their posterior distribution for a person, given
patterns that are curves.

A person's shifts x enter through the M * K numbers x @ C^-1 @ steps alone. On a grid of
levels the density is a product of one factor for each pattern and of a table that is
the same for everyone, so sums over all points are matrix products with few
exponentials. Shape letters: N people, R regions, M patterns, K steps, L levels, G
points of z, J models.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache, reduce
from itertools import product
from statistics import NormalDist
from typing import NamedTuple, Self

import numpy as np

from rindices._typing import FloatArray, IntArray

N_STEPS = 5
"""K, the number of equal steps of z in which a curve may change its direction."""
_LEVELS_BY_PATTERNS = {1: 60, 2: 21, 3: 11, 4: 8, 5: 6}
_MIN_GROUP = 16  # mean number of people of a group, for a grid of its own
_CACHED_CELLS = 60_000  # of people and points, of which the cache holds a few copies
_MAX_PEOPLE = 2_000  # whose densities are in memory at once
# a smaller sum of products has lost digits; such people are summed point by point
_MIN_TOTAL = 1e-200


def make_severity_levels(n_patterns: int) -> FloatArray | None:
    """Return the levels (L,) of each coordinate of the grid; None where the points are
    quasi-random.
    """
    n_levels = _LEVELS_BY_PATTERNS.get(n_patterns)
    return None if n_levels is None else (np.arange(n_levels) + 0.5) / n_levels


@cache
def make_severity_points(n_patterns: int) -> FloatArray:
    """Return the points (G, M), each coordinate in the open interval from 0 to 1.

    The quasi-random points are a Kronecker sequence: multiples, modulo 1, of powers of
    the root of x^(M+1) = x + 1. Their number doubles with each pattern.
    """
    levels = make_severity_levels(n_patterns)
    if levels is not None:
        points = np.array(list(product(levels, repeat=n_patterns)))
    else:
        root = 2.0
        for _ in range(100):
            root = (1.0 + root) ** (1.0 / (n_patterns + 1))
        multiples = np.arange(1, 2 ** (7 + n_patterns) + 1)[
            :, None
        ] * root ** -np.arange(1.0, n_patterns + 1)
        points = np.clip((0.5 + multiples) % 1.0, 1e-6, 1.0 - 1e-6)
    points.setflags(write=False)
    return points


@cache
def make_normal_points(n_patterns: int) -> FloatArray:
    """Return the points (G, M) as quantiles of the standard normal distribution."""
    levels, positions = np.unique(make_severity_points(n_patterns), return_inverse=True)
    quantiles = np.array([NormalDist().inv_cdf(level) for level in levels.tolist()])
    normal = quantiles[positions].reshape(-1, n_patterns)
    normal.setflags(write=False)
    return normal


def compute_step_basis(z: FloatArray, n_steps: int = N_STEPS) -> FloatArray:
    """Return how far each step has been taken at severities z, from 0 to 1.

    Step k begins at severity k / K and is complete at (k + 1) / K. The change of a
    region at z is the sum of its steps times this basis, a line of K straight pieces.

    Parameters
    ----------
    z : ndarray of shape (G, M)
    n_steps : int
        K.

    Returns
    -------
    ndarray of shape (G, M * K)
    """
    return np.clip(z[:, :, None] * n_steps - np.arange(n_steps), 0.0, 1.0).reshape(
        len(z), -1
    )


@cache
def make_point_basis(n_patterns: int, n_steps: int = N_STEPS) -> FloatArray:
    """Return the basis (G, M * K) at the points of M patterns."""
    basis = compute_step_basis(make_severity_points(n_patterns), n_steps)
    basis.setflags(write=False)
    return basis


def compute_growth(z: FloatArray, interaction: FloatArray) -> FloatArray:
    """Return the factor by which the other patterns multiply the change of each
    pattern.

    Parameters
    ----------
    z : ndarray of shape (G, M)
    interaction : ndarray of shape (M, M)
        Entry [k, m] is the relative increase of the change of pattern k at full
        severity of pattern m. The diagonal is 0.

    Returns
    -------
    ndarray of shape (G, M)
    """
    return np.asarray(1.0 + z @ interaction.T)


def compute_log_copula(correlation: FloatArray) -> FloatArray:
    """Return the log density (G,) of a Gaussian copula with correlations (M, M) at the
    points of M patterns.
    """
    return _compute_log_copula(correlation.tobytes(), len(correlation))


@lru_cache(maxsize=64)  # people who lack different regions have the same prior
def _compute_log_copula(content: bytes, n_patterns: int) -> FloatArray:
    correlation, normal = (
        np.frombuffer(content).reshape(n_patterns, n_patterns),
        make_normal_points(n_patterns),
    )
    excess = np.linalg.inv(correlation) - np.eye(n_patterns)
    density = np.asarray(
        -0.5
        * (((normal @ excess) * normal).sum(axis=1) + np.linalg.slogdet(correlation)[1])
    )
    density.setflags(write=False)
    return density


class PosteriorSummary(NamedTuple):
    """Posterior of the severities of N people.

    Attributes
    ----------
    basis : ndarray of shape (N, M * K)
        Expectation of the basis of the steps.
    log_sum : ndarray of shape (N,)
        Log-likelihood of each person, relative to a control.
    point_weights : ndarray of shape (G,)
        Sum over people of the probability of each point.
    """

    basis: FloatArray
    log_sum: FloatArray
    point_weights: FloatArray


@dataclass(frozen=True, kw_only=True)
class _Grid:
    """Parts of the density on a grid that are the same for everyone.

    P = L^(M-1) are the points of all but the last.

    Attributes
    ----------
    levels : ndarray of shape (L,)
    basis : ndarray of shape (L, K)
        Of the steps at each level.
    other_points : ndarray of shape (P, M - 1)
        Severities of all patterns but the last.
    own : ndarray of shape (M, L)
        Log density that depends on one pattern alone.
    table : ndarray of shape (P, L)
        Density that depends on several patterns. Its largest value is 1.
    scale : float
        Log of what the table was divided by.
    """

    levels: FloatArray
    basis: FloatArray
    other_points: FloatArray
    own: FloatArray
    table: FloatArray
    scale: float

    @cached_property
    def moments(self) -> FloatArray:
        """The table, and the table times the severity of each pattern but the last,
        (M * L, P).
        """
        by_pattern = [self.table * z[:, None] for z in self.other_points.T]
        return np.concatenate([each.T for each in (self.table, *by_pattern)])


@dataclass(frozen=True, kw_only=True)
class _GridSums:
    """Density of N people on a grid, and its sums.

    Attributes
    ----------
    others : ndarray of shape (P, N)
        Product of the factors of all patterns but the last.
    last_factor : ndarray of shape (L, N)
        Factor of the last pattern.
    joint : ndarray of shape (P, N)
        Density, summed over the last pattern.
    last : ndarray of shape (L, N)
        Density, summed over all patterns but the last.
    total : ndarray of shape (N,)
        Density, summed over all.
    log_scale : ndarray of shape (N,)
        Log of what the density was divided by.
    """

    others: FloatArray
    last_factor: FloatArray
    joint: FloatArray
    last: FloatArray
    total: FloatArray
    log_scale: FloatArray


class BasisProducts(NamedTuple):
    """Products of the basis of two steps at each point.

    Pairs of different steps count twice, so that a symmetric matrix is enough on one
    side of its diagonal.

    Attributes
    ----------
    rows, columns : ndarray of shape (P,)
        The steps of each pair.
    values : ndarray of shape (P, G)
    """

    rows: IntArray
    columns: IntArray
    values: FloatArray

    @classmethod
    def compute(cls, basis: FloatArray) -> Self:
        """Compute the products of a basis (G, M * K)."""
        rows, columns = np.triu_indices(basis.shape[1])
        values = (
            basis[:, rows] * basis[:, columns] * np.where(rows == columns, 1.0, 2.0)
        ).T
        return cls(rows, columns, np.ascontiguousarray(values))


@dataclass(frozen=True, kw_only=True)
class SeverityPosterior:
    """Posterior of the severities on fixed points.

    Attributes
    ----------
    points : ndarray of shape (G, M)
        z.
    basis : ndarray of shape (G, M * K)
        How far each step has been taken at each point. Times the growth of its
        pattern, where patterns interact.
    offset : ndarray of shape (G,)
        Log density of the prior, minus half the squared size of the change.
    grid : _Grid or None
        Where the points are a grid and patterns do not interact.
    """

    points: FloatArray
    basis: FloatArray
    offset: FloatArray
    grid: _Grid | None

    @classmethod
    def build(
        cls,
        steps: FloatArray,
        weights: FloatArray,
        correlation: FloatArray,
        interaction: FloatArray | None = None,
    ) -> Self:
        """Build the posterior of a model.

        Parameters
        ----------
        steps : ndarray of shape (M, K, R)
        weights : ndarray of shape (R, M * K)
            C^-1 times the steps.
        correlation : ndarray of shape (M, M)
            Of the copula.
        interaction : ndarray of shape (M, M) or None
            See `compute_growth`. By default patterns do not interact.
        """
        gram = steps.reshape(weights.shape[1], -1) @ weights
        return cls.from_gram(
            gram, compute_log_copula(correlation), len(steps), interaction
        )

    @classmethod
    def from_gram(
        cls,
        gram: FloatArray,
        log_copula: FloatArray,
        n_patterns: int,
        interaction: FloatArray | None = None,
    ) -> Self:
        """Build the posterior from products of the steps.

        Parameters
        ----------
        gram : ndarray of shape (M * K, M * K)
            Steps times C^-1 times steps.
        log_copula : ndarray of shape (G,)
            Log density of the prior.
        n_patterns : int
            M.
        interaction : ndarray of shape (M, M) or None
            See `build`.
        """
        n_steps = len(gram) // n_patterns
        basis = compute_interacting_basis(n_patterns, n_steps, interaction)
        offset = log_copula - 0.5 * ((basis @ gram) * basis).sum(axis=1)
        grid = (
            _make_grid(n_patterns, n_steps, gram, offset)
            if interaction is None
            else None
        )
        return cls(
            points=make_severity_points(n_patterns),
            basis=basis,
            offset=offset,
            grid=grid,
        )

    def compute_means(self, numbers: FloatArray) -> FloatArray:
        """Return the posterior means of the severities, (N, M * K) -> (N, M)."""
        return np.asarray(compute_member_means([self], numbers.T[None])[0].T)

    def sum_points(self, numbers: FloatArray) -> FloatArray:
        """Return the posterior means point by point, (N, M * K) -> (N, M)."""
        return np.asarray(self._compute_probabilities(numbers)[0] @ self.points)

    def compute_variances(self, numbers: FloatArray) -> FloatArray:
        """Return the posterior variances of the severities, (N, M * K) -> (N, M)."""
        probabilities = self._compute_probabilities(numbers)[0]
        return np.asarray(
            probabilities @ self.points**2 - (probabilities @ self.points) ** 2
        )

    def summarise(
        self, numbers: FloatArray, functions: FloatArray | None = None
    ) -> PosteriorSummary:
        """Return the sums that EM needs, of people's shifts @ weights (N, M * K).

        With functions of z (G, T), ``basis`` has their expectations (N, T) instead of
        those of the basis.
        """
        if self.grid is None or functions is not None:
            return self._summarise_by_points(numbers, functions)
        grid, sums = self.grid, _sum_over_grid(numbers, self.grid)
        if not (sums.total > _MIN_TOTAL).all():
            return self._summarise_by_points(numbers)
        other_basis = make_other_basis(self.points.shape[1], grid.basis.shape[1])
        basis = (
            np.concatenate([other_basis.T @ sums.joint, grid.basis.T @ sums.last])
            / sums.total
        )
        point_weights = (sums.others @ (sums.last_factor / sums.total).T) * grid.table
        log_sum = np.log(sums.total) + sums.log_scale - np.log(len(self.points))
        return PosteriorSummary(basis.T, log_sum, point_weights.ravel())

    def _summarise_by_points(
        self, numbers: FloatArray, functions: FloatArray | None = None
    ) -> PosteriorSummary:
        probabilities, log_sum = self._compute_probabilities(numbers)
        expected = probabilities @ (self.basis if functions is None else functions)
        return PosteriorSummary(expected, log_sum, probabilities.sum(axis=0))

    def _compute_probabilities(
        self, numbers: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the probability of each point (N, G), and the log of their mean before
        normalisation (N,).
        """
        density = numbers @ self.basis.T
        density += self.offset
        return compute_point_probabilities(density)


def compute_group_means(
    numbers: FloatArray,
    group: IntArray,
    grams: FloatArray,
    correlation: FloatArray,
    interaction: FloatArray | None,
) -> FloatArray:
    """Return posterior means (N, M) of people in J groups, each with a model of its
    own.

    Small groups are computed together, point by point; in large ones the grid of a
    posterior pays.

    Parameters
    ----------
    numbers : ndarray of shape (N, M * K)
        See `SeverityPosterior.compute_means`.
    group : ndarray of shape (N,)
        Group of each person, in ascending order.
    grams : ndarray of shape (J, M * K, M * K)
    correlation : ndarray of shape (M, M)
        See `SeverityPosterior.build`.
    interaction : ndarray of shape (M, M) or None
        See `SeverityPosterior.build`.
    """
    prior, n_patterns = compute_log_copula(correlation), len(correlation)
    if len(numbers) >= _MIN_GROUP * len(grams):
        parts = np.split(numbers, np.searchsorted(group, np.arange(1, len(grams))))
        posteriors = (
            SeverityPosterior.from_gram(gram, prior, n_patterns, interaction)
            for gram in grams
        )
        means = [
            posterior.compute_means(part)
            for posterior, part in zip(posteriors, parts, strict=True)
        ]
        return np.concatenate(means)
    points, n_steps = make_severity_points(n_patterns), grams.shape[1] // n_patterns
    basis = compute_interacting_basis(n_patterns, n_steps, interaction)
    products = make_basis_products(n_patterns, n_steps, interaction)
    means = []
    for start in range(0, len(numbers), _MAX_PEOPLE):
        part, own = (
            numbers[start : start + _MAX_PEOPLE],
            group[start : start + _MAX_PEOPLE],
        )
        offsets = compute_offsets(grams[own[0] : own[-1] + 1], prior, products)
        means.append(
            compute_group_probabilities(part, own - own[0], offsets, basis)[0] @ points
        )
    return np.concatenate(means)


def compute_group_probabilities(
    numbers: FloatArray, group: IntArray, offsets: FloatArray, basis: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the probability of each point (N, G) for people in J groups, each with a
    model of its own, and the log of their mean before normalisation (N,).

    A few people at a time, whose densities stay in the cache.

    Parameters
    ----------
    numbers : ndarray of shape (N, M * K)
        See `SeverityPosterior.compute_means`.
    group : ndarray of shape (N,)
        Group of each person.
    offsets : ndarray of shape (J, G)
        See `SeverityPosterior`.
    basis : ndarray of shape (G, M * K)
    """
    probabilities = np.empty((len(numbers), len(basis)))
    log_means = np.empty(len(numbers))
    size = max(1, _CACHED_CELLS // len(basis))
    for start in range(0, len(numbers), size):
        part = slice(start, start + size)
        density = probabilities[part]
        np.matmul(numbers[part], basis.T, out=density)
        density += offsets[group[part]]
        log_means[part] = compute_point_probabilities(density)[1]
    return probabilities, log_means


def compute_offsets(
    grams: FloatArray, log_copula: FloatArray, products: BasisProducts
) -> FloatArray:
    """Return the offsets (J, G) of `SeverityPosterior` of J models.

    Parameters
    ----------
    grams : ndarray of shape (J, M * K, M * K)
        Steps times C^-1 times steps. Symmetric.
    log_copula : ndarray of shape (G,)
    """
    return np.asarray(
        log_copula - 0.5 * (grams[:, products.rows, products.columns] @ products.values)
    )


@cache
def _make_products(n_patterns: int, n_steps: int) -> BasisProducts:
    return BasisProducts.compute(make_point_basis(n_patterns, n_steps))


def make_basis_products(
    n_patterns: int, n_steps: int, interaction: FloatArray | None
) -> BasisProducts:
    """Return the products of the basis of M patterns; those of patterns that do not
    interact are kept.
    """
    if interaction is None:
        return _make_products(n_patterns, n_steps)
    return BasisProducts.compute(
        compute_interacting_basis(n_patterns, n_steps, interaction)
    )


def compute_point_probabilities(density: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return probabilities (N, G) of log densities (N, G), which are overwritten, and
    the log of their mean (N,).
    """
    top = density.max(axis=1, keepdims=True)
    density -= top
    np.exp(density, out=density)
    total = density.sum(axis=1, keepdims=True)
    density /= total
    return density, (top + np.log(total))[:, 0] - np.log(density.shape[1])


def compute_interacting_basis(
    n_patterns: int, n_steps: int, interaction: FloatArray | None
) -> FloatArray:
    """Return the basis (G, M * K) at the points of M patterns, times the growth of each
    pattern.
    """
    basis = make_point_basis(n_patterns, n_steps)
    if interaction is None:
        return basis
    growth = compute_growth(make_severity_points(n_patterns), interaction)
    return np.asarray(
        (basis.reshape(len(basis), n_patterns, n_steps) * growth[:, :, None]).reshape(
            basis.shape
        )
    )


@cache
def make_other_basis(n_patterns: int, n_steps: int) -> FloatArray:
    """Return the basis of all patterns but the last at their points, (P, (M
    - 1) * K).
    """
    levels = make_severity_levels(n_patterns)
    assert levels is not None
    return compute_step_basis(
        make_severity_points(n_patterns)[:: len(levels), :-1], n_steps
    )


def _make_grid(
    n_patterns: int, n_steps: int, gram: FloatArray, offset: FloatArray
) -> _Grid | None:
    """Return the grid of a model; None where the points are quasi-random."""
    levels = make_severity_levels(n_patterns)
    if levels is None:
        return None
    basis = compute_step_basis(levels[:, None], n_steps)
    blocks = [slice(m * n_steps, (m + 1) * n_steps) for m in range(n_patterns)]
    own = np.stack(
        [-0.5 * ((basis @ gram[block, block]) * basis).sum(axis=1) for block in blocks]
    )
    shared = offset.reshape((len(levels),) * n_patterns) - reduce(np.add.outer, own)
    scale = float(shared.max())
    table = np.exp(shared - scale).reshape(-1, len(levels))
    other_points = make_severity_points(n_patterns)[:: len(levels), :-1]
    return _Grid(
        levels=levels,
        basis=basis,
        other_points=np.ascontiguousarray(other_points),
        own=own,
        table=table,
        scale=scale,
    )


def _sum_over_grid(numbers: FloatArray, grid: _Grid) -> _GridSums:
    """Return the density of people, given as shifts @ weights (N, M * K), and its sums.

    People are on the last axis.

    Let b(z_m) be the basis of pattern m, n_m the person's numbers of it, and G_mk the
    blocks of steps times C^-1 times steps. Up to a constant, the log density of z is

        sum_m [b(z_m)'n_m - b(z_m)'G_mm b(z_m) / 2] - sum_{m<k} b(z_m)'G_mk b(z_k) + log
        copula(z).

    Each term of the first sum depends on one severity and on the person: L exponentials
    for each pattern. The rest depends on several severities, but is the same for
    everyone: ``table``, computed once for a model. So the density is table(z) times a
    product of M factors, and its sums over the last pattern, or over all others, are
    matrix products with the table: M * L exponentials per person instead of L^M. Each
    factor is divided by its largest value, which ``log_scale`` keeps.
    """
    factors, tops = _compute_factors(numbers.T[None], grid.basis, grid.own[None])
    others, last_factor = _multiply_others(factors[0]), factors[0, -1]
    joint = grid.table @ last_factor
    joint *= others
    last = grid.table.T @ others
    last *= last_factor
    return _GridSums(
        others=others,
        last_factor=last_factor,
        joint=joint,
        last=last,
        total=last.sum(axis=0),
        log_scale=grid.scale + tops[0].sum(axis=0),
    )


def _compute_factors(
    people: FloatArray, basis: FloatArray, own: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the factor of each pattern of S members, (S, M, L, N), of which the
    largest is 1, and the log (S, M, N) of what it was divided by.

    Parameters
    ----------
    people : ndarray of shape (S, M * K, N)
    basis : ndarray of shape (L, K)
    own : ndarray of shape (S, M, L)
    """
    n_members, n_patterns, _ = own.shape
    blocks = people.reshape(n_members, n_patterns, basis.shape[1], people.shape[2])
    density = basis @ blocks
    density += own[..., None]
    top = density.max(axis=2)
    density -= top[:, :, None]
    return np.exp(density, out=density), top


def _multiply_others(factors: FloatArray) -> FloatArray:
    """Return the product (P, N) of the factors (M, L, N) of all patterns but the
    last.
    """
    _, n_levels, n_people = factors.shape
    others = np.ones((1, n_people))
    for k, factor in enumerate(factors[:-1]):
        product = factor if not k else others[:, None] * factor
        others = product.reshape(n_levels ** (k + 1), n_people)
    return others


def compute_member_means(
    posteriors: Sequence[SeverityPosterior], numbers: FloatArray
) -> FloatArray:
    """Return the posterior means of the severities of S members.

    On a grid, the sums over all severities but the last are one product with the table,
    and with the table times each of these severities.

    Parameters
    ----------
    posteriors : sequence of SeverityPosterior
        With equally many patterns and steps.
    numbers : ndarray of shape (S, M * K, N)

    Returns
    -------
    ndarray of shape (S, M, N)
    """
    grids = [each.grid for each in posteriors if each.grid is not None]
    if len(grids) < len(posteriors):
        pairs = zip(posteriors, numbers, strict=True)
        return np.stack([each.sum_points(own.T).T for each, own in pairs])
    all_own = np.stack([grid.own for grid in grids])
    factors = _compute_factors(numbers, grids[0].basis, all_own)[0]
    means = np.empty((*all_own.shape[:2], numbers.shape[2]))
    for posterior, grid, own, mean, person in zip(
        posteriors, grids, factors, means, numbers, strict=True
    ):
        sums = (grid.moments @ _multiply_others(own)).reshape(own.shape)
        sums *= own[-1]
        total = sums[0].sum(axis=0)
        mean[-1] = grid.levels @ sums[0]
        sums[1:].sum(axis=1, out=mean[:-1])
        is_rare = ~(total > _MIN_TOTAL)
        total[is_rare] = 1.0
        mean /= total
        if is_rare.any():
            mean[:, is_rare] = posterior.sum_points(person[:, is_rare].T).T
    return means
