"""Precision of the strongest regions of each pattern, and calibration of their standard
errors.

    python -m benchmarks.top_regions

Simulated basic cohorts. Precision: the share of true regions among the 14 strongest
regions of each pattern (method trajectories). Standard errors: the stated error of true
regions relative to the spread of their effects over independent cohorts (method
contrastive, which is faster); 1 is correct, below 1 too small. Writes
``results/top_regions.json`` and ``.md``.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import rindices as ri
from rindices.selection.agreement import align_columns

RESULTS = Path(__file__).parent / "results"
TOP = 14


def fit_patterns(seed: int, method: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return effects at severity 1 and their standard errors, in the order of the
    truth, and the truth: (M, R) each.
    """
    simulated = ri.simulate_cohort("basic", seed)
    truth = simulated.patterns.drop(columns="region").to_numpy().T
    model = ri.fit(simulated.cohort, len(truth), method=method, members=10)
    patients = simulated.cohort.take(simulated.cohort.is_patient)
    indices = model.apply(patients).filter(regex=r"^r\d+$").to_numpy()
    order = align_columns(indices, simulated.truth)
    assert model.patterns_se is not None
    return model.patterns[-1][order], model.patterns_se[-1][order], truth


def compute_precision(effects: np.ndarray, truth: np.ndarray) -> list[float]:
    """Return, per pattern, the share of the strongest regions that is true."""
    strongest = np.argsort(-np.abs(effects), axis=1)[:, :TOP]
    return [
        float((row[top] != 0).mean()) for row, top in zip(truth, strongest, strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cohorts", type=int, default=3, help="of the precision")
    parser.add_argument("--many", type=int, default=16, help="cohorts of the intervals")
    options = parser.parse_args()
    rows = []
    for seed in range(options.cohorts):
        effects, _, truth = fit_patterns(seed, "trajectories")
        rows.append({"cohort": seed, "precision": compute_precision(effects, truth)})
        print(rows[-1], flush=True)
    studies = [fit_patterns(1000 + seed, "contrastive") for seed in range(options.many)]
    true = studies[0][2] != 0
    stated = np.sqrt(np.mean([error**2 for _, error, _ in studies], axis=0))[true]
    spread = np.std([effects for effects, _, _ in studies], axis=0, ddof=1)[true]
    ratio = float(np.sqrt(np.mean(stated**2) / np.mean(spread**2)))
    result = {
        "top": TOP,
        "cohorts": rows,
        "mean": float(np.mean([row["precision"] for row in rows])),
        "lowest": float(np.min([row["precision"] for row in rows])),
        "interval_cohorts": options.many,
        "stated_over_true_error": ratio,
    }
    (RESULTS / "top_regions.json").write_text(json.dumps(result, indent=2) + "\n")
    lines = [
        "| cohort | "
        + " | ".join(f"pattern {k + 1}" for k in range(len(rows[0]["precision"])))
        + " |"
    ]
    lines.append("|---|" + "---|" * len(rows[0]["precision"]))
    lines += [
        f"| {row['cohort']} | "
        + " | ".join(f"{p:.2f}" for p in row["precision"])  # type: ignore[attr-defined]
        + " |"
        for row in rows
    ]
    note = f"Share of the {TOP} strongest regions of each pattern that are true (basic, method trajectories). "
    note += f"Mean {result['mean']:.3f}."
    errors = f"Stated over true standard error of true regions, {options.many} cohorts (method contrastive): {ratio:.2f}."
    (RESULTS / "top_regions.md").write_text(
        "\n".join([*lines, "", note, "", errors, ""])
    )
    print(result)


if __name__ == "__main__":
    main()
