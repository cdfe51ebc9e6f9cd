"""The scripts of an exported page compute the tokens, spans, numbers and loops that nmt computes."""

from __future__ import annotations

import random
import unicodedata
from dataclasses import replace
from pathlib import Path

import pytest
import sentencepiece

from nmt.apps.server.corrections import pairs_in
from nmt.apps.web.export import vocabulary_of
from nmt.base.languages import Direction
from nmt.data.text.characters import AS_READ, edges
from nmt.data.text.numbers import has_words, number_words, numbers_in, wrong_numbers
from nmt.data.text.spans import find_spans
from nmt.data.text.text_statistics import TextStatistics
from nmt.data.text.words import trigrams_of, unseen_words
from nmt.data.tokens.tokenizer import Tokenizer, TokenizerPair
from nmt.translation.guards import find_loop, find_unusual
from nmt.translation.protect import Protected, lost_marks, lost_spans
from nmt.translation.sentences import sentence_starts
from tests.apps.web.scripts import copied_scripts, needs_node, run_script
from tests.data.text.placeholder_families import FAMILIES, FRAMES
from tests.stored import MODELS

pytestmark = pytest.mark.slow  # CI runs them on every change, too, where it has a browser
DATA = Path(__file__).parents[3] / "data"
MARKED_SENTENCES = Path(__file__).parents[2] / "translation" / "sentences.tsv"
SCRIPTS = ((0x20, 0x7E), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F),
           (0x4E00, 0x4FFF), (0xAC00, 0xAD00), (0x1F300, 0x1F5FF), (0x300, 0x36F), (0x9, 0x20))  # fmt: skip
SPECIAL = [
    "",
    " ",
    "  two  spaces ",
    "a\tb\r",
    "▁ ▁",
    "</s> <0x41> <unk>",
    "⟦1⟧ a⟦2⟧b⟦3⟧",
    "\ufeff👍🏽 é",
    "\ufffd",
    "z" * 300,
    "ﬁ ½ Å ｶﾞ\u200b\u3000①  ㎏\u00ad ",
    "a ☃☂☁ b☃ ☂☁⟦1⟧☃⟦2⟧☂☁",
    "  ⟦1⟧  ▁  ",
]


def lines() -> list[str]:
    draw = random.Random(1)
    mixed = [
        "".join(chr(draw.randint(*(script if draw.random() < 0.8 else SCRIPTS[0]))) for _ in range(draw.randint(0, 40)))
        for script in SCRIPTS
        for _ in range(200)
    ]
    files = (path.read_text("utf-8").split("\n")[:1500] for path in sorted(DATA.rglob("train*.tsv")))
    return [*SPECIAL, *mixed, *(line for file in files for line in file)]


def trained(
    kind: str, folder: Path, normalization: str = "identity", collapse: bool = False, in_bytes: bool = True
) -> Tokenizer:
    """Train a tokenizer that has seen parts of the lines, so that others are spelled `in_bytes`, or unknown."""
    (folder / "text").write_text("\n".join(line for line in lines()[::3] if line.strip()), "utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(folder / "text"), model_prefix=str(folder / "spm"), vocab_size=4000, model_type=kind,
        byte_fallback=in_bytes, character_coverage=0.98, normalization_rule_name=normalization,
        remove_extra_whitespaces=collapse, hard_vocab_limit=False,
        unk_id=0, pad_id=1, bos_id=2, eos_id=3, user_defined_symbols=["⟦1⟧", "⟦2⟧"], minloglevel=2,
    )  # fmt: skip
    return Tokenizer.load(folder / "spm.model")


@needs_node
@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "words", "letters"])
def test_javascript_has_the_tokens_of_sentencepiece(kind, tmp_path):
    stored = MODELS / kind / "tokenizer"
    check_tokens(TokenizerPair.load(stored).src if stored.is_dir() else trained(kind, tmp_path), tmp_path / "page")


@needs_node
@pytest.mark.parametrize(("normalization", "collapse"), [("nmt_nfkc", True), ("nfkc_cf", False), ("identity", True)])
def test_javascript_normalizes_as_sentencepiece_does(normalization, collapse, tmp_path):
    check_tokens(trained("unigram", tmp_path, normalization, collapse), tmp_path / "page")


@needs_node
@pytest.mark.parametrize("kind", ["unigram", "bpe", "char"])
@pytest.mark.parametrize("collapse", [False, True])
def test_javascript_writes_one_unknown_token_per_run_of_unknown_characters(kind, collapse, tmp_path):
    tokenizer = trained(kind, tmp_path, collapse=collapse, in_bytes=False)
    (run,) = (ids.count(0) for ids in tokenizer.encode_batch(["a ☃☂☁ b"]))
    assert run == 1
    check_tokens(tokenizer, tmp_path / "page")


def check_tokens(tokenizer: Tokenizer, page: Path) -> None:
    texts, draw = lines(), random.Random(2)
    drawn = [[draw.randrange(tokenizer.vocab_size) for _ in range(draw.randint(0, 12))] for _ in range(2000)]
    ids = tokenizer.encode_batch(texts)
    given = {"vocabulary": vocabulary_of(tokenizer), "lines": texts, "ids": [*ids, *drawn]}
    found = run_script(copied_scripts(page), "segment", given)
    assert found["ids"] == ids
    assert found["texts"] == [tokenizer.decode(each) for each in given["ids"]]


@needs_node
@pytest.mark.parametrize("learned", ["", "abcdefghijklmnopqrstuvwxyz ａｂ１２ﬁéä"])
def test_javascript_reads_characters_as_nmt_does(learned, tmp_path):
    draw, scripts = (
        random.Random(3),
        (*SCRIPTS, (0x2000, 0x206F), (0xFB00, 0xFDEF), (0xFE00, 0xFFFF), (0x1D400, 0x1D7FF)),
    )
    drawn = [
        "".join(chr(draw.randint(*(draw.choice(scripts) if draw.random() < 0.4 else SCRIPTS[0]))) for _ in range(30))
        for _ in range(5000)
    ]
    around = (
        "♪ {} ♪",
        "({})",
        "[{}] ",
        "• → {}",
        "{} 😀👍🏽",
        "(a) {} (b)",
        "✓{}",
        "〔{}〕",
        "* {}*",
        "（{}）",
        "{} 👨\u200d👩\u200d👧",
        "{}",
    )
    framed = [mark.format(unicodedata.normalize("NFD", "Mädchen fährt")) for mark in around]
    lines = [*SPECIAL, *drawn, *framed, "a\u0308 {na\u0308me} o\u0308", "１２\u00a0３", "می\u200cخواهم a\u200cb"]
    lines += ["a  b", "a.  b  c  ", "  a  {x  y}  b", "a \u00a0 b\n  c  \nd", "{a}  b", "a  {b}"]
    texts = [(line, find_spans(line)) for line in lines]
    in_units = [
        (line, [[len(line[:at].encode("utf-16-le")) // 2 for at in span] for span in spans]) for line, spans in texts
    ]
    found = run_script(copied_scripts(tmp_path / "page"), "read", {"lines": in_units, "learned": list(learned)})
    rule = replace(AS_READ, learned=frozenset(learned))
    for (text, spans), (read, _, symbols) in zip(texts, found, strict=True):
        assert ascii(read) == ascii(rule.read(text, spans).text)
        assert tuple(symbols) == edges(text), ascii(text)


@needs_node
@pytest.mark.parametrize("in_capitals", [0, 50])
def test_javascript_knows_unusual_sources_as_nmt_does(in_capitals, tmp_path):
    draw, vocabulary = (
        random.Random(6),
        ["a", "haus", "der", "中", "国", "und", "straße", "xyz", "ΣΑΣ", "İ", "ha", "12", "５"],
    )
    statistics = TextStatistics(pairs=1000, src_sentences=[1000], tgt_sentences=[1000], in_capitals=in_capitals,
        chars_per_token=1.5, words=["haus xyz", "der 中 ha", "straße", "a und"], usual_octave=1.7)  # fmt: skip
    texts = [" ".join(draw.choices(vocabulary, k=draw.randint(0, 9))) for _ in range(600)]
    texts += [*map(str.upper, texts[:200]), "ha " * 7, "ha ho " * 6, "ÉCOLE ǅ FERMÉE", *SENTENCES, *lines()[::9]]
    cases = [(text, draw.randint(0, 40)) for text in texts]
    facts = {**statistics.model_dump(), "knows_capitals": statistics.knows_capitals}
    found = run_script(copied_scripts(tmp_path / "page"), "unusual", {"cases": cases, "statistics": facts})
    for (text, tokens), reasons in zip(cases, found, strict=True):
        expected = [reason for reason in find_unusual(text, tokens, "und", statistics) if reason != "language"]
        assert reasons == expected, ascii(text)


@needs_node
@pytest.mark.parametrize("left_out", [[], ["capital 7 0", "small 4 2", "capitals", "form a-a unseen"]])
def test_javascript_names_unseen_words_as_nmt_does(left_out, tmp_path):
    seen = ["der", "hund", "and", "a", "i", "straße", "ist", "é"]
    texts = [*SENTENCES, *lines()[::5], *FRAMED[::3], "DER README", "E\u0301t\u0301-x ǅa İx x_y"]
    found = run_script(
        copied_scripts(tmp_path / "page"), "unseen", {"texts": texts, "seen": seen, "left_out": left_out}
    )
    for text, words in zip(texts, found, strict=True):
        unseen = unseen_words(text, seen, {*trigrams_of(f" {' '.join(seen)} ")})
        assert words == [word for word, kind in unseen if kind not in left_out], ascii(text)


TEXTS = [
    "See https://example.org/a_(b). Or www.x.org, ok?", "Mail me@example.org <b class='x'>now</b> &amp; {name} %1$s %d",
    "1,000 cats, 2.000.000 dogs, 12:30, ٣٤ and 7", "ha ha ha ha ha ha", "abababababab",
]  # fmt: skip
SENTENCES = [
    "No mark here", "Two men are working. One is asleep.", "你好。我很好！你呢？", "Is it? Yes! Good.",
    "Dr. Smith is here. He waits.", "It costs 3.50 now. Fine.", "",
]  # fmt: skip


@needs_node
def test_javascript_finds_the_spans_numbers_loops_and_sentences_that_nmt_finds(tmp_path):
    texts = [*TEXTS, *SENTENCES]
    found = run_script(copied_scripts(tmp_path / "page"), "split", {"lines": texts, "language": "en"})
    for text, (spans, starts, numbers, forbidden) in zip(texts, found, strict=True):
        assert spans == [list(span) for span in find_spans(text)], text
        assert numbers == numbers_in(text), text
        assert forbidden == (find_loop(list(text), []) or 0), text
        assert starts == sentence_starts(text, "en") or text in TEXTS, text


FRAMED = [frame.replace("{}", each) for family in FAMILIES.values() for each in family for frame, _ in FRAMES]
NUMBERS = [
    "0,5 mg, -5 °C, 1.234,56 € and ½", "am 3.5. um 7.30 Uhr", "1½ l, 10 km, 5th, 4 GB, 5 Std.",
    "von 1990 bis 2000", "from 2000 to 1990",
    "2 Hunde und 5 Kinder", "two dogs and 5 children", "2 dogs", "minus 5, 7:30, ٤٢ ４２ १२", "3 dogs",
    "12 twelve zwölf 12", "Zimmer 7 ist Hauptstr. 5 an gate 3.", "5 Main Street, Kapitel 2 (page 4)",
    "Es sind 2 Hunde, 第3章 und 5号", "Nr. 4.2.1, 3:2, 24/7 um 3pm in 3a",
]  # fmt: skip


@needs_node
def test_javascript_finds_the_spans_and_numbers_of_all_kinds_that_nmt_finds(tmp_path):
    texts = [*FRAMED, *NUMBERS, *lines(), *symbols_in_sentences()]
    texts = [text for text in texts if text == text.encode("utf-16-le", "ignore").decode("utf-16-le")]
    found = run_script(copied_scripts(tmp_path / "page"), "split", {"lines": texts, "language": "en"})
    for text, (spans, _, numbers, _) in zip(texts, found, strict=True):
        assert [[characters_before(text, at) for at in span] for span in spans] == [*map(list, find_spans(text))], text
        assert numbers == numbers_in(text), text


def symbols_in_sentences() -> list[str]:
    """Return sentences with symbols and brackets of every block, at random places beside words, numbers and spaces."""
    draw = random.Random(5)
    symbols = [chr(code) for code in range(0x20, 0x1FC00) if unicodedata.category(chr(code))[0] in "SP"]
    others = [
        "Ein",
        "a",
        "5",
        "S",
        " ",
        " ",
        "\n",
        "中文",
        "Mio.",
        "\ufe0f",
        "\u200d",
        "\u20e3",
        "🏽",
        "+ S",
        ".",
        "⟪",
        "⟫",
    ]
    pieces = ([draw.choice([*others, draw.choice(symbols)]) for _ in range(12)] for _ in range(6000))
    return [*map("".join, pieces), *(f"Ein {symbol} Hund{symbol} {symbol}5 {symbol}" for symbol in symbols)]


BESIDE = ["Ein -{name}- läuft.", "~%s~ *a_b*", '"{x}" und „%d“, ~n~ a.', "Der <b>-x-</b> und \U0001f600-{n}-"]
OF_MANY_SPANS = [
    "Ein Haus {n}? Und nun",
    "%s? {n}! Nein.",
    " ".join(["a ⟦1⟧"] * 10),
    " {n} a" * 12,
    "{a}{b} ⟦2⟧ ⟦2⟧ a.",
]


@needs_node
@pytest.mark.parametrize(
    "left_out", [[], ["digits", "question"], ["amounts", "opening", "dash", "mark ~", "mark *", "camel"]]
)
def test_javascript_restores_joins_and_judges_as_nmt_does(left_out, tmp_path):
    draw = random.Random(3)
    outputs = ["⟦1⟧ A man.", "A man⟦1⟧and⟦2⟧ dogs", "no", "⟦2⟧⟦1⟧⟦1⟧", "It takes 300s.", *NUMBERS]
    sources = [
        *draw.sample(FRAMED, 300),
        *NUMBERS,
        "%s and %d",
        "Hund 3f9ac0e, heute.",
        "有{n}只狗",
        "<b>fett</b> {x}, ein Mann [b]a[/b].",
        *BESIDE,
        *OF_MANY_SPANS,
    ]
    cases = [
        [source, output, masks]
        for source in sources
        for output in [*draw.sample(outputs, 4), source]
        for masks in (True, False)
    ]
    words = [{"words": number_words(code), "spaced": True} for code in ("de", "en")]
    given = {"cases": cases, "words": words, "left_out": left_out}
    found = run_script(copied_scripts(tmp_path / "page"), "protect", given)
    for (source, output, masks), in_javascript in zip(cases, found, strict=True):
        kept = Protected.from_spans(source, find_spans(source), masks=masks)
        pieces = kept.pieces()
        wrong = wrong_numbers(source, output, Direction("de", "en"), left_out)
        assert in_javascript == [
            kept.source, [*kept.restore(output)], [[*piece] for piece in pieces], kept.join([output] * len(pieces)),
            lost_spans(kept.spans, output), kept.has_words(), has_words(source), wrong,
            lost_marks(source, output, kept.spans, left_out),
        ], (source, output)  # fmt: skip


# Lines that the page splits otherwise: sentencex knows what begins a sentence in English ("It", "Please"), and "Bart.".
MOST_OTHERWISE = {"en": 9, "de": 1, "nb": 1, "nl": 1}


@needs_node
def test_javascript_splits_nearly_all_lines_of_fifty_languages_as_nmt_does(tmp_path):
    lines = [line.split("\t") for line in MARKED_SENTENCES.read_text(encoding="utf-8").splitlines()]
    page = copied_scripts(tmp_path / "page")
    for language in sorted({language for language, _ in lines}):
        texts = [marked.replace("‖", "") for of_line, marked in lines if of_line == language]
        found = run_script(page, "split", {"lines": texts, "language": language})
        otherwise = [
            text
            for text, (_, starts, *_) in zip(texts, found, strict=True)
            if [characters_before(text, at) for at in starts] != sentence_starts(text, language)
        ]
        assert len(otherwise) <= MOST_OTHERWISE.get(language, 0), (language, otherwise)


SMALL_STARTS = [
    "Ein Hund. iv Katze",
    "Ein Hund schläft. katze läuft. Ja",
    "Das ist ein Haus » . katze läuft. Gut",
    "Er kam? ja nun. Gut",
    "Die Hunde schlafen. éa läuft. Ja",
    "Ein Hund schläft… katze läuft. Ja",
    "Sie geht à. Dann kommt er",
    "Es sind 99. hunde. Ja",
]


@needs_node
@pytest.mark.parametrize("language", ["de", "en", "fr", "mos", "cs", "da", "sw", "xx"])
def test_javascript_begins_sentences_with_small_letters_where_nmt_does(language, tmp_path):
    found = run_script(copied_scripts(tmp_path / "page"), "split", {"lines": SMALL_STARTS, "language": language})
    assert [starts for _, starts, *_ in found] == [sentence_starts(text, language) for text in SMALL_STARTS]


def characters_before(text: str, unit: int) -> int:
    """Return the characters of `text` before `unit`, an index of JavaScript, which counts UTF-16 units."""
    return len(text.encode("utf-16-le")[: 2 * unit].decode("utf-16-le"))


@needs_node
def test_a_correction_is_kept_by_lines_and_sentences_as_a_server_keeps_it(tmp_path):
    cases = [
        ("Eins. Zwei.", "One. Two."),
        ("Eins. Zwei.", "One and two."),
        ("Eins.\r\n\n  Zwei drei. Vier. \n", "One.\nTwo three. Four."),
        ("Eins.\nZwei. Drei.", "One. Two. Three."),
        ("Eins.\u2028Zwei.\x0bDrei.", "One.\nTwo.\rThree."),
        ("Siehe <b>a. B</b> c. Ja.", "See <b>a. B</b> c. Yes."),
        ("Um 12.30 Uhr, z. B. hier. https://a.example/x. Ende!", "At 12:30, e.g. here. https://a.example/x. End!"),
        ("1. Eins. 2. Zwei.", "1. One. 2. Two."),
        ("Eins.\tZwei. Drei.", "One.\tTwo. Three."),
        ("", "x"),
    ]
    found = run_script(
        copied_scripts(tmp_path / "page"), "pairs", {"cases": cases, "languages": {"from": "de", "to": "en"}}
    )
    assert [list(map(tuple, pairs)) for pairs in found] == [pairs_in(Direction("de", "en"), *case) for case in cases]
