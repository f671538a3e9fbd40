"""Loss of accuracy by site effects, with and without harmonisation.

Usage: ``python -m benchmarks.harmonise [--cohorts 3]``

Fits of the default method with three patterns and three members on basic cohorts:
without site effects; with site effects and no correction; with the site as a covariate;
with ComBat estimated on controls, as ``fit`` does it. All R-indices are cross-fitted.
Then new people of a site unseen in training, by k of its controls. Writes
``results/harmonise.json`` and ``.md``; finished cohorts are not computed again.
"""

import argparse
import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import rindices as ri
from rindices.selection.agreement import pattern_c_index
from rindices.tables.cohort import SITE, Cohort

OUT = Path(__file__).parent / "results" / "harmonise.json"
SITES = (2, 8)
METHODS = ("nothing done", "site as a covariate", "ComBat")
CONTROL_COUNTS = (10, 20, 40)
PATTERNS, MEMBERS = 3, 3


def fit(cohort: Cohort, seed: int, harmonise: str = "controls") -> ri.FittedModel:
    return ri.fit(
        cohort, PATTERNS, members=MEMBERS, seed=seed, workers=1, harmonise=harmonise
    )


def score_cohort(method: str, sites: int, seed: int) -> float | None:
    """Return the pattern-c-index of a cohort of several sites; None where no patterns
    were found.
    """
    simulated = ri.simulate_cohort("basic", seed=seed, sites=sites)
    cohort = simulated.cohort
    if method == "site as a covariate":
        cohort = replace(
            cohort, covariates=cohort.covariates.assign(scanner=cohort.people[SITE])
        )
    model = fit(cohort, seed, "controls" if method == "ComBat" else "none")
    if model.n_patterns < PATTERNS or model.indices is None:
        return None
    return float(
        pattern_c_index(
            simulated.truth, model.indices[model.index_names][cohort.is_patient]
        ).mean
    )


def score_unseen_site(seed: int) -> dict[str, float]:
    """Return the pattern-c-index of the patients of one site: in training, then unseen
    with k controls.
    """
    simulated = ri.simulate_cohort("basic", seed=seed, sites=4)
    cohort = simulated.cohort
    is_new = (cohort.people[SITE] == "site4").to_numpy()
    truth = simulated.truth[is_new[cohort.is_patient]]
    patients, controls = (
        cohort.take(is_new & cohort.is_patient),
        np.flatnonzero(is_new & cohort.is_control),
    )
    whole, others = fit(cohort, seed), fit(cohort.take(~is_new), seed)
    models = {"its people in training": whole}
    models |= {
        f"{k} of its controls": others.with_sites(cohort.take(controls[:k]))
        for k in CONTROL_COUNTS
    }
    return {
        name: float(
            pattern_c_index(truth, model.apply(patients)[model.index_names]).mean
        )
        for name, model in models.items()
    }


def format_tables(rows: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    seeds = list(rows)
    lines = [
        "| sites | no site effects | " + " | ".join(METHODS) + " |",
        "|---" * (len(METHODS) + 2) + "|",
    ]
    for sites in SITES:
        cells = []
        for method in METHODS:
            pairs = [
                (rows[seed][f"{method}, {sites}"], rows[seed]["none"]) for seed in seeds
            ]
            lost = np.array(
                [value - before for value, before in pairs if value is not None]
            )
            cells.append(
                f"{lost.mean():+.4f} ({lost.min():+.4f} to {lost.max():+.4f})"
                if len(lost)
                else ""
            )
            if len(lost) < len(pairs):
                cells[-1] += f" no patterns in {len(pairs) - len(lost)}"
        lines.append(
            f"| {sites} | {np.mean([rows[seed]['none'] for seed in seeds]):.3f} | {' | '.join(cells)} |"
        )
    note = f"Pattern-c-index of cross-fitted R-indices on basic, {len(seeds)} cohorts of 492 controls and 900 patients; "
    lines += [
        "",
        note + "after the first column the difference to it, mean and range.",
        "",
    ]
    lines += [
        "| the new site's effect learnt from | pattern-c-index of its patients |",
        "|---|---|",
    ]
    for name in rows[seeds[0]]["unseen"]:
        values = [rows[seed]["unseen"][name] for seed in seeds]
        lines.append(
            f"| {name} | {np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f}) |"
        )
    lines += [
        "",
        "Three sites in training, ComBat on controls; the fourth site's patients are new.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    """Measure and write the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: dict[str, Any] = json.loads(OUT.read_text("utf-8")) if OUT.is_file() else {}
    for seed in range(options.cohorts):
        if str(seed) not in rows:
            row: dict[str, Any] = {
                "none": score_cohort("nothing done", 0, seed),
                "unseen": score_unseen_site(seed),
            }
            row |= {
                f"{method}, {n}": score_cohort(method, n, seed)
                for n in SITES
                for method in METHODS
            }
            rows[str(seed)] = row
            OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_tables(rows), "utf-8")
    print(format_tables(rows))


if __name__ == "__main__":
    main()
