"""Change of R-indices per year from repeat visits: of persons, of groups, of people
without change, and in a trial.

A person's change is the slope of a straight line through the visits. The interval of an
R-index (`model.intervals`) does not apply to it: most of that error comes from the
person's anatomy and is the same at every visit. The error of a slope comes from the
variation between visits, which is estimated from the visits themselves. A mixed model
shrinks slopes towards the mean of their group (`slopes`). Shape letters: N people, V
visits, M R-indices, P covariate columns.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri, stdtr, stdtrit

import rindices.analysis.slopes as slopes
import rindices.analysis.tidy as tidy
from rindices._typing import AnyArray, BoolArray, FloatArray
from rindices.analysis.scanner_change import ScannerEffects, estimate_scanner_effects
from rindices.errors import (
    AnalysisError,
    Findings,
    InputError,
    ProblemCode,
    format_count,
    join_names,
    name_arguments,
)
from rindices.one_line import ShownInOneLine
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, MAX_YEARS_BETWEEN_VISITS, SESSION
from rindices.tables.layouts.column_names import SITE_NAMES, find_column

NOMINAL_COVERAGE = 0.9
_MIN_GROUP_SIZE = 3
_EVERYONE = "all"
_COMPACT_DATES = 19000101, 21001231  # dates as DICOM has them


@dataclass(frozen=True, kw_only=True)
class TrialDesign:
    """A trial with two equal arms.

    Attributes
    ----------
    slowing : float
        Share of the yearly change that the treatment prevents.
    power : float
        Probability of detecting it.
    years : float
        Duration of the trial.
    visits : int
        Number of visits of each person, equally spaced.
    """

    slowing: float = 0.3
    power: float = 0.8
    years: float = 2.0
    visits: int = 5


@dataclass(frozen=True, kw_only=True, repr=False)
class YearlyChange(ShownInOneLine):
    """Change of R-indices per year.

    The columns of its tables are described in ``columns.toml``.

    Attributes
    ----------
    table : DataFrame
        One row per person with two visits or more.
    visits : DataFrame
        The visits that were used, with ``years`` since the person's first visit.
    names : list of str
        Names of the M R-indices.
    noise : ndarray of shape (M,)
        Standard deviation of an R-index between visits, about the person's line.
    freedom : int
        Degrees of freedom of the noise.
    noise_from_residuals : bool
        Whether the noise is estimated from residuals about each person's line.
        Otherwise it comes from the slopes of people, and is too large if people truly
        differ.
    trial : DataFrame
        One row per R-index with the number of people per arm.
    groups : DataFrame or None
        One row per R-index with the slopes of controls and patients and their
        difference. None without groups.
    retest : DataFrame or None
        One row per R-index with the retest error. None without groups.
    scanners : DataFrame or None
        One row per R-index and scanner with its effect, which is removed. None without
        a column of scanners, or where nobody changed scanner.
    problems : Findings
        Warnings and notes for the user.
    """

    table: pd.DataFrame
    visits: pd.DataFrame
    names: list[str]
    noise: FloatArray
    freedom: int
    noise_from_residuals: bool
    trial: pd.DataFrame
    groups: pd.DataFrame | None
    retest: pd.DataFrame | None
    scanners: pd.DataFrame | None = None
    problems: Findings

    def summary(self) -> dict[str, Any]:
        """Return the change over all people, as plain values for JSON."""
        indices = {
            name: {
                "mean_per_year": float(self.table[f"{name}_per_year"].mean()),
                "above_zero": int((self.table[f"{name}_per_year_low"] > 0).sum()),
                "below_zero": int((self.table[f"{name}_per_year_high"] < 0).sum()),
                "noise_of_a_visit": float(noise),
            }
            for name, noise in zip(self.names, self.noise, strict=True)
        }
        sizes = {
            "people": len(self.table),
            "visits": int(self.table["visits"].sum()),
            "interval": NOMINAL_COVERAGE,
        }
        source = (
            "scatter about lines"
            if self.noise_from_residuals
            else "spread of slopes between people"
        )
        return sizes | {"indices": indices, "noise_from": source}


@name_arguments()
def change_per_year(
    visits: pd.DataFrame,
    time: str,
    *,
    covariates: Sequence[str] = (),
    scanner: str | None = None,
    trial: TrialDesign | None = None,
    missing_codes: Sequence[str] = (),
) -> YearlyChange:
    """Return the change of each R-index per year.

    Parameters
    ----------
    visits : DataFrame
        One row per visit: ``participant_id``, r1, r2, ..., the time, the covariates
        and, to compare groups, ``group`` with the labels control and patient.
    time : str
        Column of the time: years as a number (age, years since the first visit) or a
        date.
    covariates : sequence of str
        Columns that levels and slopes are adjusted for when groups are compared, as
        they are at the first visit.
    scanner : str, optional
        Column of the scanner of each visit. Its effect is estimated as a random effect
        from people who changed scanner between visits, and removed; its uncertainty
        widens the intervals of slopes. Where the change of scanner follows from the
        time, it is refused.
    trial : TrialDesign, optional
        By default a trial of two years with five visits that is to detect a slowing by
        30 % with a power of 80 %.
    missing_codes : sequence of str
        Values of time and covariates that stand for missing, such as -9999; ``none`` if
        there are none.

    Returns
    -------
    YearlyChange
        Changes per year, their errors and a plan of trials.

    Raises
    ------
    AnalysisError
        If columns are missing, a group is too small, or the time seems to hold codes
        for missing that were not named.
    InputError
        If visits are duplicated, or nobody has two visits at different times.
    """
    findings, names = Findings(), tidy.find_index_columns(visits)
    visits = _exclude_missing_codes(visits, time, covariates, scanner, missing_codes)
    visits, years = _select_usable_visits(
        visits, _convert_to_years(visits[time]), names, scanner, findings
    )
    measured = _measure(visits, years, names)
    people = _tabulate_people(visits, measured, names)
    labels = people[GROUP].to_numpy()
    _check_repeated(measured.lines.is_repeated, labels, findings)
    measured, scanners, scanner_table = _remove_scanners(
        measured, visits, scanner, labels, findings
    )
    people = _tabulate_people(visits, measured, names)
    visit_noise = _estimate_visit_noise(measured.lines, findings)
    noise, freedom, from_residuals = visit_noise
    groups = retest = None
    if GROUP in visits:
        retest = slopes.estimate_retest_error(
            measured.take(labels == CONTROL)
        ).set_axis(pd.Index(names, name="index"))
    estimated, table = _estimate_by_group(
        measured, people, names, visit_noise, retest, scanners
    )
    _report_two_stages(estimated, names, findings)
    if retest is not None:
        retest = _count_beyond_noise(retest, table, names)
        first_visits = visits[~visits[ID].duplicated()]
        at_first_visit = first_visits[list(covariates)].set_axis(people[ID].to_numpy())
        groups = _compare_groups(
            measured, labels, at_first_visit, estimated, scanners, findings
        )
        groups.insert(0, "index", names)
    sizes = _size_trials(names, estimated, trial or TrialDesign())
    courses = visits[[ID]].assign(
        **dict(zip(names, measured.values.T, strict=True)), years=measured.time
    )
    return YearlyChange(
        table=table,
        visits=courses,
        names=names,
        noise=noise,
        freedom=freedom,
        noise_from_residuals=from_residuals,
        trial=sizes,
        groups=groups,
        retest=retest,
        scanners=scanner_table,
        problems=findings,
    )


def _tabulate_slopes(
    people: pd.DataFrame,
    names: list[str],
    lines: slopes.LinearTrends,
    shrunken: list[slopes.GroupSlopes],
    noise: tuple[FloatArray, int, bool],
    retest: pd.DataFrame | None,
    scanner_variances: FloatArray,
) -> pd.DataFrame:
    """Return the people of a group with slopes and intervals, and with whether their
    change is more than noise.
    """
    columns: dict[str, Any] = {ID: people[ID]} | (
        {} if retest is None else {GROUP: people[GROUP]}
    )
    columns |= {"visits": people["visits"], "years": people["years"]}
    for k, (name, group) in enumerate(zip(names, shrunken, strict=True)):
        added, change = scanner_variances[:, k], people[f"{name}_change"]
        error = np.sqrt(noise[0][k] ** 2 / lines.spread + added)
        shrunken_error = np.sqrt(group.errors**2 + added)
        columns |= _make_interval(
            f"{name}_per_year", lines.slope[:, k], error, noise[1], NOMINAL_COVERAGE
        )
        freedom = group.mean.freedom
        columns |= _make_interval(
            f"{name}_shrunken", group.slopes, shrunken_error, freedom, NOMINAL_COVERAGE
        )
        columns[f"{name}_change"] = change
        if retest is not None:
            columns[f"{name}_more_than_noise"] = (
                np.abs(change) > retest.loc[name, "smallest_change"]
            )
    return pd.DataFrame(columns)


def _convert_to_years(values: pd.Series) -> FloatArray:
    """Return the time of each visit in years, (V,); dates may also be numbers such as
    20210331.
    """
    is_compact = (
        pd.api.types.is_numeric_dtype(values)
        and values.dropna().between(*_COMPACT_DATES).all()
    )
    if pd.api.types.is_numeric_dtype(values) and not is_compact:
        return np.asarray(values, dtype=float)
    written = values.astype("Int64").astype("string") if is_compact else values
    dates = pd.to_datetime(
        written, errors="coerce", format="%Y%m%d" if is_compact else "ISO8601"
    )
    wrong = values[dates.isna() & values.notna()]
    if len(wrong):
        raise InputError(
            f"{values.name} holds neither years nor dates (2021-03-31): {join_names(wrong, 3)}."
        )
    days = (dates - dates.min()) / pd.Timedelta(days=1)
    return np.asarray(days.to_numpy(dtype=float) / 365.25)


def _measure(
    visits: pd.DataFrame, years: FloatArray, names: list[str]
) -> slopes.Visits:
    """Return the R-indices of visits, with the time since the first one of the
    person.
    """
    person, ids = pd.factorize(visits[ID])
    is_first = ~visits[ID].duplicated().to_numpy()
    return slopes.Visits(
        values=visits[names].to_numpy(dtype=float),
        time=years - years[is_first][person],
        person=person,
        n_people=len(ids),
    )


def _tabulate_people(
    visits: pd.DataFrame, measured: slopes.Visits, names: list[str]
) -> pd.DataFrame:
    """Return the group of each person, the number of visits, the years between the
    first and the last one, and the change between them.
    """
    is_first, is_last = (
        ~visits[ID].duplicated(keep=end).to_numpy() for end in ("first", "last")
    )
    people = pd.DataFrame({ID: visits.loc[is_first, ID].to_numpy()})
    people[GROUP] = (
        visits.loc[is_first, GROUP].to_numpy() if GROUP in visits else _EVERYONE
    )
    people["visits"] = measured.lines.visits.astype(int)
    people["years"] = measured.time[is_last]
    changes = measured.values[is_last] - measured.values[is_first]
    people[[f"{name}_change" for name in names]] = changes
    return people


def _exclude_missing_codes(
    visits: pd.DataFrame,
    time: str,
    covariates: Sequence[str],
    scanner: str | None,
    codes: Sequence[str],
) -> pd.DataFrame:
    """Return the visits with the codes for missing of time, covariates and scanner as
    missing; refuse columns that are not there.
    """
    scanners = [] if scanner is None else [scanner]
    used = [
        *tidy.check_columns(visits, [time], "time"),
        *tidy.check_columns(visits, covariates, "covariates"),
        *tidy.check_columns(visits, scanners, "scanner"),
    ]
    return tidy.exclude_missing_codes(visits, list(dict.fromkeys(used)), codes)


def _select_usable_visits(
    visits: pd.DataFrame,
    years: FloatArray,
    names: list[str],
    scanner: str | None,
    findings: Findings,
) -> tuple[pd.DataFrame, FloatArray]:
    """Return the visits with a time and all R-indices by person and time, and their
    years; refuse duplicates.
    """
    rows = np.isfinite(years) & np.isfinite(visits[names].to_numpy(dtype=float)).all(
        axis=1
    )
    if scanner is not None:
        rows &= visits[scanner].notna().to_numpy()
    if not rows.all():
        lacking = visits[ID][~rows]
        extra = "" if scanner is None else ", a scanner"
        what = (
            f"{format_count(len(lacking), 'visit')} without a time{extra} or an R-index"
        )
        findings.warn(
            ProblemCode.INCOMPLETE_VISITS, what, offenders=lacking, ending="; left out"
        )
    visits, years = visits.assign(**{ID: visits[ID].astype(str)})[rows], years[rows]
    if not len(visits):
        raise InputError(
            "no visit has a time and all R-indices: look at the column of the time."
        )
    spans = pd.Series(years).groupby(visits[ID].to_numpy()).agg(np.ptp)
    if spans.max() > MAX_YEARS_BETWEEN_VISITS:
        what = f"visits of {spans.idxmax()} are {spans.max():,.0f} years apart"
        raise InputError(
            f"{what}: give the time in years, not in days or months, or as dates (2021-03-31)."
        )
    duplicated = visits.duplicated([ID, SESSION] if SESSION in visits else [ID, *names])
    if duplicated.any():
        raise InputError(
            f"visits appear more than once: {join_names(visits[ID][duplicated])}. Keep one row per visit."
        )
    order = np.lexsort((years, visits[ID]))
    return visits.iloc[order].reset_index(drop=True), years[order]


def _check_repeated(repeated: BoolArray, labels: AnyArray, findings: Findings) -> None:
    """Refuse visits of too few people with two of them."""
    if not repeated.any():
        raise InputError(
            "nobody has two visits at different times: give repeat visits, one row per session_id."
        )
    for label in (CONTROL, PATIENT) if _EVERYONE not in labels else ():
        number = int((repeated & (labels == label)).sum())
        if number < _MIN_GROUP_SIZE:
            cure = "give more visits, or do not name groups"
            raise AnalysisError(
                f"{number} {label}s with two visits are too few to compare groups: {cure}."
            )
    n_single = int((~repeated).sum())
    if n_single:
        what = f"{format_count(n_single, 'person has', 'people have')} a single visit (or time): left out"
        findings.note(ProblemCode.SINGLE_VISITS, what)


def _estimate_visit_noise(
    lines: slopes.LinearTrends, findings: Findings
) -> tuple[FloatArray, int, bool]:
    """Return the noise of a visit (M,), its degrees of freedom, and whether it comes
    from residuals.
    """
    repeated = lines.is_repeated
    n_people, freedom = int(repeated.sum()), int((lines.visits[repeated] - 2).sum())
    if freedom >= slopes.MIN_DEGREES_OF_FREEDOM:
        return np.sqrt(lines.residual[repeated].sum(axis=0) / freedom), freedom, True
    if n_people < 2:
        raise InputError(
            "one person with two visits does not show the noise: give more people, or a third visit."
        )
    what = "hardly anyone has three visits: intervals come from how much slopes differ between people"
    cure = "They are too wide if people truly differ; a third visit would separate noise from change"
    findings.warn(ProblemCode.FEW_VISITS, what, cure)
    weight, slope = (
        lines.spread[repeated],
        lines.slope[repeated],
    )  # variance s2 of noise: s2 / spread of a slope
    mean = weight @ slope / weight.sum()
    return np.sqrt(weight @ (slope - mean) ** 2 / (n_people - 1)), n_people - 1, False


def _report_two_stages(
    estimated: dict[str, list[slopes.GroupSlopes]], names: list[str], findings: Findings
) -> None:
    """Say in one line for which R-indices the mixed model could not be fitted."""
    failed = [
        f"{name} of {label}s" if label != _EVERYONE else name
        for label, results in estimated.items()
        for name, result in zip(names, results, strict=True)
        if result.mean.model == slopes.TWO_STAGE
    ]
    if failed:
        what = f"the mixed model could not be fitted ({join_names(failed)}): two stages are used instead"
        findings.warn(
            ProblemCode.MODEL_NOT_FITTED,
            what,
            "A third visit of more people would determine it",
        )


def _make_interval(
    name: str, value: Any, error: Any, freedom: int, coverage: float = 0.95
) -> dict[str, Any]:
    """Return a column and the two ends of its interval, as they are named in all
    tables.
    """
    half = stdtrit(max(freedom, 1), (1 + coverage) / 2) * error
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def _count_beyond_noise(
    retest: pd.DataFrame, table: pd.DataFrame, names: Sequence[str]
) -> pd.DataFrame:
    """Return the error of a visit by R-index, with the fraction of each group whose
    change is more than it.
    """
    beyond = {
        f"{label}s_beyond": [rows[f"{name}_more_than_noise"].mean() for name in names]
        for label, rows in table.groupby(GROUP)
    }
    return retest.assign(**beyond).reset_index()


def _estimate_by_group(
    measured: slopes.Visits,
    people: pd.DataFrame,
    names: list[str],
    noise: tuple[FloatArray, int, bool],
    retest: pd.DataFrame | None,
    scanners: ScannerEffects | None,
) -> tuple[dict[str, list[slopes.GroupSlopes]], pd.DataFrame]:
    """Return the slopes of each group by R-index, and the change per year of each
    person with visits at different times.

    retest: error of a visit by R-index, where there are groups; else everyone is one.
    """
    estimated, tables = {}, []
    for label in (_EVERYONE,) if retest is None else (CONTROL, PATIENT):
        is_member = (people[GROUP] == label).to_numpy()
        members = measured.take(is_member)
        variances = dict.fromkeys(names, np.nan)
        if retest is not None:
            variances = dict(retest["noise"] ** 2)
        estimated[label] = [
            slopes.estimate_slopes(members, k, variances[name])
            for k, name in enumerate(names)
        ]
        added = np.zeros((int(is_member.sum()), len(names)))
        if scanners is not None:
            weights = scanners.weights[is_member]
            repeated = weights[members.lines.is_repeated].mean(axis=0)[None]
            for k in range(len(names)):
                added[:, k] = scanners.get_slope_variances(weights, k)
                common = float(scanners.get_slope_variances(repeated, k)[0])
                estimated[label][k] = _widen_mean(estimated[label][k], common)
        own = (members.lines, estimated[label], noise, retest, added)
        tables.append(_tabulate_slopes(people[is_member], names, *own))
    table = pd.concat(tables).sort_index()[measured.lines.is_repeated]
    return estimated, table.reset_index(drop=True)


def _widen_mean(group: slopes.GroupSlopes, variance: float) -> slopes.GroupSlopes:
    """Return slopes whose mean has the error of the effects of scanners, too."""
    error = float(np.hypot(group.mean.error, np.sqrt(variance)))
    return replace(group, mean=replace(group.mean, error=error))


def _report_changed_sites(visits: pd.DataFrame, findings: Findings) -> None:
    """Warn of people who changed scanner, where no column of scanners is named."""
    column = find_column(visits.columns, SITE_NAMES)
    if column is None:
        return
    n_changed = int((visits.drop_duplicates([ID, column])[ID].value_counts() > 1).sum())
    if n_changed:
        people = format_count(n_changed, "person has", "people have")
        what = f"{people} visits of several values of '{column}', and a new scanner looks like change"
        cure = f"Estimate and remove the effects of scanners: --scanner {column}"
        findings.warn(ProblemCode.SITES_NOT_USED, what, cure)


def _remove_scanners(
    measured: slopes.Visits,
    visits: pd.DataFrame,
    column: str | None,
    labels: AnyArray,
    findings: Findings,
) -> tuple[slopes.Visits, ScannerEffects | None, pd.DataFrame | None]:
    """Return the visits without the effects of scanners, these, and their table."""
    if column is None:
        _report_changed_sites(visits, findings)
        return measured, None, None
    scanner = visits[column].astype(str).to_numpy()
    effects = estimate_scanner_effects(measured, scanner, labels)
    if effects is None:
        what = f"nobody changed scanner ('{column}')"
        findings.note(ProblemCode.SITES_USED, what)
        return measured, None, None
    people = format_count(effects.changed, "person", "people")
    number = format_count(len(effects.names), "scanner")
    what = f"{people} changed scanner; the effects of {number} are removed"
    findings.note(ProblemCode.SITES_USED, what)
    codes = np.searchsorted(np.array(effects.names), scanner)
    table = effects.tabulate(tidy.find_index_columns(visits), codes)
    without = replace(measured, values=effects.remove(measured.values, codes))
    return without, effects, table


def _compare_groups(
    visits: slopes.Visits,
    labels: AnyArray,
    covariates: pd.DataFrame,
    estimated: dict[str, list[slopes.GroupSlopes]],
    scanners: ScannerEffects | None,
    findings: Findings,
) -> pd.DataFrame:
    """Return one row per R-index: slopes of the groups, and their difference in people
    with all covariates (N, C).
    """
    complete = covariates.notna().all(axis=1).to_numpy()
    if not complete.all():
        what = f"{format_count(int((~complete).sum()), 'person', 'people')} without a covariate"
        findings.warn(
            ProblemCode.MISSING_VALUES,
            what,
            offenders=covariates.index[~complete],
            ending="; left out of the comparison of groups",
        )
    is_patient = (labels[complete] == PATIENT).astype(float)
    if not _MIN_GROUP_SIZE <= is_patient.sum() <= len(is_patient) - _MIN_GROUP_SIZE:
        raise AnalysisError(
            "too few people have all covariates to compare groups: adjust for fewer covariates."
        )
    design = tidy.encode_covariates(covariates[complete])
    design, compared = design[:, design.std(axis=0) > 0], visits.take(complete)
    added = np.zeros(visits.values.shape[1])
    if scanners is not None:
        is_used = visits.lines.is_repeated
        patients, controls = (
            scanners.weights[is_used & (labels == label)].mean(axis=0)
            for label in (PATIENT, CONTROL)
        )
        between = (patients - controls)[None]
        added = np.array(
            [
                np.sqrt(scanners.get_slope_variances(between, k)[0])
                for k in range(len(added))
            ]
        )
    rows = []
    for k in range(visits.values.shape[1]):
        result = slopes.compare_slopes(compared, is_patient, design, k)
        row: dict[str, Any] = {"model": result.model}
        row |= {
            f"{label}s": int((labels == label).sum()) for label in (CONTROL, PATIENT)
        }
        for label in (CONTROL, PATIENT):
            mean = estimated[label][k].mean
            row |= _make_interval(
                f"{label}s_per_year", mean.value, mean.error, mean.freedom
            )
        error = float(np.hypot(result.error, added[k]))
        row |= _make_interval("difference", result.value, error, result.freedom)
        statistic = result.value / error
        rows.append(
            row
            | {
                "t": statistic,
                "freedom": result.freedom,
                "p": 2 * stdtr(result.freedom, -abs(statistic)),
            }
        )
    table = pd.DataFrame(rows)
    return table.assign(q=tidy.false_discovery_rate(table["p"]))


def _size_trials(
    names: list[str], estimated: dict[str, list[slopes.GroupSlopes]], trial: TrialDesign
) -> pd.DataFrame:
    """Return people per arm to slow the change of patients, and to slow the part that
    exceeds controls' change.
    """
    rows = []
    for k, name in enumerate(names):
        group = estimated.get(PATIENT, estimated.get(_EVERYONE, []))[k]
        changes = [
            (
                PATIENT if PATIENT in estimated else _EVERYONE,
                group.mean.value,
                group.mean.error,
            )
        ]
        if CONTROL in estimated:
            control = estimated[CONTROL][k].mean
            error = float(np.hypot(group.mean.error, control.error))
            changes.append(
                (f"{PATIENT} beyond {CONTROL}", group.mean.value - control.value, error)
            )
        for label, slope, error in changes:
            row: dict[str, Any] = {"index": name, "group": label, "per_year": slope}
            row |= {
                "slope_sd": np.sqrt(group.slope_variance),
                "noise": np.sqrt(group.noise_variance),
            } | asdict(trial)
            interval = _make_interval("", abs(slope), error, group.mean.freedom)
            variances = group.slope_variance, group.noise_variance
            for end, change in (
                ("", abs(slope)),
                ("_low", interval["_high"]),
                ("_high", max(interval["_low"], 0.0)),
            ):
                row[f"per_arm{end}"] = compute_trial_size(change, *variances, trial)
            rows.append(row)
    return pd.DataFrame(rows).replace(np.inf, np.nan)


def compute_trial_size(
    slope: float, slope_variance: float, noise_variance: float, trial: TrialDesign
) -> float:
    """Return the number of people per arm for a two-sided comparison of mean slopes at
    0.05.

    Each arm has n people with visits at the same times t. The variance of a
    least-squares slope is the variance between slopes plus the noise variance over sum
    (t - mean t)^2, and

    n = 2 (z_0.975 + z_power)^2 variance / (slowing * slope)^2.

    Parameters
    ----------
    slope : float
        Mean change per year that the treatment slows.
    slope_variance : float
        Variance between the slopes of people.
    noise_variance : float
        Variance of a visit about the person's line.
    trial : TrialDesign
        Duration, visits, power and effect of the treatment.

    Returns
    -------
    float
        People per arm who complete the trial, rounded up. Infinite if there is no
        change.

    Raises
    ------
    AnalysisError
        If shares are not between 0 and 1, or the trial has visits at fewer than two
        times.
    """
    for name, value in (("slowing", trial.slowing), ("power", trial.power)):
        if not 0 < value < 1:
            raise AnalysisError(
                f"{name} {value:g} is not between 0 and 1: give a share such as 0.3."
            )
    schedule = np.linspace(0, trial.years, trial.visits)
    if len(np.unique(schedule)) < 2:
        raise AnalysisError(
            "a trial needs visits at two times or more: give more years and visits."
        )
    if slope == 0:
        return np.inf
    variance = slope_variance + noise_variance / float(
        ((schedule - schedule.mean()) ** 2).sum()
    )
    quantiles = float(ndtri(0.975) + ndtri(trial.power))
    return float(np.ceil(2 * quantiles**2 * variance / (trial.slowing * slope) ** 2))
