"""A Markdown extension that turns formulas into MathML, which browsers display without a script.

It processes the output of `pymdownx.arithmatex` (generic) for `$...$` and `$$...$$`, which must be loaded too.
"""

from __future__ import annotations

import html
import re
from typing import Any

from markdown import Markdown
from markdown.extensions import Extension
from markdown.postprocessors import Postprocessor

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\s*\\([(\[])(.*?)\\[)\]]\s*</\1>', flags=re.DOTALL)
_PRIORITY = 1  # after all postprocessors of Markdown, the lowest of which have 10


class _MathMLPostprocessor(Postprocessor):
    def run(self, text: str) -> str:
        return _FORMULA.sub(_mathml, text)


def _mathml(match: re.Match[str]) -> str:
    from latex2mathml.converter import convert

    return convert(html.unescape(match[3]), display="block" if match[2] == "[" else "inline")


class FormulaExtension(Extension):
    """Draw formulas as MathML."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 (the name that Markdown calls)
        """Register the postprocessor."""
        md.postprocessors.register(_MathMLPostprocessor(md), "mathml", _PRIORITY)


def makeExtension(**options: Any) -> FormulaExtension:  # noqa: N802 (the name that Markdown calls)
    """Return the extension."""
    return FormulaExtension(**options)
