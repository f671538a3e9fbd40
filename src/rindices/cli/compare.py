"""``rindices compare``: regions, and voxels, of people with little, some or much of a pattern against controls."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import split
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
    Tables,
)
from rindices.cli.results import read_images, read_people_and_regions, write_results

if TYPE_CHECKING:
    import pandas as pd

PEOPLE = {"participant_id": "Participant", "session_id": "Session"}
EPILOG = "Example: rindices compare results/r_indices.tsv dlmuse.csv --participants participants.tsv --out compared"


def compare(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id, group and r1, r2, ...")],
    tables: Tables,
    out: Annotated[Path, typer.Option(help="Folder for regions.tsv, subgroups.tsv and maps.")],
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    covariates: Covariates = None,
    cuts: Annotated[str, typer.Option(help="Where subgroups begin and end.")] = "0.4,0.7",
    others_below: Annotated[
        float | None, typer.Option(help="Ceiling of the other indices; else the first cut.")
    ] = None,
    images: Annotated[str | None, typer.Option(help="Column of NIfTI paths, to compare voxels as well.")] = None,
    mask: Annotated[Path | None, typer.Option(help="Voxels to look at; else those that vary.")] = None,
    id_column: IdColumn = None,
    session: Session = None,
    exclude: Exclude = None,
    as_json: Json = False,
) -> None:
    """Compare regions of subgroups of patients with controls: effect sizes, intervals, false discovery rate."""
    from rindices.analysis.compare import MEANING, membership, subgroups
    from rindices.analysis.compare import compare as compare_regions
    from rindices.analysis.tidy import with_ids
    from rindices.analysis.write import write_table
    from rindices.tables.sources import Roles

    limits: dict[str, Any] = {"cuts": _numbers(cuts), "others_below": others_below}
    roles = Roles(id_column, session, group, covariates=split(covariates))
    labels = (split(controls), split(patients), split(exclude))
    people, cohort = read_people_and_regions(indices, tables, participants, roles, labels)
    adjusted = with_ids(cohort, cohort.covariates) if len(cohort.covariates.columns) else None
    table = compare_regions(people, with_ids(cohort, cohort.volumes), covariates=adjusted, **limits)
    how: dict[str, Any] = {**limits, "covariates": list(cohort.covariates.columns)}
    if images is not None:
        how |= {"maps": _compare_voxels(people, images, participants or tables[0], out, mask, adjusted, limits)}
    write_table(membership(people, subgroups(people, **limits)), out / "subgroups.tsv", PEOPLE | MEANING, how)
    significant = int((table["q"] < 0.05).sum())
    told = f"{significant} of {len(table)} differences at a false discovery rate below 0.05"
    write_results(table, out / "regions.tsv", MEANING, how, as_json, told)


def _compare_voxels(
    people: "pd.DataFrame",
    column: str,
    source: Path,
    out: Path,
    mask: Path | None,
    covariates: "pd.DataFrame | None",
    limits: dict[str, Any],
) -> list[str]:
    """Compare the images of a column, write maps and a table of them, and return the maps' paths."""
    from rindices.analysis.voxels import MEANING, compare_voxels, write_maps
    from rindices.analysis.write import write_table

    images = read_images(people, source, column)
    compared = compare_voxels(people, images, covariates=covariates, mask=mask, **limits)
    paths = [str(path) for path in write_maps(compared, out)]
    write_table(compared.table, out / "voxels.tsv", MEANING, {**limits, "maps": paths})
    return paths


def _numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in split([text]))
    except ValueError as error:
        raise typer.BadParameter("give numbers such as 0.4,0.7", param_hint="--cuts") from error
