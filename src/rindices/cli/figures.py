"""``rindices figures``: what a paper needs of a study."""

import re
from pathlib import Path
from typing import Annotated

import typer

from rindices.cli.console import print_result, split_option
from rindices.cli.options import RUN, Json, Words

EXAMPLES = {"figures": "results --format pdf,svg --width 85mm"}
_MM_PER_UNIT = {"mm": 1.0, "cm": 10.0, "in": 25.4}


def parse_width(text: str) -> float:
    """Return a width in millimetres."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(mm|cm|in)?", text.strip())
    width = 0.0 if match is None else float(match[1]) * _MM_PER_UNIT[match[2] or "mm"]
    if not 80 <= width <= 400:
        raise typer.BadParameter(
            f"{text} is not a width of 80 mm to 400 mm: write 85mm or 180mm",
            param_hint="--width",
        )
    return width


def figures(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of a finished study.")
    ],
    formats: Annotated[
        Words,
        typer.Option("--format", help="pdf, svg and png.", metavar="FORMATS"),
    ] = None,
    width: Annotated[
        str, typer.Option(help="Of a figure: 85mm for a column, 180mm for a page.")
    ] = "180mm",
    dpi: Annotated[
        int, typer.Option(min=72, max=1200, help="Of PNG files and of brains.")
    ] = 300,
    show_people: Annotated[
        bool,
        typer.Option(
            "--show-people",
            rich_help_panel=RUN,
            help="Draw a point for each person; otherwise a mark is five people or more.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write figures, captions, Table 1, methods and maps of a paper to DIR/figures."""
    from rindices.report.paper import write_figures
    from rindices.study.write import FIGURE_FOLDER, FIGURE_FORMATS

    chosen = split_option(formats) or ("pdf",)
    if wrong := [each for each in chosen if each not in FIGURE_FORMATS]:
        raise typer.BadParameter(
            f"{wrong[0]} is unknown: write {','.join(FIGURE_FORMATS)}",
            param_hint="--format",
        )
    written = write_figures(folder, chosen, dpi, parse_width(width), show_people)
    parent = folder / FIGURE_FOLDER
    names = [path.relative_to(parent).as_posix() for path in written]
    print_result(
        as_json,
        {"folder": str(parent), "files": names},
        f"written to {parent}: {', '.join(names)}",
    )
