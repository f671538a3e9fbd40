"""Readers of warnings and notes, which the terminal and the first screen share."""

import json
import re
from importlib.resources import files

import numpy as np

from benchmarks.sentence_readers.phrases import (
    COUNT,
    NUMBER,
    check_cells,
    read_artefact,
    read_count,
)
from benchmarks.sentence_readers.reading import Grammar, Reading
from benchmarks.sentence_readers.studies import ID
from benchmarks.sentence_readers.written import MIN_REPRODUCED

PROBLEMS = Grammar()
"""Warnings and notes, with or without the file that they are about."""
_FILE = r"(?:[\w .&+()-]+?\.(?:tsv|csv)(?: \+ [\w .&+()-]+?\.(?:tsv|csv))*(?:, column \w+)?: )?"
MIN_CARRIERS, MIN_OVERLAP = 0.3, 0.5


@PROBLEMS.form(
    rf"[Aa] small study \(({COUNT}) controls and ({COUNT}) patients\): (.+?)\. See "
    r"(what more people would give|what to expect): rindices power --people (\d+)\+(\d+)"
)
def _read_size(match: re.Match[str], reading: Reading) -> None:
    truth = reading.written.truth
    counts = [truth.count(group) for group in ("control", "patient")]
    planned = match.groups()[-2:]
    for said, plan, true, group in zip(
        match.groups()[:2], planned, counts, ("controls", "patients"), strict=True
    ):
        read_count(said, true, f"number of {group}", reading)
        read_count(plan, true, f"number of {group} to plan for", reading)
    rows = json.loads(
        (files("rindices.study") / "data" / "power.json").read_text("utf-8")
    )["rows"]
    expression = (
        r"with (\d+) and (\d+), simulated patterns that take (\d+)% of a (?:region|feature) were ranked ([\d.]+) "
        r"\(0\.5 is chance\) and their number was found in (\d+)% of the cohorts"
    )
    if simulated := re.fullmatch(expression, match[3]):
        sizes = tuple(int(each) for each in simulated.groups()[:2])
        reading.check(
            sizes[0] <= counts[0] and sizes[1] <= counts[1],
            f"simulated sizes {sizes} are not larger",
        )
        known = [
            row
            for row in rows
            if (row["controls"], row["patients"]) == sizes
            and round(100 * row["rate"]) == int(simulated[3])
        ]
        is_known = any(
            abs(row["accuracy"] - float(simulated[4])) <= 0.0051
            and abs(100 * row["right"] - int(simulated[5])) <= 0.51
            for row in known
        )
        reading.check(is_known, "figures of the simulated cohorts")
        return
    for number, group, least in re.findall(
        r"(\d+) (controls|patients) are fewer than (\d+)", match[3]
    ):
        reading.check_equal(
            int(number), counts[group == "patients"], f"number of {group}"
        )
        reading.check_equal(
            int(least),
            min(row[group] for row in rows),
            f"fewest {group} in the simulations",
        )


@PROBLEMS.form(rf"{_FILE}groups are read from column '(\w+)'\.")
def _read_group_column(match: re.Match[str], reading: Reading) -> None:
    reading.check_equal(match[1], "group", "column of the groups")


@PROBLEMS.form(
    rf"{_FILE}controls are (.+?) and patients are (.+?)\. If not: --controls LABEL --patients LABEL\[,LABEL\]"
)
def _read_labels(match: re.Match[str], reading: Reading) -> None:
    truth = reading.written.truth
    scans = truth.count_scans()
    for text, group in zip(match.groups(), ("control", "patient"), strict=True):
        number = sum(
            int(each.replace(",", "")) for each in re.findall(rf"\(({COUNT})\)", text)
        )
        reading.check(
            number in (truth.count(group), scans[group]),
            f"number of {group}s: {number}",
        )


@PROBLEMS.form(
    rf"{_FILE}adjusted for (.+?), recognised by name\. To choose: --covariates NAMES, or --covariates none"
)
def _read_recognised(match: re.Match[str], reading: Reading) -> None:
    said = match[1].split(", ")
    reading.check_equal(
        sorted(said), sorted(reading.written.truth.covariates), "covariates"
    )


@PROBLEMS.form(
    rf"{_FILE}column '(\w+)' holds (\d+) sites?, whose effects are removed unless --harmonise none is given\. "
    r"If these are no sites: --site none"
)
def _read_sites(match: re.Match[str], reading: Reading) -> None:
    truth = reading.written.truth
    read_count(match[2], truth.first["site"].nunique(), "sites", reading)


@PROBLEMS.form(
    rf"{_FILE}({COUNT}) people have ({COUNT}) scans; fit uses the first session of each person: (.+?); ({COUNT}) rows? "
    r"(?:is|are) left out\. Use apply for the other sessions, or give the rows of another session to fit\."
)
def _read_first_scans(match: re.Match[str], reading: Reading) -> None:
    truth = reading.written.truth
    n_people, n_scans = len(truth.first), sum(truth.count_scans().values())
    read_count(match[1], n_people, "participants", reading)
    read_count(match[2], n_scans, "scans", reading)
    read_count(match[4], n_scans - n_people, "scans that are left out", reading)
    used = sum(
        int(each.replace(",", ""))
        for each in re.findall(rf"\(({COUNT}) (?:person|people)\)", match[3])
    )
    reading.check_equal(used, n_people, "first sessions")


@PROBLEMS.form(
    rf"{_FILE}visits of a person are told apart by (\w+)\. If not: --session COLUMN\.?"
)
def _read_sessions(match: re.Match[str], reading: Reading) -> None:
    scans = reading.written.truth.count_scans()
    reading.check(
        sum(scans.values()) > len(reading.written.truth.first),
        "there are several visits",
    )


@PROBLEMS.form(
    rf"({COUNT} measurements? of {COUNT} participants?) do(?:es)? not fit the other (?:regions|features) "
    rf"of the same participant (\(.+?\))(?:: (.+?)(?: and ({COUNT}) more)?)?; treated as missing\. Check "
    r"these measurements, or use them all the same: --on-outlier keep\.?"
)
def _read_outlying(match: re.Match[str], reading: Reading) -> None:
    counts = reading.written.count_outlying() or {}
    measurements, people = re.findall(COUNT, match[1])
    # rows that do not fit as a whole are in the table, and said apart
    failed = _count_failed(reading)
    read_count(
        people,
        counts.get("p", 0) - failed[0],
        "participants with outlying measurements",
        reading,
    )
    read_count(
        measurements, counts.get("m", 0) - failed[1], "outlying measurements", reading
    )
    if not failed[0]:
        groups = re.fullmatch(
            rf"\(({COUNT}) of controls, ({COUNT}) of patients\)", match[2]
        )
        assert groups is not None
        for said, key in zip(groups.groups(), ("m control", "m patient"), strict=True):
            read_count(
                said, counts.get(key, 0), f"outlying measurements ({key})", reading
            )
    if match[3]:
        check_cells(match[3], reading)


def _count_failed(reading: Reading) -> tuple[int, int]:
    """Return the number of people whose regions do not fit together, and of their
    outlying measurements.
    """
    table = reading.written.read("outlying_measurements")
    if table is None:
        return 0, 0
    failed = {
        name
        for problem in reading.written.cohort["problems"]
        if "do not fit together" in problem["what"]
        for name in problem["offenders"]
    }
    return len(failed), int(table[ID].isin(failed).sum())


@PROBLEMS.form(
    rf"[Rr]egions of ({COUNT}) (?:person|people) do not fit together; nothing is learnt from them; (?=\d)"
)
def _read_failed_beside_cells(match: re.Match[str], reading: Reading) -> None:
    _read_failed(match, reading)


@PROBLEMS.form(
    rf"regions of ({COUNT}) (?:person|people) do not fit together(?:: .+?)?; nothing is learnt from them\. "
    r"Check these measurements, or use them all the same: --on-outlier keep\.?"
)
def _read_failed(match: re.Match[str], reading: Reading) -> None:
    table = reading.written.read("outlying_measurements")
    assert table is not None
    reading.check(
        int(match[1].replace(",", "")) <= table[ID].nunique(),
        "people whose regions do not fit together",
    )


@PROBLEMS.form(
    r"[Ff]ew patients carry ((?:r\d+(?:, | and )?)+)\. Look for a batch, a scanner or a subgroup behind it\."
)
def _read_carriers(match: re.Match[str], reading: Reading) -> None:
    written = reading.written
    few = [
        name
        for name in written.names
        if written.compute_prevalence(name) < MIN_CARRIERS
    ]
    reading.check_equal(
        re.findall(r"r\d+", match[1]), few, "patterns that few patients carry"
    )


@PROBLEMS.form(
    r"(?:[Oo]ther people do not reproduce|[Ii]t is not known whether other people reproduce) ((?:r\d+(?:, "
    r"| and )?)+)\. (Try fewer patterns, or more people|More people would help)\."
)
def _read_reproduction(match: re.Match[str], reading: Reading) -> None:
    written, is_unknown = reading.written, "not known" in match[0]
    found = []
    for name in written.names:
        low, high = written.get_evidence(name)["split_half_interval"]
        if (low < MIN_REPRODUCED <= high) if is_unknown else high < MIN_REPRODUCED:
            found.append(name)
    reading.check_equal(
        re.findall(r"r\d+", match[1]), found, "patterns with this verdict"
    )


@PROBLEMS.form(
    r"(?:[Tt]he study|[Ll]ikelihood|[Aa]greement) and the test name different numbers of patterns\. (.+?)\.(?= |$)"
)
def _read_number(match: re.Match[str], reading: Reading) -> None:
    number, model = (
        reading.written.selection["number_of_patterns"],
        len(reading.written.names),
    )
    by_test, why = number["by_test"], match[1]
    reading.check(by_test != model, "the test and the model have different numbers")
    if told := re.fullmatch(r"The test finds (\d+): try it with --patterns (\d+)", why):
        reading.check(int(told[1]) == int(told[2]) == by_test, "number of the test")
    elif told := re.fullmatch(
        r"Patients differ from each other in (\d+) directions, but (\d+) patterns .+",
        why,
    ):
        reading.check_equal(
            (int(told[1]), int(told[2])), (by_test, model), "numbers of patterns"
        )
    elif told := re.fullmatch(
        r"(\d+) patterns? describes? other people best, but only (\d+) exceed chance: .+",
        why,
    ):
        reading.check_equal(
            (int(told[1]), int(told[2])), (model, by_test), "numbers of patterns"
        )
    elif why.startswith("Patients do not differ from each other more than controls do"):
        reading.check(
            by_test == 0 and reading.written.is_difference,
            "the test finds no pattern, but a difference",
        )
    elif why.startswith("The test detects no difference between patients and controls"):
        reading.check(
            not reading.written.is_difference, "the test detects no difference"
        )
    else:
        reading.unread.append(f"{why} [{reading.surface}: {reading.sentence}]")


@PROBLEMS.form(
    r"[Cc]ontrols and patients differ so much in covariates or site that the test can hardly compare "
    r"them\. Controls more like the patients would help\."
)
def _read_overlap(match: re.Match[str], reading: Reading) -> None:
    overlap = reading.written.selection["number_of_patterns"]["test"]["overlap"]
    reading.check(overlap < MIN_OVERLAP, f"the groups overlap little: {overlap:.2f}")


@PROBLEMS.form(
    r"[Mm]embers hardly agree on ((?:r\d+(?:, | and )?)+): fewer patterns may be enough\."
)
def _read_members(match: re.Match[str], reading: Reading) -> None:
    scales = reading.written.header["pattern_scale"]
    weak = [
        name
        for name, scale in zip(reading.written.names, scales, strict=True)
        if scale < 0.7
    ]
    reading.check_equal(
        re.findall(r"r\d+", match[1]), weak, "patterns on which members hardly agree"
    )


@PROBLEMS.form(
    r"(r\d+) and (r\d+) affect nearly the same (?:regions|features): they may be one pattern split in two\."
)
def _read_similar(match: re.Match[str], reading: Reading) -> None:
    first, second = (
        reading.written.changes[name]["size"].to_numpy() for name in match.groups()
    )
    similarity = first @ second / np.sqrt((first @ first) * (second @ second))
    reading.check(similarity > 0.7, f"similar regions: {similarity:.2f}")


@PROBLEMS.form(rf"(r\d+) and (r\d+) are correlated in patients \(({NUMBER})\)\.")
def _read_correlated(match: re.Match[str], reading: Reading) -> None:
    patients = reading.written.known[reading.written.known["group"] == "patient"]
    reading.check_number(
        match[3],
        float(patients[match[1]].corr(patients[match[2]])),
        "correlation in patients",
    )


@PROBLEMS.form(
    rf"Patients and controls differ in (\S+) \(({NUMBER}|[\d.e+]+) against ({NUMBER}|[\d.e+]+) on "
    r"average\): (?:what the adjustment leaves of it may look like disease|disease that is correlated "
    r"with it is removed by the adjustment)\."
)
def _read_group_difference(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    for said, group in zip(match.groups()[1:], ("patient", "control"), strict=True):
        mean = float(first.loc[first["group"] == group, match[1]].mean())
        reading.check(
            abs(float(said) / mean - 1) < 6e-4,
            f"mean {match[1]} of {group}s: {said} is said, {mean:.6g} is true",
        )


@PROBLEMS.form(
    r"Nothing was adjusted for\. (?:Age, sex and head size change volumes and can be mistaken for "
    r"disease|Normal differences of age, sex and head size may hide a disease)\."
)
def _read_unadjusted(match: re.Match[str], reading: Reading) -> None:
    reading.check_equal(reading.written.list_adjusted(), {}, "covariates")


@PROBLEMS.form(
    r"(\S+) has fewer than (\d+) controls in (.+?): its effect there cannot be separated well from disease\."
)
def _read_rare_levels(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    counts = first.loc[first["group"] == "control", match[1]].astype(str).value_counts()
    for level in match[3].replace(" and ", ", ").split(", "):
        reading.check(
            counts.get(level, 0) < int(match[2]), f"controls with {match[1]} {level}"
        )


@PROBLEMS.form(r"The number of patterns is not settled: (.+?) would do about as well\.")
def _read_ties(match: re.Match[str], reading: Reading) -> None:
    ties = [each["n_patterns"] for each in reading.written.selection["ties"]]
    reading.check_equal(
        [int(each) for each in re.findall(r"\d+", match[1])],
        ties,
        "numbers that would do as well",
    )


@PROBLEMS.form(
    r"(\d+) of (\d+) members (did not converge|disagree with the rest and were left out)\."
)
def _read_left_out(match: re.Match[str], reading: Reading) -> None:
    members = reading.written.selection["chosen"]["members"]
    trained, converged, used = (
        members["trained"],
        members["converged"],
        reading.written.header["members"],
    )
    true = (
        (trained - converged, trained)
        if "converge" in match[3]
        else (converged - used, converged)
    )
    reading.check_equal((int(match[1]), int(match[2])), true, "members")


_RANGE = rf"{COUNT} (?:person is|people are) outside the controls' range of \w+ \({NUMBER} to {NUMBER}\)"


@PROBLEMS.form(
    rf"(?:covariates: )?({_RANGE}(?:; {_RANGE})*)(?:: .+?)?\. Their adjustment extrapolates; add controls "
    r"of that range\."
)
def _read_ranges(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    for part in match[1].split("; "):
        number, name, *ends = re.fullmatch(
            rf"({COUNT}) .+ range of (\w+) \(({NUMBER}) to ({NUMBER})\)", part
        ).groups()
        values, controls = first[name], first.loc[first["group"] == "control", name]
        outside = int(((values < controls.min()) | (values > controls.max())).sum())
        # the range is rounded outwards, so that it tells nothing of single people
        reading.check(
            0 < int(number.replace(",", "")) <= outside,
            f"people outside: {number}, at most {outside}",
        )
        low, high = (float(each.replace(",", "")) for each in ends)
        reading.check(
            low <= controls.min() and high >= controls.max(),
            f"range of {name} of controls",
        )


@PROBLEMS.form(
    r"(?:sites: )?sites whose effect was estimated from fewer than (\d+) controls(?:: (.+?)(?: and (\d+) "
    r"more)?)?\. What is left of their effect can look like disease\."
)
def _read_small_sites(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    counts = first.loc[first["group"] == "control", "site"].value_counts()
    few = {
        str(site).upper(): int(number)
        for site, number in counts.items()
        if number < int(match[1])
    }
    reading.check(bool(few), "there are small sites")
    for site, number in re.findall(r"([^,]+?) \((\d+)\)", match[2] or ""):
        reading.check_equal(
            few.get(site.strip().upper()), int(number), f"controls of site {site}"
        )


@PROBLEMS.form(
    rf"{_FILE}[Ss]everal kinds of measures stand side by side, each region is standardised on its own: "
    r"(\d+) columns of thickness, (\d+) columns of volume\. For one kind alone: --measure thickness\. "
    r"Thickness is adjusted for head size only with --icv-for all\.?"
)
def _read_kinds(match: re.Match[str], reading: Reading) -> None:
    regions = reading.written.effects.index
    is_thickness = regions.str.contains("thickness") | regions.str.match(
        r"(?:lh|rh)[-_](?!.*volume)"
    )
    reading.check_equal(int(match[1]), int(is_thickness.sum()), "columns of thickness")
    reading.check_equal(int(match[2]), int((~is_thickness).sum()), "columns of volume")


@PROBLEMS.form(
    rf"{_FILE}[Ss]exes are unequal: (\w+) is (\w+) in (\d+)% of controls and (\d+)% of patients\. It is "
    r"adjusted for; effects that differ between sexes are not\."
)
def _read_sexes(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    for said, group in zip(match.groups()[2:], ("control", "patient"), strict=True):
        share = (
            first.loc[first["group"] == group, match[1]].astype(str) == match[2]
        ).mean()
        reading.check_number(
            said, 100 * float(share), f"share of {match[2]} in {group}s"
        )
    reading.check(
        match[1] in reading.written.list_adjusted(), f"{match[1]} is adjusted for"
    )


@PROBLEMS.form(
    rf"{_FILE}[Pp]atterns are learnt from ({COUNT}) scans of ({COUNT}) people\. Use --visits first to "
    r"learn from the first session of each person alone\."
)
def _read_scans(match: re.Match[str], reading: Reading) -> None:
    truth = reading.written.truth
    read_count(match[1], sum(truth.count_scans().values()), "scans", reading)
    read_count(match[2], len(truth.first), "people", reading)
    reading.check(truth.get_option("--visits") != "first", "all scans are used")


@PROBLEMS.form(
    rf"{_FILE}[Oo]nly (\d+)% of patients have an? (\w+) that is common among controls \(([\d.]+) to "
    r"([\d.]+) years\)\. Ageing that controls do not show passes as disease: give controls of the "
    r"patients' ages\."
)
def _read_ages(match: re.Match[str], reading: Reading) -> None:
    first = reading.written.truth.first
    values = {
        group: first.loc[first["group"] == group, match[2]]
        for group in ("control", "patient")
    }
    low, high = np.quantile(values["control"], [0.05, 0.95])
    reading.check_number(match[3], float(low), "5th percentile of the ages of controls")
    reading.check_number(
        match[4], float(high), "95th percentile of the ages of controls"
    )
    reading.check_number(
        match[1],
        100 * float(values["patient"].between(low, high).mean()),
        "share of patients",
    )


@PROBLEMS.form(
    r"[Pp]atterns were tried and are not stable: (.+)\. The mean difference is reported instead\."
)
def _read_unstable(match: re.Match[str], reading: Reading) -> None:
    selection = reading.written.selection
    unstable = [
        f"{each['setting']['n_patterns']} ({each['why']})"
        for each in selection["grid"]
        if not each["stable"]
    ]
    reading.check_equal(match[1], ", ".join(unstable), "settings that are not stable")
    reading.check_equal(selection["finding"], "mean_difference", "finding")
    for each in re.findall(r"as low as ([\d.]+), ([\d.]+) is needed", match[1]):
        reading.check(float(each[0]) < float(each[1]), f"{each[0]} is below {each[1]}")


@PROBLEMS.form(
    r"[Ll]ooks like an artefact: (.+?)\.? Look at these people in the table and in the images, and correct or leave "
    r"out what is wrong\."
)
def _read_artefact(match: re.Match[str], reading: Reading) -> None:
    read_artefact(match[1], reading)


@PROBLEMS.form(
    rf"{_FILE}(\d+) columns are not used: (.+?)\.(?: To use the ventricles: --include ventricles\.?)?"
)
def _read_unused_columns(match: re.Match[str], reading: Reading) -> None:
    numbers = [
        int(number) for number in re.findall(r"(?:^|, )(\d+) (?:of|that)", match[2])
    ]
    reading.check_equal(sum(numbers), int(match[1]), "columns that are not used")


PROBLEMS.forms += [
    (
        re.compile(expression),
        lambda match, reading: None,
    )  # notes on rows and columns of a real table
    for expression in (
        rf"{_FILE}the nameless first column only counts the rows; it is not used\.",
        rf"{_FILE}({COUNT}) rows? ha(?:s|ve) duplicate IDs of nobody in the table of regions: .+?; not read\.",
        rf"{_FILE}({COUNT}) people have no row among the participants: .+?; left out\.",
        rf"{_FILE}({COUNT}) cells? of 0 in ({COUNT}) regions? (?:is|are) missing: FreeSurfer writes 0 for what it "
        r"did not find: [^.]+\.",
    )
]


@PROBLEMS.form(
    rf"{_FILE}({COUNT}) (?:person has|people have) a missing region \((.+?)\): .+?; left out\."
)
def _read_missing_regions(match: re.Match[str], reading: Reading) -> None:
    n_cells = sum(int(number) for number in re.findall(r" (\d+) times", match[2]))
    reading.check(n_cells >= 1, "missing regions")


@PROBLEMS.form(
    rf"{_FILE}({COUNT}) (?:person has|people have) a missing region, ({COUNT}) of ({COUNT}) cells (?:is|are) missing "
    r"\(.+?\): .+?; their other regions are used\."
)
def _read_missing_cells(match: re.Match[str], reading: Reading) -> None:
    people, cells, of_cells = (int(each.replace(",", "")) for each in match.groups())
    reading.check(
        0 < people <= len(reading.written.truth.first),
        "participants with a missing region",
    )
    reading.check(people <= cells < of_cells, "missing cells")
    reading.check_equal(
        of_cells % len(reading.written.effects), 0, "cells of whole regions"
    )


@PROBLEMS.form(
    rf"({COUNT}) (?:person has|people have) no R-index, because every ensemble member that agrees with the others was "
    r"trained on them(?:: .+?)?\. Use more members\."
)
def _read_without_index(match: re.Match[str], reading: Reading) -> None:
    assert reading.written.indices is not None
    without = int(reading.written.indices["r1"].isna().sum())
    read_count(match[1], without, "participants without an R-index", reading)
