"""nmt: train, evaluate, run and ship your own neural translation model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

__version__ = "0.1.0"
DISTRIBUTION = "nmt-toolkit"
"""The name on the package index: `pip install nmt-toolkit`. (`nmt` there is somebody else's package.)"""

__all__ = ["DISTRIBUTION", "Translator", "__version__"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent until a program asks for messages

if TYPE_CHECKING:
    from nmt.translate import Translator


def __getattr__(name: str) -> object:
    # Lazily, so that `import nmt` costs nothing until a model is wanted.
    if name == "Translator":
        from nmt.translate import Translator

        return Translator
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
