"""Classification equals scikit-learn called directly, in a plain loop."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import GridSearchCV, StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC
from typer.testing import CliRunner

import rindices as ri
from rindices.analysis.classify import PARAM_GRID, classify_patients, summarise_auc
from rindices.cli.main import app
from rindices.errors import AnalysisError
from rindices.experiments.simulate import write_cohort

N = 120


def make(seed: int = 0) -> tuple[pd.DataFrame, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    ids = [f"p{k:03d}" for k in range(N)]
    ill = np.arange(N) % 2 == 1
    indices = pd.DataFrame({"participant_id": ids, "group": np.where(ill, "patient", "control")})
    indices["r1"] = rng.normal(0, 0.3, N) + ill * 0.3
    indices["r2"] = rng.normal(0, 0.3, N)
    regions = pd.DataFrame(rng.normal(3000, 200, (N, 8)) - 250 * (ill[:, None] & (np.arange(8) < 2))).add_prefix("v")
    regions.insert(0, "participant_id", ids)
    return indices, regions.sample(frac=1, random_state=seed)


def test_it_equals_scikit_learn_in_a_loop() -> None:
    indices, regions = make()
    table = classify_patients(indices, regions, repeats=2, seed=3)
    y = (indices["group"] == "patient").to_numpy().astype(int)
    beside = regions.set_index("participant_id").loc[indices["participant_id"]].to_numpy()
    for name, X in (("R-indices", indices[["r1", "r2"]].to_numpy()), ("regions", beside)):
        own = table[table["features"] == name].set_index("repeat")
        assert set(own["n_features"]) == {X.shape[1]}
        for place, (train, test) in enumerate(StratifiedShuffleSplit(2, test_size=0.2, random_state=3).split(X, y)):
            pipe = Pipeline([("standardscaler", StandardScaler()), ("svc", SVC())])
            inner = StratifiedKFold(5, shuffle=True, random_state=3)
            search = GridSearchCV(pipe, [dict(part) for part in PARAM_GRID], scoring="roc_auc", cv=inner)
            search.fit(X[train], y[train])
            expected = roc_auc_score(y[test], search.decision_function(X[test]))
            assert own.loc[place, "auc"] == pytest.approx(expected, abs=1e-12)
            assert own.loc[place, "C"] == search.best_params_["svc__C"]


def test_workers_do_not_matter() -> None:
    indices, regions = make()
    one, two = (
        classify_patients(indices, regions, repeats=2, grid=PARAM_GRID[:1], workers=workers) for workers in (1, 2)
    )
    pd.testing.assert_frame_equal(one, two)


def test_summary_with_corrected_intervals() -> None:
    indices, _ = make()
    auc = np.random.default_rng(0).uniform(0.7, 0.9, 12)
    table = pd.DataFrame({"features": ["R-indices"] * 6 + ["regions"] * 6, "repeat": [*range(6)] * 2, "auc": auc})
    table["n_features"] = [2] * 6 + [8] * 6
    summary = summarise_auc(table, indices).set_index("features")
    a, b = (table.loc[table["features"] == name, "auc"].to_numpy() for name in ("R-indices", "regions"))
    for name, values in (("R-indices", a), ("regions", b), ("R-indices minus regions", a - b)):
        row = summary.loc[name]
        half = stats.t.ppf(0.975, 5) * values.std(ddof=1) * np.sqrt(1 / 6 + 0.25)
        expected = [values.mean(), values.std(ddof=1), values.mean() - half, values.mean() + half]
        np.testing.assert_allclose(row[["auc", "sd", "low", "high"]].astype(float), expected)
    assert summary.loc["regions", ["repeats", "n_controls", "n_patients"]].tolist() == [6, 60, 60]
    assert summary["note"].eq("").all()
    few = indices.iloc[:24]
    assert summarise_auc(table, few)["note"].eq("few people: 12 in the smaller group").all()


def test_nothing_to_find_is_half() -> None:
    rng = np.random.default_rng(5)
    indices, _ = make()
    indices[["r1", "r2"]] = rng.normal(size=(N, 2))
    assert classify_patients(indices, repeats=15, grid=[{"svc__kernel": ["rbf"], "svc__C": [1.0]}])[
        "auc"
    ].mean() == pytest.approx(0.5, abs=0.12)


def test_what_cannot_be_classified() -> None:
    indices, regions = make()
    with pytest.raises(AnalysisError, match="9 people in the smaller group are too few"):
        classify_patients(
            pd.concat([indices[indices["group"] == "control"], indices[indices["group"] == "patient"].iloc[:9]])
        )
    regions.iloc[3, 2] = np.nan
    with pytest.raises(AnalysisError, match="1 people lack a value of the regions"):
        classify_patients(indices, regions, repeats=1)


def test_command(tmp_path: Path) -> None:
    made = ri.simulate_cohort("tiny", 0)
    write_cohort(made, tmp_path)
    indices = made.cohort.people[["participant_id"]].assign(r1=made.cohort.volumes["MUSE_47"] / 1e3)
    indices.to_csv(tmp_path / "r.tsv", sep="\t", index=False)
    arguments = ["classify", str(tmp_path / "r.tsv"), str(tmp_path / "volumes.csv"), "--repeats", "2", "--workers", "1"]
    arguments += ["--participants", str(tmp_path / "participants.tsv"), "--group", "group"]
    done = CliRunner().invoke(app, [*arguments, "--out", str(tmp_path / "out"), "--json"])
    assert done.exit_code == 0, done.output
    rows = {row["features"]: row for row in json.loads(done.stdout)["results"]}
    assert rows["R-indices"]["n_features"] == 1
    assert rows["regions"]["n_features"] == 139
    assert rows["R-indices minus regions"]["n_features"] is None
    written = pd.read_csv(tmp_path / "out/classification.tsv", sep="\t")
    assert rows["regions"]["auc"] == pytest.approx(written.loc[written["features"] == "regions", "auc"].mean())
