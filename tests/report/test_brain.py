"""Pictures: every region where it belongs, in the colour of its effect, from nothing but installed files."""

import base64
import io
import socket

import numpy as np
import pytest

pytest.importorskip("nilearn")

from rindices.report import brain, geometry
from rindices.report.geometry import OUTSIDE_BRAIN, load_atlas
from rindices.report.region_names import (
    BrainStructure,
    format_region_name,
    label_regions,
    locate_regions,
    parse_region_name,
)
from rindices.tables.layout.muse import paper_codes, region_name, single_regions

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


def test_all_of_muse_is_drawn_but_its_white_matter() -> None:
    assert brain.match_atlas(MUSE).undrawn_regions == WHITE


def test_all_of_desikan_killiany_is_drawn() -> None:
    board = brain.match_atlas((*DESIKAN, *DEEP, "Brain-Stem"))
    assert board.atlas is not None
    assert board.atlas.name == "desikan_killiany"
    assert board.undrawn_regions == ()


def test_all_of_destrieux_is_drawn(shared) -> None:  # type: ignore[no-untyped-def]
    header = (shared / "fcon1000" / "fcon1000.csv").read_text().splitlines()[0].split(",")
    cortex = tuple(name for name in header if name.endswith("_thickness") and "Mean" not in name)
    board = brain.match_atlas((*cortex, *DEEP))
    assert board.atlas is not None
    assert board.atlas.name == "destrieux"
    assert len(cortex) == 148
    assert board.undrawn_regions == ()


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("lh_bankssts_volume", BrainStructure("left", "bankssts")),
        ("ctx-rh-bankssts", BrainStructure("right", "bankssts")),
        ("R_bankssts_thickavg", BrainStructure("right", "bankssts")),
        ("Left-Thalamus-Proper", BrainStructure("left", "thalamus")),
        ("left thalamus", BrainStructure("left", "thalamus")),
        ("Rthal", BrainStructure("right", "thalamus")),
        ("Brain-Stem", BrainStructure("middle", "brainstem")),
        ("lh_G&S_cingul-Ant_thickness", parse_region_name("ctx_lh_G_and_S_cingul-Ant")),
    ],
)
def test_names_of_all_tables_come_to_one_place(name: str, where: BrainStructure) -> None:
    assert parse_region_name(name) == where


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("MUSE_48", "hippocampus, left"),
        ("MUSE_81", "frontal WM, right"),
        ("Left-Hippocampus", "hippocampus, left"),
        ("rh_caudalanteriorcingulate_volume", "caudal anterior cingulate, right"),
        ("lh_S_front_inf_thickness", "sulcus frontal inferior, left"),
        ("Lhippo", "hippocampus, left"),
        ("region7", "region7"),
    ],
)
def test_names_for_readers(name: str, said: str) -> None:
    assert format_region_name(name) == said


def test_a_place_measured_twice_is_drawn_once_and_named_apart() -> None:
    both = ("lh_insula_thickness", "lh_insula_volume")
    assert locate_regions(both) == {"lh_insula_volume": BrainStructure("left", "insula")}
    assert label_regions(both) == {both[0]: "insula, left (thickness)", both[1]: "insula, left (volume)"}


@pytest.mark.parametrize("name", ["muse", "desikan_killiany", "destrieux"])
def test_left_is_left(name: str) -> None:
    found = load_atlas(name)
    sides = np.array([where.side for where in found.places])
    for view in found.cortex:
        seen = np.unique(view.places[view.places >= 0])
        assert set(sides[seen]) == {view.name.split()[0]}
    for view in found.slices[:5]:
        inside = view.places >= 0
        columns = np.nonzero(inside)[1]
        own = sides[view.places[inside]]
        assert columns[own == "left"].max() <= columns[own == "right"].min() + 30
        assert columns[own == "left"].mean() < columns[own == "right"].mean()


def test_nearest_voxels_lie_where_surface_labels_do() -> None:
    """MUSE is brought to the surface through its volume; Desikan-Killiany has labels of its own there."""
    muse, desikan = load_atlas("muse"), load_atlas("desikan_killiany")
    codes = {region.label: code for code, region in single_regions().items()}
    for label, other in (("PrecentralGyrus_L", "precentral"), ("CalcarineCortex_L", "pericalcarine")):
        one = muse.places.index(BrainStructure("left", f"muse{codes[label]}"))
        two = desikan.places.index(BrainStructure("left", other))
        first = np.concatenate([(view.places == one).ravel() for view in muse.cortex[:2]])
        second = np.concatenate([(view.places == two).ravel() for view in desikan.cortex[:2]])
        assert 2 * (first & second).sum() / (first.sum() + second.sum()) > 0.5  # Dice


def test_colours_are_those_of_the_effects() -> None:
    board = brain.match_atlas(MUSE)
    assert board.atlas is not None
    values = np.linspace(-2, 2, len(board.atlas.places))
    for view in (board.atlas.cortex[0], board.atlas.slices[2]):
        painted = brain.paint_view(view, values, 2.0)
        assert ((painted[..., 3] == 0) == (view.places == OUTSIDE_BRAIN)).all()
        rng = np.random.default_rng(0)
        inner = np.argwhere((view.places >= 0) & ~brain._find_region_edges(view.places))
        for row, column in rng.permutation(inner)[:200]:
            hue = brain.effects_to_rgb(values[[view.places[row, column]]], 2.0)[0]
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
        geometry._load_label_volume,
        geometry._load_template,
        geometry._read_freesurfer_codes,
    ):
        cached.cache_clear()
    board = brain.match_atlas(MUSE)
    views = brain.render_views(board, dict.fromkeys(MUSE, -1.0), 2.0)
    assert len(views) == 10
    from PIL import Image

    image = Image.open(io.BytesIO(base64.b64decode(views[0].uri.partition("base64,")[2])))
    assert image.size == (2 * views[0].width, 2 * views[0].height)


def test_unknown_regions_are_not_drawn() -> None:
    board = brain.match_atlas(("roi0", "roi1"))
    assert board.atlas is None
    assert brain.render_views(board, {"roi0": 1.0, "roi1": 2.0}, 1.0) == []
