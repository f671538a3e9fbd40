"""Tables of real people who differ by known factors, and real people on whom patterns
are imposed.

``real_factors.toml`` says which people are the "controls" and the "patients" of each
table, and which covariates every method adjusts for. The factors are kept apart as the
truth.

Shape letters: N people, K factors.
"""

import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import BoolArray, FloatArray, IntArray
from rindices.errors import SimulationError, did_you_mean
from rindices.tables.cohort import ID, Cohort
from rindices.tables.readers import read_cohort

DESCRIPTION = Path(__file__).parent / "real_factors.toml"
ROLES = ("scenario", "choosing", "reporting", "apart", "mixed")
N_PATTERNS, PATTERN_SIZE = 3, 13  # of the suite real-base
_PATIENT_SHARE, _NOISE_OF_CHANGE = 0.62, 0.05


class Source(NamedTuple):
    """Everybody of a public table.

    Attributes
    ----------
    volumes : DataFrame
        Regions of each person; the index is the person.
    people : DataFrame
        Age, sex (``male`` is 1 or 0), ``head_size``, ``site`` and whatever else is
        known; same index.
    measure : str, optional
        What `read_cohort` is to be told about the regions.
    """

    volumes: pd.DataFrame
    people: pd.DataFrame
    measure: str | None = "any"


@dataclass(frozen=True, kw_only=True)
class Factor:
    """A real factor: the column that measures it, and the conditions of people without
    and with it.
    """

    column: str
    without: str
    present: str


@dataclass(frozen=True, kw_only=True, eq=False)
class TableDescription:
    """A table of the suite real-factors; see ``real_factors.toml``."""

    name: str
    role: str
    people: str
    source: str
    factors: Mapping[str, Factor]
    keep: str = ""
    cells: tuple[int, ...] = ()
    told: tuple[str, ...] = ()
    sites: int = 0
    regions: str = "all"
    imposed: float = 0.0


@dataclass(frozen=True, kw_only=True, eq=False)
class BaseDescription:
    """A table of the suite real-base; see ``real_factors.toml``."""

    name: str
    people: str
    source: str
    change: float
    keep: str = ""
    told: tuple[str, ...] = ()
    sites: int = 0
    regions: str = "all"


@dataclass(frozen=True)
class Rules:
    """What holds for all tables."""

    share: float
    splits: int
    seed: int
    least_people_judged: int
    least_controls_of_a_site: int


@dataclass(frozen=True, eq=False)
class FactorTable:
    """Controls and patients as methods see them, and the factors that they are not
    told.

    Attributes
    ----------
    cohort : Cohort
    truth : DataFrame
        (N, K), the factors of everyone, in the order of the cohort.
    n_patterns : int
        Number of patterns that methods are asked for.
    """

    cohort: Cohort
    truth: pd.DataFrame = field(repr=False)

    @property
    def n_patterns(self) -> int:
        """Number of patterns that methods are asked for: one for each factor."""
        return self.truth.shape[1]

    @property
    def patient_truth(self) -> FloatArray:
        """Factors (patients, K) of the patients."""
        return self.truth[self.cohort.is_patient].to_numpy(dtype=float)


@cache
def read_rules() -> Rules:
    """Return the rules of all tables."""
    values = _read_description()
    return Rules(**{name: values[name] for name in Rules.__dataclass_fields__})


@cache
def list_tables() -> dict[str, TableDescription]:
    """Return the tables of the suite real-factors by name."""
    values = _read_description()
    tables = {
        name: _describe_table(name, entry) for name, entry in values["tables"].items()
    }
    for name, entry in values["variants"].items():
        changes = _freeze_lists(entry) | {"name": name, "role": "choosing"}
        tables[name] = replace(tables[changes.pop("like")], **changes)
    return tables


@cache
def list_bases() -> dict[str, BaseDescription]:
    """Return the tables of the suite real-base by name."""
    bases = _read_description()["bases"].items()
    return {
        name: BaseDescription(name=name, **_freeze_lists(entry))
        for name, entry in bases
    }


def find_tables(names: str) -> list[TableDescription]:
    """Return tables by their names or roles, separated by commas."""
    known, found = list_tables(), dict[str, TableDescription]()
    for name in names.split(","):
        chosen = {
            key: each for key, each in known.items() if name in ("all", key, each.role)
        }
        if not chosen:
            hint = did_you_mean(name, [*ROLES, *known])
            raise SimulationError(
                f"the suite real-factors has no table '{name}': {hint}"
            )
        found |= chosen
    return list(found.values())


def find_bases(names: str) -> list[BaseDescription]:
    """Return tables of the suite real-base by their names, separated by commas; ``all``
    is every one.
    """
    known = list_bases()
    if unknown := [name for name in names.split(",") if name not in ("all", *known)]:
        raise SimulationError(
            f"the suite real-base has no table '{unknown[0]}': {did_you_mean(unknown[0], list(known))}"
        )
    return [
        each
        for name, each in known.items()
        if names == "all" or name in names.split(",")
    ]


def draw_table(table: TableDescription, split: int, data: Path) -> FactorTable:
    """Return the people of one split of a table.

    Controls have none of the factors. Patients have at least one: everyone else, or up
    to the sizes of ``cells`` of those who have the second factor alone, the first
    alone, and both.
    """
    rules = read_rules()
    source = _select(read_source(table.source, data), table.keep, table.regions)
    if table.imposed:
        source = _impose_pattern(
            source, table.imposed, np.random.default_rng([rules.seed, split, 1])
        )
    people, rng = source.people, np.random.default_rng([rules.seed, split])
    without = [_evaluate(people, factor.without) for factor in table.factors.values()]
    present = [_evaluate(people, factor.present) for factor in table.factors.values()]
    control = np.logical_and.reduce(without)
    good = np.ones(len(people), dtype=bool)
    if table.sites:
        n_controls = (
            pd.Series(control)
            .groupby(people["site"].to_numpy())
            .transform("sum")
            .to_numpy()
        )
        good = n_controls >= table.sites
    if table.cells:
        patient = np.zeros(len(people), dtype=bool)
        cells = [
            without[0] & present[1],
            present[0] & without[1],
            present[0] & present[1],
        ]
        for cell, size in zip(cells, table.cells, strict=True):
            patient[rng.permutation(np.flatnonzero(cell & good))[:size]] = True
    else:
        patient = np.logical_or.reduce(
            [
                control,
                *map(
                    np.logical_and.reduce, product(*zip(without, present, strict=True))
                ),
            ]
        )
        patient &= good & ~control
    rows = np.concatenate(
        [_take_share(mask, rules.share, rng) for mask in (control & good, patient)]
    )
    if table.sites:
        rows = _keep_sites(
            rows, control, people["site"].to_numpy(), rules.least_controls_of_a_site
        )
    truth = people[[factor.column for factor in table.factors.values()]].set_axis(
        list(table.factors), axis=1
    )
    return _make_table(
        source, rows, patient, truth.astype(float), table.told, bool(table.sites)
    )


def _impose_pattern(source: Source, change: float, rng: np.random.Generator) -> Source:
    """Return the people after half of them lost up to a share of each of 13 regions;
    ``imposed`` is the severity.
    """
    n_people, n_regions = source.volumes.shape
    severity = rng.uniform(size=n_people) * (rng.uniform(size=n_people) < 0.5)
    volumes = source.volumes.astype(float)
    pattern = rng.permutation(n_regions)[:PATTERN_SIZE]
    noise = rng.normal(1.0, _NOISE_OF_CHANGE, (n_people, len(pattern)))
    volumes.iloc[:, pattern] *= 1.0 - severity[:, None] * change * noise
    return source._replace(
        volumes=volumes, people=source.people.assign(imposed=severity)
    )


def draw_base(base: BaseDescription, seed: int, data: Path) -> FactorTable:
    """Return real people on whom three patterns of 13 regions are imposed; the truth
    are the severities.
    """
    source = _select(read_source(base.source, data), base.keep, base.regions)
    rng, n_people = np.random.default_rng(seed), len(source.people)
    patient = rng.permutation(n_people) < int(_PATIENT_SHARE * n_people)
    severities = np.where(
        patient[:, None], rng.uniform(size=(n_people, N_PATTERNS)), 0.0
    )
    volumes, regions = (
        source.volumes.to_numpy(dtype=float).copy(),
        rng.permutation(source.volumes.shape[1]),
    )
    shared, n_own = regions[:N_PATTERNS], PATTERN_SIZE - 2
    for k in range(N_PATTERNS):
        own = regions[N_PATTERNS + n_own * k : N_PATTERNS + n_own * (k + 1)]
        pattern = np.r_[own, shared[k], shared[(k + 1) % N_PATTERNS]]
        noise = rng.normal(1.0, _NOISE_OF_CHANGE, (n_people, PATTERN_SIZE))
        volumes[:, pattern] *= 1.0 - severities[:, [k]] * base.change * noise
    changed = pd.DataFrame(
        volumes, index=source.volumes.index, columns=source.volumes.columns
    )
    rows, site = np.arange(n_people), source.people["site"].to_numpy()
    if base.sites:
        rows = _keep_sites(rows, ~patient, site, base.sites)
    truth = pd.DataFrame(
        severities,
        index=changed.index,
        columns=[f"s{k + 1}" for k in range(N_PATTERNS)],
    )
    return _make_table(
        source._replace(volumes=changed),
        rows,
        patient,
        truth,
        base.told,
        bool(base.sites),
    )


@lru_cache(maxsize=4)
def read_source(name: str, data: Path) -> Source:
    """Return everybody of a public table, without people who lack a region or have one
    that is not positive.
    """
    if not data.is_dir():
        raise SimulationError(
            f"the tables of real people are not in {data}: give their folder with --data."
        )
    source = _SOURCES[name](data)
    complete = (
        (source.volumes > 0).all(axis=1) & source.people.notna().all(axis=1)
    ).to_numpy()
    return source._replace(
        volumes=source.volumes[complete], people=source.people[complete]
    )


def _read_ants(data: Path) -> Source:
    """Return 563 people of IXI: thickness and volume of 62 regions."""
    folder = data / "ixi_programs"
    tables = {
        kind: pd.read_csv(folder / f"ants_{kind}.csv").set_index("ID")
        for kind in ("thickness", "volume")
    }
    people = tables["thickness"].iloc[:, :4]
    volumes = [
        table.loc[people.index].iloc[:, 4:].add_suffix(f"_{kind}")
        for kind, table in tables.items()
    ]
    return _of_adults(pd.concat(volumes, axis=1), _describe_ixi(people))


def _read_freesurfer(data: Path) -> Source:
    """Return the same people: thickness of 62 regions by FreeSurfer."""
    table = pd.read_csv(data / "ixi_programs" / "freesurfer_thickness.csv").set_index(
        "ID"
    )
    return _of_adults(
        table.iloc[:, 4:].add_suffix("_thickness"), _describe_ixi(table.iloc[:, :4])
    )


def _describe_ixi(people: pd.DataFrame) -> pd.DataFrame:
    male, field_strength = (
        (people["sex"] == "M").astype(int),
        people["site"].str.contains("HH").astype(int),
    )
    return people.rename(columns={"head_volume": "head_size"}).assign(
        male=male, field=field_strength
    )


def _of_adults(volumes: pd.DataFrame, people: pd.DataFrame) -> Source:
    adult = (people["age"] >= 18).to_numpy()
    return Source(volumes[adult], people[adult])


def _read_dlmuse(data: Path) -> Source:
    """Return 291 people of IXI: the paper's 139 volumes."""
    folder = data / "ixi"
    people, volumes = (
        pd.read_csv(folder / name).set_index("ID")
        for name in ("demographics.csv", "volumes.csv")
    )
    single = pd.read_csv(folder / "muse_single_rois.csv")["Index"].astype(str)
    ventricles = {"4", "11", "49", "50", "51", "52"}
    site = pd.Series([name.split("-")[1] for name in people.index], people.index)
    known = people.rename(columns={"Age": "age", "Sex": "sex"}).assign(
        head_size=volumes["702"], site=site
    )
    known = known.assign(
        male=(known["sex"] == "M").astype(int), field=(site == "HH").astype(int)
    )
    return Source(
        volumes[
            [name for name in single if name not in ventricles and name in volumes]
        ],
        known,
        None,
    )


_SUBCORTICAL = (
    *(
        "Thalamus-Proper",
        "Caudate",
        "Putamen",
        "Pallidum",
        "Hippocampus",
        "Amygdala",
        "Accumbens-area",
        "VentralDC",
    ),
    *("Cerebellum-Cortex", "Cerebellum-White-Matter"),
)


def _select_destrieux(table: pd.DataFrame) -> pd.DataFrame:
    """Return 148 thicknesses and 21 subcortical volumes."""
    thickness = [
        name
        for name in table
        if name.endswith("_thickness") and "MeanThickness" not in name
    ]
    volumes = [f"{side}-{name}" for name in _SUBCORTICAL for side in ("Left", "Right")]
    return table[[*thickness, *volumes, "Brain-Stem"]]


def _read_fcon(data: Path) -> Source:
    table = pd.read_csv(data / "fcon1000" / "fcon1000.csv")
    table = (
        table.assign(sub_id="F" + table["sub_id"].astype(str))
        .drop_duplicates("sub_id")
        .set_index("sub_id")
    )
    people = table[["age", "site"]].assign(
        male=table["sex"], head_size=table["EstimatedTotalIntraCranialVol"]
    )
    people = people.assign(
        sex=np.where(people["male"] == 1, "M", "F"),
        cambridge=(people["site"] == "Cambridge_Buckner").astype(int),
    )
    return _of_adults(_select_destrieux(table), people)


def _read_psychosis(data: Path) -> Source:
    """Return the controls of the psychosis study at their first visit."""
    table = pd.read_csv(data / "patients" / "psychosis" / "LNM_data.csv")
    table = table[(table["visit"] == 1) & (table["group"] == "control")].set_index(
        "sub_id"
    )
    people = table[["age", "sex", "site"]].assign(
        head_size=table["EstimatedTotalIntraCranialVol"]
    )
    return Source(
        _select_destrieux(table), people.assign(male=(table["sex"] == "M").astype(int))
    )


def _read_depression(data: Path) -> Source:
    """Return the controls of the two depression studies."""
    table = pd.read_csv(data / "patients" / "depression" / "openneuro_main.csv")
    table = table[table["group"] == "HC"].set_index("subject")
    people = table[["age", "sex", "site"]].assign(
        male=table["sex"].astype(str).str.startswith("M").astype(int)
    )
    regions = [name for name in table if name.startswith(("lh_", "rh_"))]
    return Source(table[regions].add_suffix("_thickness"), people)


def _read_oasis(data: Path) -> Source:
    """Return 198 people of 60 years and more: thickness of 32 regions."""
    table = pd.read_csv(
        data / "patients" / "dementia" / "oasis1_thickness.csv"
    ).set_index("ID")
    male, dementia = (table["sex"] == "M").astype(int), (table["CDR"] > 0).astype(int)
    people = table[["age", "sex"]].assign(
        head_size=table["eTIV"], male=male, dementia=dementia, site="oasis"
    )
    regions = [name for name in table if name.startswith(("L_", "R_"))]
    return Source(table[regions].add_suffix("_thickness"), people)


def _read_openneuro(data: Path) -> Source:
    """Return the healthy people of 13 studies: thickness and volume of Desikan's
    regions, subcortical volumes.
    """
    table = pd.read_csv(
        data / "patients" / "openneuro" / "openneuro_freesurfer.csv", low_memory=False
    )
    table = table[table["group"] == "CON"].copy()
    table = table.assign(
        person=table["dataset"] + "_" + table["participant_id"].astype(str)
    ).set_index("person")
    people = table[["age", "sex"]].assign(
        head_size=table["eTIV"], site=table["dataset"]
    )
    cortical = [name for name in table if name.endswith(("_thickness", "_volume"))]
    sides = [
        f"{side}-{name.removesuffix('-Proper')}"
        for name in _SUBCORTICAL
        for side in ("Left", "Right")
    ]
    regions = table[[*cortical, *(name for name in sides if name in table)]].apply(
        pd.to_numeric, errors="coerce"
    )
    return Source(regions, people.assign(male=(people["sex"] == "M").astype(int)))


_OF_NO_REGION = (
    *(
        "Vent",
        "vessel",
        "choroid",
        "CSF",
        "Vol",
        "hypoint",
        "SurfaceHoles",
        "eTIV",
        "Optic",
        "MeanThickness",
        "Inf-Lat",
    ),
    *("Non-WM", "Mask", "BrainSeg", "Cortex", "WhiteMatter", "5th"),
)


def _read_abide(data: Path) -> Source:
    """Return ABIDE I; its intracranial volume is faulty, so the supratentorial volume
    is the head size.
    """
    folder, frames = data / "patients" / "autism", []
    for path in sorted((folder / "stats").glob("*.tsv")):
        table = pd.read_csv(path, sep="\t")
        table = (
            table.rename(columns={table.columns[0]: "person"})
            .drop_duplicates("person")
            .set_index("person")
        )
        frames.append(table.select_dtypes("number"))
    table = pd.concat(frames, axis=1, join="inner")
    table = table.loc[:, ~table.columns.duplicated()]
    phenotypes = pd.read_csv(
        folder / "Phenotypic_V1_0b_preprocessed1.csv"
    ).drop_duplicates("FILE_ID")
    phenotypes = phenotypes.set_index("FILE_ID")
    known = table.index.intersection(phenotypes.index)
    table, phenotypes = table.loc[known], phenotypes.loc[known]
    regions = table[
        [name for name in table if not any(part in name for part in _OF_NO_REGION)]
    ]
    regions = regions.loc[:, ((regions > 0).mean() > 0.98) & (regions.std() > 0)]
    male, site = (phenotypes["SEX"] == 1).astype(int), phenotypes["SITE_ID"]
    people = pd.DataFrame(
        {"age": phenotypes["AGE_AT_SCAN"], "male": male, "site": site}
    )
    people = people.assign(
        sex=np.where(male == 1, "M", "F"),
        head_size=table["SupraTentorialVol"],
        autism=(phenotypes["DX_GROUP"] == 1).astype(int),
        michigan=site.isin(["UM_1", "UM_2"]).astype(int),
    )
    return Source(regions, people)


_SOURCES: dict[str, Callable[[Path], Source]] = {
    "ants": _read_ants,
    "freesurfer": _read_freesurfer,
    "dlmuse": _read_dlmuse,
    "fcon": _read_fcon,
    "psychosis": _read_psychosis,
    "depression": _read_depression,
    "oasis": _read_oasis,
    "openneuro": _read_openneuro,
    "abide": _read_abide,
}


@cache
def _read_description() -> dict[str, Any]:
    return tomllib.loads(DESCRIPTION.read_text("utf-8"))


def _freeze_lists(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: tuple(each) if isinstance(each, list) else each
        for key, each in entry.items()
    }


def _describe_table(name: str, entry: Mapping[str, Any]) -> TableDescription:
    factors = {
        key: Factor(
            column=each["column"], without=each["without"], present=each["with"]
        )
        for key, each in entry["factors"].items()
    }
    return TableDescription(name=name, **_freeze_lists(entry) | {"factors": factors})


def _select(source: Source, keep: str, regions: str) -> Source:
    """Return the people who meet a condition, and their regions of one kind."""
    rows = (
        _evaluate(source.people, keep)
        if keep
        else np.ones(len(source.people), dtype=bool)
    )
    columns = [
        name
        for name in source.volumes
        if regions == "all" or _find_kind(str(name)) == regions
    ]
    return source._replace(
        volumes=source.volumes.loc[rows, columns], people=source.people[rows]
    )


def _find_kind(region: str) -> str:
    return "thickness" if region.endswith("_thickness") else "volume"


def _evaluate(people: pd.DataFrame, condition: str) -> BoolArray:
    """Return who (N,) meets a condition on the columns."""
    return np.asarray(people.eval(condition, engine="python"), dtype=bool)


def _take_share(mask: BoolArray, share: float, rng: np.random.Generator) -> IntArray:
    """Return the rows of a random share of people."""
    rows = np.flatnonzero(mask)
    return np.sort(rng.permutation(rows)[: round(share * len(rows))])


def _keep_sites(
    rows: IntArray, control: BoolArray, sites: np.ndarray[Any, Any], least: int
) -> IntArray:
    """Return the rows of people whose site has enough controls among them."""
    counts = (
        pd.Series(control[rows].astype(int))
        .groupby(sites[rows])
        .transform("sum")
        .to_numpy()
    )
    return rows[counts >= least]


def _make_table(
    source: Source,
    rows: IntArray,
    patient: BoolArray,
    truth: pd.DataFrame,
    told: tuple[str, ...],
    with_sites: bool,
) -> FactorTable:
    """Return people as a cohort that was read from their tables, and their truth in its
    order.
    """
    names = source.volumes.index[rows].astype(str)
    volumes = (
        source.volumes.iloc[rows].copy().set_axis(names).rename_axis(ID).reset_index()
    )
    columns = [*told, *(["site"] if with_sites else [])]
    participants = source.people.iloc[rows][columns].set_axis(names)
    participants = (
        participants.assign(group=np.where(patient[rows], "patient", "control"))
        .rename_axis(ID)
        .reset_index()
    )
    cohort = read_cohort(
        volumes,
        participants,
        group="group",
        controls="control",
        patients="patient",
        covariates=list(told),
        site="site" if with_sites else None,
        measure=source.measure,
    )
    return FactorTable(cohort, truth.iloc[rows].set_axis(names).loc[cohort.people[ID]])
