"""``rindices power``: the number of people needed, by simulation."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_json, split_option
from rindices.cli.options import DataOptions, Json, Workers, take_table_options
from rindices.cli.output import explain_write_errors, make_folder, write_json_and_table

EPILOG = "Example: rindices power --people 150+200,492+900 --effect-d 0.3,0.5 --covariates age,sex,icv --out power"


@take_table_options("covariates measure")
def power(
    data: DataOptions,
    people: Annotated[list[str] | None, typer.Option(help="Controls + patients, e.g. 150+200,492+900.")] = None,
    effect_d: Annotated[
        list[str] | None,
        typer.Option("--effect-d", help="Effects in Cohen's d of regions of a pattern, e.g. 0.3,0.5."),
    ] = None,
    rates: Annotated[list[str] | None, typer.Option(help="Shares of volume lost at the highest severity.")] = None,
    patterns: Annotated[int, typer.Option(min=1, help="True number of patterns.")] = 3,
    cohorts: Annotated[int | None, typer.Option(min=1, help="Simulated cohorts per size and rate.")] = None,
    controls: Annotated[Path | None, typer.Option(metavar="TABLE", help="Healthy people to simulate from.")] = None,
    participants: Annotated[Path | None, typer.Option(help="Their participants, with --controls.")] = None,
    group: Annotated[str | None, typer.Option(help="Their column of groups, with --controls.")] = None,
    label: Annotated[str | None, typer.Option(help="Label of the healthy people in it.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for power.json, power.md and power.png.")] = None,
    workers: Workers = -1,
    as_json: Json = False,
) -> None:
    """Simulate cohorts of several sizes and effects: accuracy, chance of the right number of patterns, intervals.

    Effects are Cohen's d between patients and controls, in the people of your table with --controls. The output also
    says what a loss of 10 % of a region is in d.
    """
    from dataclasses import asdict

    from rindices.cli.progress import Progress
    from rindices.cli.simulate import read_healthy_cohort
    from rindices.experiments.power import (
        EFFECTS_D,
        GROUP_SIZES,
        N_COHORTS,
        PowerConfig,
        format_markdown,
        plot_power,
        run_power,
    )

    healthy = (
        None
        if controls is None
        else read_healthy_cohort(controls, participants, group, label, None, data.get("measure"))
    )
    losses = _parse_numbers(split_option(rates), "--rates", "a share: write 0.2")
    effects = _parse_numbers(split_option(effect_d), "--effect-d", "an effect: write 0.5")
    config = PowerConfig(
        _parse_group_sizes(split_option(people)) or GROUP_SIZES,
        losses,
        patterns,
        cohorts or N_COHORTS,
        tuple(data.get("covariates", ())),
        healthy,
        effects or (() if losses else EFFECTS_D),
    )
    if out is not None:
        make_folder(out)
    with Progress("power") as progress:
        result = run_power(config, workers, progress.update)
    values, table = asdict(result), format_markdown(result)
    if out is not None:
        with explain_write_errors(out):
            write_json_and_table(out, ("power.json", "power.md"), values, table)
            plot_power(result, out / "power.png")
        typer.echo(f"power.json, power.md and power.png written to {out}", err=True)
    if as_json:
        print_json(values)
    else:
        typer.echo(table)


def _parse_group_sizes(texts: tuple[str, ...]) -> tuple[tuple[int, int], ...]:
    """Parse sizes such as 150+200."""
    pairs = []
    for text in texts:
        left, plus, right = text.partition("+")
        if not (plus and left.strip().isdigit() and right.strip().isdigit()):
            raise typer.BadParameter(f"{text!r} is not controls + patients: write 150+200", param_hint="--people")
        pairs.append((int(left), int(right)))
    return tuple(pairs)


def _parse_numbers(texts: tuple[str, ...], option: str, expected: str) -> tuple[float, ...]:
    """Parse the numbers of an option."""
    try:
        return tuple(float(text) for text in texts)
    except ValueError:
        raise typer.BadParameter(f"{', '.join(texts)} is not {expected}", param_hint=option) from None
