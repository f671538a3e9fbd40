"""Sessions for developers: ``nox -s tests``, ``lint``, ``mutants``, ``coverage``, ``refresh_constraints``."""

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
    session.run("pytest", *(session.posargs or ["-n", "2", "-m", "not slow"]))


@nox.session
def mutants(session: nox.Session) -> None:
    """See whether tests notice wrong code: ``nox -s mutants -- --only selection/choose.py``."""
    _install(session)
    session.install("cosmic-ray==8.7.0")
    session.run("python", "benchmarks/mutants.py", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """See which lines the tests run."""
    _install(session)
    session.install("pytest-cov==7.1.0")
    session.run("python", "benchmarks/line_coverage.py", *session.posargs)


@nox.session
def refresh_constraints(session: nox.Session) -> None:
    """Take the newest versions on purpose and write them down."""
    session.install(TORCH)
    session.install(".[dev]")
    frozen = session.run("pip", "freeze", "--exclude", "rindices", silent=True)
    with open("constraints.txt", "w", encoding="utf-8") as file:
        file.write("# Exact versions of CI. Refresh on purpose: nox -s refresh_constraints\n")
        file.writelines(f"{line}\n" for line in str(frozen).splitlines() if "==" in line and "torch" not in line)
