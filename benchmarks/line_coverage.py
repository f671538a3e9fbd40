"""Line coverage of the tests, by package.

Usage: ``python -m benchmarks.line_coverage [--jobs 2] [pytest arguments]``

Runs the tests of CI and writes ``results/coverage.md``. Subprocesses of tests are
included. Whether tests check the lines that they run is measured by ``mutants.py``.
``nox -s coverage`` runs this script.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).resolve().parent
LOW_COVERAGE = 80.0  # percent; modules below it are listed
SETTINGS = "[run]\nsource_pkgs = rindices\nparallel = true\npatch = subprocess\n"
SETTINGS += "[report]\nexclude_also =\n    if TYPE_CHECKING:\n"


def measure_coverage(
    jobs: int, arguments: list[str]
) -> tuple[dict[str, tuple[int, int]], str]:
    """Return lines and covered lines of each module, and pytest's summary line."""
    with tempfile.TemporaryDirectory() as folder:
        settings, report = Path(folder) / "coveragerc", Path(folder) / "coverage.json"
        settings.write_text(SETTINGS + f"[paths]\nhere = {HERE.parent / 'src'}\n")
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-m",
            "not slow and not slurm",
            "--dist",
            "loadfile",
            "-p",
            "no:cacheprovider",
            "-n",
            str(jobs),
        ]
        command += [
            "--cov",
            f"--cov-config={settings}",
            f"--cov-report=json:{report}",
            *arguments,
        ]
        result = subprocess.run(
            command, cwd=HERE.parent, stdout=subprocess.PIPE, text=True, check=False
        )
        print(result.stdout)
        files = json.loads(report.read_text())["files"]
    lines = {
        name.rsplit("rindices/", 1)[1]: (
            data["summary"]["num_statements"],
            data["summary"]["covered_lines"],
        )
        for name, data in files.items()
    }
    summary = [line for line in result.stdout.splitlines() if " passed" in line][
        -1
    ].strip("= ")
    return lines, summary.rsplit(" in ", 1)[0]


def compute_percentage(counts: list[tuple[int, int]]) -> float:
    """Return the percentage of lines that were run."""
    lines, covered = (sum(part) for part in zip(*counts, strict=True))
    return 100.0 * covered / max(lines, 1)


def format_page(modules: dict[str, tuple[int, int]], summary: str) -> str:
    """Return the result as Markdown."""
    packages: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, counts in modules.items():
        packages[name.rsplit("/", 1)[0] if "/" in name else "(top)"].append(counts)
    commit = subprocess.check_output(
        ["git", "rev-parse", "--short", "HEAD"], cwd=HERE, text=True
    ).strip()
    written = f"Written by `python -m benchmarks.line_coverage` at commit {commit} ({summary})."
    text = ["# Line coverage", written, ""]
    text += ["| package | lines | run by tests |", "|---|---|---|"]
    for name, counts in [
        *sorted(packages.items()),
        ("**all**", list(modules.values())),
    ]:
        text.append(
            f"| {name} | {sum(lines for lines, _ in counts):,} | {compute_percentage(counts):.1f} % |"
        )
    low = {
        name: compute_percentage([counts])
        for name, counts in sorted(modules.items())
        if compute_percentage([counts]) < LOW_COVERAGE and counts[0]
    }
    names = (
        ", ".join(f"`{name}` ({value:.0f} %)" for name, value in low.items()) or "none"
    )
    return (
        "\n".join([*text, "", f"Modules below {LOW_COVERAGE:.0f} %: {names}."]) + "\n"
    )


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "coverage.md")
    options, rest = parser.parse_known_args()
    options.out.write_text(format_page(*measure_coverage(options.jobs, rest)))
    print(options.out.read_text())


if __name__ == "__main__":
    main()
