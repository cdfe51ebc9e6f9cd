"""The model that identifies languages."""

from __future__ import annotations

import pytest

from nmt.data.check.scripts import LanguageIdentifier, identification_model


def test_languages_are_ranked_as_by_the_package_itself() -> None:
    langid = pytest.importorskip("py3langid.langid")
    own = langid.LanguageIdentifier.from_model_file(langid.MODEL_FILE, norm_probs=True)
    for text in ("", "7", "Ein Mann geht über die Straße.", "A MAN CROSSES.", "我来自中国。", "Vozim se kući."):
        assert identification_model().rank(text) == own.rank(text)


@pytest.mark.parametrize("code", ["he", "iw", "heb_Hebr"])
def test_a_language_is_compared_under_its_old_code_and_that_of_three_letters(code: str) -> None:
    pytest.importorskip("py3langid", reason="needs the extra langid")
    identifier = LanguageIdentifier(code, "en")
    assert identifier.margin("זה הבית שאחי בנה.", 0) == 0
    assert identifier.margin("Das ist das Haus, das mein Bruder gebaut hat.", 0) > 5
