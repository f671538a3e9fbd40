"""Sessions for developers: ``nox -s tests``, or ``nox -l`` for all of them."""

from pathlib import Path

import nox

nox.options.sessions = ["lint", "tests"]
TORCH = "torch==2.13.0"


def _install(session: nox.Session) -> None:
    session.install(TORCH)
    session.install("--constraint", "constraints.txt", ".[dev]")


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, types and layers."""
    _install(session)
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    session.run("mypy")
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """Run the tests that CI runs, or those given after ``--``."""
    _install(session)
    session.run("pytest", *(session.posargs or ["-n", "2", "--dist", "worksteal", "-m", "not slow and not slurm"]))


@nox.session
def docs(session: nox.Session) -> None:
    """Build the documentation and check its links."""
    session.install(TORCH)
    session.install("--constraint", "constraints.txt", ".[docs]")
    session.run("sphinx-build", "-W", "--keep-going", "-c", "docs", ".", "docs/_build")
    session.run("python", ".ci/links.py", "docs/_build")


@nox.session
def release(session: nox.Session) -> None:
    """Build wheel and sdist into ``dist``, and check their content and that the tag is the version."""
    _install(session)
    session.run("pytest", "-q", "tests/test_release.py")
    session.run("python", "-m", "build", "--no-isolation")


@nox.session
@nox.parametrize("extra", ["", "parquet", "cluster", "brain", "onnx", "all"])
def install(session: nox.Session, extra: str) -> None:
    """Install the built wheel in a fresh environment, alone or with an extra, and use it."""
    (wheel,) = Path("dist").glob("*.whl")
    session.install(TORCH)
    session.install("--constraint", "constraints.txt", f"rindices[{extra}] @ {wheel.resolve().as_uri()}")
    session.chdir(session.create_tmp())
    session.run("rindices", "simulate", "--task", "tiny", "--out", ".")
    study = ["volumes.csv", "--participants", "participants.tsv", "--group", "group", "--covariates", "age,sex,icv"]
    fit = ["rindices", "fit", *study, "--recipe", "contrastive", "--patterns", "2", "--members", "3", "--out", "study"]
    session.run(*fit, *(["--engine", "dask", "--workers", "1"] if extra in ("cluster", "all") else []))
    apply = ["rindices", "apply", "study/model.safetensors", "volumes.csv", "--participants", "participants.tsv"]
    session.run(*apply, "--out", "r.csv")
    if extra in ("parquet", "all"):
        session.run(*apply, "--out", "r.parquet")
    if extra in ("onnx", "all"):
        session.run("rindices", "model", "export", "study/model.safetensors", "--onnx", "model.onnx")


@nox.session
def mutants(session: nox.Session) -> None:
    """Run mutation testing: ``nox -s mutants -- --only selection/choose.py``."""
    _install(session)
    session.install("cosmic-ray==8.7.0")
    session.run("python", "benchmarks/mutants.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Measure the line coverage of the tests."""
    _install(session)
    session.install("pytest-cov==7.1.0")
    session.run("python", "benchmarks/line_coverage.py", *session.posargs)


@nox.session
def refresh_constraints(session: nox.Session) -> None:
    """Write the newest versions of all requirements to the constraints."""
    session.install(TORCH)
    session.install(".[dev,docs]")
    frozen = session.run("pip", "freeze", "--exclude", "rindices", silent=True)
    with open("constraints.txt", "w", encoding="utf-8") as file:
        file.write("# Exact versions of CI. Refresh on purpose: nox -s refresh_constraints\n")
        file.writelines(f"{line}\n" for line in str(frozen).splitlines() if "==" in line and "torch" not in line)
