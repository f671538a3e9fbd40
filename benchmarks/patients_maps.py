"""Maps of the difference between patients and controls in the tables of
``docs/patients.md``.

Usage: ``python -m benchmarks.patients_maps [--data ../shared/data/patients]``. Cohen's
d of each region, adjusted as in a study (`rindices.study.group_tests`). Writes
``docs/patients_maps.png`` and ``results/patients_effects.md``.
"""

import argparse
import base64
import io
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd
from PIL import Image

from benchmarks.suites.patients import list_patient_tables
from rindices.plot import brain
from rindices.plot.views import render_views
from rindices.study.group_tests import run_group_tests
from rindices.tables.cohort import Cohort
from rindices.tables.layouts.region_names import label_regions

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "patients_maps.png"
OUT = ROOT / "benchmarks" / "results" / "patients_effects.md"
TITLES = {
    "psychosis": "Early psychosis",
    "autism-ventricles": "Autism",
    "depression": "Depression (no difference detected)",
    "schizophrenia": "Schizophrenia",
}
LIMIT = 0.8  # Cohen's d at which the colours end
SHOWN_VIEWS = (
    0,
    1,
    2,
    3,
    5,
    6,
)  # both hemispheres from outside and inside, and two slices
N_LISTED = 8


def compute_effects(cohort: Cohort) -> pd.DataFrame:
    """Return the effect of each region, the largest first."""
    effects = run_group_tests(cohort).effects
    frame = pd.DataFrame(
        {
            "region": cohort.regions,
            "d": effects.d,
            "low": effects.low,
            "high": effects.high,
        }
    )
    return frame.reindex(frame["d"].abs().sort_values(ascending=False).index)


def draw_maps(effects: dict[str, pd.DataFrame]) -> None:
    """Draw a row of views for each table, and one colour bar."""
    rows = {}
    for name, frame in effects.items():
        match = brain.match_atlas(tuple(frame["region"]))
        views = render_views(
            match, dict(zip(frame["region"], frame["d"], strict=True)), LIMIT
        )
        rows[name] = [views[position] for position in SHOWN_VIEWS]
    columns = max(map(len, rows.values()))
    figure, axes = plt.subplots(
        len(rows), columns, figsize=(1.9 * columns, 1.9 * len(rows)), squeeze=False
    )
    for line, (name, views) in zip(axes, rows.items(), strict=True):
        for axis in line:
            axis.axis("off")
        for axis, view in zip(line, views, strict=False):
            content = base64.b64decode(view.uri.partition("base64,")[2])
            axis.imshow(Image.open(io.BytesIO(content)).convert("RGBA"))
            axis.set_title(view.name, fontsize=8, color="0.35")
        line[0].text(
            0.0,
            1.28,
            TITLES[name],
            transform=line[0].transAxes,
            fontsize=11,
            fontweight="bold",
        )
    colours = plt.cm.ScalarMappable(plt.Normalize(-LIMIT, LIMIT), brain.COLOUR_MAP)
    figure.subplots_adjust(
        left=0.01, right=0.99, top=0.93, bottom=0.13, hspace=0.55, wspace=0.03
    )
    bar = figure.colorbar(
        colours, cax=figure.add_axes((0.3, 0.075, 0.4, 0.016)), orientation="horizontal"
    )
    bar.set_label(
        "Cohen's d: less in patients (red), more in patients (blue)", fontsize=9
    )
    bar.ax.tick_params(labelsize=8)
    file = io.BytesIO()
    figure.savefig(file, dpi=100)
    Image.open(file).convert("RGB").quantize(256, Image.Quantize.MAXCOVERAGE).save(
        PICTURE, optimize=True
    )


def format_table(effects: dict[str, pd.DataFrame]) -> str:
    """Return the largest effects of each table as Markdown."""
    lines = [
        "# Largest differences between patients and controls",
        "`python -m benchmarks.patients_maps`",
        "",
    ]
    lines += ["| table | region | Cohen's d | 95 % interval |", "|---|---|---|---|"]
    for name, frame in effects.items():
        labels = label_regions(tuple(frame["region"]))
        lines += [
            f"| {TITLES[name]} | {labels[row.region]} | {row.d:+.2f} | {row.low:+.2f} to {row.high:+.2f} |"
            for row in frame.head(N_LISTED).itertuples()
        ]
    return "\n".join([*lines, ""])


def main() -> None:
    """Write the picture and the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, default=Path("../shared/data/patients"))
    tables = list_patient_tables(parser.parse_args().data)
    effects = {name: compute_effects(tables[name]().cohort) for name in TITLES}
    draw_maps(effects)
    OUT.write_text(format_table(effects), "utf-8")
    print(format_table(effects))


if __name__ == "__main__":
    main()
