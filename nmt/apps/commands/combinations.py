"""The options that cannot be combined, in one table for all commands, each with its reason.

Options that are not in the table go with each other; tests run the pairs of `nmt translate`. Before a command runs,
`nmt/apps/cli.py` calls `refuse_combinations`, which is the last function here: it takes the options and conditions
that were given, and the first rule that they break.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import typer

from nmt.apps.commands.documents import is_document
from nmt.apps.commands.inputs import writes_json


class Rule(NamedTuple):
    """A row of the table: an option, or one of `CONDITIONS`, and the others that it needs or excludes."""

    commands: str  # for which the rule holds, separated by commas
    subject: str
    relation: Literal["needs", "excludes"]
    others: tuple[str, ...]  # of which it needs one, or excludes each
    reason: str
    instead: str = ""  # what to do; empty: add what is needed, or omit one of the two
    unless: str = ""  # an option or condition with which the rule does not hold


# The keys of the section decoding that a teacher's server takes, too: it generates with them.
_KEYS_OF_TEACHERS = ("num_hypotheses", "sample", "temperature", "top_p", "seed")
_NEW_CORPUS = ("--src", "--tgt", "--corpus", "--src-lang", "--tgt-lang")

RULES = (
    # What is translated, and what is written of it.
    Rule("translate", "a text", "excludes", ("--input",), "they would be two sources of the same output"),
    Rule("translate", "--attention", "needs", ("one text",), "it draws one text", "give it as an argument"),
    Rule("translate", "--alignments", "needs", ("--format jsonl",), "plain text has no place for links"),
    Rule(
        "translate",
        "--resume",
        "excludes",
        ("--attention",),
        "it continues a file of many lines, and a drawing has one text",
    ),
    Rule(
        "translate",
        "a document",
        "excludes",
        ("--resume", "--n-best", "--prefix"),
        "it is written as a whole, with one translation of each paragraph, whose formatted parts have no beginning "
        "of their own",
        "write its paragraphs as JSON lines with --format jsonl",
        unless="--format jsonl",
    ),
    Rule("translate", "--lines", "needs", ("a document",), "other inputs have a text in each line"),
    Rule("translate", "--review", "needs", ("a document",), "it lists the paragraphs of one"),
    Rule(
        "translate",
        "--review",
        "excludes",
        ("--format jsonl", "--reviewed"),
        "it lists what nmt writes into a document",
    ),
    Rule("translate", "--reviewed", "needs", ("a document",), "it has the translations of its paragraphs"),
    Rule("translate", "--reviewed", "excludes", ("--format jsonl",), "it has translations and nothing else"),
    Rule("translate", "--resume", "needs", ("--output",), "it continues a file"),
    # Where a model computes, and which models.
    Rule("translate", "--then", "excludes", ("--alignments",), "a model links its own two languages, and no third one"),
    Rule("translate, eval", "--checkpoint", "excludes", ("several --model",), "it belongs to one run"),
    # A teacher: a language model on a server.
    Rule("synthesize", "--teacher", "needs", ("--config",), "the model to train has the languages"),
    Rule("synthesize", "--config", "needs", ("--teacher",), "a run has a configuration of its own"),
    Rule("synthesize", "--examples", "needs", ("--teacher",), "a run needs none"),
    Rule("synthesize", "--requests", "needs", ("--teacher",), "a run is on no server"),
    Rule(
        "synthesize",
        "--teacher",
        "excludes",
        ("--keep", "--device", "--beam", "--set of the search"),
        "a server decides how its model runs and searches, and returns no scores",
    ),
    # What is scored, and against what.
    Rule("eval", "--src", "needs", ("--ref",), "a score compares translations with references"),
    Rule("eval", "--ref", "needs", ("--src", "--hyp"), "a model needs sources to translate"),
    Rule("eval, score", "--tsv", "excludes", ("--src", "--ref", "--tgt"), "a file of pairs has both"),
    Rule(
        "eval",
        "--hyp",
        "excludes",
        ("--augment", "--checkpoint", "several --model"),
        "a file is scored, and no model translates",
    ),
    Rule(
        "eval",
        "--hyp",
        "excludes",
        ("--beam", "--set", "--engine", "--device", "--precision"),
        "a file is scored, and no model searches",
        unless="--compare",
    ),
    Rule("eval", "--augment", "excludes", ("several --ref",), "a change concerns a source and its reference"),
    Rule("eval", "--split", "excludes", ("--ref", "--tsv"), "it names a set of the run, and files are another one"),
    Rule("score", "--src", "needs", ("--tgt",), "a score belongs to a pair"),
    Rule("score", "--tgt", "needs", ("--src",), "a score belongs to a pair"),
    # What a model is trained on.
    Rule(
        "adapt",
        "--resume",
        "excludes",
        (*_NEW_CORPUS, "--mix", "--test"),
        "an adaptation that has begun has its corpus",
    ),
    Rule("train", "--config", "excludes", _NEW_CORPUS, "these files make a new configuration"),
    Rule("data check, data clean", "--config", "excludes", _NEW_CORPUS, "it names files and their languages"),
    Rule("config new", "--overwrite", "needs", ("--output",), "it replaces a file"),
    Rule("train, distill", "--resume", "excludes", ("--overwrite",), "only one of them keeps the run"),
)

CONDITIONS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "a text": lambda values: bool(values.get("texts")),
    "one text": lambda values: len(values.get("texts") or ()) == 1 and not is_document(values["texts"]),
    "a document": lambda values: is_document(values.get("texts") or []),
    "--format jsonl": lambda values: writes_json(values.get("format"), values.get("input")),
    "--set of the search": lambda values: any(
        not setting.partition("=")[0].strip().endswith(_KEYS_OF_TEACHERS) for setting in values.get("settings") or ()
    ),
}
"""Conditions that a rule may name like options, as functions of a command's values; so it may `several OPTION`."""


def given_in(context: Any) -> set[str]:
    """Return the options with other values than their defaults, and the conditions that hold."""
    given = {name for name, holds in CONDITIONS.items() if holds(context.params)}
    for parameter in context.command.params:
        option = parameter.opts[0]
        value = context.params.get(parameter.name)
        if value in (None, False, (), [], parameter.get_default(context)):
            continue
        given.add(option)
        if isinstance(value, list) and len(value) > 1:
            given.add(f"several {option}")
    return given


def fault_of(command: str, given: set[str], rules: Sequence[Rule] = RULES) -> str:
    """Return what cannot be combined, why, and what to do instead; empty if all can.

    `command` is its full name, such as `nmt data check`.
    """
    for rule in rules:
        if not command.endswith((*rule.commands.split(", "),)) or rule.subject not in given or rule.unless in given:
            continue
        present = [other for other in rule.others if other in given]
        if rule.relation == "needs" and not present:
            instead = rule.instead or f"add it, or omit {rule.subject}"
            return f"{rule.subject} needs {' or '.join(rule.others)}: {rule.reason}; {instead}"
        if rule.relation == "excludes" and present:
            instead = rule.instead or "omit one of the two"
            return f"{rule.subject} cannot be used with {', '.join(present)}: {rule.reason}; {instead}"
    return ""


def refuse_combinations(context: Any) -> None:
    """Raise typer.BadParameter if options of the command of a `context` cannot be combined."""
    if fault := fault_of(context.command_path, given_in(context)):
        raise typer.BadParameter(fault)
