"""Real people with a truth from outside: does a score find who is more severely affected, without having been told?

``python -m benchmarks.outside --data ../shared/data --repeats 20`` measures, for three public tables, the rank
correlation of the scores of left-out patients with a truth that no method sees (but the last one, an upper bound):
- ixi: brain volumes, people of 60 and more as patients, those under 55 as controls; the truth is age among the old;
- fcon1000: cortical thickness, 50 and more against under 40, sites harmonised; the truth is age among the old;
- csf: proteins of the cerebrospinal fluid, impaired people against controls; the truth is tau.
Everything is learnt inside the training folds. "R-index" is the cross-fitted index that `rindices fit` writes, with its
own folds. Results are written to ``results/outside.json`` and ``.md`` after each repeat; what is there is not repeated.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rindices as ri
from benchmarks.suites.patient_methods import METHODS, Scorer
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.measures import encode_measures
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.standardise import CONTROL_MEAN
from rindices.tables.cohort import ID, SITE, Cohort

OUT = Path(__file__).parent / "results" / "outside"
N_FOLDS = 5
SIMPLE = ("mean z", "t-map", "PCA and logistic regression", "ridge")
BOUND = "regression of the truth (upper bound)"
MIN_CONTROLS = 10  # of a site
N_SAMPLES = 200  # of patients, for the standard errors
Figures = dict[str, dict[str, float]]


def read_ixi(data: Path) -> tuple[Cohort, np.ndarray]:
    """Return the people and the truth of each, not a number in controls."""
    people = pd.read_csv(data / "ixi" / "demographics.csv").rename(columns={"Age": "age", "Sex": "sex"})
    people = people[(people["age"] < 55) | (people["age"] >= 60)]
    people = people.assign(group=np.where(people["age"] < 55, "young", "old"))
    options = {"group": "group", "controls": "young", "patients": "old", "covariates": ["sex", "icv"]}
    cohort = ri.read_cohort(data / "ixi" / "volumes.csv", people[["ID", "sex", "group"]], **options, on_missing="drop")
    return cohort, get_truth(cohort, people.set_index("ID")["age"])


def read_fcon1000(data: Path) -> tuple[Cohort, np.ndarray]:
    table = pd.read_csv(data / "fcon1000" / "fcon1000.csv")
    table = table[(table["age"] < 40) | (table["age"] >= 50)]
    young = table["age"] < 40
    large = young.groupby(table["site"]).transform("sum") >= MIN_CONTROLS
    table, age = table[large].assign(group=np.where(young[large], "young", "old")), table.set_index("sub_id")["age"]
    options = {"group": "group", "controls": "young", "patients": "old", "covariates": ["sex"], "site": "site"}
    table = table.drop(columns="age")
    cohort = ri.read_cohort(table, id="sub_id", **options, measure="thickness", on_missing="drop")
    return cohort, get_truth(cohort, age)


def read_csf(data: Path) -> tuple[Cohort, np.ndarray]:
    table = pd.read_csv(data / "csf" / "ad_data.csv").rename(columns={"rownames": "participant_id"})
    truth = table.set_index(table["participant_id"].astype(str))["tau"]
    table = table.drop(columns=["tau", "p_tau", "Ab_42", "age", "Genotype"])
    options = {"group": "Class", "controls": "Control", "patients": "Impaired", "covariates": ["male"]}
    cohort = ri.read_cohort(table, **options, measure="any", missing_codes="none")
    return cohort, get_truth(cohort, truth)


def get_truth(cohort: Cohort, truth: pd.Series) -> np.ndarray:
    truth.index = truth.index.astype(str)
    values = truth.reindex(cohort.people[ID].astype(str)).to_numpy(dtype=float)
    return np.where(cohort.is_patient, values, np.nan)


TABLES: dict[str, Callable[[Path], tuple[Cohort, np.ndarray]]] = {
    "ixi": read_ixi,
    "fcon1000": read_fcon1000,
    "csf": read_csf,
}


def fit_best_region(people: PreparedPeople, seed: int) -> Scorer:
    """Return the region that separates the groups best in the training folds."""
    areas = np.array([roc_auc_score(people.y, column) for column in people.X.T])
    best = int(np.abs(areas - 0.5).argmax())
    sign = 1.0 if areas[best] > 0.5 else -1.0
    return lambda X: sign * (X[:, best] - CONTROL_MEAN)


def measure(cohort: Cohort, truth: np.ndarray, seed: int) -> Figures:
    """Return AUC and rank correlation with the truth of each method, in left-out people."""
    methods = {name: METHODS[name] for name in SIMPLE} | {"best single region": fit_best_region}
    names, patient = (*methods, BOUND), cohort.is_patient
    scores = {name: np.full(len(cohort), np.nan) for name in names}
    sites = cohort.people[SITE].astype(str) if SITE in cohort.people else [""] * len(cohort)
    strata = [f"{group:d} {site}" for group, site in zip(patient, sites, strict=True)]
    for seen, left_out in StratifiedKFold(N_FOLDS, shuffle=True, random_state=seed).split(strata, strata):
        training = cohort.take(seen)
        preprocessing = Preprocessing.fit(training)
        people = PreparedPeople(
            preprocessing.transform(training), training.is_patient.astype(np.intp), None, encode_measures(training)
        )
        X, controls = preprocessing.transform(cohort.take(left_out)), people.X[people.y == 0]
        for name, fit in methods.items():
            score = fit(people, seed)
            scores[name][left_out] = (score(X) - score(controls).mean()) / score(controls).std()
        regression = make_pipeline(StandardScaler(), RidgeCV(np.geomspace(1.0, 1e6, 25)))
        regression.fit(people.X[people.y == 1], truth[seen][people.y == 1])
        scores[BOUND][left_out] = regression.predict(X)
    model = ri.fit(cohort, 1, recipe="mean-difference", seed=seed, workers=1)
    scores = {"R-index": model.indices["r1"].to_numpy(dtype=float)} | scores
    rated = np.isfinite(truth) & np.isfinite(scores["R-index"])
    rng, figures = np.random.default_rng(seed), {}
    samples = rng.choice(np.flatnonzero(rated), (N_SAMPLES, rated.sum()))
    drawn = {
        name: [spearmanr(score[each], truth[each]).statistic for each in samples] for name, score in scores.items()
    }
    for name, score in scores.items():
        figures[name] = {
            "auc": float(roc_auc_score(patient[np.isfinite(score)], score[np.isfinite(score)])),
            "truth": float(spearmanr(score[rated], truth[rated]).statistic),
            "error": float(np.std(np.subtract(drawn["R-index"], drawn[name]))),
        }
    return figures


def measure_published(data: Path) -> dict[str, float]:
    """Return the rank correlation of the five published indices of brain ageing with age among the old of IXI."""
    cohort, truth = read_ixi(data)
    checkpoint = data / "upstream" / "brain_aging_5rindices.saved_model"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        command = ["rindices", "model", "import", str(checkpoint), "--as", checkpoint.stem, "--out", str(path)]
        subprocess.run(command, check=True, capture_output=True)
        model = ri.load(path)
    indices, rated = model.apply(cohort), np.isfinite(truth)
    return {name: float(spearmanr(indices[name][rated], truth[rated]).statistic) for name in model.index_names}


def summarise(results: dict[str, dict[str, Figures]]) -> str:
    lines = [
        "# Real people with a truth from outside",
        "",
        "`python -m benchmarks.outside`: rank correlation of left-out patients' scores with the truth, mean over",
        "repeats of five folds; and how far the R-index is above it, with the error over patients (bootstrap).",
        "",
        "| table | method | repeats | AUC | with the truth | R-index minus this |",
        "|---|---|---|---|---|---|",
    ]
    for table, repeats in results.items():
        if table == "published":
            continue
        own = np.array([figures["R-index"]["truth"] for figures in repeats.values()])
        for name in next(iter(repeats.values())):
            values = pd.DataFrame([figures[name] for figures in repeats.values()])
            mean = values.mean()
            paired = "" if name == "R-index" else f"{own.mean() - mean['truth']:+.3f} ({mean['error']:.3f})"
            lines.append(f"| {table} | {name} | {len(values)} | {mean['auc']:.3f} | {mean['truth']:.3f} | {paired} |")
    if "published" in results:
        values = ", ".join(f"{value:.2f}" for value in results["published"].values())
        lines += ["", f"Published indices of brain ageing (five) on the old of IXI: {values}."]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = OUT.with_suffix(".json")
    results = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    results.setdefault("published", measure_published(options.data))
    for name in options.tables.split(","):
        cohort, truth = TABLES[name](options.data)
        print(name, cohort.n_controls, "controls,", len(cohort) - cohort.n_controls, "patients", flush=True)
        for seed in range(options.repeats):
            if str(seed) not in results.setdefault(name, {}):
                results[name][str(seed)] = measure(cohort, truth, seed)
                path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
                OUT.with_suffix(".md").write_text(summarise(results), "utf-8")


if __name__ == "__main__":
    main()
