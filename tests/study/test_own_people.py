"""R-indices of the study's own people come from members that have not seen them."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.experiments.visits import VisitPlan, simulate_visits
from rindices.learners.contrastive.estimator import MeanDifference
from rindices.learners.prepared_people import N_FOLDS, find_seen_people
from rindices.study.build import compute_seed_changes
from rindices.tables.cohort import GROUP, ID, SESSION
from tests.cohorts import simulate_few_regions


def exchange_labels(n_controls: int, n_patients: int, seed: int) -> ri.Cohort:
    """Return healthy people of whom some are called patients."""
    healthy = ri.simulate_cohort("null", seed=seed).cohort
    rng = np.random.default_rng(seed)
    cohort = healthy.take(
        np.sort(rng.choice(len(healthy), n_controls + n_patients, replace=False))
    )
    groups = rng.permutation(
        np.repeat(["control", "patient"], [n_controls, n_patients])
    )
    return replace(
        cohort,
        volumes=cohort.volumes.iloc[:, :40],
        people=cohort.people.assign(group=groups),
    )


def test_noise_does_not_separate_the_groups() -> None:
    written, in_sample = [], []
    for seed in range(3):
        cohort = exchange_labels(24, 60, seed)
        model = ri.fit(cohort, 1, method="mean-difference", members=5, workers=1)
        assert model.indices is not None
        written.append(roc_auc_score(cohort.is_patient, model.indices["r1"]))
        in_sample.append(roc_auc_score(cohort.is_patient, model.apply(cohort)["r1"]))
        assert model.selection.patterns[0].auc == pytest.approx(written[-1])
    assert 0.38 < np.mean(written) < 0.62
    assert np.mean(in_sample) > np.mean(written) + 0.2


def test_a_member_is_learnt_from_its_own_people_alone() -> None:
    """Each fold, and everything that precedes the index, is fitted again by hand."""
    cohort = simulate_few_regions("tiny", seed=3).cohort
    cohort = cohort.take(np.arange(0, len(cohort), 2))
    model = ri.fit(
        cohort,
        1,
        method="mean-difference",
        members=5,
        workers=1,
        seed=4,
        on_outlier="keep",
    )
    assert model.indices is not None
    assert list(model.indices[ID]) == list(cohort.people[ID])
    values = cohort.volumes.to_numpy(dtype=float)
    seen = find_seen_people(
        values, [(group,) for group in cohort.people[GROUP]], range(N_FOLDS), 4
    )
    assert (seen.sum(axis=0) == N_FOLDS - 1).all()
    for mask in seen:
        own = cohort.take(mask)
        pipeline = ri.Preprocessing.fit(own)
        learner = MeanDifference().fit(
            pipeline.transform(own), own.is_patient.astype(int)
        )
        expected = learner.transform(pipeline.transform(cohort.take(~mask)))[:, 0]
        assert np.corrcoef(expected, model.indices["r1"][~mask])[0, 1] > 1 - 1e-9


def test_folds_depend_on_the_values_alone() -> None:
    """People were sorted by id before members, permutations and halves were drawn, so
    pseudonyms acted like a seed.
    """
    cohort = simulate_few_regions("tiny", seed=5).cohort.take(np.arange(60, 150))
    model = ri.fit(cohort, 1, method="mean-difference", members=5, workers=1)
    order = np.random.default_rng(0).permutation(len(cohort))
    volumes, people, covariates = (
        frame.iloc[order].reset_index(drop=True)
        for frame in (cohort.volumes, cohort.people, cohort.covariates)
    )
    people[ID] = [f"person-{row}" for row in range(len(people))]
    other = replace(
        cohort,
        volumes=volumes[volumes.columns[::-1]],
        people=people,
        covariates=covariates,
    )
    again = ri.fit(other, 1, method="mean-difference", members=5, workers=1)
    assert model.indices is not None
    assert again.indices is not None
    np.testing.assert_allclose(
        again.indices["r1"], model.indices["r1"].to_numpy()[order], atol=1e-9
    )
    first, second = (each.selection for each in (model, again))
    assert first.difference.p == second.difference.p
    assert first.patterns[0].split_half == pytest.approx(
        second.patterns[0].split_half, abs=1e-9
    )


def test_files_and_apply(tmp_path: Path) -> None:
    table = tmp_path / "table.csv"
    cohort = exchange_labels(30, 60, 9)
    people = cohort.people[[ID, GROUP]].reset_index(drop=True)
    pd.concat([people, cohort.volumes.reset_index(drop=True)], axis=1).to_csv(
        table, index=False
    )
    words = [
        "fit",
        str(table),
        "--group",
        "group",
        "--controls",
        "control",
        "--method",
        "mean-difference",
    ]
    words += [
        "--patterns",
        "1",
        "--members",
        "3",
        "--workers",
        "1",
        "--out",
        str(tmp_path / "study"),
        "--no-report",
    ]
    fitted = CliRunner().invoke(app, words)
    assert fitted.exit_code == 0, fitted.output
    assert "5 members" in fitted.output
    written = pd.read_csv(tmp_path / "study" / "r_indices.tsv", sep="\t")
    assert (written["members_behind"] == 1).all()
    assert roc_auc_score(written["group"] == "patient", written["r1"]) < 0.75
    applied = CliRunner().invoke(
        app,
        [
            "apply",
            str(tmp_path / "study" / "model.safetensors"),
            str(table),
            "--out",
            str(tmp_path / "new.tsv"),
        ],
    )
    assert applied.exit_code == 0, applied.output
    assert "r_indices.tsv" in applied.output
    again = pd.read_csv(tmp_path / "new.tsv", sep="\t")
    assert roc_auc_score(written["group"] == "patient", again["r1"]) > 0.75


def test_changes_with_the_seed_are_those_of_drawn_members() -> None:
    rng = np.random.default_rng(0)
    unseen = np.zeros((10, 4000), dtype=bool)
    unseen[rng.integers(5, size=4000), np.arange(4000)] = True
    unseen[5 + rng.integers(5, size=4000), np.arange(4000)] = True
    (change,) = compute_seed_changes(rng.normal(scale=0.3, size=(10, 4000, 1)), unseen)
    seeds = rng.normal(scale=0.3, size=(2, 2, 4000)).mean(axis=1)
    assert change == pytest.approx(
        np.sqrt(np.mean((seeds[0] - seeds[1]) ** 2)), rel=0.05
    )
    assert compute_seed_changes(np.zeros((5, 3, 2)), np.eye(5, 3, dtype=bool)) == [
        None,
        None,
    ]


@pytest.mark.usefixtures("no_pictures")
def test_people_without_an_unseen_member_have_empty_cells(tmp_path: Path) -> None:
    """Statistics and report leave them out, and say so."""
    cohort = ri.simulate_cohort("tiny", seed=2).cohort
    cohort = replace(cohort, volumes=cohort.volumes.iloc[:, :30])
    model = ri.fit(
        cohort,
        1,
        method="mean-difference",
        members=5,
        workers=1,
        out=tmp_path / "study",
    )
    path = tmp_path / "study" / "r_indices.tsv"
    written = pd.read_csv(path, sep="\t")
    empty = written.index[written["group"] == "patient"][:3]
    written.loc[empty, [name for name in written if name.startswith("r1")]] = np.nan
    written.loc[empty, "members_behind"] = 0
    written.to_csv(path, sep="\t", index=False, na_rep="n/a")
    ri.write_report(tmp_path / "study")
    clinical = pd.DataFrame({ID: cohort.people[ID], "score": np.arange(len(cohort))})
    clinical.to_csv(tmp_path / "clinical.tsv", sep="\t", index=False)
    words = [
        "associate",
        str(path),
        str(tmp_path / "clinical.tsv"),
        "--out",
        str(tmp_path / "associations"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert "3 people have no R-index; left out" in done.output
    assert model.n_patterns == 1


def test_all_visits_are_cross_fitted(tmp_path: Path) -> None:
    """Index of a visit by the members that have not seen the person at any visit."""
    visits = simulate_visits("tiny", 0, VisitPlan(visits=2)).simulated.cohort
    visits = replace(visits, volumes=visits.volumes.iloc[:, :40])
    model = ri.fit(
        visits, 1, method="mean-difference", members=5, workers=1, out=tmp_path
    )
    assert model.indices is not None
    assert model.visit_indices is not None
    assert len(model.visit_indices) == len(visits)
    written = pd.read_csv(
        tmp_path / "r_indices_visits.tsv", sep="\t", dtype={SESSION: str}
    )
    np.testing.assert_allclose(written["r1"], model.visit_indices["r1"], atol=1e-9)
    first = model.visit_indices.drop_duplicates(ID).set_index(ID).loc[model.indices[ID]]
    np.testing.assert_allclose(first["r1"], model.indices["r1"], atol=1e-9)
