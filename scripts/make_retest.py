"""Write the summary figures of retest noise that ``rindices simulate --visits`` uses.

    python scripts/make_retest.py LNM_data.csv src/rindices/experiments/data/retest.json

The table holds two visits of the controls of an early-psychosis study. Half the
covariance of the differences of log measures between visits is the covariance of the
noise of a visit.
"""

import json
import re
import sys
from pathlib import Path

import numpy as np

from rindices.preprocess.residualise import Residualiser
from rindices.tables.readers import read_cohort

COVARIATES = ["age", "sex", "EstimatedTotalIntraCranialVol"]
N_QUANTILES = 11


def estimate_retest_figures(path: Path) -> dict[str, object]:
    """Return the share of noise in the variance of a visit by region, and the structure
    of the noise.
    """
    visits = read_cohort(
        path,
        id="sub_id",
        session="visit",
        group="group",
        controls="control",
        patients="patient",
        covariates=COVARIATES,
    )
    controls = visits.take(visits.is_control)
    session = controls.people["session_id"].astype(str)
    first, second = (
        controls.take((session == number).to_numpy()) for number in ("1", "2")
    )
    logs = [np.log(part.volumes.to_numpy(dtype=float)) for part in (first, second)]
    noise = np.cov((logs[1] - logs[0]).T) / 2
    adjusted = Residualiser.fit(logs[0], first.covariates, log=True).transform(
        logs[0], first.covariates
    )
    total = adjusted.var(axis=0, ddof=1 + len(COVARIATES))
    spread = np.sqrt(np.diag(noise))
    correlation = noise / np.outer(spread, spread)
    names = [str(name) for name in first.volumes.columns]
    pairs = [
        (k, names.index(other))
        for k, name in enumerate(names)
        if (other := _find_other_side(name)) in names
    ]
    others = ~np.eye(len(names), dtype=bool)
    eigenvalues = np.linalg.eigvalsh(correlation)[::-1]
    shares = np.clip(np.diag(noise) / total, 0, 1)
    return {
        "people": len(first),
        "regions": len(names),
        "noise_share_quantiles": np.quantile(shares, np.linspace(0, 1, N_QUANTILES))
        .round(4)
        .tolist(),
        "mean_visit_correlation": round(float(np.mean(1 - shares)), 4),
        "noise_correlation": round(float(correlation[others].mean()), 4),
        "noise_correlation_of_sides": round(
            float(np.mean([correlation[pair] for pair in pairs])), 4
        ),
        "first_eigenvalue_shares": (eigenvalues[:5] / len(names)).round(4).tolist(),
    }


def _find_other_side(name: str) -> str:
    """Return the name of the same region on the other side."""
    for pattern, other in ((r"^lh_", "rh_"), (r"^Left", "Right")):
        if re.match(pattern, name):
            return re.sub(pattern, other, name)
    return ""


if __name__ == "__main__":
    figures = estimate_retest_figures(Path(sys.argv[1]))
    target = Path(sys.argv[2])
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(figures, indent=1) + "\n")
