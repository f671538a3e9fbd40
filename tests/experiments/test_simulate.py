"""Simulated cohorts have the severities and losses of the paper."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.stats import beta as beta_law
from scipy.stats import kendalltau, kstest
from sklearn.decomposition import NMF

import rindices as ri
from rindices.errors import SimulationError
from rindices.experiments.reference import FittedHealthyReference, load_reference
from rindices.experiments.simulate import SimulatedCohort, write_cohort
from rindices.experiments.tasks import TASKS
from tests.tables.helpers import N, write_table

PAPER_TASKS = ("basic", "overlap", "scarce", "noise", "mild")


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_cohorts_have_the_sizes_of_the_paper(task: str) -> None:
    simulated = ri.simulate_cohort(task, seed=1)
    assert (
        simulated.cohort.n_controls,
        simulated.cohort.n_patients,
        simulated.cohort.n_regions,
    ) == (492, 900, 139)
    assert simulated.truth.shape == (900, 3)
    assert list(simulated.severities["participant_id"]) == list(
        simulated.cohort.people.loc[simulated.cohort.is_patient, "participant_id"]
    )


@pytest.mark.parametrize(
    ("task", "rate", "noise"),
    [("basic", 0.3, 0.05), ("noise", 0.3, 0.2), ("mild", 0.2, 0.05)],
)
def test_atrophy_follows_the_formula(task: str, rate: float, noise: float) -> None:
    """The same seed gives the same healthy people, so each person's loss can be read
    off.
    """
    healthy, ill = ri.simulate_cohort("null", seed=2), ri.simulate_cohort(task, seed=2)
    patients = ill.cohort.is_patient
    ratio = (ill.cohort.volumes / healthy.cohort.volumes)[patients]
    amygdala = 1 - ratio["MUSE_31"].to_numpy()  # in pattern 1 alone
    strong = ill.truth[:, 0] > 0.2
    scaled = amygdala[strong] / (rate * ill.truth[strong, 0])
    assert scaled.mean() == pytest.approx(1, abs=0.02)
    assert scaled.std() == pytest.approx(noise, rel=0.1)
    hippocampus = ratio["MUSE_47"].to_numpy()  # in patterns 1 and 2: takes both
    both = (1 - rate * ill.truth[:, 0]) * (1 - rate * ill.truth[:, 1])
    assert np.mean(hippocampus - both) == pytest.approx(0, abs=0.005)
    assert (ratio["MUSE_35"] == 1).all()  # the brain stem is in no pattern
    pd.testing.assert_frame_equal(
        ill.cohort.volumes[~patients], healthy.cohort.volumes[~patients]
    )


@pytest.mark.parametrize(
    "task",
    ["basic", "corr03", "corr05", "corr07", "beta13", "beta31", "beta22", "hard"],
)
def test_severities_have_their_distribution(task: str) -> None:
    spec = TASKS[task]
    truth = np.concatenate(
        [ri.simulate_cohort(task, seed=seed).truth for seed in range(5)]
    )
    assert kstest(truth[:, 0], beta_law(*spec.beta).cdf).pvalue > 1e-3
    tau = np.mean(
        [kendalltau(truth[:, i], truth[:, j])[0] for i, j in ((0, 1), (0, 2), (1, 2))]
    )
    assert np.sin(np.pi / 2 * tau) == pytest.approx(
        spec.correlation, abs=0.04
    )  # Gaussian copula


@pytest.mark.parametrize(("task", "onset"), [("staged", 0.6), ("staged09", 0.9)])
def test_staged_regions_shrink_one_after_another(task: str, onset: float) -> None:
    healthy, ill = ri.simulate_cohort("null", seed=0), ri.simulate_cohort(task, seed=0)
    patients = ill.cohort.is_patient
    loss = 1 - (ill.cohort.volumes / healthy.cohort.volumes)[patients]
    first, last = TASKS[task].patterns[0][0], TASKS[task].patterns[0][-1]
    mild = (ill.truth[:, 0] > 0.05) & (ill.truth[:, 0] < onset)
    assert (loss.loc[:, first].to_numpy()[mild] > 0.005).all()
    assert (np.abs(loss.loc[:, last].to_numpy()[mild]) < 1e-3).all()


@pytest.mark.parametrize("task", ["staged09", "together", "personal"])
def test_other_courses_have_the_people_and_severities_of_the_basic_task(
    task: str,
) -> None:
    basic, other = ri.simulate_cohort("basic", seed=4), ri.simulate_cohort(task, seed=4)
    np.testing.assert_array_equal(other.truth, basic.truth)
    unaffected = ~basic.cohort.volumes.columns.isin(
        np.concatenate(TASKS["basic"].patterns)
    )
    pd.testing.assert_frame_equal(
        other.cohort.volumes.loc[:, unaffected], basic.cohort.volumes.loc[:, unaffected]
    )
    controls = basic.cohort.is_control
    pd.testing.assert_frame_equal(
        other.cohort.volumes[controls], basic.cohort.volumes[controls]
    )
    pd.testing.assert_frame_equal(other.cohort.covariates, basic.cohort.covariates)
    assert not other.cohort.volumes.equals(basic.cohort.volumes)
    assert other.cohort.volumes.to_numpy().min() > 0


@pytest.mark.parametrize("task", [*PAPER_TASKS, "corr05", "beta31", "staged", "hard"])
def test_volumes_of_plain_tasks_equal_the_formula_bit_for_bit(task: str) -> None:
    spec, ill = TASKS[task], ri.simulate_cohort(task, seed=6)
    expected, _ = load_reference().draw(1392, np.random.default_rng([6, 0]))
    rng = np.random.default_rng([6, 1])
    rng.normal(size=(900, 3))  # the severities
    patients = np.flatnonzero(ill.cohort.is_patient)
    for severity, pattern in zip(ill.truth.T, spec.patterns, strict=True):
        onset = np.linspace(0, spec.last_onset, len(pattern))
        expressed = np.clip((severity[:, None] - onset) / (1 - onset), 0, 1)
        loss = expressed * rng.normal(1, spec.noise, size=expressed.shape) * spec.rate
        before = expected.loc[patients, list(pattern)].to_numpy()
        expected.loc[patients, list(pattern)] = before - before * loss
    np.testing.assert_array_equal(ill.cohort.volumes, expected.to_numpy().round(2))


def test_patterns_strengthen_each_other() -> None:
    healthy, ill = (
        ri.simulate_cohort("null", seed=2),
        ri.simulate_cohort("together", seed=2),
    )
    loss = 1 - (ill.cohort.volumes / healthy.cohort.volumes)[ill.cohort.is_patient]
    alone = [
        "MUSE_31",
        TASKS["together"].patterns[1][2],
        TASKS["together"].patterns[2][0],
    ]  # in one pattern each
    for k, name in enumerate(alone):
        own, following = ill.truth[:, k], ill.truth[:, (k + 1) % 3]
        scaled = loss[name].to_numpy() / (0.3 * own * (1 + following) / 1.5)
        strong = own > 0.2
        assert scaled[strong].mean() == pytest.approx(1, abs=0.01)
        assert scaled[strong].std() == pytest.approx(0.05, rel=0.1)
        assert np.mean(loss[name]) == pytest.approx(
            0.15, abs=0.01
        )  # as in the basic task


def test_regions_that_are_small_in_a_person_lose_more() -> None:
    healthy, ill = (
        ri.simulate_cohort("null", seed=2),
        ri.simulate_cohort("personal", seed=2),
    )
    patients, reference = ill.cohort.is_patient, load_reference()
    expected = np.log(healthy.cohort.volumes) - reference.predict_logs(
        healthy.cohort.covariates
    )
    deviation = (expected["MUSE_31"] / expected["MUSE_31"].std())[patients].to_numpy()
    change = np.log(ill.cohort.volumes / healthy.cohort.volumes)["MUSE_31"][
        patients
    ].to_numpy()
    average = np.log(1 - 0.3 * ill.truth[:, 0])
    strong = ill.truth[:, 0] > 0.2
    slope, level = np.polyfit(deviation[strong], (change / average)[strong], 1)
    assert (slope, level) == (
        pytest.approx(-0.25, abs=0.01),
        pytest.approx(1, abs=0.01),
    )


def test_change_depends_on_the_person_in_other_healthy_people_too(shared: Path) -> None:
    ixi = ri.read_cohort(
        shared / "ixi/volumes.csv",
        shared / "ixi/demographics.csv",
        covariates=["Age", "Sex", "icv"],
    )
    for source in ({"healthy": ixi}, {"reference": FittedHealthyReference.fit(ixi)}):
        healthy, basic, ill = (
            ri.simulate_cohort(t, seed=1, **source).cohort
            for t in ("null", "basic", "personal")
        )
        volume = np.log(healthy.volumes["MUSE_31"])[ill.is_patient]
        more = np.log(ill.volumes["MUSE_31"] / basic.volumes["MUSE_31"])[ill.is_patient]
        assert kendalltau(volume, more)[0] > 0.3
    with pytest.raises(SimulationError, match="values of 0 or less"):
        ri.simulate_cohort(
            "personal", healthy=replace(ixi, volumes=ixi.volumes.assign(MUSE_31=0.0))
        )


def score_nmf(simulated: SimulatedCohort) -> float:
    """NMF with the paper's preparation (B.4): reversed z-scores, negative ones set to
    0.
    """
    volumes = simulated.cohort.volumes.to_numpy()
    controls = volumes[simulated.cohort.is_control]
    atrophy = np.maximum(
        -(volumes[simulated.cohort.is_patient] - controls.mean(0)) / controls.std(0), 0
    )
    inferred = NMF(3, init="nndsvd", max_iter=2000, tol=1e-5).fit_transform(atrophy)
    concordance = np.array(
        [[(kendalltau(t, i)[0] + 1) / 2 for i in inferred.T] for t in simulated.truth.T]
    )
    rows, columns = linear_sum_assignment(-concordance)
    return float(concordance[rows, columns].mean())


def test_nmf_scores_on_the_basic_task_as_in_the_paper() -> None:
    scores = [score_nmf(ri.simulate_cohort("basic", seed=seed)) for seed in range(5)]
    assert 0.60 <= np.mean(scores) <= 0.72
    assert all(0.60 <= score <= 0.72 for score in scores), scores


def test_the_same_seed_gives_the_same_cohort() -> None:
    one, two, other = (ri.simulate_cohort("basic", seed=seed) for seed in (3, 3, 4))
    assert (
        one.cohort.fingerprint()
        == two.cohort.fingerprint()
        != other.cohort.fingerprint()
    )
    np.testing.assert_array_equal(one.truth, two.truth)


def test_new_people_are_others_with_the_same_disease() -> None:
    cohort, new = (
        ri.simulate_cohort("basic", seed=3),
        ri.simulate_cohort("basic", seed=3, new_people=True),
    )
    assert (new.cohort.n_controls, new.cohort.n_patients) == (8, 12)
    pd.testing.assert_frame_equal(new.patterns, cohort.patterns)
    assert set(new.cohort.people["participant_id"]).isdisjoint(
        cohort.cohort.people["participant_id"]
    )
    assert not set(new.cohort.volumes["MUSE_47"]) & set(
        cohort.cohort.volumes["MUSE_47"].iloc[:20]
    )
    assert not np.isin(new.truth, cohort.truth).any()
    again = ri.simulate_cohort("basic", seed=3, new_people=True)
    pd.testing.assert_frame_equal(again.cohort.volumes, new.cohort.volumes)
    assert not ri.simulate_cohort(
        "basic", seed=4, new_people=True
    ).cohort.volumes.equals(new.cohort.volumes)
    with pytest.raises(SimulationError, match="leave out healthy or new_people"):
        ri.simulate_cohort("tiny", healthy=cohort.cohort, new_people=True)


def test_new_people_were_measured_at_the_sites_of_the_cohort() -> None:
    """Each site moves a region by a straight line, which controls of the
    cohort show.
    """
    (before, after), (new_before, new_after) = (
        [
            ri.simulate_cohort("null", seed=0, sites=sites, new_people=new).cohort
            for sites in (0, 3)
        ]
        for new in (False, True)
    )
    for site, rows in after.people.groupby("site").groups.items():
        slope, start = np.polyfit(
            before.volumes.loc[rows, "MUSE_47"], after.volumes.loc[rows, "MUSE_47"], 1
        )
        here = new_after.people["site"] == site
        assert here.any()
        expected = start + slope * new_before.volumes.loc[here, "MUSE_47"]
        np.testing.assert_allclose(
            new_after.volumes.loc[here, "MUSE_47"], expected, atol=0.02
        )


def test_sites_shift_and_scale() -> None:
    plain, sites = (
        ri.simulate_cohort("null", seed=0),
        ri.simulate_cohort("null", seed=0, sites=4),
    )
    assert sites.cohort.people["site"].nunique() == 4
    z = (
        sites.cohort.volumes - plain.cohort.volumes.mean()
    ) / plain.cohort.volumes.std()
    by_site = z.groupby(sites.cohort.people["site"].to_numpy())
    assert by_site.mean().to_numpy().std() == pytest.approx(0.5, abs=0.06)
    assert np.log(by_site.std().to_numpy()).std() == pytest.approx(0.2, abs=0.05)
    np.testing.assert_array_equal(
        ri.simulate_cohort("basic", seed=0).truth,
        ri.simulate_cohort("basic", seed=0, sites=4).truth,
    )


def test_patterns_are_added_to_a_table_of_healthy_people(shared: Path) -> None:
    ixi = ri.read_cohort(
        shared / "ixi/volumes.csv",
        shared / "ixi/demographics.csv",
        covariates=["Age", "Sex", "icv"],
    )
    simulated = ri.simulate_cohort("basic", seed=0, healthy=ixi)
    assert (simulated.cohort.n_controls, simulated.cohort.n_patients) == (116, 175)
    controls = simulated.cohort.is_control
    pd.testing.assert_frame_equal(
        simulated.cohort.volumes[controls], ixi.volumes[controls]
    )
    changed = (simulated.cohort.volumes != ixi.volumes)[
        simulated.cohort.is_patient
    ].any(axis=0)
    assert set(changed[changed].index) == set().union(*TASKS["basic"].patterns)


def test_patterns_are_random_for_another_atlas(shared: Path) -> None:
    fcon = ri.read_cohort(shared / "fcon1000/fcon1000.csv", on_missing="drop")
    simulated = ri.simulate_cohort("basic", seed=0, healthy=fcon)
    assert (simulated.patterns[["s1", "s2", "s3"]] > 0).sum().tolist() == [14, 14, 14]
    other = ri.simulate_cohort("basic", seed=1, healthy=fcon)
    assert not simulated.patterns.equals(other.patterns)


def test_written_tables_are_read_back(tmp_path: Path) -> None:
    simulated = ri.simulate_cohort("basic", seed=5, sites=2)
    write_cohort(simulated, tmp_path)
    again = ri.read_cohort(
        tmp_path / "volumes.csv",
        tmp_path / "participants.tsv",
        group="group",
        covariates=["age", "sex", "icv"],
        site="site",
    )
    assert again.fingerprint() == simulated.cohort.fingerprint()
    truth = pd.read_csv(tmp_path / "truth.tsv", sep="\t")
    np.testing.assert_array_equal(truth[["s1", "s2", "s3"]], simulated.truth)
    assert list(pd.read_csv(tmp_path / "patterns.tsv", sep="\t")) == [
        "region",
        "s1",
        "s2",
        "s3",
    ]


def test_an_unknown_task_gets_a_suggestion() -> None:
    with pytest.raises(SimulationError, match="did you mean 'basic'"):
        ri.simulate_cohort("basik")


def test_standardised_values_of_healthy_people_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame(
        {
            "ID": [f"p{k}" for k in range(N)],
            **{f"a{k}": rng.normal(size=N) for k in range(9)},
        }
    )
    with pytest.raises(ri.RindicesError, match="standardised"):
        ri.simulate_cohort(
            "basic", healthy=ri.read_cohort(write_table(frame, tmp_path / "v.csv"))
        )
