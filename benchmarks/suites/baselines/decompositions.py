"""Unsupervised methods that the paper compares itself with (Table 1), as scikit-learn
estimators.

All follow the protocol of `Learner` and take ``n_patterns`` (M) and ``random_state``. X
holds regional volumes. The preparation of the paper's section B.4 is learnt from the
controls in ``fit`` and applied in ``transform``. Shape letters: N people, R regions, M
patterns.

================= ============================== ==================== =============
learner           prepared data                  decomposed           R-index
================= ============================== ==================== =============
NMF               -z-scores, clipped at 0        patients             coefficients
opNMF             the same                       patients             projection
LDA               the same, times 10, rounded    patients             topic shares
factor analysis   z-scores                       patients             factor scores
DNMF              volumes, 0 to 1                patients, controls   coefficients
================= ============================== ==================== =============
"""

from abc import abstractmethod
from typing import Any

import numpy as np
from sklearn.decomposition import (
    NMF,
    FactorAnalysis,
    LatentDirichletAllocation,
    non_negative_factorization,
)

from benchmarks.suites.baselines.nmf import (
    discriminant_nmf,
    initialise_nndsvd,
    orthogonal_nmf,
)
from rindices._typing import BoolArray, FloatArray
from rindices.errors import InputError
from rindices.learners.base import Learner, RandomState, handle_zeros_in_scale


class _AtrophyBaseline(Learner):
    """Base class of methods that use only volumes below the controls' mean."""

    model_: Any

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.maximum(-self._z_scores(regions), 0.0)

    def _prepared_patients(self, regions: FloatArray, patient: BoolArray) -> FloatArray:
        prepared = self._prepare(regions[patient])
        if not prepared.any():
            raise InputError(
                "no patient has a region below the controls' mean, so there is no atrophy to "
                "decompose; check that 1 marks the patients and that X holds volumes."
            )
        return prepared

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(self.model_.transform(prepared), dtype=np.float64)


class NMFBaseline(_AtrophyBaseline):
    """Nonnegative matrix factorisation of the patients' atrophy.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per unit of the R-index;
        atrophy is negative.
    """

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        # For one pattern NNDSVD starts at the solution, and the stopping rule is
        # relative to the first step.
        init = "random" if self.n_patterns == 1 else None
        model = NMF(
            self.n_patterns, init=init, max_iter=2000, random_state=self._draw_seed()
        )
        self.model_ = model.fit(self._prepared_patients(regions, patient))
        self.patterns_ = -model.components_


class OpNMFBaseline(_AtrophyBaseline):
    """Orthonormal projective NMF of the patients' atrophy.

    ``random_state`` is used only where patients span fewer than M dimensions.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        As in `NMFBaseline`. Rows are orthonormal, so no two share a region.
    errors_ : ndarray
        Reconstruction error after each iteration; never grows.
    converged_ : bool
    """

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        data = self._prepared_patients(regions, patient).T
        start = initialise_nndsvd(
            data, self.n_patterns, np.random.default_rng(self._draw_seed())
        )
        result = orthogonal_nmf(data @ data.T, start)
        self.patterns_ = -result.factor.T
        self.errors_ = result.errors
        self.converged_ = result.converged

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(prepared @ -self.patterns_.T, dtype=np.float64)


class LDABaseline(_AtrophyBaseline):
    """Latent Dirichlet allocation with patients as documents and regions as words.

    The R-indices are topic shares, as in the paper. They sum to 1 over the patterns:
    they describe how a person's atrophy is divided, not how severe it is, and are
    constant for M = 1.

    Parameters
    ----------
    max_iter : int, default=100
        Passes over the patients. scikit-learn's default of 10 stops far from
        convergence on such long documents.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Minus each region's share of the topic's atrophy; rows sum to -1.
    """

    def __init__(
        self, n_patterns: int = 3, random_state: RandomState = None, max_iter: int = 100
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.max_iter = max_iter

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return np.rint(10 * super()._prepare(regions))

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        # Documents have a thousand words. With more inner steps they are fitted to
        # convergence while the topics are still wrong, which is slower and ends in a
        # worse optimum.
        model = LatentDirichletAllocation(
            self.n_patterns,
            max_iter=self.max_iter,
            max_doc_update_iter=10,
            random_state=self._draw_seed(),
        )
        self.model_ = model.fit(self._prepared_patients(regions, patient))
        self.n_iter_ = model.n_iter_
        self.patterns_ = -model.components_ / model.components_.sum(
            axis=1, keepdims=True
        )


class SignedDecomposition(Learner):
    """Base class of decompositions of the patients' z-scores whose signs are arbitrary.

    The sign of a component is set so that patients are above controls on average. A
    subclass implements `_make_model`.
    """

    model_: Any

    @abstractmethod
    def _make_model(self) -> Any:
        """Return the unfitted decomposition, an estimator of scikit-learn."""

    def _get_loadings(self) -> FloatArray:
        """Return the change of each region per unit of each component, (M, R)."""
        return np.asarray(self.model_.components_, dtype=np.float64)

    def _prepare(self, regions: FloatArray) -> FloatArray:
        return self._z_scores(regions)

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        check_patients_suffice(patient, self.n_patterns, "components")
        prepared = self._prepare(regions)
        self.model_ = self._make_model().fit(prepared[patient])
        self.signs_ = compute_signs(self.model_.transform(prepared), patient)
        self.patterns_ = self.signs_[:, None] * self._get_loadings()

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(
            self.model_.transform(prepared) * self.signs_, dtype=np.float64
        )


class FactorAnalysisBaseline(SignedDecomposition):
    """Factor analysis of the patients' z-scores, unrotated.

    ``random_state`` is ignored: the fit is deterministic.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Change of each region, in control standard deviations, per unit of the R-index;
        atrophy is negative.
    """

    def _make_model(self) -> Any:
        return FactorAnalysis(self.n_patterns, svd_method="lapack")


class DNMFBaseline(Learner):
    """Discriminant NMF of patients and controls.

    Coefficients of new people are nonnegative least squares on the learnt components,
    without the scatter terms, which need a diagnosis. The sign of an index is set so
    that patients are above controls on average.

    Parameters
    ----------
    within, between : float, default=0.1
        Weights of the scatter within and between the two groups.

    Attributes
    ----------
    patterns_ : ndarray of shape (M, R)
        Difference of each region, in control standard deviations, per unit of the
        R-index.
    converged_ : bool
    """

    def __init__(
        self,
        n_patterns: int = 3,
        random_state: RandomState = None,
        within: float = 0.1,
        between: float = 0.1,
    ) -> None:
        super().__init__(n_patterns, random_state)
        self.within = within
        self.between = between

    def _prepare(self, regions: FloatArray) -> FloatArray:
        scaled = (regions - self.low_) / self.range_
        return np.asarray(
            np.maximum(scaled, 0.0), dtype=np.float64
        )  # NMF needs no upper bound

    def _learn(self, regions: FloatArray, patient: BoolArray) -> None:
        self.low_ = regions.min(axis=0)
        self.range_ = handle_zeros_in_scale(np.ptp(regions, axis=0))
        prepared = self._prepare(regions)
        rng = np.random.default_rng(self._draw_seed())
        factors = discriminant_nmf(
            prepared,
            patient.astype(np.intp),
            self.n_patterns,
            rng,
            self.within,
            self.between,
        )
        self.components_ = factors.components
        self.converged_ = factors.converged
        self.signs_ = compute_signs(self._solve_coefficients(prepared), patient)
        in_control_sd = self.components_ * self.range_ / self.control_scale_
        self.patterns_ = self.signs_[:, None] * in_control_sd

    def _infer(self, prepared: FloatArray) -> FloatArray:
        return np.asarray(
            self._solve_coefficients(prepared) * self.signs_, dtype=np.float64
        )

    def _solve_coefficients(self, prepared: FloatArray) -> FloatArray:
        """Solve nonnegative least squares on the components, (N, R) -> (N, M)."""
        coefficients, _, _ = non_negative_factorization(
            prepared,
            H=self.components_,
            n_components=self.n_patterns,
            init="custom",
            update_H=False,
            max_iter=2000,
        )
        return np.asarray(coefficients, dtype=np.float64)


def check_patients_suffice(
    patient: BoolArray, n_patterns: int, components: str
) -> None:
    """Raise an error if there are fewer patients than components."""
    if patient.sum() < n_patterns:
        raise InputError(
            f"{patient.sum()} patients cannot give {n_patterns} {components}; lower n_patterns or add patients."
        )


def compute_signs(indices: FloatArray, patient: BoolArray) -> FloatArray:
    """Return +1 or -1 per index, (N, M) -> (M,), so that the patients' mean is above
    the controls'.
    """
    shift = indices[patient].mean(axis=0) - indices[~patient].mean(axis=0)
    return np.where(shift < 0, -1.0, 1.0)
