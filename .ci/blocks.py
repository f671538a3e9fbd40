"""Run every code block of README and documentation with an installed wheel.

    python .ci/blocks.py WHEEL [--python ENVIRONMENT/bin/python] [PAGE.md ...]

Each page has a separate folder with the tables of `desk.py`; its blocks run in order.
README and the first page of the documentation (`DOCUMENTED`) are run word for word, in
an environment with the wheel and what their command ``pip install`` asks for, which is
all that is replaced. Then `scripts/read_study.py` reads the study that they made.

The other pages have an environment with the wheel and its core dependencies, so without
torch. ``sh`` and ``python`` are run, ``toml`` is read as a study. With a comment ``<!--
not run here: why -->`` above a block, its commands or its TOML are only parsed. Long
commands are run on less data (`REPLACEMENTS`), and installation commands are skipped.
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
    r"(?P<why><!-- not run here: [^>]*-->\n)?^```(?P<kind>sh|python|toml)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
FIFTH = " && for file in organs/features.csv organs/truth.tsv; do sed -i -n '1p;/^[^,\\t]*[05][,\\t]/p' $file; done"
# regions
FEWER = " && cut -d, -f1-61 demo/volumes.csv > demo/fewer.csv && mv demo/fewer.csv demo/volumes.csv"
REPLACEMENTS = (
    ("--seed 0 --out demo", f"--seed 0 --out demo{FEWER}"),
    ("z = deviations", "deviations = deviations.iloc[:, :60]\nz = deviations"),
    ("simulate --task small", "simulate --task tiny"),
    (
        "--task organs --seed 0 --out organs",
        f"--task organs --seed 0 --out organs{FIFTH}",
    ),
    (
        "    --patterns 3 --members 5 --out",
        "    --patterns 1 --members 2 --workers 1 --out",
    ),
    (
        "--patterns 3 --members 5 --out",
        "--patterns 3 --method contrastive --members 2 --workers 1 --out",
    ),
    ("--patterns 1,2,3,4", "--patterns 1,2 --members 2 --workers 1"),
    ("--patterns 2,3", "--patterns 2"),
    ("--patterns 2 --out", "--patterns 1 --members 2 --workers 1 --out"),
    (
        "--patterns 3 --out",
        "--patterns 3 --method contrastive --members 2 --workers 1 --out",
    ),  # then scored
    ('ri.simulate_cohort("small"', 'ri.simulate_cohort("tiny"'),
    ("patterns=3, members=5)", "patterns=2, members=2, workers=1, seed=5)"),
)
DOCUMENTED = (ROOT / "README.md", ROOT / "docs" / "index.md")
PICTURES = {
    ROOT / "README.md": ROOT / "docs" / "report.txt"
}  # what the picture of a page's report shows
OWN_TABLES = {"dlmuse.csv", "participants.tsv"}  # that a reader has
EXTRAS = re.compile(r"pip install ['\"]?(?:\.|rindices)\[([\w,]+)\]")
READ_STUDY = """
import sys, tomllib
from rindices.study.config import make_study
values = tomllib.loads(sys.stdin.read())
make_study({"data": {"volumes": "table.csv"}} | values)
"""
PARSE_TOML = "import sys, tomllib; tomllib.loads(sys.stdin.read())"
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
        Block(
            page,
            text[: match.start("kind")].count("\n") + 1,
            match["kind"],
            match["text"],
            not match["why"],
        )
        for match in BLOCK.finditer(text)
    ]


def list_pages() -> list[Path]:
    """Return README and all written pages."""
    generated = {"_build", "gallery", "generated"}
    docs = [
        path
        for path in sorted((ROOT / "docs").rglob("*.md"))
        if not generated & set(path.parts)
    ]
    return [ROOT / "README.md", *docs]


def prepare_code(block: Block) -> str:
    """Return the code without installation commands and, unless its page is run word
    for word, on less data.
    """
    text = block.text
    if block.page not in DOCUMENTED:
        for long, short in REPLACEMENTS:
            text = text.replace(long, short)
        if (
            block.kind == "sh" and block.page.name != "report.md"
        ):  # this page draws the report of a study
            text = text.replace("rindices fit ", "rindices fit --no-report ")
    return "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith("pip install")
    )


def parse_only(text: str) -> str:
    """Return the rindices commands with ``--help``, which parses all other options
    first.
    """
    ours = [
        line
        for line in text.replace("\\\n", " ").splitlines()
        if line.startswith("rindices ")
    ]
    return "\n".join(
        f"{re.split(' [>|#]', line)[0]} --help > /dev/null" for line in ours
    )


def run_block(block: Block, python: Path, folder: Path) -> str:
    """Run one block; return the error message, or an empty string.

    What a study prints is kept in ``terminal.txt``.
    """
    standard_input = None
    if block.kind == "sh":
        text = prepare_code(block) if block.run else parse_only(block.text)
        command = ["bash", "-euo", "pipefail", "-c", text]
    elif block.kind == "python":
        command = [
            str(python),
            "-c",
            prepare_code(block)
            if block.run
            else f"compile({block.text!r}, 'page', 'exec')",
        ]
    else:
        code = READ_STUDY if block.run else PARSE_TOML
        command, standard_input = [str(python), "-c", code], block.text
        if block.run:
            (folder / "study.toml").write_text(block.text, "utf-8")
    try:
        result = run_command(command, python, folder, standard_input)
    except subprocess.TimeoutExpired:
        return f"took longer than {TIMEOUT} s"
    if block.kind == "sh" and "rindices fit " in block.text:
        (folder / "terminal.txt").write_text(result.stdout, "utf-8")
    return (
        ""
        if result.returncode == 0
        else f"exit {result.returncode}\n{result.stdout}".rstrip()
    )


def run_command(
    command: list[str],
    python: Path,
    folder: Path,
    standard_input: str | None = None,
    errors: int = subprocess.STDOUT,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder and in the environment of a Python; both outputs
    together, as on a terminal.
    """
    inherited = {
        name: os.environ[name]
        for name in ("HOME", "LANG", "TMPDIR")
        if name in os.environ
    }
    settings = {
        "OMP_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        "PATH": f"{python.parent}:{os.environ['PATH']}",
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=inherited | settings,
        input=standard_input,
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        timeout=TIMEOUT,
    )


def read_study(page: Path, python: Path, folder: Path) -> str:
    """Repeat the page's ``rindices fit`` with ``--json``, and read terminal, JSON and
    report; return what is false.
    """
    code = "".join(
        prepare_code(block) for block in list_blocks(page) if block.kind == "sh"
    ).replace("\\\n", " ")
    (fit,) = (line for line in code.splitlines() if line.startswith("rindices fit "))
    again = run_command(
        ["bash", "-c", f"{fit} --json"], python, folder, errors=subprocess.DEVNULL
    )
    (folder / "study.json").write_text(again.stdout, "utf-8")
    reader = [
        sys.executable,
        str(ROOT / "scripts" / "read_study.py"),
        str(folder),
        "--page",
        str(page),
    ]
    picture = ["--picture", str(PICTURES[page])] if page in PICTURES else []
    result = subprocess.run(
        [*reader, *picture], capture_output=True, text=True, check=False
    )
    print(
        f"{page.relative_to(ROOT)}: {result.stdout.partition(':')[0] or 'nothing'} read",
        flush=True,
    )
    return (
        ""
        if result.returncode == 0
        else f"{page.relative_to(ROOT)}: {result.stdout}{result.stderr}"
    )


def run_page(page: Path, python: Path, desk: Path, scratch: Path) -> list[str]:
    """Run the blocks of a page in a separate folder; return the failures."""
    page_blocks = list_blocks(page)
    folder = scratch / "-".join(page.relative_to(ROOT).with_suffix("").parts)
    own = OWN_TABLES if page in DOCUMENTED else None  # no results of another study
    shutil.copytree(desk, folder, ignore=own and (lambda _, names: set(names) - own))
    failures, start = [], time.monotonic()
    for block in page_blocks:
        failure = run_block(block, python, folder)
        if failure:
            failures.append(f"{block}: {failure}")
    if (
        page in DOCUMENTED
        and not failures
        and (failure := read_study(page, python, folder))
    ):
        failures.append(failure)
    if page_blocks:
        print(
            f"{page.relative_to(ROOT)}: {len(page_blocks)} blocks, {time.monotonic() - start:.0f} s",
            flush=True,
        )
    return failures


def list_extras(page: Path) -> frozenset[str]:
    """Return the extras that a page's installation commands name: all of a page that is
    run word for word, and ``stats`` of another one.
    """
    named = EXTRAS.findall(page.read_text("utf-8"))
    extras = frozenset(extra for names in named for extra in names.split(","))
    return extras if page in DOCUMENTED else extras & {"stats"}


def make_environment(wheel: Path, folder: Path, extras: frozenset[str]) -> Path:
    """Create an environment with the wheel, its requirements and those of its extras;
    return its Python.

    Requirements are linked from the current environment, because installing them takes
    minutes; undeclared requirements are missing. ``nox -s install`` tests a full
    installation.
    """
    subprocess.run(
        [sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True
    )
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    pip = [
        sys.executable,
        "-m",
        "pip",
        "--quiet",
        "--python",
        str(python),
        "install",
        "--no-deps",
    ]
    subprocess.run([*pip, str(wheel)], check=True)
    (installed,) = metadata.distributions(name="rindices", path=[str(site)])
    for needed in collect_requirements(installed, extras, {}).values():
        for top in {
            path.parts[0] for path in needed.files or () if ".." not in path.parts
        }:
            source = Path(str(needed.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source.resolve())
    check_import(python, folder)
    return python


def check_import(python: Path, folder: Path) -> None:
    """Make sure that an environment has an installed wheel, not these sources."""
    location = subprocess.run(
        [str(python), "-P", "-c", "import rindices; print(rindices.__file__)"],
        cwd=folder, env={"PATH": os.environ["PATH"]}, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    if "site-packages" not in location:
        raise SystemExit(
            f"rindices is imported from {location}, not from an installed wheel"
        )


def collect_requirements(
    package: metadata.Distribution,
    extras: frozenset[str],
    collected: dict[str, metadata.Distribution],
) -> dict[str, metadata.Distribution]:
    """Return the direct and indirect requirements of a package with extras."""
    for requirement in map(Requirement, package.requires or ()):
        name = canonicalize_name(requirement.name)
        is_needed = requirement.marker is None or any(
            requirement.marker.evaluate({"extra": extra}) for extra in extras | {""}
        )
        if name not in collected and is_needed:
            collected[name] = metadata.distribution(name)
            collect_requirements(
                collected[name], frozenset(requirement.extras), collected
            )
    return collected


def run_pages(
    pages: list[Path], pythons: dict[frozenset[str], Path], scratch: Path
) -> list[str]:
    """Run some pages, two at a time; return the failures."""
    start = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        work = [
            pool.submit(
                run_page, page, pythons[list_extras(page)], scratch / "desk", scratch
            )
            for page in pages
        ]
        failures = [failure for future in work for failure in future.result()]
    kind = (
        "documented study"
        if set(pages) <= set(DOCUMENTED)
        else "code blocks of the other pages"
    )
    print(f"gate: {kind}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
    return failures


def main() -> None:
    """Run the pages, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pages", type=Path, nargs="*")
    parser.add_argument(
        "--python", type=Path, help="Python of an environment with the wheel"
    )
    options = parser.parse_intermixed_args()
    chosen = [page.resolve() for page in options.pages] or list_pages()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        pythons = {
            extras: options.python
            or make_environment(options.wheel, scratch / f"venv{number}", extras)
            for number, extras in enumerate(
                sorted({frozenset(), *map(list_extras, chosen)}, key=len)
            )
        }
        desk = [
            str(pythons[frozenset()]),
            str(ROOT / ".ci" / "desk.py"),
            str(scratch / "desk"),
        ]
        subprocess.run(desk, check=True, cwd=scratch)
        failures = []
        for pages in (
            [page for page in chosen if (page in DOCUMENTED) == first]
            for first in (True, False)
        ):
            failures += run_pages(pages, pythons, scratch) if pages else []
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(
        f"{used.ru_utime + used.ru_stime:.0f} processor seconds in all",
        *failures,
        sep="\n\n",
    )
    raise SystemExit(1 if failures else 0)


if __name__ == "__main__":
    main()
