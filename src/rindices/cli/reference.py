"""The command ``rindices reference``: the normal variation of healthy people, as a file without people."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import (
    Adjust,
    Covariates,
    Exclude,
    Group,
    IdColumn,
    Include,
    Json,
    Measure,
    MissingCodes,
    Participants,
    ParticipantsId,
    Session,
    Site,
    Tables,
)
from rindices.cli.output import explain_write_errors
from rindices.errors import ProblemCode

EPILOG = "Example: rindices reference healthy.csv --site site --covariates age,sex,icv --out healthy.safetensors"

_UNNEEDED_NOTES = {ProblemCode.NO_GROUPS, ProblemCode.GROUP_COLUMN_POSSIBLE}
"""Notes about groups, which a table of healthy people does not need."""


def reference(
    tables: Tables,
    out: Annotated[Path, typer.Option(help="File to write, .safetensors.")],
    participants: Participants = None,
    group: Group = None,
    controls: Annotated[list[str] | None, typer.Option(help="Label(s) of the healthy people, with --group.")] = None,
    covariates: Covariates = None,
    site: Site = None,
    adjust: Adjust = None,
    id_column: IdColumn = None,
    participants_id: ParticipantsId = None,
    session: Session = None,
    exclude: Exclude = None,
    include: Include = None,
    measure: Measure = None,
    missing_codes: MissingCodes = None,
    as_json: Json = False,
) -> None:
    """Learn the correlations of regions in healthy people, for fit --reference FILE."""
    from rindices.study.reference import fit_reference
    from rindices.tables.readers import make_request
    from rindices.tables.table import ColumnRoles

    if out.suffix != ".safetensors":
        raise typer.BadParameter(f"{out.name} has another ending than .safetensors", param_hint="--out")
    names = tuple(split_option(covariates) or ())
    healthy = split_option(controls) or ()
    request = make_request(
        tables,
        participants,
        ColumnRoles(id_column, session, group, site, names, participants_id),
        controls=healthy,
        patients=("*",) if healthy else (),
        exclude=split_option(exclude) or (),
        measure=measure,
        include=split_option(include) or (),
        missing_codes=split_option(missing_codes) or (),
        on_missing="drop",
    )
    learnt, problems = fit_reference(request, adjust)
    print_problems([problem for problem in problems if problem.code not in _UNNEEDED_NOTES])
    with explain_write_errors(out):
        learnt.save(out)
    facts = {"people": learnt.people, "sites": learnt.sites, "regions": len(learnt.regions), "adjust": learnt.adjust}
    if as_json:
        print_json({"reference": str(out), **facts, "covariates": list(learnt.covariates)})
    else:
        shown = {name: f"{value:,}" if isinstance(value, int) else str(value) for name, value in facts.items()}
        print_facts([*shown.items(), ("covariates", ", ".join(learnt.covariates)), ("file", str(out))])
