"""``rindices power``, ``simulate``, ``score`` and ``reference``: planning of a study
and simulation.
"""

from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli import console, options
from rindices.errors import (
    ProblemCode,
    SimulationError,
    TableError,
    explain_write_errors,
)

if TYPE_CHECKING:
    from rindices.tables.cohort import Cohort


EXAMPLES = {
    "power": "--controls healthy.csv --effect-d 0.5 --out power",
    "simulate": "--task basic --seed 0 --out demo",
    "score": "results/r_indices.tsv demo/truth.tsv",
    "reference": "healthy.csv --site site --covariates age,sex,icv --out healthy.safetensors",
}
HealthyLabel = Annotated[
    str | None, typer.Option(help="Label of the healthy people in it.")
]
_UNNEEDED_NOTES = {ProblemCode.NO_GROUPS, ProblemCode.GROUP_COLUMN_POSSIBLE}
"""Notes about groups, which a table of healthy people does not need."""


@options.take_table_options("participants group covariates measure")
def power(
    context: typer.Context,
    people: Annotated[
        options.Words, typer.Option(help="Controls + patients, e.g. 150+200,492+900.")
    ] = None,
    effect_d: Annotated[
        options.Words,
        typer.Option(
            "--effect-d",
            help="Effects in Cohen's d of regions of a pattern, e.g. 0.3,0.5.",
        ),
    ] = None,
    rates: Annotated[
        options.Words,
        typer.Option(help="Shares of volume lost at the highest severity."),
    ] = None,
    patterns: Annotated[
        options.Words, typer.Option(help="True numbers of patterns; by default 3.")
    ] = None,
    cohorts: Annotated[
        int | None, typer.Option(min=1, help="Simulated cohorts per size and rate.")
    ] = None,
    controls: Annotated[
        Path | None,
        typer.Option(
            metavar="TABLE",
            help="Your own controls: their regions, variation and number.",
        ),
    ] = None,
    label: HealthyLabel = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for power.json, power.md and power.png.")
    ] = None,
    workers: options.Workers = -1,
    as_json: options.Json = False,
) -> None:
    """Simulate cohorts of several sizes and effects: accuracy, chance of the right
    number of patterns, intervals.

    Effects are Cohen's d between patients and controls. With --controls, cohorts are
    like the people of your table, and by default as many controls are combined with 100
    to 800 patients who have one, two and three patterns. The output also says what a
    loss of 10 % of a region is in d.
    """
    from rindices.cli.progress import Progress
    from rindices.experiments import power as experiment

    data = options.get_table_values(context)
    covariates = (
        tuple(name for name in data["covariates"] if name != "none")
        if "covariates" in data
        else None
    )
    read = {
        name: data[name] for name in data if name != "covariates" or covariates
    }  # by default all that are known
    healthy = _read_healthy_cohort(controls, label, read)
    losses = console.parse_numbers(
        rates, "--rates", "{words} is not a share: write 0.2"
    )
    effects = console.parse_numbers(
        effect_d, "--effect-d", "{words} is not an effect: write 0.5"
    )
    counts = console.parse_numbers(
        patterns, "--patterns", "{words} is not a number of patterns: write 1,2,3"
    )
    sizes = _parse_group_sizes(console.split_option(people))
    numbers = tuple(map(int, counts)) or ((3,) if healthy is None else (1, 2, 3))
    if healthy is None:
        sizes = sizes or experiment.GROUP_SIZES
    elif not sizes:
        n_controls = healthy.n_controls or len(healthy)
        sizes = tuple((n_controls, number) for number in experiment.N_PATIENTS)
    effects = effects or (() if losses else experiment.EFFECTS_D)
    number = cohorts or experiment.N_COHORTS
    config = experiment.PowerConfig(
        people=sizes,
        rates=losses,
        patterns=numbers,
        cohorts=number,
        covariates=covariates,
        healthy=healthy,
        effects=effects,
    )
    if out is not None:
        console.make_folder(out)
    with Progress("power") as progress:
        result = experiment.run_power(config, workers, progress.update)
    values, table = asdict(result), experiment.format_markdown(result)
    if out is not None:
        with explain_write_errors(f"to {out}"):
            console.write_json_and_table(out, ("power.json", "power.md"), values, table)
            experiment.plot_power(result, out / "power.png")
        typer.echo(f"power.json, power.md and power.png written to {out}", err=True)
    console.print_result(as_json, values, table)


def _parse_group_sizes(texts: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Parse sizes such as 150+200."""
    pairs = []
    for text in texts:
        left, plus, right = text.partition("+")
        if not (plus and left.strip().isdigit() and right.strip().isdigit()):
            raise typer.BadParameter(
                f"{text!r} is not controls + patients: write 150+200",
                param_hint="--people",
            )
        pairs.append((int(left), int(right)))
    return tuple(pairs)


@options.take_table_options("participants group site")
def simulate(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder to write to.")],
    task: Annotated[
        str,
        typer.Option(help="basic overlap scarce noise mild, corr05 ..., organs, null."),
    ] = "basic",
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same cohort.")] = 0,
    controls: Annotated[
        Path | None,
        typer.Option(metavar="TABLE", help="Healthy people to add the patterns to."),
    ] = None,
    label: HealthyLabel = None,
    sites: Annotated[
        int,
        typer.Option(
            min=0, help="Number of sites with additive and multiplicative effects."
        ),
    ] = 0,
    visits: Annotated[
        int,
        typer.Option(min=1, help="Visits of each person; 2 or more for repeat visits."),
    ] = 1,
    as_json: options.Json = False,
) -> None:
    """Write volumes.csv (features.csv), participants.tsv, truth.tsv and patterns.tsv
    with known severities.

    new_people.csv has 20 people who are not in these tables (8 controls, 12 patients),
    for rindices apply, and new_truth.tsv the severities of its patients; neither is
    written with --controls. Tasks whose regions change one after the other also have
    onsets.tsv. With --visits, severities grow, and there are sessions.tsv, rates.tsv
    and outcomes.tsv.
    """
    from rindices.experiments.simulate import simulate_cohort, write_cohort
    from rindices.experiments.visits import VisitPlan, simulate_visits, write_visits

    data = options.get_table_values(context)
    if visits > 1 and (sites or controls):
        raise SimulationError(
            "--visits cannot be combined with --sites or --controls: leave out one of them."
        )
    counts = {}
    if visits > 1:
        repeated = simulate_visits(task, seed, VisitPlan(visits=visits))
        simulated, people = repeated.simulated, repeated.outcomes
        counts = {
            "visits": len(repeated.sessions),
            "events": int(people["event"].sum()),
        }
        others = simulate_visits(task, seed, VisitPlan(visits=visits), new_people=True)
        n_new, write = (
            others.outcomes["participant_id"].nunique(),
            partial(write_visits, repeated, new_people=others),
        )
    else:
        healthy = _read_healthy_cohort(controls, label, data)
        simulated = simulate_cohort(task, seed, healthy=healthy, sites=sites)
        new_people = (
            None
            if healthy
            else simulate_cohort(task, seed, sites=sites, new_people=True)
        )
        n_new = 0 if new_people is None else len(new_people.cohort)
        people, write = (
            simulated.cohort.people,
            partial(write_cohort, simulated, new_people=new_people),
        )
    with explain_write_errors(f"to {out}"):
        write(out)
    n_patients = int((people["group"] == "patient").sum())
    values = {
        "people": len(people),
        "controls": len(people) - n_patients,
        "patients": n_patients,
    }
    values |= {"new_people": n_new, "patterns": simulated.truth.shape[1], **counts}
    others_text = f", {n_new} new people to {out / 'new_people.csv'}" if n_new else ""
    text = f"{len(people) - n_patients} controls and {n_patients} patients written to {out}{others_text}"
    console.print_result(
        as_json, {"out": str(out), "task": task, "seed": seed, **values}, text, err=True
    )


def _read_healthy_cohort(
    table: Path | None, label: str | None, data: options.DataValues
) -> "Cohort | None":
    """Read a table of healthy people, if there is one, with all its covariates, the
    first scan of each person.
    """
    from rindices.tables.checks.values import ALL_MEASURES
    from rindices.tables.cohort import keep_first_scans
    from rindices.tables.validate import validate_table

    if table is None:
        return None
    labels = {"controls": [label], "patients": ["*"]} if label else {}
    request = options.make_table_request(
        [table], {"site": "none", **data, **labels, "on_missing": "drop"}
    )
    request = request.with_options(measure=request.options.measure or ALL_MEASURES)
    result = validate_table(request)
    cohort = result.cohort_or_raise()
    unclear = [
        problem
        for problem in result.problems
        if problem.code is ProblemCode.GROUP_COLUMN_POSSIBLE
    ]
    if unclear:
        raise TableError(
            f"{unclear[0].text}: say who is healthy with --group COLUMN --label LABEL."
        )
    console.print_problems(result.problems)
    return keep_first_scans(cohort)[0]


def score(
    indices: options.Indices,
    truth: Annotated[
        Path, typer.Argument(metavar="TRUTH", help="participant_id and s1, s2, ...")
    ],
    as_json: options.Json = False,
) -> None:
    """Print the pattern-c-index: the share of pairs of people ranked as in the truth (1
    is perfect, 0.5 is chance).
    """
    from rindices.experiments.simulate import score_tables

    result = score_tables(indices, truth)
    matches = ", ".join(
        f"{name} = {index}: {value:.3f}" for name, index, value in result.per_pattern
    )
    text = f"pattern-c-index {result.pattern_c_index:.3f} over {result.people} people ({matches})"
    console.print_result(as_json, asdict(result), text)


@options.take_table_options(
    "participants group covariates site adjust id participants_id session exclude include measure missing_codes"
)
def reference(
    context: typer.Context,
    tables: options.Tables,
    out: Annotated[Path, typer.Option(help="File to write, .safetensors.")],
    controls: Annotated[
        options.Words,
        typer.Option(help="Label(s) of the healthy people, with --group."),
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Learn the correlations of regions in healthy people, for fit --reference FILE."""
    from rindices.study.preflight import fit_reference

    data = options.get_table_values(context)
    if out.suffix != ".safetensors":
        raise typer.BadParameter(
            f"{out.name} has another ending than .safetensors", param_hint="--out"
        )
    adjust, healthy = data.pop("adjust", None), console.split_option(controls)
    groups = {"controls": healthy, "patients": ["*"]} if healthy else {}
    request = options.make_table_request(
        tables, {**data, **groups, "on_missing": "drop"}
    )
    learnt, problems = fit_reference(request, adjust)
    console.print_problems(
        problem for problem in problems if problem.code not in _UNNEEDED_NOTES
    )
    with explain_write_errors(f"to {out}"):
        learnt.save(out)
    facts = {
        "people": learnt.people,
        "sites": learnt.sites,
        "regions": len(learnt.regions),
        "adjust": learnt.adjust,
    }
    shown = {
        name: f"{value:,}" if isinstance(value, int) else str(value)
        for name, value in facts.items()
    }
    lines = [
        *shown.items(),
        ("covariates", ", ".join(learnt.covariates)),
        ("file", str(out)),
    ]
    console.print_result(
        as_json,
        {"reference": str(out), **facts, "covariates": list(learnt.covariates)},
        lines,
    )
