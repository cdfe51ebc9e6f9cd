"""The grid of heads and the table of positions: whole pictures, or one message."""

from __future__ import annotations

import xml.etree.ElementTree as ET

import numpy as np
import pytest
import torch

from nmt.base.errors import NmtError
from nmt.evaluation.plots import draw_attention, draw_curves, draw_heads, draw_positions
from nmt.model.positions import sinusoidal_positions

SRC = ["▁We", "▁are", "▁here", ".", "</s>"]
TGT = ["我们", "在", "这里", "。", "\n", "$5$", "</s>"]
L, H = 2, 3
WEIGHTS = np.random.default_rng(1).dirichlet(np.ones(len(SRC)), size=(L, H, len(TGT)))  # [L, H, T, S]


def texts(path):
    return [element.text for element in ET.parse(path).iter("{http://www.w3.org/2000/svg}text")]


def test_every_layer_and_head_has_its_map_and_tokens_stand_at_the_sides(tmp_path):
    path = tmp_path / "heads.svg"
    draw_heads(torch.from_numpy(WEIGHTS), SRC, TGT, path, title="$a$ title")
    shown = texts(path)
    assert {f"layer {i}" for i in range(L)} | {f"head {i}" for i in range(H)} <= set(shown)
    assert all(shown.count(token) == H for token in SRC[:-1])  # above each map of the first row
    assert all(shown.count(token) == L for token in ["我们", "$5$", "\\n"])  # beside each map of the first column
    assert "$a$ title" in shown


def test_the_same_heads_give_the_same_bytes(tmp_path):
    paths = [tmp_path / name for name in ("a.svg", "b.svg")]
    for path in paths:
        draw_heads(WEIGHTS, SRC, TGT, path)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[0], "attention weights of shape [3, 7, 5] for 7 target and 5 source tokens"),
        (WEIGHTS[:, :, :4], "attention weights of shape [2, 3, 4, 5] for 7 target and 5 source tokens"),
        (np.full_like(WEIGHTS, np.nan), "the attention weights are not all finite (nan, inf)"),
        (np.zeros((300, 1, 7, 5)), "300 layers with 1 heads are too many for one plot"),
    ],
)
def test_weights_that_cannot_be_drawn_are_refused(tmp_path, weights, message):
    with pytest.raises(NmtError) as error:
        draw_heads(weights, SRC, TGT, tmp_path / "heads.svg")
    assert str(error.value).startswith(message)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["positions.svg", "positions.png"])
def test_positions_are_drawn(tmp_path, name):
    draw_positions(sinusoidal_positions(60, 32), tmp_path / name)
    assert (tmp_path / name).stat().st_size > 5_000
    if name.endswith("svg"):
        assert {"values", "dimension 6", "position 30", "distance"} <= set(texts(tmp_path / name))


@pytest.mark.parametrize("table", [np.ones(5), np.ones((1, 5)), np.full((4, 4), np.inf)])
def test_a_table_that_cannot_be_drawn_is_refused(tmp_path, table):
    with pytest.raises(NmtError, match="a table of positions of shape"):
        draw_positions(table, tmp_path / "positions.svg")


def test_pictures_take_their_path_as_a_string_too(tmp_path):
    draw_positions(sinusoidal_positions(8, 6), str(tmp_path / "positions.svg"))
    draw_heads(WEIGHTS, SRC, TGT, str(tmp_path / "heads.svg"))
    draw_attention(WEIGHTS[0, 0], SRC, TGT, str(tmp_path / "attention.svg"))
    draw_curves([{"kind": "train", "update": 1, "loss": 2.0}], str(tmp_path / "curves.svg"))
    assert len(list(tmp_path.iterdir())) == 4
    with pytest.raises(NmtError, match=r"x\.pdf: plots are written as \.svg or \.png"):
        draw_positions(sinusoidal_positions(8, 6), "x.pdf")
