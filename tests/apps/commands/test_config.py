"""`nmt config new`, `show` and `check`, called as from the shell."""

from __future__ import annotations

import gzip
import json
import re
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.apps.interop.supported import refuse_unsupported
from nmt.artifacts.rundir import RunDir
from nmt.base.errors import ConfigError, DataError, NmtError
from nmt.config import load_config
from nmt.config.corpora import FORMAT_OF_ENDING
from nmt.data.tokens.tokenizer import TokenizerPair
from nmt.training.run import start_run
from tests.stored import MODELS

NUM_PAIRS = 131


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    src = "".join(f"Satz {n}\n" for n in range(NUM_PAIRS))
    tgt = "".join(f"sentence {n}\n" for n in range(NUM_PAIRS))
    Path("a.de").write_text(src + "leer\n")
    Path("a.en").write_text(tgt + "\n")
    Path("a.pt-BR.gz").write_bytes(gzip.compress((tgt + "\n").encode()))
    Path("a.txt").write_text(src + "leer\n")
    Path("a.tsv").write_text("".join(f"{n}\tsentence {n}\tSatz {n}\n" for n in range(NUM_PAIRS)))
    Path("few.tsv").write_text("eins\tone\n")
    Path("blank.tsv").write_text("eins\t\n\n")


def run(*arguments: str):
    return CliRunner().invoke(app, ["config", *arguments])


def succeed(*arguments: str):
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    return result


def fail(*arguments: str) -> NmtError:
    """The error of a command, which must not have written anything to stdout."""
    result = run(*arguments)
    assert isinstance(result.exception, NmtError), result.output
    assert result.stdout == ""
    return result.exception


def new(*arguments: str):
    """The configuration that `new` prints, read back."""
    path = Path("my.yaml")
    path.write_text(succeed("new", *arguments).stdout)
    return load_config(path)


def test_new_suggests_a_student_if_asked():
    model = new("--src", "a.de", "--tgt", "a.en", "--student").model
    assert (model.encoder_layers, model.decoder_layers) == (3, 1)


@pytest.mark.slow
def test_new_for_hf_suggests_a_model_that_export_hf_takes_and_says_what_that_costs():
    Path("many.tsv").write_text("".join(f"Satz {number}.\tSentence {number}.\n" for number in range(10_500)))
    many = ("--corpus", "many.tsv", "--src-lang", "de", "--tgt-lang", "en")
    for corpus in (many, (*many, "--student"), ("--src", "a.de", "--tgt", "a.en")):
        usual, config = new(*corpus), new(*corpus, "--for", "hf")
        refuse_unsupported(config.model, Path("my.yaml"), "transformers")
        with pytest.raises(NmtError, match="`nmt config new --for hf` configures a model that it has"):
            refuse_unsupported(usual.model, Path("my.yaml"), "transformers")
        assert config.model_copy(update={"model": usual.model}) == usual
    for corpus, cost in (
        (many, "0.8 BLEU less on Multi30k."),
        (("--src", "a.de", "--tgt", "a.en"), ": post-norm."),
    ):
        line = succeed("new", *corpus, "--for", "hf").stdout.split("\n")[7]
        assert line.startswith("# For nmt export hf: ")
        assert line.endswith(cost)


def test_new_prints_a_commented_configuration_that_suits_the_data():
    result = succeed("new", "--src", "a.de", "--tgt", "a.en")
    assert result.stdout.split("\n")[:6] == [
        "# Train with: nmt train --config THIS-FILE.yaml",
        "# Found 131 sentence pairs (not counted: rows with an empty side: 1) in a.de and a.en.",
        "# Suggested: 2+2 layers, d_model 128, d_ff 512, 4 heads,",
        "# one vocabulary of 8,000 tokens, dropout 0.1,",
        "# 1,800 updates, a validation every 400.",
        "# Why: a decoder that copies, and source words that start as their translations, need few pairs to translate.",
    ]
    assert result.stderr == ""
    config = new("--src", "a.de", "--tgt", "a.en")
    assert (config.data.src_lang, config.data.tgt_lang) == ("de", "en")
    assert (config.data.train.src, config.data.train.tgt) == ("a.de", "a.en")
    assert config.data.holdout_size == 6


def test_new_counts_the_pairs_that_its_filters_keep_and_says_minutes():
    rows = [f"Satz {number} und {chr(97 + number % 26) * 3}.\tSentence {number} and so on.\n" for number in range(150)]
    Path("doubled.tsv").write_text("".join(rows * 40))
    named = ("--corpus", "doubled.tsv", "--src-lang", "de", "--tgt-lang", "en")
    result = succeed("new", *named, "-o", "doubled.yaml")
    assert "# Found 150 sentence pairs (not counted: pairs that the filters drop: 5,850) in doubled.tsv." in (
        Path("doubled.yaml").read_text().split("\n")
    )
    assert (
        load_config(Path("doubled.yaml")).training.max_updates
        == new("--src", "a.de", "--tgt", "a.en").training.max_updates
    )
    assert re.search(r"training takes about \d+ minutes? on this processor", result.stderr)


@pytest.mark.parametrize(
    ("share", "said"),
    [(0.0, r"on this processor\n"), (0.9, "on this processor, 90% of which programs used in the last minute")],
)
def test_minutes_measured_beside_other_work_say_so(monkeypatch, share, said):
    monkeypatch.setattr("nmt.apps.commands.config.busy_share", lambda: share)
    assert re.search(said, succeed("new", "--src", "a.de", "--tgt", "a.en", "-o", "a.yaml").stderr)


def test_new_names_the_validation_and_test_sets_that_it_is_given():
    Path("v.tsv").write_text("Hallo.\tHello.\n")
    config = new("--src", "a.de", "--tgt", "a.en", "--valid", "v.tsv", "--test", "a.de", "--test", "a.en")
    assert (config.data.valid.tsv, config.data.test.src, config.data.test.tgt) == ("v.tsv", "a.de", "a.en")
    assert "three.tsv" not in str(config)
    too_many = run("new", "--src", "a.de", "--tgt", "a.en", "--valid", "1", "--valid", "2", "--valid", "3")
    assert str(too_many.exception).startswith("3 files for one test set")
    missing = run("new", "--src", "a.de", "--tgt", "a.en", "--test", "none.tsv")
    assert str(missing.exception).startswith("none.tsv: no such file")
    replaced = run("new", "--src", "a.de", "--tgt", "a.en", "--valid", "v.tsv", "-o", "v.tsv", "--overwrite")
    assert "this file is the input" in str(replaced.exception)


def test_new_does_not_replace_a_corpus():
    before = Path("a.de").read_bytes()
    result = run("new", "--src", "a.de", "--tgt", "a.en", "-o", "a.de", "--overwrite")
    assert result.exit_code == 1
    assert str(result.exception) == "a.de: this file is the input\n  choose another name for the output"
    assert Path("a.de").read_bytes() == before


def test_new_names_rotary_positions_and_both_directions_where_it_suggests_them():
    Path("many.tsv").write_text("".join(f"Satz {number}.\tSentence {number}.\n" for number in range(10_500)))
    lines = succeed("new", "--corpus", "many.tsv", "--src-lang", "de", "--tgt-lang", "en").stdout.split("\n")
    assert "4 heads, rotary positions, norms of queries and keys," in lines[2]
    assert max(map(len, lines)) <= 120


def test_new_reads_the_language_before_gz_and_takes_the_one_given():
    config = new("--src", "a.txt", "--tgt", "a.pt-BR.gz", "--src-lang", "no")
    assert (config.data.src_lang, config.data.tgt_lang) == ("no", "pt-BR")


def test_new_takes_columns_of_a_tsv():
    config = new("--corpus", "a.tsv#3, 2", "--src-lang", "de", "--tgt-lang", "en")
    assert (config.data.train.tsv, config.data.train.columns) == ("a.tsv", (3, 2))


def test_new_keeps_a_name_with_a_dollar_and_spaces():
    Path("$HOME x.de").write_bytes(Path("a.de").read_bytes())
    assert new("--src", "$HOME x.de", "--tgt", "a.en").data.train.src == "$HOME x.de"


def test_new_warns_of_too_few_pairs_on_stderr():
    result = succeed("new", "--corpus", "few.tsv", "--src-lang", "de", "--tgt-lang", "en")
    assert result.stderr == ("warning: only 1 sentence pair: enough to try things out, not to learn a language\n")
    assert "warning" not in result.stdout


def test_new_writes_a_file_and_replaces_one_only_if_asked():
    result = succeed("new", "--src", "a.de", "--tgt", "a.en", "-o", "new/it's.yaml")
    assert result.stdout == ""
    first, second = result.stderr.splitlines()
    assert first.startswith("done: new/it's.yaml; training takes ")
    assert second == """  nmt train --config 'new/it'"'"'s.yaml'"""
    path = Path("new/it's.yaml")
    assert path.read_text().startswith("""# Train with: nmt train --config 'new/it'"'"'s.yaml'\n""")
    before = load_config(path)
    error = fail("new", "--src", "a.de", "--tgt", "a.pt-BR.gz", "-o", str(path))
    assert str(error) == f"{path}: this file already exists\n  replace it with --overwrite, or choose another name"
    assert load_config(path) == before
    succeed("new", "--src", "a.de", "--tgt", "a.pt-BR.gz", "-o", str(path), "--overwrite")
    assert load_config(path).data.tgt_lang == "pt-BR"


def test_new_prints_the_configuration_if_the_output_is_a_dash():
    result = succeed("new", "--src", "a.de", "--tgt", "a.en", "-o", "-")
    assert result.stdout == succeed("new", "--src", "a.de", "--tgt", "a.en").stdout
    assert not Path("-").exists()


@pytest.mark.parametrize("sheet", ["pairs", "2"])
def test_new_reads_the_sheet_that_it_is_told_to(sheet):
    openpyxl = pytest.importorskip("openpyxl", reason="needs the extra xlsx")
    book = openpyxl.Workbook()
    book.create_sheet("pairs").append(["eins", "one"])
    book.save("a.xlsx")
    files = new("--corpus", f"a.xlsx#{sheet}", "--src-lang", "de", "--tgt-lang", "en").data.train
    assert (files.xlsx, str(files.sheet)) == ("a.xlsx", sheet)


def test_new_leaves_no_file_behind_where_it_fails():
    fail("new", "--corpus", "a.tsv#1,2", "-o", "my.yaml")
    fail("new", "--corpus", "blank.tsv", "--src-lang", "de", "--tgt-lang", "en", "-o", "my.yaml")
    assert not Path("my.yaml").exists()


TWO_COLUMNS = "two different columns are needed after #, numbered from 1 or by name"
NEITHER = (
    "give --src and --tgt (two aligned files), or --corpus (one file with both)\n"
    "  such as --src a.de --tgt a.en, or --corpus a.tsv --src-lang de --tgt-lang en"
)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("", NEITHER),
        ("--src a.de", NEITHER),
        ("--tgt a.en", NEITHER),
        ("--src a.de --corpus a.tsv", NEITHER),
        ("--src a.de --tgt a.en --src a.txt", NEITHER),
        (
            "--corpus a.txt",
            f"--corpus a.txt: unknown file extension\n  the name must end in .{', .'.join(FORMAT_OF_ENDING)}; "
            "convert others (.po: translate-toolkit's po2tmx)",
        ),
        (
            "--corpus a.tmx --tgt-lang en",
            "tmx files do not show their languages; --src-lang is missing\n  such as --src-lang de",
        ),
        ("--corpus a.jsonl#x", "a.jsonl#x: two different fields are needed after #"),
        ("--corpus a.tsv", "tsv files do not show their languages; --src-lang is missing\n  such as --src-lang de"),
        (
            "--src a.txt --tgt a.en",
            "the name a.txt does not show its language; --src-lang is missing\n  such as --src-lang de",
        ),
        (
            "--src a.de --tgt a --src-lang de",
            "the name a does not show its language; --tgt-lang is missing\n  such as --tgt-lang de",
        ),
        ("--src a.de --tgt a.en --tgt-lang d/e", "--tgt-lang d/e: not a language code\n  such as de, zh or pt-BR"),
        ("--corpus a.tsv#1,1", f"a.tsv#1,1: {TWO_COLUMNS}"),
        ("--corpus a.tsv#0,1", f"a.tsv#0,1: {TWO_COLUMNS}"),
        ("--corpus a.tsv#x", f"a.tsv#x: {TWO_COLUMNS}"),
    ],
)
def test_new_says_what_is_missing_or_wrong(arguments, message):
    error = fail("new", *arguments.split())
    assert isinstance(error, ConfigError)
    assert str(error).startswith(message)


def test_new_passes_on_what_is_wrong_with_the_text():
    error = fail("new", "--src", "a.de", "--tgt", "nothing.en")
    assert isinstance(error, DataError)
    assert "no such file" in str(error)


def test_new_refuses_a_corpus_without_pairs():
    error = fail("new", "--corpus", "blank.tsv", "--src-lang", "de", "--tgt-lang", "en")
    assert str(error) == "blank.tsv: no row has text on both sides"


def test_show_prints_every_key_as_it_will_be_used():
    new("--src", "a.de", "--tgt", "a.en")
    result = succeed("show", "--config", "my.yaml", "--set", "training.lr=1e-5", "--set", "model.norm=rms")
    assert "\n  lr: 1.0e-5  # peak learning rate\n" in result.stdout
    assert "\n  norm: rms  # layer | rms; LayerNorm or RMSNorm\n" in result.stdout
    assert result.stderr == ""


def test_check_says_ok_and_sums_up():
    new("--src", "a.de", "--tgt", "a.en")
    assert succeed("check", "-c", "my.yaml", "--set", "data.valid.tsv=few.tsv").stdout == (
        "my.yaml: ok\n"
        "  de to en, 2+2 layers, d_model 128, d_ff 512, 4 heads, one vocabulary of 8,000 tokens, 1,800 updates; "
        "test held out from train\n"
    )


def test_check_finds_a_tokenizer_whose_replacement_was_killed():
    new("--src", "a.de", "--tgt", "a.en")
    shutil.copytree(MODELS / "letters" / "tokenizer", ".v.0000000a.old")
    Path(".v.0000000a.lock").touch()
    assert succeed("check", "-c", "my.yaml", "--set", "tokenizer.path=v").stdout.startswith("my.yaml: ok\n")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("model.norm=x", "--set model.norm=x: model.norm must be one of layer, rms, got 'x'"),
        ("data.train.src=b.de", "b.de: no such file"),
        ("data.test.tsv=c.tsv", "c.tsv: no such file"),
        ("tokenizer.path=v", "my.yaml: tokenizer.path: no such folder: v"),
        ("training.init_from=runs/a", "my.yaml: training.init_from: no such folder: runs/a"),
    ],
)
def test_check_finds_wrong_keys_and_missing_files(override, message):
    new("--src", "a.de", "--tgt", "a.en")
    assert str(fail("check", "--config", "my.yaml", "--set", override)).split("\n")[0] == message


def write_forms() -> None:
    rows = [(f"Satz {n}", f"sentence {n}") for n in range(NUM_PAIRS)]
    Path("a.csv").write_text("".join(f"{n};{de};{en}\n" for n, (de, en) in enumerate(rows)))
    Path("a.jsonl").write_text("".join(json.dumps({"de": de, "t": {"en": en}}) + "\n" for de, en in rows))
    units = "".join(
        f'<tu><tuv xml:lang="de-DE"><seg>{de}</seg></tuv><tuv xml:lang="en"><seg>{en}</seg></tuv></tu>'
        for de, en in rows
    )
    Path("a.tmx.gz").write_bytes(gzip.compress(f"<tmx><body>{units}</body></tmx>".encode()))


def test_new_takes_several_corpora_and_recognizes_their_forms():
    write_forms()
    arguments = ("--src", "a.de", "--tgt", "a.en", "--src", "a.txt", "--tgt", "a.pt-BR.gz", "--corpus", "a.tsv#3,2")
    config = new(*arguments, "--corpus", "a.tmx.gz", "--corpus", "a.csv#3,2")
    assert [files.form for files in config.data.train] == ["src", "src", "tsv", "tmx", "csv"]
    assert [files.columns for files in config.data.train if files.uses("columns")] == [(3, 2), (3, 2)]
    assert Path("my.yaml").read_text().split("\n")[1] == (
        f"# Found {3 * NUM_PAIRS} sentence pairs for de-en and de-pt-BR (not counted: rows with an empty side: 2; "
        f"pairs that the filters drop: {2 * NUM_PAIRS}) in "
        "a.de, a.en, a.txt, a.pt-BR.gz, a.tsv, a.tmx.gz and a.csv."
    )


def test_new_takes_fields_and_names_of_columns():
    write_forms()
    languages = ("--src-lang", "de", "--tgt-lang", "en")
    config = new("--corpus", "a.jsonl#de, t.en", *languages)
    assert (config.data.train.jsonl, config.data.train.fields) == ("a.jsonl", ("de", "t.en"))
    Path("a.tsv").write_text("Deutsch\tEnglish\n" + "".join(f"Satz {n}\tsentence {n}\n" for n in range(NUM_PAIRS)))
    config = new("--corpus", "a.tsv#Deutsch, English", *languages)
    assert config.data.train.columns == ("Deutsch", "English")


def write_languages() -> None:
    """Write a.jsonl (nested fields of fr and wol), b.tsv (columns German and French), and a.de with a.en."""
    rows = [{"translation": {"fr": f"phrase {n} oui", "wol": f"kàddu {n} waaw"}} for n in range(NUM_PAIRS)]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    Path("b.tsv").write_text("German\tFrench\n" + "".join(f"Satz {n} ja\tphrase {n} oui\n" for n in range(NUM_PAIRS)))


def test_new_takes_corpora_of_different_languages_into_one_model():
    write_languages()
    corpora = ("--corpus", "a.jsonl#translation.fr,translation.wol", "--corpus", "b.tsv#German,French")
    data = new(*corpora, "--src", "a.de", "--tgt", "a.en").data
    assert [tuple(direction) for direction in data.directions] == [("de", "en"), ("fr", "wol"), ("de", "fr")]
    assert data.temperature == 5
    assert data.holdout_size == 3 * NUM_PAIRS // 60
    assert [(files.src_lang, files.tgt_lang) for files in data.train] == [(None, None), ("fr", "wol"), (None, "fr")]
    text = Path("my.yaml").read_text()
    assert f"Found {3 * NUM_PAIRS} sentence pairs for de-en, fr-wol and de-fr" in text
    one = new(corpora[0], corpora[1]).data
    assert (one.src_lang, one.tgt_lang, one.temperature) == ("fr", "wol", 1)
    given = new(*corpora, "--src-lang", "xx", "--tgt-lang", "yy").data
    assert given.directions == (("xx", "yy"),)


@pytest.mark.slow
def test_a_suggestion_for_several_languages_can_be_trained():
    write_languages()
    new("--corpus", "a.jsonl#translation.fr,translation.wol", "--corpus", "b.tsv#German,French")
    tiny = [
        "model.d_model=8",
        "model.num_heads=1",
        "model.d_ff=8",
        "training.max_updates=2",
        "training.warmup_updates=1",
    ]
    overrides = [*tiny, "tokenizer.vocab_size=400", "training.stages=[]", "training.threads=1", "training.device=cpu"]
    start_run(load_config(Path("my.yaml"), overrides), Path("run"))
    assert TokenizerPair.load(RunDir(Path("run")).tokenizer).know(["<2wol>", "<2fr>"])
    parts = json.loads(RunDir(Path("run")).report_file.read_text())["corpora"]
    assert [part["direction"] for part in parts] == ["fr-wol", "de-fr"]


def test_a_language_of_many_characters_in_any_corpus_gets_a_larger_vocabulary():
    rows = "".join(f"sentence {n}\t第{n}句\n" for n in range(NUM_PAIRS))
    Path("c.tsv").write_text("en\tzh\n" + rows, encoding="utf-8")
    tokenizer = new("--src", "a.de", "--tgt", "a.en", "--corpus", "c.tsv#en,zh").tokenizer
    assert (tokenizer.vocab_size, tokenizer.character_coverage) == (6000, 0.9995)


def test_check_finds_a_column_of_ids_and_languages_that_are_missing():
    write_forms()
    new("--corpus", "a.csv#2,3", "--src-lang", "de", "--tgt-lang", "en")
    assert "text is in columns 2 and 3" in str(fail("check", "-c", "my.yaml", "--set", "data.train.columns=[1, 2]"))
    train = "data.train=[{tmx: a.tmx.gz}, {tmx: a.tmx.gz, src_lang: fr}]"
    assert str(fail("check", "-c", "my.yaml", "--set", train, "--set", "training.stages=[]")) == (
        "a.tmx.gz: no unit has both fr and en\n"
        "  languages in the file: de-DE (131), en (131); set src_lang and tgt_lang of this corpus "
        "(--src-lang and --tgt-lang, or --from and --to)"
    )


def test_new_says_what_its_filters_would_drop_and_which_language_a_country_stands_for(messages):
    Path("a.la").write_text("你用跑的，等一下。\n" * NUM_PAIRS)
    Path("a.cn").write_text("你用跑的，等一下。\n" * NUM_PAIRS)
    Path("b.en").write_text("".join(f"sentence {n}\n" for n in range(NUM_PAIRS)))
    succeed("new", "--src", "b.en", "--tgt", "a.la")
    (warning,) = messages
    assert warning.startswith(f"warning: data.filters.wrong_script drops {NUM_PAIRS} of {NUM_PAIRS} pairs")
    messages.clear()
    succeed("new", "--src", "b.en", "--tgt", "a.cn")
    assert messages == ["warning: cn is no code of a language; nmt takes it for zh (Chinese)"]
