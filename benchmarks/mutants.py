"""Mutation testing of the modules that compute results.

Usage: ``python -m benchmarks.mutants [--only selection/choose.py ...] [--survivors]
[--jobs 2]``

Cosmic-ray lists every small change of a module (another operator, another number, a
loop left out). A fixed sample, at most one per position, is tested in a copy of the
project, each mutant against the tests of its module. Settings, and a verdict on each
survivor, are in ``mutants.toml``. ``--survivors`` repeats the mutants that survived or
timed out; ``--write`` only writes the page again. ``nox -s mutants`` runs this script.
"""

import os

os.environ.update(
    dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
)  # before numpy

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
TIMED_OUT = "it did not end"
MutantRecord = dict[str, Any]


def list_mutations(path: Path) -> Iterator[MutationSpec]:
    """Yield the mutants of a module, except those of skipped operators and of
    annotations.
    """
    annotated = list(list_annotations(ast.parse(path.read_text())))
    with (
        tempfile.TemporaryDirectory() as folder,
        use_db(str(Path(folder) / "work.sqlite"), WorkDB.Mode.create) as work,
    ):
        init([path], work, {})
        for (mutation,) in (item.mutations for item in work.work_items):
            skipped = any(
                re.search(pattern, mutation.operator_name)
                for pattern in SETTINGS["skip"]
            )
            if not skipped and not any(
                a <= tuple(mutation.start_pos) < b for a, b in annotated
            ):
                yield mutation


def list_annotations(
    tree: ast.AST,
) -> Iterator[tuple[tuple[int, int], tuple[int, int]]]:
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            annotation = getattr(node, name, None)
            if isinstance(annotation, ast.expr):
                yield (
                    (annotation.lineno, annotation.col_offset),
                    (annotation.end_lineno or 0, annotation.end_col_offset or 0),
                )


def draw_sample(path: Path, number: int) -> list[MutationSpec]:
    """Return a fixed sample, at most one mutant per position, in the order of lines."""
    candidates = sorted(
        list_mutations(path),
        key=lambda m: (tuple(m.start_pos), m.operator_name, m.occurrence),
    )
    random.Random(SETTINGS["seed"]).shuffle(candidates)
    by_position: dict[tuple[int, int], MutationSpec] = {}
    for mutation in candidates:
        if (
            len(by_position) < number
            and tuple(mutation.start_pos) not in by_position
            and is_python(apply_mutation(path, mutation))
        ):
            by_position[tuple(mutation.start_pos)] = mutation
    return sorted(by_position.values(), key=lambda m: tuple(m.start_pos))


def apply_mutation(path: Path, mutation: MutationSpec) -> str:
    """Return the source of a mutant."""
    operator = get_operator(mutation.operator_name)(**mutation.operator_args)
    return str(mutate_code(path.read_text(), operator, mutation.occurrence))


def is_python(text: str) -> bool:
    """Return whether a mutant is valid Python; a changed star of arguments is not."""
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


class FailureRecorder:
    """A pytest plugin that records the first failed test."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def run_tests(root: Path, tests: list[str], keep_bytecode: bool, failure: Path) -> None:
    """Run tests in this process and exit with their code."""
    os.setsid()
    import pytest
    from hypothesis import settings

    settings.register_profile("mutants", derandomize=True, deadline=None, database=None)
    sys.dont_write_bytecode = not keep_bytecode
    os.environ |= {"PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    os.environ |= {} if keep_bytecode else {"PYTHONDONTWRITEBYTECODE": "1"}
    sys.path[:0] = [str(root / "src"), str(root)]
    arguments = [
        *tests,
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        "-m",
        "not slow",
        "--hypothesis-profile=mutants",
    ]
    arguments += [
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
    ]  # preloaded plugins
    arguments += [f"--deselect={name}" for name in SETTINGS["deselect"]]
    with (
        failure.with_suffix(".log").open("w") as log,
        redirect_stdout(log),
        redirect_stderr(log),
    ):
        code = int(pytest.main(arguments, plugins=[FailureRecorder(failure)]))
    package = sys.modules["rindices"].__file__ or ""
    os._exit(code if package.startswith(str(root)) else 99)


def run_mutant(
    root: Path, tests: list[str], seconds: float, keep_bytecode: bool = False
) -> tuple[str, str]:
    """Return ``survived`` or ``killed``, and the test that killed the mutant."""
    with tempfile.TemporaryDirectory() as folder:
        failure = Path(folder) / "killer"
        process = multiprocessing.get_context("fork").Process(
            target=run_tests, args=(root, tests, keep_bytecode, failure), daemon=False
        )
        process.start()
        process.join(seconds)
        if process.is_alive() and process.pid:
            os.killpg(process.pid, signal.SIGKILL)
            process.join()
            return "killed", TIMED_OUT
        if process.exitcode == 99:
            raise SystemExit(f"the tests ran another rindices than the copy in {root}")
        if process.exitcode == 0:
            return "survived", ""
        return "killed", failure.read_text().split("::", 1)[
            -1
        ] if failure.exists() else "the module cannot be imported"


@contextmanager
def copy_project() -> Iterator[Path]:
    """Copy the project to a temporary folder, in which modules are changed."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve() / "project"
        for name in ("src", "tests", "scripts"):
            shutil.copytree(
                HERE.parent / name,
                root / name,
                ignore=shutil.ignore_patterns("__pycache__"),
            )
        shutil.copy(HERE.parent / "pyproject.toml", root)
        os.chdir(root)
        yield root
        os.chdir(HERE)


def try_module(module: dict[str, Any], only: set[str] | None) -> list[MutantRecord]:
    """Test the sample of one module, or only the mutants with these names."""
    with copy_project() as root:
        path = root / "src/rindices" / module["path"]
        chosen = [
            (m, *find_changed_line(path, m))
            for m in draw_sample(path, module["mutants"])
        ]
        chosen = [
            (m, old, new)
            for m, old, new in chosen
            if only is None or make_mutant_name(module["path"], new) in only
        ]
        if not chosen:
            return []
        start = time.monotonic()
        baseline = run_mutant(root, module["tests"], 3600, keep_bytecode=True)
        if baseline[0] == "killed":
            raise SystemExit(
                f"{module['path']}: its tests fail before anything is changed ({baseline[1]})"
            )
        seconds = max(
            SETTINGS["min_timeout"],
            SETTINGS["timeout_factor"] * (time.monotonic() - start),
        )
        records = []
        for mutation, old, new in chosen:
            operator = get_operator(mutation.operator_name)(**mutation.operator_args)
            with use_mutation(path, operator, mutation.occurrence):
                outcome, test = run_mutant(root, module["tests"], seconds)
            print(
                f"{module['path']}:{mutation.start_pos[0]}: {outcome} {test}\n    {old}\n    {new}",
                flush=True,
            )
            records.append(
                {
                    "module": module["path"],
                    "line": mutation.start_pos[0],
                    "old": old,
                    "new": new,
                }
                | {
                    "operator": mutation.operator_name.removeprefix("core/"),
                    "outcome": outcome,
                    "by": test,
                }
            )
    return records


def find_changed_line(path: Path, mutation: MutationSpec) -> tuple[str, str]:
    """Return the first line that a mutant changes, before and after."""
    before, after = (
        path.read_text().splitlines(),
        apply_mutation(path, mutation).splitlines(),
    )
    line = next(
        k
        for k, pair in enumerate(zip(before, after, strict=False))
        if pair[0] != pair[1]
    )
    return before[line].strip(), after[line].strip()


def make_mutant_name(module: str, new: str) -> str:
    """Return the name of a mutant in the verdicts."""
    return f"{Path(module).name}: {new}"


def format_page(mutants: list[MutantRecord]) -> str:
    """Return the results as Markdown."""
    verdicts = {
        verdict["mutant"]: verdict["says"] for verdict in SETTINGS.get("verdicts", [])
    }
    text = [
        "# Mutants",
        "Written by `python -m benchmarks.mutants`; settings and verdicts in `mutants.toml`.",
        "",
    ]
    text += [INTRODUCTION, ""]
    text += [
        "| module | tried | killed | of these by a test written for it | survived |",
        "|---|---|---|---|---|",
    ]
    rows = [*dict.fromkeys(mutant["module"] for mutant in mutants), None]
    for module in rows:
        module_mutants = [m for m in mutants if module in (None, m["module"])]
        killed = [m for m in module_mutants if m["outcome"] == "killed"]
        n_new_tests = sum(
            make_mutant_name(m["module"], m["new"]) in verdicts for m in killed
        )
        label = "**all**" if module is None else f"`{module}`"
        text.append(
            f"| {label} | {len(module_mutants)} | {len(killed)} | {n_new_tests} | {len(module_mutants) - len(killed)} |"
        )
    for title, kind in (
        ("Survivors", "survived"),
        ("Survivors that mattered, and got a test", "killed"),
    ):
        text += [
            "",
            f"## {title}",
            "| place | from | to | verdict |",
            "|---|---|---|---|",
        ]
        for m in mutants:
            verdict = verdicts.get(
                make_mutant_name(m["module"], m["new"]),
                "not looked at yet" if kind == "survived" else "",
            )
            if m["outcome"] == kind and verdict:
                verdict = f"`{m['by']}`: {verdict}" if kind == "killed" else verdict
                old, new = (m[side].replace("|", "\\|") for side in ("old", "new"))
                text.append(
                    f"| `{m['module']}:{m['line']}` | `{old}` | `{new}` | {verdict} |"
                )
    return "\n".join(text) + "\n"


def import_packages() -> None:
    """Import the packages of all tests once; mutants are forked from this process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SETTINGS["preload"]:
            importlib.import_module(name)


def main() -> None:
    """Test mutants, print and write the results."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", default=[], help="modules, as in mutants.toml"
    )
    parser.add_argument("--survivors", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    store = RESULTS / "mutants.json"
    results: list[MutantRecord] = (
        json.loads(store.read_text()) if store.exists() else []
    )
    only = None
    if options.survivors:
        only = {
            make_mutant_name(m["module"], m["new"])
            for m in results
            if m["outcome"] == "survived" or m["by"] == TIMED_OUT
        }
    order = [module["path"] for module in SETTINGS["modules"]]
    modules = (
        []
        if options.write
        else [
            m
            for m in SETTINGS["modules"]
            if not options.only or m["path"] in options.only
        ]
    )
    import_packages()
    with ProcessPoolExecutor(
        options.jobs, mp_context=multiprocessing.get_context("fork")
    ) as pool:
        for future in as_completed(
            [pool.submit(try_module, module, only) for module in modules]
        ):
            records = future.result()
            repeated = {(m["module"], m["new"]) for m in records}
            tried = {m["module"] for m in records} if only is None else set()
            results = [
                m
                for m in results
                if m["module"] not in tried and (m["module"], m["new"]) not in repeated
            ] + records
            results.sort(key=lambda m: (order.index(m["module"]), m["line"]))
            store.write_text(json.dumps(results, indent=1) + "\n")
    (RESULTS / "mutants.md").write_text(format_page(results))


if __name__ == "__main__":
    main()
