"""No code decides by the text of a message: problems have a code and their offenders as
data.
"""

import ast
from pathlib import Path

import pytest

import rindices

SOURCE = Path(rindices.__file__).parent
MODULES = sorted(SOURCE.rglob("*.py"))
FIELDS = {"what", "cure", "text", "summary", "msg", "message"}
"""Attributes, keys and variables that hold the text of a message."""
ERROR_NAMES = {"error", "problem", "exception", "exc", "err", "warning"}
PARSERS = {
    *(
        "startswith",
        "endswith",
        "split",
        "rsplit",
        "partition",
        "rpartition",
        "replace",
        "find",
        "rfind",
        "index",
    ),
    *("rindex", "count", "removeprefix", "removesuffix", "translate"),
}
PROBLEM_FIELDS = {"what", "cure"}
"""Plain variables of these names are messages as well; the others are too common."""
COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)


def is_message(node: ast.expr, errors: set[str]) -> bool:
    """Return whether an expression is the text of a problem or of an error."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr=field):
            return field in PROBLEM_FIELDS or (field in FIELDS and owner in errors)
        case ast.Attribute(attr=field):
            return field in PROBLEM_FIELDS
        case ast.Subscript(slice=ast.Constant(value=key)) if key in PROBLEM_FIELDS:
            return True
        case ast.Name(id=name):
            return name in PROBLEM_FIELDS
        case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]):
            return name in errors
        case ast.Subscript(value=ast.Attribute(attr="args")):
            return True
        case ast.Call(
            func=ast.Attribute(
                attr="lower" | "casefold" | "strip" | "splitlines", value=inner
            )
        ):
            return is_message(inner, errors)
        case ast.Subscript(value=inner):
            return is_message(inner, errors)
    return False


def reads_message(node: ast.AST, errors: set[str]) -> bool:
    """Return whether a node compares a message or searches in it."""
    if isinstance(node, ast.Compare) and any(
        isinstance(operator, COMPARISONS) for operator in node.ops
    ):
        return any(is_message(side, errors) for side in (node.left, *node.comparators))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if isinstance(node.func.value, ast.Name) and node.func.value.id == "re":
            return any(is_message(argument, errors) for argument in node.args)
        is_search = node.func.attr in PARSERS and is_message(node.func.value, errors)
        is_pattern = node.func.attr in {
            "match",
            "fullmatch",
            "search",
            "findall",
            "finditer",
            "sub",
        }
        return is_search or (
            is_pattern and any(is_message(argument, errors) for argument in node.args)
        )
    if isinstance(node, ast.Match):
        return is_message(node.subject, errors)
    return False


def find_message_parsing(code: str) -> list[int]:
    """Return the lines of code that decide by the text of a message."""
    tree = ast.parse(code)
    handlers = {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ExceptHandler) and node.name
    }
    errors = ERROR_NAMES | handlers
    return sorted(
        {node.lineno for node in ast.walk(tree) if reads_message(node, errors)}
    )  # type: ignore[attr-defined]


def test_no_module_reads_messages() -> None:
    found = {
        str(path.relative_to(SOURCE)): find_message_parsing(path.read_text("utf-8"))
        for path in MODULES
    }
    assert {name: lines for name, lines in found.items() if lines} == {}


EARLIER_CODE = {
    "apply hid notes by their words": "def f(what):\n    return any(word in what for word in words)",
    "chunks merged problems by their words": "shape = problem.what.split(':')[0]",
    "the report cut off what follows a colon": "text = problem['what'].partition(': ')[0]",
    "the report compared sentences": "problems = [p for p in problems if p['what'] not in repeated]",
    "the report compared sentences of records": "problems = [p for p in problems if p.what not in repeated]",
    "simulate looked for a note": "unclear = [p for p in problems if 'may hold the groups' in p.what]",
    "the reader parsed the message of pandas": (
        "try:\n    read()\nexcept ValueError as failure:\n    re.search(r'line (\\d+)', str(failure))"
    ),
    "an argument of an error": "if error.args[0].startswith('no'):\n    pass",
    "a compiled pattern": "NUMBER.sub('', problem.cure)",
    "the text in lower case": "if 'memory' in str(error).lower():\n    pass",
}


@pytest.mark.parametrize("name", EARLIER_CODE)
def test_code_that_reads_messages_is_found(name: str) -> None:
    assert find_message_parsing(EARLIER_CODE[name]) != []


def test_printing_a_message_is_allowed() -> None:
    assert (
        find_message_parsing(
            "print(problem.what, str(error), problem.where == 'sites')"
        )
        == []
    )


def test_every_problem_has_a_code() -> None:
    without = []
    for path in MODULES:
        calls = [
            node
            for node in ast.walk(ast.parse(path.read_text("utf-8")))
            if isinstance(node, ast.Call)
        ]
        for call in calls:
            is_problem = (
                isinstance(call.func, ast.Name)
                and call.func.id == "Problem"
                and path.name != "errors.py"
            )
            if (
                is_problem
                and len(call.args) < 5
                and "code" not in {keyword.arg for keyword in call.keywords}
            ):
                without.append(f"{path.relative_to(SOURCE)}:{call.lineno}")
    assert without == []
