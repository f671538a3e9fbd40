"""How messages name a setting, what is wrong with its value, and settings that would
have no effect.

The same setting is an option of a command, a key of a study file, or an argument in
Python. A setting that would have no effect in the way in which a study is run is
refused: a study that ignores what it was told is another study.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rindices.errors import (
    UNUSUAL_OPTIONS,
    Problem,
    ProblemCode,
    Severity,
    StudyError,
    capitalise_first,
    did_you_mean,
    format_count,
    join_names,
)
from rindices.old_names import OLD_METHOD_NAMES, OLD_SETTINGS, OLD_SHAPES
from rindices.study.methods import (
    DEFAULT_METHOD,
    MEAN_DIFFERENCE,
    METHODS,
    SETTINGS_OF_SOME_METHODS,
)
from rindices.tables.table import NO_COLUMN

if TYPE_CHECKING:
    from rindices.study.config import DataConfig, StudyConfig

QUEUES = ("slurm", "pbs", "lsf", "sge")
"""Engines that are batch systems."""
METHODS_IN_PARTS = (DEFAULT_METHOD, MEAN_DIFFERENCE)
"""Methods that need sums over people alone, so that a table can be fitted in parts."""
_RANGE = re.compile(r"\s*(\d{1,2})\s*(?:-|:|\.\.+|to)\s*(\d{1,2})\s*")
_LISTS = {"patterns": (2, 3, 4), "orthogonality": (0.1, 0.2)}
"""Lists of numbers, with an example of each."""
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a text",
    "tuple": "a list",
    "model": "a table of settings",
    "dict": "a table of names and values",
}
"""What a value should be, by the first word of the type of pydantic's error."""


@dataclass(frozen=True)
class SettingSource:
    """Where the settings of a study come from.

    Parameters
    ----------
    where : str
        Name of the file, or of the function in Python; empty for a command without a
        study file.
    options : frozenset of str
        Names of the settings that are options of the command, such as ``patterns`` and
        ``max_steps``.
    is_python : bool
        Whether they are arguments of a function.
    """

    where: str = "study"
    options: frozenset[str] = frozenset()
    is_python: bool = False

    def name(self, section: str, key: str) -> str:
        """Return the name of a setting: ``--patterns``, ``patterns`` in Python, or
        ``model.patterns`` in a file.
        """
        if self.is_python:
            return key
        return make_option_name(key) if key in self.options else f"{section}.{key}"

    def write(self, key: str, value: object) -> str:
        """Return a setting with a value, as it is written in the place that the
        settings come from.
        """
        if not self.is_python and (not self.where or key in self.options):
            items = value if isinstance(value, tuple) else (value,)
            return f"{make_option_name(key)} {','.join(map(str, items))}"
        text = (
            f'"{value}"'
            if isinstance(value, str)
            else str(list(value) if isinstance(value, tuple) else value)
        )
        return f"{key}={text}" if self.is_python else f"{key} = {text}"


def make_option_name(key: str) -> str:
    """Return the option of a command for a setting."""
    return UNUSUAL_OPTIONS.get(key, f"--{key.replace('_', '-')}")


def rename_old_settings(
    model: Mapping[str, Any], source: SettingSource, say: Callable[[str], object]
) -> dict[str, Any]:
    """Return the section ``model`` of a study by today's names.

    The names of rindices 0.1.0 are read in this version, too; ``say`` is called once
    with their new names.
    """
    renamed, pairs = dict(model), []
    for old, new in OLD_SETTINGS.items():
        if old not in model:
            continue
        if new in model:
            before, now = source.name("model", old), source.name("model", new)
            what, cure = (
                f"both {now} and {before}, its old name, are given",
                f"Leave {before} out",
            )
            raise StudyError(
                Problem(
                    severity=Severity.ERROR,
                    what=what,
                    where=source.where,
                    cure=cure,
                    code=ProblemCode.WRONG_OPTION,
                    subject=old,
                )
            )
        renamed[new] = renamed.pop(old)
    method = renamed.get("method")
    if isinstance(method, str):
        renamed["method"] = OLD_METHOD_NAMES.get(method, method)
        if renamed["method"] in METHODS and (
            "recipe" in model or method in OLD_METHOD_NAMES
        ):
            old = "recipe" if "recipe" in model else "method"
            pairs.append(
                (source.write(old, method), source.write("method", renamed["method"]))
            )
    if "recipe_changes" in model:
        pairs.append(
            (
                source.name("model", "recipe_changes"),
                source.name("model", "method_settings"),
            )
        )
    changes = renamed.get("method_settings")
    if isinstance(changes, Mapping) and changes.get("shape") in OLD_SHAPES:
        new_shape = OLD_SHAPES[changes["shape"]]
        renamed["method_settings"] = {**changes, "shape": new_shape}
        pairs.append((f'shape = "{changes["shape"]}"', f'shape = "{new_shape}"'))
    if pairs:
        before, now = (" and ".join(names) for names in zip(*pairs, strict=True))
        where = f"{source.where}: " if source.where else ""
        say(f"{where}{before} {'is' if len(pairs) == 1 else 'are'} now {now}")
    return renamed


@dataclass(frozen=True, kw_only=True)
class _Unused:
    """A setting that would have no effect.

    Attributes
    ----------
    section : str
        Section of the study file.
    key : str
        Name of the setting.
    why : str
        Why it has no effect.
    instead : str
        What to do, beside leaving it out.
    """

    section: str
    key: str
    why: str
    instead: str = ""


def list_unused_settings(study: "StudyConfig", source: SettingSource) -> list[Problem]:
    """Return an error for each setting that a study names and that would have no
    effect.
    """
    rules = [
        _find_unused_by_method(study, source),
        _find_unused_by_engine(study, source),
        _find_unused_columns(study),
    ]
    rules += [find_unused_in_parts(study, source)] if study.run.in_parts else []
    found = {(each.section, each.key): each for rule in rules for each in rule}
    return [_describe_unused(each, source) for each in found.values()]


def _describe_unused(unused: _Unused, source: SettingSource) -> Problem:
    what = f"{source.name(unused.section, unused.key)} has no effect: {unused.why}"
    cure = f"Leave it out{', or ' if unused.instead else ''}{unused.instead}"
    return Problem(
        severity=Severity.ERROR,
        what=what,
        where=source.where,
        cure=cure,
        code=ProblemCode.WRONG_OPTION,
        subject=unused.key,
    )


def _find_unused_by_method(
    study: "StudyConfig", source: SettingSource
) -> Iterator[_Unused]:
    """Yield the settings that the method does not use."""
    model, method = study.model, study.model.get_method()
    named = {
        "orthogonality": model.orthogonality is not None,
        "correlated": model.correlated,
    }
    named |= {
        "reference": study.data.reference is not None,
        "visits": study.data.visits == "all",
    }
    for key in (
        key for key, is_named in named.items() if is_named and key not in method.uses
    ):
        section, meaning = SETTINGS_OF_SOME_METHODS[key]
        users = [name for name, each in METHODS.items() if key in each.uses]
        yield _Unused(
            section=section,
            key=key,
            why=f"the method {method.name} does not use {meaning}",
            instead=_use_method(users, source),
        )
    for key in (
        key for key in model.method_settings if key not in method.list_values()
    ):
        if users := [
            name for name, each in METHODS.items() if key in each.list_values()
        ]:
            why = f"the method {method.name} has no {key}"
            yield _Unused(
                section="model.method_settings",
                key=key,
                why=why,
                instead=_use_method(users, source),
            )
    if method.name == MEAN_DIFFERENCE and max(model.patterns or (1,)) > 1:
        yield _Unused(
            section="model",
            key="patterns",
            why=f"the method {method.name} has one index",
            instead="change the method",
        )


def _use_method(users: list[str], source: SettingSource) -> str:
    """Return the advice to use one of several methods."""
    others = "" if len(users) < 2 else f" (or {join_names(users[1:])})"
    return f"use {source.write('method', users[0])}{others}"


def _find_unused_by_engine(
    study: "StudyConfig", source: SettingSource
) -> Iterator[_Unused]:
    """Yield the settings that the engine does not use."""
    run = study.run
    if run.scheduler is not None and run.engine != "dask":
        add = f"add {source.write('engine', 'dask')}"
        yield _Unused(
            section="run",
            key="scheduler",
            why=f"the engine {run.engine} does not connect to a Dask scheduler",
            instead=add,
        )
    elif run.scheduler is not None and run.workers != -1:
        yield _Unused(
            section="run",
            key="workers",
            why="a running scheduler has its own workers",
            instead="leave the scheduler out",
        )
    if study.model.method == MEAN_DIFFERENCE and not run.in_parts:
        why = f"the method {MEAN_DIFFERENCE} is fitted in one process of this machine"
        if run.engine != "local":
            yield _Unused(
                section="run", key="engine", why=why, instead="change the method"
            )
        elif run.workers not in (-1, 1):
            yield _Unused(
                section="run", key="workers", why=why, instead="change the method"
            )


def _find_unused_columns(study: "StudyConfig") -> Iterator[_Unused]:
    """Yield the settings of the table that need another one."""
    data = study.data
    if data.participants_id is not None and data.participants is None:
        yield _Unused(
            section="data",
            key="participants_id",
            why="there is no table of participants",
            instead="name the table (--participants)",
        )
    if data.harmonise_to is not None and data.harmonise == "none":
        yield _Unused(
            section="data",
            key="harmonise_to",
            why="sites are not harmonised",
            instead="leave out harmonise",
        )
    has_no_covariates = data.covariates in ((), (NO_COLUMN,))
    if data.impute_covariates and has_no_covariates:
        yield _Unused(
            section="data",
            key="impute_covariates",
            why="there are no covariates",
            instead="name covariates",
        )
    if data.age_curve is not None and (has_no_covariates or data.adjust == "none"):
        yield _Unused(
            section="data",
            key="age_curve",
            why="nothing is adjusted for age",
            instead="adjust for it",
        )
    if data.icv_for == "all" and (has_no_covariates or data.adjust == "none"):
        yield _Unused(
            section="data",
            key="icv_for",
            why="nothing is adjusted for head size",
            instead="adjust for it",
        )


def _find_harmonised_parts(
    data: "DataConfig", source: SettingSource
) -> Iterator[_Unused]:
    """Yield the setting by which a table that is fitted in parts would be
    harmonised.
    """
    verb, key = "", ""
    if data.harmonise not in (None, "none"):
        verb, key = "set", "harmonise"
    elif data.harmonise is None and data.site not in (None, NO_COLUMN):
        verb, key = "add", "site"
    if key:
        yield _Unused(
            section="data",
            key=key,
            why="a table that is fitted in parts is not harmonised",
            instead=f"{verb} {source.write('harmonise', 'none')}",
        )


def find_unused_in_parts(
    study: "StudyConfig", source: SettingSource
) -> Iterator[_Unused]:
    """Yield the settings that a table that is fitted in parts cannot take."""
    data, model, run = study.data, study.model, study.run
    if run.engine in QUEUES:
        both = f"{source.write('engine', 'dask')} and {source.write('scheduler', 'ADDRESS')}"
        yield _Unused(
            section="run",
            key="engine",
            why="parts of a table are fitted by Dask workers",
            instead=f"start Dask workers in jobs of your own and set {both}",
        )
    yield from _find_harmonised_parts(data, source)
    settings = {
        "reference": ("takes no reference", data.reference is not None),
        "harmonise_to": ("is not harmonised", data.harmonise_to is not None),
        "visits": ("has one row a person", data.visits is not None),
        "impute_covariates": ("imputes no covariates", data.impute_covariates),
    }
    for key, (why, is_named) in settings.items():
        if is_named:
            yield _Unused(
                section="data", key=key, why=f"a table that is fitted in parts {why}"
            )
    if len(data.volumes) > 1:
        number = format_count(len(data.volumes), "table")
        yield _Unused(
            section="run",
            key="in_parts",
            why=f"{number} are joined in memory",
            instead="join them to one parquet file",
        )
    if model.method not in METHODS_IN_PARTS:
        users = _use_method(list(METHODS_IN_PARTS), source)
        yield _Unused(
            section="run",
            key="in_parts",
            why=f"the method {model.method} needs everyone in memory",
            instead=users,
        )


def describe_fault(
    fault: Mapping[str, Any], known: list[str], source: SettingSource
) -> Problem:
    """Return an error of pydantic about a value as a problem.

    fault: with its place, type and input; known: the names that may stand in its place.
    """
    section, *keys = map(str, fault["loc"])
    key, inner = next(iter(keys), ""), ".".join(keys)
    code = ProblemCode.WRONG_OPTION
    if fault["type"] == "extra_forbidden":
        place = ".".join((section, *keys))
        cure = capitalise_first(did_you_mean(str(fault["loc"][-1]), known))
        what, code = f"there is no '{place}' in a study", ProblemCode.UNKNOWN_OPTION
        return Problem(
            severity=Severity.ERROR, what=what, where=source.where, cure=cure, code=code
        )
    name = (
        source.name(section, key if key in (*_LISTS, *source.options) else inner)
        if keys
        else section
    )
    if fault["type"] == "missing":
        what = f"{name} is missing"
        example = '[data] with volumes = "dlmuse.csv"' if section == "data" else name
        return Problem(
            severity=Severity.ERROR,
            what=what,
            where=source.where,
            cure=f"Add {example}",
            code=code,
        )
    what, cure = _explain_value(fault), ""
    if key in _LISTS:
        cure = f"Give one or several: {source.write(key, _suggest_numbers(key, fault['input']))}"
    return Problem(
        severity=Severity.ERROR,
        what=f"{name}: {what}",
        where=source.where,
        cure=cure,
        code=code,
        subject=key,
    )


def _suggest_numbers(key: str, given: object) -> tuple[float, ...]:
    """Return numbers of a list: those of the range that a text means, else
    an example.
    """
    found = _RANGE.fullmatch(str(given)) if key == "patterns" else None
    numbers = tuple(range(int(found[1]), int(found[2]) + 1)) if found else ()
    return numbers if numbers and numbers[0] > 0 and len(numbers) <= 9 else _LISTS[key]


def _explain_value(fault: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, in plain words, and what to give instead."""
    kind, given, context = (
        str(fault["type"]),
        repr(fault["input"])[:60],
        fault.get("ctx", {}),
    )
    if kind == "value_error":  # of a validator here, which says what to do
        return str(fault["msg"]).removeprefix("Value error, ")
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", str(context.get("expected", "")))
        return f"{given} is not known: {did_you_mean(str(fault['input']), choices)}"
    if kind.startswith(("greater_than", "less_than")):
        (bound,) = (
            value for key, value in context.items() if key in ("ge", "gt", "le", "lt")
        )
        words = ("below", "more") if kind.startswith("greater") else ("above", "less")
        return f"{given} is {words[0]} {bound:g}: give {bound:g} or {words[1]}"
    noun = _KINDS.get(kind.partition("_")[0])
    return f"{given} is not {noun}" if noun else f"{fault['msg']} (given: {given})"
