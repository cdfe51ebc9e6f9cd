"""A translation memory finds the same and similar sources, and the model translates the others as without it."""

from __future__ import annotations

import json
import random

import pytest

from nmt import Translator
from nmt.base.errors import DataError
from nmt.base.languages import Direction
from nmt.translation import memory as module
from nmt.translation.chain import Chain
from nmt.translation.memory import TranslationMemory
from nmt.translation.request import Request
from nmt.translation.segments import MemoryMatch
from tests.command_line import nmt
from tests.words import WORDS

pytest.importorskip("rapidfuzz", reason="needs rapidfuzz")

PAIRS = [
    ("The cat sleeps on the old sofa.", "Die Katze schläft auf dem alten Sofa."),
    ("The dog sleeps on the old sofa.", "Der Hund schläft auf dem alten Sofa."),
    ("我来自中国。", "I am from China."),
    ("Good morning!", "Guten Morgen"),
    ("Good morning!", "Guten Morgen!"),
    ("", "empty"),
]


def test_the_same_source_is_found_with_its_last_target():
    memory = TranslationMemory(PAIRS)
    assert len(memory) == 4
    assert memory.find("  Good morning!\t") == MemoryMatch("Good morning!", "Guten Morgen!", 1.0)


@pytest.mark.parametrize("blank", ["", " \t", "\u00ad", "\ufeff \u200e"])
def test_a_pair_with_a_side_that_is_blank_as_it_is_read_is_left_out(blank):
    memory = TranslationMemory([(blank, "Guten Tag!")])
    memory.add(blank, "Guten Tag!")
    memory.add("Good day!", " ")
    assert len(memory) == 0
    assert memory.find("") is None


def test_the_most_similar_source_is_found_and_none_that_differs_too_much():
    memory = TranslationMemory(PAIRS)
    found = memory.find("The cat sleeps on our old sofa.")
    assert found is not None
    assert (found.source, found.similarity == 1, round(found.similarity, 3)) == (PAIRS[0][0], False, 0.903)
    assert memory.find("我来自日本。") is None
    assert memory.find("我来自中国") == MemoryMatch("我来自中国。", "I am from China.", pytest.approx(5 / 6))
    for text in ("", "  ", "Trains are late today.", "sofa", "\ud800"):
        assert memory.find(text) is None
    assert TranslationMemory([]).find("The cat sleeps.") is None


def test_the_index_finds_what_a_search_through_all_sources_finds(monkeypatch):
    from rapidfuzz.distance import Levenshtein

    draw = random.Random(5)
    sources = list(dict.fromkeys(" ".join(draw.choices(WORDS, k=draw.randint(3, 9))) for _ in range(400)))
    memory = TranslationMemory((source, source) for source in sources)
    for source in sources[:60]:
        words = source.split()
        words[draw.randrange(len(words))] = draw.choice([draw.choice(WORDS), "other"])
        text = " ".join(words)
        best = max(Levenshtein.normalized_similarity(text, each) for each in sources)
        found = memory.find(text)
        assert (found.similarity if found else 0.0) == (best if best >= module.MIN_SIMILARITY else 0.0)
    monkeypatch.setattr(module, "MAX_POSTINGS", 3)  # fewer than the rarest word has
    last = max(sources, key=lambda source: len(source.split()))
    assert all(match is None or match.similarity >= 0.7 for match in map(memory.find, [last + "x", *sources[:9]]))


def test_a_known_text_is_not_translated_and_the_others_are_as_without_a_memory(two_run):
    texts = ["12345", " 678 ", "12 346", ""]
    memory = TranslationMemory([("678", "known"), ("12345 ", "54321"), ("12 347", "74321")])
    with Translator.load(two_run, device="cpu") as translator:
        plain = translator.translate(texts, to="de")
        found = Chain([translator], memory).translate_block(texts, Request(translator.options, to="de"))
    assert [each.text for each in found] == ["54321", "known", plain[2].text, ""]
    assert [each.memory and each.memory.similarity == 1 for each in found] == [True, True, False, None]
    assert found[2].score == plain[2].score
    assert found[0].segments == []


def test_lines_and_sentences_are_looked_up_and_the_others_are_as_without_a_memory(two_run):
    memory = TranslationMemory([("Good day.", "Guten Tag."), ("Many thanks!", "Vielen Dank!"), ("1 2. 3 4.", "abc")])
    texts = ["Good day. Many thanks!", " Many thanks!\n1 2. 3 4.\n12345", "Good day. 1 2.\nGood day."]
    with Translator.load(two_run, device="cpu") as translator:
        request = Request(translator.options.changed(num_hypotheses=2, beam_size=2), to="de")
        both, lines, some = found = Chain([translator], memory).translate_block(texts, request)
        alone = Chain([translator], memory).translate_block(texts[:1], request)
        one, two = translator.translate(["12345", "1 2."], request.options, to="de")
    assert (both.text, both.segments, both.flags) == ("Guten Tag. Vielen Dank!", [], {"from_memory": True})
    assert both.memory == MemoryMatch("Good day. Many thanks!", "Guten Tag. Vielen Dank!", 1.0)
    assert lines.text == f" Vielen Dank!\nabc\n{one.text}"
    assert [each.text for each in lines.alternatives] == [f" Vielen Dank!\nabc\n{one.alternatives[0].text}"]
    assert (lines.score, lines.memory) == (one.score, None)
    assert some.text == f"Guten Tag. {two.text}\nGuten Tag."
    assert alone == found[:1]


def test_known_texts_are_found_between_marks_and_keep_them(two_run):
    memory = TranslationMemory([("42 dogs.", "42 Hunde."), ("Good day. Many thanks!", "Tag."), ("- a b", "c")])
    texts = [
        "42. 42 dogs.",
        " \u2022 42 dogs.\n1) Good day. Many thanks!\n",
        "(42 dogs.) \u2713",
        "- a b",
        "42. 43 dogs.",
    ]
    written = ["42. 42 Hunde.", " \u2022 42 Hunde.\n1) Tag.\n", "(42 Hunde.) \u2713", "c"]
    with Translator.load(two_run, device="cpu") as translator:
        found = Chain([translator], memory).translate_block(texts, Request(translator.options, to="de"))
        (alone,) = translator.translate(texts[4:], to="de")
    assert [each.text for each in found] == [*written, alone.text]
    assert [each.memory and each.memory.similarity for each in found[:4]] == [1.0] * 4


def test_what_a_person_wrote_is_not_judged(two_run):
    memory = TranslationMemory([("See {a} (19)!", "Siehe dort."), ("Good day.", "Guten Tag.")])
    with Translator.load(two_run, device="cpu") as translator:
        request = Request(translator.options, to="de")
        (found,) = Chain([translator], memory).translate_block(["See {a} (19)! Good day."], request)
    assert (found.text, found.flags) == ("Siehe dort. Guten Tag.", {"from_memory": True})


TMX = """<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="en-US"><seg>12 &amp; <bpt i="1">x</bpt>34</seg></tuv><tuv xml:lang="de"><seg>known</seg></tuv></tu>
<tu><tuv xml:lang="en"><seg>5678</seg></tuv><tuv xml:lang="fr"><seg>cinq</seg></tuv></tu>
</body></tmx>"""


def test_the_command_reads_the_units_with_its_languages(two_run, tmp_path):
    (tmp_path / "memory.tmx").write_text(TMX)
    command = ("translate", "-m", two_run, "--to", "de", "--tm", tmp_path / "memory.tmx")
    done = nmt(*command, "--format", "jsonl", stdin=b"12 & 34\n12 & 35\n99\n")
    assert done.returncode == 0, done.stderr
    known, similar, new = map(json.loads, done.stdout.splitlines())
    assert (known["text"], known["memory"]) == ("known", {"source": "12 & 34", "target": "known", "similarity": 1.0})
    assert similar["memory"]["similarity"] == pytest.approx(6 / 7)
    assert new["memory"] is None
    plain = nmt("translate", "-m", two_run, "--to", "de", stdin=b"12 & 35\n99\n").stdout.splitlines()
    assert [similar["text"], new["text"]] == plain


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('<!DOCTYPE tmx [<!ENTITY a "b">]><tmx><body/></tmx>', "the file contains a DTD"),
        ("<tmx><body><tu></body></tmx>", "not well-formed XML"),
        ("<html/>", "this is neither TMX nor TBX"),
        ("<tmx><body/></tmx>", "no translation unit"),
    ],
)
def test_a_file_that_is_no_memory_is_refused(tmp_path, content, message):
    (tmp_path / "memory.tmx").write_text(content)
    with pytest.raises(DataError, match=message):
        TranslationMemory.read(str(tmp_path / "memory.tmx"), Direction("en", "de"))


def test_a_memory_of_many_languages_is_tmx():
    with pytest.raises(DataError, match="this is not TMX, in which each text has a language"):
        TranslationMemory.read_all(["memory.tsv"], [Direction("en", "de")])
