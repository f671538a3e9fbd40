"""``rindices classify``: classification of patients and controls by R-indices and by all regions."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import split_option
from rindices.cli.options import (
    Controls,
    Covariates,
    Exclude,
    Group,
    IdColumn,
    Include,
    Json,
    MissingCodes,
    Participants,
    Patients,
    Session,
    Site,
    Tables,
    Workers,
)
from rindices.cli.output import make_folder
from rindices.cli.results import read_indices_and_regions, write_results

if TYPE_CHECKING:
    from rindices.tables.cohort import Cohort

EPILOG = (
    "Example: rindices classify half/r_indices_unseen.tsv dlmuse.csv --participants participants.tsv "
    "--covariates age,sex,icv --out classified"
)
HELD_OUT_FILE = "r_indices_unseen.tsv"
"""Name of the R-indices of held-out people, as ``rindices reproduce`` writes them."""


def classify(
    indices: Annotated[
        Path,
        typer.Argument(
            metavar="R_INDICES", help="R-indices of held-out people, with group; or the folder of reproduce."
        ),
    ],
    tables: Tables,
    out: Annotated[Path, typer.Option(help="Folder for classification.tsv and summary.tsv.")],
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    covariates: Covariates = None,
    site: Site = None,
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same splits.")] = 0,
    id_column: IdColumn = None,
    session: Session = None,
    exclude: Exclude = None,
    include: Include = None,
    missing_codes: MissingCodes = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Classify patients and controls with support vector machines: repeated 80/20 splits, grid search inside.

    Regions are adjusted for the covariates on the training controls of each split, as R-indices are.
    """
    from rindices.analysis.classify import (
        COLUMN_DESCRIPTIONS,
        SUMMARY_COLUMN_DESCRIPTIONS,
        classify_patients,
        summarise_auc,
    )
    from rindices.analysis.write import write_table
    from rindices.tables.table import ColumnRoles
    from rindices.tables.validation.validate import TableRequest

    path = _choose_indices(indices)
    covariate_names, site = _choose_covariates(path, split_option(covariates), site)
    request = TableRequest(
        tuple(tables),
        participants,
        ColumnRoles(id_column, session, group, site, covariate_names),
        split_option(controls),
        split_option(patients),
        split_option(exclude),
        include=split_option(include),
        missing_codes=split_option(missing_codes),
    )
    people, cohort = read_indices_and_regions(path, request)
    make_folder(out)
    results = classify_patients(people, cohort, repeats=repeats, seed=seed, workers=workers)
    held_out = path.name == HELD_OUT_FILE
    compared = _describe_comparison(cohort, held_out)
    settings = {"repeats": repeats, "seed": seed, "test_size": 0.2, "compared": compared, "held_out": held_out}
    write_table(results, out / "classification.tsv", COLUMN_DESCRIPTIONS, settings)
    summary = summarise_auc(results, people)
    lines = [f"{row.features}: AUC {row.auc:.3f} ({row.low:.3f} to {row.high:.3f})" for row in summary.itertuples()]
    lines += [f"Compared: {compared}", *_list_doubts(cohort, held_out)]
    write_results(summary, out / "summary.tsv", SUMMARY_COLUMN_DESCRIPTIONS, settings, as_json, "\n".join(lines))


def _choose_indices(path: Path) -> Path:
    """Return the file of R-indices; of a folder, that of held-out people if there is one."""
    if not path.is_dir():
        return path
    return path / HELD_OUT_FILE if (path / HELD_OUT_FILE).is_file() else path / "r_indices.tsv"


def _choose_covariates(indices: Path, names: tuple[str, ...], site: str | None) -> tuple[tuple[str, ...], str | None]:
    """Return the covariates and the site that were named, else those of the study in the folder of the R-indices."""
    from rindices.study.config import read_study

    study_file = indices.parent / "study.toml"
    if names or site or not study_file.is_file():
        return names, site
    data = read_study(study_file).data
    return data.covariates, data.site


def _describe_comparison(cohort: "Cohort", held_out: bool) -> str:
    """Return what was compared, for the output."""
    from rindices.errors import join_names
    from rindices.tables.cohort import SITE

    names = [*cohort.covariates.columns, *([SITE] if SITE in cohort.people else [])]
    adjusted = f"adjusted for {join_names(names)} on the training controls of each split" if names else "not adjusted"
    people = "held-out people" if held_out else "people who may have been used to fit the model"
    return f"R-indices of {people}, and {cohort.n_regions} regions {adjusted}"


def _list_doubts(cohort: "Cohort", held_out: bool) -> list[str]:
    """Return why the comparison may be unfair."""
    doubts = []
    if not held_out:
        doubts.append(
            "The AUC is too high for people that the model was fitted on: use held-out people "
            f"({HELD_OUT_FILE} of rindices reproduce)"
        )
    if cohort.covariates.empty:
        doubts.append("R-indices are adjusted for covariates and these regions are not: name them with --covariates")
    return doubts
