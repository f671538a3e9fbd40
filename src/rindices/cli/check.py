"""``rindices check``: says what a table is and what to fix; trains nothing."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from rindices.cli.console import print_facts, print_json, say_problems, split
from rindices.cli.options import (
    Controls,
    Covariates,
    Exclude,
    Group,
    IdColumn,
    Json,
    Participants,
    Patients,
    Session,
    Site,
    Tables,
)
from rindices.errors import named

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
    session: Session = None,
    exclude: Exclude = None,
    measure: Annotated[str, typer.Option(help="volume, thickness, area or any.")] = "volume",
    on_missing: Annotated[str, typer.Option(help="error, drop, or report.")] = "report",
    as_json: Json = False,
) -> None:
    """Read and validate a table of regional volumes, and say what it is and what to fix."""
    from rindices.tables.door import Request, examine
    from rindices.tables.sources import Roles

    roles = Roles(id_column, session, group, site, split(covariates))
    request = Request(
        tuple(tables), participants, roles, split(controls), split(patients), split(exclude), measure, on_missing
    )
    result = examine(request)
    if result.ok and result.controls and result.patients:
        from rindices.experiments.small_sample import small_sample

        result = replace(result, problems=(*result.problems, *small_sample(result.controls, result.patients)))
    if as_json:
        print_json(_as_json(result))
    else:
        say_problems(result.problems)
        print_facts(_facts(result))
    raise typer.Exit(0 if result.ok else 1)


def _as_json(result: Any) -> dict[str, Any]:
    promised = ("format", "people", "controls", "patients", "regions", "covariates")
    names = (*promised, "sites", "icv", "unit", "aside", "kinds", "region_names")
    values = {name: getattr(result, name) for name in names}
    return values | {"problems": [problem.as_dict() for problem in result.problems]}


def _facts(result: Any) -> list[tuple[str, str]]:
    groups = f"{result.controls:,} controls, {result.patients:,} patients" if result.controls is not None else ""
    aside = ", ".join(f"{number} {why}" for why, number in (result.aside or {}).items())
    return [
        ("format", result.format or "unknown"),
        ("people", f"{result.people:,}" if result.people is not None else ""),
        ("groups", groups),
        ("regions", f"{result.regions:,} ({result.unit}): {named(result.region_names)}" if result.regions else ""),
        ("not used", aside),
        ("covariates", ", ".join(_covariate(name, result.kinds or {}) for name in result.covariates)),
        ("ICV", f"column {result.icv}" if result.icv else ""),
        ("sites", f"{result.sites:,}" if result.sites else ""),
        ("verdict", _verdict(result)),
    ]


def _covariate(name: str, kinds: dict[str, str]) -> str:
    return f"{name} ({kinds[name]})" if name in kinds else name


def _verdict(result: Any) -> str:
    if not result.ok:
        return "not ready: see the errors above"
    return "ready" if not any(problem.cure for problem in result.problems) else "ready, with what is said above"
