"""Golden outputs: numbers of a small study, which a release must reproduce within
tolerances.

    python scripts/golden_outputs.py                   # compare with
    tests/golden_outputs.json python scripts/golden_outputs.py --out FILE        #
    compare, and write the numbers of this installation python scripts/golden_outputs.py
    --update          # replace the file, on purpose

The study is simulated (task ``tiny``, seed 0, the 36 regions of its patterns) and
fitted with the method ``trajectories``; the numbers are those of the model, of
R-indices of its people and of new people of whom some lack regions.
"""

import argparse
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import rindices as ri
from rindices.experiments.tasks import SimulationTask
from rindices.tables.cohort import Cohort

GOLDEN = Path(__file__).parents[1] / "tests" / "golden_outputs.json"
TOLERANCES = {
    "r_indices": 2e-3,
    "new_people": 2e-3,
    "patterns": 2e-2,
    "agreement": 5e-3,
}
"""Largest absolute difference; other versions of numpy and other processors round
differently, and EM amplifies it.
"""


def simulate(seed: int) -> Cohort:
    """Return a small cohort with the regions of the three basic patterns."""
    cohort = ri.simulate_cohort("tiny", seed).cohort
    regions = sorted(
        {name for pattern in SimulationTask().patterns for name in pattern}
    )
    return replace(cohort, volumes=cohort.volumes[regions])


def compute_outputs() -> dict[str, Any]:
    """Return the numbers of this installation."""
    model = ri.fit(simulate(0), 3, members=5, workers=1, seed=0)
    new = simulate(1).take(np.arange(0, 180, 9))
    volumes = new.volumes.to_numpy(copy=True)
    volumes[::3, ::5] = np.nan
    new = replace(new, volumes=pd.DataFrame(volumes, columns=new.volumes.columns))
    indices, new_indices = model.indices, model.apply(new)
    assert indices is not None
    numbers = [name for name in indices if name.startswith("r")]
    agreement = model.card.agreement
    return {
        "version": ri.__version__,
        "tolerances": TOLERANCES,
        "columns": list(indices.columns),
        "n_patterns": model.n_patterns,
        "outside_training_range": [
            int(table["outside_training_range"].sum())
            for table in (indices, new_indices)
        ],
        "agreement": [None if agreement is None else agreement.concordance],
        "patterns": np.round(model.patterns[-1], 6).tolist(),
        "r_indices": np.round(indices[numbers].iloc[::10], 6).to_numpy().tolist(),
        "new_people": np.round(new_indices[numbers], 6).to_numpy().tolist(),
    }


def list_differences(outputs: dict[str, Any], golden: dict[str, Any]) -> list[str]:
    """Return what differs from the golden outputs by more than its tolerance."""
    problems = [
        f"{name}: {outputs[name]} instead of {golden[name]}"
        for name in ("columns", "n_patterns", "outside_training_range")
        if outputs[name] != golden[name]
    ]
    for name, tolerance in TOLERANCES.items():
        new, old = (np.array(values[name], dtype=float) for values in (outputs, golden))
        difference = (
            float(np.abs(new - old).max()) if new.shape == old.shape else float("inf")
        )
        if not difference <= tolerance:
            problems.append(
                f"{name}: differs by {difference:.2g}, and {tolerance:g} is allowed"
            )
    return problems


def main() -> None:
    """Compare with the golden outputs, or replace them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    outputs = compute_outputs()
    for path in [
        *([options.out] if options.out else []),
        *([GOLDEN] if options.update else []),
    ]:
        path.write_text(json.dumps(outputs, indent=1) + "\n")
    problems = list_differences(outputs, json.loads(GOLDEN.read_text()))
    if problems:
        raise SystemExit("\n".join(problems))
    print("equal to the golden outputs, within the tolerances")


if __name__ == "__main__":
    main()
