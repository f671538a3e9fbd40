"""Alterations of good tables: of the bytes of text, and of the frames of
parquet files.
"""

import re
from collections.abc import Callable

import numpy as np
import pandas as pd

Random = np.random.Generator


# Alterations of text: each takes bytes, the separator and randomness.
def pick(content: bytes, rng: Random) -> int:
    return int(rng.integers(0, len(content) + 1))


def insert_at(content: bytes, place: int, text: bytes) -> bytes:
    return content[:place] + text + content[place:]


def alter_byte(content: bytes, sep: bytes, rng: Random) -> bytes:
    place = pick(content, rng)
    return content[:place] + bytes([int(rng.integers(0, 256))]) + content[place + 1 :]


def insert_byte(content: bytes, sep: bytes, rng: Random) -> bytes:
    return insert_at(content, pick(content, rng), bytes([int(rng.integers(0, 256))]))


def delete_bytes(content: bytes, sep: bytes, rng: Random) -> bytes:
    place = pick(content, rng)
    return content[:place] + content[place + int(rng.integers(1, 40)) :]


def insert_quote(content: bytes, sep: bytes, rng: Random) -> bytes:
    return insert_at(content, pick(content, rng), b'"')


def quote_two_cells(content: bytes, sep: bytes, rng: Random) -> bytes:
    for _ in range(2):
        cells = [match.start() for match in re.finditer(re.escape(sep), content)]
        content = insert_at(
            content,
            cells[int(rng.integers(len(cells)))] + int(rng.integers(0, 2)),
            b'"',
        )
    return content


def quote_with_break(content: bytes, sep: bytes, rng: Random) -> bytes:
    return content.replace(
        b"none",
        b'"no' + [b"\n", b"\r\n", b"\r", b"\n\n"][int(rng.integers(4))] + b'ne"',
        1,
    )


def quote_all(content: bytes, sep: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    return b"\n".join(
        b'"' + line.replace(sep, b'"' + sep + b'"') + b'"' if line else line
        for line in lines
    )


def alter_separator(content: bytes, sep: bytes, rng: Random) -> bytes:
    cells = [match.start() for match in re.finditer(re.escape(sep), content)]
    place = cells[int(rng.integers(len(cells)))]
    other = [b"", b",", b";", b"\t", b" ", sep + sep, sep + b" ", b" " + sep][
        int(rng.integers(8))
    ]
    return content[:place] + other + content[place + 1 :]


def alter_line_ends(content: bytes, sep: bytes, rng: Random) -> bytes:
    return content.replace(
        b"\n", [b"\r\n", b"\r", b"\r\r\n", b"\n\n", b"\n \n"][int(rng.integers(5))]
    )


def alter_some_line_ends(content: bytes, sep: bytes, rng: Random) -> bytes:
    ends = [
        b"\r\n",
        b"\r",
        b"\n\n",
        b"\x0b",
        b"\x0c",
        b"\x1e",
        b"\x85",
        "\u2028".encode(),
        b" \n",
    ]
    end = ends[int(rng.integers(len(ends)))]
    return b"".join(
        line + (end if rng.uniform() < 0.2 else b"\n")
        for line in content.split(b"\n")[:-1]
    )


def break_line(content: bytes, sep: bytes, rng: Random) -> bytes:
    return insert_at(
        content, pick(content, rng), [b"\n", b"\r", b"\r\n"][int(rng.integers(3))]
    )


def join_two_lines(content: bytes, sep: bytes, rng: Random) -> bytes:
    ends = [match.start() for match in re.finditer(b"\n", content)]
    place = ends[int(rng.integers(len(ends)))]
    return content[:place] + content[place + 1 :]


def repeat_line(content: bytes, sep: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    chosen = lines[int(rng.integers(len(lines)))]
    lines.insert(int(rng.integers(len(lines) + 1)), chosen)
    return b"".join(lines)


def repeat_row_under_another_id(content: bytes, sep: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return content + lines[int(rng.integers(1, len(lines)))].replace(b"sub-", b"new-")


def drop_line(content: bytes, sep: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    return b"".join(lines)


def swap_lines(content: bytes, sep: bytes, rng: Random) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(
        [lines[0], *(lines[1 + k] for k in rng.permutation(len(lines) - 1))]
    )


def cut_file(content: bytes, sep: bytes, rng: Random) -> bytes:
    return content[: pick(content, rng)]


def append_filler(content: bytes, sep: bytes, rng: Random) -> bytes:
    fillers = [
        b"\n\n",
        sep * 10 + b"\n",
        b" \n",
        b"\x1a",
        b"# end\n",
        b"\x00" * 8,
        content,
        b"NA" + (sep + b"NA") * 10,
    ]
    return content + fillers[int(rng.integers(len(fillers)))]


def recode_file(content: bytes, sep: bytes, rng: Random) -> bytes:
    encoding = ["utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"][
        int(rng.integers(5))
    ]
    return content.decode("latin-1").encode(encoding)


def add_letters(content: bytes, sep: bytes, rng: Random) -> bytes:
    """Put letters of several encodings into some ids."""
    codings = ["utf-8", "latin-1", "cp1252", "utf-16-le"]
    lines = content.split(b"\n")
    for place in rng.integers(1, len(lines), 3):
        letters = "é" if rng.uniform() < 0.7 else "\u2019"
        lines[place] = lines[place].replace(
            b"sub", letters.encode(codings[int(rng.integers(4))], "replace") + b"sub", 1
        )
    return b"\n".join(lines)


def insert_control(content: bytes, sep: bytes, rng: Random) -> bytes:
    marks = [
        b"\x00",
        b"\x1b",
        b"\x7f",
        b"\xef\xbb\xbf",
        "\u200b".encode(),
        b"\t",
        b"\x1f",
    ]
    return insert_at(content, pick(content, rng), marks[int(rng.integers(len(marks)))])


def lengthen_cell(content: bytes, sep: bytes, rng: Random) -> bytes:
    return content.replace(b"none", b"x" * int(rng.integers(90_000, 200_000)), 1)


def start_with_formula(content: bytes, sep: bytes, rng: Random) -> bytes:
    return content.replace(
        b"\nsub",
        b"\n" + [b"=", b"+", b"-", b"@", b"'=", b"'"][int(rng.integers(6))] + b"sub",
        1,
    )


def respell_labels(content: bytes, sep: bytes, rng: Random) -> bytes:
    """Write a label of some lines in another case or with blanks."""
    label = [b"control", b"patient", b"F", b"M"][int(rng.integers(4))]
    other = [
        label.upper(),
        label.lower(),
        label.title(),
        b" " + label,
        label + b" ",
        b'"' + label + b' "',
        label + b"s",
    ]
    respelt = other[int(rng.integers(len(other)))]
    lines = content.split(b"\n")
    for place in rng.integers(1, len(lines), int(rng.integers(1, 9))):
        lines[place] = lines[place].replace(sep + label + sep, sep + respelt + sep)
    return b"\n".join(lines)


def rewrite_number(content: bytes, sep: bytes, rng: Random) -> bytes:
    """Write a number in another way."""
    numbers = list(re.finditer(rb"[0-9]{2,}[.,][0-9]+", content))
    if not numbers:
        return content
    chosen = numbers[int(rng.integers(len(numbers)))]
    text = chosen.group().decode()
    ways = [
        f"{text}e0", f"+{text}", f"-{text}", f" {text} ", f'"{text}"', f"'{text}", f"{text[0]}_{text[1:]}",
        f"{text[0]},{text[1:]}", f"{text[0]}.{text[1:]}", f"{text[0]} {text[1:]}", text.replace(".", ","),
        f"{text}e400", text.replace(",", "."), "inf", "NaN", "NA", "", "-9999", "1e-320", "\uff13\uff10\uff10\uff10",
        "True", f"{text}*", f"0x{text[:2]}",
    ]  # fmt: skip
    return (
        content[: chosen.start()]
        + ways[int(rng.integers(len(ways)))].encode()
        + content[chosen.end() :]
    )


def rename_column(content: bytes, sep: bytes, rng: Random) -> bytes:
    """Write a name of the header in another way, or another name."""
    end = content.find(b"\n")
    names = content[:end].split(sep)
    place = int(rng.integers(len(names)))
    names[place] = [
        b"",
        b"x",
        names[0],
        names[-1],
        names[place].upper(),
        b" " + names[place],
    ][int(rng.integers(6))]
    return sep.join(names) + content[end:]


TEXT_ALTERATIONS: list[Callable[[bytes, bytes, Random], bytes]] = [
    alter_byte, insert_byte, delete_bytes, insert_quote, quote_two_cells, quote_with_break, quote_all, alter_separator,
    alter_line_ends, alter_some_line_ends, break_line, join_two_lines, repeat_line, repeat_row_under_another_id,
    drop_line, swap_lines, cut_file, append_filler, recode_file, add_letters, insert_control, lengthen_cell,
    start_with_formula, respell_labels, rewrite_number, rename_column,
]  # fmt: skip


# Alterations of parquet: each takes a frame and randomness, and returns the frame to
# write.
def set_cell(
    frame: pd.DataFrame, rng: Random, column: str, value: object
) -> pd.DataFrame:
    values = frame[column].astype("object").tolist()
    values[int(rng.integers(len(values)))] = value
    return frame.assign(**{column: values})


PARQUET_ALTERATIONS: dict[str, Callable[[pd.DataFrame, Random], pd.DataFrame]] = {
    "as it is": lambda frame, rng: frame,
    "id missing": lambda frame, rng: set_cell(frame, rng, "participant_id", None),
    "id empty": lambda frame, rng: set_cell(frame, rng, "participant_id", "  "),
    "id with line break": lambda frame, rng: set_cell(
        frame, rng, "participant_id", "a\nb"
    ),
    "id with control character": lambda frame, rng: set_cell(
        frame, rng, "participant_id", "a\x00b"
    ),
    "id as formula": lambda frame, rng: set_cell(frame, rng, "participant_id", "=1+1"),
    "id long": lambda frame, rng: set_cell(frame, rng, "participant_id", "x" * 5_000),
    "comment with line break": lambda frame, rng: set_cell(
        frame, rng, "comment", 'a\n"b'
    ),
    "rows repeated": lambda frame, rng: pd.concat(
        [frame, frame.sample(2, random_state=int(rng.integers(99)))]
    ),
    "rows dropped": lambda frame, rng: frame.sample(
        frac=0.8, random_state=int(rng.integers(99))
    ),
    "no rows": lambda frame, rng: frame[:0],
    "row empty": lambda frame, rng: pd.concat(
        [frame, pd.DataFrame([dict.fromkeys(frame)])], ignore_index=True
    ),
    "volume missing": lambda frame, rng: set_cell(frame, rng, "roi1", None).astype(
        {"roi1": float}
    ),
    "volume infinite": lambda frame, rng: set_cell(frame, rng, "roi1", np.inf).astype(
        {"roi1": float}
    ),
    "volume negative": lambda frame, rng: set_cell(frame, rng, "roi1", -1.0).astype(
        {"roi1": float}
    ),
    "label respelt": lambda frame, rng: set_cell(frame, rng, "group", "Control "),
    "sex respelt": lambda frame, rng: set_cell(frame, rng, "sex", "f"),
    "sex missing": lambda frame, rng: set_cell(frame, rng, "sex", None),
    "labels as categories": lambda frame, rng: frame.astype(
        {"group": "category", "sex": "category"}
    ),
    "half precision": lambda frame, rng: frame.astype({"roi1": np.float32}),
    "column missing": lambda frame, rng: frame.drop(
        columns=str(rng.choice(frame.columns[1:]))
    ),
    "columns in another order": lambda frame, rng: frame[
        rng.permutation(frame.columns)
    ],
    "volumes as text": lambda frame, rng: frame.assign(roi1=frame["roi1"].astype(str)),
    "ids as numbers": lambda frame, rng: frame.assign(
        participant_id=np.arange(len(frame)) + 10**16
    ),
}
