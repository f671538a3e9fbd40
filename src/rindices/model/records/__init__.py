"""Records that a study writes and reports read: ``selection.json``, ``cohort.json`` and
the card of a model file.

These modules alone know the keys of these files. Everything else reads fields.
"""

from rindices.model.records.adjustment import (
    AdjustedCovariateRecord,
    AdjustmentRecord,
    describe_adjustment,
)
from rindices.model.records.base import OMIT_EMPTY, Interval, OptionalInterval, Record
from rindices.model.records.card import (
    QUANTILE_RANKS,
    HealthyRecord,
    MembershipRecord,
    MethodRecord,
    ModelCard,
    ReferenceRecord,
    rename_method,
)
from rindices.model.records.cohort import (
    CohortRecord,
    CovariateGroups,
    CovariateSummary,
    GroupSummary,
    ProblemRecord,
)
from rindices.model.records.evidence import (
    MIN_SPLIT_HALF,
    ArtefactKind,
    ArtefactRecord,
    PatternRecord,
    RegionChange,
    Reproduction,
)
from rindices.model.records.permutation import (
    DifferenceRecord,
    DimensionRecord,
    PatternCountRecord,
    PermutationTestRecord,
)
from rindices.model.records.selection import (
    AgreementRecord,
    CandidateRecord,
    FailureRecord,
    HeldOutLikelihoodRecord,
    MemberCountRecord,
    ProvenanceRecord,
    RealismRecord,
    SelectionRecord,
    SettingRecord,
    StartRecord,
)

__all__ = [
    "MIN_SPLIT_HALF",
    "OMIT_EMPTY",
    "QUANTILE_RANKS",
    "AdjustedCovariateRecord",
    "AdjustmentRecord",
    "AgreementRecord",
    "ArtefactKind",
    "ArtefactRecord",
    "CandidateRecord",
    "CohortRecord",
    "CovariateGroups",
    "CovariateSummary",
    "DifferenceRecord",
    "DimensionRecord",
    "FailureRecord",
    "GroupSummary",
    "HealthyRecord",
    "HeldOutLikelihoodRecord",
    "Interval",
    "MemberCountRecord",
    "MembershipRecord",
    "MethodRecord",
    "ModelCard",
    "OptionalInterval",
    "PatternCountRecord",
    "PatternRecord",
    "PermutationTestRecord",
    "ProblemRecord",
    "ProvenanceRecord",
    "RealismRecord",
    "Record",
    "ReferenceRecord",
    "RegionChange",
    "Reproduction",
    "SelectionRecord",
    "SettingRecord",
    "StartRecord",
    "describe_adjustment",
    "rename_method",
]
