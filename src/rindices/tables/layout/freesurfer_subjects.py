"""Read folders of FastSurfer and FreeSurfer subjects: one ``stats`` file per person."""

import re
from collections import Counter
from pathlib import Path

import pandas as pd

from rindices.errors import Findings, ProblemCode, format_count, join_names

STATS_NAMES = (
    "aseg+DKT.stats",
    "aseg+DKT.VINN.stats",
    "aparc.DKTatlas+aseg.deep.volume.stats",
    "aseg.stats",
    "aseg.VINN.stats",
)
"""Files with the volumes of all structures, the preferred first; ``aseg+DKT.stats`` is a link to the VINN file."""
_ETIV_REGEX = re.compile(r"#\s*Measure\s+[^,]*,\s*eTIV\s*,[^,]*,\s*([0-9.eE+-]+)\s*,")


def read_subject_folders(folder: Path, findings: Findings) -> pd.DataFrame:
    """Read the stats file of each person in a folder of subjects.

    Returns ``participant_id``, one column per structure, and ``eTIV`` if the files have it. FastSurfer's MaskVol is not
    used as eTIV.
    """
    files = {subject.name: path for subject in sorted(folder.iterdir()) if (path := _find_stats_file(subject))}
    if not files:
        what = "no subject folder with stats/aseg+DKT.stats was found"
        cure = "Give the folder that holds one folder per person (SUBJECTS_DIR)"
        findings.fatal(ProblemCode.NO_SUBJECT_FOLDERS, what, str(folder), cure)
    _report_stats_files(folder, files, findings)
    rows = {name: _add_etiv(_read_stats(path), path) for name, path in files.items()}
    broken = [name for name, row in rows.items() if not row]
    if broken:
        what = f"{format_count(len(broken), 'stats file is', 'stats files are')} empty or cut"
        cure = "Run the segmentation of these people again or move their folders away"
        findings.error(ProblemCode.EMPTY_STATS_FILES, what, str(folder), cure, offenders=broken)
    frame = pd.DataFrame([{"participant_id": name, **row} for name, row in rows.items() if row])
    if frame.empty:
        findings.fatal(ProblemCode.NO_ROWS, "no stats file holds a volume", str(folder), "Run the segmentation again")
    return frame


def _report_stats_files(folder: Path, files: dict[str, Path], findings: Findings) -> None:
    """Say which of the stats files was read, and which people have another one than most."""
    counts = Counter(path.name for path in files.values())
    usual = counts.most_common(1)[0][0]
    others = sorted({path.name for file in files.values() for path in file.parent.glob("*.stats")} - set(counts))
    what = f"stats/{usual} is read" + (f", not {join_names(others)}" if others else "")
    findings.note(ProblemCode.STATS_FILE_CHOSEN, what, str(folder))
    if len(counts) > 1:
        different = [name for name, path in files.items() if path.name != usual]
        listing = ", ".join(f"{file} of {format_count(number, 'person', 'people')}" for file, number in counts.items())
        what, cure = "people have different stats files", f"Make stats/{usual} for all, or move their folders away"
        findings.warn(ProblemCode.STATS_FILE_CHOSEN, what, str(folder), cure, offenders=different, listing=listing)


def _find_stats_file(subject: Path) -> Path | None:
    candidates = (subject / "stats" / name for name in STATS_NAMES)
    return next((path for path in candidates if path.is_file()), None)


def _add_etiv(row: dict[str, float], path: Path) -> dict[str, float]:
    """Add eTIV from ``aseg.stats`` in the same folder if the file itself has none."""
    aseg = path.with_name("aseg.stats")
    if not row or "eTIV" in row or not aseg.is_file():
        return row
    etiv = _read_stats(aseg).get("eTIV")
    return row if etiv is None else row | {"eTIV": etiv}


def _read_stats(path: Path) -> dict[str, float]:
    """Return the volumes of a person by structure: the 4th column is the volume, the 5th the name.

    Nothing is returned where a line has fewer columns than the header: the file is cut.
    """
    row: dict[str, float] = {}
    width = 5
    for line in path.read_text("utf-8", errors="replace").splitlines():
        match = _ETIV_REGEX.match(line)
        if match:
            row["eTIV"] = _parse_float(match[1])
        fields = line.split()
        if fields[:2] == ["#", "ColHeaders"]:
            width = len(fields) - 2
        elif fields and not line.startswith("#"):
            if len(fields) < width:
                return {}
            row[fields[4]] = _parse_float(fields[3])
    return row


def _parse_float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return float("nan")
