"""Write a model for passing on: an ordinary model file with coarser content, which says
less about who took part.

A model file holds means, effects of covariates and covariances of its training people,
and somebody who has the measurements of a person can tell from them whether the person
was among these. A published file has one ensemble member in place of several, and its
numbers are rounded so far that one person hardly changes them. What R-indices depend on
is kept: the weights of the regions, and the part of means and effects that the weights
measure.

Shape letters: N people, R regions, M patterns, K steps of a curve, S members, P columns
of the design.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import permutations
from statistics import NormalDist

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import mannwhitneyu

from rindices._typing import BoolArray, FloatArray
from rindices.errors import ModelError
from rindices.learners.inference import SEVERITY_LEVELS, InteractingHead, TrajectoryHead
from rindices.learners.missing_cells import complete_people
from rindices.learners.normal_variation import REFERENCE_SHRINKAGE
from rindices.learners.severity_posterior import compute_log_copula
from rindices.learners.trajectory.expectation import compute_head_likelihood
from rindices.model.fitted import FittedModel
from rindices.model.intervals import (
    CalibratedIntervals,
    MemberControls,
    calibrate_intervals,
)
from rindices.model.normal_reference import NormalReference
from rindices.model.pattern_tables import average_interaction, list_trajectory_heads
from rindices.model.records import MembershipRecord, ModelCard
from rindices.model.unusual import TrainingDistribution
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import round_outwards
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.cohort import Cohort

# Steps to which numbers are rounded, in standard deviations of controls; chosen by
# benchmarks.membership.
_MEAN_STEP, _EFFECT_STEP, _LOG_SD_STEP, _CHANGE_STEP = 0.8, 0.25, 0.4, 0.75
_COURSE_STEP, _LOADING_STEP, _WEIGHT_STEP, _SMALL_STEP = 0.25, 0.2, 0.5, 0.1
_RESIDUAL_LIMIT, _RESIDUAL = (
    0.25,
    0.4,
)  # correlation that factors leave, above which a pair is kept, and what it gets
_PEOPLE_PER_WEIGHT_FACTOR = 15
_MIN_EIGENVALUE, _MAX_COMMUNALITY = 0.1, 0.95
_N_ITERATIONS, _N_DISTANCES, _N_SIMULATED = 20, 20, 2_000

_PEOPLE_RATIO = 2.5
"""Squared separation of files of four folds with and without a person, in units of that
of the published file.

Two such files have three folds in common, so they differ by less than a file and the
population do.
"""
ATTACK_STRENGTH = 1.7
"""Separation by the strongest attack of benchmarks.membership, in units of that by the
likelihood of files alone.
"""


def publish_model(
    model: FittedModel,
    cohort: Cohort,
    seen: BoolArray,
    reference: NormalReference | None = None,
) -> FittedModel:
    """Return a model for passing on, with an estimate of how well it tells who took
    part.

    Files of four fifths of the people, those of single members, are compared: each has
    some people and lacks others.

    Parameters
    ----------
    model : FittedModel
        As ``fit`` made it, of method ``trajectories``.
    cohort : Cohort
        The people of the study, as they were trained on.
    seen : (S, N)
        The people that each of the model's members was trained on.
    reference : NormalReference, optional
        Reference population whose correlations of regions are stored in place of those
        of the study.

    Returns
    -------
    FittedModel

    Raises
    ------
    ModelError
        If the patterns of the model are not curves, as those of method ``trajectories``
        are.
    """
    correlation = (
        None
        if reference is None
        else make_reference_correlation(reference, model.regions)
    )
    published, likelihoods, distances = (
        coarsen_model(model, correlation),
        np.empty(seen.shape),
        np.empty(len(cohort)),
    )
    for k, (head, order) in enumerate(zip(model.heads, model.orders, strict=True)):
        member = replace(
            model,
            heads=(head,),
            orders=(order,),
            preprocessing=model.pipelines[k],
            pipelines=(),
        )
        member = coarsen_model(member, correlation)
        likelihoods[k] = compute_people_likelihood(member, cohort)
        assert member.training is not None
        distances[~seen[k]] = member.training.compute_distances(
            _complete(member, cohort.take(~seen[k]))
        )
    groups = np.array_split(np.sort(distances), min(_N_DISTANCES, len(distances)))
    means = np.round([group.mean() for group in groups], 1) + 1e-3 * np.arange(
        len(groups)
    )  # no two are the same
    low, high = round_outwards(
        min(distances.min(), means[0] - 0.1), max(distances.max(), means[-1] + 0.1)
    )
    assert published.training is not None
    training = replace(published.training, distances=np.array([low, *means, high]))
    intervals = (
        None
        if model.intervals is None
        else _calibrate(published, model.infer_members(cohort), model.intervals)
    )
    card = published.card.model_copy(
        update={"membership": estimate_membership(likelihoods, seen)}
    )
    return replace(published, training=training, intervals=intervals, card=card)


def explain_unpublishable(model: FittedModel) -> str:
    """Return why a file for passing on cannot be made of a model, and what to do; empty
    if it can.
    """
    card = model.card
    if not card.trained_on or model.training is None:
        return "this model was imported: pass on the file that it was imported from."
    if card.finding == "mean_difference":
        return (
            "the study has one index along the mean difference, and only patterns of method trajectories can be "
            "published: keep the model to yourself. What can be passed on is patterns.tsv and effects.tsv, which "
            "describe groups."
        )
    if not list_trajectory_heads(model):
        name = "another method" if card.method is None else f"method {card.method.name}"
        return f"models of {name} cannot be published: fit again with method trajectories, or keep the file to yourself."
    return ""


def make_reference_correlation(
    reference: NormalReference, regions: Sequence[str]
) -> FloatArray:
    """Return the correlations (R, R) of a reference population, shrunk as members
    shrink them.
    """
    return np.asarray(
        (1.0 - REFERENCE_SHRINKAGE) * reference.select(regions)
        + REFERENCE_SHRINKAGE * np.eye(len(regions))
    )


def round_to(values: FloatArray, step: float | FloatArray) -> FloatArray:
    """Return multiples of a step."""
    return np.asarray(np.round(values / step) * step)


def _coarsen_sd(sd: FloatArray) -> FloatArray:
    """Return standard deviations (R,), rounded on a logarithmic scale."""
    log_sd = np.log(sd)
    centre = round_to(log_sd.mean(), _SMALL_STEP)
    return np.asarray(np.exp(centre + round_to(log_sd - centre, _LOG_SD_STEP)))


def _join_heads(
    model: FittedModel, steps: FloatArray, precision: FloatArray
) -> TrajectoryHead:
    """Return one head with the rounded mean of the members' transform, correlation and
    interaction, given steps (M, K, R) and precision (R, R).
    """
    heads, n_regions = list_trajectory_heads(model), steps.shape[2]
    log_constant, shift_mean, shift_scale = (
        np.round(np.mean([getattr(head, name) for head in heads]), 2)
        for name in ("log_constant", "shift_mean", "shift_scale")
    )
    correlation = np.mean(
        [
            head.correlation[np.ix_(order, order)]
            for head, order in zip(heads, model.orders, strict=True)
        ],
        axis=0,
    )
    arrays = {
        "control_mean": np.full(n_regions, CONTROL_MEAN),
        "control_scale": np.full(n_regions, CONTROL_SD),
        "log_constant": log_constant,
        "shift_mean": np.full(n_regions, shift_mean),
        "shift_scale": np.full(n_regions, shift_scale),
        "weights": precision @ steps.reshape(-1, n_regions).T,
        "steps": steps,
        "correlation": _make_definite(round_to(correlation, _SMALL_STEP)),
        "precision": precision,
    }
    interaction = average_interaction(model)
    if interaction is None:
        return TrajectoryHead(**arrays)
    return InteractingHead(**arrays, interaction=round_to(interaction, _SMALL_STEP))


def coarsen_model(
    model: FittedModel, reference: FloatArray | None = None
) -> FittedModel:
    """Return a model of one member with rounded numbers, without intervals and
    distances of training people.

    Parameters
    ----------
    reference : ndarray of shape (R, R) or None
        Correlations to store in place of those of the study.
    """
    if reason := explain_unpublishable(model):
        raise ModelError(reason)
    assert model.training is not None
    heads = list_trajectory_heads(model)
    sd = _coarsen_sd(model.preprocessing.standardiser.sd)
    unit = model.preprocessing.standardiser.sd / sd
    members = list(zip(heads, model.orders, strict=True))
    steps = _coarsen_steps(
        np.mean([head.steps[list(order)] * unit for head, order in members], axis=0)
    )
    noise = np.mean([np.linalg.inv(head.precision) for head in heads], axis=0)
    patterns = steps.sum(axis=1).T
    variation, precision = _coarsen_noise(
        noise * np.outer(unit, unit), patterns, model, reference
    )
    head = _join_heads(model, steps, precision)
    return replace(
        model,
        preprocessing=_coarsen_preprocessing(
            model.preprocessing, sd, patterns, precision @ patterns
        ),
        heads=(head,),
        orders=(tuple(range(model.n_patterns)),),
        patterns=head.compute_curves(np.array(SEVERITY_LEVELS)),
        patterns_se=None,
        training=_describe_training(model, head, variation),
        card=_coarsen_card(model.card),
        intervals=None,
        pipelines=(),
        indices=None,
        visit_indices=None,
    )


def _coarsen_steps(steps: FloatArray) -> FloatArray:
    """Return steps (M, K, R) with a rounded change at full severity.

    Regions follow the common course of their pattern, unless they change much and
    clearly earlier or later.
    """
    total = steps.sum(axis=1)
    course = (
        np.einsum("mkr,mr->mk", steps, total) / np.square(total).sum(axis=1)[:, None]
    )
    course = np.maximum(round_to(course, _SMALL_STEP / 2), 0.0)
    course = np.cumsum(course / course.sum(axis=1, keepdims=True), axis=1)[:, :, None]
    step = np.minimum(
        _CHANGE_STEP, np.abs(total).max(axis=1, keepdims=True) / 2
    )  # no pattern is rounded to nothing
    is_large = np.abs(total) > 2 * step
    share = np.cumsum(steps, axis=1) / np.where(is_large, total, np.inf)[:, None]
    course = course + np.where(
        is_large[:, None], round_to(share - course, _COURSE_STEP), 0.0
    )
    return np.diff(course * round_to(total, step)[:, None], axis=1, prepend=0.0)


def _coarsen_noise(
    noise: FloatArray,
    patterns: FloatArray,
    model: FittedModel,
    reference: FloatArray | None,
) -> tuple[FloatArray, FloatArray]:
    """Return correlations (R, R) of normal variation, and a precision (R, R) by which
    patterns get their weights.

    Parameters
    ----------
    noise : ndarray of shape (R, R)
        Covariance of the members.
    patterns : ndarray of shape (R, M)
        Few rounded factors, and the pairs of regions that they leave correlated,
        tell how regions vary together. The weights of R-indices need more: they are
        those of more factors, rounded, and the precision is changed as little as
        gives them (a secant update, as of BFGS).
    """
    if reference is not None:
        return reference, np.asarray(np.linalg.inv(reference))
    sd, n_people = np.sqrt(np.diag(noise)), model.card.trained_on["people"]
    correlation = noise / np.outer(sd, sd)
    loadings = round_to(
        _extract_factors(correlation, round(np.sqrt(n_people) / 7)), _LOADING_STEP
    )
    variation = _join_factors(loadings)
    rest = correlation - variation - np.diag(np.diag(correlation - variation))
    variation = _make_definite(
        variation
        + np.where(np.abs(rest) > _RESIDUAL_LIMIT, np.sign(rest) * _RESIDUAL, 0.0)
    )
    loadings = _extract_factors(correlation, n_people // _PEOPLE_PER_WEIGHT_FACTOR)
    smooth = _join_factors(loadings) * np.outer(sd, sd)
    weights = np.linalg.solve(smooth, patterns)
    size = np.exp(round_to(0.5 * np.log(np.square(weights).mean(axis=0)), _SMALL_STEP))
    weights = round_to(weights / size, _WEIGHT_STEP) * size
    gram = patterns.T @ weights
    weights += patterns @ np.linalg.solve(patterns.T @ patterns, (gram.T - gram) / 2)
    gram = patterns.T @ weights
    if np.linalg.eigvalsh(gram).min() <= 0:  # of patterns that are nearly the same
        return variation, np.asarray(np.linalg.inv(variation))
    rest = np.eye(len(noise)) - weights @ np.linalg.solve(gram, patterns.T)
    precision = (
        weights @ np.linalg.solve(gram, weights.T)
        + rest @ np.linalg.inv(variation) @ rest.T
    )
    return variation, np.asarray((precision + precision.T) / 2)


def _extract_factors(correlation: FloatArray, number: int) -> FloatArray:
    """Return the loadings (R, number) of principal factors of correlations (R, R), at
    least two where there can be.
    """
    number = max(1, min(max(2, number), len(correlation) - 1))
    unique, loadings = (
        1.0 / np.diag(np.linalg.inv(correlation)),
        np.zeros((len(correlation), number)),
    )
    for _ in range(_N_ITERATIONS):
        values, vectors = np.linalg.eigh(correlation - np.diag(unique))
        loadings = vectors[:, -number:] * np.sqrt(np.maximum(values[-number:], 0.0))
        unique = np.clip(1.0 - np.square(loadings).sum(axis=1), 0.05, 1.0)
    return loadings


def _join_factors(loadings: FloatArray) -> FloatArray:
    """Return the correlations (R, R) of factors and variances of single regions."""
    communality = np.square(loadings).sum(axis=1)
    scaled = (
        loadings
        * np.sqrt(_MAX_COMMUNALITY / np.maximum(communality, _MAX_COMMUNALITY))[:, None]
    )
    correlation = scaled @ scaled.T
    np.fill_diagonal(correlation, 1.0)
    return np.asarray(correlation)


def _make_definite(correlation: FloatArray) -> FloatArray:
    """Return correlations (R, R) whose eigenvalues were bounded below."""
    values, vectors = np.linalg.eigh(correlation)
    bounded = (vectors * np.maximum(values, _MIN_EIGENVALUE)) @ vectors.T
    sd = np.sqrt(np.diag(bounded))
    return np.asarray(bounded / np.outer(sd, sd))


class _PatternRounding:
    """Rounds rows (N, R) so that their errors hardly move R-indices.

    For patterns P (R, M) and weights W (R, M), rounding errors E (N, R) move R-indices
    by E W. Adding r (P' W)^-1 P' to the rounded rows moves them back by r, which is E W
    in steps of the noise of each R-index.
    """

    def __init__(self, patterns: FloatArray, weights: FloatArray) -> None:
        self._patterns, self._weights = patterns, weights
        self._gram = patterns.T @ weights
        self._size = np.sqrt(np.diag(self._gram))

    def __call__(
        self, rows: FloatArray, step: float, middle: FloatArray | float = 0.0
    ) -> FloatArray:
        """Return rows (N, R) in steps from ``middle``, corrected along the patterns."""
        size, rounded = self._size, middle + round_to(rows - middle, step)
        error = round_to((rows - rounded) @ self._weights / size, _SMALL_STEP) * size
        back = np.linalg.solve(self._gram.T, error.T).T @ self._patterns.T
        return np.asarray(rounded + back)


def _coarsen_preprocessing(
    preprocessing: Preprocessing,
    sd: FloatArray,
    patterns: FloatArray,
    weights: FloatArray,
) -> Preprocessing:
    """Return a pipeline with rounded numbers; along the weights (R, M), the error of
    rounding is put back.
    """
    residualiser, harmoniser = preprocessing.residualiser, preprocessing.harmoniser
    coarsen = _PatternRounding(patterns, weights)
    covariance = residualiser.covariance
    assert covariance is not None
    spread = np.sqrt(np.diag(covariance))
    spread = np.exp(round_to(np.log(np.where(spread > 0, spread, 1.0)), _SMALL_STEP))
    centre = round_to(residualiser.centre / spread, _SMALL_STEP) * spread
    effects = residualiser.coefficients * spread[:, None] / sd
    common = round_to(np.median(effects, axis=1, keepdims=True), _SMALL_STEP)
    mean = (
        preprocessing.standardiser.mean
        + (centre - residualiser.centre) @ residualiser.coefficients
    ) / sd
    outer = np.outer(spread, spread)
    if len(outer):
        covariance = _make_definite(round_to(covariance / outer, _SMALL_STEP)) * outer
    if harmoniser is not None:
        site_effects = common + round_to(
            harmoniser.coefficients * spread[:, None] / sd - common, _EFFECT_STEP
        )
        harmoniser = replace(
            harmoniser,
            mean=round_to(harmoniser.mean / sd, _MEAN_STEP) * sd,
            centre=centre,
            coefficients=site_effects * sd / spread[:, None],
            sd=sd,
            shift=coarsen(harmoniser.shift * (harmoniser.sd / sd), _MEAN_STEP),
            scale=np.exp(round_to(np.log(harmoniser.scale), _LOG_SD_STEP)),
        )
    return replace(
        preprocessing,
        residualiser=replace(
            residualiser,
            centre=centre,
            coefficients=coarsen(effects, _EFFECT_STEP, common) * sd / spread[:, None],
            covariance=covariance,
        ),
        standardiser=replace(
            preprocessing.standardiser,
            mean=coarsen(mean[None], _MEAN_STEP)[0] * sd,
            sd=sd,
        ),
        harmoniser=harmoniser,
    )


def _describe_training(
    model: FittedModel, head: TrajectoryHead, variation: FloatArray
) -> TrainingDistribution:
    """Return the distribution of the training people that follows from patterns and
    normal variation (R, R).
    """
    trained_on = model.card.trained_on
    share = trained_on["patients"] / trained_on["people"]
    density, basis = np.exp(compute_log_copula(head.correlation)), head.posterior.basis
    change = basis @ head.steps.reshape(basis.shape[1], -1)
    mean = share * np.average(change, axis=0, weights=density)
    second = share * (change.T * (density / density.sum())) @ change
    rounding = (
        _MEAN_STEP**2 / 12 * np.eye(len(variation))
    )  # variance of the error of the mean
    covariance = variation + rounding + second - np.outer(mean, mean)
    limit = np.ones(()) if model.training is None else model.training.limit
    return TrainingDistribution(
        mean=CONTROL_MEAN + CONTROL_SD * mean,
        covariance=CONTROL_SD**2 * covariance,
        limit=limit,
    )


def _coarsen_card(card: ModelCard) -> ModelCard:
    """Return a card without the fingerprint of the people, whose numbers have three
    digits.
    """

    def coarsen(value: object) -> object:
        if isinstance(value, dict):
            return {name: coarsen(item) for name, item in value.items()}
        if isinstance(value, list):
            return [coarsen(item) for item in value]
        return float(f"{value:.3g}") if isinstance(value, float) else value

    quantiles = {
        group: tuple(tuple(round(200 * value) / 200 for value in row) for row in rows)
        for group, rows in card.index_quantiles.items()
    }
    evidence = tuple(
        record.model_copy(update={"regions": ()}) for record in card.pattern_evidence
    )  # the patterns are in the file
    card = card.model_copy(
        update={
            "fingerprint": "",
            "interval_over": "",
            "index_quantiles": quantiles,
            "pattern_evidence": evidence,
        }
    )
    content = coarsen(card.to_dict())
    assert isinstance(content, dict)
    return ModelCard.from_dict(content)


def _calibrate(
    published: FittedModel, members: FloatArray, intervals: CalibratedIntervals
) -> CalibratedIntervals:
    """Return intervals from people as a published model describes them, widened by the
    spread of members (S, N, M).
    """
    (head,), training = published.heads, published.training
    assert isinstance(head, TrajectoryHead)
    assert training is not None
    rng = np.random.default_rng(0)
    root = np.linalg.cholesky(np.linalg.inv(head.precision))
    noise = rng.standard_normal((2, _N_SIMULATED, len(root))) @ root.T
    density = np.exp(compute_log_copula(head.correlation))
    points = rng.choice(len(density), _N_SIMULATED, p=density / density.sum())
    change = head.posterior.basis[points] @ head.steps.reshape(
        head.weights.shape[1], -1
    )
    inferred = head.finish((noise[1] + change) @ head.weights)
    own = MemberControls(
        head, published.orders[0], CONTROL_MEAN + CONTROL_SD * noise[0]
    )
    interaction = head.get_interaction()
    calibrated = calibrate_intervals(
        [own], published.patterns, inferred, 1.0, 0, interaction
    )
    widening = np.sqrt(
        1.0 + intervals.members * members.var(axis=0).mean(axis=0) / intervals.error**2
    )[:, None]
    low, high = (
        calibrated.middle + np.round(widening, 1) * (ends - calibrated.middle)
        for ends in (calibrated.low, calibrated.high)
    )
    return replace(
        calibrated,
        low=low,
        high=high,
        error=calibrated.error * np.round(widening, 1)[:, 0],
    )


def _complete(model: FittedModel, cohort: Cohort) -> FloatArray:
    """Return people (N, R) as a model prepares them, with missing cells filled."""
    return complete_people(
        model.preprocessing.transform(cohort), np.zeros(len(cohort), dtype=np.intp)
    )


def compute_people_likelihood(model: FittedModel, cohort: Cohort) -> FloatArray:
    """Return the log-likelihood (N,) of controls and patients under a published model,
    up to a common constant.
    """
    (head,) = model.heads
    assert isinstance(head, TrajectoryHead)
    values = _complete(model, cohort)
    root = np.linalg.cholesky(np.linalg.inv(head.precision))
    white = solve_triangular(root, head.prepare(values).T, lower=True)
    likelihood = -0.5 * np.square(white).sum(axis=0) - np.log(np.diag(root)).sum()
    likelihood[cohort.is_patient] = compute_head_likelihood(
        head, values[cohort.is_patient]
    )
    return np.asarray(
        likelihood
        - np.log(model.preprocessing.standardiser.sd * head.shift_scale).sum()
    )


def estimate_membership(likelihoods: FloatArray, seen: BoolArray) -> MembershipRecord:
    """Estimate how well a file tells who took part, from files of four fifths of the
    people.

    Parameters
    ----------
    likelihoods : ndarray of shape (S, N)
        Of people under the file of each member.
    seen : ndarray of shape (S, N)
        Who is in each file. Two files that both have a person differ by chance. A
        file that has the person and one that has not differ by more.
    """
    with_person, without_person = list[FloatArray](), list[FloatArray]()
    for first, second in permutations(range(len(seen)), 2):
        differences = likelihoods[first] - likelihoods[second]
        with_person.append(differences[seen[first] & ~seen[second]])
        without_person.append(differences[seen[first] & seen[second]])
    inside, outside = np.concatenate(with_person), np.concatenate(without_person)
    auc = mannwhitneyu(inside, outside).statistic / (len(inside) * len(outside))
    separation = (
        ATTACK_STRENGTH
        * NormalDist().inv_cdf(float(np.clip(auc, 0.5, 1 - 1e-9)))
        / np.sqrt(_PEOPLE_RATIO)
    )
    return MembershipRecord(auc=round(NormalDist().cdf(float(separation)), 2))
