"""Change of R-indices in groups: shrunken slopes of persons, comparison of groups, retest limits, size of a trial.

Shape letters: N people, V visits, M patterns, P covariate columns.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtr, stdtrit

import rindices.analysis.tidy as tidy
from rindices._typing import AnyArray, BoolArray, FloatArray, IntArray
from rindices.analysis.change import NOMINAL_COVERAGE, convert_to_years, select_usable_visits
from rindices.analysis.slopes import (
    TWO_STAGE,
    GroupSlopes,
    IndexVisits,
    RetestError,
    SlopeDifference,
    compare_slopes,
    estimate_retest_error,
    estimate_slopes,
)
from rindices.errors import AnalysisError, Findings, ProblemCode, format_count, join_names
from rindices.tables.cohort import GROUP, ID
from rindices.tables.validation.groups import CONTROL, PATIENT
from rindices.wording import load_columns

_MIN_GROUP_SIZE = 3
EVERYONE = "all"
GROUP_COLUMNS = load_columns("change_groups")
TRIAL_COLUMNS = load_columns("change_trial")
RETEST_COLUMNS = load_columns("change_retest")


def describe_people_columns(names: Iterable[str]) -> dict[str, str]:
    """Return descriptions of the columns of ``change.tsv`` for the R-indices ``names``."""
    columns = load_columns("change")
    described = {name: text for name, text in columns.items() if "{index}" not in name}
    for index in names:
        described |= {
            name.format(index=index): text.format(index=index) for name, text in columns.items() if "{" in name
        }
    return described


@dataclass(frozen=True)
class TrialDesign:
    """A trial with two equal arms: share of change prevented, power, duration and number of visits."""

    slowing: float = 0.3
    power: float = 0.8
    years: float = 2.0
    visits: int = 5


@dataclass(frozen=True)
class ChangeModels:
    """Results of the models of change; columns are described above.

    people: (N, ...): ``participant_id``, the group, and for each R-index the shrunken slope, its interval, the change
    between first and last visit, and, if there are controls, whether it is more than noise; groups: one row per
    R-index: slopes of controls and patients, and their difference. None without groups; trial: one row per R-index:
    people per arm of a trial; retest: one row per R-index: retest error. None without controls who have two visits.
    """

    people: pd.DataFrame
    groups: pd.DataFrame | None
    trial: pd.DataFrame
    retest: pd.DataFrame | None
    problems: Findings


@dataclass(frozen=True)
class _StudyVisits:
    """Visits of all people: ids (N,), names of M R-indices, values (V, M), time and person (V,), labels (N,)."""

    ids: NDArray[np.str_]
    names: list[str]
    values: FloatArray
    time: FloatArray
    person: IntArray
    labels: AnyArray
    first_rows: IntArray  # (N,), rows of the table that hold each person's first visit

    def select(self, index: int, members: BoolArray) -> IndexVisits:
        """Return the visits of some people (N,) for one R-index."""
        rows = members[self.person]
        position = np.cumsum(members) - 1
        return IndexVisits(self.values[rows, index], self.time[rows], position[self.person[rows]], int(members.sum()))


def model_change(
    visits: pd.DataFrame,
    time: str,
    *,
    covariates: Sequence[str] = (),
    trial: TrialDesign | None = None,
    missing_codes: Sequence[str] = (),
) -> ChangeModels:
    """Model the change of each R-index in all people, or in controls and patients.

    visits: one row per visit: ``participant_id``, r1, r2, ..., the time, the covariates and, to compare groups,
    ``group`` with the labels control and patient; time: column of the time, in years or dates; covariates: columns that
    levels and slopes are adjusted for when groups are compared, as they are at the first visit; trial: by default a
    trial of two years with five visits that is to detect a slowing by 30 % with a power of 80 %; missing_codes: values
    of time and covariates that stand for missing. Raises AnalysisError, InputError: if columns are missing, visits are
    duplicated, or a group is too small.
    """
    findings = Findings()
    tidy.check_columns(visits, covariates, "covariates")
    used = [name for name in dict.fromkeys([time, *covariates]) if name in visits]
    visits = tidy.exclude_missing_codes(visits, used, missing_codes)
    study = _arrange_visits(visits, time)
    labels = [CONTROL, PATIENT] if GROUP in visits else [EVERYONE]
    _check_group_sizes(study, labels)
    indices = range(len(study.names))
    retest: list[RetestError | None] = [None for _ in indices]
    if CONTROL in labels:
        retest = [estimate_retest_error(study.select(k, study.labels == CONTROL)) for k in indices]
    noise = [None if error is None else error.noise**2 for error in retest]
    slopes = {
        label: [estimate_slopes(study.select(k, study.labels == label), noise[k]) for k in indices] for label in labels
    }
    _report_two_stages(slopes, study.names, findings)
    people = _build_people_table(study, slopes, retest)
    groups = None
    if GROUP in visits:
        design, complete = _encode_covariates(visits, study, list(covariates), findings)
        differences = [_compare_index(study, k, design, complete) for k in indices]
        groups = _build_group_table(study, slopes, differences)
    trials = _build_trial_table(study.names, slopes, trial or TrialDesign())
    return ChangeModels(people, groups, trials, _build_retest_table(study, people, retest), findings)


def _arrange_visits(visits: pd.DataFrame, time: str) -> _StudyVisits:
    names = tidy.find_index_columns(visits)
    years = convert_to_years(visits, time)
    rows = np.flatnonzero(select_usable_visits(visits, years, names, Findings()))  # change_per_year reports them
    ids, person = np.unique(visits[ID].astype(str).to_numpy()[rows], return_inverse=True)
    order = np.lexsort((years[rows], person))
    rows, person = rows[order], person[order]
    first = np.searchsorted(person, np.arange(len(ids)))
    groups = visits[GROUP].to_numpy()[rows[first]] if GROUP in visits else np.full(len(ids), EVERYONE, dtype=object)
    elapsed = years[rows] - years[rows][first][person]
    return _StudyVisits(ids, names, visits[names].to_numpy(dtype=float)[rows], elapsed, person, groups, rows[first])


def _check_group_sizes(study: _StudyVisits, labels: list[str]) -> None:
    repeated = study.select(0, np.ones(len(study.ids), dtype=bool)).fit_lines().is_repeated
    for label in labels:
        number = int((repeated & (study.labels == label)).sum())
        if label != EVERYONE and number < _MIN_GROUP_SIZE:
            cure = "give more visits, or do not name groups"
            raise AnalysisError(f"{number} {label}s with two visits are too few to compare groups: {cure}.")


def _report_two_stages(slopes: dict[str, list[GroupSlopes]], names: list[str], findings: Findings) -> None:
    """Say in one line for which R-indices the mixed model could not be fitted."""
    failed = [
        f"{name} of {label}s" if label != EVERYONE else name
        for label, all_slopes in slopes.items()
        for name, result in zip(names, all_slopes, strict=True)
        if result.model == TWO_STAGE
    ]
    if failed:
        what = f"the mixed model could not be fitted ({join_names(failed)}): two stages are used instead"
        findings.warn(ProblemCode.MODEL_NOT_FITTED, what, "A third visit of more people would determine it")


def _encode_covariates(
    visits: pd.DataFrame, study: _StudyVisits, covariates: list[str], findings: Findings
) -> tuple[FloatArray, BoolArray]:
    """Return the design (N, P) of covariates at the first visit, and who has all of them (N,)."""
    values = visits.iloc[study.first_rows][covariates]
    complete = values.notna().all(axis=1).to_numpy()
    lacking = study.ids[~complete]
    if len(lacking):
        what = f"{format_count(len(lacking), 'person lacks', 'people lack')} a covariate"
        ending = "; left out of the comparison of groups"
        findings.warn(ProblemCode.MISSING_VALUES, what, offenders=lacking, ending=ending)
    design = tidy.encode_covariates(values)
    varies = design[complete].std(axis=0) > 0 if complete.any() else slice(None)
    return np.asarray(design[:, varies]), np.asarray(complete)


def _compare_index(study: _StudyVisits, index: int, design: FloatArray, complete: BoolArray) -> SlopeDifference:
    members = complete & np.isin(study.labels.astype(str), [CONTROL, PATIENT])
    is_patient = (study.labels[members] == PATIENT).astype(float)
    if is_patient.sum() < _MIN_GROUP_SIZE or len(is_patient) - is_patient.sum() < _MIN_GROUP_SIZE:
        raise AnalysisError("too few people have all covariates to compare groups: adjust for fewer covariates.")
    return compare_slopes(study.select(index, members), is_patient, design[members])


def _compute_quantile(freedom: int, coverage: float = 0.95) -> float:
    return float(stdtrit(max(freedom, 1), (1 + coverage) / 2))


def _add_interval(name: str, value: Any, half: Any) -> dict[str, Any]:
    """Return a column and the two ends of its interval, as they are named in all tables."""
    return {name: value, f"{name}_low": value - half, f"{name}_high": value + half}


def _build_people_table(
    study: _StudyVisits, slopes: dict[str, list[GroupSlopes]], retest: Sequence[RetestError | None]
) -> pd.DataFrame:
    all_people = np.ones(len(study.ids), dtype=bool)
    columns: dict[str, Any] = {ID: study.ids} | ({} if EVERYONE in slopes else {GROUP: study.labels})
    last = np.searchsorted(study.person, np.arange(len(study.ids)), side="right") - 1
    first = np.searchsorted(study.person, np.arange(len(study.ids)))
    for k, name in enumerate(study.names):
        slope, half = np.full(len(study.ids), np.nan), np.full(len(study.ids), np.nan)
        for label, results in slopes.items():
            members = study.labels == label
            slope[members] = results[k].slopes
            half[members] = results[k].errors * _compute_quantile(results[k].freedom, NOMINAL_COVERAGE)
        change = study.values[last, k] - study.values[first, k]
        columns |= _add_interval(f"{name}_shrunken", slope, half) | {f"{name}_change": change}
        error = retest[k]
        if error is not None:
            columns[f"{name}_more_than_noise"] = np.abs(change) > error.smallest_change
    repeated = study.select(0, all_people).fit_lines().is_repeated
    return pd.DataFrame(columns)[repeated].reset_index(drop=True)


def _build_group_table(
    study: _StudyVisits, slopes: dict[str, list[GroupSlopes]], differences: Sequence[SlopeDifference]
) -> pd.DataFrame:
    rows = []
    for k, (name, result) in enumerate(zip(study.names, differences, strict=True)):
        row: dict[str, Any] = {"index": name, "model": result.model}
        row |= {f"{label}s": int((study.labels == label).sum()) for label in (CONTROL, PATIENT)}
        for label in (CONTROL, PATIENT):
            group = slopes[label][k]
            half = _compute_quantile(group.freedom) * group.mean_error
            row |= _add_interval(f"{label}s_per_year", group.mean, half)
        row |= _add_interval("difference", result.difference, _compute_quantile(result.freedom) * result.error)
        statistic = result.difference / result.error
        p = float(2 * stdtr(result.freedom, -abs(statistic)))
        rows.append(row | {"t": statistic, "freedom": result.freedom, "p": p})
    table = pd.DataFrame(rows)
    return table.assign(q=tidy.false_discovery_rate(table["p"]))


def _build_trial_table(names: list[str], slopes: dict[str, list[GroupSlopes]], trial: TrialDesign) -> pd.DataFrame:
    """Return people per arm to slow the change of patients, and to slow the part that exceeds controls' change."""
    label = PATIENT if PATIENT in slopes else EVERYONE
    rows = []
    for k, (name, group) in enumerate(zip(names, slopes[label], strict=True)):
        row: dict[str, Any] = {"index": name, "group": label, "per_year": group.mean}
        row |= {"slope_sd": float(np.sqrt(group.slope_variance)), "noise": float(np.sqrt(group.noise_variance))}
        row |= asdict(trial)
        row |= _size_trial("per_arm", group, group.mean, group.mean_error, trial)
        if CONTROL in slopes:
            control = slopes[CONTROL][k]
            error = float(np.hypot(group.mean_error, control.mean_error))
            row |= _size_trial("excess_per_arm", group, group.mean - control.mean, error, trial)
        rows.append(row)
    return pd.DataFrame(rows)


def compute_trial_size(
    slope: float, slope_variance: float, noise_variance: float, trial: TrialDesign, alpha: float = 0.05
) -> float:
    """Return the number of people per arm for a two-sided comparison of mean slopes.

    Each arm has n people with visits at the same times t. The variance of a least-squares slope is the variance between
    slopes plus the noise variance over sum (t - mean t)^2, and

    n = 2 (z_(1 - alpha / 2) + z_power)^2 variance / (slowing * slope)^2.

    slope: mean change per year that the treatment slows; slope_variance, noise_variance: between the slopes of people,
    and of a visit; alpha: of the test. Returns people per arm who complete the trial, rounded up; infinite if there is
    no change. Raises AnalysisError: if shares are not between 0 and 1, or the trial has visits at fewer than two times.
    """
    for name, value in (("slowing", trial.slowing), ("power", trial.power), ("alpha", alpha)):
        if not 0 < value < 1:
            raise AnalysisError(f"{name} {value:g} is not between 0 and 1: give a share such as 0.3.")
    schedule = np.linspace(0, trial.years, trial.visits)
    if len(np.unique(schedule)) < 2:
        raise AnalysisError("a trial needs visits at two times or more: give more years and visits.")
    if slope == 0:
        return np.inf
    variance = slope_variance + noise_variance / float(((schedule - schedule.mean()) ** 2).sum())
    quantiles = float(ndtri(1 - alpha / 2) + ndtri(trial.power))
    return float(np.ceil(2 * quantiles**2 * variance / (trial.slowing * slope) ** 2))


def _size_trial(name: str, group: GroupSlopes, slope: float, error: float, trial: TrialDesign) -> dict[str, float]:
    """Return the size of a trial and its 95 % interval, NaN where it is unknown or without limit."""
    half = _compute_quantile(group.freedom) * error
    changes = {name: abs(slope), f"{name}_low": abs(slope) + half, f"{name}_high": max(abs(slope) - half, 0.0)}
    variances = (group.slope_variance, group.noise_variance)
    sizes = {key: compute_trial_size(change, *variances, trial) for key, change in changes.items()}
    return {key: size if np.isfinite(size) else np.nan for key, size in sizes.items()}


def _build_retest_table(
    study: _StudyVisits, people: pd.DataFrame, retest: Sequence[RetestError | None]
) -> pd.DataFrame | None:
    rows = []
    for name, error in zip(study.names, retest, strict=True):
        if error is None:
            continue
        shares = people.groupby(GROUP)[f"{name}_more_than_noise"].mean()
        row = {"index": name, "people": error.people, "visits": error.visits, "noise": error.noise}
        row |= {"correlation": error.correlation, "smallest_change": error.smallest_change}
        rows.append(row | {f"{label}s_beyond": float(shares.get(label, np.nan)) for label in (CONTROL, PATIENT)})
    return pd.DataFrame(rows) if rows else None


def describe_models(models: ChangeModels) -> dict[str, Any]:
    """Return the tables of the models as plain values for JSON."""
    tables = {"groups": models.groups, "trial": models.trial, "retest": models.retest}
    return {name: tidy.as_records(table) for name, table in tables.items() if table is not None}
