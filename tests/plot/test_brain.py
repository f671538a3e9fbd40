"""Brain pictures: regions are drawn in the colour of their effect, from installed files
alone.
"""

import base64
import io
import socket

import numpy as np
import pytest

pytest.importorskip("nilearn")

from rindices.plot import brain, geometry
from rindices.plot.geometry import OUTSIDE_BRAIN
from rindices.plot.views import render_views
from rindices.tables.layouts.muse import paper_codes, region_name

MUSE = tuple(region_name(code) for code in paper_codes())
WHITE = tuple(region_name(code) for code in range(81, 96))
_CORTEX = """
    bankssts caudalanteriorcingulate caudalmiddlefrontal cuneus entorhinal fusiform inferiorparietal inferiortemporal
    isthmuscingulate lateraloccipital lateralorbitofrontal lingual medialorbitofrontal middletemporal parahippocampal
    paracentral parsopercularis parsorbitalis parstriangularis pericalcarine postcentral posteriorcingulate precentral
    precuneus rostralanteriorcingulate rostralmiddlefrontal superiorfrontal superiorparietal superiortemporal
    supramarginal frontalpole temporalpole transversetemporal insula
"""
_DEEP = """
    Thalamus Caudate Putamen Pallidum Hippocampus Amygdala Accumbens-area VentralDC Cerebellum-Cortex
    Cerebellum-White-Matter
"""
DESIKAN = tuple(f"{side}h_{name}_volume" for side in "lr" for name in _CORTEX.split())
DEEP = tuple(f"{side}-{name}" for side in ("Left", "Right") for name in _DEEP.split())


def find_region_edges(labels: np.ndarray) -> np.ndarray:
    """Return the pixels whose right or lower neighbour belongs to another region."""
    edge = np.zeros(labels.shape, dtype=bool)
    edge[:, :-1] |= labels[:, :-1] != labels[:, 1:]
    edge[:-1] |= labels[:-1] != labels[1:]
    return edge


def test_all_of_muse_is_drawn_but_its_white_matter() -> None:
    assert brain.match_atlas(MUSE).undrawn_regions == WHITE


def test_all_of_desikan_killiany_is_drawn() -> None:
    match = brain.match_atlas((*DESIKAN, *DEEP, "Brain-Stem"))
    assert match.atlas is not None
    assert match.atlas.name == "desikan_killiany"
    assert match.undrawn_regions == ()


def test_all_of_destrieux_is_drawn(shared) -> None:  # type: ignore[no-untyped-def]
    header = (
        (shared / "fcon1000" / "fcon1000.csv").read_text().splitlines()[0].split(",")
    )
    cortex = tuple(
        name for name in header if name.endswith("_thickness") and "Mean" not in name
    )
    match = brain.match_atlas((*cortex, *DEEP))
    assert match.atlas is not None
    assert match.atlas.name == "destrieux"
    assert len(cortex) == 148
    assert match.undrawn_regions == ()


def test_colours_are_those_of_the_effects() -> None:
    match = brain.match_atlas(MUSE)
    assert match.atlas is not None
    values = np.linspace(-2, 2, len(match.atlas.structures))
    for view in (match.atlas.cortex[0], match.atlas.slices[2]):
        painted = brain.paint_view(view, values, 2.0)
        assert ((painted[..., 3] == 0) == (view.labels == OUTSIDE_BRAIN)).all()
        rng = np.random.default_rng(0)
        inner = np.argwhere((view.labels >= 0) & ~find_region_edges(view.labels))
        for row, column in rng.permutation(inner)[:200]:
            hue = brain.effects_to_rgb(values[[view.labels[row, column]]], 2.0)[0]
            light = painted[row, column, :3].max() / hue.max()
            np.testing.assert_allclose(painted[row, column, :3], hue * light, atol=1e-9)
            assert light > 0.5


def test_loss_is_red_gain_is_blue_none_is_white() -> None:
    loss, none, gain = brain.effects_to_rgb(np.array([-1.0, 0.0, 1.0]), 1.0)
    assert loss[0] > 2 * loss[2]
    assert gain[2] > 2 * gain[0]
    assert none.min() > 0.9


def test_pictures_need_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    for cached in (
        geometry.load_atlas,
        geometry.load_parcellation,
        geometry.label_cortex,
        geometry._load_image,
        geometry._read_codes,
    ):
        cached.cache_clear()
    match = brain.match_atlas(MUSE)
    views = render_views(match, dict.fromkeys(MUSE, -1.0), 2.0)
    assert len(views) == 10
    from PIL import Image

    image = Image.open(
        io.BytesIO(base64.b64decode(views[0].uri.partition("base64,")[2]))
    )
    assert image.size == (2 * views[0].width, 2 * views[0].height)


def test_unknown_regions_are_not_drawn() -> None:
    match = brain.match_atlas(("roi0", "roi1"))
    assert match.atlas is None
    assert render_views(match, {"roi0": 1.0, "roi1": 2.0}, 1.0) == []
