"""Search as a person asks for it: flags of `nmt translate` and `nmt eval`, and `nmt score`."""

from __future__ import annotations

import json
import re
import shutil

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import all_commands, app
from nmt.artifacts.rundir import RunDir


@pytest.fixture
def nmt(digits_run):
    def run(verb: str, *arguments: object, code: int = 0) -> str:
        done = CliRunner().invoke(app, [verb, "-m", str(digits_run), *map(str, arguments)])
        assert done.exit_code == code, done.output
        return done.stdout if code == 0 else done.output

    return run


def test_n_best_gives_so_many_lines_a_text_and_blank_ones_for_a_blank(nmt):
    out = nmt("translate", "--beam", 4, "--n-best", 3, "123", "", "456")
    lines = out.split("\n")
    assert len(lines) == 9 + 1
    assert (lines[0], lines[3:6], lines[6]) == ("321", ["", "", ""], "654")


def test_jsonl_has_the_scores_of_every_token_and_all_hypotheses(nmt):
    row = json.loads(nmt("translate", "--format", "jsonl", "--beam", 3, "--n-best", 2, "123"))
    assert row["text"] == row["hypotheses"][0]["text"] == "321"
    assert row["score"] == pytest.approx(sum(row["token_scores"]), abs=1e-4)
    assert len(row["token_scores"]) == len(row["tokens"]) + 1
    assert len(row["hypotheses"]) == 2


def test_a_text_with_line_breaks_is_one_line_of_text_and_keeps_them_in_json(nmt):
    assert nmt("translate", "12\n34", "56") == "21 43\n65\n"
    assert json.loads(nmt("translate", "--format", "jsonl", "12\n34"))["text"] == "21\n43"


def test_prefix_lengths_and_repeats_are_kept_to(nmt):
    assert nmt("translate", "--prefix", "77", "123").startswith("77")
    longest = ("--set", "decoding.max_len_factor=0", "--set", "decoding.max_len_offset=2")
    row = json.loads(nmt("translate", "--format", "jsonl", *longest, "12345"))
    assert (len(row["tokens"]), row["finished"]) == (2, False)
    row = json.loads(
        nmt(
            "translate",
            "--format",
            "jsonl",
            "--set",
            "decoding.min_len=9",
            "--set",
            "decoding.no_repeat_ngram=2",
            "123",
        )
    )
    assert len(row["tokens"]) >= 9
    pairs = list(zip(row["tokens"], row["tokens"][1:], strict=False))
    assert len(set(pairs)) == len(pairs)


def test_samples_follow_the_seed(nmt):
    flags = (
        "translate",
        "--set",
        "decoding.sample=true",
        "--set",
        "decoding.temperature=5",
        "--set",
        "decoding.top_k=8",
        "--n-best",
        4,
        "12345",
    )
    first, again, other = nmt(*flags), nmt(*flags), nmt(*flags, "--set", "decoding.seed=2")
    assert first == again != other
    assert first.count("\n") == 4


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--n-best", "2"), "2 hypotheses need a beam of that size; it is 1"),
        (("--set", "decoding.sample=true", "--beam", "2"), "sampling and beam search cannot be combined"),
        (("--set", "decoding.top_p=0.5"), "temperature, top_k and top_p are for sampling"),
        (("--beam", "100000"), "--beam"),
        (("--resume",), "--resume needs --output: it continues a file"),
        (("--alignments",), "--alignments needs --format jsonl"),
    ],
)
def test_flags_that_do_not_go_together_are_a_usage_error(nmt, flags, message):
    out = nmt("translate", *flags, "1", code=2)
    said = " ".join(out.replace("│", " ").split())
    assert message in said
    assert "SearchOptions" not in said


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("letter.md",), "letter.md: is a document: name its translation with --output NAME.md"),
        (
            ("a.pdf", "-o", "b.pdf"),
            "of a PDF file, only the text is translated: name its translation with --output NAME.txt",
        ),
        (("letter.md", "-o", "new.md", "--review", "list.doc"), "list.doc: the list of translations is one of .xlsx"),
    ],
)
def test_a_document_needs_an_output_of_its_kind(nmt, tmp_path, monkeypatch, flags, message):
    monkeypatch.chdir(tmp_path)
    for name in ("letter.md", "a.pdf"):
        (tmp_path / name).write_text("12")
    out = nmt("translate", *flags, code=2)
    assert message in " ".join(out.replace("│", " ").split())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.pdf", "letter.md"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (
            "decoding.beem_size=3",
            "unknown key 'beem_size' in decoding\n  did you mean 'beam_size'? allowed: batch_tokens, ",
        ),
        ("min_len=3", "'min_len' is not a section; it belongs in decoding"),
        ("training.lr=1", "training has no effect here\n  only keys of decoding change a search"),
        ("decoding.min_len=many", "decoding.min_len must be a whole number (at least 0 and at most 1000000), got"),
        (
            "decoding.split=alway",
            "decoding.split must be one of auto, always, long, never, got 'alway'\n  did",
        ),
        ("decoding.seed", "expected section.key=value"),
    ],
)
def test_settings_have_the_errors_of_a_configuration(digits_run, setting, message):
    done = CliRunner().invoke(app, ["translate", "-m", str(digits_run), "--set", setting, "1"])
    assert str(done.exception).startswith(f"--set {setting}: {message}")


def test_alignments_are_pairs_of_words_and_of_tokens(nmt):
    out = nmt("translate", "--alignments", "--format", "jsonl", "123", "", "45")
    rows = [json.loads(line) for line in out.splitlines()]
    assert rows[1]["alignment"] == rows[1]["token_alignment"] == ""
    pairs = [tuple(map(int, pair.split("-"))) for pair in rows[0]["token_alignment"].split()]
    assert len({target for _, target in pairs}) == len(pairs) > 0
    assert rows[0]["alignment"] == "0-0"


def test_the_run_says_how_to_search_and_flags_override_it(digits_run, tmp_path):
    run = RunDir(tmp_path / "beamed")
    shutil.copytree(digits_run, run.path)
    config = run.config()
    decoding = config.decoding.model_copy(update={"beam_size": 3})
    run.write_config(config.model_copy(update={"decoding": decoding}))

    def lines(*flags: str) -> int:
        done = CliRunner().invoke(app, ["translate", "-m", str(run.path), *flags, "123"])
        return len(done.stdout.splitlines()) if done.exit_code == 0 else done.exit_code

    assert lines("--n-best", "3") == 3
    assert lines("--n-best", "3", "--beam", "1") == 2  # a usage error


def test_an_ensemble_is_named_by_several_models(nmt, digits_run):
    assert nmt("translate", "-m", digits_run, "--beam", 2, "123") == "321\n"


def test_evaluation_searches_with_the_beam_asked_for(nmt):
    assert json.loads(nmt("eval", "--beam", 3, "--format", "json"))["beam_size"] == 3


def test_given_translations_are_scored_a_line_each(nmt, tmp_path):
    (tmp_path / "a").write_text("123\n45\n\n")
    (tmp_path / "b").write_text("321\n99\n1\n")
    (tmp_path / "both.tsv").write_text("123\t321\n45\t99\n\t1\n")
    out = nmt("score", "--src", tmp_path / "a", "--tgt", tmp_path / "b")
    assert nmt("score", "--tsv", tmp_path / "both.tsv") == out
    good, bad, _ = map(float, out.splitlines())
    assert 0 > good > bad
    rows = [json.loads(line) for line in nmt("score", "--tsv", tmp_path / "both.tsv", "--per-token").splitlines()]
    assert [row["score"] for row in rows] == [float(line) for line in out.splitlines()]
    assert rows[0]["tokens"][-1] == "</s>"
    assert len(rows[0]["tokens"]) == len(rows[0]["token_scores"])
    nmt("score", "--src", tmp_path / "a", code=2)


def test_scoring_needs_texts_and_names_lines_beyond_the_limit_of_the_model(nmt, tmp_path, messages):
    assert "give --src and --tgt, or --tsv" in nmt("score", code=2)
    (tmp_path / "pairs.tsv").write_text(f"12\t21\n{'12' * 90}\t{'21' * 90}\n")
    assert nmt("score", "--tsv", tmp_path / "pairs.tsv").count("\n") == 2
    assert messages == ["warning: line 2 is longer than the model's limit; its end is not scored"]


def test_a_heat_map_shows_the_first_part_of_a_text_and_needs_one(nmt, digits_run, tmp_path, messages):
    picture = tmp_path / "map.svg"
    assert nmt("translate", "--attention", picture, "12\n34") == "21 43\n"
    assert "warning: the text was translated in 2 segments; only the first is drawn" in messages
    assert picture.is_file()
    picture.unlink()
    done = CliRunner().invoke(app, ["translate", "-m", str(digits_run), "--attention", str(picture), " "])
    assert str(done.exception) == "nothing to draw: no model translated the text"
    assert not picture.exists()


def test_a_picture_of_several_runs_needs_a_name(digits_run, tmp_path):
    other = shutil.copytree(digits_run, tmp_path / "other")
    done = CliRunner().invoke(app, ["plot", str(digits_run), str(other)])
    assert done.exit_code == 2
    assert "name a file with --output" in " ".join(done.output.replace("│", " ").split())


def test_the_help_of_a_command_names_no_option_that_it_does_not_have():
    commands = dict(all_commands())
    for command in ("eval", "score", "synthesize", "translate"):
        help_text = CliRunner().invoke(app, [command, "--help"]).output
        options = {option for parameter in commands[command].params for option in parameter.opts}
        assert {*re.findall(r"(?<![\w-])--[a-z][a-z-]*", help_text)} - options == {"--help"}, command
