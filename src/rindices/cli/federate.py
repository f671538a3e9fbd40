"""``rindices federate`` and ``site``: a study across sites, whose centre sees sums over people alone."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rindices.cli.console import print_facts, print_json, print_problems, print_result, split_option
from rindices.cli.options import DataOptions, Json, Tables, Words, load_study, take_table_options

if TYPE_CHECKING:
    from rindices.federated.fit import FederatedResult, FederatedSettings
    from rindices.federated.masks import SiteKey
    from rindices.federated.rounds import RoundRecord
    from rindices.study.config import StudyConfig

EXAMPLES = {
    "federate": "study.toml --exchange shared --sites 3 --out results",
    "site": "volumes.csv --participants p.tsv --group diagnosis --exchange shared --name hospital-a",
}
Left = Annotated[Words, typer.Option(help="SITE:ROUND, a site that left and the first round without it.")]
Poll = Annotated[float, typer.Option(help="Seconds between two looks at the folder.")]


def federate(
    study_file: Annotated[Path, typer.Argument(metavar="STUDY.toml", help="Sections model and run; no table.")],
    exchange: Annotated[Path | None, typer.Option(help="Folder that all sites see.")] = None,
    sites: Annotated[int, typer.Option(min=1, help="Number of sites.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Folder for the model and what was chosen.")] = None,
    leave_out: Annotated[Words, typer.Option(help="Sites to leave out; the others begin again.")] = None,
    keys: Annotated[Path | None, typer.Option(help="Folder of the keys of the sites.")] = None,
    make_keys: Annotated[Words, typer.Option(help="Names of sites: write a key of each to --keys, and leave.")] = None,
    masks: Annotated[
        bool | None, typer.Option("--masks/--no-masks", help="Ask for masked sums; the default from three sites.")
    ] = None,
    left: Left = None,
    no_distances: Annotated[
        bool, typer.Option("--no-distances", help="Leave the distances of the training people out of the model.")
    ] = False,
    wait: Annotated[float, typer.Option(help="Seconds to wait for a site.")] = 3600.0,
    poll: Poll = 0.5,
    flare_job: Annotated[
        Path | None, typer.Option(help="Folder: write a job for NVIDIA FLARE there, and leave.")
    ] = None,
    flare_kit: Annotated[
        Path | None, typer.Option(help="Start-up kit of the FLARE server: let it run jobs of rindices.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Fit a study across sites that answer with sums; run the same command again to go on after an interruption."""
    from rindices.federated.fit import FederatedSettings, run_federated_study
    from rindices.federated.folder import FolderTransport, make_run_name, read_key, wait_for_sites
    from rindices.federated.messages import WaitingError
    from rindices.federated.secure import FEWEST_SITES
    from rindices.study.config import read_study

    if make_keys is not None:
        _write_keys(split_option(make_keys), keys)
        return
    if out is None:
        raise typer.BadParameter("give the folder for the results", param_hint="--out")
    if (exchange is None) == (flare_job is None):
        raise typer.BadParameter(
            "say in one way where people are: the folder that all sites see (--exchange), or a job for NVIDIA FLARE "
            "(--flare-job)",
            param_hint="--exchange",
        )
    study, left_out, start = (
        read_study(study_file, volumes="sites", say=print_line),
        split_option(leave_out),
        time.monotonic(),
    )
    federated = FederatedSettings(
        study.model,
        study.run.seed,
        study.data.adjust,
        _is_harmonised(study, sites),
        not no_distances,
        masked=masks is True or (masks is None and sites >= FEWEST_SITES),
        left=parse_left(left),
    )
    if flare_job is not None:
        _write_flare_job(flare_job, flare_kit, federated, sites, out, int(wait))
        return
    assert exchange is not None

    def print_round(number: int, record: "RoundRecord") -> None:
        print_line(f"round {number}, {record.kind}: {record.sent:,} bytes out, {record.received:,} bytes back")

    try:
        names = wait_for_sites(exchange, sites, left_out, wait, poll)
        run = make_run_name({**federated.to_dict(), "sites": names})
        site_keys = {} if keys is None else {name: read_key(keys / f"{name}.key") for name in names}
        transport = FolderTransport(exchange, run, names, site_keys, wait, poll, print_line, federated.to_dict())
        transport.begin()
        result = run_federated_study(transport, federated, out, print_line, print_round)
    except (WaitingError, KeyboardInterrupt) as error:
        print_line(str(error) or "interrupted; run the same command again to go on")
        raise typer.Exit(3) from None
    transport.finish(result.ending, None if result.model is None else (out / "model.safetensors").read_bytes())
    print_federated_result(result, names, out, time.monotonic() - start, as_json)


def _write_flare_job(
    folder: Path, kit: Path | None, settings: "FederatedSettings", n_clients: int, out: Path, wait: int
) -> None:
    """Write a job for NVIDIA FLARE; the folder for the results is at its server."""
    from rindices.federated.flare_files import allow_jobs, write_flare_job

    if settings.masked:
        print_line("note: NVIDIA FLARE has no masks: the server sees the sums of each site. For masks use --exchange")
    if kit is not None:
        allow_jobs(kit)
    write_flare_job(folder.absolute(), str(out), n_clients, settings, wait)
    print_facts(
        [("written", str(folder)), ("next", f"nvflare job submit -j {folder}"), ("results at the server", str(out))]
    )


def parse_left(words: Words) -> dict[str, int]:
    """Return the first round without each site that left, of words such as hospital-c:57."""
    pairs = [word.rpartition(":") for word in split_option(words)]
    for name, _, number in pairs:
        if not name or not number.isdigit():
            raise typer.BadParameter("give SITE:ROUND, such as hospital-c:57", param_hint="--left")
    return {name: int(number) for name, _, number in pairs}


def print_line(text: str) -> None:
    """Print a line of progress."""
    typer.echo(text, err=True)


def _is_harmonised(study: "StudyConfig", n_sites: int) -> bool:
    """Return whether effects of sites are removed; left out, they are, as `fit` does it where a site is named."""
    from rindices.errors import StudyError

    if study.data.harmonise == "all":
        raise StudyError('harmonise = "all" cannot run across sites: set harmonise = "controls".')
    return study.data.harmonise == "controls" or (study.data.harmonise is None and n_sites > 1)


def _write_keys(names: tuple[str, ...], folder: Path | None) -> None:
    """Write a key for each site, which nobody but the centre and this site may see."""
    import secrets

    from rindices.federated.folder import check_site_name

    if folder is None:
        raise typer.BadParameter("give the folder for the keys", param_hint="--keys")
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{check_site_name(name)}.key"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32) + "\n", "utf-8")
        typer.echo(f"{path}: give it to {name} alone, by another way than the exchange folder", err=True)


def print_federated_result(
    result: "FederatedResult", sites: list[str], out: Path, seconds: float, as_json: bool
) -> None:
    """Print the end of a study across sites or parts."""
    model = str(out / "model.safetensors") if result.model is not None else None
    if as_json:
        print_json({**result.to_dict(), "sites": sites, "seconds": round(seconds, 1), "model": model})
        return
    if result.ending:
        typer.echo(result.ending, err=True)
    number = "" if result.model is None else str(result.model.n_patterns)
    print_facts(
        [
            ("finding", result.finding.replace("_", " ")),
            ("patterns", number),
            ("sites", ", ".join(sites)),
            ("people", f"{result.counts['controls']} controls, {result.counts['patients']} patients"),
            ("rounds", str(len(result.rounds))),
            ("a site received", f"{result.received / 1e6:.1f} MB"),
            ("a site sent", f"{result.sent / 1e6:.1f} MB"),
            ("seconds", f"{seconds:.0f}"),
            ("written", str(out)),
        ]
    )


@take_table_options("- leave_out_sites harmonise adjust icv_for reference visits impute_covariates")
def site(
    tables: Tables,
    data: DataOptions,
    exchange: Annotated[Path | None, typer.Option(help="Folder that the centre sees, too.")] = None,
    name: Annotated[str, typer.Option(help="Name that the centre sees; it need not be the hospital's.")] = "",
    fewest: Annotated[int, typer.Option(min=2, help="Fewest people of a sum.")] = 10,
    key: Annotated[Path | None, typer.Option(help="Key that the centre has, too; see federate --make-keys.")] = None,
    private: Annotated[Path | None, typer.Option(help="Folder for log, ledger and R-indices, which stay here.")] = None,
    accept: Annotated[
        Words, typer.Option(help="Fingerprints of other sites, compared by telephone; they are kept.")
    ] = None,
    left: Left = None,
    no_masks: Annotated[
        bool, typer.Option("--no-masks", help="Let sums of this site leave without masks, as with two sites.")
    ] = False,
    no_repeat: Annotated[
        bool, typer.Option("--no-repeat", help="Trust the centre: do not repeat its calculation here.")
    ] = False,
    wait: Annotated[float | None, typer.Option(help="Leave after so many seconds without a request.")] = None,
    poll: Poll = 0.5,
    flare_kit: Annotated[
        Path | None, typer.Option(help="Start-up kit of an NVIDIA FLARE client: name the table there, and leave.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer the requests of a federated study with sums over people; no row and no id leaves."""
    from rindices.apply.tables import write_indices
    from rindices.errors import StudyError
    from rindices.federated.flare_files import write_site_study
    from rindices.federated.folder import MODEL_FILE, check_site_name, read_key
    from rindices.federated.messages import make_printable
    from rindices.federated.site import Site
    from rindices.federated.site_service import SiteService
    from rindices.model.fitted import FittedModel
    from rindices.model.scale import describe_scale
    from rindices.study.preflight import resolve_study
    from rindices.study.wrong_cells import check_cells
    from rindices.tables.cohort import SITE

    study, folder = load_study(tables, data, {}, {})
    result, study = resolve_study(study, folder)
    checked = check_cells(result.cohort_or_raise(), study.run.seed, study.adjust, study.on_outlier)
    print_problems(result.problems)
    cohort = checked.cohort_or_raise()
    print_problems(checked.problems)
    if SITE in cohort.people:
        raise StudyError(
            f"column '{study.data.site}' holds several sites, and a federated study removes effects of hospitals "
            "alone: run rindices site for each of them, or say --site none."
        )
    if flare_kit is not None:
        path = str(write_site_study(flare_kit, study, fewest))
        facts = [("written", path), ("next", f"start the client: {flare_kit / 'startup' / 'start.sh'}")]
        print_result(as_json, {"study": path}, facts)
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
        print_line,
        without_masks=no_masks,
        repeats=not no_repeat,
    )
    try:
        run = service.serve(wait)
    except KeyboardInterrupt:
        run = None
    indices = private / "r_indices.tsv"
    has_indices = run is not None and bool(run.model)
    if has_indices:
        fitted = FittedModel.load(exchange / MODEL_FILE)
        write_indices(local_site.tabulate_people(fitted), indices, local_site.cohort.unit, describe_scale(fitted))
    log = str(private / "log.tsv")
    values = {"site": local_site.name, "fingerprint": fingerprint, "over": run is not None, "log": log}
    ending = "not over: run the same command again" if run is None else make_printable(run.ending or "over")
    model = str(exchange / MODEL_FILE) if has_indices else ""
    people = f"{indices} (your people, by the members that have not seen them)" if has_indices else ""
    facts = [("study", ending), ("log", log), ("model", model), ("R-indices", people)]
    print_result(as_json, {**values, "r_indices": str(indices) if has_indices else None}, facts)
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
            raise StudyError("masks need the package cryptography: pip install cryptography") from error
        return None, ""
    key = SiteKey.open(private, accept, left)
    return key, compute_fingerprint(name, key.public)


def _make_name(private: Path) -> str:
    """Return a name that says nothing about the site, the same in every run."""
    import secrets

    path = private / "name.txt"
    if not path.exists():
        path.write_text(f"site-{secrets.token_hex(4)}\n", "utf-8")
    return path.read_text("utf-8").strip()
