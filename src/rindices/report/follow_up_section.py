"""Change between visits and predicted outcomes, where ``change`` and ``predict`` have written them into the folder."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from rindices.errors import StudyError
from rindices.tables.io.spreadsheet import restore_texts


@dataclass(frozen=True, eq=False)
class ChangeSection:
    """Change of R-indices between visits.

    Attributes
    ----------
    groups, retest, trial : DataFrame or None
        Contents of ``change_groups.tsv``, ``change_retest.tsv`` and ``change_trial.tsv``.
    figure : str
        ``change_groups.png`` as a data URI; '' without it.
    """

    groups: pd.DataFrame | None
    retest: pd.DataFrame | None
    trial: pd.DataFrame | None
    figure: str = ""


@dataclass(frozen=True, eq=False)
class OutcomeSection:
    """What R-indices predict.

    Attributes
    ----------
    effects, concordance : DataFrame
        Contents of ``outcome_effects.tsv`` and ``outcome_concordance.tsv``.
    figure : str
        ``outcome.png`` as a data URI; '' without it.
    """

    effects: pd.DataFrame
    concordance: pd.DataFrame | None
    figure: str = ""


def read_change_section(folder: Path) -> ChangeSection | None:
    """Return the change that ``rindices change --out`` has written into the folder of a study; None without it."""
    means = [f"{group}_per_year{end}" for group in ("controls", "patients") for end in ("", "_low", "_high")]
    difference = ["difference", "difference_low", "difference_high", "p", "q"]
    groups = _read_table(folder / "change_groups.tsv", ["index", "model", *means, *difference], "change")
    retest = _read_table(folder / "change_retest.tsv", ["index", "people", "correlation", "smallest_change"], "change")
    needed = ["index", "group", "slowing", "power", "years", "visits", "per_arm", "per_arm_low", "per_arm_high"]
    trial = _read_table(folder / "change_trial.tsv", needed, "change")
    if groups is None and retest is None and trial is None:
        return None
    return ChangeSection(groups, retest, trial, _read_figure(folder / "change_groups.png"))


def read_outcome_section(folder: Path) -> OutcomeSection | None:
    """Return what ``rindices predict --out`` has written into the folder of a study; None without it."""
    needed = ["index", "model", "regression", "n", "events", "ratio", "low", "high", "q"]
    effects = _read_table(folder / "outcome_effects.tsv", needed, "predict")
    if effects is None:
        return None
    needed = ["predictors", "concordance", "low", "high"]
    concordance = _read_table(folder / "outcome_concordance.tsv", needed, "predict")
    return OutcomeSection(effects, concordance, _read_figure(folder / "outcome.png"))


def _read_table(path: Path, columns: Sequence[str], command: str) -> pd.DataFrame | None:
    """Return a table that a command wrote; None if there is none."""
    if not path.is_file():
        return None
    table = restore_texts(pd.read_csv(path, sep="\t", keep_default_na=False, na_values=["n/a"]))
    if missing := [name for name in columns if name not in table]:
        raise StudyError(f"{path} lacks {', '.join(missing)}: write it again with rindices {command}, or remove it.")
    return table


def _read_figure(path: Path) -> str:
    return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}" if path.is_file() else ""
