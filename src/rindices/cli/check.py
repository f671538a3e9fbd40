"""The command ``rindices check``: validate a table without training."""

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import (
    Controls,
    Covariates,
    Exclude,
    Group,
    IdColumn,
    Include,
    Json,
    Measure,
    Participants,
    ParticipantsId,
    Patients,
    Session,
    Site,
    Tables,
)
from rindices.errors import join_names

if TYPE_CHECKING:
    from rindices.tables.validation.validate import ValidationResult

EPILOG = "Example: rindices check dlmuse.csv --participants participants.tsv --group diagnosis --controls CN"


def check(
    tables: Tables,
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    covariates: Covariates = None,
    site: Site = None,
    id_column: IdColumn = None,
    participants_id: ParticipantsId = None,
    session: Session = None,
    exclude: Exclude = None,
    include: Include = None,
    measure: Measure = None,
    on_missing: Annotated[str, typer.Option(help="error, drop, or report.")] = "report",
    as_json: Json = False,
) -> None:
    """Read and validate a table of regional volumes, and say what it is and what to fix."""
    from rindices.tables.table import ColumnRoles
    from rindices.tables.validation.validate import TableRequest, validate_table

    roles = ColumnRoles(id_column, session, group, site, split_option(covariates), participants_id)
    request = TableRequest(
        tuple(tables),
        participants,
        roles,
        split_option(controls),
        split_option(patients),
        split_option(exclude),
        measure,
        on_missing,
        include=split_option(include),
    )
    result = validate_table(request)
    if result.ok and result.controls and result.patients:
        from rindices.study.sample_size import check_sample_size

        result = replace(result, problems=(*result.problems, *check_sample_size(result.controls, result.patients)))
    if as_json:
        print_json(_result_to_json(result))
    else:
        print_problems(result.problems)
        print_facts(_list_facts(result))
    raise typer.Exit(0 if result.ok else 1)


def _result_to_json(result: "ValidationResult") -> dict[str, Any]:
    names = ["format", "people", "controls", "patients", "regions", "covariates"]
    names += ["sites", "icv", "unit", "measures", "units", "aside", "kinds", "region_names"]
    values = {name: getattr(result, name) for name in names}
    return values | {"problems": [problem.as_dict() for problem in result.problems]}


def _list_facts(result: "ValidationResult") -> list[tuple[str, str]]:
    groups = f"{result.controls:,} controls, {result.patients:,} patients" if result.controls is not None else ""
    aside = ", ".join(f"{number} {why}" for why, number in (result.aside or {}).items())
    return [
        ("format", result.format or "unknown"),
        ("people", f"{result.people:,}" if result.people is not None else ""),
        ("groups", groups),
        ("regions", _describe_regions(result) if result.regions else ""),
        ("not used", aside),
        ("covariates", ", ".join(_describe_covariate(name, result.kinds or {}) for name in result.covariates)),
        ("ICV", f"column {result.icv}" if result.icv else ""),
        ("sites", f"{result.sites:,}" if result.sites else ""),
        ("verdict", _summarise_verdict(result)),
    ]


def _describe_regions(result: "ValidationResult") -> str:
    """Return the number of regions with their unit, by kind of measure where there are several."""
    names = join_names(result.region_names)
    if len(result.units) < 2:
        return f"{result.regions:,} ({result.unit}): {names}"
    kinds = [f"{number:,} of {kind} ({result.units[kind]})" for kind, number in result.measures.items()]
    return f"{result.regions:,}, {join_names(kinds)}: {names}"


def _describe_covariate(name: str, kinds: dict[str, str]) -> str:
    return f"{name} ({kinds[name]})" if name in kinds else name


def _summarise_verdict(result: "ValidationResult") -> str:
    if not result.ok:
        return "not ready: see the errors above"
    return "ready" if not any(problem.cure for problem in result.problems) else "ready, with what is said above"
