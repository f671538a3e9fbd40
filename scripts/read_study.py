"""Read a study as a person does, and compare what is said on terminal, in JSON and in
the report with its tables.

    python scripts/read_study.py FOLDER [--page README.md] [--picture docs/report.txt]

FOLDER is where the commands of README were run: ``demo``, ``results``, ``new.tsv``
where people were added, ``terminal.txt`` (all that was printed) and ``study.json``
(what ``rindices fit --json`` printed). Everything is counted again from tables: signs
and values of regions, the shape of the patterns, likelihoods, the p-value, numbers of
people, AUC, prevalence, accuracy. Exits with 1 if a statement is false, or if there is
none where one is needed.
"""

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, permutations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy import stats

sys.path.insert(0, str(Path(__file__).parent.parent))
from scripts.read_page import SENTENCE_END, Line, Page, read_page, tidy

NUMBER = r"[+-]?\d+(?:,\d{3})*(?:\.\d+)?"
INTERVAL = re.compile(rf"({NUMBER}) ?%? \(({NUMBER}) to ({NUMBER})(?: ?%)?\)")
PATTERN_NAME = re.compile(r"\br\d+\b")
SHAPES = {"straight": "proportional", "curved": "staged"}  # older words
SHAPE = re.compile(
    r"\b(straight|curved|proportional|staged|interacting)\b", re.IGNORECASE
)
LOSS = r"\b(?:loss|losses|lose|less|lower|smaller|thinner|decrease[sd]?|atrophy)\b"
GAIN = r"\b(?:gains?|more|higher|larger|thicker|increase[sd]?)\b"
DIRECTION = re.compile(rf"(?P<loss>{LOSS})|(?P<gain>{GAIN})", re.IGNORECASE)
LARGEST = re.compile(r"\b(?:mainly|largest|strongest)\b")
COURSE = (  # said of regions that do not all change together
    r"at different severit",
    r"one after (?:another|the other)",
    r"\bonsets?\b",
    r"[Ff]irst changes",
    r"a course of its own",
    r"each region changes at its own",
    r"how (?:it|each pattern) unfolds",
    r"trajectories\.tsv",
)
FIRST_NUMBER = rf"\((?:[^()]*? )??({NUMBER})"
MORE_LIKELY = re.compile(
    rf"(more|less) likely\b.*?{FIRST_NUMBER}.*?\bthan\b.*?{FIRST_NUMBER}"
)
LIKELIHOOD = re.compile(
    rf"{SHAPE.pattern}[^;|()\d]*(?:\([^;|()\d]*)?(?<![\w.])(-\d+\.\d+)", re.IGNORECASE
)
LIKELIHOOD_BEFORE = re.compile(rf"(-\d+\.\d+) {SHAPE.pattern}")
CORRELATION = re.compile(rf"(\w+)(?: \((\w+)\))? ({NUMBER}) \(p = (0?\.\d+)\)")
PERMUTATIONS = re.compile(
    r"(?:of|shuffled|permuted|same) ([\d,]+) (?:trials|times|(?:random )?permutations)"
)
SIDES = re.compile(rf"^ \((right|left) ({NUMBER}), (right|left) ({NUMBER})\)")


class Statement(NamedTuple):
    """Something that is said: where, the words, and what is wrong with it; empty if it
    is true.
    """

    place: str
    text: str
    fault: str = ""


class Region(NamedTuple):
    """A region that a text names: its names in the tables, one for each side, and where
    its name begins and ends.
    """

    names: list[str]
    start: int
    end: int


class Change(NamedTuple):
    """A value with its interval."""

    change: float
    low: float
    high: float

    @property
    def is_sure(self) -> bool:
        """Whether the interval excludes zero."""
        return self.low > 0 or self.high < 0


@dataclass(frozen=True, kw_only=True)
class Study:
    """A study with all that it wrote and printed.

    Attributes
    ----------
    folder : Path
        Where the commands were run.
    terminal : list of str
        Lines on the terminal.
    values : dict
        The object that ``--json`` printed.
    page : Page
        The report.
    selection : dict
        ``selection.json``.
    instructions : str
        The text whose commands were run, or nothing.
    """

    folder: Path
    terminal: list[str]
    values: dict[str, Any]
    page: Page
    selection: dict[str, Any]
    instructions: str = ""

    def read_table(self, *names: str) -> pd.DataFrame | None:
        """Return the first table that exists, of the results or below the folder."""
        for name in names:
            for path in (self.folder / "results" / name, self.folder / name):
                if path.is_file():
                    return pd.read_csv(
                        path,
                        sep="," if path.suffix == ".csv" else "\t",
                        na_values="n/a",
                    )
        return None

    @cached_property
    def people(self) -> pd.DataFrame:
        """Participants of the fit."""
        return self.read_existing("demo/participants.tsv")

    @cached_property
    def indices(self) -> pd.DataFrame:
        """R-indices of the participants."""
        return self.read_existing("r_indices.tsv")

    @cached_property
    def patterns(self) -> pd.DataFrame:
        """Change of each region in each pattern."""
        return self.read_existing("patterns.tsv")

    @cached_property
    def changes(self) -> dict[str, dict[float, dict[str, Change]]]:
        """The same by pattern, severity and label."""
        found: dict[str, dict[float, dict[str, Change]]] = {}
        for row in self.patterns.itertuples():
            severities = found.setdefault(row.pattern, {})
            severities.setdefault(round(row.severity, 2), {})[row.label] = Change(
                row.change, row.low, row.high
            )
        return found

    @cached_property
    def full(self) -> dict[str, dict[str, Change]]:
        """Changes at full severity, by pattern and label."""
        return {
            name: severities[max(severities)]
            for name, severities in self.changes.items()
        }

    @cached_property
    def labels(self) -> dict[str, str]:
        """Labels of the regions in the tables."""
        return dict(zip(self.patterns["region"], self.patterns["label"], strict=True))

    @cached_property
    def effects(self) -> dict[str, Change]:
        """Difference of each region between patients and controls, by label."""
        rows = self.read_existing("effects.tsv").itertuples()
        return {
            self.labels[row.region]: Change(row.d, row.low, row.high) for row in rows
        }

    @cached_property
    def course(self) -> pd.DataFrame | None:
        """Course of the regions of staged patterns, if it is written."""
        return self.read_table("trajectories.tsv")

    @cached_property
    def onsets(self) -> dict[tuple[str, str], Change]:
        """Onset of each region of a staged pattern, by pattern and label."""
        rows = [] if self.course is None else self.course.itertuples()
        return {
            (row.pattern, row.label): Change(row.onset, row.onset_low, row.onset_high)
            for row in rows
        }

    @cached_property
    def names(self) -> list[str]:
        """Names of the patterns."""
        return list(self.changes)

    @cached_property
    def regions(self) -> dict[str, list[str]]:
        """Labels of a region in the tables, one for each side, by its name in words."""
        found: dict[str, list[str]] = {}
        for label in dict.fromkeys(self.labels.values()):
            bare = re.sub(r"_[LR]$", "", label).replace("_", " ")
            words = re.sub(
                r"(?<=[a-z])(?=[A-Z0-9])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=\d)(?=to)",
                " ",
                bare,
            ).lower()
            found.setdefault(words, []).append(label)
        return found

    @cached_property
    def shape(self) -> str:
        """The shape that was chosen, in today's word."""
        shape = (
            self.values.get("shape") or self.selection["chosen"]["held_out"]["shape"]
        )
        return str(SHAPES.get(shape, shape))

    @cached_property
    def spoken(self) -> list[Line]:
        """What is said on terminal and page, in one form."""
        lines, label = [], ""
        for line in self.terminal:
            label = label if line.startswith(" ") else line.partition(" ")[0]
            lines.append(
                Line(text=tidy(line), tag="terminal", ids=(), headings=(label,))
            )
        return lines + self.page.lines

    def read_existing(self, name: str) -> pd.DataFrame:
        """Return a table, which must exist."""
        table = self.read_table(name)
        if table is None:
            raise SystemExit(f"{self.folder} has no {name}.")
        return table

    def find_regions(self, text: str) -> list[Region]:
        """Return the regions that a text names, in order; a side in the text chooses
        among the names.
        """
        lower, found, taken = text.lower(), [], np.zeros(len(text), dtype=bool)
        for words in sorted(self.regions, key=len, reverse=True):
            for match in re.finditer(
                rf"\b{re.escape(words)}\b(?:, (left|right))?", lower
            ):
                if taken[match.start() : match.end()].any():
                    continue
                taken[match.start() : match.end()] = True
                before = re.search(r"\b(left|right) $", lower[: match.start()])
                side = match[1] or (before[1] if before else None)
                labels = [
                    each
                    for each in self.regions[words]
                    if side is None or each.endswith(f"_{side[0].upper()}")
                ]
                found.append(Region(names=labels, start=match.start(), end=match.end()))
        return sorted(found, key=lambda region: region.start)

    def find_pattern(self, line: Line) -> str | None:
        """Return the pattern of which a line speaks: the one that it names, or that its
        headings or identifiers do.
        """
        for text in (line.text, *reversed(line.headings), *reversed(line.ids)):
            names = set(PATTERN_NAME.findall(text.replace("_", " ")))
            if len(names) == 1 and names <= set(self.names):
                return str(names.pop())
        return None


Check = Callable[[Study], Iterator[Statement]]


def to_number(text: str) -> float:
    """Return a printed number."""
    return float(text.replace(",", ""))


def agrees(text: str, value: float, last_digits: float = 0.501) -> bool:
    """Whether a printed number is a value, rounded to as many digits."""
    decimals = len(text.partition(".")[2])
    return bool(abs(to_number(text) - value) <= last_digits * 10**-decimals + 1e-12)


def get_place(line: Line) -> str:
    """Return where a line stands."""
    return "terminal" if line.tag == "terminal" else line.place


def judge(where: Line | str, is_true: object, fault: str, text: str = "") -> Statement:
    """Return a statement of a line (or of a part of its text), or of a place, with its
    fault unless it is true.
    """
    place, said = (
        (where, text)
        if isinstance(where, str)
        else (get_place(where), text or where.text)
    )
    return Statement(place, said, "" if is_true else fault)


def split_sentences(text: str) -> list[str]:
    """Return the sentences of a paragraph."""
    return SENTENCE_END.split(text)


def compute_auc(patients: pd.Series, controls: pd.Series) -> float:
    """Return the probability that a patient has a higher value than a control."""
    difference = patients.to_numpy()[:, None] - controls.to_numpy()
    return float(np.mean(difference > 0) + np.mean(difference == 0) / 2)


def score_ranks(truth: pd.DataFrame, indices: pd.DataFrame) -> float:
    """Return the mean share of pairs in the true order, patterns matched as well as
    possible.
    """
    rows = indices.set_index("participant_id").loc[truth["participant_id"]]
    severities = truth.filter(regex=r"^s\d+$").to_numpy()
    inferred = rows.filter(regex=r"^r\d+$").to_numpy()
    first, second = np.triu_indices(len(truth), 1)
    true, other = (
        np.sign(severities[first] - severities[second]),
        np.sign(inferred[first] - inferred[second]),
    )
    scores = 0.5 + true.T @ other / (2 * len(first))
    width = range(scores.shape[0])
    orders = permutations(range(scores.shape[1]), len(width))
    return float(max(np.mean([scores[k, order[k]] for k in width]) for order in orders))


def find_one_region(study: Study, line: Line) -> str | None:
    """Return the label of the region of which a row or a short text speaks, if there is
    one.
    """
    found = study.find_regions(line.cells[0] if line.cells else line.text)
    return found[0].names[0] if len(found) == 1 and len(found[0].names) == 1 else None


def check_values_of_regions(study: Study) -> Iterator[Statement]:
    """A number with an interval, in a row of a region, is in the tables for this region
    and pattern.
    """
    for line in study.page.lines:
        label = find_one_region(study, line)
        if label is None:
            continue
        pattern = study.find_pattern(line)
        known = [study.effects[label]] if pattern is None else []
        if pattern is not None:
            known = [labels[label] for labels in study.changes[pattern].values()]
            known += (
                [study.onsets[pattern, label]]
                if (pattern, label) in study.onsets
                else []
            )
        for match in INTERVAL.finditer(line.text):
            is_known = any(all(map(agrees, match.groups(), triple)) for triple in known)
            yield judge(
                line,
                is_known,
                f"{match[0]} is not in the tables of {pattern or 'effects'}",
            )


def check_changes_along_severity(study: Study) -> Iterator[Statement]:
    """A number below a severity is the change of the region at this severity."""
    for line in study.page.lines:
        label, pattern = (
            find_one_region(study, line) if line.cells else None,
            study.find_pattern(line),
        )
        if label is None or pattern is None or len(line.header) != len(line.cells):
            continue
        for cell, severity in zip(line.cells, line.header, strict=True):
            if re.fullmatch(r"0?\.\d+|1", severity) and re.fullmatch(NUMBER, cell):
                value = get_change(study, pattern, label, float(severity))
                is_true = value is not None and agrees(cell, value)
                yield judge(line, is_true, f"{cell} at severity {severity}")


def get_change(study: Study, pattern: str, label: str, severity: float) -> float | None:
    """Return the change of a region at a severity, of either table."""
    if severity in study.changes[pattern]:
        return study.changes[pattern][severity][label].change
    course, column = study.course, f"c{round(100 * severity)}"
    if course is None or column not in course:
        return None
    rows = course.loc[
        (course["pattern"] == pattern) & (course["label"] == label), column
    ]
    return float(rows.iloc[0]) if len(rows) == 1 else None


def check_directions_of_regions(study: Study) -> Iterator[Statement]:
    """Where a text says which regions of a pattern are lost or gained, they have this
    sign, and are the largest.
    """
    for line in study.spoken:
        pattern = study.find_pattern(line)
        if pattern is None or line.cells or line.tag == "figcaption":
            continue
        changes = study.full[pattern]
        for sentence in split_sentences(line.text):
            found = study.find_regions(sentence)
            for region in found:
                onset = (
                    study.onsets.get((pattern, region.names[0]))
                    if "onset" in sentence
                    else None
                )
                fault = find_false_direction(sentence, region, changes, onset)
                yield judge(line, not fault, fault)
            is_headline = line.tag in ("h3", "terminal") or LARGEST.search(sentence)
            if (
                is_headline
                and len(found) > 1
                and (fault := find_missing_regions(study, found, changes))
            ):
                yield judge(line, False, fault)


def find_false_direction(
    sentence: str, region: Region, changes: dict[str, Change], onset: Change | None
) -> str:
    """Return what is wrong with the direction and the change (or onset) that a sentence
    gives a region, or nothing.
    """
    name, values = (
        sentence[region.start : region.end],
        [changes[label].change for label in region.names],
    )
    value = max(values, key=abs)  # of both sides, where the sentence does not say which
    directions = [
        match for match in DIRECTION.finditer(sentence) if match.end() <= region.start
    ]
    if directions and (directions[-1]["loss"] is not None) != (value < 0):
        return f"{name} is called a {directions[-1][0]}, and changes by {value:.2f}"
    number = re.match(rf"[ ,]*\(?({NUMBER})(?! ?[%\d])", sentence[region.end :])
    if sides := SIDES.match(sentence[region.end :]):
        given = {
            label: to_number(sides[2 if sides[1][0].upper() == label[-1] else 4])
            for label in region.names
        }
        false = [
            label
            for label in given
            if not agrees(f"{given[label]:.2f}", changes[label].change)
        ]
        return (
            f"{', '.join(false)} changes by {changes[false[0]].change:.2f}"
            if false
            else ""
        )
    expected = (*values, float(np.mean(values))) if onset is None else (onset.change,)
    if number and not any(agrees(number[1], each) for each in expected):
        return f"{name} is given {number[1]} instead of {expected[0]:.2f}"
    return ""


def find_missing_regions(
    study: Study, found: list[Region], changes: dict[str, Change]
) -> str:
    """Return which larger region a list of the largest ones leaves out, or nothing."""
    named = {
        words
        for words, labels in study.regions.items()
        if any(set(labels) & set(each.names) for each in found)
    }
    sizes = {
        words: max(
            abs(changes[label].change) if changes[label].is_sure else 0.0
            for label in labels
        )
        for words, labels in study.regions.items()
    }
    smallest = min(sizes[words] for words in named)
    missing = [
        words for words, size in sizes.items() if size > smallest and words not in named
    ]
    return (
        f"{', '.join(missing)} changes more than a region that is named as one of the largest"
        if missing
        else ""
    )


def check_strongest_regions(study: Study) -> Iterator[Statement]:
    """Regions that are listed as the strongest ones have intervals that
    exclude zero.
    """
    for line in study.page.lines:
        is_listed = re.search(
            r"strongest|largest change", " ".join(line.headings), re.IGNORECASE
        )
        if line.cells and is_listed and study.find_regions(line.cells[0]):
            for _, low, high in INTERVAL.findall(line.text):
                is_sure = to_number(low) * to_number(high) > 0
                yield judge(line, is_sure, "its interval includes zero")


def check_regions_in_json(study: Study) -> Iterator[Statement]:
    """Regions of the JSON output are those of the table."""
    for entry in study.values["patterns"]:
        for region in entry.get("regions", ()):
            label = study.labels.get(region["region"], region["region"])
            known = study.full[entry["name"]].get(label)
            given = [region[key] for key in Change._fields]
            is_true = known is not None and np.allclose(given, known, atol=1e-3)
            yield judge(
                "JSON", is_true, "not as in patterns.tsv", f"{entry['name']}: {region}"
            )


def check_shape(study: Study) -> Iterator[Statement]:
    """Terminal, JSON and page give the same shape as the chosen one."""
    chosen = study.selection["chosen"]["held_out"]["shape"]
    same = SHAPES.get(chosen, chosen) == study.shape
    yield judge(
        "JSON",
        same,
        f"selection.json has {chosen}",
        f"shape: {study.values.get('shape')}",
    )
    for line in study.spoken:
        is_named = line.tag == "terminal" and line.text.startswith("shape")
        for sentence in split_sentences(line.text):
            words = list(SHAPE.finditer(sentence))
            choice = re.search(r"\b(?:chosen|chose)\b", sentence)
            if not words or not (
                is_named or (choice and re.search(r"\d|pattern", sentence))
            ):
                continue
            middle = choice.start() if choice else 0
            nearest = min(words, key=lambda word: abs(word.start() - middle))[0].lower()
            is_true = SHAPES.get(nearest, nearest) == study.shape
            yield judge(line, is_true, f"{nearest}; {study.shape} was chosen", sentence)


def check_course(study: Study) -> Iterator[Statement]:
    """Only where patterns are staged do regions have onsets, a table and a section of
    their course.
    """
    has_table = study.course is not None
    is_staged = study.shape == "staged"
    text = f"trajectories.tsv is {'written' if has_table else 'not written'}"
    yield judge("results", has_table == is_staged, f"patterns are {study.shape}", text)
    said = []
    for line in study.spoken:
        if not line.text.startswith("note:") and line.tag != "nav":
            said += [line for words in COURSE if re.search(words, line.text)]
    if is_staged:
        yield judge("report", said, "it is nowhere described", "course of the regions")
    for line in dict.fromkeys(said):
        yield judge(line, is_staged, f"patterns are {study.shape}")
    for name, onsets in list_onsets(study).items():
        is_order = len(onsets) < 3 or len(set(onsets)) > 1
        text = f"{len(onsets)} onsets of {name}: {', '.join(sorted(set(onsets)))}"
        yield judge("report", is_order, "all onsets are equal", text)


def list_onsets(study: Study) -> dict[str, list[str]]:
    """Return the printed onsets by pattern."""
    onsets: dict[str, list[str]] = {}
    for line in study.page.lines:
        columns = [
            position
            for position, cell in enumerate(line.header)
            if cell.startswith("onset")
        ]
        if (
            columns
            and len(line.cells) > columns[0]
            and (number := re.match(NUMBER, line.cells[columns[0]]))
        ):
            onsets.setdefault(study.find_pattern(line) or "", []).append(number[0])
    return onsets


def check_likelihoods(study: Study) -> Iterator[Statement]:
    """What is called more likely than something else has the larger number."""
    for line in study.spoken:
        for sentence in split_sentences(line.text):
            if match := MORE_LIKELY.search(sentence):
                first, second = map(to_number, match.groups()[1:])
                is_true = first > second if match[1] == "more" else first < second
                yield judge(line, is_true, f"{first} and {second}", sentence)
            before = [
                (shape, number) for number, shape in LIKELIHOOD_BEFORE.findall(sentence)
            ]
            for shape, number in before or LIKELIHOOD.findall(sentence):
                is_true = any(
                    agrees(number, value)
                    for value in list_likelihoods(study, shape.lower())
                )
                yield judge(
                    line, is_true, f"the likelihood of {shape} is another one", sentence
                )


def list_likelihoods(study: Study, shape: str) -> list[float]:
    """Return the likelihoods of a shape that were found for all numbers of patterns."""
    names = {
        shape,
        *(old for old, new in SHAPES.items() if new == shape),
        SHAPES.get(shape, shape),
    }
    records = [
        each.get("held_out") or {}
        for each in (study.selection["chosen"], *study.selection["grid"])
    ]
    return [
        record[name]
        for record in records
        for name in names
        if isinstance(record.get(name), float)
    ]


def check_p_value(study: Study) -> Iterator[Statement]:
    """The p-value of the difference has one value, its error too; another test says
    what its p-value is of.
    """
    difference, number_test = (
        study.selection["difference"],
        study.selection["number_of_patterns"].get("test") or {},
    )
    others = [step["p"] for step in number_test.get("curve", ())]
    is_equal = np.isclose(study.values["difference"]["p"], difference["p"])
    yield judge(
        "JSON",
        is_equal,
        "selection.json has another",
        f"p = {study.values['difference']['p']}",
    )
    is_explained = any(
        re.search(r"\bp\b", line.text)
        for line in study.page.lines
        if line.tag == "figcaption"
    )
    for line in study.spoken:
        for number in re.findall(r"\bp ?=? ?(0?\.\d+)", CORRELATION.sub("", line.text)):
            is_other = line.tag == "text" and any(
                agrees(number, other) for other in others
            )
            if agrees(number, difference["p"]) or not is_other:
                yield judge(
                    line, agrees(number, difference["p"]), f"p is {difference['p']:.4f}"
                )
            else:
                yield judge(
                    line,
                    is_explained,
                    "the p-value of another test, which is not explained",
                )
        for number in re.findall(r"Monte Carlo error (?:of )?(0?\.\d+)", line.text):
            yield judge(
                line,
                agrees(number, difference["p_error"]),
                f"the error is {difference['p_error']:.4f}",
            )
        for number in PERMUTATIONS.findall(line.text):
            yield judge(
                line,
                to_number(number) == difference["permutations"],
                f"{difference['permutations']} times",
            )


def check_correlations_with_covariates(study: Study) -> Iterator[Statement]:
    """What is left of a covariate in the patients' R-indices, with its p-value."""
    rows = study.people.merge(
        study.indices[["participant_id", *study.names]], on="participant_id"
    )
    patients = rows[rows["group"] == "patient"]
    for line in study.spoken:
        pattern = study.find_pattern(line)
        if pattern is None or "correlation" not in line.text:
            continue
        for name, level, value, p in CORRELATION.findall(line.text):
            column = patients[name] == level if level else patients[name]
            expected = stats.spearmanr(column, patients[pattern])
            is_true = (
                agrees(value, expected.statistic)
                and abs(float(p) - expected.pvalue) < 0.01
            )
            yield judge(
                line,
                is_true,
                f"{name}: {expected.statistic:.3f} (p = {expected.pvalue:.3f})",
            )


def check_numbers_of_people(study: Study) -> Iterator[Statement]:
    """Numbers of controls, patients, people and regions are those of the tables."""
    counts, table = (
        study.people["group"].value_counts(),
        study.indices["group"].value_counts(),
    )
    n_regions = len(study.labels)
    is_equal = table.equals(counts) and set(study.indices["participant_id"]) == set(
        study.people["participant_id"]
    )
    yield judge(
        "results",
        is_equal,
        f"{dict(table)} instead of {dict(counts)}",
        "people of r_indices.tsv",
    )
    total = f"{len(study.people):,}"
    for line in study.spoken:
        if re.search(r"(?:detect|80 %|at least|fewer than)", line.text):
            continue  # about other studies
        for controls, patients in re.findall(
            r"([\d,]+) controls (?:and|\+) ([\d,]+) patients", line.text
        ):
            is_true = (to_number(controls), to_number(patients)) == (
                counts["control"],
                counts["patient"],
            )
            yield judge(line, is_true, f"{dict(counts)}")
        for number in re.findall(r"\d+ of ([\d,]+) people", line.text):
            yield judge(line, number == total, f"{total} people")
        for number in re.findall(
            r"(?:\d+ of |; |of |with )([\d,]+) (?:brain )?regions\b", line.text
        ):
            yield judge(line, to_number(number) == n_regions, f"{n_regions} regions")


def check_counts_of_regions(study: Study) -> Iterator[Statement]:
    """How many regions differ, and in how many of a pattern the interval
    excludes zero.
    """
    n_differ = int((study.read_existing("effects.tsv")["q"] < 0.05).sum())
    for line in study.page.lines:
        n_sure = sum(
            change.is_sure
            for change in study.full.get(study.find_pattern(line) or "", {}).values()
        )
        for number in re.findall(
            r"[Ii]n (\d+) of \d+ regions the 95 % interval excludes zero", line.text
        ):
            yield judge(line, int(number) == n_sure, f"{n_sure} regions")
        for number in re.findall(r"(\d+) of \d+ regions differ", line.text):
            yield judge(line, int(number) == n_differ, f"{n_differ} regions")


def check_groups_of_people(study: Study) -> Iterator[Statement]:
    """Numbers by sex add up to the groups, in each table and for each index."""
    counts = pd.crosstab(study.people["sex"], study.people["group"])
    for line in study.page.lines:
        sex = re.match(r"sex:? ?(\w+)$", line.cells[0]) if line.cells else None
        if (
            sex
            and sex[1] in counts.index
            and line.header[1:3] == ("controls", "patients")
        ):
            printed = [
                to_number(re.findall(NUMBER, cell)[0]) for cell in line.cells[1:3]
            ]
            expected = counts.loc[sex[1], ["control", "patient"]].tolist()
            yield judge(line, printed == expected, f"{expected} are of this sex")


def check_outlying_measurements(study: Study) -> Iterator[Statement]:
    """The number of outlying measurements is that of the table."""
    table = study.read_table("outlying_measurements.tsv")
    cells, people = (
        (0, 0) if table is None else (len(table), table["participant_id"].nunique())
    )
    owners = pd.DataFrame({"participant_id": []}) if table is None else table
    by_group = owners.merge(study.people, on="participant_id").groupby("group")[
        "participant_id"
    ]
    groups = {str(group): (len(ids), ids.nunique()) for group, ids in by_group}
    for line in study.spoken:
        for found in re.findall(
            r"(\d+) (?:cells?|measurements?) of (\d+) (?:people|persons?|participants?)",
            line.text,
        ):
            is_true = tuple(map(int, found)) == (cells, people)
            yield judge(line, is_true, f"{cells} of {people} people in the table")
        owners_said = (
            re.findall(r"(\d+) in (\d+) (control|patient)s?\b", line.text)
            if "measurement" in line.text
            else []
        )
        for found in owners_said:
            number, owners = groups.get(found[2], (0, 0))
            is_true = tuple(map(int, found[:2])) == (number, owners)
            yield judge(line, is_true, f"{number} of {owners} {found[2]}s in the table")


def check_figures_of_patterns(study: Study) -> Iterator[Statement]:
    """AUC and prevalence of each pattern are those of r_indices.tsv, and
    reproducibility is called by its interval.
    """
    groups = {
        group: study.indices[study.indices["group"] == group]
        for group in ("control", "patient")
    }
    records = {record["name"]: record for record in study.selection["patterns"]}
    for name in study.names:
        controls, patients = groups["control"][name], groups["patient"][name]
        auc, above = (
            compute_auc(patients, controls),
            float((patients > controls.quantile(0.95)).mean()),
        )
        share = (
            (above - 0.05) / 0.95
            # of patients who have the pattern, if as many of the others as of controls
            # exceed
        )
        for line in study.spoken:
            if study.find_pattern(line) != name or line.ids[-1:] == ("subgroups",):
                continue
            numbers = re.findall(r"AUC[^.;|(]*? (0\.\d+)", line.text)
            for header, cell in zip(line.header, line.cells, strict=False):
                if header.startswith("AUC"):
                    numbers += re.findall(r"^0\.\d+", cell)
            for number in numbers:
                is_true = agrees(number, auc, 1.01)
                yield judge(line, is_true, f"the AUC of {name} is {auc:.3f}")
            for number in re.findall(
                r"(?:carried by|prevalence[^:|]*:|[Aa]bout) (\d+) (?:%|in 100)",
                line.text,
            ):
                is_true = agrees(number, 100 * share)
                yield judge(line, is_true, f"{share:.3f} of patients have {name}")
            yield from read_reproducibility(line, records[name])
        given = next(
            entry for entry in study.values["patterns"] if entry["name"] == name
        )
        value = (
            given["auc"]["value"] if isinstance(given["auc"], dict) else given["auc"]
        )
        yield judge(
            "JSON", abs(value - auc) < 0.01, f"{auc:.3f}", f"{name}: AUC {value}"
        )


def read_reproducibility(line: Line, record: dict[str, Any]) -> Iterator[Statement]:
    """Compare a statement about reproducibility with its figure and interval."""
    value, (low, high) = record["split_half"], record["split_half_interval"]
    word = (
        "not reproduced" if high < 0.5 else "not known" if low < 0.5 else "reproduced"
    )
    for match in re.finditer(
        rf"([Nn]ot reproduced|[Nn]ot known|[Rr]eproduced)[^:|.]*: [a-z -]*{INTERVAL.pattern}",
        line.text,
    ):
        is_true = match[1].lower() == word and all(
            map(agrees, match.groups()[1:], (value, low, high))
        )
        yield judge(line, is_true, f"{word}: {value:.3f} ({low:.3f} to {high:.3f})")


def check_members(study: Study) -> Iterator[Statement]:
    """As many members as are said were trained for each number of patterns."""
    trained = {
        each["setting"]["n_patterns"]: each["members"]["trained"]
        for each in study.selection["grid"]
    }
    sentence = r"([\d, and]+) patterns were tried with ([\d, and]+) ensemble members(?: \((\d+) for the chosen number\))?"
    for line in study.spoken:
        for numbers, members, of_chosen in re.findall(sentence, line.text):
            tried, said = (
                [int(number) for number in re.findall(r"\d+", text)]
                for text in (numbers, members)
            )
            is_true = {trained.get(number) for number in tried} == set(said)
            is_true &= not of_chosen or trained.get(study.values["n_patterns"]) == int(
                of_chosen
            )
            yield judge(line, is_true, f"members by number of patterns: {trained}")


def check_number_of_patterns(study: Study) -> Iterator[Statement]:
    """Terminal, JSON and page speak of as many patterns as the tables have."""
    number = len(study.names)
    words = ("no", "one", "two", "three", "four", "five")
    fault, given = f"there are {number} patterns", study.values["n_patterns"]
    yield judge("JSON", given == number, fault, f"n_patterns: {given}")
    sentence = study.page.first_sentence
    is_true = re.search(
        rf"\b({words[number]}|{number}) pattern", sentence, re.IGNORECASE
    )
    yield judge("report", is_true, fault, sentence)
    for line in study.terminal:
        if found := re.match(r"patterns? +(\d+)", line):
            yield judge("terminal", int(found[1]) == number, fault, line)


def check_scale(study: Study) -> Iterator[Statement]:
    """The range of half of the controls."""
    controls = study.indices[study.indices["group"] == "control"]
    for line in study.spoken:
        said = re.search(r"half of the study's controls have ([^)]*)", line.text)
        for low, high, name in re.findall(
            r"(0\.\d+) to (0\.\d+) in (r\d+)", said[1] if said else ""
        ):
            quartiles = controls[name].quantile([0.25, 0.75]).tolist()
            is_true = agrees(low, quartiles[0], 0.7) and agrees(
                high, quartiles[1], 0.7
            )  # of another definition
            yield judge(
                line,
                is_true,
                f"half of them have {quartiles[0]:.3f} to {quartiles[1]:.3f} in {name}",
            )


def check_correlations(study: Study) -> Iterator[Statement]:
    """Correlations among patients are those of r_indices.tsv."""
    patients = study.indices[study.indices["group"] == "patient"]
    values = [patients[a].corr(patients[b]) for a, b in combinations(study.names, 2)]
    for line in study.page.lines:
        for number in re.findall(
            rf"[Cc]orrelation among patients ({NUMBER})", line.text
        ):
            is_true = any(agrees(number, value) for value in values)
            yield judge(line, is_true, f"{[f'{value:.3f}' for value in values]}")


def check_new_people(study: Study) -> Iterator[Statement]:
    """The model was applied to the 20 people who are in no fit."""
    new, table = study.read_table("new.tsv"), study.read_table("demo/new_people.csv")
    if new is None or table is None:
        return
    same = (
        list(new["participant_id"]) == list(table["participant_id"]) and len(new) == 20
    )
    yield judge(
        "new.tsv", same, f"new_people.csv has {len(table)}", f"{len(new)} people"
    )
    known = set(new["participant_id"]) & set(study.indices["participant_id"])
    yield judge(
        "new.tsv", not known, f"{len(known)} of them were in the fit", "new people"
    )
    values = new[study.names]
    in_range = ((values > 0) & (values < 1)).to_numpy().all()
    yield judge("new.tsv", in_range, "not all between 0 and 1", "R-indices")
    for line in study.terminal:
        for number in re.findall(r"(\d+) people written to new\.tsv", line):
            yield judge("terminal", int(number) == len(new), f"{len(new)} people", line)


def check_accuracy(study: Study) -> Iterator[Statement]:
    """The accuracy that is printed, and the one in the text, is that of the R-indices
    against the true severities.
    """
    scores = []
    for truth_name, name in (
        ("demo/truth.tsv", "r_indices.tsv"),
        ("demo/new_truth.tsv", "new.tsv"),
    ):
        truth, table = study.read_table(truth_name), study.read_table(name)
        if truth is not None and table is not None:
            scores.append(score_ranks(truth, table))
    fault = f"scores are {[f'{score:.4f}' for score in scores]}"
    for line in study.terminal:
        for number in re.findall(r"pattern-c-index (0\.\d+)", line):
            is_true = any(agrees(number, score) for score in scores)
            yield judge("terminal", is_true, fault, line)
    for paragraph in study.instructions.split("\n\n"):
        text = tidy(paragraph)
        if "`score`" in text and not paragraph.startswith("```"):
            for number in set(re.findall(r"0\.\d+", text)) - {"0.5"}:
                is_true = any(agrees(number, score) for score in scores)
                yield judge("instructions", is_true, fault, text)
    yield judge(
        "results",
        min(scores) > 0.8,
        "patients are hardly ranked",
        f"accuracy {min(scores):.3f}",
    )


def check_instructions(study: Study) -> Iterator[Statement]:
    """The text that gives the commands has the right numbers of people and range of
    controls, and its pictures.
    """
    counts, truth = (
        study.people["group"].value_counts(),
        study.read_table("demo/new_truth.tsv"),
    )
    numbers = {"invents": (counts["control"], counts["patient"])}
    if truth is not None:
        numbers["new people"] = (20 - len(truth), len(truth))
    pairs = r"(invents|new people) \(?([\d,]+) controls and ([\d,]+) patients"
    text = tidy(study.instructions)
    for words, *said in re.findall(pairs, text):
        is_true = tuple(map(to_number, said)) == numbers[words]
        yield judge(
            "instructions",
            is_true,
            f"{numbers[words]}",
            f"{words} {' and '.join(said)}",
        )
    if "pip install '.[brain]'" in text:
        yield judge(
            "report",
            study.page.n_pictures,
            "no brain pictures, though they are installed",
            "pictures",
        )
    controls = study.indices.loc[
        study.indices["group"] == "control", study.names
    ].to_numpy()
    for low, high in re.findall(r"most controls are at (0\.\d+) to (0\.\d+)", text):
        share = float(
            np.mean((controls >= float(low) - 0.005) & (controls < float(high) + 0.005))
        )
        yield judge(
            "instructions",
            share > 0.8,
            f"{share:.2f} of controls",
            f"controls at {low} to {high}",
        )


def check_menu(study: Study) -> Iterator[Statement]:
    """Every link of the menu leads to a place of the page."""
    for text, address in study.page.menu:
        yield judge(
            "report",
            address.lstrip("#") in study.page.ids,
            f"no {address}",
            f"menu: {text}",
        )


CHECKS: dict[
    Check, int
] = {  # with the smallest number of statements that each must find
    check_values_of_regions: 20,
    check_changes_along_severity: 0,
    check_directions_of_regions: 3,
    check_strongest_regions: 0,
    check_regions_in_json: 0,
    check_shape: 3,
    check_course: 1,
    check_likelihoods: 0,
    check_p_value: 3,
    check_correlations_with_covariates: 0,
    check_numbers_of_people: 5,
    check_counts_of_regions: 0,
    check_groups_of_people: 2,
    check_outlying_measurements: 0,
    check_figures_of_patterns: 6,
    check_members: 0,
    check_number_of_patterns: 3,
    check_scale: 0,
    check_correlations: 0,
    check_new_people: 0,
    check_accuracy: 1,
    check_instructions: 0,
    check_menu: 3,
}


def load_study(folder: Path, instructions: str = "") -> Study:
    """Load a study from the folder in which its commands were run."""
    return Study(
        folder=folder,
        terminal=(folder / "terminal.txt").read_text("utf-8").splitlines(),
        values=json.loads((folder / "study.json").read_text("utf-8")),
        page=read_page(folder / "results" / "report.html"),
        selection=json.loads(
            (folder / "results" / "selection.json").read_text("utf-8")
        ),
        instructions=instructions,
    )


def read_study(study: Study) -> tuple[list[str], Counter[str]]:
    """Return the false statements of a study, and how many statements each check has
    read.
    """
    faults, counts = [], Counter[str]()
    for check, least in CHECKS.items():
        name = check.__name__.removeprefix("check_").replace("_", " ")
        for statement in check(study):
            counts[name] += 1
            if statement.fault:
                faults.append(
                    f"{name} ({statement.place}): {statement.text[:400]!r}: {statement.fault}"
                )
        if counts[name] < least:
            faults.append(
                f"{name}: only {counts[name]} statements are found, at least {least} are expected"
            )
    return list(dict.fromkeys(faults)), counts


def compare_picture(page: Page, text: Path) -> str:
    """Return what differs between a page and the text beside its picture,
    or nothing.
    """
    drawn, now = (
        text.read_text("utf-8") if text.is_file() else "nothing\n",
        page.describe(),
    )
    cure = "draw it again with scripts/draw_report.py"
    return (
        ""
        if drawn == now
        else f"{text.name} is of another page: {cure}.\n{drawn}now:\n{now}"
    )


def main() -> None:
    """Read a study, and print what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--page", type=Path, help="the text whose commands were run")
    parser.add_argument(
        "--picture", type=Path, help="the text beside the picture of the report"
    )
    options = parser.parse_args()
    study = load_study(
        options.folder, options.page.read_text("utf-8") if options.page else ""
    )
    faults, counts = read_study(study)
    if options.picture and (fault := compare_picture(study.page, options.picture)):
        faults.append(fault)
    print(
        f"{counts.total()} statements: {', '.join(f'{name} {number}' for name, number in counts.items())}"
    )
    print(*faults, sep="\n")
    raise SystemExit(1 if faults else 0)


if __name__ == "__main__":
    main()
