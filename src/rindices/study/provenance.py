"""What the numbers of a study depend on, for its records."""

import platform
from importlib.metadata import version

from rindices._version import __version__
from rindices.model.records import ProvenanceRecord
from rindices.study.study import Study


def collect_provenance(study: Study) -> ProvenanceRecord:
    """Return what the numbers of a study depend on."""
    return make_provenance(study.cohort.fingerprint(), study.seed)


def make_provenance(fingerprint: str, seed: int) -> ProvenanceRecord:
    """Return what the numbers of a study depend on, given a fingerprint of
    its people.
    """
    return ProvenanceRecord(
        seed=seed,
        fingerprint=fingerprint,
        rindices_version=__version__,
        versions={"python": platform.python_version(), "numpy": version("numpy")},
    )
