"""Plain text and Markdown keep their marks, code and line breaks."""

from __future__ import annotations

import re

import pytest

from nmt.apps.documents.blocks import Template
from nmt.apps.documents.formats import read_document
from nmt.apps.documents.plain import read_text
from nmt.base.errors import DataError
from tests.apps.documents.written import capitals, unchanged, upper


def marked(text: str, name: str = "a.md") -> list[str]:
    return [block.with_marks() for block in read_document(text.encode(), name).blocks]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("---\nlayout: a\n---\n# b #c\n\nd\n===\n", ["b #c", "d"]),
        ("a *b* __c__ `d` [e](f 'g') [h][i] [j]\n", ["g", "a {h0}b{h1} {h2}c{h3} {h4} {h5}e{h6} [h][i] [j]"]),
        ("![a](b.png) c ![d][e]\n\n[e]: f.png\n", ["{h0}a{h1} c {h2}d{h3}"]),
        ("a\nb\n> c\n> d\n\n1. e\n   f\n- [ ] g\n", ["a b", "c d", "e f", "g"]),
        ("| a | b\\|c |\n|---|:-:|\n| `d` | e |\n", ["a", "b|c", "e"]),
        ("```\na\n```\n~~~ b\nc\n", []),
        ("a\n\n    b\n", ["a"]),
        ("- a\n\n    b\n", ["a", "b"]),
        ("$$\na\n$$\n[a]: b\n***\n<!-- c -->\n", []),
        ("<div title='a'>\nb <b>c</b>\n</div>\n\nd <br> e\n", ["a", "b {h0}c{h1}", "d {h0} e"]),
        ("2 * 3 * 4 and snake_case_name \\*a\\*\n", ["2 * 3 * 4 and snake_case_name *a*"]),
        ("a[^1]\n\n[^1]: b\n", ["a{h0}", "b"]),
    ],
)
def test_markdown_is_divided_into_paragraphs_with_inline_markup(text, texts):
    assert marked(text) == texts
    assert unchanged(text.encode(), "a.md").decode() == text


def test_paragraphs_are_broken_into_lines_again_with_their_marks():
    line = "word " * 15
    for name, mark in (("a.md", "> "), ("a.md", ""), ("a.txt", "")):
        text = f"{mark}{line}\n{mark}{line}\n{mark}end\n"
        written = upper(text.encode(), name).decode().splitlines()
        assert len(written) == 3
        assert all(each.startswith(mark) and len(each) <= len(mark + line) for each in written)
        assert " ".join(each.removeprefix(mark) for each in written) == f"[{line * 2}end]"


def test_no_mark_of_a_list_comes_to_open_a_line_and_special_characters_are_escaped():
    text = ("a " * 30 + "\n") * 2
    document = read_document(text.encode(), "a.md")
    written = document.content_with([document.blocks[0].from_texts(["b " * 29 + "- " * 10 + "*c* <d> 1 < 2"])]).decode()
    assert not any(line.startswith("-") for line in written.splitlines())
    assert written.rstrip().endswith(r"\*c\* \<d> 1 < 2")


def test_lines_of_a_text_are_blocks_and_their_marks_and_indentation_stay():
    text = "Title\n\n  - a b\n  - c\n\tEnd.\n"
    assert marked(text, "a.txt") == ["Title", "a b", "c", "End."]
    assert upper(text.encode(), "a.txt").decode() == "[Title]\n\n  - [a b]\n  - [c]\n\t[End.]\n"


WIDE = "Der Verein wurde im Jahr 1987 gegründet und hat heute mehr als drei-\n"
SENTENCES = "Ein Mann fährt mit dem Fahrrad durch den Park{0}\nEine Frau liest auf einer Bank ein dickes Buch{0}\n"


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        (SENTENCES.format("."), 2),
        (SENTENCES.format("") + "Ein Hund läuft über eine große grüne Wiese\n", 3),
        (SENTENCES.format(",").replace("Eine Frau", "eine Frau") + "ein Hund läuft über eine große grüne Wiese,\n", 3),
        ("A1; ein brauner Hund; läuft über die Wiese; 12,50\nA2; ein schwarzer Hund; springt in den See; 13,50\n", 2),
        ("[12:01] <anna> Hallo zusammen, wie geht es euch\n[12:02] <bernd> Danke, ich war gestern im Kino\n", 2),
        ("Anna: Kommst du heute Abend mit uns ins Kino\nBernd: Nein, ich muss leider noch lange arbeiten\n", 2),
        ("Text:\n\n    nmt translate --input datei.txt --output neu.txt\n    nmt translate a.txt -o neu.txt\n", 3),
        ("Institut für Angewandte Sprachwissenschaften\nUniversität Musterstadt am schönen Fluss\n", 2),
        (WIDE + "hundert Mitglieder aus vielen Ländern und aus allen großen Städten\nder Welt.\n", 1),
        ("中国是世界上人口最多的国家之一，拥有悠久的历史和丰富的\n文化遗产。北京是中国的首都，也是中心。\n", 1),
        (
            WIDE.replace("drei-", "drei.")
            + "Er organisiert Kurse, Feste und Ausflüge für Kinder und Erwachsene\nim Park.\n",
            2,
        ),
    ],
)
def test_a_line_stays_one_unless_an_editor_broke_prose_at_a_width(text, texts):
    document = read_document(text.encode(), "a.txt")
    assert len(document.blocks) == texts
    assert unchanged(text.encode(), "a.txt").decode() == text
    assert upper(text.encode(), "a.txt").decode().count("[") == texts + text.count("[")


@pytest.mark.parametrize("line_end", ["\r", "\n", "\r\n"])
def test_lines_may_end_as_on_any_machine(line_end):
    prose = (
        "This is the first line of some prose that an editor broke at\nits width, so that both lines are one text.\n"
    )
    text = f"A b.\nC d.\n\n{prose}".replace("\n", line_end)
    document = read_document(text.encode(), "a.txt")
    assert [block.plain() for block in document.blocks] == ["A b.", "C d.", " ".join(prose.split())]
    assert unchanged(text.encode(), "a.txt").decode() == text
    assert capitals(text.encode(), "a.txt").decode() == text.upper()
    table = "id\ttext\n1\ta b\n2\tc\n".replace("\n", line_end)
    document = read_document(table.encode(), "a.tsv", column="text")
    assert [(block.plain(), block.line) for block in document.blocks] == [("a b", 2), ("c", 3)]


def test_words_that_were_divided_are_whole_and_compounds_that_share_a_part_are_not():
    text = WIDE + "hundert Mitglieder, denn Vor- und Nachteile werden hier offen be\u00ad\nsprochen.\n"
    joined = "Jahr 1987 gegründet und hat heute mehr als dreihundert Mitglieder, denn Vor- und Nachteile werden"
    assert joined in (plain := marked(text, "a.txt")[0])
    assert plain.endswith("hier offen besprochen.")
    compound = "Wir besprechen heute mit Ihnen gern alle Vor-\nund Nachteile\n"
    assert marked(compound, "a.txt") == [compound.replace("\n", " ").strip()]
    chinese = "中国是世界上人口最多的国家之一，拥有悠久的历史和丰富的\n文化遗产。\n"
    assert marked(chinese, "a.txt") == [chinese.replace("\n", "")]


def test_the_cells_of_a_line_with_columns_keep_their_places():
    written = "[Stadt]          [Fläche in km2]\n[Berlin]\t[891]\n[ein] | [zwei Hunde] | [drei]\n"
    written += "[Kapitel 1] ........ [5]\n[Kapitel 2] . . . . [7]\n│ [ein] │ [zwei] │\n"
    text = re.sub(r"[\[\]]", "", written)
    assert marked(text, "a.txt") == re.findall(r"\[([^\]]+)\]", written)
    assert upper(text.encode(), "a.txt").decode() == written


def test_quoted_prose_is_joined_within_its_quote_and_tasks_keep_their_boxes():
    first = "> Kommst du am Montag in die große Stadt, denn ich warte dort auf dich und\n> auf deine Freunde.\n"
    text = f"{first}>\n> > Nein.\n> Ja.\nGut.\n[ ] Brot\n[x] Butter\n"
    joined = first.replace("\n> ", " ").strip("> \n")
    assert marked(text, "a.txt") == [joined, "Nein.", "Ja.", "Gut.", "Brot", "Butter"]
    assert unchanged(text.encode(), "a.txt").decode() == text


PROSE = (
    "Ein Mann in einem roten Hemd fährt mit seinem Fahrrad durch die alte\nStadt und eine Frau in einem gelben Kleid "
    "liest auf einer grünen Bank.\n"
)
VERSE = "Eins zwei\ndrei vier\n- fünf\nsechs\n\nsieben\nacht\n"
VERSE_LINES = ["Eins zwei", "drei vier", "fünf", "sechs", "sieben", "acht"]


@pytest.mark.parametrize(
    ("lines", "text", "texts"),
    [
        (None, PROSE, [PROSE[:-1].replace("\n", " ")]),
        ("keep", PROSE, PROSE.splitlines()),
        (None, VERSE, VERSE_LINES),
        ("keep", VERSE, VERSE_LINES),
        ("join", VERSE, ["Eins zwei drei vier", "fünf sechs", "sieben acht"]),
        ("join", "a\r\nb\r\n", ["a b"]),
        ("keep", "", []),
        ("join", "\n \n", []),
    ],
)
def test_lines_are_kept_or_joined_however_they_look(lines, text, texts):
    document = read_document(text.encode(), "a.txt", lines=lines)
    assert [block.plain() for block in document.blocks] == texts
    written = document.content_with([block.from_texts(block.texts()) for block in document.blocks])
    assert written.decode().split() == text.split()
    assert written.count(b"\n\n") == text.count("\n\n")


@pytest.mark.parametrize("name", ["a.md", "a.srt", "a.docx"])
def test_only_plain_text_has_lines_to_keep_or_to_join(name):
    with pytest.raises(DataError, match=r"lines are kept or joined in \.txt and \.pdf documents only"):
        read_document(b"12", name, lines="keep")


def test_lines_of_a_page_are_joined_although_their_lengths_differ():
    """The letters of a page have different widths, so a full line may have fewer of them."""
    template = Template()
    text = (
        "Ein Mann in einem roten Hemd fährt mit seinem Fahr-\nrad durch die Stadt und eine Frau in einem Kleid\n"
        "liest auf einer Bank in der Innenstadt\nein Buch.\nEin Hund spielt.\n"
    )
    read_text(text, template, is_page=True)
    whole, dog = (block.plain() for block in template.blocks)
    assert whole.startswith("Ein Mann in einem roten Hemd fährt mit seinem Fahrrad durch die Stadt")
    assert whole.endswith("Innenstadt ein Buch.")
    assert dog == "Ein Hund spielt."


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("1. Milk", ["Milk"]),
        ("1. Milk 2. Bread 3. Eggs", ["1. Milk 2. Bread 3. Eggs"]),
        ("1) Milk 2) Bread", ["1) Milk 2) Bread"]),
        ("1. Milk 2) Bread", ["Milk 2) Bread"]),
        ("2. Bread 3. Eggs", ["Bread 3. Eggs"]),
        ("• Milk", ["Milk"]),
        ("• Milk • Bread", ["• Milk • Bread"]),
    ],
)
def test_a_list_on_one_line_is_one_text_with_all_its_marks(line, texts):
    assert [text for block in read_document(line.encode(), "a.txt").blocks for text in block.texts()] == texts


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("Dear {{ user | title }}, welcome.", ["Dear {{ user | title }}, welcome."]),
        ("At {time | short}\tand more", ["At {time | short}", "and more"]),
        ("{{ a | b }} is | {{ c | d }} was", ["{{ a | b }} is", "{{ c | d }} was"]),
        ("See [[page|text]] and $(a | b) or <a|b>.", ["See [[page|text]] and $(a | b) or <a|b>."]),
        ("a < 1 | b > 2", ["a < 1", "b > 2"]),
        ("(of 5 | of 6", ["(of 5", "of 6"]),
        ("[x] | [y]\t(z)", ["[y]", "(z)"]),
    ],
)
def test_a_bar_in_brackets_separates_no_columns(line, texts):
    assert [text for block in read_document(line.encode(), "a.txt").blocks for text in block.texts()] == texts
