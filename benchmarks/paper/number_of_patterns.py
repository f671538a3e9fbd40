"""Section 4.3 on simulated people: number of patterns chosen by agreement if there are
two or three.

Usage: ``python -m benchmarks.paper.number_of_patterns [--cohorts 2]``. Method
trajectories, six members, M = 2, 3, 4; task basic with its three patterns, and with the
first two of them.
"""

import argparse
from dataclasses import replace
from typing import Any

import rindices as ri
from benchmarks.paper.common import RESULTS, run_all, write_table
from rindices.experiments.simulate import simulate_cohort
from rindices.experiments.tasks import TASKS

WIDTHS = (2, 3, 4)


def main() -> None:
    """Fit all cohorts and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cohorts", type=int, default=2)
    seeds = range(parser.parse_args().cohorts)
    rows = run_all(
        [(true, seed) for true in (2, 3) for seed in seeds],
        RESULTS / "number_of_patterns.json",
        choose_number,
    )
    lines = []
    for row in rows:
        found = [row["agreement"][str(m)] for m in WIDTHS]
        shown = ["" if value is None else f"{value:.3f}" for value in found]
        lines.append([str(row["true"]), str(row["seed"]), *shown, str(row["chosen"])])
    head = [
        "patterns there are",
        "cohort",
        *(f"agreement at M = {m}" for m in WIDTHS),
        "chosen",
    ]
    note = "Agreement of fits on disjoint halves of the people; numbers that the likelihood rejects have none."
    write_table(RESULTS / "number_of_patterns.md", head, lines, note)


def choose_number(n_true: int, seed: int) -> dict[str, Any]:
    """Fit one cohort."""
    basic = TASKS["basic"]
    simulated = simulate_cohort(replace(basic, patterns=basic.patterns[:n_true]), seed)
    cohort = replace(
        simulated.cohort, covariates=simulated.cohort.covariates.iloc[:, :0]
    )
    model = ri.fit(cohort, WIDTHS, members=6, seed=seed, workers=1)
    selection = model.selection
    assert selection is not None
    agreement = {
        str(g["setting"]["n_patterns"]): g["agreement"]["concordance"]
        for g in selection["grid"]
    }
    chosen = model.n_patterns if selection.finding == "patterns" else None
    return {"true": n_true, "seed": seed, "agreement": agreement, "chosen": chosen}


if __name__ == "__main__":
    main()
