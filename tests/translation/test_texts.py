"""Texts of any length, structure and script, through a model: nothing is lost, everything is told."""

from __future__ import annotations

import random
import re
import time
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmt import Translator
from nmt.artifacts.rundir import RunDir
from nmt.base.languages import Direction
from nmt.data.text.glossary import TermMatch
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.translation import Glossary, LanguagePair, SearchOptions
from nmt.translation.request import Request
from nmt.translation.segments import untranslated
from nmt.translation.texts import PLAIN, TextSegmenter
from nmt.translation.translation import put_together, union
from nmt.translation.verdicts import judge
from tests.protected_lines import make_lines, measure


@pytest.fixture(scope="module")
def digits_translator(digits_run):
    """Turns digits round, up to 31 tokens; knows no placeholders."""
    return Translator.load(digits_run, device="cpu")


@pytest.fixture(scope="module")
def reverse(digits_translator):
    return digits_translator


@pytest.fixture(scope="module")
def letters(letters_run):
    return Translator.load(letters_run, device="cpu")


def texts_of(translator: Translator, texts: list[str]) -> list[str]:
    return [translation.text for translation in translator.translate(texts)]


LONG = "12345. 6789! 24680? 13579. 86420! 97531."


def test_a_long_text_is_translated_sentence_by_sentence_with_its_white_space(reverse, digits_translator):
    sentences = LONG.split()
    (done,) = reverse.translate(["\t" + "  ".join(sentences) + " \u3000"])
    assert done.text == "\t" + "  ".join(texts_of(digits_translator, sentences)) + " \u3000"
    assert (len(done.segments), done.truncated, done.sentence_split) == (6, False, False)


def test_many_texts_are_tokenized_by_several_threads_as_one_by_one(reverse, monkeypatch):
    monkeypatch.setattr("nmt.translation.texts.num_cores", lambda: 3)
    texts = [str(number) * (number % 4) for number in range(500)]
    request = Request(reverse.options)
    alone = [reverse.segment([text], request)[0].segments for text in texts]
    assert [text.segments for text in reverse.segment(texts, request)] == alone


PARTS = (*" ,-'’", ", ", " 12 ", " 7, ", "T-Shirt", "Ein Mann", "l'eau", "km", "Dr", "ad")
LETTERS = [character for character in map(chr, range(0x500)) if PLAIN.fullmatch(character)]


def test_plain_texts_get_the_segments_that_all_rules_together_give(letters, monkeypatch):
    draw = random.Random(0)
    drawn = ["".join(draw.choices((*PARTS, *draw.choices(LETTERS, k=8)), k=draw.randint(1, 12))) for _ in range(3000)]
    texts = [text + draw.choice(("", ".", "!", "?")) for text in drawn if PLAIN.fullmatch(text)]
    texts += [f"a{letter}, {letter}b" for letter in LETTERS] + ["so many words " * 20 + "end."]
    for changes in ({}, {"protect": False}, {"split": "never"}):
        request = Request(letters.options.changed(**changes), prefix="b")
        plain = letters.segmenter.segment(texts, request)
        with monkeypatch.context() as patched:
            patched.setattr("nmt.translation.texts.PLAIN", re.compile("(?!)"))
            assert letters.segmenter.segment(texts, request) == plain


def test_without_splitting_its_end_is_lost_and_flagged(digits_translator):
    (done,) = digits_translator.translate([LONG], SearchOptions(split="never"))
    assert (len(done.segments), done.truncated) == (1, True)


def test_a_sentence_too_long_is_cut_and_flagged_and_keeps_its_end(reverse):
    (done,) = reverse.translate([" ".join(["1234567"] * 20)])
    assert (done.truncated, done.sentence_split) == (False, True)
    assert len(done.segments) > 4
    assert len(done.src_ids) > 100


def test_paragraphs_and_blank_lines_survive(reverse):
    assert texts_of(reverse, ["123\n\n  456\r\n\n789\n", "12", " \n "]) == ["321\n\n  654\r\n\n987\n", "21", ""]


def test_between_sentences_there_are_spaces_as_the_target_language_has_them(digits_translator):
    def joined(src: str, tgt: str, text: str) -> str:
        parts = digits_translator.tokenizers, digits_translator.engine, LanguagePair(src, tgt)
        other = Translator(*parts, statistics=digits_translator.statistics)
        return texts_of(other, [text])[0]

    alone = texts_of(digits_translator, LONG.split())
    (chinese,) = texts_of(digits_translator, ["我1234567。"])
    assert joined("zh", "en", "我1234567。" * 6) == " ".join([chinese] * 6)
    assert joined("zh", "ja", "我1234567。" * 6) == chinese * 6
    assert joined("en", "zh", LONG) == "".join(alone)
    assert joined("en", "th", LONG) == " ".join(alone)
    (unknown,) = texts_of(digits_translator, ["我们住在北京1234。"])  # its text tells how a source is written
    assert joined("qaa", "en", "我们住在北京1234。" * 6) == " ".join([unknown] * 6)
    assert joined("qaa", "ja", "我们住在北京1234。" * 6) == unknown * 6


def test_a_long_text_and_its_sentences_alone_get_the_same_scores(reverse, digits_translator):
    (done,) = reverse.translate([LONG])
    alone = digits_translator.translate(LONG.split())
    assert done.score == pytest.approx(sum(one.score for one in alone), abs=1e-4)
    assert done.mean_log_prob == pytest.approx(done.score / sum(len(one.tgt_ids) + 1 for one in alone))
    assert done.length_ratio == pytest.approx(len(done.tgt_ids) / len(done.src_ids))


def test_a_model_without_placeholders_keeps_spans_all_the_same(reverse):
    assert not reverse.segmenter.knows_placeholders
    (done,) = reverse.translate(["12 {x}"])
    assert (done.num_protected, done.protected_lost) == (1, [])
    assert "{x}" in done.text
    (done,) = reverse.translate(["12 {x}"], reverse.options.changed(protect=False))
    assert (done.num_protected, done.protected_lost) == (0, [])


def test_protected_spans_come_back_and_the_rest_is_translated(letters):
    texts = ["12 34 {name}.", "http://a.org/?q=1 12 34.", "<b>12 34</b>.", "12 %1$s 34.", "56."]
    found = letters.translate(texts)
    assert [done.protected_lost for done in found] == [[]] * 5
    wanted = [text.replace("12", "bc").replace("34", "de").replace("56", "fg") for text in texts]
    assert sum(done.text == right for done, right in zip(found, wanted, strict=True)) >= 3, found  # it is a small model


def test_a_text_of_spans_alone_is_its_own_translation(letters):
    (done,) = letters.translate(["{a} <b>"])
    assert (done.text, len(done.segments), done.score) == ("{a} <b>", 0, 0.0)


def test_more_spans_than_there_are_placeholders_are_split_between(letters):
    text = " ".join(f"12 {{n{i}}}" for i in range(20)) + "."
    (done,) = letters.translate([text])
    assert done.protected_lost == []
    assert all(done.text.count(f"{{n{i}}}") == 1 for i in range(20))
    assert done.num_protected == 20


def test_spans_without_a_placeholder_are_flagged_when_they_are_lost(letters):
    text = " ".join(f"{{n{i}}}" for i in range(9)) + " 12."
    (done,) = letters.translate([text], SearchOptions(split="never"))
    assert done.protected_lost == ["{n8}"]


def test_at_least_99_percent_of_lines_keep_their_spans_and_no_failure_is_silent(letters, letters_run):
    sources = make_lines(RunDir(letters_run).read_pairs("test")[0], 200, 1, spaced=True)
    found = measure(sources, letters.translate(sources))
    assert found["whole"] >= 198, found
    assert found["whole_at_first"] >= 100, found
    assert found["not_whole_and_not_flagged"] == 0, found


def test_a_loop_is_flagged_and_decoded_again_without_it(stored_run):
    translator = Translator.load(stored_run("loops"), device="cpu")  # says "ab" ten times, whatever it is told
    plain = translator.translate(["12345", "7654321"], SearchOptions(retry_loops=False))
    assert all("abab" * 2 in translation.text for translation in plain)
    assert [(t.loop_retried, t.loop_unresolved) for t in plain] == [(False, True)] * 2
    for done in translator.translate(["12345", "7654321"]):
        assert (done.loop_retried, done.loop_unresolved) == (True, False)
        assert "abab" * 2 not in done.text


def test_what_does_not_loop_is_not_flagged(reverse):
    assert not any(done.loop_retried for done in reverse.translate(["12345", "9876"]))


def test_each_text_is_translated_alone_as_among_others(letters):
    texts = ["12 {a} 34.", LONG, "", "56.", "<b>78</b> 90. " * 6]
    together = texts_of(letters, texts)
    assert [texts_of(letters, [text])[0] for text in texts] == together


class Sliced(str):
    """A text that counts the characters copied from it."""

    copied = 0

    def __getitem__(self, key):
        found = super().__getitem__(key)
        Sliced.copied += len(found)
        return found


class Looked(TermMatch):
    """A match that counts how often its position is read."""

    reads = 0

    @property
    def start(self):
        Looked.reads += 1
        return self[0]


class LookedUp(Glossary):
    """A glossary whose matches are `Looked`."""

    def find(self, text, taken=()):
        return [Looked(*match) for match in super().find(text, taken)]


@pytest.mark.parametrize(
    "text", ["", " \n", " 12\n\n 34 \r\n56 ", LONG, "7" * 100, "1 {x} 2\n3 {y}", "{a} {b} {c}{d}{e}{f}{g}{h}{i} 12"]
)
@pytest.mark.parametrize("model", ["digits_translator", "letters"])
def test_segments_translated_one_by_one_make_the_translation_of_the_text(model, text, request):
    translator = request.getfixturevalue(model)
    (whole,) = translator.translate([text])
    asked = Request(translator.options)
    (segmented,) = translator.segment([text], asked)
    pairs = segmented.separate()
    alone = [translator.translate_segmented([each], asked)[0] for each, _ in pairs]
    joined = segmented.lead + "".join(done.text + space for done, (_, space) in zip(alone, pairs, strict=True))
    assert joined == (whole.text if text.strip() else text)
    assert sum(done.num_protected for done in alone) == whole.num_protected
    assert union(*(done.protected_lost for done in alone)) == whole.protected_lost
    assert [each.text for each, _ in pairs] == [
        text[segment.span.start : segment.span.end] for segment in segmented.segments
    ]
    assert sum(each.num_tokens for each, _ in pairs) == segmented.num_tokens
    assert translator.translate_segmented([segmented], asked) == [whole]  # again, from the start


def test_each_part_of_a_long_line_is_looked_at_without_all_that_is_before_it(letters, monkeypatch):
    segmenter = TextSegmenter(letters.tokenizers, letters.languages, 24)
    monkeypatch.setattr("nmt.translation.texts.without_surrogates", Sliced)

    def work(num_words):
        Sliced.copied = Looked.reads = 0
        request = Request(SearchOptions(), glossary=LookedUp({"12": "bc"}))
        (found,) = segmenter.segment([" ".join(["12"] * num_words)], request)
        assert sum(len(segment.terms) for segment in found.segments) == num_words
        return Sliced.copied, Looked.reads

    (copied, reads), more = work(250), work(2000)
    assert more[0] < 16 * copied
    assert more[1] < 16 * reads


def test_the_spans_of_a_segment_are_removed_even_if_one_begins_with_another(letters):
    spans = [f"http://a.org/{'1' * length}" for length in range(7)]
    (segmented,) = letters.segmenter.segment([" ".join([*spans, "0."])], Request(SearchOptions()))
    (segment,) = segmented.segments
    segment.candidates = [judge(segment, untranslated(segment.protected.source.replace("0", "a")))]
    assert put_together(segmented).without_spans == (" " * 14 + "0.", " " * 14 + "a.")


def test_the_spans_of_every_segment_are_removed(letters):
    lines = [f"12 {{n{number}}}" for number in range(3)]
    (done,) = letters.translate(["\n".join(lines) + "\n"])
    source, output = done.without_spans
    assert source == "12  \n" * 3
    assert (output.count("\n"), "{" in output) == (3, False)


def assert_sound(text: str, output: str) -> None:
    """What holds for every translation of any text."""
    assert output.count("\n") == (text.count("\n") if text.strip() else 0)
    if not text.strip():
        assert output == ""
    surrogates = any(unicodedata.category(character) == "Cs" for character in text)
    assert "\ufffd" not in output or "\ufffd" in text or surrogates
    for mark in ("⁇", "</s>", "<pad>", "<s>", "<unk>", "⟦1⟧", "⟦2⟧"):
        assert mark not in output or mark in text
    output.encode("utf-8")


any_text = st.lists(
    st.text(max_size=60)
    | st.text(alphabet="0123456789 .。!\t\u2028\u0085\u00a0\ufeff\u200d\u0301", max_size=60)
    | st.sampled_from(
        ["</s>", "<pad>", "⟦1⟧", "⟦9⟧", "⁇", "{a}", "%s", "http://a.org/\ud800", "\ud800", "🙂", "\x00", "▁"]
    ),
    max_size=5,
).map("".join)


@given(texts=st.lists(any_text, max_size=5))
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_gives_one_sound_translation(letters, texts):
    outputs = texts_of(letters, texts)
    assert len(outputs) == len(texts)
    for text, output in zip(texts, outputs, strict=True):
        assert_sound(text, output)


def random_line(draw: random.Random) -> str:
    """Any characters at all: of one script, of all, white space, marks, spans, very long."""
    kind = draw.randrange(8)
    length = draw.choice((0, 1, 3, 10, 40, 200)) if kind else draw.choice((0, 1, 2))
    if kind < 2:
        return "".join(chr(draw.randrange(0x110000)) for _ in range(length)).replace("\n", "")
    if kind == 2:
        return "".join(draw.choice(" \t\u3000\u00a0\u2028\u0085\x0b\x1c") for _ in range(length))
    if kind == 3:
        start = draw.choice((0x20, 0x400, 0x5D0, 0x600, 0x900, 0xE00, 0x3040, 0x4E00, 0xAC00, 0x1F300, 0xE000, 0xD800))
        return "".join(chr(start + draw.randrange(0x60)) for _ in range(length)).replace("\n", "")
    if kind == 4:
        return "".join(draw.choice("<>{}%$&;:/@.s1a ⟦⟧⁇▁") for _ in range(length))
    if kind == 5:
        return draw.choice(("http://a.org/x", "{x}", "<b>y</b>", "%d", "a@b.org", "</s>", "⟦3⟧")) * min(length, 30)
    return " ".join("".join(draw.choices("0123456789", k=2)) for _ in range(length)) + draw.choice(
        (".", "。", "", "!?")
    )


@pytest.mark.slow
def test_ten_thousand_generated_lines_are_all_translated_soundly(letters):
    draw = random.Random(11)
    lines = [random_line(draw) for _ in range(10_000)]
    start = time.process_time()
    outputs = [output for i in range(0, len(lines), 500) for output in texts_of(letters, lines[i : i + 500])]
    assert len(outputs) == len(lines)
    for line, output in zip(lines, outputs, strict=True):
        assert_sound(line, output)
    assert time.process_time() - start < 3000


def test_a_very_long_line_takes_bounded_time(reverse):
    start = time.process_time()
    (done,) = reverse.translate(["12345 " * 500 + "x" * 2000])
    assert time.process_time() - start < 60
    assert done.sentence_split


def test_what_most_targets_lack_is_no_span(stored_run):
    tokenizers = TokenizerPair.load(RunDir(stored_run("letters")).tokenizer)
    statistics = TextStatistics(
        pairs=10, src_sentences=[10], tgt_sentences=[10], left_out={}, left_out_tokens="M5-RFP € R&D"
    )
    segmenter = TextSegmenter(tokenizers, LanguagePair("fr", "bm"), 100, statistics)
    request = Request(SearchOptions())
    assert segmenter.find_spans("le M5-RFP – € – et R&D", request) == []
    assert segmenter.find_spans("le M5-RFQ", request) == [(3, 9)]
    assert {"M5-RFP", "€", "R&D"} < segmenter.habits(Direction("fr", "bm")).left_out
