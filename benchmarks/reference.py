"""What a reference population adds in small studies, and what a wrong one costs.

    python -m benchmarks.reference [--cuts 20] [--data ../shared/data] [--workers 2]

Each cut takes 140 healthy people of a few sites of ``fcon1000``. Three fifths of them
get three simulated patterns (rates 0.2 and 0.3), and the people of all other sites are
the reference. The same study is fitted without a reference, with it, and with a wrong
one, whose regions are exchanged at random. Accuracy is the c-index with the true
severities. Seeds are 100 and up; the constants of `rindices.learners.normal_variation`
were chosen on seeds 0 to 5 and 50 to 55. Writes ``results/reference.md`` and ``.json``.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS
from rindices.learners.contrastive.estimator import ContrastiveICA
from rindices.learners.ensemble import fit_linear_members
from rindices.learners.normal_variation import ReferenceTarget
from rindices.learners.prepared_people import PreparedPeople
from rindices.model.normal_reference import NormalReference
from rindices.preprocess.pipeline import Preprocessing
from rindices.selection.agreement import IndexRows, pattern_c_index
from rindices.selection.choose import find_agreeing_members
from rindices.tables.cohort import SITE, Cohort
from rindices.tables.readers import read_cohort

OUT = Path(__file__).parent / "results" / "reference.json"
RATES = (0.2, 0.3)
FIRST_SEED, N_PEOPLE, MIN_SITE, MEMBERS, PATTERNS = 100, 140, 30, 10, 3
KINDS = ("none", "right", "wrong")


def cut_cohort(
    healthy: Cohort, rng: np.random.Generator
) -> tuple[Cohort, NormalReference]:
    """Return people of a few sites, and the reference of all other sites."""
    site = healthy.people[SITE].astype(str).to_numpy()
    chosen: list[str] = []
    for name in rng.permutation(np.unique(site)):
        if (site == name).sum() >= MIN_SITE and np.isin(site, chosen).sum() < N_PEOPLE:
            chosen.append(str(name))
    inside = np.isin(site, chosen)
    rows = np.sort(rng.choice(np.flatnonzero(inside), N_PEOPLE, replace=False))
    return healthy.take(rows), NormalReference.fit(
        healthy.take(np.flatnonzero(~inside))
    )


def measure_cut(healthy: Cohort, rate: float, seed: int) -> dict[str, Any]:
    """Return the accuracy with each reference, and the weights that these get."""
    rng = np.random.default_rng([seed, 20])
    people, reference = cut_cohort(healthy, rng)
    simulated = simulate_cohort(
        replace(TASKS["basic"], rate=rate), seed, healthy=people
    )
    cohort = simulated.cohort
    X, y = (
        Preprocessing.fit(cohort).transform(cohort),
        cohort.is_patient.astype(np.intp),
    )
    right = reference.select(cohort.regions)
    order = rng.permutation(len(right))
    row: dict[str, Any] = {
        "rate": rate,
        "seed": seed,
        "people": reference.people,
        "sites": reference.sites,
    }
    for kind, used in zip(
        KINDS, (None, right, right[np.ix_(order, order)]), strict=True
    ):
        dealt = PreparedPeople(X=X, y=y, reference=used).deal_to_members(
            range(MEMBERS), seed
        )
        members = fit_linear_members(
            dealt, PATTERNS, range(MEMBERS), seed, False, ContrastiveICA
        )
        indices = np.stack([member.head.infer(X[y == 1]) for member in members])
        _, agreeing, orders = find_agreeing_members(IndexRows(indices))
        aligned = [
            indices[k][:, list(order)]
            for k, order in zip(agreeing, orders, strict=True)
        ]
        row[kind] = float(
            pattern_c_index(simulated.truth, np.mean(aligned, axis=0)).mean
        )
        target = ReferenceTarget.choose((X[y == 0] - 1.0) / 0.1, used)
        row[f"weight_{kind}"] = None if target is None else target.weight
    return row


def format_table(rows: list[dict[str, Any]]) -> str:
    """Return the result as Markdown."""
    lines = [
        "# A reference population in small studies",
        "`python -m benchmarks.reference`: 56 controls and 84 patients of a few sites of fcon1000 with three simulated",
        f"patterns, contrastive learner, {MEMBERS} members; the other sites are the reference. Mean c-index, and the",
        "standard error of the difference to no reference.",
        "",
        "| rate | cuts | no reference | reference | difference | wrong reference | difference | weights |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for rate in RATES:
        cuts = [row for row in rows if row["rate"] == rate]
        values = {kind: np.array([row[kind] for row in cuts]) for kind in KINDS}
        cells = [f"{rate:g}", str(len(cuts)), f"{values['none'].mean():.4f}"]
        for kind in KINDS[1:]:
            gain = values[kind] - values["none"]
            error = gain.std(ddof=1) / np.sqrt(len(gain))
            cells += [
                f"{values[kind].mean():.4f}",
                f"{gain.mean():+.4f} +- {error:.4f}",
            ]
        weights = [
            np.mean([row[f"weight_{kind}"] for row in cuts]) for kind in KINDS[1:]
        ]
        lines.append(
            f"| {' | '.join([*cells, f'{weights[0]:.2f}, wrong {weights[1]:.2f}'])} |"
        )
    return "\n".join([*lines, ""])


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cuts", type=int, default=20)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    covariates = ["age", "sex", "EstimatedTotalIntraCranialVol"]
    table = options.data / "fcon1000" / "fcon1000.csv"
    healthy = read_cohort(
        table, id="sub_id", covariates=covariates, site="site", on_missing="drop"
    )
    seeds = range(FIRST_SEED, FIRST_SEED + options.cuts)
    jobs = (
        delayed(measure_cut)(healthy, rate, seed) for rate in RATES for seed in seeds
    )
    rows = list(Parallel(n_jobs=options.workers)(jobs))
    OUT.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")
    print(format_table(rows))


if __name__ == "__main__":
    main()
