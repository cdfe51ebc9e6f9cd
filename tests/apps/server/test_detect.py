"""The language of a text, among those that a server knows."""

from __future__ import annotations

import pytest

from nmt.apps.server import detect
from nmt.apps.server.detect import Detector, may_be_known


@pytest.fixture(params=["words", "langid"])
def knowledge(request, monkeypatch):
    """What the detector knows languages by."""
    if request.param == "words":
        monkeypatch.setattr(detect, "can_identify_languages", lambda: False)
    else:
        pytest.importorskip("py3langid", reason="needs the extra langid")
    return request.param


def test_the_letters_of_a_text_decide_between_scripts(knowledge):
    detector = Detector(["en", "ru", "zh", "el", "ja"])
    texts = {
        "Hello you": "en",
        "Привет, как дела": "ru",
        "你好，我来自中国。": "zh",
        "Γεια σου": "el",
        "こんにちは": "ja",
    }
    assert {text: detector.detect(text)[0]["language"] for text in texts} == texts
    for text in ("123", "", "😀", "ฉันมาจากประเทศไทย"):  # without letters, or with none of their scripts
        found = detector.detect(text)
        assert (len(found), {each["confidence"] for each in found}) == (5, {0.0})
        assert found[0]["language"] == "en"


def test_a_language_of_an_unknown_script_may_be_what_no_other_one_is(knowledge):
    detector = Detector(["en", "lus", "ru"])
    assert detector.detect("Hello to you, my friend")[0]["language"] == "en"
    best = detector.detect("བོད་ཡིག")[0]
    assert (best["language"], best["confidence"] > 20) == ("lus", True)


SENTENCES = {
    "en": "This is the house that my brother has built.",
    "de": "Das ist das Haus, das mein Bruder gebaut hat.",
    "fr": "Voici la maison que mon frère a construite pour nous.",
    "es": "Esta es la casa que mi hermano ha construido para nosotros.",
    "it": "Questa è la casa che mio fratello ha costruito per noi.",
    "pt": "Esta é a casa que o meu irmão construiu para nós.",
    "nl": "Dit is het huis dat mijn broer heeft gebouwd voor ons.",
    "sv": "Det här är huset som min bror har byggt för oss.",
    "da": "Dette er huset, som min bror har bygget til os.",
    "fi": "Tämä on talo, jonka veljeni on rakentanut ja joka ei ole suuri.",
    "pl": "To jest dom, który mój brat zbudował dla nas, i nie jest duży.",
    "cs": "To je dům, který můj bratr postavil pro nás a je velký.",
    "hu": "Ez az a ház, amelyet a testvérem épített, és nem nagy.",
    "ro": "Aceasta este casa pe care fratele meu a construit-o pentru noi.",
    "tr": "Bu, kardeşimin bizim için yaptığı ev ve çok büyük bir ev.",
    "id": "Ini adalah rumah yang dibangun oleh saudara saya untuk kami.",
    "vi": "Đây là ngôi nhà mà anh trai tôi đã xây cho chúng tôi và không lớn.",
    "ru": "Это дом, который мой брат построил для нас, и он не большой.",
    "uk": "Це будинок, який мій брат збудував для нас, і він не великий.",
    "bg": "Това е къщата, която брат ми построи за нас, и не е голяма.",
    "ar": "هذا هو البيت الذي بناه أخي لنا في المدينة من الحجر",
    "fa": "این خانه‌ای است که برادر من برای ما در شهر ساخته است",
    "hi": "यह वह घर है जो मेरे भाई ने हमारे लिए बनाया है और बड़ा नहीं है",
    "he": "זה הבית של אחי והוא לא גדול אבל הוא יפה",
    "el": "Αυτό είναι το σπίτι που έχτισε ο αδερφός μου για εμάς.",
    "zh": "这是我哥哥为我们建的房子。",
    "ja": "これは兄が私たちのために建てた家です。",
    "ko": "이것은 우리 형이 우리를 위해 지은 집입니다.",
    "th": "นี่คือบ้านที่พี่ชายของฉันสร้างให้เรา",
    "ka": "ეს არის სახლი, რომელიც ჩემმა ძმამ ააშენა.",
}


def test_thirty_languages_are_told_apart_and_a_server_of_other_languages_says_none_of_these(knowledge):
    everything = Detector([*SENTENCES])
    assert {code: everything.detect(text)[0]["language"] for code, text in SENTENCES.items()} == {
        code: code for code in SENTENCES
    }
    for pair in (["en", "zh"], ["de", "en"], ["ru", "el"]):
        detector = Detector(pair)
        for code, text in SENTENCES.items():
            best = detector.detect(text)[0]
            assert (best["language"] == code and best["confidence"] > 80) if code in pair else best["confidence"] < 50


@pytest.mark.parametrize("language", ["wo", "bam", "ewe"])
def test_a_language_of_which_nothing_is_known_is_not_what_another_one_is(knowledge, language):
    detector = Detector([language, "fr"])
    for text in SENTENCES.values():
        confidences = {each["language"]: each["confidence"] for each in detector.detect(text)}
        assert confidences[language] < 50, (text, confidences)
    best = detector.detect("Nit ñépp danuy juddu, yam ci tawfeex ci sag ak sañ-sañ.")[0]
    assert (best["language"], best["confidence"] > 80) == (language, True)
    assert detector.detect("བོད་ཡིག")[0]["confidence"] == 0
    assert Detector(["bo", "en"]).detect("བོད་ཡིག")[0]["confidence"] < 100  # or Dzongkha


def test_codes_may_name_script_and_region():
    pytest.importorskip("py3langid", reason="needs the extra langid")
    detector = Detector(["eng_Latn", "de", "fr-CA"])
    for code, text in {"eng_Latn": SENTENCES["en"], "de": SENTENCES["de"], "fr-CA": SENTENCES["fr"]}.items():
        best = detector.detect(text)[0]
        assert (best["language"], best["confidence"] > 90) == (code, True)


SHORT = ("Der Hund ist groß.", "Ich bin müde", "Wo ist der Bahnhof?", "Hvor er stasjonen?", "Où est la gare?")
OWN = ("Hello", "Tom", "ok", "Thank you", "London", "Where is the station?", "Two men in red", "iPhone 15")


def test_short_texts_in_other_languages_are_in_none_and_short_ones_in_its_own_are_not(knowledge):
    english = Detector(["en", "zh"])
    assert [text for text in OWN if not may_be_known(english.detect(text))] == []
    if knowledge == "langid":
        assert [text for text in SHORT if may_be_known(english.detect(text))] == []


def test_a_server_of_many_languages_knows_a_text_that_may_be_in_any_of_them(knowledge):
    detector = Detector([*SENTENCES])
    for text in OWN:
        assert may_be_known(detector.detect(text)), text
