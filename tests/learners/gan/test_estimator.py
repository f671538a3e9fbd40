"""SurrealGAN: options, labels, what was learnt, and trainings that go on."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold

from rindices.errors import InputError, ModelError
from rindices.learners.ensemble import TrainingOutcome
from rindices.learners.gan import estimator
from rindices.learners.gan.callbacks import Callback, TrainingEvent
from rindices.learners.gan.estimator import SurrealGAN, recode_labels
from rindices.learners.gan.recipe import LOSS_NAMES, SURREAL_GAN
from tests.learners.helpers import BRIEF, make_cohort

TUNED = SURREAL_GAN.replace(
    start_steps=30,
    warm_steps=10,
    min_steps=20,
    max_steps=20,
    check_every=10,
    batch_share=4,
)
X, Y, _ = make_cohort(controls=60, patients=80, regions=12)


@pytest.fixture(scope="module")
def model() -> SurrealGAN:
    return SurrealGAN(
        2, random_state=0, members=2, training=TUNED.replace(reconstruction_bar=1e3)
    ).fit(X, Y)


def test_a_cap_below_the_recipes_minimum_is_obeyed_and_nothing_converges() -> None:
    recipe = TUNED.replace(reconstruction_bar=1e3, monotonicity_bar=1e3)
    with pytest.warns(
        ConvergenceWarning,
        match="at most 15 steps, and convergence is judged from 20 on",
    ):
        capped = SurrealGAN(
            2, random_state=0, members=1, training=recipe, max_steps=15
        ).fit(X, Y)
    assert (capped.n_iter_, capped.converged_, capped.met_bars_.tolist()) == (
        15,
        False,
        [True],
    )
    assert capped.members_[0].outcome is TrainingOutcome.STEP_LIMIT


def test_synthesised_patients_are_f_of_controls_in_the_units_of_the_regions(
    model: SurrealGAN,
) -> None:
    controls, z = X[Y == 0], np.random.default_rng(0).random((60, 2))
    made = []
    for position, order in enumerate(model.orders_):
        prepared = 1 + 0.1 * (controls - model.control_mean_) / model.control_scale_
        f = model.make_networks().select([position]).double().f
        own = torch.as_tensor(z[:, np.argsort(order)])
        patients = f(torch.as_tensor(prepared)[None], own[None])[0].detach().numpy()
        made.append(model.control_mean_ + model.control_scale_ * (patients - 1) / 0.1)
        np.testing.assert_allclose(
            model.synthesise(controls, z, member=position), made[-1], rtol=1e-9
        )
    np.testing.assert_allclose(
        model.synthesise(controls, z), np.mean(made, axis=0), rtol=1e-9
    )
    np.testing.assert_array_equal(
        model.synthesise(controls, 0.5),
        model.synthesise(controls, np.full((60, 2), 0.5)),
    )
    changed = model.synthesise(controls, [1.0, 0.0]) - controls
    np.testing.assert_allclose(
        (changed / model.control_scale_).mean(axis=0), model.patterns_[0], atol=1e-5
    )


def test_parts_of_patterns_are_g1_in_the_units_of_the_regions(
    model: SurrealGAN,
) -> None:
    networks, prepared = (
        model.make_networks().double(),
        1 + 0.1 * (X - model.control_mean_) / model.control_scale_,
    )
    parts = networks.g1(torch.as_tensor(prepared).expand(2, -1, -1)).detach().numpy()
    aligned = [each[:, order] for each, order in zip(parts, model.orders_, strict=True)]
    shown = model.decompose(X)
    assert shown.shape == (140, 2, 12)
    np.testing.assert_allclose(
        shown, np.mean(aligned, axis=0) / 0.1 * model.control_scale_, rtol=1e-9
    )
    sums = networks.reconstruct(torch.as_tensor(parts)).sum(dim=2).detach().numpy()
    r = np.mean(
        [each[:, order] for each, order in zip(sums, model.orders_, strict=True)],
        axis=0,
    )
    np.testing.assert_allclose(model.transform(X), r, atol=1e-6)


def test_wrong_severities_and_members_are_refused(model: SurrealGAN) -> None:
    for z, what in (
        (np.zeros(3), "give one number, 2 numbers, or an array of shape (140, 2)"),
        (1.2, "between 0 and 1"),
    ):
        with pytest.raises(InputError, match=re.escape(what)):
            model.synthesise(X, z)
    with pytest.raises(
        InputError, match="member 7 is none of those that are used: give one of 0, 1"
    ):
        model.decompose(X, member=7)


def test_the_history_is_a_table_of_losses(model: SurrealGAN) -> None:
    history = model.history_
    assert list(history.columns) == ["member", "step", *LOSS_NAMES]
    assert history[["member", "step"]].to_numpy().tolist() == [
        [0, 10],
        [0, 20],
        [1, 10],
        [1, 20],
    ]
    assert np.isfinite(history.to_numpy()).all()


def test_networks_are_kept_in_one_file(model: SurrealGAN, tmp_path: Path) -> None:
    path = tmp_path / "networks.safetensors"
    model.save_networks(path)
    again, own = SurrealGAN.load_networks(path), model.make_networks()
    assert again.standardised_d
    assert all(
        torch.equal(weight, own.state_dict()[name])
        for name, weight in again.state_dict().items()
    )
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(ModelError, match="does not hold networks of Surreal-GAN"):
        SurrealGAN.load_networks(path)
    with pytest.raises(ModelError, match="cannot be read: check the path"):
        SurrealGAN.load_networks(tmp_path / "absent")


@pytest.mark.parametrize(
    ("control", "patient", "controls"),
    [
        (-1, 1, None),
        (False, True, None),
        ("CN", "AD", None),
        ("b", "a", "b"),
        (2, 1, 2),
        ("Control", "psychosis", None),
    ],
)
def test_any_two_labels(control: object, patient: object, controls: object) -> None:
    labels = np.where(Y == 0, control, patient)
    np.testing.assert_array_equal(recode_labels(labels, controls), Y)
    np.testing.assert_array_equal(recode_labels(labels.astype(object), controls), Y)


@pytest.mark.parametrize(
    ("labels", "controls", "message"),
    [
        (
            ("a", "b"),
            None,
            "y holds a, b: say which are the controls, for instance controls='a'.",
        ),
        (
            (1, 2),
            None,
            "recode it to 0 for controls and 1 for patients, or give two labels",
        ),
        (
            ("CN", "AD"),
            "HC",
            "controls is 'HC', which is not in y: give one of AD, CN.",
        ),
        (
            ("CN", "AD", "MCI"),
            None,
            "y holds AD, CN, MCI: keep the controls and one group of patients.",
        ),
    ],
)
def test_labels_that_say_nothing_are_refused_in_one_line(
    labels: tuple[object, ...], controls: object, message: str
) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        recode_labels(np.array(labels * 5), controls)


def test_text_labels_give_the_same_result(model: SurrealGAN) -> None:
    again = clone(model).fit(X, np.where(Y == 0, "CN", "AD"))
    np.testing.assert_array_equal(again.transform(X), model.transform(X))


class InterruptAt(Callback):
    def __init__(self, step: int) -> None:
        self.step = step

    def on_check(self, event: TrainingEvent) -> None:
        if event.phase == "training" and event.step >= self.step:
            raise KeyboardInterrupt


def test_an_interrupted_fit_goes_on_from_its_checkpoint(
    model: SurrealGAN, tmp_path: Path
) -> None:
    path = tmp_path / "fit.safetensors"
    with pytest.raises(KeyboardInterrupt):
        clone(model).set_params(checkpoint=path, callbacks=[InterruptAt(10)]).fit(X, Y)
    assert path.exists()
    again = clone(model).set_params(checkpoint=path).fit(X, Y)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    with pytest.raises(
        InputError, match="give a whole number, for instance random_state=0"
    ):
        SurrealGAN(2, checkpoint=path).fit(X, Y)


def test_a_warm_start_goes_on_with_the_members(model: SurrealGAN) -> None:
    longer = pickle.loads(pickle.dumps(model)).set_params(warm_start=True, max_steps=40)
    before = longer.members_
    longer.fit(X, Y)
    assert longer.n_iter_ == 40
    assert longer.history_["step"].tolist() == [10, 20, 30, 40] * 2
    pairs = zip(before, longer.members_, strict=True)
    moved = [
        np.abs(b.training.weights["f.gate"] - a.training.weights["f.gate"]).max()
        for a, b in pairs
    ]
    assert all(0 < each < 0.05 for each in moved)  # another start would be elsewhere
    np.testing.assert_array_equal(
        longer.history_.query("step == 10"), model.history_.query("step == 10")
    )
    with pytest.raises(
        InputError, match="have taken 40 steps already: set max_steps=80 to go on"
    ):
        longer.fit(X, Y)
    with pytest.raises(InputError, match="set warm_start=False to start anew"):
        longer.set_params(members=3, max_steps=80).fit(X, Y)


def test_values_of_the_recipe_are_parameters() -> None:
    model = SurrealGAN(2, training=TUNED).set_params(
        training__learning_rate=1e-3, training__orthogonality=0.4, members=1
    )
    assert model.training == TUNED.replace(learning_rate=1e-3, orthogonality=0.4)
    assert model.get_params()["training__orthogonality"] == 0.4
    assert clone(model).get_params() == model.get_params()
    assert SurrealGAN().get_params()["training__start"] == "linear"
    with pytest.raises(InputError, match="did you mean 'learning_rate'"):
        model.set_params(training__learning_rat=1e-3)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_grid_search_over_the_recipe() -> None:
    grid = {"training__learning_rate": [1e-4, 1e-3]}

    def score(model: SurrealGAN, regions: np.ndarray, labels: np.ndarray) -> float:
        return -float(model.training.learning_rate)

    search = GridSearchCV(
        SurrealGAN(2, 0, 1, training=TUNED), grid, scoring=score, cv=StratifiedKFold(2)
    ).fit(X, Y)
    assert search.best_params_ == {"training__learning_rate": 1e-4}
    assert search.best_estimator_.training.learning_rate == 1e-4


@pytest.mark.parametrize("device", ["cpu:x", "gpu", "cuda", "meta:"])
def test_devices_that_are_not_there_are_refused_in_one_line(device: str) -> None:
    if device == "cuda" and torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    with pytest.raises(InputError, match="give") as caught:
        SurrealGAN(2, members=1, training=BRIEF, device=device).fit(X, Y)
    assert len(str(caught.value).splitlines()) == 1


def test_callbacks_of_another_type_are_refused() -> None:
    with pytest.raises(InputError, match="callbacks has a function"):
        SurrealGAN(2, members=1, training=BRIEF, callbacks=[lambda event: None]).fit(
            X, Y
        )


def test_correlated_learns_a_copula() -> None:
    x, y, _ = make_cohort(controls=60, patients=80, regions=12)
    fixed, learnt = (
        SurrealGAN(
            2, random_state=0, members=1, training=BRIEF, correlated=correlated
        ).fit(x, y)
        for correlated in (False, True)
    )
    assert not np.array_equal(fixed.transform(x), learnt.transform(x))
    np.testing.assert_array_equal(fixed.correlation_, np.eye(2))
    np.testing.assert_allclose(np.diag(learnt.correlation_), 1, atol=1e-6)
    assert learnt.correlation_[0, 1] == learnt.correlation_[1, 0] != 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_lambda_is_the_one_at_which_members_agree_best(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recipe = TUNED.replace(min_steps=400, max_steps=400, f_ratio=1.0, check_every=100)
    short, agreement = recipe.shorten(), {}
    for weight in (0.0, 1e4):
        tried = SurrealGAN(
            2, random_state=0, members=3, training=short, orthogonality=weight
        ).fit(X, Y)
        agreement[weight] = tried.agreement_
    worst, best = sorted(agreement, key=lambda weight: agreement[weight])
    assert agreement[worst] < agreement[best]
    monkeypatch.setattr(estimator, "ORTHOGONALITY_WEIGHTS", (worst, best))
    monkeypatch.setattr(estimator, "SURREAL_GAN", recipe)
    model = SurrealGAN(2, random_state=0, members=3).fit(X, Y)
    assert model.orthogonality_ == best
