"""Fresh environments: seconds of ``pip install``, and megabytes by package.

``python -m benchmarks.environments [--extras core,brain,gan]``

Each is a new environment into which the project is installed from its folder, with
wheels from pip's cache where it has them. ``gan`` installs the build of torch first
that is asked for with ``--torch``, as the one for CPUs is much smaller than that for
GPUs. Megabytes are the sum of the sizes of files, with the 23 MB of an empty
environment (pip and setuptools). Writes ``results/environments.json`` and ``.md``.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
OUT = Path(__file__).parent / "results" / "environments"
EARLIER = 515
"""Megabytes of the core of 0.1.0, which it may exceed by 20."""
N_SHOWN = 8
_MB = 1e6


def measure_size(folder: Path) -> int:
    """Return the bytes of all files below a folder."""
    return sum(each.lstat().st_size for each in folder.rglob("*") if not each.is_dir())


def measure(extra: str, torch: str) -> dict[str, Any]:
    """Install an extra into a new environment."""
    what = "." if extra == "core" else f".[{extra}]"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        program = [str(Path(folder) / "bin" / "python"), "-m", "pip", "install", "-q"]
        started = time.perf_counter()
        for names in [[torch]] * (extra == "gan") + [[what]]:
            subprocess.run([*program, *names], check=True, cwd=ROOT)
        seconds = time.perf_counter() - started
        (packages,) = Path(folder).glob("lib/python*/site-packages")
        sizes = {
            each.name: measure_size(each) / _MB
            for each in packages.iterdir()
            if each.is_dir()
        }
        largest = sorted(sizes, key=lambda name: -sizes[name])[:N_SHOWN]
        return {
            "seconds": round(seconds),
            "megabytes": round(measure_size(Path(folder)) / _MB),
            "load": round(os.getloadavg()[0], 1),
            "largest": {name: round(sizes[name]) for name in largest},
        }


def format_table(rows: dict[str, Any]) -> str:
    lines = ["# Fresh environments", "", "`python -m benchmarks.environments`", ""]
    lines += ["| | MB | seconds | load of the machine | largest packages (MB) |"]
    lines += ["|---|---|---|---|---|"]
    for extra, row in rows.items():
        command = "pip install ." if extra == "core" else f"pip install '.[{extra}]'"
        largest = ", ".join(f"{name} {size}" for name, size in row["largest"].items())
        lines.append(
            f"| `{command}` | {row['megabytes']:,} | {row['seconds']} | {row['load']} | {largest} |"
        )
    lines += [
        "",
        f"The core of 0.1.0 has {EARLIER} MB. Megabytes are sums of file sizes, with pip and setuptools. Seconds are of two cores "
        "that had other work to do: the load says how much.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--extras", default="core,brain,gan")
    parser.add_argument("--torch", default="torch==2.13.0")
    options = parser.parse_args()
    path = OUT.with_suffix(".json")
    rows = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    for extra in options.extras.split(","):
        rows[extra] = measure(extra, options.torch)
        print(extra, rows[extra], flush=True)
        path.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
        OUT.with_suffix(".md").write_text(format_table(rows), "utf-8")


if __name__ == "__main__":
    main()
