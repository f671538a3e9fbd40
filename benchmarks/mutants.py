"""Do the tests notice when the code is wrong? Mutants of the modules that decide numbers, and who kills them.

Usage: ``python benchmarks/mutants.py [--only selection/choose.py ...] [--survivors] [--jobs 2]``

Cosmic-ray lists every small change of a module (another operator, another number, a loop left out); a fixed sample of
them, one a place, is tried in a copy of the project, each against the tests of its module alone. Settings, and what was
thought of each survivor, stand in ``mutants.toml``. ``--survivors`` tries again those that survived the last time, or
did not end, as on a machine that was busy; ``--write`` tries nothing and writes the page anew. ``nox -s mutants`` does
it all.
"""

import os

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1"))  # before numpy

import argparse
import ast
import importlib
import json
import multiprocessing
import random
import re
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

from cosmic_ray.commands import init
from cosmic_ray.mutating import mutate_code, use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import WorkDB, use_db
from cosmic_ray.work_item import MutationSpec

HERE = Path(__file__).resolve().parent
SETTINGS: dict[str, Any] = tomllib.loads((HERE / "mutants.toml").read_text())
RESULTS = HERE / "results"
INTRODUCTION = """\
A mutant is one small change of a module that decides numbers: another operator, another number, a loop left out. It is
killed if a test of that module fails. The sample is drawn with a fixed seed, at most one mutant a place; tests of the
whole program and tests that take long are left out, so a survivor may still die in CI."""
ENDLESS = "it did not end"
Mutant = dict[str, Any]


def mutations(path: Path) -> Iterator[MutationSpec]:
    """All mutants of a module but those of skipped operators and of annotations."""
    annotated = list(annotations(ast.parse(path.read_text())))
    with tempfile.TemporaryDirectory() as folder, use_db(str(Path(folder) / "work.sqlite"), WorkDB.Mode.create) as work:
        init([path], work, {})
        for (mutation,) in (item.mutations for item in work.work_items):
            skipped = any(re.search(pattern, mutation.operator_name) for pattern in SETTINGS["skip"])
            if not skipped and not any(a <= tuple(mutation.start_pos) < b for a, b in annotated):
                yield mutation


def annotations(tree: ast.AST) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            found = getattr(node, name, None)
            if isinstance(found, ast.expr):
                yield (found.lineno, found.col_offset), (found.end_lineno or 0, found.end_col_offset or 0)


def sample(path: Path, number: int) -> list[MutationSpec]:
    """A fixed sample, at most one mutant a place, in the order of the lines."""
    everyone = sorted(mutations(path), key=lambda m: (tuple(m.start_pos), m.operator_name, m.occurrence))
    random.Random(SETTINGS["seed"]).shuffle(everyone)
    places: dict[tuple[int, int], MutationSpec] = {}
    for mutation in everyone:
        if len(places) < number and tuple(mutation.start_pos) not in places and is_python(mutated(path, mutation)):
            places[tuple(mutation.start_pos)] = mutation
    return sorted(places.values(), key=lambda m: tuple(m.start_pos))


def mutated(path: Path, mutation: MutationSpec) -> str:
    """The text of a mutant."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    return str(mutate_code(path.read_text(), operator, mutation.occurrence))


def is_python(text: str) -> bool:
    """Whether a mutant can be read at all; a star of the arguments, taken for a product, leaves none."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class Killer:
    """A plugin of pytest that remembers the first test that failed."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def run_tests(root: Path, tests: list[str], keep_bytecode: bool, said: Path) -> None:
    """Run tests in a process of their own and leave with their verdict."""
    os.setsid()
    import pytest
    from hypothesis import settings

    settings.register_profile("mutants", derandomize=True, deadline=None, database=None)
    sys.dont_write_bytecode = not keep_bytecode
    os.environ |= {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    os.environ |= {} if keep_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = [str(root / "src"), str(root)]
    arguments = [*tests, "-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "--hypothesis-profile=mutants"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # preloaded plugins
    arguments += [f"--deselect={name}" for name in SETTINGS["deselect"]]
    with said.with_suffix(".log").open("w") as log, redirect_stdout(log), redirect_stderr(log):
        code = int(pytest.main(arguments, plugins=[Killer(said)]))
    home = sys.modules["rindices"].__file__ or ""
    os._exit(code if home.startswith(str(root)) else 99)


def outcome(root: Path, tests: list[str], seconds: float, keep_bytecode: bool = False) -> tuple[str, str]:
    """``survived`` or ``killed``, and by whom."""
    with tempfile.TemporaryDirectory() as folder:
        said = Path(folder) / "killer"
        process = multiprocessing.get_context("fork").Process(
            target=run_tests, args=(root, tests, keep_bytecode, said), daemon=False
        )
        process.start()
        process.join(seconds)
        if process.is_alive() and process.pid:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return "killed", ENDLESS
        if process.exitcode == 99:
            raise SystemExit(f"the tests ran another rindices than the copy in {root}")
        if process.exitcode == 0:
            return "survived", ""
        return "killed", said.read_text().split("::", 1)[-1] if said.exists() else "the module cannot be imported"


@contextmanager
def copy_of_the_project() -> Iterator[Path]:
    """A copy to mutate; the project itself is never touched."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        for name in ("src", "tests", "scripts"):
            shutil.copytree(HERE.parent / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(HERE.parent / "pyproject.toml", root)
        os.chdir(root)
        yield root
        os.chdir(HERE)


def try_module(module: dict[str, Any], only: set[str] | None) -> list[Mutant]:
    """Try the sample of one module; ``only`` says which mutants, by their name."""
    with copy_of_the_project() as root:
        path = root / "src/rindices" / module["path"]
        chosen = [(m, *lines(path, m)) for m in sample(path, module["mutants"])]
        chosen = [(m, old, new) for m, old, new in chosen if only is None or name_of(module["path"], new) in only]
        if not chosen:
            return []
        start = time.monotonic()
        first = outcome(root, module["tests"], 3600, keep_bytecode=True)
        if first[0] == "killed":
            raise SystemExit(f"{module['path']}: its tests fail before anything is changed ({first[1]})")
        seconds = max(SETTINGS["least"], SETTINGS["patience"] * (time.monotonic() - start))
        found = []
        for mutation, old, new in chosen:
            operator = get_operator(mutation.operator_name)(**mutation.operator_args)
            with use_mutation(path, operator, mutation.occurrence):
                what, who = outcome(root, module["tests"], seconds)
            print(f"{module['path']}:{mutation.start_pos[0]}: {what} {who}\n    {old}\n    {new}", flush=True)
            found.append(
                {"module": module["path"], "line": mutation.start_pos[0], "old": old, "new": new}
                | {"operator": mutation.operator_name.removeprefix("core/"), "outcome": what, "by": who}
            )
    return found


def lines(path: Path, mutation: MutationSpec) -> tuple[str, str]:
    """The first line that a mutant changes, before and after."""
    before, after = path.read_text().splitlines(), mutated(path, mutation).splitlines()
    place = next(k for k, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1])
    return before[place].strip(), after[place].strip()


def name_of(module: str, new: str) -> str:
    """What a mutant is called among the verdicts."""
    return f"{Path(module).name}: {new}"


def page(mutants: list[Mutant]) -> str:
    """The result in words."""
    verdicts = {verdict["mutant"]: verdict["says"] for verdict in SETTINGS.get("verdicts", [])}
    text = ["# Mutants", "Written by `python benchmarks/mutants.py`; settings and verdicts in `mutants.toml`.", ""]
    text += [INTRODUCTION, ""]
    text += ["| module | tried | killed | of these by a test written for it | survived |", "|---|---|---|---|---|"]
    rows = [*dict.fromkeys(mutant["module"] for mutant in mutants), None]
    for module in rows:
        own = [m for m in mutants if module in (None, m["module"])]
        killed = [m for m in own if m["outcome"] == "killed"]
        late = sum(name_of(m["module"], m["new"]) in verdicts for m in killed)
        shown = "**all**" if module is None else f"`{module}`"
        text.append(f"| {shown} | {len(own)} | {len(killed)} | {late} | {len(own) - len(killed)} |")
    for title, kind in (("Survivors", "survived"), ("Survivors that mattered, and got a test", "killed")):
        text += ["", f"## {title}", "| place | from | to | verdict |", "|---|---|---|---|"]
        for m in mutants:
            verdict = verdicts.get(name_of(m["module"], m["new"]), "not looked at yet" if kind == "survived" else "")
            if m["outcome"] == kind and verdict:
                verdict = f"`{m['by']}`: {verdict}" if kind == "killed" else verdict
                old, new = (m[side].replace("|", "\\|") for side in ("old", "new"))
                text.append(f"| `{m['module']}:{m['line']}` | `{old}` | `{new}` | {verdict} |")
    return "\n".join(text) + "\n"


def preload() -> None:
    """Import what all mutants need, so that none waits for it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SETTINGS["preload"]:
            importlib.import_module(name)


def main() -> None:
    """Try, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="*", default=[], help="modules, as in mutants.toml")
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    asked = parser.parse_args()
    store = RESULTS / "mutants.json"
    known: list[Mutant] = json.loads(store.read_text()) if store.exists() else []
    only = None
    if asked.survivors:
        only = {name_of(m["module"], m["new"]) for m in known if m["outcome"] == "survived" or m["by"] == ENDLESS}
    order = [module["path"] for module in SETTINGS["modules"]]
    modules = [] if asked.write else [m for m in SETTINGS["modules"] if not asked.only or m["path"] in asked.only]
    preload()
    with ProcessPoolExecutor(asked.jobs, mp_context=multiprocessing.get_context("fork")) as pool:
        for future in as_completed([pool.submit(try_module, module, only) for module in modules]):
            found = future.result()
            again = {(m["module"], m["new"]) for m in found}
            tried = {m["module"] for m in found} if only is None else set()
            known = [m for m in known if m["module"] not in tried and (m["module"], m["new"]) not in again] + found
            known.sort(key=lambda m: (order.index(m["module"]), m["line"]))
            store.write_text(json.dumps(known, indent=1) + "\n")
    (RESULTS / "mutants.md").write_text(page(known))


if __name__ == "__main__":
    main()
