"""The options for reading a table, each declared once.

The options of the command line and the section ``data`` of a study file are made from
`DataOptions`; the arguments of `rindices.read_cohort` are checked by `TableOptions`. An
option is added here, with its help, and as an argument of `rindices.read_cohort`.
The module imports nothing heavy, since the help of a command needs it.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from numbers import Real
from os import PathLike
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from rindices.errors import (
    Problem,
    ProblemCode,
    Severity,
    TableError,
    capitalise_first,
    did_you_mean,
)

TABLE, ADJUSTMENT = "Table", "Adjustment and sites"
"""Panels of the help of a command."""
_QUOTED = re.compile(r"'([^']*)'")


@dataclass(frozen=True)
class Option:
    """How the help of a command shows an option.

    Attributes
    ----------
    help : str
    word : str, optional
        Stands for the value.
    panel : str, optional
        Left out for what most people need, which comes first.
    """

    help: str
    word: str | None = None
    panel: str | None = None


def _list_texts(value: Any) -> Any:
    """Return a value, or several, as a list of texts where they are texts, paths or
    numbers.
    """
    if value is None:
        return ()
    is_single = isinstance(value, str | PathLike) or not isinstance(value, Iterable)
    items = [value] if is_single else list(value)
    return [str(item) if isinstance(item, Real | PathLike) else item for item in items]


def _list_texts_if_given(value: Any) -> Any:
    return None if value is None else _list_texts(value)


Texts = Annotated[tuple[str, ...], BeforeValidator(_list_texts)]
"""Texts, where a single one may be given alone."""
OptionalTexts = Annotated[tuple[str, ...] | None, BeforeValidator(_list_texts_if_given)]


class TableOptions(BaseModel):
    """The options for reading a table. See `rindices.read_cohort`.

    `rindices.read_cohort` takes all of them but ``on_outlier``.

    Attributes
    ----------
    group : str or None
        Column that tells controls from patients.
    controls : Texts
        Labels of the controls.
    patients : Texts
        Labels of the patients. ``*`` means everyone else.
    covariates : OptionalTexts
        Covariates to adjust for. By default age, sex and head size.
    site : str or None
        Column of the site or scanner. By default, one with a usual name.
    id : str or None
        Column of the IDs, or several to join.
    participants_id : str or None
        Column of the IDs in the table of participants.
    session : str or None
        Column of the session.
    exclude : Texts
        Regions to leave out.
    exclude_people : Texts
        IDs of people to leave out, or a .txt file of them.
    include : Texts
        ``ventricles``, or columns that are left out otherwise.
    measure : {'volume', 'thickness', 'area', 'any', 'all'} or None
        Use only volume, thickness or area, or any other features.
    missing_codes : Texts
        Values that stand for missing.
    on_missing : {'model', 'drop', 'error'}
        What to do with people who lack regions.
    on_outlier : {'model', 'keep', 'error'} or None
        What to do with outlying measurements.
    on_suspect : {'error', 'keep'}
        What to do with sites or rows that look wrong as a whole.
    impute_covariates : bool
        Whether missing covariates are imputed from controls.
    leave_out_sites : Texts
        Sites whose people are left out.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Annotated[
        str | None, Option("Column that tells controls from patients.", "COLUMN")
    ] = None
    controls: Annotated[Texts, Option("Label(s) of the controls.", "LABELS")] = ()
    patients: Annotated[
        Texts, Option("Label(s) of the patients; * for everyone else.", "LABELS")
    ] = ()
    covariates: Annotated[
        OptionalTexts,
        Option("To adjust for; none for none; by default age, sex and icv.", "COLUMNS"),
    ] = None
    site: Annotated[
        str | None,
        Option("Site or scanner; none for none; by default a usual one.", "COLUMN"),
    ] = None
    id: Annotated[
        str | None, Option("Ids, if unusual, or several to join: a,b.", "COLUMN", TABLE)
    ] = None
    participants_id: Annotated[
        str | None, Option("Ids in the participants, if unusual.", "COLUMN", TABLE)
    ] = None
    session: Annotated[str | None, Option("Session, if unusual.", "COLUMN", TABLE)] = (
        None
    )
    exclude: Annotated[Texts, Option("Regions to leave out.", "COLUMNS", TABLE)] = ()
    exclude_people: Annotated[
        Texts,
        Option("People to leave out, or a .txt file with an ID a line.", "IDS", TABLE),
    ] = ()
    include: Annotated[
        Texts,
        Option("ventricles, or columns that are left out otherwise.", "COLUMNS", TABLE),
    ] = ()
    measure: Annotated[
        Literal["volume", "thickness", "area", "any", "all"] | None,
        Option(
            "volume, thickness or area alone; any for other features.", "KIND", TABLE
        ),
    ] = None
    missing_codes: Annotated[
        Texts,
        Option("Values for missing, e.g. -9999,-4; none for none.", "CODES", TABLE),
    ] = ()
    on_missing: Annotated[
        Literal["model", "drop", "error"],
        Option(
            "Who lacks regions: model uses the others, drop, or error.", "HOW", TABLE
        ),
    ] = "model"
    on_outlier: Annotated[
        Literal["model", "keep", "error"] | None,
        Option(
            "Cells that do not fit a person's others: model, keep, error.", "HOW", TABLE
        ),
    ] = None
    on_suspect: Annotated[
        Literal["error", "keep"],
        Option(
            "Sites or rows that look wrong as a whole: error, or keep.", "HOW", TABLE
        ),
    ] = "error"
    impute_covariates: Annotated[
        bool, Option("Impute missing covariates from controls.", None, TABLE)
    ] = False
    leave_out_sites: Annotated[
        Texts, Option("Site(s) whose people are left out.", "NAME", ADJUSTMENT)
    ] = ()


class DataOptions(TableOptions):
    """The options of the section ``data`` of a study: how its table is read and
    adjusted.

    Attributes
    ----------
    participants : str or None
        Table of the participants, joined by ID.
    harmonise : {'controls', 'all', 'none'} or None
        People from whom site effects are learnt.
    harmonise_to : str or None
        Site whose scale is kept.
    adjust : {'log', 'linear', 'none'} or None
        Scale of the adjustment.
    age_curve : {'auto'} or None
        Whether age may be a curve, where held-out controls are more likely under it.
    icv_for : {'volume', 'all'}
        Measures adjusted for head size.
    reference : str or None
        Healthy people of the same program.
    visits : {'first', 'mean', 'all'} or None
        What is learnt from repeat visits.
    """

    participants: Annotated[
        str | None, Option("Who the people are, joined by id.", "TABLE")
    ] = None
    harmonise: Annotated[
        Literal["controls", "all", "none"] | None,
        Option("Learn what sites do from controls, all or none.", "WHO", ADJUSTMENT),
    ] = None
    harmonise_to: Annotated[
        str | None,
        Option("Bring all sites to the scale of this one.", "SITE", ADJUSTMENT),
    ] = None
    adjust: Annotated[
        Literal["log", "linear", "none"] | None,
        Option("Adjust on the log or linear scale, or none.", "SCALE", ADJUSTMENT),
    ] = None
    age_curve: Annotated[
        Literal["auto"] | None,
        Option("Age along a curve where controls say so.", "auto", ADJUSTMENT),
    ] = None
    icv_for: Annotated[
        Literal["volume", "all"],
        Option(
            "Measures adjusted for head size beside thickness.",
            "volume|all",
            ADJUSTMENT,
        ),
    ] = "volume"
    reference: Annotated[
        str | None,
        Option("Healthy people of the same program.", "TABLE|FILE|muse", ADJUSTMENT),
    ] = None
    visits: Annotated[
        Literal["first", "mean", "all"] | None,
        Option(
            "Learn from first visits, mean, or all with change.",
            "first|mean|all",
            ADJUSTMENT,
        ),
    ] = None


def list_options() -> dict[str, Option]:
    """Return the options of a study's table by their names, in the order of the help
    of a command.
    """
    options = {
        name: each
        for name, field in DataOptions.model_fields.items()
        for each in field.metadata
        if isinstance(each, Option)
    }
    return {"participants": options.pop("participants"), **options}


def takes_several(name: str) -> bool:
    """Return whether an option takes several values."""
    kind = DataOptions.model_fields[name].annotation
    return any(get_origin(each) is tuple for each in (kind, *get_args(kind)))


def make_options(**arguments: Any) -> TableOptions:
    """Return the options that were given as arguments in Python, or raise a
    `TableError` that says what is wrong with them.
    """
    try:
        return TableOptions(**arguments)
    except ValidationError as error:
        problems = [_explain_argument(fault) for fault in error.errors()]
        raise TableError(dict.fromkeys(problems)) from error


def _explain_argument(fault: Mapping[str, Any]) -> Problem:
    """Return an error of pydantic about an argument as a problem."""
    name, given, kind = str(fault["loc"][0]), fault["input"], fault["type"]
    code, what = ProblemCode.WRONG_OPTION, f"{name} is {given!r}"
    if kind == "literal_error":
        choices = _QUOTED.findall(str(fault["ctx"]["expected"]))
        what, code = f"{name} = '{given}' is not known", ProblemCode.UNKNOWN_OPTION
        cure = capitalise_first(did_you_mean(str(given), choices))
    elif kind.startswith("bool"):
        what, cure = f"{what}, not True or False", f"Give {name}=True"
    elif len(fault["loc"]) > 1 or kind.startswith("tuple"):
        what, cure = f"{name} holds {given!r}, not a text", f'Give {name}=["NAME"]'
    else:
        is_one = isinstance(given, list | tuple) and len(given) == 1
        name_of_one = f'Give {name}="{given[0]}"' if is_one else ""
        what = f"{what}, not the name of a column"
        cure = name_of_one or f'Give the name of one column: {name}="NAME"'
    return Problem(
        severity=Severity.ERROR, what=what, where="", cure=cure, code=code, subject=name
    )
