"""Shorthands for tests of reading."""

from pathlib import Path

import pandas as pd

from rindices.tables.readers import make_request
from rindices.tables.table import ColumnRoles
from rindices.tables.validation.validate import ValidationResult, validate_table


def look(volumes: object, participants: object = None, **asked: object) -> ValidationResult:
    roles = {name: asked.pop(name) for name in ("id", "session", "group", "site") if name in asked}
    covariates = tuple(asked.pop("covariates", ()))  # type: ignore[arg-type]
    request = make_request(volumes, participants, ColumnRoles(**roles, covariates=covariates), **asked)  # type: ignore[arg-type]
    return validate_table(request)


def write(frame: pd.DataFrame, path: Path, sep: str = ",") -> Path:
    frame.to_csv(path, sep=sep, index=False)
    return path


def texts(result: ValidationResult, severity: str | None = None) -> str:
    return "\n".join(str(p) for p in result.problems if severity in (None, str(p.severity)))
