"""``rindices classify`` and ``reproduce``: R-indices of held-out people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import make_folder
from rindices.cli.options import (
    DataValues,
    Json,
    Tables,
    Workers,
    get_table_values,
    take_table_options,
)
from rindices.cli.statistics import read_indices_and_regions, write_results

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.study.config import StudyConfig
    from rindices.tables.cohort import Cohort

EXAMPLES = {
    "classify": "half/r_indices_unseen.tsv dlmuse.csv --participants participants.tsv --covariates age,sex,icv "
    "--out classified",
    "reproduce": "results/study.toml --out halves",
}
HELD_OUT_FILE = "r_indices_unseen.tsv"
"""Name of the R-indices of held-out people, as ``rindices reproduce`` writes them."""
_SETTINGS_OF_STUDY = {
    "exclude",
    "include",
    "measure",
    "missing_codes",
    "impute_covariates",
}
_SETTINGS_OF_STUDY |= {"harmonise", "adjust", "icv_for"}


@take_table_options(
    "participants group controls patients covariates site id session exclude include missing_codes"
)
def classify(
    context: typer.Context,
    indices: Annotated[
        Path,
        typer.Argument(
            metavar="R_INDICES",
            help="R-indices of held-out people, with group; or the folder of reproduce.",
        ),
    ],
    tables: Tables,
    out: Annotated[
        Path, typer.Option(help="Folder for classification.tsv and summary.tsv.")
    ],
    repeats: Annotated[int, typer.Option(min=1, help="Random splits.")] = 100,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same splits.")] = 0,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Classify patients and controls with support vector machines: repeated 80/20
    splits, grid search inside.

    Regions are adjusted for the covariates on the training controls of each split, as
    R-indices are.
    """
    from rindices.analysis import classify as analysis
    from rindices.analysis.tidy import write_table

    data = get_table_values(context)
    path = _choose_indices(indices)
    study = _read_study_beside(path, tables, data)
    people, cohort = read_indices_and_regions(path, study.data.request(Path()))
    make_folder(out)
    results = analysis.classify_patients(
        people,
        cohort,
        repeats=repeats,
        seed=seed,
        workers=workers,
        fit_preprocessing=study.fit_preprocessing,
    )
    is_own = path.name == "r_indices.tsv" and (path.parent / "study.toml").is_file()
    held_out = path.name == HELD_OUT_FILE or (
        is_own and study.model.get_method().leaves_people_out
    )
    compared = _describe_comparison(cohort, study.adjust, held_out)
    settings = {
        "repeats": repeats,
        "seed": seed,
        "test_size": 0.2,
        "compared": compared,
        "held_out": held_out,
    }
    write_table(results, out / "classification.tsv", settings)
    summary = analysis.summarise_auc(results, people)
    lines = [
        f"{row.features}: AUC {row.auc:.3f} ({row.low:.3f} to {row.high:.3f})"
        for row in summary.itertuples()
    ]
    text = "\n".join([*lines, f"Compared: {compared}", *_list_doubts(cohort, held_out)])
    write_results(summary, out / "summary.tsv", settings, as_json, text)


def _choose_indices(path: Path) -> Path:
    """Return the file of R-indices; of a folder, that of held-out people if there is
    one.
    """
    if not path.is_dir():
        return path
    return (
        path / HELD_OUT_FILE
        if (path / HELD_OUT_FILE).is_file()
        else path / "r_indices.tsv"
    )


def _read_study_beside(
    indices: Path, tables: list[Path], data: DataValues
) -> "StudyConfig":
    """Return the study in the folder of the R-indices for these tables, so that regions
    are adjusted alike.

    Named columns replace its own. Without a study file, other settings are default.
    """
    from rindices.study.config import DataConfig, StudyConfig, read_study

    study_file = indices.parent / "study.toml"
    default = StudyConfig(data=DataConfig(volumes=("memory",)))
    study = read_study(study_file) if study_file.is_file() else default
    kept = study.data.model_dump(
        include=_SETTINGS_OF_STUDY | ({"covariates", "site"} - set(data))
    )
    values = {**kept, **data, "volumes": [str(path) for path in tables]}
    return study.model_copy(update={"data": DataConfig.model_validate(values)})


def _describe_comparison(cohort: "Cohort", adjust: str | None, held_out: bool) -> str:
    """Return what was compared, for the output."""
    from rindices.errors import join_names
    from rindices.tables.cohort import SITE

    covariates = [] if adjust == "none" else cohort.covariates.columns
    names = [*covariates, *([SITE] if SITE in cohort.people else [])]
    adjusted = (
        f"adjusted for {join_names(names)} on the training controls of each split"
        if names
        else "not adjusted"
    )
    people = (
        "cross-fitted or held-out R-indices"
        if held_out
        else "R-indices that may be in-sample"
    )
    return f"{people}, and {cohort.n_regions} regions {adjusted}"


def _list_doubts(cohort: "Cohort", held_out: bool) -> list[str]:
    """Return why the comparison may be unfair."""
    doubts = []
    if not held_out:
        doubts.append(
            "The AUC is too high for people that the model was fitted on: use r_indices.tsv of rindices fit, or "
            f"{HELD_OUT_FILE} of rindices reproduce"
        )
    if cohort.covariates.empty:
        doubts.append(
            "R-indices are adjusted for covariates and these regions are not: name them with --covariates"
        )
    return doubts


def reproduce(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="STUDY.toml", help="A study; fit writes one into its folder."
        ),
    ],
    out: Annotated[
        Path, typer.Option(help="Folder for everything; run again to resume.")
    ],
    splits: Annotated[int, typer.Option(min=1, help="Random splits into halves.")] = 1,
    seed: Annotated[
        int | None, typer.Option(min=0, help="Of the splits; left out, the study's.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a study on each half of its people, and compare the R-indices of held-out
    people.
    """
    from rindices.analysis.reproduce import reproduce_in_halves as run
    from rindices.apply.tables import write_indices
    from rindices.cli.fit import read_study_cohort
    from rindices.cli.progress import Progress
    from rindices.errors import AnalysisError, explain_write_errors
    from rindices.lock import lock_folder
    from rindices.study.config import make_study, merge_options
    from rindices.study.engines import StudyObserver
    from rindices.study.preflight import read_reference
    from rindices.study.run import fit_study
    from rindices.study.store import RunStore
    from rindices.study.study import Study
    from rindices.study.write import write_study_file

    study = make_study(
        merge_options(source, {"data": {}, "model": {}, "run": {}}), source.name
    )  # absolute paths
    cohort = read_study_cohort(study, source.parent)
    reference = read_reference(study.data, source.parent)
    store, first = RunStore(out / "runs"), study.run.seed if seed is None else seed

    def fit(half: "Cohort") -> "FittedModel":
        with Progress(f"fit of {len(half)} people") as progress:
            return fit_study(
                Study(half, study, reference),
                store,
                observer=StudyObserver(on_progress=progress.update),
            )

    try:
        with (
            explain_write_errors(f"to {out}", AnalysisError, "give another --out"),
            lock_folder(store.folder),
        ):
            halves = run(cohort, fit, splits=splits, seed=first)
            write_study_file(out, study, source)
            write_indices(halves.unseen.drop(columns="half"), out / HELD_OUT_FILE)
            for number, model in enumerate(halves.models, start=1):
                model.save(out / f"half{number}.safetensors")
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to go on", err=True)
        raise typer.Exit(3) from None
    concordance = halves.table["concordance"].mean()
    summary = f"halves order people they have not both seen alike: {concordance:.3f} of pairs (0.5 is chance)"
    settings = {"splits": splits, "seed": first}
    write_results(halves.table, out / "halves.tsv", settings, as_json, summary)
