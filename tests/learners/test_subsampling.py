"""Subsamples and halves of controls and patients."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rindices.learners.subsampling import draw_subsample, split_into_halves


@given(st.integers(4, 60), st.integers(4, 60), st.floats(0.3, 1.0), st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_subsamples_and_halves_are_disjoint_and_stratified(controls, patients, share, seed):
    y = np.random.default_rng(seed).permutation(np.repeat([0, 1], [controls, patients]))
    subsample = draw_subsample(y, share, np.random.default_rng(seed))
    assert sorted([*subsample.seen, *subsample.unseen]) == list(range(len(y)))
    if share < 1:
        for label, number in enumerate((controls, patients)):
            assert (y[subsample.seen] == label).sum() == max(2, round(share * number))
    first, second = split_into_halves(y, np.random.default_rng(seed))
    assert not set(first.seen) & set(second.seen)
    assert len(first.seen) == len(second.seen) == controls // 2 + patients // 2
    assert list(first.unseen) == list(second.seen)
