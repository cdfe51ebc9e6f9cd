"""JSON Lines: which fields are read, and what is said of lines that lack them."""

from __future__ import annotations

import pytest

from tests.data.read.formats.reading import fault, read

NAME_TWO = "set fields, or name two of them after the file: FILE#SOURCE,TARGET"


def test_fields_are_read_and_a_dot_leads_into_objects_and_arrays(tmp_path):
    path = tmp_path / "a.jsonl"
    assert read(path, '{"src": " one ", "tgt": "eins"}\n\n{"tgt": null, "src": "two"}\n') == [
        ("one", "eins", 1),
        ("", "", 2),
        ("two", "", 3),
    ]
    nested = '{"translation": {"en": "one\\ntwo", "de": ["x", "eins"]}, "a.b": "c"}\n'
    assert read(path, nested, fields=("translation.en", "translation.de.1")) == [("one two", "eins", 1)]
    assert read(path, fields=("a.b", "translation.en")) == [("c", "one two", 1)]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"src": "a"', "not JSON at character 12 of the line: Expecting ',' delimiter"),
        (
            '["a", "b"]',
            "an array instead of an object\n  each line must be one JSON object; for one large array: jq -c '.[]'",
        ),
        ("3", "a number instead of an object"),
        ("null", "null instead of an object"),
        ("[" * 100_000, "not readable as JSON: nested too deep"),
        ('{"src": ' + "1" * 5000 + "}", "not readable as JSON: nested too deep, or a number with too many digits"),
        ('{"src": "a", "de": "b"}', f"no field 'tgt'\n  it has src, de; {NAME_TWO}"),
        ("{}", f"no field 'src'\n  it has no fields; {NAME_TWO}"),
        ('{"src": 5, "tgt": "b"}', "the field 'src' is a number, not text"),
        ('{"src": {"en": "a"}, "tgt": "b"}', "the field 'src' is an object, not text"),
        ('{"src": true, "tgt": "b"}', "the field 'src' is true or false, not text"),
        ('{"src": "a\\u0000", "tgt": "b"}', "the text contains a NUL character"),
        ('{"src": "a\\ud800", "tgt": "b"}', "the text contains half of a surrogate pair (U+D800)"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path, line, message):
    assert fault(tmp_path / "a.jsonl", '{"src": "a", "tgt": "b"}\n' + line + "\n").startswith(f"a.jsonl:2: {message}")


def test_a_missing_field_inside_an_object_is_named_with_its_place(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text('{"t": {"en": "a"}, "u": "b"}\n')
    assert fault(path, fields=("t.en", "t.de")) == f"a.jsonl:1: no field 'de' in 't'\n  it has en; {NAME_TWO}"
    assert fault(path, fields=("t.en", "u.de")) == f"a.jsonl:1: no field 'de' in 'u'\n  'u' is text; {NAME_TWO}"
    assert fault(path, fields=("src", "tgt")) == f"a.jsonl:1: no field 'src'\n  it has t.en, u; {NAME_TWO}"
