"""Files of a study: the model, the R-indices, the patterns, the people and the
selection.
"""

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from scipy import stats

from rindices._version import __version__
from rindices.apply.tables import write_indices
from rindices.atomic import delete_temporary_files, write_atomically, write_json
from rindices.errors import Problem, ProblemCode, RindicesError, Severity, join_names
from rindices.json_files import read_json
from rindices.learners.ensemble import Member
from rindices.model.findings import StudyFindings
from rindices.model.fitted import FittedModel
from rindices.model.pattern_tables import (
    get_shape,
    make_change_table,
    make_course_table,
)
from rindices.model.records import (
    CohortRecord,
    FailureRecord,
    SelectionRecord,
    describe_adjustment,
)
from rindices.model.scale import describe_scale
from rindices.selection.group_difference import RegionEffects
from rindices.study.config import StudyConfig, format_study_toml, read_study
from rindices.study.exceptions import TrainingFailedError
from rindices.study.networks import (
    make_member_table,
    make_realism_record,
    make_synthetic_table,
    make_training_table,
    make_transformation_table,
)
from rindices.study.provenance import collect_provenance
from rindices.study.site_effects import make_site_table
from rindices.study.study import Study, StudyPeople
from rindices.study.subgroups import make_subgroup_table
from rindices.tables.cohort import PERSON_COLUMNS, describe_cohort
from rindices.tables.sources.spreadsheet import protect_texts
from rindices.wording import get_wording, load_columns

if TYPE_CHECKING:
    from rindices.learners.gan.describe import NetworkEnsemble

STUDY_FILE, DESCRIPTION_FILE = "study.toml", "dataset_description.json"
OUTPUT_FILES = (
    *(
        "model.safetensors",
        "r_indices.tsv",
        "r_indices.json",
        "selection.json",
        "findings.json",
    ),
    *(
        "r_indices_visits.tsv",
        "r_indices_visits.json",
        "outlying_measurements.tsv",
        "outlying_measurements.json",
    ),
    *(
        "patterns.tsv",
        "patterns.json",
        "effects.tsv",
        "effects.json",
        "cohort.json",
        "report.html",
    ),
    *("subgroups.tsv", "subgroups.json", "checklist.md"),
    *("site_effects.tsv", "site_effects.json"),
    *(
        "trajectories.tsv",
        "trajectories.json",
        DESCRIPTION_FILE,
        "rounds.json",
        "federation.json",
    ),
    *(
        "networks.safetensors",
        "training.tsv",
        "training.json",
        "members.tsv",
        "members.json",
        "realism.json",
    ),
    *(
        "synthetic.tsv",
        "synthetic.json",
        "transformation.tsv",
        "transformation.json",
        "failure.json",
    ),
)
"""Files of a study, except ``study.toml`` and ``runs/``."""
FIGURE_FOLDER, FIGURE_FORMATS = "figures", ("pdf", "svg", "png")
"""Where ``rindices figures`` writes, and in which formats."""
MAP_FOLDER = "maps"
"""Where it writes patterns as maps, below the figures."""
REPORT_FIGURE = "report_{}.svg"
"""File of a figure of the report, in the same folder."""
_FIGURES = (
    *("patterns", "region_heatmap", "forest", "course", "severities", "pairs"),
    *("number", "reproducibility", "associations", "site_effects", "subgroups"),
    "training",
)
DERIVED_FILES = (
    *(
        "associations.tsv",
        "associations.json",
        "change.tsv",
        "change.json",
        "change.png",
    ),
    *("change_groups.png", "outcome.png"),
    *("replication.tsv", "replication.json", "replication.txt", "replication.png"),
    *("replication_people.tsv", "replication_people.json"),
    *(
        f"change_{name}.{suffix}"
        for name in ("groups", "retest", "trial", "scanners")
        for suffix in ("tsv", "json")
    ),
    *(
        f"outcome_{name}.{suffix}"
        for name in ("effects", "concordance", "survival")
        for suffix in ("tsv", "json")
    ),
    *(
        f"{FIGURE_FOLDER}/{name}.{suffix}"
        for name in _FIGURES
        for suffix in FIGURE_FORMATS
    ),
    *(
        f"{FIGURE_FOLDER}/{name}"
        for name in ("captions.md", "table1.csv", "methods.md")
    ),
)
"""Files of ``rindices associate``, ``figures``, ``change``, ``predict`` and
``replicate``, most of which a report beside them shows.
"""
_FIRST_NAMED = ("model.safetensors", "r_indices.tsv", "report.html", *DERIVED_FILES)
"""Files that a message about a replaced study names before others."""
_DIGEST_KEY = "StudyDigest"


def write_study(
    folder: Path, study: Study, model: FittedModel, problems: Iterable[Problem]
) -> None:
    """Write the people, the groups' difference, the model, the R-indices, the patterns
    and the selection of a study; without R-indices, what there is.

    ``trajectories.tsv`` is written only for staged patterns, networks and their
    training only for members with networks.

    problems: for ``cohort.json``.
    """
    _write_people(folder, study, problems)
    cohort, unit = study.cohort, study.cohort.unit
    assert model.selection is not None
    assert model.findings is not None
    write_selection(folder, model.selection)
    write_findings(folder, model.findings)
    if model.indices is None:
        return
    write_patterns(folder, model, unit)
    write_indices(model.indices, folder / "r_indices.tsv", unit, describe_scale(model))
    subgroups = make_subgroup_table(
        cohort, model.indices, model.index_names, model.card.seed or 0
    )
    if len(subgroups):
        write_table(folder / "subgroups.tsv", subgroups, unit)
    sites = make_site_table(study, model.indices, model.index_names)
    if len(sites):
        write_table(folder / "site_effects.tsv", sites, unit)
    if model.visit_indices is not None:
        write_indices(
            model.visit_indices,
            folder / "r_indices_visits.tsv",
            unit,
            describe_scale(model),
        )
    if model.networks is not None:
        _write_networks(folder, model.networks, model.regions, unit)
    model.save(folder / "model.safetensors")  # last: if it exists, all files do


def write_patterns(folder: Path, model: FittedModel, unit: str = "") -> None:
    """Write ``patterns.tsv`` and, for staged patterns, ``trajectories.tsv``."""
    write_table(folder / "patterns.tsv", make_change_table(model), unit)
    if get_shape(model) == "staged":
        write_table(folder / "trajectories.tsv", make_course_table(model), unit)


def _write_networks(
    folder: Path, networks: "NetworkEnsemble", regions: Sequence[str], unit: str
) -> None:
    """Write the networks of the members that are used, how all were trained, and what
    those that are used do.
    """
    from rindices.learners.gan.describe import SHOWN_SEVERITIES, write_networks

    write_networks(networks, folder / "networks.safetensors")
    write_training(folder, networks.members, networks.used)
    summary = networks.summary
    write_table(folder / "synthetic.tsv", make_synthetic_table(summary, regions), unit)
    write_table(
        folder / "transformation.tsv",
        make_transformation_table(summary, SHOWN_SEVERITIES, regions),
        unit,
    )
    write_json(folder / "realism.json", make_realism_record(summary).to_dict())


def write_training(
    folder: Path, members: Sequence[Member], used: Sequence[Member] = ()
) -> None:
    """Write ``training.tsv`` and ``members.tsv`` of members with networks, some of whom
    are used.
    """
    write_table(folder / "training.tsv", make_training_table(members))
    write_table(folder / "members.tsv", make_member_table(members, used))


def write_effects(
    folder: Path, effects: RegionEffects, regions: Sequence[str], unit: str = ""
) -> None:
    """Write the difference between patients and controls in each region to
    ``effects.tsv``, and its dictionary.

    Parameters
    ----------
    folder : Path
    effects : RegionEffects
    regions : sequence of str
        Names of the R regions.
    unit : str
        Unit of the table, for the words of the dictionary.
    """
    table = pd.DataFrame(
        {
            "region": regions,
            **vars(effects),
            "q": stats.false_discovery_control(effects.p),
        }
    )
    write_table(folder / "effects.tsv", table, unit)


def write_study_file(folder: Path, study: StudyConfig, source: Path) -> None:
    """Write a study to ``study.toml``, unless that is the file that it was
    read from.
    """
    path = folder / STUDY_FILE
    if not path.exists() or not path.samefile(source):
        write_atomically(path, format_study_toml(study).encode())


def write_failed_result(
    folder: Path, study: Study, error: TrainingFailedError, problems: Iterable[Problem]
) -> None:
    """Write the files of a study whose members failed: the people, the groups'
    difference, and the training.
    """
    _write_people(folder, study, problems)
    write_training(folder, error.members)
    record = FailureRecord(
        what=error.problems[0].what,
        cure=error.problems[0].cure,
        made_with=collect_provenance(study),
        adjustment=describe_adjustment(study.preprocessing, study.cohort.unit),
        difference=study.tests.make_difference_record(),
    )
    write_json(folder / "failure.json", record.to_dict())


def write_selection(folder: Path, selection: SelectionRecord) -> None:
    """Write ``selection.json``."""
    write_json(folder / "selection.json", selection.to_dict())


def write_findings(folder: Path, findings: StudyFindings) -> None:
    """Write ``findings.json``."""
    write_json(folder / "findings.json", findings.to_dict())


def compute_study_digest(study: Study) -> str:
    """Return a digest of everything that the results of a study depend on."""
    people = StudyPeople(study, study.config.model)
    return compute_settings_digest(study.config, people.data_key)


def compute_settings_digest(study: StudyConfig, data: str) -> str:
    """Return a digest of what decides the results of a study; ``data`` stands for its
    people and their adjustment.
    """
    parts = [
        study.model.model_dump(mode="json"),
        study.run.seed,
        study.run.in_parts,
        data,
        __version__,
    ]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class ResultsFolder:
    """The folder of a study, which may hold the files of an earlier one.

    Parameters
    ----------
    path : Path
    digest : str
        Of the new study, see `compute_settings_digest`.
    """

    path: Path
    digest: str

    @cached_property
    def earlier_files(self) -> tuple[str, ...]:
        """Names of the files of an earlier study, and of what was derived from it."""
        return tuple(
            name
            for name in (*OUTPUT_FILES, *DERIVED_FILES)
            if (self.path / name).is_file()
        )

    @cached_property
    def holds_other_study(self) -> bool:
        """Whether the files are of a study with other people, other settings or another
        version.
        """
        try:
            description = read_json(self.path / DESCRIPTION_FILE)
            digest = description.get(_DIGEST_KEY)
        except (OSError, ValueError, AttributeError):
            digest = None
        return bool(self.earlier_files) and digest != self.digest

    def report_other_study(self) -> list[Problem]:
        """Return a warning of the files of another study, which are replaced when the
        new one is finished.
        """
        if not self.holds_other_study:
            return []
        newest = max((self.path / name).stat().st_mtime for name in self.earlier_files)
        files = [
            name for name in self.earlier_files if not name.endswith(".json")
        ] or self.earlier_files
        others = [name for name in files if name not in _FIRST_NAMED]
        told = join_names(
            [*(name for name in _FIRST_NAMED if name in files), *others], 8
        )
        what = f"{self.path} holds another study ({self._name_tables()}{date.fromtimestamp(newest)})"
        what += f", whose files are replaced when this one is finished: {told}"
        cure = "To keep them, interrupt this run and give another folder (--out)"
        return [
            Problem(
                severity=Severity.WARNING,
                what=what,
                where="",
                cure=cure,
                code=ProblemCode.RESULTS_REPLACED,
            )
        ]

    def _name_tables(self) -> str:
        """Return the tables of the earlier study, as far as its study file tells."""
        try:
            tables = read_study(self.path / STUDY_FILE).data.volumes
        except RindicesError:
            return ""
        return f"{join_names(Path(table).name for table in tables)}, "

    def clear(self, study: StudyConfig, source: Path | None = None) -> None:
        """Remove the files of an earlier study, and what a killed process left.

        If the folder holds the same study, derived files stay.

        Parameters
        ----------
        study : StudyConfig
            It is written if it has a source.
        source : Path or None
            File or table that it was read from.
        """
        clear_outputs(self.path, with_derived=self.holds_other_study)
        written = self.path / STUDY_FILE
        if source is not None:
            write_study_file(self.path, study, source)
        elif self.holds_other_study and _is_written_by_program(written):
            written.unlink()


def _is_written_by_program(study_file: Path) -> bool:
    """Return whether a study file is as `write_study_file` writes it, and
    not by hand.
    """
    try:
        return study_file.read_text("utf-8") == format_study_toml(
            read_study(study_file)
        )
    except (OSError, RindicesError):
        return False


def clear_outputs(folder: Path, with_derived: bool = True) -> None:
    """Remove the files of an earlier study, what was derived from them, and what a
    killed process left.
    """
    for name in (*OUTPUT_FILES, *(DERIVED_FILES if with_derived else ())):
        (folder / name).unlink(missing_ok=True)
    delete_report_figures(folder)
    if with_derived:
        for path in (folder / FIGURE_FOLDER / MAP_FOLDER).glob("r*_space-*"):
            path.unlink()
    delete_temporary_files(folder)


def delete_report_figures(folder: Path) -> None:
    """Remove the figures that an earlier report has written beside itself."""
    for path in (folder / FIGURE_FOLDER).glob(REPORT_FIGURE.format("*")):
        path.unlink()


def _write_people(folder: Path, study: Study, problems: Iterable[Problem]) -> None:
    """Write the cohort, its outlying measurements if any, the difference of the groups,
    and what tools of BIDS look for.
    """
    cohort, outlying_measurements = study.cohort, study.checked.table
    folder.mkdir(parents=True, exist_ok=True)
    write_json(
        folder / "cohort.json",
        CohortRecord.of(describe_cohort(cohort), problems).to_dict(),
    )
    write_description(folder, compute_study_digest(study))
    write_effects(folder, study.tests.effects, cohort.regions, cohort.unit)
    if len(outlying_measurements):
        write_table(
            folder / "outlying_measurements.tsv", outlying_measurements, cohort.unit
        )


def write_description(folder: Path, digest: str) -> None:
    """Write what tools of BIDS look for, with the digest of the study, see
    `compute_settings_digest`.
    """
    made_by = [{"Name": "rindices", "Version": __version__}]
    description = {
        "Name": "R-indices",
        "BIDSVersion": "1.10.0",
        "DatasetType": "derivative",
        "GeneratedBy": made_by,
    }
    write_json(folder / DESCRIPTION_FILE, {**description, _DIGEST_KEY: digest})


def write_table(path: Path, table: pd.DataFrame, unit: str = "") -> None:
    """Write a table and the descriptions of its columns, in the words for the unit of
    the regions.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    word, descriptions = get_wording(unit), load_columns(path.stem)
    columns = {
        word(name): {"Description": word(text)}
        for name, text in descriptions.items()
        if name in table
    }
    text = protect_texts(table.rename(columns=word)).to_csv(
        None, sep="\t", index=False, na_rep="n/a", lineterminator="\n"
    )
    is_private = not PERSON_COLUMNS.isdisjoint(table.columns)
    write_atomically(path, text.encode(), is_private=is_private)
    write_json(path.with_suffix(".json"), columns)
