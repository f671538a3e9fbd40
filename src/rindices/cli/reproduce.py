"""``rindices reproduce``: compare the patterns of two halves of the people."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.options import Json
from rindices.cli.statistics import write_results

if TYPE_CHECKING:
    from rindices.model.fitted import FittedModel
    from rindices.tables.cohort import Cohort

EPILOG = "Example: rindices reproduce results/study.toml --out halves"


def reproduce(
    source: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="A study; fit writes one into its folder.")],
    out: Annotated[Path, typer.Option(help="Folder for everything; run again to resume.")],
    splits: Annotated[int, typer.Option(min=1, help="Random splits into halves.")] = 1,
    seed: Annotated[int | None, typer.Option(min=0, help="Of the splits; left out, the study's.")] = None,
    as_json: Json = False,
) -> None:
    """Fit a study on each half of its people, and compare the R-indices of people that one half has not seen."""
    from rindices.analysis.reproduce import COLUMN_DESCRIPTIONS
    from rindices.analysis.reproduce import reproduce_in_halves as run
    from rindices.apply.tables import write_indices
    from rindices.cli.fit import read_study_cohort
    from rindices.cli.progress import Progress
    from rindices.errors import AnalysisError, explain_write_errors
    from rindices.study.cohort_fit import fit_study
    from rindices.study.config import make_study, merge_options
    from rindices.study.engines import StudyObserver
    from rindices.study.outputs import write_study_file
    from rindices.study.preflight import read_reference
    from rindices.study.store import RunStore
    from rindices.study.study import Study

    study = make_study(merge_options(source, {"data": {}, "model": {}, "run": {}}), source.name)  # absolute paths
    cohort = read_study_cohort(study, source.parent)
    reference = read_reference(study.data, source.parent)
    store, first = RunStore(out / "runs"), study.run.seed if seed is None else seed

    def fit(half: "Cohort") -> "FittedModel":
        with Progress(f"fit of {len(half)} people") as progress:
            return fit_study(Study(half, study, reference), store, observer=StudyObserver(progress.update))

    try:
        with explain_write_errors(f"to {out}", AnalysisError, "give another --out"), store.lock_folder():
            halves = run(cohort, fit, splits=splits, seed=first)
            write_study_file(out, study, source)
            write_indices(halves.unseen.drop(columns="half"), out / "r_indices_unseen.tsv")
            for number, model in enumerate(halves.models, start=1):
                model.save(out / f"half{number}.safetensors")
    except KeyboardInterrupt:
        typer.echo("interrupted; run the same command again to go on", err=True)
        raise typer.Exit(3) from None
    concordance = halves.table["concordance"].mean()
    summary = f"halves order people they have not both seen alike: {concordance:.3f} of pairs (0.5 is chance)"
    settings = {"splits": splits, "seed": first}
    write_results(halves.table, out / "halves.tsv", COLUMN_DESCRIPTIONS, settings, as_json, summary)
