"""The package needs no module or function that only POSIX systems have."""

import ast
import subprocess
import sys
from pathlib import Path

import rindices

SOURCE = Path(rindices.__file__).parent
POSIX_MODULES = (
    "fcntl",
    "grp",
    "posix",
    "pty",
    "pwd",
    "resource",
    "syslog",
    "termios",
    "tty",
)
POSIX_NAMES = {
    "os": {
        "fork",
        "forkpty",
        "geteuid",
        "getgid",
        "getpgid",
        "getuid",
        "kill",
        "killpg",
        "mkfifo",
        "setsid",
        "uname",
    },
    "signal": {
        "SIGALRM",
        "SIGHUP",
        "SIGKILL",
        "SIGUSR1",
        "SIGUSR2",
        "alarm",
        "pause",
        "pthread_kill",
        "setitimer",
    },
}
IMPORT_ALL = """
import builtins, importlib, sys

allowed_import = builtins.__import__

def refuse_posix(name, globals=None, *arguments, **options):
    if name in {modules} and str((globals or {{}}).get("__name__")).startswith("rindices"):
        raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
    return allowed_import(name, globals, *arguments, **options)

builtins.__import__ = refuse_posix
for name in sys.argv[1:]:
    importlib.import_module(name)
"""


def list_modules() -> list[str]:
    paths = [
        path.relative_to(SOURCE.parent).with_suffix("") for path in SOURCE.rglob("*.py")
    ]
    modules = {".".join(path.parts).removesuffix(".__init__") for path in paths}
    return sorted(modules)


def test_every_module_is_imported_without_posix_modules() -> None:
    program = IMPORT_ALL.format(modules=POSIX_MODULES)
    done = subprocess.run(
        [sys.executable, "-c", program, *list_modules()],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_no_posix_name_is_used() -> None:
    used = [
        f"{path.relative_to(SOURCE)}: {node.value.id}.{node.attr}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.attr in POSIX_NAMES.get(node.value.id, ())
    ]
    assert used == []
