"""Problems have a code and offenders; errors keep them on their way between
processes.
"""

import pickle
import re
import tomllib
from pathlib import Path

import pytest

from rindices.errors import (
    EXTRAS,
    Findings,
    OffenderKind,
    Problem,
    ProblemCode,
    RindicesError,
    Severity,
    TableError,
    did_you_mean,
    format_quantity,
    join_names,
    make_install_command,
)

PEOPLE = ("sub-012", "sub-040", "sub-077", "sub-078", "sub-079", "sub-080")
MISSING = Problem(
    severity=Severity.NOTE,
    what="6 people have no age",
    where="people.tsv",
    cure="Mend them",
    code=ProblemCode.MISSING_VALUES,
    offenders=PEOPLE,
    ending="; left out",
)


def test_the_line_lists_the_first_offenders() -> None:
    names = "sub-012, sub-040, sub-077, sub-078, sub-079 and 1 more"
    assert (
        str(MISSING)
        == f"people.tsv: 6 people have no age: {names}; left out. Mend them."
    )


def test_the_summary_names_no_participant() -> None:
    assert MISSING.summary == "6 people have no age; left out"


def test_the_summary_names_other_offenders() -> None:
    regions = Problem(
        severity=Severity.ERROR,
        what="1 region is empty",
        offenders=("MUSE_47",),
        offender_kind=OffenderKind.REGION,
    )
    assert (
        regions.summary
        == str(regions).removesuffix(".")
        == "1 region is empty: MUSE_47"
    )


def test_a_listing_says_more_than_the_names() -> None:
    problem = Problem(
        severity=Severity.ERROR,
        what="wrong ages",
        offenders=("sub-012",),
        listing="-3 for sub-012",
    )
    assert str(problem) == "wrong ages: -3 for sub-012."
    assert problem.summary == "wrong ages"


def test_json_has_the_promised_keys_and_the_full_text() -> None:
    values = MISSING.as_dict()
    assert list(values)[:4] == ["severity", "what", "where", "cure"]
    assert values["what"].startswith("6 people have no age: sub-012")
    assert (values["code"], values["offender_kind"]) == (
        "missing_values",
        "participant",
    )


def test_errors_of_text_have_a_code() -> None:
    assert [problem.code for problem in RindicesError("text").problems] == [
        ProblemCode.ERROR
    ]


def test_errors_survive_pickling() -> None:
    error = pickle.loads(pickle.dumps(TableError([MISSING])))
    assert (type(error), error.problems) == (TableError, (MISSING,))


def test_findings_collect_and_stop() -> None:
    findings = Findings()
    findings.warn(ProblemCode.UNIT_UNKNOWN, "the unit is unknown", subject="volume")
    findings.error(ProblemCode.DUPLICATE_IDS, "an id stands twice", offenders=["a"])
    with pytest.raises(TableError) as caught:
        findings.fatal(ProblemCode.FILE_EMPTY, "the file is empty")
    assert [problem.code for problem in findings] == [
        "unit_unknown",
        "duplicate_ids",
        "file_empty",
    ]
    assert list(caught.value.problems) == findings.errors()
    assert findings.problems[1].offenders == ("a",)


def test_names_are_joined_shortened_and_printable() -> None:
    assert join_names(["a", "b", "c"], 2) == "a, b and 1 more"
    assert join_names(["a\nb", "x" * 100]) == f"a?b, {'x' * 77}..."


def test_suggestions_keep_the_spelling() -> None:
    assert did_you_mean("dxgrp", ["DXgroup", "age"]) == "did you mean 'DXgroup'?"
    assert did_you_mean("zzz", []) == "there is: nothing"


def test_quantities_have_no_exponent() -> None:
    assert [format_quantity(value) for value in (55.9, 1.2345678e6, 0.5)] == [
        "55.9",
        "1,234,570",
        "0.5",
    ]


def test_commands_end_a_message_without_a_full_stop_that_would_be_copied() -> None:
    command = "rindices model import a.pt --as ad_2rindices --out a.safetensors"
    assert str(
        Problem(
            severity=Severity.ERROR,
            what="wrong file",
            where="",
            cure=f"Convert it: {command}",
        )
    ).endswith(f"Convert it: {command}")
    assert str(
        RindicesError(f"torch is missing: {make_install_command('gan')}")
    ).endswith(": pip install torch")
    assert str(
        Problem(
            severity=Severity.ERROR,
            what="a study",
            where="",
            cure="Run rindices power, which tells more",
        )
    ).endswith("tells more.")


def test_packages_of_extras_are_those_of_the_project() -> None:
    """They are named without their versions, except fixed ones, so that no shell needs
    quotation marks.
    """
    project = tomllib.loads(
        (Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8")
    )["project"]
    extras = {name: project["optional-dependencies"][name] for name in EXTRAS}
    named = {
        name: " ".join(re.sub(">=.*", "", each) for each in packages)
        for name, packages in extras.items()
    }
    assert named == EXTRAS
    assert set(project["optional-dependencies"]) - set(EXTRAS) == {"docs", "dev", "all"}
