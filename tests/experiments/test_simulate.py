"""Simulated cohorts have the severities and losses of the paper."""

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
from rindices.experiments.simulate import SimulatedCohort, write_cohort
from rindices.experiments.tasks import PAPER_TASKS, TASKS
from tests.tables.helpers import N, write_table


@pytest.mark.parametrize("task", PAPER_TASKS)
def test_cohorts_have_the_sizes_of_the_paper(task: str) -> None:
    simulated = ri.simulate_cohort(task, seed=1)
    assert (simulated.cohort.n_controls, simulated.cohort.n_patients, simulated.cohort.n_regions) == (492, 900, 139)
    assert simulated.truth.shape == (900, 3)
    assert list(simulated.severities["participant_id"]) == list(
        simulated.cohort.people.loc[simulated.cohort.is_patient, "participant_id"]
    )


@pytest.mark.parametrize(("task", "rate", "noise"), [("basic", 0.3, 0.05), ("noise", 0.3, 0.2), ("mild", 0.2, 0.05)])
def test_atrophy_follows_the_formula(task: str, rate: float, noise: float) -> None:
    """The same seed gives the same healthy people, so each person's loss can be read off."""
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
    pd.testing.assert_frame_equal(ill.cohort.volumes[~patients], healthy.cohort.volumes[~patients])


@pytest.mark.parametrize("task", ["basic", "corr03", "corr05", "corr07", "beta13", "beta31", "beta22", "hard"])
def test_severities_have_their_distribution(task: str) -> None:
    spec = TASKS[task]
    truth = np.concatenate([ri.simulate_cohort(task, seed=seed).truth for seed in range(5)])
    assert kstest(truth[:, 0], beta_law(*spec.beta).cdf).pvalue > 1e-3
    tau = np.mean([kendalltau(truth[:, i], truth[:, j])[0] for i, j in ((0, 1), (0, 2), (1, 2))])
    assert np.sin(np.pi / 2 * tau) == pytest.approx(spec.correlation, abs=0.04)  # Gaussian copula


def test_staged_regions_shrink_one_after_another() -> None:
    healthy, ill = ri.simulate_cohort("null", seed=0), ri.simulate_cohort("staged", seed=0)
    patients = ill.cohort.is_patient
    loss = 1 - (ill.cohort.volumes / healthy.cohort.volumes)[patients]
    first, last = TASKS["staged"].patterns[0][0], TASKS["staged"].patterns[0][-1]
    mild = (ill.truth[:, 0] > 0.05) & (ill.truth[:, 0] < 0.55)
    assert (loss.loc[:, first].to_numpy()[mild] > 0.005).all()
    assert (np.abs(loss.loc[:, last].to_numpy()[mild]) < 1e-3).all()


def score_nmf(simulated: SimulatedCohort) -> float:
    """NMF with the paper's preparation (B.4): reversed z-scores, negative ones set to 0."""
    volumes = simulated.cohort.volumes.to_numpy()
    controls = volumes[simulated.cohort.is_control]
    atrophy = np.maximum(-(volumes[simulated.cohort.is_patient] - controls.mean(0)) / controls.std(0), 0)
    inferred = NMF(3, init="nndsvd", max_iter=2000, tol=1e-5).fit_transform(atrophy)
    concordance = np.array([[(kendalltau(t, i)[0] + 1) / 2 for i in inferred.T] for t in simulated.truth.T])
    rows, columns = linear_sum_assignment(-concordance)
    return float(concordance[rows, columns].mean())


def test_nmf_scores_on_the_basic_task_as_in_the_paper() -> None:
    scores = [score_nmf(ri.simulate_cohort("basic", seed=seed)) for seed in range(5)]
    assert 0.60 <= np.mean(scores) <= 0.72
    assert all(0.60 <= score <= 0.72 for score in scores), scores


def test_the_same_seed_gives_the_same_cohort() -> None:
    one, two, other = (ri.simulate_cohort("basic", seed=seed) for seed in (3, 3, 4))
    assert one.cohort.fingerprint() == two.cohort.fingerprint() != other.cohort.fingerprint()
    np.testing.assert_array_equal(one.truth, two.truth)


def test_sites_shift_and_scale() -> None:
    plain, sites = ri.simulate_cohort("null", seed=0), ri.simulate_cohort("null", seed=0, sites=4)
    assert sites.cohort.people["site"].nunique() == 4
    z = (sites.cohort.volumes - plain.cohort.volumes.mean()) / plain.cohort.volumes.std()
    by_site = z.groupby(sites.cohort.people["site"].to_numpy())
    assert by_site.mean().to_numpy().std() == pytest.approx(0.5, abs=0.06)
    assert np.log(by_site.std().to_numpy()).std() == pytest.approx(0.2, abs=0.05)
    np.testing.assert_array_equal(
        ri.simulate_cohort("basic", seed=0).truth, ri.simulate_cohort("basic", seed=0, sites=4).truth
    )


def test_patterns_are_added_to_a_table_of_healthy_people(shared: Path) -> None:
    ixi = ri.read_cohort(shared / "ixi/volumes.csv", shared / "ixi/demographics.csv", covariates=["Age", "Sex", "icv"])
    simulated = ri.simulate_cohort("basic", seed=0, healthy=ixi)
    assert (simulated.cohort.n_controls, simulated.cohort.n_patients) == (116, 175)
    controls = simulated.cohort.is_control
    pd.testing.assert_frame_equal(simulated.cohort.volumes[controls], ixi.volumes[controls])
    changed = (simulated.cohort.volumes != ixi.volumes)[simulated.cohort.is_patient].any(axis=0)
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
    assert list(pd.read_csv(tmp_path / "patterns.tsv", sep="\t")) == ["region", "s1", "s2", "s3"]


def test_an_unknown_task_gets_a_suggestion() -> None:
    with pytest.raises(SimulationError, match="did you mean 'basic'"):
        ri.simulate_cohort("basik")


def test_standardised_values_of_healthy_people_are_refused(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"ID": [f"p{k}" for k in range(N)], **{f"a{k}": rng.normal(size=N) for k in range(9)}})
    with pytest.raises(ri.RindicesError, match="standardised"):
        ri.simulate_cohort("basic", healthy=ri.read_cohort(write_table(frame, tmp_path / "v.csv")))
