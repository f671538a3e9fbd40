"""Studies: the file, the plan, the store; resumed runs and any number of workers give equal bytes."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import rindices as ri
from rindices.cli.main import app
from rindices.errors import StudyError
from rindices.experiments.tasks import TASKS
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig, format_study_toml, make_study, merge_options, read_study
from rindices.study.engines.base import StudyObserver, run_plan
from rindices.study.engines.local import LocalEngine
from rindices.study.plan import make_plan, resolve_recipe
from rindices.study.run import fit_cohort
from rindices.study.store import RunStore
from tests.study.helpers import STUDY, command, outputs, run

BRIEF = {"max_steps": 40, "min_steps": 40, "reconstruction_bar": 1e3, "monotonicity_bar": 1e3}


def test_a_study_from_its_file(undisturbed: Path) -> None:
    selection = json.loads((undisturbed / "selection.json").read_text())
    assert [g["setting"]["n_patterns"] for g in selection["grid"]] == [2, 3]
    assert selection["chosen"]["members"] == {"trained": 10, "converged": 10}
    table = pd.read_csv(undisturbed / "r_indices.tsv", sep="\t")
    assert list(table.columns[:2]) == ["participant_id", "group"]
    assert len(table) == 180


def test_the_number_of_workers_changes_no_byte(folder: Path, undisturbed: Path) -> None:
    done = run("fit", folder / "study.toml", "--out", folder / "two", "--workers", 2)
    assert done.returncode == 0, done.stderr
    assert outputs(folder / "two") == outputs(undisturbed)


def killed_and_resumed(folder: Path, out: Path, times: int) -> int:
    """Start, kill all processes at a random moment, start again; return how often it was killed before the end."""
    chance, kills = random.Random(0), 0
    for _ in range(times):
        process = subprocess.Popen(
            command("fit", folder / "study.toml", "--out", out), start_new_session=True, stderr=subprocess.DEVNULL
        )
        time.sleep(chance.uniform(0.5, 7.0))
        if process.poll() is None:
            kills += 1
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    assert run("fit", folder / "study.toml", "--out", out).returncode == 0
    return kills


def test_killed_thrice_and_resumed(folder: Path, undisturbed: Path) -> None:
    assert killed_and_resumed(folder, folder / "killed", 3) > 0
    assert outputs(folder / "killed") == outputs(undisturbed)


@pytest.mark.slow
def test_killed_twenty_times_and_resumed(folder: Path, undisturbed: Path) -> None:
    for round_ in range(4):  # fresh folders, so that there is something left to kill
        killed_and_resumed(folder, folder / f"killed{round_}", 5)
        assert outputs(folder / f"killed{round_}") == outputs(undisturbed)


def test_each_setting_is_announced_once(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    announced: list[int] = []
    model = ModelConfig(patterns=(2, 3), members=15, recipe="contrastive")
    observer = StudyObserver(on_setting=lambda point, concordance: announced.append(point.n_patterns))
    fit_cohort(cohort, model, 0, RunStore(tmp_path), 2, observer=observer)
    assert sorted(announced) == [2, 3]


def test_interrupted_ends_with_3_and_says_how_to_go_on(folder: Path, undisturbed: Path) -> None:
    out = folder / "interrupted"
    process = subprocess.Popen(
        command("fit", folder / "study.toml", "--out", out, "--workers", 1), stderr=subprocess.PIPE, text=True
    )
    while not list(out.glob("runs/*.safetensors")):
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    assert process.returncode == 3, message
    assert "run the same command again" in message
    assert "Traceback" not in message
    finished = len(list(out.glob("runs/*.safetensors")))
    assert 0 < finished < 4
    assert run("fit", folder / "study.toml", "--out", out).returncode == 0
    assert outputs(out) == outputs(undisturbed)


def test_finished_sets_are_not_trained_again(folder: Path, undisturbed: Path) -> None:
    files = sorted(undisturbed.glob("runs/*.safetensors"))
    before = {path: path.stat().st_mtime_ns for path in files}
    damaged = files[2]
    damaged.write_bytes(damaged.read_bytes()[:-100])
    expected = outputs(undisturbed)
    assert run("fit", folder / "study.toml", "--out", undisturbed).returncode == 0
    after = {path: path.stat().st_mtime_ns for path in files}
    assert [path for path in files if before[path] != after[path]] == [damaged]
    assert outputs(undisturbed) == expected


def test_what_changes_the_fingerprint() -> None:
    model = ModelConfig(recipe="paper", patterns=(3,), orthogonality=(0.2,))

    def keys(changed: ModelConfig = model, seed: int = 0, data: str = "x") -> list[str]:
        return [work.key for work in make_plan(changed, seed, data)]

    def with_(**changes: Any) -> ModelConfig:
        return model.model_copy(update=changes)

    assert keys() == keys()
    for other in (
        keys(seed=1),
        keys(data="y"),
        keys(with_(recipe_changes={"near_zero": 7.0})),
        keys(with_(recipe_changes={"max_steps": 300_000})),
        keys(with_(correlated=True)),
        keys(with_(orthogonality=(0.4,))),
        keys(with_(recipe="contrastive")),
    ):
        assert not set(keys()) & set(other)
    assert set(keys()) < set(keys(with_(members=20)))  # more members keep the first ones
    assert set(keys()) < set(keys(with_(patterns=(2, 3))))


def test_one_value_in_the_table_changes_the_fingerprint(folder: Path) -> None:
    asked = {"group": "group", "covariates": ["age"]}
    table = pd.read_csv(folder / "volumes.csv")
    first = ri.read_cohort(folder / "volumes.csv", folder / "participants.tsv", **asked).fingerprint()
    table.sample(frac=1, random_state=0).to_csv(folder / "shuffled.csv", index=False)
    assert ri.read_cohort(folder / "shuffled.csv", folder / "participants.tsv", **asked).fingerprint() == first
    table.iloc[5, 7] += 0.01
    table.to_csv(folder / "changed.csv", index=False)
    assert ri.read_cohort(folder / "changed.csv", folder / "participants.tsv", **asked).fingerprint() != first


def test_recipe_paper_through_the_store(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    model = ModelConfig(recipe="paper", patterns=(2,), orthogonality=(0.2,), members=1, recipe_changes=BRIEF)
    first = fit_cohort(cohort, model, 0, RunStore(tmp_path / "a"), workers=1)
    again = fit_cohort(cohort, model, 0, RunStore(tmp_path / "b"), workers=2)
    assert first.card["recipe"]["values"]["max_steps"] == 40
    assert first.heads[0].kind == "surreal"
    np.testing.assert_array_equal(first.apply(cohort)[["r1", "r2"]], again.apply(cohort)[["r1", "r2"]])
    assert not list((tmp_path / "a").glob("*.checkpoint"))


BRIEF_DEFAULT = {"start_steps": 40, "held_steps": 10, "max_steps": 20, "check_every": 10}


def test_recipe_default_through_the_store(tmp_path: Path) -> None:
    made = ri.simulate_cohort("small", seed=1)
    model = ModelConfig(patterns=(3,), members=6, recipe_changes=BRIEF_DEFAULT)
    first = fit_cohort(made.cohort, model, 0, RunStore(tmp_path / "a"), workers=1)
    again = fit_cohort(made.cohort, model, 0, RunStore(tmp_path / "b"), workers=2)
    names = ["r1", "r2", "r3"]
    r = first.apply(made.cohort)[names]
    np.testing.assert_array_equal(r, again.apply(made.cohort)[names])
    assert first.card["recipe"]["recipe"] == "default"
    assert first.card["recipe"]["values"]["start"] == "likelihood"
    assert first.card["agreement_between"] == "disjoint halves"
    assert all(steps in (10, 20) for steps in first.card["member_steps"])
    first.save(tmp_path / "model.safetensors")
    shown = run("model", "show", tmp_path / "model.safetensors").stdout
    assert re.search(r"\d members needed no training after their start .*, \d were trained further", shown)
    assert pattern_c_index(made.truth, r.to_numpy()[made.cohort.is_patient]).mean > 0.85
    np.testing.assert_allclose(np.quantile(r[made.cohort.is_patient], 0.98, axis=0), 1.0, atol=0.01)
    np.testing.assert_allclose(r[~made.cohort.is_patient].mean(axis=0), 0.0, atol=0.05)


@pytest.mark.parametrize(
    ("changes", "weights"),
    [
        ({}, (0.2,)),
        ({"recipe": "paper"}, (0.1, 0.2, 0.4, 0.6, 0.8)),
        ({"recipe": "contrastive"}, (None,)),
        ({"recipe": "contrastive", "orthogonality": (0.4,)}, (None,)),
        ({"orthogonality": (0.4, 0.8, 0.4)}, (0.4, 0.8)),
    ],
)
def test_lambda_is_the_recipes_where_it_is_left_open(
    changes: dict[str, Any], weights: tuple[float | None, ...]
) -> None:
    plan = make_plan(ModelConfig(patterns=(2,), members=1, **changes), 0, "x")
    assert tuple(work.point.orthogonality for work in plan) == weights


def test_a_learnt_copula_moves_after_the_held_steps() -> None:
    values = resolve_recipe(ModelConfig(correlated=True))[1]
    assert (values["correlated"], values["copula_after"]) == (True, values["held_steps"])
    assert resolve_recipe(ModelConfig(recipe="paper", correlated=True))[1]["copula_after"] == 0
    assert resolve_recipe(ModelConfig())[1]["copula_after"] > values["max_steps"]


def test_an_unstable_study_is_said_to_be(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    bars = {"max_steps": 40, "min_steps": 40}
    model = ModelConfig(recipe="paper", patterns=(2,), orthogonality=(0.2,), members=2, recipe_changes=bars)
    with pytest.raises(
        StudyError, match=r"no setting gave a stable result: M = 2, lambda = 0\.2: 0 of 2 members converged"
    ):
        fit_cohort(cohort, model, 0, RunStore(tmp_path), workers=1)


def test_dry_run_trains_nothing(folder: Path) -> None:
    done = run("fit", folder / "study.toml", "--out", folder / "dry", "--dry-run", "--json")
    told = json.loads(done.stdout)
    assert (told["settings"], told["members"], told["member_sets"], told["finished"]) == (2, 20, 4, 0)
    assert 0 < told["seconds_left"] < 600
    assert not (folder / "dry").exists()
    paper = run("fit", folder / "study.toml", "--out", folder / "dry", "--dry-run", "--json", "--recipe", "paper")
    assert json.loads(paper.stdout)["seconds_left"] > 600  # 100,000 steps and more take their time


def test_plain_options_and_the_study_they_make(folder: Path) -> None:
    options = ["--participants", folder / "participants.tsv", "--group", "group", "--covariates", "age,sex,icv"]
    options += ["--patterns", "2,3", "--members", 10, "--recipe", "contrastive", "--seed", 3, "--json"]
    done = run("fit", folder / "volumes.csv", *options, "--out", folder / "options")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    expected = {"n_patterns", "orthogonality", "agreement", "members", "seconds", "model", "report"}
    assert expected <= set(told)
    again = run("fit", folder / "options" / "study.toml", "--out", folder / "again")
    assert again.returncode == 0, again.stderr
    assert outputs(folder / "again") == outputs(folder / "options")


def test_study_file_round_trip(tmp_path: Path, folder: Path) -> None:
    study = read_study(folder / "study.toml")
    (tmp_path / "s.toml").write_text(format_study_toml(study))
    assert read_study(tmp_path / "s.toml") == study
    changed = make_study({"data": {"volumes": "v.csv"}, "model": {"recipe": "paper", "recipe_changes": BRIEF}})
    (tmp_path / "t.toml").write_text(format_study_toml(changed))
    assert read_study(tmp_path / "t.toml") == changed


@pytest.mark.parametrize(
    ("text", "offender", "cure"),
    [
        ("[data]\nvolumes = 'v.csv'\n[model]\npaterns = [2]", "model.paterns", "Did you mean 'patterns'?"),
        ("[data]\nvolumes = 'v.csv'\n[model]\npatterns = [0]", "model.patterns", "1 or more"),
        ("[data]\nvolumes = 'v.csv'\n[model]\nmembers = 'many'", "model.members", "integer"),
        ("[data]\nvolumes = 'v.csv'\n[model]\nrecipe = 'papper'", "model.recipe", "paper"),
        ("[data]\nvolumes = 'v.csv'\n[run]\nengine = 'magic'", "run.engine", "local"),
        ("[model]\npatterns = 2", "data", "required"),
        ("[data]\nvolumes = 'v.csv'\n[modle]\n", "modle", "Did you mean 'model'?"),
        ("this is no toml", "s.toml", "not a study file"),
    ],
)
def test_wrong_study_files(tmp_path: Path, text: str, offender: str, cure: str) -> None:
    (tmp_path / "s.toml").write_text(text)
    with pytest.raises(StudyError) as caught:
        read_study(tmp_path / "s.toml")
    assert offender in str(caught.value)
    assert cure in str(caught.value)


def test_misspelt_recipe_values_are_suggested() -> None:
    model = ModelConfig(recipe="paper", recipe_changes={"max_step": 5})
    with pytest.raises(ri.RindicesError, match="did you mean 'max_steps'"):
        make_plan(model, 0, "x")
    with pytest.raises(StudyError, match="contrastive has no max_steps"):
        make_plan(ModelConfig(recipe="contrastive", recipe_changes={"max_steps": 5}), 0, "x")


@pytest.mark.parametrize("size", [(80, 100), (150, 200), (492, 900)])
def test_no_pattern_where_there_is_none(size: tuple[int, int], tmp_path: Path) -> None:
    """Members that share people agree even on noise; the evidence of disjoint halves does not."""
    nothing = replace(TASKS["null"], n_controls=size[0], n_patients=size[1])
    for seed in range(2):
        cohort = ri.simulate_cohort(nothing, seed).cohort
        with pytest.raises(StudyError, match="no disease pattern found"):
            ri.fit(cohort, [1, 2, 3, 5], members=6, recipe="contrastive", seed=seed, runs=tmp_path / str(seed))
    for forced in (1, 3):  # a number that is asked for is tried, and then agreement has its say
        with pytest.raises(StudyError, match="no setting gave a stable result"):
            ri.fit(cohort, forced, members=6, recipe="contrastive", seed=1)
    with pytest.raises(StudyError, match="no setting gave a stable result"):
        ri.fit(cohort, 3, members=5, seed=1, recipe_changes=BRIEF_DEFAULT)


@pytest.mark.parametrize("patterns", [1, 2, 3, 4])
def test_the_consensus_keeps_its_scale(patterns: int) -> None:
    made = ri.simulate_cohort("small", seed=0)
    r = (
        ri.fit(made.cohort, patterns, members=4, recipe="contrastive")
        .apply(made.cohort)
        .filter(regex=r"^r\d+$")
        .to_numpy()
    )
    np.testing.assert_allclose(np.quantile(r[made.cohort.is_patient], 0.98, axis=0), 1.0, atol=1e-6)
    np.testing.assert_allclose(r[made.cohort.is_control].mean(axis=0), 0.0, atol=0.03)


def test_a_failed_study_leaves_no_old_answer(folder: Path, undisturbed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(undisturbed, out)
    options = ["--recipe", "paper", "--max-steps", 20, "--patterns", 2, "--orthogonality", "0.1", "--members", 2]
    done = run("fit", folder / "study.toml", "--out", out, *options)
    assert done.returncode == 1
    assert "0 of 2 members converged" in done.stderr
    assert not (out / "model.safetensors").exists()
    assert not (out / "r_indices.tsv").exists()
    assert json.loads((out / "selection.json").read_text())["chosen"] is None


def test_options_on_top_of_a_study_file(folder: Path) -> None:
    text = STUDY.replace('recipe = "contrastive"', 'recipe = "paper"\nrecipe_changes = { learning_rate = 8e-4 }')
    (folder / "paper.toml").write_text(text)
    merged = merge_options(
        folder / "paper.toml", {"data": {}, "model": {"recipe_changes": {"max_steps": 300_000}}, "run": {}}
    )
    study = make_study(merged)
    assert study.data.volumes == (str(folder / "volumes.csv"),)
    values = resolve_recipe(study.model)[1]
    assert (values["learning_rate"], values["max_steps"], values["min_steps"]) == (8e-4, 300_000, 100_000)
    short = resolve_recipe(study.model.model_copy(update={"recipe_changes": {"max_steps": 20}}))[1]
    assert (short["max_steps"], short["min_steps"]) == (20, 20)


def test_impossible_settings_are_refused_before_training(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    with pytest.raises(StudyError, match="60 patterns need at least 123 patients"):
        ri.fit(cohort, [2, 60], runs=tmp_path)
    with pytest.raises(StudyError, match="2 settings needs at least 2 members"):
        ri.fit(cohort, [2, 3], members=1, runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_interrupted_training_keeps_its_state(folder: Path) -> None:
    out = folder / "stopped"
    options = ["--recipe", "paper", "--patterns", 2, "--orthogonality", "0.1", "--members", 2, "--workers", 1]
    process = subprocess.Popen(
        command("fit", folder / "study.toml", "--out", out, *options), stderr=subprocess.PIPE, text=True
    )
    while not list(out.glob("runs/*.checkpoint")):  # kept every so many steps
        time.sleep(0.05)
    (state,) = out.glob("runs/*.checkpoint")
    last, start = state.stat().st_mtime_ns, time.monotonic()
    process.send_signal(signal.SIGINT)
    message = process.communicate()[1]
    assert process.returncode == 3, message
    assert time.monotonic() - start < 10
    assert state.stat().st_mtime_ns > last


def test_apply_never_overwrites_its_inputs(folder: Path, undisturbed: Path, tmp_path: Path) -> None:
    people = tmp_path / "people.tsv"
    shutil.copy(folder / "participants.tsv", people)
    before = people.read_bytes()
    model, volumes = undisturbed / "model.safetensors", folder / "volumes.csv"
    done = run("apply", model, volumes, "--participants", people, "--out", people)
    assert done.returncode == 2
    assert people.read_bytes() == before
    (tmp_path / "new.json").write_text('{"mine": 1}')
    assert run("apply", model, volumes, "--participants", people, "--out", tmp_path / "new.tsv").returncode == 0
    assert (tmp_path / "new.json").read_text() == '{"mine": 1}'


def test_no_groups(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    with pytest.raises(StudyError, match="no controls or no patients"):
        ri.fit(cohort.take(cohort.is_patient), 2)


def test_score(folder: Path) -> None:
    done = run("fit", folder / "study.toml", "--patterns", 3, "--members", 4, "--out", folder / "three")
    assert done.returncode == 0, done.stderr
    arguments = ["score", str(folder / "three" / "r_indices.tsv"), str(folder / "truth.tsv"), "--json"]
    told = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert told["people"] == 100

    assert told["pattern_c_index"] > 0.8


def test_worker_processes_change_no_byte_of_a_training(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    X = ri.Preprocessing.fit(cohort).transform(cohort)
    model = ModelConfig(recipe="paper", patterns=(2, 3), orthogonality=(0.2,), members=7, recipe_changes=BRIEF)
    plan = make_plan(model, 0, cohort.fingerprint())
    written = []
    for workers in (1, 2, 4):
        store = RunStore(tmp_path / str(workers))
        run_plan(plan, X, cohort.is_patient.astype(np.intp), store, LocalEngine(workers))
        written.append({path.name: path.read_bytes() for path in store.folder.glob("*.safetensors")})
    assert len(written[0]) == 4
    assert written[0] == written[1] == written[2]
