"""``python -m benchmarks suite``: scores of learners on simulated cohorts and on real
patients.
"""

import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_json, split_option, write_json_and_table
from rindices.cli.main import run_program
from rindices.cli.options import Json, Workers
from rindices.errors import explain_write_errors

SHARED_DATA = Path(os.pardir, "shared", "data")
EPILOG = "Example: python -m benchmarks suite --suite paper --learners contrastive,nmf --cohorts 10 --out benchmark"

app = typer.Typer(
    name="benchmarks",
    add_completion=False,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
)


@app.callback()
def _describe() -> None:
    """Run a suite of benchmarks; the other measurements are ``python -m
    benchmarks.NAME``.
    """


@app.command("suite", epilog=EPILOG)
def run_suite(
    suite: Annotated[
        str, typer.Option(help="paper, stress, real, trust or patients.")
    ] = "paper",
    learners: Annotated[
        list[str] | None, typer.Option(help="Names, e.g. contrastive,nmf,ridge.")
    ] = None,
    cohorts: Annotated[
        int,
        typer.Option(min=1, help="Cohorts or random splits per task, seeds 0, 1, ..."),
    ] = 10,
    tasks: Annotated[
        list[str] | None, typer.Option(help="Only these tasks of the suite.")
    ] = None,
    adjusted: Annotated[
        bool,
        typer.Option(
            "--adjusted",
            help="Adjust simulated cohorts for age, sex and head size, as users do.",
        ),
    ] = False,
    folds: Annotated[
        int, typer.Option(min=0, help="Folds for held-out people; 0 for none.")
    ] = 5,
    out: Annotated[
        Path | None, typer.Option(help="Folder for results; run again to resume.")
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(
            envvar="RINDICES_DATA",
            help="Real tables, for the suites real and patients.",
        ),
    ] = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Score learners on cohorts with known severities, on people that they were fitted
    on and on held-out people.
    """
    from benchmarks.suites import patient_suite, trust
    from benchmarks.suites.benchmark import BenchmarkPlan, results_to_json
    from benchmarks.suites.figures import format_markdown, plot_benchmark
    from benchmarks.suites.runner import run_jobs
    from rindices.cli.progress import Progress

    if out is not None and out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; give a folder", param_hint="--out")
    if suite not in ("trust", "patients") and folds == 1:
        raise typer.BadParameter("give 0, or at least 2", param_hint="--folds")
    names, store = split_option(tasks), None if out is None else out / "runs"
    figure = None
    with Progress(f"benchmark {suite}") as progress:
        run = partial(run_jobs, store=store, workers=workers, progress=progress.update)
        if suite == "trust":
            counts = run(trust.list_trials(cohorts, names or trust.SUITE_PARTS))
            values, table = trust.results_to_json(counts), trust.format_markdown(counts)
        elif suite == "patients":
            measured = run(
                patient_suite.list_patient_trials(
                    data or SHARED_DATA / "patients", cohorts, names or ()
                )
            )
            values, table = (
                patient_suite.results_to_json(measured),
                patient_suite.format_markdown(measured),
            )
        else:
            entrants = split_option(learners) or ("contrastive",)
            results = run(
                BenchmarkPlan(
                    suite,
                    entrants,
                    cohorts,
                    folds,
                    data or SHARED_DATA,
                    names,
                    adjusted,
                ).jobs()
            )
            values, table = results_to_json(results), format_markdown(results)
            title = f"Suite {suite}: how well severities are ranked (1 is perfect, 0.5 chance)"
            figure = partial(plot_benchmark, results, title=title)
    if out is not None:
        with explain_write_errors(f"to {out}"):
            write_json_and_table(out, ("results.json", "table.md"), values, table)
            if figure is not None:
                figure(out / "figure.png")
        typer.echo(
            f"results.json, table.md{' and figure.png' if figure else ''} written to {out}",
            err=True,
        )
    if as_json:
        print_json(values)
    else:
        typer.echo(table)


@app.command("stale")
def list_stale_claims() -> None:
    """List the claims of the documentation that were measured with other code than
    today's, or never.
    """
    from benchmarks.claims import list_stale, load_claims, load_stamps

    stamps = load_stamps()
    for claim in list_stale(load_claims(), stamps):
        stamp = stamps.get(claim.name)
        when = (
            f"measured {stamp['date']} with {stamp['commit']}"
            if stamp
            else "never measured"
        )
        typer.echo(f"{claim.name}: {when}; about {claim.minutes:g} core-minutes")


@app.command("run")
def run_claims(
    names: Annotated[
        list[str] | None, typer.Argument(help="Claims; left out, those that are stale.")
    ] = None,
    hours: Annotated[
        float, typer.Option(help="Begin no claim that would exceed so many core-hours.")
    ] = 10.0,
) -> None:
    """Measure claims again, the cheapest first, and stamp their results with the code
    of today.
    """
    from benchmarks.claims import (
        list_stale,
        load_claims,
        load_stamps,
        run_claim,
        save_stamps,
    )

    claims, left = load_claims(), 60.0 * hours
    if unknown := set(names or ()) - {claim.name for claim in claims}:
        raise typer.BadParameter(
            f"there is no claim {sorted(unknown)[0]}; they are in benchmarks/claims.toml"
        )
    chosen = (
        [claim for claim in claims if claim.name in names]
        if names
        else list_stale(claims, load_stamps())
    )
    for claim in sorted(chosen, key=lambda each: each.minutes):
        if claim.minutes <= left:
            typer.echo(f"{claim.name}: about {claim.minutes:g} core-minutes", err=True)
            stamp = run_claim(claim)
            left -= stamp["core_minutes"]
            save_stamps(load_stamps() | {claim.name: stamp})


@app.command("show")
def show_claims() -> None:
    """Print the table of claims."""
    from benchmarks.claims import format_table, load_claims, load_stamps

    typer.echo(format_table(load_claims(), load_stamps()), nl=False)


if __name__ == "__main__":
    run_program(app)
