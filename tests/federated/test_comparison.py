"""Agreement from correlations is close to that of people."""

import numpy as np
import pytest

from rindices.federated.comparison import IndexMoments
from rindices.selection.agreement import agreement, average_agreement
from rindices.selection.choose import align_agreeing_members


def make_indices() -> list[np.ndarray]:
    """Return three members; the second has its columns exchanged."""
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(4000, 2))
    members = [truth + 0.4 * rng.normal(size=truth.shape) for _ in range(3)]
    members[1] = members[1][:, ::-1]
    return members


def test_agreement_is_close_to_that_of_people() -> None:
    members = make_indices()
    columns = np.concatenate(members, axis=1)
    moments = IndexMoments.from_sums(columns.sum(axis=0), columns.T @ columns, len(columns), 2)
    own, other = moments.compare(0, 1), agreement(members[0], members[1])
    np.testing.assert_array_equal(own.matching, other.matching)
    assert own.concordance == pytest.approx(other.concordance, abs=0.01)
    assert own.dimension == pytest.approx(other.dimension, abs=1e-9)
    assert own.difference == pytest.approx(other.difference, abs=1e-9)
    among = average_agreement(3, moments.compare)
    consensus = align_agreeing_members(among.per_member, lambda best, k: moments.compare(best, k).matching)
    assert consensus.agreeing == (0, 1, 2)
    aligned = [members[k][:, order] for k, order in zip(consensus.agreeing, consensus.orders, strict=True)]
    assert np.corrcoef(aligned[0][:, 0], aligned[1][:, 0])[0, 1] > 0.8
