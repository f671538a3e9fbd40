"""Signs of artefacts in sound and in altered studies, from which the limits of
``study/artefacts.py`` were chosen.

    python -m benchmarks.artefact_limits [--first 100] [--studies 20] [--data
    ../shared/data] [--out FILE]

Sound studies: simulated ones (all tasks of the package with several numbers of sites,
losses and gains mixed, patterns in real thicknesses, first visits), and random four
fifths of the people of real ones; ageing compares older with younger people, which
moves nearly all regions. Altered studies are some of the same with the volumes of the
patients, or of a site, times a factor, with left and right swapped in patients or at a
site, or with a pattern imposed on the patients of one site. R-indices by site are those
of ContrastiveICA, learnt in one half and inferred in the other. Limits were chosen on
seeds 100 to 119; other seeds are for reports. Writes ``results/artefact_limits.md``.
"""

import argparse
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

import rindices as ri
from benchmarks.outside import read_csf, read_fcon1000
from benchmarks.suites.patients import list_patient_tables, read_autism_measures
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.experiments.visits import simulate_visits
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.residualise import is_head_size
from rindices.study import artefact_signs as signs
from rindices.study.artefacts import (
    LIMITS,
    compute_contrast_z,
    compute_site_z,
    find_artefacts,
    is_of_one_site,
)
from rindices.study.config import make_study
from rindices.study.study import Study
from rindices.tables.cohort import SITE, Cohort, attach_visits
from rindices.tables.layouts.sides import pair_sides

RESULTS = Path(__file__).parent / "results" / "artefact_limits.md"
FIRST_SEED, N_STUDIES = 100, 20
SHARE = 0.8  # of the people of a real study
CONFIG = make_study(
    {"data": {"volumes": "memory"}, "model": {}, "run": {"workers": 1}}, "benchmark"
)
Studies = Iterator[tuple[str, Cohort]]


# ---- sound studies


def read_ageing(
    path: Path, covariates: list[str], measure: str | None, site: str = "none"
) -> Cohort:
    """Return people over 60 against people under 40."""
    table = pd.read_csv(path)
    table = table[(table["age"] < 40) | (table["age"] >= 60)]
    table = table.assign(group=np.where(table["age"] < 40, "young", "old")).drop(
        columns="age"
    )
    groups = {
        "group": "group",
        "controls": "young",
        "patients": "old",
        "covariates": covariates,
    }
    return ri.read_cohort(
        table, id="ID", **groups, site=site, measure=measure, on_missing="drop"
    )


def read_ixi(data: Path, covariates: list[str]) -> Cohort:
    """Return people of 60 and more against people under 55, DLMUSE volumes."""
    people = pd.read_csv(data / "demographics.csv").rename(
        columns={"Age": "age", "Sex": "sex"}
    )
    people = people[(people["age"] < 55) | (people["age"] >= 60)]
    people = people.assign(group=np.where(people["age"] < 55, "young", "old"))[
        ["ID", "sex", "group"]
    ]
    groups = {
        "group": "group",
        "controls": "young",
        "patients": "old",
        "covariates": covariates,
    }
    return ri.read_cohort(data / "volumes.csv", people, **groups, on_missing="drop")


def read_sexes(data: Path, covariates: list[str]) -> Cohort:
    """Return men against women, DLMUSE volumes."""
    people = pd.read_csv(data / "demographics.csv").rename(
        columns={"Age": "age", "Sex": "sex"}
    )
    groups = {
        "group": "sex",
        "controls": "F",
        "patients": "M",
        "covariates": covariates,
    }
    return ri.read_cohort(data / "volumes.csv", people, **groups, on_missing="drop")


def read_dementia(data: Path) -> Cohort:
    table = pd.read_csv(data / "oasis1_thickness.csv")
    table = table[(table["age"] >= 60) & table["CDR"].notna()]
    table = table.assign(group=np.where(table["CDR"] > 0, "dementia", "control"))
    table = table[
        [
            "ID",
            "age",
            "sex",
            "eTIV",
            "group",
            *(name for name in table if name.startswith(("L_", "R_"))),
        ]
    ]
    groups = {
        "group": "group",
        "controls": "control",
        "patients": "dementia",
        "covariates": ["age", "sex", "eTIV"],
    }
    return ri.read_cohort(table, id="ID", **groups, measure="thickness")


def list_real_studies(data: Path) -> dict[str, Callable[[], Cohort]]:
    """Return functions that read real studies, by name."""
    patients = list_patient_tables(data / "patients")
    programs = data / "ixi_programs"
    return {
        "autism": lambda: patients["autism"]().cohort,
        "autism, thickness": partial(
            read_autism_measures, data / "patients", ("thickness",)
        ),
        "psychosis": lambda: patients["psychosis"]().cohort,
        "psychosis, thickness": lambda: patients["psychosis-thickness"]().cohort,
        "depression": lambda: patients["depression"]().cohort,
        "schizophrenia": lambda: patients["schizophrenia"]().cohort,
        "dementia": partial(read_dementia, data / "patients" / "dementia"),
        "CSF": lambda: read_csf(data).cohort,
        "ageing, volumes": partial(read_ixi, data / "ixi", ["sex", "icv"]),
        "ageing, volumes, no head size": partial(read_ixi, data / "ixi", ["sex"]),
        "ageing, ANTs volumes": partial(
            read_ageing,
            programs / "ants_volume.csv",
            ["sex", "head_volume"],
            None,
            "site",
        ),
        "ageing, ANTs volumes, no head size": partial(
            read_ageing, programs / "ants_volume.csv", ["sex"], None, "site"
        ),
        "ageing, ANTs thickness": partial(
            read_ageing, programs / "ants_thickness.csv", ["sex"], "thickness", "site"
        ),
        "ageing, FreeSurfer thickness": partial(
            read_ageing,
            programs / "freesurfer_thickness.csv",
            ["sex"],
            "thickness",
            "site",
        ),
        "ageing, fcon1000": lambda: read_fcon1000(data).cohort,
        "men against women": partial(read_sexes, data / "ixi", ["age", "icv"]),
        "men against women, no head size": partial(read_sexes, data / "ixi", ["age"]),
    }


def draw_people(cohort: Cohort, seed: int) -> Cohort:
    size = round(SHARE * len(cohort))
    return cohort.take(
        np.random.default_rng([seed, 21]).permutation(len(cohort))[:size]
    )


def simulate_mixed(seed: int, sites: int) -> Cohort:
    """Return patients who gain a tenth of some regions and lose up to 30 %
    of others.
    """
    signs_ = np.random.default_rng([seed, 22]).choice([-1.0, 1.0], 139)
    return simulate_cohort(
        "small", seed, sites=sites, rates=np.where(signs_ > 0, 0.3, -0.1)
    ).cohort


def simulate_in_thickness(data: Path, seed: int) -> Cohort:
    """Return patterns in the thicknesses of healthy people of fcon1000."""
    table = pd.read_csv(data / "fcon1000" / "fcon1000.csv").dropna(
        subset=["age", "sex"]
    )
    table = table[table.groupby("site")["age"].transform("size") >= 30]
    options = {
        "id": "sub_id",
        "covariates": ["age", "sex"],
        "site": "site",
        "measure": "thickness",
    }
    return simulate_cohort(
        "small", seed, healthy=ri.read_cohort(table, **options, on_missing="drop")
    ).cohort


def list_sound_studies(seed: int, real: dict[str, Cohort], data: Path) -> Studies:
    """Yield the sound studies of a seed."""
    names = [name for name in TASKS if name != "null"]
    for shift, sites in ((0, 0), (7, 2 + seed % 5)):
        task = names[(seed + shift) % len(names)]
        yield (
            f"simulated{', sites' if sites else ''}",
            simulate_cohort(task, seed, sites=sites).cohort,
        )
    yield "simulated, losses and gains", simulate_mixed(seed, 3 * (seed % 2))
    yield (
        "simulated, visits",
        attach_visits(simulate_visits("small", seed).simulated.cohort)[0],
    )
    if real:
        yield "simulated, thickness", simulate_in_thickness(data, seed)
    for name, cohort in real.items():
        yield name, draw_people(cohort, seed)


# ---- altered studies


def multiply(
    cohort: Cohort, rows: np.ndarray, factor: float, head_size: bool = False
) -> Cohort:
    """Return a cohort in which the measures of some rows (N,), and their head sizes,
    are times a factor.
    """
    factors = np.where(rows, factor, 1.0)
    covariates = cohort.covariates
    if head_size:
        sizes = {
            name: covariates[name] * factors
            for name in covariates
            if is_head_size(name)
        }
        covariates = covariates.assign(**sizes)
    return replace(
        cohort, volumes=cohort.volumes * factors[:, None], covariates=covariates
    )


def swap_sides(cohort: Cohort, rows: np.ndarray) -> Cohort:
    """Return a cohort in which left and right regions of some rows (N,) are swapped."""
    left, right = map(list, zip(*pair_sides(cohort.regions), strict=True))
    values = cohort.volumes.to_numpy(dtype=float).copy()
    values[np.ix_(rows, left + right)] = values[np.ix_(rows, right + left)]
    return replace(cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns))


def impose_pattern(
    cohort: Cohort, rows: np.ndarray, seed: int, rate: float = 0.3
) -> Cohort:
    """Return a cohort in which some rows (N,) lose up to a share of 20 regions, as
    another sequence may have it.
    """
    rng, values = (
        np.random.default_rng([seed, 23]),
        cohort.volumes.to_numpy(dtype=float).copy(),
    )
    regions = rng.choice(values.shape[1], min(20, values.shape[1] // 3), replace=False)
    values[np.ix_(rows, regions)] *= 1 - rate * rng.uniform(size=(int(rows.sum()), 1))
    return replace(cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns))


def choose_site(
    cohort: Cohort, rng: np.random.Generator, least: int = 20
) -> np.ndarray:
    """Return the rows (N,) of a site with enough people that does not hold most of
    them.
    """
    labels = cohort.people[SITE].astype(str)
    sizes = labels.value_counts()
    names = (
        sorted(sizes.index[(sizes >= least) & (sizes <= 0.6 * len(labels))])
        or sorted(sizes.index)[:1]
    )
    return (labels == rng.choice(names)).to_numpy()


def list_altered_studies(seed: int, real: dict[str, Cohort]) -> Studies:
    """Yield the altered studies of a seed."""
    rng = np.random.default_rng([seed, 24])
    names = [name for name in TASKS if name not in ("null", "organs")]
    kinds = (
        "simulated",
        "organs",
        *(name for name in real if "ageing" not in name and "women" not in name),
    )
    factors, position = (0.296, 0.8, 1.2), seed - FIRST_SEED
    task = names[seed % len(names)]
    for shift, factor in enumerate(factors):
        kind = kinds[(position + shift * 3) % len(kinds)]
        drawn = {"simulated": task, "organs": "organs"}
        cohort = (
            simulate_cohort(drawn[kind], seed).cohort
            if kind in drawn
            else draw_people(real[kind], seed)
        )
        yield f"patients times {factor:g}", multiply(cohort, cohort.is_patient, factor)
    simulated = simulate_cohort(task, seed).cohort
    for factor in factors:
        scaled = multiply(simulated, simulated.is_patient, factor, head_size=True)
        yield f"patients times {factor:g}, head size too", scaled
    ageing = [name for name in real if "ageing" in name]
    if ageing:
        older = draw_people(real[ageing[position % len(ageing)]], seed)
        for factor in (0.8, 1.2):
            yield (
                f"older people times {factor:g}",
                multiply(older, older.is_patient, factor),
            )
    with_sites = [
        name
        for name in ("autism", "autism, thickness", "ageing, fcon1000")
        if name in real
    ]
    for kind in ("simulated", *with_sites[position % 3 :][:1]):
        sites = 2 + seed % 5
        cohort = (
            simulate_cohort(task, seed, sites=sites).cohort
            if kind == "simulated"
            else draw_people(real[kind], seed)
        )
        rows, label = (
            choose_site(cohort, rng),
            "simulated" if kind == "simulated" else "real",
        )
        for factor in (0.8, 1.2):
            yield f"one site times {factor:g}, {label}", multiply(cohort, rows, factor)
        yield (
            f"patients of one site times 1.2, {label}",
            multiply(cohort, rows & cohort.is_patient, 1.2),
        )
        yield f"sides swapped at one site, {label}", swap_sides(cohort, rows)
        yield (
            f"sides swapped in patients of one site, {label}",
            swap_sides(cohort, rows & cohort.is_patient),
        )
        yield (
            f"sides swapped in patients, {label}",
            swap_sides(cohort, cohort.is_patient),
        )


# ---- figures


def measure_table(cohort: Cohort) -> dict[str, float]:
    """Return the figures of the signs that need no model, and whether any of them
    counts.
    """
    people = signs.BlockValues.of(cohort)
    shifts = signs.measure_shifts(people)
    groups = [each for each in shifts if each.block.site is None]
    sites = [
        each
        for each in shifts
        if each.block.site is not None and not each.block.patients
    ]
    cells = [
        each for each in shifts if each.block.site is not None and each.block.patients
    ]
    head, sides = signs.measure_head_size_shift(people), signs.measure_sides(people)
    clearest = max(
        groups,
        key=lambda each: abs(each.shift) / (LIMITS.gain_shift + each.spread),
        default=None,
    )
    figures = {"ratio": np.nan, "evenness": np.nan}
    if clearest is not None:
        evenness = abs(clearest.shift) / clearest.spread
        figures = {"ratio": float(np.exp(clearest.shift)), "evenness": evenness}
    # volumes that are not adjusted for head size have a limit of their own
    raw = [each for each in sites if each.measure == "volume" and not each.by_head_size]
    for name, chosen in (
        ("site z", [each for each in sites if each not in raw]),
        ("site z, raw", raw),
    ):
        figures[name] = max(
            (compute_site_z(each, LIMITS.site_sd) for each in chosen), default=np.nan
        )
    figures["cell z"] = max(
        (compute_site_z(each, LIMITS.cell_sd) for each in cells), default=np.nan
    )
    figures["head size"] = np.nan if head is None else float(np.exp(head.shift))
    figures["AUC"] = float(np.quantile(signs.measure_region_aucs(people), 0.25))
    figures["sides z"] = min((each.z for each in sides), default=np.nan)
    start = time.process_time()
    figures["found"] = float(bool(find_artefacts(Study(cohort, CONFIG))))
    figures["seconds"] = time.process_time() - start
    return figures


def infer_by_halves(cohort: Cohort, n_patterns: int, seed: int) -> np.ndarray:
    """Return R-indices (N, M) of each half of the people by ContrastiveICA that has
    learnt from the other half.
    """
    study = Study(cohort, CONFIG)
    y = cohort.is_patient.astype(int)
    X = PreparedPeople(X=study.preprocessing.transform(cohort), y=y).complete().X
    half = np.random.default_rng([seed, 25]).permutation(len(y)) % 2
    fits = [
        ri.ContrastiveICA(n_patterns).fit(X[half != k], y[half != k]).transform(X)
        for k in (0, 1)
    ]
    correlations = np.corrcoef(fits[0].T, fits[1].T)[:n_patterns, n_patterns:]
    order = linear_sum_assignment(-correlations)[1]
    return np.where(half[:, None] == 0, fits[0], fits[1][:, order])


def measure_indices(cohort: Cohort, n_patterns: int, seed: int) -> dict[str, float]:
    """Return the figures of the R-index that is most of one site."""
    people = signs.BlockValues.of(cohort)
    contrasts = signs.measure_site_contrasts(
        infer_by_halves(cohort, n_patterns, seed), people
    )
    ends = [
        (each.elsewhere + 1.64 * each.elsewhere_error) / max(each.here, 1e-9)
        for each in contrasts
    ]
    clear = [
        (share, compute_contrast_z(each))
        for share, each in zip(ends, contrasts, strict=True)
        if each.here > 0
    ]
    alone = [z for share, z in clear if share <= LIMITS.elsewhere_share]
    high = [share for share, z in clear if z >= LIMITS.one_site_z]
    return {
        "z where others have less than a third": max(alone, default=np.nan),
        "share of others where z is above 5": min(high, default=np.nan),
        "found": float(any(map(is_of_one_site, contrasts))),
    }


def list_site_studies(
    seed: int, real: dict[str, Cohort]
) -> Iterator[tuple[str, Cohort, int]]:
    """Yield studies with sites, sound and with a pattern at one site, and a number of
    patterns.
    """
    rng, names = np.random.default_rng([seed, 26]), ("small", "tiny", "hard")
    cohort = simulate_cohort(names[seed % 3], seed, sites=2 + seed % 5).cohort
    yield "sound, simulated", cohort, 3
    rows = choose_site(cohort, rng) & cohort.is_patient
    yield "pattern at one site, simulated", impose_pattern(cohort, rows, seed), 4
    for name in ("autism", "autism, thickness", "ageing, ANTs volumes"):
        if name in real:
            drawn = draw_people(real[name], seed)
            yield f"sound, {name}", drawn, 1 + seed % 3
    if "autism" in real:
        drawn = draw_people(real["autism"], seed)
        rows = choose_site(drawn, rng, 40) & drawn.is_patient
        yield "pattern at one site, autism", impose_pattern(drawn, rows, seed), 2


# ---- tables


def format_rows(rows: dict[str, list[dict[str, float]]], title: str) -> list[str]:
    """Return a table with the range of each figure over seeds."""
    names = [
        name
        for name in next(iter(rows.values()))[0]
        if name not in ("found", "seconds")
    ]
    lines = [
        f"| {title} | found | {' | '.join(names)} |",
        f"|---|---|{'---|' * len(names)}",
    ]
    for kind, figures in rows.items():
        cells = []
        for name in names:
            values = np.array([each[name] for each in figures])
            values = values[np.isfinite(values)]
            cells.append(
                f"{values.min():.2f} to {values.max():.2f}" if len(values) else ""
            )
        found = sum(each["found"] for each in figures)
        lines.append(
            f"| {kind} | {found:.0f} of {len(figures)} | {' | '.join(cells)} |"
        )
    return [*lines, ""]


def run(first: int, number: int, data: Path) -> list[str]:
    """Return the lines of the report."""
    real: dict[str, Cohort] = {}
    if data.is_dir():
        real = {name: read() for name, read in list_real_studies(data).items()}
    sound, altered, of_sites = (defaultdict(list) for _ in range(3))
    for seed in range(first, first + number):
        for name, cohort in list_sound_studies(seed, real, data):
            sound[name].append(measure_table(cohort))
        for name, cohort in list_altered_studies(seed, real):
            altered[name].append(measure_table(cohort))
        for name, cohort, n_patterns in list_site_studies(seed, real):
            of_sites[name].append(measure_indices(cohort, n_patterns, seed))
    seconds = [
        each["seconds"]
        for rows in (*sound.values(), *altered.values())
        for each in rows
    ]
    return [
        "# Signs of artefacts in sound and altered studies",
        f"`python -m benchmarks.artefact_limits --first {first} --studies {number}`",
        "",
        f"Seeds {first} to {first + number - 1}. Ranges are over the studies of a row. ratio, evenness: ratio between "
        "the groups in the densest half of the regions, and its logarithm divided by its spread; site z: largest shift "
        "of a site in standard errors (raw: volumes not adjusted for head size); cell z: the same for patients of a "
        "site; head size: ratio between the groups; AUC: lower quartile over regions; sides z: negative where left "
        "and right are swapped.",
        "",
        f"Limits: {', '.join(f'{name} {value:.3g}' for name, value in vars(LIMITS).items())}.",
        "",
        f"Signs that need no R-indices took {np.median(seconds):.2f} s in the median, {max(seconds):.2f} s at most.",
        "",
        *format_rows(sound, "sound studies"),
        *format_rows(altered, "altered studies"),
        *format_rows(of_sites, "R-indices by site"),
    ]


def main() -> None:
    """Measure all studies and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--first", type=int, default=FIRST_SEED)
    parser.add_argument("--studies", type=int, default=N_STUDIES)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines = run(options.first, options.studies, options.data)
    options.out.write_text("\n".join(lines) + "\n", "utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
