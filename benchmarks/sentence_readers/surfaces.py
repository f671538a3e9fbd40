"""Readers of the three surfaces: what the terminal prints, ``--json``, and the first
screen of the report.
"""

import re
from html.parser import HTMLParser
from typing import Any

from benchmarks.sentence_readers import phrases
from benchmarks.sentence_readers.phrases import (
    COUNT,
    NUMBER,
    PEOPLE,
    SHAPES,
    P,
    read_count,
)
from benchmarks.sentence_readers.problems import PROBLEMS
from benchmarks.sentence_readers.reading import (
    Grammar,
    Reading,
    UnreadError,
    need_match,
    parse_number,
)
from benchmarks.sentence_readers.written import MAX_LISTED, MIN_REPRODUCED

NUMBER_WORDS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
]


# --- the terminal
def read_terminal(output: str, errors: str, reading: Reading) -> None:
    """Read what ``rindices fit`` prints, on both streams."""
    name = ""
    for line in output.splitlines():
        if line.startswith("  "):
            reading.read(line.strip(), _read_pattern_line)
            continue
        match = re.fullmatch(rf"({'|'.join(_FACTS)}|r\d+)\s{{2,}}(.+)", line)
        if match is None:
            reading.read(line, _refuse)
            continue
        name, value = match[1], reading.unify(match[2])
        if re.fullmatch(r"r\d+", name):
            reading.pattern = name
            reading.read(value, phrases.read_regions)
        else:
            reading.read(value, _FACTS[name])
    for line in errors.splitlines():
        reading.read(line, _read_error_line)


def _refuse(text: str, reading: Reading) -> None:
    raise UnreadError(text)


def _read_pattern_line(text: str, reading: Reading) -> None:
    """A line below the regions of a pattern."""
    if text.startswith("rank correlation with covariates in patients: "):
        phrases.read_covariates(text.partition(": ")[2], reading)
        return
    verdict, _, separation = re.split(r"(; )(?=cross-fitted|in-sample)", text)
    phrases.read_reproduction(verdict, reading)
    phrases.read_separation(separation, reading)


def _read_difference(text: str, reading: Reading) -> None:
    claim, p = need_match(
        rf"(patients differ from controls|no difference between patients and controls was detected), ({P})",
        text,
    ).groups()
    phrases.read_difference(claim == "patients differ from controls", reading)
    phrases.read_p(p, reading)


def _read_number(text: str, reading: Reading) -> None:
    """The number of patterns, and what it was chosen by."""
    written = reading.written
    is_mean = written.selection["finding"] == "mean_difference"
    if text == "none beyond the mean difference; one index along it":
        reading.check(
            is_mean and len(written.names) == 1,
            "there is one index of the mean difference",
        )
        return
    match = need_match(r"(\d+) \((as asked|likelihood|agreement); test: (\d+)\)", text)
    record = written.selection["number_of_patterns"]
    reading.check(not is_mean, "patterns were found")
    read_count(match[1], len(written.names), "patterns", reading)
    read_count(match[1], len(written.changes), "patterns in patterns.tsv", reading)
    read_count(match[3], record["by_test"], "patterns by the test", reading)
    check_decision("asked" if match[2] == "as asked" else match[2], reading)


def check_decision(decided_by: str, reading: Reading) -> None:
    """Check by what the number of patterns was chosen."""
    asked = (reading.written.truth.get_option("--patterns") or "").isdigit()
    reading.check_equal(
        decided_by == "asked", asked, "whether the number was asked for"
    )
    if asked:
        number = reading.written.truth.get_option("--patterns")
        reading.check_equal(
            str(len(reading.written.names)), number, "the number that was asked for"
        )
    else:
        grid = reading.written.selection["grid"]
        is_diffuse = any(
            (each.get("start") or {}).get("taken") == "whole-cohort" for each in grid
        )
        by_people = "group loss" if is_diffuse else "likelihood"
        true = "agreement" if reading.written.held_out is None else by_people
        reading.check_equal(decided_by, true, "what decided the number")


def _read_visits(text: str, reading: Reading) -> None:
    held_out = reading.written.held_out
    reading.check_equal(
        text,
        None if held_out is None else held_out.get("visits"),
        "how visits were used",
    )
    reading.check(
        (reading.written.folder / "r_indices_visits.tsv").is_file(), "there are visits"
    )


def _read_start(text: str, reading: Reading) -> None:
    """The start that was taken is named where it is not that of local patterns."""
    start = (reading.written.selection["chosen"] or {}).get("start") or {}
    reading.check_equal(text, start.get("why"), "why the start was taken")
    reading.check_equal(start.get("taken"), "whole-cohort", "start that is named")


def _read_agreement(text: str, reading: Reading) -> None:
    match = need_match(
        rf"(?:not known \(one member\)|({NUMBER})(?: \(({NUMBER}) to ({NUMBER})\))?), members",
        text,
    )
    chosen = reading.written.selection["chosen"]
    if match[1]:
        reading.check_number(match[1], chosen["agreement"]["concordance"], "agreement")
    for said, true in zip(
        match.groups()[1:], chosen["concordance_interval"], strict=True
    ):
        if said is not None:
            reading.check_number(said, true, "interval of the agreement")


def _read_members(text: str, reading: Reading) -> None:
    used, trained = need_match(r"(\d+) of (\d+) used", text).groups()
    read_count(
        used, int(reading.written.header["members"]), "members of the model", reading
    )
    read_count(
        trained,
        reading.written.selection["chosen"]["members"]["trained"],
        "members trained",
        reading,
    )


def _read_ties(text: str, reading: Reading) -> None:
    said = [int(each) for each in re.findall(r"(\d+) patterns?", text)]
    reading.check_equal(
        said, [each["n_patterns"] for each in reading.written.selection["ties"]], "ties"
    )


def _read_note(text: str, reading: Reading) -> None:
    way = need_match(
        r"model.safetensors tells who took part; (to pass it on: rindices model publish \S+ --out FILE|keep "
        r"it to yourself)",
        text,
    )[1]
    written = reading.written
    can_publish = (
        written.selection["finding"] == "patterns"
        and written.header["method"]["name"] == "trajectories"
    )
    reading.check_equal(
        way != "keep it to yourself", can_publish, "whether the model can be published"
    )


def _read_seconds(text: str, reading: Reading) -> None:
    reading.check(float(text) >= 0, "seconds")


def _read_files(text: str, reading: Reading) -> None:
    folder, names = need_match(r"(.+?): (.+)", text).groups()
    written, said = reading.written.folder, names.split(", ")
    reading.check_equal(folder, str(written), "folder")
    known = {path.name for path in written.glob("*.tsv")} | {
        name
        for name in ("model.safetensors", "selection.json", "study.toml")
        if (written / name).is_file()
    }
    reading.check_equal(sorted(said), sorted(known), "files that are written")


def _read_private(text: str, reading: Reading) -> None:
    said, models = need_match(
        r"(.+?) \(values of single people\)(?:, (.+) \(who took part\))?; the other files may be passed on",
        text,
    ).groups()
    written = reading.written.folder
    known = {path.name for path in written.glob("r_indices*.tsv")} | {
        name for name in ("outlying_measurements.tsv",) if (written / name).is_file()
    }
    reading.check_equal(sorted(said.split(", ")), sorted({*known, "runs/"}), "private")
    names = [
        name
        for name in ("model.safetensors", "networks.safetensors")
        if (written / name).is_file()
    ]
    reading.check_equal((models or "").split(", ") if models else [], names, "models")


def _read_report(text: str, reading: Reading) -> None:
    reading.check_equal(text, str(reading.written.folder / "report.html"), "report")
    reading.check(
        (reading.written.folder / "report.html").is_file(), "the report is there"
    )


_FACTS = {
    "looks like an artefact": phrases.read_artefact,
    "participants": phrases.read_people,
    "adjusted for": phrases.read_adjustment,
    "difference": _read_difference,
    "patterns": _read_number,
    "shape": phrases.read_shape,
    "start": _read_start,
    "visits": _read_visits,
    "agreement": _read_agreement,
    "tied with": _read_ties,
    "outlying": phrases.read_outlying,
    "members": _read_members,
    "scale": phrases.read_scale,
    "note": _read_note,
    "seconds": _read_seconds,
    "written": _read_files,
    "private": _read_private,
    "report": _read_report,
}
ERRORS = Grammar()
"""Lines of standard error that are no warnings or notes."""


@ERRORS.form(r"fit: (\d+) of (\d+), (?:begun|[\d:]+ left)$")
def _read_progress(match: re.Match[str], reading: Reading) -> None:
    reading.check(int(match[1]) <= int(match[2]), "progress")


@ERRORS.form(rf"(\d+) patterns?: agreement ({NUMBER})$")
def _read_setting(match: re.Match[str], reading: Reading) -> None:
    selection, number = reading.written.selection, int(match[1])
    known = [
        *selection["grid"],
        *([selection["chosen"]] if selection["chosen"] else []),
    ]
    values = [
        each["agreement"]["concordance"]
        for each in known
        if each["setting"]["n_patterns"] == number
    ]
    values += [
        value
        for each in known
        if each["setting"]["n_patterns"] == number
        for value in _average(each)
    ]
    near = [
        value
        for value in values
        if value is not None and abs(value - float(match[2])) <= 5.1e-4
    ]
    reading.check(
        bool(near), f"agreement of {number} patterns: {match[2]}, {values} is written"
    )


def _average(record: dict[str, Any]) -> list[float]:
    """Return the mean agreement of the members of a setting."""
    values = [value for value in record["by_member"] if value is not None]
    return [sum(values) / len(values)] if values else []


@ERRORS.form(
    rf"no difference between patients and controls was detected \(({P})\); an effect of d = ([\d.]+) in "
    r"one (?:region|feature) would have been found with a power of 80%\. (?:To train all the same, name "
    r"one number of patterns \(--patterns 2\)|(\d+) patterns?, as asked, gave no stable result, so there "
    r"is no model)\.$"
)
def _read_null_line(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(False, reading)
    phrases.read_p(match[1], reading)
    phrases.check_detectable_effect(match[2], reading)
    reading.check(reading.written.is_null, "there is no model")
    asked = reading.written.truth.get_option("--patterns")
    reading.check_equal(match[3], asked, "patterns that were asked for")


def _read_error_line(text: str, reading: Reading) -> None:
    """A line of standard error."""
    if match := re.match(r"(?:warning|note): ", text):
        PROBLEMS.read(text[match.end() :], reading)
    else:
        ERRORS.read(text, reading)


# --- JSON
def read_json(values: dict[str, Any], reading: Reading) -> None:
    """Read what ``rindices fit --json`` prints."""
    written, truth = reading.written, reading.written.truth
    selection, chosen = written.selection, written.selection["chosen"]
    method = None if written.is_null else written.header["method"]["name"]
    held_out, difference = written.held_out, dict(written.difference)
    scans = truth.count_scans()
    several = sum(scans.values()) > len(truth.first)
    expected = {
        "finding": selection["finding"],
        "n_patterns": len(written.names),
        "shape": None if held_out is None else held_out["shape"],
        "method": method,
        "difference": {**difference, "detected": difference["p"] <= written.level},
        "agreement": chosen and chosen["agreement"],
        "members": {
            "trained": chosen["members"]["trained"] if chosen else 0,
            "used": written.header.get("members", 0),
            "converged": chosen["members"]["converged"] if chosen else 0,
        },
        "participants": {
            "controls": truth.count("control"),
            "patients": truth.count("patient"),
        },
        "scans": {"controls": scans["control"], "patients": scans["patient"]}
        if several
        else None,
        "number_of_patterns": selection["number_of_patterns"],
        "orthogonality": chosen and chosen["setting"]["orthogonality"],
        "start": chosen and chosen.get("start") and chosen["start"]["taken"],
        "visits": held_out and held_out.get("visits"),
        "model": None if written.is_null else str(written.folder / "model.safetensors"),
        "report": str(written.folder / "report.html")
        if written.study.with_report
        else None,
    }
    if truth.get_option("--visits") == "first":
        expected["scans"] = None
    for key, value in values.items():
        reading.sentences += 1
        reading.sentence = key
        if key in expected:
            _compare(value, expected.pop(key), key, reading)
        elif key in _JSON_READERS:
            _JSON_READERS[key](value, reading)
        else:
            reading.unread.append(f"{key} [{reading.surface}]")
    reading.check_equal(sorted(expected), [], "keys that are missing")


def _compare(said: Any, true: Any, path: str, reading: Reading) -> None:
    """Compare values of JSON, one claim each."""
    if isinstance(said, dict) and isinstance(true, dict):
        reading.check_equal(sorted(said), sorted(true), f"keys of {path}")
        for key in said.keys() & true.keys():
            _compare(said[key], true[key], f"{path}.{key}", reading)
    elif isinstance(said, list) and isinstance(true, list) and len(said) == len(true):
        for number, (first, second) in enumerate(zip(said, true, strict=True)):
            _compare(first, second, f"{path}.{number}", reading)
    elif isinstance(said, float) and isinstance(true, int | float):
        reading.check(
            abs(said - true) <= 1e-9 * max(1, abs(true)),
            f"{path}: {said} is said, {true} is true",
        )
    else:
        reading.check_equal(said, true, path)


def _read_json_patterns(patterns: list[dict[str, Any]], reading: Reading) -> None:
    written = reading.written
    reading.check_equal(
        [each["name"] for each in patterns], written.names, "names of patterns"
    )
    for values in patterns:
        reading.pattern = values["name"]
        rows, record = (
            written.changes[reading.pattern],
            written.get_evidence(reading.pattern),
        )
        has_intervals = bool(rows["low"].notna().all())
        certain = rows[rows["is_certain"]] if has_intervals else rows
        for key, value in values.items():
            reading.sentences += 1
            reading.sentence = f"{reading.pattern}.{key}"
            if key == "regions":
                _read_json_regions(value, reading)
                largest = certain.sort_values(
                    "size", ascending=False, kind="stable"
                ).index[:MAX_LISTED]
                reading.check_equal(
                    [each["region"] for each in value], list(largest), "largest changes"
                )
            elif key == "n_certain":
                reading.check_equal(
                    value,
                    len(certain) if has_intervals else None,
                    "regions whose interval excludes 0",
                )
            elif key == "n_regions":
                reading.check_equal(value, written.n_regions, "regions")
            elif key == "reproducibility":
                low, high = record["split_half_interval"]
                _compare(
                    value,
                    {"value": record["split_half"], "low": low, "high": high},
                    key,
                    reading,
                )
            elif key == "verdict":
                phrases.check_verdict(value, reading)
            elif key == "auc":
                phrases.check_auc(
                    (value["value"], value["low"], value["high"]), reading
                )
            elif key == "prevalence":
                true = written.compute_prevalence(reading.pattern)
                reading.check(
                    abs(value["value"] - true) < 1e-6,
                    f"prevalence: {value['value']}, {true}",
                )
                reading.check(
                    value["low"] <= value["value"] <= value["high"],
                    "interval of the prevalence",
                )
            elif key == "is_cross_fitted":
                phrases.check_cross_fitting(value, reading)
            elif key == "seed_change":
                reading.check_equal(
                    value, record.get("seed_change"), "change with another seed"
                )
            elif key == "covariates":
                _read_json_covariates(value, reading)
            elif key == "artefact":
                if value is not None:
                    phrases.read_artefact(value, reading)
                reading.check_equal(
                    value is not None,
                    values["verdict"] == "artefact",
                    "whether it is an artefact",
                )
            elif key != "name":
                reading.unread.append(f"{key} [{reading.surface}]")


def _read_json_regions(regions: list[dict[str, Any]], reading: Reading) -> None:
    rows = reading.written.changes[reading.pattern]
    for each in regions:
        row = rows.loc[each["region"]]
        reading.check_equal(each["label"], row["shown"], "label")
        reading.check_equal(each["structure"], row["structure"], "structure")
        side = each["label"].removeprefix(each["structure"]).lstrip(", ")
        phrases.check_side(
            each["region"], side if re.match("left|right", side) else "", reading
        )
        phrases.check_change(
            each["region"],
            each["change"],
            "loss" if each["change"] < 0 else "gain",
            reading,
        )
        for end in ("low", "high"):
            is_same = (
                each.get(end) is None
                if row[end] != row[end]
                else abs(each[end] - row[end]) < 1e-9
            )
            reading.check(
                is_same,
                f"interval of {each['region']}: {each.get(end)}, {row[end]} is written",
            )
    keys = set().union(*regions) - {
        "region",
        "label",
        "structure",
        "change",
        "low",
        "high",
    }
    reading.check_equal(keys, set(), "keys of a region")


def _read_json_covariates(covariates: list[dict[str, Any]], reading: Reading) -> None:
    found = reading.written.correlate(reading.pattern)
    reading.check_equal(
        [each["covariate"] for each in covariates], list(found), "covariates"
    )
    known = reading.written.known
    n_patients = int((known["group"] == "patient").sum())
    for each in covariates:
        correlation, p = found.get(each["covariate"], (float("nan"),) * 2)
        reading.check(
            abs(each["correlation"] - correlation) < 1e-6,
            f"correlation with {each['covariate']}: {each['correlation']}, {correlation}",
        )
        reading.check(
            abs(each["p"] - p) < 1e-6, f"p of {each['covariate']}: {each['p']}, {p}"
        )
        reading.check(0 < each["people"] <= n_patients, "patients of the correlation")


def _read_json_artefacts(artefacts: list[dict[str, Any]], reading: Reading) -> None:
    for each in artefacts:
        phrases.read_artefact(each["what"], reading)
        reading.check(each["block"] in reading.blocks, f"block: {each['block']}")
        reading.check(
            set(each["patterns"]) <= set(reading.written.names),
            "patterns that are concerned",
        )


def _read_json_outlying(value: dict[str, Any] | None, reading: Reading) -> None:
    counts = reading.written.count_outlying()
    reading.check_equal(
        value is not None, counts is not None, "whether there are outlying measurements"
    )
    if value is not None and counts is not None:
        true = {
            name: {
                "controls": counts[f"{key} control"],
                "patients": counts[f"{key} patient"],
            }
            for name, key in (("measurements", "m"), ("participants", "p"))
        }
        _compare(value, true, "outlying", reading)


def _read_json_scale(text: str, reading: Reading) -> None:
    if text or not reading.written.is_null:
        phrases.read_scale(text, reading)


def _read_json_seconds(value: float, reading: Reading) -> None:
    reading.check(value >= 0, "seconds")


_JSON_READERS = {
    "patterns": _read_json_patterns,
    "artefacts": _read_json_artefacts,
    "outlying": _read_json_outlying,
    "scale": _read_json_scale,
    "seconds": _read_json_seconds,
}


# --- the first screen
class _Blocks(HTMLParser):
    """Texts of headings, paragraphs and items of the first screen: the title, and the
    section ``found``.
    """

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[str] = []
        self._inside, self._open = False, False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Begin a block."""
        if dict(attrs).get("id") == "found":
            self._inside = True
        if (self._inside and tag in ("h2", "h3", "p", "li")) or tag == "h1":
            self._open = True
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        """End a block, or the section."""
        if tag in ("h1", "h2", "h3", "p", "li"):
            self._open = False
        if tag == "section":
            self._inside = False

    def handle_data(self, data: str) -> None:
        """Add text to the open block; text outside of blocks is one, too."""
        if self._open:
            self.blocks[-1] += data
        elif self._inside and data.strip():
            self.blocks.append(data)


def list_blocks(page: str) -> list[str]:
    """Return the texts of the first screen, each on one line."""
    parser = _Blocks()
    parser.feed(re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.DOTALL))
    return [" ".join(each.split()) for each in parser.blocks if each.strip()]


def read_page(page: str, reading: Reading) -> None:
    """Read the first screen, and the reasons for a shape on the whole page."""
    blocks = list_blocks(page)
    for block in map(reading.unify, blocks):
        reading.read(block, PAGE.read)
    text = " ".join(re.sub(r"<[^>]+>", " ", page).split())
    _read_reasons(text, reading)
    _read_order(page, text, reading)


def _read_reasons(text: str, reading: Reading) -> None:
    """Every sentence that says under which shape held-out patients are more likely."""
    held_out = reading.written.held_out or {}
    expression = (
        rf"Held-out patients are (?P<little>a little )?more likely under (?P<first>\w+)(?: patterns)? "
        rf"\(mean log-likelihood (?P<a>{NUMBER})\) than under (?P<second>\w+)(?: patterns)? \((?P<b>{NUMBER})"
    )
    for match in re.finditer(expression, text):
        reading.sentence = match[0]
        reading.sentences += 1
        reading.check(
            parse_number(match["a"]) > parse_number(match["b"]),
            "the more likely shape has the larger value",
        )
        for said, shape in (
            (match["a"], match["first"]),
            (match["b"], match["second"]),
        ):
            name = held_out.get("shape", "") if shape == "them" else shape
            reading.check_number(
                said, held_out.get(name), f"likelihood of {name} patterns"
            )
    expected = len(re.findall("more likely under", text))
    reading.check_equal(
        len(re.findall(expression, text)),
        expected,
        "sentences on more likely shapes that were read",
    )


def _read_order(page: str, text: str, reading: Reading) -> None:
    """The order of the regions: it is of staged patterns alone, and certain only where
    the truth is staged.
    """
    reading.sentence = "the order of the regions"
    has_order = 'id="trajectories"' in page
    is_staged = (
        reading.written.held_out is not None
        and reading.written.held_out["shape"] == "staged"
    )
    reading.check_equal(
        has_order, is_staged, "an order of regions is shown for staged patterns alone"
    )
    is_doubted = (
        re.search("do not interpret the order of the (regions|features)", text)
        is not None
    )
    if has_order and not is_doubted and reading.written.truth.is_staged is not None:
        reading.check(
            reading.written.truth.is_staged, "regions change one after another"
        )


PAGE = Grammar()
"""Sentences of the first screen."""
PAGE.add_plain(
    "What was found",
    "Can it be trusted?",
    "What to do next",
    "loss",
    "gain",
    "Point at a map for the names of regions.",
    "Details",
    "This holds for these people, these regions and this adjustment; it does not mean that the patients are healthy.",
    "Apply the model to people of another cohort: rindices apply model.safetensors TABLE --out new.tsv",
    "Fit each half of these people on its own: rindices reproduce study.toml --out halves",
    "Describe the study: methods, ready to paste.",
    "R-indices are for research on groups. They are no diagnosis of a person.",
    "Are the groups, the covariates and the units read as you mean them? rindices check",
    "To train all the same, name one number of patterns; the report will say that the test detected no difference. "
    "rindices fit … --patterns 2",
    "Difference of each region, faded because none was detected: the map shows chance at least as much as disease.",
)


@PAGE.form(rf"R-indices of ({COUNT} controls? and {COUNT} patients?)$")
def _read_title(match: re.Match[str], reading: Reading) -> None:
    _read_groups(match[1], reading)
    reading.check(not reading.written.is_null, "there is a model")


@PAGE.form(rf"No difference detected in ({COUNT} controls? and {COUNT} patients?)$")
def _read_null_title(match: re.Match[str], reading: Reading) -> None:
    _read_groups(match[1], reading)
    phrases.read_difference(False, reading)


def _read_groups(text: str, reading: Reading) -> None:
    controls, patients = re.findall(COUNT, text)
    read_count(controls, reading.written.truth.count("control"), "controls", reading)
    read_count(patients, reading.written.truth.count("patient"), "patients", reading)


@PAGE.form(
    r"This looks like an artefact: (.+?(?:\.|\?))(?= (?:No difference|Patients differ)|$)"
)
def _read_artefact_lead(match: re.Match[str], reading: Reading) -> None:
    for sign in match[1].removesuffix(".").split("; "):
        phrases.read_artefact(sign, reading)


@PAGE.form(r"High reproducibility and a high AUC say nothing against an artefact\.")
def _read_signs(match: re.Match[str], reading: Reading) -> None:
    reading.check(reading.written.truth.alteration is not None, "an artefact")


@PAGE.form(
    rf"No difference between patients and controls was detected, ({P}), so everything below may be due to chance\."
)
def _read_no_difference(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(False, reading)
    phrases.read_p(match[1], reading)


@PAGE.form(rf"Patients differ from controls on average, ({P})\.")
def _read_mean_difference(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(True, reading)
    phrases.read_p(match[1], reading)
    reading.check_equal(
        reading.written.selection["finding"], "mean_difference", "finding"
    )


@PAGE.form(
    rf"Patients differ from controls, ({P}), and (\w+) (R-index was|R-indices were) fitted\."
)
def _read_fitted(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(True, reading)
    phrases.read_p(match[1], reading)
    _check_spelt(match[2], match[3] == "R-index was", reading)


@PAGE.form(
    rf"(\w+) patterns? of change (distinguish|distinguishes) these patients from controls, ({P})\."
)
def _read_patterns(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(True, reading)
    phrases.read_p(match[3], reading)
    _check_spelt(match[1].lower(), match[2] == "distinguishes", reading)
    reading.check_equal(reading.written.selection["finding"], "patterns", "finding")
    reading.speaks_of_patterns = True


def _check_spelt(word: str, is_one: bool, reading: Reading) -> None:
    number = len(reading.written.names)
    reading.check_equal(word, NUMBER_WORDS[number], "number of patterns")
    reading.check_equal(is_one, number == 1, "singular or plural")


@PAGE.form(
    r"(Patterns were tried and are not stable, so there|There|Nothing shows that they differ from each "
    r"other more than controls do, so there) is one index: a person's position along the average "
    r"difference\."
)
def _read_one_index(match: re.Match[str], reading: Reading) -> None:
    written, by_test = (
        reading.written,
        reading.written.selection["number_of_patterns"]["by_test"],
    )
    reading.check(
        written.selection["finding"] == "mean_difference" and len(written.names) == 1,
        "there is one index",
    )
    if match[1].startswith("Patterns were tried"):
        unstable = [each for each in written.selection["grid"] if not each["stable"]]
        reading.check(bool(unstable), "patterns were tried and are not stable")
    if match[1].startswith("Nothing"):
        reading.check_equal(
            by_test, 0, "directions in which patients differ from each other"
        )


@PAGE.form(r"(r\d+): (.+)$")
def _read_heading(match: re.Match[str], reading: Reading) -> None:
    reading.pattern = match[1]
    phrases.read_regions(match[2], reading)


@PAGE.form(
    r"Faded: (no difference was detected|it looks like an artefact|other people do not reproduce this pattern)\."
)
def _read_faded(match: re.Match[str], reading: Reading) -> None:
    written = reading.written
    if match[1].startswith("no"):
        phrases.read_difference(False, reading)
    elif match[1].startswith("other"):
        high = written.get_evidence(reading.pattern)["split_half_interval"][1]
        reading.check(
            high < MIN_REPRODUCED, "other people do not reproduce the pattern"
        )


@PAGE.form(r"((?:Reproduced|Not known|Not reproduced|Looks like).+)$")
def _read_verdict(match: re.Match[str], reading: Reading) -> None:
    phrases.read_reproduction(match[1][0].lower() + match[1][1:], reading)


@PAGE.form(r"(Cross-fitted|In-sample)( AUC .+?)\.$")
def _read_separation(match: re.Match[str], reading: Reading) -> None:
    phrases.read_separation(match[1][0].lower() + match[1][1:] + match[2], reading)


@PAGE.form(
    r"Rank correlation with covariates in patients, after the adjustment: (.+)\.$"
)
def _read_covariates(match: re.Match[str], reading: Reading) -> None:
    phrases.read_covariates(match[1], reading)


@PAGE.form(
    r"Numbers in brackets are the changes of regions at full severity, in standard deviations of "
    r"controls; the largest whose 95 % interval excludes 0 are named\."
    r"(?: Colours show the changes of all regions\.)?"
)
def _read_legend(match: re.Match[str], reading: Reading) -> None:
    pass


@PAGE.form(rf"({NUMBER})$")
def _read_end_of_colours(match: re.Match[str], reading: Reading) -> None:
    largest = max(
        float(rows["size"].max()) for rows in reading.written.changes.values()
    )
    reading.check(
        abs(parse_number(match[1])) >= largest - 0.05,
        f"colours end at {match[1]}, the largest change is {largest:.2f}",
    )


@PAGE.form(
    rf"({PEOPLE}); (\d+) regions\. Adjusted for (.+?)\.( The first scan of each person was tested\.)?$"
)
def _read_people(match: re.Match[str], reading: Reading) -> None:
    phrases.read_people(match[1], reading)
    read_count(match[2], reading.written.n_regions, "regions", reading)
    phrases.read_adjustment(match[3], reading)


@PAGE.form(
    r"(Patients differ from controls|No difference between the groups was detected): the groups differed "
    rf"as much in ({COUNT}) of ({COUNT}) permutations of the labels\."
)
def _read_permutations(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(match[1] == "Patients differ from controls", reading)
    _check_permutations(match[2], match[3], reading)


@PAGE.form(
    rf"The groups differed as much in ({COUNT}) of ({COUNT}) permutations of the labels\."
)
def _read_null_permutations(match: re.Match[str], reading: Reading) -> None:
    _check_permutations(match[1], match[2], reading)


def _check_permutations(reached: str, number: str, reading: Reading) -> None:
    read_count(
        number, reading.written.difference["permutations"], "permutations", reading
    )
    share = (int(reached.replace(",", "")) + 1) / (int(number.replace(",", "")) + 1)
    p = reading.written.difference["p"]
    reading.check(
        abs(share - p) < 1e-6,
        f"permutations that reach the difference: p = {p} is written, {share} follows",
    )


@PAGE.form(
    r"Split-half reproducibility is the rank correlation of R-indices from two halves of these people "
    r"with nobody in common, with its 95 % interval: above ([\d.]+) the (index|pattern) is reproduced; an "
    r"interval that includes ([\d.]+) leaves it open\."
)
def _read_explanation(match: re.Match[str], reading: Reading) -> None:
    for said in (match[1], match[3]):
        reading.check_equal(float(said), MIN_REPRODUCED, "limit of reproducibility")
    is_mean = reading.written.selection["finding"] == "mean_difference"
    reading.check_equal(match[2] == "index", is_mean, "whether it is an index")


@PAGE.form(r"((?:An|The) R-index is .+)$")
def _read_scale(match: re.Match[str], reading: Reading) -> None:
    phrases.read_scale(match[1], reading)


@PAGE.form(r"(\d+) more warnings?$")
def _read_more(match: re.Match[str], reading: Reading) -> None:
    reading.check(int(match[1]) > 0, "there are more warnings")


@PAGE.form(
    r"Relate the (index|indices) to clinical variables: rindices associate r_indices.tsv clinical.tsv "
    r"--out associations"
)
def _read_next(match: re.Match[str], reading: Reading) -> None:
    written = reading.written
    reading.check_equal(
        match[1] == "index", len(written.names) == 1, "singular or plural"
    )
    reading.check(written.is_difference, "patients differ from controls")
    lows = [
        written.get_evidence(name)["split_half_interval"][0] for name in written.names
    ]
    reading.check(min(lows) >= MIN_REPRODUCED, "all R-indices are reproduced")
    reading.check(not reading.blocks, "there is no sign of an artefact")


@PAGE.form(
    r"Do not rely on ((?:r\d+(?:, | and )?)+) alone\. Find out how many people would do, and look at "
    r"another cohort: rindices power --people (\d+)\+(\d+) --patterns (\d+)"
)
def _read_do_not_rely(match: re.Match[str], reading: Reading) -> None:
    written = reading.written
    low = [
        n
        for n in written.names
        if written.get_evidence(n)["split_half_interval"][0] < MIN_REPRODUCED
    ]
    reading.check_equal(
        re.findall(r"r\d+", match[1]), low, "R-indices that are not reproduced"
    )
    _read_groups(f"{match[2]} {match[3]}", reading)
    reading.check_equal(int(match[4]), len(written.names), "patterns to plan for")


@PAGE.form(
    r"Do not interpret (the index|these patterns): the test detected no difference\."
)
def _read_do_not_interpret(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(False, reading)
    reading.check_equal(
        match[1] == "the index", len(reading.written.names) == 1, "singular or plural"
    )


@PAGE.form(
    r"Do not interpret (the index|these patterns) before (.+?) (?:was|were) checked: open the table "
    r"beside the images, and correct or leave out what is wrong\."
)
def _read_check_first(match: re.Match[str], reading: Reading) -> None:
    reading.check_equal(
        match[1] == "the index", len(reading.written.names) == 1, "singular or plural"
    )
    reading.check(
        set(match[2].replace(" and ", ", ").split(", ")) <= set(reading.blocks),
        f"blocks: {match[2]}",
    )


@PAGE.form(
    rf"No difference between the ({COUNT}) patients and the ({COUNT}) controls was detected, ({P})\."
)
def _read_null_lead(match: re.Match[str], reading: Reading) -> None:
    phrases.read_difference(False, reading)
    _read_groups(f"{match[2]} {match[1]}", reading)
    phrases.read_p(match[3], reading)


@PAGE.form(r"So no pattern was learnt: there is no model, and nobody has an R-index\.")
def _read_no_model(match: re.Match[str], reading: Reading) -> None:
    reading.check(
        reading.written.is_null and reading.written.indices is None, "there is no model"
    )


@PAGE.form(
    r"A difference of d = ([\d.]+) in a single region would have been detected with a probability of 80 %\."
)
def _read_detectable(match: re.Match[str], reading: Reading) -> None:
    phrases.check_detectable_effect(match[1], reading)


@PAGE.form(
    r"How strong must a pattern be to be detected with this many people\? rindices power --people (\d+)\+(\d+)"
)
def _read_power(match: re.Match[str], reading: Reading) -> None:
    _read_groups(f"{match[1]} {match[2]}", reading)


PAGE.forms += PROBLEMS.forms
__all__ = ["SHAPES", "list_blocks", "read_json", "read_page", "read_terminal"]
