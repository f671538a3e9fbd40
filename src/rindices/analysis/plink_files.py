"""R-indices as phenotypes of genetic studies: files for PLINK 1.9, PLINK 2 and REGENIE."""

from pathlib import Path

import pandas as pd

from rindices._typing import FloatArray
from rindices.atomic import write_atomically
from rindices.errors import InputError, join_names
from rindices.preprocess.residualise import CategoricalCovariate, CovariateCoding
from rindices.tables.cohort import ID


def write_plink_files(
    indices: pd.DataFrame, covariates: pd.DataFrame, codings: tuple[CovariateCoding, ...], prefix: Path
) -> None:
    """Write R-indices as phenotypes to ``PREFIX.phe`` and covariates, if there are any, to ``PREFIX.cov``.

    indices: as `rindices.FittedModel.apply` returns it, one row per person; covariates: same rows; codings: of the
    covariates. Categories become columns of 0 and 1, one for each but the first. Raises InputError: if an id contains
    blanks.
    """
    ids = indices[ID].astype(str)
    blank = [name for name in ids if len(name.split()) != 1]
    if blank:
        raise InputError(f"ids for PLINK cannot contain blanks: {join_names(blank)}. Rename them.")
    columns: dict[str, FloatArray] = {}
    for coding in codings:
        if isinstance(coding, CategoricalCovariate):
            names = [f"{coding.name}_{level}" for level in coding.levels[1:]]
            columns |= dict(zip(names, coding.encode(covariates[coding.name]).T, strict=True))
        else:
            columns[coding.name] = covariates[coding.name].to_numpy(dtype=float)
    encoded = pd.DataFrame({"_".join(name.split()): column for name, column in columns.items()}, ids.index)
    for suffix, table in (("phe", indices.filter(regex=r"^r\d+$")), ("cov", encoded)):
        if table.shape[1]:
            content = pd.concat([ids.rename("FID"), ids.rename("IID"), table], axis=1)
            text = content.to_csv(None, sep="\t", index=False, na_rep="NA", lineterminator="\n")
            write_atomically(prefix.with_name(f"{prefix.name}.{suffix}"), text.encode())
