"""Contrastive principal component analysis.

Shape letters: N people, R regions, M patterns, A values of alpha.

References
----------
Abid A, Zhang MJ, Bagaria VK, Zou J (2018). Exploring patterns enriched in a dataset
with contrastive principal component analysis. Nat Commun 9, 2134. (Methods: Algorithm 1
for a given alpha, Algorithm 2 for its automatic choice)
"""

import warnings

import numpy as np
from sklearn.cluster import SpectralClustering
from sklearn.exceptions import ConvergenceWarning

from benchmarks.suites.baselines.decompositions import (
    check_patients_suffice,
    compute_signs,
)
from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.learners.base import Learner, RandomState

_ALPHAS = np.concatenate([[0.0], np.geomspace(0.1, 1000.0, 40)])  # the published grid
_N_CLUSTERS = 4  # representatives that the published program shows


class ContrastivePCA(Learner):
    """Directions along which patients vary and controls do not (contrastive PCA).

    The components are the leading eigenvectors of C_patients - alpha C_controls
    (Algorithm 1). Without `alpha`, subspaces of 41 values of alpha are grouped by
    spectral clustering of their affinity, the product of the cosines of their principal
    angles, and each group is represented by its medoid (Algorithm 2). The published
    program shows the representatives and leaves the choice to its user. Here the
    smallest one is taken whose group does not contain alpha = 0, which is PCA. The sign
    of a component is set so that patients are above controls on average.

    Parameters
    ----------
    alpha : float, optional
        Weight of the controls' covariance. Chosen automatically by default.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per unit of the R-index.
        Rows are orthonormal.
    alpha_ : float
    candidate_alphas_ : ndarray of shape (number of groups,)
        Representatives of all groups, in ascending order.
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        alpha: float | None = None,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.alpha = alpha

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return self._z_scores(regions)

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        check_patients_suffice(patient, self.n_patterns, "components")
        prepared = self._prepare(regions)
        target, background = (
            np.atleast_2d(np.cov(prepared[mask].T)) for mask in (patient, ~patient)
        )
        if self.alpha is None:
            self.alpha_, self.candidate_alphas_ = self._choose_alpha(target, background)
        else:
            self.alpha_, self.candidate_alphas_ = (
                float(self.alpha),
                np.array([self.alpha], dtype=np.float64),
            )
        components = compute_contrastive_components(
            target, background, self.alpha_, self.n_patterns
        )
        self.patterns_ = (
            components * compute_signs(prepared @ components.T, patient)[:, None]
        )

    def _choose_alpha(
        self, target: FloatArray, background: FloatArray
    ) -> tuple[float, FloatArray]:
        """Return alpha and the representatives of all groups."""
        components = [
            compute_contrastive_components(target, background, a, self.n_patterns)
            for a in _ALPHAS
        ]
        affinity = compute_subspace_affinity(np.stack(components))
        labels = _cluster_subspaces(affinity, self._draw_seed())
        medoids = {
            label: _find_medoid(affinity, labels == label)
            for label in np.unique(labels)
        }
        candidates = _ALPHAS[list(medoids.values())]
        others = [
            _ALPHAS[medoid] for label, medoid in medoids.items() if label != labels[0]
        ]
        return float(min(others, default=candidates[0])), np.sort(candidates)

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(prepared @ self.patterns_.T, dtype=np.float64)


def compute_contrastive_components(
    target: FloatArray, background: FloatArray, alpha: float, n_components: int
) -> FloatArray:
    """Return the leading eigenvectors (M, R) of target - alpha background,
    both (R, R).
    """
    vectors = np.linalg.eigh(target - alpha * background)[1]
    return np.asarray(vectors[:, ::-1][:, :n_components].T, dtype=np.float64)


def compute_subspace_affinity(components: FloatArray) -> FloatArray:
    """Return the product of the cosines of the principal angles between subspaces, (A,
    M, R) -> (A, A).
    """
    overlaps = np.einsum("amr,bnr->abmn", components, components)
    return np.asarray(
        np.prod(np.linalg.svd(overlaps, compute_uv=False), axis=-1).clip(0.0, 1.0),
        dtype=np.float64,
    )


def _cluster_subspaces(affinity: FloatArray, seed: int) -> IntArray:
    """Return the group of each subspace (A,) by spectral clustering."""
    connected = np.maximum(affinity, 1e-12)
    clustering = SpectralClustering(
        _N_CLUSTERS, affinity="precomputed", random_state=seed
    )
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", ConvergenceWarning
        )  # fewer distinct subspaces than groups
        return np.asarray(clustering.fit_predict(connected), dtype=np.intp)


def _find_medoid(affinity: FloatArray, member: BoolArray) -> int:
    """Return the position of the member of a group that is most similar to all its
    members.
    """
    return int(np.argmax(np.where(member, affinity[:, member].sum(axis=1), -np.inf)))
