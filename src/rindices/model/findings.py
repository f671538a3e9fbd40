"""What a study found, computed once.

Terminal, ``--json``, the first screen of the report, the methods text, the model card
and ``selection.json`` are written from `StudyFindings`, and ``findings.json`` holds it.
Nothing here is about a single participant.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from rindices.model.file import ModelContent
from rindices.model.pattern_tables import make_change_table
from rindices.model.records import (
    AgreementRecord,
    ArtefactRecord,
    DifferenceRecord,
    HeldOutLikelihoodRecord,
    OptionalInterval,
    PatternRecord,
    Record,
    RegionChange,
    Reproduction,
    SelectionRecord,
)
from rindices.model.scale import describe_scale
from rindices.tables.layouts.region_names import label_regions, split_region_label
from rindices.wording import FEATURE_UNIT

MAX_LISTED_REGIONS = 10
"""Largest changes of a pattern that its finding lists; ``patterns.tsv`` has all."""
MAX_NAMED_STRUCTURES = 3
"""Structures that a sentence about a pattern names."""
MIN_ORDER_ERRORS = 7.2
"""Standard errors by which staged patterns must be ahead of proportional ones before an
order of regions is interpreted.

The error is that of five folds, and t with four degrees of freedom exceeds 7.2 by
chance once in a thousand. A study of ``benchmarks/sentences.py`` in which all regions
change together and patients have outlying measurements reached 5.1. R-indices of staged
patterns are as accurate or more accurate either way.
"""
SHAPES = ("proportional", "staged", "interacting")
"""Shapes of patterns, the simpler ones first."""


class GroupCounts(Record):
    """Numbers of controls and of patients.

    Attributes
    ----------
    controls : int
    patients : int
    """

    controls: int
    patients: int

    @property
    def total(self) -> int:
        """Of both groups."""
        return self.controls + self.patients


class Estimate(Record):
    """A figure with its 95 % interval; None where it is not known.

    Attributes
    ----------
    value : float
    low : float or None
    high : float or None
    """

    value: float
    low: float | None = None
    high: float | None = None


class CovariateCorrelation(Record):
    """What is left of a covariate in the R-index of the patients after the adjustment.

    Attributes
    ----------
    covariate : str
        Its name.
    correlation : float
        Rank correlation. For a covariate of several categories, the square root of
        the share of the variance of ranks between categories.
    p : float
        Two-sided p-value, not corrected.
    people : int
        Patients it is from.
    """

    covariate: str
    correlation: float
    p: float
    people: int


class ShapeAlternative(Record):
    """A shape that was fitted and refused.

    Attributes
    ----------
    shape : str
        Its name.
    log_likelihood : float
        Mean log-likelihood of held-out patients.
    gain : float
        That of the chosen shape less this one.
    gain_se : float or None
        Standard error of the gain over ensemble members, where it is known.
    """

    shape: str
    log_likelihood: float
    gain: float
    gain_se: float | None = None


class ShapeFinding(Record):
    """The shape of the patterns, as it was decided.

    Attributes
    ----------
    chosen : str
        Proportional (all regions of a pattern change together), staged (each region
        changes at its own severity) or interacting (regions change together, and
        patterns change each other).
    log_likelihood : float or None
        Mean log-likelihood of held-out patients under it.
    refused : tuple of ShapeAlternative
        The other shapes that were fitted.
    is_order_certain : bool or None
        Whether the order in which regions change is more than chance. None unless
        patterns are staged and proportional ones were fitted.
    """

    chosen: str
    log_likelihood: float | None = None
    refused: tuple[ShapeAlternative, ...] = ()
    is_order_certain: bool | None = None


class PatternFinding(Record):
    """What is known of a pattern, or of the index of a mean difference.

    Attributes
    ----------
    name : str
        ``r1`` to ``rM``.
    regions : tuple of RegionChange
        The largest changes whose 95 % interval excludes 0, largest first, each with
        its own sign. Where there are no intervals, the largest changes.
    n_certain : int or None
        Regions whose interval excludes 0. None without intervals.
    n_regions : int
        R.
    reproducibility : Estimate
        Rank correlation of R-indices from two halves of the people.
    verdict : str
        What it says.
    auc : Estimate or None
        Probability that a patient has a higher R-index than a control.
    prevalence : Estimate or None
        Share of patients above the 95th percentile of controls, less the share that
        chance gives.
    is_cross_fitted : bool
        Whether these figures are of members that have not seen the person.
    seed_change : float or None
        Root mean square change of an R-index with another seed.
    covariates : tuple of CovariateCorrelation
        What is left of each covariate in the patients.
    artefact : str
        Why it looks like an artefact.
    """

    name: str
    regions: tuple[RegionChange, ...]
    n_certain: int | None
    n_regions: int
    reproducibility: Estimate
    verdict: str
    auc: Estimate | None = None
    prevalence: Estimate | None = None
    is_cross_fitted: bool = True
    seed_change: float | None = None
    covariates: tuple[CovariateCorrelation, ...] = ()
    artefact: str = ""

    @property
    def named_regions(self) -> "list[DirectionGroup]":
        """The largest changes as a sentence names them; see `group_regions`."""
        return group_regions(self.regions)

    @property
    def structures(self) -> list[str]:
        """Structures with the largest changes, without their sides."""
        return list(dict.fromkeys(each.structure for each in self.regions))[
            :MAX_NAMED_STRUCTURES
        ]


class OutlyingFinding(Record):
    """Measurements that do not fit the other regions of their participant, by group.

    Attributes
    ----------
    measurements : GroupCounts
    participants : GroupCounts
    """

    measurements: GroupCounts
    participants: GroupCounts


class CountedPeople(NamedTuple):
    """Numbers of participants, of scans where participants have several, and of
    outlying measurements, by group.

    Attributes
    ----------
    participants : GroupCounts or None
    scans : GroupCounts or None
    outlying : OutlyingFinding or None
    """

    participants: GroupCounts | None = None
    scans: GroupCounts | None = None
    outlying: OutlyingFinding | None = None


class StudyFindings(Record):
    """What a study found: content of ``findings.json``.

    Attributes
    ----------
    finding : str
        ``no_difference``, ``mean_difference`` or ``patterns``.
    n_patterns : int
        Number of R-indices, 0 without a model.
    n_by_test : int
        Number of directions that the permutation test found.
    decided_by : str
        What the number was chosen by, ``asked``, ``likelihood`` or ``agreement``.
    method : str
        How members were trained.
    participants : GroupCounts or None
        Of each group.
    scans : GroupCounts or None
        Of each group, where people have several.
    difference : DifferenceRecord
        The test of any difference.
    level : float
        Of the tests. is_difference: whether a difference was detected.
    shape : ShapeFinding or None
        None for methods without shapes.
    agreement : AgreementRecord or None
        Of ensemble members or of halves.
    agreement_between : str
        Of ensemble members or of halves.
    agreement_interval : OptionalInterval
        Of ensemble members or of halves.
    members_trained, members_used : int
        Numbers of ensemble members.
    patterns : tuple of PatternFinding
        One for each R-index.
    outlying : OutlyingFinding or None
        None where none were found.
    artefacts : tuple of ArtefactRecord
        Signs of an artefact.
    scale : str
        One sentence on the scale of the R-indices. Doubt: why a study with patterns
        should not be relied on, or empty.
    """

    finding: str
    n_patterns: int
    n_by_test: int
    decided_by: str
    method: str
    participants: GroupCounts | None
    scans: GroupCounts | None
    difference: DifferenceRecord
    level: float
    shape: ShapeFinding | None = None
    agreement: AgreementRecord | None = None
    agreement_between: str = ""
    agreement_interval: OptionalInterval = (None, None)
    members_trained: int = 0
    members_used: int = 0
    patterns: tuple[PatternFinding, ...] = ()
    outlying: OutlyingFinding | None = None
    artefacts: tuple[ArtefactRecord, ...] = ()
    scale: str = ""

    @property
    def is_difference(self) -> bool:
        """Whether the tests detected a difference between patients and controls."""
        return self.difference.p <= self.level

    @property
    def n_reached(self) -> int:
        """Permutations of the labels under which the groups differ as much
        as they do.
        """
        return round(self.difference.p * (self.difference.permutations + 1)) - 1


class DirectionGroup(NamedTuple):
    """Structures that change in one direction: ``loss`` or ``gain``, and each with the
    changes of its sides.

    Attributes
    ----------
    direction : str
    structures : list of tuple
    """

    direction: str
    structures: list[tuple[str, list[RegionChange]]]


def group_regions(
    regions: Sequence[RegionChange], most: int = MAX_NAMED_STRUCTURES
) -> list[DirectionGroup]:
    """Return the changes of the structures with the largest changes, the direction of
    the largest one first.

    A structure whose sides change in opposite directions is named under both.
    """
    named = list(dict.fromkeys(each.structure for each in regions))[:most]
    groups: dict[str, dict[str, list[RegionChange]]] = {}
    for each in regions:
        if each.structure in named:
            groups.setdefault(each.direction, {}).setdefault(each.structure, []).append(
                each
            )
    return [
        DirectionGroup(direction, list(structures.items()))
        for direction, structures in groups.items()
    ]


def collect_findings(
    model: ModelContent | None,
    selection: SelectionRecord,
    *,
    people: CountedPeople,
    artefacts: Sequence[ArtefactRecord] = (),
    covariates: Mapping[str, Sequence[CovariateCorrelation]] | None = None,
) -> StudyFindings:
    """Return the findings of a study.

    Parameters
    ----------
    model : ModelContent or None
        None for a study that ends without a model.
    selection : SelectionRecord
        What was tested, compared and chosen.
    people : CountedPeople
        Numbers of participants, scans and outlying measurements.
    artefacts : sequence of ArtefactRecord
        Signs of an artefact.
    covariates : mapping, optional
        What is left of covariates in each R-index, by its name.

    Returns
    -------
    StudyFindings
    """
    chosen, number, is_mean_difference = (
        selection.chosen,
        selection.number_of_patterns,
        False,
    )
    common: dict[str, Any] = {
        "finding": selection.finding,
        "n_by_test": number.by_test,
        **people._asdict(),
        "difference": selection.difference,
        "level": number.test.level,
        "artefacts": tuple(artefacts),
    }
    if model is None or chosen is None:
        return StudyFindings(n_patterns=0, decided_by="", method="", **common)
    is_mean_difference = selection.finding == "mean_difference"
    shape = describe_shape(chosen.held_out)
    if artefacts and shape is not None and shape.is_order_certain:
        shape = shape.model_copy(update={"is_order_certain": False})
    decided_by = (
        ""
        if is_mean_difference
        else "asked"
        if number.forced is not None
        else number.decided_by
    )
    return StudyFindings(
        n_patterns=model.n_patterns,
        decided_by=decided_by or ("" if is_mean_difference else "agreement"),
        method="" if model.card.method is None else model.card.method.name,
        shape=shape,
        agreement=chosen.agreement,
        agreement_between=chosen.agreement_between,
        agreement_interval=chosen.concordance_interval,
        members_trained=chosen.members.trained,
        members_used=len(model.heads),
        patterns=describe_patterns(
            model, selection.patterns, artefacts, covariates or {}
        ),
        scale=describe_scale(model),
        **common,
    )


def describe_shape(held_out: HeldOutLikelihoodRecord | None) -> ShapeFinding | None:
    """Return the shape that a study chose, and the others; None for methods without
    shapes.
    """
    if held_out is None:
        return None
    values = {
        shape: value
        for shape in SHAPES
        if (value := getattr(held_out, shape)) is not None
    }
    own, refused = values.pop(held_out.shape, None), []
    for shape, value in values.items() if own is not None else ():
        error = (
            held_out.staged_gain_se
            if {shape, held_out.shape} == {"proportional", "staged"}
            else None
        )
        refused.append(
            ShapeAlternative(
                shape=shape, log_likelihood=value, gain=own - value, gain_se=error
            )
        )
    is_certain = None
    if held_out.shape == "staged" and own is not None and "proportional" in values:
        error = held_out.staged_gain_se
        is_certain = (
            error is None or own - values["proportional"] >= MIN_ORDER_ERRORS * error
        )
    return ShapeFinding(
        chosen=held_out.shape,
        log_likelihood=own,
        refused=tuple(refused),
        is_order_certain=is_certain,
    )


def describe_patterns(
    model: ModelContent,
    evidence: Sequence[PatternRecord],
    artefacts: Sequence[ArtefactRecord] = (),
    covariates: Mapping[str, Sequence[CovariateCorrelation]] | None = None,
) -> tuple[PatternFinding, ...]:
    """Return the findings of patterns, from the record of each; empty where their
    evidence is not known.
    """
    regions = list_region_changes(model)
    return tuple(
        make_pattern_finding(
            record,
            regions[record.name],
            artefacts,
            (covariates or {}).get(record.name, ()),
        )
        for record in evidence
    )


def _estimate(value: float, interval: tuple[float, float] | None) -> Estimate:
    """Return a figure with its interval."""
    low, high = interval or (None, None)
    return Estimate(value=value, low=low, high=high)


def make_pattern_finding(
    record: PatternRecord,
    changes: Sequence[RegionChange],
    artefacts: Sequence[ArtefactRecord] = (),
    covariates: Sequence[CovariateCorrelation] = (),
) -> PatternFinding:
    """Return the finding of one pattern.

    Parameters
    ----------
    record : PatternRecord
        How well it is reproduced, and how it separates the groups.
    changes : sequence of RegionChange
        Of all regions at full severity, the largest first. An artefact without
        names of patterns concerns all of them.
    """
    has_intervals = all(each.low is not None for each in changes)
    certain = [each for each in changes if each.is_certain]
    signs = [
        each.what
        for each in artefacts
        if not each.patterns or record.name in each.patterns
    ]
    return PatternFinding(
        name=record.name,
        regions=tuple(
            (certain if has_intervals else list(changes))[:MAX_LISTED_REGIONS]
        ),
        n_certain=len(certain) if has_intervals else None,
        n_regions=len(changes),
        reproducibility=_estimate(record.split_half, record.split_half_interval),
        verdict=str(Reproduction.ARTEFACT if signs else record.reproduction),
        auc=None if record.auc is None else _estimate(record.auc, record.auc_interval),
        prevalence=_estimate(record.carriers, record.carriers_interval),
        is_cross_fitted=not record.in_sample,
        seed_change=record.seed_change,
        covariates=tuple(covariates),
        artefact=signs[0] if signs else record.artefact,
    )


def list_region_changes(model: ModelContent) -> dict[str, list[RegionChange]]:
    """Return the change of all regions at full severity by the name of the R-index, the
    largest first.
    """
    table = make_change_table(model, levels=(1.0,))
    labels = dict(zip(model.regions, model.regions, strict=True))
    if model.card.unit != FEATURE_UNIT:
        labels = label_regions(model.regions)
    table = table.reindex(
        table["change"].abs().sort_values(ascending=False, kind="stable").index
    )
    return {
        name: [
            RegionChange(
                region=row.region,
                label=labels[row.region],
                structure=labels[row.region]
                if model.card.unit == FEATURE_UNIT
                else split_region_label(labels[row.region])[0],
                change=float(row.change),
                low=None if np.isnan(row.low) else float(row.low),
                high=None if np.isnan(row.high) else float(row.high),
            )
            for row in table[table["pattern"] == name].itertuples()
        ]
        for name in model.index_names
    }
