"""`nmt data check` and `nmt data clean`, called as from the shell."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from nmt.apps.cli import app
from nmt.base.errors import ConfigError, DataError, NmtError
from nmt.data.check.scripts import can_identify_languages
from nmt.data.read.lines import COMPRESSIONS

SOUND = [
    (f"Das ist der Satz {'xyz'[n % 3] * (n + 3)}.", f"This is sentence {'xyz'[n % 3] * (n + 3)}.") for n in range(40)
]
BROKEN = {
    41: ("Das ist schÃ¶n hier.", "This is nice here."),
    42: SOUND[3],
    43: ("", "Nobody said so."),
    44: ("#REF!", "This is a cell."),
    45: ("Ein Hund mit 1989 Flecken.", "A dog with 1998 spots."),
}


FILES = ("--src", "a.de", "--tgt", "a.en")
LANGUAGES = ("--src-lang", "de", "--tgt-lang", "en")


@pytest.fixture(autouse=True)
def _in_a_folder_with_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [*SOUND, *BROKEN.values()]
    Path("a.de").write_text("".join(f"{src}\n" for src, _ in rows), encoding="utf-8")
    Path("a.en").write_text("".join(f"{tgt}\n" for _, tgt in rows), encoding="utf-8")
    Path("test.tsv").write_text("{}\t{}\n".format(*SOUND[7]))
    Path("my.yaml").write_text(
        "data:\n  src_lang: de\n  tgt_lang: en\n  train: {src: a.de, tgt: a.en}\n  test: {tsv: test.tsv}\n"
        "  filters: {overlap: true}\n"
    )


def run(*arguments: str):
    return CliRunner().invoke(app, ["data", *arguments])


def report(*arguments: str) -> dict[str, dict[str, object]]:
    result = run("check", "--json", *arguments)
    assert result.exit_code == 0, result.output
    return {rule["name"]: rule for rule in json.loads(result.stdout)["rules"]}


def fail(*arguments: str) -> NmtError:
    result = run(*arguments)
    assert isinstance(result.exception, NmtError), result.output
    assert result.stdout == ""
    return result.exception


def lines(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def test_check_says_what_is_wrong_with_which_line():
    rules = report(*FILES)
    lines = {name: [example["line"] for example in rule["examples"]] for name, rule in rules.items()}
    planted = {"mojibake": [41], "duplicate": [42], "empty": [43], "spreadsheet": [44], "number_mismatch": [45]}
    assert {name: found for name, found in lines.items() if found} == planted
    assert rules["mojibake"]["is_on"]
    assert not rules["number_mismatch"]["is_on"]


def test_check_prints_a_table():
    result = run("check", *FILES)
    assert result.exit_code == 0, result.output
    assert "a.de + a.en: 45 pairs\n" in result.stdout
    assert "\n  a.de:41\n    Das ist schÃ¶n hier.\n    This is nice here.\n" in result.stdout


def test_check_uses_the_filters_and_the_held_out_sets_of_a_configuration():
    rules = report("--config", "my.yaml")
    assert rules["overlap"]["found"] == 1
    assert [name for name, rule in rules.items() if rule["is_on"]] == ["empty", "overlap"]
    rules = report("--config", "my.yaml", "--set", "data.filters.too_long=20")
    assert rules["too_long"]["is_on"]
    assert rules["too_long"]["found"] > 30


def test_clean_writes_kept_and_rejected_pairs(messages):
    result = run("clean", *FILES, "-o", "kept.tsv", "--rejected", "rejected.tsv")
    assert result.exit_code == 0, result.output
    assert result.stdout == ""
    kept = [f"{src}\t{tgt}" for src, tgt in [*SOUND, BROKEN[45]]]
    assert lines("kept.tsv") == kept
    assert [line.split("\t")[:2] for line in lines("rejected.tsv")] == [
        ["mojibake", "a.de:41"],
        ["duplicate", "a.de:42"],
        ["empty", "a.de:43"],
        ["spreadsheet", "a.de:44"],
    ]
    assert messages == ["kept 41 of 45 pairs; rejected: 1 empty, 1 duplicate, 1 mojibake, 1 spreadsheet"]


def test_clean_writes_compressed_files_that_are_clean():
    assert run("clean", *FILES, "-o", "kept.tsv.gz", "--set", "data.filters.number_mismatch=true").exit_code == 0
    kept = gzip.decompress(Path("kept.tsv.gz").read_bytes()).decode()
    assert kept == "".join(f"{src}\t{tgt}\n" for src, tgt in SOUND)
    again = run("clean", "--corpus", "kept.tsv.gz", *LANGUAGES, "-o", "again.tsv", "--rejected", "none.tsv")
    assert again.exit_code == 0
    assert lines("none.tsv") == []
    assert len(lines("again.tsv")) == len(SOUND)


@pytest.mark.parametrize("ending", [".xz", ".zst"])
def test_clean_writes_what_the_ending_of_a_name_says(ending):
    pytest.importorskip(COMPRESSIONS[ending][1])
    first = run("clean", *FILES, "-o", f"kept.tsv{ending}")
    assert first.exit_code == 0, first.output
    again = run("clean", "--corpus", f"kept.tsv{ending}", *LANGUAGES, "-o", "again.tsv")
    assert again.exit_code == 0, again.output
    assert not Path(f"kept.tsv{ending}").read_bytes().startswith(lines("again.tsv")[0].encode())
    assert len(lines("again.tsv")) == len(SOUND) + 1


def test_clean_replaces_no_file_unless_told_and_never_the_corpus():
    Path("kept.tsv").write_text("old\n")
    assert fail("clean", *FILES, "-o", "kept.tsv").message == "this file already exists"
    assert fail("clean", *FILES, "-o", "a.en", "--overwrite").message == "this file is the input"
    assert fail("clean", *FILES, "-o", "b", "--rejected", "./b").message == "two outputs have this name"
    for name in ("kept.xlsx", "kept.csv.gz"):
        assert fail("clean", *FILES, "-o", name).message == "this output is plain text"
    assert run("clean", *FILES, "-o", "kept.tsv", "--overwrite").exit_code == 0
    assert len(lines("kept.tsv")) == 41


def test_a_corpus_that_cannot_be_read_to_its_end_leaves_no_output():
    with open("a.en", "ab") as file:
        file.write(b"\xff\n")
    with open("a.de", "ab") as file:
        file.write(b"ein\n")
    error = fail("clean", *FILES, "-o", "kept.tsv", "--rejected", "rejected.tsv")
    assert isinstance(error, DataError)
    assert (error.path, error.line) == (Path("a.en"), 46)
    assert sorted(path.name for path in Path().iterdir()) == ["a.de", "a.en", "my.yaml", "test.tsv"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--src", "a.de"), "give --src and --tgt (two aligned files), or --corpus"),
        (("--corpus", "test.tsv"), "tsv files do not show their languages; --src-lang is missing"),
        ((*FILES, "--set", "data.filters.too_long=0"), "data.filters.too_long must be a whole number"),
        ((*FILES, "--set", "data.filters.duplicates=true"), "unknown key 'duplicates' in data.filters"),
    ],
)
def test_wrong_options_have_one_message(arguments, message):
    error = fail("check", *arguments)
    assert isinstance(error, ConfigError)
    assert message in str(error)


def test_files_and_a_configuration_do_not_go_together():
    done = run("check", "--config", "my.yaml", *FILES)
    assert done.exit_code == 2
    assert "--config cannot be used with --src, --tgt: it names files and their languages" in " ".join(
        done.output.replace("│", " ").split()
    )


def test_language_identification_says_how_to_install_it():
    if can_identify_languages():
        pytest.skip("the extra langid is installed")
    assert "pip install" in fail("check", *FILES, "--set", "data.filters.wrong_language=2").hint


def test_clean_swaps_pairs_back_on_request(messages):
    rows = [(f"{src} der die das", f"{tgt} the a of") for src, tgt in SOUND]
    swapped = [pair[::-1] if number in (5, 9) else pair for number, pair in enumerate(rows)]
    Path("c.tsv").write_text("".join(f"{src}\t{tgt}\n" for src, tgt in swapped), encoding="utf-8")
    corpus = ("--corpus", "c.tsv", *LANGUAGES)
    assert run("clean", *corpus, "-o", "kept.tsv", "--set", "data.filters.sides_swapped=swap").exit_code == 0
    assert lines("kept.tsv") == [f"{src}\t{tgt}" for src, tgt in rows]
    assert messages[-1] == "kept 40 of 40 pairs, 2 swapped back"
    assert "swap: swap them back, and keep the pair" in run("check", *corpus).stdout
