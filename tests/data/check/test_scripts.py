"""The model that identifies languages."""

from __future__ import annotations

import pytest

from nmt.data.check.scripts import LanguageIdentifier, identification_model, script_codes, script_of_texts


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


@pytest.mark.parametrize("text", ["𞤀𞤣𞤤𞤢𞤥", "Ꭰꮳꮃꭹ", "ⰃⰎⰀⰃⱁⰾ", "𐐔𐐯𐑅𐐨𐑉", "𐓏𐓘𐓻𐓘", "ⲕⲟⲡⲧ", "ꦗꦮ", "ⵣⵣⵣ", "ᏣᎳᎩ"])
def test_letters_of_scripts_that_have_no_code_are_letters_whether_they_have_case_or_not(text):
    assert script_of_texts([f"{text} {text} {text} a"]) != "Latn"
    assert set(script_codes(text)) - {"j"} <= {"?"}


@pytest.mark.parametrize("sign", "ℓµΩK𝐀𝒜ⅆⒶʰ")
def test_signs_that_resemble_letters_are_of_no_other_script(sign):
    assert script_codes(sign) in (" ", "L", "G")
