"""nmt: train, evaluate, run and ship your own neural translation model."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Translator", "__version__"]

logging.getLogger(__name__).addHandler(logging.NullHandler())  # silent unless the program configures logging

if TYPE_CHECKING:
    from nmt.translation import Translator


def __getattr__(name: str) -> object:
    # Imported lazily, so that `import nmt` is fast.
    if name == "Translator":
        from nmt.translation import Translator

        return Translator
    raise AttributeError(f"module 'nmt' has no attribute {name!r}")
