"""``rindices site``: take part in a federated study with a table that stays here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

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
    MissingCodes,
    Participants,
    ParticipantsId,
    Patients,
    Session,
    Tables,
)

if TYPE_CHECKING:
    from rindices.study.config import StudyConfig

EPILOG = "Example: rindices site volumes.csv --participants p.tsv --group diagnosis --exchange shared --name hospital-a"
_DEFAULT_FEWEST = 10


def site(
    tables: Tables,
    exchange: Annotated[Path | None, typer.Option(help="Folder that the centre sees, too.", show_default=False)] = None,
    name: Annotated[str, typer.Option(help="Name that the centre sees; it need not be the hospital's.")] = "",
    participants: Participants = None,
    group: Group = None,
    controls: Controls = None,
    patients: Patients = None,
    covariates: Covariates = None,
    id_column: IdColumn = None,
    participants_id: ParticipantsId = None,
    session: Session = None,
    exclude: Exclude = None,
    include: Include = None,
    measure: Measure = None,
    missing_codes: MissingCodes = None,
    fewest: Annotated[int, typer.Option(min=2, help="Fewest people of a sum.")] = _DEFAULT_FEWEST,
    key: Annotated[Path | None, typer.Option(help="Key that the centre has, too; see federate --make-keys.")] = None,
    private: Annotated[
        Path | None, typer.Option(help="Folder for the log and the ledger, which stay here.", show_default=False)
    ] = None,
    wait: Annotated[float | None, typer.Option(help="Leave after so many seconds without a request.")] = None,
    poll: Annotated[float, typer.Option(help="Seconds between two looks at the folder.")] = 0.5,
    flare_kit: Annotated[
        Path | None,
        typer.Option(
            help="Start-up kit of an NVIDIA FLARE client: name the table there, and leave.", show_default=False
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer the requests of a federated study with sums over people; no row and no id leaves."""
    from rindices.cli.fit import load_study
    from rindices.federated.folder import read_key
    from rindices.federated.site import Site
    from rindices.federated.site_service import SiteService
    from rindices.study.preflight import keep_training_scans
    from rindices.tables.validation.validate import validate_table

    groups = {"group": group, "controls": split_option(controls), "patients": split_option(patients)}
    columns = {"covariates": split_option(covariates), "id": id_column, "session": session}
    regions = {"exclude": split_option(exclude), "include": split_option(include), "measure": measure}
    regions |= {"missing_codes": split_option(missing_codes)}
    people = {"participants": participants, "participants_id": participants_id, "on_missing": "drop"}
    study, folder = load_study(tables, {**groups, **columns, **regions, **people}, {}, {})
    result = validate_table(study.data.request(folder))
    cohort, problems = keep_training_scans(result.cohort_or_raise(), result.problems)
    print_problems(problems)
    if flare_kit is not None:
        _write_to_kit(flare_kit, study, fewest, as_json)
        return
    if exchange is None:
        raise typer.BadParameter("give the folder that the centre sees, too", param_hint="--exchange")
    private = private or Path("rindices-site")
    private.mkdir(parents=True, exist_ok=True)
    local_site = Site(name or _make_name(private), cohort, fewest, private / "ledger.json")
    typer.echo(f"{local_site.name}: {local_site.describe_people()}; waiting for requests in {exchange}", err=True)
    service = SiteService(
        local_site,
        exchange,
        private,
        None if key is None else read_key(key),
        poll,
        lambda text: typer.echo(text, err=True),
    )
    try:
        is_over = service.serve(wait)
    except KeyboardInterrupt:
        is_over = False
    if as_json:
        print_json({"site": local_site.name, "over": is_over, "log": str(private / "log.tsv")})
    else:
        state = "over" if is_over else "not over: run the same command again"
        model = exchange / "model.safetensors"
        print_facts([("study", state), ("log", str(private / "log.tsv")), ("model", str(model) if is_over else "")])
    if not is_over:
        raise typer.Exit(3)


def _write_to_kit(kit: Path, study: "StudyConfig", fewest: int, as_json: bool) -> None:
    """Name the table in a start-up kit of NVIDIA FLARE, whose client then answers."""
    from rindices.federated.flare_files import write_site_study

    path = write_site_study(kit, study, fewest)
    if as_json:
        print_json({"study": str(path)})
    else:
        print_facts([("written", str(path)), ("next", f"start the client: {kit / 'startup' / 'start.sh'}")])


def _make_name(private: Path) -> str:
    """Return a name that says nothing about the site, the same in every run."""
    import secrets

    path = private / "name.txt"
    if not path.exists():
        path.write_text(f"site-{secrets.token_hex(4)}\n", "utf-8")
    return path.read_text("utf-8").strip()
