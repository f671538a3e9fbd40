"""Halves: who is in which, what is compared, and that what is there is found again and what is not is not."""

import json
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.reproduce import reproduce_in_halves, split_into_halves
from rindices.cli.main import app
from rindices.errors import AnalysisError, StudyError
from rindices.experiments.simulate import write_cohort
from rindices.selection.agreement import c_index
from rindices.tables.cohort import Cohort


def fit(cohort: Cohort, patterns: int = 2, members: int = 2) -> ri.FittedModel:
    return ri.fit(cohort, patterns, members=members, recipe="contrastive", workers=1)


def test_halves_are_even_and_apart() -> None:
    cohort = ri.simulate_cohort("tiny", 0, sites=3).cohort
    one, other = split_into_halves(cohort, 0)
    assert sorted([*one, *other]) == list(range(len(cohort)))
    sizes = [cohort.take(half).people.groupby(["group", "site"]).size() for half in (one, other)]
    assert (sizes[0] - sizes[1]).abs().max() <= 1
    assert not np.array_equal(one, split_into_halves(cohort, 1)[0])
    with pytest.raises(AnalysisError, match="at least one control"):
        split_into_halves(
            cohort.take(np.r_[np.flatnonzero(cohort.is_control)[:1], np.flatnonzero(cohort.is_patient)]), 0
        )


def test_it_is_what_two_fits_by_hand_give() -> None:
    cohort = ri.simulate_cohort("small", 0).cohort
    found = reproduce_in_halves(cohort, fit, splits=2, seed=4)
    assert found.table.groupby(["split", "tested_on"]).size().tolist() == [2, 2, 2, 2]
    halves = [cohort.take(rows) for rows in split_into_halves(cohort, 4)]
    models = [fit(half) for half in halves]
    patients = halves[1].take(halves[1].is_patient)
    own, other = models[1].apply(patients), models[0].apply(patients)
    for _, row in found.table.query("split == 1 and tested_on == 2").iterrows():
        a, b = own[row["index"]].to_numpy(), other[row["matched"]].to_numpy()
        assert row["concordance"] == pytest.approx(c_index(a, b))
        assert row["correlation"] == pytest.approx(np.corrcoef(a, b)[0, 1])
        mine, theirs = (int(row[name][1:]) - 1 for name in ("index", "matched"))
        patterns = models[1].patterns[-1, mine], models[0].patterns[-1, theirs]
        assert row["pattern_correlation"] == pytest.approx(np.corrcoef(*patterns)[0, 1])
        assert row["n"] == len(patients)
    unseen = found.unseen.set_index("participant_id")
    there = models[0].apply(halves[1]).set_index("participant_id")
    np.testing.assert_allclose(unseen.loc[there.index, ["r1", "r2"]], there[["r1", "r2"]])
    assert set(unseen.loc[there.index, "half"]) == {2}
    assert len(unseen) == len(cohort)


def test_true_patterns_are_found_again_and_noise_is_not() -> None:
    def concordance(task: str) -> float:
        cohort = ri.simulate_cohort(task, 1).cohort
        return float(reproduce_in_halves(cohort, partial(fit, patterns=3, members=1)).table["concordance"].mean())

    assert concordance("basic") > 0.9
    assert concordance("null") < 0.7
    with pytest.raises(StudyError, match="members do not agree"):
        reproduce_in_halves(ri.simulate_cohort("null", 1).cohort, partial(fit, patterns=3))


def test_halves_may_differ_in_the_number_of_patterns() -> None:
    cohort = ri.simulate_cohort("small", 0).cohort
    sizes = iter([3, 2])
    found = reproduce_in_halves(
        cohort, lambda half: ri.fit(half, next(sizes), members=2, recipe="contrastive", workers=1)
    )
    assert found.table[["n_patterns", "n_patterns_other"]].to_numpy().tolist() == [[3, 2]] * 2 + [[2, 3]] * 2
    assert found.unseen.query("half == 1")["r3"].isna().all()


def test_command(tmp_path: Path) -> None:
    write_cohort(ri.simulate_cohort("tiny", 0), tmp_path)
    (tmp_path / "study.toml").write_text(
        '[data]\nvolumes = "volumes.csv"\nparticipants = "participants.tsv"\ngroup = "group"\n'
        '[model]\nrecipe = "contrastive"\npatterns = [2]\nmembers = 2\n[run]\nworkers = 1\n'
    )
    arguments = ["reproduce", str(tmp_path / "study.toml"), "--out", str(tmp_path / "out"), "--json"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 0, done.output
    value = json.loads(done.stdout)
    assert [row["tested_on"] for row in value["results"]] == [1, 1, 2, 2]
    unseen = pd.read_csv(tmp_path / "out/r_indices_unseen.tsv", sep="\t")
    assert list(unseen.columns) == ["participant_id", "group", "r1", "r2"]
    assert ri.load(tmp_path / "out/half1.safetensors").n_patterns == 2
    assert json.loads(CliRunner().invoke(app, arguments).stdout)["results"] == value["results"]  # resumed
