"""Harmonise the tables of a file by packages of others. Run by
``benchmarks.harmonise_methods`` in an environment of its own, without rindices.
"""

import sys
import warnings

import numpy as np
import pandas as pd


def learn_from_controls(case: dict[str, np.ndarray]) -> np.ndarray:
    """Return values (N, R) without site effects that neuroHarmonize learns from the
    people of a mask.
    """
    import neuroHarmonize

    covariates = pd.DataFrame(case["design"], columns=list(case["names"]))
    covariates.insert(0, "SITE", case["site"].astype(str))
    used = case["learnt_from"]
    model, _ = neuroHarmonize.harmonizationLearn(
        case["values"][used], covariates[used].reset_index(drop=True)
    )
    return np.asarray(
        neuroHarmonize.harmonizationApply(case["values"], covariates, model)
    )


def combine_visits(case: dict[str, np.ndarray]) -> np.ndarray:
    """Return values (N, R) without site effects by longitudinal ComBat (Beer and others
    2020) of all visits of everyone; the group is preserved.
    """
    from combatlearn.core import ComBatModel

    design = pd.DataFrame(case["design"], columns=list(case["names"]))
    arguments = {
        "batch": case["site"].astype(str),
        "discrete_covariates": case["group"].astype(str)[:, None],
        "continuous_covariates": design,
        "subject_id": case["person"],
        "time_covariate": case["time"],
    }
    model = ComBatModel(method="longitudinal")
    model.fit(case["values"], **arguments)
    return np.asarray(model.transform(case["values"], **arguments))


METHODS = {"neuroHarmonize": learn_from_controls, "longitudinal ComBat": combine_visits}


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    method, path, out = sys.argv[1:]
    with np.load(path, allow_pickle=False) as file:
        np.save(out, METHODS[method](dict(file)))
