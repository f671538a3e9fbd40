"""How well patterns are supported: by other people, by their regions, by the table."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from rindices.model.records.base import OMIT_EMPTY, Interval, Record

MIN_SPLIT_HALF = 0.5
"""Rank correlation from which a pattern counts as reproduced in other people."""


class Reproduction(StrEnum):
    """Whether other people reproduce a pattern, by the interval of its rank correlation
    against `MIN_SPLIT_HALF`.

    Of a pattern that looks like an artefact nothing is said: other people of the same
    table reproduce artefacts, too.
    """

    REPRODUCED = "reproduced"
    NOT_KNOWN = "not_known"
    NOT_REPRODUCED = "not_reproduced"
    ARTEFACT = "artefact"


class ArtefactKind(StrEnum):
    """Sign of an artefact.

    ``UNIFORM_RATIO``: all regions of a block, or its head size, differ from those of
    others by one factor. ``ALL_REGIONS``: most regions separate patients from controls
    almost by themselves. ``ONE_SITE``: an R-index separates patients from controls at
    one site alone. ``SIDES_SWAPPED``: left and right are swapped. ``TABLE``: a block of
    the table looked wrong when it was read.
    """

    UNIFORM_RATIO = "uniform_ratio"
    ALL_REGIONS = "all_regions"
    ONE_SITE = "one_site"
    SIDES_SWAPPED = "sides_swapped"
    TABLE = "table"


class ArtefactRecord(Record):
    """A sign that what a study found is an artefact.

    Attributes
    ----------
    kind : ArtefactKind
        Kind of sign.
    block : str
        The people, for instance 'the patients' or 'site B'.
    patterns : tuple of str
        The R-indices concerned. None means all of them.
    what : str
        A sentence with the block, the numbers and the usual causes.
    figures : mapping
        The numbers of the sentence.
    """

    kind: ArtefactKind
    block: str
    patterns: tuple[str, ...] = ()
    what: str
    figures: Annotated[Mapping[str, float], OMIT_EMPTY] = Field(default_factory=dict)


class RegionChange(Record):
    """Change of a region at full severity of a pattern, in control standard deviations.

    Attributes
    ----------
    region : str
        Its name in tables.
    label : str
        Its name for readers.
    structure : str
        The label without side.
    change : float
    low, high : float or None
        Ends of the 95 % interval. None where it is not known.
    """

    region: str
    label: str
    structure: str
    change: float
    low: float | None = None
    high: float | None = None

    @property
    def direction(self) -> str:
        """``loss`` or ``gain``."""
        return "loss" if self.change < 0 else "gain"

    @property
    def side(self) -> str:
        """``left`` or ``right``, with the measure where structures have several; empty
        for one that has no side.
        """
        return re.sub("[()]", "", self.label.removeprefix(self.structure).lstrip(", "))

    @property
    def is_certain(self) -> bool:
        """Whether the interval is known and excludes 0."""
        return (
            self.low is not None
            and self.high is not None
            and (self.low > 0 or self.high < 0)
        )


class PatternRecord(Record):
    """How well one pattern is reproduced in other people, and how it separates patients
    from controls there.

    The shares and the AUC are of the R-indices that the study writes.

    Attributes
    ----------
    name : str
        Name of the R-index.
    stability : float
        Agreement with the members that did not see the people.
    stability_interval : Interval
        95 % interval of the stability.
    split_half : float
        Rank correlation of R-indices between two sets of people with nobody in common.
    split_half_interval : Interval
        95 % interval of the split-half correlation.
    carriers : float
        Share of patients beyond 95 % of controls, less the share expected by chance.
    carriers_interval : Interval or None
        95 % interval of the share.
    auc : float or None
        Probability that a patient has a higher R-index than a control.
    auc_interval : Interval or None
        95 % interval of the AUC.
    seed_change : float or None
        Change of these R-indices with another seed, as the root mean square over
        people.
    in_sample : bool
        Whether all members were trained on these people.
    regions : tuple of RegionChange
        The largest changes.
    artefact : str
        Why the pattern looks like an artefact.
    """

    name: str
    stability: float
    stability_interval: Interval
    split_half: float
    split_half_interval: Interval
    carriers: float
    carriers_interval: Annotated[Interval | None, OMIT_EMPTY] = None
    auc: Annotated[float | None, OMIT_EMPTY] = None
    auc_interval: Annotated[Interval | None, OMIT_EMPTY] = None
    seed_change: Annotated[float | None, OMIT_EMPTY] = None
    in_sample: Annotated[bool, OMIT_EMPTY] = False
    regions: Annotated[tuple[RegionChange, ...], OMIT_EMPTY] = ()
    artefact: Annotated[str, OMIT_EMPTY] = ""

    @property
    def reproduction(self) -> Reproduction:
        """Whether other people reproduce the pattern; not known where the interval
        includes the threshold.
        """
        if self.artefact:
            return Reproduction.ARTEFACT
        low, high = self.split_half_interval
        if low >= MIN_SPLIT_HALF:
            return Reproduction.REPRODUCED
        return (
            Reproduction.NOT_REPRODUCED
            if high < MIN_SPLIT_HALF
            else Reproduction.NOT_KNOWN
        )
