"""Plain text and Markdown keep their marks, code and line breaks."""

from __future__ import annotations

import pytest

from nmt.apps.documents.formats import read_document
from tests.apps.documents.written import unchanged, upper


def marked(text: str, name: str = "a.md") -> list[str]:
    return [block.with_marks() for block in read_document(text.encode(), name).blocks]


@pytest.mark.parametrize(
    ("text", "texts"),
    [
        ("---\ntitle: a\n---\n# b #c\n\nd\n===\n", ["b #c", "d"]),
        ("a *b* __c__ `d` [e](f 'g') [h][i] [j]\n", ["a {h0}b{h1} {h2}c{h3} {h4} [e](f 'g') {h5}h{h6} [j]"]),
        ("![a](b.png) c ![d][e]\n", ["{h0}a{h1} c {h2}d{h3}"]),
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
    written = document.save([document.blocks[0].from_texts(["b " * 29 + "- " * 10 + "*c* <d> 1 < 2"])]).decode()
    assert not any(line.startswith("-") for line in written.splitlines())
    assert written.rstrip().endswith(r"\*c\* \<d> 1 < 2")


def test_lines_of_a_text_are_blocks_and_their_marks_and_indentation_stay():
    text = "Title\n\n  - a b\n  - c\n\tEnd.\n"
    assert marked(text, "a.txt") == ["Title", "a b", "c", "End."]
    assert upper(text.encode(), "a.txt").decode() == "[Title]\n\n  - [a b]\n  - [c]\n\t[End.]\n"
