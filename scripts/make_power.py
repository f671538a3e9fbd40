"""Run the power study that `check` and `fit` quote for small cohorts.

Usage: ``python scripts/make_power.py src/rindices/study/data/power.json [WORKERS]``

The reference generator, adjusted for age, sex and head size as a study would be. The
same figures, with a picture, go to ``benchmarks/results/power``.
"""

import json
import sys
from dataclasses import asdict
from pathlib import Path

from rindices.experiments.power import (
    PowerConfig,
    format_markdown,
    plot_power,
    run_power,
)


def main(target: Path, workers: int = -1) -> None:
    """Run the study and write its results."""
    result = run_power(PowerConfig(covariates=("age", "sex", "icv")), workers=workers)
    target.write_text(json.dumps(asdict(result), indent=1) + "\n", "utf-8")
    folder = Path(__file__).parents[1] / "benchmarks" / "results" / "power"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "power.md").write_text(format_markdown(result), "utf-8")
    plot_power(result, folder / "power.png")


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:]))
