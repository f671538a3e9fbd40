"""Sentences: whether what ``rindices fit`` says of a study is true.

Usage: ``python -m benchmarks.sentences [--only NAME ...] [--kinds KIND ...] [--seeds
900:901] [--keep FOLDER]``. Each study of ``benchmarks/sentence_readers/table.py`` is
run by the command line with ``--json`` and, on its stored members, without; its report
is rendered. Readers, one for each form of a sentence, take what terminal, JSON and
first screen say apart, and hold every number, every region with its sign and every
claim against the tables that the study wrote, the tables that it was given, and the
truth of the simulation. A sentence that no reader knows is a failure. Limits of the
package were chosen on the seeds 100 to 119; the reported studies have the seed 900 and
more. Writes ``results/sentences.json`` and ``.md`` as rows end; finished rows are not
measured again. The exit code is 1 where a sentence is false or unread, or too many
artefacts keep the word "reproduced", or too many sound studies lose it.
"""

import argparse
import io
import json
import re
import shutil
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from unittest import mock

from matplotlib.figure import Figure
from typer.testing import CliRunner

from benchmarks.sentence_readers.reading import Reading
from benchmarks.sentence_readers.studies import Study, Truth, write_study
from benchmarks.sentence_readers.surfaces import read_json, read_page, read_terminal
from benchmarks.sentence_readers.table import SHORT, STUDIES
from benchmarks.sentence_readers.written import MIN_REPRODUCED, WrittenStudy
from rindices.cli.main import app
from rindices.model.findings import MIN_ORDER_ERRORS
from rindices.plot import geometry
from rindices.report.page import write_report

OUT = Path(__file__).parent / "results" / "sentences.json"
MAX_KEPT, MAX_LOST = 2, 2
"""Artefacts that may keep the word "reproduced", and sound studies that may lose it."""
KINDS = ("sound", "null", "artefact", "harmonised")
LEVEL = 0.05
COLUMNS = (
    *("study", "kind", "seed", "finding", "p", "shape", "accuracy"),
    *("says reproduced", "artefact named", "sentences", "false"),
)
Rows = list[dict[str, Any]]


@contextmanager
def omit_pictures() -> Iterator[None]:
    """Draw neither brains nor charts, which take most of the time of a page."""
    original = Figure.savefig

    def save(figure: Figure, target: Any, **options: Any) -> None:
        if isinstance(target, io.StringIO):
            target.write("<svg></svg>")
        else:
            original(figure, target, **options)

    no_brains = mock.patch.object(
        geometry, "list_missing_packages", return_value=["nilearn"]
    )
    with no_brains, mock.patch.object(Figure, "savefig", save):
        yield


def run_command(truth: Truth, folder: Path, *options: str) -> tuple[str, str]:
    """Run ``rindices fit`` and return both streams."""
    result = CliRunner().invoke(
        app, ["fit", *truth.arguments, "--out", str(folder), *SHORT, *options]
    )
    if result.exit_code != 0:
        raise RuntimeError(
            f"exit code {result.exit_code}: {result.stderr}{result.exception!r}"
        )
    return result.stdout, result.stderr


class Said(NamedTuple):
    """What a study says: JSON, both streams of the terminal, and the page."""

    json: dict[str, Any]
    output: str
    errors: str
    page: str


def run_study(study: Study, truth: Truth, folder: Path) -> Said:
    """Run a study twice, the second time from its stored members, and return what it
    says.
    """
    options = [] if study.with_report else ["--no-report"]
    values, _ = run_command(truth, folder, "--json", *options)
    output, errors = run_command(truth, folder, *options)
    if not study.with_report:
        with omit_pictures():
            write_report(folder)
    return Said(
        json.loads(values), output, errors, (folder / "report.html").read_text("utf-8")
    )


def read_study(written: WrittenStudy, said: Said) -> dict[str, Any]:
    """Read all that a study says, and return its row."""
    readings = [Reading(written, surface) for surface in ("json", "terminal", "page")]
    read_json(said.json, readings[0])
    read_terminal(said.output, said.errors, readings[1])
    read_page(said.page, readings[2])
    return summarise(written, readings)


def summarise(written: WrittenStudy, readings: list[Reading]) -> dict[str, Any]:
    """Return the row of a study."""
    altered = find_altered_patterns(written)
    faults = [fault for reading in readings for fault in reading.faults]
    verdicts = [reading.verdicts for reading in readings]
    if any(each != verdicts[0] for each in verdicts[1:]):
        faults.append(f"verdicts differ between the surfaces: {verdicts}")
    blocks = {tuple(sorted(set(reading.blocks))) for reading in readings}
    if len(blocks) > 1:
        faults.append(f"signs of an artefact differ between the surfaces: {blocks}")
    has_signs = any(reading.blocks for reading in readings)
    for reading in readings:
        kept = sorted(
            name
            for name in reading.concerned
            if reading.verdicts.get(name, "artefact") != "artefact"
        )
        if kept:
            faults.append(
                f"{', '.join(kept)}: {reading.verdicts} beside signs of an artefact [{reading.surface}]"
            )
    if has_signs and any(reading.speaks_of_patterns for reading in readings):
        faults.append("patterns of change are claimed beside signs of an artefact")
    lows = {
        name: written.get_evidence(name)["split_half_interval"][0]
        for name in written.names
    }
    reproduced = {
        name
        for own in verdicts
        for name, verdict in own.items()
        if verdict == "reproduced"
    }
    by_interval = {name for name, low in lows.items() if low >= MIN_REPRODUCED}
    return {
        "kind": written.study.kind,
        "finding": written.selection["finding"],
        "p": written.difference["p"],
        "shape": None if written.held_out is None else written.held_out["shape"],
        "is_staged": written.truth.is_staged,
        "order_errors": compute_order_errors(written),
        "sentences": sum(reading.sentences for reading in readings),
        "claims": sum(reading.claims for reading in readings),
        "faults": faults,
        "unread": [text for reading in readings for text in reading.unread],
        "says_reproduced": bool(reproduced),
        "is_reproduced": bool(by_interval),
        "keeps_word": bool(reproduced & altered),
        "loses_word": bool(by_interval - reproduced),
        "artefacts": sorted(
            {block for reading in readings for block in reading.blocks}
        ),
        "unfounded": len(
            {each for reading in readings[1:] for each in reading.unfounded}
        ),
        "accuracy": getattr(written, "accuracy", None),
    }


def find_altered_patterns(written: WrittenStudy) -> set[str]:
    """Return the R-indices that an artefact concerns: all, or the one that follows a
    pattern of one site alone.
    """
    alteration, effects, matched = (
        written.truth.alteration,
        written.truth.effects,
        written.matched,
    )
    if alteration is None or alteration.kind != "one_site" or effects is None:
        return set(written.names)
    return {name for name, match in matched.items() if match == effects.columns[-1]}


def compute_order_errors(written: WrittenStudy) -> float | None:
    """Return by how many standard errors staged patterns are more likely than
    proportional ones; None if not known.
    """
    held_out = written.held_out or {}
    staged, proportional, error = (
        held_out.get(name) for name in ("staged", "proportional", "staged_gain_se")
    )
    return (
        None
        if staged is None or proportional is None or not error
        else round((staged - proportional) / error, 2)
    )


def count_failures(rows: Rows) -> dict[str, int]:
    """Return the numbers of false and unread sentences, of artefacts that keep the
    word, of sound ones that lose it.
    """
    return {
        "false": sum(len(row["faults"]) for row in rows),
        "unread": sum(len(row["unread"]) for row in rows),
        "kept": sum(row["keeps_word"] for row in rows if row["kind"] == "artefact"),
        "lost": sum(row["loses_word"] for row in rows if row["kind"] == "sound"),
    }


def format_tables(rows: Rows) -> str:
    """Return the summary and the table in markdown."""
    counts = count_failures(rows)
    kinds = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    sound = [row for row in kinds["sound"] if row["is_reproduced"]]
    named = sum(bool(row["artefacts"]) for row in kinds["artefact"])
    shaped = [
        row
        for row in rows
        if row["order_errors"] is not None and row["is_staged"] is not None
    ]
    lines = [
        "# Sentences",
        "`python -m benchmarks.sentences`: terminal, `--json` and first screen of the report, read by a program.",
        "",
        f"- **{len(rows)} studies, {sum(row['sentences'] for row in rows):,} sentences and entries of JSON, "
        f"{sum(row['claims'] for row in rows):,} claims: {counts['false']} false, {counts['unread']} unread.**",
        f'- {counts["kept"]} of {len(kinds["artefact"])} artefacts keep the word "reproduced"; {named} are named.',
        f"- {counts['lost']} of {len(sound)} sound studies that are reproduced by their interval lose the word.",
        f"- {sum(row['p'] <= LEVEL for row in kinds['null'])} of {len(kinds['null'])} studies without a difference, or "
        "with permuted labels, report one.",
        f"- Regions that terminal or page name and that no pattern changes: {sum(row['unfounded'] for row in rows)}.",
        *(_describe_order(shaped, is_staged) for is_staged in (False, True)),
        "",
        f"| {' | '.join(COLUMNS)} |",
        "|---" * len(COLUMNS) + "|",
    ]
    for row in rows:
        accuracy = "" if row["accuracy"] is None else f"{row['accuracy']:.2f}"
        cells = (
            *(
                row["name"],
                row["kind"],
                row["seed"],
                row["finding"].replace("_", " "),
                f"{row['p']:.3f}",
            ),
            *(
                row["shape"] or "",
                accuracy,
                "yes" if row["says_reproduced"] else "no",
                ", ".join(row["artefacts"]),
            ),
            *(row["sentences"], len(row["faults"]) + len(row["unread"])),
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "Accuracy: mean rank correlation of R-indices with the true severities that they are matched to.",
    ]
    wrong = [(row, text) for row in rows for text in [*row["faults"], *row["unread"]]]
    if wrong:
        lines += ["", "## False or unread"]
        lines += [f"- {row['name']}, seed {row['seed']}: {text}" for row, text in wrong]
    return "\n".join(lines) + "\n"


def _describe_order(rows: Rows, is_staged: bool) -> str:
    chosen = [row for row in rows if row["is_staged"] == is_staged]
    staged = sum(row["shape"] == "staged" for row in chosen)
    certain = sum(
        row["shape"] == "staged" and row["order_errors"] >= MIN_ORDER_ERRORS
        for row in chosen
    )
    truth = "one after another" if is_staged else "together"
    return f"- Regions change {truth} in truth: {len(chosen)} studies, {staged} are called staged, {certain} as certain."


def measure(study: Study, seed: int, folder: Path) -> dict[str, Any] | None:
    """Run a study and return its row; None where its tables are not there."""
    out, start = folder / "out", time.process_time()
    shutil.rmtree(out, ignore_errors=True)
    truth = write_study(study, seed, folder / "tables")
    if truth is None:
        return None
    said = run_study(study, truth, out)
    row = read_study(WrittenStudy(study, truth, out), said)
    return {
        "name": study.name,
        "seed": seed,
        **row,
        "seconds": round(time.process_time() - start, 1),
    }


def save_rows(rows: Rows, out: Path) -> None:
    """Write the rows in the order of the table, and the summary."""
    order = {each.name: number for number, each in enumerate(STUDIES)}
    rows.sort(key=lambda row: (row["seed"], order.get(row["name"], len(order))))
    out.write_text(json.dumps(rows, indent=1) + "\n", "utf-8")
    out.with_suffix(".md").write_text(format_tables(rows), "utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", nargs="*", choices=[study.name for study in STUDIES], metavar="NAME"
    )
    parser.add_argument("--kinds", nargs="*", choices=KINDS, default=KINDS)
    parser.add_argument(
        "--seeds", default="900:901", help="First seed, and the one after the last."
    )
    parser.add_argument(
        "--keep", type=Path, help="Folder in which studies are kept; by default none."
    )
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows: Rows = (
        json.loads(options.out.read_text("utf-8")) if options.out.is_file() else []
    )
    done = {(row["name"], row["seed"]) for row in rows}
    chosen = [
        each
        for each in STUDIES
        if each.kind in options.kinds and each.name in (options.only or [each.name])
    ]
    first, end = map(int, options.seeds.split(":"))
    for seed in range(first, end):
        for study in chosen:
            if (study.name, seed) in done or (
                study.make is not None and seed != first
            ):  # tables do not depend on it
                continue
            with TemporaryDirectory() as temporary:
                name = re.sub(r"\W+", "_", f"{study.name} {seed}")
                row = measure(study, seed, (options.keep or Path(temporary)) / name)
            if row is None:
                sys.stderr.write(f"{study.name}: its tables are not there\n")
                continue
            rows.append(row)
            save_rows(rows, options.out)
            wrong = len(row["faults"]) + len(row["unread"])
            sys.stderr.write(
                f"{study.name}, seed {seed}: {row['seconds']} s, {wrong} false or unread\n"
            )
    print(format_tables(rows))
    counts = count_failures(rows)
    is_good = not counts["false"] and not counts["unread"]
    return int(not is_good or counts["kept"] > MAX_KEPT or counts["lost"] > MAX_LOST)


if __name__ == "__main__":
    sys.exit(main())
