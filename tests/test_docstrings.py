"""What is exported is documented by numpydoc's own rules."""

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum

import numpydoc.validate
import pytest

import rindices
from rindices import analysis, datasets, plot

CHECKS = {
    *("GL03", "GL05", "GL06", "GL07", "GL08", "GL10"),  # sections
    *("SS02", "SS03"),  # the summary
    *("PR01", "PR02", "PR03", "PR04", "PR05", "PR06", "PR07", "PR08", "PR09", "PR10"),
    *("RT01", "RT02", "RT03", "RT04", "RT05", "YD01"),
}


def list_exported_names() -> Iterator[str]:
    """Yield exported functions and classes, and public methods of the classes."""
    names = [f"rindices.{name}" for name in rindices.__all__]
    for module in (analysis, plot):
        names += [f"{module.__name__}.{name}" for name in module.__all__]
    names += [
        f"rindices.datasets.{name}"
        for name, value in vars(datasets).items()
        if inspect.isfunction(value)
        and value.__module__ == datasets.__name__
        and name[0] != "_"
    ]
    for name in sorted(names):
        module, _, last = name.rpartition(".")
        value = getattr(inspect.importlib.import_module(module), last)
        if not inspect.isclass(value) and not inspect.isfunction(value):
            continue
        yield name
        if inspect.isclass(value):
            for method, member in vars(value).items():
                is_method = inspect.isfunction(getattr(member, "__func__", member))
                if method[0] != "_" and is_method:
                    yield f"{name}.{method}"


@pytest.mark.parametrize("name", list(list_exported_names()))
def test_an_exported_name_is_documented(name: str) -> None:
    found = numpydoc.validate.validate(name)
    faults = [each for each in found["errors"] if each[0] in CHECKS]
    value = numpydoc.validate.Validator._load_obj(name)
    if inspect.isclass(value) and issubclass(value, Enum):
        faults = []  # its constructor is not for users
    elif is_dataclass(value):  # the parameters are the attributes
        faults = [each for each in faults if each[0] != "PR01"]
        attributes = re.search(
            r"Attributes\n-+\n(.*)", inspect.getdoc(value) or "", re.S
        )
        assert attributes is not None
        lines = re.findall(r"(?m)^(\w.*?) : ", attributes.group(1))
        named = {each.strip() for line in lines for each in line.split(",")}
        assert {each.name for each in fields(value)} <= named
    assert faults == []
