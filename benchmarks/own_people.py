"""R-indices of the study's own people: are they as honest, as accurate and on the same
scale as those of new people?

``python -m benchmarks.own_people --parts null,patients,accuracy,scale,association
--data ../shared/data`` measures
- null: labels exchanged at random in healthy people (IXI), method mean-difference: AUC
  of the written R-indices;
- patients: AUC of the written R-indices beside nested cross-validation (suite
  patients), over seeds;
- accuracy: pattern-c-index of the written R-indices beside those of all members, and
  coverage of their intervals;
- scale: centiles of 2,000 new simulated controls among the study's own controls;
- association: false positives of a random variable, and of the group plus noise, among
  patients.
Results are written to ``results/own_people.json`` and ``.md`` after each study; a part
that is there is not repeated.
"""

import argparse
import json
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom
from sklearn.metrics import roc_auc_score

import rindices as ri
from benchmarks.suites.patient_suite import PatientTrial
from benchmarks.suites.patients import list_patient_tables
from rindices.analysis.associate import associate_indices
from rindices.experiments.tasks import TASKS
from rindices.selection.agreement import pattern_c_index

OUT = Path(__file__).parent / "results" / "own_people"
PAPER = ("basic", "overlap", "scarce", "noise", "mild")
N_NULL = {12: 200, 30: 200, 67: 200}
TABLES = ("psychosis", "autism", "schizophrenia")
Row = dict[str, object]
Studies = Iterator[tuple[str, Callable[[], Row]]]


def exchange_labels(
    data: Path, n_controls: int, seed: int, n_patients: int = 98
) -> ri.Cohort:
    """Return healthy people with labels drawn at random; both sexes are among the
    controls.
    """
    folder = data / "ixi"
    covariates = ["Age", "Sex", "icv"]
    everyone = ri.read_cohort(
        folder / "volumes.csv", folder / "demographics.csv", covariates=covariates
    )
    rng = np.random.default_rng([seed, n_controls])
    cohort = everyone.take(
        np.sort(rng.choice(len(everyone), n_controls + n_patients, replace=False))
    )
    groups = np.repeat(["control", "patient"], [n_controls, n_patients])
    sexes = cohort.covariates["Sex"].to_numpy()
    while len(set(sexes[(groups := rng.permutation(groups)) == "control"])) < 2:
        pass
    return replace(cohort, people=cohort.people.assign(group=groups))


def measure_null(data: Path, draws: dict[int, int]) -> Studies:
    for n_controls, number in draws.items():
        for seed in range(number):

            def run(n_controls: int = n_controls, seed: int = seed) -> Row:
                cohort = exchange_labels(data, n_controls, seed)
                model = ri.fit(cohort, 1, method="mean-difference", workers=1)
                own = (
                    model.indices["r1"].notna().to_numpy()
                )  # some may have no member that has not seen them
                auc = float(
                    roc_auc_score(cohort.is_patient[own], model.indices["r1"][own])
                )
                in_sample = float(
                    roc_auc_score(cohort.is_patient, model.apply(cohort)["r1"])
                )
                stated = model.selection.patterns[0].auc
                return {
                    "controls": n_controls,
                    "written": auc,
                    "stated": stated,
                    "in_sample": in_sample,
                    "without": int((~own).sum()),
                }

            yield f"null {n_controls} {seed}", run


def measure_patients(data: Path, seeds: int) -> Studies:
    for name in TABLES:
        for seed in range(seeds):

            def run(name: str = name, seed: int = seed) -> Row:
                table = list_patient_tables(data / "patients")[name]()
                model = ri.fit(
                    table.cohort, 1, method="mean-difference", seed=seed, workers=1
                )
                written = float(
                    roc_auc_score(table.cohort.is_patient, model.indices["r1"])
                )
                nested = (
                    PatientTrial(name, seed, (data / "patients").absolute())
                    .measure()
                    .figures["default"]["auc"]
                )
                in_sample = float(
                    roc_auc_score(
                        table.cohort.is_patient, model.apply(table.cohort)["r1"]
                    )
                )
                return {
                    "table": name,
                    "written": written,
                    "nested": nested,
                    "in_sample": in_sample,
                }

            yield f"patients {name} {seed}", run


def measure_accuracy(
    tasks: list[str], cohorts: int, sizes: list[tuple[int, int]]
) -> Studies:
    for controls, patients in sizes:
        for task in tasks:
            for seed in range(900, 900 + cohorts):

                def run(
                    task: str = task,
                    seed: int = seed,
                    size: tuple[int, int] = (controls, patients),
                ) -> Row:
                    kind = replace(TASKS[task], n_controls=size[0], n_patients=size[1])
                    simulated = ri.simulate_cohort(kind, seed=seed)
                    cohort, truth = simulated.cohort, simulated.truth
                    model = ri.fit(cohort, truth.shape[1], workers=1)
                    if (
                        model.n_patterns < truth.shape[1]
                    ):  # one index, because the patterns were not stable
                        return {"task": task, "people": list(size)}
                    tables = {
                        "written": model.indices,
                        "all_members": model.apply(cohort),
                    }
                    scores = {
                        name: score(table[cohort.is_patient], truth)
                        for name, table in tables.items()
                    }
                    own = model.indices[cohort.is_patient]
                    behind = float(own["members_behind"].mean())
                    return {
                        "task": task,
                        "people": list(size),
                        **scores,
                        "coverage": cover(own, truth),
                        "behind": behind,
                    }

                yield f"accuracy {task} {controls} {seed}", run


def measure_members(tasks: list[str], cohorts: int) -> Studies:
    """Compare 10 and 20 members, also on 900 new patients, whom no member has seen."""
    for task in tasks:
        for seed in range(900, 900 + cohorts):
            for members in (10, 20):

                def run(
                    task: str = task, seed: int = seed, members: int = members
                ) -> Row:
                    made, new = (
                        ri.simulate_cohort(TASKS[task], seed=each)
                        for each in (seed, seed + 1000)
                    )
                    model = ri.fit(
                        made.cohort, made.truth.shape[1], members=members, workers=1
                    )
                    row: Row = {"task": task, "members": members, "seed": seed}
                    if model.n_patterns < made.truth.shape[1]:
                        return row
                    people, others = (
                        made.cohort.is_patient,
                        new.cohort.take(new.cohort.is_patient),
                    )
                    scores = {
                        "written": model.indices[people],
                        "all_members": model.apply(made.cohort)[people],
                    }
                    row |= {
                        name: score(table, made.truth) for name, table in scores.items()
                    }
                    return row | {"new": score(model.apply(others), new.truth)}

                yield f"members {task} {members} {seed}", run


def score(table: pd.DataFrame, truth: np.ndarray) -> float:
    return float(
        pattern_c_index(
            truth, table[[f"r{k + 1}" for k in range(truth.shape[1])]].to_numpy()
        ).mean
    )


def cover(table: pd.DataFrame, truth: np.ndarray) -> float:
    """Return the share of intervals that hold the true severity, on the scale of the
    R-indices.
    """
    names = [f"r{k + 1}" for k in range(truth.shape[1])]
    r, low, high = (
        table[[name + end for name in names]].to_numpy()
        for end in ("", "_low", "_high")
    )
    shares = []
    for k, j in enumerate(pattern_c_index(truth, r).matching):
        true = np.quantile(r[:, j], (truth[:, k].argsort().argsort() + 0.5) / len(r))
        shares.append(((low[:, j] <= true) & (true <= high[:, j])).mean())
    return float(np.mean(shares))


def measure_scale(sizes: list[tuple[int, int]], studies: int) -> Studies:
    """Place new controls among each study's own controls, in steps of 1 / 200.

    The controls of one study are a sample: among 150 of them, the centiles of new
    people differ from uniform by about 0.1 without any fault. So the centiles of many
    studies are taken together.
    """
    for size in sizes:
        for seed in range(920, 920 + studies):

            def run(size: tuple[int, int] = size, seed: int = seed) -> Row:
                kind = replace(TASKS["basic"], n_controls=size[0], n_patients=size[1])
                cohort = ri.simulate_cohort(kind, seed=seed).cohort
                model = ri.fit(cohort, 3, workers=1)
                healthy = replace(TASKS["basic"], n_controls=2000, n_patients=10)
                new = ri.simulate_cohort(healthy, seed=seed + 1000).cohort
                indices, counts = (
                    model.apply(new.take(new.is_control)),
                    np.zeros(200, dtype=int),
                )
                for name in model.index_names:
                    own = np.sort(
                        model.indices[name][cohort.is_control].dropna().to_numpy()
                    )
                    below, upto = (
                        np.searchsorted(own, indices[name], side=side)
                        for side in ("left", "right")
                    )
                    centiles = (0.5 * (below + upto) + 0.5) / (len(own) + 1)
                    counts += np.histogram(centiles, 200, (0.0, 1.0))[0]
                return {"people": list(size), "counts": counts.tolist()}

            yield f"scale {size[0]} {seed}", run


def compute_deviation(counts: np.ndarray) -> float:
    """Return the largest distance of the distribution (200,) of centiles
    from uniform.
    """
    shares = counts.cumsum() / counts.sum()
    return float(np.abs(shares - np.arange(1, 201) / 200).max())


def measure_association(data: Path, studies: int, variables: int) -> Studies:
    for seed in range(5000, 5000 + studies):

        def run(seed: int = seed) -> Row:
            cohort = exchange_labels(data, 67, seed)
            model = ri.fit(cohort, 1, method="mean-difference", workers=1)
            rng, row = np.random.default_rng(seed), {"draws": variables}
            for name, mean in {
                "random": 0.0 * cohort.is_patient,
                "group": 1.0 * cohort.is_patient,
            }.items():
                noise = pd.DataFrame(
                    rng.normal(size=(len(cohort), variables)) + mean[:, None]
                )
                clinical = noise.add_prefix("v").assign(
                    participant_id=cohort.people["participant_id"].to_numpy()
                )
                row[name] = int(
                    (associate_indices(model.indices, clinical)["p"] < 0.05).sum()
                )
            return row

        yield f"association {seed}", run


def make_table(head: str, rows: list[list[object]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    lines = [
        "| "
        + " | ".join(cell if isinstance(cell, str) else f"{cell}" for cell in row)
        + " |"
        for row in rows
    ]
    return [head, "|---" * (head.count("|") - 1) + "|", *lines, ""]


def summarise(rows: dict[str, Row]) -> str:
    lines = [
        "# R-indices of the study's own people",
        "",
        "`python -m benchmarks.own_people`; seeds are fixed.",
        "",
    ]
    frames = {
        part: pd.DataFrame([row for key, row in rows.items() if key.startswith(part)])
        for part in ("null", "patients", "accuracy", "members", "scale", "association")
    }
    if len(frames["null"]):
        table = []
        for number, own in frames["null"].groupby("controls"):
            mean, half = (
                own["written"].mean(),
                2.576 * own["written"].std() / np.sqrt(len(own)),
            )
            stated, flattered = (
                f"{own[name].mean():.3f}" for name in ("stated", "in_sample")
            )
            table.append(
                [
                    number,
                    len(own),
                    f"{mean:.3f} ({mean - half:.3f} to {mean + half:.3f})",
                    stated,
                    flattered,
                ]
            )
        lines += [
            "Labels exchanged at random (IXI, 98 patients), method mean-difference; AUC, mean and 99 % interval.",
            "",
        ]
        lines += make_table(
            "| controls | draws | written | stated in the report | in-sample |", table
        )
    if len(frames["patients"]):
        names = ("written", "nested", "in_sample")
        groups = frames["patients"].groupby("table", sort=False)
        table = [
            [name, len(own), *(f"{own[each].mean():.3f}" for each in names)]
            for name, own in groups
        ]
        lines += ["Real patients, mean AUC over seeds.", ""]
        lines += make_table(
            "| table | seeds | written | nested cross-validation | in-sample |", table
        )
    if len(frames["accuracy"]):
        frame = frames["accuracy"].assign(
            people=[f"{a} + {b}" for a, b in frames["accuracy"]["people"]]
        )
        frame, table = frame.dropna(subset="written"), []
        for (people, task), own in frame.groupby(["people", "task"], sort=False):
            figures = [
                f"{own[name].mean():.3f}"
                for name in ("written", "all_members", "coverage")
            ]
            table.append(
                [task, people, len(own), *figures, f"{own['behind'].mean():.1f}"]
            )
        lines += [
            "Simulated patients, pattern-c-index, and coverage of the 90 % intervals. Studies whose patterns were not",
            "stable, so that they ended with one index, are left out.",
            "",
        ]
        head = "| task | people | cohorts | written | all members | coverage | members behind |"
        lines += make_table(head, table)
    if len(frames["members"]):
        frame, table = frames["members"].dropna(subset="written"), []
        for (task, members), own in frame.groupby(["task", "members"], sort=False):
            figures = [
                f"{own[name].mean():.3f}" for name in ("written", "all_members", "new")
            ]
            table.append([task, members, len(own), *figures])
        lines += [
            "The two tasks with the largest difference, 492 + 900 people. All members have seen the study's people,",
            "so their figure is in-sample; 900 new patients show what they reach in people whom they have not seen.",
            "",
        ]
        lines += make_table(
            "| task | members | cohorts | written | all members | all members, new people |",
            table,
        )
    if len(frames["scale"]):
        frame, table = (
            frames["scale"].assign(
                people=[f"{a} + {b}" for a, b in frames["scale"]["people"]]
            ),
            [],
        )
        for people, own in frame.groupby("people", sort=False):
            counts = np.array(own["counts"].tolist())
            single = np.mean([compute_deviation(each) for each in counts])
            table.append(
                [
                    people,
                    len(own),
                    f"{compute_deviation(counts.sum(axis=0)):.3f}",
                    f"{single:.3f}",
                ]
            )
        lines += [
            "Centiles of 2,000 new controls among the study's own controls: largest deviation from uniform.",
            "",
        ]
        lines += make_table(
            "| people | studies | all studies together | mean of single studies |",
            table,
        )
    if len(frame := frames["association"]):
        total, lowest, highest = (
            frame["draws"].sum(),
            *binom.ppf((0.005, 0.995), frame["draws"].sum(), 0.05),
        )
        counts = f"random variable {frame['random'].sum()}, group plus noise {frame['group'].sum()}"
        lines.append(
            f"False positives at 5 % among patients, {total} variables in {len(frame)} studies: {counts}"
        )
        lines += [
            f"({lowest:.0f} to {highest:.0f} in 99 % of cases where the level holds).",
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default="null,patients,accuracy,scale,association")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--tasks", default=",".join(PAPER))
    parser.add_argument("--cohorts", type=int, default=3)
    parser.add_argument(
        "--share", default="0/1", help="k/n: every n-th study, beginning with the k-th"
    )
    options = parser.parse_args()
    sizes = [(492, 900), (150, 200)]
    parts: dict[str, Studies] = {
        "null": measure_null(options.data, N_NULL),
        "patients": measure_patients(options.data, 5),
        "accuracy": measure_accuracy(options.tasks.split(","), options.cohorts, sizes),
        "members": measure_members(["hard", "organs"], options.cohorts),
        "scale": measure_scale(sizes, 5),
        "association": measure_association(options.data, 20, 50),
    }
    warnings.simplefilter("ignore")
    path, (first, step) = OUT.with_suffix(".json"), map(int, options.share.split("/"))
    for name in options.parts.split(","):
        for number, (key, run) in enumerate(parts[name]):
            rows = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            if key in rows or number % step != first:
                continue
            row = run()
            rows = json.loads(path.read_text("utf-8")) if path.is_file() else {}
            rows[key] = row
            lines = ",\n".join(
                f"{json.dumps(name)}: {json.dumps(values)}"
                for name, values in rows.items()
            )
            path.write_text(f"{{\n{lines}\n}}\n", "utf-8")  # a study in a line
            OUT.with_suffix(".md").write_text(summarise(rows), "utf-8")
            print(key, row, flush=True)


if __name__ == "__main__":
    main()
