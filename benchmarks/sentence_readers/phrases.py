"""Readers of the phrases that terminal, JSON and first screen share.

Each takes a text and a `Reading`, knows the form of the phrase, and computes what it
claims in its own way.
"""

import re
from typing import Any

import numpy as np
from scipy import stats

from benchmarks.sentence_readers.reading import (
    Reading,
    UnreadError,
    need_match,
    parse_number,
    split_names,
)
from benchmarks.sentence_readers.studies import ID, Alteration
from benchmarks.sentence_readers.written import MAX_NAMED, MIN_REPRODUCED, NamedRegion

COUNT = r"\d[\d,]*"
NUMBER = r"[-\N{MINUS SIGN}+]?\d[\d,]*(?:\.\d+)?"
P = (
    rf"p = \d\.\d+ \((?:none of {COUNT} permutations of the labels|"
    r"Monte Carlo error \d\.\d+(?:; too near [\d.]+ to tell)?)\)"
)
PEOPLE = (
    rf"{COUNT} controls? and {COUNT} patients?(?: \({COUNT}(?: and {COUNT})? scans\))?"
)
ESTIMATE = rf"({NUMBER})(?: \(({NUMBER}) to ({NUMBER})\))?"
_SIDE = r"(?:left|right)(?: \(\w+\))?"
_CHANGES = re.compile(
    rf" \(((?:{_SIDE} )?{NUMBER}(?:, {_SIDE} {NUMBER})*)\)(?=$|, | and |; )"
)
SHAPES = {
    "proportional": "all regions of a pattern change together",
    "staged": "each region of a pattern changes at its own severity",
    "interacting": "regions of a pattern change together, and patterns strengthen or weaken each other",
}
VERDICTS = {
    "reproduced in other people": "reproduced",
    "not known whether other people reproduce it": "not_known",
    "not reproduced in other people": "not_reproduced",
}


def read_count(text: str, true: int, claim: str, reading: Reading) -> None:
    """Check a number of people, scans, regions or measurements."""
    reading.check_equal(int(text.replace(",", "")), true, claim)


def read_people(text: str, reading: Reading) -> None:
    """Numbers of participants by group, and of scans where people have several."""
    match = need_match(
        rf"({COUNT}) controls? and ({COUNT}) patients?(?: \(({COUNT})(?: and ({COUNT}))? scans\))?",
        text,
    )
    truth = reading.written.truth
    for said, group in zip(match.groups()[:2], ("control", "patient"), strict=True):
        read_count(said, truth.count(group), f"number of {group}s", reading)
    scans = truth.count_scans()
    several = (
        sum(scans.values()) > len(truth.first)
        and truth.get_option("--visits") != "first"
    )
    reading.check_equal(match[3] is not None, several, "whether scans are counted")
    if match[4] is not None:
        for said, group in zip(match.groups()[2:], ("control", "patient"), strict=True):
            read_count(said, scans[group], f"scans of {group}s", reading)
    elif match[3] is not None:
        read_count(match[3], sum(scans.values()), "scans", reading)


def read_p(text: str, reading: Reading) -> None:
    """The p-value of any difference, with its Monte Carlo error."""
    match = need_match(
        rf"p = (\d\.\d+) \((?:none of ({COUNT}) permutations of the labels|Monte Carlo error (\d\.\d+)"
        r"(?:; too near ([\d.]+) to tell)?)\)",
        text,
    )
    record, level = reading.written.difference, reading.written.level
    p, number = record["p"], record["permutations"]
    reading.check_number(match[1], p, "p-value")
    reading.check_equal(
        match[2] is not None,
        reading.written.n_reached == 0,
        "whether no permutation reaches it",
    )
    if match[2] is not None:
        read_count(match[2], number, "permutations", reading)
        return
    error = float(np.sqrt(p * (1 - p) / (number + 1)))
    reading.check_number(match[3], error, "Monte Carlo error of p")
    reading.check_equal(
        match[4] is not None,
        abs(p - level) <= 1.96 * error,
        "whether p is too near the level",
    )
    if match[4] is not None:
        reading.check_number(match[4], level, "level")


def read_difference(is_claimed: bool, reading: Reading) -> None:
    """Whether patients differ from controls."""
    reading.check_equal(
        is_claimed,
        reading.written.is_difference,
        "whether patients differ from controls, by p",
    )


def read_adjustment(text: str, reading: Reading) -> None:
    """What was adjusted for, in how many regions, and whose effects of sites were
    removed.
    """
    written, truth = reading.written, reading.written.truth
    adjusted, total = written.list_adjusted(), written.n_regions
    text, _, sites = text.partition("; effects of ")
    text, _, without = text.partition("; ")
    everywhere = [name for name, regions in adjusted.items() if regions == total]
    somewhere = {
        name: regions for name, regions in adjusted.items() if 0 < regions < total
    }
    if without:
        names = need_match(r"(.+): no effect, equal in all controls", without)[1]
        said = split_names(names)
        reading.check_equal(
            sorted(said),
            sorted(n for n, regions in adjusted.items() if not regions),
            "without effect",
        )
    claimed: dict[str, int] = {}
    while part := re.search(
        r"(?:^| and )([^,()]+?) \((\d+) of (\d+) regions(?:: ([\w, ]+))?\)$", text
    ):
        name, number = part[1], int(part[2])
        claimed[name] = number
        read_count(part[3], total, "regions", reading)
        if part[4] == "volume":
            kinds = sum(
                not region.endswith("_thickness") for region in written.effects.index
            )
            reading.check_equal(
                number, kinds, f"regions of volume that {name} was removed from"
            )
        text = text[: part.start()]
    reading.check_equal(claimed, somewhere, "covariates of a part of the regions")
    if part := re.search(r" \(all (\d+) regions\)$", text):
        read_count(part[1], total, "regions", reading)
        text = text[: part.start()]
    said = [] if text in ("nothing", "") else split_names(text)
    reading.check_equal(sorted(said), sorted(everywhere), "covariates of all regions")
    reading.check_equal(
        sorted([*said, *claimed]),
        sorted(n for n in truth.covariates if adjusted.get(n)),
        "covariates",
    )
    _read_sites(sites, reading)


def _read_sites(text: str, reading: Reading) -> None:
    """Sites whose effects were removed, and the people from whom they were
    estimated.
    """
    truth = reading.written.truth
    is_harmonised = (
        reading.written.uses_sites and truth.get_option("--harmonise") != "none"
    )
    reading.check_equal(
        bool(text), is_harmonised, "whether effects of sites were removed"
    )
    if text:
        match = need_match(
            r"(\d+ sites?|sites), estimated in (controls|everyone with the diagnosis as a covariate)",
            text,
        )
        if match[1] != "sites":
            read_count(
                match[1].split()[0], truth.first["site"].nunique(), "sites", reading
            )
        of_controls = truth.get_option("--harmonise") != "all"
        reading.check_equal(
            match[2] == "controls", of_controls, "sites were estimated in controls"
        )


def split_regions(text: str) -> list[tuple[str, NamedRegion]]:
    """Return the direction of each region that a sentence names, and the region."""
    found = []
    for group in text.split("; "):
        match = need_match(r"(loss in|gain in|lower|higher) (.+)", group)
        direction = "loss" if match[1] in ("loss in", "lower") else "gain"
        rest = match[2]
        while rest:
            changes = _CHANGES.search(rest)
            if changes is None:
                raise UnreadError(rest)
            name = re.sub(r"^(?:, | and )", "", rest[: changes.start()])
            for each in re.split(rf", (?={_SIDE} )", changes[1]):
                side, number = need_match(rf"(?:({_SIDE}) )?({NUMBER})", each).groups()
                structure = name
                if side is None and (whole := re.fullmatch(rf"(.+), ({_SIDE})", name)):
                    structure, side = whole.groups()
                found.append((direction, NamedRegion(structure, side or "", number)))
            rest = rest[changes.end() :]
    return found


def read_regions(text: str, reading: Reading) -> None:
    """The largest changes of a pattern: each region with its direction and
    its value.
    """
    rows = reading.written.changes[reading.pattern]
    has_intervals = bool(rows["low"].notna().all())
    listed = rows[rows["is_certain"]] if has_intervals else rows
    if text == "no region whose 95 % interval excludes 0":
        reading.check_equal(
            int(rows["is_certain"].sum()), 0, "regions whose interval excludes 0"
        )
        return
    named = set()
    for direction, each in split_regions(text):
        found = rows[
            (rows["structure"] == each.structure) & (rows["side"] == each.side)
        ]
        reading.check_equal(
            len(found), 1, f"regions of the name {each.structure}, {each.side}"
        )
        if len(found) != 1:
            continue
        region = str(found.index[0])
        named.add(region)
        check_side(region, each.side, reading)
        check_change(region, each.change, direction, reading)
    order = listed.sort_values("size", ascending=False, kind="stable")
    largest = list(dict.fromkeys(order["structure"]))[:MAX_NAMED]
    reading.check_equal(
        {rows.loc[region, "structure"] for region in named},
        set(largest),
        "structures of the largest changes",
    )
    firsts = {
        str(order.index[order["structure"] == structure][0]) for structure in largest
    }
    reading.check(
        firsts <= named,
        f"the largest change of each structure is named: {sorted(firsts - named)}",
    )


def check_side(region: str, side: str, reading: Reading) -> None:
    """Check left and right by the name of the region in the table."""
    label = region
    if match := re.fullmatch(r"MUSE_(\d+)", region):
        rows = reading.written.changes[reading.pattern]
        label = str(rows.loc[match[0], "label"])
    is_right = re.match(r"(rh|R|Right|right)[-_]|ctx-rh", label) or re.search(
        r"_R$", label
    )
    is_left = re.match(r"(lh|L|Left|left)[-_]|ctx-lh", label) or re.search(
        r"_L$", label
    )
    true = "right" if is_right else "left" if is_left else ""
    if not reading.written.has_features:
        reading.check_equal(side.split(" ")[0], true, f"side of {region}")


def check_change(
    region: str, change: str | float, direction: str, reading: Reading
) -> None:
    """Check the change of a region against ``patterns.tsv``, the true direction and the
    groups' difference.
    """
    written, name = reading.written, reading.pattern
    row = written.changes[name].loc[region]
    if isinstance(change, str):
        reading.check_number(change, float(row["change"]), f"change of {region}")
    else:
        reading.check(
            abs(change - row["change"]) < 1e-9,
            f"change of {region}: {change}, {row['change']} is written",
        )
    value = parse_number(change) if isinstance(change, str) else change
    reading.check_equal(
        direction,
        "loss" if value < 0 else "gain",
        f"direction of {region} by its change",
    )
    if np.isfinite(row["low"]):
        reading.check(bool(row["is_certain"]), f"interval of {region} excludes 0")
    true = written.find_true_directions(name, region)
    if "none" in true:
        reading.unfounded.append(f"{name}: {region} ({value:+.2f})")
    elif true:
        reading.check(
            direction in true,
            f"{direction} in {region}; in truth {', '.join(sorted(true))}",
        )
    if written.selection["finding"] == "mean_difference":
        effect = written.effects.loc[region]
        is_opposite = (effect["low"] > 0 and value < 0) or (
            effect["high"] < 0 and value > 0
        )
        reading.check(
            not is_opposite,
            f"{direction} in {region}; the groups differ by d = {effect['d']:.2f}",
        )


def read_estimate(
    texts: tuple[str | None, ...],
    true: tuple[float | None, ...],
    claim: str,
    reading: Reading,
) -> None:
    """A figure with its interval."""
    for said, value, end in zip(texts, true, ("", ", low", ", high"), strict=True):
        reading.check_equal(
            said is not None, value is not None, f"whether {claim}{end} is said"
        )
        if said is not None:
            reading.check_number(said, value, claim + end)


def read_reproduction(text: str, reading: Reading) -> None:
    """Whether other people reproduce a pattern."""
    if text == "looks like an artefact":
        check_verdict("artefact", reading)
        return
    match = need_match(
        rf"({'|'.join(VERDICTS)}): split-half reproducibility {ESTIMATE}", text
    )
    record = reading.written.get_evidence(reading.pattern)
    true = (record["split_half"], *record["split_half_interval"])
    read_estimate(match.groups()[1:], true, "split-half reproducibility", reading)
    check_verdict(VERDICTS[match[1]], reading)
    low, high = (parse_number(each) for each in match.groups()[2:])
    if match[1] == "reproduced in other people":
        reading.check(low >= MIN_REPRODUCED, "reproduced: the interval is above 0.5")
    if match[1] == "not reproduced in other people":
        reading.check(
            high <= MIN_REPRODUCED, "not reproduced: the interval is below 0.5"
        )


def check_verdict(verdict: str, reading: Reading) -> None:
    """Check what is said of a pattern against its interval."""
    written = reading.written
    low, high = written.get_evidence(reading.pattern)["split_half_interval"]
    true = (
        "reproduced"
        if low >= MIN_REPRODUCED
        else "not_reproduced"
        if high < MIN_REPRODUCED
        else "not_known"
    )
    reading.verdicts[reading.pattern] = verdict
    if verdict != "artefact":
        reading.check_equal(
            verdict, true, f"verdict on {reading.pattern} by its interval"
        )


def read_separation(text: str, reading: Reading) -> None:
    """AUC and prevalence of a pattern."""
    match = need_match(
        rf"(cross-fitted|in-sample) AUC {ESTIMATE}; prevalence above controls' 5 %: (\d+) %",
        text,
    )
    check_auc(match.groups()[1:4], reading)
    check_cross_fitting(match[1] == "cross-fitted", reading)
    reading.check_number(
        match[5],
        100 * reading.written.compute_prevalence(reading.pattern),
        "prevalence",
    )


def check_auc(texts: tuple[Any, ...], reading: Reading) -> None:
    """Check an AUC against ``r_indices.tsv``; its interval is near that of DeLong."""
    auc, error = reading.written.compute_auc(reading.pattern)
    value, low, high = (str(each) for each in texts)
    if isinstance(texts[0], str):
        reading.check_number(value, auc, "AUC")
    else:
        reading.check(
            abs(texts[0] - auc) < 1e-6, f"AUC: {texts[0]} is said, {auc} is true"
        )
    ends = float(low), float(high)
    for end, sign in zip(ends, (-1, 1), strict=True):
        expected = min(max(auc + sign * 1.96 * error, 0.0), 1.0)
        reading.check(
            abs(end - expected) <= 0.75 * error + 0.015,
            f"interval of the AUC: {end}, {expected:.3f} by DeLong",
        )


def check_cross_fitting(is_claimed: bool, reading: Reading) -> None:
    """Check whether R-indices are of members that have not seen the person."""
    written = reading.written
    assert written.indices is not None
    behind = written.indices.get("members_behind")
    is_cross_fitted = behind is not None and bool(
        (behind < written.header["members"]).all()
    )
    reading.check_equal(
        is_claimed, is_cross_fitted, "whether R-indices are cross-fitted"
    )


def read_covariates(text: str, reading: Reading) -> None:
    """Rank correlations of an R-index with covariates in patients."""
    found = reading.written.correlate(reading.pattern)
    names = []
    for part in re.split(r"(?<=\)), ", text):
        match = need_match(rf"(.+) ({NUMBER}) \(p (?:= ([\d.]+)|< (0\.001))\)", part)
        names.append(match[1])
        if match[1] not in found:
            continue
        correlation, p = found[match[1]]
        reading.check_number(match[2], correlation, f"rank correlation with {match[1]}")
        if match[3]:
            reading.check_number(
                match[3], p, f"p of the rank correlation with {match[1]}"
            )
        else:
            reading.check(
                p < 0.001,
                f"p of the rank correlation with {match[1]} is below 0.001: {p:.4f}",
            )
    reading.check_equal(sorted(names), sorted(found), "covariates that are correlated")


def read_shape(text: str, reading: Reading) -> None:
    """The shape of the patterns, and the likelihood of held-out patients by shape."""
    match = need_match(
        rf"(\w+): ({'|'.join(SHAPES.values())})(?: \(mean log-likelihood of held-out patients (.+)\))?",
        text,
    )
    reading.check_equal(match[2], SHAPES.get(match[1]), "what the shape means")
    check_shape(match[1], reading)
    held_out = reading.written.held_out
    assert held_out is not None
    known = {name for name in SHAPES if held_out.get(name) is not None}
    reading.check_equal(
        match[3] is not None, len(known) > 1, "whether likelihoods are said"
    )
    if match[3] is None:
        return
    own, *others = re.split("; |, ", match[3])
    reading.check_number(
        own, held_out.get(match[1]), f"likelihood of {match[1]} patterns"
    )
    named = {match[1]}
    for other in others:
        shape, value = need_match(rf"(\w+) ({NUMBER})", other).groups()
        named.add(shape)
        reading.check_number(
            value, held_out.get(shape), f"likelihood of {shape} patterns"
        )
    reading.check_equal(named, known, "shapes that were fitted")


def check_shape(shape: str, reading: Reading) -> None:
    """Check the shape against what was recorded, and the files and sections that belong
    to it.
    """
    written = reading.written
    assert written.held_out is not None
    reading.check_equal(shape, written.held_out["shape"], "chosen shape")
    reading.check_equal(shape, written.header.get("shape"), "shape in the model")
    has_courses = (written.folder / "trajectories.tsv").is_file()
    reading.check_equal(
        has_courses,
        shape == "staged",
        "trajectories.tsv is written for staged patterns alone",
    )


def read_scale(text: str, reading: Reading) -> None:
    """The scale of R-indices, and the middle half of the controls."""
    written, one = reading.written, "The" if len(reading.written.names) == 1 else "An"
    match = need_match(
        r"(The|An) (R-index is .+?)(?: \(half of the study's controls have (.+)\))?\.",
        text,
    )
    reading.check_equal(match[1], one, "article")
    is_curve, is_mean = (
        written.header["kind"] in ("trajectory", "interacting"),
        written.selection["finding"] == "mean_difference",
    )
    line = (
        "the mean difference between patients and controls" if is_mean else "a pattern"
    )
    zero = "of the controls that it was fitted to" if is_mean else "control"
    others = "; other controls are a little above 0 on average" if is_mean else ""
    meaning = (
        "R-index is the expected severity of a pattern, from 0 (no change) to 1 (as in the most severe patients); "
        "controls are above 0, because no estimate is certain"
        if is_curve
        else f"R-index is a position along {line}: 0 is the average {zero}, 1 about the 98th percentile of patients, "
        f"and values below 0 and above 1 occur{others}"
    )
    if match[2] != meaning:
        raise UnreadError(match[2])
    if not is_curve:
        check_positions(reading)
    else:
        for name in written.names:
            controls, _ = written.split(name)
            reading.check(
                controls.min() > 0,
                f"controls are above 0 in {name}: the smallest is {controls.min():.3f}",
            )
    said = [] if match[3] is None else match[3].split(", ")
    reading.check_equal(
        len(said), len(written.names), "R-indices with a middle half of controls"
    )
    for part in said:
        low, high, name = need_match(
            rf"({NUMBER}) to ({NUMBER})(?: in (r\d+))?", part
        ).groups()
        name = name or written.names[0]
        for end, true in zip(
            (low, high), written.compute_middle_half(name), strict=True
        ):
            reading.check_number(
                end, true, f"middle half of controls in {name}", slack=6e-5
            )


def check_positions(reading: Reading) -> None:
    """Check that 0 is about the mean of controls, and 1 about the 98th percentile of
    patients.
    """
    for name in reading.written.names:
        controls, patients = reading.written.split(name)
        highest = (
            0.25 if reading.written.selection["finding"] == "mean_difference" else 0.1
        )  # of other controls
        is_near = -0.1 < controls.mean() < highest
        reading.check(
            is_near, f"0 is the average control in {name}: it is {controls.mean():.2f}"
        )
        top = float(np.quantile(patients, 0.98))
        reading.check(
            abs(top - 1) < 0.25,
            f"1 is about the 98th percentile of patients in {name}: it is {top:.2f}",
        )


def read_outlying(text: str, reading: Reading) -> None:
    """Numbers of outlying measurements, and of the participants concerned, by group."""
    match = need_match(
        rf"({COUNT}) measurements? of ({COUNT}) participants?: ({COUNT}) in ({COUNT}) controls?, ({COUNT}) in "
        rf"({COUNT}) patients?",
        text,
    )
    counts = reading.written.count_outlying() or {}
    keys = ("m", "p", "m control", "p control", "m patient", "p patient")
    for said, key in zip(match.groups(), keys, strict=True):
        read_count(said, counts.get(key, 0), f"outlying measurements ({key})", reading)


def compute_detectable_effect(controls: int, patients: int, regions: int) -> float:
    """Return Cohen's d of a region that is found with a power of 80 % at 0.05 /
    regions, by the noncentral t.
    """
    dof, scale = controls + patients - 2, np.sqrt(1 / controls + 1 / patients)
    limit = stats.t.ppf(1 - 0.025 / regions, dof)
    grid = np.linspace(0.05, 5, 5000)
    power = stats.nct.sf(limit, dof, grid / scale)
    return float(grid[np.argmax(power >= 0.8)])


def check_detectable_effect(said: str | float, reading: Reading) -> None:
    """Check the effect that would have been detected."""
    truth = reading.written.truth
    true = compute_detectable_effect(
        truth.count("control"), truth.count("patient"), reading.written.n_regions
    )
    reading.check(
        abs(float(said) - true) <= 0.03,
        f"detectable effect: {said} is said, {true:.3f} is true",
    )


def read_artefact(text: str, reading: Reading) -> None:
    """A sign of an artefact: the block that it names is the altered one, and its
    numbers are near the truth.
    """
    for expression, check in _ARTEFACTS.items():
        if match := re.fullmatch(expression, text):
            alteration = reading.written.truth.alteration
            reading.check(alteration is not None, f"an artefact: {text}")
            name = match.groupdict().get("name")
            reading.concerned |= set(reading.written.names) if name is None else {name}
            if alteration is not None:
                check(match, alteration, reading)
            return
    raise UnreadError(text)


_BLOCK = r"the patients of site \S+|the patients|site \S+"


def check_block(text: str, alteration: Alteration, reading: Reading) -> None:
    """Check the block that a sentence about an artefact names."""
    group = "the patients" if alteration.group else ""
    site = f"site {alteration.site}" if alteration.site else ""
    reading.blocks.append(text)
    reading.check_equal(text, " of ".join(filter(None, [group, site])), "altered block")


def _check_ratio(
    match: re.Match[str], alteration: Alteration, reading: Reading
) -> None:
    block = (
        match["block"]
        if "block" in match.groupdict()
        else f"the patients of site {match['site']}"
    )
    check_block(block, alteration, reading)
    reading.check_equal("factor", alteration.kind, "kind of the alteration")
    ratio = float(match["ratio"])
    reading.check(
        abs(np.log(ratio / alteration.factor)) < 0.15,
        f"ratio: {ratio} is said, {alteration.factor} is true",
    )
    low, high = float(match["low"]), float(match["high"])
    reading.check(low <= ratio <= high, "the ratio is between its ends")


def _check_head_size(
    match: re.Match[str], alteration: Alteration, reading: Reading
) -> None:
    check_block("the patients", alteration, reading)
    reading.check(alteration.with_head_size, "the head size was altered")
    ratio = float(match[1])
    reading.check(
        abs(np.log(ratio / alteration.factor)) < 0.1,
        f"ratio: {ratio} is said, {alteration.factor} is true",
    )


def _check_sides(
    match: re.Match[str], alteration: Alteration, reading: Reading
) -> None:
    check_block(match[1], alteration, reading)
    reading.check_equal("sides", alteration.kind, "kind of the alteration")
    labels = reading.written.effects.index
    reading.check(2 * int(match[3]) <= len(labels), "pairs of regions")
    reading.check(
        -1 <= parse_number(match[4]) < 0,
        "the correlation of mirrored sides is negative",
    )


def _check_all_regions(
    match: re.Match[str], alteration: Alteration, reading: Reading
) -> None:
    check_block("the patients", alteration, reading)
    reading.check(0.5 < float(match[1]) <= 1, "AUC of regions")


def _check_one_site(
    match: re.Match[str], alteration: Alteration, reading: Reading
) -> None:
    check_block(f"the patients of site {match['site']}", alteration, reading)
    reading.check_equal("one_site", alteration.kind, "kind of the alteration")
    people = reading.written.known
    patients = people[people["group"] == "patient"]
    here = int((patients["site"] == match["site"]).sum())
    read_count(match["n_here"], here, "patients of the site", reading)
    read_count(
        match["n_elsewhere"], len(patients) - here, "patients of other sites", reading
    )
    name = match["name"]
    differences = [
        _standardise(people[(people["site"] == match["site"]) == is_here], name, people)
        for is_here in (True, False)
    ]
    for said, true in zip(
        (match["here"], match["elsewhere"]), differences, strict=True
    ):
        value = parse_number(said)
        reading.check(
            abs(value - true) <= 0.4 * abs(true) + 0.4,
            f"excess of patients: {value}, {true:.2f} is true",
        )


def _standardise(people: Any, name: str, everyone: Any) -> float:
    """Return by how many standard deviations of controls patients exceed controls."""
    is_patient = people["group"] == "patient"
    spread = everyone.loc[everyone["group"] == "control", name].std()
    return float(
        (people.loc[is_patient, name].mean() - people.loc[~is_patient, name].mean())
        / spread
    )


_RATIO = r"(?P<ratio>[\d.e+-]+)"
_RANGE = r"\((?P<low>[\d.e+-]+) to (?P<high>[\d.e+-]+) in four fifths of the (?:regions|features)\)"
_ARTEFACTS = {
    rf"\w+ (?:of|at) (?P<block>{_BLOCK}) are {_RATIO} times those (?:of|at) .+? nearly throughout "
    rf"{_RANGE}: .+\?": _check_ratio,
    rf"at site (?P<site>\S+), \w+ of the patients are {_RATIO} times what other sites lead to expect from "
    rf"its controls, nearly throughout {_RANGE}: .+\?": _check_ratio,
    rf"the head size of the patients is ({NUMBER}) times that of the controls: .+\?": _check_head_size,
    rf"left and right are swapped (?:in|at) ({_BLOCK}) or (?:in|at) (.+?): differences between the sides of "
    rf"(\d+) pairs of regions are each other's mirror image \(correlation ({NUMBER}), \d+ standard errors "
    r"below 0\)": _check_sides,
    r"three quarters of the (?:regions|features) separate the patients from the controls almost by "
    r"themselves \(AUC ([\d.]+) and more\): .+\?": _check_all_regions,
    r"(?P<name>r\d+) distinguishes the patients of site (?P<site>\S+) far more than those of other sites: they exceed "
    rf"controls by (?P<here>{NUMBER}) standard deviations there \((?P<n_here>\d+) patients\) and by "
    rf"(?P<elsewhere>{NUMBER}) elsewhere \((?P<n_elsewhere>\d+) patients\): .+\?": _check_one_site,
}


def split_cells(text: str) -> list[tuple[str, str, str, str]]:
    """Return region, participant, value and expected value of the cells that a warning
    lists.
    """
    found = re.findall(
        rf"(?:^|, )(.+?) of (\S+?)(?:, session [^ ]+)? \(({NUMBER}), expected ({NUMBER})\)",
        text,
    )
    return [tuple(each) for each in found]


def check_cells(text: str, reading: Reading) -> None:
    """Check the outlying measurements that a warning lists against
    ``outlying_measurements.tsv``.
    """
    table = reading.written.read("outlying_measurements")
    assert table is not None
    for _, person, value, expected in split_cells(text):
        rows = table[table[ID] == person]
        near = np.isclose(rows["value"], parse_number(value), rtol=1e-3) & np.isclose(
            rows["expected"], parse_number(expected), rtol=6e-3
        )
        reading.check(
            bool(near.any()),
            f"outlying measurement of {person}: {value}, expected {expected}",
        )
