"""``rindices-nvflare``: close a start kit, look at what would leave, and
write a job.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rindices_nvflare.core import (
    GROUPS,
    LEAVES,
    RindicesError,
    describe_table,
    open_site,
    write_json,
)
from rindices_nvflare.job import (
    FEWEST_MASKED,
    describe_columns,
    join_columns,
    write_job,
)
from rindices_nvflare.kit import SiteConfig, check_kit, close_kit, is_client
from rindices_nvflare.register import Register

app = typer.Typer(
    add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False
)
Kit = Annotated[
    Path,
    typer.Argument(
        metavar="KIT", help="Start kit: the folder that holds startup and local."
    ),
]
Sites = Annotated[
    list[str] | None,
    typer.Option("--site", help="Name of a site of the study; once for each."),
]


@contextmanager
def _say_errors() -> Iterator[None]:
    try:
        yield
    except RindicesError as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None


@app.command()
def kit(
    folder: Kit,
    study: Annotated[
        Path | None, typer.Option(help="Study file that names the table of this site.")
    ] = None,
    private: Annotated[
        Path | None,
        typer.Option(help="Folder outside the kit, for this site's own files."),
    ] = None,
    site: Sites = None,
    fewest: Annotated[int, typer.Option(min=2, help="Fewest people of a sum.")] = 10,
    masks: Annotated[
        bool | None,
        typer.Option(
            "--masks/--no-masks",
            help="Masked sums alone; the default from three sites on.",
        ),
    ] = None,
) -> None:
    """Close a start kit and read it back; for a client, name its table, its own folder
    and all sites of the study.
    """
    with _say_errors():
        config = None
        if is_client(folder):
            if study is None or private is None or site is None:
                raise typer.BadParameter(
                    "a client needs --study, --private, and --site once for each site."
                )
            masked = len(site) >= FEWEST_MASKED if masks is None else masks
            config = SiteConfig(
                study=str(study.absolute()),
                private=str(private.absolute()),
                fewest=fewest,
                sites=tuple(sorted(site)),
                masked=masked,
            )
        close_kit(folder, config)
    typer.echo(f"{folder} is closed: start it, or start it again if it runs.")


@app.command()
def check(
    folder: Kit,
    columns: Annotated[
        Path | None,
        typer.Option(help="Write the names of columns to this file, for the job."),
    ] = None,
) -> None:
    """Say what would leave this site, before anything does."""
    with _say_errors():
        config = SiteConfig.read(folder)
        faults = check_kit(folder)
        site = open_site("this-site", Path(config.study))
        described = describe_table(site, config.fewest)
    typer.echo(
        f"The kit is {'closed' if not faults else 'open: ' + '; '.join(faults)}."
    )
    typer.echo(f"{site.describe_people()}.")
    typer.echo(f"Sites: {', '.join(config.sites)}.")
    people = ", ".join(
        f"{number} {group}"
        for number, group in zip(described.numbers, GROUPS, strict=True)
    )
    typer.echo(f"The server sees these numbers: {people}.")
    typer.echo(
        "It names regions, covariates and categories itself; this site answers by yes and no which it has:"
    )
    for name, own in described.facts["covariates"].items():
        typer.echo(
            f"  {name}: {'a number' if own['numeric'] else ', '.join(own['levels'])}"
        )
    who = (
        "the server sees the total of all sites alone"
        if config.masked
        else "the server sees these of this site"
    )
    typer.echo(
        f"Then sums over people leave, each over {config.fewest} people or more; {who}:"
    )
    for name, leaves in LEAVES.items():
        typer.echo(f"  {name}: {leaves}")
    typer.echo(
        "At the end one number leaves: how often a patient's R-index is above a control's, in hundredths."
    )
    if columns is not None:
        write_json(columns, describe_columns(described.facts))
        typer.echo(
            f"Look at {columns} before you send it to the centre: it has names of columns and categories alone."
        )
    if faults:
        raise typer.Exit(1)


@app.command()
def job(
    study: Annotated[
        Path,
        typer.Argument(metavar="STUDY.toml", help="Sections model and run; no table."),
    ],
    folder: Annotated[Path, typer.Option("--job", help="Folder of the job to write.")],
    site: Sites = None,
    columns: Annotated[
        list[Path] | None, typer.Option(help="File of check --columns; one or more.")
    ] = None,
    out: Annotated[
        str, typer.Option(help="Folder for the results, in the server's start kit.")
    ] = "results",
    masks: Annotated[
        bool | None,
        typer.Option(
            "--masks/--no-masks", help="Masked sums; the default from three sites on."
        ),
    ] = None,
    wait: Annotated[
        int, typer.Option(min=1, help="Seconds to wait for the answers of a round.")
    ] = 60,
    fewest: Annotated[int, typer.Option(min=2, help="Fewest people of a total.")] = 10,
) -> None:
    """Write the folder of a job from a study file; submit it with nvflare
    job submit.
    """
    with _say_errors():
        if not columns:
            raise typer.BadParameter(
                "name the columns: the file of rindices-nvflare check --columns (--columns)."
            )
        joined = join_columns([json.loads(path.read_text("utf-8")) for path in columns])
        write_job(folder, study, site or [], joined, out, masks, wait, fewest)
    typer.echo(f"{folder} is written: nvflare job submit -j {folder}")


@app.command()
def allow(folder: Kit) -> None:
    """Let the next study have other people, another plan or other rounds: the person
    responsible for this site decides.
    """
    with _say_errors():
        Register(Path(SiteConfig.read(folder).private)).allow()
    typer.echo(
        "The next study is allowed, once: sums over slightly different people tell about those who differ."
    )
