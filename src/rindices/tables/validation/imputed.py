"""Missing covariates: an error, or imputed on request."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import Findings, ProblemCode, format_count
from rindices.tables.participants import JoinedParticipants
from rindices.tables.validation.values import OnMissing, report_missing

_HINT = 'Mend them, set on_missing = "drop" (--on-missing drop), or impute them (--impute-covariates)'


def find_missing_covariates(
    covariates: pd.DataFrame, people: JoinedParticipants, policy: OnMissing, impute: bool, findings: Findings
) -> BoolArray:
    """Report people who lack a covariate (N, C), and return those who cannot be used (N,): none, if it is imputed."""
    lacking = np.zeros(len(covariates), dtype=bool)
    if impute:
        report_imputed(covariates[~people.unmatched], people.ids, people.where, findings)
        return lacking
    for name in covariates:
        rows = covariates[name].isna().to_numpy() & ~people.unmatched
        report_missing(rows, people.ids, f"no {name}", people.where, policy, findings, _HINT)
        lacking |= rows
    return lacking


def report_imputed(covariates: pd.DataFrame, ids: Sequence[str], where: str, findings: Findings) -> None:
    """Warn of people who lack a covariate, by name; the preprocessing predicts it from their others.

    Parameters
    ----------
    covariates : (N, C)
        Its index holds the positions of the people in ``ids``.
    ids : sequence of str
    where : str
        The file, for messages.
    findings : Findings
        Takes the warnings.
    """
    for name in covariates:
        rows = np.asarray(covariates.index[covariates[name].isna()])
        if rows.size:
            findings.warn(
                ProblemCode.MISSING_VALUES,
                f"{format_count(rows.size, 'person has', 'people have')} no {name}",
                where,
                subject=str(name),
                offenders=[ids[int(row)] for row in rows],
                ending="; it is imputed from controls",
            )
