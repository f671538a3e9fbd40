"""R-indices as phenotypes of genetic studies: files for PLINK 1.9, PLINK 2 and REGENIE.

Shape letters: N people.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

from rindices._typing import FloatArray
from rindices.atomic import write_atomically
from rindices.errors import InputError, format_count, join_names
from rindices.preprocess.residualise import CategoricalCovariate, CovariateCoding
from rindices.tables.cohort import ID, SESSION

_BLOM_OFFSET = 3 / 8  # of ranks in the inverse normal transform


def write_plink_files(
    indices: pd.DataFrame,
    covariates: pd.DataFrame,
    codings: tuple[CovariateCoding, ...],
    prefix: Path,
    inverse_normal: bool = False,
) -> tuple[Path, Path | None]:
    """Write R-indices as phenotypes, and covariates, to ``PREFIX.phe`` and ``PREFIX.cov``.

    indices: (N, ...), as `rindices.FittedModel.apply` returns it; covariates: (N, C), same rows; codings: of the
    covariates. Categories become columns of 0 and 1, one for each but the first; inverse_normal: replace the R-indices
    by rank-based inverse normal scores. Returns phenotypes; covariates: none if there are no covariates. Raises
    InputError: if a person has several rows, or an id contains blanks.
    """
    ids = indices[ID].astype(str)
    _check_ids(ids, has_sessions=SESSION in indices)
    names = [name for name in indices if name.startswith("r") and name[1:].isdigit()]
    phenotypes = indices[names].astype(float)
    if inverse_normal:
        phenotypes = phenotypes.apply(lambda column: compute_normal_ranks(column.to_numpy()), raw=False)
    phenotype_path, covariate_path = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("phe", "cov"))
    _write_columns(phenotype_path, ids, phenotypes)
    columns = _encode_covariates(covariates, codings)
    if columns.shape[1] == 0:
        return phenotype_path, None
    _write_columns(covariate_path, ids, columns)
    return phenotype_path, covariate_path


def compute_normal_ranks(values: FloatArray) -> FloatArray:
    """Return rank-based inverse normal scores (Blom); ties get their mean rank: (N,) -> (N,)."""
    ranks = stats.rankdata(values)
    return np.asarray(stats.norm.ppf((ranks - _BLOM_OFFSET) / (len(values) + 1 - 2 * _BLOM_OFFSET)))


def _check_ids(ids: pd.Series, has_sessions: bool) -> None:
    repeated = sorted(set(ids[ids.duplicated()]))
    if repeated:
        what = f"{format_count(len(repeated), 'person has', 'people have')} several rows: {join_names(repeated)}."
        unit = "session" if has_sessions else "row"
        raise InputError(f"{what} Genetic studies take one {unit} of each: keep one row a person.")
    blank = [name for name in ids if len(name.split()) != 1]
    if blank:
        raise InputError(f"ids for PLINK cannot contain blanks: {join_names(blank)}. Rename them.")


def _encode_covariates(covariates: pd.DataFrame, codings: tuple[CovariateCoding, ...]) -> pd.DataFrame:
    """Return numeric columns: numbers as they are, 0 and 1 for each category but the first."""
    columns: dict[str, FloatArray] = {}
    for coding in codings:
        if isinstance(coding, CategoricalCovariate):
            indicators = coding.encode(covariates[coding.name])
            levels = [f"{coding.name}_{level}" for level in coding.levels[1:]]
            columns |= dict(zip(levels, indicators.T, strict=True))
        else:
            columns[coding.name] = covariates[coding.name].to_numpy(dtype=float)
    return pd.DataFrame({"_".join(name.split()): column for name, column in columns.items()})


def _write_columns(path: Path, ids: pd.Series, columns: pd.DataFrame) -> None:
    """Write family id, individual id (both are the participant) and columns, separated by tabs."""
    table = columns.set_axis(ids.index, axis=0)
    table.insert(0, "IID", ids)
    table.insert(0, "FID", ids)
    write_atomically(path, table.to_csv(None, sep="\t", index=False, na_rep="NA", lineterminator="\n").encode())
