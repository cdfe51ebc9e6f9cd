"""What is found is what a translation must keep, no more; in linear time."""

from __future__ import annotations

import functools
import json
import random
import re
import sys
import time
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nmt.data.text.spans import CHINESE_QUOTES, OWNED_SIGN, find_spans, replace_spans
from tests.data.text.placeholder_families import FAMILIES, FRAMES
from tests.quick import quick_and_slow


def found(text: str, not_these=()) -> list[str]:
    return [text[span.start : span.end] for span in find_spans(text, not_these)]


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("See https://a.org/b?c=d#e, or (http://x.de/y_(z)).", ["https://a.org/b?c=d#e", "http://x.de/y_(z)"]),
        ("访问https://a.org/路径。", ["https://a.org/"]),
        ("Call get_x(), $.ajax and foo --x=1, std::map<int, T>.", ["get_x()", "$.ajax", "--x=1", "std::map<int, T>"]),
        (r"On \today, a\tb or \nText, \033[1mbold\033[0m", [r"\today", r"\t", r"\n", r"\033[1m", r"\033[0m"]),
        ("www.example.com and www. alone", ["www.example.com"]),
        ("Write to a.b+c@mail.example.org.", ["a.b+c@mail.example.org"]),
        ("Hello {name}, {0} of {{ total }} for ${cost}!", ["{name}", "{0}", "{{ total }}", "${cost}"]),
        ("%1$s has %d of %5.2f %(kind)s and %s.", ["%1$s", "%d", "%5.2f", "%(kind)s", "%s"]),
        ("50%de remise, 100 % sure, 5%", []),
        ("<b>bold</b> <br/> <a href=\"x\" id='y'>link</a>", ["<b>", "</b>", "<br/>", "<a href=\"x\" id='y'>", "</a>"]),
        ("a < b and c > d, 1<2", []),
        ("Tom &amp; Anna &#39; R&D;", ["&amp;", "&#39;"]),
        ("</s> <pad> ⟦1⟧", ["</s>", "<pad>", "⟦1⟧"]),
        ("alone: ftp://a.org", ["ftp://a.org"]),
        ("alone: www.a.org", ["www.a.org"]),
        ("alone: a@b.org", ["a@b.org"]),
        ("alone: <br>", ["<br>"]),
        ("alone: &lt;", ["&lt;"]),
        ("alone: {a}", ["{a}"]),
        ("alone: %d", ["%d"]),
        ("alone: ⟦12⟧", ["⟦12⟧"]),
    ],
)
def test_what_is_to_be_kept_is_found(text, spans):
    assert found(text) == spans


def test_the_list_has_800_placeholders_of_90_families():
    assert len(FAMILIES) >= 90
    assert sum(map(len, FAMILIES.values())) >= 800


@pytest.mark.parametrize("family", FAMILIES)
def test_a_placeholder_is_found_whole_and_alone(family):
    for placeholder in FAMILIES[family]:
        for frame, _ in FRAMES:
            text = frame.replace("{}", placeholder)
            assert found(text) == [placeholder], text


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("有{name}和%s，$count$只狗[count]，看:count。", ["{name}", "%s", "$count$", "[count]", ":count"]),
        ("[b]fett[/b] und [i]schräg[/i]", ["[b]", "[/b]", "[i]", "[/i]"]),
        ("Dear [name], [count] dogs", ["[name]", "[count]"]),
        ("a {b {c} d} e {", ["{b {c} d}"]),
        ("{a\n{b}}", ["{a\n{b}}"]),
        ("[text](https://a.org/x)", ["https://a.org/x"]),
        (
            "%d%% of %s MB or %dpx, <b>%s</b>{a}&nbsp;{b}😀",
            ["%d%%", "%s", "%dpx", "<b>", "%s", "</b>", "{a}", "&nbsp;", "{b}", "😀"],
        ),
        ("Zeile\\nZeile", ["\\n"]),
        ("$1 hat $2 für $1, $1.", ["$1", "$2", "$1", "$1"]),
        ("Es kostet $5, $5-$7 oder $1.50, $1,000 und US$1.", []),
        ("Ein '''fetter''' Hund", ["'''", "'''"]),
        ("Siehe ![alt](x.png) und [das](#da) [sic](jawohl)", ["x.png", "#da"]),
        ("<your name> or <b>me</b>", ["<your name>", "<b>", "</b>"]),
        ("http://a.org/" + "x" * 5000 + ".", ["http://a.org/" + "x" * 5000]),
        ("a {unclosed and [[unclosed and <% unclosed", []),
    ],
)
def test_spans_end_where_they_end(text, spans):
    assert found(text) == spans


@pytest.mark.parametrize(
    "text",
    [
        "A man (two dogs) [two dogs] runs.",
        "[applause] Thank you! [laughter]",
        "He said: [t]he dog[s] ran. 很好[笑]。",
        "A & B, R&D, AT&T, and/or, he/she, w/o, C++, C#, A+, 24/7, km/h, 1/2",
        "It costs $5, 5$, US$5, $1,000, 20 $US, 20 € or £3.50 at 10:30 or 7.30 pm.",
        "They won 3:2, 6-4 and 21–19.",
        "z.B. bzw. d.h. e.g. i.e. a.m. p.m. U.S.A. Ph.D. St. Dr. Inc. e.V. Nr. 5",
        "Well... so… no?! “Yes,” ‘no’, „ja“, «oui», « non », »nein«, 'a', --, – and —",
        ":-) :) ;-) :D :P <3 ^^ xD :/ :-/ =) o_O T_T are smileys",
        "#1, No. 5, 5 %, 50%, 50 %de, 100 % der, 3 %, 5 ± 2, a < b and c > d, 1 < 2",
        "A 5th, 2nd, 1990s, 90er, 3D, 5G, 10am, 20km and 2x word; 8-year-old",
        "O'Neil's aren't rock 'n' roll; l’homme; aujourd'hui",
        "Die Kolleg:innen und Schüler*innen, Lehrer/innen, Hund(e)",
        "He *really* means _it_, she said: no!",
        "Objet : la réunion ; « Oui ! » dit-il.",
        "Is it true?yes:no,maybe;ok!",
        "他说：“你好！”《书》、【注】（两只狗）〈a〉「b」",
        "1. First 2) second (a) third a) fourth • fifth",
        "Tom @ home, 5 x 3, 4*4, 100 m2, CO2",
        "2 + 2, x and y, a - b, 3 > 2",
        "<<Hallo du>> sagte sie, <Guten Tag, wie geht es dir?>",
        "50%-60% and $5-$10 or $5+$6, 5% to 6%",
        "Um 13h30 oder 13Uhr30, 450m2, 1.000.000.000 €, am 12.03.2020, 5:30:10, 2h30, MP3s und 4K.",
        "Was kostet das? Ja! (?) und/oder, s/he, Nord-, Süd- und -ost; preis:5€, um:9",
    ],
)
def test_prose_has_no_spans(text):
    assert found(text) in ([], ["CO2"])


@pytest.mark.parametrize(
    ("text", "spans"),
    [
        ("I ❤ China and 🐱 cats.", ["❤", "🐱"]),
        ("Klick \ue001 oder \U000f0001, dann", ["\ue001", "\U000f0001"]),  # icons of fonts
        ("Two 👨\u200d👩\u200d👧 and 👍🏽👍🏽, 🇩🇪!", ["👨\u200d👩\u200d👧", "👍🏽👍🏽", "🇩🇪"]),
        ("A room of 20 m² or 5m³, see above.² And there³", ["m²", "m³", "²", "³"]),
        ("CO₂ and H₂O, not C₆H₁₂O₆; Fe₂(SO₄)₃ is Ca²⁺", ["CO₂", "H₂O", "C₆H₁₂O₆", "Fe₂(SO₄)₃", "Ca²"]),
        ("10³ and x²", ["³", "x²"]),
        ("Press ⌘ + S, ⇧⌘4 or ⌥ + F4 now", ["⌘ + S", "⇧⌘4", "⌥ + F4"]),
        ("Windows™, 5★ and 20 →", ["™", "★", "→"]),
        ("Menu > Settings -> WLAN | Salt + pepper = good", [">", "->", "|", "+", "="]),
        ("Der € fällt, der § gilt (°)", ["€", "§", "°"]),
        ("He said ⟪Good day, how are you?⟫ to me", ["⟪", "⟫"]),
        ("⟪Good day⟫", ["⟪", "⟫"]),
        ("Use ⟪your name⟫ or ⟪名字⟫ or a ⟫ or ⦃", ["⟪your name⟫", "⟪", "⟫", "⟫", "⦃"]),
        ("Use 「name」 and 【name】 and （name）", ["「", "」", "【name】"]),
        ("请用【name】和｛count｝，【注】「b」《x》（Tom）", ["【name】", "｛count｝"]),
        ("⟪⟪a⟫⟫ ⟪" + "x" * 300 + "⟫", ["⟪⟪a⟫⟫", "⟪", "⟫"]),
    ],
)
def test_symbols_and_brackets_that_prose_does_not_have_are_spans(text, spans):
    assert found(text) == spans


@pytest.mark.parametrize(
    "text",
    [
        "Es kostet 5 €, €5, 5 Mio. €, $ 5, 20 US$, 3,50 £ oder ¥ 100, 5 %.",
        "Es hat 20 °C, 20° und 5 ℃, n° 5, № 5, § 5, 5 ± 2, 5 × 3, 6 ÷ 2, ~ 5 und > 5.",
        "a < b, c > d, A + B; C++, A+, L·L, I´m",
        "「はい」と言った。 〈a〉《b》 〜 ・ 々 ー ～ ㈱トヨタ 5㎏ ＋α",
        "「我」【注】〔二〕〖三〗［四］｛五｝（Tom）",
        "﴿بسم الله﴾ ༺བོད༻ ௹தமிழ் ۞ ༄༅།།",
        "She said: ‚yes‘, „no“, ‹ça›, 〝x〞 — ‘ok’ ‼ ⁉ … ‰ ′ ″ • ·",
        "½ Ⅷ ª º ﬁ",
    ],
)
def test_what_words_numbers_and_scripts_own_is_no_span(text):
    assert found(text) == []


# Of scripts, whose letters they are, or pieces of their letters.
OF_A_SCRIPT = ("CJK ", "KANGXI", "IDEOGRAPHIC ", "SIGNWRITING", "REPLACEMENT", "SYLOTI", "NORTH INDIC", "PAHAWH",
    "NEW TAI", "NYIAKENG", "INDIC SIYAQ", "OTTOMAN SIYAQ", "CANADIAN")  # fmt: skip


def is_of_a_script(symbol: str) -> bool:
    """Return whether the name of `symbol` begins with a script that has letters, or with a piece of one."""
    name = unicodedata.name(symbol)
    script = name.split()[0]
    has_letters = any(f"{script} {kind}" in letter_names() for kind in ("LETTER", "SYLLABLE", "CAPITAL", "SMALL"))
    return has_letters or name.startswith(OF_A_SCRIPT)


@functools.cache
def letter_names() -> set[str]:
    """Return how the names of letters begin: their script and what they are."""
    letters = filter(str.isalpha, map(chr, range(0x20000)))
    return {" ".join(unicodedata.name(letter, "").split()[:2]) for letter in letters}


def test_every_symbol_of_no_script_is_a_span_within_a_sentence():
    """Unicode's categories So, Sm and Sc, of which no list is complete."""
    symbols = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) in ("So", "Sm", "Sc")]
    lost = [symbol for symbol in symbols if found(f"Ein {symbol} Hund") != [symbol] and not is_of_a_script(symbol)]
    assert lost == []
    assert sum(map(is_of_a_script, symbols)) < 0.2 * len(symbols)


def test_every_pair_of_brackets_that_is_no_quotation_is_a_span_with_what_is_in_it():
    """Unicode's category Ps, but for parentheses, quotation marks, small and vertical forms, and those of scripts."""
    openings = [chr(code) for code in range(0x110000) if unicodedata.category(chr(code)) == "Ps"]
    not_these = "(（‚„⹂〝⁽₍༺༼᚛﴿" + CHINESE_QUOTES + "".join(map(chr, [*range(0xFE10, 0xFE60), 0xFD3E]))
    for opening in openings:
        closing = {"(": ")", "[": "]", "{": "}", "［": "］", "｛": "｝"}.get(opening, chr(ord(opening) + 1))
        text = f"Ein {opening}name{closing} Hund"
        whole = [opening + "name" + closing]
        if opening == "❮":  # quotation marks, too, but of no script: each is kept alone
            whole = [opening, closing]
        assert (unicodedata.normalize("NFC", opening) in not_these) != (found(text) == whole), text


def ordinary_sentences(folder: Path) -> list[str]:
    """2,000 sentences of three corpora, drawn once and for all."""

    def lines(pattern: str) -> list[str]:
        return [line for path in sorted(folder.glob(pattern)) for line in path.read_text("utf-8").splitlines()]

    tatoeba = [cell for line in lines("tatoeba-en-zh/train.tsv") for cell in line.split("\t")[:2]]
    mafand = [text for row in lines("mafand/*/train.jsonl") for text in json.loads(row)["translation"].values()]
    draw = random.Random(1)
    multi30k = lines("multi30k-de-en/train.??")
    return [*draw.sample(multi30k, 700), *draw.sample(tatoeba, 700), *draw.sample(mafand, 600)]


def test_fewer_than_2_of_100_ordinary_sentences_have_a_span(shared_data):
    texts = ordinary_sentences(shared_data)
    with_spans = [text for text in texts if find_spans(text)]
    sys.stdout.write(f"{len(with_spans)} of {len(texts)} ordinary sentences have a span\n")
    assert len(with_spans) < 0.02 * len(texts)


def test_symbols_of_the_model_are_no_spans():
    assert found("<de> <b>x", not_these=("<de>",)) == ["<b>"]


@given(st.text(alphabet=" .,:/@%{}<>&;$()[]=\"'abwhtp0⟦⟧字\n", max_size=80) | st.text())
def test_spans_ascend_and_putting_them_back_gives_the_text(text):
    spans = find_spans(text)
    ends = [0, *(span.end for span in spans)]
    assert all(end <= span.start < span.end for end, span in zip(ends, spans, strict=False))
    assert replace_spans(text, spans, [text[span.start : span.end] for span in spans]) == text


@pytest.mark.parametrize(
    "unit",
    quick_and_slow(
        [
            "a",
            "a.",
            "a@",
            "http://",
            "<a ",
            "<a b=",
            "{",
            "${",
            "%",
            "%1",
            "&a",
            "www.",
            "⟦",
            "a@a.",
            "[",
            "[[",
            "((",
            "$",
            "$a",
            "$2 ",
            "[](",
            "'",
            "$t(",
            "`",
            "`a",
            "``a",
            "\\",
            "\\a",
            "\\(",
            "<%",
            "<!--",
            "<a a=' ",
            ":a",
            "__a",
            "_",
            "a_",
            "/",
            "/a",
            "a/",
            "a=",
            "1+",
            "1=",
            "A1-",
            "A-",
            "@:",
            "#a",
            "$a_",
            "~/",
            "C:\\",
            "{}",
            "[]",
            "[a]",
            '"{"',
            "*|",
            "a::",
            "--a",
            "★",
            "⟪",
            "⟪⟫",
            "⟪a ",
            "【",
            "「",
            "€",
            "+ ",
            "> ",
            "⌘ + ",
            "👍\u200d",
            "1\ufe0f",
        ],
        lambda number, _: number in (0, 20, 40),
    ),
)
def test_the_time_is_linear_in_the_text(unit):
    text = unit * (200_000 // len(unit))
    start = time.process_time()
    find_spans(text)
    assert time.process_time() - start < 5.0


@pytest.mark.parametrize(
    ("text", "owned"),
    [("12 €", "12 €"), ("€\u202f3,50", "€\u202f3,50"), ("12\t$4.80", "$4.80"), ("5\n€ 3", "€ 3"), ("3 km\t°C", "°C")],
)
def test_a_sign_owns_the_number_beside_it_but_not_one_of_another_cell_or_line(text, owned):
    assert [sign[0] for sign in re.finditer(OWNED_SIGN, text)] == [owned]
