"""Harmonisation of rindices beside neuroHarmonize and longitudinal ComBat: what is left
of known site effects, and what becomes of R-indices and of their change.

``python -m benchmarks.harmonise_methods --python ENVIRONMENT/bin/python --data FOLDER
[--seeds 3]``

ENVIRONMENT has ``neuroHarmonize`` 2.5.2 and ``combatlearn`` 2.3.0, whose method
``longitudinal`` is that of longitudinal ComBat (an R package). They are no dependencies
of the project.

Simulated: 250 controls and 350 patients with three visits a year apart, of 139 regions,
at four scanners that shift each region by 0.6 standard deviations of controls (half of
it in common) and scale its spread by 15 %. Patients have the three patterns of the task
basic, losses of up to 20 % at the first visit, which grow by up to 2 % a year. Nobody
changes scanner, or a third of the people are at another one from their second visit on,
then also with scanners that change head size by 4 %. rindices and neuroHarmonize learn
from the first visits of controls, longitudinal ComBat from all visits of everyone with
the group preserved.

- Site variance left: of the difference to the same people without scanners, the
  variance between scanners, mean over regions, relative to no harmonisation.
- Accuracy: pattern-c-index of the first visits, three indices of the learner
  contrastive.
- Change: mean over patterns of the rank correlation of patients' slopes with the truth.
- False change: largest difference in the slope of an R-index of controls between people
  who changed scanner and others, where there is none, in slopes' standard deviations.

Real: 1,078 healthy people of 23 sites (``FOLDER/fcon1000``), all thicknesses; in five
folds, the variance that sites explain in people from whom their effects were not
estimated (`rindices.study.site_effects`).

Writes ``results/harmonise_methods.json`` and ``.md``; what is done is not computed
again.
"""

import argparse
import json
import subprocess
import tempfile
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from rindices._typing import AnyArray, BoolArray, FloatArray
from rindices.analysis.scanner_change import estimate_scanner_effects
from rindices.analysis.slopes import Visits
from rindices.experiments.reference import load_reference
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.preprocess.harmonise import Harmoniser
from rindices.preprocess.residualise import Residualiser
from rindices.preprocess.standardise import Standardiser
from rindices.selection.agreement import pattern_c_index
from rindices.study.site_effects import measure_site_shares

OUT = Path(__file__).parent / "results" / "harmonise_methods"
WORKER = Path(__file__).parent / "harmonise_worker.py"
N_CONTROLS, N_PATIENTS, N_VISITS, N_SITES = 250, 350, 3, 4
SHIFT, SCALE, NOISE, GROWTH, RATE = 0.42, 0.15, 0.015, 0.02, 0.2
CONDITIONS = {
    "nobody changed scanner": (0.0, 0.0),
    "a third changed scanner": (1 / 3, 0.0),
    "a third changed, scanners change head size": (1 / 3, 0.04),
}
NOTHING, OURS, SCANNER = "nothing done", "rindices", "rindices, change --scanner"
METHODS = (NOTHING, OURS, SCANNER, "neuroHarmonize", "longitudinal ComBat")
TRUTH = "no scanner effects"
MIN_SITE = 15


@dataclass(frozen=True, kw_only=True)
class VisitCohort:
    """Visits of people, one row each; V visits of N people.

    Attributes
    ----------
    clean, measured : ndarray of shape (V, R)
        Logarithms of volumes without and with effects of scanners.
    covariates, true_covariates : DataFrame
        Age at the first visit, sex, and head size as measured, and without scanners.
    scanner, person, time : ndarray of shape (V,)
    is_patient : ndarray of shape (V,)
    severities, growth : ndarray of shape (patients, 3)
        At the first visit, and per year.
    """

    clean: FloatArray
    measured: FloatArray
    covariates: pd.DataFrame
    true_covariates: pd.DataFrame
    scanner: AnyArray
    person: AnyArray
    time: FloatArray
    is_patient: BoolArray
    severities: FloatArray
    growth: FloatArray


def simulate(share: float, head: float, seed: int) -> VisitCohort:
    rng, reference = np.random.default_rng([seed, 65]), load_reference()
    n_people = N_CONTROLS + N_PATIENTS
    volumes, covariates = reference.draw(n_people, rng)
    names = {name: k for k, name in enumerate(volumes)}
    patterns = [[names[each] for each in own] for own in TASKS["basic"].patterns]
    patient = np.arange(n_people) >= N_CONTROLS
    severity, growth = (
        patient[:, None] * rng.uniform(size=(n_people, 3)) * rate
        for rate in (RATE, GROWTH)
    )
    person = np.repeat(np.arange(n_people), N_VISITS)
    time = np.tile(np.arange(N_VISITS, dtype=float), n_people)
    clean = np.log(volumes.to_numpy(dtype=float))[person]
    for regions, start, per_year in zip(patterns, severity.T, growth.T, strict=True):
        loss = start[person] + per_year[person] * time
        clean[:, regions] += np.log(1 - loss)[:, None]
    clean += rng.normal(0, NOISE, clean.shape)
    first = rng.integers(N_SITES, size=n_people)
    moved = rng.random(n_people) < share
    second = (first + rng.integers(1, N_SITES, size=n_people)) % N_SITES
    scanner = np.where(moved[person] & (time > 0), second[person], first[person])
    is_control = ~patient[person]
    mean, sd = clean[is_control].mean(axis=0), clean[is_control].std(axis=0)
    shift = SHIFT * (
        rng.normal(size=(N_SITES, 1)) + rng.normal(size=(N_SITES, clean.shape[1]))
    )
    scale = np.exp(SCALE * rng.normal(size=shift.shape))
    measured = mean + (clean - mean) * scale[scanner] + sd * shift[scanner]
    true_covariates = covariates.iloc[person].reset_index(drop=True)
    heads = np.exp(head * rng.normal(size=N_SITES))[scanner]
    return VisitCohort(
        clean=clean,
        measured=measured,
        covariates=true_covariates.assign(icv=true_covariates["icv"] * heads),
        true_covariates=true_covariates,
        scanner=scanner,
        person=person,
        time=time,
        is_patient=patient[person],
        severities=severity[patient],
        growth=growth[patient],
    )


def call_package(python: str, method: str, case: dict[str, Any]) -> FloatArray:
    """Return the values of a case without site effects, by a package of others."""
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder) / "case.npz", Path(folder) / "out.npy"
        np.savez(path, **case)
        subprocess.run([python, WORKER, method, path, out], check=True)
        return np.asarray(np.load(out))


def harmonise(cohort: VisitCohort, method: str, python: str) -> FloatArray:
    """Return values (V, R) without effects of scanners."""
    learnt_from = ~cohort.is_patient & (cohort.time == 0)
    head, age = (cohort.covariates[name].to_numpy(float) for name in ("icv", "age"))
    sex = (cohort.covariates["sex"] == cohort.covariates["sex"].iloc[0]).to_numpy(float)
    design = np.column_stack([age, sex, np.log(head)])
    if method in (OURS, SCANNER):
        sites, regions = cohort.scanner.astype(str), [""] * cohort.measured.shape[1]
        fitted = Harmoniser.fit(
            cohort.measured[learnt_from],
            design[learnt_from],
            sites[learnt_from].tolist(),
            regions,
        )
        return fitted.transform(cohort.measured, design, sites.tolist())
    if method == NOTHING:
        return cohort.measured
    case = {
        "values": cohort.measured,
        "design": design,
        "names": np.array(["age", "sex", "icv"]),
        "site": cohort.scanner,
        "person": cohort.person,
        "time": cohort.time,
        "group": cohort.is_patient.astype(int),
        "learnt_from": learnt_from,
    }
    return call_package(python, method, case)


def compute_left(values: FloatArray, cohort: VisitCohort) -> float:
    """Return the variance between scanners of the difference to the people without
    them, mean over regions.
    """
    difference = values - cohort.clean
    means = np.stack(
        [difference[cohort.scanner == k].mean(axis=0) for k in range(N_SITES)]
    )
    return float((means.var(axis=0) / cohort.clean.var(axis=0)).mean())


def follow_indices(
    values: FloatArray, covariates: pd.DataFrame, cohort: VisitCohort, method: str
) -> dict[str, float]:
    """Return accuracy, and how well the change of R-indices follows the truth."""
    first, well = cohort.time == 0, ~cohort.is_patient
    taught = first & well
    regions = [f"r{k}" for k in range(values.shape[1])]
    residualiser = Residualiser.fit(values[taught], covariates[taught], log=True)
    adjusted = residualiser.transform(values, covariates)
    X = Standardiser.fit(adjusted[taught], regions).transform(adjusted)
    learner = ContrastiveICA(3, 0).fit(X[first], cohort.is_patient[first].astype(int))
    indices = learner.transform(X)
    truth = cohort.severities
    order = np.abs(
        stats.spearmanr(truth, indices[first & ~well]).statistic[:3, 3:]
    ).argmax(axis=1)
    visits = Visits(
        values=indices,
        time=cohort.time,
        person=cohort.person,
        n_people=int(cohort.person.max()) + 1,
    )
    patient = cohort.is_patient[first]
    if method == SCANNER:
        effects = estimate_scanner_effects(visits, cohort.scanner, patient)
        if effects is not None:
            visits = Visits(
                values=effects.remove(indices, cohort.scanner),
                time=visits.time,
                person=visits.person,
                n_people=visits.n_people,
            )
    slopes = visits.lines.slope
    by_person = cohort.scanner.reshape(-1, N_VISITS)
    moved = np.ptp(by_person, axis=1) > 0
    follows = [
        stats.spearmanr(growth, slopes[patient, k]).statistic
        for growth, k in zip(cohort.growth.T, order, strict=True)
    ]
    row = {
        "accuracy": float(pattern_c_index(truth, indices[first & ~well]).mean),
        "change": float(np.mean(follows)),
    }
    if moved.any():
        pairs = by_person[:, 0] * N_SITES + by_person[:, -1]
        gaps = [
            slopes[~patient & (pairs == pair)].mean(axis=0)
            - slopes[~patient & ~moved].mean(axis=0)
            for pair in np.unique(pairs[moved & ~patient])
        ]
        spread = slopes[~patient & ~moved].std(axis=0)
        row["false_change"] = float(np.sqrt(np.mean((np.array(gaps) / spread) ** 2)))
    return row


def measure_simulated(python: str, seed: int) -> dict[str, Any]:
    rows: dict[str, Any] = {}
    for name, (share, head) in CONDITIONS.items():
        cohort = simulate(share, head, seed)
        before = compute_left(cohort.measured, cohort)
        rows[name] = {
            TRUTH: follow_indices(cohort.clean, cohort.true_covariates, cohort, TRUTH)
        }
        for method in METHODS:
            values = harmonise(cohort, method, python)
            left = {"left": compute_left(values, cohort) / before}
            rows[name][method] = left | follow_indices(
                values, cohort.covariates, cohort, method
            )
            print(seed, name, method, rows[name][method], flush=True)
    return rows


def measure_fcon1000(folder: Path, python: str) -> dict[str, dict[str, float]]:
    """Return median and largest share of variance that sites explain."""
    table = pd.read_csv(folder / "fcon1000" / "fcon1000.csv").dropna(
        subset=["age", "sex", "site"]
    )
    counts = table["site"].map(table["site"].value_counts())
    table = table[counts >= MIN_SITE].reset_index(drop=True)
    regions = [name for name in table if name.endswith("_thickness")]
    values = table[regions].to_numpy(dtype=float)
    table, values = (each[np.isfinite(values).all(axis=1)] for each in (table, values))
    sites = np.array(table["site"].astype(str).tolist())
    sex = pd.factorize(table["sex"])[0]
    design = np.column_stack([table["age"], sex]).astype(float)
    folds = np.zeros(len(sites), dtype=np.intp)
    rng = np.random.default_rng(0)
    for site in np.unique(sites):
        own = rng.permutation(np.flatnonzero(sites == site))
        folds[own] = np.arange(len(own)) % 5
    results: dict[str, FloatArray] = {NOTHING: values}

    def hold_out(transform: Callable[[BoolArray], FloatArray]) -> FloatArray:
        held_out = values.copy()
        for fold in range(5):
            held_out[folds == fold] = transform(folds != fold)[folds == fold]
        return held_out

    def ours(seen: BoolArray) -> FloatArray:
        fitted = Harmoniser.fit(
            values[seen], design[seen], sites[seen].tolist(), regions
        )
        return fitted.transform(values, design, sites.tolist())

    def theirs(seen: BoolArray) -> FloatArray:
        case = {"values": values, "design": design, "site": sites}
        case |= {"names": np.array(["age", "sex"]), "learnt_from": seen}
        return call_package(python, "neuroHarmonize", case)

    results |= {OURS: hold_out(ours), "neuroHarmonize": hold_out(theirs)}
    rows: dict[str, dict[str, float]] = {}
    for name, each in results.items():
        share, _ = measure_site_shares(each, design, sites.tolist(), folds)
        rows[name] = {"median": float(np.median(share)), "largest": float(share.max())}
    rows["people"] = {"people": len(sites), "sites": len(np.unique(sites))}
    rows["people"] |= {"regions": len(regions)}
    return rows


def format_tables(content: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    seeds = list(content["simulated"])
    lines = ["# Harmonisation, three methods side by side", ""]
    lines += ["`python -m benchmarks.harmonise_methods`", ""]
    for condition in CONDITIONS:
        lines += [f"## Simulated: {condition}", ""]
        lines += ["| | site variance left | accuracy | change | false change |"]
        lines += ["|---|---|---|---|---|"]
        for method in (TRUTH, *METHODS):
            rows = [content["simulated"][seed][condition][method] for seed in seeds]
            cells = [
                " "
                if key not in rows[0]
                else _format_range([row[key] for row in rows], digits, percent)
                for key, digits, percent in (
                    ("left", 1, True),
                    ("accuracy", 3, False),
                    ("change", 2, False),
                    ("false_change", 2, False),
                )
            ]
            lines += [f"| {method} | {' | '.join(cells)} |"]
        lines += [""]
    real = content["fcon1000"]
    counts = real["people"]
    lines += [
        "## fcon1000 by site",
        "",
        f"{counts['people']:,} healthy people of {counts['sites']} sites with {MIN_SITE} people or more, "
        f"{counts['regions']} thicknesses, adjusted for age and sex; five folds.",
        "",
        "| | variance explained by site, median region | largest |",
        "|---|---|---|",
        *(
            f"| {name} | {row['median']:.1%} | {row['largest']:.1%} |"
            for name, row in real.items()
            if name != "people"
        ),
        "",
        "In people from whom the effects of sites were not estimated. Longitudinal ComBat needs repeat visits.",
        "",
    ]
    note = (
        f"Mean and range of {len(seeds)} cohorts. Site variance left: relative to no harmonisation, known from the same people "
        "without scanners. Accuracy: pattern-c-index at the first visit. Change: rank correlation of patients' slopes with the "
        "truth. False change: root mean square, over pairs of scanners and R-indices, of the slope of controls who changed between them "
        "less that of controls who stayed, in standard deviations of slopes; chance alone gives what the first row has."
    )
    return "\n".join([*lines, note, ""])


def _format_range(values: list[float], digits: int, percent: bool) -> str:
    kind = f".{digits}{'%' if percent else 'f'}"
    low, high = format(min(values), kind), format(max(values), kind)
    return f"{np.mean(values):{kind}} ({low} to {high})"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--python", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    path = OUT.with_suffix(".json")
    content: dict[str, Any] = {"simulated": {}}
    if path.is_file():
        content = json.loads(path.read_text("utf-8"))
    if "fcon1000" not in content:
        content["fcon1000"] = measure_fcon1000(options.data, options.python)
    for seed in range(options.seeds):
        if str(seed) not in content["simulated"]:
            row = measure_simulated(options.python, seed)
            content["simulated"][str(seed)] = row
        path.write_text(json.dumps(content, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_tables(content), "utf-8")
    print(format_tables(content))


if __name__ == "__main__":
    main()
