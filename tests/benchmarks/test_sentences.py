"""The readers of sentences find what is false, and two tiny studies say
nothing false.
"""

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.sentence_readers.reading import Reading
from benchmarks.sentence_readers.studies import Alteration, Study, write_study
from benchmarks.sentence_readers.surfaces import read_json, read_page, read_terminal
from benchmarks.sentence_readers.written import WrittenStudy
from benchmarks.sentences import Said, read_study, run_study

TINY = Study(
    name="tiny",
    controls=70,
    patients=90,
    structures=10,
    directions="mixed",
    strength=4.0,
)
NULL = Study(
    name="tiny null",
    kind="null",
    controls=40,
    patients=40,
    structures=6,
    patterns=0,
    options=(),
)
TinyStudy = tuple[WrittenStudy, Said]


def run(study: Study, folder: Path) -> TinyStudy:
    truth = write_study(study, 100, folder / "tables")
    assert truth is not None
    said = run_study(study, truth, folder / "out")
    return WrittenStudy(study, truth, folder / "out"), said


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> TinyStudy:
    return run(TINY, tmp_path_factory.mktemp("sentences"))


def list_false(written: WrittenStudy, said: Said, surface: str) -> list[str]:
    reading = Reading(written, surface)
    if surface == "json":
        read_json(said.json, reading)
    elif surface == "terminal":
        read_terminal(said.output, said.errors, reading)
    else:
        read_page(said.page, reading)
    return [*reading.faults, *reading.unread]


def test_two_tiny_studies_say_nothing_false(tiny: TinyStudy, tmp_path: Path) -> None:
    written, said = tiny
    row = read_study(written, said)
    assert (row["faults"], row["unread"]) == ([], [])
    assert row["finding"] == "patterns"
    assert row["says_reproduced"]
    assert row["claims"] > 300
    written, said = run(NULL, tmp_path)
    row = read_study(written, said)
    assert (row["faults"], row["unread"], row["finding"]) == ([], [], "no_difference")


def replace_once(
    pattern: str, change: str | Callable[[re.Match[str]], str]
) -> Callable[[str], str]:
    def alter(text: str) -> str:
        altered, number = re.subn(pattern, change, text, count=1)
        assert number == 1, pattern
        return altered

    return alter


def exchange_directions(text: str) -> str:
    """Say gain for loss, and loss for gain."""
    return re.sub(
        "(loss|gain) in ",
        lambda match: {"loss": "gain in ", "gain": "loss in "}[match[1]],
        text,
    )


SIGN = {"-": "+", "+": "-", "\N{MINUS SIGN}": "+"}
FALSE_TERMINAL: dict[str, tuple[Callable[[str], str], str]] = {
    "participants": (replace_once("70 controls", "71 controls"), "number of controls"),
    "covariate": (replace_once("age, sex and icv", "age and icv"), "covariates"),
    "p-value": (replace_once(r"p = 0\.005", "p = 0.015"), "p-value"),
    "number of patterns": (replace_once(r"2 \(as asked", "3 (as asked"), "patterns"),
    "shape": (
        replace_once(r"\nshape( +)(proportional|staged):", r"\nshape\1interacting:"),
        "what the shape means",
    ),
    "likelihood": (
        replace_once(r"held-out patients -\d", "held-out patients -9"),
        "likelihood",
    ),
    "direction": (exchange_directions, "direction"),
    "sign": (
        replace_once(
            r"(left|right) ([-+])(\d)", lambda m: f"{m[1]} {SIGN[m[2]]}{m[3]}"
        ),
        "change of",
    ),
    "side": (
        replace_once(
            r"\((left|right) ", lambda m: f"({'right' if m[1] == 'left' else 'left'} "
        ),
        "",
    ),
    "AUC": (replace_once(r"AUC 0\.9", "AUC 0.6"), "AUC"),
    "prevalence": (replace_once(r"5 %: \d+ %", "5 %: 12 %"), "prevalence"),
    "verdict": (
        replace_once("reproduced in other people", "not reproduced in other people"),
        "verdict",
    ),
    "correlation": (
        replace_once(r"age [-+]?0\.\d\d", "age +0.95"),
        "rank correlation with age",
    ),
    "members": (replace_once("5 of 5 used", "4 of 5 used"), "members"),
    "controls' middle half": (
        replace_once(r"controls have 0\.\d\d", "controls have 0.66"),
        "middle half of controls",
    ),
    "publishing": (
        replace_once("to pass it on: .+", "keep it to yourself"),
        "published",
    ),
    "files": (replace_once("patterns.tsv, ", ""), "files"),
    "another sentence": (
        replace_once("\nscale ", "\nnews         The disease is cured.\nscale "),
        "The disease is cured",
    ),
}


@pytest.mark.parametrize("name", FALSE_TERMINAL)
def test_false_terminals_are_found(name: str, tiny: TinyStudy) -> None:
    written, said = tiny
    alter, fault = FALSE_TERMINAL[name]
    found = list_false(written, said._replace(output=alter(said.output)), "terminal")
    assert any(fault in each for each in found), found


FALSE_PAGE: dict[str, tuple[Callable[[str], str], str]] = {
    "direction": (exchange_directions, "direction"),
    "number of patterns": (
        replace_once("Two patterns of change", "Three patterns of change"),
        "number of patterns",
    ),
    "permutations": (
        replace_once(r"as much in 0 of", "as much in 7 of"),
        "permutations",
    ),
    "regions": (
        replace_once(r"patients; 20 regions", "patients; 21 regions"),
        "regions",
    ),
    "reproduced": (
        replace_once(r"reproducibility 0\.\d+ \(0\.\d+", "reproducibility 0.45 (0.31"),
        "reproduc",
    ),
    "another sentence": (
        replace_once("They are no diagnosis", "They are a diagnosis"),
        "They are a diagnosis",
    ),
}


@pytest.mark.parametrize("name", FALSE_PAGE)
def test_false_pages_are_found(name: str, tiny: TinyStudy) -> None:
    written, said = tiny
    alter, fault = FALSE_PAGE[name]
    found = list_false(written, said._replace(page=alter(said.page)), "page")
    assert any(fault in each for each in found), found


FALSE_JSON: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "sign": (
        lambda v: v["patterns"][0]["regions"][0].update(
            change=-v["patterns"][0]["regions"][0]["change"]
        ),
        "change",
    ),
    "verdict": (lambda v: v["patterns"][1].update(verdict="not_known"), "verdict"),
    "p": (lambda v: v["difference"].update(p=0.04), "difference.p"),
    "people": (
        lambda v: v["participants"].update(patients=91),
        "participants.patients",
    ),
    "a new key": (lambda v: v.update(cured=True), "cured"),
}


@pytest.mark.parametrize("name", FALSE_JSON)
def test_false_json_is_found(name: str, tiny: TinyStudy) -> None:
    written, said = tiny
    alter, fault = FALSE_JSON[name]
    alter(values := copy.deepcopy(said.json))
    found = list_false(written, said._replace(json=values), "json")
    assert any(fault in each for each in found), found


def test_less_is_not_more_likely(tiny: TinyStudy) -> None:
    written, said = tiny
    assert written.held_out is not None
    shapes = sorted(
        ("proportional", "staged"), key=lambda shape: written.held_out[shape]
    )  # type: ignore[index]
    words = [
        "them" if shape == written.held_out["shape"] else f"{shape} patterns"
        for shape in shapes
    ]
    values = [f"{written.held_out[shape]:.3f}" for shape in shapes]
    sentence = "Held-out patients are more likely under {} (mean log-likelihood {}) than under {} ({})."
    true = sentence.format(words[1], values[1], words[0], values[0])
    assert (
        list_false(written, said._replace(page=f"{said.page}<p>{true}</p>"), "page")
        == []
    )
    false = sentence.format(words[0], values[0], words[1], values[1])
    found = list_false(
        written, said._replace(page=f"{said.page}<p>{false}</p>"), "page"
    )
    assert any("the more likely shape has the larger value" in each for each in found)


SIGN_OF_SCALE = (
    "volumes of {} are 0.80 times those of the controls nearly throughout (0.70 to 0.90 in four fifths of the "
    "regions): in voxels or another unit, divided by head size, or measured by another program?"
)


def test_reproduced_beside_an_artefact_is_found(tiny: TinyStudy) -> None:
    written, said = tiny
    altered = replace(
        written.truth, alteration=Alteration(kind="factor", group="patient", factor=0.8)
    )
    other = WrittenStudy(replace(TINY, kind="artefact"), altered, written.folder)
    lead, end = (
        "Two patterns of change distinguish these patients from controls",
        " permutations of the labels)",
    )
    sign = SIGN_OF_SCALE.format("the patients")
    page = said.page.replace(
        lead, f"This looks like an artefact: {sign}. Patients differ from controls", 1
    )
    page = page.replace(f"{end}.</p>", f"{end}, and two R-indices were fitted.</p>", 1)
    row = read_study(other, said._replace(page=page))
    assert row["says_reproduced"]
    assert row["artefacts"] == ["the patients"]
    assert any(
        "beside signs of an artefact" in each and "reproduced" in each
        for each in row["faults"]
    )
    assert not row["unread"]
    of_a_site = page.replace("volumes of the patients are", "volumes of site B are")
    assert any(
        "altered block" in each
        for each in list_false(other, said._replace(page=of_a_site), "page")
    )
    assert any(
        "an artefact: volumes" in each
        for each in list_false(written, said._replace(page=page), "page")
    )
