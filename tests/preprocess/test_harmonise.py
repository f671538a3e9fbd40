"""ComBat: equality with neuroCombat, removal of simulated site effects, model files,
and refusal of unseen sites.
"""

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import ModelError, PreprocessingError
from rindices.experiments.simulate import write_cohort
from rindices.model.safetensors_io import read_metadata, write_safetensors
from rindices.preprocess.harmonise import Harmoniser, shrink_site_effect
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from neuroCombat import neuroCombat


class SiteData:
    """Volumes from several sites, with two covariates and a diagnosis."""

    def __init__(
        self, n_people: int, n_regions: int, n_sites: int, seed: int = 0
    ) -> None:
        rng = np.random.default_rng(seed)
        self.site_index = rng.permutation(np.arange(n_people) % n_sites)
        self.site = np.array([f"site{k}" for k in self.site_index])
        self.age, self.sex = (
            rng.uniform(50, 80, n_people),
            rng.choice(["F", "M"], n_people),
        )
        self.patient = rng.random(n_people) < 0.5
        truth = 3000 + rng.normal(0, 100, (n_people, n_regions)) - 7 * self.age[:, None]
        truth += 90 * (self.sex == "M")[:, None] - 150 * self.patient[:, None]
        self.truth = truth
        shift, scale = (
            rng.normal(0, 60, (n_sites, n_regions)),
            np.exp(rng.normal(0, 0.3, (n_sites, n_regions))),
        )
        self.volumes = (
            2500 + scale[self.site_index] * (truth - 2500) + shift[self.site_index]
        )
        self.design = np.column_stack([self.age, self.sex == "M"]).astype(float)
        self.regions = [f"r{k}" for k in range(n_regions)]

    def cohort(self) -> Cohort:
        group = np.where(self.patient, "patient", "control").astype(object)
        ids = [f"p{k:04d}" for k in range(len(group))]
        people = pd.DataFrame(
            {"participant_id": ids, "group": group, "site": self.site.astype(object)}
        )
        covariates = pd.DataFrame({"age": self.age, "sex": self.sex.astype(object)})
        return Cohort(
            volumes=pd.DataFrame(self.volumes, columns=self.regions),
            people=people,
            covariates=covariates,
        )


def run_neurocombat(data: SiteData, with_diagnosis: bool) -> dict:
    covariates = pd.DataFrame({"site": data.site, "age": data.age, "sex": data.sex})
    categories = ["sex"]
    if with_diagnosis:
        covariates["diagnosis"] = data.patient.astype(int)
        categories.append("diagnosis")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result: dict = neuroCombat(
            data.volumes.T, covariates, "site", categories, ["age"]
        )
    return result


@pytest.mark.parametrize(
    ("n_people", "n_regions", "n_sites"),
    [(300, 30, 3), (90, 139, 4), (60, 12, 2), (400, 139, 12)],
)
def test_it_equals_neurocombat(n_people: int, n_regions: int, n_sites: int) -> None:
    data = SiteData(n_people, n_regions, n_sites)
    theirs = run_neurocombat(data, with_diagnosis=False)
    ours = Harmoniser.fit(data.volumes, data.design, data.site, data.regions)
    np.testing.assert_allclose(ours.shift, theirs["estimates"]["gamma.star"], atol=1e-6)
    np.testing.assert_allclose(
        ours.scale**2, theirs["estimates"]["delta.star"], atol=1e-6
    )
    changed = (
        ours.transform(data.volumes, data.design, data.site) - theirs["data"].T
    ) / ours.sd
    assert (
        np.abs(changed).max() < 1e-6
    )  # in standard deviations; theirs are computed in single precision


def test_all_with_diagnosis_preserved_equals_neurocombat() -> None:
    data = SiteData(300, 40, 4)
    theirs = run_neurocombat(data, with_diagnosis=True)
    ours = Harmoniser.fit(
        data.volumes, data.design, data.site, data.regions, data.patient
    )
    np.testing.assert_allclose(ours.shift, theirs["estimates"]["gamma.star"], atol=1e-6)
    np.testing.assert_allclose(
        ours.scale**2, theirs["estimates"]["delta.star"], atol=1e-6
    )
    moved = ours.transform(data.volumes, data.design, data.site)
    difference = (moved - theirs["data"].T) / ours.sd
    assert np.abs(difference[~data.patient]).max() < 1e-6
    # In patients, the site's scale is removed from the disease effect as well, because
    # transform takes no diagnosis.
    design = np.column_stack([np.eye(4)[data.site_index], data.design, data.patient])
    disease = np.linalg.lstsq(design, data.volumes, rcond=None)[0][-1]
    expected = disease / ours.sd * (1 / ours.scale[data.site_index[data.patient]] - 1)
    np.testing.assert_allclose(difference[data.patient], expected, atol=2e-6)


def test_the_empirical_bayes_estimate_is_a_fixed_point() -> None:
    """Compare with a loop over regions that iterates the published formulas until
    nothing changes.
    """
    rng = np.random.default_rng(0)
    values = rng.normal(0.3, 1.2, (40, 25)) + rng.normal(0, 0.4, 25)
    shift, scale = shrink_site_effect(
        len(values), values.mean(axis=0), values.var(axis=0, ddof=1)
    )
    hats, variances = values.mean(axis=0), values.var(axis=0, ddof=1)
    m, s2 = variances.mean(), variances.var(ddof=1)
    shape, rate = (2 * s2 + m * m) / s2, (m * s2 + m**3) / s2
    for region in range(25):
        g, d = hats[region], variances[region]
        for _ in range(200):
            g = (40 * hats.var(ddof=1) * hats[region] + d * hats.mean()) / (
                40 * hats.var(ddof=1) + d
            )
            d = (rate + 0.5 * sum((value - g) ** 2 for value in values[:, region])) / (
                40 / 2 + shape - 1
            )
        assert shift[region] == pytest.approx(g, abs=1e-4)
        assert scale[region] == pytest.approx(np.sqrt(d), abs=1e-4)


def test_simulated_site_effects_are_gone() -> None:
    data = SiteData(1200, 30, 3, seed=1)
    ours = Harmoniser.fit(
        data.volumes[~data.patient],
        data.design[~data.patient],
        data.site[~data.patient],
        data.regions,
    )
    after = ours.transform(data.volumes, data.design, data.site)

    def correlation(values: np.ndarray) -> float:
        return float(
            np.mean(
                [np.corrcoef(values[:, k], data.truth[:, k])[0, 1] for k in range(30)]
            )
        )

    assert correlation(data.volumes) < 0.95
    assert correlation(after) > 0.985

    def disease(values: np.ndarray) -> np.ndarray:
        ill, well = values[data.patient], values[~data.patient]
        return (ill.mean(axis=0) - well.mean(axis=0)) / well.std(
            axis=0
        )  # the overall scale is not identified

    np.testing.assert_allclose(disease(after), disease(data.truth), atol=0.1)
    assert np.abs(disease(data.volumes) - disease(data.truth)).max() > 0.3


@pytest.mark.parametrize("mode", ["controls", "all"])
def test_pattern_c_index_is_that_of_the_cohort_without_sites(mode: str) -> None:
    def score(sites: int, harmonise: str) -> float:
        simulated = ri.simulate_cohort("basic", 0, sites=sites)
        X = ri.Preprocessing.fit(simulated.cohort, harmonise).transform(
            simulated.cohort
        )
        y = simulated.cohort.is_patient.astype(int)
        indices = (
            ri.ContrastiveICA(n_patterns=3, random_state=0)
            .fit(X, y)
            .transform(X[y == 1])
        )
        return pattern_c_index(simulated.truth, indices).mean

    free = score(0, "none")
    assert score(4, mode) > free - 0.01
    assert score(4, "none") < free - 0.01


def test_patients_do_not_change_estimates_on_controls() -> None:
    data = SiteData(200, 8, 2)
    mild = data.cohort()
    severe = replace(mild, volumes=mild.volumes - 500.0 * data.patient[:, None])
    first, second = (
        ri.Preprocessing.fit(cohort, "controls").to_arrays()
        for cohort in (mild, severe)
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name])


def test_controls_mode_preserves_the_severity_of_a_site_with_severer_patients() -> None:
    data = SiteData(800, 10, 2)
    severe = data.patient & (data.site == "site1")
    volumes = data.truth - 200 * severe[:, None]  # no site effect
    cohort = replace(data.cohort(), volumes=pd.DataFrame(volumes, columns=data.regions))

    def gap(mode: str) -> float:
        values = ri.Preprocessing.fit(cohort, mode).transform(cohort)
        return float(values[severe].mean() - values[data.patient & ~severe].mean())

    assert gap("controls") == pytest.approx(gap("none"), rel=0.15)
    assert abs(gap("all")) < 0.75 * abs(
        gap("none")
    )  # as documented, part of their severity is removed


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000), shift=st.floats(-5, 5), factor=st.floats(0.2, 5))
def test_results_do_not_depend_on_the_unit_of_a_region(
    seed: int, shift: float, factor: float
) -> None:
    data = SiteData(80, 6, 2, seed)
    original = Harmoniser.fit(data.volumes, data.design, data.site, data.regions)
    rescaled = data.volumes * factor + 1000 * shift
    other = Harmoniser.fit(rescaled, data.design, data.site, data.regions)
    expected = (
        original.transform(data.volumes, data.design, data.site) * factor + 1000 * shift
    )
    np.testing.assert_allclose(
        other.transform(rescaled, data.design, data.site),
        expected,
        rtol=1e-6,
        atol=1e-3,
    )


def test_sites_whose_effect_cannot_be_estimated_are_refused_by_name() -> None:
    cohort = SiteData(100, 4, 2).cohort()
    small_site = cohort.people.copy()
    small_site.loc[np.flatnonzero(cohort.is_control)[0], "site"] = "small"
    with pytest.raises(PreprocessingError, match="small has one control"):
        ri.Preprocessing.fit(replace(cohort, people=small_site))
    small_site.loc[np.flatnonzero(cohort.is_control)[1], "site"] = "small"
    harmoniser = ri.Preprocessing.fit(replace(cohort, people=small_site)).harmoniser
    assert harmoniser is not None
    assert dict(zip(harmoniser.sites, harmoniser.counts, strict=True))["small"] == 2
    patient_site = cohort.people.copy()
    patient_site.loc[np.flatnonzero(cohort.is_patient)[:9], "site"] = "clinic"
    with pytest.raises(
        PreprocessingError, match=r"no control was measured at clinic \(9 people\)"
    ):
        ri.Preprocessing.fit(replace(cohort, people=patient_site))
    assert (
        ri.Preprocessing.fit(replace(cohort, people=patient_site), "all").harmoniser
        is not None
    )
    confounded = cohort.people.assign(
        site=np.where(cohort.is_patient, "clinic", "village")
    )
    with pytest.raises(PreprocessingError, match="cannot be told apart"):
        ri.Preprocessing.fit(replace(cohort, people=confounded), "all")
    constant = cohort.volumes.assign(
        r2=np.where(cohort.people["site"] == "site0", 5.0, 7.0)
    )
    with pytest.raises(PreprocessingError, match="constant within sites: r2"):
        ri.Preprocessing.fit(replace(cohort, volumes=constant))


def test_an_unseen_site_is_refused_or_estimated_from_its_controls() -> None:
    data = SiteData(900, 30, 3, seed=2)
    cohort = data.cohort()
    old = np.asarray(cohort.people["site"] != "site2")
    fitted = ri.Preprocessing.fit(cohort.take(old))
    with pytest.raises(
        PreprocessingError,
        match=r"site2 was not among the sites in training: p\d+.*--new-sites",
    ):
        fitted.transform(cohort)
    extended = fitted.with_sites(cohort)
    np.testing.assert_array_equal(
        extended.transform(cohort.take(old)), fitted.transform(cohort.take(old))
    )
    new = cohort.take(~old)
    values = extended.transform(new)
    np.testing.assert_allclose(values[new.is_control].mean(axis=0), 1, atol=0.02)
    np.testing.assert_allclose(values[new.is_control].std(axis=0), 0.1, atol=0.015)
    truth = data.truth[~old]
    assert (
        np.mean([np.corrcoef(values[:, k], truth[:, k])[0, 1] for k in range(30)]) > 0.8
    )
    few = new.take(
        np.sort(
            np.r_[np.flatnonzero(new.is_control)[:4], np.flatnonzero(new.is_patient)]
        )
    )
    with pytest.raises(
        PreprocessingError,
        match=r"too few controls .*: site2 \(4 controls\)\. At least 10",
    ):
        fitted.with_sites(few)
    last = ri.Preprocessing.fit(
        cohort.take(np.asarray(cohort.people["site"] == "site2"))
    )
    first = np.flatnonzero(
        cohort.is_control & np.asarray(cohort.people["site"] == "site0")
    )[:4]
    two_sites = cohort.take(
        np.sort(
            np.r_[first, np.flatnonzero(np.asarray(cohort.people["site"] == "site1"))]
        )
    )
    with pytest.raises(
        PreprocessingError, match=r"their effect: site0 \(4 controls\)\. At least 10"
    ):
        last.with_sites(two_sites)
    assert fitted.with_sites(few, least=4).harmoniser.counts[-1] == 4  # type: ignore[union-attr]
    with pytest.raises(PreprocessingError, match="no controls here: site2"):
        fitted.with_sites(new.take(new.is_patient))
    with pytest.raises(PreprocessingError, match="name the column of the site"):
        fitted.transform(replace(new, people=new.people.drop(columns="site")))


def test_small_sites_get_a_warning() -> None:
    data = SiteData(200, 6, 2)
    cohort = data.cohort()
    people = cohort.people.copy()
    people.loc[np.flatnonzero(cohort.is_control)[:5], "site"] = "small"
    problems = ri.Preprocessing.fit(replace(cohort, people=people)).review(
        replace(cohort, people=people)
    )
    (problem,) = [p for p in problems if p.where == "sites"]
    assert (
        "sites whose effect was estimated from fewer than 20 controls: small (5)"
        in str(problem)
    )


def test_it_is_saved_in_the_model_file(tmp_path: Path) -> None:
    simulated = simulate_few_regions("tiny", 0, sites=2)
    model = ri.fit(simulated.cohort, 1, members=2, method="contrastive", workers=1)
    model.save(tmp_path / "m.safetensors")
    again = ri.load(tmp_path / "m.safetensors")
    pd.testing.assert_frame_equal(
        again.apply(simulated.cohort), model.apply(simulated.cohort)
    )
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "n.safetensors").read_bytes() == (
        tmp_path / "m.safetensors"
    ).read_bytes()
    record = read_metadata(tmp_path / "m.safetensors")["harmonise"]
    assert (record["mode"], record["sites"]) == ("controls", ["site1", "site2"])
    without_sites = ri.fit(
        simulated.cohort,
        1,
        members=2,
        method="contrastive",
        workers=1,
        harmonise="none",
    )
    assert without_sites.preprocessing.harmoniser is None
    assert not np.allclose(
        without_sites.apply(simulated.cohort)["r1"], model.apply(simulated.cohort)["r1"]
    )


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "m.safetensors"
    cohort = simulate_few_regions("tiny", 0, sites=2).cohort
    ri.fit(cohort, 1, members=1, method="contrastive", workers=1).save(path)
    return path


@pytest.mark.parametrize(
    "damage",
    [
        {"mode": "magic"},
        {"sites": []},
        {"sites": ["a", "a"]},
        {"sites": [1, 2]},
        {"counts": [3]},
        {"sites": None},
    ],
)
def test_a_damaged_file_is_refused(saved: Path, tmp_path: Path, damage: dict) -> None:
    metadata, arrays, path = (
        read_metadata(saved),
        load_file(saved),
        tmp_path / "m.safetensors",
    )
    write_safetensors(
        path, arrays, metadata | {"harmonise": metadata["harmonise"] | damage}
    )
    with pytest.raises(ModelError, match="damaged"):
        ri.load(path)
    del metadata["harmonise"]
    write_safetensors(path, arrays, metadata)
    with pytest.raises(ModelError, match=r"has more than it should: harmonise\."):
        ri.load(path)


def test_commands_harmonise_and_add_sites(tmp_path: Path) -> None:
    write_cohort(simulate_few_regions("tiny", 0, sites=3), tmp_path)
    people = pd.read_csv(tmp_path / "participants.tsv", sep="\t")
    old, new = people[people["site"] != "site3"], people[people["site"] == "site3"]
    volumes = pd.read_csv(tmp_path / "volumes.csv")
    for name, group in (("old", old), ("new", new)):
        group.to_csv(tmp_path / f"{name}.tsv", sep="\t", index=False)
        volumes[volumes["participant_id"].isin(group["participant_id"])].to_csv(
            tmp_path / f"{name}.csv", index=False
        )

    def run(*arguments: str) -> object:
        return CliRunner().invoke(app, list(arguments))

    def tables(name: str) -> list[str]:
        return [
            str(tmp_path / f"{name}.csv"),
            "--participants",
            str(tmp_path / f"{name}.tsv"),
        ]

    model, out = tmp_path / "out/model.safetensors", str(tmp_path / "r.tsv")
    options = [
        "--group",
        "group",
        "--site",
        "site",
        "--method",
        "contrastive",
        "--patterns",
        "1",
        "--members",
        "2",
    ]
    quick = ["--workers", "1", "--no-report", "--json"]
    result = run(
        "fit", *tables("old"), *options, "--out", str(tmp_path / "out"), *quick
    )
    assert result.exit_code == 0, result.output  # type: ignore[attr-defined]
    shown = json.loads(run("model", "show", str(model), "--json").stdout)  # type: ignore[attr-defined]
    assert shown["harmonise"]["sites"] == ["site1", "site2"]
    assert "estimated from controls" in run("model", "show", str(model)).stdout  # type: ignore[attr-defined]
    apply = ["apply", str(model), *tables("new"), "--site", "site", "--out", out]
    refused = run(*apply)
    assert isinstance(refused.exception, PreprocessingError)  # type: ignore[attr-defined]
    applied = run(*apply, "--new-sites", "controls", "--group", "group", "--json")
    assert json.loads(applied.stdout)["people"] == len(new)  # type: ignore[attr-defined]
    unharmonised = run(
        "fit",
        *tables("old"),
        *options,
        "--harmonise",
        "none",
        "--out",
        str(tmp_path / "no"),
        *quick,
    )
    assert unharmonised.exit_code == 0  # type: ignore[attr-defined]
    assert 'harmonise = "none"' in (tmp_path / "no/study.toml").read_text()
    assert ri.load(tmp_path / "no/model.safetensors").preprocessing.harmoniser is None


def test_a_reference_site_keeps_its_values_and_others_equal_neurocombat(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(np, "int", int, raising=False)  # neuroCombat asks for it
    data = SiteData(300, 30, 3)
    covariates = pd.DataFrame({"site": data.site, "age": data.age, "sex": data.sex})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs: dict = neuroCombat(
            data.volumes.T, covariates, "site", ["sex"], ["age"], ref_batch="site1"
        )
    ours = Harmoniser.fit(
        data.volumes, data.design, data.site, data.regions, reference="site1"
    )
    moved = ours.transform(data.volumes, data.design, data.site)
    assert np.abs((moved - theirs["data"].T) / ours.sd).max() < 1e-5
    own = data.site == "site1"
    np.testing.assert_allclose(moved[own], data.volumes[own], rtol=1e-9)


def test_a_reference_site_is_in_the_model_file_and_a_wrong_one_is_refused(
    tmp_path: Path,
) -> None:
    cohort = simulate_few_regions("small", seed=1, sites=3).cohort
    model = ri.fit(cohort, 1, method="mean-difference", workers=1, harmonise_to="site2")
    model.save(tmp_path / "model.safetensors")
    read = ri.load(tmp_path / "model.safetensors").preprocessing.harmoniser
    assert read is not None
    assert read.reference == "site2"
    with pytest.raises(PreprocessingError, match="did you mean 'site2'"):
        ri.Preprocessing.fit(cohort, harmonise_to="sitte2")
    with pytest.raises(PreprocessingError, match="leave out --harmonise none"):
        ri.Preprocessing.fit(cohort, "none", harmonise_to="site2")
