"""``rindices compare``: regions, and voxels, of patients with low, middle and high severity against controls."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rindices.cli.console import split_option
from rindices.cli.options import DataOptions, Json, Tables, make_table_request, take_table_options
from rindices.cli.results import read_images, read_indices_and_regions, write_results

if TYPE_CHECKING:
    import pandas as pd

ID_COLUMN_DESCRIPTIONS = {"participant_id": "Participant", "session_id": "Session"}
EPILOG = "Example: rindices compare results/r_indices.tsv dlmuse.csv --participants participants.tsv --out compared"


@take_table_options("participants group controls patients covariates id session exclude include missing_codes")
def compare(
    indices: Annotated[Path, typer.Argument(metavar="R_INDICES", help="participant_id, group and r1, r2, ...")],
    tables: Tables,
    out: Annotated[Path, typer.Option(help="Folder for regions.tsv, subgroups.tsv and maps.")],
    data: DataOptions,
    cuts: Annotated[str, typer.Option(help="Limits between subgroups.")] = "0.4,0.7",
    others_below: Annotated[
        float | None, typer.Option(help="Limit of the other indices; by default the first cut.")
    ] = None,
    images: Annotated[str | None, typer.Option(help="Column of NIfTI paths, to compare voxels as well.")] = None,
    mask: Annotated[Path | None, typer.Option(help="Voxels to compare; by default those that vary.")] = None,
    as_json: Json = False,
) -> None:
    """Compare regions of subgroups of patients with controls: effect sizes, intervals, false discovery rate."""
    from rindices.analysis.compare import COLUMN_DESCRIPTIONS, compare_subgroups, make_subgroups, tabulate_subgroups
    from rindices.analysis.tidy import add_ids
    from rindices.analysis.write import write_table

    limits: dict[str, Any] = {"cuts": _parse_numbers(cuts), "others_below": others_below}
    request = make_table_request(tables, {"covariates": ["none"], "site": "none", **data})
    people, cohort = read_indices_and_regions(indices, request)
    adjusted = add_ids(cohort, cohort.covariates) if len(cohort.covariates.columns) else None
    table = compare_subgroups(people, add_ids(cohort, cohort.volumes), covariates=adjusted, **limits)
    settings = {**limits, "covariates": list(cohort.covariates.columns)}
    if images is not None:
        settings["maps"] = _compare_voxels(
            people, images, Path(data.get("participants", tables[0])), out, mask, adjusted, limits
        )
    subgroups = tabulate_subgroups(people, make_subgroups(people, **limits))
    write_table(subgroups, out / "subgroups.tsv", ID_COLUMN_DESCRIPTIONS | COLUMN_DESCRIPTIONS, settings)
    significant = int((table["q"] < 0.05).sum())
    message = f"{significant} of {len(table)} differences with a false discovery rate below 0.05"
    write_results(table, out / "regions.tsv", COLUMN_DESCRIPTIONS, settings, as_json, message)


def _compare_voxels(
    people: "pd.DataFrame",
    column: str,
    source: Path,
    out: Path,
    mask: Path | None,
    covariates: "pd.DataFrame | None",
    limits: dict[str, Any],
) -> list[str]:
    """Compare the images of a column, write maps and a table of them, and return the paths of the maps."""
    from rindices.analysis.voxels import COLUMN_DESCRIPTIONS, compare_voxels, write_maps
    from rindices.analysis.write import write_table

    images = read_images(people, source, column)
    compared = compare_voxels(people, images, covariates=covariates, mask=mask, **limits)
    paths = [str(path) for path in write_maps(compared, out)]
    write_table(compared.table, out / "voxels.tsv", COLUMN_DESCRIPTIONS, {**limits, "maps": paths})
    return paths


def _parse_numbers(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(word) for word in split_option([text]))
    except ValueError as error:
        raise typer.BadParameter("give numbers such as 0.4,0.7", param_hint="--cuts") from error
