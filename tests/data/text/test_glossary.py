"""Terms in texts: where they begin and end, which of several is meant, and what a model is told."""

from __future__ import annotations

import logging
import random
import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.base.errors import DataError
from nmt.data.text.glossary import Glossary, Term, missed_terms, read_glossary
from nmt.data.text.spans import Span


def found(terms: list[str], text: str) -> list[str]:
    """What is found of `terms` in `text`, as it stands there."""
    return [text[match.start : match.end] for match in Glossary((term, "x") for term in terms).find(text)]


@pytest.mark.parametrize(
    ("terms", "text", "expected"),
    [
        (["cat"], "cat", ["cat"]),
        (["cat"], "concat cats cat_ 4cat", []),
        (["cat"], "(cat), cat! cat's cat-like", ["cat"] * 4),
        (["cat", "cat food"], "cat food for the cat", ["cat food", "cat"]),
        (["cat food", "food for"], "cat food for", ["cat food"]),
        (["a b c", "b"], "a b b c", ["b", "b"]),
        (["New York"], "New  York\tand New\u3000York", ["New  York", "New\u3000York"]),
        (["C++", "C"], "C++ and C", ["C++", "C"]),
        ([".NET"], "use .NET now", [".NET"]),
        (["北京"], "我在北京大学", ["北京"]),
        (["北京", "北京大学"], "我在北京大学", ["北京大学"]),
        (["iPhone"], "我的iPhone手机", ["iPhone"]),
        (["แมว"], "นี่คือแมวดำ", ["แมว"]),
        (["กา"], "กาํ", []),  # a mark belongs to the letter before it
        (["고양이"], "고양이가 고양이 흰고양이", ["고양이", "고양이"]),
        (["고"], "고양이 고", ["고"]),
        (["cafe"], "café caf\u0065\u0301 cafe", ["cafe"]),
        (["s"], "e\u0301s", []),
        (["हिन्दी"], "वह हिन्दी बोलता है, हिन्दीवादी", ["हिन्दी"]),
        (["haus"], "Haus HAUS haus", ["Haus", "HAUS", "haus"]),
        (["Haus"], "Haus HAUS haus", ["Haus", "HAUS"]),
        (["USA"], "USA Usa usa", ["USA"]),
        (["I"], "I i", ["I"]),
        (["straße"], "STRASSE Straße", ["STRASSE", "Straße"]),
        (["cat"], "", []),
        (["cat"], "\n", []),
    ],
)
def test_a_term_is_found_at_the_boundaries_of_words_and_in_fitting_case(terms, text, expected):
    assert found(terms, text) == expected


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_a_term_is_found_however_its_accents_are_spelled(form):
    text = unicodedata.normalize(form, "ein Café")
    assert found(["Café"], text) == [text[4:]]


def test_a_term_as_it_is_written_comes_before_one_in_other_case():
    glossary = Glossary({"us": "uns", "US": "USA"})
    assert [match.term.target for match in glossary.find("US us Us")] == ["USA", "uns", "uns"]


def test_no_term_is_found_in_a_span_that_is_taken():
    text = "cat http://cat.org/cat cat"
    spans = [Span(4, 22)]
    assert [match.start for match in Glossary({"cat": "x", "cat http": "y"}).find(text, spans)] == [0, 23]


@given(
    st.lists(st.text("ab é한北\u0301'-", min_size=1, max_size=6), max_size=8),
    st.text("ab é한北\u0301'- \n", max_size=40),
)
def test_what_is_found_is_in_the_text_in_order_and_nothing_lies_over_another(terms, text):
    glossary = Glossary()
    for term in terms:
        if any(map(str.isalnum, term)):
            glossary.add(term, "x")
    end = 0
    for match in glossary.find(text):
        assert end <= match.start < match.end <= len(text)
        assert text[match.start : match.end].strip() == text[match.start : match.end]
        same = unicodedata.normalize("NFC", " ".join(text[match.start : match.end].split())).casefold()
        assert same.replace(" ", "") == unicodedata.normalize("NFC", match.term.source).casefold().replace(" ", "")
        end = match.end


@pytest.mark.parametrize("count", [10_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_each_of_very_many_terms_is_found(count):
    draw = random.Random(1)
    words = ["".join(draw.choices(string.ascii_lowercase, k=6)) for _ in range(20_000)]
    terms = {" ".join(draw.choices(words, k=2 + number % 3)): f"t{number}" for number in range(count)}
    glossary = Glossary(terms)
    assert len(glossary) == len(terms) > 0.95 * count
    for term in list(terms)[:: count // 250]:
        (match,) = [match for match in glossary.find(f"({term}).") if match.term.source == term]
        assert match.term.target == terms[term]


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("", "x", "the source of a term is empty"),
        ("x", " ", "the target of a term is empty"),
        ("!?", "x", "the source of the term !? = x has neither a letter nor a digit"),
        ("a " * 51, "x", "the source of a term is longer than 50 words or 500 characters: " + ("a " * 51)[:60] + "…"),
        ("cat", "Hund", '"cat" has two translations: "Katze" and "Hund"'),
    ],
)
def test_a_term_that_cannot_be_used_is_refused(source, target, message):
    glossary = Glossary({"cat": "Katze"})
    with pytest.raises(DataError) as refused:
        glossary.add(source, target)
    assert refused.value.message == message
    assert glossary.terms == [Term("cat", "Katze")]


@pytest.mark.parametrize(
    ("targets", "output", "missed"),
    [
        (["Katze"], "Eine Katze.", []),
        (["Katze"], "Eine KATZE.", []),
        (["katze"], "Katze", []),
        (["Katze"], "Katzen", ["Katze"]),
        (["Katze", "Katze"], "Eine Katze.", ["Katze"]),
        (["Katze", "Katze"], "Katze, Katze", []),
        (["Katze", "schwarze Katze"], "Eine schwarze Katze", ["Katze"]),
        (["猫"], "我的猫很好", []),
        (["Katze", "Hund"], "", ["Katze", "Hund"]),
        (["European Union", "Union citizen"], "a European Union citizen", []),
    ],
)
def test_a_term_is_missed_if_its_translation_does_not_occur_as_often(targets, output, missed):
    terms = [Term(f"s{number}", target) for number, target in enumerate(targets)]
    assert [term.target for term in missed_terms(terms, output)] == missed


class Compared(str):
    """A text that counts how often another is sought in one like it."""

    times = 0

    def __contains__(self, other):
        Compared.times += 1
        return super().__contains__(other)


def test_terms_are_not_compared_in_pairs():
    terms = [Term(f"s{number}", Compared(f"Katze{number:03}")) for number in range(200)]
    assert missed_terms(terms, " und ".join(term.target for term in terms)) == []
    assert Compared.times <= 4 * len(terms)


def test_terms_are_read_with_comments_notes_and_blank_lines(tmp_path):
    path = tmp_path / "terms.tsv"
    path.write_bytes("\ufeff# animals\ncat\tKatze\tnoun\r\n\n New  York \t New York\n".encode())
    assert read_glossary(path).terms == [Term("cat", "Katze"), Term("New York", "New York")]


@pytest.mark.parametrize(
    ("text", "line", "message", "hint"),
    [
        ("cat = Katze\n", 1, "this line has no tab", "write a term, a tab and its translation on each line"),
        ("cat\t\n", 1, "the target of a term is empty", "write a term, a tab and its translation on each line"),
        ("\tKatze\n", 1, "the source of a term is empty", "write a term, a tab and its translation on each line"),
        (
            "cat\tKatze\n#\ncat \tKater\n",
            3,
            '"cat" has two translations: "Katze" and "Kater"',
            "delete one of the two; the first is on line 1",
        ),
        ("# none\n", None, "this glossary has no terms", "write a term, a tab and its translation on each line"),
        ("", None, "the file is empty", "write one sentence per line, each line ending in LF"),
    ],
)
def test_a_fault_is_told_with_its_line(tmp_path, text, line, message, hint):
    path = tmp_path / "terms.tsv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as refused:
        read_glossary(path)
    assert (refused.value.line, refused.value.message, refused.value.hint) == (line, message, hint)


TBX_2 = """<?xml version="1.0"?>
<!DOCTYPE martif SYSTEM "TBXcoreStructV02.dtd">
<martif type="TBX" xml:lang="en"><text><body>
<termEntry id="1"><langSet xml:lang="de-DE"><tig><term>Pumpe</term></tig><tig><term>Förderpumpe</term></tig></langSet>
<langSet xml:lang="en"><tig><term>pump</term><termNote type="x">noun</termNote></tig></langSet></termEntry>
<termEntry id="2"><langSet xml:lang="de"><tig><term>Flansch</term></tig></langSet>
<langSet xml:lang="en"><ntig><termGrp><term>flange</term></termGrp></ntig><tig><term>collar</term></tig></langSet>
<langSet xml:lang="fr"><tig><term>bride</term></tig></langSet></termEntry>
</body></text></martif>
"""
TBX_3 = """<tbx xmlns="urn:iso:std:iso:30042:ed-2" type="TBX-Core" style="dca"><text><body>
<conceptEntry id="1"><langSec xml:lang="de"><termSec><term>Pumpe</term></termSec></langSec>
<langSec xml:lang="en"><termSec><term>pump</term></termSec></langSec></conceptEntry></body></text></tbx>
"""


@pytest.mark.parametrize(
    ("name", "text", "terms"),
    [
        ("v2.tbx", TBX_2, [("Pumpe", "pump"), ("Förderpumpe", "pump"), ("Flansch", "flange")]),
        ("v3.tbx", TBX_3, [("Pumpe", "pump")]),
        ("terms.csv", 'de,en,note\nPumpe,pump,x\n"Flansch, rund","flange, ""round""",\n', None),
        ("terms.CSV", "Pumpe;pump\nVentil;valve\n", [("Pumpe", "pump"), ("Ventil", "valve")]),
    ],
)
def test_terms_are_read_from_tables_and_term_bases(tmp_path, name, text, terms):
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_glossary(tmp_path / name, lambda: ("de", "en")).terms
    assert found == [Term(*term) for term in terms or [("Pumpe", "pump"), ("Flansch, rund", 'flange, "round"')]]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("words.csv#en,de", "note,de,en\nx,Pumpe,pump\n"),
        ("words.csv#3,2", "note,de,en\nx,Pumpe,pump\n"),
        ("words.tsv#2,1", "Pumpe\tpump\n"),
        ("words.jsonl#en,de", '{"de": "Pumpe", "en": "pump"}\n'),
    ],
)
def test_the_columns_of_a_glossary_are_chosen_as_those_of_a_corpus(tmp_path, name, text):
    (tmp_path / name.partition("#")[0]).write_text(text, encoding="utf-8")
    glossary = read_glossary(tmp_path / name)
    assert [tuple(term) for term in glossary.terms] == [("pump", "Pumpe")]


def test_a_glossary_whose_name_has_the_sign_is_read_as_it_is(tmp_path):
    path = tmp_path / "terms#1,2"
    path.write_text("pump\tPumpe\n", encoding="utf-8")
    assert len(read_glossary(path)) == 1


def test_terms_are_read_from_workbooks(tmp_path):
    book = pytest.importorskip("openpyxl").Workbook()
    for row in (["de", "en"], ["Pumpe", "pump"], ["Ventil", "valve"]):
        book.active.append(row)
    book.save(tmp_path / "terms.xlsx")
    assert read_glossary(tmp_path / "terms.xlsx").terms == [Term("Pumpe", "pump"), Term("Ventil", "valve")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<tbx><text></text></tbx>", "no translation unit (<tu>, in a TBX <termEntry> or <conceptEntry>)"),
        ("<html></html>", "this is neither TMX nor TBX: the file starts with <html>"),
        (TBX_3.replace("pump<", "pump"), "not well-formed XML: mismatched tag"),
        ('<!DOCTYPE tbx [<!ENTITY a "b">]>' + TBX_3, "the file contains a DTD"),
        (TBX_3.replace("pump", "&a;"), "not well-formed XML: undefined entity"),
        (TBX_3.replace('"en"', '"fr"'), "no unit has both de and en"),
        (TBX_3.replace("pump", " "), "the target of a term is empty"),
    ],
)
def test_a_faulty_term_base_is_refused(tmp_path, text, message):
    (tmp_path / "terms.tbx").write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as refused:
        read_glossary(tmp_path / "terms.tbx", lambda: ("de", "en"))
    assert refused.value.message == message
    assert refused.value.path == tmp_path / "terms.tbx"


def test_a_term_that_is_repeated_is_a_warning(tmp_path, caplog):
    path = tmp_path / "terms.tsv"
    path.write_text("cat\tKatze\ndog\tHund\ncat\tKatze\ncat\tKatze\n", encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert len(read_glossary(path)) == 2
    assert caplog.messages == [f"{path}:3: this term is a repetition (2 such lines in total)"]
