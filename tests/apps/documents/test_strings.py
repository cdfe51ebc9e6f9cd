"""The texts of programs are translated; keys, code and placeholders of their formats stay."""

from __future__ import annotations

import json

import pytest

from nmt.apps.documents.formats import read_document
from nmt.base.errors import DataError
from tests.apps.documents.written import upper


def test_json_keeps_its_keys_numbers_addresses_and_what_belongs_to_a_key_with_a_mark():
    content = {
        "a": "b",
        "@c": {"d": ["e"], "f": "g"},
        "$h": "i",
        "j": [1, "k l", "https://m.n/o", "p.q", "", "C:\\s\\t", "dXYgd3h5eg=="],
        "r": None,
    }
    text = json.dumps(content, indent=2)
    written = upper(text.encode(), "a.json").decode()
    assert written == text.replace('"b"', '"[b]"').replace("k l", "[k l]")


def test_messages_of_several_lines_and_with_quotes_are_written_as_json():
    document = read_document(json.dumps({"a": 'b "c"\n\nd'}).encode(), "a.json")
    assert [block.plain() for block in document.blocks] == ['b "c"', "d"]
    translations = [block.from_texts([text]) for block, text in zip(document.blocks, ['e "f\\', "é\t"], strict=True)]
    assert json.loads(document.content_with(translations)) == {"a": 'e "f\\\n\né\t'}


def test_the_branches_of_a_choice_are_translated_each_by_itself():
    message = "Hier {n, plural, offset:1 =0 {nichts} one {# {d, select, a {Hund} other {Tier}}} other {# Tiere}} da."
    document = read_document(json.dumps({"a": message}).encode(), "a.arb")
    assert [block.with_marks() for block in document.blocks] == [
        "nichts",
        "Hund",
        "Tier",
        "Tiere",
        "Hier {h0} da.",
    ]
    written = json.loads(upper(json.dumps({"a": message}).encode(), "a.arb"))["a"]
    choice = "{n, plural, offset:1 =0 {[nichts]} one {# {d, select, a {[Hund]} other {[Tier]}}} other {# [Tiere]}}"
    assert written == f"[Hier] {choice} [da.]"


def test_a_choice_may_have_lines_of_its_own_and_a_text_of_several_columns_keeps_them():
    message = "{n, plural,\n  one {a b\n# c}\n\tother {d}\n}\te\nf {g, select, other {h}}"
    document = read_document(json.dumps({"a": message}).encode(), "a.json")
    texts = ["a b", "c", "d", "h", "e", "f {h0}"]
    assert [block.with_marks() for block in document.blocks] == texts
    written = json.loads(upper(json.dumps({"a": message}).encode(), "a.json"))["a"]
    lines = "{n, plural,\n  one {[a b]\n# [c]}\n\tother {[d]}\n}\t[e]\n[f] {g, select, other {[h]}}"
    assert written == lines


@pytest.mark.parametrize("message", ["{n, plural, one {a", "{n, plural,", "{n, plural, one a}", "{{n}} {a"])
def test_a_choice_that_is_not_closed_loses_nothing(message):
    assert json.loads(upper(json.dumps([message]).encode(), "a.json"))[0].replace("[", "").replace("]", "") == message


@pytest.mark.parametrize(("content", "line"), [(b"", 1), (b'{\n"a": b}', 2), (b"[" * 100_000, None)])
def test_what_is_not_json_is_told(content, line):
    with pytest.raises(DataError, match="not JSON") as error:
        read_document(content, "a.json")
    assert error.value.line == line


def test_strings_of_android_keep_references_escapes_and_what_is_not_to_be_translated():
    text = (
        "<resources xmlns:x='urn'><string name='a'>it\\'s <b>%1$s</b> &amp; \\u0041\\nnext</string>"
        "<string name='b' translatable='false'>kept</string><string name='c'>@string/a</string>"
        "<plurals name='d'><item quantity='one'>1 <x:g>kept</x:g></item></plurals>"
        "<color name='e'>red</color></resources>"
    )
    document = read_document(text.encode(), "strings.xml")
    assert [block.with_marks() for block in document.blocks] == ["it's {h0}%1$s{h1} & A", "next", "1 {h0}"]
    written = document.content_with(
        [block.from_texts(["@'" for _ in block.texts()]) for block in document.blocks]
    ).decode()
    assert "<string name='a'>\\@\\' <b>\\@\\'</b> @\\'\\n\\@\\'</string>" in written
    for kept in ("kept</string>", "@string/a<", "<x:g>kept</x:g></item>", "<color name='e'>red<"):
        assert kept in written
