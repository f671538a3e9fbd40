"""``rindices benchmark``: scores of learners on simulated cohorts, as a table and a figure."""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_json, split_option
from rindices.cli.options import Json, Workers
from rindices.cli.output import explain_write_errors, write_json_and_table

SHARED_DATA = Path(os.pardir, "shared", "data")
EPILOG = "Example: rindices benchmark --suite paper --learners contrastive,nmf --cohorts 10 --out benchmark"


def benchmark(
    suite: Annotated[str, typer.Option(help="paper, stress, real, trust or patients.")] = "paper",
    learners: Annotated[list[str] | None, typer.Option(help="Names, e.g. contrastive,nmf,ridge.")] = None,
    cohorts: Annotated[int, typer.Option(min=1, help="Cohorts or random splits per task, seeds 0, 1, ...")] = 10,
    tasks: Annotated[list[str] | None, typer.Option(help="Only these tasks of the suite.")] = None,
    adjusted: Annotated[
        bool, typer.Option("--adjusted", help="Adjust simulated cohorts for age, sex and head size, as users do.")
    ] = False,
    folds: Annotated[int, typer.Option(min=0, help="Folds for held-out people; 0 for none.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for results; run again to resume.")] = None,
    data: Annotated[
        Path | None, typer.Option(envvar="RINDICES_DATA", help="Real tables, for the suites real and patients.")
    ] = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Score learners on cohorts with known severities, on people that they were fitted on and on held-out people."""
    from rindices.cli.progress import Progress
    from rindices.experiments import patient_suite, trust
    from rindices.experiments.benchmark import BenchmarkPlan, results_to_json, run_benchmark
    from rindices.experiments.figures import format_markdown, plot_benchmark

    if out is not None and out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; give a folder", param_hint="--out")
    if suite not in ("trust", "patients") and folds == 1:
        raise typer.BadParameter("give 0, or at least 2", param_hint="--folds")
    names, store = split_option(tasks), None if out is None else out / "runs"
    figure = None
    with Progress(f"benchmark {suite}") as progress:
        if suite == "trust":
            trials = trust.list_trials(cohorts, names or trust.SUITE_PARTS)
            counts = trust.run_trust_suite(trials, store, workers, progress.update)
            values, table = trust.results_to_json(counts), trust.format_markdown(counts)
        elif suite == "patients":
            splits = patient_suite.list_patient_trials(data or SHARED_DATA / "patients", cohorts, names or ())
            measured = patient_suite.run_patient_suite(splits, store, workers, progress.update)
            values, table = patient_suite.results_to_json(measured), patient_suite.format_markdown(measured)
        else:
            folder = data if data is not None else SHARED_DATA
            entrants = split_option(learners) or ("contrastive",)
            plan = BenchmarkPlan(suite, entrants, cohorts, folds, folder, names, adjusted)
            results = run_benchmark(plan, store, workers, progress.update)
            values, table = results_to_json(results), format_markdown(results)
            title = f"Suite {suite}: how well severities are ranked (1 is perfect, 0.5 chance)"
            figure = partial(plot_benchmark, results, title=title)
    if out is not None:
        with explain_write_errors(out):
            write_json_and_table(out, ("results.json", "table.md"), values, table)
            if figure is not None:
                figure(out / "figure.png")
        typer.echo(f"results.json, table.md{' and figure.png' if figure else ''} written to {out}", err=True)
    if as_json:
        print_json(values)
    else:
        typer.echo(table)
