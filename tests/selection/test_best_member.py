"""The model of the published method: the member that agrees best with the others."""

import numpy as np

from rindices.selection.agreement import IndexRows
from rindices.selection.choose import (
    Candidate,
    GridPoint,
    choose_grid_point,
    keep_best_member,
)


def test_the_best_member_alone_is_kept() -> None:
    rng = np.random.default_rng(0)
    truth = rng.uniform(size=(80, 2))
    noise = (0.3, 0.02, 0.3, 0.3)  # the second member is nearest to all others
    members = np.stack([truth + sd * rng.normal(size=truth.shape) for sd in noise])
    candidate = Candidate(
        point=GridPoint(2, 0.2),
        indices=IndexRows(members),
        numbers=(0, 1, 2, 3),
        trained=4,
    )
    choice = choose_grid_point([candidate], min_concordance=0.0)
    kept = keep_best_member(choice)
    assert kept.agreeing == (1,)
    np.testing.assert_array_equal(kept.orders, [[0, 1]])
    assert kept.evaluations == choice.evaluations
