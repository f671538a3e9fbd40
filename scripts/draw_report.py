"""Draw a study's report for README and documentation: its beginning and its first pattern.

    python scripts/draw_report.py results docs/report.png

``results`` is the folder that README's commands write. Needs Chromium.
"""

import argparse
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

WIDTH, HEIGHT = 1100, 5200
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]
FLAGS += ["--disable-component-update", "--disable-sync", "--hide-scrollbars"]


def take_screenshot(page: Path, out: Path) -> None:
    """Write a screenshot of the top of a page."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("chromium is not installed.")
    with tempfile.TemporaryDirectory() as profile:
        size = f"--window-size={WIDTH},{HEIGHT}"
        target = [f"--screenshot={out.absolute()}", f"--user-data-dir={profile}", size, page.absolute().as_uri()]
        subprocess.run([browser, *FLAGS, *target], check=True, capture_output=True)


def main() -> None:
    """Take a screenshot, crop two parts and put them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--top", type=int, nargs=2, default=(0, 1200), help="rows of the left part")
    parser.add_argument("--pattern", type=int, nargs=2, default=(3190, 4390), help="rows of the right part")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        screenshot = Path(folder) / "page.png"
        take_screenshot(options.study / "report.html", screenshot)
        page = Image.open(screenshot).convert("RGB")
    crops = [page.crop((0, first, WIDTH, last)) for first, last in (options.top, options.pattern)]
    picture = Image.new("RGB", (2 * WIDTH, max(crop.height for crop in crops)), "white")
    for column, crop in enumerate(crops):
        picture.paste(crop, (column * WIDTH, 0))
    scaled = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS)
    scaled.quantize(256, Image.Quantize.MAXCOVERAGE).save(options.out, optimize=True)


if __name__ == "__main__":
    main()
