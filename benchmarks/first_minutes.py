"""From nothing to the open report: the start of README in a fresh environment, timed.

    python -m benchmarks.first_minutes

Makes a virtual environment, runs the commands of the section "Start" of README one by
one in a copy of the project, and writes wall seconds, processor seconds and the size of
the environment to ``results/first_minutes.md``.
"""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "benchmarks" / "results" / "first_minutes.md"


def run(
    command: list[str], folder: Path, environment: dict[str, str]
) -> tuple[float, float]:
    """Run a command; return its wall and processor seconds."""
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, cwd=folder, env=environment, check=True, capture_output=True
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        time.monotonic() - start,
        after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
    )


def main() -> None:
    (block,) = re.findall(
        r"## Start\n.*?```sh\n(.*?)```",
        (ROOT / "README.md").read_text("utf-8"),
        re.DOTALL,
    )
    commands = [shlex.split(line, comments=True) for line in block.splitlines()]
    with tempfile.TemporaryDirectory() as name:
        folder, venv = Path(name) / "project", Path(name) / "venv"
        ignored = shutil.ignore_patterns(".git", "results", "__pycache__")
        shutil.copytree(ROOT, folder, ignore=ignored)
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
        kept = {
            key: value
            for key, value in os.environ.items()
            if key not in ("PYTHONPATH", "VIRTUAL_ENV")
        }
        environment = {
            **kept,
            "PATH": f"{venv / 'bin'}{os.pathsep}{os.environ['PATH']}",
        }
        rows = [
            (" ".join(command[:2]), *run(command, folder, environment))
            for command in commands
        ]
        size = (
            sum(path.stat().st_size for path in venv.rglob("*") if path.is_file()) / 1e6
        )
        assert (folder / "results" / "report.html").is_file()
    load = os.getloadavg()[1]
    lines = [
        "# From nothing to the open report",
        f"The commands of README in a fresh environment, of {size:,.0f} MB; {os.cpu_count()} cores, load {load:.1f}.",
        "",
        "| command | wall (s) | processor (s) |",
        "|---|---|---|",
        *(f"| `{name}` | {wall:.0f} | {cpu:.0f} |" for name, wall, cpu in rows),
        f"| all | {sum(row[1] for row in rows):.0f} | {sum(row[2] for row in rows):.0f} |",
        "",
        "Written by `python -m benchmarks.first_minutes`.",
        "",
    ]
    OUT.write_text("\n".join(lines), "utf-8")
    print(OUT.read_text("utf-8"))


if __name__ == "__main__":
    main()
