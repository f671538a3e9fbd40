"""The documentation: ``sphinx-build -W -c docs . docs/_build`` from the root of the
project.

The source folder is the whole project, so that a relative link in a Markdown page means
the same here and on the hosting site: files in ``docs``, results in ``benchmarks``,
CHANGELOG and others are all pages of the build.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml

import rindices

HERE = Path(__file__).parent

project = "rindices"
author = "The rindices developers"
copyright = author
release = version = rindices.__version__
root_doc = "docs/index"
extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_gallery.gen_gallery",
    "sphinx_design",
    "sphinx_copybutton",
]
include_patterns = [
    "docs/**",
    "benchmarks/**.md",
    "integrations/**.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
]
gallery_files = [
    f"docs/gallery/**.{suffix}" for suffix in ("ipynb", "json", "py", "zip")
]
exclude_patterns = [
    "docs/_build",
    "docs/_templates",
    "docs/sg_execution_times.rst",
    "benchmarks/**_template.md",
    *gallery_files,
]
suppress_warnings = [
    "toc.not_included",
    "config.cache",
    "myst.header",
]  # results are tables that pages link to

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"  # shapes and types are in the docstrings
numpydoc_show_class_members = False


def set_plot_style(gallery_conf: Any, fname: str) -> None:
    """Set one plot style for all examples."""
    quiet = {
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.titlesize": "medium",
        "legend.frameon": False,
    }
    colours = plt.cycler(color=["#0b5a7a", "#d9772b", "#5a8f3c", "#8c4f9f"])
    plt.rcParams.update(
        quiet | {"font.size": 10, "figure.dpi": 120, "axes.prop_cycle": colours}
    )


sphinx_gallery_conf: dict[str, Any] = {
    "examples_dirs": "examples",
    "gallery_dirs": "docs/gallery",
    "filename_pattern": r"/plot_",
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "backreferences_dir": None,
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": ("matplotlib", set_plot_style),
}

templates_path = [
    str(HERE / "_templates")
]  # of autosummary, which looks from the source folder
html_theme = "pydata_sphinx_theme"
html_title = "rindices"
html_static_path = ["_static"]
html_css_files = ["rindices.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "rindices"},
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "header_links_before_dropdown": 8,
    "show_toc_level": 2,
    "secondary_sidebar_items": {"**": ["page-toc"], "docs/index": []},
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_prev_next": False,
}
html_sidebars = {"docs/index": [], "docs/developers": [], "benchmarks/**": []}
copybutton_exclude = ".linenos, .gp, .go"


def write_pages(app: Any) -> None:
    """Write what is generated from code: the help of commands, the figures of the code,
    the picture of the layers.
    """
    command = [
        sys.executable,
        "-m",
        "typer",
        "rindices.cli.main",
        "utils",
        "docs",
        "--name",
        "rindices",
    ]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    (HERE / "generated").mkdir(exist_ok=True)
    shown = "".join(
        f"```text\n$ {line} --help\n{show_help(line)}\n```\n"
        for line in ("rindices", "rindices fit")
    )
    (HERE / "generated" / "commands.md").write_text(
        text.replace("# `rindices`", f"# Commands\n{shown}", 1), "utf-8"
    )
    scripts = HERE.parent / "scripts"
    figures = subprocess.run(
        [sys.executable, scripts / "code_figures.py"],
        check=True,
        capture_output=True,
        text=True,
    )
    (HERE / "generated" / "code_figures.txt").write_text(figures.stdout, "utf-8")
    subprocess.run([sys.executable, scripts / "draw_layers.py"], check=True)


def show_help(command: str) -> str:
    """Return the help of a command as a window of 100 columns shows it."""
    code = (
        "import sys; from rindices.cli.main import run; sys.argv = sys.argv[1:]; run()"
    )
    arguments = [sys.executable, "-c", code, *command.split(), "--help"]
    window = {**os.environ, "COLUMNS": "100"}
    text = subprocess.run(
        arguments, check=True, capture_output=True, text=True, env=window
    ).stdout
    return "\n".join(line.rstrip() for line in text.strip().splitlines())


def write_math(self: Any, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers render without scripts."""
    block = isinstance(node, nodes.math_block)
    formula = str(tex2mathml(node.astext(), as_block=block))
    self.body.append(f'<div class="formula">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def add_title(app: Any, docname: str, source: list[str]) -> None:
    """Add a title to results that consist of a table."""
    if docname.startswith("benchmarks/") and not source[0].lstrip().startswith("# "):
        path = Path(docname)
        name = path.parent.name if path.name == "table" else path.name
        source[0] = f"# Result: {name.replace('_', ' ')}\n\n{source[0]}"


def setup(app: Any) -> None:
    """Connect the functions above to Sphinx."""
    app.connect("config-inited", lambda app, config: write_pages(app))
    app.add_html_math_renderer(
        "mathml",
        inline_renderers=(write_math, None),
        block_renderers=(write_math, None),
    )
    app.connect("source-read", add_title)
