"""``rindices simulate``: a cohort with known severities."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_problems, print_result
from rindices.cli.options import Json
from rindices.cli.output import explain_write_errors

if TYPE_CHECKING:
    from rindices.tables.cohort import Cohort

EPILOG = "Example: rindices simulate --task basic --seed 0 --out demo"


def simulate(
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    task: Annotated[str, typer.Option(help="basic overlap scarce noise mild, corr05 ..., organs, null.")] = "basic",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same cohort.")] = 0,
    controls: Annotated[
        Path | None, typer.Option(metavar="TABLE", help="Healthy people to add the patterns to.")
    ] = None,
    participants: Annotated[Path | None, typer.Option(help="Their participants, with --controls.")] = None,
    group: Annotated[str | None, typer.Option(help="Their column of groups, with --controls.")] = None,
    label: Annotated[str | None, typer.Option(help="Label of the healthy people in it.")] = None,
    site: Annotated[str | None, typer.Option(help="Their column of sites, with --controls.")] = None,
    sites: Annotated[int, typer.Option(min=0, help="Number of sites with additive and multiplicative effects.")] = 0,
    visits: Annotated[int, typer.Option(min=1, help="Visits of each person; 2 or more for repeat visits.")] = 1,
    as_json: Json = False,
) -> None:
    """Write volumes.csv (features.csv), participants.tsv, truth.tsv and patterns.tsv with known severities.

    Tasks whose regions change one after the other also have onsets.tsv. With --visits, severities grow, and there are
    sessions.tsv, rates.tsv and outcomes.tsv.
    """
    from rindices.experiments.simulate import simulate_cohort, write_cohort

    healthy = None if controls is None else read_healthy_cohort(controls, participants, group, label, site)
    if visits > 1:
        _write_visits(out, task, seed, visits, healthy, sites, as_json)
        return
    simulated = simulate_cohort(task, seed, healthy=healthy, sites=sites)
    with explain_write_errors(out):
        write_cohort(simulated, out)
    cohort = simulated.cohort
    counts = {"people": len(cohort), "controls": cohort.n_controls, "patients": cohort.n_patients}
    values = {"out": str(out), "task": task, "seed": seed, **counts, "patterns": simulated.severities.shape[1] - 1}
    text = f"{cohort.n_controls} controls and {cohort.n_patients} patients written to {out}"
    print_result(as_json, values, text, err=True)


def _write_visits(
    out: Path, task: str, seed: int, visits: int, healthy: "Cohort | None", sites: int, as_json: bool
) -> None:
    """Simulate and write repeat visits."""
    from rindices.errors import SimulationError
    from rindices.experiments.visits import VisitPlan, simulate_visits, write_visits

    if sites:
        raise SimulationError("--sites and --visits cannot be combined: leave out one of them.")
    result = simulate_visits(task, seed, VisitPlan(visits=visits), healthy=healthy)
    with explain_write_errors(out):
        write_visits(result, out)
    n_people, n_rows = len(result.outcomes), len(result.sessions)
    n_patients, n_events = len(result.rates), int(result.outcomes["event"].sum())
    counts = {"people": n_people, "controls": n_people - n_patients, "patients": n_patients}
    counts |= {"patterns": result.rates.shape[1] - 1, "visits": n_rows, "events": n_events}
    who = f"{n_people - n_patients} controls and {n_patients} patients"
    text = f"{n_rows} visits of {who} with {n_events} events written to {out}"
    print_result(as_json, {"out": str(out), "task": task, "seed": seed, **counts}, text, err=True)


def read_healthy_cohort(
    table: Path,
    participants: Path | None,
    group: str | None,
    label: str | None,
    site: str | None,
    measure: str | None = None,
) -> "Cohort":
    """Read a table of healthy people with all its covariates, the first scan of each person."""
    from rindices.errors import ProblemCode, TableError
    from rindices.tables.cohort import keep_first_scans
    from rindices.tables.table import NO_COLUMN, ColumnRoles
    from rindices.tables.validate import TableRequest, validate_table
    from rindices.tables.validation.values import ALL_MEASURES

    roles = ColumnRoles(group=group, site=site or NO_COLUMN, covariates=None)
    labels, others = ((label,), ("*",)) if label else ((), ())
    measure = measure or ALL_MEASURES
    request = TableRequest((table,), participants, roles, labels, others, measure=measure, on_missing="drop")
    result = validate_table(request)
    cohort = result.cohort_or_raise()
    unclear = [problem for problem in result.problems if problem.code is ProblemCode.GROUP_COLUMN_POSSIBLE]
    if unclear:
        raise TableError(f"{unclear[0].text}: say who is healthy with --group COLUMN --label LABEL.")
    print_problems(result.problems)
    return keep_first_scans(cohort)[0]
