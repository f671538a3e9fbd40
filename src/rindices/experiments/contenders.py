"""Who takes part in a benchmark, by name."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from rindices.errors import InputError, did_you_mean
from rindices.learners.baselines import DNMFBaseline, FactorAnalysisBaseline, LDABaseline, NMFBaseline, OpNMFBaseline
from rindices.learners.contrastive import ContrastiveICA


@dataclass(frozen=True)
class Contender:
    """A learner in a benchmark.

    Attributes
    ----------
    make : callable or None
        Number of patterns and seed to an unfitted learner; None for a supervised reference.
    supervised : str
        The regression, for a reference that is told the truth.
    bound : bool
        Whether the truth picks the best components of M = 3 to 10 (the paper's "practical upper bound").
    slow : bool
        Whether a fit takes so long that people it has not seen are not measured.
    """

    make: Callable[[int, int], Any] | None = None
    supervised: str = ""
    bound: bool = False
    slow: bool = False

    @property
    def needs_truth(self) -> bool:
        """Whether it is told the true severities, so that it is no fair competitor."""
        return self.bound or bool(self.supervised)


def _learner(kind: Any, bound: bool = False, slow: bool = False, **parameters: Any) -> Contender:
    def make(patterns: int, seed: int) -> Any:
        return kind(n_patterns=patterns, random_state=seed, **parameters)

    return Contender(make, bound=bound, slow=slow)


def _surreal(patterns: int, seed: int, **parameters: Any) -> Any:
    from rindices.learners.surreal.estimator import SurrealGAN

    return SurrealGAN(n_patterns=patterns, random_state=seed, **parameters)


CONTENDERS: dict[str, Contender] = {
    "contrastive": _learner(ContrastiveICA),
    "contrastive-ica": _learner(ContrastiveICA, rotation="ica"),
    "surreal": Contender(_surreal, slow=True),
    "surreal-paper": Contender(partial(_surreal, training="paper", members=5), slow=True),
    "nmf": _learner(NMFBaseline),
    "fa": _learner(FactorAnalysisBaseline),
    "lda": _learner(LDABaseline, slow=True),
    "opnmf": _learner(OpNMFBaseline),
    "dnmf": _learner(DNMFBaseline),
    "nmf-bound": _learner(NMFBaseline, bound=True),
    "fa-bound": _learner(FactorAnalysisBaseline, bound=True),
    "lda-bound": _learner(LDABaseline, bound=True),
    "opnmf-bound": _learner(OpNMFBaseline, bound=True),
    "dnmf-bound": _learner(DNMFBaseline, bound=True),
    "linear": Contender(supervised="linear"),
    "ridge": Contender(supervised="ridge"),
    "svr": Contender(supervised="svr"),
}


def contender(name: str) -> Contender:
    """Return a contender by name."""
    if name not in CONTENDERS:
        raise InputError(f"there is no learner '{name}': {did_you_mean(name, list(CONTENDERS))}")
    return CONTENDERS[name]
