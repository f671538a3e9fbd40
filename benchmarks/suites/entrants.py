"""Learners of the benchmark, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from benchmarks.suites.baselines.contrastive_pca import ContrastivePCA
from benchmarks.suites.baselines.decompositions import (
    DNMFBaseline,
    FactorAnalysisBaseline,
    LDABaseline,
    NMFBaseline,
    OpNMFBaseline,
)
from benchmarks.suites.baselines.normative import (
    DeviationNMF,
    NormativeICA,
    NormativePCA,
)
from rindices.errors import InputError, did_you_mean
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.trajectory.estimator import DiseaseTrajectories


@dataclass(frozen=True)
class Entrant:
    """A learner in a benchmark."""

    make: Callable[[int, int], Any] | None = (
        None  # from number of patterns and seed to an unfitted learner
    )
    supervised: str = (
        ""  # name of the regression, for one that is trained on the true severities
    )
    # the truth selects the best of 3 to 10 components ("practical upper bound" in the
    # paper)
    bound: bool = False
    oracle: bool = (
        False  # the theoretical limit: knows the generator, and needs a simulated task
    )
    slow: bool = False  # a fit takes so long that held-out people are not scored

    @property
    def needs_truth(self) -> bool:
        """Whether it uses the true severities, so that its score is not comparable."""
        return self.bound or self.oracle or bool(self.supervised)


def _make_entrant(
    kind: Any, bound: bool = False, slow: bool = False, **parameters: Any
) -> Entrant:
    def make(patterns: int, seed: int) -> Any:
        return kind(n_patterns=patterns, random_state=seed, **parameters)

    return Entrant(make, bound=bound, slow=slow)


def _make_surreal_gan(patterns: int, seed: int) -> Any:
    from rindices.learners.gan.estimator import SurrealGAN

    return SurrealGAN(n_patterns=patterns, random_state=seed, members=5)


def _make_contrastive_vae(patterns: int, seed: int) -> Any:
    from benchmarks.suites.baselines.contrastive_vae import ContrastiveVAE

    return ContrastiveVAE(n_patterns=patterns, random_state=seed)


ENTRANTS: dict[str, Entrant] = {
    "contrastive": _make_entrant(ContrastiveICA),
    "contrastive-ica": _make_entrant(ContrastiveICA, rotation="ica"),
    "trajectory": _make_entrant(DiseaseTrajectories, slow=True),
    "surreal-paper": Entrant(_make_surreal_gan, slow=True),
    "nmf": _make_entrant(NMFBaseline),
    "fa": _make_entrant(FactorAnalysisBaseline),
    "lda": _make_entrant(LDABaseline, slow=True),
    "opnmf": _make_entrant(OpNMFBaseline),
    "dnmf": _make_entrant(DNMFBaseline),
    "cpca": _make_entrant(ContrastivePCA),
    "cvae": Entrant(_make_contrastive_vae, slow=True),
    "normative-pca": _make_entrant(NormativePCA),
    "normative-ica": _make_entrant(NormativeICA),
    "deviation-nmf": _make_entrant(DeviationNMF),
    "cpca-bound": _make_entrant(ContrastivePCA, bound=True),
    "nmf-bound": _make_entrant(NMFBaseline, bound=True),
    "fa-bound": _make_entrant(FactorAnalysisBaseline, bound=True),
    "lda-bound": _make_entrant(LDABaseline, bound=True),
    "opnmf-bound": _make_entrant(OpNMFBaseline, bound=True),
    "dnmf-bound": _make_entrant(DNMFBaseline, bound=True),
    "oracle": Entrant(oracle=True),
    "linear": Entrant(supervised="linear"),
    "ridge": Entrant(supervised="ridge"),
    "svr": Entrant(supervised="svr"),
}


def get_entrant(name: str) -> Entrant:
    """Return a learner by name."""
    if name not in ENTRANTS:
        raise InputError(
            f"there is no learner '{name}': {did_you_mean(name, list(ENTRANTS))}"
        )
    return ENTRANTS[name]
