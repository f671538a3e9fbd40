"""Fit a table to a model: regions that are sums, missing regions, and checks of the
table and of its R-indices.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce
from statistics import NormalDist

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.blocks import split_blocks
from rindices.errors import (
    ModelError,
    OffenderKind,
    Problem,
    ProblemCode,
    Severity,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.learners.outlying_measurements import CellComparison
from rindices.model.unusual import (
    RANGE_TOLERANCE,
    UnusualCount,
    label_region,
    name_range_cause,
)
from rindices.preprocess.standardise import CONTROL_MEAN, CONTROL_SD
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.checks.values import is_model_unit
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort
from rindices.wording import FEATURE_UNIT, get_nouns

MIN_INFORMATION = 0.5
"""Least share of the variance of an R-index that the measured regions must determine.
"""
_MIN_COMPARED, _MAX_INFORMATION_RANGE = (
    5,
    0.05,
)  # people of a group, site or session; range of their mean information
# of averages so near to those of training, for other people of the same population
_OWN_TABLE_CHANCE = 1e-4
# control standard deviations; beyond it, a region has another unit than in training
_MAX_MEDIAN_SHIFT = 30.0


def add_summed_regions(
    cohort: Cohort, sums: Mapping[str, Sequence[str]]
) -> tuple[Cohort, list[Problem]]:
    """Replace columns by their sums, such as left plus right; ``sums`` has the columns
    of each region.

    A sum that the table has as a column is left as it is. A sum with a missing column
    is not computed, and is reported as a missing region later. The list contains a note
    if sums were computed.
    """
    volumes = cohort.volumes
    computed = {
        region: parts
        for region, parts in sums.items()
        if region not in volumes and all(part in volumes for part in parts)
    }
    if not computed:
        return cohort, []
    used = {part for parts in computed.values() for part in parts}
    columns = {name: volumes[name].to_numpy() for name in volumes if name not in used}
    columns |= {
        region: np.sum([volumes[part] for part in parts], axis=0, dtype=float)
        for region, parts in computed.items()
    }
    names = join_names(map(label_region, computed), 3)
    note = f"{len(computed)} regions of the model are sums of the table's columns, computed here: {names}"
    problem = Problem(
        severity=Severity.NOTE, what=note, code=ProblemCode.SUMMED_REGIONS
    )
    return replace(cohort, volumes=pd.DataFrame(columns)), [problem]


def add_missing_regions(
    cohort: Cohort, regions: Sequence[str], on_missing: str
) -> tuple[Cohort, list[str]]:
    """Add empty columns for regions that a table lacks.

    Parameters
    ----------
    regions : sequence of str
        Regions of the model.
    on_missing : str
        Nothing is added unless it is ``model``.

    Returns
    -------
    cohort : Cohort
        The same if nothing is missing, if more than half is, or if it has other
        columns, which may be the regions under other names.
    absent : list of str
        The regions that were added.
    """
    absent = [name for name in regions if name not in cohort.volumes]
    has_others = len(cohort.regions) + len(absent) > len(regions)
    if (
        not absent
        or on_missing != "model"
        or has_others
        or 2 * len(absent) > len(regions)
    ):
        return cohort, []
    empty = pd.DataFrame(np.nan, index=cohort.volumes.index, columns=absent)
    return replace(cohort, volumes=pd.concat([cohort.volumes, empty], axis=1)), absent


def check_model_regions(cohort: Cohort, regions: Sequence[str], unit: str) -> None:
    """Refuse a table whose regions or unit are not those of a model.

    Parameters
    ----------
    regions : sequence of str
        Regions of the model.
    unit : str
        Unit that the model was trained on. Raises ModelError.
    """
    nouns = get_nouns(unit).regions
    missing = [name for name in regions if name not in cohort.volumes]
    extra = [name for name in cohort.regions if name not in set(regions)]
    if missing:
        hint = (
            did_you_mean(missing[0], extra)
            if extra
            else f"the model needs {len(regions)} {nouns}"
        )
        if extra and 2 * len(missing) > len(
            regions
        ):  # a similar name would be of an unrelated region
            hint = f"the model needs {len(regions)} {nouns}, and the table is of another atlas, program or measure"
        raise ModelError(
            f"{len(missing)} {nouns} are missing: {join_names(missing)} ({hint})."
        )
    if extra:
        raise ModelError(
            f"{len(extra)} columns are not {nouns} of this model: {join_names(extra)}. Leave them out: --exclude "
            f"{','.join(extra)}."
        )
    if not is_model_unit(cohort.unit, unit):
        raise ModelError(
            f"the table is in {cohort.unit}, the model was trained on {unit}: convert it."
        )


def check_scale(values: FloatArray, regions: Sequence[str], unit: str = "") -> None:
    """Refuse prepared people (N, R) of whom a region's median is far from that of the
    controls.

    Parameters
    ----------
    values : ndarray of shape (N, R)
    unit : str
        Unit that the model was trained on. Raises ModelError.
    """
    limit = _MAX_MEDIAN_SHIFT * CONTROL_SD
    # a median is far only where a value is
    highest, lowest = (
        reduced.reduce(values, axis=0, initial=CONTROL_MEAN)
        for reduced in (np.fmax, np.fmin)
    )
    is_near = (highest <= CONTROL_MEAN + limit) & (lowest >= CONTROL_MEAN - limit)
    suspects = np.flatnonzero(~is_near)
    shift = np.zeros(values.shape[1])
    # a region that nobody has counts as that of controls
    suspects = suspects[~np.isnan(values[:, suspects]).all(axis=0)]
    if suspects.size:
        medians = np.nanmedian(values[:, suspects], axis=0)
        shift[suspects] = np.abs(medians - CONTROL_MEAN) / CONTROL_SD
    shifted = np.flatnonzero(shift > _MAX_MEDIAN_SHIFT)
    if shifted.size:
        nouns = get_nouns(unit)
        one, many = f"{nouns.region} is", f"{nouns.regions} are"
        names = [f"{regions[int(index)]} ({shift[index]:.0f} sd)" for index in shifted]
        number = f"{format_count(shifted.size, one, many)} scaled differently than in training"
        raise ModelError(f"{number}: {join_names(names)}. Check their unit.")


def note_training_people(
    values: FloatArray, mean: FloatArray, sd: FloatArray
) -> list[Problem]:
    """Return a warning if the average of a table is that of the training people, nearer
    than other people would be.

    Averages of N other people differ from the training averages by about sd / sqrt(N).
    The mean over regions of the squared difference in these units is about 1 for them.
    It is distributed like chi-square over its number of degrees of freedom, which is
    below the number of regions because they are correlated.

    Parameters
    ----------
    values : (N, R)
        Prepared people, with NaN where a measurement is missing.
    mean, sd : (R,)
        Of the prepared training people.
    """
    n_cells, centre = _average_finite(values)
    is_compared = n_cells >= _MIN_COMPARED
    if not is_compared.any():
        return []
    n_cells, sd = n_cells[is_compared], sd[is_compared]
    squares = np.asarray(n_cells * np.square((centre - mean)[is_compared] / sd), float)
    # with fewer degrees of freedom than regions, averages are less surprisingly near
    if not _is_too_near(squares, float(len(squares))):
        return []
    products = _sum_products(values, centre)[np.ix_(is_compared, is_compared)]
    own_sd = np.maximum(np.sqrt(np.diag(products) / n_cells), 1e-12 * sd)
    products /= np.outer(own_sd, own_sd)
    freedom = np.trace(products) ** 2 / max(float(np.square(products).sum()), 1e-12)
    if not _is_too_near(squares, freedom):
        return []
    what = (
        "the averages of these people are those of the people whom the model was fitted to, so this is probably their "
        "table, and its R-indices are in-sample: they separate patients from controls too well"
    )
    cure = "Use the cross-fitted R-indices of the study, its r_indices.tsv"
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.TRAINING_PEOPLE,
        )
    ]


def _is_too_near(squares: FloatArray, freedom: float) -> bool:
    """Return whether the mean of squares (R,) is lower than by chance, as chi-square
    with these degrees of freedom.
    """
    # the cube root of chi-square is nearly normal (Wilson and Hilferty 1931)
    spread = 2.0 / (9.0 * freedom)
    z_score = (np.cbrt(squares.mean()) - (1.0 - spread)) / np.sqrt(spread)
    return NormalDist().cdf(float(z_score)) <= _OWN_TABLE_CHANCE


def _average_finite(values: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return the number (R,) of finite cells of people (N, R), and their mean (R,)."""
    n_cells, total = np.zeros((2, values.shape[1]))
    for block in split_blocks(values):
        sums = block.sum(axis=0)
        if np.isfinite(sums).all():
            n_cells += len(block)
            total += sums
        else:
            is_finite = np.isfinite(block)
            n_cells += np.count_nonzero(is_finite, axis=0)
            total += np.where(is_finite, block, 0.0).sum(axis=0)
    return n_cells.astype(np.intp), total / np.maximum(n_cells, 1)


def _sum_products(values: FloatArray, centre: FloatArray) -> FloatArray:
    """Return the products (R, R) of deviations of people (N, R) from their mean, which
    stands for cells that are not finite.
    """
    products = np.zeros((len(centre), len(centre)))
    for block in split_blocks(values):
        deviations = np.subtract(block, centre, order="F")
        deviations[~np.isfinite(deviations)] = 0.0
        products += deviations.T @ deviations
    return products


def relate_to_novel(
    problems: Sequence[Problem], counted: UnusualCount
) -> list[Problem]:
    """Return the problems of new people; those out of a covariate's range are said to
    be novel or not.

    The adjustment extrapolates beyond the range of controls. People are novel a little
    later, `RANGE_TOLERANCE` beyond the range of all training people.
    """
    related = []
    for problem in problems:
        if problem.code is ProblemCode.OUTSIDE_TRAINING_RANGE:
            n_far = counted.causes.get(name_range_cause(problem.subject), 0)
            of_them = f"{n_far:,} of them are" if n_far else "none of them is"
            ending = f"; {of_them} more than {RANGE_TOLERANCE:.0%} of the range outside it, which counts as outside the training range"
            problem = replace(
                problem,
                ending=ending,
                cure="Their adjustment extrapolates: read their R-indices with care",
            )
        related.append(problem)
    return related


def check_results(cohort: Cohort, columns: Sequence[FloatArray]) -> None:
    """Refuse results that are not finite, by the people who have them.

    Parameters
    ----------
    columns : sequence of ndarray of shape (N,)
        Raises ModelError.
    """
    is_finite = reduce(np.logical_and, (np.isfinite(column) for column in columns))
    if is_finite.all():
        return
    people = tuple(str(person) for person in cohort.people[ID].array[~is_finite])
    what = f"the R-indices of {format_count(len(people), 'person is not a number', 'people are not numbers')}"
    cure = "Check the values of these people; if it is everyone, the model file is damaged: get it again"
    raise ModelError(
        Problem(
            severity=Severity.ERROR,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.INFINITE_VALUES,
            offenders=people,
        )
    )


def compute_information(added: FloatArray, spread: FloatArray) -> FloatArray:
    """Return the share (N,) of the variance of the least known R-index that the
    measured regions determine.

    Parameters
    ----------
    added : ndarray of shape (N, M)
        Variance of R-indices over the possible values of missing regions.
    spread : ndarray of shape (M,)
        Variance of R-indices among the patients of the training.
    """
    return np.asarray(
        np.clip(
            1.0 - (added / np.maximum(spread, 1e-12)).max(axis=1, initial=0.0), 0.0, 1.0
        )
    )


def compare_information(indices: pd.DataFrame) -> list[Problem]:
    """Return warnings where groups, sites or sessions differ in the ``information`` of
    R-indices (N, ...).
    """
    problems = []
    for column, kind in (
        (GROUP, OffenderKind.LABEL),
        (SITE, OffenderKind.SITE),
        (SESSION, OffenderKind.LABEL),
    ):
        if column not in indices or "information" not in indices:
            continue
        by_level = indices["information"].groupby(
            indices[column].astype(str).to_numpy()
        )
        means = by_level.mean()[by_level.size() >= _MIN_COMPARED]
        if len(means) < 2 or means.max() - means.min() <= _MAX_INFORMATION_RANGE:
            continue
        noun = column.removesuffix("_id")
        what = f"missing cells leave R-indices less well measured in one {noun} than in another"
        listing = ", ".join(
            f"{level} {means[level]:.2f}" for level in (means.idxmin(), means.idxmax())
        )
        cure = f"The column information tells how well; compare each {noun} with itself, or people who lack as much"
        levels, code = (
            (str(means.idxmin()), str(means.idxmax())),
            ProblemCode.MISSING_BY_GROUP,
        )
        problems.append(
            Problem(
                severity=Severity.WARNING,
                what=what,
                where="",
                cure=cure,
                code=code,
                subject=column,
                offenders=levels,
                offender_kind=kind,
                listing=listing,
            )
        )
    return problems


def report_people_without_index(
    cohort: Cohort, is_short: BoolArray, least: float
) -> list[Problem]:
    """Return a warning that names the people (N,) who lack too many regions; none if
    there are none.
    """
    if not is_short.any():
        return []
    people = tuple(dict.fromkeys(cohort.people[ID].astype(str).array[is_short]))
    number = format_count(len(people), "person lacks", "people lack")
    regions = get_nouns(cohort.unit).regions
    what = f"{number} too many {regions}: the others determine less than {least:.0%} of an R-index"
    cure = "They are left out of the results"
    return [
        Problem(
            severity=Severity.WARNING,
            what=what,
            where="",
            cure=cure,
            code=ProblemCode.PEOPLE_WITHOUT_INDEX,
            offenders=people,
        )
    ]


def tabulate_outlying_measurements(
    cohort: Cohort, comparison: CellComparison
) -> pd.DataFrame:
    """Return ids, ``region``, ``value``, and ``expected`` by the other regions, of
    outlying measurements.
    """
    rows, columns = np.nonzero(comparison.is_wrong)
    table = (
        cohort.people[[name for name in (ID, SESSION) if name in cohort.people]]
        .iloc[rows]
        .reset_index(drop=True)
    )
    values = cohort.volumes.to_numpy(dtype=float)[rows, columns]
    regions = np.array(cohort.regions, dtype=object)[columns]
    return table.assign(
        region=regions, value=values, expected=comparison.expected[rows, columns]
    )


def _list_outlying_measurements(cells: pd.DataFrame) -> str:
    """Return which measurements of whom do not fit, and what was expected."""
    scans = cells.filter([ID, SESSION]).astype(str).agg(", session ".join, axis=1)
    columns = (cells[name] for name in ("region", "value", "expected"))
    return join_names(
        [
            f"{label_region(region)} of {scan} "
            f"({float(f'{value:.4g}'):,.10g}, expected {float(f'{expected:.3g}'):,.10g})"
            for scan, region, value, expected in zip(scans, *columns, strict=True)
        ]
    )


def report_outlying_measurements(
    cohort: Cohort,
    comparison: CellComparison,
    policy: str,
    n_cells: int | None = None,
) -> list[Problem]:
    """Return what to say about people whose row has failed, and about other wrong
    cells.

    Parameters
    ----------
    policy : str
        ``model``: they are treated as missing. ``error``: they are refused.
    n_cells : int or None
        Number of cells of the table, of which these are some people. None for all
        people.
    """
    if not comparison.is_wrong.any():
        return []
    regions, is_failed = get_nouns(cohort.unit).regions, comparison.is_failed
    is_refused, ending = policy == "error", "; treated as missing"
    severity = Severity.NOTE if comparison.is_rare(n_cells) else Severity.WARNING
    cure = "use them all the same: --on-outlier keep"
    if is_refused:
        severity, ending = Severity.ERROR, ""
        cure = "treat them as missing: --on-outlier model"
    cure = f"Check these measurements, or {cure}"
    problem = Problem(
        severity=severity,
        what="",
        where="",
        cure=cure,
        code=ProblemCode.OUTLYING_VALUES,
    )
    problems = list[Problem]()
    people = tuple(dict.fromkeys(cohort.people[ID].astype(str)[is_failed]))
    if people:
        count = format_count(len(people), "person", "people")
        what = f"{regions} of {count} do not fit together"
        failed = replace(problem, what=what, subject=ID, offenders=people)
        no_rows = "" if is_refused else "; nothing is learnt from them"
        problems.append(replace(failed, ending=no_rows))
    cells = tabulate_outlying_measurements(
        cohort, comparison._replace(is_wrong=comparison.is_wrong & ~is_failed[:, None])
    )
    if len(cells):
        offenders = tuple(dict.fromkeys(cells[ID].astype(str)))
        verb = "does" if len(cells) == 1 else "do"
        number = f"{format_count(len(cells), 'measurement')} of {format_count(len(offenders), 'participant')}"
        what = f"{number} {verb} not fit the other {regions} of the same participant"
        what += _count_by_group(cohort, cells)
        listing = _list_outlying_measurements(cells)
        single = replace(problem, what=what, offenders=offenders, listing=listing)
        problems.append(replace(single, ending=ending))
    return problems


def _count_by_group(cohort: Cohort, cells: pd.DataFrame) -> str:
    """Return in brackets how many outlying measurements belong to each group; empty
    where groups are not known.
    """
    if GROUP not in cohort.people:
        return ""
    groups = cells[ID].map(
        dict(zip(cohort.people[ID], cohort.people[GROUP], strict=True))
    )
    counts = [
        f"{int((groups == group).sum()):,} of {group}s" for group in (CONTROL, PATIENT)
    ]
    return f" ({', '.join(counts)})"


def resolve_on_outlier(
    requested: str | None, unit: str, is_imported: bool = False
) -> str:
    """Return what to do with outlying measurements: as requested, else ``model``, but
    ``keep`` for features of any kind and in imported models.
    """
    keeps = is_imported or unit == FEATURE_UNIT
    return requested or ("keep" if keeps else "model")


def note_missing(
    absent: Sequence[str], is_short: BoolArray, widening: FloatArray, unit: str
) -> list[Problem]:
    """Return what to say about missing regions and cells.

    Parameters
    ----------
    absent : sequence of str
        Regions that the table lacks.
    is_short : ndarray of shape (N,)
        Whether a person lacks a cell.
    widening : ndarray of shape (N,)
        Factor by which the intervals are wider than with all regions, a mean over
        patterns.
    unit : str
        Of the table, for the words.
    """
    if not is_short.any():
        return []
    nouns = get_nouns(unit)
    if absent:
        who, severity = (
            f"the table lacks {format_count(len(absent), nouns.region)}",
            Severity.WARNING,
        )
    else:
        who, severity = (
            f"{format_count(int(is_short.sum()), 'person lacks', 'people lack')} {nouns.regions}",
            Severity.NOTE,
        )
    wider = f"their intervals are {widening[is_short].mean() - 1:.0%} wider on average"
    what = f"{who}: R-indices come from the others, and {wider}"
    return [
        Problem(
            severity=severity,
            what=what,
            code=ProblemCode.MISSING_VALUES,
            offenders=tuple(absent),
        )
    ]
