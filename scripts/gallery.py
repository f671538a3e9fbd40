"""Run every example, and write the pictures of those on real tables and a sheet of all.

    python scripts/gallery.py

Real tables are downloaded, or taken from the folder that RINDICES_DATA names
(``rindices.datasets``); the table of early psychosis is read from ``../shared/data``.
Writes ``docs/figures/real_*.png`` and ``docs/figures/gallery.png``.
"""

import runpy
import sys
import time
import warnings
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

ROOT = Path(__file__).parents[1]
OUT = ROOT / "docs" / "figures"
STYLE = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": "medium",
    "legend.frameon": False,
}


def run_example(path: Path) -> Path:
    """Run an example, save its last figure, and return where it is."""
    plt.close("all")
    plt.rcParams.update(STYLE | {"font.size": 10, "figure.dpi": 120})
    start = time.monotonic()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runpy.run_path(str(path))
    target = OUT / f"{path.stem}.png"
    plt.figure(plt.get_fignums()[-1]).savefig(target, dpi=110)
    print(f"{path.name}: {time.monotonic() - start:.0f} s")
    return target


def main() -> None:
    """Run all examples and draw the sheet."""
    OUT.mkdir(exist_ok=True)
    sys.argv = sys.argv[:1]
    pictures = [
        run_example(path) for path in sorted((ROOT / "examples").glob("*_*.py"))
    ]
    plt.close("all")
    figure, panels = plt.subplots(3, 3, figsize=(14, 11), layout="constrained")
    for panel, picture in zip(panels.flat, pictures, strict=True):
        panel.imshow(plt.imread(picture))
        panel.set_title(
            picture.stem.removeprefix("plot_").replace("_", " "), fontsize=11
        )
        panel.set_axis_off()
        if not picture.stem.startswith("real_"):
            picture.unlink()
    figure.savefig(OUT / "gallery.png", dpi=80)


if __name__ == "__main__":
    main()
