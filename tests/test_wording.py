"""Texts about regions of the brain become texts about features."""

import re
from importlib.resources import files

import pytest

from rindices.analysis.model_columns import UsedColumns
from rindices.wording import FEATURE_UNIT, get_wording, reword, reword_template

BRAIN_WORDS = re.compile(
    r"brain|volume|region|atlas|mm3|mm³|cortical|cortex|intracranial|head size|\bicv\b|muse|ventric|hippocamp|segment"
    r"|scan|anatom|tissue|atroph|freesurfer|neuro",
    re.IGNORECASE,
)
"""Words that no output about other organs may hold."""
_BRAIN_ONLY = (
    "No brain pictures: ",
    "The brain along severity",
    "of the cortex are measured by",
    "MNI space",
)
"""Texts that are shown only where there is an atlas or a layout of the brain."""
TEMPLATES = sorted(
    path.name
    for path in (files("rindices.report") / "templates" / "sections").iterdir()
    if path.name.endswith(".html")
)


@pytest.mark.parametrize(
    ("text", "reworded"),
    [
        ("12 regions are missing", "12 features are missing"),
        ("Regions of a region", "Features of a feature"),
        ("changes the brain", "changes the body"),
        ("volumes of 1000 people", "values of 1000 people"),
        (
            "stroke_volume and subregion",
            "stroke_volume and subregion",
        ),  # parts of names stay
    ],
)
def test_whole_words_are_replaced(text: str, reworded: str) -> None:
    assert reword(text) == reworded
    assert get_wording("mm3")(text) == text


def test_code_of_a_template_is_kept() -> None:
    source = '{% for row in pattern.regions %}{{ row.region }} of {{ count(cohort.regions, "regions") }} regions'
    reworded = '{% for row in pattern.regions %}{{ row.region }} of {{ count(cohort.regions, "features") }} features'
    assert reword_template(source) == reworded


@pytest.mark.parametrize(
    "name",
    [
        *(f"sections/{name}" for name in TEMPLATES),
        "report.html",
        "null_report.html",
        "macros.html",
    ],
)
def test_no_text_of_a_template_speaks_of_brains(name: str) -> None:
    source = (files("rindices.report") / "templates" / name).read_text("utf-8")
    reworded = reword_template(re.sub(r'class="[^"]*"|{#.*?#}', "", source))
    parts = re.split(r"({{.*?}}|{%.*?%})", reworded, flags=re.DOTALL)
    quoted = [text for code in parts[1::2] for text in re.findall(r'"([^"]*)"', code)]
    shown = [
        text
        for text in [*parts[::2], *quoted]
        if not any(drawn in text for drawn in _BRAIN_ONLY)
    ]
    assert not {text.strip()[:90] for text in shown if BRAIN_WORDS.search(text)} - {
        "mm3",
        "in mm³",
    }


def test_names_in_messages_are_kept() -> None:
    used = UsedColumns(regions=("volumes",), sums=("all regions",))
    (brain,) = used.note("people.csv", False, "mm3")
    (features,) = used.note("people.csv", False, FEATURE_UNIT)
    assert "regions of the model or sums of regions (all regions)" in brain.what
    assert "features of the model or sums of features (all regions)" in features.what
