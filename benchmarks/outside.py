"""Real people with a truth from outside: does a score find who is more severely
affected, without having been told?

``python -m benchmarks.outside --tables csf,ixi --repeats 20`` measures, in patients
whom no method has seen, the rank correlation of their scores with a truth that no
method is told, but for a regression of it, an upper bound where people are many:
- csf: proteins of the cerebrospinal fluid, impaired people against controls; the truth
  is tau;
- ixi: brain volumes, people of 60 and more as patients, those under 55 as controls; the
  truth is age among the old;
- psychosis: thickness and volumes; learnt from first visits, the truth is the score of
  the same scan a year later;
- fcon1000: cortical thickness, 50 and more against under 40, sites harmonised; the
  truth is age among the old.

A repeat deals people to five folds, within group and site. Everything is learnt from
four of them: adjustment, sites, scores, penalties. "R-index" is a whole study
(`rindices.fit`, default method, 10 members) of the same four folds; where it ends with
several indices, their mean is the score. Correlations and AUC are computed within the
fold left out, since scores of different fits need not have one scale, and averaged over
folds. Errors are over patients, by a bootstrap within folds. The correlation in
controls tells whether a score follows what varies among healthy people, too. The
published indices of brain ageing are applied as they are. Their counterpart for
Alzheimer's disease is left out: it adjusts for age, the truth here.

``results/outside.json`` has one entry for each repeat and is written after it, with
``.md`` and ``.png``; repeats that are there are not computed again, and each names the
commit that it was measured at. Seeds are 900 and up. ``--repeats 0`` writes table and
picture again.
"""

import argparse
import json
import subprocess
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from scipy.stats import rankdata
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import rindices as ri
from benchmarks.suites.patient_methods import METHODS, Scorer
from benchmarks.suites.patients import list_patient_tables
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.fitted import FittedModel
from rindices.preprocess.measures import encode_measures
from rindices.preprocess.pipeline import Preprocessing
from rindices.tables.cohort import ID, SITE, Cohort

OUT = Path(__file__).parent / "results" / "outside"
N_FOLDS, FIRST_SEED = 5, 900
OWN, BOUND = "R-index", "regression of the truth"
MIN_CONTROLS = 10  # of a site
N_SAMPLES = 400  # of patients, for the standard errors
TITLES = {
    "csf": "Proteins of the CSF: tau in the impaired",
    "ixi": "Ageing, volumes (IXI): age among the old",
    "psychosis": "Early psychosis: the same patient a year later",
    "fcon1000": "Ageing, thickness (fcon1000): age among the old",
}
Repeat = dict[str, Any]


class OutsideTable(NamedTuple):
    """People with a truth from outside.

    truth: (N,); without it, the truth is the score at the second visit; published:
    scores (N,) of models that others have trained.
    """

    cohort: Cohort
    truth: np.ndarray | None = None
    second_visit: Cohort | None = None
    published: dict[str, np.ndarray] | None = None


def read_ixi(data: Path) -> OutsideTable:
    people = pd.read_csv(data / "ixi" / "demographics.csv").rename(
        columns={"Age": "age", "Sex": "sex"}
    )
    people = people[(people["age"] < 55) | (people["age"] >= 60)]
    people = people.assign(group=np.where(people["age"] < 55, "young", "old"))
    options = {
        "group": "group",
        "controls": "young",
        "patients": "old",
        "covariates": ["sex", "icv"],
    }
    cohort = ri.read_cohort(
        data / "ixi" / "volumes.csv",
        people[["ID", "sex", "group"]],
        **options,
        on_missing="drop",
    )
    indices = import_published(data).apply(cohort)
    published = {
        f"published {name}": indices[name].to_numpy(dtype=float)
        for name in ("r1", "r2", "r3", "r4", "r5")
    }
    return OutsideTable(
        cohort, get_truth(cohort, people.set_index("ID")["age"]), published=published
    )


def read_fcon1000(data: Path) -> OutsideTable:
    table = pd.read_csv(data / "fcon1000" / "fcon1000.csv")
    table = table.drop_duplicates(
        [name for name in table if name.endswith("_thickness")]
    )  # one person under two ids
    table = table[(table["age"] < 40) | (table["age"] >= 50)]
    young = table["age"] < 40
    large = young.groupby(table["site"]).transform("sum") >= MIN_CONTROLS
    table, age = (
        table[large].assign(group=np.where(young[large], "young", "old")),
        table.set_index("sub_id")["age"],
    )
    options = {
        "group": "group",
        "controls": "young",
        "patients": "old",
        "covariates": ["sex"],
        "site": "site",
    }
    table = table.drop(columns="age")
    cohort = ri.read_cohort(
        table, id="sub_id", **options, measure="thickness", on_missing="drop"
    )
    return OutsideTable(cohort, get_truth(cohort, age))


def read_csf(data: Path) -> OutsideTable:
    table = pd.read_csv(data / "csf" / "ad_data.csv").rename(
        columns={"rownames": "participant_id"}
    )
    truth = table.set_index(table["participant_id"].astype(str))["tau"]
    table = table.drop(columns=["tau", "p_tau", "Ab_42", "age", "Genotype"])
    options = {
        "group": "Class",
        "controls": "Control",
        "patients": "Impaired",
        "covariates": ["male"],
    }
    cohort = ri.read_cohort(table, **options, measure="any", missing_codes="none")
    return OutsideTable(cohort, get_truth(cohort, truth))


def get_truth(cohort: Cohort, truth: pd.Series) -> np.ndarray:
    truth.index = truth.index.astype(str)
    return np.asarray(truth.reindex(cohort.people[ID].astype(str)), dtype=float)


def read_psychosis(data: Path) -> OutsideTable:
    table = list_patient_tables(data / "patients")["psychosis"]()
    return OutsideTable(table.cohort, second_visit=table.second_visit)


def import_published(data: Path) -> FittedModel:
    """Return the published model of brain ageing."""
    checkpoint = data / "upstream" / "brain_aging_5rindices.saved_model"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        command = [
            "rindices",
            "model",
            "import",
            str(checkpoint),
            "--as",
            checkpoint.stem,
            "--out",
            str(path),
        ]
        subprocess.run(command, check=True, capture_output=True)
        return ri.load(path)


TABLES: dict[str, Callable[[Path], OutsideTable]] = {
    "csf": read_csf,
    "ixi": read_ixi,
    "psychosis": read_psychosis,
    "fcon1000": read_fcon1000,
}


def fit_best_region(people: PreparedPeople, seed: int) -> Scorer:
    """Return the region that separates the groups best in the training folds."""
    areas = np.array([roc_auc_score(people.y, column) for column in people.X.T])
    best = int(np.abs(areas - 0.5).argmax())
    sign = 1.0 if areas[best] > 0.5 else -1.0
    return lambda X: sign * X[:, best]


def fit_logistic(people: PreparedPeople, seed: int) -> Scorer:
    """Return logistic regression on all regions, with its penalty chosen inside."""
    regression = LogisticRegressionCV(
        Cs=np.geomspace(1e-5, 1e1, 7), cv=5, scoring="roc_auc", max_iter=2000
    )
    model = make_pipeline(StandardScaler(), regression).fit(people.X, people.y)
    return lambda X: np.asarray(model.decision_function(X))


SIMPLE = {
    "mean z": METHODS["mean z"],
    "t-map": METHODS["t-map"],
    "best single region": fit_best_region,
    "ridge": METHODS["ridge"],
    "logistic regression": fit_logistic,
    "PCA and logistic regression": METHODS["PCA and logistic regression"],
}


def fit_study(
    training: Cohort, seed: int
) -> tuple[Callable[[Cohort], np.ndarray], str]:
    """Return a function that scores people by a study of others, and what the study
    ended with.
    """
    model = ri.fit(training, seed=seed, workers=1)
    finding = model.finding
    if finding == "no_difference":
        model = ri.fit(training, 1, method="mean-difference", seed=seed, workers=1)
    return (
        lambda cohort: (
            model.apply(cohort)[list(model.index_names)]
            .to_numpy(dtype=float)
            .mean(axis=1)
        ),
        finding,
    )


def measure(table: OutsideTable, seed: int) -> Repeat:
    """Return AUC and rank correlation with the truth of each method, in left-out
    people.
    """
    start, cohort, patient = time.process_time(), table.cohort, table.cohort.is_patient
    visits = [cohort] if table.second_visit is None else [cohort, table.second_visit]
    names = [OWN, *SIMPLE, *([] if table.truth is None else [BOUND])]
    scores = {name: np.full((len(visits), len(cohort)), np.nan) for name in names}
    scores |= {name: values[None] for name, values in (table.published or {}).items()}
    sites = (
        cohort.people[SITE].astype(str) if SITE in cohort.people else [""] * len(cohort)
    )
    strata = [f"{group:d} {site}" for group, site in zip(patient, sites, strict=True)]
    folds, findings = [], []
    for seen, left_out in StratifiedKFold(
        N_FOLDS, shuffle=True, random_state=seed
    ).split(strata, strata):
        training, folds = cohort.take(seen), [*folds, left_out]
        others = [visit.take(left_out) for visit in visits]
        apply, finding = fit_study(training, seed)
        scores[OWN][:, left_out], findings = (
            [apply(each) for each in others],
            [*findings, finding],
        )
        preprocessing = Preprocessing.fit(training)
        y = training.is_patient.astype(np.intp)
        people = PreparedPeople(
            X=preprocessing.transform(training),
            y=y,
            reference=None,
            kinds=encode_measures(training),
        )
        prepared = [preprocessing.transform(each) for each in others]
        for name, fit in SIMPLE.items():
            score = fit(people, seed)
            scores[name][:, left_out] = [score(X) for X in prepared]
        if table.truth is not None:
            regression = make_pipeline(
                StandardScaler(), RidgeCV(np.geomspace(1.0, 1e6, 25))
            )
            regression.fit(people.X[y == 1], table.truth[seen][y == 1])
            scores[BOUND][:, left_out] = [regression.predict(X) for X in prepared]
    rng = np.random.default_rng(seed)
    patients, controls = (
        [fold[patient[fold] == group] for fold in folds] for group in (True, False)
    )
    drawn = [rng.choice(fold, (N_SAMPLES, len(fold))) for fold in patients]
    found, found_in_controls, samples = {}, {}, {}
    for name, values in scores.items():
        truth = values[-1] if table.truth is None else table.truth
        found[name] = float(
            correlate(values[0], truth, [fold[None] for fold in patients])[0]
        )
        found_in_controls[name] = float(
            correlate(values[0], truth, [fold[None] for fold in controls])[0]
        )
        samples[name] = correlate(values[0], truth, drawn)
    figures = {
        name: {
            "auc": float(
                np.mean(
                    [roc_auc_score(patient[fold], values[0][fold]) for fold in folds]
                )
            ),
            "truth": found[name],
            "truth_in_controls": found_in_controls[name],
            "error": float(samples[name].std()),
            "below_own": found[OWN] - found[name],
            "below_own_error": float((samples[OWN] - samples[name]).std()),
        }
        for name, values in scores.items()
    }
    seconds = round(time.process_time() - start, 1)
    people_counts = {"controls": int(cohort.n_controls), "patients": int(patient.sum())}
    return {
        "seconds": seconds,
        **people_counts,
        "findings": findings,
        "figures": figures,
    }


def correlate(
    score: np.ndarray, truth: np.ndarray, people: list[np.ndarray]
) -> np.ndarray:
    """Return the rank correlation in each sample (rows of the arrays, one array for
    each fold), mean over folds.
    """
    found = []
    for fold in people:
        first, second = (
            rankdata(values[fold], axis=1) - (fold.shape[1] + 1) / 2
            for values in (score, truth)
        )
        found.append(
            (first * second).sum(axis=1)
            / np.sqrt((first**2).sum(axis=1) * (second**2).sum(axis=1))
        )
    return np.asarray(
        np.average(found, axis=0, weights=[fold.shape[1] for fold in people])
    )


def average(repeats: dict[str, Repeat]) -> pd.DataFrame:
    """Return the mean over repeats of the figures of each method; errors are those of a
    single repeat.
    """
    tables = [pd.DataFrame(repeat["figures"]).T for repeat in repeats.values()]
    return sum(tables[1:], tables[0]) / len(tables)


def summarise(results: dict[str, dict[str, Repeat]]) -> str:
    lines = [
        "# Real people with a truth from outside",
        "",
        "`python -m benchmarks.outside`; seeds are fixed.",
        "",
    ]
    for name, repeats in results.items():
        first, findings = (
            next(iter(repeats.values())),
            [each for repeat in repeats.values() for each in repeat["findings"]],
        )
        commits = ", ".join(sorted({repeat["commit"] for repeat in repeats.values()}))
        ended = ", ".join(
            f"{each.replace('_', ' ')} {findings.count(each)}"
            for each in sorted(set(findings))
        )
        lines += [
            f"**{TITLES[name]}.** {first['controls']} controls, {first['patients']} patients; repeats of {N_FOLDS} "
            f"folds: {len(repeats)} (at commit {commits}). What the {len(findings)} studies ended with: {ended}.",
            "",
            "| score | AUC | rank correlation in patients (error) | R-index minus this (error) | in controls |",
            "|---|---|---|---|---|",
        ]
        for score, row in average(repeats).iterrows():
            paired = (
                ""
                if score == OWN
                else f"{row['below_own']:+.3f} ({row['below_own_error']:.3f})"
            )
            found = f"{row['truth']:.3f} ({row['error']:.3f}) | {paired} | {row['truth_in_controls']:.3f}"
            lines.append(f"| {score} | {row['auc']:.3f} | {found} |")
        lines.append("")
    return "\n".join(lines)


def draw(results: dict[str, dict[str, Repeat]]) -> None:
    """Draw the rank correlations, with the error of their difference from
    the R-index.
    """
    tables = {name: average(repeats) for name, repeats in results.items()}
    heights = [len(table) for table in tables.values()]
    figure, axes = plt.subplots(
        len(tables),
        1,
        figsize=(7, 0.24 * sum(heights) + 0.7 * len(tables)),
        squeeze=False,
        height_ratios=heights,
        sharex=True,
        layout="constrained",
    )
    for axis, (name, table) in zip(axes[:, 0], tables.items(), strict=True):
        ordered = table.sort_values("truth")
        for place, (score, row) in enumerate(ordered.iterrows()):
            colour = {OWN: "#d9772b", BOUND: "0.6"}.get(str(score), "#0b5a7a")
            error = 0.0 if score == OWN else row["below_own_error"]
            axis.errorbar(
                row["truth"],
                place,
                xerr=error,
                fmt="o",
                color=colour,
                capsize=0 if score == OWN else 2,
            )
        axis.axvline(
            ordered.loc[OWN, "truth"], color="#d9772b", linewidth=0.8, alpha=0.6
        )
        axis.set_yticks(range(len(ordered)), ordered.index, fontsize=8)
        axis.set_title(TITLES[name], loc="left", fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
    axes[-1, 0].set_xlabel(
        "rank correlation in patients whom no method has seen;\nbar: standard error of the difference from the R-index"
    )
    figure.savefig(OUT.with_suffix(".png"), dpi=120)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tables", default=",".join(TABLES))
    parser.add_argument("--repeats", type=int, default=20)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    path = OUT.with_suffix(".json")
    results = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    for name in options.tables.split(","):
        missing = [
            seed
            for seed in range(FIRST_SEED, FIRST_SEED + options.repeats)
            if str(seed) not in results.get(name, {})
        ]
        table = TABLES[name](options.data) if missing else None
        for seed in missing:
            assert table is not None
            results.setdefault(name, {})[str(seed)] = repeat = {
                "commit": commit,
                **measure(table, seed),
            }
            results = {each: results[each] for each in TABLES if each in results}
            path.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
            print(
                name, seed, repeat["seconds"], "seconds", repeat["findings"], flush=True
            )
            OUT.with_suffix(".md").write_text(summarise(results), "utf-8")
    OUT.with_suffix(".md").write_text(summarise(results), "utf-8")
    draw(results)


if __name__ == "__main__":
    main()
