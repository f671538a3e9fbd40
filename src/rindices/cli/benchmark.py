"""``rindices benchmark``: scores of learners on simulated cohorts, as a table and a figure."""

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from rindices.cli.console import print_json, split_option
from rindices.cli.options import Json, Workers

EPILOG = "Example: rindices benchmark --suite paper --learners contrastive,nmf --cohorts 10 --out benchmark"


def benchmark(
    suite: Annotated[str, typer.Option(help="paper, stress, real or trust.")] = "paper",
    learners: Annotated[list[str] | None, typer.Option(help="Names, e.g. contrastive,nmf,ridge.")] = None,
    cohorts: Annotated[int, typer.Option(min=1, help="Cohorts per task, seeds 0, 1, ...")] = 10,
    tasks: Annotated[list[str] | None, typer.Option(help="Only these tasks of the suite.")] = None,
    folds: Annotated[int, typer.Option(min=0, help="Folds for held-out people; 0 for none.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Folder for results; run again to resume.")] = None,
    data: Annotated[Path | None, typer.Option(envvar="RINDICES_DATA", help="Real tables, for the suite real.")] = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Score learners on cohorts with known severities, on people that they were fitted on and on held-out people."""
    from rindices.cli.progress import Progress
    from rindices.experiments.benchmark import BenchmarkPlan, run_benchmark
    from rindices.experiments.benchmark import results_to_json as to_json
    from rindices.experiments.figures import format_markdown, plot_benchmark

    if out is not None and out.exists() and not out.is_dir():
        raise typer.BadParameter(f"{out} is a file; give a folder", param_hint="--out")
    if suite == "trust":
        _benchmark_trust(cohorts, split_option(tasks), out, workers, as_json)
        return
    if folds == 1:
        raise typer.BadParameter("give 0, or at least 2", param_hint="--folds")
    folder = data if data is not None else Path(os.pardir, "shared", "data")
    plan = BenchmarkPlan(suite, split_option(learners) or ("contrastive",), cohorts, folds, folder, split_option(tasks))
    with Progress(f"benchmark {suite}") as progress:
        results = run_benchmark(plan, None if out is None else out / "runs", workers, progress.update)
    if out is not None:
        _write_result_files(out, to_json(results), format_markdown(results))
        plot_benchmark(
            results, out / "figure.png", f"Suite {suite}: how well severities are ranked (1 is perfect, 0.5 chance)"
        )
        typer.echo(f"results.json, table.md and figure.png written to {out}", err=True)
    if as_json:
        print_json(to_json(results))
    else:
        typer.echo(format_markdown(results))


def _benchmark_trust(cohorts: int, parts: tuple[str, ...], out: Path | None, workers: int, as_json: bool) -> None:
    """Measure the number of patterns found in cohorts with none to five patterns, or with a batch effect."""
    from rindices.cli.progress import Progress
    from rindices.experiments.trust import SUITE_PARTS, format_markdown, list_trials, run_trust_suite
    from rindices.experiments.trust import results_to_json as to_json

    with Progress("benchmark trust") as progress:
        results = run_trust_suite(
            list_trials(cohorts, parts or SUITE_PARTS), None if out is None else out / "runs", workers, progress.update
        )
    if out is not None:
        _write_result_files(out, to_json(results), format_markdown(results))
        typer.echo(f"results.json and table.md written to {out}", err=True)
    if as_json:
        print_json(to_json(results))
    else:
        typer.echo(format_markdown(results))


def _write_result_files(out: Path, values: dict[str, Any], table: str) -> None:
    """Write ``results.json`` and ``table.md``."""
    out.mkdir(parents=True, exist_ok=True)
    (out / "results.json").write_text(json.dumps(values, indent=1) + "\n", "utf-8")
    (out / "table.md").write_text(table, "utf-8")
