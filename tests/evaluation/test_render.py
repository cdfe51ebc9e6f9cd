"""An evaluation as text, and as a page: complete, harmless, and usable in a browser."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nmt.evaluation import render as module
from nmt.evaluation.details import examine
from nmt.evaluation.render import find_differences, render_comparison, render_details, render_html
from nmt.evaluation.significance import Scorer, compare_systems, with_interval
from tests.evaluation.texts import english, worsen
from tests.quick import examples

SOURCES = ["Der Hund bellt laut im Garten.", "<script>alert('Hund')</script>", "Ja.", "Er liest ein gutes Buch."]
REFERENCES = ["The dog barks loudly in the garden.", "<script>alert('dog')</script>", "Yes.", "He reads a good book."]
OURS = ["A dog barks in the \x1b garden.", "", "Yes.", "He reads one book."]
OTHER = ["The dog barks.", "alert dog", "No.", "He reads a good book."]

TWO_SOURCES = ["Ja.", "Ein Hund bellt laut im Garten."]
SCORER = Scorer([["Yes.", "A dog barks loudly in the garden."]], "en", ["chrf", "chrf++"])
SYSTEM = SCORER.measure("ours", ["Yes\x1b.", ""])


def test_groups_flags_and_the_worst_are_listed():
    assert list(render_details(examine(SYSTEM, TWO_SOURCES, "de"))) == [
        "",
        "by number of words of the source",
        "         sentences  chrF2  chrF2++",
        f"1 to 5           1  {SYSTEM.measured[0].score([0]):5.2f}  {SYSTEM.measured[1].score([0]):7.2f}",
        "6 to 10          1   0.00     0.00",
        "",
        "outputs that look wrong: 1 empty",
        "",
        "the 2 worst by chrF",
        "line 2: chrF 0.00  (empty)",
        "  source     Ein Hund bellt laut im Garten.",
        "  output",
        "  reference  A dog barks loudly in the garden.",
        f"line 1: chrF {SYSTEM.sentence_chrf()[0]:.2f}",
        "  source     Ja.",
        "  output     Yes\\x1b.",
        "  reference  Yes.",
    ]


def test_a_comparison_has_both_scores_and_a_verdict():
    other = SCORER.measure("other", ["Yes.", ""])
    head, first, second = render_comparison("ours", compare_systems(SYSTEM, other))
    assert head == "ours compared with other (paired bootstrap resampling, 1,000 samples; significant: p < 0.05)"
    ours, theirs = SYSTEM.measured[0].score(), other.measured[0].score()
    assert first.startswith(f"chrF2   {ours:6.2f} {theirs:6.2f}  {ours - theirs:+6.2f}  p = ")
    assert first.endswith("worse, but it may be chance: few sentences differ (1)")
    assert second.startswith("chrF2++ ")


@pytest.fixture(scope="module")
def page() -> str:
    scorer = Scorer([REFERENCES], "en", ["bleu", "chrf"])
    ours, other = scorer.measure("runs/ours", OURS), scorer.measure("<other>", OTHER)
    details = examine(ours, SOURCES, "de")
    scores = [with_interval(each) for each in ours.measured]
    return render_html("runs/ours on <test>", scores, details, [compare_systems(ours, other)])


class Outline(HTMLParser):
    """Checks that tags close in order, and collects what the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.loaded += [value for name, value in attrs if name in ("src", "href", "data")]
        if tag not in ("meta", "input", "br", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag != "rect":
            assert self.open.pop() == tag


def test_the_page_is_whole_and_loads_nothing(page):
    outline = Outline()
    outline.feed(page)
    assert (outline.open, outline.loaded) == ([], [])
    assert "url(" not in page
    assert "default-src 'none'" in page


def test_texts_are_escaped_and_control_characters_shown(page):
    assert "<title>runs/ours on &lt;test&gt;</title>" in page
    assert "&lt;script&gt;alert(&#x27;Hund&#x27;)" in page
    assert "alert('Hund')" not in page
    assert "\x1b" not in page
    assert "\\x1b" in page


def test_the_page_says_whether_a_difference_is_real(page):
    assert "Compared with &lt;other&gt;" in page
    assert "it may be chance" in page
    assert "paired bootstrap resampling, 1,000 samples" in page


def test_identical_outputs_are_neither_better_nor_worse():
    texts = english(40)
    scorer, outputs = Scorer([texts], "en", ["chrf"]), worsen(texts, 0.3)
    ours, same = scorer.measure("ours", outputs), scorer.measure("same", outputs)
    page = render_html("it", [], examine(ours, None, "de"), [compare_systems(ours, same)])
    assert "no difference" in page
    assert page.count(">+0.00<") == 40


def test_words_that_differ_are_marked_on_both_sides(page):
    assert 'He reads <mark class="extra">one</mark> book.' in page
    assert 'He reads <mark class="missing">a good</mark> book.' in page


def test_of_a_large_set_the_page_has_the_worst(monkeypatch):
    monkeypatch.setattr(module, "MAX_ROWS", 3)
    system = Scorer([REFERENCES], "en", ["chrf"]).measure("it", OURS)
    page = render_html("it", [], examine(system, SOURCES, "de"), [])
    assert page.count("<tr data-flags") == 3
    assert "1 better sentences are left out" in page
    assert "<td>Yes.</td>" not in page


def test_words_that_the_other_text_does_not_have_are_marked():
    first, second = find_differences("A dog runs fast.", "A brown dog runs.")
    assert [text for text, differs in first if differs] == [" fast"]
    assert [text for text, differs in second if differs] == [" brown"]


def test_chinese_differs_by_characters():
    assert find_differences("他爱茶。", "他喜欢茶。") == (
        [("他", False), ("爱", True), ("茶。", False)],
        [("他", False), ("喜欢", True), ("茶。", False)],
    )


def test_equal_and_empty_texts():
    assert find_differences("a b", "a b") == ([("a b", False)], [("a b", False)])
    assert find_differences("", "a") == ([], [("a", True)])


@settings(max_examples=examples(15, 50))
@given(st.text("ab 我\n."), st.text("ab 我\n."))
def test_spans_joined_are_the_texts_and_shared_spans_are_alike(first, second):
    spans = find_differences(first, second)
    assert ["".join(text for text, _ in side) for side in spans] == [first, second]
    shared = ["".join(text for text, differs in side if not differs) for side in spans]
    assert shared[0] == shared[1]


BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
STEPS = """
<script>
const lines = () => [...document.querySelectorAll("#sentences tbody tr")].filter(row => !row.hidden)
  .map(row => row.cells[0].textContent).join(" ");
const seen = [lines()];
const press = column => { document.querySelectorAll("#sentences th button")[column].click(); seen.push(lines()); };
press(0); press(0); press(3);
const choose = (id, value, event) => {
  const field = document.getElementById(id);
  field.value = value; field.dispatchEvent(new Event(event)); seen.push(lines());
};
choose("words", "BUCH", "input"); choose("words", "", "input"); choose("flag", "empty", "change");
seen.push(document.getElementById("shown").textContent);
if (document.documentElement.scrollWidth > innerWidth) seen.push("wider than the window");
document.title = seen.join("|");
</script>
"""


@pytest.mark.skipif(BROWSER is None, reason="needs chromium")
def test_a_browser_sorts_and_filters_the_sentences_and_scrolls_only_down(page, tmp_path):
    (tmp_path / "page.html").write_text(page.replace("</body>", f"{STEPS}</body>"), encoding="utf-8")
    address = Path(tmp_path / "page.html").as_uri()
    flags = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=500,900"]
    flags.append(f"--user-data-dir={tmp_path / 'profile'}")
    done = subprocess.run([str(BROWSER), *flags, "--dump-dom", address], capture_output=True, text=True, timeout=120)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title is not None, done.stderr
    by_chrf, by_line, by_gain = "2 4 1 3", "1 2 3 4", "4 2 1 3"
    assert title[1].split("|") == [by_chrf, by_line, by_line[::-1], by_gain, "4", by_gain, "2", "1 of 4 sentences"]


def test_the_page_has_expected_beside_true_chrf():
    texts = ["dog " * n for n in range(20)]
    system = Scorer([["dog " * 20] * 20], "en", ["chrf"]).measure("it", texts)
    details = examine(system, None, "de", None, [5.0 * n for n in range(20)])
    page = render_html("it", [], details, [])
    assert "<h2>By expected chrF (correlation " in page
    assert ">95.00<" in page
    lines = list(render_details(details))
    (head,) = [number for number, line in enumerate(lines) if line.startswith("by expected chrF (correlation ")]
    assert lines[head + 1].split() == ["sentences", "expected", "chrF"]
    assert len(lines[head + 1]) == len(lines[head + 2])
    assert any(line.startswith("line 1: chrF 0.00, expected 0.00") for line in lines)
