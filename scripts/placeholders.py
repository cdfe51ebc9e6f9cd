r"""Count the placeholders that a model loses without a flag, and the flags that its judge gives to references.

    python scripts/placeholders.py runs/my-run runs/other-run
    python scripts/placeholders.py --references runs/my-run --corpus test.src test.tgt

Each of 369 placeholders of 44 families is put into three sentences of the run's own validation set: at the
beginning, in the middle (bare, in quotation marks, in brackets, before a comma, in turns), and at the end. It is kept
if the translation has it as often as the text; else what the flags of the translation say counts: that something is
lost (`named`), something else (`flagged`), or nothing (`silent`). `--references` counts what the judge misses in
references, which people wrote, by kind: in those of the run's test set, or of `--corpus`. `--form` counts the same
texts as documents: strings of JSON, PO and XLIFF, and paragraphs of HTML. The branches of an ICU message are translated
in strings, so it is kept there if the text has all before its first branch. `--details` lists what is lost in silence,
and the references that are flagged.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape, unescape
from pathlib import Path
from typing import NamedTuple

from nmt import Translator
from nmt.apps.documents.formats import read_document
from nmt.apps.documents.translation import translate_blocks
from nmt.artifacts.rundir import RunDir
from nmt.data.text.numbers import wrong_numbers
from nmt.data.text.spans import find_spans
from nmt.data.text.words import UNSEEN, unseen_words
from nmt.translation.chain import Chain
from nmt.translation.protect import lost_spans, marks_left_out, odd_left_out, words_lacking
from nmt.translation.request import Request
from nmt.translation.segments import Segment

FAMILIES = {
    "printf": ["%s", "%d", "%1$s", "%-5d", "%.2f", "%ld", "%5.1f", "%x", "%s/%s"],
    "Python": ["%(name)s", "%(count)d", "{0}", "{user.name}", "{value:>10.2f}", "{n!r}", "f'{x}'", "{}"],
    "mustache": ["{{name}}", "{{{raw}}}", "{{#if user}}", "{{/if}}", "{{> header}}", "{{ count | number }}"],
    "shell": ["${HOME}", "$PATH", "$(date)", "$1", "$@", "$?", "~/.bashrc", "ls -la", "apt-get", "sudo", "grep -r",
        "2>&1"],
    "Rails": [":count", "%{name}", "<%= user %>", "#{name}", ":user_id", "t('.title')", "@user.name"],
    "tags": ["<0/>", "<1>", "</1>", "<b>", "<br/>", '<a href="x">', "</span>", "<Trans>", "<x id='1'/>"],
    "entities": ["&nbsp;", "&amp;", "&#39;", "&#x27;", "&lt;b&gt;", "&copy;", "&hellip;"],
    "social": ["@ana_maria", "#NoFilter", "@bob42", "#2024goals", "r/nmt", "u/tester", "@a.b", "#C3", "RT @eva"],
    "e-mail": ["info@example.org", "a.b+c@mail.co", "mailto:x@y.org", "<me@host.net>", "root@localhost"],
    "URL": ["https://example.org/a?b=c", "www.nmt.org", "ftp://host/file", "example.com/path",
        "http://127.0.0.1:80", "localhost:8080", "example.org", "//cdn.x.io/a.js"],
    "path": ["/etc/hosts", "C:\\Temp\\a.txt", "./run.sh", "../lib", "src/main.rs", "~/Downloads", "/dev/null",
        "a/b/c"],
    "version": ["v1.2.3", "2.4.x", "1.0.0-rc.1", "Python 3.11", "0.9b2", "^4.17", ">=2.0", "~> 1.4", "3.x"],
    "code number": ["AB-12", "CAN-2019", "ABC-123-X", "B2C-42", "A4", "XJ900", "QR7-K", "12-B", "CVE-2024-1234"],
    "file": ["report.pdf", "index.html", "setup.py", "Makefile", "README.md", "a.tar.gz", ".gitignore",
        "photo_01.JPG", "notes.txt", "Dockerfile"],
    "key": ["F5", "Ctrl+S", "Alt-F4", "Enter", "Caps Lock", "⌘K", "Shift+Tab", "Esc", "Ctrl-Alt-Del", "PgUp"],
    "formula": ["E=mc²", "a²+b²=c²", "x ≥ 0", "f(x)", "n!", "2^10", "H₂O", "x_i", "√2", "π/2", "O(n)", "sin(x)"],
    "color": ["#ff8800", "#FFF", "rgb(0,0,0)", "0xFF00FF", "hsl(10,5%,5%)", "#1a2b3c"],
    "date": ["2024-05-01", "YYYY-MM-DD", "dd/mm/yyyy", "HH:mm", "2024-W05", "12:30:45Z", "T-3"],
    "unit": ["10 km", "5 kΩ", "37 °C", "1.5em", "100px", "3.5 GHz", "12 V", "pH 7", "50 µg", "20 dB"],
    "address": ["192.168.0.1", "10.0.0.0/8", "::1", "fe80::1", "00:1A:2B:3C:4D:5E", "127.0.0.1:22"],
    "identifier": ["550e8400-e29b-41d4-a716-446655440000", "deadbeef", "sha256:ab12cd", "0x1F", "a1b2c3d4",
        "ID#77"],
    "number of a book": ["ISBN 978-3-16-148410-0", "ISSN 0317-8471", "doi:10.1000/182", "978-0-306-40615-7",
        "PMID: 12345"],
    "citation": ["[12]", "[1, 3]", "[3-5]", "(Miller 2019)", "[see 4]", "[@doe99]", "et al."],
    "footnote": ["[^1]", "¹", "†", "(*)", "**", "‡", "[a]"],
    "emoji": ["👨‍👩‍👧", "👍🏽", "🇸🇳", "❤️", "1️⃣", "✓", "→", "♪", "😀"],
    "smiley": [":-)", ";)", ":D", "o_O", "<3", "^^", ":/", "xD", "¯\\_(ツ)_/¯"],
    "escape": ["\\n", "\\t", "\\u00e9", "\\x41", "\\\\", "\\0", "\\033[1m"],
    "option": ["--help", "-v", "-rf", "--no-color", "--x=1", "/S", "-Wall", "--output FILE"],
    "CSS": [".btn-primary", "#main", "div > p", "a:hover", "::before", "margin-top", "flex-start", "@media",
        "!important", "z-index: 1"],
    "regular expression": ["[a-z]+", "^\\d{3}$", "(foo|bar)*", "\\w+", ".*?", "[^,]+", "s/a/b/g"],
    "LaTeX": ["\\today", "\\textbf{x}", "$x^2$", "\\cite{doe}", "\\alpha", "\\begin{itemize}", "~\\ref{a}"],
    "wiki": ["[[Page]]", "[[a|b]]", "{{stub}}", "'''x'''", "~~~~", "== H ==", "{{cite|y=1}}"],
    "ICU": ["{n, plural, one{#} other{#}}", "{d, date, short}", "{count, number}", "{g, select, a{x} other{y}}",
        "'{x}'"],
    "C++": ["std::vector", "a::b", "p->next", "int*", "foo()", "operator++", "x[i]", "std::map<int, T>", "&ref",
        "C++", "C#"],
    "names": ["snake_case", "camelCase", "PascalCase", "kebab-case", "x_y", "_private", "__init__", "MAX_VALUE",
        "iPhone", "myVar2", "x64", "get_x()"],
    "constants": ["NULL", "None", "null", "undefined", "NaN", "true", "TODO", "N/A", "INT_MAX", "nil"],
    "JavaScript": ["document.body", "let", "=>", "===", "console.log", "this.x", "v-model", "import", "async",
        "`x`", "npm", "$.ajax"],
    "git": ["git push", "HEAD~2", "origin/main", "a1b2c3d", "@{u}", "git rebase -i", ".git", "fixup!"],
    "Rust": ["println!", "&str", "Option<T>", "'static", "#[derive]", "|x|", "Vec<u8>", "..=", "impl"],
    "SQL": ["SELECT *", "WHERE", "COUNT(*)", "t.id", "VARCHAR(20)", "a <> b", "NOT NULL", "?1"],
    "PowerShell": ["Get-Item", "$env:PATH", "%APPDATA%", "-eq", "@echo off", "HKLM\\Software", "cmd.exe", "Wi-Fi"],
    "Markdown": ["**bold**", "*it*", "`code`", "[a](b.md)", "![img](a.png)", "~~no~~", "- [x]", "__so__"],
    "game": ["\\V[1]", "\\c[2]", "<<name>>", "[color=red]", "[/b]", "%%", "{W}", "$t(key)", "@:key", "__count__"],
    "abbreviation": ["R&D", "TCP/IP", "AT&T", "XIV", "B12", "CO2", "McDonald", "NaCl", "24/7", "i18n", "lol",
        "stdin"],
}  # fmt: skip
NUM_FRAMES = 3
# What is before and after a text, by the format of documents; and what is before its translation.
FORMS = {
    "json": ('{"key": ', "}"),
    "po": ('msgid ""\nmsgstr "Content-Type: text/plain; charset=UTF-8\\n"\n\nmsgid ', '\nmsgstr ""\n'),
    "xlf": (
        '<xliff version="1.2" xmlns="urn:oasis:names:tc:xliff:document:1.2"><file original="a" datatype="plaintext" '
        'source-language="en" target-language="de"><body><trans-unit id="1"><source>',
        "</source></trans-unit></body></file></xliff>",
    ),
    "html": ("<html><body><p>", "</p></body></html>"),
}
_BEFORE_OUTPUT = {"json": '"key": ', "po": "\nmsgstr ", "xlf": "<target", "html": "<p>"}
_MIDDLES = ("{}", '"{}"', "({})", "{},")
_MIN_WORDS, _MAX_WORDS = 5, 16
_PLAIN = re.compile(r"[^\W\d_][^\d\"()\[\]{}<>«»:;]+")  # neither digits nor marks within the sentence
_NAMES = ("protected_lost", "numbers_missed")
_NOT_OF_LOSS = ("pivot", "from_memory")
RESULTS = ("kept", "named", "flagged", "silent")


class Case(NamedTuple):
    """A placeholder in a sentence."""

    family: str
    placeholder: str
    text: str


def sentences_of(run: RunDir, count: int) -> list[str]:
    """Draw `count` sources of the validation set without spans; some more than once if there are too few."""
    sources = dict.fromkeys(run.read_pairs("valid")[0])
    plain = [text for text in sources if _PLAIN.fullmatch(text) and not find_spans(text)]
    short = [text for text in plain if _MIN_WORDS <= len(text.split()) <= _MAX_WORDS]
    if not short:
        raise SystemExit(f"{run.path}: no plain sentence in the validation set")
    random.Random(1).shuffle(short)
    return [short[number % len(short)] for number in range(count)]


def frame(sentence: str, placeholder: str, number: int) -> str:
    """Put a placeholder at the beginning, the middle or the end of a sentence; `number` says which, and how."""
    turn, place = divmod(number, NUM_FRAMES)
    if place == 0:
        return f"{placeholder} {sentence}"
    if place == 1:
        words = sentence.split()
        half = len(words) // 2
        return " ".join([*words[:half], _MIDDLES[turn % len(_MIDDLES)].format(placeholder), *words[half:]])
    text = sentence.rstrip(" .!?")
    return f"{text} {placeholder}{sentence[len(text) :]}"


def make_cases(run: RunDir) -> list[Case]:
    """Return each placeholder in three sentences of the run."""
    placeholders = [(family, each) for family, some in FAMILIES.items() for each in some for _ in range(NUM_FRAMES)]
    sentences = enumerate(sentences_of(run, len(placeholders)))
    return [
        Case(family, each, frame(sentence, each, number))
        for (family, each), (number, sentence) in zip(placeholders, sentences, strict=True)
    ]


class Output(NamedTuple):
    """The translation of a text, and the names of its flags."""

    text: str
    flags: Sequence[str]


def translate_document(translator: Translator, text: str, form: str) -> Output:
    """Translate a text as a document of its own, in one of `FORMS`."""
    before, after = FORMS[form]
    is_markup = form in ("xlf", "html")
    written = escape(text, quote=False) if is_markup else json.dumps(text, ensure_ascii=False)
    document = read_document(f"{before}{written}{after}".encode(), f"a.{form}")
    blocks = [*translate_blocks(Chain([translator]), document.blocks, Request(translator.options))]
    content = document.content_with([block.written[0] for block in blocks]).decode()
    output = content.rpartition(_BEFORE_OUTPUT[form])[2].partition("</target>")[0]  # notes follow
    if is_markup:
        output = unescape(output)
    else:  # a long string may be in several lines
        output = "".join(json.loads(part) for part in re.findall(r'"(?:[^"\\]|\\.)*"', output))
    return Output(output, [name for block in blocks for name in block.flags])


def result_of(case: Case, found: Output, form: str = "") -> str:
    """Return which of `RESULTS` a translation is."""
    placeholder = case.placeholder
    if form in ("json", "po", "xlf") and (choice := re.match(r"\{\w+, (?:plural|select),", placeholder)):
        placeholder = choice[0]
    if found.text.count(placeholder) >= case.text.count(placeholder):
        return "kept"
    flags = {*found.flags}.difference(_NOT_OF_LOSS)
    return "named" if flags.intersection(_NAMES) else "flagged" if flags else "silent"


def count_placeholders(translator: Translator, run: RunDir, form: str = "", *, details: bool) -> None:
    """Print how many placeholders are kept, lost with a flag, and lost in silence, by family."""
    cases = make_cases(run)
    texts = [case.text for case in cases]
    if form:
        outputs = [translate_document(translator, text, form) for text in texts]
    else:
        outputs = [Output(found.text, [*found.flags]) for found in translator.translate(texts)]
    table: dict[str, Counter[str]] = {family: Counter() for family in FAMILIES}
    by_flag: Counter[str] = Counter()
    silent: list[str] = []
    for case, found in zip(cases, outputs, strict=True):
        result = result_of(case, found, form)
        table[case.family][result] += 1
        by_flag.update([*found.flags] if result in ("named", "flagged") else [])
        if result == "silent":
            silent.append(f"{case.family}\t{case.placeholder}\t{case.text}\t{found.text}")
    rows = {**table, "all": sum(table.values(), Counter[str]())}
    name = f"{run.path} as {form}" if form else run.path
    lines = [f"{name}: {len(cases)} texts, {len(cases) // NUM_FRAMES} placeholders, {len(FAMILIES)} families"]
    lines.append(f"{'':20}" + "".join(f"{name:>9}" for name in RESULTS))
    lines += [f"{family:20}" + "".join(f"{row[each]:9}" for each in RESULTS) for family, row in rows.items()]
    lines.append("flags of lost ones: " + ", ".join(f"{name} {count}" for name, count in by_flag.most_common()))
    sys.stdout.write("\n".join(lines + (silent if details else [])) + "\n")


def faults_of(segment: Segment, source: str, reference: str, translator: Translator) -> Iterator[tuple[str, str]]:
    """Yield what the judge misses in a reference, as (kind, what is missing)."""
    protected, habits = segment.protected, segment.habits
    left_out = habits.left_out
    yield from (("span", span) for span in lost_spans(protected.spans, reference))
    sides = source, reference
    for span in sorted(protected.spans, key=len, reverse=True):
        sides = sides[0].replace(span, "ª" * len(span)), sides[1].replace(span, "ª" * len(span))
    words = [(kind, word[0]) for kind, word in odd_left_out(*sides)]
    words += [(f"prose: {kind}", mark[0]) for kind, mark in marks_left_out(*sides).items() if kind not in left_out]
    lacking = words_lacking(source, translator.tokenizers.src.lacks)
    words += [("unknown letter", word) for word in lacking if word not in reference]
    if UNSEEN not in left_out and translator.statistics is not None:
        known = translator.statistics
        unseen = unseen_words(protected.outside_spans(), known.octaves, known.trigrams)
        words += [(kind, word) for word, kind in unseen if word not in reference]
    yield from ((kind, word) for kind, word in words if kind not in left_out and word not in left_out)
    if habits.keeps_numbers:
        outside = protected.outside_spans(), protected.without_spans(reference)
        yield from (("number", number) for number in wrong_numbers(*outside, habits.direction, left_out))


def count_references(
    translator: Translator, run: RunDir, corpus: tuple[list[str], list[str]], *, details: bool
) -> None:
    """Print the shares of references with a fault, and how many have one of each kind."""
    request = Request(translator.options.changed(split="never"))
    counts: Counter[str] = Counter()
    groups: Counter[str] = Counter()
    listed: list[str] = []
    for source, reference in zip(*corpus, strict=True):
        (segmented,) = translator.segment([source], request)
        faults = [
            fault for segment in segmented.segments for fault in faults_of(segment, source, reference, translator)
        ]
        kinds = {kind for kind, _ in faults}
        counts.update(kinds)
        groups["numbers"] += "number" in kinds
        groups["marks, words and tokens"] += not kinds <= {"number", "span"}
        groups["these and spans"] += not kinds <= {"number"}
        listed += [f"{kind}\t{missing}\t{source}\t{reference}" for kind, missing in faults]
    number = len(corpus[0])
    lines = [f"{run.path}: {number} references"]
    lines += [f"  {name}: {count}, {100 * count / number:.2f}%" for name, count in groups.items()]
    lines += [f"    {kind}: {count}" for kind, count in counts.most_common()]
    sys.stdout.write("\n".join(lines + (listed if details else [])) + "\n")


def main() -> None:
    """Count for each run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--references", action="store_true")
    parser.add_argument("--corpus", nargs=2, type=Path, metavar=("SRC", "TGT"))
    parser.add_argument("--form", choices=FORMS, default="")
    parser.add_argument("--details", action="store_true")
    arguments = parser.parse_args()
    for path in arguments.runs:
        run = RunDir(path)
        with Translator.load(path) as translator:
            if not arguments.references:
                count_placeholders(translator, run, arguments.form, details=arguments.details)
                continue
            if arguments.corpus:
                sources, references = (side.read_text(encoding="utf-8").splitlines() for side in arguments.corpus)
            else:
                sources, references = run.read_pairs("test")
            count_references(translator, run, (sources, references), details=arguments.details)


if __name__ == "__main__":
    main()
