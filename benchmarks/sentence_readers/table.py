"""The table of studies.

Artefacts are counted apart from sound studies, and each name draws other people.
"""

from functools import partial

from benchmarks.sentence_readers.studies import (
    Alteration,
    Study,
    make_autism,
    make_csf,
    make_dementia,
    make_depression,
    make_fcon1000,
    make_ixi,
    make_psychosis,
)

SHORT = ("--members", "5", "--workers", "1")
"""Options of all studies."""
ONE, TWO, THREE = (("--patterns", str(number)) for number in (1, 2, 3))
SEVERAL_SITES = {"sites": 3, "controls": 180, "patients": 200}
UNHARMONISED = (*TWO, "--harmonise", "none")
VISITS = {"visits": 2, "controls": 100, "patients": 120}
SOUND = [
    Study(name="losses"),
    Study(name="losses, weak", strength=2.0, patients=200),
    Study(name="losses, many people", controls=250, patients=280, structures=15),
    Study(name="losses, one pattern", patterns=1, options=ONE),
    Study(name="losses, three patterns", patterns=3, options=THREE, patients=200),
    Study(name="losses, the tests decide", strength=3.0, patients=200, options=()),
    Study(name="losses, few people", controls=60, patients=70),
    Study(name="losses, report with pictures", with_report=True),
    Study(name="losses and gains", directions="mixed"),
    Study(
        name="losses and gains, weak", directions="mixed", strength=2.0, patients=200
    ),
    Study(
        name="losses and gains, three patterns",
        directions="mixed",
        patterns=3,
        options=THREE,
        patients=200,
    ),
    Study(
        name="losses and gains, the tests decide",
        directions="mixed",
        patients=200,
        options=(),
    ),
    Study(
        name="losses and gains, few people",
        directions="mixed",
        controls=70,
        patients=80,
    ),
    Study(name="gains", directions="gains"),
    Study(name="sides in opposite directions", directions="sides"),
    Study(name="staged", last_onset=0.7, patients=250),
    Study(name="staged, weak", last_onset=0.6, patients=200, strength=2.5),
    Study(
        name="staged, losses and gains",
        last_onset=0.7,
        directions="mixed",
        patients=250,
    ),
    Study(
        name="staged, one pattern",
        last_onset=0.7,
        patterns=1,
        options=ONE,
        patients=250,
    ),
    Study(
        name="staged, report with pictures",
        last_onset=0.7,
        patients=250,
        with_report=True,
    ),
    Study(name="thickness", measure="thickness"),
    Study(name="thickness, losses and gains", measure="thickness", directions="mixed"),
    Study(name="thickness, staged", measure="thickness", last_onset=0.7, patients=250),
    Study(name="thickness and volumes", measure="both"),
    Study(
        name="thickness and volumes, losses and gains",
        measure="both",
        directions="mixed",
    ),
    Study(
        name="thickness and volumes, staged",
        measure="both",
        last_onset=0.7,
        patients=250,
    ),
    Study(
        name="features",
        measure="any",
        directions="mixed",
        options=(*TWO, "--measure", "any"),
    ),
    Study(name="visits", **VISITS),
    Study(name="visits, losses and gains", directions="mixed", **VISITS),
    Study(name="visits, staged", last_onset=0.7, **VISITS),
    Study(name="visits, mean of them", **VISITS, options=(*TWO, "--visits", "mean")),
    Study(name="visits, first alone", **VISITS, options=(*TWO, "--visits", "first")),
    Study(name="sites", **SEVERAL_SITES),
    Study(name="sites, losses and gains", directions="mixed", **SEVERAL_SITES),
    Study(name="sites, unequal groups", imbalance=0.4, **SEVERAL_SITES),
    Study(
        name="sites, harmonised in all",
        **SEVERAL_SITES,
        options=(*TWO, "--harmonise", "all"),
    ),
    Study(name="sites, not harmonised", **SEVERAL_SITES, options=UNHARMONISED),
    Study(name="outlying measurements", outlying=0.002),
    Study(
        name="outlying measurements in patients",
        outlying=0.004,
        outlying_group="patient",
        directions="mixed",
    ),
    Study(name="outlying measurements and visits", outlying=0.002, **VISITS),
    Study(name="mean difference", patterns=1, uniform=True, strength=1.0, options=()),
    Study(
        name="mean difference, losses and gains",
        patterns=1,
        uniform=True,
        strength=1.2,
        directions="mixed",
        options=(),
    ),
    Study(
        name="mean difference, thickness",
        patterns=1,
        uniform=True,
        strength=1.0,
        measure="thickness",
        options=(),
    ),
    Study(
        name="mean difference, sites",
        patterns=1,
        uniform=True,
        strength=1.0,
        options=(),
        **SEVERAL_SITES,
    ),
    Study(
        name="contrastive",
        options=(*TWO, "--method", "contrastive"),
        directions="mixed",
    ),
    Study(name="older patients", older=10.0),
    Study(name="older patients, thickness", older=15.0, measure="thickness"),
    Study(name="no covariates", options=(*TWO, "--covariates", "none"), strength=4.0),
    Study(name="psychosis", options=(), make=make_psychosis),
    Study(name="autism", options=(), make=make_autism),
    Study(name="cerebrospinal fluid", options=(), make=make_csf),
    Study(name="ageing, volumes (IXI)", options=(), make=make_ixi),
    Study(name="ageing, thickness (fcon1000)", options=(), make=make_fcon1000),
    Study(name="dementia", options=(), make=make_dementia),
]
NULL = [
    Study(name="null", kind="null", patterns=0, options=()),
    Study(
        name="null, thickness", kind="null", patterns=0, options=(), measure="thickness"
    ),
    Study(name="null, sites", kind="null", patterns=0, options=(), **SEVERAL_SITES),
    Study(name="null, two patterns asked for", kind="null", patterns=0),
    Study(
        name="null, outlying measurements in patients",
        kind="null",
        patterns=0,
        options=(),
        outlying=0.004,
        outlying_group="patient",
    ),
    Study(name="permuted labels", kind="null", permuted=True, options=()),
    Study(
        name="permuted labels, losses and gains",
        kind="null",
        permuted=True,
        directions="mixed",
        options=(),
    ),
    Study(name="permuted labels, two patterns asked for", kind="null", permuted=True),
    Study(name="depression", kind="null", options=(), make=make_depression),
    Study(
        name="dementia, permuted labels",
        kind="null",
        options=(),
        make=partial(make_dementia, alteration="permuted"),
    ),
    Study(
        name="psychosis, permuted labels",
        kind="null",
        options=(),
        make=partial(make_psychosis, permuted=True),
    ),
]
PATIENTS = {"kind": "artefact", "directions": "mixed"}
BY_SITE = {"kind": "artefact", **SEVERAL_SITES}


def scale(
    factor: float, head_size: bool = False, group: str = "patient", site: str = ""
) -> Alteration:
    """Return volumes of a block times a factor."""
    return Alteration(
        kind="factor", group=group, site=site, factor=factor, with_head_size=head_size
    )


def swap(group: str = "", site: str = "") -> Alteration:
    """Return left and right of a block swapped."""
    return Alteration(kind="sides", group=group, site=site)


ARTEFACTS = [
    Study(name="patients times 0.296", alteration=scale(0.296), **PATIENTS),
    Study(
        name="patients and head size times 0.296",
        alteration=scale(0.296, head_size=True),
        **PATIENTS,
    ),
    Study(name="patients times 0.8", alteration=scale(0.8), **PATIENTS),
    Study(
        name="patients and head size times 0.8",
        alteration=scale(0.8, head_size=True),
        **PATIENTS,
    ),
    Study(name="patients times 1.2", alteration=scale(1.2), **PATIENTS),
    Study(
        name="patients and head size times 1.2",
        alteration=scale(1.2, head_size=True),
        **PATIENTS,
    ),
    Study(
        name="patients times 0.296, no disease",
        alteration=scale(0.296),
        kind="artefact",
        patterns=0,
        options=(),
    ),
    Study(
        name="patients times 0.8, no disease",
        alteration=scale(0.8),
        kind="artefact",
        patterns=0,
        options=(),
    ),
    Study(
        name="patients times 0.8, staged",
        alteration=scale(0.8),
        last_onset=0.7,
        **PATIENTS,
    ),
    Study(
        name="thickness of patients times 0.85",
        alteration=scale(0.85),
        measure="thickness",
        **PATIENTS,
    ),
    Study(
        name="volumes (IXI) of the old times 0.8",
        kind="artefact",
        options=(),
        make=partial(make_ixi, factor=0.8),
        alteration=scale(0.8),
    ),
    Study(
        name="a site times 0.8",
        alteration=scale(0.8, group="", site="A"),
        imbalance=0.4,
        options=UNHARMONISED,
        **BY_SITE,
    ),
    Study(
        name="a site times 1.25",
        alteration=scale(1.25, group="", site="A"),
        imbalance=0.4,
        options=UNHARMONISED,
        **BY_SITE,
    ),
    Study(
        name="patients of a site times 0.8", alteration=scale(0.8, site="B"), **BY_SITE
    ),
    Study(
        name="patients and head size of a site times 1.2",
        alteration=scale(1.2, site="B"),
        **BY_SITE,
    ),
    Study(name="sides swapped in patients", alteration=swap("patient"), **PATIENTS),
    Study(name="sides swapped in controls", alteration=swap("control"), **PATIENTS),
    Study(
        name="sides swapped in patients, thickness",
        alteration=swap("patient"),
        measure="thickness",
        **PATIENTS,
    ),
    Study(
        name="sides swapped in patients (dementia)",
        kind="artefact",
        options=(),
        make=partial(make_dementia, alteration="sides"),
        alteration=swap("patient"),
    ),
    Study(
        name="sides swapped at a site",
        alteration=swap(site="B"),
        options=UNHARMONISED,
        **BY_SITE,
    ),
    Study(
        name="sides swapped at a site, harmonised",
        alteration=swap(site="B"),
        directions="sides",
        **BY_SITE,
    ),
    Study(
        name="sides swapped in patients of a site",
        alteration=swap("patient", "B"),
        **BY_SITE,
    ),
    Study(
        name="a pattern at a site alone",
        alteration=Alteration(kind="one_site", group="patient", site="B"),
        **BY_SITE,
    ),
    Study(
        name="one pattern at a site alone, no other",
        alteration=Alteration(kind="one_site", group="patient", site="B"),
        patterns=1,
        options=ONE,
        **BY_SITE,
    ),
    Study(
        name="a pattern at a site alone, thickness",
        alteration=Alteration(kind="one_site", group="patient", site="B"),
        measure="thickness",
        **BY_SITE,
    ),
]
HARMONISED = [
    Study(
        name="a site times 0.8, harmonised",
        alteration=scale(0.8, group="", site="A"),
        **SEVERAL_SITES | {"kind": "harmonised"},
    ),
]
STUDIES = [*SOUND, *NULL, *ARTEFACTS, *HARMONISED]
"""All studies, in the order of the table."""
