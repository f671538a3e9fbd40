"""The studies whose sentences are read: simulated ones, altered ones and tables of real
people.

Shape letters: N people, V scans, R regions, M patterns.
"""

import re
import tomllib
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path

import numpy as np
import pandas as pd

from rindices.experiments.reference import AGE_CENTRE, load_reference
from rindices.tables.layouts.muse import single_regions

ID, SESSION, GROUP, SITE = "participant_id", "session_id", "group", "site"
DATA = Path("../shared/data")
DEFAULT_COVARIATES = ("age", "sex", "icv")
SUBCORTICAL = ["Hippocampus", "Amygdala", "Caudate", "Putamen", "Pallidum", "Thalamus"]
"""Structures of the volumes in tables of thickness and volumes."""
_MUSE_OF = {"Thalamus": "ThalamusProper"}
SITES = "ABC"
_THICKNESS_SD, _THICKNESS_PER_YEAR = 0.045, -0.002  # of the logarithm
STRUCTURES_OF_PATTERN = 4
"""Structures, with both sides, that a simulated pattern changes."""
RETEST_SHARE = (
    0.25  # standard deviation of the noise of a scan, relative to that between people
)


@dataclass(frozen=True, kw_only=True)
class Alteration:
    """What was done to a part of a table.

    Attributes
    ----------
    kind : str
        ``factor`` on volumes, left and right swapped (``sides``), or a pattern at one
        site alone (``one_site``).
    group : str
        ``patient`` or ``control``; empty for both.
    site : str
        Empty for all.
    factor : float
        Of kind ``factor``.
    with_head_size : bool
        Whether the factor is on the head size, too.
    """

    kind: str
    group: str = ""
    site: str = ""
    factor: float = 1.0
    with_head_size: bool = False


@dataclass(frozen=True, kw_only=True)
class Study:
    """One study of the table.

    Attributes
    ----------
    name : str
    kind : str
        ``sound``, ``null`` (no disease, or permuted labels), ``artefact``, or
        ``harmonised``: an alteration that the study removes.
    controls, patients : int
    structures : int
        Structures of the brain, with two regions each.
    measure : str
        ``volume``, ``thickness``, ``both``, or ``any`` for features.
    patterns : int
        True number of patterns.
    directions : str
        ``losses``, ``gains``, ``mixed`` (a quarter of the structures of a pattern
        gain), or ``sides`` (the two sides of a structure change in opposite
        directions).
    strength : float
        Largest change at full severity, in standard deviations of controls.
    last_onset : float
        Severity at which the last region begins to change; 0 where all change together.
    is_even : bool
        Whether regions that change together do so on the logarithmic scale, on which
        they are analysed; else in mm3, where regions with a large change bend a little
        more than others on the logarithmic scale.
    uniform : bool
        Whether all patients have the same severity: then they do not differ from each
        other.
    sites : int
    imbalance : float
        Share of patients at the first site beyond that of controls.
    older : float
        Years by which patients are older than controls.
    visits : int
    outlying : float
        Share of measurements that are outlying.
    outlying_group : str
        Group whose measurements these are; empty for both.
    permuted : bool
        Whether the labels were permuted.
    alteration : Alteration, optional
    options : tuple of str
        Of ``rindices fit``.
    make : callable, optional
        Takes a folder, and returns the tables of real people, see `RealTables`.
    with_report : bool
        Whether the command writes the report itself, with pictures.
    """

    name: str
    kind: str = "sound"
    controls: int = 120
    patients: int = 150
    structures: int = 20
    measure: str = "volume"
    patterns: int = 2
    directions: str = "losses"
    strength: float = 3.5
    last_onset: float = 0.0
    is_even: bool = True
    uniform: bool = False
    sites: int = 0
    imbalance: float = 0.0
    older: float = 0.0
    visits: int = 1
    outlying: float = 0.0
    outlying_group: str = ""
    permuted: bool = False
    alteration: Alteration | None = None
    options: tuple[str, ...] = ("--patterns", "2")
    make: "Callable[[Path], RealTables | None] | None" = None
    with_report: bool = False


@dataclass(frozen=True, kw_only=True)
class RealTables:
    """Tables of real people, as they are given to the command.

    Attributes
    ----------
    tables : list of str
        Arguments of the command before the options of the study.
    people : DataFrame
        ``participant_id``, ``session_id`` where people have several scans, ``group``
        (control or patient), ``site`` where it is used, and the covariates: one row per
        scan.
    covariates : tuple of str
    """

    tables: list[str]
    people: pd.DataFrame
    covariates: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Truth:
    """What is known of a study before it is fitted.

    Attributes
    ----------
    arguments : list of str
        Tables and options of ``rindices fit``.
    people : DataFrame
        One row per scan, as in `RealTables`.
    covariates : tuple of str
    severities : DataFrame or None
        Severity of each patient in each pattern, by ``participant_id``; None where it
        is not known.
    effects : DataFrame or None
        True change of each region at full severity of each pattern, in standard
        deviations of controls, by region.
    is_staged : bool or None
        Whether regions change one after another; None where it is not known.
    is_null : bool
        Whether the groups do not differ.
    alteration : Alteration or None
    planted : frozenset
        Outlying measurements: participant and region.
    """

    arguments: list[str]
    people: pd.DataFrame
    covariates: tuple[str, ...]
    severities: pd.DataFrame | None = None
    effects: pd.DataFrame | None = None
    is_staged: bool | None = None
    is_null: bool = False
    alteration: Alteration | None = None
    planted: frozenset[tuple[str, str]] = field(default_factory=frozenset)

    @property
    def first(self) -> pd.DataFrame:
        """The first scan of each participant, by ``participant_id``."""
        return self.people.drop_duplicates(ID).set_index(ID)

    def get_option(self, name: str) -> str | None:
        """Return the value of an option of the command; None where it is not given."""
        if name not in self.arguments:
            return None
        return self.arguments[self.arguments.index(name) + 1]

    def count(self, group: str) -> int:
        """Return the number of participants of a group."""
        return int((self.first[GROUP] == group).sum())

    def count_scans(self) -> Counter[str]:
        """Return the number of scans by group."""
        return Counter(self.people[GROUP])


@dataclass
class _Healthy:
    """Logarithms of measures (N, R) of healthy people, with what a disease needs to
    know about them.
    """

    logs: np.ndarray
    names: list[str]  # R, as the program names them
    columns: list[str]  # R, as the table names them
    sd: np.ndarray  # (R,), of people with equal covariates
    structure: np.ndarray  # (R,), number of the structure
    covariates: pd.DataFrame


def write_study(study: Study, seed: int, folder: Path) -> Truth | None:
    """Write the tables of a study; None where a table of real people is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    if study.make is not None:
        real = study.make(folder)
        if real is None:
            return None
        arguments = [*real.tables, *study.options]
        is_null = study.kind == "null"
        return Truth(
            arguments=arguments,
            people=real.people,
            covariates=real.covariates,
            is_null=is_null,
            alteration=study.alteration,
        )
    return _simulate(
        study, np.random.default_rng([seed, zlib.crc32(study.name.encode())]), folder
    )


def _simulate(study: Study, rng: np.random.Generator, folder: Path) -> Truth:
    number = study.controls + study.patients
    patient = rng.permutation(np.arange(number) < study.patients)
    healthy = _draw_healthy(study, patient, rng)
    site = _draw_sites(study, patient, rng)
    effects = _draw_effects(study, healthy, rng)
    severities = _draw_severities(study, patient, site, rng)
    onsets = np.zeros(effects.shape)
    for k in range(effects.shape[1]):
        affected = np.flatnonzero(effects[:, k])
        onsets[affected, k] = rng.permutation(
            np.linspace(0, study.last_onset, len(affected))
        )

    def change(severity: np.ndarray) -> np.ndarray:
        factor = np.ones(healthy.logs.shape)
        for k in range(effects.shape[1]):
            share = np.clip(
                (severity[:, k, None] - onsets[:, k]) / (1 - onsets[:, k]), 0, 1
            )
            full = effects[:, k] * healthy.sd
            factor *= (
                np.exp(share * full)
                if study.is_even
                else 1 + share * (np.exp(full) - 1)
            )
        return np.asarray(np.log(factor))

    logs = healthy.logs + rng.normal(0, 1, (max(study.sites, 1), len(healthy.sd)))[
        site
    ] * healthy.sd * (0.5 if study.sites else 0.0)
    ids = np.array([f"sub-{k + 1:03d}" for k in range(number)])
    people = pd.DataFrame({ID: ids, GROUP: np.where(patient, "patient", "control")})
    if study.permuted:
        people[GROUP] = rng.permutation(people[GROUP].to_numpy())
    if study.sites:
        people[SITE] = [SITES[number] for number in site]
    people = pd.concat([people, healthy.covariates], axis=1)
    if study.visits > 1:
        values, people = _follow(
            study, people, logs, change, severities, healthy.sd, rng
        )
    else:
        values = np.exp(logs + change(severities))
    values, planted = _plant_cells(study, values, people, healthy.names, rng)
    people = _alter(study.alteration, values, people, healthy)
    names = [f"s{k + 1}" for k in range(effects.shape[1])]
    has_truth = len(names) > 0 and not study.permuted
    truth = pd.DataFrame(severities[patient], columns=names, index=ids[patient])
    return Truth(
        arguments=[
            *_write_tables(study, folder, people, values, healthy.columns),
            *study.options,
        ],
        people=people,
        covariates=() if "--covariates" in study.options else tuple(healthy.covariates),
        severities=truth if has_truth else None,
        effects=pd.DataFrame(effects, columns=names, index=healthy.names)
        if has_truth
        else None,
        is_staged=study.last_onset > 0 if has_truth else None,
        is_null=study.kind == "null",
        alteration=study.alteration,
        planted=planted,
    )


def _draw_healthy(
    study: Study, patient: np.ndarray, rng: np.random.Generator
) -> _Healthy:
    """Draw healthy people with volumes of the package's generator, thicknesses, or
    both.
    """
    reference, number = load_reference(), len(patient)
    volumes, covariates = reference.draw(number, rng)
    if study.older:
        covariates["age"] = (covariates["age"] + study.older * patient).round(2)
        years = np.where(patient, study.older, 0.0)[:, None] * reference.coefficients[1]
        volumes = volumes * np.exp(years)
    sd = dict(
        zip(
            reference.regions,
            np.sqrt(np.diag(reference.residual_covariance)),
            strict=True,
        )
    )
    pairs = _pair_muse_regions(reference.regions)
    if study.measure == "any":
        return _draw_features(2 * study.structures, covariates.drop(columns="icv"), rng)
    if study.measure == "volume":
        chosen = [
            list(pairs)[k] for k in rng.permutation(len(pairs))[: study.structures]
        ]
        names = [name for structure in chosen for name in pairs[structure]]
        columns = [name.replace("MUSE_", "DL_MUSE_Volume_") for name in names]
        structure = np.repeat(np.arange(len(chosen)), 2)
        logs = np.log(volumes[names].to_numpy())
        return _Healthy(
            logs,
            names,
            columns,
            np.array([sd[name] for name in names]),
            structure,
            covariates,
        )
    listed = tomllib.loads(
        (files("rindices.tables.data") / "names.toml").read_text("utf-8")
    )
    parcels = listed["structures"]["parcels"].split()[: study.structures]
    names = [
        f"{side}_{parcel}_thickness" for parcel in parcels for side in ("lh", "rh")
    ]
    logs = _draw_thickness(covariates["age"].to_numpy(), len(parcels), rng)
    deviations = np.full(len(names), _THICKNESS_SD)
    if study.measure == "both":
        for structure_name in SUBCORTICAL:
            own = pairs[_MUSE_OF.get(structure_name, structure_name)]  # right, left
            names += [f"Right-{structure_name}", f"Left-{structure_name}"]
            logs = np.column_stack([logs, np.log(volumes[own].to_numpy())])
            deviations = np.append(deviations, [sd[name] for name in own])
    else:
        covariates = covariates.drop(columns="icv")
    return _Healthy(
        logs,
        names,
        names,
        deviations,
        np.repeat(np.arange(len(names) // 2), 2),
        covariates,
    )


def _draw_features(
    number: int, covariates: pd.DataFrame, rng: np.random.Generator
) -> _Healthy:
    """Draw positive features without sides, of very different levels."""
    sd = rng.uniform(0.1, 0.4, number)
    common, own = (
        rng.normal(size=(len(covariates), 1)),
        rng.normal(size=(len(covariates), number)),
    )
    logs = rng.uniform(-1, 5, number) + sd * (0.5 * common + np.sqrt(0.75) * own)
    names = [f"marker_{k + 1:02d}" for k in range(number)]
    return _Healthy(logs, names, names, sd, np.arange(number) // 2, covariates)


def _pair_muse_regions(regions: tuple[str, ...]) -> dict[str, list[str]]:
    """Return the right and the left region of each structure that has both."""
    labels = {f"MUSE_{code}": region.label for code, region in single_regions().items()}
    sides: dict[str, dict[str, str]] = {}
    for name in regions:
        if match := re.fullmatch(r"(.+)_([LR])", labels[name]):
            sides.setdefault(match[1], {})[match[2]] = name
    return {
        structure: [own["R"], own["L"]]
        for structure, own in sides.items()
        if len(own) == 2
    }


def _draw_thickness(
    age: np.ndarray, n_structures: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw logarithms of thickness (N, R); regions share a part of their deviations,
    and two sides another one.
    """
    level = np.log(rng.uniform(2.0, 3.2, n_structures)).repeat(2) + rng.normal(
        0, 0.02, 2 * n_structures
    )
    shares = np.sqrt([0.25, 0.4, 0.35])
    common, sides = (
        rng.normal(size=(len(age), 1)),
        rng.normal(size=(len(age), n_structures)).repeat(2, axis=1),
    )
    own = rng.normal(size=(len(age), 2 * n_structures))
    deviations = shares[0] * common + shares[1] * sides + shares[2] * own
    return np.asarray(
        level
        + _THICKNESS_PER_YEAR * (age[:, None] - AGE_CENTRE)
        + _THICKNESS_SD * deviations
    )


def _draw_sites(
    study: Study, patient: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the number of the site of each person."""
    if not study.sites:
        return np.zeros(len(patient), dtype=int)
    even = np.full(study.sites, 1 / study.sites)
    shares = even + study.imbalance * (np.eye(study.sites)[0] - even)
    return np.where(
        patient,
        rng.choice(study.sites, len(patient), p=shares),
        rng.choice(study.sites, len(patient), p=even),
    )


def _draw_effects(
    study: Study, healthy: _Healthy, rng: np.random.Generator
) -> np.ndarray:
    """Return the change (R, M) at full severity, in standard deviations of controls;
    patterns share no structure.
    """
    n_structures = int(healthy.structure.max()) + 1
    order, effects = (
        rng.permutation(n_structures),
        np.zeros((len(healthy.sd), study.patterns)),
    )
    for k in range(study.patterns):
        for position, structure in enumerate(
            order[k * STRUCTURES_OF_PATTERN : (k + 1) * STRUCTURES_OF_PATTERN]
        ):
            regions = np.flatnonzero(healthy.structure == structure)
            signs = np.full(len(regions), 1.0 if study.directions == "gains" else -1.0)
            if study.directions == "mixed" and position == 0:
                signs *= -1
            if study.directions == "sides" and position == 0:
                signs[0] *= -1
            effects[regions, k] = (
                signs * rng.uniform(0.6, 1.0, len(regions)) * study.strength
            )
    return effects


def _draw_severities(
    study: Study, patient: np.ndarray, site: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return the severity of each person in each pattern, (N, M); 0 in controls."""
    severities = rng.uniform(size=(len(patient), study.patterns)) * patient[:, None]
    if study.uniform:
        severities = np.ones_like(severities) * patient[:, None]
    if (
        study.alteration is not None and study.alteration.kind == "one_site"
    ):  # the last pattern is of one site
        severities[site != SITES.index(study.alteration.site), -1] = 0.0
    return severities


def _follow(
    study: Study,
    people: pd.DataFrame,
    logs: np.ndarray,
    change: Callable[[np.ndarray], np.ndarray],
    severities: np.ndarray,
    sd: np.ndarray,
    rng: np.random.Generator,
) -> tuple[np.ndarray, pd.DataFrame]:
    """Return values (V, R) and rows of all scans; a tenth of the people are scanned
    once.
    """
    growth = rng.uniform(0, 0.15, severities.shape) * (severities > 0)
    rows, values = [], []
    stays = rng.random(len(people)) < 0.9
    for visit in range(study.visits):
        kept = np.flatnonzero(stays | (visit == 0))
        scan = people.iloc[kept].copy()
        scan.insert(1, SESSION, f"ses-{visit + 1}")
        scan["age"] = (scan["age"] + visit).round(2)
        noise = rng.normal(0, RETEST_SHARE, (len(kept), len(sd))) * sd
        values.append(
            np.exp(
                (logs + change(np.clip(severities + visit * growth, 0, 1)))[kept]
                + noise
            )
        )
        rows.append(scan)
    return np.concatenate(values), pd.concat(rows, ignore_index=True)


def _plant_cells(
    study: Study,
    values: np.ndarray,
    people: pd.DataFrame,
    names: list[str],
    rng: np.random.Generator,
) -> tuple[np.ndarray, frozenset[tuple[str, str]]]:
    """Return values (V, R) in which some cells are wrong by a factor of
    2.5, and these.
    """
    if not study.outlying:
        return values, frozenset()
    is_group = (
        (people[GROUP] == study.outlying_group).to_numpy()
        if study.outlying_group
        else np.ones(len(people), bool)
    )
    wrong = (rng.random(values.shape) < study.outlying) & is_group[:, None]
    factors = np.where(rng.random(values.shape) < 0.5, 2.5, 0.4)
    found = frozenset(
        (str(people[ID].iloc[row]), names[column]) for row, column in np.argwhere(wrong)
    )
    return np.where(wrong, values * factors, values), found


def _alter(
    alteration: Alteration | None,
    values: np.ndarray,
    people: pd.DataFrame,
    healthy: _Healthy,
) -> pd.DataFrame:
    """Alter values (V, R) in place; return the people, whose head size may be altered,
    too.
    """
    if alteration is None or alteration.kind == "one_site":
        return people
    rows = find_block(alteration, people)
    if alteration.kind == "factor":
        values[rows] *= alteration.factor
        if alteration.with_head_size:
            people = people.assign(
                icv=np.where(rows, people["icv"] * alteration.factor, people["icv"])
            )
    else:
        values[rows] = values[rows][:, swap_sides(healthy.names, healthy.structure)]
    return people


def find_block(alteration: Alteration, people: pd.DataFrame) -> np.ndarray:
    """Return the mask of the rows that an alteration concerns."""
    rows = np.ones(len(people), dtype=bool)
    if alteration.group:
        rows &= (people[GROUP] == alteration.group).to_numpy()
    if alteration.site:
        rows &= (people[SITE] == alteration.site).to_numpy()
    return rows


def swap_sides(names: list[str], structure: np.ndarray) -> np.ndarray:
    """Return the position (R,) of the region of the other side; the two regions of a
    structure follow each other.
    """
    positions = np.arange(len(names))
    return np.where(
        np.append(structure[1:] == structure[:-1], False), positions + 1, positions - 1
    )


def _write_tables(
    study: Study,
    folder: Path,
    people: pd.DataFrame,
    values: np.ndarray,
    columns: list[str],
) -> list[str]:
    """Write the tables of a simulated study, and return the arguments that
    name them.
    """
    keys = [name for name in (ID, SESSION) if name in people]
    table = pd.concat(
        [people[keys], pd.DataFrame(values.round(4), columns=columns)], axis=1
    )
    table.to_csv(folder / "volumes.csv", index=False)
    people.to_csv(folder / "participants.tsv", sep="\t", index=False)
    measure = ["--measure", study.measure] if study.measure == "thickness" else []
    return [
        str(folder / "volumes.csv"),
        "--participants",
        str(folder / "participants.tsv"),
        *measure,
    ]


def make_psychosis(folder: Path, permuted: bool = False) -> RealTables | None:
    """Return early psychosis: two visits, thickness and volumes."""
    path = DATA / "patients" / "psychosis" / "LNM_data.csv"
    if not path.is_file():
        return None
    table = pd.read_csv(path)
    if permuted:
        path = folder / "permuted.csv"
        labels = table.drop_duplicates("sub_id").set_index("sub_id")["group"]
        labels[:] = np.random.default_rng(900).permutation(labels.to_numpy())
        table = table.assign(group=table["sub_id"].map(labels))
        table.to_csv(path, index=False)
    names = ("age", "sex", "EstimatedTotalIntraCranialVol")
    options = [
        "--id",
        "sub_id",
        "--session",
        "visit",
        "--group",
        "group",
        "--covariates",
        ",".join(names),
    ]
    people = table.rename(columns={"sub_id": ID, "visit": SESSION})[
        [ID, SESSION, GROUP, *names]
    ]
    return RealTables(tables=[str(path), *options], people=people, covariates=names)


def make_autism(folder: Path) -> RealTables | None:
    """Return ABIDE I: volumes of 20 sites."""
    stats = DATA / "patients" / "autism" / "stats"
    path = stats.parent / "Phenotypic_V1_0b_preprocessed1.csv"
    if not path.is_file():
        return None
    tables = [
        stats / f"{name}.tsv"
        for name in ("aseg_table", "lh.aparc_table_volume", "rh.aparc_table_volume")
    ]
    frames = [pd.read_csv(each, sep="\t", index_col=0) for each in tables]
    cortex = pd.concat(frames[1:], axis=1)
    complete = set(
        cortex.index[(cortex > 0).all(axis=1)]
    )  # FreeSurfer writes 0 for what it did not find
    names = ("AGE_AT_SCAN", "SEX", "SupraTentorialVol")
    people = pd.read_csv(path)
    people = people[people["FILE_ID"].isin(complete)].drop(
        columns=["SupraTentorialVol"], errors="ignore"
    )
    people = people.merge(
        frames[0]["SupraTentorialVol"], left_on="FILE_ID", right_index=True
    )
    people[GROUP] = people["DX_GROUP"].map({1: "patient", 2: "control"})
    people = people.rename(columns={"FILE_ID": ID, "SITE_ID": SITE})[
        [ID, GROUP, SITE, *names]
    ].reset_index(drop=True)
    options = [
        "--participants",
        str(path),
        "--participants-id",
        "FILE_ID",
        "--group",
        "DX_GROUP",
        "--controls",
        "2",
    ]
    options += [
        "--patients",
        "1",
        "--site",
        "SITE_ID",
        "--covariates",
        ",".join(names),
        "--on-missing",
        "drop",
    ]
    return RealTables(
        tables=[*map(str, tables), *options], people=people, covariates=names
    )


def make_csf(folder: Path) -> RealTables | None:
    """Return proteins of the cerebrospinal fluid, without those that define the
    disease.
    """
    path = DATA / "csf" / "ad_data.csv"
    if not path.is_file():
        return None
    table = (
        pd.read_csv(path)
        .rename(columns={"rownames": ID})
        .drop(columns=["tau", "p_tau", "Ab_42", "Genotype"])
    )
    table.to_csv(folder / "csf.csv", index=False)
    people = table.assign(
        **{GROUP: table["Class"].map({"Control": "control", "Impaired": "patient"})}
    )
    names = ("male", "age")
    options = [
        "--group",
        "Class",
        "--controls",
        "Control",
        "--patients",
        "Impaired",
        "--measure",
        "any",
    ]
    options += ["--covariates", ",".join(names), "--missing-codes", "none"]
    people = people[[ID, GROUP, *names]].astype({ID: str})
    return RealTables(
        tables=[str(folder / "csf.csv"), *options], people=people, covariates=names
    )


def make_ixi(folder: Path, factor: float = 1.0) -> RealTables | None:
    """Return ageing in volumes: people of 60 years and more against those under 55;
    ``factor``: on their volumes.
    """
    volumes, path = DATA / "ixi" / "volumes.csv", DATA / "ixi" / "demographics.csv"
    if not path.is_file():
        return None
    people = pd.read_csv(path)
    people = people[(people["Age"] < 55) | (people["Age"] >= 60)]
    people = people.assign(
        group=np.where(people["Age"] < 55, "young", "old"), sex=people["Sex"]
    )
    people[["ID", "sex", "group"]].to_csv(folder / "people.csv", index=False)
    table = pd.read_csv(volumes)
    people = people.merge(table[["ID", "702"]].rename(columns={"702": "icv"}), on="ID")
    if factor != 1.0:
        old, volumes = (
            table["ID"].isin(people.loc[people["group"] == "old", "ID"]),
            folder / "volumes.csv",
        )
        measured = [name for name in table if name not in ("ID", "702")]
        table[measured] = table[measured].mul(np.where(old, factor, 1.0), axis=0)
        table.to_csv(volumes, index=False)
    people = people.rename(columns={"ID": ID}).assign(
        group=people["group"].map({"young": "control", "old": "patient"})
    )
    options = [
        "--participants",
        str(folder / "people.csv"),
        "--group",
        "group",
        "--controls",
        "young",
    ]
    options += ["--patients", "old", "--covariates", "sex,icv", "--on-missing", "drop"]
    return RealTables(
        tables=[str(volumes), *options],
        people=people[[ID, GROUP, "sex", "icv"]],
        covariates=("sex", "icv"),
    )


def make_dementia(folder: Path, alteration: str = "") -> RealTables | None:
    """Return dementia: thickness of OASIS-1; ``alteration``: ``permuted`` labels or
    ``sides`` swapped in patients.
    """
    path = DATA / "patients" / "dementia" / "oasis1_thickness.csv"
    if not path.is_file():
        return None
    table, names = pd.read_csv(path), ("age", "sex", "eTIV")
    regions = [name for name in table if re.match("[LR]_", name)]
    is_patient = (table["CDR"] > 0).to_numpy()
    if alteration == "permuted":
        is_patient = np.random.default_rng(900).permutation(is_patient)
    if alteration == "sides":
        others = [f"{'R' if name[0] == 'L' else 'L'}{name[1:]}" for name in regions]
        table.loc[is_patient, regions] = table.loc[is_patient, others].to_numpy()
    table = table.assign(group=np.where(is_patient, "patient", "control"))
    table[["ID", GROUP, *names, *regions]].to_csv(folder / "oasis1.csv", index=False)
    people = table.rename(columns={"ID": ID})[[ID, GROUP, *names]]
    options = [
        "--group",
        GROUP,
        "--covariates",
        ",".join(names),
        "--measure",
        "thickness",
    ]
    return RealTables(
        tables=[str(folder / "oasis1.csv"), *options], people=people, covariates=names
    )


def make_fcon1000(folder: Path) -> RealTables | None:
    """Return ageing in thickness: people of 50 years and more against those under 40,
    at sites with 10 of these.
    """
    path = DATA / "fcon1000" / "fcon1000.csv"
    if not path.is_file():
        return None
    table = pd.read_csv(path)
    thickness = [name for name in table if name.endswith("_thickness")]
    table = table.drop_duplicates(thickness)  # one person under two ids
    table = table[
        ((table["age"] < 40) | (table["age"] >= 50))
        & table[thickness].notna().all(axis=1)
    ]
    young = table["age"] < 40
    table = table[young.groupby(table["site"]).transform("sum") >= 10]
    table = table.assign(group=np.where(table["age"] < 40, "control", "patient"))
    table[["sub_id", "sex", "site", GROUP, *thickness]].to_csv(
        folder / "ageing.csv", index=False
    )
    options = [
        "--id",
        "sub_id",
        "--group",
        GROUP,
        "--covariates",
        "sex",
        "--site",
        "site",
        "--measure",
        "thickness",
    ]
    people = table.rename(columns={"sub_id": ID})[[ID, GROUP, SITE, "sex"]]
    return RealTables(
        tables=[str(folder / "ageing.csv"), *options],
        people=people,
        covariates=("sex",),
    )


def make_depression(folder: Path) -> RealTables | None:
    """Return major depression, in which nothing differs: thickness of two sites."""
    path = DATA / "patients" / "depression" / "openneuro_main.csv"
    if not path.is_file():
        return None
    table = pd.read_csv(path)
    people = table.assign(group=table["group"].map({"HC": "control", "MDD": "patient"}))
    people = people.rename(columns={"subject": ID})
    options = [
        "--measure",
        "thickness",
        "--group",
        "group",
        "--controls",
        "HC",
        "--patients",
        "MDD",
    ]
    options += ["--covariates", "age,sex", "--site", "site"]
    return RealTables(
        tables=[str(path), *options],
        people=people[[ID, GROUP, SITE, "age", "sex"]],
        covariates=("age", "sex"),
    )
