"""Runs every code block of README and documentation from an installed wheel.

    python .ci/blocks.py WHEEL [--python ENVIRONMENT/bin/python] [PAGE.md ...]

Makes an environment of the wheel and its core dependencies alone, unless one is given. Each page has a folder of its
own with the tables of `desk.py`; its blocks run in order. ``sh`` and ``python`` are run, ``toml`` is read as a study. A
comment ``<!-- not run here: why -->`` above a block has its commands parsed only. What would take minutes is run
smaller (`SMALLER`), and installing is left out: it has been done.
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
SMALLER = (
    ("simulate --task basic", "simulate --task tiny"),
    ("icv --out results", "icv --patterns 3 --members 3 --out results"),
    ("--recipe contrastive", "--recipe contrastive --members 3"),
    ("ri.fit(cohort, patterns=[2, 3, 4])", "ri.fit(cohort, patterns=3, members=2)"),
    ("ri.SurrealGAN(n_patterns=3, random_state=0)", "ri.SurrealGAN(n_patterns=3, random_state=0, members=2)"),
)
READ_STUDY = """
import sys, tomllib
from rindices.study.config import make_study
values = tomllib.loads(sys.stdin.read())
make_study({"data": {"volumes": "table.csv"}} | values)
"""
LIMIT = 600  # seconds a block


@dataclass(frozen=True)
class Block:
    """A piece of code with its place."""

    page: Path
    line: int
    kind: str
    text: str
    run: bool

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line} ({self.kind})"


def blocks(page: Path) -> list[Block]:
    """Return the blocks of a page, in order."""
    text = page.read_text("utf-8")
    return [
        Block(page, text[: match.start("kind")].count("\n") + 1, match["kind"], match["text"], not match["why"])
        for match in BLOCK.finditer(text)
    ]


def pages() -> list[Path]:
    """Return README and all written pages."""
    made = {"_build", "gallery", "generated"}
    docs = [path for path in sorted((ROOT / "docs").rglob("*.md")) if not made & set(path.parts)]
    return [ROOT / "README.md", *docs]


def smaller(text: str) -> str:
    """Return the same code on fewer people, without installing."""
    for long, short in SMALLER:
        text = text.replace(long, short)
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("pip install"))


def parse_only(text: str) -> str:
    """Return commands of ours as questions for help, which parse all other options first."""
    ours = [line for line in text.replace("\\\n", " ").splitlines() if line.startswith("rindices ")]
    return "\n".join(f"{re.split(' [>|#]', line)[0]} --help > /dev/null" for line in ours)


def run_block(block: Block, python: Path, folder: Path) -> str:
    """Run one block; return what went wrong, or nothing."""
    given = None
    if block.kind == "sh":
        text = smaller(block.text) if block.run else parse_only(block.text)
        command = ["bash", "-euo", "pipefail", "-c", text]
    elif block.kind == "python":
        command = [str(python), "-c", smaller(block.text) if block.run else f"compile({block.text!r}, 'page', 'exec')"]
    else:
        command, given = [str(python), "-c", READ_STUDY], block.text
        (folder / "study.toml").write_text(block.text, "utf-8")
    kept = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
    settings = {"OMP_NUM_THREADS": "1", "MPLBACKEND": "agg", "PATH": f"{python.parent}:{os.environ['PATH']}"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=kept | settings, input=given, capture_output=True, text=True, timeout=LIMIT
        )
    except subprocess.TimeoutExpired:
        return f"took longer than {LIMIT} s"
    return "" if done.returncode == 0 else f"exit {done.returncode}\n{done.stdout}{done.stderr}".rstrip()


def run_page(page: Path, python: Path, desk: Path, scratch: Path) -> list[str]:
    """Run the blocks of a page in a folder of its own; return what went wrong."""
    found = blocks(page)
    folder = scratch / "-".join(page.relative_to(ROOT).with_suffix("").parts)
    shutil.copytree(desk, folder)
    wrong, start = [], time.monotonic()
    for block in found:
        complaint = run_block(block, python, folder)
        if complaint:
            wrong.append(f"{block}: {complaint}")
    if found:
        print(f"{page.relative_to(ROOT)}: {len(found)} blocks, {time.monotonic() - start:.0f} s", flush=True)
    return wrong


def environment(wheel: Path, folder: Path) -> Path:
    """Make an environment with the wheel and what it asks for, and nothing else; return its Python.

    What it asks for is linked from this environment rather than installed anew, which would take minutes; a package
    that it uses without asking for it is not there. ``nox -s install`` installs for good.
    """
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    (site,) = (folder / "lib").glob("python*/site-packages")
    pip = [sys.executable, "-m", "pip", "--quiet", "--python", str(python), "install", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True)
    (installed,) = metadata.distributions(name="rindices", path=[str(site)])
    for needed in needs(installed, {}).values():
        for top in {path.parts[0] for path in needed.files or () if ".." not in path.parts}:
            source = Path(str(needed.locate_file(top)))
            if source.exists() and not (site / top).exists():
                (site / top).symlink_to(source.resolve())
    return python


def needs(package: metadata.Distribution, found: dict[str, metadata.Distribution]) -> dict[str, metadata.Distribution]:
    """Return all that a package asks for, directly or not, without extras."""
    for requirement in map(Requirement, package.requires or ()):
        name = canonicalize_name(requirement.name)
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = metadata.distribution(name)
            needs(found[name], found)
    return found


def main() -> None:
    """Run the pages, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("wheel", type=Path)
    parser.add_argument("pages", type=Path, nargs="*")
    parser.add_argument("--python", type=Path, help="of an environment that has the wheel already")
    asked = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        python = asked.python or environment(asked.wheel, scratch / "venv")
        where = subprocess.run(
            [str(python), "-P", "-c", "import rindices; print(rindices.__file__)"],
            cwd=scratch, env={"PATH": os.environ["PATH"]}, check=True, capture_output=True, text=True,
        ).stdout.strip()  # fmt: skip
        if "site-packages" not in where:
            raise SystemExit(f"rindices is imported from {where}, not from an installed wheel")
        subprocess.run([str(python), str(ROOT / ".ci" / "desk.py"), str(scratch / "desk")], check=True, cwd=scratch)
        chosen = [page.resolve() for page in asked.pages] or pages()
        with ThreadPoolExecutor(2) as pool:
            work = [pool.submit(run_page, page, python, scratch / "desk", scratch) for page in chosen]
            wrong = [complaint for done in work for complaint in done.result()]
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"{used.ru_utime + used.ru_stime:.0f} processor seconds in all", *wrong, sep="\n\n")
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
