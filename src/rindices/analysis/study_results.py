"""Read the results of a study for its report."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TypeVar

import pandas as pd

from rindices.analysis.associate import discount_inputs
from rindices.analysis.model_columns import ModelInputs, find_used_columns
from rindices.errors import StudyError
from rindices.json_files import read_json
from rindices.learners.inference import SEVERITY_LEVELS
from rindices.model.findings import (
    CountedPeople,
    GroupCounts,
    StudyFindings,
    collect_findings,
)
from rindices.model.fitted import FittedModel, load
from rindices.model.pattern_tables import make_change_table
from rindices.model.records import (
    CandidateRecord,
    CohortRecord,
    FailureRecord,
    RealismRecord,
    Record,
    SelectionRecord,
)
from rindices.old_names import OLD_COLUMNS, OLD_FILES
from rindices.study.site_effects import SITE_DESCRIPTIONS
from rindices.study.subgroups import SUBGROUP_DESCRIPTIONS
from rindices.tables.checks.groups import PATIENT
from rindices.tables.cohort import GROUP, ID, SESSION
from rindices.tables.sources.spreadsheet import restore_texts

AnyRecord = TypeVar("AnyRecord", bound=Record)
_EFFECT_COLUMNS = ("region", "d", "low", "high", "q")
_SECTIONS = {
    "change": {
        "change_groups": "index model controls_per_year controls_per_year_low controls_per_year_high patients_per_year "
        "patients_per_year_low patients_per_year_high difference difference_low difference_high p q",
        "change_retest": "index people correlation smallest_change",
        "change_trial": "index group slowing power years visits per_arm per_arm_low per_arm_high",
    },
    "predict": {
        "outcome_effects": "index model regression n events ratio low high q",
        "outcome_concordance": "predictors concordance low high",
    },
    "replicate": {"replication": "first second correlation p matched"},
}
"""Tables that commands add to the folder of a study, with the columns that the page
shows.
"""
N_LISTED_REGIONS = 14
"""Regions of a pattern that the page lists; the data of the figure hold all."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TrainingResults:
    """What a study with networks has written of their training.

    A study without a model has only the first two.

    Attributes
    ----------
    history : DataFrame
        Content of ``training.tsv``.
    members : DataFrame
        Content of ``members.tsv``.
    synthetic : DataFrame or None
        Content of ``synthetic.tsv``.
    transformation : DataFrame or None
        Content of ``transformation.tsv``.
    realism : RealismRecord or None
        Content of ``realism.json``.
    """

    history: pd.DataFrame
    members: pd.DataFrame
    synthetic: pd.DataFrame | None = None
    transformation: pd.DataFrame | None = None
    realism: RealismRecord | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class StudyResults:
    """Everything that a report shows.

    Attributes
    ----------
    model : FittedModel
        The model of the study.
    selection : SelectionRecord
        Why this number of patterns.
    findings : StudyFindings
        What the study found, and its warnings.
    cohort : CohortRecord
        Numbers of people and their covariates.
    indices : DataFrame
        ``group`` and ``r1`` to ``rM``, one row per person, without IDs because a report
        may be passed on.
    patterns : DataFrame
        See `make_change_table`.
    effects : DataFrame
        Content of ``effects.tsv``.
    associations : DataFrame or None
        Result of ``rindices associate``, if the folder has one.
    widths : dict
        Median width of the patients' intervals of each R-index. Empty where there are
        no intervals.
    novel : int or None
        Number of people outside the training range.
    change : SimpleNamespace or None
        Result of ``rindices change``, if the folder has one.
    outcome : SimpleNamespace or None
        Result of ``rindices predict``, if the folder has one.
    replication : SimpleNamespace or None
        Result of ``rindices replicate``, if the folder has one.
    outlying_measurements : DataFrame or None
        Content of ``outlying_measurements.tsv``, without IDs.
    subgroups : DataFrame or None
        Content of ``subgroups.tsv``, without names of sites.
    site_effects : DataFrame or None
        Content of ``site_effects.tsv``.
    training : TrainingResults or None
        Training of a study with networks.
    """

    model: FittedModel
    selection: SelectionRecord
    findings: StudyFindings
    cohort: CohortRecord
    indices: pd.DataFrame
    patterns: pd.DataFrame
    effects: pd.DataFrame
    associations: pd.DataFrame | None = None
    widths: dict[str, float] = field(default_factory=dict)
    novel: int | None = None
    change: SimpleNamespace | None = None
    outcome: SimpleNamespace | None = None
    replication: SimpleNamespace | None = None
    outlying_measurements: pd.DataFrame | None = None
    subgroups: pd.DataFrame | None = None
    site_effects: pd.DataFrame | None = None
    training: TrainingResults | None = None

    @property
    def is_mean_difference(self) -> bool:
        """Whether the model has one index along the mean difference instead of
        patterns.
        """
        return self.selection.finding == "mean_difference"

    @property
    def names(self) -> list[str]:
        """``r1`` to ``rM``."""
        return self.model.index_names

    @property
    def chosen(self) -> CandidateRecord:
        """The record of the chosen setting."""
        assert self.selection.chosen is not None
        return self.selection.chosen

    def select_group(self, group: str) -> pd.DataFrame:
        """Return the R-indices of controls or patients."""
        return self.indices.loc[self.indices[GROUP] == group, self.names]

    def select_pattern(
        self, name: str, severity: float = SEVERITY_LEVELS[-1]
    ) -> pd.DataFrame:
        """Return the change of each region under a pattern at a severity."""
        return self.patterns[
            (self.patterns["pattern"] == name) & (self.patterns["severity"] == severity)
        ]

    def list_top_regions(
        self, name: str, number: int = N_LISTED_REGIONS
    ) -> pd.DataFrame:
        """Return the largest changes of a pattern at full severity whose interval
        excludes 0, or of all without one.
        """
        rows = self.select_pattern(name)
        if not rows["low"].isna().any():
            rows = rows[(rows["low"] > 0) | (rows["high"] < 0)]
        return rows.reindex(
            rows["change"].abs().sort_values(ascending=False, kind="stable").index
        ).head(number)

    def get_effects(
        self, name: str, severity: float = SEVERITY_LEVELS[-1]
    ) -> dict[str, float]:
        """Return the change of each region under a pattern at a severity, by region."""
        rows = self.select_pattern(name, severity)
        return dict(zip(rows["region"], rows["change"].astype(float), strict=True))


@dataclass(frozen=True, eq=False, kw_only=True)
class NullResults:
    """What a study writes in which no pattern was detected.

    Attributes
    ----------
    cohort : CohortRecord
        Numbers of people and their covariates.
    selection : SelectionRecord
        The tests of the number of patterns.
    findings : StudyFindings
        What the study found, and its warnings.
    effects : DataFrame
        Content of ``effects.tsv``.
    outlying_measurements : DataFrame or None
        Content of ``outlying_measurements.tsv``.
    """

    cohort: CohortRecord
    selection: SelectionRecord
    findings: StudyFindings
    effects: pd.DataFrame
    outlying_measurements: pd.DataFrame | None = None


def read_null_results(folder: Path) -> NullResults | None:
    """Read the folder of a study in which no pattern was detected; None for any other
    folder.
    """
    paths = [folder / name for name in ("selection.json", "cohort.json", "effects.tsv")]
    if (folder / "model.safetensors").is_file() or not all(
        path.is_file() for path in paths
    ):
        return None
    selection = read_record(paths[0], SelectionRecord)
    if selection.chosen is not None:
        return None
    effects, outlying_measurements = (
        _read_table(paths[2], _EFFECT_COLUMNS),
        _read_outlying_measurements(folder),
    )
    return NullResults(
        cohort=read_record(paths[1], CohortRecord),
        selection=selection,
        findings=read_findings(folder, None, selection),
        effects=effects,
        outlying_measurements=outlying_measurements,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class FailedResults:
    """What a study writes whose members failed.

    Attributes
    ----------
    cohort : CohortRecord
        Numbers of people and their covariates.
    failure : FailureRecord
        Why it failed, and what to change.
    effects : DataFrame
        Content of ``effects.tsv``.
    training : TrainingResults
        How the members were trained.
    """

    cohort: CohortRecord
    failure: FailureRecord
    effects: pd.DataFrame
    training: TrainingResults


def read_failed_results(folder: Path) -> FailedResults | None:
    """Read the folder of a study whose members failed; None for any other folder."""
    paths, training = (
        [folder / name for name in ("failure.json", "cohort.json", "effects.tsv")],
        read_training(folder),
    )
    if training is None or not all(path.is_file() for path in paths):
        return None
    return FailedResults(
        failure=read_record(paths[0], FailureRecord),
        cohort=read_record(paths[1], CohortRecord),
        effects=_read_table(paths[2], _EFFECT_COLUMNS),
        training=training,
    )


def read_findings(
    folder: Path, model: FittedModel | None, selection: SelectionRecord
) -> StudyFindings:
    """Return what a study found; of a folder that rindices 0.1.0 wrote, what its other
    files say.
    """
    path = folder / "findings.json"
    if path.is_file():
        return read_record(path, StudyFindings)
    cohort = read_record(folder / "cohort.json", CohortRecord)
    participants = GroupCounts(controls=cohort.controls, patients=cohort.patients)
    return collect_findings(model, selection, people=CountedPeople(participants))


def _check_files(folder: Path) -> None:
    """Refuse a folder without a finished study."""
    required = "model.safetensors selection.json cohort.json effects.tsv r_indices.tsv"
    missing = [name for name in required.split() if not (folder / name).is_file()]
    if missing:
        raise StudyError(
            f"{folder} has no {', '.join(missing)}: fit the study into it first: rindices fit study.toml --out {folder}"
        )


def _read_indices(folder: Path, names: Sequence[str]) -> pd.DataFrame:
    """Read the R-indices with these names of people who have all of them."""
    indices = read_index_file(folder)
    missing = [name for name in (GROUP, *names) if name not in indices]
    if missing:
        raise StudyError(
            f"{folder / 'r_indices.tsv'} lacks {', '.join(missing)}: fit the study again."
        )
    return indices[indices[list(names)].notna().all(axis=1)].reset_index(drop=True)


def _read_selection(path: Path) -> SelectionRecord:
    """Read how the setting of a study was chosen."""
    selection = omit_single_weight(read_record(path, SelectionRecord))
    if selection.chosen is None:
        raise StudyError(f"{path} names no chosen setting: fit the study again.")
    return selection


def read_study_results(folder: Path) -> StudyResults:
    """Read the folder of a finished study."""
    _check_files(folder)
    model = load(folder / "model.safetensors")
    names = model.index_names
    indices = _read_indices(folder, names)
    selection = _read_selection(folder / "selection.json")
    patients = indices[indices[GROUP] == PATIENT]
    bounded = [
        name for name in names if f"{name}_low" in indices and f"{name}_high" in indices
    ]
    replication, text = (
        read_section(folder, "replicate", "replication.png"),
        folder / "replication.txt",
    )
    if replication is not None:
        replication.text = text.read_text("utf-8") if text.is_file() else ""
    return StudyResults(
        model=model,
        selection=selection,
        findings=read_findings(folder, model, selection),
        cohort=read_record(folder / "cohort.json", CohortRecord),
        indices=indices[[GROUP, *names]],
        patterns=make_change_table(model),
        associations=_read_associations(folder, model),
        widths={
            name: float((patients[f"{name}_high"] - patients[f"{name}_low"]).median())
            for name in bounded
        },
        novel=(
            int(indices["outside_training_range"].sum())
            if "outside_training_range" in indices
            else None
        ),
        effects=_read_table(folder / "effects.tsv", _EFFECT_COLUMNS),
        change=read_section(folder, "change", "change.png"),
        outcome=read_section(folder, "predict", "outcome.png"),
        replication=replication,
        outlying_measurements=_read_outlying_measurements(folder),
        subgroups=_read_subgroups(folder),
        site_effects=_read_if_written(
            folder / "site_effects.tsv", list(SITE_DESCRIPTIONS), "fit"
        ),
        training=read_training(folder),
    )


def read_training(folder: Path) -> TrainingResults | None:
    """Return what a study with networks has written of their training; None for other
    studies.
    """
    history = _read_if_written(folder / "training.tsv", ("member", "step"), "fit")
    members = _read_if_written(
        folder / "members.tsv",
        ("member", "steps", "outcome", "met_bars", "used"),
        "fit",
    )
    if history is None or members is None:
        return None
    realism, moments = (
        folder / "realism.json",
        ("mean_real", "mean_synthetic", "sd_real", "sd_synthetic"),
    )
    return TrainingResults(
        history=history,
        members=members,
        synthetic=_read_if_written(
            folder / "synthetic.tsv", ("region", *moments), "fit"
        ),
        transformation=_read_if_written(
            folder / "transformation.tsv",
            ("pattern", "severity", "region", "change"),
            "fit",
        ),
        realism=read_record(realism, RealismRecord) if realism.is_file() else None,
    )


def _read_associations(folder: Path, model: FittedModel) -> pd.DataFrame | None:
    """Return the content of ``associations.tsv`` without regions of the model; what it
    adjusts for has no q.
    """
    columns = ("index", "variable", "n", "correlation", "low", "high", "p", "q", "note")
    table = _read_if_written(folder / "associations.tsv", columns, "associate")
    if table is None:
        return None
    used = find_used_columns(
        table["variable"].astype(str).unique(), ModelInputs.of(model)
    )
    is_used = table["variable"].isin([name for names in used for name in names])
    rows = table[~table["variable"].isin([*used.regions, *used.sums])]
    is_counted = (
        table.loc[is_used, "q"].notna().any()
    )  # written without knowing the model
    return discount_inputs(rows, used) if is_counted else rows


def _read_outlying_measurements(folder: Path) -> pd.DataFrame | None:
    """Return ``person`` (a number), ``region``, ``value`` and ``expected`` of outlying
    measurements; None without any.
    """
    columns = ["region", "value", "expected"]
    path = folder / "outlying_measurements.tsv"
    if not path.exists():
        path = folder / OLD_FILES[path.name]
    table = _read_if_written(path, [ID, *columns], "fit")
    return (
        None
        if table is None
        else table[columns].assign(person=pd.factorize(table[ID])[0])
    )


def _read_subgroups(folder: Path) -> pd.DataFrame | None:
    table = _read_if_written(
        folder / "subgroups.tsv", list(SUBGROUP_DESCRIPTIONS), "fit"
    )
    if table is not None:
        is_site = table["variable"] == "site"
        table["level"] = table["level"].astype(str)
        numbers = pd.factorize(table.loc[is_site, "level"])[0] + 1
        table.loc[is_site, "level"] = [f"site {number}" for number in numbers]
    return table


def read_index_file(folder: Path) -> pd.DataFrame:
    """Return the content of ``r_indices.tsv`` with the present names of its columns;
    ids are text.
    """
    table = pd.read_csv(
        folder / "r_indices.tsv", sep="\t", dtype=dict.fromkeys((ID, SESSION), str)
    )
    return restore_texts(table.rename(columns=OLD_COLUMNS))


def read_section(folder: Path, command: str, figure: str) -> SimpleNamespace | None:
    """Return the tables that a command has written into the folder of a study, and its
    figure, or None if there are none.
    """
    tables = {
        name.partition("_")[2] or "table": _read_if_written(
            folder / f"{name}.tsv", columns.split(), command
        )
        for name, columns in _SECTIONS[command].items()
    }
    if all(table is None for table in tables.values()):
        return None
    return SimpleNamespace(**tables, figure=_read_figure(folder / figure))


def _read_if_written(
    path: Path, columns: Sequence[str], command: str
) -> pd.DataFrame | None:
    return _read_table(path, columns, command) if path.is_file() else None


def _read_table(
    path: Path, columns: Sequence[str], command: str = "fit"
) -> pd.DataFrame:
    """Return a table that a command wrote."""
    table = restore_texts(
        pd.read_csv(path, sep="\t", keep_default_na=False, na_values=["n/a"])
    )
    table = table.rename(columns={"feature": "region"})
    if missing := [name for name in columns if name not in table]:
        cure = (
            "fit the study again"
            if command == "fit"
            else f"write it again (rindices {command}), or remove it"
        )
        raise StudyError(f"{path} lacks {', '.join(missing)}: {cure}.")
    return table


def _read_figure(path: Path) -> str:
    """Return a picture as a data URI; '' without it."""
    return (
        f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"
        if path.is_file()
        else ""
    )


def read_record(path: Path, kind: type[AnyRecord]) -> AnyRecord:
    """Read a JSON file that a study wrote."""
    try:
        return kind.from_dict(read_json(path))
    except (OSError, ValueError) as error:
        raise StudyError(
            f"{path} cannot be read ({error}): fit the study again."
        ) from error


def omit_single_weight(selection: SelectionRecord) -> SelectionRecord:
    """Return a selection whose settings have no weight λ if only one was tried: it is
    then no part of the choice.
    """
    if len({candidate.setting.orthogonality for candidate in selection.grid}) != 1:
        return selection
    return selection.model_copy(
        update={
            "chosen": None
            if selection.chosen is None
            else _omit_weight(selection.chosen),
            "grid": tuple(_omit_weight(candidate) for candidate in selection.grid),
            "ties": tuple(
                setting.model_copy(update={"orthogonality": None})
                for setting in selection.ties
            ),
        }
    )


def _omit_weight(candidate: CandidateRecord) -> CandidateRecord:
    return candidate.model_copy(
        update={"setting": candidate.setting.model_copy(update={"orthogonality": None})}
    )
