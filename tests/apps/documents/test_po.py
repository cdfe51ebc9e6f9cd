"""The placeholders of a gettext entry are those of its format flags."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from typer.testing import CliRunner

from nmt import Translator
from nmt.apps.cli import app
from nmt.apps.documents.formats import read_document
from nmt.apps.documents.po import changed_placeholders
from nmt.apps.documents.translation import TranslatedBlock, with_losses
from nmt.base.errors import DataError
from nmt.data.text.text_statistics import UNSEEN
from nmt.translation.request import Request
from tests.apps.documents.written import capitals


@pytest.mark.parametrize(
    ("flag", "source", "output", "changed"),
    [
        ("c-format", "%d of %s", "%d von %s", []),
        ("c-format", "%d of %s", "%s von %d", ["%d", "%s"]),
        ("c-format", "%1$d of %2$s", "%2$s von %1$d", []),
        ("c-format", "%5.2f", "%5,2f", ["%5.2f", "%"]),
        ("c-format", "%<PRIu64> files", "files", ["%<PRIu64>"]),
        ("c-format", "100%% sure", "sure: 100%%", []),
        ("c-format", "100%% sure", "100% sicher", ["% s"]),
        ("c-format", "two", "zwei %s", ["%s"]),
        ("c-format", "%s %s", "%s", ["%s"]),
        ("python-format", "%(n)d of %(name)s", "%(name)s: %(n)d", []),
        ("python-format", "%(n)d files", "%(n) Dateien", ["%(n)d", "%(n) D"]),
        ("python-brace-format", "{} of {0.name} {a[b]!r:>{w}}", "{} {a[b]!r:>{w}} {0.name}", []),
        ("python-brace-format", "{n} {{x}}", "{{x}} {n}", []),
        ("python-brace-format", "{n} of {m}", "{n von {m}", ["{n}", "{"]),
        ("python-brace-format", "{} of {:d}", "{:d} von {}", ["{}", "{:d}"]),
        ("csharp-format", "{0:N2}", "{0}", ["{0:N2}", "{0}"]),
        ("qt-format", "%1 of %L2 %n", "%n %L2 %1", []),
        ("qt-format", "%1 of %2", "%1 von 2", ["%2"]),
        ("sh-format", "$a and ${b}", "${b} und a", ["$a"]),
        ("no-c-format", "%d", "", []),
        ("fuzzy", "%d {}", "", []),
    ],
)
def test_a_placeholder_that_is_lost_or_invented_is_found(flag, source, output, changed):
    assert changed_placeholders(source, output, ["fuzzy", flag]) == changed


CATALOG = r"""msgid ""
msgstr "Plural-Forms: nplurals=2; plural=n != 1;\n"

msgid "12 %d"
msgstr ""

#, no-c-format
msgid "34 %d"
msgstr ""

#, qt-format
msgid "5 %1"
msgid_plural "67 %n"
msgstr[0] ""
msgstr[1] ""
"""


def test_the_losses_of_a_catalog_are_those_of_each_entry(letters_run):
    pytest.importorskip("polib", reason="needs polib")
    blocks = read_document(CATALOG.encode(), "a.po").blocks
    found = [TranslatedBlock([text], text, {"protected_lost": ["{h0}"]}) for text in ("12", "34", "5 %1", "67 %1")]
    with Translator.load(letters_run, device="cpu") as translator:
        reports = with_losses(blocks, found, translator.segmenter, Request(translator.options), {UNSEEN})
        unprotected = translator.options.changed(protect=False)
        unflagged = with_losses(blocks, found, translator.segmenter, Request(unprotected), {UNSEEN})
    lost = [["%d"], None, None, ["%n", "%1"]]
    assert [each.flags.get("protected_lost") for each in reports] == lost
    assert [block.line for block in blocks] == [4, 7, 11, 11]
    assert [each.flags.get("protected_lost") for each in unflagged] == [None, None, None, ["%n", "%1"]]


def test_the_losses_of_a_document_are_also_marks(letters_run):
    blocks = read_document(b'{"a": "One (two) here; who?", "b": "C++ has 5% -x- now!"}', "a.json").blocks
    found = [TranslatedBlock([text], text, {}) for text in ("One two here who", "C has 5 x now!")]
    with Translator.load(letters_run, device="cpu") as translator:
        reports = with_losses(blocks, found, translator.segmenter, Request(translator.options), {UNSEEN})
    assert reports[0].flags["protected_lost"] == ["(", ")", ";", "?"]
    assert {"C++", "-x-", "%"} <= {*reports[1].flags["protected_lost"]}


def test_a_model_trained_without_protection_does_not_lose_placeholders_in_silence(two_run, tmp_path):
    pytest.importorskip("polib", reason="needs polib")
    (tmp_path / "a.po").write_text(CATALOG)
    command = ["translate", str(tmp_path / "a.po"), "-o", str(tmp_path / "b.po"), "-m", str(two_run), "--to", "de"]
    done = CliRunner().invoke(app, [*command, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    said = " ".join(done.stderr.split())
    written = (tmp_path / "b.po").read_text()
    assert "%d" in written  # nmt translates around it, and around %1
    assert "%1" in written
    # A format that only the entry's flag names.
    assert "protected text is missing or changed: %n (" in said
    assert "a.po:11)" in said
    assert written.count("fuzzy") == 3


HEADER = 'msgid ""\nmsgstr ""\n"Content-Type: text/plain; charset={}\\n"\n"Language: x\\n"\n'
PLURAL = 'msgid "{}"\nmsgid_plural "%d b"\n'


@pytest.mark.parametrize(
    ("rule", "singular", "forms"),
    [
        ("nplurals=1; plural=0", "a", ["%D B"]),
        ("nplurals=2; plural=n != 1", "a", ["A", "%D B"]),
        ("nplurals=2; plural=n > 1", "a", ["A", "%D B"]),
        ("nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2)", "a", ["%D B"] * 3),
        (
            "nplurals=3; plural=(n%10==1 && n%100!=11 ? 0 : n%10>=2 && n%10<=4 ? 1 : 2)",
            "%d a",
            ["%D A", "%D B", "%D B"],
        ),
        (
            "nplurals=6; plural=n==0 ? 0 : n==1 ? 1 : n==2 ? 2 : n<9 ? 3 : n<99 ? 4 : 5",
            "a",
            ["%D B", "A", *["%D B"] * 4],
        ),
    ],
)
def test_an_entry_gets_the_plural_forms_of_the_header(rule, singular, forms, tmp_path):
    polib = pytest.importorskip("polib", reason="needs polib")
    text = HEADER.format("UTF-8") + f'"Plural-Forms: {rule};\\n"\n\n' + PLURAL.format(singular) + 'msgstr[0] ""\n'
    for written in (text, text.replace(" n%10<=4", ' n"\n"%10<=4')):  # as msgmerge breaks lines
        entry = polib.pofile(capitals(written.encode(), "a.po").decode())[0]
        assert [entry.msgstr_plural[number] for number in sorted(entry.msgstr_plural)] == forms
    if shutil.which("msgfmt"):
        (tmp_path / "a.po").write_bytes(capitals(text.encode(), "a.po"))
        checked = subprocess.run(["msgfmt", "-c", "-o", "-", tmp_path / "a.po"], capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize(
    "rule",
    [
        "",
        "nplurals=2; plural=__import__('os')",
        "nplurals=INTEGER; plural=EXPRESSION",
        "nplurals=1; plural=n != 1",
        "nplurals=2; plural=n/0",
    ],
)
def test_a_text_with_plural_forms_is_refused_if_the_header_has_no_rule_for_them(rule):
    header = HEADER.format("UTF-8") + (f'"Plural-Forms: {rule};\\n"\n' if rule else "") + "\n"
    with pytest.raises(DataError, match=r"^a\.po:\d: a text with plural forms, but no rule for them in the header"):
        capitals((header + PLURAL.format("a") + 'msgstr[0] ""\nmsgstr[1] ""\n').encode(), "a.po")
    translated = header + PLURAL.format("a") + 'msgstr[0] "y"\nmsgstr[1] "z"\n'
    assert capitals(translated.encode(), "a.po").decode() == translated
    assert 'msgstr "B"' in capitals((header + 'msgid "b"\nmsgstr ""\n').encode(), "a.po").decode()


def test_a_rule_for_plurals_that_xgettext_left_to_be_filled_in_goes(tmp_path):
    rule = '"Plural-Forms: nplurals=INTEGER; plural=EXPRESSION;\\n"\n'
    text = HEADER.format("CHARSET").replace("Language: x", "Language: ") + rule + '\nmsgid "a"\nmsgstr ""\n'
    (tmp_path / "a.po").write_bytes(capitals(text.encode(), "a.po"))
    assert rule not in (tmp_path / "a.po").read_text()
    if shutil.which("msgfmt"):
        checked = subprocess.run(["msgfmt", "-c", "-o", "-", tmp_path / "a.po"], capture_output=True, check=False)
        assert checked.returncode == 0, checked.stderr


@pytest.mark.parametrize("charset", ["CHARSET", "ASCII", "ISO-8859-1", "EUC-JP", "UTF-8"])
def test_a_catalog_is_written_in_utf_8_and_says_so(charset):
    word = {"ISO-8859-1": "é", "EUC-JP": "日本", "UTF-8": "日本"}.get(charset, "e")
    text = HEADER.format(charset) + f'\n# {word}\nmsgid "{word} a"\nmsgstr ""\n'
    written = capitals(text.encode(charset if charset != "CHARSET" else "ascii"), "a.po").decode()
    assert "charset=UTF-8\\n" in written
    assert f'msgstr "{word.upper()} A"' in written
    assert f"# {word}\n" in written


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (r"\033[1ma\033[0m b", r"\033[1mA\033[0m B"),
        (r"\x1b[1ma\x07 b\1", r"\033[1mA\a B\001"),
        (r"\x41\101 \\033 c\0", r"AA \\033 C\000"),
        (r"a\v\f\b b", r"A\v\f\b B"),
    ],
)
def test_the_escapes_of_a_message_stay_escapes(text, written):
    catalog = f'msgid "{text}"\nmsgstr ""\n'
    assert capitals(catalog.encode(), "a.po").decode().endswith(f'msgid "{text}"\nmsgstr "{written}"\n')


def test_the_columns_of_a_message_keep_the_tabs_between_them():
    text = HEADER.format("UTF-8") + '\nmsgid "a\\tb\\n\\tc"\nmsgstr ""\n'
    assert '\nmsgstr ""\n"A\\t"\n"B\\n\\t"\n"C"\n' in capitals(text.encode(), "a.po").decode()


@pytest.mark.parametrize("entry", ['#, fuzzy\nmsgid "a"\nmsgstr "z"\n', 'msgid "a"\nmsgstr "z"\n'])
def test_what_a_person_translated_stays_fuzzy_or_not(entry):
    text = HEADER.format("UTF-8") + "\n" + entry
    assert capitals(text.encode(), "a.po").decode() == text
    half = (
        HEADER.format("UTF-8")
        + '"Plural-Forms: nplurals=2; plural=n != 1;\\n"\n\n'
        + PLURAL.format("a")
        + 'msgstr[0] "z"\nmsgstr[1] ""\n'
    )
    assert 'msgstr[0] "z"\nmsgstr[1] "%D B"\n' in capitals(half.encode(), "a.po").decode()


def test_comments_without_an_entry_stay():
    """The last comments of a file, and entries that a program no longer has."""
    catalog = '# one\n\nmsgid "x"\nmsgstr ""\n\n#~ msgid "old"\n#~ msgstr "alt"\n\n# end\n'
    written = capitals(catalog.encode(), "a.po").decode()
    assert 'msgstr "X"' in written
    assert [line for line in written.splitlines() if line[:1] == "#"] == [
        "# one", "#, fuzzy", '#~ msgid "old"', '#~ msgstr "alt"', "# end",
    ]  # fmt: skip
