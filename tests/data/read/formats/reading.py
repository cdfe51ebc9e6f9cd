"""Write a file of a form, and read the pairs of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from nmt.base.errors import NmtError
from nmt.config.corpora import ParallelFiles
from nmt.data.read.pairs import read_parallel


def read(path: Path, content: str | bytes | None = None, form: str = "", **keys: object) -> list[tuple[str, str, int]]:
    """The pairs of a file; its ending is its form, unless one is given. `content` is written first."""
    if content is not None:
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    languages = {"src_lang": "en", "tgt_lang": "de"}
    named = {form or path.suffix.removeprefix("."): str(path)}
    files = ParallelFiles.model_validate(languages | named | keys)
    return [pair[:3] for pair in read_parallel(files)]


def fault(path: Path, content: str | bytes | None = None, form: str = "", **keys: object) -> str:
    """What is said of a file that cannot be read, without the name of its folder."""
    with pytest.raises(NmtError) as caught:
        read(path, content, form, **keys)
    return str(caught.value).replace(f"{path.parent}/", "")
