"""Section B.3: regularisers removed one by one and together, on the task basic.

Usage: ``python -m benchmarks.paper.regularisers``. The method surreal-gan with few
steps (`common.SHORT`).
"""

from benchmarks.paper.common import FIGURES, NOTE, RESULTS, run_all, write_table

REMOVED = {
    "nothing": (),
    "decomposition (kappa = 0)": ("decomposition",),
    "orthogonality (lambda = 0)": ("orthogonality",),
    "monotonicity (mu = 0)": ("monotonicity",),
    "near-zero (eta = 0)": ("near_zero",),
    "monotonicity and near-zero": ("monotonicity", "near_zero"),
    "all four": ("decomposition", "orthogonality", "monotonicity", "near_zero"),
}
TASKS = ("basic",)


def main() -> None:
    """Train and write."""
    work = [
        (label, task, dict.fromkeys(names, 0.0))
        for task in TASKS
        for label, names in REMOVED.items()
    ]
    rows = run_all(work, RESULTS / "regularisers.json")
    found = {(row["label"], row["task"]): row for row in rows}
    lines = []
    for label in REMOVED:
        own = [found[label, task] for task in TASKS]
        lines.append(
            [
                label,
                *(
                    f"{row['mean']:.3f} +- {row['error']:.3f} / {row['agreement']:.3f}"
                    for row in own
                ),
            ]
        )
    write_table(
        RESULTS / "regularisers.md", ["removed", *TASKS], lines, f"{FIGURES} {NOTE}"
    )


if __name__ == "__main__":
    main()
