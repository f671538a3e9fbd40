"""Selection: agreement ranks, ties are called ties, unstable settings are said to be, consensus is aligned."""

import numpy as np
import pytest
from scipy import stats

from rindices.errors import InputError
from rindices.selection.agreement import pattern_c_index
from rindices.selection.choose import MIN_STABLE_CONCORDANCE, Candidate, GridPoint, choose_grid_point, compute_consensus

N = 300


def members(noise: float, number: int = 8, patterns: int = 3, seed: int = 0, lost: int = 0) -> np.ndarray:
    """Members that see the same truth through noise, their columns in random order; ``lost`` ones see nothing."""
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(99).uniform(size=(N, patterns))
    seen = [truth + noise * rng.normal(size=truth.shape) for _ in range(number - lost)]
    blind = [rng.uniform(size=truth.shape) for _ in range(lost)]
    return np.stack([r[:, rng.permutation(patterns)] for r in seen + blind])


def candidate(
    indices: np.ndarray, lam: float = 0.2, trained: int | None = None, evidence: np.ndarray | None = None
) -> Candidate:
    point = GridPoint(indices.shape[2], lam)
    return Candidate(point, indices, tuple(range(len(indices))), trained or len(indices), evidence)


def test_the_point_with_more_agreement_wins() -> None:
    choice = choose_grid_point([candidate(members(0.5)), candidate(members(0.1), 0.4), candidate(members(0.3), 0.6)])
    assert choice.best == 1
    assert choice.ties == ()
    concordances = [judgement.concordance for judgement in choice.evaluations]
    assert concordances[1] > concordances[2] > concordances[0]
    for judgement in choice.evaluations:
        assert judgement.interval[0] < judgement.concordance < judgement.interval[1] + 0.02


def test_a_tie_is_called_a_tie() -> None:
    choice = choose_grid_point(
        [candidate(members(0.2, seed=1)), candidate(members(0.2, seed=2), 0.4), candidate(members(0.8))]
    )
    assert choice.best in (0, 1)
    assert choice.ties == (1 - choice.best,)


def test_members_that_differ_are_left_out_of_the_consensus() -> None:
    indices = members(0.1, number=9, lost=1)
    choice = choose_grid_point([candidate(indices)])
    assert choice.agreeing == tuple(range(8))
    assert choice.member in choice.agreeing
    truth = np.random.default_rng(99).uniform(size=(N, 3))
    found = compute_consensus(indices, choice.agreeing, choice.orders)
    alone = [pattern_c_index(truth, r).mean for r in indices]
    assert pattern_c_index(truth, found).mean > max(alone)


def test_orders_run_parallel_to_the_chosen_member() -> None:
    indices = members(0.05)
    choice = choose_grid_point([candidate(indices)])
    for place, order in zip(choice.agreeing, choice.orders, strict=True):
        correlation = np.corrcoef(indices[choice.member].T, indices[place][:, order].T)[:3, 3:]
        assert np.diag(correlation).min() > 0.9


def test_unstable_settings_are_said_to_be() -> None:
    blind = candidate(members(0.1, lost=8))
    few = candidate(members(0.1, number=3), trained=10)
    one = candidate(members(0.1, number=1), trained=10)
    choice = choose_grid_point([blind, few, one])
    assert choice.best is None
    whys = [judgement.why for judgement in choice.evaluations]
    assert "do not agree" in whys[0]
    assert "only 3 of 10" in whys[1]
    assert "1 of 10" in whys[2]
    assert choose_grid_point([blind, candidate(members(0.3))]).best == 1


def test_one_pattern() -> None:
    choice = choose_grid_point([candidate(members(0.2, patterns=1)), candidate(members(0.1, patterns=1), 0.4)])
    assert choice.best == 1
    assert all((order == 0).all() for order in choice.orders)


def test_a_single_member_is_taken_and_said() -> None:
    choice = choose_grid_point([candidate(members(0.2, number=1))])
    assert choice.best == 0
    assert choice.agreeing == (0,)
    assert "single member" in choice.evaluations[0].why


def test_unrelated_members_are_below_the_bar() -> None:
    """The bar is far above what the best matching gives to chance, for any number of patterns."""
    for patterns in (1, 2, 5, 10):
        choice = choose_grid_point([candidate(members(0.1, patterns=patterns, lost=8))])
        assert choice.evaluations[0].concordance < 0.6


def test_the_same_seed_gives_the_same_intervals() -> None:
    points = [candidate(members(0.3)), candidate(members(0.2), 0.4)]
    one, two = choose_grid_point(points, seed=3), choose_grid_point(points, seed=3)
    assert [j.interval for j in one.evaluations] == [j.interval for j in two.evaluations]


def test_the_interval_is_that_of_members_drawn_again() -> None:
    """A plain loop: draw members with replacement, take the mean over pairs of different ones."""
    indices = members(0.4, lost=2)
    judged = choose_grid_point([candidate(indices)]).evaluations[0]
    assert judged.agreement is not None
    rng = np.random.default_rng(0)
    means = []
    for _ in range(4000):
        drawn = rng.integers(8, size=8)
        means.append(np.mean([judged.agreement.pairwise[i, j] for i in drawn for j in drawn if i != j]))
    assert judged.interval == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.01)
    assert judged.between == "members"


def test_evidence_of_other_people_is_judged_by() -> None:
    evidence = np.random.default_rng(0).uniform(0.5, 0.9, size=(12, 3))
    judged = choose_grid_point([candidate(members(0.1, number=12), evidence=evidence)]).evaluations[0]
    assert judged.between == "disjoint halves"
    assert judged.agreement is not None
    assert judged.agreement[:3] == pytest.approx(evidence.mean(axis=0))
    drawn = stats.bootstrap((evidence[:, 0],), np.mean, method="percentile", random_state=0).confidence_interval
    assert judged.interval == pytest.approx(tuple(drawn), abs=0.01)
    assert judged.stable == (judged.interval[0] >= MIN_STABLE_CONCORDANCE)


def test_few_members_cannot_be_told_from_many() -> None:
    few, many = candidate(members(0.1, number=3)), candidate(members(0.3), 0.4)
    for points in ([few, many], [many, few]):
        choice = choose_grid_point(points)
        assert points[choice.best or 0] is few
        assert choice.ties == (1 - (choice.best or 0),)
        assert np.isnan(choice.evaluations[choice.best or 0].interval).all()


def test_nothing_to_choose_from() -> None:
    with pytest.raises(InputError, match="no grid point"):
        choose_grid_point([])
