"""Signs of artefacts: factors on blocks, swapped sides, patterns of one site, and none
in sound studies.
"""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import rindices as ri
from rindices._typing import BoolArray
from rindices.experiments.visits import simulate_visits
from rindices.model.records import ArtefactKind, ArtefactRecord
from rindices.study.artefacts import find_artefacts
from rindices.study.config import make_study
from rindices.study.study import Study
from rindices.tables.cohort import GROUP, ID, SITE, Cohort, attach_visits
from rindices.tables.layouts.sides import pair_sides
from tests.cohorts import simulate_few_regions


def make(cohort: Cohort, **data: Any) -> Study:
    config = {
        "data": {"volumes": "memory", **data},
        "model": {"method": "contrastive"},
        "run": {"workers": 1},
    }
    return Study(cohort, make_study(config, "fit"))


def find(cohort: Cohort, **data: Any) -> tuple[ArtefactRecord, ...]:
    return find_artefacts(make(cohort, **data))


def multiply(cohort: Cohort, rows: BoolArray, factor: float) -> Cohort:
    return replace(
        cohort, volumes=cohort.volumes * np.where(rows, factor, 1.0)[:, None]
    )


def swap_sides(cohort: Cohort, rows: BoolArray) -> Cohort:
    left, right = map(list, zip(*pair_sides(cohort.regions), strict=True))
    values = cohort.volumes.to_numpy(dtype=float).copy()
    values[np.ix_(rows, left + right)] = values[np.ix_(rows, right + left)]
    return replace(cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns))


def shrink_regions(cohort: Cohort, rows: BoolArray, number: int = 10) -> Cohort:
    """Return a cohort in which some people lose up to two fifths of a few regions."""
    values = cohort.volumes.to_numpy(dtype=float).copy()
    shares = np.random.default_rng(0).uniform(0, 0.4, (int(rows.sum()), 1))
    values[np.ix_(rows, np.arange(number))] *= 1 - shares
    return replace(cohort, volumes=pd.DataFrame(values, columns=cohort.volumes.columns))


def select_site(cohort: Cohort, name: str) -> BoolArray:
    return np.asarray(cohort.people[SITE] == name, dtype=bool)


@pytest.fixture(scope="module")
def cohort() -> Cohort:
    return ri.simulate_cohort("small", seed=910).cohort


@pytest.fixture(scope="module")
def with_sites() -> Cohort:
    return ri.simulate_cohort("small", seed=911, sites=3).cohort


@pytest.mark.parametrize(
    "task",
    ["basic", "overlap", "beta31", "staged", "personal", "organs", "tiny", "null"],
)
def test_simulated_studies_have_no_signs(task: str) -> None:
    assert find(ri.simulate_cohort(task, seed=912).cohort) == ()
    assert find(ri.simulate_cohort(task, seed=913, sites=4).cohort) == ()


def test_losses_and_gains_and_visits_have_no_signs() -> None:
    rates = np.where(np.random.default_rng(0).random(139) < 0.5, 0.3, -0.1)
    assert find(ri.simulate_cohort("small", seed=914, rates=rates).cohort) == ()
    assert find(attach_visits(simulate_visits("tiny", 915).simulated.cohort)[0]) == ()


@pytest.mark.parametrize("factor", [0.296, 0.8, 1.2, 1000.0])
@pytest.mark.parametrize("adjust", ["log", "linear", "none"])
def test_volumes_of_patients_times_a_factor(
    cohort: Cohort, factor: float, adjust: str
) -> None:
    (found,) = find(multiply(cohort, cohort.is_patient, factor), adjust=adjust)
    assert found.kind is ArtefactKind.UNIFORM_RATIO
    assert found.block == "the patients"
    assert found.patterns == ()
    assert found.figures["ratio"] == pytest.approx(factor, rel=0.03)
    assert found.what.startswith("volumes of the patients are ")
    assert (
        f" {found.figures['ratio']:,.{0 if factor > 10 else 2}f} times those of the controls"
        in found.what
    )


def test_head_size_times_the_same_factor_does_not_hide_it(cohort: Cohort) -> None:
    factors = np.where(cohort.is_patient, 0.8, 1.0)
    scaled = replace(
        cohort,
        covariates=cohort.covariates.assign(icv=cohort.covariates["icv"] * factors),
    )
    (found,) = find(multiply(scaled, cohort.is_patient, 0.8))
    assert found.figures["ratio"] == pytest.approx(0.8, rel=0.03)
    (found,) = find(scaled)  # head size alone makes all adjusted volumes too large
    assert found.figures["head_size_ratio"] == pytest.approx(0.8, rel=0.03)
    assert "head size of the patients is 0.8" in found.what


def test_features_of_any_kind_with_negative_values(shared: Path) -> None:
    table = pd.read_csv(shared / "csf" / "ad_data.csv").drop(
        columns=["tau", "p_tau", "Ab_42", "age", "Genotype"]
    )
    groups: dict[str, Any] = {
        "group": "Class",
        "controls": "Control",
        "patients": "Impaired",
        "covariates": ["male"],
    }
    proteins = ri.read_cohort(
        table, id="rownames", **groups, measure="any", missing_codes="none"
    )
    assert find(proteins) == ()
    (found,) = find(multiply(proteins, proteins.is_patient, 1.2))
    assert found.figures["ratio"] == pytest.approx(1.2, rel=0.03)
    assert found.what.startswith("features of the patients are 1.2")
    shifted = proteins.volumes + np.outer(
        proteins.is_patient, 5 * proteins.volumes.std()
    )
    (found,) = find(replace(proteins, volumes=shifted))
    assert found.kind is ArtefactKind.ALL_REGIONS
    assert "regions" not in found.what


def test_z_scores_have_no_ratio(cohort: Cohort) -> None:
    scores = (cohort.volumes - cohort.volumes.mean()) / cohort.volumes.std()
    assert find(replace(cohort, volumes=scores, unit="standardised")) == ()


def test_another_program_in_patients_separates_the_groups_in_all_regions(
    shared: Path,
) -> None:
    tables = {
        name: pd.read_csv(shared / "ixi_programs" / f"{name}.csv")
        for name in ("ants_volume", "ants_thickness")
    }
    # every second person's values come from the other table, as thickness times 1000: a
    # measure of another kind
    other = (
        tables["ants_thickness"]
        .set_index("ID")
        .loc[tables["ants_volume"]["ID"]]
        .reset_index()
    )
    regions = [name for name in other if name.startswith(("left_", "right_"))]
    is_patient = np.arange(len(other)) % 2 == 1
    mixed = tables["ants_volume"].copy()
    mixed.loc[is_patient, regions] = other.loc[is_patient, regions].to_numpy() * 1000
    mixed["group"] = np.where(is_patient, "patient", "control")
    read = ri.read_cohort(
        mixed, id="ID", group="group", covariates=["age", "sex"], site="none"
    )
    assert {each.kind for each in find(read)} & {
        ArtefactKind.ALL_REGIONS,
        ArtefactKind.UNIFORM_RATIO,
    }


@pytest.mark.parametrize("factor", [0.8, 1.2])
def test_one_site_times_a_factor(with_sites: Cohort, factor: float) -> None:
    (found,) = find(multiply(with_sites, select_site(with_sites, "site2"), factor))
    assert (found.kind, found.block) == (ArtefactKind.UNIFORM_RATIO, "site site2")
    assert found.figures["ratio"] == pytest.approx(factor, rel=0.1)
    assert found.what.startswith("volumes at site site2 are")
    assert "times those at the other sites" in found.what


def test_patients_of_one_site_times_a_factor(with_sites: Cohort) -> None:
    rows = select_site(with_sites, "site2") & with_sites.is_patient
    (found,) = find(multiply(with_sites, rows, 1.2))
    assert found.block == "the patients of site site2"


def test_sides_swapped_at_one_site_and_in_patients(with_sites: Cohort) -> None:
    site = select_site(with_sites, "site3")
    for rows, block in (
        (site, "site site3"),
        (with_sites.is_patient, "the patients"),
        (site & with_sites.is_patient, "the patients of site site3"),
    ):
        (found,) = find(swap_sides(with_sites, rows))
        assert (found.kind, found.block) == (ArtefactKind.SIDES_SWAPPED, block)
        assert f"{block} or " in found.what
        assert found.figures["correlation"] < 0


def test_the_other_one_of_two_sites_is_not_named_as_well() -> None:
    two = ri.simulate_cohort("small", seed=916, sites=2).cohort
    (found,) = find(multiply(two, select_site(two, "site1"), 0.7))
    assert found.kind is ArtefactKind.UNIFORM_RATIO
    (found,) = find(swap_sides(two, select_site(two, "site1")))
    assert found.kind is ArtefactKind.SIDES_SWAPPED


def test_missing_cells_do_not_hide_a_sign(with_sites: Cohort) -> None:
    rng = np.random.default_rng(0)
    holes = with_sites.volumes.mask(rng.random(with_sites.volumes.shape) < 0.1)
    holes.loc[with_sites.is_patient, holes.columns[3]] = np.nan
    incomplete = replace(with_sites, volumes=holes)
    assert find(incomplete) == ()
    (found,) = find(multiply(incomplete, with_sites.is_patient, 0.8))
    assert found.block == "the patients"
    (found,) = find(swap_sides(incomplete, select_site(with_sites, "site1")))
    assert found.block == "site site1"


def test_groups_that_share_no_site_are_compared(cohort: Cohort) -> None:
    people = cohort.people.assign(**{SITE: np.where(cohort.is_patient, "B", "A")})
    apart = replace(cohort, people=people)
    found = find(multiply(apart, cohort.is_patient, 0.296))
    assert "the patients" in [each.block for each in found]


@pytest.fixture(scope="module")
def one_site_study() -> tuple[Study, ri.FittedModel]:
    """A study whose only pattern is in the patients of one site, fitted."""
    healthy = simulate_few_regions("null", seed=917, sites=3).cohort
    rng = np.random.default_rng(0)
    healthy = healthy.take(np.sort(rng.permutation(len(healthy))[:400]))
    altered = shrink_regions(
        healthy, select_site(healthy, "site1") & healthy.is_patient
    )
    return make(altered), ri.fit(altered, 1, members=5, method="contrastive", workers=1)


def test_a_pattern_of_one_site_names_its_index(
    one_site_study: tuple[Study, ri.FittedModel],
) -> None:
    study, model = one_site_study
    assert find_artefacts(study) == ()
    (found,) = find_artefacts(study, model.indices)
    assert (found.kind, found.block, found.patterns) == (
        ArtefactKind.ONE_SITE,
        "the patients of site site1",
        ("r1",),
    )
    assert found.what.startswith(
        "r1 distinguishes the patients of site site1 far more than those of other sites"
    )
    assert found.figures["here"] > 3 * found.figures["elsewhere"]
    assert ArtefactRecord.from_dict(found.to_dict()).to_dict() == found.to_dict()


def test_nothing_is_said_where_other_sites_are_too_small(
    one_site_study: tuple[Study, ri.FittedModel],
) -> None:
    study, model = one_site_study
    cohort = study.cohort
    patients = np.flatnonzero(~select_site(cohort, "site1") & cohort.is_patient)
    rows = np.ones(len(cohort), dtype=bool)
    rows[patients[6:]] = False
    assert find_artefacts(make(cohort.take(rows)), model.indices) == ()


def test_the_order_of_rows_does_not_matter(with_sites: Cohort) -> None:
    altered = multiply(with_sites, select_site(with_sites, "site1"), 0.7)
    order = np.random.default_rng(0).permutation(len(altered))
    frames = {
        name: getattr(altered, name).iloc[order].reset_index(drop=True)
        for name in ("volumes", "people", "covariates")
    }
    shuffled = Cohort(**frames, source=altered.source, unit=altered.unit)
    (one,), (other,) = find(altered), find(shuffled)
    assert one.what == other.what


def test_a_large_study_is_looked_at_in_part(
    cohort: Cohort, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rindices.study.artefacts.MAX_PEOPLE", 150)
    (found,) = find(multiply(cohort, cohort.is_patient, 0.8))
    assert found.figures["people"] < 150
    assert set(cohort.people[GROUP]) == {"control", "patient"}
    assert cohort.people[ID].is_unique


def test_it_takes_well_under_a_second() -> None:
    study = make(ri.simulate_cohort("basic", seed=918, sites=5).cohort)
    start = time.process_time()
    find_artefacts(study)
    assert time.process_time() - start < 2  # 0.4 s on an idle core


REAL_AGEING = {
    "ants_volume": {"covariates": ["sex", "head_volume"]},
    "ants_thickness": {"covariates": ["sex"], "measure": "thickness"},
    "freesurfer_thickness": {"covariates": ["sex"], "measure": "thickness"},
}


@pytest.mark.parametrize("name", REAL_AGEING)
def test_real_ageing_is_no_artefact(shared: Path, name: str) -> None:
    table = pd.read_csv(shared / "ixi_programs" / f"{name}.csv")
    table = table[(table["age"] < 40) | (table["age"] >= 60)]
    table = table.assign(group=np.where(table["age"] < 40, "young", "old")).drop(
        columns="age"
    )
    options: dict[str, Any] = {
        "group": "group",
        "controls": "young",
        "patients": "old",
        "site": "site",
    }
    ageing = ri.read_cohort(
        table, id="ID", **options, **REAL_AGEING[name], on_missing="drop"
    )
    assert find(ageing) == ()
    (found,) = find(multiply(ageing, ageing.is_patient, 0.8))
    assert found.block == "the patients"
    sites = ageing.people[SITE].astype(str)
    (found,) = find(multiply(ageing, (sites == "HH").to_numpy(), 1.3))
    assert found.block == "site HH"
