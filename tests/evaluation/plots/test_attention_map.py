"""The attention heat map: text that can be read, whatever fonts are installed."""

from __future__ import annotations

import logging
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from nmt.base.errors import NmtError
from nmt.evaluation.plots import draw_attention

SRC = ["▁We", "▁are", "▁going", ".", "</s>"]  # S = 5
TGT = ["▁", "我们", "去", "。", "<0x0A>", "</s>", "$5$"]  # T = 7
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(len(SRC)), size=len(TGT))  # [T, S]


def texts(path):
    return [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_svg_keeps_every_token_as_text_with_fonts_for_mandarin(tmp_path, caplog):
    path = tmp_path / "attention.svg"
    with caplog.at_level(logging.DEBUG, logger="nmt"):
        draw_attention(WEIGHTS, SRC, TGT, path)
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


def test_source_tokens_are_slanted(tmp_path):
    draw_attention([[1.0, 0.0]], ["▁Donaudampfschifffahrt", "</s>"], ["</s>"], tmp_path / "attention.svg")
    assert "rotate(-55" in (tmp_path / "attention.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["attention.png", "attention"])
def test_other_suffixes_are_refused(tmp_path, name):
    with pytest.raises(NmtError, match=rf"{name}: plots are written as \.svg"):
        draw_attention(WEIGHTS, SRC, TGT, tmp_path / name)


def test_settings_and_logging_are_as_before(tmp_path):
    import matplotlib

    log = logging.getLogger("matplotlib.font_manager")
    before = (dict(matplotlib.rcParams), log.level)
    draw_attention(WEIGHTS, SRC, TGT, tmp_path / "attention.svg")
    assert (dict(matplotlib.rcParams), log.level) == before
