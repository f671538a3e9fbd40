"""Studies from a cohort to a model: resumed runs give equal bytes, and studies may end
without a model.
"""

import json
import os
import random
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil
import pytest

import rindices as ri
from rindices.engine.local import LocalEngine
from rindices.errors import StudyError
from rindices.experiments.tasks import TASKS, make_task_with_patterns
from rindices.learners.trajectory.settings import EMSettings
from rindices.selection.agreement import pattern_c_index
from rindices.study.candidates import TrainedSettings, make_candidate_records
from rindices.study.config import DataConfig, ModelConfig, StudyConfig
from rindices.study.store import RunStore
from rindices.study.study import Study, StudyPeople
from rindices.study.train import CohortTraining
from rindices.tables.cohort import Cohort
from tests.cohorts import simulate_few_regions
from tests.study.helpers import (
    BRIEF,
    BRIEF_START,
    command,
    fit_cohort,
    outputs,
    restore_interrupts,
    run,
    wait_for,
)


def test_a_study_from_its_file(undisturbed: Path) -> None:
    selection = json.loads((undisturbed / "selection.json").read_text())
    assert [g["setting"]["n_patterns"] for g in selection["grid"]] == [1, 2]
    assert selection["chosen"]["members"] == {"trained": 10, "converged": 10}
    table = pd.read_csv(undisturbed / "r_indices.tsv", sep="\t")
    assert list(table.columns[:2]) == ["participant_id", "group"]
    assert len(table) == 180


def killed_and_resumed(folder: Path, out: Path, times: int) -> int:
    """Start, kill all processes at a random moment, start again; return how often it
    was killed before the end.
    """
    chance, kills = random.Random(0), 0
    for _ in range(times):
        process = subprocess.Popen(
            command("fit", folder / "study.toml", "--out", out),
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.5, 7.0))
        if process.poll() is None:
            kills += 1
        os.killpg(process.pid, signal.SIGKILL) if process.poll() is None else None
        process.wait()
    assert run("fit", folder / "study.toml", "--out", out).returncode == 0
    return kills


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rounds", "times"), [(1, 3), (4, 5)]
)  # fresh folders, so that there is something left to kill
def test_killed_at_random_and_resumed(
    long_folder: Path, rounds: int, times: int
) -> None:
    plain = long_folder / f"plain{times}"
    assert run("fit", long_folder / "study.toml", "--out", plain).returncode == 0
    kills = 0
    for round_ in range(
        rounds
    ):  # fresh folders, so that there is something left to kill
        out = long_folder / f"killed{times}-{round_}"
        kills += killed_and_resumed(long_folder, out, times)
        assert outputs(out) == outputs(plain)
    assert kills > 0


def test_ctrl_c_ends_with_3_and_says_how_to_go_on(
    folder: Path, undisturbed: Path
) -> None:
    """A terminal sends SIGINT to all processes of the group, also to workers that are
    still starting.
    """
    out = folder / "interrupted"
    process = subprocess.Popen(
        command("fit", folder / "study.toml", "--out", out, "--workers", 2),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_interrupts,
        start_new_session=True,
    )
    wait_for(
        lambda: process.poll() is not None or psutil.Process(process.pid).children()
    )
    os.killpg(process.pid, signal.SIGINT)
    message = process.communicate(timeout=40)[
        1
    ]  # it waited for the jobs that had begun
    assert process.returncode == 3, message
    assert "run the same command again" in message
    assert "Traceback" not in message
    assert not (out / "model.safetensors").exists()
    half = (
        out / "runs" / ".half.safetensors.0123456789abcdef.part.safetensors"
    )  # as a killed process leaves it
    half.touch()
    assert run("fit", folder / "study.toml", "--out", out).returncode == 0
    assert outputs(out) == outputs(undisturbed)
    assert not half.exists()


SURREAL_GAN: dict[str, Any] = {
    "method": "surreal-gan",
    "patterns": (2,),
    "orthogonality": (0.2,),
    "members": 2,
}
RANDOM = {"start": "random", "draw_controls": "people", "instance_noise": 0.0}
BRIEF_RANDOM = BRIEF | RANDOM


@pytest.mark.slow  # tests/study/test_networks.py runs such a study, too
def test_surreal_gan_through_the_store(tmp_path: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    model = ModelConfig(**SURREAL_GAN, method_settings=BRIEF)
    first = fit_cohort(cohort, model, 0, RunStore(tmp_path / "a"), workers=1)
    again = fit_cohort(cohort, model, 0, RunStore(tmp_path / "b"), workers=2)
    assert first.card["method"]["settings"]["max_steps"] == 40
    assert first.heads[0].kind == "surreal"
    np.testing.assert_array_equal(
        first.apply(cohort)[["r1", "r2"]], again.apply(cohort)[["r1", "r2"]]
    )
    assert not list((tmp_path / "a").glob("[!.]*.checkpoint"))


@pytest.mark.slow  # tests/study/test_endings.py chooses by agreement
def test_lambda_is_chosen_by_the_agreement_of_shorter_trainings(tmp_path: Path) -> None:
    cohort, weights = simulate_few_regions("tiny", seed=1).cohort, (0.0, 1e3)

    def fit(
        weights: tuple[float, ...], members: int, steps: int
    ) -> list[tuple[float, int]]:
        changes = BRIEF | {"min_steps": steps, "max_steps": steps}
        model = ModelConfig(
            method="surreal-gan",
            patterns=(2,),
            orthogonality=weights,
            members=members,
            method_settings=changes,
        )
        study = Study(
            cohort, StudyConfig(data=DataConfig(volumes=("memory",)), model=model)
        )
        store = RunStore(tmp_path / f"{weights}{steps}")
        training = CohortTraining(StudyPeople(study, model), store, LocalEngine(1))
        choice = training.choose()
        trained = TrainedSettings(gathered=training.gathered, choice=choice)
        records = make_candidate_records(trained)
        return [
            (record.agreement.concordance, record.members.trained)
            for record in records
            if record.agreement
        ]

    short = [fit((weight,), 5, 20)[0] for weight in weights]
    best = int(np.argmax(short, axis=0)[0])
    tried = fit(weights, 6, 80)
    assert short[0] != short[1]
    assert tried[1 - best] == short[1 - best]
    assert tried[best] == fit((weights[best],), 6, 80)[0]


@pytest.mark.slow
def test_two_workers_change_no_number_of_trajectories(tmp_path: Path) -> None:
    cohort = simulate_few_regions("small", seed=1).cohort
    model = ModelConfig(patterns=(2, 3), members=4)
    models = [
        fit_cohort(cohort, model, 0, RunStore(tmp_path / str(workers)), workers)
        for workers in (1, 2)
    ]
    first, again = (each.apply(cohort)[["r1", "r2", "r3"]] for each in models)
    np.testing.assert_array_equal(first, again)


def test_trajectories_through_the_store(tmp_path: Path) -> None:
    task = replace(make_task_with_patterns(2), n_controls=100, n_patients=150)
    made = simulate_few_regions(task, seed=1)
    first = fit_cohort(
        made.cohort,
        ModelConfig(patterns=(1, 2), members=4),
        0,
        RunStore(tmp_path / "a"),
        workers=1,
    )
    names = ["r1", "r2"]
    r = first.apply(made.cohort)[names].to_numpy()
    assert first.card.to_dict()["method"] == {
        "name": "trajectories",
        "settings": {
            "shape": "auto",
            "start": "auto",
            "em": EMSettings().to_dict(),
        },
    }
    assert first.heads[0].kind == "trajectory"
    assert ((r > 0) & (r < 1)).all()
    assert pattern_c_index(made.truth, r[made.cohort.is_patient]).mean > 0.85
    selection = first.selection
    assert selection is not None
    assert selection.number_of_patterns is not None
    assert selection.number_of_patterns.decided_by == "likelihood"
    best = next(row.held_out for row in selection.grid if row.setting.n_patterns == 2)
    assert best is not None
    assert (best.below_best, best.below_best_se) == (0.0, 0.0)
    assert all(
        row.held_out is not None and (row.held_out.below_best or 0) >= 0
        for row in selection.grid
    )
    first.save(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(
        ri.load(tmp_path / "model.safetensors").apply(made.cohort)[names], r
    )


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            BRIEF_START | {"max_steps": 40},
            r"none of 5 members of surreal-gan converged in 40 steps, so there is no model\. "
            r"Raise the number of steps: --max-steps 3000$",
        ),
        (
            BRIEF | BRIEF_START | {"explosion_bar": 1e-9},
            r"the training of 5 members of surreal-gan diverged, so there is no model\. "
            r"Give method_settings = \{ learning_rate = 0\.0002 \} in a study file, below \[model\]\.$",
        ),
        (
            BRIEF_RANDOM,
            r"no setting of surreal-gan is stable: members do not agree \(.*\), so there is no model\. .* 3000$",
        ),
    ],
)
def test_no_other_method_takes_the_place_of_surreal_gan(
    settings: dict[str, Any], message: str, tmp_path: Path
) -> None:
    cohort = simulate_few_regions("tiny", seed=1).cohort
    model = ModelConfig(**SURREAL_GAN, method_settings=settings)
    with pytest.raises(StudyError, match=message) as caught:
        fit_cohort(cohort, model, 0, RunStore(tmp_path), workers=1)
    assert len(str(caught.value).splitlines()) == 1


def test_the_error_names_an_argument_in_python(tmp_path: Path) -> None:
    cohort, short = (
        simulate_few_regions("tiny", seed=1).cohort,
        BRIEF_START | {"max_steps": 40},
    )
    with pytest.raises(
        StudyError,
        match=r'Raise the number of steps: method_settings=\{"max_steps": 3000\}\.$',
    ):
        ri.fit(
            cohort,
            2,
            method="surreal-gan",
            orthogonality=0.2,
            members=2,
            workers=1,
            method_settings=short,
        )


def test_members_of_surreal_gan_that_fail_at_some_lambdas_fail_in_all(
    tmp_path: Path,
) -> None:
    """Shortened trainings end without bars, and count as converged: the whole ones
    decide.
    """
    model = ModelConfig(
        **SURREAL_GAN | {"orthogonality": (0.2, 0.4)},
        method_settings=BRIEF_START | {"max_steps": 40},
    )
    with pytest.raises(
        StudyError, match="none of 5 members of surreal-gan converged in 40 steps"
    ):
        fit_cohort(
            simulate_few_regions("tiny", seed=1).cohort,
            model,
            0,
            RunStore(tmp_path),
            workers=1,
        )


CONTRASTIVE: dict[str, Any] = {"members": 6, "method": "contrastive", "workers": 1}
SIZES = [(80, 100), (150, 200), (492, 900)]


def simulate_nothing(size: tuple[int, int], seed: int = 1) -> Cohort:
    return simulate_few_regions(
        replace(TASKS["null"], n_controls=size[0], n_patients=size[1]), seed
    ).cohort


@pytest.mark.parametrize(
    "size",
    [SIZES[0], *(pytest.param(size, marks=pytest.mark.slow) for size in SIZES[1:])],
)
def test_no_pattern_where_there_is_none(size: tuple[int, int], tmp_path: Path) -> None:
    """Members that share people agree even on noise; the evidence of disjoint halves
    does not.
    """
    for seed in range(2):
        cohort = simulate_nothing(size, seed)
        model = ri.fit(
            cohort,
            [1, 2, 3, 5],
            members=6,
            method="contrastive",
            seed=seed,
            workers=1,
            runs=tmp_path / str(seed),
        )
        assert (model.finding, model.indices) == ("no_difference", None)
    # a number that is asked for is tried, and then agreement decides
    model = ri.fit(cohort, 2, seed=1, **CONTRASTIVE)
    assert model.finding == "no_difference"
    assert [record.stable for record in model.selection.grid] == [False]


def test_impossible_settings_are_refused_before_training(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    with pytest.raises(StudyError, match="60 patterns need at least 123 patients"):
        ri.fit(cohort, [2, 60], runs=tmp_path)
    with pytest.raises(StudyError, match="2 settings needs at least 2 members"):
        ri.fit(
            cohort,
            [2, 3],
            members=1,
            method="surreal-gan-published",
            orthogonality=0.1,
            runs=tmp_path,
        )
    assert not list(tmp_path.glob("[!.]*"))


@pytest.mark.slow
def test_interrupted_training_keeps_its_state(folder: Path) -> None:
    out = folder / "stopped"
    options = [
        "--method",
        "surreal-gan",
        "--patterns",
        2,
        "--orthogonality",
        "0.1",
        "--members",
        1,
        "--workers",
        1,
    ]
    process = subprocess.Popen(
        command("fit", folder / "study.toml", "--out", out, *options),
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=restore_interrupts,
    )
    wait_for(
        lambda: process.poll() is not None or list(out.glob("runs/[!.]*.checkpoint"))
    )  # kept every so many steps
    (state,) = out.glob("runs/[!.]*.checkpoint")
    last, start = state.stat().st_mtime_ns, time.monotonic()
    time.sleep(0.5)  # so that there are steps that are not kept yet
    process.send_signal(signal.SIGTERM)  # as at the end of a batch job
    message = process.communicate()[1]
    assert process.returncode == 3, message
    assert time.monotonic() - start < 60  # the training would take far longer
    assert state.stat().st_mtime_ns > last


def test_no_groups(tmp_path: Path) -> None:
    cohort = ri.simulate_cohort("tiny", seed=1).cohort
    with pytest.raises(
        StudyError, match="has 100 patients and no controls: add controls"
    ):
        ri.fit(cohort.take(cohort.is_patient), 2)
