"""Options of several commands."""

from pathlib import Path
from typing import Annotated

import typer

Tables = Annotated[list[Path], typer.Argument(metavar="TABLE...", help="Volumes; several are joined by id.")]
Participants = Annotated[Path | None, typer.Option(help="Who the people are, joined by id.")]
Group = Annotated[str | None, typer.Option(help="Column that tells controls from patients.")]
Controls = Annotated[list[str] | None, typer.Option(help="Label(s) of the controls.")]
Patients = Annotated[list[str] | None, typer.Option(help="Label(s) of the patients; * for everyone else.")]
Covariates = Annotated[list[str] | None, typer.Option(help="Columns to adjust for, e.g. age,sex,icv.")]
Site = Annotated[str | None, typer.Option(help="Column of the site or scanner.")]
Harmonise = Annotated[str | None, typer.Option(help="Learn what sites do from controls, all or none.")]
Adjust = Annotated[str | None, typer.Option(help="Adjust for covariates on the log, linear or rank scale, or none.")]
IcvFor = Annotated[
    str | None,
    typer.Option(metavar="volume|all", help="Measures to adjust for head size where thickness is among them."),
]
Reference = Annotated[
    str | None,
    typer.Option(metavar="TABLE|FILE|muse", help="Healthy people measured with the same program, for correlations."),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column of the ids, if unusual.")]
Session = Annotated[str | None, typer.Option(help="Column of the session, if unusual.")]
Exclude = Annotated[list[str] | None, typer.Option(help="Regions to leave out.")]
Include = Annotated[
    list[str] | None, typer.Option(help="ventricles, or columns that are left out otherwise.", metavar="COLUMN")
]
Measure = Annotated[
    str | None,
    typer.Option(help="Use columns of volume, thickness or area alone; any for all, and for other features."),
]
ParticipantsId = Annotated[
    str | None, typer.Option("--participants-id", help="Column of the ids in the participants, if it has another name.")
]
MissingCodes = Annotated[
    list[str] | None, typer.Option(help="Values that stand for missing, e.g. -9999,-4; none for none.", metavar="CODES")
]
ImputeCovariates = Annotated[
    bool, typer.Option("--impute-covariates", help="Impute missing covariates from controls, instead of stopping.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
Workers = Annotated[int, typer.Option(help="Processes; -1 for all cores.")]
