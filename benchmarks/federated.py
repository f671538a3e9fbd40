"""Studies across sites: equality with people in memory, rounds and bytes, false positives, effects of sites.

Usage: ``python -m benchmarks.federated [--parts equality,unequal,null,null in memory,missing,harmonise]``

- equality: the README's people (task basic, seed 0, 492 + 900) by `rindices.fit`, in four unequal sites under masks,
  and in eight parquet files, ten members.
- unequal: the same people; one site has no patients, one has 25 people.
- null: share of cohorts without disease (seeds 10000 to 10399, 150 + 200 people) in which blocks differ; null in
  memory: the same by labels of people.
- missing: 10 % of the cells missing (task basic, seeds 900 to 902, five members, three patterns) in memory, where
  missing cells are used as they are, and at the four sites, which draw them; complete in memory for comparison. The
  R-indices are those of patients whom the members behind them have not seen.
- harmonise: cohorts of four sites with site effects (task basic, seeds 960 to 962) across these sites, three patterns
  and two members: without site effects, with nothing done, and with effects estimated from the controls of each site.

Choices (blocks of the tests, limits of steps) were made on seed 0, also of the cohort of the first part, and on seeds
800 and 801. Writes ``results/federated.json`` and ``.md``; parts in the JSON are not run again, delete them there to
repeat them.
"""

import argparse
import json
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import rindices as ri
from benchmarks.federated_masks import make_sites
from rindices.atomic import write_atomically
from rindices.experiments.tasks import TASKS
from rindices.federated.adjustment import ask_for_adjustment, ask_for_tests
from rindices.federated.fit import FederatedResult, FederatedSettings, run_federated_study
from rindices.federated.partitions import connect_partitions
from rindices.federated.rounds import InMemoryTransport, Rounds
from rindices.federated.site import Site
from rindices.federated.subsets import SubsetPlan
from rindices.selection.agreement import pattern_c_index
from rindices.study.config import ModelConfig
from rindices.study.group_tests import run_group_tests
from rindices.study.wrong_cells import check_cells
from rindices.tables.cohort import GROUP, ID, SITE, Cohort
from rindices.tables.table import ColumnRoles
from rindices.tables.validate import TableRequest

RESULTS = Path(__file__).parent / "results" / "federated.json"
MEMBERS = 10
KEEP = partial(check_cells, seed=0, adjust=None, on_outlier="keep")


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
    """Fit the same people in memory, at four sites under masks, and in eight parquet files."""
    cohort, new = (ri.simulate_cohort("basic", seed=seed).cohort for seed in (0, 1))
    labels = np.random.default_rng(0).choice(4, p=[0.4, 0.3, 0.2, 0.1], size=len(cohort))
    named = replace(cohort, people=cohort.people.assign(**{SITE: [f"site-{label}" for label in labels]}))
    cohorts, values = [cohort.take(labels == k) for k in range(4)], dict[str, Any]()
    values["people in the sites"] = [len(each) for each in cohorts]
    options: dict[str, Any] = {"members": MEMBERS, "on_outlier": "keep", "workers": 1}
    for harmonise in (False, True):
        start = time.process_time()
        pooled = ri.fit(named, harmonise="controls" if harmonise else "none", **options)
        seconds = time.process_time() - start
        settings = FederatedSettings(ModelConfig(members=MEMBERS), harmonise=harmonise, masked=True)
        sites, start = make_sites(cohorts, masked=True), time.process_time()
        result = run_federated_study(InMemoryTransport(sites), settings)
        assert result.model is not None
        own = pd.concat([site.tabulate_people(result.model) for site in sites])
        name = f"four sites, {'effects of sites removed' if harmonise else 'effects of sites left'}"
        values[name] = compare(pooled, result.model, own) | describe(result, time.process_time() - start)
        values[name] |= {"processor seconds in memory": round(seconds, 1)}
        if harmonise:
            continue
        indices = [model.apply(new)[model.index_names].to_numpy() for model in (pooled, result.model)]
        values[name]["largest difference of R-indices of new people"] = float(np.abs(indices[0] - indices[1]).max())
        with tempfile.TemporaryDirectory() as folder:
            table = pd.concat([cohort.people, cohort.covariates, cohort.volumes], axis=1)
            for k, rows in enumerate(np.array_split(np.arange(len(table)), 8)):
                table.iloc[rows].to_parquet(Path(folder) / f"part-{k}.parquet")
            request = TableRequest(
                (Path(folder),), None, ColumnRoles(group=GROUP, covariates=tuple(cohort.covariates), site="none")
            )
            with connect_partitions(Path(folder), request, KEEP, workers=2) as transport:
                result = run_federated_study(transport, replace(settings, masked=False))
                assert result.model is not None
                own, whole = transport.tabulate_people(result.model), ri.fit(cohort, **options)
                values["eight partitions"] = compare(whole, result.model, own)
    return values


def compare(pooled: ri.FittedModel, divided: ri.FittedModel, own: pd.DataFrame) -> dict[str, Any]:
    """Return how the model of people whom nobody holds together differs from that of all in memory."""
    assert pooled.indices is not None
    assert pooled.card.finding == divided.card.finding
    names, expected = pooled.index_names, pooled.indices.set_index(ID)
    difference = own.set_index(ID).loc[expected.index, names].to_numpy() - expected[names].to_numpy()
    return {
        "patterns": [model.n_patterns for model in (pooled, divided)],
        "largest difference of patterns": float(np.abs(pooled.patterns - divided.patterns).max()),
        "largest difference of cross-fitted R-indices": float(np.abs(difference).max()),
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


def list_null_cohorts() -> Iterator[tuple[int, Cohort]]:
    """Yield cohorts without disease, with their seeds."""
    task = replace(TASKS["null"], n_controls=150, n_patients=200)
    for seed in range(10_000, 10_400):
        yield seed, ri.simulate_cohort(task, seed=seed).cohort


def describe_null(p_values: list[float]) -> dict[str, Any]:
    found = sum(p <= 0.05 for p in p_values)
    interval = binomtest(found, len(p_values)).proportion_ci(0.99)
    return {"cohorts": len(p_values), "found": found, "99 % interval": [float(each) for each in interval]}


def measure_null() -> dict[str, Any]:
    p_values = []
    for seed, cohort in list_null_cohorts():
        rounds, plan = Rounds(InMemoryTransport([Site("site", cohort)])), SubsetPlan(seed, 2)
        sums, _, _ = ask_for_adjustment(rounds, None, False, lambda counts, plan=plan: plan)
        p_values.append(ask_for_tests(rounds, sums, plan).difference.p)
    return describe_null(p_values)


def measure_null_in_memory() -> dict[str, Any]:
    return describe_null([run_group_tests(cohort, seed, None).difference.p for seed, cohort in list_null_cohorts()])


def measure_missing() -> dict[str, Any]:
    settings = {"patterns": 3, "members": 5}
    scores: dict[str, list[float]] = {"complete in memory": [], "in memory": [], "four sites": []}
    for seed in (900, 901, 902):
        simulated = ri.simulate_cohort("basic", seed=seed)
        cohort, rng = simulated.cohort, np.random.default_rng(seed)
        labels = rng.choice(4, p=[0.4, 0.3, 0.2, 0.1], size=len(cohort))
        lacking = replace(cohort, volumes=cohort.volumes.mask(rng.random(cohort.volumes.shape) < 0.1))
        cohorts = {f"site-{k}": lacking.take(labels == k) for k in range(4)}
        divided = ri.fit_federated(cohorts, seed=seed, **settings)
        by_site = pd.concat([Site(name, each).tabulate_people(divided) for name, each in cohorts.items()])
        tables = {"four sites": by_site.set_index(ID).loc[cohort.people[ID]]}
        for name, each in (("complete in memory", cohort), ("in memory", lacking)):
            tables[name] = ri.fit(each, seed=seed, on_outlier="keep", **settings).indices
        for name, table in tables.items():
            indices = table[["r1", "r2", "r3"]].to_numpy()[cohort.is_patient]
            scores[name].append(pattern_c_index(simulated.truth, indices).mean)
    return {"seeds": [900, 901, 902], **{f"pattern-c-index, {name}": values for name, values in scores.items()}}


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
            model = ModelConfig(patterns=(3,), members=2, method_settings={"shape": "straight"})
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
    "null in memory": measure_null_in_memory,
    "missing": measure_missing,
    "harmonise": measure_harmonise,
}


def format_page(results: dict[str, Any]) -> str:
    """Return the results as markdown."""
    lines = ["# Studies across sites", "", "Written by `python -m benchmarks.federated`.", ""]
    for part in ("equality", "unequal", "null", "null in memory", "missing"):
        if part in results:
            lines += [f"## {part.capitalize()}", "", "| figure | value |", "|---|---|"]
            lines += [f"| {name} | {_format_value(value)} |" for name, value in results[part].items()]
            lines.append("")
    if "harmonise" in results:
        names = ("seed", "no site effects", "nothing done", "harmonised")
        lines += ["## Site effects (pattern-c-index, four sites)", "", f"| {' | '.join(names)} |", "|---|---|---|---|"]
        for row in results["harmonise"]:
            lines.append(f"| {row['seed']} | " + " | ".join(f"{row[name]:.4f}" for name in names[1:]) + " |")
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
        if part not in results:
            results[part] = PARTS[part]()
            write_atomically(RESULTS, (json.dumps(results, indent=1) + "\n").encode())
            write_atomically(RESULTS.with_suffix(".md"), (format_page(results) + "\n").encode())
            print(part, results[part])


if __name__ == "__main__":
    main()
