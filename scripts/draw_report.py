"""Photograph a study's report for README and documentation: its beginning and its first pattern.

    python scripts/draw_report.py results docs/report.png

``results`` is what README's commands leave. Needs Chromium.
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


def photograph(page: Path, out: Path) -> None:
    """Write a picture of the top of a page."""
    browser = shutil.which("chromium")
    if browser is None:
        raise SystemExit("chromium is not here: install it.")
    with tempfile.TemporaryDirectory() as profile:
        size = f"--window-size={WIDTH},{HEIGHT}"
        target = [f"--screenshot={out.absolute()}", f"--user-data-dir={profile}", size, page.absolute().as_uri()]
        subprocess.run([browser, *FLAGS, *target], check=True, capture_output=True)


def main() -> None:
    """Photograph, cut two parts, put them side by side."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("study", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--top", type=int, nargs=2, default=(0, 1200), help="rows of the left part")
    parser.add_argument("--pattern", type=int, nargs=2, default=(3190, 4390), help="rows of the right part")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "page.png"
        photograph(asked.study / "report.html", whole)
        page = Image.open(whole).convert("RGB")
    parts = [page.crop((0, first, WIDTH, last)) for first, last in (asked.top, asked.pattern)]
    picture = Image.new("RGB", (2 * WIDTH, max(part.height for part in parts)), "white")
    for place, part in enumerate(parts):
        picture.paste(part, (place * WIDTH, 0))
    small = picture.resize((picture.width * 3 // 4, picture.height * 3 // 4), Image.Resampling.LANCZOS)
    small.quantize(256, Image.Quantize.MAXCOVERAGE).save(asked.out, optimize=True)


if __name__ == "__main__":
    main()
