"""Which lines the tests run, package by package.

Usage: ``python benchmarks/line_coverage.py [--jobs 2] [pytest arguments]``

Runs the tests that CI runs and writes ``results/coverage.md``. Programs that tests start count as well. A line that
runs is not yet a line that is checked; for that see ``mutants.py``. ``nox -s coverage`` does it all.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
BADLY = 80.0  # per cent; modules below it are named
SETTINGS = "[run]\nsource_pkgs = rindices\nparallel = true\npatch = subprocess\n"
SETTINGS += "[report]\nexclude_also =\n    if TYPE_CHECKING:\n"


def measure(jobs: int, arguments: list[str]) -> tuple[dict[str, tuple[int, int]], str]:
    """Return lines and covered lines of each module, and pytest's summary line."""
    with tempfile.TemporaryDirectory() as folder:
        settings, report = Path(folder) / "coveragerc", Path(folder) / "coverage.json"
        settings.write_text(SETTINGS + f"[paths]\nhere = {HERE.parent / 'src'}\n")
        command = [sys.executable, "-m", "pytest", "-q", "-m", "not slow", "-p", "no:cacheprovider", "-n", str(jobs)]
        command += ["--cov", f"--cov-config={settings}", f"--cov-report=json:{report}", *arguments]
        done = subprocess.run(command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False)
        print(done.stdout)
        files = json.loads(report.read_text())["files"]
    lines = {
        name.rsplit("rindices/", 1)[1]: (found["summary"]["num_statements"], found["summary"]["covered_lines"])
        for name, found in files.items()
    }
    summary = [line for line in done.stdout.splitlines() if " passed" in line][-1].strip("= ")
    return lines, summary.rsplit(" in ", 1)[0]


def share(counts: list[tuple[int, int]]) -> float:
    """Per cent of lines that were run."""
    lines, covered = (sum(part) for part in zip(*counts, strict=True))
    return 100.0 * covered / max(lines, 1)


def page(modules: dict[str, tuple[int, int]], summary: str) -> str:
    """The result in words."""
    packages: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, counts in modules.items():
        packages[name.rsplit("/", 1)[0] if "/" in name else "(top)"].append(counts)
    text = ["# Line coverage", f"Written by `python benchmarks/line_coverage.py` ({summary}).", ""]
    text += ["| package | lines | run by tests |", "|---|---|---|"]
    for name, counts in [*sorted(packages.items()), ("**all**", list(modules.values()))]:
        text.append(f"| {name} | {sum(lines for lines, _ in counts):,} | {share(counts):.1f} % |")
    badly = {name: share([counts]) for name, counts in sorted(modules.items()) if share([counts]) < BADLY and counts[0]}
    names = ", ".join(f"`{name}` ({value:.0f} %)" for name, value in badly.items()) or "none"
    return "\n".join([*text, "", f"Modules below {BADLY:.0f} %: {names}."]) + "\n"


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "coverage.md")
    asked, rest = parser.parse_known_args()
    asked.out.write_text(page(*measure(asked.jobs, rest)))
    print(asked.out.read_text())


if __name__ == "__main__":
    main()
