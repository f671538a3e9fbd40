"""Figures of the source: its size, its functions, its names, and what an exported name
needs.

Usage::

    python scripts/code_figures.py [--json] [--list]

``--list`` names the offenders, and what was exempted. Lines of code are those without
docstrings, comments and blank lines.
"""

import argparse
import ast
import io
import json
import re
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SOURCE = ROOT / "src" / "rindices"
MAX_PARAMETERS = 8
MAX_FUNCTION_LINES = 50
MAX_STATEMENTS = 40
MAX_POSITIONAL_FIELDS = 3
MAX_SEMICOLONS = 1
"""A docstring with more of them joins facts that belong in lines of their own."""
NO_FIELDS = {"ClassVar", "InitVar", "KW_ONLY"}
PUBLIC_MODULES = ("rindices.analysis", "rindices.datasets", "rindices.plot")
"""Modules that are exported as such; their public names are exported, too."""
CLOSURE_OF = "DiseaseTrajectories"
_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}

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
        if (
            isinstance(node, ast.Module | ast.ClassDef | Function)
            and ast.get_docstring(node, clean=False) is not None
        ):
            lines |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return lines


def find_code_lines(path: Path) -> set[int]:
    """Return the numbers of the lines that hold code."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    lines = {
        line
        for token in tokens
        if token.type not in _NO_CODE
        for line in range(token.start[0], token.end[0] + 1)
    }
    return lines - find_docstring_lines(parse(path))


def find_exported_names() -> dict[str, str]:
    """Return what ``rindices`` exports: name and module."""
    for node in parse(SOURCE / "__init__.py").body:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and node.targets[0].id == "_HOMES"
        ):
            return dict(ast.literal_eval(node.value))
    raise ValueError("rindices/__init__.py has no _HOMES")


def list_functions(path: Path) -> Iterator[tuple[str, Function]]:
    """Yield functions and methods with their qualified names, nested ones too."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            name = (
                f"{prefix}.{child.name}"
                if isinstance(child, Function | ast.ClassDef)
                else prefix
            )
            if isinstance(child, Function):
                yield name, child
            yield from visit(child, name)

    return visit(parse(path), name_module(path))


def count_parameters(function: Function) -> int:
    """Return the number of parameters, without self and cls."""
    arguments = function.args
    names = [
        a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    ]
    return len([name for name in names if name not in ("self", "cls")])


def is_exempt(
    name: str, function: Function, path: Path, exported: dict[str, str]
) -> bool:
    """Return whether many parameters are right: constructors and functions that are
    exported, and commands.
    """
    parts = name.split(".")
    owner = parts[-2] if function.name == "__init__" else parts[-1]
    return declares_options(function, path) or owner in exported


def declares_options(function: Function, path: Path) -> bool:
    """Return whether the parameters of a function are the options of a command, with
    their help.
    """
    in_command_line = path.is_relative_to(SOURCE / "cli")
    return in_command_line and ast.unparse(function).count("Annotated[") > 1


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
                visit(
                    node.body if with_type_checking or not is_for_types else node.orelse
                )
            elif isinstance(node, ast.Try):
                visit(node.body)
            elif isinstance(node, ast.Import):
                found.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.update(
                    {
                        node.module,
                        *(f"{node.module}.{alias.name}" for alias in node.names),
                    }
                )

    visit(parse(path).body)
    return frozenset(found & list_modules())


@cache
def list_modules() -> frozenset[str]:
    """Return the names of all modules."""
    return frozenset(name_module(path) for path in SOURCE.rglob("*.py"))


def find_closure(module: str) -> set[str]:
    """Return a module and all modules that are loaded with it, packages without code
    left out.
    """
    closure, queue = set[str](), [module]
    while queue:
        name = queue.pop()
        if name not in closure:
            closure.add(name)
            queue += find_imports(name, False)
    return {
        name for name in closure if not (SOURCE.joinpath(*name.split(".")[1:])).is_dir()
    }


def list_public_names() -> dict[str, str]:
    """Return the names that users may import: qualified name and name as exported."""
    names = {f"{home}.{name}": name for name, home in find_exported_names().items()}
    for module in PUBLIC_MODULES:
        path = SOURCE.joinpath(*module.split(".")[1:])
        if path.is_dir():
            lists = [
                ast.literal_eval(node.value)
                for node in parse(path / "__init__.py").body
                if isinstance(node, ast.Assign)
                and ast.unparse(node.targets[0]) == "__all__"
            ]
            homes = find_imports(module, True)
            names |= {
                f"{home}.{name}": name
                for name in lists[0]
                for home in homes
                if any(name == each.name for each in list_definitions(home))
            }
        else:
            names |= {
                f"{module}.{each.name}": each.name
                for each in list_definitions(module)
                if each.name[0] != "_"
            }
    return names


def list_definitions(module: str) -> list[Function | ast.ClassDef]:
    """Return the functions and classes that a module defines."""
    path = SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return [
        node for node in parse(path).body if isinstance(node, Function | ast.ClassDef)
    ]


@cache
def list_classes(path: Path) -> list[ast.ClassDef]:
    """Return the classes of a file, nested ones too."""
    return [node for node in ast.walk(parse(path)) if isinstance(node, ast.ClassDef)]


def find_record_classes() -> set[str]:
    """Return the names of base classes whose subclasses are records."""
    bases = {"NamedTuple", "Record", "BaseModel", "TypedDict"}
    grown = True
    while grown:
        more = {
            node.name
            for path in SOURCE.rglob("*.py")
            for node in list_classes(path)
            if {ast.unparse(base).split("[")[0] for base in node.bases} & bases
        }
        grown = not more <= bases
        bases |= more
    return bases


def get_decorator(node: ast.ClassDef) -> str:
    """Return the ``dataclass`` decorator of a class, or nothing."""
    texts = [ast.unparse(each) for each in node.decorator_list]
    return next((text for text in texts if text.startswith("dataclass")), "")


def list_fields(node: ast.ClassDef) -> list[str]:
    """Return the names of the fields of a record."""
    return [
        each.target.id
        for each in node.body
        if isinstance(each, ast.AnnAssign)
        and isinstance(each.target, ast.Name)
        and not set(re.split(r"\W+", ast.unparse(each.annotation))) & NO_FIELDS
        and "init=False" not in ast.unparse(each)
    ]


def list_records() -> Iterator[tuple[str, ast.ClassDef]]:
    """Yield all records with their qualified names: tuples, dataclasses and models."""
    bases = find_record_classes()
    for path in sorted(SOURCE.rglob("*.py")):
        for node in list_classes(path):
            of = {ast.unparse(base).split("[")[0] for base in node.bases}
            if get_decorator(node) or of & bases:
                yield f"{name_module(path)}.{node.name}", node


def is_built_by_position(node: ast.ClassDef, bases: set[str]) -> bool:
    """Return whether fields of a record can be given without their names."""
    if "kw_only=True" in get_decorator(node):
        return False
    of = {ast.unparse(base).split("[")[0] for base in node.bases}
    is_by_keyword = of & bases and not of & {"NamedTuple"}
    positional = [
        each
        for each in node.body
        if isinstance(each, ast.AnnAssign) and "kw_only=True" not in ast.unparse(each)
    ]
    number = min(len(list_fields(node)), len(positional))
    return not is_by_keyword and number > MAX_POSITIONAL_FIELDS


def list_late_constants(path: Path) -> tuple[list[str], list[str]]:
    """Return constants below the first function or class of a file, and those that need
    one of these, which is right.
    """
    late, exempt, defined = list[str](), list[str](), set[str]()
    for node in parse(path).body:
        if isinstance(node, Function | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and defined:
            target = node.targets[0] if isinstance(node, ast.Assign) else node.target
            names = [
                each.id
                for each in (target.elts if isinstance(target, ast.Tuple) else [target])
                if isinstance(each, ast.Name) and re.fullmatch("[A-Z0-9_]+", each.id)
            ]
            used = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
            found = exempt if used & defined else late
            found += [f"{name_module(path)}.{name}" for name in names]
            if used & defined:  # what is made of it is also right here
                defined.update(names)
    return late, exempt


def count_lines(function: Function, path: Path) -> int:
    """Return the number of lines of code of a function; of a command, without its
    options, which are a table and not steps.
    """
    declares = declares_options(function, path)
    start = function.body[0].lineno if declares else function.lineno
    lines = range(start, (function.end_lineno or 0) + 1)
    return len(_find_code_lines(path) & set(lines))


@cache
def _find_code_lines(path: Path) -> frozenset[int]:
    return frozenset(find_code_lines(path))


def is_section_complete(text: str, section: str, names: list[str]) -> bool:
    """Return whether a section of a docstring has a line for each of some names."""
    parts = re.split(r"(?m)^ *(\w[\w ]+)\n *-{3,}\n", text)
    own = " ".join(
        body
        for head, body in zip(parts[1::2], parts[2::2], strict=True)
        if head == section
    )
    described = {
        name.strip(" *")
        for line in own.splitlines()
        if " : " in line or line.lstrip().startswith("*")
        for name in line.split(" : ")[0].split(",")
    }
    return set(names) <= described


@cache
def read_common_texts() -> dict[str, str]:
    """Return the texts that docstrings of figures have in common."""
    for node in parse(SOURCE / "plot" / "docs.py").body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == (
            "COMMON_TEXTS"
        ):
            return dict(ast.literal_eval(node.value))
    raise ValueError("plot/docs.py has no COMMON_TEXTS")


def get_docstring(node: Function | ast.ClassDef) -> str:
    """Return a docstring with its common texts."""
    text = ast.get_docstring(node) or ""
    for name, common in read_common_texts().items():
        text = text.replace(f"%({name})s", common)
    return text


def list_undocumented(node: Function | ast.ClassDef) -> list[str]:
    """Return the numpydoc sections that an exported function or class lacks."""
    text = get_docstring(node)
    if isinstance(node, ast.ClassDef):
        init = next(
            (
                each
                for each in node.body
                if isinstance(each, Function) and each.name == "__init__"
            ),
            None,
        )
        if init is None:
            fields = [name for name in list_fields(node) if name[0] != "_"]
            is_enum = any("Enum" in ast.unparse(base) for base in node.bases)
            is_record = get_decorator(node) or "NamedTuple" in map(
                ast.unparse, node.bases
            )
            found = is_enum or any(
                is_section_complete(text, section, fields)
                for section in ("Attributes", "Parameters")
            )
            return [] if found or not is_record else ["Attributes"]
        node = init
        missing = []
    else:
        returned = ast.unparse(node.returns) if node.returns else "None"
        missing = (
            ["Returns"]
            if returned != "None" and not re.search("(Returns|Yields)\n---", text)
            else []
        )
    arguments = node.args
    names = [
        each.arg
        for each in (
            *arguments.posonlyargs,
            *arguments.args,
            *arguments.kwonlyargs,
            *filter(None, (arguments.vararg, arguments.kwarg)),
        )
        if each.arg not in ("self", "cls")
    ]
    if not is_section_complete(text, "Parameters", names):
        missing.insert(0, "Parameters")
    return missing


def list_chained_docstrings(path: Path) -> list[str]:
    """Return the functions, classes and modules whose docstrings join facts by
    semicolons.
    """
    found = []
    nodes = [(name_module(path), parse(path)), *list_functions(path)]
    nodes += [(f"{name_module(path)}.{node.name}", node) for node in list_classes(path)]
    for name, node in nodes:
        text = re.sub(r"``.*?``|\(.*?\)", "", ast.get_docstring(node) or "", flags=re.S)
        if text.count(";") > MAX_SEMICOLONS:
            found.append(name)
    return found


@cache
def list_layers() -> dict[str, int]:
    """Return the number of each part's layer, 0 for the highest."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (layers,) = (each["layers"] for each in contracts if each["type"] == "layers")
    return {
        part.strip(): number
        for number, layer in enumerate(layers)
        for part in re.split(r"[|:]", layer)
    }


def list_upward_imports() -> list[str]:
    """Return imports of a part in a higher layer, or beside in the same one."""
    layers, found = list_layers(), []
    for module in sorted(list_modules()):
        part = module.split(".")[1] if "." in module else ""
        for other in sorted(find_imports(module, False)):
            target = other.split(".")[1] if "." in other else ""
            is_known = part in layers and target in layers and part != target
            if is_known and layers[target] <= layers[part]:
                found.append(f"{module} -> {other}")
    return found


def list_circles() -> list[str]:
    """Return modules that import each other, also for type checking."""
    reach = {module: set(find_imports(module, True)) for module in list_modules()}
    grown = True
    while grown:
        grown = False
        for others in reach.values():
            more = (
                set().union(*(reach[other] for other in others)) - others
                if others
                else set()
            )
            others |= more
            grown |= bool(more)
    return sorted(module for module, others in reach.items() if module in others)


def measure_source() -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the figures, and the offenders of those that have any."""
    paths, exported = sorted(SOURCE.rglob("*.py")), find_exported_names()
    functions = [
        (path, name, node) for path in paths for name, node in list_functions(path)
    ]
    wide = [
        f"{name} ({count_parameters(node)})"
        for path, name, node in functions
        if count_parameters(node) > MAX_PARAMETERS
        and not is_exempt(name, node, path, exported)
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
    bases, records = find_record_classes(), list(list_records())
    late = [list_late_constants(path) for path in paths]
    undocumented = []
    for place, name in sorted(list_public_names().items()):
        for node in list_definitions(place.rpartition(".")[0]):
            if node.name == name and (sections := list_undocumented(node)):
                undocumented.append(f"{place} ({', '.join(sections)})")
    long = [
        f"{name} ({count_lines(node, path)})"
        for path, name, node in functions
        if count_lines(node, path) > MAX_FUNCTION_LINES
    ]
    tables = [
        f"{name} ({len(_find_code_lines(path) & set(range(node.lineno, node.body[0].lineno)))})"
        for path, name, node in functions
        if declares_options(node, path)
    ]
    full = [
        f"{name} ({number})"
        for _, name, node in functions
        if (number := sum(isinstance(each, ast.stmt) for each in ast.walk(node)) - 1)
        > MAX_STATEMENTS
    ]
    undescribed = [
        name
        for name, node in records
        if not any(
            is_section_complete(ast.get_docstring(node) or "", section, fields)
            for section in ("Attributes", "Parameters")
            for fields in [[each for each in list_fields(node) if each[0] != "_"]]
        )
    ]
    by_position = [name for name, node in records if is_built_by_position(node, bases)]
    chained = [name for path in paths for name in list_chained_docstrings(path)]
    many = [None] * sum(count_parameters(node) > 6 for _, _, node in functions)
    lines = [line for path in paths for line in _find_code_lines(path)]
    texts = [line for path in paths for line in find_docstring_lines(parse(path))]
    found: dict[str, list[str] | list[int] | list[Path] | list[None]] = {
        "lines of code": lines,
        "lines of docstrings": texts,
        "modules": paths,
        f"functions with more than {MAX_PARAMETERS} parameters": wide,
        "functions with more than six parameters": many,
        f"functions above {MAX_FUNCTION_LINES} lines of code": long,
        "exempt: lines that declare the options of a command": tables,
        f"functions above {MAX_STATEMENTS} statements": full,
        "public names defined in several modules": repeated,
        f"modules that {CLOSURE_OF} needs": closure,
        "modules in circles of imports, with those for types": circles,
        "upward imports": list_upward_imports(),
        "records": [name for name, _ in records],
        f"records of more than {MAX_POSITIONAL_FIELDS} fields by position": by_position,
        "records without a line for each field": undescribed,
        "files with constants below functions": [
            f"{', '.join(names)}" for names, _ in late if names
        ],
        "exempt: constants that need a function or class": [
            name for _, names in late for name in names
        ],
        "exported names without numpydoc sections": undocumented,
        "docstrings that join facts by semicolons": chained,
    }
    figures = {name: len(values) for name, values in found.items()}
    unlisted = ("lines of code", "lines of docstrings", "modules", "records")
    return figures, {
        name: [str(value) for value in values if value is not None]
        for name, values in found.items()
        if name not in unlisted
    }


def main() -> None:
    """Read the command line and print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--list", action="store_true", help="name the offenders")
    arguments = parser.parse_args()
    figures, offenders = measure_source()
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:52} {value:>7,}")
        if arguments.list and offenders.get(name):
            print("    " + ", ".join(offenders[name]))


if __name__ == "__main__":
    main()
