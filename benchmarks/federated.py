"""Studies across sites: equality with pooled people, rounds and bytes, accuracy, false positives, membership inference.

Usage: ``python -m benchmarks.federated [--parts equality,unequal,accuracy,null,membership,harmonise]``

- equality: the README's people (task basic, seed 0, 492 + 900) in four sites and in one, ten members.
- unequal: the same people; one site has no patients, one has 25 people.
- accuracy: the federated recipe on one site beside the default, on cohorts of seed 900, three members.
- null: share of cohorts without disease (seeds 910 to 929, 150 + 200 people) in which a difference is found.
- membership: somebody who has a person's row, the adjustment and a large sample of the same population tells whether
  the person was in the study, by a ratio of normal likelihoods; with the model file, and with all sums of one of four
  sites. Seeds 940 to 943. Intervals are over people (bootstrap).
- harmonise: cohorts of four sites with site effects (task basic, seeds 960 to 962) across these sites, three patterns
  and two members: without site effects, with nothing done, and with effects estimated from the controls of each site.

Choices (blocks of the tests, limits of steps) were made on seed 0, also of the cohort of the first part, and on seeds
800 and 801. Writes ``results/federated.json`` and ``.md``; parts in the JSON are not run again, delete them there to
repeat them.
"""

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import rankdata

import rindices as ri
from rindices._typing import FloatArray
from rindices.atomic import write_atomically
from rindices.experiments.tasks import TASKS
from rindices.federated.adjustment import ask_for_adjustment, ask_for_tests, ask_for_transform
from rindices.federated.ensemble import ask_for_moments
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.rounds import InMemoryTransport, Rounds
from rindices.federated.site import Site
from rindices.federated.subsets import SubsetPlan
from rindices.learners.normal_variation import shrink_normal_scatter
from rindices.model.unusual import TrainingDistribution
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig
from rindices.tables.cohort import SITE, Cohort

RESULTS = Path(__file__).parent / "results" / "federated.json"
MEMBERS = 10


def run_sites(cohorts: list[Cohort], model: ModelConfig, seed: int = 0) -> tuple[FederatedResult, float]:
    """Fit sites in memory; return the result and the processor seconds of all sites and the centre."""
    start = time.process_time()
    sites = [Site(f"site-{k}", cohort) for k, cohort in enumerate(cohorts)]
    result = run_federated_study(InMemoryTransport(sites), FederatedSettings(model, seed))
    return result, time.process_time() - start


def describe(result: FederatedResult, seconds: float) -> dict[str, Any]:
    return {
        "rounds": len(result.rounds),
        "rounds by kind": dict(Counter(record.kind for record in result.rounds)),
        "MB received by a site": result.received / 1e6,
        "MB sent by a site": result.sent / 1e6,
        "processor seconds": round(seconds, 1),
    }


def measure_equality() -> dict[str, Any]:
    cohort = ri.simulate_cohort("basic", seed=0).cohort
    labels = np.random.default_rng(0).integers(4, size=len(cohort))
    pooled, pooled_seconds = run_sites([cohort], ModelConfig(members=MEMBERS))
    divided, seconds = run_sites([cohort.take(labels == k) for k in range(4)], ModelConfig(members=MEMBERS))
    models = [result.model for result in (pooled, divided)]
    assert models[0] is not None
    assert models[1] is not None
    indices = [model.apply(cohort)[model.index_names].to_numpy() for model in models if model is not None]
    selections = [model.selection for model in models if model is not None]
    likelihoods = [
        np.array([record.held_out.straight for record in each.grid if record.held_out]) for each in selections if each
    ]
    steps = [np.stack([head.steps for head in model.heads]) for model in models if model is not None]
    return {
        "people in the sites": [int((labels == k).sum()) for k in range(4)],
        "patterns": [model.n_patterns for model in models if model is not None],
        "same shape and orders": models[0].orders == models[1].orders,
        "largest difference of patterns": float(np.abs(models[0].patterns - models[1].patterns).max()),
        "largest difference of curves of members": float(np.abs(steps[0] - steps[1]).max()),
        "largest difference of held-out likelihoods": float(np.abs(likelihoods[0] - likelihoods[1]).max()),
        "largest difference of R-indices": float(np.abs(indices[0] - indices[1]).max()),
        "ranks identical": bool((rankdata(indices[0], axis=0) == rankdata(indices[1], axis=0)).all()),
        "pooled": describe(pooled, pooled_seconds),
        "four sites": describe(divided, seconds),
    }


def measure_unequal() -> dict[str, Any]:
    simulated = ri.simulate_cohort("basic", seed=0)
    cohort = simulated.cohort
    controls, patients = np.flatnonzero(cohort.is_control), np.flatnonzero(cohort.is_patient)
    rows = [
        controls[:100],
        np.concatenate([controls[100:112], patients[:13]]),
        np.concatenate([controls[112:300], patients[13:300]]),
        np.concatenate([controls[300:], patients[300:]]),
    ]
    result, seconds = run_sites([cohort.take(each) for each in rows], ModelConfig(members=MEMBERS))
    assert result.model is not None
    indices = result.model.apply(cohort)[result.model.index_names].to_numpy()[cohort.is_patient]
    score = pattern_c_index(simulated.truth, indices).mean if indices.shape[1] >= 3 else float("nan")
    return {"patterns": result.model.n_patterns, "pattern-c-index": score, **describe(result, seconds)}


def measure_accuracy(finished: Sequence[dict[str, Any]] = ()) -> list[dict[str, Any]]:
    rows = list(finished)
    for task in ("basic", "corr05", "staged"):
        for seed in (900,):
            if any((row["task"], row["seed"]) == (task, seed) for row in rows):
                continue
            simulated = ri.simulate_cohort(task, seed=seed)
            cohort = simulated.cohort
            result, _ = run_sites([cohort], ModelConfig(patterns=(3,), members=3), seed)
            default = ri.fit(cohort, 3, members=3, seed=seed, workers=1)
            scores = {}
            for name, model in (("federated", result.model), ("default", default)):
                assert model is not None
                indices = model.apply(cohort)[model.index_names].to_numpy()[cohort.is_patient]
                scores[name] = pattern_c_index(simulated.truth, indices).mean
            rows.append({"task": task, "seed": seed, **scores})
    return rows


def measure_null() -> dict[str, Any]:
    p_values = []
    for seed in range(910, 930):
        task = replace(TASKS["null"], n_controls=150, n_patients=200)
        rounds = Rounds(InMemoryTransport([Site("site", ri.simulate_cohort(task, seed=seed).cohort)]))
        p_values.append(ask_for_tests(rounds, ask_for_adjustment(rounds, None), SubsetPlan(seed, 2)).difference.p)
    return {"cohorts": len(p_values), "found": sum(p <= 0.05 for p in p_values), "p": sorted(p_values)}


def compute_log_density(people: FloatArray, mean: FloatArray, covariance: FloatArray) -> FloatArray:
    """Return the log density (N,) of people (N, R), up to a constant."""
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, (people - mean).T)
    return np.asarray(-0.5 * (white**2).sum(axis=0) - np.log(np.diag(root)).sum())


def compute_auc_interval(inside: FloatArray, outside: FloatArray, rng: np.random.Generator) -> list[float]:
    """Return the AUC of scores of people inside and outside, with a 95 % bootstrap interval."""

    def compute_auc(a: FloatArray, b: FloatArray) -> float:
        ranks = rankdata(np.concatenate([a, b]))[: len(a)].sum()
        return float((ranks - len(a) * (len(a) + 1) / 2) / (len(a) * len(b)))

    draws = [compute_auc(rng.choice(inside, len(inside)), rng.choice(outside, len(outside))) for _ in range(500)]
    return [compute_auc(inside, outside), *np.quantile(draws, [0.025, 0.975]).tolist()]


def measure_membership() -> list[dict[str, Any]]:
    rows = []
    for n_controls, n_patients in ((150, 200), (492, 900)):
        scores: dict[str, list[list[FloatArray]]] = {"model file": [[], []], "sums of a site": [[], []]}
        for seed in range(940, 944):
            task = replace(TASKS["basic"], n_controls=2 * n_controls, n_patients=2 * n_patients)
            everyone = ri.simulate_cohort(task, seed=seed).cohort
            population = replace(TASKS["basic"], n_controls=2000, n_patients=3000)
            reference = ri.simulate_cohort(population, seed=seed + 50).cohort
            rng = np.random.default_rng(seed)
            is_inside = np.zeros(len(everyone), dtype=bool)
            for mask, number in ((everyone.is_control, n_controls), (everyone.is_patient, n_patients)):
                is_inside[rng.permutation(np.flatnonzero(mask))[:number]] = True
            inside, outside = everyone.take(is_inside), everyone.take(~is_inside)
            site_of = rng.integers(4, size=len(inside))
            sites = [Site(f"site-{k}", inside.take(site_of == k), fewest=10) for k in range(4)]
            rounds = Rounds(InMemoryTransport(sites))
            sums = ask_for_adjustment(rounds, None)
            preprocessing = sums.fit_preprocessing()
            prepared, others, sample = (preprocessing.transform(each) for each in (inside, outside, reference))
            usual = TrainingDistribution.fit(sample, range(len(sample)))
            training = sums.estimate_training_distribution(preprocessing)[0]
            for store, people in zip(scores["model file"], (prepared, others), strict=True):
                ratio = compute_log_density(people, training.mean, training.covariance)
                store.append(ratio - compute_log_density(people, usual.mean, usual.covariance))
            prepared_rounds = ask_for_transform(rounds, preprocessing, sums.counts["controls"], SubsetPlan(seed, 2))
            preparation = prepared_rounds.preparation
            single = Rounds(InMemoryTransport(sites[:1]))
            single.ask("describe")
            moments = ask_for_moments(replace(prepared_rounds, rounds=single))
            for group in ("controls", "patients"):
                own = moments["all", group]
                scatter = own.products - own.number * np.outer(own.mean, own.mean)
                covariance = shrink_normal_scatter(scatter, own.number) + 1e-6 * np.eye(len(scatter))
                shifts = preparation.head.prepare(sample[getattr(reference, f"is_{group[:-1]}")])
                site_rows = (site_of == 0) & getattr(inside, f"is_{group[:-1]}")
                outside_rows = getattr(outside, f"is_{group[:-1]}")
                for store, people in zip(
                    scores["sums of a site"], (prepared[site_rows], others[outside_rows]), strict=True
                ):
                    x = preparation.head.prepare(people)
                    ratio = compute_log_density(x, own.mean, covariance)
                    store.append(ratio - compute_log_density(x, shifts.mean(axis=0), np.cov(shifts.T)))
        for name, (members, others_scores) in scores.items():
            auc = compute_auc_interval(np.concatenate(members), np.concatenate(others_scores), np.random.default_rng(0))
            rows.append({"people": f"{n_controls} + {n_patients}", "attacker has": name, "auc": auc})
    return rows


def measure_harmonise() -> list[dict[str, Any]]:
    rows = []
    for seed in (960, 961, 962):
        row: dict[str, Any] = {"seed": seed}
        for name, sites, harmonise in (
            ("no site effects", 0, False),
            ("nothing done", 4, False),
            ("harmonised", 4, True),
        ):
            simulated = ri.simulate_cohort("basic", seed=seed, sites=sites)
            labels = ri.simulate_cohort("basic", seed=seed, sites=4).cohort.people[SITE].to_numpy()
            cohort = simulated.cohort
            parts = [Site(str(label), cohort.take(labels == label)) for label in np.unique(labels)]
            model = ModelConfig(patterns=(3,), members=2, recipe_changes={"shape": "straight"})
            settings = FederatedSettings(model, seed, harmonise=harmonise)
            fitted = run_federated_study(InMemoryTransport(parts), settings).model
            assert fitted is not None
            indices = fitted.apply(cohort)[fitted.index_names].to_numpy()[cohort.is_patient]
            row[name] = pattern_c_index(simulated.truth, indices).mean if indices.shape[1] == 3 else float("nan")
        rows.append(row)
    return rows


PARTS = {
    "equality": measure_equality,
    "unequal": measure_unequal,
    "null": measure_null,
    "membership": measure_membership,
    "accuracy": measure_accuracy,
    "harmonise": measure_harmonise,
}


def format_page(results: dict[str, Any]) -> str:
    """Return the results as markdown."""
    lines = ["# Studies across sites", "", "Written by `python -m benchmarks.federated`.", ""]
    for part in ("equality", "unequal", "null"):
        if part in results:
            lines += [f"## {part.capitalize()}", "", "| figure | value |", "|---|---|"]
            lines += [f"| {name} | {_format_value(value)} |" for name, value in results[part].items()]
            lines.append("")
    if "accuracy" in results:
        lines += ["## Accuracy (pattern-c-index)", "", "| task | seed | federated | default |", "|---|---|---|---|"]
        lines += [
            f"| {row['task']} | {row['seed']} | {row['federated']:.4f} | {row['default']:.4f} |"
            for row in results["accuracy"]
        ]
        lines.append("")
    if "harmonise" in results:
        names = ("seed", "no site effects", "nothing done", "harmonised")
        lines += ["## Site effects (pattern-c-index, four sites)", "", f"| {' | '.join(names)} |", "|---|---|---|---|"]
        for row in results["harmonise"]:
            lines.append(f"| {row['seed']} | " + " | ".join(f"{row[name]:.4f}" for name in names[1:]) + " |")
        lines.append("")
    if "membership" in results:
        lines += ["## Membership inference", "", "| people | attacker has | AUC (95 % interval) |", "|---|---|---|"]
        for row in results["membership"]:
            auc, low, high = row["auc"]
            lines.append(f"| {row['people']} | {row['attacker has']} | {auc:.3f} ({low:.3f} to {high:.3f}) |")
        lines.append("")
    return "\n".join(lines)


def _format_value(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_format_value(item)}" for name, item in value.items())
    if isinstance(value, list):
        return ", ".join(_format_value(item) for item in value)
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parts", default=",".join(PARTS))
    parts = parser.parse_args().parts.split(",")
    results = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    for part in parts:
        if part not in results or part == "accuracy":
            results[part] = measure_accuracy(results.get(part, ())) if part == "accuracy" else PARTS[part]()
            write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())
            write_atomically(RESULTS.with_suffix(".md"), (format_page(results) + "\n").encode())
            print(part, results[part])


if __name__ == "__main__":
    main()
