"""Claims of the documentation: which figure belongs to which code.

``claims.toml`` names, for each claim, commands, result files, and the code that the
figures depend on. A measurement is stamped with the fingerprint of that code
(``stamps.json``). A claim is stale if the code has another one now. Rows of earlier
code may be kept if a random sample of them, measured again, is equal; then the stamp
says so (``sample``).
"""

import ast
import hashlib
import json
import platform
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from rindices.atomic import write_json

ROOT = Path(__file__).parent.parent
STAMPS = Path(__file__).parent / "stamps.json"
PACKAGES = ("numpy", "scipy", "pandas", "scikit-learn")
ReadFile = Callable[[Path], str]


class Claim(NamedTuple):
    """A claim; see ``claims.toml``."""

    name: str
    says: str
    pages: tuple[str, ...]
    commands: tuple[str, ...]
    results: tuple[str, ...]
    scripts: tuple[str, ...]
    modules: tuple[str, ...]
    people: str
    minutes: float

    def list_code(self) -> list[str]:
        """Return the paths of the code that the figures depend on, below the project's
        root.
        """
        modules = [
            f"src/rindices/{name}" if name != "." else "src/rindices"
            for name in self.modules
        ]
        return [*(f"benchmarks/{name}" for name in self.scripts), *modules]


def load_claims(path: Path = ROOT / "benchmarks" / "claims.toml") -> list[Claim]:
    """Return all claims."""
    entries: dict[str, dict[str, Any]] = tomllib.loads(path.read_text("utf-8"))
    groups, claims = entries.pop("groups", {}), []
    for name, entry in entries.items():
        values: dict[str, Any] = {
            key: tuple(each) if isinstance(each, list) else each
            for key, each in entry.items()
        }
        modules = tuple(
            module for each in entry["modules"] for module in groups.get(each, (each,))
        )
        claims.append(Claim(name, **values | {"modules": modules}))
    return claims


def compute_fingerprint(
    code: Iterable[str], files: Iterable[Path], read: ReadFile
) -> str:
    """Return a digest of the Python and TOML files among ``files`` that lie at or below
    paths of code.

    Comments, docstrings and layout do not matter. ``read`` returns the text of a file.
    """
    folders, digest = [Path(each) for each in code], hashlib.sha256()
    for path in sorted(files):
        if path.suffix in (".py", ".toml") and any(
            folder == path or folder in path.parents for folder in folders
        ):
            text = read(path)
            digest.update(
                f"{path.as_posix()}\n{_normalise(text) if path.suffix == '.py' else text}\n".encode()
            )
    return digest.hexdigest()[:16]


@cache
def _normalise(text: str) -> str:
    """Return code without comments, docstrings and layout."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            kept = [
                each
                for each in body
                if not (
                    isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
                )
            ]
            node.body = kept or [ast.Pass()]  # type: ignore[attr-defined]
    return ast.unparse(tree)


def fingerprint_now(claim: Claim) -> str:
    """Return the fingerprint of the code of a claim as it is now."""
    files = [
        path.relative_to(ROOT)
        for folder in ("src", "benchmarks")
        for path in (ROOT / folder).rglob("*")
    ]
    return compute_fingerprint(
        claim.list_code(), files, lambda path: (ROOT / path).read_text("utf-8")
    )


def load_stamps() -> dict[str, dict[str, Any]]:
    """Return the stamps of the last measurements by the name of the claim."""
    return dict(json.loads(STAMPS.read_text("utf-8"))) if STAMPS.exists() else {}


def list_stale(
    claims: Sequence[Claim], stamps: Mapping[str, Mapping[str, Any]]
) -> list[Claim]:
    """Return the claims that were measured with other code, or never."""
    return [
        each
        for each in claims
        if stamps.get(each.name, {}).get("fingerprint") != fingerprint_now(each)
    ]


def run_claim(claim: Claim) -> dict[str, Any]:
    """Run the commands of a claim, and return the stamp of the measurement.

    Results of other code are deleted first, since commands resume; a run that was
    stopped goes on, if the code is the same. Raises CalledProcessError: if a command
    fails.
    """
    fingerprint, before = (
        fingerprint_now(claim),
        resource.getrusage(resource.RUSAGE_CHILDREN),
    )
    begun = Path(tempfile.gettempdir()) / f"rindices-claim-{claim.name}-{fingerprint}"
    if not begun.exists():
        for result in claim.results:
            path = ROOT / "benchmarks" / result
            for rows in (
                path,
                path.with_suffix(".json"),
                path.with_name("results.json"),
            ):
                rows.unlink(missing_ok=True)
            shutil.rmtree(path.with_name("runs"), ignore_errors=True)
        begun.touch()
    for command in claim.commands:
        words = shlex.split(command)
        subprocess.run(
            [sys.executable, *words[1:]] if words[0] == "python" else words,
            cwd=ROOT,
            check=True,
        )
    begun.unlink()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "fingerprint": fingerprint,
        "commit": _ask_git("rev-parse", "--short", "HEAD"),
        "date": datetime.now(UTC).date().isoformat(),
        "core_minutes": round(
            (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / 60,
            1,
        ),
        "packages": {
            "python": platform.python_version(),
            **{name: version(name) for name in PACKAGES},
        },
    }


def _ask_git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def save_stamps(stamps: Mapping[str, Mapping[str, Any]]) -> None:
    """Write the stamps."""
    write_json(STAMPS, dict(sorted(stamps.items())))


def format_table(
    claims: Sequence[Claim], stamps: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the table of claims as markdown."""
    stale = {each.name for each in list_stale(claims, stamps)}
    lines = [
        "| claim | command | results | people | core-minutes | measured |",
        "|---|---|---|---|---|---|",
    ]
    for each in claims:
        stamp = stamps.get(each.name, {})
        when = (
            ", ".join(
                stamp[key] for key in ("date", "commit", "sample") if key in stamp
            )
            or "never"
        )
        measured = (
            f"{when}{', **with earlier code**' if each.name in stale and stamp else ''}"
        )
        commands, results = (
            "<br>".join(f"`{item}`" for item in items)
            for items in (each.commands, each.results)
        )
        minutes = stamp.get("core_minutes", f"about {each.minutes:g}")
        lines.append(
            f"| {each.says} | {commands} | {results} | {each.people} | {minutes} | {measured} |"
        )
    return "\n".join(lines) + "\n"
