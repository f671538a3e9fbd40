"""The command ``rindices reference``: the normal variation of healthy people, as a file without people."""

from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import DataOptions, Json, Tables, make_table_request, take_table_options
from rindices.cli.output import explain_write_errors
from rindices.errors import ProblemCode

EPILOG = "Example: rindices reference healthy.csv --site site --covariates age,sex,icv --out healthy.safetensors"

_UNNEEDED_NOTES = {ProblemCode.NO_GROUPS, ProblemCode.GROUP_COLUMN_POSSIBLE}
"""Notes about groups, which a table of healthy people does not need."""


@take_table_options(
    "participants group covariates site adjust id participants_id session exclude include measure missing_codes"
)
def reference(
    tables: Tables,
    out: Annotated[Path, typer.Option(help="File to write, .safetensors.")],
    data: DataOptions,
    controls: Annotated[list[str] | None, typer.Option(help="Label(s) of the healthy people, with --group.")] = None,
    as_json: Json = False,
) -> None:
    """Learn the correlations of regions in healthy people, for fit --reference FILE."""
    from rindices.study.preflight import fit_reference

    if out.suffix != ".safetensors":
        raise typer.BadParameter(f"{out.name} has another ending than .safetensors", param_hint="--out")
    adjust, healthy = data.pop("adjust", None), split_option(controls)
    groups = {"controls": healthy, "patients": ["*"]} if healthy else {}
    request = make_table_request(tables, {**data, **groups, "on_missing": "drop"})
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
