"""Find which rules cannot apply to a text, from its characters: a few bits per text, for a whole chunk at once.

Most texts have no digit, no markup and no control character. Finding that out for 10,000 texts in one numpy pass over
all their characters takes a tenth of the time of searching each text.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

from nmt.data.check.noise import FOLLOWING_BYTES

if TYPE_CHECKING:  # nmt imports this module to translate, and importing numpy would take a fifth of its startup
    import numpy as np
    from numpy.typing import NDArray

QUESTION_MARKS = ("?", "\uff1f", "\u061f", ";", "\u055e")

DIGIT = 1
SPAN = 2  # may start a tag, an entity, a placeholder or an address
QUESTION = 4
CELL = 8  # may be a spreadsheet cell
CONTROL = 16  # not printable; may be just an unusual space
BEYOND_LATIN = 32  # may be a letter outside the Latin blocks
LEAD = 64  # may be the first byte of a character in the wrong encoding
FOLLOWING = 128  # may be a later byte of such a character
ALL_MARKS = 255

_BMP = 1 << 16  # characters beyond it get all marks
_BEYOND_LATIN = ((0x370, 0x1E00), (0x1F00, 0x2000), (0x2C00, 0x3000), (0x3005, 0x3007), (0x3021, _BMP))
_CHARACTERS = {SPAN: "<&{%@⟦/", QUESTION: "".join(QUESTION_MARKS), CELL: "#="}
_CHARACTERS |= {LEAD: "".join(map(chr, range(0xC2, 0xF5))) + "\ufffd", FOLLOWING: FOLLOWING_BYTES + "\ufffd"}


def marks_of(texts: Sequence[str]) -> NDArray[np.uint8]:
    """Return the marks of each text: the union over its characters. An unset mark rules its kind out."""
    import numpy as np

    joined = "".join(texts)
    codes = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    # One extra character, so that an empty text at the end has a start position; its marks are meaningless.
    marks = np.append(_table()[np.minimum(codes, _BMP)], np.uint8(0))
    ends = np.cumsum(np.fromiter(map(len, texts), dtype=np.int64, count=len(texts)))
    found = np.bitwise_or.reduceat(marks, np.concatenate(([0], ends[:-1]))) if len(texts) else marks[:0]
    if "www." in joined:
        found |= np.fromiter((SPAN * ("www." in text) for text in texts), dtype=np.uint8, count=len(texts))
    return found


@cache
def _table() -> NDArray[np.uint8]:
    import numpy as np

    table = np.zeros(_BMP + 1, dtype=np.uint8)
    characters = [chr(code) for code in range(_BMP)]
    table[[code for code, char in enumerate(characters) if char.isdecimal()]] |= DIGIT
    table[[code for code, char in enumerate(characters) if not char.isprintable()]] |= CONTROL
    for mark, listed in _CHARACTERS.items():
        table[[ord(char) for char in listed]] |= mark
    for start, end in _BEYOND_LATIN:
        table[start:end] |= BEYOND_LATIN
    table[_BMP] = ALL_MARKS
    return table
