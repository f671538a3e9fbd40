"""Figures of the source: names, function sizes, types, docstrings, tests.

Usage::

    python scripts/code_figures.py [--json] [--list] [FOLDER]

``FOLDER`` limits the figures to one package, for instance ``src/rindices/tables``. ``--list`` names the offenders.
"""

import argparse
import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rindices"
TESTS = ROOT / "tests"
VAGUE = {"found", "told", "said", "own", "kept", "known", "given", "made"}
"""Names of variables that say nothing about their content."""
SMALL_MODULE = 40
"""Lines up to which a module needs no test file of its own."""
SECTIONS = re.compile(r"^\s*(Parameters|Returns|Attributes|Yields|Raises|Examples)\n\s*-{3,}", re.MULTILINE)

Function = ast.FunctionDef | ast.AsyncFunctionDef


def iterate_functions(tree: ast.AST) -> Iterator[Function]:
    """Yield all functions and methods, nested ones too."""
    for node in ast.walk(tree):
        if isinstance(node, Function):
            yield node


def count_body_lines(function: Function) -> int:
    """Return the lines of a function without its signature and docstring."""
    body = function.body[1:] if ast.get_docstring(function) and len(function.body) > 1 else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1


def is_one_word(name: str) -> bool:
    """Return whether a name is a single word; a leading underscore does not count."""
    return "_" not in name.lstrip("_")


def list_variables(function: Function) -> set[str]:
    """Return parameters and local variables of a function, those of nested functions left out."""
    arguments = function.args
    names = {argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    stack: list[ast.AST] = list(function.body)
    while stack:
        node = stack.pop()
        if isinstance(node, Function | ast.ClassDef):
            continue
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        stack += ast.iter_child_nodes(node)
    return names - {"self", "cls", "_"}


def is_typed(function: Function) -> bool:
    """Return whether all parameters and the result have annotations."""
    arguments = function.args
    named = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    untyped = [a for a in named if a is not None and a.annotation is None and a.arg not in ("self", "cls")]
    return not untyped and (function.returns is not None or function.name == "__init__")


def exported_names() -> dict[str, str]:
    """Return what ``rindices`` exports: name and module."""
    tree = ast.parse((SOURCE / "__init__.py").read_text("utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOMES":
            return dict(ast.literal_eval(node.value))
    raise ValueError("rindices/__init__.py has no _HOMES")


def documented_definitions(paths: list[Path]) -> list[tuple[str, bool]]:
    """Return exported functions, classes and their public methods, and whether each has numpydoc sections.

    A class that only has a docstring, such as a kind of error, has the parameters of its base.
    """
    exported, definitions = exported_names(), []
    for path in paths:
        module = "rindices." + ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        for node in ast.parse(path.read_text("utf-8")).body:
            if not isinstance(node, Function | ast.ClassDef) or exported.get(node.name) != module:
                continue
            if len(node.body) > 1:
                definitions.append((node.name, _has_sections(node)))
            if isinstance(node, ast.ClassDef):
                methods = [part for part in node.body if isinstance(part, Function) and part.name[0] != "_"]
                definitions += [(f"{node.name}.{m.name}", _has_sections(m)) for m in methods if not m.decorator_list]
    return definitions


def _has_sections(node: Function | ast.ClassDef) -> bool:
    return SECTIONS.search(ast.get_docstring(node, clean=False) or "") is not None


def find_test_file(path: Path) -> bool:
    """Return whether a module has a test file of its name, in the folder of tests that mirrors its own."""
    folder = TESTS / path.parent.relative_to(SOURCE)
    return (folder / f"test_{path.stem.lstrip('_')}.py").is_file()


def measure_source(paths: list[Path]) -> tuple[dict[str, float], dict[str, list[str]]]:
    """Return the figures, and the offenders of each."""
    trees = {path: ast.parse(path.read_text("utf-8")) for path in paths}
    top = [
        (path, node)
        for path, tree in trees.items()
        for node in tree.body
        if isinstance(node, Function) and not node.name.startswith("__")
    ]
    functions = [(path, function) for path, tree in trees.items() for function in iterate_functions(tree)]
    variables = [(path, f.name, name) for path, f in functions for name in sorted(list_variables(f))]
    lengths = sorted((count_body_lines(f), f"{path.stem}.{f.name}") for path, f in functions)
    large = [path for path in paths if len(path.read_text("utf-8").splitlines()) > SMALL_MODULE]
    documented = documented_definitions(paths)
    dicts = {path: path.read_text("utf-8").count("dict[str, Any]") for path in paths}
    offenders = {
        "one_word_functions": [f"{path.stem}.{node.name}" for path, node in top if is_one_word(node.name)],
        "vague_variables": [f"{path.stem}.{f}.{name}" for path, f, name in variables if name in VAGUE],
        "longest_function_lines": [f"{name} {length}" for length, name in reversed(lengths[-5:])],
        "typed": [f"{path.stem}.{f.name}" for path, f in functions if not is_typed(f)],
        "numpydoc": [name for name, good in documented if not good],
        "modules_with_tests": [str(path.relative_to(SOURCE)) for path in large if not find_test_file(path)],
        "any_dicts": [f"{path.relative_to(SOURCE)} {number}" for path, number in dicts.items() if number],
    }
    figures = {
        "one_word_functions": len(offenders["one_word_functions"]) / max(len(top), 1),
        "vague_variables": len(offenders["vague_variables"]) / max(len(variables), 1),
        "median_function_lines": median(length for length, _ in lengths),
        "longest_function_lines": lengths[-1][0],
        "typed": 1 - len(offenders["typed"]) / max(len(functions), 1),
        "numpydoc": 1 - len(offenders["numpydoc"]) / max(len(documented), 1),
        "modules_with_tests": 1 - len(offenders["modules_with_tests"]) / max(len(large), 1),
        "any_dicts": sum(dicts.values()),
        "lines": sum(len(path.read_text("utf-8").splitlines()) for path in paths),
    }
    return figures, offenders


def main() -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=SOURCE)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--list", action="store_true", help="name the offenders")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    figures, offenders = measure_source([folder] if folder.is_file() else sorted(folder.rglob("*.py")))
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:.4g}")
        if arguments.list and offenders.get(name):
            print("    " + ", ".join(offenders[name]))


if __name__ == "__main__":
    main()
