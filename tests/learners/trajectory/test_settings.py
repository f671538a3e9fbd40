"""Tests of the settings of expectation maximisation."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

import rindices as ri
from rindices.learners.trajectory.model import TrajectoryModel
from rindices.learners.trajectory.settings import EMSettings
from tests.cohorts import simulate_few_regions
from tests.learners.trajectory.helpers import fit_people


def test_a_file_gives_back_its_settings() -> None:
    settings = replace(EMSettings(), max_steps=7, max_momentum=0.5)
    written = json.loads(json.dumps(settings.to_dict()))
    assert EMSettings.from_dict(written) == settings
    assert EMSettings.from_dict(written | {"of_a_later_version": 1}) == settings
    assert EMSettings.from_dict({}) == EMSettings()


def test_a_fit_follows_its_settings() -> None:
    rng = np.random.default_rng(0)
    common = np.full((1, 5), 0.2)
    start = TrajectoryModel(
        steps=common[:, :, None] * np.array([-2.0, -1.0, 0.0, 0.0]),
        noise=np.eye(4),
        correlation=np.eye(1),
        common=common,
    )
    people = rng.normal(size=(40, 4)), rng.normal(size=(40, 4)) - [1.0, 0.5, 0.0, 0.0]
    short = EMSettings(max_steps=3, min_step=0.5)
    fit = fit_people("proportional", start, *people, settings=short)
    assert fit.n_iterations == 3
    steps = fit.model.common[0]
    assert steps.min() / steps.mean() > 0.4  # 0.5 before the steps are scaled again
    assert fit_people("proportional", start, *people).n_iterations == 40


def test_the_model_file_keeps_the_settings(tmp_path: Path) -> None:
    cohort = simulate_few_regions("tiny", seed=0).cohort
    model = ri.fit(
        cohort, 1, members=5, workers=1, method_settings={"shape": "proportional"}
    )
    model.save(tmp_path / "model.safetensors")
    method = ri.load(tmp_path / "model.safetensors").card.method
    assert method is not None
    assert method.settings["em"] == EMSettings().to_dict()
