"""What is said of a corpus as a whole: spellings of one character, and sets that differ from it."""

from __future__ import annotations

import unicodedata

import pytest

from nmt.data.check.remarks import SideText
from nmt.data.check.remarks import remarks as remarks_on
from nmt.data.text.characters import AS_READ, AS_WRITTEN

SOUND = [(f"das ist der Satz {word}", f"it's the sentence {word}") for word in ("eins", "zwei", "drei", "vier") * 30]


def remarks(train: list[tuple[str, str]], languages: tuple[str, str] = ("de", "en"), **held_out) -> list[str]:
    sides = [SideText(language) for language in languages]
    for number, side in enumerate(sides):
        for name, pairs in held_out.items():
            side.add_held_out(name, [pair[number] for pair in pairs])
        texts = [pair[number] for pair in train]
        half = len(texts) // 2
        side.add(texts[:half])
        side.add(texts[half:])
    return list(remarks_on(sides))


def test_nothing_is_said_of_a_corpus_that_is_written_in_one_way():
    assert remarks(SOUND, valid=SOUND[:9]) == []


@pytest.mark.parametrize(("separator", "num_words"), [("|", 3), ("￨", 3), ("|", 2)])
def test_factors_behind_each_word_are_said_with_the_remedy(separator, num_words):
    factors = separator.join(["", "lemma", "NN"][:num_words])
    pairs = [(" ".join(word + factors for word in src.split()), tgt) for src, tgt in SOUND]
    (remark,) = remarks(pairs)
    assert remark.startswith("de: words with factors (")
    assert "sed 's/[|￨][^ ]*//g'" in remark
    piped = [(f"{src} | {src}", tgt) for src, tgt in SOUND]
    assert not any("factors" in line for line in remarks(piped))


@pytest.mark.parametrize(
    ("form", "first"),
    [
        ("<s> {} </s>", "<"),
        ("<2en> {}", "<"),
        ("▁{}", "▁"),
        ('"key": "{}",', '"'),
        ("- {}", "-"),
        ("7. {}", "a number"),
    ],
)
def test_texts_that_begin_with_the_same_mark_are_counted(form, first):
    pairs = [(form.format(src), tgt) for src, tgt in SOUND]
    assert remarks(pairs) == [f"de: 120 texts begin with {first}: take it away, unless inputs will have it"]
    some = [(form.format(src) if number % 5 else src, tgt) for number, (src, tgt) in enumerate(SOUND)]
    assert remarks(some) == []  # as in dialogs, or lists
    assert remarks([("我们说话。", tgt) for _, tgt in SOUND]) == []


def test_words_that_are_cut_into_subwords_are_counted_with_the_remedy():
    pairs = [(src.replace("Satz", "Sa@@ tz"), tgt) for src, tgt in SOUND]
    assert remarks(pairs) == ["de: 120 words are cut, which nmt does itself: sed 's/@@ //g' joins them"]
    assert remarks([(src + " @@ ", tgt) if number < 4 else (src, tgt) for number, (src, tgt) in enumerate(SOUND)]) == []


def test_characters_that_are_written_in_several_ways_are_counted():
    pairs = [(src, tgt.replace("'", "'’ʼꞌ`"[number % 5])) for number, (src, tgt) in enumerate(SOUND)]
    assert remarks(pairs) == ["en: one character is written in 5 ways: ' (24), ’ (24), ʼ (24), ꞌ (24), ` (24)"]
    quoted = [(src, f"so ‘{tgt}’ `so`") for src, tgt in SOUND]
    assert remarks(quoted) == []  # they are no apostrophes
    rare = [(src, tgt.replace("'", "’") if number == 0 else tgt) for number, (src, tgt) in enumerate(SOUND)]
    assert remarks(rare) == []  # a slip


@pytest.mark.parametrize("word", ["Gɛɛlaꞌ", "ʻōlelo", "ʼalif", "paʼ"])
def test_a_letter_for_an_apostrophe_counts_at_the_ends_of_words_too(word):
    pairs = [(src, tgt if number % 2 else f"so is {word} at first") for number, (src, tgt) in enumerate(SOUND)]
    (remark,) = (line for line in remarks(pairs) if "one character" in line)
    letter = next(char for char in word if char in "ꞌʻʼ")
    assert {"' (60)", f"{letter} (60)"} == set(
        remark.removeprefix("en: one character is written in 2 ways: ").split(", ")
    )


@pytest.mark.parametrize(
    ("odd", "kind"),
    [
        (unicodedata.normalize("NFD", "schön"), "letters and accents not in NFC"),
        ("\u212bngström", "letters and accents not in NFC"),
        (unicodedata.normalize("NFD", "한국"), "letters and accents not in NFC"),
        ("Mäd\u00adchen", "soft hyphens"),
        ("Mäd\u200bchen", "invisible characters"),
        ("\ufeffMädchen", "invisible characters"),
        ("10\u00a0km", "unusual spaces"),
        ("ein\u2009Hund", "unusual spaces"),
        ("ﬁnden", "ligatures"),
        ("U\u2011Bahn", "unusual hyphens"),
    ],
)
@pytest.mark.parametrize("rule", [AS_READ, AS_WRITTEN])
def test_texts_that_reading_changes_are_counted_by_kind(odd, kind, rule):
    side = SideText("de")
    for text in ("so", f"{odd} ja", f"und {odd}"):
        side.add_as_written(text, rule)
    assert list(side.spellings()) == [
        f"de: 2 texts with {kind} (data.characters: normalized rewrites them), such as {odd} ja"
    ]


def test_each_kind_in_a_text_is_counted_and_targets_keep_their_typography():
    side = SideText("fr")
    side.add_as_written(unicodedata.normalize("NFD", "e\u00adté ﬁn"), AS_WRITTEN)
    side.add_as_written("Où\u202f? ＡＢＣ", AS_WRITTEN)
    kinds = sorted(line.split(" with ")[1].split(" (")[0] for line in side.spellings())
    assert kinds == ["letters and accents not in NFC", "ligatures", "soft hyphens"]
    side.add_as_written("Où\u202f? ＡＢＣ", AS_READ)
    assert sum("full width" in line or "unusual spaces" in line for line in side.spellings()) == 2


def test_a_set_that_differs_from_train_is_said_with_how():
    other = [("ein Hund läuft über die Wiese, und noch einer, und noch einer", "it’s the sentence")] * 5
    assert remarks(SOUND, valid=other, test=SOUND[:5]) == [
        "valid, de: 100% of its words are not in train; 61 characters in the median, train has 21",
        "valid, en: its apostrophe is ’, that of train '",
    ]


def test_words_of_a_language_without_spaces_are_its_characters():
    pairs = [("我来自中国", "I am from China")] * 30
    assert remarks(pairs, ("zh", "en"), test=[("中国来自我", "China")]) == [
        "test, en: 5 characters in the median, train has 15"
    ]
    (line, _) = remarks(pairs, ("zh", "en"), test=[("你是老师吗？", "you are")])
    assert line == "test, zh: 100% of its characters are not in train"


@pytest.mark.parametrize("letters", ["çc", "ёе", "ãa", "qk", "εɛ", "șş", "ιɩ"])
def test_a_letter_that_some_of_the_texts_write_otherwise_is_named(letters):
    letter, other = letters
    words = [f"{start}{letter}{end}" for start in ("mo", "li", "ta") for end in ("nd", "rsu", "ve", "lu")]
    written = [[word.replace(letter, other) for word in words], words]
    pairs = [("so", " ".join(written[number % 3 == 0])) for number in range(12)]
    examples = ", ".join(f"{word} and {word.replace(letter, other)}" for word in words[:3])
    said = f"xx: 12 of 12 frequent words with {letter} are also written with {other}: {examples}"
    assert remarks(pairs, ("de", "xx")) == [said]


def test_some_words_that_differ_in_one_letter_are_no_second_spelling():
    words = [f"{start}ç{end}" for start in ("mo", "li", "ta") for end in ("nd", "rsu", "ve", "lu")]
    pairs = [("so", " ".join([*words, "mocnd", "licve", "tacnd"]))] * 5
    assert remarks(pairs, ("de", "xx")) == []
