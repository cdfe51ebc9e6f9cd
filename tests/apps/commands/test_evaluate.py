"""`nmt eval`: of runs, checkpoints and ensembles, on their test set or given files."""

from __future__ import annotations

import json
import lzma
import os
import re
import shlex
import shutil
import threading
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.commands.evaluate import ShowDetails
from nmt.artifacts.rundir import RunDir
from nmt.data.text.text_statistics import TextStatistics
from nmt.evaluation import score, significance
from nmt.evaluation.details import FLAGS
from nmt.evaluation.evaluation import sacrebleu_command
from nmt.evaluation.scores import describe_quality
from tests.sacrebleu_command import run_sacrebleu
from tests.stored import add_last_checkpoint

FROZEN = Path(__file__).parents[2] / "frozen" / "format-1"


@pytest.fixture(autouse=True)
def _few_samples(few_samples):
    """Draw few samples for intervals, where a test does not ask for all."""


@pytest.fixture
def all_samples(_few_samples, monkeypatch):
    """Draw as many samples as sacreBLEU does."""
    monkeypatch.setattr(significance, "NUM_SAMPLES", 1000)


@pytest.fixture
def run(digits_run, tmp_path) -> RunDir:
    return RunDir(Path(shutil.copytree(digits_run, tmp_path / "digits")))


def evaluate(*arguments: object, code: int = 0) -> str:
    done = CliRunner().invoke(app, ["eval", *map(str, arguments)])
    assert done.exit_code == code or isinstance(done.exception, Exception), done.output
    if code == 1:
        return str(done.exception)
    assert done.exit_code == code, done.output
    return done.stdout if code == 0 else " ".join(done.output.replace("│", " ").split())


def test_the_printed_command_gives_the_same_scores_with_sacrebleu_itself(run, all_samples):
    result = json.loads(evaluate("-m", run.path, "--format", "json", "--metrics", "bleu,chrf,ter"))
    program, *arguments = shlex.split(result["sacrebleu"])
    assert program == "sacrebleu"
    theirs = json.loads(run_sacrebleu(arguments))
    for row, ours in zip(theirs, result["scores"].values(), strict=True):
        assert row["score"] == ours["value"]
        assert row["signature"] == ours["signature"]
    assert (result["set"], result["sentences"]) == ("test", 40)
    assert result["hypotheses"] == str(run.path / "eval" / "test.hyp")
    assert json.loads((run.path / "eval" / "test.json").read_text()) == result


def test_the_printed_command_tokenizes_chinese_as_the_score_does(tmp_path):
    hypotheses, references = ["我来自中国。", "你是我最好的朋友。"], ["我来自中国。", "你我是最好的朋友。"]
    for name, lines in (("hyp", hypotheses), ("ref", references)):
        (tmp_path / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = sacrebleu_command(tmp_path / "hyp", [tmp_path / "ref"], ["bleu"], "zh")
    (printed,) = printed_by(command)
    theirs, (ours,) = json.loads(printed), score(hypotheses, references, "zh", ["bleu"])
    assert theirs["score"] == round(ours.value, 2)
    assert theirs["signature"].replace("bs:1000|seed:12345|", "") == ours.signature


def test_given_files_are_scored_and_their_command_prints_the_same(run, tmp_path):
    (tmp_path / "set.src").write_text("123\n45\n")
    (tmp_path / "set.ref").write_text("321\n54\n")
    (tmp_path / "set.tsv").write_text("123\t321\n45\t54\n")
    files = ("--src", tmp_path / "set.src", "--ref", tmp_path / "set.ref")
    assert evaluate("-m", run.path, *files, "--metrics", "chrf").startswith("chrF2 100.00 ± 0.00  nrefs:1|")
    results = [
        json.loads(evaluate("-m", run.path, *given, "--format", "json"))
        for given in (files, ("--tsv", tmp_path / "set.tsv"))
    ]
    assert results[0] == results[1]
    (printed,) = printed_by(results[0]["sacrebleu"])
    assert [row["score"] for row in json.loads(printed)] == [s["value"] for s in results[0]["scores"].values()]


def test_a_table_is_scored_as_it_is_read_for_training(tmp_path):
    hyp = lines_of(tmp_path, "hyp", 'He said "yes" and "no" to them.', "A dog runs on the green grass.")
    rows = (
        'Er sagte es.\t"He said ""yes"" and ""no"" to them."\tHe said it.',
        "Ein Hund.\tDogs run.\tA dog runs on the green grass.",
    )
    table = lines_of(tmp_path, "sheet.tsv", "source\ttarget\tsecond", *rows)

    def bleu(name: str) -> tuple[float, int]:
        result = json.loads(evaluate("--hyp", hyp, "--tsv", name, "--to", "en", "--format", "json"))
        return result["scores"]["BLEU"]["value"], result["sentences"]

    assert bleu(f"{table}#1,2,3") == (pytest.approx(100), 2)
    assert bleu(str(table))[1] == 2
    assert bleu(str(table))[0] < 90


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_sentences_from_pipes_are_read_once_and_kept_under_their_own_names(run, tmp_path):
    names = []
    for numbers in (("123", "45"), ("67", "89")):
        for side, texts in (("src", numbers), ("ref", [text[::-1] for text in numbers])):
            os.mkfifo(tmp_path / side)
            content = "".join(f"{text}\n" for text in texts)
            threading.Thread(target=(tmp_path / side).write_text, args=(content,), daemon=True).start()
        files = ("--src", tmp_path / "src", "--ref", tmp_path / "ref")
        result = json.loads(evaluate("-m", run.path, *files, "--format", "json", "--metrics", "chrf"))
        assert result["scores"]["chrF2"]["value"] == 100
        assert Path(result["hypotheses"]).read_text().split() == [text[::-1] for text in numbers]
        names.append(result["hypotheses"])
        (tmp_path / "src").unlink()
        (tmp_path / "ref").unlink()
    assert len(set(names)) == 2


def test_a_checkpoint_is_named(run):
    names = [run.best_checkpoint().stem, add_last_checkpoint(run)]
    results = [json.loads(evaluate("-m", run.path, "--checkpoint", name, "--format", "json")) for name in names]
    assert [result["checkpoints"] for result in results] == [[name] for name in names]
    assert [Path(result["hypotheses"]).name for result in results] == [f"test-{name}.hyp" for name in names]
    done = CliRunner().invoke(app, ["translate", "-m", str(run.path), "--checkpoint", names[0], "123"])
    assert done.exit_code == 0
    missing = evaluate("-m", run.path, "--checkpoint", "step-7", code=1)
    assert missing.startswith(f"{run.path}: this run has no checkpoint 'step-7'\n  it has ")
    assert names[0] in missing


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_scores_of_a_read_only_run_are_saved_in_the_current_folder(run, tmp_path, monkeypatch, messages):
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(run.evaluations, ignore_errors=True)
    run.path.chmod(0o555)
    try:
        assert "BLEU" in evaluate("-m", run.path)
    finally:
        run.path.chmod(0o755)
    assert f"warning: cannot write to {run.evaluations}; saving results in digits-eval" in messages
    assert (tmp_path / "digits-eval" / "test.json").is_file()


def test_another_search_or_precision_writes_over_nothing(run):
    evaluate("-m", run.path)
    greedy = (run.evaluations / "test.json").read_text()
    evaluate("-m", run.path, "--beam", 2, "--set", "decoding.length_penalty=0.5")
    assert (run.evaluations / "test.json").read_text() == greedy
    assert json.loads((run.evaluations / "test-beam2-lp0.5.json").read_text())["beam_size"] == 2
    assert (run.evaluations / "test-beam2-lp0.5.hyp").exists()


def test_several_models_are_an_ensemble(run, digits_run, tmp_path, messages):
    other = RunDir(Path(shutil.copytree(digits_run, tmp_path / "other")))
    result = json.loads(evaluate("-m", run.path, "-m", other.path, "--format", "json"))
    assert result["models"] == [str(run.path), str(other.path)]
    assert Path(result["hypotheses"]).match(f"{run.evaluations}/test-with-other-????????.hyp")
    assert not any(line.startswith("warning") for line in messages)
    (other.data / "test.src").write_text("1\n")
    (other.data / "test.tgt").write_text("1\n")
    evaluate("-m", run.path, "-m", other.path)
    assert (
        f"warning: {other.path} has another test set than {run.path}; it may have been trained on sentences of the "
        "latter, so scores may be too high" in messages
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--src", "a"), "--src needs --ref: a score compares"),
        (
            ("--src", "a", "--ref", "b", "--tsv", "c"),
            "--tsv cannot be used with --src, --ref",
        ),
        (("--hyp", "a", "--augment", "typos"), "--hyp cannot be used with --augment: a file is scored"),
        (("--ref", "a"), "--ref needs --src or --hyp: a model needs sources"),
        (
            ("--src", "a", "--ref", "b", "--ref", "c", "--augment", "typos"),
            "--augment cannot be used with several --ref",
        ),
        (("--metrics", "bleu,meteor"), "unknown metric 'meteor'; choose from bleu, chrf, chrf++, ter"),
        (("--metrics", "bleu,comet"), "nmt does not compute COMET"),
        (("--metrics", "spBLEU"), "nmt does not compute spBLEU"),
        (
            ("-m", "a", "-m", "b", "--checkpoint", "c"),
            "--checkpoint cannot be used with several --model",
        ),
        (("--hyp", "a", "--ref", "b", "--beam", "2"), "--hyp cannot be used with --beam: a file is scored"),
        (
            ("--hyp", "a", "--ref", "b", "--split", "valid"),
            "--split cannot be used with --ref",
        ),
    ],
)
def test_what_does_not_go_together_is_a_usage_error(arguments, message):
    assert message in evaluate(*arguments, code=2)


def test_changed_copies_of_the_set_are_scored_beside_it(run):
    plain = json.loads(evaluate("-m", run.path, "--format", "json"))
    result = json.loads(evaluate("-m", run.path, "--format", "json", "--augment", "typos,noise"))
    changed = result.pop("augmented")
    assert result == plain
    assert list(changed) == ["typos", "noise"]
    references = {kind: (run.path / "eval" / f"test-{kind}.ref").read_text(encoding="utf-8") for kind in changed}
    clean = (run.path / "data" / "test.tgt").read_text(encoding="utf-8")
    assert references["noise"] == references["typos"] == clean  # only the sources change
    assert changed["noise"]["scores"]["chrF2"]["value"] < plain["scores"]["chrF2"]["value"]
    assert json.loads((run.path / "eval" / "test-noise.json").read_text()) == changed["noise"]
    lines = evaluate("-m", run.path, "--augment", "typos").splitlines()
    assert [line.split()[0] for line in lines] == ["BLEU", "chrF2", "typos", "typos"]
    again = json.loads((run.path / "eval" / "test-typos.json").read_text())
    assert again == changed["typos"], "a set is changed in the same way every time"


def test_an_unknown_kind_of_change_is_named(run):
    output = evaluate("-m", run.path, "--augment", "upper,lower", code=2)
    assert "unknown kind of change 'lower'; choose from upper, title, typos" in output


def lines_of(folder: Path, name: str, *texts: str) -> Path:
    (folder / name).write_text("".join(f"{text}\n" for text in texts), encoding="utf-8")
    return folder / name


def printed_by(commands: str) -> list[str]:
    """Return what each of the commands, all of `sacrebleu`, prints."""
    return [run_sacrebleu(shlex.split(command)[1:]) for command in commands.split(" && ")]


def test_scores_have_intervals_that_the_printed_command_prints_too(run, all_samples):
    result = json.loads(evaluate("-m", run.path, "--format", "json", "--metrics", "chrf++,chrf"))
    theirs = {row["name"]: row for row in map(json.loads, printed_by(result["sacrebleu"]))}
    assert list(result["scores"]) == ["chrF2++", "chrF2"]
    for name, ours in result["scores"].items():
        row = theirs[name]
        assert (ours["value"], ours["signature"]) == (row["score"], row["signature"])
        assert ours["interval"] == {"mean": row["confidence_mean"], "half_width": row["confidence_var"]}
    assert re.match(r"chrF2\+\+ +[0-9.]+ ± [0-9.]+  nrefs:1\|bs:1000\|seed:12345\|", evaluate(
        "-m", run.path, "--metrics", "chrf++"))  # fmt: skip


def test_a_file_of_translations_is_scored_without_a_model_against_several_references(
    tmp_path, monkeypatch, all_samples
):
    monkeypatch.chdir(tmp_path)  # where there is no run
    hyp = lines_of(tmp_path, "hyp", "the dog barks", "he reads")
    refs = [lines_of(tmp_path, "r1", "a dog barks", "he reads"), lines_of(tmp_path, "r2", "the dog barks", "she read")]
    files = ("--hyp", hyp, "--ref", refs[0], "--ref", refs[1], "--to", "en")
    result = json.loads(evaluate(*files, "--format", "json"))
    assert (result["models"], result["precision"], result["hypotheses"]) == ([], None, str(hyp))
    assert result["scores"]["chrF2"]["value"] == 100
    (printed,) = printed_by(result["sacrebleu"])
    assert [row["signature"] for row in json.loads(printed)] == [s["signature"] for s in result["scores"].values()]
    assert "nrefs:2|" in result["scores"]["BLEU"]["signature"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hyp", "r1", "r2"]
    assert evaluate(*files[:-2], code=1).startswith("BLEU's tokenizer depends on the target language, which is unknown")
    short = lines_of(tmp_path, "short", "one")
    assert evaluate("--hyp", short, *files[2:], code=1).startswith(f"{short}: 1 translations but 2 references")
    assert evaluate(*files, "--ref", short, code=1).startswith(f"{short}: 2 lines in {refs[0]} but 1 references")


def test_a_file_of_translations_is_scored_on_the_test_set_of_a_run(run):
    whole = json.loads(evaluate("-m", run.path, "--format", "json"))
    result = json.loads(evaluate("--hyp", whole["hypotheses"], "-m", run.path, "--format", "json"))
    assert result["scores"] == whole["scores"]
    assert result["sacrebleu"] == whole["sacrebleu"]


def test_a_model_is_compared_with_a_run_and_a_file(run, digits_run, tmp_path):
    other = Path(shutil.copytree(digits_run, tmp_path / "other", ignore=shutil.ignore_patterns("eval")))
    backwards = lines_of(tmp_path, "wrong", *RunDir(run.path).read_pairs("test")[0])
    result = json.loads(evaluate("-m", run.path, "--compare", other, "--compare", backwards, "--format", "json"))
    same, wrong = result["compared"]
    assert (same["other"], wrong["other"]) == (str(other), str(backwards))
    assert [each["verdict"] for each in same["differences"].values()] == ["no difference"] * 2
    chrf = wrong["differences"]["chrF2"]
    assert (chrf["verdict"], chrf["significant"]) == ("better: the difference is significant", True)
    assert len(list(run.evaluations.glob(f"test-of-{tmp_path.name}-other-*.hyp"))) == 1
    assert not (other / "eval").exists()


def test_translations_of_two_models_with_the_same_last_folders_are_both_kept(run, digits_run, tmp_path):
    first, second = (Path(shutil.copytree(digits_run, tmp_path / name / "runs" / "x")) for name in "ab")
    evaluate("-m", run.path, "--compare", first, "--compare", second, "--metrics", "chrf")
    assert len(list(run.evaluations.glob("test-of-runs-x-*.hyp"))) == 2


def test_compressed_translations_are_compared(run, tmp_path):
    packed = tmp_path / "other.xz"
    with lzma.open(packed, "wt", encoding="utf-8") as file:
        file.writelines(f"{text}1\n" for text in RunDir(run.path).read_pairs("test")[1])
    (compared,) = json.loads(evaluate("-m", run.path, "--compare", packed, "--format", "json"))["compared"]
    assert compared["differences"]["chrF2"]["verdict"] == "better: the difference is significant"


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("text.xz", lambda path: path.write_bytes(lzma.compress(b"a b c d\ne\n"))),
        ("text", lambda path: path.write_bytes(b"\xef\xbb\xbfa b c d\ne\n")),
        pytest.param(
            "text",
            lambda path: feed_pipe(path, "a b c d\ne\n"),
            marks=pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes"),
        ),
    ],
    ids=["xz", "byte-order-mark", "pipe"],
)
@pytest.mark.parametrize("option", ["--hyp", "--ref"])
def test_no_command_names_a_file_that_sacrebleu_cannot_read(name, write, option, tmp_path, messages):
    plain, path = lines_of(tmp_path, "plain", "a b c d", "e"), tmp_path / name
    write(path)
    files = {"--hyp": plain, "--ref": plain, option: path}
    arguments = [word for pair in files.items() for word in pair]
    result = json.loads(evaluate(*arguments, "--to", "en", "--format", "json"))
    assert result["scores"]["chrF2"]["value"] == 100
    assert result["sacrebleu"] is None
    assert any(line.startswith(f"no sacreBLEU command: sacreBLEU cannot read {path} (") for line in messages)


def feed_pipe(path: Path, content: str) -> None:
    """Make a named pipe that yields `content` to its first reader."""
    os.mkfifo(path)
    threading.Thread(target=path.write_text, args=(content,), daemon=True).start()


def test_references_without_text_are_counted_in_a_warning(tmp_path, messages):
    hyp, full = lines_of(tmp_path, "hyp", "a b c d", "", "e"), lines_of(tmp_path, "full", "a b c d", "a", "e")
    evaluate("--hyp", hyp, "--ref", full, "--to", "en")
    assert not any("without text" in line for line in messages)
    evaluate("--hyp", hyp, "--ref", lines_of(tmp_path, "ref", "a b c d", "", " "), "--to", "en")
    assert "warning: references without text: 2; scores against them mean nothing, so remove these rows" in messages


def test_a_comparison_says_in_words_whether_the_difference_is_real(tmp_path):
    hyp, ref = lines_of(tmp_path, "hyp", *["a b c d"] * 9), lines_of(tmp_path, "ref", *["a b c d"] * 9)
    other = lines_of(tmp_path, "other", *["a b c d"] * 8, "a b c e")
    printed = evaluate("--hyp", hyp, "--ref", ref, "--to", "en", "--compare", other, "--metrics", "chrf")
    lines = printed.splitlines()[2:]
    assert (
        lines[0] == f"{hyp} compared with {other} (paired bootstrap resampling, 1,000 samples; significant: p < 0.05)"
    )
    assert re.fullmatch(
        r"chrF2 100\.00  9\d\.\d\d   \+\d\.\d\d  p = 0\.\d{4}  better, but it may be chance: .*",
        lines[1],
    )
    missing = tmp_path / "none"
    assert evaluate("--hyp", hyp, "--ref", ref, "--to", "en", "--compare", missing, code=1) == (
        f"{missing}: no such run or file of translations"
    )


def test_a_run_is_compared_only_with_sources_of_a_language_that_it_knows(run, two_run, tmp_path):
    ref, src = lines_of(tmp_path, "ref", "21", "43"), lines_of(tmp_path, "src", "12", "34")
    files = ("--hyp", ref, "--ref", ref, "--to", "en", "--compare", run.path)
    for missing in (("--from", "en"), ("--src", src)):
        assert "a run translates the sources, which are missing, or their language" in evaluate(
            *files, *missing, code=1
        )
    assert "no difference" in evaluate(*files, "--src", src, "--from", "en")
    before = {*run.path.rglob("*")}
    wrong = ("--src", src, "--ref", ref, "--from", "en", "--compare", two_run)
    assert "this model translates into de and fr" in evaluate("-m", run.path, *wrong, code=1)
    assert {*run.path.rglob("*")} == before  # nothing was translated in vain


def test_details_name_the_worst_sentences_and_group_by_rare_words(run):
    result = json.loads(evaluate("-m", run.path, "--details", "--format", "json"))
    assert list(result["details"]) == ["groupings", "flags", "worst"]
    properties = [grouping["property"] for grouping in result["details"]["groupings"]]
    assert properties == ["number of words of the source"]  # this run has no statistics of its training text
    assert len(result["details"]["worst"]) == 30
    text = evaluate("-m", run.path, "--details")
    assert "by number of words of the source\n" in text
    assert "the 30 worst by chrF\nline " in text
    statistics = TextStatistics(pairs=9, src_sentences=[9], tgt_sentences=[9], words=["der hund"])
    run.write_json(run.statistics_file, statistics)
    assert "by number of words of the source that are in fewer than two" in evaluate("-m", run.path, "--details")


def test_an_evaluation_says_that_the_phrase_table_translated(phrases_run, tmp_path, messages):
    run = RunDir(shutil.copytree(phrases_run.path, tmp_path / "run"))
    evaluate("-m", run.path, "--metrics", "chrf")
    assert any("translated with the phrase table" in line for line in messages)


def test_the_help_of_details_names_every_flag():
    assert [flag for flag in FLAGS if flag not in get_args(ShowDetails)[1].help] == []


def test_the_report_has_every_sentence(run, tmp_path):
    evaluate("-m", run.path, "--report", tmp_path / "new" / "report.html", "--metrics", "chrf")
    page = (tmp_path / "new" / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert page.count("<tr data-flags") == 40


def test_a_report_that_cannot_be_written_is_refused_before_anything_is_translated(tmp_path, messages):
    text = lines_of(tmp_path, "text", "a b c")
    files = ("--hyp", text, "--ref", text, "--to", "en", "--report")
    assert evaluate(*files, tmp_path, code=1).startswith(f"{tmp_path}: cannot be written: it is not a")
    assert evaluate(*files, text, code=1).startswith(f"{text}: this file is the input")
    assert "its folder is not a folder" in evaluate(*files, text / "report.html", code=1)
    assert "must be a file, not standard output" in evaluate(*files, "-", code=1)
    assert text.read_text() == "a b c\n"
    if Path("/dev/null").exists():
        assert "it is not a regular file" in evaluate(*files, "/dev/null", code=1)
    assert not messages


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_table_may_be_a_pipe(tmp_path):
    pipe, hyp = tmp_path / "pipe", lines_of(tmp_path, "hyp", "a b c")
    os.mkfifo(pipe)
    writer = threading.Thread(target=pipe.write_text, args=("x y z\ta b c\n",))
    writer.start()
    result = json.loads(evaluate("--hyp", hyp, "--tsv", pipe, "--to", "en", "--format", "json"))
    writer.join()
    assert result["scores"]["chrF2"]["value"] == 100


def test_a_reason_is_given_if_there_is_no_sacrebleu_command_for_a_table(tmp_path, messages):
    hyp, table = lines_of(tmp_path, "hyp", "a b c"), lines_of(tmp_path, "set.tsv", "x y z\ta b c")
    found = json.loads(evaluate("--hyp", hyp, "--tsv", table, "--to", "English", "--format", "json"))
    assert found["sacrebleu"] is None
    assert any(line.startswith("no sacreBLEU command: ") for line in messages)


def test_a_shortlist_is_used_and_its_scores_have_a_name_of_their_own(run):
    run.shortlist.unlink(missing_ok=True)
    assert "this run has no shortlist" in evaluate("-m", run.path, "--set", "decoding.shortlist=true", code=1)
    assert CliRunner().invoke(app, ["shortlist", str(run.path)]).exit_code == 0
    evaluate("-m", run.path, "--set", "decoding.shortlist=true")
    assert (run.evaluations / "test-shortlist.json").exists()


def test_scores_are_explained_with_the_precision_that_they_were_computed_in(run):
    index = run.index()
    best = index.checkpoints[index.best]
    done = CliRunner().invoke(app, ["eval", "-m", str(run.path), "--split", "valid", "--precision", "fp32"])
    bleu = float(done.stdout.split()[1])
    assert f"BLEU {bleu:.2f}: {describe_quality(bleu, best['chrf'])}\n--details shows" in done.stderr
    assert "translated in fp32 with beam size 1; hypotheses" in done.stderr
    assert bleu == round(best["bleu"], 2)
    done = CliRunner().invoke(app, ["eval", "-m", str(run.path), "--split", "valid", "--precision", "int8"])
    assert "translated in int8 with beam size 1 (nmt train, nmt plot and index.json have scores in fp32" in done.stderr
    done = CliRunner().invoke(app, ["eval", "-m", str(run.path), "--details", "--metrics", "ter"])
    assert "--details shows" not in done.stderr
    assert "rule of thumb" not in done.stderr


def test_tokenized_translations_are_reported(tmp_path):
    (tmp_path / "hyp").write_text("A dog .\n" * 120)
    (tmp_path / "ref").write_text("A dog.\n" * 120)
    arguments = ["eval", "--hyp", str(tmp_path / "hyp"), "--ref", str(tmp_path / "ref"), "--to", "en"]
    done = CliRunner().invoke(app, arguments)
    assert f'warning: {tmp_path}/hyp: 120 translations end in " .", but only 0 references' in done.stderr
    assert "force" not in done.stderr
