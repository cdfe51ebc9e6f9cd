"""Every option of `nmt translate` goes with every other one, or the one table of exclusions says why not."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path

import pytest

from nmt.apps import cli
from nmt.apps.commands.combinations import CONDITIONS, RULES, fault_of
from tests.command_line import nmt

COMMANDS = dict(cli.all_commands())
OPTIONS = {
    name: {option for parameter in command.params for option in parameter.opts} for name, command in COMMANDS.items()
}


def test_the_table_names_options_and_conditions_that_there_are():
    for rule in RULES:
        known = {*CONDITIONS}.union(*(OPTIONS[command] for command in rule.commands.split(", ")))
        named = {rule.subject, *rule.others, *filter(None, [rule.unless])}
        assert {name.removeprefix("several ") for name in named} <= known, rule


def test_a_rule_says_what_cannot_be_combined_why_and_what_to_do():
    for rule in RULES:
        command, given = f"nmt {rule.commands.split(', ')[0]}", {rule.subject}
        given |= set(rule.others) if rule.relation == "excludes" else set()
        fault = fault_of(command, given, [rule])
        assert rule.reason in fault
        assert fault.rpartition("; ")[2]
        assert fault_of("other", given, [rule]) == ""


@pytest.mark.parametrize(
    "command",
    [
        "data check --config a.yaml --src-lang de",
        "data clean --output kept.tsv --config a.yaml --tgt-lang en",
        "config new --src a.de --tgt a.en --overwrite",
        "synthesize --input a.txt --output b.tsv --examples 2",
        "synthesize --input a.txt --output b.tsv --requests 2",
    ],
)
def test_an_option_that_would_have_no_effect_is_refused(command):
    done = nmt(*command.split())
    assert done.returncode == 2
    assert any(rule.reason in " ".join(done.stderr.split()) for rule in RULES)


MEMORY = """<tmx version="1.4"><header/><body>
<tu><tuv xml:lang="de"><seg>98 76</seg></tuv><tuv xml:lang="en"><seg>known</seg></tuv>
<tuv xml:lang="fr"><seg>connu</seg></tuv></tu></body></tmx>"""
VALUES: dict[str, tuple[str, ...]] = {
    "text": ("98 7",),
    "lines": ("--input", "lines.txt"),
    "records": ("--input", "lines.jsonl"),
    "page": ("page.html",),
    "table": ("table.csv#text",),
    "note": ("note.txt", "--lines", "join"),
    "--model": ("--model", "letters"),
    "--then": ("--then", "two"),
    "--checkpoint": ("--checkpoint", "best"),
    "--to": ("--to", "en"),
    "--from": ("--from", "de"),
    "--output": ("--output", "out.txt"),
    "--resume": ("--resume",),
    "--format": ("--format", "jsonl"),
    "--beam": ("--beam", "3"),
    "--n-best": ("--n-best", "2"),
    "sampling": ("--set", "decoding.sample=true"),
    "--set": ("--set", "decoding.split=always"),
    "--prefix": ("--prefix", "a"),
    "--glossary": ("--glossary", "terms.tsv"),
    "--tm": ("--tm", "memory.tmx"),
    "--attention": ("--attention", "heat.svg"),
    "--alignments": ("--alignments",),
    "--engine": ("--engine", "torch"),
    "--device": ("--device", "cpu"),
    "--precision": ("--precision", "fp32"),
}
INPUTS = ("text", "lines", "records", "page", "table", "note")
SUFFIXES = {"page": ".html", "table": ".csv", "note": ".txt"}
NEEDED = {"--resume": "--output", "--alignments": "--format", "--attention": "text"}
REFUSED = {
    *((name, option) for name in SUFFIXES for option in ("--resume", "--n-best", "--prefix")),
    *((name, "--attention") for name in ("lines", "records", "page", "table", "note", "--resume")),
    ("--beam", "sampling"),
    ("--model", "--checkpoint"),
    ("--then", "--alignments"),
}
OF_THE_SEARCH = "sampling and beam search cannot be combined"  # from the options of the search


@pytest.fixture(scope="module")
def folder(tmp_path_factory, letters_run, two_run) -> Path:
    made = tmp_path_factory.mktemp("combined")
    for name, run in (("letters", letters_run), ("two", two_run)):
        (made / name).symlink_to(run)
    (made / "lines.txt").write_text("98 7\n\n98 76\n98 76. 5\n")
    (made / "lines.jsonl").write_text('{"id": 1, "src": "98 7"}\n')
    (made / "page.html").write_text("<p>98 7</p><p>98 <b>7</b></p>")
    (made / "table.csv").write_text("id,text\n1,98 7\n")
    (made / "note.txt").write_text("98\n7\n\n98 7\n")
    (made / "terms.tsv").write_text("98\tx\n")
    (made / "memory.tmx").write_text(MEMORY)
    return made


def arguments_of(*options: str) -> list[str]:
    """Return arguments with these options, with what they need, and a text to translate, unless they are an input."""
    wanted = dict.fromkeys(options)
    for option in options:
        wanted |= dict.fromkeys([NEEDED[option]] if option in NEEDED else [])
    if "--n-best" in wanted and "sampling" not in wanted:
        wanted["--beam"] = None
    if not wanted.keys() & {*INPUTS}:
        wanted["text"] = None
    values = {name: VALUES[name] for name in wanted}
    if "--to" in values and "--then" in values:
        values["--to"] = ("--to", "fr")
    for name in wanted.keys() & SUFFIXES.keys():
        suffix = ".jsonl" if "--format" in wanted else SUFFIXES[name]
        values["--output"] = ("--output", f"out{suffix}")
    return ["translate", "--model", "letters", *(argument for value in values.values() for argument in value)]


def test_the_values_are_those_of_all_options_but_rays_and_lists():
    """Lists need a document: `test_a_list_goes_with_every_option_of_a_document` has them."""
    tested = VALUES.keys() | {"texts", "--input", "--lines", "--review", "--reviewed"}
    assert {parameter.opts[0] for parameter in COMMANDS["translate"].params} == tested - {*INPUTS, "sampling"}


PAIRS = [pair for pair in combinations(VALUES, 2) if not {*pair} <= {*INPUTS}]  # a command has one input


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, 7))])
def test_every_pair_that_is_not_in_the_table_gives_a_translation(folder, monkeypatch, part):
    from nmt.apps.commands import options as module
    from nmt.artifacts.rundir import RunDir

    monkeypatch.chdir(folder)
    monkeypatch.setitem(VALUES, "--checkpoint", ("--checkpoint", RunDir(folder / "letters").best_checkpoint().stem))
    loaded, load = {}, module.load_translator

    def load_once(models, *options, scores):
        key = tuple(run.path.resolve() for run in models), options, scores
        loaded[key] = loaded.get(key) or load(models, *options, scores=scores)
        return loaded[key]

    monkeypatch.setattr(module, "load_translator", load_once)  # the same models, each loaded once for all pairs
    refused, wrong = set(), []
    for pair in PAIRS[part::7]:
        for path in folder.glob("out*"):
            path.unlink()
        done = nmt(*arguments_of(*pair))
        message = " ".join(done.stderr.split())
        if done.returncode == 2 and (OF_THE_SEARCH in message or any(rule.reason in message for rule in RULES)):
            refused.add(pair)
            continue
        written = "".join(path.read_text(encoding="utf-8") for path in folder.glob("out*")) or done.stdout
        if done.returncode or not written.strip():
            wrong.append((pair, message))
    assert wrong == []
    assert refused == REFUSED & {*PAIRS[part::7]}


def test_a_list_goes_with_every_option_of_a_document(folder, monkeypatch):
    monkeypatch.chdir(folder)
    options = ("--then", "--to", "--from", "--beam", "sampling", "--set", "--glossary", "--tm")
    for number, name in enumerate(SUFFIXES):
        written = f"out{SUFFIXES[name]}"
        for option in options[number::3]:  # every option goes with one of them, every document with some
            done = nmt(*arguments_of(name, option), "--review", "list.tmx")
            assert done.returncode == 0, (name, option, done.stderr)
            first = Path(written).read_bytes()
            done = nmt(*arguments_of(name, option), "--reviewed", "list.tmx")
            assert done.returncode == 0, (name, option, done.stderr)
            assert Path(written).read_bytes() == first
            assert "the model translated nothing, and options of the search had no effect" in done.stderr
        for refused in (("--review", "a.tmx", "--reviewed", "list.tmx"), ("--review", "a.tmx", "--format", "jsonl")):
            assert nmt(*arguments_of(name), *refused).returncode == 2


def test_a_document_is_written_as_json_lines_with_its_texts(folder, monkeypatch):
    monkeypatch.chdir(folder)
    command = ("translate", "--model", "letters", "--format", "jsonl", "--beam", "2", "--n-best", "2", "page.html")
    rows = [json.loads(line) for line in nmt(*command).stdout.splitlines()]
    plain = nmt("translate", "--model", "letters", "--beam", "2", "98 7").stdout.strip()
    assert [(row["src"], row["text"], len(row["hypotheses"])) for row in rows] == [("98 7", plain, 2)] * 2
    assert [*rows[0]][:2] == ["src", "line"]


def test_a_document_goes_through_a_memory_and_two_models_as_its_texts_do(folder, monkeypatch):
    monkeypatch.chdir(folder)
    (folder / "two.html").write_text("<p>98 76</p><p>12 <b>3</b> 4</p><p>12 34</p>")
    command = ("translate", "--model", "letters", "--then", "two", "--to", "fr", "--tm", "memory.tmx")
    assert nmt(*command, "two.html", "--output", "out.html").returncode == 0
    written = (folder / "out.html").read_text(encoding="utf-8")
    last = nmt(*command, "12 34").stdout.strip()
    assert written.startswith("<p>connu</p><p>")
    assert written.endswith(f"<p>{last}</p>")
    assert written.count("<b>") == written.count("</b>") == 1
