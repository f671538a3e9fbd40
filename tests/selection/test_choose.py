"""Selection by agreement: ranking, ties, unstable settings and the aligned
consensus.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rindices.errors import InputError
from rindices.selection.agreement import IndexRows, pattern_c_index
from rindices.selection.choose import (
    MIN_STABLE_CONCORDANCE,
    Candidate,
    GridPoint,
    choose_grid_point,
)

N = 300


def simulate_members(
    noise: float,
    n_members: int = 8,
    n_patterns: int = 3,
    seed: int = 0,
    n_random: int = 0,
) -> np.ndarray:
    """Return noisy copies of one truth with columns in random order, and ``n_random``
    members of pure noise.
    """
    rng = np.random.default_rng(seed)
    truth = np.random.default_rng(99).uniform(size=(N, n_patterns))
    informed = [
        truth + noise * rng.normal(size=truth.shape)
        for _ in range(n_members - n_random)
    ]
    random = [rng.uniform(size=truth.shape) for _ in range(n_random)]
    return np.stack([r[:, rng.permutation(n_patterns)] for r in informed + random])


def make_candidate(
    indices: np.ndarray,
    lam: float = 0.2,
    trained: int | None = None,
    evidence: np.ndarray | None = None,
) -> Candidate:
    point = GridPoint(indices.shape[2], lam)
    return Candidate(
        point=point,
        indices=IndexRows(indices),
        numbers=tuple(range(len(indices))),
        trained=trained or len(indices),
        evidence=evidence,
    )


def test_the_point_with_the_highest_agreement_is_chosen() -> None:
    choice = choose_grid_point(
        [
            make_candidate(simulate_members(0.5)),
            make_candidate(simulate_members(0.1), 0.4),
            make_candidate(simulate_members(0.3), 0.6),
        ]
    )
    assert choice.best == 1
    assert choice.ties == ()
    concordances = [evaluation.concordance for evaluation in choice.evaluations]
    assert concordances[1] > concordances[2] > concordances[0]
    for evaluation in choice.evaluations:
        assert (
            evaluation.interval[0]
            < evaluation.concordance
            < evaluation.interval[1] + 0.02
        )


def test_the_largest_number_on_which_members_agree_almost_as_well_is_chosen() -> None:
    """With a margin: two patterns agree best, three a little less, four clearly less;
    of three, the better lambda.
    """
    candidates = [
        make_candidate(simulate_members(0.10, n_patterns=2)),
        make_candidate(simulate_members(0.12, n_patterns=3), 0.4),
        make_candidate(simulate_members(0.11, n_patterns=3), 0.6),
        make_candidate(simulate_members(0.40, n_patterns=4), 0.6),
    ]
    choice = choose_grid_point(candidates)
    concordances = [each.concordance for each in choice.evaluations]
    assert choice.best == 0
    assert concordances[0] - 0.05 < concordances[1] < concordances[2] < concordances[0]
    assert concordances[3] < concordances[0] - 0.05
    assert choose_grid_point(candidates, number_margin=0.05).best == 2


def test_a_tie_is_reported() -> None:
    choice = choose_grid_point(
        [
            make_candidate(simulate_members(0.2, seed=1)),
            make_candidate(simulate_members(0.2, seed=2), 0.4),
            make_candidate(simulate_members(0.8)),
        ]
    )
    assert choice.best in (0, 1)
    assert choice.ties == (1 - choice.best,)


def test_members_that_differ_are_left_out_of_the_consensus() -> None:
    indices = simulate_members(0.1, n_members=9, n_random=1)
    choice = choose_grid_point([make_candidate(indices)])
    assert choice.agreeing == tuple(range(8))
    assert choice.member in choice.agreeing
    truth = np.random.default_rng(99).uniform(size=(N, 3))
    aligned = [
        indices[member][:, order]
        for member, order in zip(choice.agreeing, choice.orders, strict=True)
    ]
    consensus = np.mean(aligned, axis=0)
    alone = [pattern_c_index(truth, r).mean for r in indices]
    assert pattern_c_index(truth, consensus).mean > max(alone)


def test_orders_align_columns_with_the_chosen_member() -> None:
    indices = simulate_members(0.05)
    choice = choose_grid_point([make_candidate(indices)])
    for member, order in zip(choice.agreeing, choice.orders, strict=True):
        correlation = np.corrcoef(
            indices[choice.member].T, indices[member][:, order].T
        )[:3, 3:]
        assert np.diag(correlation).min() > 0.9


def test_unstable_settings_are_reported_with_a_reason() -> None:
    random = make_candidate(simulate_members(0.1, n_random=8))
    few = make_candidate(simulate_members(0.1, n_members=3), trained=10)
    one = make_candidate(simulate_members(0.1, n_members=1), trained=10)
    choice = choose_grid_point([random, few, one])
    assert choice.best is None
    reasons = [evaluation.why for evaluation in choice.evaluations]
    assert "do not agree" in reasons[0]
    assert "only 3 of 10" in reasons[1]
    assert "1 of 10" in reasons[2]
    assert choose_grid_point([random, make_candidate(simulate_members(0.3))]).best == 1


def test_diffuse_patterns_that_guess_are_not_stable() -> None:
    agreeing = make_candidate(simulate_members(0.1))
    assert choose_grid_point([agreeing]).best == 0
    choice = choose_grid_point([replace(agreeing, is_diffuse=True, is_guessing=True)])
    assert choice.best is None
    assert "no better than by guessing" in choice.evaluations[0].why


def test_one_pattern() -> None:
    choice = choose_grid_point(
        [
            make_candidate(simulate_members(0.2, n_patterns=1)),
            make_candidate(simulate_members(0.1, n_patterns=1), 0.4),
        ]
    )
    assert choice.best == 1
    assert all((order == 0).all() for order in choice.orders)


def test_a_single_member_is_chosen_with_a_note() -> None:
    choice = choose_grid_point([make_candidate(simulate_members(0.2, n_members=1))])
    assert choice.best == 0
    assert choice.agreeing == (0,)
    assert "single member" in choice.evaluations[0].why


def test_unrelated_members_are_below_the_threshold() -> None:
    """The threshold is far above what the best matching reaches by chance, for any
    number of patterns.
    """
    for n_patterns in (1, 6):
        choice = choose_grid_point(
            [make_candidate(simulate_members(0.1, n_patterns=n_patterns, n_random=8))]
        )
        assert choice.evaluations[0].concordance < 0.6


def test_the_same_seed_gives_the_same_intervals() -> None:
    points = [
        make_candidate(simulate_members(0.3)),
        make_candidate(simulate_members(0.2), 0.4),
    ]
    one, two = choose_grid_point(points, seed=3), choose_grid_point(points, seed=3)
    assert [j.interval for j in one.evaluations] == [
        j.interval for j in two.evaluations
    ]


def test_the_interval_equals_a_bootstrap_over_members() -> None:
    """Compare with a loop that draws members with replacement and averages over pairs
    of different members.
    """
    indices = simulate_members(0.4, n_random=2)
    evaluation = choose_grid_point([make_candidate(indices)]).evaluations[0]
    assert evaluation.agreement is not None
    rng = np.random.default_rng(0)
    means = []
    for _ in range(4000):
        drawn = rng.integers(8, size=8)
        means.append(
            np.mean(
                [
                    evaluation.agreement.pairwise[i, j]
                    for i in drawn
                    for j in drawn
                    if i != j
                ]
            )
        )
    assert evaluation.interval == pytest.approx(
        np.quantile(means, [0.025, 0.975]), abs=0.01
    )
    assert evaluation.between == "members"


def test_agreement_of_disjoint_halves_decides_if_given() -> None:
    evidence = np.random.default_rng(0).uniform(0.5, 0.9, size=(12, 3))
    evaluation = choose_grid_point(
        [make_candidate(simulate_members(0.1, n_members=12), evidence=evidence)]
    ).evaluations[0]
    assert evaluation.between == "disjoint halves"
    assert evaluation.agreement is not None
    assert evaluation.agreement.numbers == pytest.approx(evidence.mean(axis=0))
    drawn = stats.bootstrap(
        (evidence[:, 0],), np.mean, method="percentile", random_state=0
    ).confidence_interval
    assert evaluation.interval == pytest.approx(tuple(drawn), abs=0.01)
    assert evaluation.stable == (evaluation.interval[0] >= MIN_STABLE_CONCORDANCE)


def test_a_point_with_few_members_is_tied_with_any_other() -> None:
    few, many = (
        make_candidate(simulate_members(0.1, n_members=3)),
        make_candidate(simulate_members(0.3), 0.4),
    )
    for points in ([few, many], [many, few]):
        choice = choose_grid_point(points)
        assert points[choice.best or 0] is few
        assert choice.ties == (1 - (choice.best or 0),)
        assert np.isnan(choice.evaluations[choice.best or 0].interval).all()


def test_no_grid_point_is_an_error() -> None:
    with pytest.raises(InputError, match="no grid point"):
        choose_grid_point([])
