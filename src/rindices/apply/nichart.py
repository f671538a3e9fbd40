"""R-indices as NiChart's viewer reads them: one file in the folder of a NiChart study.

The names are those of NiChart's own files, which are kept as data, with the commit they
were read at, in ``integrations/nichart/nichart.toml`` of the repository.
"""

from pathlib import Path

import pandas as pd

from rindices.apply.tables import SEPARATORS
from rindices.atomic import atomic_path
from rindices.errors import ModelError, Problem, ProblemCode, Severity
from rindices.tables.checks.ids import match_ids
from rindices.tables.cohort import ID, SESSION
from rindices.tables.sources.spreadsheet import protect_texts

LAYOUT = "nichart"
SCORES = Path("ml_biomarkers", "SurrealGAN_RScores.csv")
"""The file that the viewer reads, in the folder of a study."""
DETAILS = "r_indices.tsv"
"""The table with intervals and everything else, beside that file."""
ID_COLUMN = "MRID"
SCORE_PREFIX = "SurrealGAN_R"
VIEWED_MODEL, VIEWED_SCORES = "brain_aging_5rindices", 5
"""The model whose R-indices the viewer draws as dimensions of ageing, and their
number.
"""


def locate_scores(out: Path) -> Path:
    """Return the file of scores for an output: itself if it is a .csv file, or the one
    in the folder of a study.

    Raises
    ------
    ModelError
        If there is no such folder, or the file has another suffix.
    """
    scores = out if out.suffix else out / SCORES
    is_study = out.is_dir() or bool(out.suffix)
    if scores.suffix != ".csv" or not is_study or not out.absolute().parent.is_dir():
        raise ModelError(
            f"{out} is neither the folder of a NiChart study nor a .csv file in an existing folder: give one of them"
        )
    return scores


def write_scores(details: Path, scores: Path, participants: Path | None) -> int:
    """Write the R-indices of a table as NiChart's scores.

    Parameters
    ----------
    details : Path
        R-indices that `rindices.apply.tables.write_indices` wrote.
    scores : Path
        The file to write.
    participants : Path or None
        Where it has the column ``MRID``, people are called as there, because the
        viewer joins the two files by it.

    Returns
    -------
    int
        Number of R-indices.
    """
    table = pd.read_csv(details, sep=SEPARATORS[details.suffix], dtype={ID: str})
    names = table[ID].astype(str)
    if SESSION in table:
        names = names + "_" + table[SESSION].astype(str)
    indices = table.filter(regex=r"^r\d+$")
    result = indices.rename(columns=lambda name: f"{SCORE_PREFIX}{name[1:]}")
    result.insert(0, ID_COLUMN, _find_viewer_names(names, participants))
    with atomic_path(scores, is_private=True) as temporary_path:
        protect_texts(result).to_csv(temporary_path, index=False, lineterminator="\n")
    return len(indices.columns)


def _find_viewer_names(names: pd.Series, participants: Path | None) -> pd.Series:
    """Return the names of people as a table of participants of NiChart spells them."""
    if participants is None or participants.suffix != ".csv":
        return names
    columns = pd.read_csv(participants, nrows=0).columns
    if ID_COLUMN not in columns:
        return names
    known = pd.read_csv(participants, usecols=[ID_COLUMN], dtype=str)[ID_COLUMN]
    pairs = match_ids(names, known.dropna()).pairs
    return names.map(lambda name: pairs.get(name, name))


def note_viewer(model: str, number: int) -> list[Problem]:
    """Return a note about R-indices that the viewer does not show as what they are."""
    if model == VIEWED_MODEL:
        return []
    shown = f"the viewer of NiChart draws {SCORE_PREFIX}1 to {VIEWED_SCORES} as the dimensions of brain ageing"
    what = f"{shown}; these are {number} R-indices of another model"
    return [
        Problem(severity=Severity.NOTE, what=what, code=ProblemCode.MISSING_OUTPUTS)
    ]
