"""A shortlist comes back from its file as it was, or is refused with one message."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from safetensors.numpy import save_file

from nmt.base.checksum import NO_CHECKSUM, write_checksum
from nmt.base.errors import RunError
from nmt.data.lexicon.shortlist import Shortlist
from nmt.data.lexicon.stored_table import MAX_BYTES
from nmt.data.tokens.tokenizer import TokenizerPair

SHORTLIST = Shortlist.from_lists([[], [5, 6], [4], [], [9, 7, 5]], [8])


def tokenizers(src: int = 5, tgt: int = 10, mark: str = "a") -> TokenizerPair:
    sides = (SimpleNamespace(vocab_size=size, fingerprint=mark) for size in (src, tgt))
    return cast("TokenizerPair", SimpleNamespace(**dict(zip(("src", "tgt"), sides, strict=True))))


def test_a_source_has_the_candidates_of_its_tokens_those_of_every_source_eos_and_its_prefix():
    assert SHORTLIST.outputs([]) == [3, 8]
    assert SHORTLIST.outputs([4, 2, 4]) == [3, 4, 5, 7, 8, 9]
    assert SHORTLIST.outputs([1], [0, 8]) == [0, 3, 5, 6, 8]


def test_a_file_gives_back_what_was_saved(tmp_path):
    SHORTLIST.save(tmp_path / "list", tokenizers())
    assert Shortlist.load(tmp_path / "list", tokenizers()) == SHORTLIST


def test_a_missing_file_says_how_to_make_one(tmp_path):
    with pytest.raises(RunError, match=r"this run has no shortlist\n.*nmt shortlist RUN"):
        Shortlist.load(tmp_path / "list", tokenizers())


def test_every_damaged_byte_is_noticed(tmp_path):
    path = tmp_path / "list"
    SHORTLIST.save(path, tokenizers())
    content = path.read_bytes()
    for at in range(0, len(content), 7):
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(RunError, match="this is not a shortlist, or it is damaged"):
            Shortlist.load(path, tokenizers())


def test_the_shortlist_of_another_run_is_refused(tmp_path):
    SHORTLIST.save(tmp_path / "list", tokenizers())
    with pytest.raises(RunError, match="this shortlist was built for other tokenizers"):
        Shortlist.load(tmp_path / "list", tokenizers(mark="b"))


@pytest.mark.parametrize(
    ("parts", "fault"),
    [
        ({"starts": [0, 0, 0, 0, 3]}, "its parts do not fit together"),
        ({"starts": [0, 0, 0, 0, 0, 4]}, "its parts do not fit together"),
        ({"starts": [1, 1, 1, 1, 1, 3]}, "its parts do not fit together"),
        ({"starts": []}, "its parts do not fit together"),
        ({"starts": [0, 2, 1, 1, 1, 3]}, "its parts run backward"),
        ({"candidates": [4, 5, 10]}, "it contains invalid tokens"),
        ({"candidates": [4, -1, 9]}, "it contains invalid tokens"),
        ({"always": [10]}, "it contains invalid tokens"),
        ({"always": None}, "always is missing"),
        ({"always": np.zeros(1, np.float32)}, "always is missing"),
    ],
)
def test_hostile_contents_are_refused(tmp_path, parts: dict[str, Any], fault):
    arrays = {"starts": [0, 0, 0, 0, 0, 3], "candidates": [4, 5, 9], "always": [8], **parts}
    tensors = {
        name: part if isinstance(part, np.ndarray) else np.array(part, dtype=np.int32)
        for name, part in arrays.items()
        if part is not None
    }
    save_file(tensors, tmp_path / "list", metadata=NO_CHECKSUM)
    write_checksum(tmp_path / "list")
    with pytest.raises(RunError, match=rf"this is not a shortlist, or it is damaged \({fault}\)"):
        Shortlist.load(tmp_path / "list", tokenizers())


def test_a_file_without_the_mark_of_its_tokenizers_is_refused(tmp_path):
    tensors = {"starts": np.zeros(6, np.int32), "candidates": np.zeros(0, np.int32), "always": np.zeros(0, np.int32)}
    save_file(tensors, tmp_path / "list", metadata=NO_CHECKSUM)
    write_checksum(tmp_path / "list")
    with pytest.raises(RunError, match="for other tokenizers"):
        Shortlist.load(tmp_path / "list", tokenizers())


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "list").touch()
    os.truncate(tmp_path / "list", MAX_BYTES + 1)
    with pytest.raises(RunError, match="over 400,000,000 bytes"):
        Shortlist.load(tmp_path / "list", tokenizers())
