"""Claims of the documentation and the code that their figures belong to."""

import re
from itertools import combinations
from pathlib import Path

import pytest
from typer.testing import CliRunner

from benchmarks import claims
from benchmarks.__main__ import app
from benchmarks.claims import ROOT, Claim, compute_fingerprint, list_stale, load_claims

CITED = re.compile(r"benchmarks/((?:paper/)?results/[\w/.-]+\.(?:md|png|json))")


def make_claim(**changes: object) -> Claim:
    entry = load_claims()[0]
    values = {
        "name": "made-up",
        "scripts": ("claims.toml",),
        "modules": ("errors.py",),
        "results": (),
        "commands": (),
    }
    return entry._replace(**{**values, **changes})  # type: ignore[arg-type]


def test_pages_cite_results_that_are_claimed_and_there() -> None:
    known = {
        "results/claims.md",
        *(result for claim in load_claims() for result in claim.results),
    }
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    cited = {
        (page.name, result)
        for page in pages
        for result in CITED.findall(page.read_text("utf-8"))
    }
    assert {(page, result) for page, result in cited if result not in known} == set()
    for claim in load_claims():
        missing = [path for path in claim.list_code() if not (ROOT / path).exists()]
        missing += [
            path for path in claim.results if not (ROOT / "benchmarks" / path).exists()
        ]
        missing += [path for path in claim.pages if not (ROOT / path).exists()]
        assert not missing, claim.name


NUMBER = re.compile(r"(?<![\w.,/-])\d[\d,]*(?:\.\d+)?(?![\w]|\.\d)")
FROM_ELSEWHERE = {
    ("README.md", "3.11"),  # of Python
    ("reproduction.md", "4.3"),  # a section of the paper
    *(
        ("reproduction.md", f"0.{digits}") for digits in (674, 680, 692, 625)
    ),  # the paper's own table, and this one
    ("models.md", "0.28"),  # a constant of the code
}


def list_numbers(result: str) -> set[float]:
    """Return what a page may say of a result: its numbers, as percentages and
    thousands, and differences in a row.
    """
    path, numbers = ROOT / "benchmarks" / result, set()
    for file in {path, path.with_suffix(".json"), path.with_name("results.json")}:
        if (
            file.suffix in (".md", ".json")
            and file.exists()
            and (file.name != "results.json" or path.stem == "table")
        ):
            for line in file.read_text("utf-8").splitlines():
                row = [float(each.replace(",", "")) for each in NUMBER.findall(line)]
                numbers |= {
                    factor * each for each in row for factor in (1.0, 100.0, 1e-3)
                }
                numbers |= (
                    {abs(a - b) for a, b in combinations(row, 2)}
                    if line.startswith("|")
                    else set()
                )
    return numbers


def test_decimal_numbers_beside_a_cited_result_are_in_it() -> None:
    """Pages hold some figures as text; none may differ from its measurement."""
    unknown = set()
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for block in re.split(
            r"\n\s*\n|\n(?=\s*(?:- |\d+\. |\| ))", page.read_text("utf-8")
        ):
            if results := CITED.findall(block):
                known = set().union(*map(list_numbers, results))
                text = re.sub(r"\]\([^)]*\)|`[^`]*`", " ", block)
                for said in (each for each in NUMBER.findall(text) if "." in each):
                    digits = len(said.split(".")[1])
                    if not any(
                        abs(round(each, digits) - float(said)) < 1e-9 for each in known
                    ):
                        unknown.add((page.name, said))
    assert unknown <= FROM_ELSEWHERE, unknown - FROM_ELSEWHERE


def test_a_fingerprint_is_of_the_code_alone() -> None:
    texts = {
        "src/a.py": '"""A."""\ndef f(x):\n    return x + 1  # one\n',
        "src/b.py": "y = 2\n",
    }

    def compute(**changes: str) -> str:
        read = texts | {f"src/{name}.py": text for name, text in changes.items()}
        return compute_fingerprint(
            ["src/a.py"], map(Path, read), lambda path: read[path.as_posix()]
        )

    assert (
        compute(
            a='"""Other words."""\n\n\ndef f(x):\n    """Add."""\n    return (x +\n        1)\n'
        )
        == compute()
    )
    assert compute(b="y = 3\n") == compute()
    assert compute(a="def f(x):\n    return x + 2\n") != compute()


def test_a_claim_is_stale_until_it_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of other code are deleted first; a run that was stopped goes on."""
    monkeypatch.setattr(claims, "STAMPS", tmp_path / "stamps.json")
    rows = tmp_path / "rows.json"
    rows.write_text("old")
    code = f"import pathlib, sys; p = pathlib.Path({str(rows)!r}); sys.exit(p.exists() and 3)"
    claim = make_claim(
        commands=(f'python -c "{code}"',),
        results=(str(tmp_path / "rows.md"),),
        minutes=0.1,
    )
    monkeypatch.setattr(claims, "load_claims", lambda: [claim])
    runner = CliRunner()
    assert "made-up: never measured" in runner.invoke(app, ["stale"]).output
    assert "never" in runner.invoke(app, ["show"]).output
    assert runner.invoke(app, ["run"]).exit_code == 0
    stamp = claims.load_stamps()["made-up"]
    assert (len(stamp["fingerprint"]), stamp["packages"]["python"][:2]) == (16, "3.")
    assert runner.invoke(app, ["stale"]).output == ""
    assert stamp["date"] in runner.invoke(app, ["show"]).output
    assert list_stale([claim._replace(modules=("wording.py",))], claims.load_stamps())
    assert runner.invoke(app, ["run", "other"]).exit_code == 2
