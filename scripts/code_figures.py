"""Figures of the source: its size, its functions, its names, and what an exported name needs.

Usage::

    python scripts/code_figures.py [--json] [--list]

``--list`` names the offenders. Lines of code are those without docstrings, comments and blank lines.
"""

import argparse
import ast
import io
import json
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rindices"
MAX_PARAMETERS = 8
CLOSURE_OF = "DiseaseTrajectories"
_NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}

Function = ast.FunctionDef | ast.AsyncFunctionDef


def name_module(path: Path) -> str:
    """Return the name under which a file is imported."""
    parts = ("rindices", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts).removesuffix(".__init__")


@cache
def parse(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"))


def find_docstring_lines(tree: ast.Module) -> set[int]:
    """Return the numbers of the lines of all docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | Function) and ast.get_docstring(node, clean=False) is not None:
            lines |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def find_code_lines(path: Path) -> set[int]:
    """Return the numbers of the lines that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    lines = {line for token in tokens if token.type not in _NO_CODE for line in range(token.start[0], token.end[0] + 1)}
    return lines - find_docstring_lines(parse(path))


def find_exported_names() -> dict[str, str]:
    """Return what ``rindices`` exports: name and module."""
    for node in parse(SOURCE / "__init__.py").body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_HOMES":
            return dict(ast.literal_eval(node.value))
    raise ValueError("rindices/__init__.py has no _HOMES")


def list_functions(path: Path) -> Iterator[tuple[str, Function]]:
    """Yield functions and methods with their qualified names, nested ones too."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}.{child.name}" if isinstance(child, Function | ast.ClassDef) else prefix
            if isinstance(child, Function):
                yield name, child
            yield from visit(child, name)

    return visit(parse(path), name_module(path))


def count_parameters(function: Function) -> int:
    """Return the number of parameters, without self and cls."""
    arguments = function.args
    names = [a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    return len([name for name in names if name not in ("self", "cls")])


def is_exempt(name: str, function: Function, path: Path, exported: dict[str, str]) -> bool:
    """Return whether many parameters are right: constructors and functions that are exported, and commands."""
    in_command_line = path.is_relative_to(SOURCE / "cli") and ast.unparse(function).count("Annotated[") > 1
    parts = name.split(".")
    owner = parts[-2] if function.name == "__init__" else parts[-1]
    return in_command_line or owner in exported


@cache
def find_imports(module: str, with_type_checking: bool) -> frozenset[str]:
    """Return the modules of the package that a module imports when it is loaded."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    found: set[str] = set()

    def visit(nodes: list[ast.stmt]) -> None:
        for node in nodes:
            if isinstance(node, ast.If):
                is_for_types = "TYPE_CHECKING" in ast.unparse(node.test)
                visit(node.body if with_type_checking or not is_for_types else node.orelse)
            elif isinstance(node, ast.Try):
                visit(node.body)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})

    visit(parse(path).body)
    return frozenset(found & list_modules())


@cache
def list_modules() -> frozenset[str]:
    """Return the names of all modules."""
    return frozenset(name_module(path) for path in SOURCE.rglob("*.py"))


def find_closure(module: str) -> set[str]:
    """Return a module and all modules that are loaded with it, packages without code left out."""
    closure, queue = set[str](), [module]
    while queue:
        name = queue.pop()
        if name not in closure:
            closure.add(name)
            queue += find_imports(name, False)
    return {name for name in closure if not (SOURCE.joinpath(*name.split(".")[1:])).is_dir()}


def list_circles() -> list[str]:
    """Return modules that import each other, also for type checking."""
    reach = {module: set(find_imports(module, True)) for module in list_modules()}
    grown = True
    while grown:
        grown = False
        for others in reach.values():
            more = set().union(*(reach[other] for other in others)) - others if others else set()
            others |= more
            grown |= bool(more)
    return sorted(module for module, others in reach.items() if module in others)


def measure_source() -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the figures, and the offenders of those that have any."""
    paths, exported = sorted(SOURCE.rglob("*.py")), find_exported_names()
    functions = [(path, name, node) for path in paths for name, node in list_functions(path)]
    wide = [
        f"{name} ({count_parameters(node)})"
        for path, name, node in functions
        if count_parameters(node) > MAX_PARAMETERS and not is_exempt(name, node, path, exported)
    ]
    public = Counter(
        node.name
        for path in paths
        if not path.is_relative_to(SOURCE / "cli")
        for node in parse(path).body
        if isinstance(node, Function | ast.ClassDef) and node.name[0] != "_"
    )
    repeated = sorted(name for name, number in public.items() if number > 1)
    closure, circles = sorted(find_closure(exported[CLOSURE_OF])), list_circles()
    figures = {
        "lines of code": sum(len(find_code_lines(path)) for path in paths),
        "lines of docstrings": sum(len(find_docstring_lines(parse(path))) for path in paths),
        "modules": len(paths),
        f"functions with more than {MAX_PARAMETERS} parameters": len(wide),
        "functions with more than six parameters": sum(count_parameters(node) > 6 for _, _, node in functions),
        "public names defined in several modules": len(repeated),
        f"modules that {CLOSURE_OF} needs": len(closure),
        "modules in circles of imports": len(circles),
    }
    return figures, dict(zip(list(figures)[3:], (wide, [], repeated, closure, circles), strict=True))


def main() -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--list", action="store_true", help="name the offenders")
    arguments = parser.parse_args()
    figures, offenders = measure_source()
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:42} {value:>7,}")
        if arguments.list and offenders.get(name):
            print("    " + ", ".join(offenders[name]))


if __name__ == "__main__":
    main()
