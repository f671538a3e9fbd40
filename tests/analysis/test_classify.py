"""Classification equals a plain loop with scikit-learn."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import (
    GridSearchCV,
    StratifiedKFold,
    StratifiedShuffleSplit,
)
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from rindices.analysis.classify import PARAM_GRID, classify_patients, summarise_auc
from rindices.errors import AnalysisError
from rindices.learners.prepared_people import order_by_values
from rindices.tables.cohort import Cohort
from tests.analysis.helpers import N_PEOPLE, make_two_groups


def test_scores_equal_a_loop_with_scikit_learn() -> None:
    indices, regions = make_two_groups()
    table = classify_patients(indices, regions, repeats=2, seed=3)
    y = (indices["group"] == "patient").to_numpy().astype(int)
    values = (
        regions.set_index("participant_id").loc[indices["participant_id"]].to_numpy()
    )
    order = order_by_values(np.column_stack([y, indices[["r1", "r2"]], values]), 3)
    y = y[order]
    for name, X in (
        ("R-indices", indices[["r1", "r2"]].to_numpy()[order]),
        ("regions", values[order]),
    ):
        rows = table[table["features"] == name].set_index("repeat")
        assert set(rows["n_features"]) == {X.shape[1]}
        for repeat, (train, test) in enumerate(
            StratifiedShuffleSplit(2, test_size=0.2, random_state=3).split(X, y)
        ):
            pipe = Pipeline([("standardscaler", StandardScaler()), ("svc", SVC())])
            inner = StratifiedKFold(5, shuffle=True, random_state=3)
            search = GridSearchCV(
                pipe, [dict(part) for part in PARAM_GRID], scoring="roc_auc", cv=inner
            )
            search.fit(X[train], y[train])
            expected = roc_auc_score(y[test], search.decision_function(X[test]))
            assert rows.loc[repeat, "auc"] == pytest.approx(expected, abs=1e-12)
            assert rows.loc[repeat, "C"] == search.best_params_["svc__C"]


@pytest.mark.slow
def test_scores_do_not_depend_on_the_number_of_workers() -> None:
    indices, regions = make_two_groups()
    one, two = (
        classify_patients(
            indices, regions, repeats=2, grid=PARAM_GRID[:1], workers=workers
        )
        for workers in (1, 2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_summary_has_corrected_intervals() -> None:
    indices, _ = make_two_groups()
    auc = np.random.default_rng(0).uniform(0.7, 0.9, 12)
    table = pd.DataFrame(
        {
            "features": ["R-indices"] * 6 + ["regions"] * 6,
            "repeat": [*range(6)] * 2,
            "auc": auc,
        }
    )
    table["n_features"] = [2] * 6 + [8] * 6
    summary = summarise_auc(table, indices).set_index("features")
    a, b = (
        table.loc[table["features"] == name, "auc"].to_numpy()
        for name in ("R-indices", "regions")
    )
    for name, values in (
        ("R-indices", a),
        ("regions", b),
        ("R-indices minus regions", a - b),
    ):
        row = summary.loc[name]
        half = stats.t.ppf(0.975, 5) * values.std(ddof=1) * np.sqrt(1 / 6 + 0.25)
        expected = [
            values.mean(),
            values.std(ddof=1),
            values.mean() - half,
            values.mean() + half,
        ]
        np.testing.assert_allclose(
            row[["auc", "sd", "low", "high"]].astype(float), expected
        )
    assert summary.loc["regions", ["repeats", "n_controls", "n_patients"]].tolist() == [
        6,
        60,
        60,
    ]
    assert summary["note"].eq("").all()
    few = indices.iloc[:24]
    assert (
        summarise_auc(table, few)["note"]
        .eq("few people: 12 in the smaller group")
        .all()
    )


def test_auc_is_half_without_a_difference() -> None:
    rng = np.random.default_rng(5)
    indices, _ = make_two_groups()
    indices[["r1", "r2"]] = rng.normal(size=(N_PEOPLE, 2))
    assert classify_patients(
        indices, repeats=15, grid=[{"svc__kernel": ["rbf"], "svc__C": [1.0]}]
    )["auc"].mean() == pytest.approx(0.5, abs=0.12)


def test_small_groups_and_missing_values_are_refused() -> None:
    indices, regions = make_two_groups()
    with pytest.raises(
        AnalysisError, match="9 people in the smaller group are too few"
    ):
        classify_patients(
            pd.concat(
                [
                    indices[indices["group"] == "control"],
                    indices[indices["group"] == "patient"].iloc[:9],
                ]
            )
        )
    regions.iloc[3, 2] = np.nan
    with pytest.raises(
        AnalysisError, match="1 people have missing values of the regions"
    ):
        classify_patients(indices, regions, repeats=1)


def test_regions_of_a_cohort_are_adjusted_on_the_training_controls_of_each_split() -> (
    None
):
    """Age decides the regions here, and patients are older: adjusted, nothing
    distinguishes them.
    """
    rng = np.random.default_rng(0)
    indices, _ = make_two_groups()
    is_patient = (indices["group"] == "patient").to_numpy()
    age = rng.uniform(40, 60, N_PEOPLE) + 10 * is_patient
    volumes = pd.DataFrame(
        {
            f"roi{k}": np.exp(8 - 0.005 * age + rng.normal(0, 0.02, N_PEOPLE))
            for k in range(6)
        }
    )
    people = indices[["participant_id", "group"]]
    cohort = Cohort(
        volumes=volumes, people=people, covariates=pd.DataFrame({"age": age})
    )
    shuffled = cohort.take(rng.permutation(N_PEOPLE))
    grid = [{"svc__kernel": ["linear"], "svc__C": [0.1]}]
    adjusted, raw = (
        classify_patients(indices, regions, repeats=8, grid=grid)
        .groupby("features")["auc"]
        .mean()["regions"]
        for regions in (
            shuffled,
            pd.concat([people[["participant_id"]], volumes], axis=1),
        )
    )
    assert raw > 0.8
    assert adjusted < 0.68
