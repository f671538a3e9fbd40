"""R-indices: a few continuous disease-severity numbers per person from regional brain
volumes.

The names below are the public interface; they are imported on first use, so ``import
rindices`` is cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rindices._version import __version__

if TYPE_CHECKING:
    import rindices.analysis as analysis
    import rindices.datasets as datasets
    import rindices.plot as plot
    from rindices.errors import Problem, RindicesError, Severity, StudyError, TableError
    from rindices.experiments.simulate import simulate_cohort
    from rindices.learners.contrastive.estimator import ContrastiveICA
    from rindices.learners.gan.estimator import SurrealGAN
    from rindices.learners.trajectory.estimator import DiseaseTrajectories
    from rindices.model.fitted import FittedModel, load
    from rindices.model.normal_reference import NormalReference
    from rindices.preprocess.pipeline import Preprocessing
    from rindices.report.page import write_report
    from rindices.study.exceptions import (
        NoPatternError,
        StudyStoppedError,
        StudyWarning,
    )
    from rindices.study.fit import fit
    from rindices.tables.cohort import Cohort
    from rindices.tables.readers import read_cohort

_HOMES = {
    "Cohort": "rindices.tables.cohort",
    "ContrastiveICA": "rindices.learners.contrastive.estimator",
    "DiseaseTrajectories": "rindices.learners.trajectory.estimator",
    "FittedModel": "rindices.model.fitted",
    "NoPatternError": "rindices.study.exceptions",
    "NormalReference": "rindices.model.normal_reference",
    "Preprocessing": "rindices.preprocess.pipeline",
    "Problem": "rindices.errors",
    "RindicesError": "rindices.errors",
    "Severity": "rindices.errors",
    "StudyError": "rindices.errors",
    "StudyStoppedError": "rindices.study.exceptions",
    "StudyWarning": "rindices.study.exceptions",
    "SurrealGAN": "rindices.learners.gan.estimator",
    "TableError": "rindices.errors",
    "fit": "rindices.study.fit",
    "load": "rindices.model.fitted",
    "read_cohort": "rindices.tables.readers",
    "write_report": "rindices.report.page",
    "simulate_cohort": "rindices.experiments.simulate",
}

__all__ = [
    "Cohort",
    "ContrastiveICA",
    "DiseaseTrajectories",
    "FittedModel",
    "NoPatternError",
    "NormalReference",
    "Preprocessing",
    "Problem",
    "RindicesError",
    "Severity",
    "StudyError",
    "StudyStoppedError",
    "StudyWarning",
    "SurrealGAN",
    "TableError",
    "__version__",
    "analysis",
    "datasets",
    "fit",
    "load",
    "plot",
    "read_cohort",
    "simulate_cohort",
    "write_report",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name in ("analysis", "datasets", "plot"):
        return import_module(f"rindices.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'rindices' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
