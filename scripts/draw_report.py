"""Draw a study's report for README and documentation: its beginning and its first pattern.

    python scripts/draw_report.py results docs/report.png

``results`` is the folder that README's commands write. Needs Chromium.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from PIL import Image

sys.path.insert(0, str(Path(__file__).parent.parent))
from scripts.chromium import Browser

WIDTH, HEIGHT = 1100, 1200


def take_screenshot(page: Path, out: Path) -> int:
    """Write a screenshot of a page, and return the row at which its patterns begin."""
    with Browser() as browser:
        tab = browser.open(page, width=WIDTH)
        tab.take_picture(out)
        return int(tab.run("document.querySelector('#patterns h2').getBoundingClientRect().top + scrollY"))


def main() -> None:
    """Take a screenshot, crop two parts and put them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        screenshot = Path(folder) / "page.png"
        pattern_row = take_screenshot(options.study / "report.html", screenshot)
        page = Image.open(screenshot).convert("RGB")
    picture = Image.new("RGB", (2 * WIDTH, HEIGHT), "white")
    for column, row in enumerate((0, pattern_row - 20)):
        picture.paste(page.crop((0, row, WIDTH, row + HEIGHT)), (column * WIDTH, 0))
    scaled = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS)
    scaled.quantize(256, Image.Quantize.MAXCOVERAGE).save(options.out, optimize=True)


if __name__ == "__main__":
    main()
