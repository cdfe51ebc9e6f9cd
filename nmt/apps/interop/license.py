"""The license of a model, in the front matter of its README.md, as on Hugging Face."""

from __future__ import annotations

import re
from pathlib import Path

from nmt.base.files import read_at_most

_LICENSE = re.compile(r"^license:[ \t]*[\"']?([A-Za-z0-9][A-Za-z0-9._-]{0,60})[\"']?[ \t]*$", re.MULTILINE)
_MAX_CARD_BYTES = 1_000_000


def license_of(card: Path) -> str | None:
    """Return the license in the README.md at `card`, such as apache-2.0; None if there is none."""
    try:
        text = read_at_most(card, _MAX_CARD_BYTES).decode("utf-8", "replace").replace("\r\n", "\n")
    except (OSError, ValueError):
        return None
    if not text.startswith("---\n"):
        return None
    found = _LICENSE.search(text[4:].partition("\n---")[0])
    return found[1] if found else None


def front_matter(name: str | None) -> str:
    """Return the front matter of a model card with its license `name`; empty if there is none."""
    return f"---\nlicense: {name}\n---\n\n" if name else ""
