"""Subsamples and halves of controls and patients."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.learners.prepared_people import (
    N_FOLDS,
    PreparedPeople,
    deal_folds,
    draw_subsample,
    find_seen_people,
    hash_people,
    round_members,
    split_by_folds,
)


@given(st.integers(4, 60), st.integers(4, 60), st.floats(0.3, 1.0), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_subsamples_are_disjoint_and_stratified(controls, patients, share, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([0, 1], [controls, patients]))
    subsample = draw_subsample(y, share, np.random.default_rng(seed))
    assert sorted([*subsample.seen, *subsample.unseen]) == list(range(len(y)))
    if share < 1:
        for label, number in enumerate((controls, patients)):
            assert (y[subsample.seen] == label).sum() == max(2, round(share * number))


@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_everyone_is_unseen_by_one_member_of_each_set(controls, patients, seed):
    rng = np.random.default_rng(seed)
    values, y = (
        rng.normal(size=(controls + patients, 3)),
        np.repeat([0, 1], [controls, patients]),
    )
    strata = list(zip(y.tolist(), rng.choice(["a", "b"], len(y)).tolist(), strict=True))
    seen = find_seen_people(values, strata, range(2 * N_FOLDS), seed)
    assert (
        (~seen[:N_FOLDS]).sum(axis=0).tolist()
        == (~seen[N_FOLDS:]).sum(axis=0).tolist()
        == [1] * len(y)
    )
    for stratum in set(strata):
        sizes = [
            sum(not s for s, each in zip(row, strata, strict=True) if each == stratum)
            for row in seen[:N_FOLDS]
        ]
        assert max(sizes) - min(sizes) <= 1


def test_halves_are_folds_that_have_nobody_in_common():
    rng = np.random.default_rng(0)
    people = PreparedPeople(X=rng.normal(size=(60, 3)), y=np.repeat([0, 1], 30))
    dealt = people.deal_to_members(range(N_FOLDS), 0)
    for own, split in zip(dealt, split_by_folds(dealt), strict=True):
        assert split is not None
        first, second = (set(half.seen.tolist()) for half in split)
        assert first | second == set(range(60))
        assert (len(first), len(second)) == (36, 24)
        assert set(own.subsample.unseen.tolist()) < first
    assert split_by_folds(dealt[:3]) == [None] * 3


def test_folds_depend_on_values_alone():
    rng = np.random.default_rng(0)
    values, y = np.exp(rng.normal(0, 3, (50, 4))), np.repeat([0, 1], 25)
    shuffled = rng.permutation(50)
    folds = deal_folds(hash_people(values, 0, 1), y.tolist())
    again = deal_folds(
        hash_people(values[shuffled][:, ::-1], 0, 1), y[shuffled].tolist()
    )
    np.testing.assert_array_equal(again, folds[shuffled])
    assert (folds != deal_folds(hash_people(values, 1, 1), y.tolist())).any()


def test_members_are_whole_sets_of_folds():
    assert [round_members(number) for number in (1, 5, 6, 10)] == [5, 5, 10, 10]
