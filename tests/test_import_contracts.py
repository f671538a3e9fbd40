"""Import contracts: what they forbid, and that no import runs upwards or in
a circle.
"""

import shutil
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import grimp
import pytest
from scripts.draw_layers import PICTURE, draw_picture, read_imports, read_layers

ROOT = Path(__file__).parents[1]
TORCH_CONTRACT = "torch only in learners/gan"
LINT = "from importlinter.cli import lint_imports; import sys; sys.exit(lint_imports(no_cache=True, no_logo=True))"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy of the source and of the configuration."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(
        ROOT / "src" / "rindices",
        folder / "rindices",
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def lint_with(
    project: Path, modules: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run ``lint-imports`` on the copy with additional modules."""
    for name, content in modules.items():
        (project / "rindices" / name).write_text(content, "utf-8")
    try:  # the copy is the working folder and so is found before the installed package
        return subprocess.run(
            [sys.executable, "-c", LINT],
            cwd=project,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        for name in modules:
            (project / "rindices" / name).unlink()


def test_the_contracts_hold(project: Path) -> None:
    done = lint_with(project, {})
    assert done.returncode == 0, done.stdout
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    ("modules", "contract"),
    [
        ({"learners/x.py": "import torch\n"}, TORCH_CONTRACT),
        (
            {"learners/contrastive/x.py": "def f():\n    from torch import nn\n"},
            TORCH_CONTRACT,
        ),
        (
            {"learners/x.py": "import benchmarks.suites\n"},
            "the package does not import its benchmarks",
        ),
        ({"learners/x.py": "import pandas\n"}, "no pandas in the learners"),
        (
            {"report/x.py": "def f():\n    from matplotlib import pyplot\n"},
            "figures are drawn by rindices.plot alone",
        ),
        (
            {"selection/x.py": "from rindices.model import fitted\n"},
            "a module imports only from layers below its own",
        ),
        ({"x.py": "\n"}, "a module imports only from layers below its own"),
        (
            {
                "learners/x.py": "import rindices.learners.y\n",
                "learners/y.py": "import rindices.learners.x\n",
            },
            "no imports in a circle between the parts of a package",
        ),
    ],
)
def test_a_new_module_that_breaks_a_contract_fails(
    project: Path, modules: dict[str, str], contract: str
) -> None:
    done = lint_with(project, modules)
    assert done.returncode == 1, done.stdout
    assert f"{contract} BROKEN" in done.stdout


def test_no_module_imports_in_a_circle() -> None:
    graph = grimp.build_graph(
        "rindices", exclude_type_checking_imports=True, cache_dir=None
    )
    imports = {
        module: graph.find_modules_directly_imported_by(module)
        for module in graph.modules
    }
    TopologicalSorter(imports).prepare()  # raises CycleError
    assert not graph.find_modules_that_directly_import("rindices"), (
        "import from the module, not from rindices"
    )


def test_the_picture_of_the_layers_shows_the_imports_and_is_current() -> None:
    level = {
        name: number for number, layer in enumerate(read_layers()) for name in layer
    }
    assert all(
        level[importer] <= level[imported] for importer, imported in read_imports()
    )
    assert PICTURE.read_text("utf-8") == draw_picture(), (
        "run: python scripts/draw_layers.py"
    )
