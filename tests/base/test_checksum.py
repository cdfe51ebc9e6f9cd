"""A weights file tells by itself whether it is whole."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file

from nmt.artifacts.checkpoint import read_weights, save_weights
from nmt.base.checksum import find_corruption, tensor_shapes
from nmt.base.errors import RunError


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / "w.safetensors"
    save_weights(path, {"a": torch.arange(15.0).view(3, 5), "b": torch.ones(7)})
    return path


def test_a_saved_file_is_whole_and_any_safetensors_reader_reads_it(weights):
    assert find_corruption(weights) == ""
    with safe_open(weights, framework="pt") as file:
        assert torch.equal(file.get_tensor("a"), torch.arange(15.0).view(3, 5))
    assert torch.equal(read_weights(weights)["b"], torch.ones(7))


def test_the_same_weights_give_the_same_bytes(weights, tmp_path):
    save_weights(tmp_path / "again", {"b": torch.ones(7), "a": torch.arange(15.0).view(3, 5)})
    assert (tmp_path / "again").read_bytes() == weights.read_bytes()


def test_a_flipped_bit_anywhere_is_found(weights):
    whole = weights.read_bytes()
    for at in range(len(whole)):
        for bit in (1, 128):
            weights.write_bytes(whole[:at] + bytes([whole[at] ^ bit]) + whole[at + 1 :])
            assert find_corruption(weights).startswith("damaged"), at


def test_a_file_cut_short_anywhere_is_found(weights):
    whole = weights.read_bytes()
    for length in range(len(whole)):
        weights.write_bytes(whole[:length])
        assert find_corruption(weights).startswith("damaged"), length
    weights.unlink()
    assert find_corruption(weights) == "missing"


def test_a_file_without_a_checksum_is_damaged(tmp_path):
    save_file({"a": torch.ones(7)}, tmp_path / "a.safetensors")
    assert find_corruption(tmp_path / "a.safetensors") == "damaged: there is no checksum"


def test_a_header_with_a_number_too_large_is_damaged(tmp_path):
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1e400]}}'
    (tmp_path / "a").write_bytes(len(header).to_bytes(8, "little") + header)
    assert find_corruption(tmp_path / "a") == "damaged: the header is not readable"


def test_a_damaged_file_is_named(weights):
    weights.write_bytes(weights.read_bytes()[:-4] + b"abcd")
    with pytest.raises(RunError) as caught:
        read_weights(weights)
    assert str(caught.value) == (
        f"{weights}: these weights are damaged: the checksum does not match\n"
        "  copy the file again, or use another checkpoint"
    )


def file_with(*entries: dict[str, object], data: bytes = b"\0" * 8) -> bytes:
    header = json.dumps({"__metadata__": {"sha256": "0" * 64}, **{f"t{n}": entry for n, entry in enumerate(entries)}})
    return len(header).to_bytes(8, "little") + header.encode() + data


def tensor(shape: list[int], start: int, end: int, dtype: str = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [start, end]}


@pytest.mark.parametrize(
    "content",
    [
        file_with(tensor([2], 0, 8), tensor([0], 4, 4)),  # an empty tensor within another
        file_with(tensor([2], 0, 8), tensor([1], 4, 8)),  # they overlap
        file_with(tensor([2], 0, 4), tensor([1], 4, 8)),  # fewer bytes than the shape
        file_with(tensor([1], 0, 8)),  # more bytes than the shape
        file_with(tensor([1], 4, 8)),  # a gap at the beginning
        file_with(tensor([2], 8, 0)),  # ends before it starts
        file_with(tensor([2], -8, 8)),
        file_with(tensor([-2], 0, 8)),
        file_with(tensor([2**63, 2], 0, 8)),  # the products overflow
        file_with(tensor([2**32, 2**32], 0, 8)),
        file_with(tensor([2], 0, 2**64 - 1)),
        file_with(tensor([2], 0, 16)),  # beyond the end of the file
        file_with(tensor([2], 0, 8, "F33")),
    ],
)
def test_offsets_and_shapes_that_do_not_fit_together_are_refused_in_one_message(tmp_path, content):
    path = tmp_path / "a.safetensors"
    path.write_bytes(content)
    with pytest.raises(RunError, match="cannot read these weights"):
        tensor_shapes(path)
    assert find_corruption(path).startswith("damaged: ")
