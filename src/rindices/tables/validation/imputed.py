"""Missing covariates: an error, or imputed on request."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rindices._typing import BoolArray
from rindices.errors import Findings, ProblemCode, format_count
from rindices.tables.participants import JoinedParticipants


def find_covariate_gaps(
    covariates: pd.DataFrame, people: JoinedParticipants, impute: bool, findings: Findings
) -> list[tuple[str, BoolArray, str]]:
    """Return the gap, the people who have it (N,) and the file, for each covariate (N, C); nothing if imputed."""
    if not impute:
        return [(f"no {name}", covariates[name].isna().to_numpy(), people.where) for name in covariates]
    report_imputed(covariates[~people.unmatched], people.ids, people.where, findings)
    return []


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
