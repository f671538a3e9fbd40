"""Section B.3: regularisers removed one by one and together, on the tasks basic and mild.

Usage: ``python -m benchmarks.paper.regularisers``. The recipe paper with few steps (`common.SHORT`).
"""

from benchmarks.paper.common import NOTE, RESULTS, mean_of, run_all, write_table

REMOVED = {
    "nothing": (),
    "decomposition (kappa = 0)": ("decomposition",),
    "orthogonality (lambda = 0)": ("orthogonality",),
    "monotonicity (mu = 0)": ("monotonicity",),
    "near-zero (eta = 0)": ("near_zero",),
    "monotonicity and near-zero": ("monotonicity", "near_zero"),
    "all four": ("decomposition", "orthogonality", "monotonicity", "near_zero"),
}
TASKS = ("basic", "mild")


def main() -> None:
    """Train and write."""
    work = [(label, task, dict.fromkeys(names, 0.0)) for task in TASKS for label, names in REMOVED.items()]
    rows = run_all(work, RESULTS / "regularisers.json")
    lines = [
        [
            label,
            *(
                f"{mean_of(rows, 'consensus', task=task, label=label):.3f} / "
                f"{mean_of(rows, 'agreement', task=task, label=label):.3f}"
                for task in TASKS
            ),
        ]
        for label in REMOVED
    ]
    note = f"Pattern-c-index of the consensus / agreement among members. {NOTE}"
    write_table(RESULTS / "regularisers.md", ["removed", *TASKS], lines, note)


if __name__ == "__main__":
    main()
