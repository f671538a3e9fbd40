"""What a page that stays at home shows of each person: id, covariates, and the regions that speak for each R-index.

Shape letters: N people, R regions, M patterns, K listed regions.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from rindices._typing import FloatArray, IntArray
from rindices.errors import StudyError
from rindices.tables.cohort import ID, SESSION

PEOPLE_FILE = "people.npz"
_COVARIATE_PREFIX = "covariate."
_MAX_REGION_CELLS = 240_000  # regions of people that a page lists, which bounds its size
_MAX_LISTED_REGIONS = 8  # for each person and R-index


@dataclass(frozen=True, eq=False)
class PersonDetails:
    """Ids, covariates and regions of people, in the order of ``r_indices.tsv``.

    Attributes
    ----------
    ids : list of str
        (N,), with the session where there are sessions.
    covariates : DataFrame
        (N, C); no columns in an older study.
    regions : (N, R) or None
        In standard deviations of controls; None in an older study.
    """

    ids: list[str]
    covariates: pd.DataFrame
    regions: FloatArray | None


class SpeakingRegions(NamedTuple):
    """Regions that speak most for the R-indices of each person, strongest first.

    Attributes
    ----------
    positions : (N, M, K)
        Of the regions in the model.
    values : (N, M, K)
        The regions, in standard deviations of controls.
    """

    positions: IntArray
    values: FloatArray


def read_person_details(folder: Path, indices: pd.DataFrame) -> PersonDetails:
    """Read ids, covariates and regions of the people of a study.

    Parameters
    ----------
    folder : Path
        Of a finished study.
    indices : DataFrame
        Content of its ``r_indices.tsv``.
    """
    columns = [indices[name].astype(str) for name in (ID, SESSION) if name in indices]
    ids = [" ".join(texts) for texts in zip(*columns, strict=True)]
    path = folder / PEOPLE_FILE
    if not path.is_file():
        return PersonDetails(ids, pd.DataFrame(index=indices.index), None)
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except (OSError, ValueError, EOFError) as error:
        raise StudyError(f"{path} cannot be read ({error}): run rindices fit again.") from error
    regions = arrays.pop("regions").astype(float)
    if len(regions) != len(indices):
        raise StudyError(f"{path} and r_indices.tsv have different people: run rindices fit again.")
    covariates = {name.removeprefix(_COVARIATE_PREFIX): column for name, column in arrays.items()}
    return PersonDetails(ids, pd.DataFrame(covariates, index=indices.index), regions)


def find_speaking_regions(regions: FloatArray, changes: FloatArray) -> SpeakingRegions:
    """Return the regions that look as the pattern of each R-index says.

    The evidence of a region is its log-likelihood ratio, taken alone: with all patterns at the person's severities,
    against all but this one. It is half the difference of two squared distances, in standard deviations of controls.

    Parameters
    ----------
    regions : (N, R)
        In standard deviations of controls; missing cells are NaN.
    changes : (N, M, R)
        Change by each pattern at the person's severities.

    Returns
    -------
    SpeakingRegions
    """
    number = min(_MAX_REGION_CELLS // max(changes.shape[0] * changes.shape[1], 1), _MAX_LISTED_REGIONS)
    expected = changes.sum(axis=1)
    evidence = np.empty(changes.shape, dtype=np.float32)
    for k in range(changes.shape[1]):
        without = expected - changes[:, k]
        evidence[:, k] = np.nan_to_num((np.square(regions - without) - np.square(regions - expected)) / 2)
    positions = np.argsort(-evidence, axis=2, kind="stable")[:, :, :number]
    return SpeakingRegions(positions, np.take_along_axis(regions[:, None], positions, axis=2))
