"""What a study found: regions with their own sign, the shape as it was decided, signs
of an artefact.
"""

import pytest

from rindices.model.findings import describe_shape, group_regions, make_pattern_finding
from rindices.model.records import (
    ArtefactKind,
    ArtefactRecord,
    HeldOutLikelihoodRecord,
    PatternRecord,
    RegionChange,
)
from rindices.report.sections import load_statements

REPRODUCED = PatternRecord(
    name="r1",
    stability=0.9,
    stability_interval=(0.8, 1.0),
    split_half=0.9,
    split_half_interval=(0.8, 0.95),
    carriers=0.3,
    carriers_interval=(0.2, 0.4),
    auc=0.8,
    auc_interval=(0.7, 0.9),
)


def make_change(
    structure: str,
    side: str,
    change: float,
    low: float | None = None,
    high: float | None = None,
) -> RegionChange:
    label = f"{structure}, {side}" if side else structure
    return RegionChange(
        region=label,
        label=label,
        structure=structure,
        change=change,
        low=low,
        high=high,
    )


def test_each_region_is_named_under_its_own_direction() -> None:
    regions = [
        make_change("entorhinal", "left", -1.44),
        make_change("cuneus", "left", 0.8),
        make_change("cuneus", "right", -0.7),
        make_change("entorhinal", "right", -0.6),
        make_change("insula", "left", 0.5),
        make_change("precuneus", "left", 0.4),
    ]
    groups = group_regions(regions)
    assert [group.direction for group in groups] == ["loss", "gain"]
    named = {
        group.direction: {
            name: [each.change for each in sides] for name, sides in group.structures
        }
        for group in groups
    }
    assert named == {
        "loss": {"entorhinal": [-1.44, -0.6], "cuneus": [-0.7]},
        "gain": {"cuneus": [0.8], "insula": [0.5]},
    }
    sentence = load_statements().regions(make_pattern_finding(REPRODUCED, regions))
    assert sentence == (
        "loss in entorhinal (left -1.44, right -0.60) and cuneus, right (-0.70); "
        "gain in cuneus, left (+0.80) and insula, left (+0.50)"
    )


def test_only_regions_whose_interval_excludes_zero_are_named() -> None:
    regions = [
        make_change("insula", "left", -2.0, -4.1, 0.1),
        make_change("cuneus", "left", 0.5, 0.1, 0.9),
        make_change("cuneus", "right", 0.1, -0.3, 0.5),
    ]
    finding = make_pattern_finding(REPRODUCED, regions)
    assert [each.region for each in finding.regions] == ["cuneus, left"]
    assert (finding.n_certain, finding.n_regions) == (1, 3)
    none = make_pattern_finding(REPRODUCED, regions[:1])
    assert load_statements().regions(none) == "no region whose 95 % interval excludes 0"


@pytest.mark.parametrize("patterns", [(), ("r1",), ("r2",)])
def test_a_sign_of_an_artefact_takes_the_word_reproduced_away(
    patterns: tuple[str, ...],
) -> None:
    what = "all regions of the patients are 0.30 times"
    sign = ArtefactRecord(
        kind=ArtefactKind.UNIFORM_RATIO,
        block="the patients",
        what=what,
        patterns=patterns,
    )
    finding = make_pattern_finding(REPRODUCED, [], [sign])
    text = load_statements().reproduction(finding)
    assert ("artefact" in text) == (patterns != ("r2",))
    assert ("reproduced" in text) == (patterns == ("r2",))


@pytest.mark.parametrize(
    ("shape", "values", "words"),
    [
        (
            "proportional",
            (-45.558, -45.599, None),
            "more likely under them (L -45.558) than under staged patterns (-45.599",
        ),
        (
            "staged",
            (-50.2, -50.0, None),
            "more likely under them (L -50.000) than under proportional patterns (-50.200",
        ),
        (
            "proportional",
            (-45.0, -45.1, -44.98),
            "a little more likely under interacting patterns (L -44.980) than under",
        ),
        (
            "proportional",
            (-45.0001, -45.0002, None),
            "as likely under staged patterns (L -45.000)",
        ),
        ("proportional", (None, None, None), "Other shapes were not fitted."),
    ],
)
def test_more_likely_is_said_of_the_larger_likelihood(
    shape: str, values: tuple[float | None, float | None, float | None], words: str
) -> None:
    proportional, staged, interacting = values
    finding = describe_shape(
        HeldOutLikelihoodRecord(
            shape=shape,
            proportional=proportional,
            staged=staged,
            interacting=interacting,
        )
    )
    assert words in load_statements().shape_reason(finding).replace(
        "mean log-likelihood", "L"
    )
