"""Section B.3: regularisers removed one by one and together, on the tasks basic and mild.

Usage: ``python benchmarks/paper/regularisers.py``. Four members of recipe default with the judge off, and of the same
recipe from a random start with 2,500 steps (task basic), where the losses alone constrain f.
"""

from common import JUDGE_OFF, RESULTS, mean_of, run_all, write_table

REMOVED = {
    "nothing": (),
    "decomposition (kappa = 0)": ("decomposition",),
    "orthogonality (lambda = 0)": ("orthogonality",),
    "monotonicity (mu = 0)": ("monotonicity",),
    "near-zero (eta = 0)": ("near_zero",),
    "monotonicity and near-zero": ("monotonicity", "near_zero"),
    "all four": ("decomposition", "orthogonality", "monotonicity", "near_zero"),
}
MEMBERS = 4
RANDOM_START = {"start": "random", "conditioning": "controls", "correlated": False, "held_steps": 0, "max_steps": 2_500}
RANDOM_START |= {"reconstruction_bar": 1e9, "monotonicity_bar": 1e9, "min_steps": 2_500}


def main() -> None:
    """Train and write."""
    columns = [("warm", "basic"), ("warm", "mild"), ("random", "basic")]
    changes = {"warm": JUDGE_OFF, "random": JUDGE_OFF | RANDOM_START}
    work = [
        (f"{start}, {label}", task, 0, {**changes[start], **dict.fromkeys(names, 0.0)}, False, MEMBERS)
        for start, task in columns
        for label, names in REMOVED.items()
    ]
    rows = run_all(work, RESULTS / "regularisers.json")
    lines = []
    for label in REMOVED:
        cells = [
            f"{mean_of(rows, 'consensus', task=task, label=f'{start}, {label}'):.3f} / "
            f"{mean_of(rows, 'agreement', task=task, label=f'{start}, {label}'):.3f}"
            for start, task in columns
        ]
        lines.append([label, *cells])
    note = "Pattern-c-index of the consensus / agreement among four members, one cohort."
    write_table(
        RESULTS / "regularisers.md", ["removed", *(f"{start} start, {task}" for start, task in columns)], lines, note
    )


if __name__ == "__main__":
    main()
