"""Cohorts with known severities: simulated atrophy in healthy people (section 4.2 of
the paper), and their score.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.atomic import atomic_path
from rindices.errors import (
    Findings,
    InputError,
    SimulationError,
    TableError,
    did_you_mean,
    join_names,
)
from rindices.experiments import reference as generators
from rindices.experiments.tasks import TASKS, SimulationTask
from rindices.one_line import ShownInOneLine
from rindices.preprocess.residualise import Residualiser
from rindices.selection.agreement import pattern_c_index
from rindices.selection.dimensions import standardise_columns
from rindices.tables.checks.groups import CONTROL, PATIENT
from rindices.tables.cohort import GROUP, ID, SESSION, SITE, Cohort
from rindices.tables.sources.frames import read_frame
from rindices.tables.sources.spreadsheet import protect_texts
from rindices.wording import FEATURE_UNIT

NEW_CONTROLS, NEW_PATIENTS = 8, 12  # of the people who are in no fit
# added to the number of a random stream, so that new people are others than those of
# the cohort
_NEW_STREAM = 20
_NEW_PEOPLE_OF_TABLE = (
    "new people cannot be drawn from a table: leave out healthy or new_people."
)
_CONTROL_SHARE = 0.4  # share of a user's healthy people who stay controls
_MIN_VOLUME_SHARE = (
    0.01  # lower limit of a volume after site effects, as a share of the region's mean
)


@dataclass(frozen=True, kw_only=True, repr=False)
class SimulatedCohort(ShownInOneLine):
    """A cohort with its true severities and patterns.

    Attributes
    ----------
    cohort : Cohort
        Controls and patients.
    severities : DataFrame
        (patients, 1 + M): ``participant_id`` and ``s1`` to ``sM``, in the order of the
        cohort's patients.
    patterns : DataFrame
        (R, 1 + M): ``region`` and, for each pattern, the share of volume lost at
        severity 1. It is the loss at a severity of 0.5 of the next pattern if patterns
        interact, and the loss of a region of average size if the change depends on the
        person. In the task ``organs``: ``feature``, and its change in standard
        deviations.
    onsets : DataFrame or None
        ``pattern``, ``region`` and ``onset``, the severity at which the region begins
        to change; None if all regions of a pattern begin together.
    """

    cohort: Cohort
    severities: pd.DataFrame
    patterns: pd.DataFrame
    onsets: pd.DataFrame | None = None

    @property
    def truth(self) -> FloatArray:
        """Severities, (patients, M)."""
        return np.asarray(
            self.severities.drop(columns=[ID, SESSION], errors="ignore"), dtype=float
        )


def simulate_cohort(
    task: str | SimulationTask = "basic",
    seed: int = 0,
    *,
    healthy: Cohort | None = None,
    reference: generators.HealthyGenerator | None = None,
    sites: int = 0,
    site_shift: float = 0.5,
    site_scale: float = 0.2,
    rates: FloatArray | None = None,
    new_people: bool = False,
) -> SimulatedCohort:
    """Simulate a cohort with known severities.

    Parameters
    ----------
    task : str or SimulationTask
        ``basic overlap scarce noise mild`` (the paper), ``corr03 corr05 corr07 beta13
        beta31 beta22 staged staged09 hard together personal small tiny organs``
        (stress), ``null`` (patients are controls), or a task of your own.
    seed : int
        The same seed gives the same healthy people for every task, so tasks compare
        person by person.
    healthy : Cohort, optional
        Healthy people to add the patterns to. Two fifths stay controls. MUSE regions
        get the paper's patterns, other atlases get random sets of as many regions. By
        default people come from ``reference``.
    reference : HealthyGenerator, optional
        Generator of healthy people, e.g. a `FittedHealthyReference`. By default, that
        of the package.
    sites : int
        Number of sites. With 0 there are no site effects.
    site_shift : float
        Each site shifts every region by N(0, ``site_shift``) standard deviations.
    site_scale : float
        Each site scales the spread of every region by exp(N(0, ``site_scale``)).
    rates : (R,), optional
        Fraction of volume that each region loses at severity 1. Left out, the rate of
        the task for all regions.
    new_people : bool
        Simulate 20 other people (8 controls, 12 patients) of the same population, with
        the same patterns and sites as the cohort of this task and seed, but none of its
        participants.

    Returns
    -------
    SimulatedCohort
        The people, and the truth behind them.

    Raises
    ------
    SimulationError
        If there is no such task, if ``healthy`` has too few people or standardised
        values, or if new people are to be drawn from ``healthy``.

    Examples
    --------
    >>> import rindices as ri
    >>> simulated = ri.simulate_cohort("tiny", seed=0)
    >>> simulated.cohort
    <Cohort: 180 people, 80 controls, 100 patients, 139 regions (dlmuse, mm3)>
    >>> list(simulated.severities)
    ['participant_id', 's1', 's2', 's3']
    """
    spec = resolve_task(task)
    is_organs = spec.organs and healthy is None and reference is None
    generator = reference or _load_reference(is_organs)
    drawn = draw_people(spec, seed, healthy, generator, new_people)
    volumes, people, patient = drawn.volumes, drawn.people, drawn.patient
    # one random stream per purpose, so that adding sites does not change the severities
    disease_rng, site_rng = make_streams(seed, (1, 2), new_people)
    severities = spec.draw_severities(int(patient.sum()), disease_rng)
    base = volumes.to_numpy(dtype=float)
    rates = np.full(base.shape[1], spec.rate) if rates is None else rates
    disease = Disease(spec, drawn.patterns, rates)
    own = generator if healthy is None else None
    measured = _shrink(drawn, disease, severities, own, disease_rng)
    if sites:
        draw = partial(
            SiteEffects.draw, sites=sites, shift=site_shift, scale=site_scale
        )
        cohort = _draw_volumes(spec, seed, generator) if new_people else None
        effects, site = _place_at_sites(draw, base, cohort, seed, site_rng)
        measured = effects.apply(measured, site)
        people[SITE] = [f"site{number + 1}" for number in site]
    if is_organs:
        measured = generators.express_features(measured)
    source, unit = _name_source(healthy, is_organs, reference is not None)
    measured = measured.round(2) if source == "dlmuse" and healthy is None else measured
    changes, onsets = disease.describe(volumes.columns, is_organs)
    return SimulatedCohort(
        cohort=Cohort(
            volumes=pd.DataFrame(measured, columns=volumes.columns),
            people=people,
            covariates=drawn.covariates,
            source=source,
            unit=unit,
        ),
        severities=tabulate_severities(severities, people.loc[patient, ID]),
        patterns=changes,
        onsets=onsets,
    )


def _shrink(
    drawn: "DrawnPeople",
    disease: "Disease",
    severities: FloatArray,
    reference: generators.HealthyGenerator | None,
    rng: np.random.Generator,
) -> FloatArray:
    """Return the volumes (N, R) with the disease of the patients."""
    volumes: FloatArray = drawn.volumes.to_numpy(dtype=float, copy=True)
    patient, base = drawn.patient, volumes[drawn.patient]
    volumes[patient] = disease.apply(base, severities, rng)
    if disease.task.dependence:
        deviations = _compute_deviations(drawn.volumes, drawn.covariates, reference)
        factors = disease.compute_personal_factors(deviations[patient], severities)
        volumes[patient] *= factors
    return volumes


def _draw_volumes(
    spec: SimulationTask, seed: int, generator: generators.HealthyGenerator
) -> pd.DataFrame:
    """Return the volumes of a cohort, whose sites new people are at."""
    return draw_people(spec, seed, None, generator).volumes


def _load_reference(is_organs: bool) -> generators.HealthyGenerator:
    """Return the generator of healthy people that comes with the package."""
    if is_organs:
        return generators.load_organ_reference()
    return generators.load_reference()


def _name_source(
    healthy: Cohort | None, is_organs: bool, has_reference: bool
) -> tuple[str, str]:
    """Return the format and the unit of a simulated cohort."""
    if healthy is not None:
        return healthy.source, healthy.unit
    if is_organs:
        return "table", FEATURE_UNIT
    return "table" if has_reference else "dlmuse", "mm3"


def _place_at_sites(
    draw: "Callable[..., SiteEffects]",
    base: FloatArray,
    cohort: pd.DataFrame | None,
    seed: int,
    rng: np.random.Generator,
) -> "tuple[SiteEffects, IntArray]":
    """Return the effects of sites and the site of each person; new people are at those
    of their cohort.
    """
    if cohort is None:
        effects = draw(base, rng=rng)
        return effects, effects.site
    own_rng = np.random.default_rng([seed, 2])
    effects = draw(cohort.to_numpy(dtype=float), rng=own_rng)
    return effects, rng.integers(len(effects.shifts), size=len(base))


def tabulate_severities(severities: FloatArray, ids: pd.Series) -> pd.DataFrame:
    """Return true severities (N, M) as a table."""
    names = [f"s{k + 1}" for k in range(severities.shape[1])]
    truth = pd.DataFrame(severities, columns=names)
    truth.insert(0, ID, ids.to_numpy())
    return truth


def express_severities(
    severities: FloatArray, sizes: Sequence[int], task: SimulationTask
) -> list[FloatArray]:
    """Return how far each region of each pattern is affected, as a share of its rate of
    loss.

    Region r of pattern k, which begins at the severity o_r, is affected to the share

    clip((s_k - o_r) / (1 - o_r), 0, 1) * (1 + interaction * s_(k+1)) / (1 + interaction
    / 2),

    in which the last pattern is followed by the first. The divisor keeps the mean of
    the basic task if severities are uniform and independent. The share is below 2, so
    that volumes stay positive at rates below 0.5.

    severities (N, M); sizes: number of regions of each pattern. Returns (N, size), one
    array per pattern.
    """
    following = np.roll(severities, -1, axis=1)
    growth = (1 + task.interaction * following) / (1 + task.interaction / 2)
    all_expressed = []
    for severity, factor, size in zip(severities.T, growth.T, sizes, strict=True):
        onset = task.list_onsets(size)
        all_expressed.append(
            np.clip((severity[:, None] - onset) / (1 - onset), 0, 1) * factor[:, None]
        )
    return all_expressed


class Disease(NamedTuple):
    """What patients lose.

    Attributes
    ----------
    task : SimulationTask
        Kind of cohort.
    patterns : list of ndarray
        Positions of the regions of each pattern.
    rates : ndarray of shape (R,)
        Share of volume lost at severity 1.
    """

    task: SimulationTask
    patterns: list[IntArray]
    rates: FloatArray

    def _express(self, severities: FloatArray) -> Iterator[tuple[IntArray, FloatArray]]:
        """Yield the regions of each pattern, and how far they are affected (N, size);
        severities are (N, M).
        """
        sizes = [len(regions) for regions in self.patterns]
        return zip(
            self.patterns, express_severities(severities, sizes, self.task), strict=True
        )

    def apply(
        self, volumes: FloatArray, severities: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Return volumes (N, R) after atrophy, v - v * s * N(1, noise) * rate, with
        severities (N, M).
        """
        changed = volumes.copy()
        for regions, expressed in self._express(severities):
            loss = (
                expressed
                * rng.normal(1, self.task.noise, size=expressed.shape)
                * self.rates[regions]
            )
            changed[:, regions] -= changed[:, regions] * loss
        return changed

    def compute_personal_factors(
        self, deviations: FloatArray, severities: FloatArray
    ) -> FloatArray:
        """Return the factors (N, R) by which volumes differ from those of average
        people with the same severities.

        The change of log volume without noise, log(1 - loss), is multiplied by 1 -
        dependence * e with the deviation e of the region before disease: a region that
        is small in a person loses more. Log volumes after disease are then linear in e,
        and stay normal given the severities.
        """
        logs = np.zeros_like(deviations)
        for regions, expressed in self._express(severities):
            logs[:, regions] += np.log1p(-expressed * self.rates[regions])
        return np.asarray(np.exp(-self.task.dependence * deviations * logs))

    def describe(
        self, names: Sequence[str], is_organs: bool = False
    ) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return the tables of the loss of each region at severity 1 in each pattern,
        and of its severity at onset.
        """
        effects = np.zeros((len(names), len(self.patterns)))
        for k, regions in enumerate(self.patterns):
            effects[regions, k] = self.rates[regions]
        effects = generators.describe_effects(effects) if is_organs else effects
        frame = pd.DataFrame(
            effects, columns=[f"s{k + 1}" for k in range(len(self.patterns))]
        )
        frame.insert(0, "feature" if is_organs else "region", list(names))
        if not self.task.last_onset:
            return frame, None
        rows = [
            (f"s{k + 1}", names[region], onset)
            for k, regions in enumerate(self.patterns)
            for region, onset in zip(
                regions,
                self.task.list_onsets(len(regions)).round(4).tolist(),
                strict=True,
            )
        ]
        return frame, pd.DataFrame(rows, columns=["pattern", "region", "onset"])


def _compute_deviations(
    volumes: pd.DataFrame,
    covariates: pd.DataFrame,
    generator: generators.HealthyGenerator | None,
) -> FloatArray:
    """Return the deviations (N, R) of healthy log volumes from their mean given the
    covariates, in standard deviations.

    Mean and standard deviation are those of the generator of the package; for other
    people they are estimated.
    """
    values = volumes.to_numpy(dtype=float)
    if (values <= 0).any():
        raise SimulationError(
            "the table has values of 0 or less, which have no logarithm: give volumes."
        )
    if isinstance(generator, generators.HealthyReference):
        residuals = np.log(values) - generator.predict_logs(covariates)
        return np.asarray(residuals / np.sqrt(np.diag(generator.residual_covariance)))
    adjusted = Residualiser.fit(np.log(values), covariates, log=True).transform(
        np.log(values), covariates
    )
    return standardise_columns(adjusted)


def write_cohort(
    simulated: SimulatedCohort, folder: Path, new_people: SimulatedCohort | None = None
) -> None:
    """Write the table, ``participants.tsv``, ``truth.tsv``, ``patterns.tsv`` and, for
    staged tasks, ``onsets.tsv``.

    New people are written as one table with covariates, ``new_people.csv``, and
    ``new_truth.tsv`` of its patients.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cohort = simulated.cohort
    tables = {
        "features.csv" if cohort.unit == FEATURE_UNIT else "volumes.csv": _make_table(
            cohort, (ID, SESSION)
        ),
        "participants.tsv": pd.concat([cohort.people, cohort.covariates], axis=1),
        "truth.tsv": simulated.severities,
        "patterns.tsv": simulated.patterns,
    }
    if simulated.onsets is not None:
        tables["onsets.tsv"] = simulated.onsets
    if new_people is not None:
        columns = (ID, SESSION, SITE, *new_people.cohort.covariates)
        tables["new_people.csv"] = _make_table(new_people.cohort, columns)
        tables["new_truth.tsv"] = new_people.severities
    write_tables(folder, tables)


def _make_table(cohort: Cohort, columns: Sequence[str]) -> pd.DataFrame:
    """Return columns about the people, if there are such, and the regions by their
    names in DLMUSE's tables.
    """
    volumes = cohort.volumes.rename(
        columns=lambda name: re.sub("^MUSE_", "DL_MUSE_Volume_", name)
    )
    people = pd.concat([cohort.people, cohort.covariates], axis=1)
    return pd.concat(
        [people[[name for name in columns if name in people]], volumes], axis=1
    )


def write_tables(folder: Path, tables: Mapping[str, pd.DataFrame]) -> None:
    """Write tables by the names of their files."""
    for name, table in tables.items():
        separator = "," if name.endswith(".csv") else "\t"
        with atomic_path(folder / name) as path:
            protect_texts(table).to_csv(
                path, sep=separator, index=False, na_rep="n/a", lineterminator="\n"
            )


def resolve_task(task: str | SimulationTask) -> SimulationTask:
    """Return a task by its name; a task is returned as it is."""
    if isinstance(task, SimulationTask):
        return task
    if task not in TASKS:
        raise SimulationError(
            f"there is no task '{task}': {did_you_mean(task, list(TASKS))}"
        )
    return TASKS[task]


def make_streams(
    seed: int, parts: Sequence[int], new_people: bool
) -> list[np.random.Generator]:
    """Return the random streams of some parts of a simulation, for the cohort or for
    new people.
    """
    return [
        np.random.default_rng([seed, part + _NEW_STREAM * new_people]) for part in parts
    ]


@dataclass(frozen=True, kw_only=True)
class DrawnPeople:
    """Healthy people, and the regions in which some of them will become ill.

    Attributes
    ----------
    volumes : DataFrame
        Volumes (N, R) before disease.
    people : DataFrame
        IDs and groups, and the sites of a user's table.
    covariates : DataFrame
        Covariates (N, C).
    patient : ndarray of shape (N,)
        Who is a patient, independent of the order of the IDs.
    patterns : list of ndarray
        Positions of the regions of each pattern.
    """

    volumes: pd.DataFrame
    people: pd.DataFrame
    covariates: pd.DataFrame
    patient: BoolArray
    patterns: list[IntArray]


def _select_healthy(healthy: Cohort) -> Cohort:
    """Return the people of a table who can become patients: its controls if it has any,
    with one scan each.
    """
    if healthy.unit == "standardised":
        raise SimulationError(
            "the table is standardised, and a z-score cannot shrink by a fraction: give volumes."
        )
    chosen = healthy.take(healthy.is_control) if healthy.n_controls else healthy
    chosen = chosen.take(~chosen.people[ID].duplicated().to_numpy())
    if len(chosen) < 10:
        raise SimulationError(
            f"{len(chosen)} healthy people are too few to simulate patients: give at least 10."
        )
    return chosen


def draw_people(
    task: SimulationTask,
    seed: int,
    healthy: Cohort | None,
    reference: generators.HealthyGenerator,
    new_people: bool = False,
) -> DrawnPeople:
    """Draw people, or take those of a table, and choose patients and regions; new
    people get the same regions.
    """
    (rng,), pattern_rng = (
        make_streams(seed, (0,), new_people),
        np.random.default_rng([seed, 3]),
    )
    if healthy is not None:
        if new_people:
            raise SimulationError(_NEW_PEOPLE_OF_TABLE)
        chosen = _select_healthy(healthy)
        number, n_controls = len(chosen), round(_CONTROL_SHARE * len(chosen))
        people = chosen.people.drop(columns=[GROUP, SESSION], errors="ignore").copy()
        volumes, covariates = chosen.volumes, chosen.covariates
    else:
        n_controls, n_patients = (
            (NEW_CONTROLS, NEW_PATIENTS)
            if new_people
            else (task.n_controls, task.n_patients)
        )
        number, start = n_controls + n_patients, "new" if new_people else "sub"
        volumes, covariates = reference.draw(number, rng)
        digits = len(str(number))
        people = pd.DataFrame(
            {ID: [f"{start}-{k:0{digits}d}" for k in range(1, number + 1)]}
        )
    patient = np.ones(number, dtype=bool)
    patient[rng.permutation(number)[:n_controls]] = False
    people[GROUP] = np.where(patient, PATIENT, CONTROL).astype(object)
    patterns = _place_patterns(task, tuple(volumes.columns), pattern_rng)
    return DrawnPeople(
        volumes=volumes,
        people=people,
        covariates=covariates,
        patient=patient,
        patterns=patterns,
    )


def _place_patterns(
    task: SimulationTask, regions: tuple[str, ...], rng: np.random.Generator
) -> list[IntArray]:
    """Return the regions of each pattern as positions; random ones for
    other atlases.
    """
    position = {name: k for k, name in enumerate(regions)}
    if all(name in position for pattern in task.patterns for name in pattern):
        return [
            np.array([position[name] for name in pattern], dtype=np.intp)
            for pattern in task.patterns
        ]
    sizes = [min(len(pattern), max(1, len(regions) // 3)) for pattern in task.patterns]
    return [
        np.sort(rng.choice(len(regions), size=size, replace=False)) for size in sizes
    ]


@dataclass(frozen=True, kw_only=True)
class SiteEffects:
    """Shift and scale of every region at each site.

    Attributes
    ----------
    site : ndarray of shape (N,)
        Site of each person of the cohort.
    mean : ndarray of shape (R,)
        Mean of healthy people.
    sd : ndarray of shape (R,)
        Standard deviation of healthy people.
    shifts : ndarray of shape (sites, R)
        Shift of each region, in standard deviations.
    scales : ndarray of shape (sites, R)
        Factor of the spread of each region.
    """

    site: IntArray
    mean: FloatArray
    sd: FloatArray
    shifts: FloatArray
    scales: FloatArray

    @classmethod
    def draw(
        cls,
        healthy: FloatArray,
        sites: int,
        shift: float,
        scale: float,
        rng: np.random.Generator,
    ) -> "SiteEffects":
        """Draw the site of each person of a cohort, and the effects; healthy (N, R):
        volumes before disease.
        """
        site = rng.integers(sites, size=len(healthy))
        number = int(site.max()) + 1
        shifts = rng.normal(0, shift, size=(number, healthy.shape[1]))
        scales = np.exp(rng.normal(0, scale, size=(number, healthy.shape[1])))
        return cls(
            site=site,
            mean=healthy.mean(axis=0),
            sd=healthy.std(axis=0),
            shifts=shifts,
            scales=scales,
        )

    def apply(self, measured: FloatArray, site: IntArray) -> FloatArray:
        """Return volumes (N, R) with the effects of sites (N,)."""
        moved = (
            self.mean
            + self.sd * self.shifts[site]
            + self.scales[site] * (measured - self.mean)
        )
        return np.asarray(
            np.maximum(moved, _MIN_VOLUME_SHARE * self.mean)
            if (self.mean > 0).all()
            else moved
        )


@dataclass(frozen=True)
class IndexScore:
    """Pattern-c-index of R-indices.

    Attributes
    ----------
    pattern_c_index : float
        Mean over the patterns.
    per_pattern : list of tuple of str and float
        Severity, matched R-index and score of each pattern.
    people : int
        Number of patients.
    """

    pattern_c_index: float
    per_pattern: list[tuple[str, str, float]]
    people: int


def score_tables(indices: Path, truth: Path) -> IndexScore:
    """Return the pattern-c-index of a table of R-indices, joined to the true severities
    by participant.

    If both tables have sessions, visits are joined, and visits without R-indices are
    left out.
    """
    frames = [read_frame(path, [ID, SESSION], Findings()) for path in (indices, truth)]
    keys = [ID, SESSION] if all(SESSION in frame for frame in frames) else [ID]
    inferred, severities = (
        _select_columns(frame, path, letter, keys)
        for frame, path, letter in zip(frames, (indices, truth), "rs", strict=True)
    )
    missing = severities.index.get_level_values(ID).difference(
        inferred.index.get_level_values(ID)
    )
    if len(missing):
        raise InputError(
            f"{indices.name} lacks {len(missing)} people of {truth.name}: {join_names(missing)}."
        )
    severities = severities[severities.index.isin(inferred.index)]
    score = pattern_c_index(
        severities.to_numpy(), inferred.loc[severities.index].to_numpy()
    )
    matched = zip(
        severities.columns,
        inferred.columns[score.matching],
        map(float, score.per_pattern),
        strict=True,
    )
    return IndexScore(score.mean, list(matched), len(severities))


def _select_columns(
    frame: pd.DataFrame, path: Path, letter: str, keys: list[str]
) -> pd.DataFrame:
    """Return the columns r1, r2, ... or s1, s2, ... by participant, or by participant
    and session.
    """
    columns = [name for name in frame.columns if re.fullmatch(rf"{letter}\d+", name)]
    if ID not in frame or not columns:
        needed = f"the columns {ID} and {letter}1, {letter}2, ..."
        raise TableError(
            f"{path.name} needs {needed}; it has {join_names(frame.columns)}."
        )
    duplicates = frame.loc[frame.duplicated(keys), ID]
    if len(duplicates):
        raise TableError(
            f"people appear more than once in {path.name}: {join_names(duplicates)}."
        )
    numbers = frame.set_index(keys)[columns].apply(pd.to_numeric, errors="coerce")
    if not np.isfinite(numbers.to_numpy(dtype=float)).all():
        raise TableError(
            f"{path.name} has cells in {join_names(columns)} that are not numbers: correct them."
        )
    return numbers.astype(float)
