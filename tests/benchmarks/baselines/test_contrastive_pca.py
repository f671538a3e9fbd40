"""Contrastive PCA: analytic results and the example of its paper."""

import numpy as np
import pytest

from benchmarks.suites.baselines.contrastive_pca import (
    ContrastivePCA,
    compute_contrastive_components,
    compute_subspace_affinity,
)
from tests.learners.helpers import make_hidden_subgroups


def correlate_subgroups(model, x, y, subgroups):
    """Return, for each pair of subgroups, the multiple correlation with all
    components.
    """
    r = model.transform(x[y == 1])
    design = np.column_stack([np.ones(len(r)), r])
    fitted = design @ np.linalg.lstsq(design, subgroups, rcond=None)[0]
    return [np.corrcoef(fitted[:, k], subgroups[:, k])[0, 1] for k in range(2)]


def test_hidden_subgroups_are_found_and_pca_does_not_find_them():
    x, y, subgroups = make_hidden_subgroups()
    chosen = ContrastivePCA(2, random_state=0).fit(x, y)
    assert min(correlate_subgroups(chosen, x, y, subgroups)) > 0.85
    pca = ContrastivePCA(2, random_state=0, alpha=0.0).fit(x, y)
    assert max(correlate_subgroups(pca, x, y, subgroups)) < 0.5


@pytest.mark.parametrize(("alpha", "expected"), [(0.0, 0), (1.0, 1), (10.0, 2)])
def test_components_of_diagonal_covariances(alpha, expected):
    target, background = np.diag([9.0, 8.0, 1.0]), np.diag([8.0, 1.0, 0.1])
    component = compute_contrastive_components(target, background, alpha, 1)
    np.testing.assert_allclose(abs(component[0]), np.eye(3)[expected], atol=1e-12)


def test_affinity_is_the_product_of_cosines_of_principal_angles():
    lines = np.array([[[1.0, 0.0]], [[0.5, np.sqrt(0.75)]], [[0.0, -1.0]]])
    np.testing.assert_allclose(
        compute_subspace_affinity(lines),
        [[1, 0.5, 0], [0.5, 1, np.sqrt(0.75)], [0, np.sqrt(0.75), 1]],
        atol=1e-12,
    )
    planes = np.stack(
        [
            np.eye(4)[:2],
            [[np.cos(0.3), 0, np.sin(0.3), 0], [0, np.cos(1.0), 0, np.sin(1.0)]],
        ]
    )
    assert compute_subspace_affinity(planes)[0, 1] == pytest.approx(
        np.cos(0.3) * np.cos(1.0)
    )


def test_chosen_alpha_is_the_smallest_representative_that_differs_from_pca():
    x, y, _ = make_hidden_subgroups()
    model = ContrastivePCA(2, random_state=0).fit(x, y)
    assert 2 <= len(model.candidate_alphas_) <= 4
    assert (np.diff(model.candidate_alphas_) > 0).all()
    assert model.alpha_ == model.candidate_alphas_[1]
    np.testing.assert_allclose(
        model.patterns_ @ model.patterns_.T, np.eye(2), atol=1e-10
    )
