"""Decompositions of deviations from a normative model of the controls.

The normative model is linear: `rindices.preprocess` predicts each region from
covariates, as learnt on the controls, and `Learner` standardises what remains to the
controls. The result is a z-score, or deviation, per person and region. Shape letters: N
people, R regions, M patterns, L latent variables of the controls.

References
----------
Marquand AF et al. (2016). Understanding heterogeneity in clinical cohorts using
normative models. Biol Psychiatry 80(7). (z-scores of patients under a model of healthy
people)

Hyvärinen A, Oja E (2000). Independent component analysis: algorithms and applications.
Neural Netw 13. (FastICA)

Skampardoni I et al. (2026). Coupled cross-sectional and longitudinal non-negative
matrix factorization reveals dominant brain aging trajectories in 48,949 individuals.
Nat Commun, doi 10.1038/s41467-026-72091-7. (CCL-NMF)
"""

import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA, FastICA
from sklearn.exceptions import ConvergenceWarning

from benchmarks.suites.baselines.decompositions import NMFBaseline, SignedDecomposition
from rindices._typing import BoolArray, FloatArray
from rindices.learners.base import RandomState, handle_zeros_in_scale


class NormativePCA(SignedDecomposition):
    """Principal components of the patients' z-scores.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per unit of the R-index.
        Rows have length 1.
    """

    def _make_model(self) -> Any:
        return PCA(self.n_patterns, random_state=self._draw_seed())


class NormativeICA(SignedDecomposition):
    """Independent components of the patients' z-scores, after reduction to M principal
    components (FastICA).

    Parameters
    ----------
    max_iter : int, default=500

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per standard deviation of
        the R-index.
    converged_ : bool
        False where components are close to Gaussian, so that their rotation is not
        determined.
    """

    def __init__(
        self, n_patterns: int = 3, random_state: RandomState = None, max_iter: int = 500
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.max_iter = max_iter

    def _make_model(self) -> Any:
        return FastICA(
            self.n_patterns,
            whiten="unit-variance",
            max_iter=self.max_iter,
            random_state=self._draw_seed(),
        )

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # see converged_
            super()._learn(regions, patient)
        self.n_iter_ = int(self.model_.n_iter_)
        self.converged_ = self.n_iter_ < self.max_iter

    def _get_loadings(self) -> FloatArray:
        return np.asarray(self.model_.mixing_.T, dtype=np.float64)


class DeviationNMF(NMFBaseline):
    """Nonnegative factors of deviations from an autoencoder of the controls: CCL-NMF
    with one visit per person.

    CCL-NMF minimises a ||C - H_C W||^2 + ||L - H_L W||^2 over H_C, H_L, W >= 0, where
    the rows of C are cross-sectional deviations and those of L are rates of change.
    With one visit per person L is empty, and NMF of C remains.

    Objective, autoencoder and scaling of regions to the range from 0 to 1 follow the
    abstract and the authors' public pipeline; the full text was not available. That
    gains are set to 0 before scaling is an assumption. The authors' autoencoder is
    adversarial and nonlinear. Here it is linear, with as many latent variables, i.e.
    the leading principal components of the controls.

    Parameters
    ----------
    n_latent : int, default=10
        L, at most a quarter of the regions. With 0, nothing of the normal variation is
        removed.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per unit of the R-index;
        atrophy is negative.
    latent_patterns_ : ndarray of shape (L, R)
        Orthonormal directions of the normal variation that is removed.
    """

    def __init__(
        self, n_patterns: int = 3, random_state: RandomState = None, n_latent: int = 10
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.n_latent = n_latent

    def _prepare(self, regions: FloatArray) -> FloatArray:
        z = self._z_scores(regions)
        deviations = z - (z @ self.latent_patterns_.T) @ self.latent_patterns_
        return np.asarray(
            np.maximum(-deviations, 0.0) / self.deviation_range_, dtype=np.float64
        )

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        directions = np.linalg.svd(
            self._z_scores(regions[~patient]), full_matrices=False
        )[2]
        n_latent = min(self.n_latent, (~patient).sum() - 1, self.n_features_in_ // 4)
        self.latent_patterns_ = directions[:n_latent]
        self.deviation_range_ = np.ones(self.n_features_in_)
        self.deviation_range_ = handle_zeros_in_scale(
            self._prepare(regions[patient]).max(axis=0)
        )
        super()._learn(regions, patient)
        self.patterns_ = self.patterns_ * self.deviation_range_
