"""Draw the report of README's study for README and documentation: its beginning and its
first pattern.

    python scripts/draw_report.py                      # runs README's commands, and
    draws docs/report.png python scripts/draw_report.py --study results      # draws the
    study that they wrote to this folder

Beside the picture, ``docs/report.txt`` has the menu and the first sentence of the page.
The gate runs README's commands, too, and fails if its page has others: then run this
command again. Needs the installed package with the extra ``brain``, and Chromium.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))
from scripts.chromium import Browser
from scripts.read_page import read_page

ROOT = Path(__file__).parents[1]
WIDTH, HEIGHT = 1100, 1200


def run_readme(folder: Path) -> Path:
    """Run README's commands in a folder, without installation; return the folder of the
    results.
    """
    (code,) = re.findall(
        r"^```sh\n(.*?)^```$",
        (ROOT / "README.md").read_text("utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    commands = "".join(
        line
        for line in code.splitlines(keepends=True)
        if not line.startswith("pip install")
    )
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env=os.environ | {"PATH": path},
        check=True,
    )
    return folder / "results"


def take_screenshot(page: Path, out: Path) -> int:
    """Write a screenshot of a page, and return the row at which its patterns begin."""
    with Browser() as browser:
        tab = browser.open(page, width=WIDTH)
        tab.take_picture(out)
        return int(
            tab.run(
                "document.querySelector('#patterns').getBoundingClientRect().top + scrollY"
            )
        )


def draw_page(page: Path, out: Path) -> None:
    """Take a screenshot, crop two parts and put them side by side."""
    with tempfile.TemporaryDirectory() as folder:
        screenshot = Path(folder) / "page.png"
        pattern_row = take_screenshot(page, screenshot)
        whole = Image.open(screenshot).convert("RGB")
    picture = Image.new("RGB", (2 * WIDTH, HEIGHT), "white")
    for column, row in enumerate((0, pattern_row - 20)):
        picture.paste(whole.crop((0, row, WIDTH, row + HEIGHT)), (column * WIDTH, 0))
    scaled = picture.resize(
        (picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS
    )
    scaled.quantize(256, Image.Quantize.MAXCOVERAGE).save(out, optimize=True)
    out.with_suffix(".txt").write_text(read_page(page).describe(), "utf-8")


def main() -> None:
    """Run README's commands, or take their results, and draw the report."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--study", type=Path, help="the folder that the commands wrote")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "report.png")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        draw_page(
            (options.study or run_readme(Path(folder))) / "report.html", options.out
        )


if __name__ == "__main__":
    main()
