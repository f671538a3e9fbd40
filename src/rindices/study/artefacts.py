"""Signs that what a study found is an artefact of how blocks of people were measured or
written down.

Reproducibility says nothing against an artefact: volumes of the patients in another
unit are reproduced in every half of them. The signs here are sought once a study is
fitted. Their limits were chosen on sound and altered studies, see
``benchmarks/artefact_limits.py``.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rindices._typing import FloatArray
from rindices.errors import ProblemCode
from rindices.model.records import ArtefactKind, ArtefactRecord
from rindices.study.artefact_signs import (
    Block,
    BlockValues,
    Shift,
    SideAgreement,
    SiteContrast,
    measure_head_size_shift,
    measure_region_aucs,
    measure_shifts,
    measure_sides,
    measure_site_contrasts,
)
from rindices.study.study import Study
from rindices.tables.checks.copies import MAX_COPIED_SHARE
from rindices.tables.cohort import ID, Cohort
from rindices.threads import limit_blas_threads

MAX_PEOPLE = 5_000
"""People who are looked at; more would only cost time."""
_PATIENTS = Block(patients=True)
_MEASURE_NOUNS = {
    "volume": "volumes",
    "thickness": "thicknesses",
    "area": "areas",
    "": "features",
}


@dataclass(frozen=True, kw_only=True)
class ArtefactLimits:
    """Limits beyond which a sign counts.

    Attributes
    ----------
    group_shift : float
        Logarithm of the ratio between groups. Men and women differ by 0.13 in volumes
        that are not adjusted for head size, people over 60 and under 40 by 0.18.
    group_evenness : float
        Ratio of the shift to its spread over regions.
    group_evenness_raw : float
        The same for volumes that are not adjusted for head size, in which sex and
        ageing are more even.
    large_shift, large_evenness : float
        Both for a shift that is larger than any disease of all regions.
    gain_shift, gain_evenness : float
        Both for patients whose regions are larger than those of controls, given the
        head size, as disease and ageing do not make them.
    head_size_shift : float
        Logarithm of the ratio of head sizes between groups.
    site_shift, site_z : float
        Logarithm of the ratio of a site to the others, and its size in standard errors,
        scanners' differences included.
    site_z_raw : float
        The same for volumes that are not adjusted for head size, in which sites differ
        by their people.
    site_sd : float
        Standard deviation of such shifts among sound scanners.
    cell_shift, cell_z, cell_sd : float
        The same for the difference between patients and controls of a site against that
        of other sites.
    min_z : float
        Standard errors that the shift of a group exceeds at least.
    region_auc : float
        AUC that three quarters of the regions reach by themselves.
    sides_z, sides_correlation : float
        Evidence that left and right are swapped, in standard errors, and correlation of
        the differences between sides.
    elsewhere_share : float
        Largest share of a difference at one site that other sites may have, as the
        upper end of its interval.
    one_site_z : float
        Standard errors by which the difference at one site exceeds that of others.
    """

    group_shift: float = 0.14
    group_evenness: float = 9.0
    group_evenness_raw: float = 14.0
    large_shift: float = 0.25
    large_evenness: float = 5.0
    gain_shift: float = 0.095
    gain_evenness: float = 8.0
    head_size_shift: float = 0.165
    site_shift: float = 0.12
    site_z: float = 3.3
    site_z_raw: float = 6.5
    site_sd: float = 0.035
    cell_shift: float = 0.1
    cell_z: float = 4.0
    cell_sd: float = 0.015
    min_z: float = 4.0
    region_auc: float = 0.95
    sides_z: float = 2.5
    sides_correlation: float = 0.1
    elsewhere_share: float = 1 / 3
    one_site_z: float = 5.0


LIMITS = ArtefactLimits()


@limit_blas_threads()
def find_artefacts(
    study: Study, indices: pd.DataFrame | None = None
) -> tuple[ArtefactRecord, ...]:
    """Return the signs that what a study found is an artefact.

    Parameters
    ----------
    study : Study
        The values of its table are looked at as they were read, outlying measurements
        included.
    indices : DataFrame, optional
        ``participant_id`` and the R-indices of the people of the study. Left out, for a
        study that ended without them, the signs are sought in the table alone.

    Returns
    -------
    tuple of ArtefactRecord
        Empty where there is no sign. That is not a proof: two sites that differ by a
        factor below 1.15, for instance, cannot be told from two scanners.
    """
    cohort = _limit_people(study)
    people = BlockValues.of(cohort)
    found = [*_find_uniform_ratios(people), *_find_swapped_sides(people)]
    if not any(each.block == _name_block(_PATIENTS, people) for each in found):
        found += _find_separating_regions(people)
    if indices is not None and len(people.sites) > 1:
        names = [name for name in indices if re.fullmatch(r"r\d+", str(name))]
        values = indices.set_index(ID)[names].reindex(people.ids).to_numpy(dtype=float)
        found += _find_patterns_of_one_site(
            values, names, people, {each.block for each in found}
        )
    return (*found, *_list_table_suspicions(study.cohort))


def _list_table_suspicions(cohort: Cohort) -> list[ArtefactRecord]:
    """Return what was suspicious when the table was read, but for few people who may
    stand twice.
    """
    limit = MAX_COPIED_SHARE * len(cohort)
    return [
        ArtefactRecord(kind=ArtefactKind.TABLE, block="the table", what=problem.summary)
        for problem in cohort.suspicions
        if problem.code is not ProblemCode.SUSPECT_COPIES
        or len(problem.offenders) > limit
    ]


def _limit_people(study: Study) -> Cohort:
    """Return the people of a study as they were measured, or a random part of a large
    study.
    """
    if len(study.cohort) <= MAX_PEOPLE:
        return study.cohort
    chosen = study.ordered.people[ID].iloc[:MAX_PEOPLE]  # in the order of a hash
    return study.cohort.take(study.cohort.people[ID].isin(chosen).to_numpy(dtype=bool))


def _name_block(block: Block, people: BlockValues) -> str:
    site = "" if block.site is None else f"site {people.sites[block.site]}"
    return " of ".join(filter(None, ["the patients" if block.patients else "", site]))


def _name_others(block: Block, people: BlockValues) -> str:
    """Return the people with whom a block is compared."""
    if block.patients:
        return "the controls" + ("" if block.site is None else " there")
    return (
        "the other sites"
        if len(people.sites) > 2
        else f"site {people.sites[1 - (block.site or 0)]}"
    )


def _find_uniform_ratios(people: BlockValues) -> list[ArtefactRecord]:
    """Return a record for each block and measure whose regions, or head size, are those
    of others times a factor.
    """
    strongest: dict[tuple[Block, str], Shift] = {}
    for shift in filter(is_uniform, measure_shifts(people)):
        key = (shift.block, shift.measure)
        if key not in strongest or shift.spread < strongest[key].spread:
            strongest[key] = shift
    blocks = {block for block, _ in strongest}
    shifts = [
        each for each in strongest.values() if not _is_implied(each, strongest.values())
    ]
    head_size = measure_head_size_shift(people)
    found = [_describe_shift(shift, people) for shift in shifts]
    if (
        _PATIENTS not in blocks
        and head_size is not None
        and is_head_size_shifted(head_size)
    ):
        found.append(_describe_head_size(head_size))
    return found


def is_uniform(shift: Shift, limits: ArtefactLimits = LIMITS) -> bool:
    """Return whether the shift of a block is a factor on all its regions.

    Parameters
    ----------
    shift : Shift
        Of a group, a site, or a group at a site.
    limits : ArtefactLimits

    Returns
    -------
    bool
    """
    size, evenness = abs(shift.shift), abs(shift.shift) / shift.spread
    is_raw = shift.measure == "volume" and not shift.by_head_size
    if shift.block.site is not None and shift.block.patients:
        return (
            size >= limits.cell_shift
            and compute_site_z(shift, limits.cell_sd) >= limits.cell_z
        )
    if shift.block.site is not None:
        least = limits.site_z_raw if is_raw else limits.site_z
        return (
            size >= limits.site_shift and compute_site_z(shift, limits.site_sd) >= least
        )
    if size < limits.min_z * shift.error:
        return False
    evenness_limit = limits.group_evenness_raw if is_raw else limits.group_evenness
    return (
        (size >= limits.group_shift and evenness >= evenness_limit)
        or (size >= limits.large_shift and evenness >= limits.large_evenness)
        or (
            shift.shift >= limits.gain_shift
            and evenness >= limits.gain_evenness
            and not is_raw
        )
    )


def compute_site_z(shift: Shift, natural_sd: float) -> float:
    """Return a shift in standard errors that include natural differences and a quarter
    of the spread.

    Parameters
    ----------
    shift : Shift
    natural_sd : float
        Standard deviation of shifts of sound blocks.

    Returns
    -------
    float
    """
    return float(
        abs(shift.shift)
        / np.sqrt(natural_sd**2 + shift.error**2 + (shift.spread / 4) ** 2)
    )


def is_head_size_shifted(shift: Shift, limits: ArtefactLimits = LIMITS) -> bool:
    """Return whether the head sizes of the groups differ by more than those of people
    do.

    Parameters
    ----------
    shift : Shift
    limits : ArtefactLimits

    Returns
    -------
    bool
    """
    return abs(shift.shift) >= max(limits.head_size_shift, limits.min_z * shift.error)


def _is_implied(shift: Shift, others: Iterable[Shift]) -> bool:
    """Whether a shift follows from another one, and not the other way round.

    A factor on the patients of a site moves the whole site and all patients, and makes
    other sites look shifted the other way.
    """
    same = [
        each
        for each in others
        if each.measure == shift.measure and each.block != shift.block
    ]
    of_cells = [
        each for each in same if each.block.site is not None and each.block.patients
    ]
    if shift.block.site is None:
        return any(abs(each.shift) > abs(shift.shift) for each in of_cells)
    if not shift.block.patients and any(
        each.block.site == shift.block.site for each in of_cells
    ):
        return True
    size = (abs(shift.shift), -shift.block.site)
    return any(
        (abs(each.shift), -each.block.site) > size
        for each in same
        if each.block.site is not None
        and each.block.patients == shift.block.patients
        and each.shift * shift.shift < 0
    )


def _describe_shift(shift: Shift, people: BlockValues) -> ArtefactRecord:
    noun = _MEASURE_NOUNS.get(shift.measure, "values")
    ratio, ends = float(np.exp(shift.shift)), np.exp([shift.low, shift.high]).tolist()
    block, others = _name_block(shift.block, people), _name_others(shift.block, people)
    regions = "regions" if shift.measure else "features"
    middle = f"{_format_ratio(ends[0])} to {_format_ratio(ends[1])} in four fifths of the {regions}"
    place = f"of {block}" if shift.block.patients else f"at {block}"
    what = f"{noun} {place} are {_format_ratio(ratio)} times those {place[:2]} {others} nearly throughout ({middle}): "
    if shift.block.site is not None and shift.block.patients:
        what = f"at site {people.sites[shift.block.site]}, {noun} of the patients are {_format_ratio(ratio)} times "
        what += f"what other sites lead to expect from its controls, nearly throughout ({middle}): "
    figures = {
        "ratio": ratio,
        "low": ends[0],
        "high": ends[1],
        "people": float(people.find_people(shift.block).sum()),
    }
    return ArtefactRecord(
        kind=ArtefactKind.UNIFORM_RATIO,
        block=block,
        what=what + _name_cause(ratio, shift.measure),
        figures=figures,
    )


def _describe_head_size(shift: Shift) -> ArtefactRecord:
    ratio = float(np.exp(shift.shift))
    what = f"the head size of the patients is {_format_ratio(ratio)} times that of the controls: "
    what += "in another unit, or measured by another program?"
    return ArtefactRecord(
        kind=ArtefactKind.UNIFORM_RATIO,
        block="the patients",
        what=what,
        figures={"head_size_ratio": ratio},
    )


def _name_cause(ratio: float, measure: str) -> str:
    """Return what usually causes a ratio between blocks."""
    power = np.log10(max(ratio, 1 / ratio))
    if abs(power - np.round(power)) < 0.05 and power > 0.5:
        return "in another unit?"
    if measure == "volume":
        return "in voxels or another unit, divided by head size, or measured by another program?"
    return (
        "in another unit, or measured by another program?"
        if measure
        else "in another unit, or of another assay?"
    )


def _format_ratio(ratio: float) -> str:
    return (
        f"{ratio:.2g}"
        if ratio < 0.1
        else f"{ratio:.2f}"
        if ratio < 10
        else f"{ratio:,.0f}"
    )


def _find_swapped_sides(people: BlockValues) -> list[ArtefactRecord]:
    """Return a record for each block whose left and right regions are swapped, the
    clearest first.
    """
    found: list[ArtefactRecord] = []
    for _ in (
        people.sites
    ):  # each block that was found is mirrored before others are looked at
        agreements = [each for each in measure_sides(people) if is_swapped(each)]
        if not agreements:
            break
        groups = [each for each in agreements if each.block == _PATIENTS]
        clearest = min(groups or agreements, key=lambda each: each.z)
        found.append(_describe_sides(clearest, people))
        people = people.mirror(clearest.block)
    return found


def is_swapped(agreement: SideAgreement, limits: ArtefactLimits = LIMITS) -> bool:
    """Return whether left and right of a block are those of others swapped.

    Parameters
    ----------
    agreement : SideAgreement
    limits : ArtefactLimits

    Returns
    -------
    bool
    """
    return (
        agreement.z <= -limits.sides_z
        and agreement.correlation <= -limits.sides_correlation
    )


def _describe_sides(agreement: SideAgreement, people: BlockValues) -> ArtefactRecord:
    block, others = (
        _name_block(agreement.block, people),
        _name_others(agreement.block, people),
    )
    preposition = "in" if agreement.block.patients else "at"
    what = (
        f"left and right are swapped {preposition} {block} or {preposition} {others}: differences between the sides of "
        f"{agreement.pairs} pairs of regions are each other's mirror image (correlation {agreement.correlation:.2f}, "
        f"{-agreement.z:.0f} standard errors below 0)"
    )
    return ArtefactRecord(
        kind=ArtefactKind.SIDES_SWAPPED,
        block=block,
        what=what,
        figures={
            "correlation": agreement.correlation,
            "z": agreement.z,
            "pairs": float(agreement.pairs),
        },
    )


def _find_separating_regions(people: BlockValues) -> list[ArtefactRecord]:
    """Return a record if three quarters of the regions separate patients from controls
    almost by themselves.
    """
    aucs = measure_region_aucs(people)
    quartile = float(np.quantile(aucs, 0.25)) if len(aucs) else 0.5
    if quartile < LIMITS.region_auc:
        return []
    regions = "regions" if all(people.measures) else "features"
    what = (
        f"three quarters of the {regions} separate the patients from the controls almost by themselves (AUC "
        f"{quartile:.2f} and more): measured with another scanner or program, or in another batch?"
    )
    figures = {"lower_quartile_auc": quartile, "median_auc": float(np.median(aucs))}
    return [
        ArtefactRecord(
            kind=ArtefactKind.ALL_REGIONS,
            block="the patients",
            what=what,
            figures=figures,
        )
    ]


def _find_patterns_of_one_site(
    indices: FloatArray, names: list[str], people: BlockValues, named: set[str]
) -> list[ArtefactRecord]:
    """Return a record for each R-index (N, M) that distinguishes the patients of one
    site far more than others.

    A sign at the same site that was found before (``named``) explains it.
    """
    found = []
    for contrast in filter(is_of_one_site, measure_site_contrasts(indices, people)):
        blocks = {
            _name_block(Block(contrast.site, patients=patients), people)
            for patients in (None, True)
        }
        if not blocks & named:
            found.append(_describe_contrast(contrast, names[contrast.pattern], people))
    return found


def is_of_one_site(contrast: SiteContrast, limits: ArtefactLimits = LIMITS) -> bool:
    """Return whether patients exceed controls at one site and, as far as can be told,
    not elsewhere.

    Parameters
    ----------
    contrast : SiteContrast
    limits : ArtefactLimits

    Returns
    -------
    bool
    """
    highest = contrast.elsewhere + 1.64 * contrast.elsewhere_error
    return (
        compute_contrast_z(contrast) >= limits.one_site_z
        and highest <= limits.elsewhere_share * contrast.here
    )


def compute_contrast_z(contrast: SiteContrast) -> float:
    """Return by how many standard errors the difference at a site exceeds that of other
    sites.

    Parameters
    ----------
    contrast : SiteContrast

    Returns
    -------
    float
    """
    error = np.hypot(contrast.here_error, contrast.elsewhere_error)
    return float((contrast.here - contrast.elsewhere) / max(error, 1e-12))


def _describe_contrast(
    contrast: SiteContrast, name: str, people: BlockValues
) -> ArtefactRecord:
    block = _name_block(Block(contrast.site, patients=True), people)
    what = (
        f"{name} distinguishes {block} far more than those of other sites: they exceed controls by "
        f"{contrast.here:.1f} standard deviations there ({contrast.patients_here} patients) and by "
        f"{contrast.elsewhere:.1f} elsewhere ({contrast.patients_elsewhere} patients): another scanner or sequence, "
        "or other patients?"
    )
    figures = {
        "here": contrast.here,
        "elsewhere": contrast.elsewhere,
        "patients_here": float(contrast.patients_here),
        "patients_elsewhere": float(contrast.patients_elsewhere),
    }
    return ArtefactRecord(
        kind=ArtefactKind.ONE_SITE,
        block=block,
        patterns=(name,),
        what=what,
        figures=figures,
    )
