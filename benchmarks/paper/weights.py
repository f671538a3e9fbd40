"""Section B.2: each weight of the objective at 50 % and at 150 % of its value, on the
task basic.

Usage: ``python -m benchmarks.paper.weights``. The method surreal-gan with few steps
(`common.SHORT`).
"""

from benchmarks.paper.common import (
    FIGURES,
    NOTE,
    RESULTS,
    find_row,
    run_all,
    write_table,
)
from rindices.learners.gan.recipe import LossWeights

SYMBOLS = {
    "change": "gamma",
    "decomposition": "kappa",
    "reconstruction": "zeta",
    "monotonicity": "mu",
    "near_zero": "eta",
}
SHARES = (0.5, 1.5)
TASKS = ("basic",)


def main() -> None:
    """Train and write."""
    preset = LossWeights()
    work: list[tuple[str, str, dict[str, float]]] = [
        ("as preset", task, {}) for task in TASKS
    ]
    work += [
        (f"{name} {share:g}", task, {name: share * getattr(preset, name)})
        for task in TASKS
        for name in SYMBOLS
        for share in SHARES
    ]
    rows = run_all(work, RESULTS / "weights.json")
    lines = []
    for task in TASKS:
        base = find_row(rows, "as preset", task)
        for name, symbol in SYMBOLS.items():
            cells = [find_row(rows, f"{name} {share:g}", task) for share in SHARES]
            shown = [
                f"{row['mean']:.3f} / {row['agreement']:.3f}"
                for row in (cells[0], base, cells[1])
            ]
            change = max(abs(row["mean"] - base["mean"]) for row in cells)
            lines.append([task, f"{symbol} ({name})", *shown, f"{change:.3f}"])
    errors = [row["error"] for row in rows]
    note = (
        f"{FIGURES} {NOTE} Standard errors are {min(errors):.3f} to {max(errors):.3f}."
    )
    head = ["task", "weight", "50 %", "100 %", "150 %", "largest change"]
    write_table(RESULTS / "weights.md", head, lines, note)


if __name__ == "__main__":
    main()
