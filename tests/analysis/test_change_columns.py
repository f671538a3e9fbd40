"""Every column of change.tsv is described once per R-index."""

from rindices.analysis.change_models import describe_people_columns


def test_each_index_has_its_columns() -> None:
    columns = describe_people_columns(["r1", "r2"])
    endings = {name.removeprefix("r1_") for name in columns if name.startswith("r1_")}
    assert endings == {name.removeprefix("r2_") for name in columns if name.startswith("r2_")}
    assert "r2" in columns["r2_shrunken"]
