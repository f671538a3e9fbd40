"""Age as a restricted cubic spline: its columns, when it is chosen, and the same choice
from sums over parts.
"""

import json
import shutil
import subprocess
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from patsy import dmatrix

import rindices as ri
from rindices.exchange.onnx import export_onnx
from rindices.preprocess import ageing
from rindices.preprocess.residualise import NumericCovariate, bend_numbers
from rindices.study.study import Study
from rindices.sums.adjustment import ask_for_adjustment
from rindices.sums.rounds import Rounds
from rindices.sums.subsets import SubsetPlan
from rindices.tables.cohort import SITE, Cohort
from tests.exchange.test_onnx import assert_equal, list_columns, run_graph
from tests.sums.sites import make_transport, simulate_people, split_cohort

KNOTS = (50.0, 58.0, 66.0, 75.0)


def bend(cohort: Cohort, amount: float) -> Cohort:
    """Return people whose first regions lose more from 60 years on."""
    late = np.maximum(cohort.covariates["age"] - 60, 0).to_numpy(dtype=float)
    volumes = cohort.volumes.to_numpy(dtype=float, copy=True)
    volumes[:, :6] *= np.exp(-amount * late[:, None] ** 2)
    return replace(
        cohort, volumes=pd.DataFrame(volumes, columns=cohort.volumes.columns)
    )


@pytest.fixture(scope="module")
def straight() -> Cohort:
    return simulate_people()


@pytest.fixture(scope="module")
def bent(straight: Cohort) -> Cohort:
    return bend(straight, 0.002)


def test_columns_span_those_of_patsy_and_are_straight_outside() -> None:
    x = np.linspace(50, 75, 60)
    ours = np.column_stack([np.ones(60), x, bend_numbers(x[:, None], KNOTS)])
    theirs = np.asarray(
        dmatrix("cr(x, knots=[58, 66], lower_bound=50, upper_bound=75) - 1", {"x": x})
    )
    assert np.linalg.matrix_rank(np.column_stack([ours, theirs]), tol=1e-6) == 4
    for outside in (np.linspace(20, 50, 9), np.linspace(75, 99, 9)):
        columns = bend_numbers(outside[:, None], KNOTS)
        np.testing.assert_allclose(np.diff(columns, 2, axis=0), 0, atol=1e-9)


def test_the_page_for_a_browser_has_the_same_columns() -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is needed")
    folder = files("rindices.report") / "templates" / "model_page"
    source = (folder / "assess.js").read_text("utf-8")
    start, end = (
        source.index(f"function {name}(") for name in ("bendNumber", "findLevel")
    )
    ages = [30.0, 52.0, 60.5, 70.0, 90.0]
    asked = f"{ages}.map((age) => bendNumber(age, {list(KNOTS)}))"
    program = f"{source[start:end]}\nconsole.log(JSON.stringify({asked}))"
    done = subprocess.run([node, "-e", program], capture_output=True, check=True)
    expected = bend_numbers(np.array(ages)[:, None], KNOTS)
    np.testing.assert_allclose(json.loads(done.stdout), expected, rtol=1e-12)


def test_margin_is_that_of_a_loop_over_held_out_people() -> None:
    rng = np.random.default_rng(0)
    line, added = rng.normal(size=(120, 2)), rng.normal(size=(120, 2))
    values = 0.3 * added @ rng.normal(size=(2, 7)) + rng.normal(size=(120, 7))
    columns = np.column_stack([line, added, values])
    scaled = (columns - columns.mean(axis=0)) / columns.std(axis=0)
    folds, z = np.arange(120) % 5, []
    for fold in range(5):
        seen = scaled[folds != fold] - scaled[folds != fold].mean(axis=0)
        whole = scaled - scaled.mean(axis=0)
        coefficients = np.linalg.lstsq(seen[:, :2], seen[:, 2:], rcond=None)[0]
        learnt = seen[:, 2:] - seen[:, :2] @ coefficients
        everyone = whole[:, 2:] - whole[:, :2] @ coefficients
        slope = np.linalg.lstsq(learnt[:, :2], learnt[:, 2:], rcond=None)[0]
        left = learnt[:, 2:] - learnt[:, :2] @ slope
        covariance = left.T @ left / len(seen)
        metric = 0.7 * covariance + 0.3 * np.trace(covariance) / 7 * np.eye(7)
        held_out = everyone.T @ everyone - learnt.T @ learnt
        direction = np.linalg.inv(metric) @ slope.T
        spread = np.trace(held_out[:2, :2] @ direction.T @ held_out[2:, 2:] @ direction)
        z.append(np.trace(held_out[:2, 2:] @ direction) / np.sqrt(spread / 23))
    margin = ageing.measure_bend(
        ageing.ControlSums.of(columns, [""] * 120),
        [ageing.ControlSums.of(columns[folds != k], [""] * 96) for k in range(5)],
        np.array([False, False, True, True]),
    )
    assert margin == pytest.approx(sum(z) / np.sqrt(5))


def test_straight_ageing_is_adjusted_for_as_before(straight: Cohort) -> None:
    chosen, linear = (
        ri.Preprocessing.fit(straight, age_knots=knots) for knots in (None, ())
    )
    for name, array in linear.to_arrays().items():
        np.testing.assert_array_equal(chosen.to_arrays()[name], array)
    assert "knots" not in str(chosen.to_dict())


def test_bent_ageing_gets_a_curve_in_any_order_of_people(bent: Cohort) -> None:
    def get_knots(cohort: Cohort) -> tuple[float, ...]:
        (age, *_) = ri.Preprocessing.fit(cohort).residualiser.codings
        assert isinstance(age, NumericCovariate)
        return age.knots

    ages = bent.covariates["age"][bent.is_control]
    expected = ageing.place_knots(ages.mean(), ages.std(ddof=0))
    assert get_knots(bent) == expected
    order = np.random.default_rng(0).permutation(len(bent))
    assert get_knots(bent.take(order)) == expected


def test_a_curve_removes_what_a_line_leaves(bent: Cohort) -> None:
    age = bent.covariates["age"].to_numpy()
    controls = bent.is_control
    left = []
    for knots in ((), None):
        X = ri.Preprocessing.fit(bent, age_knots=knots).transform(bent)[controls]
        late = (age[controls] - age[controls].mean()) ** 2
        left.append(abs(np.corrcoef(late, X[:, :6].mean(axis=1))[0, 1]))
    assert left[0] > 0.3
    assert left[1] < 0.1


@pytest.mark.parametrize("by_site", [False, True])
@pytest.mark.parametrize("is_bent", [False, True])
def test_parts_choose_and_adjust_as_memory_does(
    straight: Cohort, bent: Cohort, by_site: bool, is_bent: bool
) -> None:
    parts = split_cohort(bent if is_bent else straight, 3)
    cohorts = [
        replace(each, people=each.people.assign(**{SITE: name}))
        for name, each in sorted(parts.items())
    ]
    cohort = join(cohorts)
    plan = SubsetPlan(seed=0, members=5, by_site=by_site)
    sums, _, _ = ask_for_adjustment(
        Rounds(transport=make_transport(parts)),
        None,
        by_site,
        lambda _: plan,
        with_curve=True,
    )
    model = {"method": "contrastive", "members": 5}
    harmonise = "controls" if by_site else "none"
    study = Study(
        cohort if by_site else drop_site(cohort), make_config(model, harmonise)
    )
    divided = sums.fit_preprocessing()
    assert bool(study.age_knots) is is_bent
    (age, *_) = divided.residualiser.codings
    assert isinstance(age, NumericCovariate)
    assert age.knots == study.age_knots
    np.testing.assert_allclose(
        divided.transform(cohort), study.preprocessing.transform(cohort), atol=1e-7
    )


def join(cohorts: list[Cohort]) -> Cohort:
    frames = {
        name: pd.concat([getattr(each, name) for each in cohorts], ignore_index=True)
        for name in ("volumes", "people", "covariates")
    }
    return replace(cohorts[0], **frames)


def drop_site(cohort: Cohort) -> Cohort:
    return replace(cohort, people=cohort.people.drop(columns=SITE))


def make_config(model: dict[str, Any], harmonise: str) -> Any:
    from rindices.study.config import make_study

    data = {"volumes": "table.csv", "harmonise": harmonise, "age_curve": "auto"}
    return make_study({"data": data, "model": model}, "the test")


def test_a_model_with_a_curve_is_saved_and_exported(
    bent: Cohort, tmp_path: Path
) -> None:
    model = ri.fit(
        bent, 2, method="contrastive", members=5, workers=1, age_curve="auto"
    )
    model.save(tmp_path / "model.safetensors")
    read = ri.load(tmp_path / "model.safetensors")
    assert read.preprocessing.to_dict() == model.preprocessing.to_dict()
    assert "knots" in str(model.preprocessing.to_dict())
    people = bent.take(np.arange(20))
    export_onnx(read, tmp_path / "model.onnx")
    outputs = run_graph(tmp_path / "model.onnx", list_columns(people))
    assert_equal(outputs, read.assess_chunk(people).table, 2)


def test_the_line_is_the_default(bent: Cohort) -> None:
    model = ri.fit(bent, 1, method="mean-difference", workers=1)
    assert "knots" not in str(model.preprocessing.to_dict())


def test_healthy_people_who_are_older_are_not_called_changed() -> None:
    rng = np.random.default_rng(3)
    age = np.concatenate([rng.normal(55, 8, 300), rng.normal(65, 8, 300)])
    late = np.maximum(age - 58, 0) ** 1.5
    values = 1000 * np.exp(0.08 * rng.normal(size=(600, 12)))
    values[:, :6] *= np.exp(-0.006 * late[:, None])
    group = np.repeat(np.array(["control", "patient"], dtype=object), 300)
    ids = [f"p{k}" for k in range(600)]
    cohort = Cohort(
        volumes=pd.DataFrame(values, columns=[f"r{k}" for k in range(12)]),
        people=pd.DataFrame({"participant_id": ids, "group": group}),
        covariates=pd.DataFrame({"age": age}),
    )
    line, curve = (
        ri.Preprocessing.fit(cohort, age_knots=knots).transform(cohort)[300:, :6]
        for knots in ((), None)
    )
    assert line.mean() < 0.97
    assert curve.mean() == pytest.approx(1.0, abs=0.015)
