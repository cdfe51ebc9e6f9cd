"""Markdown as CommonMark, GFM, sites and editors write it: marks, code and addresses stay, and all prose is found."""

from __future__ import annotations

import re
import time
import tomllib

import pytest
import yaml
from markdown_it import MarkdownIt

from nmt.apps.documents.formats import read_document
from tests.apps.documents.written import capitals, in_capitals, unchanged
from tests.quick import quick_and_slow


def translated(text: str) -> str:
    """Return a text in capitals, after a check that the identity changes nothing."""
    assert unchanged(text.encode(), "a.md").decode() == text
    return capitals(text.encode(), "a.md").decode()


BLOCKS = {
    "code in an item of an ordered list": "1. ```sh\n   a\n   ```\n2. b\n\nc\n",
    "with a bracket": "1) ~~~\n   a\n   ~~~\n\nc\n",
    "in a task": "- [ ] ```\n  a\n  ```\n\nc\n",
    "in a note": "b[^1]\n\n[^1]: ```\n    a\n    ```\n\nc\n",
    "a formula in an item": "1. $$\n   a\n   $$\n2. b\n\nc\n",
    "in a quote in a list": "- > ```\n  > a\n  > ```\n\nc\n",
    "indented code in an item": "- b\n\n      a\n\nc\n",
    "an empty item": "-\n\n      a\n\nc\n",
    "a script with a blank line": "<script>\na\n\na\n</script>\n\nc\n",
    "preformatted text with a blank line": "<pre>\na\n\na\n</pre>\n\nc\n",
    "a style in a quote": "> <style>\n> a\n> </style>\n\nc\n",
    "front matter": "---\nlayout: a\ntitle: 1\nsummary: *a\ntags:\n  title: a\n---\n\nc\n",
    "front matter in TOML": '+++\nlayout = "a"\n+++\n\nc\n',
    "front matter in JSON": '{\n  "title": "a"\n}\n\nc\n',
    "a shortcode": '{{< figure src="a.png" >}}\n\nc\n\n{{% notice a %}}\nb\n{{% /notice %}}\n',
    "a shortcode with code": "{{< highlight a >}}\na\n\na\n{{< /highlight >}}\n\nc\n",
    "Liquid": "{% include a.html %}\n\nc\n\n{% highlight a %}\na\n{% endhighlight %}\n\nb\n",
    "attributes of a paragraph": "c\n{: .a #a }\n\nb\n",
    "a reference": "[a]: <a a> 'b'\n\nc\n",
    "an example of a reference": "[a]: a (b)\n\n```\n[a]: a (a)\n```\n\nc\n",
    "MDX with code": 'export const a = {\n  a: 1,\n\n  a: "a",\n};\n\n{a.map(a => <li>{a}</li>)}\n\nc\n',
    "components": '<Ab a={<A a="a" />} a={{a: 1}}>\nc\n</Ab>\n\n<Ab\n  a={a}\n/>\n\nb\n',
    "components in components": "<Ab a='a'>\n<Cd>\nc\n</Cd>\n</Ab>\n\nb\n",
    "a comment as a definition": "[//]: # (a a)\n[a]: # (a)\n\nc\n",
    "MDX": 'import A from "a"\n\n{/* a */}\n\nc\n',
    "containers": "::: {.callout-a}\nc\n:::\n\n:::a\nb\n:::\n",
    "options of code": '```{r}\n#| label: a\nf(title="a")\n```\n\n```yaml\ntitle: a\n```\n\nc\n',
    "a comment of Obsidian": "%%\na\n%%\n\nc\n",
    "a formula with an environment": "\\begin{align}\na\n\\end{align}\n\nc\n",
}


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_what_is_no_prose_stays_and_all_prose_behind_it_is_translated(kind, line_end):
    text = BLOCKS[kind].replace("\n", line_end)
    assert translated(text) == re.sub(r"\b[bc]\b", lambda word: word[0].upper(), text)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("> [!NOTE]\n> a\n> b\n", "> [!NOTE]\n> A\n> B\n"),
        ("> [!TIP]- a b\n> c\n", "> [!TIP]- A B\n> C\n"),
        ('!!! note "a b"\n    c\n\n    d\n\ne\n', '!!! note "A B"\n    C\n\n    D\n\nE\n'),
        ("??? warning\n\n    a\n", "??? warning\n\n    A\n"),
        ('=== "a b"\n\n    c\n', '=== "A B"\n\n    C\n'),
        (":::note a b\nc\n:::\n", ":::note A B\nC\n:::\n"),
        (":::tip[a b]\nc\n:::\n", ":::tip[A B]\nC\n:::\n"),
        ("a\n: b\n: c\n", "A\n: B\n: C\n"),
        ("[^1]: a\n\n    b\n", "[^1]: A\n\n    B\n"),
        ("## a {#b .c}\n", "## A {#b .c}\n"),
        ("![a](b.png){width=50%}\n", "![A](b.png){width=50%}\n"),
        ("a $b_1$ c \\(d^2\\) e $f$\n", "A $b_1$ C \\(d^2\\) E $f$\n"),
        ("for $5 and $6, or 7$\n", "FOR $5 AND $6, OR 7$\n"),
        ("a {{ b }} {% c %} d\n", "A {{ b }} {% c %} D\n"),
        ("[[a]] b [[c|d e]] ==f g==\n", "[[a]] B [[c|D E]] ==F G==\n"),
        ("a [@b2020] c :smile: d\n", "A [@b2020] C :smile: D\n"),
        ("press <kbd>a</kbd> b\n", "PRESS <kbd>a</kbd> B\n"),
        ("a [b](<c d> 'e') f\n", "A [B](<c d> 'E') F\n"),
        ("a ($b ($c) d $e$f $g$\n", "A ($B ($C) D $E$F $g$\n"),
        ("==a b== c ==d==\n", "==A B== C ==D==\n"),
        ("a @b-c, -@d:e [@f], @g/h\\_l; i@j k\n", "A @b-c, -@d:e [@f], @g/h\\_l; I@J K\n"),
        ("- a ^b-1\n\nc^d ^e\n", "- A ^b-1\n\nC^D ^e\n"),
        ('<Ab title="b c" d={e}>\nf\n</Ab>\n', '<Ab title="B C" d={e}>\nF\n</Ab>\n'),
        ("a^[b c] d [e^f]\n\n[g]: h\n", "A^[B C] D \\[E^F\\]\n\n[g]: h\n"),
        ("*[HTML]: a b\n*[CSS]: c\n", "*[HTML]: A B\n*[CSS]: C\n"),
        ("| a b,\n|   c\n", "| A B,\n|   C\n"),
        ('![a](b \'c "d"\') <i title="e">f</i>\n', '![A](b \'C "D"\') <i title="E">F</i>\n'),
        ("> a [b](c\n> 'd\n> e') f\n", "> A [B](c\n> 'D E')\n> F\n"),
        ("a [b][c.d] e\n", "A [B][c.d] E\n"),
        ("a [b] c [d][] ![e]\n\n[b]: x\n[d]: y\n[e]: z\n", "A [B][b] C [D][d] ![E][e]\n\n[b]: x\n[d]: y\n[e]: z\n"),
        ("*a*b un*c*d **e f**\n", "*A*B UN*C*D **E F**\n"),
        ("&copy; a \\* b\n", "© A * B\n"),
        ("1986\\. a\n", "1986\\. A\n"),
        ("a  \nb\\\nc\n", "A  \nB\\\nC\n"),
        ("| a | b \\| `c\\|` |\n|---|---|\n| d | |\n| | e |\n", "| A | B \\| `c\\|` |\n|---|---|\n| D | |\n| | E |\n"),
        ("- [x] a\n- [ ] b\n", "- [x] A\n- [ ] B\n"),
        ("<div>\na <b>b</b>\n\nc\n</div>\n", "<div>\nA <b>B</b>\n\nC\n</div>\n"),
        ("a <svg><title>b</title><path d='c'/></svg> d\n", "A <svg><title>B</title><path d='c'/></svg> D\n"),
        ('![a](b.png){#c fig-cap="d e" fig-alt="f"}\n', '![A](b.png){#c fig-cap="D E" fig-alt="F"}\n'),
        (
            '{{< a src="b" caption="c d" >}}\n\n{% e alt="f" %}\n',
            '{{< a src="b" caption="C D" >}}\n\n{% e alt="F" %}\n',
        ),
        ('```{r, fig.cap="a"}\nb="c"\n```\n', '```{r, fig.cap="A"}\nb="c"\n```\n'),
        ('::: {.a title="b c"}\nd\n:::\n', '::: {.a title="B C"}\nD\n:::\n'),
        ('{{< a "b c" "/d/e" >}}\nf {{% g "h" "i, j" %}}\n', '{{< a "B C" "/d/e" >}}\nF {{% g "h" "I, J" %}}\n'),
        ("a {b.c} {d ? 'e f' : g} h {i j}\n", "A {b.c} {d ? 'e f' : g} H {I J}\n"),
        ("a #bc, (#d/e) #1 f#g\n", "A #bc, (#d/e) #1 F#G\n"),
        ("- [{{ a }} b]({{ c.d }}) e\n", "- [{{ a }} B]({{ c.d }}) E\n"),
        ("a \\$5 b $6 c \\#d\n", "A \\$5 B \\$6 C \\#D\n"),
        (
            "<figure markdown>\n  ![a](b.png)\n  <figcaption>c</figcaption>\n</figure>\n",
            "<figure markdown>\n  ![A](b.png)\n  <figcaption>C</figcaption>\n</figure>\n",
        ),
        (
            "<Ab>\na [b](c.md) d\n</Ab>\n\n<Ab>\n    e f\n</Ab>\n",
            "<Ab>\nA [B](c.md) D\n</Ab>\n\n<Ab>\n    E F\n</Ab>\n",
        ),
        ('--8<-- "a/b.md"\n\n(a-b)=\n# c {d}`e` f\n', '--8<-- "a/b.md"\n\n(a-b)=\n# C {d}`e` F\n'),
        ("```{note} a b\n:class: c\n\nd\n\n~~~\ne\n~~~\n```\n", "```{note} A B\n:class: c\n\nD\n\n~~~\ne\n~~~\n```\n"),
        (
            "<Ab c={() => d('e f')} title=\"g h\">i</Ab> j <Kl m={n} /> o\n",
            "<Ab c={() => d('e f')} title=\"G H\">I</Ab> J <Kl m={n} /> O\n",
        ),
        ("a <b {c} > d < e={f}\n", "A \\<B {C} > D < E={F}\n"),
        (
            "a {++b c++} {--d--} {~~e~>f~~} {==g==}{>>h i<<} --j\n",
            "A {++B C++} {--D--} {~~E~>F~~} {==G==}{>>h i<<} --J\n",
        ),
        ("a https://b.c/@d/e?f=@g h\n", "A HTTPS://B.C/@D/E?F=@G H\n"),
        ("- ` ` a `` ` `` b ` c  `\n", "- ` ` A `` ` `` B ` c  `\n"),
        ("a\n\n\\newpage\n\n\\vspace{1cm}\n\nb \\c\n", "A\n\n\\newpage\n\n\\vspace{1cm}\n\nB \\C\n"),
        ("> ````{tip}\n> a\n> ````\n\n```{code}\nb\n```\n", "> ````{tip}\n> A\n> ````\n\n```{code}\nb\n```\n"),
    ],
)
def test_marks_stay_around_the_text_that_people_read(text, written):
    if text.startswith(("| a", "> [!NOTE]")):  # cells of code, and lines that are joined
        written = written.replace("`c|`", "`c|`")
    assert translated(text) == written


def test_a_title_has_the_line_of_its_text():
    blocks = read_document(b'a\n\nb [c](d "e")\n\n![f](g "h")\n\n|i|\n|-|\n|[j](k "l")|\n', "a.md").blocks
    assert [(block.plain(), block.line) for block in blocks] == [
        ("a", 1), ("e", 3), ("b c", 3), ("h", 5), ("f", 5), ("i", 7), ("l", 9), ("j", 9),
    ]  # fmt: skip


def test_links_lead_to_the_headings_that_were_translated():
    text = (
        "[a](#why-x) [m](#Why-X) [b](#a-b--c_d) [c](#why-x-1) [d](#\u00fcber) [l](#%C3%BCber)\n\n"
        "<a href='#why-x'>e</a> [f] [g](h.md#why-x) [i](#j)\n\n"
        "[f]: #a-b--c_d 'k'\n\n# *Why* `x`?\n\nA [B] & c_d\n===\n\n## Why x\n\n## \u00dcber\n\n## K {#j}\n"
    )
    assert unchanged(text.encode(), "a.md").decode() == text
    document = read_document(text.encode(), "a.md")
    titles = {"Why": "\u0915\u093f"}  # with a vowel sign
    written = document.content_with(
        [block.from_texts([titles.get(text, f"{text} z") for text in block.texts()]) for block in document.blocks]
    ).decode()
    assert written.count("](#\u0915\u093f-x-z) [") == 2  # as a browser shows it on GitHub, in any case
    for link in re.findall(r"#([^\s)'\"}#]+)(?=[)' \"])", written):
        assert link in ("\u0915\u093f-x-z", "why-x-z", "a-b--c_d-z", "\u00fcber-z", "why-x", "j"), link
    assert written.count("why-x)") == 1  # of the other file


@pytest.mark.parametrize("line_end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    "value",
    ["ein Haus", '"ein Haus: x"', "'ein ''x'' Haus'", ">-\n  ein\n  Haus", "|\n  ein\n  Haus", "ein\n  Haus"],
)
def test_titles_in_the_front_matter_are_translated_and_stay_texts(value, line_end):
    text = f"---\nlayout: x # c\ntitle: {value}\ndate: 2024-01-01 # c\n---\n\nx\n"
    before, after = (yaml.safe_load(each.split("---")[1]) for each in (text, translated(text.replace("\n", line_end))))
    assert after == before | {"title": before["title"].upper()}


def test_a_title_that_yaml_would_take_for_something_else_is_written_in_quotes():
    document = read_document(b"---\ntitle: Nein # c\n---\n", "a.qmd")
    for text in ("No", "a: b", "1", '"a" #b', "a\\b"):
        front = document.content_with([document.blocks[0].from_texts([text])]).decode().split("---")[1]
        assert yaml.safe_load(front)["title"] == text
        assert front.endswith(" # c\n")


def test_titles_in_toml_and_captions_in_options_of_code_are_translated():
    code = "```{python}\n#| fig-cap: d e\n#| e: f\n```\n"
    written = translated(f"+++\ntitle = 'a b'\nsummary = \"c\"\n+++\n\n{code}")
    assert tomllib.loads(written.split("+++")[1]) == {"title": "A B", "summary": "C"}
    assert written.endswith('#| fig-cap: "D E"\n#| e: f\n```\n')


@pytest.mark.parametrize("text", ["# a", "> a", "- a", "+ a", "1. a", "===", "---", "~~~", "#a", "| a"])
def test_a_translation_that_looks_like_a_mark_is_not_one(text):
    document = read_document(b"x y\n", "a.md")
    written = document.content_with([document.blocks[0].from_texts([text])]).decode()
    assert "<p>" in MarkdownIt("commonmark").enable("table").render(written)
    assert read_document(written.encode(), "a.md").blocks[0].plain() == text


def test_emphasis_that_no_reader_would_see_between_ideographs_is_written_as_elements():
    document = read_document(b"a **note:** b *c* d\n", "a.md")
    written = document.content_with([document.blocks[0].from_marks("甲{h0}注意：{h1}乙{h2}丙{h3}丁")]).decode()
    assert "<strong>注意：</strong>" in MarkdownIt("commonmark").render(written)
    assert document.content_with([document.blocks[0].from_marks("A {h0}N:{h1} B {h2}C{h3} D")]) == b"A **N:** B *C* D\n"


PIECES = [
    "a *b* c",
    "- d",
    "  e `f`",
    "> g",
    "",
    "    h",
    "```",
    "1. i",
    "# j",
    "| k | l |",
    "|---|---|",
    "[m]: n",
    "$$",
]


def test_any_order_of_lines_keeps_its_structure():
    """The second opinion: what markdown-it renders of the translation is what it renders of the source, in capitals."""
    render = MarkdownIt("commonmark").enable("table").render
    for first in range(len(PIECES)):
        for step in range(1, len(PIECES)):
            text = "\n".join(PIECES[(first + step * n) % len(PIECES)] for n in range(7)) + "\n"
            if "$$" in text:
                assert unchanged(text.encode(), "a.md").decode() == text
                continue
            written = translated(text)
            kinds = [render(each).upper().split() for each in (text, written)]
            assert kinds[0] == kinds[1], text


@pytest.mark.parametrize(
    "text",
    quick_and_slow(
        [
            "[" * 9000,
            "![" * 5000,
            "> " * 5000,
            "- " * 5000,
            "{% raw %}\n" * 4000,
            "$$ a\n" * 4000,
            "**a*" * 9000,
            "^[" * 9000,
            "\\( " * 9000,
            "\\[ " * 9000,
            "[a]({{ " * 5000,
            "{a ? " * 5000,
            "```{note}\n" * 3000,
            "[a](#a)\n\n# a\n\n" * 2000,
        ],
        lambda number, _: number == 0,
    ),
)
def test_the_time_for_marks_that_do_not_end_grows_with_their_number(text):
    started = time.process_time()
    document = read_document(text.encode(), "a.md")
    document.content_with([in_capitals(block) for block in document.blocks])
    assert time.process_time() - started < 8


def test_a_formula_does_not_begin_in_code_and_end_after_it():
    text = "```\n$$ a\n```\nb $$\n\nc\n"
    assert capitals(text.encode(), "a.md").decode() == "```\n$$ a\n```\nB $$\n\nC\n"


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("```\n{\n```\n\na\n\n```\n}\n```\n", "\n\nA\n\n"),  # braces in two fences
        ("```\nimport {\n```\n\na\n\n```\n}\n```\n", "\n\nA\n\n"),
        (
            "- a\n        ```\n        {\n        x b\n        }\n        ```\n",
            "- A ``` { x b } ```",
        ),  # of the paragraph
        ("a b\nimport as `c from 'd'` e\n", "A B\nIMPORT AS `c from 'd'` E\n"),
        ("a b\nimport c from 'd' and\nexport e=f g\n", "A B\nIMPORT C FROM 'D' AND\nEXPORT E=F G\n"),
        ("a [[b]](C.md) [[c]] d\n", "A [[B]](C.md) [[c]] D\n"),
        ("<code>\na\n</code>\n", "<code>\na\n</code>\n"),
    ],
)
def test_what_only_looks_like_code_is_translated(text, written):
    assert " ".join(written.split()) in " ".join(translated(text).split())


def test_imports_of_components_stay():
    text = "import A from './a.js'\nexport const b = {\n  c: 1,\n}\nexport const d = `e f`\n\ng\n"
    assert translated(text) == text.replace("\ng\n", "\nG\n")
