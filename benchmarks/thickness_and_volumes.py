"""Thickness and volumes together and alone, on real patients: AUC of held-out people.

Usage: ``python -m benchmarks.thickness_and_volumes [--data ../shared/data/patients]
[--repeats 30] [--table NAME]``. Tables psychosis, schizophrenia and autism (a tenth of
the repeats, at least 3). The index is that of a study that ends with a mean difference:
ten members, each on four fifths of the training people. Five folds, repeated with other
random splits. Adjustment, standardisation, shrinkage and the weights of both kinds are
learnt inside the training folds. Writes ``results/thickness_and_volumes.json`` and
``.md``; tables that are not named keep their earlier results.
"""

import argparse
import json
import subprocess
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold

from benchmarks.suites.patient_methods import fit_default
from benchmarks.suites.patients import (
    read_autism_measures,
    read_psychosis_visits,
    read_schizophrenia_cohort,
)
from rindices.learners.prepared_people import PreparedPeople
from rindices.preprocess.measures import encode_measures, find_thickness
from rindices.preprocess.pipeline import Preprocessing
from rindices.preprocess.residualise import derive_codings, find_head_size_columns
from rindices.tables.cohort import SITE, Cohort

OUT = Path(__file__).parent / "results" / "thickness_and_volumes.json"
FOLDS, BOOTSTRAPS = 5, 2000
TOGETHER = "together"
CHOICE_NOTE = """\
The values of the weights are learnt inside folds. The form of the rule (two standard errors, floor 0.1) was compared
with about twenty others on psychosis, schizophrenia and autism, so these figures are a little too high."""


class Variant(NamedTuple):
    """A cohort, the measures that are adjusted for head size, and whether kinds of
    measures have weights.
    """

    cohort: Cohort
    icv_for: str = "volume"
    weighted: bool = True


def read_psychosis(data: Path) -> Cohort:
    """Return the first visit of the early-psychosis study."""
    cohort = read_psychosis_visits(data)
    return cohort.take((cohort.people["session_id"].astype(str) == "1").to_numpy())


READERS: dict[str, Callable[[Path], Cohort]] = {
    "psychosis": read_psychosis,
    "schizophrenia": partial(read_schizophrenia_cohort, measure="any"),
    "autism": partial(read_autism_measures, kinds=("volume", "thickness")),
}


def make_variants(cohort: Cohort) -> dict[str, Variant]:
    """Return thickness and volumes alone and together, each adjusted in the
    same ways.
    """
    thickness = find_thickness(cohort)
    assert thickness is not None
    covariates = cohort.covariates
    others = [
        name
        for name in covariates
        if not find_head_size_columns(derive_codings(covariates[[name]])).any()
    ]
    alone = replace(cohort, volumes=cohort.volumes.loc[:, thickness])
    return {
        "thickness": Variant(replace(alone, covariates=covariates[others])),
        "thickness, adjusted for head size": Variant(alone),
        "volumes": Variant(replace(cohort, volumes=cohort.volumes.loc[:, ~thickness])),
        TOGETHER: Variant(cohort),
        "together, without weights": Variant(cohort, weighted=False),
        "together, without weights, all adjusted for head size": Variant(
            cohort, "all", False
        ),
    }


def score_held_out(variant: Variant, seed: int) -> np.ndarray:
    """Return the score of each person (N,) by the fit of the folds that leave the
    person out.
    """
    cohort, patient = variant.cohort, variant.cohort.is_patient.astype(np.intp)
    sites = (
        cohort.people[SITE].astype(str) if SITE in cohort.people else [""] * len(cohort)
    )
    strata = [f"{label} {site}" for label, site in zip(patient, sites, strict=True)]
    scores = np.empty(len(cohort))
    for seen, left_out in StratifiedKFold(FOLDS, shuffle=True, random_state=seed).split(
        scores, strata
    ):
        people = cohort.take(seen)
        preprocessing = Preprocessing.fit(people, icv_for=variant.icv_for)
        X, kinds = (
            preprocessing.transform(people),
            encode_measures(people) if variant.weighted else None,
        )
        score = fit_default(PreparedPeople(X=X, y=patient[seen], kinds=kinds), seed)
        controls = score(X[patient[seen] == 0])
        scores[left_out] = (
            score(preprocessing.transform(cohort.take(left_out))) - controls.mean()
        ) / controls.std()
    return scores


def measure_table(cohort: Cohort, repeats: int) -> dict[str, Any]:
    """Return the AUCs (repeats,) and mean scores (N,) of all variants."""
    patient = cohort.is_patient
    table: dict[str, Any] = {
        "controls": cohort.n_controls,
        "patients": cohort.n_patients,
        "repeats": repeats,
    }
    thickness = find_thickness(cohort)
    assert thickness is not None
    table |= {
        "thickness": int(thickness.sum()),
        "volumes": int((~thickness).sum()),
        "auc": {},
        "difference": {},
    }
    scores = {}
    for name, variant in make_variants(cohort).items():
        each = np.array([score_held_out(variant, seed) for seed in range(repeats)])
        table["auc"][name] = [float(roc_auc_score(patient, row)) for row in each]
        scores[name] = each.mean(axis=0)
    for name in scores:
        table["difference"][name] = bootstrap_difference(
            scores[TOGETHER], scores[name], patient
        )
    return table


def bootstrap_difference(
    first: np.ndarray, second: np.ndarray, patient: np.ndarray
) -> float:
    """Return the standard error of the difference between the AUCs of two scores (N,),
    over samples of people.
    """
    rng, groups = (
        np.random.default_rng(0),
        (np.flatnonzero(patient), np.flatnonzero(~patient)),
    )
    differences = []
    for _ in range(BOOTSTRAPS):
        rows = np.concatenate([rng.choice(group, len(group)) for group in groups])
        differences.append(
            roc_auc_score(patient[rows], first[rows])
            - roc_auc_score(patient[rows], second[rows])
        )
    return float(np.std(differences))


def format_report(results: dict[str, Any]) -> str:
    """Return the tables as Markdown."""
    lines = [
        "# Thickness and volumes together",
        f"`{results['command']}`, commit {results['commit']}",
        "",
    ]
    lines += [
        "Probability that a held-out patient has a higher index than a held-out control (AUC), five folds joined, mean"
    ]
    lines += [
        "over random splits with the standard error of that mean. Last columns: the AUC of both kinds together"
    ]
    lines += [
        "minus that of the row in the same splits, with its standard error over splits, and its standard error"
    ]
    lines += [
        "over samples of people, which is larger: splits share their people.",
        CHOICE_NOTE,
        "",
    ]
    for name, table in results["tables"].items():
        lines += [f"## {name.capitalize()}"]
        lines += [
            f"{table['controls']} controls, {table['patients']} patients, {table['thickness']} thicknesses, "
        ]
        lines[-1] += f"{table['volumes']} volumes, {table['repeats']} random splits."
        lines += [
            "",
            "| measures | AUC | together minus this | error over people |",
            "|---|---|---|---|",
        ]
        together = np.array(table["auc"][TOGETHER])
        for variant, aucs in table["auc"].items():
            values = np.array(aucs)
            gain = together - values
            root = np.sqrt(len(values))
            cells = [variant, f"{values.mean():.4f} ± {values.std(ddof=1) / root:.4f}"]
            if variant != TOGETHER:
                cells += [
                    f"{gain.mean():+.4f} ± {gain.std(ddof=1) / root:.4f}",
                    f"{table['difference'][variant]:.4f}",
                ]
            lines.append("| " + " | ".join([*cells, *[""] * (4 - len(cells))]) + " |")
        lines.append("")
    return "\n".join(lines)


def main() -> None:
    """Measure the tables and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/patients"))
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--table", choices=list(READERS), action="append")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    results: dict[str, Any] = (
        json.loads(OUT.read_text("utf-8")) if OUT.is_file() else {"tables": {}}
    )
    results |= {
        "command": "python -m benchmarks.thickness_and_volumes",
        "commit": commit.strip(),
    }
    for name in options.table or READERS:
        repeats = max(3, options.repeats // 10) if name == "autism" else options.repeats
        results["tables"][name] = measure_table(READERS[name](options.data), repeats)
        OUT.write_text(json.dumps(results, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_report(results), "utf-8")


if __name__ == "__main__":
    main()
