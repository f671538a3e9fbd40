"""Write the table of the 145 single MUSE regions: code, name, side, tissue, typical
volume.

Usage: ``python scripts/make_muse_table.py ../shared/data/ixi
src/rindices/tables/data/muse_regions.csv``

The tissue is checked: the composites 601 (grey matter) and 604 (white matter) of a
DLMUSE table must equal the sums of the regions of that tissue.
"""

import sys
from pathlib import Path

import numpy as np
import pandas as pd

VENTRICLES = {4, 11, 49, 50, 51, 52}
WHITE = {40, 41, 61, 62, *range(81, 96)}
BRAIN_STEM = {35}


def get_tissue(code: int) -> str:
    """Return the tissue class of a single region."""
    if code in VENTRICLES:
        return "ventricle"
    if code in WHITE:
        return "white matter"
    return "brain stem" if code in BRAIN_STEM else "grey matter"


def main(source: Path, target: Path) -> None:
    """Read the list of names and a table of volumes, and write the table of regions."""
    regions = pd.read_csv(source / "muse_single_rois.csv")
    regions["tissue"] = regions["Index"].map(get_tissue)
    regions["side"] = (
        regions["Name"].str.extract(r"_([LR])$")[0].map({"L": "left", "R": "right"})
    )
    volumes = pd.read_csv(source / "volumes.csv")
    for composite, name in (("601", "grey matter"), ("604", "white matter")):
        codes = regions.loc[regions["tissue"] == name, "Index"].astype(str)
        np.testing.assert_allclose(
            volumes[list(codes)].sum(axis=1), volumes[composite], rtol=1e-9
        )
    medians = volumes[[str(code) for code in regions["Index"]]].median().to_numpy()
    regions["typical_mm3"] = [f"{median:.2g}" for median in medians]
    regions["typical_mm3"] = regions["typical_mm3"].astype(float).astype(int)
    table = regions.rename(columns={"Index": "code", "Name": "name"})
    table = table[["code", "name", "side", "tissue", "typical_mm3"]]
    table["side"] = table["side"].fillna("middle")
    table.to_csv(target, index=False, lineterminator="\n")
    print(f"{len(table)} regions written to {target}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
