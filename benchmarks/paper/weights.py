"""Section B.2: each weight of the objective at 50 % and at 150 % of its value, on the tasks basic and mild.

Usage: ``python -m benchmarks.paper.weights``. The recipe paper with few steps (`common.SHORT`).
"""

from benchmarks.paper.common import NOTE, RESULTS, mean_of, run_all, write_table
from rindices.learners.gan.recipe import LossWeights

SYMBOLS = {
    "change": "gamma",
    "decomposition": "kappa",
    "reconstruction": "zeta",
    "monotonicity": "mu",
    "near_zero": "eta",
}
SHARES = (0.5, 1.5)
TASKS = ("basic", "mild")


def main() -> None:
    """Train and write."""
    preset = LossWeights()
    work: list[tuple[str, str, dict[str, float]]] = [("as preset", task, {}) for task in TASKS]
    work += [
        (f"{name} {share:g}", task, {name: share * getattr(preset, name)})
        for task in TASKS
        for name in SYMBOLS
        for share in SHARES
    ]
    rows = run_all(work, RESULTS / "weights.json")
    lines = []
    for task in TASKS:
        base = mean_of(rows, "consensus", task=task, label="as preset")
        for name, symbol in SYMBOLS.items():
            cells = [mean_of(rows, "consensus", task=task, label=f"{name} {share:g}") for share in SHARES]
            shown = [f"{value:.3f}" for value in (cells[0], base, cells[1])]
            lines.append([task, f"{symbol} ({name})", *shown, f"{max(abs(value - base) for value in cells):.3f}"])
    head = ["task", "weight", "50 %", "100 %", "150 %", "largest change"]
    write_table(RESULTS / "weights.md", head, lines, f"Pattern-c-index of the consensus. {NOTE}")


if __name__ == "__main__":
    main()
