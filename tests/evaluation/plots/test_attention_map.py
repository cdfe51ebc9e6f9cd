"""The attention heat map: text that can be read, in both formats, whatever fonts are installed."""

from __future__ import annotations

import logging
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from nmt.base.errors import NmtError
from nmt.evaluation.plots import draw_attention, drawing

SRC = ["▁We", "▁are", "▁going", ".", "</s>"]  # S = 5
TGT = ["▁", "我们", "去", "。", "<0x0A>", "</s>", "$5$"]  # T = 7
LATIN = ["▁Zwei", "▁Männer", "</s>"]
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(len(SRC)), size=len(TGT))  # [T, S]
PNG = b"\x89PNG"


def texts(path):
    return [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


@pytest.fixture
def han_font(tmp_path, monkeypatch):
    """A font with box-shaped glyphs for the Mandarin of TGT, known to matplotlib for one test."""
    from fontTools.fontBuilder import FontBuilder
    from fontTools.pens.ttGlyphPen import TTGlyphPen
    from matplotlib.font_manager import FontEntry, fontManager

    def box():
        pen = TTGlyphPen(None)
        pen.moveTo((100, 0))
        for corner in ((100, 800), (900, 800), (900, 0)):
            pen.lineTo(corner)
        pen.closePath()
        return pen.glyph()

    names = {ord(c): f"uni{ord(c):04X}" for c in "我们去。"}
    builder = FontBuilder(1000)
    builder.setupGlyphOrder([".notdef", *names.values()])
    builder.setupCharacterMap(names)
    builder.setupGlyf({name: box() for name in [".notdef", *names.values()]})
    builder.setupHorizontalMetrics(dict.fromkeys([".notdef", *names.values()], (1000, 100)))
    builder.setupHorizontalHeader(ascent=880, descent=-120)
    builder.setupNameTable({"familyName": "Han For Tests", "styleName": "Regular"})
    builder.setupOS2()
    builder.setupPost()
    path = tmp_path / "han.ttf"
    builder.save(path)
    entry = FontEntry(
        fname=str(path), name="Han For Tests", style="normal", weight=400, stretch="normal", size="scalable"
    )
    monkeypatch.setattr(fontManager, "ttflist", [*fontManager.ttflist, entry])
    return "Han For Tests"


def only(monkeypatch, *families):
    """Let the test find these fonts and no others, whatever the machine has."""
    monkeypatch.setattr(drawing, "installed_families", lambda: list(families))
    monkeypatch.setattr(drawing, "_find_new_fonts", lambda: None)


def test_svg_keeps_every_token_as_text_with_fonts_for_mandarin(tmp_path, caplog):
    path = tmp_path / "attention.svg"
    with caplog.at_level(logging.DEBUG, logger="nmt"):
        assert draw_attention(WEIGHTS, SRC, TGT, path) == []
    shown = texts(path)
    assert shown[: len(SRC + TGT)] == SRC + TGT
    for family in ("sans-serif", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"):
        assert family in path.read_text(encoding="utf-8")
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


def test_source_tokens_run_along_the_top_and_target_tokens_down_the_side(tmp_path):
    draw_attention(WEIGHTS, SRC, TGT, tmp_path / "attention.svg")
    elements = list(ET.parse(tmp_path / "attention.svg").iter("{http://www.w3.org/2000/svg}text"))
    at = [(float(element.get("x")), float(element.get("y"))) for element in elements]
    src, tgt = at[: len(SRC)], at[len(SRC) : len(SRC + TGT)]
    assert [x for x, _ in src] == sorted({x for x, _ in src})
    assert [y for _, y in tgt] == sorted({y for _, y in tgt})
    assert max(y for _, y in src) < min(y for _, y in tgt)
    assert max(x for x, _ in tgt) < min(x for x, _ in src)


def test_each_weight_is_drawn_in_its_own_cell(tmp_path, monkeypatch):
    drawn = []
    from matplotlib.axes import Axes

    pcolormesh = Axes.pcolormesh
    monkeypatch.setattr(Axes, "pcolormesh", lambda self, *a, **k: drawn.append(a[0]) or pcolormesh(self, *a, **k))
    draw_attention(WEIGHTS.tolist(), SRC, TGT, tmp_path / "attention.svg")
    np.testing.assert_array_equal(drawn[0], WEIGHTS)


def test_characters_without_a_shape_are_spelt_out(tmp_path):
    draw_attention([[0.25, 0.75]], ["a\u200bb", "\n"], ["x\ty"], tmp_path / "attention.svg")
    assert texts(tmp_path / "attention.svg")[:3] == ["a\\u200bb", "\\n", "x\\ty"]


def test_long_source_tokens_are_slanted(tmp_path):
    draw_attention([[1.0, 0.0]], ["▁Donaudampfschifffahrt", "</s>"], ["</s>"], tmp_path / "attention.svg")
    assert "rotate(-55" in (tmp_path / "attention.svg").read_text(encoding="utf-8")


def test_png_is_written_where_a_font_has_every_character(tmp_path, monkeypatch):
    only(monkeypatch, "DejaVu Sans")
    assert draw_attention(np.eye(3), LATIN, LATIN, tmp_path / "attention.png") == []
    assert (tmp_path / "attention.png").read_bytes().startswith(PNG)


def test_png_takes_a_second_font_for_what_the_first_lacks(tmp_path, monkeypatch, han_font):
    only(monkeypatch, "DejaVu Sans", "DejaVu Serif", han_font)
    assert drawing.families_covering([*SRC, *TGT]) == ["DejaVu Sans", han_font]
    draw_attention(WEIGHTS, SRC, TGT, tmp_path / "attention.png")
    assert (tmp_path / "attention.png").read_bytes().startswith(PNG)


def test_png_is_refused_where_no_font_has_the_characters(tmp_path, monkeypatch):
    only(monkeypatch, "DejaVu Sans", "DejaVu Serif")
    with pytest.raises(NmtError, match=r"no installed font has these characters: 。 们 去 我\n.*\.svg.*Noto Sans CJK"):
        draw_attention(WEIGHTS, SRC, TGT, tmp_path / "attention.png")
    assert not list(tmp_path.iterdir())


def test_fonts_that_only_claim_to_have_characters_are_not_chosen():
    assert "DejaVu Sans" in drawing.installed_families()
    assert not [name for name in drawing.installed_families() if name.startswith(("Last Resort", "STIX", "cm"))]


def test_a_font_installed_since_matplotlib_made_its_list_is_found(han_font, monkeypatch):
    from matplotlib import font_manager

    manager = font_manager.fontManager
    path = manager.ttflist[-1].fname
    monkeypatch.setattr(manager, "ttflist", manager.ttflist[:-1])
    monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [path])
    monkeypatch.setattr(drawing, "PREFERRED_FONTS", ("DejaVu Sans", han_font))
    assert drawing.families_covering(["我们a"]) == ["DejaVu Sans", han_font]


def test_many_tokens_warn_of_small_labels(tmp_path):
    tokens = ["x"] * 251
    (warning,) = draw_attention(np.ones((1, 251)), tokens, ["y"], tmp_path / "attention.svg")
    assert "251 tokens" in warning


@pytest.mark.parametrize("name", ["attention.pdf", "attention"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(NmtError, match=rf"{name}: plots are written as \.svg or \.png"):
        draw_attention(WEIGHTS, SRC, TGT, tmp_path / name)


@pytest.mark.parametrize(
    ("weights", "fault"),
    [(WEIGHTS.T, r"shape \[5, 7\] for 7 target and 5 source"), (np.full((7, 5), np.nan), "not all finite")],
)
def test_weights_that_do_not_fit_are_refused(tmp_path, weights, fault):
    with pytest.raises(NmtError, match=fault):
        draw_attention(weights, SRC, TGT, tmp_path / "attention.svg")


def test_settings_and_logging_are_as_before(tmp_path):
    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    before = (dict(matplotlib.rcParams), log.level)
    draw_attention(WEIGHTS, SRC, TGT, tmp_path / "attention.svg")
    assert (dict(matplotlib.rcParams), log.level) == before
