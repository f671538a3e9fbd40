"""Text of any usual encoding as UTF-8."""

from rindices.errors import Findings, ProblemCode

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_UTF8_MARK = b"\xef\xbb\xbf"


def detect_encoding(head: bytes) -> str:
    """Return ``utf-16`` for a text that begins with its mark, else ``utf-8``."""
    return "utf-16" if head.startswith(_UTF16_MARKS) else "utf-8"


def to_utf8(content: bytes, encoding: str, where: str, findings: Findings) -> tuple[bytes, list[int]]:
    """Return a text as UTF-8.

    A line that is not UTF-8 is read as Latin-1. This is decided line by line, so that the result does not depend on the
    chunks in which a file is read.

    Parameters
    ----------
    content : bytes
    encoding : {'utf-8', 'utf-16'}
    where : str
        The file, for messages.
    findings : Findings
        Takes the error for a text that is not UTF-16.

    Returns
    -------
    content : bytes
    other_lines : list of int
        Indices of the lines that were read as Latin-1.
    """
    if encoding == "utf-16":
        try:
            return content.decode("utf-16").encode(), []
        except UnicodeError:
            what = "the file begins as UTF-16 and has other bytes later, or was cut"
            findings.fatal(ProblemCode.FILE_UNREADABLE, what, where, "Save it as UTF-8")
    content = content.removeprefix(_UTF8_MARK)
    if _is_utf8(content):
        return content, []
    lines = content.splitlines(keepends=True)
    other_lines = [index for index, line in enumerate(lines) if not _is_utf8(line)]
    for index in other_lines:
        lines[index] = lines[index].decode("latin-1").encode()
    return b"".join(lines), other_lines


def _is_utf8(content: bytes) -> bool:
    try:
        content.isascii() or content.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
