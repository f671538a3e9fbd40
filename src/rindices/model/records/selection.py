"""What a study compared and chose: ``selection.json``, ``failure.json`` and
``realism.json``.
"""

from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from rindices.model.records.adjustment import AdjustmentRecord
from rindices.model.records.base import OMIT_EMPTY, OptionalInterval, Record
from rindices.model.records.evidence import PatternRecord
from rindices.model.records.permutation import DifferenceRecord, PatternCountRecord


class SettingRecord(Record):
    """A grid point: number of patterns M and weight lambda of orthogonality (None where
    the method has none).

    Attributes
    ----------
    n_patterns : int
    orthogonality : float or None
    """

    n_patterns: int
    orthogonality: float | None


class AgreementRecord(Record):
    """Agreement of ensemble members; None where there are no two.

    Attributes
    ----------
    concordance : float or None
    dimension : float or None
    difference : float or None
    """

    concordance: float | None
    dimension: float | None
    difference: float | None


class MemberCountRecord(Record):
    """Number of members trained, and of those that converged.

    Attributes
    ----------
    trained : int
    converged : int
    """

    trained: int
    converged: int


class HeldOutLikelihoodRecord(Record):
    """Mean log-likelihood of the patients that members have not seen, by the shape of
    the patterns.

    ``shape`` is the shape of the members, 'proportional', 'staged' or 'interacting'.
    ``below_best`` is how far the setting is below the most likely one, with its
    standard error over members. ``visits`` is 'coupled' or 'mean' where there are
    repeat visits, and ``coupling_gain`` the gain in the likelihood of all visits of a
    patient by coupling them. ``staged_gain_se`` is the standard error over members of
    the difference between staged and proportional patterns.

    Attributes
    ----------
    shape : str
    proportional : float or None
    staged : float or None
    below_best : float or None
    below_best_se : float or None
    interacting : float or None
    visits : str or None
    coupling_gain : float or None
    staged_gain_se : float or None
    """

    shape: str
    proportional: float | None
    staged: float | None
    below_best: float | None = None
    below_best_se: float | None = None
    interacting: Annotated[float | None, OMIT_EMPTY] = None
    visits: Annotated[str | None, OMIT_EMPTY] = None
    coupling_gain: Annotated[float | None, OMIT_EMPTY] = None
    staged_gain_se: Annotated[float | None, OMIT_EMPTY] = None


class StartRecord(Record):
    """Where the fits of a setting began, and why.

    Attributes
    ----------
    taken : str
        ``contrastive``, ``whole-cohort`` or ``mixed``.
    contrastive_loss, whole_cohort_loss, mixed_loss : float or None
        How badly held-out patients and controls are distinguished by the patterns
        of each start: mean log-loss of both groups, which count alike. None where
        the starts were not compared.
    why : str
        One sentence.
    """

    taken: str
    contrastive_loss: float | None = None
    whole_cohort_loss: float | None = None
    why: str = ""
    mixed_loss: Annotated[float | None, OMIT_EMPTY] = None


class CandidateRecord(Record):
    """Evaluation of one setting: agreement of its members or of fits on disjoint
    halves, and why it is not stable.

    ``by_member`` is the concordance by which each member is judged, ``pairwise`` that
    of every two members. ``held_out`` and ``start`` are only there for learners with a
    likelihood.

    Attributes
    ----------
    setting : SettingRecord
    agreement : AgreementRecord
    agreement_between : str
    concordance_interval : OptionalInterval
    members : MemberCountRecord
    stable : bool
    why : str
    by_member : tuple of float or None
    pairwise : tuple of tuple of float or None
    held_out : HeldOutLikelihoodRecord or None
    start : StartRecord or None
    """

    setting: SettingRecord
    agreement: AgreementRecord
    agreement_between: str = "members"
    concordance_interval: OptionalInterval = (None, None)
    members: MemberCountRecord = Field(
        default_factory=lambda: MemberCountRecord(trained=0, converged=0)
    )
    stable: bool = True
    why: str = ""
    by_member: tuple[float | None, ...] = ()
    pairwise: tuple[tuple[float | None, ...], ...] = ()
    held_out: Annotated[HeldOutLikelihoodRecord | None, OMIT_EMPTY] = None
    start: Annotated[StartRecord | None, OMIT_EMPTY] = None

    @property
    def uses_disjoint_halves(self) -> bool:
        """Whether agreement was measured between fits on disjoint halves of
        the people.
        """
        return self.agreement_between == "disjoint halves"


class ProvenanceRecord(Record):
    """What results depend on: the people, the seed, the versions.

    Attributes
    ----------
    seed : int or None
    fingerprint : str
    rindices_version : str
    versions : mapping
    """

    seed: int | None = None
    fingerprint: str = ""
    rindices_version: str = ""
    versions: Mapping[str, str] = Field(default_factory=dict)


class SelectionRecord(Record):
    """Content of ``selection.json``: what was compared and chosen.

    ``chosen`` is None where no setting was stable or none was tried. ``made_with`` and
    ``adjustment`` are only in a study without a model; otherwise the model has them.
    ``finding`` is 'no_difference', 'mean_difference' or 'patterns'.

    Attributes
    ----------
    chosen : CandidateRecord or None
    ties : tuple of SettingRecord
    grid : tuple of CandidateRecord
    patterns : tuple of PatternRecord
    number_of_patterns : PatternCountRecord
    made_with : ProvenanceRecord or None
    finding : str
    difference : DifferenceRecord
    adjustment : AdjustmentRecord or None
    """

    chosen: CandidateRecord | None
    ties: tuple[SettingRecord, ...] = ()
    grid: tuple[CandidateRecord, ...] = ()
    patterns: tuple[PatternRecord, ...] = ()
    number_of_patterns: PatternCountRecord
    made_with: Annotated[ProvenanceRecord | None, OMIT_EMPTY] = None
    finding: str
    difference: DifferenceRecord
    adjustment: Annotated[AdjustmentRecord | None, OMIT_EMPTY] = None

    @property
    def is_difference_detected(self) -> bool:
        """Whether the tests detected a difference between patients and controls."""
        return self.difference.p <= self.number_of_patterns.test.level

    @property
    def unstable_candidates(self) -> list[CandidateRecord]:
        """Settings that could not be chosen, with the reason."""
        return [candidate for candidate in self.grid if not candidate.stable]


class FailureRecord(Record):
    """Content of ``failure.json``: why the members of a study failed, and what to
    change.

    ``made_with``, ``adjustment`` and ``difference`` are what a model or
    ``selection.json`` would say.

    Attributes
    ----------
    what : str
    cure : str
    made_with : ProvenanceRecord
    adjustment : AdjustmentRecord
    difference : DifferenceRecord
    """

    what: str
    cure: str
    made_with: ProvenanceRecord
    adjustment: AdjustmentRecord
    difference: DifferenceRecord


class RealismRecord(Record):
    """Content of ``realism.json``: how synthetic patients of a Surreal-GAN differ from
    real ones.

    ``auc`` is the cross-validated AUC of each classifier, mean of the members, without
    any where people are too few. ``mean_error`` and ``sd_error`` are means over regions
    of the absolute difference of means and of standard deviations, in control sd.
    ``is_held_out`` says whether the people are those whom the members have not seen.

    Attributes
    ----------
    auc : mapping
    mean_error : float
    sd_error : float
    is_held_out : bool
    """

    auc: Mapping[str, float]
    mean_error: float
    sd_error: float
    is_held_out: bool
