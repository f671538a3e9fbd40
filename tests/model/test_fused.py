"""One product for all members, against the preparation and projection of each."""

from dataclasses import replace

import numpy as np
import pytest

import rindices as ri
from rindices.learners.outlying_measurements import (
    _CANDIDATE_LIMIT,
    CellScreen,
    _compute_wrapped_residuals,
)
from rindices.model.consensus import ConsensusInference, ConsensusResult
from rindices.model.fused import FusedMembers
from rindices.tables.cohort import Cohort
from tests.cohorts import fit_tiny_model, simulate_few_regions

TOLERANCE = 1e-12


@pytest.fixture(scope="module", params=["staged", "proportional", "contrastive"])
def model(request: pytest.FixtureRequest) -> ri.FittedModel:
    if request.param == "contrastive":
        return fit_tiny_model(2)
    cohort, shape = simulate_few_regions("tiny", seed=0).cohort, request.param
    return ri.fit(cohort, 2, members=5, seed=0, method_settings={"shape": shape})


def draw_new_people(seed: int = 1) -> Cohort:
    """Return new people with the regions of the model."""
    regions = list(simulate_few_regions("tiny", seed=0).cohort.regions)
    people = ri.simulate_cohort("tiny", seed=seed, new_people=True).cohort
    return replace(people, volumes=people.volumes[regions])


def compute_both(
    model: ri.FittedModel, values: np.ndarray | None = None
) -> tuple[ConsensusResult, ConsensusResult]:
    """Return the result of new people by one product, and member by member."""
    people = draw_new_people()
    inputs = model.preprocessing.inputs(people)
    if values is not None:
        inputs[0] = values
    by_member = ConsensusInference(model)
    by_member.__dict__["_fused"] = None
    return (
        ConsensusInference(model).compute_indices(inputs),
        by_member.compute_indices(inputs),
    )


def test_one_product_gives_the_numbers_of_each_member(model: ri.FittedModel) -> None:
    assert FusedMembers.build(model) is not None
    fused, single = compute_both(model)
    for name in ("indices", "variance", "distances"):
        np.testing.assert_allclose(
            getattr(fused, name), getattr(single, name), rtol=0, atol=TOLERANCE
        )
    assert fused.added is single.added is None
    # the others are searched as before
    assert single.is_suspect.all()
    assert not fused.is_suspect.all()


def test_people_far_from_all_others_have_the_same_numbers(
    model: ri.FittedModel,
) -> None:
    people = draw_new_people()
    volumes = model.preprocessing.inputs(people)[0].copy()
    volumes[0] *= 3.0
    volumes[1] *= 0.2
    volumes[2, 4] *= 6.0
    fused, single = compute_both(model, volumes)
    for name in ("indices", "distances"):
        np.testing.assert_allclose(
            getattr(fused, name), getattr(single, name), rtol=TOLERANCE, atol=TOLERANCE
        )


def test_an_adjustment_on_the_scale_of_volumes_is_affine_as_well() -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    model = ri.fit(
        cohort, 2, members=5, seed=0, adjust="linear", method="contrastive", workers=1
    )
    heads = [replace(head, log_constant=np.array(0.0)) for head in model.heads]
    model = replace(model, heads=tuple(heads))
    assert FusedMembers.build(model) is not None
    fused, single = compute_both(model)
    np.testing.assert_allclose(fused.indices, single.indices, rtol=0, atol=TOLERANCE)
    np.testing.assert_allclose(fused.distances, single.distances, rtol=TOLERANCE)


def test_a_log_transform_has_no_such_product(model: ri.FittedModel) -> None:
    curved = replace(model.heads[0], log_constant=np.array(0.1))
    assert FusedMembers.build(replace(model, heads=(curved, *model.heads[1:]))) is None


def test_steps_of_a_proportional_pattern_are_computed_once(
    model: ri.FittedModel,
) -> None:
    fused = FusedMembers.build(model)
    assert fused is not None
    if model.heads[0].kind == "contrastive":
        return
    n_numbers = len(fused.weights) - len(model.regions)
    ranks = {
        np.linalg.matrix_rank(steps) for head in model.heads for steps in head.steps
    }
    steps = 1 if ranks == {1} else model.heads[0].steps.shape[1]
    assert n_numbers == len(model.heads) * model.n_patterns * steps


@pytest.mark.parametrize("strength", [0.2, 2.0])
def test_nobody_with_a_candidate_is_cleared(strength: float) -> None:
    rng = np.random.default_rng(0)
    root = rng.normal(size=(30, 30)) * strength + 2.0 * np.eye(30)
    covariance = root @ root.T
    people = rng.normal(size=(5_000, 30)) @ root.T
    wrong = rng.random(people.shape) < 0.003
    people[wrong] *= rng.choice([-60.0, 3.0, 10.0, 60.0], size=wrong.sum())
    sd, precision = np.sqrt(np.diag(covariance)), np.linalg.inv(covariance)
    screen = CellScreen.build(sd, precision, 1.1)
    regions = (people / screen.unit).T
    is_suspect = screen.find_suspects(regions, screen.partial @ regions)
    residuals = _compute_wrapped_residuals(
        np.clip(people / sd, -50.0, 50.0), precision * np.outer(sd, sd)
    )
    has_candidate = (np.abs(residuals) > 1.1 * _CANDIDATE_LIMIT).any(axis=1)
    assert has_candidate.sum() > 100
    assert is_suspect[has_candidate].all()
    assert (~is_suspect).sum() > 500


def test_people_who_are_cleared_have_the_results_of_a_full_search(
    model: ri.FittedModel,
) -> None:
    simulated = draw_new_people(2)
    volumes = simulated.volumes.copy()
    volumes.iloc[3, 5] *= 2.5
    volumes.iloc[8, 11] *= 0.3
    cohort = replace(simulated, volumes=volumes)
    searched = replace(model)
    searched.__dict__["_consensus"] = ConsensusInference(searched)
    searched.__dict__["_consensus"].__dict__["_fused"] = None
    (fast, slow) = (each.assess(cohort) for each in (model, searched))
    assert [str(each) for each in fast.problems] == [
        str(each) for each in slow.problems
    ]
    numbers = [name for name in fast.table if fast.table[name].dtype.kind == "f"]
    np.testing.assert_allclose(
        fast.table[numbers], slow.table[numbers], rtol=0, atol=TOLERANCE
    )
