"""``rindices site``: take part in a federated study with a table that stays here."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_facts, print_json, print_problems, split_option
from rindices.cli.options import DataOptions, Json, Tables, take_table_options

if TYPE_CHECKING:
    from rindices.federated.masks import SiteKey
    from rindices.study.config import StudyConfig

EPILOG = "Example: rindices site volumes.csv --participants p.tsv --group diagnosis --exchange shared --name hospital-a"
_DEFAULT_FEWEST = 10


@take_table_options(
    "- leave_out_sites harmonise adjust icv_for reference visits on_missing on_outlier impute_covariates"
)
def site(
    tables: Tables,
    data: DataOptions,
    exchange: Annotated[Path | None, typer.Option(help="Folder that the centre sees, too.", show_default=False)] = None,
    name: Annotated[str, typer.Option(help="Name that the centre sees; it need not be the hospital's.")] = "",
    fewest: Annotated[int, typer.Option(min=2, help="Fewest people of a sum.")] = _DEFAULT_FEWEST,
    key: Annotated[Path | None, typer.Option(help="Key that the centre has, too; see federate --make-keys.")] = None,
    private: Annotated[
        Path | None, typer.Option(help="Folder for log, ledger and R-indices, which stay here.", show_default=False)
    ] = None,
    accept: Annotated[
        list[str] | None, typer.Option(help="Fingerprints of other sites, compared by telephone; they are kept.")
    ] = None,
    left: Annotated[
        list[str] | None, typer.Option(help="SITE:ROUND, a site that left and the first round without it.")
    ] = None,
    no_masks: Annotated[
        bool, typer.Option("--no-masks", help="Let sums of this site leave without masks, as with two sites.")
    ] = False,
    no_repeat: Annotated[
        bool, typer.Option("--no-repeat", help="Trust the centre: do not repeat its calculation here.")
    ] = False,
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
    from rindices.apply.tables import write_indices
    from rindices.cli.federate import parse_left
    from rindices.cli.fit import load_study
    from rindices.errors import StudyError
    from rindices.federated.folder import MODEL_FILE, check_site_name, make_printable, read_key
    from rindices.federated.site import Site
    from rindices.federated.site_service import SiteService
    from rindices.model.fitted import FittedModel
    from rindices.study.preflight import resolve_study
    from rindices.tables.cohort import SITE

    study, folder = load_study(tables, {**data, "on_missing": "drop"}, {}, {})
    result, study = resolve_study(study, folder)
    cohort = result.cohort_or_raise()
    print_problems(result.problems)
    if SITE in cohort.people:
        raise StudyError(
            f"column '{study.data.site}' holds several sites, and a federated study removes effects of hospitals "
            "alone: run rindices site for each of them, or say --site none."
        )
    if flare_kit is not None:
        _write_to_kit(flare_kit, study, fewest, as_json)
        return
    if exchange is None:
        raise typer.BadParameter("give the folder that the centre sees, too", param_hint="--exchange")
    private = private or Path("rindices-site")
    private.mkdir(parents=True, exist_ok=True)
    name, mask_key, fingerprint = check_site_name(name or _make_name(private)), None, ""
    if not no_masks:
        mask_key, fingerprint = _open_mask_key(name, private, split_option(accept), parse_left(left))
    local_site = Site(name, cohort, fewest, private / "ledger.json", mask_key)
    typer.echo(f"{local_site.name}: {local_site.describe_people()}; waiting for requests in {exchange}", err=True)
    if fingerprint:
        typer.echo(f"fingerprint of {name}, for the other sites: {fingerprint}", err=True)
    service = SiteService(
        local_site,
        exchange,
        private,
        None if key is None else read_key(key),
        poll,
        lambda text: typer.echo(text, err=True),
        without_masks=no_masks,
        repeats=not no_repeat,
    )
    try:
        run = service.serve(wait)
    except KeyboardInterrupt:
        run = None
    indices = private / "r_indices.tsv"
    if run and run.get("model"):
        table = local_site.tabulate_people(FittedModel.load(exchange / MODEL_FILE))
        write_indices(table, indices, local_site.cohort.unit)
    has_indices = run is not None and bool(run.get("model"))
    if as_json:
        files = {"log": str(private / "log.tsv"), "r_indices": str(indices) if has_indices else None}
        print_json({"site": local_site.name, "fingerprint": fingerprint, "over": run is not None, **files})
    else:
        ending = "not over: run the same command again" if run is None else make_printable(run.get("ending") or "over")
        model = str(exchange / MODEL_FILE) if has_indices else ""
        people = f"{indices} (your people, by the members that have not seen them)" if has_indices else ""
        print_facts([("study", ending), ("log", str(private / "log.tsv")), ("model", model), ("R-indices", people)])
    if run is None:
        raise typer.Exit(3)


def _open_mask_key(
    name: str, private: Path, accept: tuple[str, ...], left: dict[str, int]
) -> "tuple[SiteKey | None, str]":
    """Return the key for masks and its fingerprint; nothing without the extra ``federated``."""
    from rindices.errors import StudyError

    try:
        from rindices.federated.masks import SiteKey, compute_fingerprint
    except ModuleNotFoundError as error:
        if accept or left:
            raise StudyError('masks need the package cryptography: pip install "rindices[federated]".') from error
        return None, ""
    key = SiteKey.open(private, accept, left)
    return key, compute_fingerprint(name, key.public)


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
