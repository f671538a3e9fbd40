"""Figures by which artefacts in a fitted study are recognised: shifts of blocks, their
sides, R-indices by site.

A block is a group, a site, or a group at a site. Shifts are of logarithms, so a
constant factor moves all regions alike, while disease and ageing move some regions much
more than others.

Shape letters: N people, R regions, K sites, P pairs of regions, M patterns.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.preprocess.residualise import (
    build_complete_design,
    derive_codings,
    find_head_size_columns,
    is_head_size,
)
from rindices.tables.cohort import ID, SITE, Cohort
from rindices.tables.layouts.freesurfer import infer_measure
from rindices.tables.layouts.sides import pair_sides
from rindices.wording import FEATURE_UNIT

MIN_BLOCK_SIZE = 8
"""People of a block below which it is not compared with others."""
MIN_REGIONS = 8
"""Regions, or pairs of regions, below which nothing is said about all of them."""
_CLIP = (
    2.5  # standard deviations at which single people are clipped before means are taken
)
# half-width of the densest half of normal errors of unequal size, in units of the
# median error
_NOISE_WIDTH = 0.94
# mean of a feature, in standard deviations, from which a factor can be told from a
# shift
_MIN_MEAN = 3.0
_MAX_RATIO = (
    4.0  # differences between sides are clipped at this multiple of their median size
)
# added to variances before people are made uncorrelated, as a share of their mean
_RIDGE = 0.1
_EPSILON = 1e-12


class Block(NamedTuple):
    """A group of people that is compared with others.

    Attributes
    ----------
    site : int or None
        Position of a site. None means all sites.
    patients : bool or None
        True for patients, False for controls. None means both.
    """

    site: int | None = None
    patients: bool | None = None


@dataclass(frozen=True, kw_only=True)
class Shift:
    """Difference of a block from other people in all regions of one measure, as
    logarithms of ratios.

    Attributes
    ----------
    block : Block
        The people.
    measure : str
        The measure.
    by_head_size : bool
        Whether regions were adjusted for head size.
    shift : float
        Shift of the block. Between groups it is the centre of the densest half of the
        regions, because disease moves the others further. Between sites it is the
        median of all regions.
    spread : float
        Half-width of the densest half, without sampling error.
    low, high : float
        Range of the middle four fifths of the regions.
    error : float
        Standard error of a shift that all regions share.
    """

    block: Block
    measure: str
    by_head_size: bool
    shift: float
    spread: float
    low: float
    high: float
    error: float


@dataclass(frozen=True, kw_only=True)
class SideAgreement:
    """Whether left and right of a block are those of other people.

    Both figures are negative where the sides are swapped.

    Attributes
    ----------
    block : Block
        The people.
    correlation : float
        Correlation of the mean differences between the two sides with those of other
        people.
    z : float
        Evidence of this correlation and of how these differences depend on the size of
        regions, in standard errors.
    pairs : int
        Number of pairs of regions.
    """

    block: Block
    correlation: float
    z: float
    pairs: int


@dataclass(frozen=True, kw_only=True)
class SiteContrast:
    """Difference in an R-index between patients and controls at a site and at all
    others.

    Differences and errors are in standard deviations of the controls.

    Attributes
    ----------
    site : int
        Position of the site.
    pattern : int
        Position of the R-index.
    here : float
        Difference at the site.
    here_error : float
        Its standard error.
    elsewhere : float
        Difference at the other sites.
    elsewhere_error : float
        Its standard error.
    patients_here : int
        Patients at the site.
    patients_elsewhere : int
        Patients at the other sites.
    """

    site: int
    pattern: int
    here: float
    here_error: float
    elsewhere: float
    elsewhere_error: float
    patients_here: int
    patients_elsewhere: int


@dataclass(frozen=True, eq=False, kw_only=True)
class BlockValues:
    """People as blocks are compared.

    Attributes
    ----------
    ids : tuple of str
        IDs of the N people.
    adjusted : tuple of ndarray
        Values (N, R) without effects of all covariates but head size, and then, if head
        size is among them, of all covariates.
    head_size : ndarray of shape (N,) or None
        Logarithm of head size without effects of the other covariates.
    is_log : ndarray of shape (R,)
        Regions whose values are logarithms, because all of them are positive.
    has_ratio : ndarray of shape (R,)
        These regions, and those whose values are relative to the mean of controls.
        Others, such as z-scores, have a mean near 0, which a factor hardly moves.
    patient : ndarray of shape (N,)
        Whether a person is a patient.
    site : ndarray of shape (N,)
        Position in ``sites``.
    sites : tuple of str
        Names of the sites.
    measures : tuple of str
        What each region measures. Empty for features of any kind.
    regions : tuple of str
        Names of the R regions.
    """

    ids: tuple[str, ...]
    adjusted: tuple[FloatArray, ...]
    head_size: FloatArray | None
    is_log: BoolArray
    has_ratio: BoolArray
    patient: BoolArray
    site: IntArray
    sites: tuple[str, ...]
    measures: tuple[str, ...]
    regions: tuple[str, ...]

    @classmethod
    def of(cls, cohort: Cohort) -> Self:
        """Return the values of controls and patients of a cohort; missing cells are
        those of a typical person.
        """
        cohort = cohort.take(cohort.is_control | cohort.is_patient)
        labels = (
            cohort.people[SITE].astype(str)
            if SITE in cohort.people
            else [""] * len(cohort)
        )
        sites, site = np.unique(np.asarray(labels, dtype=str), return_inverse=True)
        patient = cohort.is_patient
        cells = 2 * site + patient
        values = _fill_typical(cohort.volumes.to_numpy(dtype=float), cells)
        measures = [_name_measure(region, cohort.unit) for region in cohort.regions]
        is_log: BoolArray = np.all(values > 0, axis=0)
        mean, sd = values[~patient].mean(axis=0), values[~patient].std(axis=0)
        has_ratio = is_log | (np.abs(mean) >= np.maximum(_MIN_MEAN * sd, _EPSILON))
        values[:, is_log] = np.log(values[:, is_log])
        values[:, ~is_log] /= np.where(has_ratio, mean, 1.0)[~is_log]
        codings = derive_codings(cohort.covariates, log=bool(is_log.all()))
        design = build_complete_design(codings, cohort.covariates, cohort.covariates)
        is_head = find_head_size_columns(codings)
        designs = [design[:, ~is_head], *([design] if is_head.any() else [])]
        adjusted = tuple(_adjust_within(values, each, cells) for each in designs)
        head_size = _find_head_size(cohort, [coding.name for coding in codings])
        if head_size is not None:
            head_size = _adjust_within(head_size[:, None], design[:, ~is_head], cells)[
                :, 0
            ]
        return cls(
            ids=tuple(cohort.people[ID].astype(str)),
            adjusted=adjusted,
            head_size=head_size,
            is_log=is_log,
            has_ratio=has_ratio,
            patient=patient,
            site=site.astype(np.intp),
            sites=tuple(sites.tolist()),
            measures=tuple(measures),
            regions=cohort.regions,
        )

    @property
    def cells(self) -> IntArray:
        """The site and group (N,) of each person in one number: 2 * site + group."""
        cells: IntArray = 2 * self.site + self.patient.astype(np.intp)
        return cells

    @cached_property
    def counts(self) -> FloatArray:
        """Number of controls and patients (K, 2) at each site."""
        return (
            np.bincount(self.cells, minlength=2 * len(self.sites))
            .reshape(-1, 2)
            .astype(float)
        )

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """Positions of the left and the right region of each pair; features of any kind
        have no sides.
        """
        return pair_sides(self.regions) if all(self.measures) else []

    def find_people(self, block: Block) -> BoolArray:
        """Return the people (N,) of a block."""
        inside = np.ones(len(self.patient), dtype=bool)
        if block.site is not None:
            inside &= self.site == block.site
        if block.patients is not None:
            inside &= self.patient == block.patients
        return inside

    def mirror(self, block: Block) -> Self:
        """Return the same people with left and right regions of a block exchanged."""
        rows = self.find_people(block)
        left, right = (
            np.array(each, dtype=np.intp) for each in zip(*self.pairs, strict=True)
        )
        adjusted = [values.copy() for values in self.adjusted]
        for values in adjusted:
            values[np.ix_(rows, left)], values[np.ix_(rows, right)] = (
                values[np.ix_(rows, right)],
                values[np.ix_(rows, left)],
            )
        return replace(self, adjusted=tuple(adjusted))

    def find_others(self, block: Block) -> BoolArray:
        """Return the people (N,) with whom a block is compared: other sites, or the
        other group at the same sites.
        """
        if block.patients is None:
            return np.asarray(self.site != block.site)
        return self.find_people(Block(block.site, not block.patients))


def _name_measure(region: str, unit: str) -> str:
    """Return what a region measures; names alone do not always tell thickness."""
    return (
        ""
        if unit == FEATURE_UNIT
        else "thickness"
        if unit == "mm"
        else infer_measure(region)
    )


def _fill_typical(values: FloatArray, cells: IntArray) -> FloatArray:
    """Fill missing values (N, R) with the median of the person's site and group (N,),
    or else of everyone.
    """
    is_missing, filled = np.isnan(values), values.copy()
    if not is_missing.any():
        return filled
    everyone = [
        np.median(column[~mask]) if not mask.all() else 0.0
        for column, mask in zip(values.T, is_missing.T, strict=True)
    ]
    for cell in np.unique(cells[is_missing.any(axis=1)]):
        rows = np.flatnonzero(cells == cell)
        for region in np.flatnonzero(is_missing[rows].any(axis=0)):
            known = values[rows, region][~is_missing[rows, region]]
            typical = np.median(known) if len(known) else everyone[region]
            filled[rows[is_missing[rows, region]], region] = typical
    return filled


def _find_head_size(cohort: Cohort, names: Sequence[str]) -> FloatArray | None:
    """Return the logarithm (N,) of the first covariate that measures head size; None
    without one.
    """
    for name in filter(is_head_size, names):
        values = pd.to_numeric(cohort.covariates[name], errors="coerce").to_numpy(
            dtype=float
        )
        values = np.where(values > 0, values, np.nan)
        if not np.isnan(values).all():
            return np.asarray(
                np.log(np.where(np.isnan(values), np.nanmedian(values), values))
            )
    return None


def _adjust_within(
    values: FloatArray, design: FloatArray, cells: IntArray
) -> FloatArray:
    """Subtract effects of a design (N, P), estimated within sites and groups, from
    values (N, R).
    """
    if not design.shape[1]:
        return values
    slopes = np.linalg.lstsq(
        _centre_within(design, cells), _centre_within(values, cells), rcond=None
    )[0]
    return np.asarray(values - (design - design.mean(axis=0)) @ slopes)


def _centre_within(values: FloatArray, cells: IntArray) -> FloatArray:
    """Subtract the mean of each site and group from values (N, R)."""
    centred = values.copy()
    for cell in np.unique(cells):
        rows = cells == cell
        centred[rows] -= values[rows].mean(axis=0)
    return centred


class _CellMeans(NamedTuple):
    """Means of each site and group without outliers.

    Attributes
    ----------
    mean : ndarray of shape (K, 2, R)
        Mean of each site and group.
    sd : ndarray of shape (R,)
        Standard deviation within them.
    level_sd : float
        Standard deviation of people's mean level.
    """

    mean: FloatArray
    sd: FloatArray
    level_sd: float


def _compute_cell_means(values: FloatArray, people: BlockValues) -> _CellMeans:
    """Return the means of values (N, R) by site and group; NaN where there
    is nobody.
    """
    n_cells, residuals = people.counts.size, values.copy()
    centres = np.full((n_cells, values.shape[1]), np.nan)
    for cell in np.unique(people.cells):
        rows = people.cells == cell
        centres[cell] = np.median(values[rows], axis=0)
        residuals[rows] -= centres[cell]
    freedom = max(len(values) - int((people.counts > 0).sum()), 1)
    sd = np.sqrt((residuals**2).sum(axis=0) / freedom)
    clipped = np.clip(residuals, -_CLIP * sd, _CLIP * sd)
    for cell in np.unique(people.cells):
        centres[cell] += clipped[people.cells == cell].mean(axis=0)
    sd = np.sqrt((clipped**2).sum(axis=0) / freedom)
    level = np.median(residuals, axis=1)
    return _CellMeans(centres.reshape(*people.counts.shape, -1), sd, float(level.std()))


def measure_shifts(people: BlockValues) -> list[Shift]:
    """Return the shift of patients against controls, of each site against the others,
    and of groups at single sites.
    """
    shifts = []
    for position, adjusted in enumerate(people.adjusted):
        for measure in sorted(set(people.measures)):
            columns = people.has_ratio & np.array(
                [each == measure for each in people.measures]
            )
            if columns.sum() < MIN_REGIONS:
                continue
            means = _compute_cell_means(adjusted[:, columns], people)
            for block, difference, size in _compare_blocks(means.mean, people.counts):
                relative = np.log1p(np.maximum(difference, _EPSILON - 1))
                logs = np.where(people.is_log[columns], difference, relative)
                shifts.append(
                    _summarise_shift(logs, means, size, block, measure, position > 0)
                )
    return shifts


def _compare_blocks(
    mean: FloatArray, counts: FloatArray
) -> list[tuple[Block, FloatArray, float]]:
    """Return each block with its differences (R,) from the others, and the harmonic
    size of the comparison.
    """
    both = np.flatnonzero((counts >= min(MIN_BLOCK_SIZE, counts.max())).all(axis=1))
    both = both if len(both) else np.flatnonzero((counts > 1).all(axis=1))
    compared: list[tuple[Block, FloatArray, float]] = []
    within = mean[:, 1] - mean[:, 0]  # (K, R)
    weights = counts.prod(axis=1) / np.maximum(counts.sum(axis=1), 1)
    if len(both):
        effect, size = (
            weights[both] @ within[both] / weights[both].sum(),
            float(weights[both].sum()),
        )
    else:  # each site has one group
        groups = (
            np.nansum(counts[..., None] * mean, axis=0)
            / np.maximum(counts.sum(axis=0), 1)[:, None]
        )
        effect, size = (
            groups[1] - groups[0],
            float(counts.sum(axis=0).prod() / max(counts.sum(), 1)),
        )
    compared.append((Block(patients=True), effect, size))
    totals = counts.sum(axis=1)
    large = np.flatnonzero(totals >= MIN_BLOCK_SIZE)
    if len(large) > 1:
        levels = np.nansum(
            counts[..., None] * (mean - np.stack([np.zeros_like(effect), effect])),
            axis=1,
        )
        levels /= np.maximum(totals, 1)[:, None]
        for site in large:
            others = large[large != site]
            size = 1 / (1 / totals[site] + 1 / totals[others].sum())
            compared.append(
                (
                    Block(site=int(site)),
                    levels[site] - np.median(levels[others], axis=0),
                    size,
                )
            )
    if len(both) > 1:
        for site in both:
            others = both[both != site]
            rest = weights[others] @ within[others] / weights[others].sum()
            size = 1 / (1 / weights[site] + 1 / weights[others].sum())
            compared.append((Block(int(site), True), within[site] - rest, size))
    return compared


def _summarise_shift(
    logs: FloatArray,
    means: _CellMeans,
    size: float,
    block: Block,
    measure: str,
    by_head_size: bool,
) -> Shift:
    """Return the shift of a block with these differences (R,) of logarithms."""
    ordered, half = np.sort(logs), -(-len(logs) // 2)
    widths = ordered[half - 1 :] - ordered[: len(logs) - half + 1]
    start = int(np.argmin(widths))
    noise = _NOISE_WIDTH * float(np.median(means.sd)) / np.sqrt(size)
    width = float(widths[start]) / 2
    low, high = np.quantile(logs, (0.1, 0.9))
    return Shift(
        block=block,
        measure=measure,
        by_head_size=by_head_size,
        shift=float(
            np.median(
                ordered if block.site is not None else ordered[start : start + half]
            )
        ),
        spread=float(np.sqrt(max(width**2 - noise**2, (noise / 2) ** 2, _EPSILON))),
        low=float(low),
        high=float(high),
        error=float(means.level_sd / np.sqrt(size)),
    )


def measure_head_size_shift(people: BlockValues) -> Shift | None:
    """Return the shift of the head size of patients against controls; None without a
    head size.
    """
    if people.head_size is None:
        return None
    means = _compute_cell_means(people.head_size[:, None], people)
    for block, difference, size in _compare_blocks(means.mean, people.counts):
        if block == Block(patients=True):
            shift, error = float(difference[0]), float(means.sd[0] / np.sqrt(size))
            return Shift(
                block=block,
                measure="head size",
                by_head_size=False,
                shift=shift,
                spread=0.0,
                low=shift,
                high=shift,
                error=error,
            )
    return None


def measure_region_aucs(people: BlockValues) -> FloatArray:
    """Return how well each region alone separates the groups (R,): its AUC, or 1 less
    it where patients have less.
    """
    adjusted = people.adjusted[-1].copy()
    for site in range(len(people.sites)):
        rows = people.site == site
        controls = rows & ~people.patient
        adjusted[rows] -= np.median(
            adjusted[controls if controls.any() else rows], axis=0
        )
    ranks = rankdata(adjusted, axis=0)[people.patient].sum(axis=0)
    patients, controls = int(people.patient.sum()), int((~people.patient).sum())
    auc = (ranks - patients * (patients + 1) / 2) / max(patients * controls, 1)
    return np.asarray(np.maximum(auc, 1 - auc))


def measure_sides(people: BlockValues) -> list[SideAgreement]:
    """Return for each block whether its left and right regions are those of the people
    with whom it is compared.

    Two things change their sign where sides are swapped: the mean differences between
    left and right, which sites measure differently, and the covariance of these
    differences with the sizes of regions, which needs many people.
    """
    pairs = [pair for pair in people.pairs if people.is_log[list(pair)].all()]
    if len(pairs) < MIN_REGIONS:
        return []
    asymmetry, sizes = _split_sides(people.adjusted[0], pairs)
    scaled = np.clip(
        asymmetry / np.maximum(np.median(np.abs(asymmetry), axis=0), _EPSILON),
        -_MAX_RATIO,
        _MAX_RATIO,
    )
    within = _shrink_covariance(_centre_within(scaled, people.cells))
    within += _estimate_site_share(scaled, people) * np.diag(np.diag(within))
    means = scaled @ _compute_whitening(within)
    first, second = (_whiten_within(each, people) for each in (asymmetry, sizes))
    agreements = []
    for block in _list_blocks(people):
        inside, others = people.find_people(block), people.find_others(block)
        profile = (
            means[others].mean(axis=0)
            if block.patients
            else _average_sites(means, others, people)
        )
        correlation = _compute_cosine(means[inside].mean(axis=0), profile)
        here, elsewhere = (
            first[rows].T @ second[rows] / rows.sum() for rows in (inside, others)
        )
        error = np.sqrt((elsewhere**2).sum() / inside.sum())
        z = correlation * np.sqrt(len(pairs)) + float(
            (here * elsewhere).sum() / max(error, _EPSILON)
        )
        agreements.append(
            SideAgreement(
                block=block,
                correlation=correlation,
                z=float(z / np.sqrt(2)),
                pairs=len(pairs),
            )
        )
    return agreements


def _split_sides(
    values: FloatArray, pairs: list[tuple[int, int]]
) -> tuple[FloatArray, FloatArray]:
    """Return the differences of pairs (N, P), and the sums of pairs and the regions
    without a side (N, R - P).
    """
    left, right = (np.array(each) for each in zip(*pairs, strict=True))
    single = np.setdiff1d(np.arange(values.shape[1]), [*left, *right])
    return values[:, left] - values[:, right], np.column_stack(
        [values[:, left] + values[:, right], values[:, single]]
    )


def _whiten_within(values: FloatArray, people: BlockValues) -> FloatArray:
    """Return values (N, R) without means and scales of sites and groups, uncorrelated
    and with variance 1.
    """
    centred = _centre_within(values, people.cells)
    for site in range(len(people.sites)):
        rows = people.site == site
        centred[rows] /= np.maximum(centred[rows].std(axis=0), _EPSILON)
    centred = np.clip(centred, -_CLIP, _CLIP)
    whitened = centred @ _compute_whitening(_shrink_covariance(centred))
    return np.asarray(whitened / whitened.std())


def _compute_whitening(covariance: FloatArray) -> FloatArray:
    """Return the symmetric matrix (P, P) by which people become uncorrelated; weak
    directions are not inflated.
    """
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray((vectors / np.sqrt(values + _RIDGE * values.mean())) @ vectors.T)


def _average_sites(
    values: FloatArray, rows: BoolArray, people: BlockValues
) -> FloatArray:
    """Return the mean (P,) over sites of the means of some people's values (N, P);
    small sites count less.
    """
    sites = np.unique(people.site[rows])
    means = np.stack(
        [values[rows & (people.site == site)].mean(axis=0) for site in sites]
    )
    weights = np.array(
        [
            min(int((rows & (people.site == site)).sum()), MIN_BLOCK_SIZE)
            for site in sites
        ]
    )
    return np.asarray(weights @ means / weights.sum())


def _compute_cosine(first: FloatArray, second: FloatArray) -> float:
    return float(
        first
        @ second
        / max(float(np.linalg.norm(first) * np.linalg.norm(second)), _EPSILON)
    )


def _estimate_site_share(asymmetry: FloatArray, people: BlockValues) -> float:
    """Return the variance of differences between sides (N, P) between sites, as a share
    of that within sites.

    A site in which sides are swapped counts as if it were mirrored back.
    """
    sites = [
        site
        for site in range(len(people.sites))
        if people.counts[site].sum() >= MIN_BLOCK_SIZE
    ]
    if len(sites) < 2:
        return 0.0
    sizes = people.counts[sites].sum(axis=1)
    means = np.stack([asymmetry[people.site == site].mean(axis=0) for site in sites])
    axis = np.linalg.eigh(means.T @ (means * sizes[:, None]))[1][:, -1]
    aligned = means * np.where(means @ axis < 0, -1.0, 1.0)[:, None]
    variance = _centre_within(asymmetry, people.cells).var(axis=0)
    spread = aligned.var(axis=0, ddof=1) - variance * np.mean(1 / sizes)
    return max(float(np.mean(spread / np.maximum(variance, _EPSILON))), 0.0)


def _list_blocks(people: BlockValues) -> list[Block]:
    """Return the patients, the sites, and the patients of sites that can be compared
    with enough others.
    """
    blocks = [Block(patients=True)]
    if len(people.sites) > 1:
        blocks += [
            Block(site, patients)
            for patients in (None, True)
            for site in range(len(people.sites))
        ]
    sizes = [
        (people.find_people(block).sum(), people.find_others(block).sum())
        for block in blocks
    ]
    return [
        block
        for block, size in zip(blocks, sizes, strict=True)
        if min(size) >= MIN_BLOCK_SIZE
    ]


def _shrink_covariance(centred: FloatArray) -> FloatArray:
    """Return the covariance (P, P) of centred rows (N, P), shrunk to a multiple of the
    identity (Ledoit and Wolf).
    """
    number, width = centred.shape
    covariance = centred.T @ centred / number
    scale = float(np.trace(covariance)) / width
    distance = float(((covariance - scale * np.eye(width)) ** 2).sum())
    noise = float(
        ((centred**2).sum(axis=1) ** 2).sum() / number**2
        - (covariance**2).sum() / number
    )
    share = min(max(noise, 1e-3 * distance) / max(distance, _EPSILON), 1.0)
    return np.asarray((1 - share) * covariance + share * scale * np.eye(width))


def measure_site_contrasts(
    indices: FloatArray, people: BlockValues
) -> list[SiteContrast]:
    """Return how much patients exceed controls in each R-index (N, M) at each site and
    elsewhere.

    People without R-indices are left out. Controls of a site are compared where there
    are enough, else all controls.
    """
    known = ~np.isnan(indices).any(axis=1)
    contrasts = []
    for pattern in range(indices.shape[1]):
        values = indices[:, pattern]
        controls = known & ~people.patient
        sd = max(float(values[controls].std()), _EPSILON) if controls.any() else np.inf
        for site in range(len(people.sites)):
            here, elsewhere = (
                known & (people.site == site),
                known & (people.site != site),
            )
            figures = [
                _compare_groups(values, rows, people.patient, controls)
                for rows in (here, elsewhere)
            ]
            if all(each is not None for each in figures):
                (one, one_error), (rest, rest_error) = (
                    each for each in figures if each is not None
                )
                n_here, n_elsewhere = (
                    int((rows & people.patient).sum()) for rows in (here, elsewhere)
                )
                contrasts.append(
                    SiteContrast(
                        site=site,
                        pattern=pattern,
                        here=one / sd,
                        here_error=one_error / sd,
                        elsewhere=rest / sd,
                        elsewhere_error=rest_error / sd,
                        patients_here=n_here,
                        patients_elsewhere=n_elsewhere,
                    )
                )
    return contrasts


def _compare_groups(
    values: FloatArray, rows: BoolArray, patient: BoolArray, all_controls: BoolArray
) -> tuple[float, float] | None:
    """Return the difference between the means of patients and controls among some rows,
    and its standard error.
    """
    patients, controls = values[rows & patient], values[rows & ~patient]
    controls = controls if len(controls) >= MIN_BLOCK_SIZE else values[all_controls]
    if min(len(patients), len(controls)) < MIN_BLOCK_SIZE:
        return None
    error = np.sqrt(
        patients.var(ddof=1) / len(patients) + controls.var(ddof=1) / len(controls)
    )
    return float(patients.mean() - controls.mean()), float(error)
