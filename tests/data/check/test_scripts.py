"""The model that identifies languages."""

from __future__ import annotations

import pytest

from nmt.data.check.scripts import identification_model


def test_languages_are_ranked_as_by_the_package_itself() -> None:
    langid = pytest.importorskip("py3langid.langid")
    own = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    for text in ("", "7", "Ein Mann geht über die Straße.", "A MAN CROSSES.", "我来自中国。", "Vozim se kući."):
        assert identification_model().rank(text) == own.rank(text)
