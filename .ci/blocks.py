"""Run every code block of README and documentation with an installed wheel.

    python .ci/blocks.py WHEEL [--python ENVIRONMENT/bin/python] [PAGE.md ...]

Creates an environment with the wheel and its core dependencies, so without torch, unless ``--python`` is given. Each
page has a separate folder with the tables of `desk.py`; its blocks run in order. ``sh`` and ``python`` are run,
``toml`` is read as a study. With a comment ``<!-- not run here: why -->`` above a block, its commands are only parsed.
Long commands are run on less data (`REPLACEMENTS`), and installation commands are skipped.
"""

import argparse
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
BLOCK = re.compile(
    r"(?P<why><!-- not run here: [^>]*-->\n)?^```(?P<kind>sh|python|toml)\n(?P<text>.*?)^```$", re.M | re.S
)
FIFTH = " && for file in organs/features.csv organs/truth.tsv; do sed -i -n '1p;/^[^,\\t]*[05][,\\t]/p' $file; done"
FEWER = " && cut -d, -f1-61 demo/volumes.csv > demo/fewer.csv && mv demo/fewer.csv demo/volumes.csv"  # regions
REPLACEMENTS = (
    ("--seed 0 --out demo", f"--seed 0 --out demo{FEWER}"),
    ("z = deviations", "deviations = deviations.iloc[:, :60]\nz = deviations"),
    ("simulate --task basic", "simulate --task tiny"),
    ("simulate --task small", "simulate --task tiny"),
    ("--task organs --seed 0 --out organs", f"--task organs --seed 0 --out organs{FIFTH}"),
    ("icv --out results", "icv --patterns 3 --members 2 --workers 1 --out results"),
    ("--recipe contrastive", "--recipe contrastive --members 2 --workers 1"),
    ("    --patterns 3 --members 5 --out", "    --patterns 1 --members 2 --workers 1 --out"),
    ("--patterns 3 --members 5 --out", "--patterns 3 --recipe contrastive --members 2 --workers 1 --out"),
    ("--patterns 1,2,3,4", "--patterns 1,2 --members 2 --workers 1"),
    ("--patterns 2,3", "--patterns 2"),
    ("--patterns 2 --out", "--patterns 1 --members 2 --workers 1 --out"),
    ("--patterns 3 --out", "--patterns 3 --recipe contrastive --members 2 --workers 1 --out"),  # then scored
    ("ri.fit(cohort, patterns=3)", "ri.fit(cohort, patterns=1, members=2, workers=1)"),
    ('ri.simulate_cohort("small"', 'ri.simulate_cohort("tiny"'),
    ("patterns=3, members=5)", "patterns=2, members=2, workers=1, seed=5)"),
)
READ_STUDY = """
import sys, tomllib
from rindices.study.config import make_study
values = tomllib.loads(sys.stdin.read())
make_study({"data": {"volumes": "table.csv"}} | values)
"""
TIMEOUT = 600  # seconds per block


@dataclass(frozen=True)
class Block:
    """A code block with its position."""

    page: Path
    line: int
    kind: str
    text: str
    run: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line} ({self.kind})"


def list_blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(page, text[: match.start("kind")].count("\n") + 1, match["kind"], match["text"], not match["why"])
        for match in BLOCK.finditer(text)
    ]


def list_pages() -> list[Path]:
    """Return README and all written pages."""
    generated = {"_build", "gallery", "generated"}
    docs = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not generated & set(path.parts)]
    return [ROOT / "README.md", *docs]


def shrink_code(text: str) -> str:
    """Return the code on less data, without installation commands."""
    for long, short in REPLACEMENTS:
        text = text.replace(long, short)
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("pip install"))


def parse_only(text: str) -> str:
    """Return the rindices commands with ``--help``, which parses all other options first."""
    ours = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("rindices ")]
    return "\n".join(f"{re.split(' [>|#]', line)[0]} --help > /dev/null" for line in ours)


def run_block(block: Block, python: Path, folder: Path) -> str:
    """Run one block; return the error message, or an empty string."""
    standard_input = None
    if block.kind == "sh":
        text = shrink_code(block.text) if block.run else parse_only(block.text)
        if block.page.name not in ("README.md", "report.md"):  # two pages draw the report of a study
            text = text.replace("rindices fit ", "rindices fit --no-report ")
        command = ["bash", "-euo", "pipefail", "-c", text]
    elif block.kind == "python":
        command = [
            str(python),
            "-c",
            shrink_code(block.text) if block.run else f"compile({block.text!r}, 'page', 'exec')",
        ]
    else:
        command, standard_input = [str(python), "-c", READ_STUDY], block.text
        (folder / "study.toml").write_text(block.text, "utf-8")
    inherited = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    settings = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PATH": f"{python.parent}:{os.environ['PATH']}"}
    try:
        result = subprocess.run(
            command,
            cwd=folder,
            env=inherited | settings,
            input=standard_input,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {TIMEOUT} s"
    return "" if result.returncode == 0 else f"exit {result.returncode}\n{result.stdout}{result.stderr}".rstrip()


def run_page(page: Path, python: Path, desk: Path, scratch: Path) -> list[str]:
    """Run the blocks of a page in a separate folder; return the failures."""
    page_blocks = list_blocks(page)
    folder = scratch / "-".join(page.relative_to(ROOT).with_suffix("").parts)
    shutil.copytree(desk, folder)
    failures, start = [], time.monotonic()
    for block in page_blocks:
        failure = run_block(block, python, folder)
        if failure:
            failures.append(f"{block}: {failure}")
    if page_blocks:
        print(f"{page.relative_to(ROOT)}: {len(page_blocks)} blocks, {time.monotonic() - start:.0f} s", flush=True)
    return failures


def make_environment(wheel: Path, folder: Path) -> Path:
    """Create an environment with the wheel and its requirements only; return its Python.

    Requirements are linked from the current environment, because installing them takes minutes; undeclared requirements
    are missing. ``nox -s install`` tests a full installation.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True)
    (installed,) = metadata.distributions(name="rindices", path=[str(site)])
    for needed in collect_requirements(installed, {}).values():
        for top in {path.parts[0] for path in needed.files or () if ".." not in path.parts}:
            source = Path(str(needed.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source.resolve())
    return python


def collect_requirements(
    package: metadata.Distribution, collected: dict[str, metadata.Distribution]
) -> dict[str, metadata.Distribution]:
    """Return the direct and indirect requirements of a package, without extras."""
    for requirement in map(Requirement, package.requires or ()):
        name = canonicalize_name(requirement.name)
        if name not in collected and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            collected[name] = metadata.distribution(name)
            collect_requirements(collected[name], collected)
    return collected


def main() -> None:
    """Run the pages, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pages", type=Path, nargs="*")
    parser.add_argument("--python", type=Path, help="Python of an environment with the wheel")
    options = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        python = options.python or make_environment(options.wheel, scratch / "venv")
        location = subprocess.run(
            [str(python), "-P", "-c", "import rindices; print(rindices.__file__)"],
            cwd=scratch, env={"PATH": os.environ["PATH"]}, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        if "site-packages" not in location:
            raise SystemExit(f"rindices is imported from {location}, not from an installed wheel")
        subprocess.run([str(python), str(ROOT / ".ci" / "desk.py"), str(scratch / "desk")], check=True, cwd=scratch)
        chosen = [page.resolve() for page in options.pages] or list_pages()
        with ThreadPoolExecutor(2) as pool:
            work = [pool.submit(run_page, page, python, scratch / "desk", scratch) for page in chosen]
            failures = [failure for future in work for failure in future.result()]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} processor seconds in all", *failures, sep="\n\n")
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
