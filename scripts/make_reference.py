"""Compute the parameters of the reference generator from the IXI table of MUSE volumes.

Usage: ``python scripts/make_reference.py ../shared/data/ixi
src/rindices/model/data/reference_muse.npz``

Healthy people under 70. Summary statistics only: for each of the 139 regions the
coefficients of log volume on age, sex and log intracranial volume and the residual's
standard deviation; the residuals' correlation (Ledoit-Wolf); the deciles of age; the
coefficients of log intracranial volume on age and sex.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.covariance import ledoit_wolf

import rindices as ri
from rindices.experiments.reference import AGE_CENTRE, LOG_ICV_CENTRE

MAX_AGE = 70


def fit_least_squares(
    target: np.ndarray, *columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return the coefficients (1 + C, ...) and the residuals of a least-squares fit."""
    design = np.column_stack([np.ones(len(target)), *columns])
    coefficients = np.linalg.lstsq(design, target, rcond=None)[0]
    return coefficients, target - design @ coefficients


def main(source: Path, target: Path) -> None:
    """Read the IXI table and write the parameters."""
    cohort = ri.read_cohort(
        source / "volumes.csv",
        source / "demographics.csv",
        covariates=["Age", "Sex", "icv"],
    )
    young = cohort.take((cohort.covariates["Age"] < MAX_AGE).to_numpy())
    age = young.covariates["Age"].to_numpy() - AGE_CENTRE
    male = (young.covariates["Sex"] == "M").to_numpy(dtype=float)
    log_icv = np.log(young.covariates["icv"].to_numpy())
    icv_coefficients, icv_residuals = fit_least_squares(log_icv, age, male)
    logs = np.log(young.volumes.to_numpy())
    coefficients, residuals = fit_least_squares(
        logs, age, male, log_icv - LOG_ICV_CENTRE
    )
    correlation, shrinkage = ledoit_wolf(residuals / residuals.std(axis=0))
    correlation /= np.sqrt(np.outer(np.diag(correlation), np.diag(correlation)))
    np.savez_compressed(
        target,
        codes=np.array(
            [int(name.removeprefix("MUSE_")) for name in young.regions], dtype=np.int16
        ),
        coefficients=coefficients.astype(np.float32),
        sd=residuals.std(axis=0, ddof=4).astype(np.float32),
        correlation=correlation[np.tril_indices(len(correlation), -1)].astype(
            np.float32
        ),
        age=np.quantile(age + AGE_CENTRE, np.linspace(0, 1, 11)).astype(np.float32),
        male=np.float32(male.mean()),
        icv=np.array([*icv_coefficients, icv_residuals.std(ddof=3)], dtype=np.float32),
    )
    size = target.stat().st_size
    print(
        f"{len(young)} people under {MAX_AGE}, shrinkage {shrinkage:.3f}, {size / 1000:.0f} kB written to {target}"
    )
    print(pd.Series(young.covariates["Age"]).describe().round(1).to_dict())


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
